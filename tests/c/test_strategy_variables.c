/* The variables of a strategy, as a program sees them that did not keep a list. */
#include "check.h"

#include <umbo/all.h>

/* The names of all variables, with a blank behind each. */
static const char *names_of(umbo_strategy *strategy) {
    static char text[256];
    umbo_variable *variable = NULL;
    const int64_t count = info_of(strategy).variable_count;
    int64_t index;
    text[0] = 0;
    for (index = 0; index < count; index++) {
        CHECK_OK(umbo_strategy_variable(strategy, index, &variable));
        strcat(strcat(text, facts_of(variable).name), " ");
        umbo_variable_release(variable);
    }
    variable = NULL;
    CHECK_STATUS(umbo_strategy_variable(strategy, count, &variable), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_strategy_variable(strategy, -1, &variable), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(variable == NULL);
    return text;
}

static umbo_variable *make(umbo_strategy *strategy, const char *name) {
    umbo_variable_options zeros = UMBO_VARIABLE_OPTIONS_INIT;
    umbo_variable *variable = NULL;
    zeros.initial = UMBO_INITIAL_ZEROS;
    zeros.dtype = UMBO_DTYPE_FLOAT32;
    CHECK_OK(umbo_variable_create(strategy, name, NULL, &zeros, &variable));
    return variable;
}

/* The list is there in a step, too. */
static umbo_status inside(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                          umbo_value **result) {
    umbo_strategy *strategy = (umbo_strategy *)user_data;
    (void)ctx;
    (void)args;
    (void)result;
    CHECK(info_of(strategy).variable_count == 1);
    return UMBO_OK;
}

int main(void) {
    static float memory[4] = {1, 2, 3, 4};
    const int64_t shape[] = {4};
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = NULL, *other = NULL, *plain = NULL;
    umbo_variable *a, *b, *c, *d = NULL, *foreign, *again = NULL;
    umbo_gradients *gradients = NULL;
    const char *name = "in_memory";
    umbo_view where;
    uint64_t fingerprint = 0, later = 0;
    int32_t same = 0;
    options.cpu_replicas = 2;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    CHECK_OK(umbo_strategy_create(&options, &other));
    CHECK(strcmp(names_of(strategy), "") == 0);
    a = make(strategy, "a");
    b = make(strategy, "b");
    foreign = make(other, "foreign");
    c = make(strategy, "a"); /* names need not differ */
    where = umbo_view_of_mutable_memory(UMBO_DTYPE_FLOAT32, 1, shape, memory);
    CHECK_OK(umbo_variable_create_in_memory(strategy, 1, &name, &where, NULL, NULL, NULL, &d));
    CHECK(strcmp(names_of(strategy), "a b a in_memory ") == 0);
    umbo_variable_release(d);
    CHECK(strcmp(names_of(strategy), "a b a ") == 0);
    CHECK(strcmp(names_of(other), "foreign ") == 0);

    /* The very same variables. */
    CHECK_OK(umbo_strategy_variable(strategy, 2, &again));
    CHECK_OK(umbo_strategy_created_variable(strategy, again, &same));
    CHECK(same == 1);
    CHECK_OK(umbo_strategy_fingerprint(strategy, &fingerprint));
    {
        const float seven = 7;
        float read = 0;
        CHECK_OK(umbo_variable_upload(c, &seven, sizeof(seven)));
        CHECK_OK(umbo_variable_download(again, &read, sizeof(read)));
        CHECK(read == 7);
    }
    CHECK_OK(umbo_strategy_fingerprint(strategy, &later));
    CHECK(later != fingerprint);

    /* One that gradients still have is in use; a handle from the list keeps its variable, too. */
    CHECK_OK(umbo_gradients_create(strategy, 1, &b, UMBO_LOSS_SUM, NULL, &gradients));
    umbo_variable_release(a);
    umbo_variable_release(b);
    umbo_variable_release(c);
    CHECK(strcmp(names_of(strategy), "b a ") == 0);
    umbo_variable_release(again);
    CHECK(strcmp(names_of(strategy), "b ") == 0);
    CHECK_OK(umbo_strategy_run(strategy, inside, NULL, strategy, NULL, NULL));
    umbo_gradients_release(gradients);
    CHECK(strcmp(names_of(strategy), "") == 0);

    /* The default strategy keeps no list. */
    a = make(NULL, "plain");
    CHECK_OK(umbo_strategy_default(&plain));
    CHECK(info_of(plain).variable_count == 0);
    umbo_variable_release(a);
    umbo_strategy_release(plain);
    umbo_variable_release(foreign);
    umbo_strategy_release(other);
    umbo_strategy_release(strategy);
    return finish();
}
