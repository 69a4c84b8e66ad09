/* What libraries on top of a strategy use: destinations, non-slot state, colocation. */
#include "check.h"

#include <umbo/all.h>

static umbo_destination on_device(const char *device) {
    umbo_destination destination = UMBO_DESTINATION_INIT;
    destination.device = device;
    return destination;
}

static umbo_destination on_devices_of(const umbo_value *like) {
    umbo_destination destination = UMBO_DESTINATION_INIT;
    destination.like = like;
    return destination;
}

static int lies_on(const umbo_value *value, umbo_device_type type, int32_t ordinal) {
    umbo_view view;
    CHECK_OK(umbo_value_view(value, NULL, UMBO_DTYPE_NONE, &view));
    return view.device.type == type && view.device.ordinal == ordinal;
}

/* A copy on each device of a per-replica destination, which lie on different ones. */
static umbo_value *on_two_devices(void) {
    const float number = 0;
    umbo_tensor *tensors[2] = {NULL, NULL};
    umbo_value *items[2];
    CHECK_OK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 0, NULL, &number, "CPU:0", &tensors[0]));
    CHECK_OK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 0, NULL, &number, "CPU:1", &tensors[1]));
    items[0] = into_value(tensors[0]);
    items[1] = into_value(tensors[1]);
    return into_per_replica(2, items);
}

static void reduce_to(umbo_strategy *strategy, const umbo_variable *variable) {
    const float numbers[2] = {1, 2};
    umbo_value *value = per_replica_floats(2, numbers), *like = on_two_devices();
    umbo_value *plain = float_value(5), *result = NULL, *item = NULL;
    umbo_destination device = on_device("CPU:1"), devices = on_devices_of(like);
    umbo_destination beside = UMBO_DESTINATION_INIT;
    beside.variable = variable;
    CHECK_OK(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_SUM, &device, &result));
    CHECK(kind_of(result) == UMBO_VALUE_TENSOR && float_of(result) == 3);
    CHECK(lies_on(result, UMBO_DEVICE_CPU, 1));
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_MEAN, &beside, &result));
    CHECK(float_of(result) == 1.5f && lies_on(result, UMBO_DEVICE_CPU, 0));
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_SUM, &devices, &result));
    CHECK(kind_of(result) == UMBO_VALUE_PER_REPLICA && count_of(result) == 2);
    CHECK(float_at(result, 0) == 3 && float_at(result, 1) == 3);
    CHECK_OK(umbo_value_item(result, 1, &item));
    CHECK(lies_on(item, UMBO_DEVICE_CPU, 1));
    umbo_value_release(item);
    umbo_value_release(result);

    result = NULL;
    CHECK_STATUS(umbo_strategy_reduce_to(strategy, plain, UMBO_REDUCE_SUM, &device, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    device = on_device(NULL); /* no field at all, and two of them */
    CHECK_STATUS(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_SUM, &device, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("destination");
    devices.device = "CPU:0";
    CHECK_STATUS(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_SUM, &devices, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    device = on_device("");
    CHECK_STATUS(umbo_strategy_reduce_to(strategy, value, UMBO_REDUCE_SUM, &device, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(result == NULL);
    umbo_value_release(plain);
    umbo_value_release(like);
    umbo_value_release(value);
}

/* Adds the argument, and returns what it was. */
static umbo_status add(umbo_variable *variable, const umbo_value *args, void *user_data,
                       umbo_value **result) {
    int32_t cross_replica = 0;
    CHECK_OK(umbo_in_cross_replica_context(&cross_replica));
    CHECK(cross_replica == 1);
    *(int *)user_data += 1;
    UMBO_TRY(umbo_variable_assign_add(variable, args));
    return umbo_value_retain(args, result);
}

typedef umbo_status (*update_function)(umbo_strategy *strategy, umbo_variable *variable,
                                       umbo_update_fn function, const umbo_value *args,
                                       void *user_data, umbo_value **result);

/* Of a per-replica argument the first component. */
static void updates(update_function update, umbo_strategy *strategy) {
    const float numbers[2] = {3, 100};
    umbo_variable *variable = make_variable(strategy, 1, UMBO_AGGREGATION_NONE);
    umbo_value *args = per_replica_floats(2, numbers), *result = NULL;
    int calls = 0;
    CHECK_OK(update(strategy, variable, add, args, &calls, &result));
    CHECK(kind_of(result) == UMBO_VALUE_TENSOR && float_of(result) == 3);
    CHECK(calls == 1 && float_of_variable(variable) == 4);
    umbo_value_release(result);
    CHECK_OK(update(strategy, variable, add, args, &calls, NULL)); /* discarded */
    CHECK(calls == 2 && float_of_variable(variable) == 7);
    result = NULL;
    CHECK_STATUS(update(strategy, NULL, add, args, &calls, &result), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(update(strategy, variable, NULL, args, &calls, &result), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(update(NULL, variable, add, args, &calls, &result), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(result == NULL && calls == 2);
    umbo_value_release(args);
    umbo_variable_release(variable);
}

static umbo_variable *named(umbo_strategy *strategy, const char *name) {
    umbo_variable *variable = NULL;
    umbo_tensor *initial = make_float(0);
    CHECK_OK(umbo_variable_create(strategy, name, initial, NULL, &variable));
    umbo_tensor_release(initial);
    return variable;
}

static void non_slot_devices(umbo_strategy *strategy) {
    umbo_variable *variables[3], *chosen = NULL;
    umbo_strategy *other = NULL;
    int index;
    variables[0] = named(strategy, "kernel");
    variables[1] = named(strategy, "bias");
    variables[2] = named(strategy, "scale");
    CHECK_OK(umbo_strategy_non_slot_devices(
        strategy, 3, variables, &chosen));
    CHECK(strcmp(facts_of(chosen).name, "bias") == 0);
    umbo_variable_release(chosen);
    chosen = NULL;
    CHECK_STATUS(umbo_strategy_non_slot_devices(
                     strategy, 0, variables, &chosen),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_strategy_non_slot_devices(strategy, 3, NULL, &chosen), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_strategy_non_slot_devices(strategy, 3, variables, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_strategy_create(NULL, &other));
    CHECK_STATUS(umbo_strategy_non_slot_devices(other, 3, variables, &chosen), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("another strategy");
    umbo_strategy_release(other);
    CHECK(chosen == NULL);
    for (index = 0; index < 3; index++) umbo_variable_release(variables[index]);
}

static umbo_status make_one(umbo_strategy *strategy, void *user_data) {
    (void)strategy;
    *(umbo_variable **)user_data = named(NULL, "beside");
    return UMBO_OK;
}

static umbo_status refuse(umbo_strategy *strategy, void *user_data) {
    (void)strategy;
    (void)user_data;
    return umbo_set_last_error(UMBO_STATUS_ABORTED, "not here", NULL, NULL);
}

static void colocation(umbo_strategy *strategy, const umbo_variable *variable) {
    umbo_variable *foreign = named(NULL, "foreign"), *made = NULL;
    umbo_scope *scope = NULL;
    CHECK_STATUS(umbo_strategy_colocate_vars_with(strategy, variable, make_one, &made),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_OK(umbo_scope_enter(strategy, &scope));
    CHECK_OK(umbo_strategy_colocate_vars_with(strategy, variable, make_one, &made));
    CHECK(strcmp(facts_of(made).device, facts_of(variable).device) == 0);
    umbo_variable_release(made);
    made = NULL;
    CHECK_STATUS(umbo_strategy_colocate_vars_with(strategy, foreign, make_one, &made),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_strategy_colocate_vars_with(strategy, variable, refuse, NULL), UMBO_STATUS_ABORTED);
    CHECK_MESSAGE("not here");
    CHECK_STATUS(umbo_strategy_colocate_vars_with(strategy, variable, NULL, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_strategy_colocate_vars_with(NULL, variable, make_one, &made), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(made == NULL);
    CHECK_OK(umbo_scope_exit(scope));
    umbo_variable_release(foreign);
}

static umbo_status double_it(umbo_replica_context *context, const umbo_value *args, void *user_data,
                             umbo_value **result) {
    (void)context;
    (void)user_data;
    return return_float(2 * float_of(args), result);
}

static void running_and_reading(umbo_strategy *strategy, const umbo_variable *variable) {
    const float numbers[2] = {1, 2};
    umbo_value *args = per_replica_floats(2, numbers), *result = NULL, *container = NULL;
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    umbo_tensor *read = NULL;
    int32_t has = -1;
    int step;
    umbo_view view;
    CHECK_OK(umbo_strategy_has_current(&has));
    CHECK(has == 0);
    CHECK_OK(umbo_strategy_call_for_each_replica(strategy, double_it, args, NULL, &result));
    CHECK(float_at(result, 0) == 2 && float_at(result, 1) == 4);
    umbo_value_release(result);
    CHECK_OK(umbo_strategy_value_container(strategy, args, &container));
    CHECK(kind_of(container) == UMBO_VALUE_PER_REPLICA && float_at(container, 1) == 2);
    umbo_value_release(container);
    CHECK_OK(umbo_strategy_read_var(strategy, variable, &read));
    CHECK_OK(umbo_tensor_view(read, &view));
    CHECK(*(const float *)view.data == float_of_variable(variable));
    umbo_tensor_release(read);
    CHECK_OK(umbo_dataset_from_range(0, 3, 1, &dataset));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    result = NULL;
    for (step = 0; step < 4; step++) {
        int32_t has_value = -1;
        CHECK_OK(umbo_iterator_next_as_optional(iterator, &has_value, &result));
        CHECK(has_value == (step < 3) && (result != NULL) == (step < 3));
        umbo_value_release(result);
        result = NULL;
    }
    CHECK_STATUS(umbo_strategy_run_steps_on_iterator(strategy, double_it, iterator, 1, NULL,
                                                     &result),
                 UMBO_STATUS_UNIMPLEMENTED);
    CHECK_MESSAGE("umbo_strategy_run");
    CHECK(result == NULL);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    umbo_value_release(args);
}

static void devices(umbo_strategy *strategy) {
    umbo_strategy *fallback = NULL;
    const char *names[3] = {NULL, NULL, NULL};
    int64_t count = 0;
    CHECK_STATUS(umbo_strategy_worker_devices(strategy, NULL, 0, &count), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(count == 2);
    CHECK_STATUS(umbo_strategy_worker_devices(strategy, names, 1, &count), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(count == 2 && names[0] == NULL);
    CHECK_OK(umbo_strategy_worker_devices(strategy, names, 3, &count));
    CHECK(count == 2 && strcmp(names[1], "/job:localhost/replica:0/task:0/device:CPU:1") == 0);
    CHECK(names[2] == NULL);
    CHECK_OK(umbo_strategy_parameter_devices(strategy, names, 3, &count));
    CHECK(count == 1 && strcmp(names[0], "/job:localhost/replica:0/task:0/device:CPU:0") == 0);
    CHECK_STATUS(umbo_strategy_parameter_devices(strategy, names, 0, &count), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_strategy_worker_devices(strategy, NULL, 3, &count), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_strategy_worker_devices(strategy, names, 3, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_strategy_parameter_devices(NULL, names, 3, &count), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_strategy_default(&fallback));
    CHECK_STATUS(umbo_strategy_worker_devices(fallback, names, 3, &count),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_strategy_parameter_devices(fallback, names, 3, &count),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("was given no devices");
    umbo_strategy_release(fallback);
}

/* There is one logical device per replica, and nothing to annotate. */
static void logical_devices(umbo_strategy *strategy) {
    const int64_t whole[1] = {1};
    umbo_tensor *tensor = make_float(1), *annotated = NULL;
    CHECK_STATUS(umbo_strategy_assign_to_logical_device(strategy, tensor, 0, &annotated),
                 UMBO_STATUS_UNIMPLEMENTED);
    CHECK_MESSAGE("one logical device");
    CHECK_STATUS(umbo_strategy_replicate_to_logical_devices(strategy, tensor, &annotated),
                 UMBO_STATUS_UNIMPLEMENTED);
    CHECK_STATUS(umbo_strategy_split_to_logical_devices(strategy, tensor, 1, whole, &annotated),
                 UMBO_STATUS_UNIMPLEMENTED);
    CHECK(annotated == NULL);
    umbo_tensor_release(tensor);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    umbo_variable *variable = make_variable(strategy, 6, UMBO_AGGREGATION_NONE);
    reduce_to(strategy, variable);
    updates(umbo_strategy_update, strategy);
    updates(umbo_strategy_update_non_slot, strategy);
    non_slot_devices(strategy);
    colocation(strategy, variable);
    running_and_reading(strategy, variable);
    devices(strategy);
    logical_devices(strategy);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
    return finish();
}
