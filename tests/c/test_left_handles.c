/* Tensors and values that a callback makes and does not release: a mistake to a strict strategy, which names the
 * callback. Nobody complains of handles that were retained, of results, of variables, or of a callback that fails. */
#include "check.h"

enum { RELEASES, LEAVES_TENSORS, LEAVES_BOTH, KEEPS_BY_RETAINING, RETURNS, MAKES_A_VARIABLE, FAILS, LEAVES_IN_MERGE };

#define REPLICAS 2

typedef struct {
    int what;
    umbo_tensor *tensors[REPLICAS][2]; /* what the callbacks have left, for the end of the test */
    umbo_value *values[REPLICAS];
    umbo_variable *variable;
} scene;

static umbo_status merged(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                          umbo_value **result) {
    scene *self = (scene *)user_data;
    (void)strategy, (void)args, (void)result;
    self->values[0] = into_value(make_float(1));
    return UMBO_OK;
}

static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    scene *self = (scene *)user_data;
    const int32_t id = replica_id(context);
    umbo_tensor *made = make_float(2);
    (void)args;
    switch (self->what) {
        case RELEASES: umbo_tensor_release(made); return UMBO_OK;
        case LEAVES_TENSORS:
            self->tensors[id][0] = made;
            self->tensors[id][1] = make_float(3);
            return UMBO_OK;
        case LEAVES_BOTH:
            self->tensors[id][0] = made;
            self->values[id] = into_value(make_float(4));
            return UMBO_OK;
        case KEEPS_BY_RETAINING:
            UMBO_TRY(umbo_tensor_retain(made, &self->tensors[id][0]));
            umbo_tensor_release(made);
            return UMBO_OK;
        case RETURNS: *result = into_value(made); return UMBO_OK;
        case MAKES_A_VARIABLE: {
            umbo_variable *variable = NULL;
            UMBO_TRY(umbo_variable_create(NULL, "v", made, NULL, &variable));
            umbo_tensor_release(made);
            if (id == 0) self->variable = variable;
            else umbo_variable_release(variable);
            return UMBO_OK;
        }
        case FAILS:
            self->tensors[id][0] = made;
            return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "as planned", NULL, NULL);
        default:
            umbo_tensor_release(made);
            return umbo_replica_context_merge_call(context, merged, NULL, self, NULL);
    }
}

static void release_all(scene *self) {
    int32_t id;
    for (id = 0; id < REPLICAS; id++) {
        umbo_tensor_release(self->tensors[id][0]);
        umbo_tensor_release(self->tensors[id][1]);
        umbo_value_release(self->values[id]);
    }
    umbo_variable_release(self->variable);
}

/* A run whose callbacks do this: it succeeds, or fails with these words. */
static void check_run(int strict, int what, umbo_status status, const char *words) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    scene self;
    memset(&self, 0, sizeof(self));
    self.what = what;
    options.cpu_replicas = REPLICAS;
    options.strict = strict;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    CHECK_STATUS(umbo_strategy_run(strategy, step, NULL, &self, NULL, NULL), strict ? status : what == FAILS ? status : UMBO_OK);
    if (strict && words != NULL && strstr(umbo_last_error_message(), words) == NULL)
        check_failed(__FILE__, __LINE__, words);
    release_all(&self);
    /* What one run has left is not laid to the next one's charge. */
    memset(&self, 0, sizeof(self));
    CHECK_OK(umbo_strategy_run(strategy, step, NULL, &self, NULL, NULL));
    umbo_strategy_release(strategy);
}

int main(void) {
    static const struct {
        int what;
        umbo_status status;
        const char *words;
    } all[] = {
        {RELEASES, UMBO_OK, NULL},
        {LEAVES_TENSORS, UMBO_STATUS_FAILED_PRECONDITION,
         "strict mode: the callback of replica 1 has left 2 tensors that it made"},
        {LEAVES_BOTH, UMBO_STATUS_FAILED_PRECONDITION,
         "strict mode: the callback of replica 0 has left a tensor and a value that it made"},
        {KEEPS_BY_RETAINING, UMBO_OK, NULL},
        {RETURNS, UMBO_OK, NULL},
        {MAKES_A_VARIABLE, UMBO_OK, NULL},
        {FAILS, UMBO_STATUS_DATA_LOSS, "as planned"},
        {LEAVES_IN_MERGE, UMBO_STATUS_FAILED_PRECONDITION,
         "strict mode: the merge function has left a value that it made"},
    };
    int32_t index;
    for (index = 0; index < COUNT_OF(all); index++) {
        check_run(0, all[index].what, all[index].status, all[index].words);
        check_run(1, all[index].what, all[index].status, all[index].words);
    }
    return finish();
}
