/* Values from functions: once for each replica, in order, in the caller's context. */
#include "check.h"

#include <umbo/all.h>

static umbo_status numbered(const umbo_value_context *context, void *user_data,
                            umbo_value **value) {
    int32_t *calls = (int32_t *)user_data;
    int32_t cross_replica = -1;
    CHECK(context->replica_id == (*calls)++);
    CHECK_OK(umbo_in_cross_replica_context(&cross_replica));
    CHECK(cross_replica == 0); /* no scope is entered for it */
    *value = float_value((float)(10 * context->replica_count +
                                 context->replica_id));
    return UMBO_OK;
}

static void one_for_each_replica(int32_t replicas) {
    umbo_strategy *strategy = make_strategy(replicas);
    umbo_value *value = NULL;
    int32_t calls = 0, replica;
    CHECK_OK(umbo_strategy_values_from_function(strategy, numbered, &calls, &value));
    CHECK(calls == replicas);
    CHECK(kind_of(value) == UMBO_VALUE_PER_REPLICA && count_of(value) == replicas);
    for (replica = 0; replica < replicas; replica++) {
        CHECK(float_at(value, replica) == (float)(10 * replicas + replica));
    }
    umbo_value_release(value);
    umbo_strategy_release(strategy);
}

/* The default strategy wraps nothing. */
static void bare_by_default(void) {
    umbo_strategy *strategy = NULL;
    umbo_value *value = NULL;
    int32_t calls = 0;
    CHECK_OK(umbo_default_strategy(&strategy));
    CHECK_OK(umbo_strategy_values_from_function(strategy, numbered, &calls, &value));
    CHECK(calls == 1 && kind_of(value) == UMBO_VALUE_TENSOR && float_of(value) == 10);
    umbo_value_release(value);
    umbo_strategy_release(strategy);
}

/* The very same tensor for all, in a structure with one of another size for each. */
static umbo_status structured(const umbo_value_context *context, void *user_data,
                              umbo_value **value) {
    static const char *const names[2] = {"same", "own"};
    static const float data[3] = {1, 2, 3};
    const umbo_value *items[2];
    umbo_value *own = floats_value(context->replica_id, data);
    items[0] = (const umbo_value *)user_data;
    items[1] = own;
    CHECK_OK(umbo_value_create_struct(2, names, items, value));
    umbo_value_release(own);
    return UMBO_OK;
}

static void structures(umbo_strategy *strategy) {
    umbo_value *same = float_value(5), *value = NULL, *field = NULL, *item = NULL;
    umbo_view view;
    int32_t replica;
    CHECK_OK(umbo_strategy_values_from_function(strategy, structured, same, &value));
    CHECK(kind_of(value) == UMBO_VALUE_STRUCT);
    CHECK_OK(umbo_value_field(value, "same", &field)); /* wrapped all the same */
    CHECK(kind_of(field) == UMBO_VALUE_PER_REPLICA && float_at(field, 2) == 5);
    umbo_value_release(field);
    CHECK_OK(umbo_value_field(value, "own", &field));
    for (replica = 0; replica < 3; replica++) {
        CHECK_OK(umbo_value_item(field, replica, &item));
        CHECK_OK(umbo_value_view(item, NULL, UMBO_DTYPE_NONE, &view));
        CHECK(view.shape[0] == replica);
        umbo_value_release(item);
    }
    umbo_value_release(field);
    umbo_value_release(value);
    umbo_value_release(same);
}

static umbo_status fails_on_the_second(const umbo_value_context *context, void *user_data,
                                       umbo_value **value) {
    int32_t *calls = (int32_t *)user_data;
    *calls += 1;
    if (context->replica_id == 1) {
        return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "no second value", NULL, NULL);
    }
    *value = float_value(1);
    return UMBO_OK;
}

static umbo_status stores_nothing(const umbo_value_context *context, void *user_data,
                                  umbo_value **value) {
    (void)context;
    (void)user_data;
    (void)value;
    return UMBO_OK;
}

static umbo_status another_structure(const umbo_value_context *context, void *user_data,
                                     umbo_value **value) {
    umbo_value *leaf = float_value(1);
    (void)user_data;
    if (context->replica_id == 0) {
        *value = leaf;
        return UMBO_OK;
    }
    CHECK_OK(umbo_value_create_tuple(1, (const umbo_value *const *)&leaf, value));
    umbo_value_release(leaf);
    return UMBO_OK;
}

static void failures(umbo_strategy *strategy) {
    umbo_value *value = NULL;
    int32_t calls = 0;
    CHECK_STATUS(umbo_strategy_values_from_function(strategy, fails_on_the_second, &calls, &value),
                 UMBO_STATUS_DATA_LOSS);
    CHECK_MESSAGE("no second value");
    CHECK(calls == 2); /* and the third is not asked */
    CHECK_STATUS(umbo_strategy_values_from_function(strategy, stores_nothing, NULL, &value),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("no value for replica 0");
    CHECK_STATUS(umbo_strategy_values_from_function(strategy, another_structure, NULL, &value),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(value == NULL);
}

/* Each replica gets its own component as an argument. */
static umbo_status use(umbo_replica_context *context, const umbo_value *args, void *user_data,
                       umbo_value **result) {
    (void)user_data;
    return return_float(float_of(args) + (float)replica_id(context), result);
}

static void as_arguments(umbo_strategy *strategy) {
    umbo_value *value = NULL, *result = NULL;
    int32_t calls = 0;
    CHECK_OK(umbo_strategy_values_from_function(strategy, numbered, &calls, &value));
    CHECK_OK(umbo_strategy_run(strategy, use, NULL, value, NULL, &result));
    CHECK(float_at(result, 0) == 30 && float_at(result, 1) == 32 && float_at(result, 2) == 34);
    umbo_value_release(result);
    umbo_value_release(value);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(3);
    one_for_each_replica(1);
    one_for_each_replica(4);
    bare_by_default();
    structures(strategy);
    failures(strategy);
    as_arguments(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
