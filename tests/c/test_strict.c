/* Strict mode from C: what callbacks do wrong is named, and weights that they write are put back. */
#include "check.h"

enum { REPLICAS = 2 };

typedef enum {
    NOTHING,
    BEHIND_GRADIENT,
    BEFORE_GRADIENT,
    ONE_MISSING,
    AFTER_SUBMIT,
    BEHIND_SCRATCH,
    BEHIND_OUTPUT,
    BEFORE_COPY,
    NOT_A_NUMBER,
    THE_WEIGHTS,
    MISTAKES
} mistake;

/* What the message says beside "strict mode"; NULL: the run succeeds. */
static const char *const SAYS[MISTAKES] = {
    NULL,
    "gradient buffer of variable 'w' (float32 [5]), which has 20 bytes: behind its end, at byte 20",
    "gradient buffer of variable 'w' (float32 [5]), which has 20 bytes: before its beginning, at byte -1",
    "has not written element 4",
    "after it had submitted it",
    "scratch memory (region 0, 12 bytes): behind its end, at byte 12",
    "a tensor that it made (float32 of shape [5]): behind its end, at byte 20",
    "a tensor that it made (float32 of shape [5]): before its beginning, at byte -1",
    NULL,
    NULL};

typedef struct {
    umbo_gradients *gradients;
    umbo_variable *variable;
    mistake what;
} training;

/* Makes a tensor and a copy of it, and writes them, or beside them. */
static umbo_status make_outputs(mistake now) {
    const int64_t five = 5;
    umbo_tensor *made = NULL, *copy = NULL;
    umbo_view view;
    umbo_status status;
    UMBO_TRY_ELSE(status, umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &five, NULL, &made), out);
    UMBO_TRY_ELSE(status, umbo_tensor_mutable_view(made, &view), out);
    ((float *)view.mutable_data)[now == BEHIND_OUTPUT ? 5 : 4] = 1;
    UMBO_TRY_ELSE(status, umbo_tensor_copy(made, NULL, &copy), out);
    UMBO_TRY_ELSE(status, umbo_tensor_mutable_view(copy, &view), out);
    ((float *)view.mutable_data)[now == BEFORE_COPY ? -1 : 0] = 1;
out:
    umbo_tensor_release(made);
    umbo_tensor_release(copy);
    return status;
}

static umbo_status step(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    const training *self = (const training *)user_data;
    umbo_view gradient, view;
    void *memory = NULL;
    float *buffer;
    int32_t replica = 0, index;
    mistake now;
    (void)args;
    (void)result;
    replica = replica_id(ctx);
    now = replica == REPLICAS - 1 ? self->what : NOTHING;
    UMBO_TRY(umbo_gradients_view(self->gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    buffer = (float *)gradient.mutable_data;
    for (index = 0; index < (now == ONE_MISSING ? 4 : 5); index++) buffer[index] = (float)index;
    if (now == BEHIND_GRADIENT) buffer[5] = 1;
    if (now == BEFORE_GRADIENT) buffer[-1] = 1;
    if (now == NOT_A_NUMBER) buffer[3] = buffer[4] / buffer[0];
    UMBO_TRY(umbo_replica_context_scratch(ctx, 12, &memory));
    memset(memory, 0, now == BEHIND_SCRATCH ? 13 : 12);
    UMBO_TRY(make_outputs(now));
    UMBO_TRY(umbo_variable_view(self->variable, ctx, UMBO_DTYPE_NONE, &view));
    if (now == THE_WEIGHTS) *(volatile float *)(uintptr_t)view.data = 1;
    UMBO_TRY(umbo_gradients_submit_weighted(self->gradients, ctx, 1));
    if (now == AFTER_SUBMIT) buffer[2] = 17;
    return UMBO_OK;
}

static void setting(int32_t strict, umbo_strategy **strategy, training *self, umbo_optimizer **optimizer) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_gradients_options of_gradients = UMBO_GRADIENTS_OPTIONS_INIT;
    const float zeros[5] = {0, 0, 0, 0, 0};
    umbo_tensor *initial = make_floats(5, zeros);
    options.cpu_replicas = REPLICAS;
    options.strict = strict;
    CHECK_OK(umbo_strategy_create(&options, strategy));
    CHECK_OK(umbo_variable_create(*strategy, "w", initial, NULL, &self->variable));
    umbo_tensor_release(initial);
    of_gradients.loss_reduction = UMBO_LOSS_SUM;
    CHECK_OK(umbo_gradients_create(*strategy, 1, &self->variable, &of_gradients, &self->gradients));
    CHECK_OK(umbo_optimizer_create_sgd(*strategy, NULL, optimizer));
}

static void release(umbo_strategy *strategy, training *self, umbo_optimizer *optimizer) {
    umbo_gradients_release(self->gradients);
    umbo_optimizer_release(optimizer);
    umbo_variable_release(self->variable);
    umbo_strategy_release(strategy);
}

static umbo_status run(umbo_strategy *strategy, training *self, mistake what) {
    self->what = what;
    return umbo_strategy_run(strategy, step, self, NULL, NULL, NULL);
}

static void mistakes(void) {
    umbo_strategy *strategy = NULL;
    umbo_optimizer *optimizer = NULL;
    training self = {NULL, NULL, NOTHING};
    int what;
    setting(1, &strategy, &self, &optimizer);
    CHECK(info_of(strategy).strict == 1);
    for (what = NOTHING; what < NOT_A_NUMBER; what++) {
        if (SAYS[what] != NULL) {
            CHECK_STATUS(run(strategy, &self, (mistake)what), UMBO_STATUS_FAILED_PRECONDITION);
            CHECK_MESSAGE("strict mode: replica 1");
            if (strstr(umbo_last_error_message(), SAYS[what]) == NULL)
                check_failed(__FILE__, __LINE__, SAYS[what]);
        }
        CHECK_OK(run(strategy, &self, NOTHING));
        CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
    }
    CHECK_OK(run(strategy, &self, NOT_A_NUMBER));
    CHECK_STATUS(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("not finite");
    release(strategy, &self, optimizer);
}

/* What strict mode alone finds goes unnoticed elsewhere, as far as it does no harm. */
static void elsewhere(void) {
    umbo_strategy *strategy = NULL;
    umbo_optimizer *optimizer = NULL;
    training self = {NULL, NULL, NOTHING};
    setting(0, &strategy, &self, &optimizer);
    CHECK(info_of(strategy).strict == 0);
    CHECK_OK(run(strategy, &self, ONE_MISSING));
    CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
    CHECK_OK(run(strategy, &self, AFTER_SUBMIT));
    CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
    release(strategy, &self, optimizer);
}

/* What is written through a view is found behind the callback, and put back. */
static void weights(void) {
    umbo_strategy *strategy = NULL;
    umbo_optimizer *optimizer = NULL;
    training self = {NULL, NULL, NOTHING};
    umbo_view view;
    setting(1, &strategy, &self, &optimizer);
    CHECK_STATUS(run(strategy, &self, THE_WEIGHTS), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("strict mode: variable 'w' (float32 [5]) was written through a view of it");
    CHECK_MESSAGE("the callback of replica 1");
    CHECK_OK(umbo_variable_view(self.variable, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(((const float *)view.data)[0] == 0);
    CHECK_OK(run(strategy, &self, NOTHING));
    CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
    release(strategy, &self, optimizer);
}

static void options(void) {
    umbo_strategy_options given = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    CHECK(given.strict == 0);
    given.strict = 2;
    CHECK_STATUS(umbo_strategy_create(&given, &strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.strict");
}

int main(void) {
    options();
    {
        /* Of two replicas that fail, one is told to the log. */
        static int64_t messages;
        expect_messages(&messages);
        mistakes();
        weights();
        expect_no_messages();
    }
    elsewhere();
    return finish();
}
