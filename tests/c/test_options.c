/* Options: sizes of structs, reserved fields, unknown constants. */
#include "check.h"

/* A later version's options: the known ones and more. */
typedef struct {
    umbo_strategy_options known;
    uint64_t more[4];
} longer_options;

static void sizes(void) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    longer_options longer;
    umbo_strategy *strategy = NULL;
    CHECK(options.struct_size == sizeof(options));
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    umbo_strategy_release(strategy);

    memset(&longer, 0, sizeof(longer));
    longer.known.struct_size = sizeof(longer);
    longer.known.cpu_replicas = 2;
    CHECK_OK(umbo_strategy_create(&longer.known, &strategy)); /* the rest is 0 */
    CHECK(info_of(strategy).replica_count == 2);
    umbo_strategy_release(strategy);
    strategy = NULL;
    longer.more[3] = 1;
    CHECK_STATUS(umbo_strategy_create(&longer.known, &strategy),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("byte"); /* which byte it does not know */

    /* Shorter: what is missing has its default, whatever lies there. */
    options.cpu_replicas = 2;
    options.parameter_device = "no such device";
    options.struct_size = offsetof(umbo_strategy_options, parameter_device);
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    umbo_strategy_release(strategy);
    strategy = NULL;
    options.struct_size = 0;
    CHECK_STATUS(umbo_strategy_create(&options, &strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("struct_size");
    CHECK(strategy == NULL);
}

static void ignore(umbo_log_level level, const char *message, void *user_data) {
    (void)level;
    (void)message;
    (void)user_data;
}

static void unknown_constants(void) {
    umbo_strategy *strategy = NULL, *two = make_strategy(2);
    umbo_tensor *initial = make_float(1);
    umbo_variable *variable = NULL;
    umbo_value *value = float_value(1), *result = NULL;
    int64_t handles = 0;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_variable_options of_variable = UMBO_VARIABLE_OPTIONS_INIT;
    options.bind_threads = 2;
    CHECK_STATUS(umbo_strategy_create(&options, &strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("bind_threads");
    of_variable.aggregation = (umbo_aggregation)4;
    CHECK_STATUS(umbo_variable_create(two, "v", initial, &of_variable, &variable),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("aggregation");
    of_variable.aggregation = (umbo_aggregation)-1;
    CHECK_STATUS(umbo_variable_create(two, "v", initial, &of_variable, &variable),
                 UMBO_STATUS_INVALID_ARGUMENT);
    of_variable.aggregation = (umbo_aggregation)0;
    of_variable.trainable = 2;
    CHECK_STATUS(umbo_variable_create(two, "v", initial, &of_variable, &variable),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("trainable");
    CHECK_STATUS(umbo_strategy_reduce(two, (umbo_reduce_op)3, value, NULL, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("op");
    CHECK_STATUS(umbo_set_logical_device_count((umbo_device_type)3, 0, 1, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("type");
    CHECK_STATUS(umbo_live_handles((umbo_handle_type)999, &handles), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("type");
    CHECK_STATUS(umbo_set_log_callback((umbo_log_level)9, ignore, NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("level");
    /* Also where there is nobody to tell. */
    CHECK_STATUS(umbo_set_log_callback((umbo_log_level)0, NULL, NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("level");
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    CHECK(umbo_status_name((umbo_status)99) != NULL && umbo_status_name((umbo_status)-1) != NULL);
    CHECK(strcmp(umbo_status_name(UMBO_STATUS_DATA_LOSS), "DATA_LOSS") == 0);
    CHECK(strategy == NULL && variable == NULL && result == NULL);
    umbo_value_release(value);
    umbo_tensor_release(initial);
    umbo_strategy_release(two);
}

static void refuse(const umbo_strategy_options *options, umbo_status expected, const char *words) {
    umbo_strategy *strategy = NULL;
    CHECK_STATUS(umbo_strategy_create(options, &strategy), expected);
    CHECK(strstr(umbo_last_error_message(), words) != NULL);
    CHECK(strategy == NULL);
}

static void devices(void) {
    const char *twice[2] = {"CPU:0", "/device:cpu:0"};
    const char *nonsense[1] = {"foo"};
    const char *absent[1] = {"CPU:4000"};
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    options.compute_devices = twice;
    options.compute_device_count = 2;
    refuse(&options, UMBO_STATUS_INVALID_ARGUMENT, "CPU:0");
    options.compute_device_count = 0; /* a list, but an empty one */
    refuse(&options, UMBO_STATUS_INVALID_ARGUMENT, "compute_device");
    options.compute_device_count = 1;
    options.cpu_replicas = 2; /* one or the other */
    refuse(&options, UMBO_STATUS_INVALID_ARGUMENT, "cpu_replicas");
    options.cpu_replicas = 0;
    options.compute_devices = nonsense;
    refuse(&options, UMBO_STATUS_INVALID_ARGUMENT, "foo");
    options.compute_devices = absent;
    refuse(&options, UMBO_STATUS_NOT_FOUND, "CPU:4000");
    options.compute_devices = NULL;
    options.compute_device_count = 0;
    options.cpu_replicas = -1;
    refuse(&options, UMBO_STATUS_INVALID_ARGUMENT, "cpu_replicas");
    options.cpu_replicas = 0;
    options.parameter_device = "CPU:-1";
    refuse(&options, UMBO_STATUS_INVALID_ARGUMENT, "CPU:-1");
}

static void no_update(const umbo_update_tile *tile, void *user_data) {
    (void)tile;
    (void)user_data;
}

/* A number of elements that cannot be is named as the caller knows it. */
static void counts(void) {
    static const char *const words[] = {
        "umbo_value_create_tuple: count: -1; must be 0 or more, the number of elements of items",
        "umbo_value_create_tuple: count: 9223372036854775807; items of so many",
        "umbo_element_spec_create_tensor: ndim: -1; must be 0 or more",
        "umbo_strategy_create: options.compute_device_count: -3; must be 0 or more",
        "umbo_strategy_reduce: options.axis_count: -2; must be 0 or more",
        "umbo_optimizer_create_custom: options.state_count: 9; a rule has 0 to 8 states",
        "umbo_optimizer_create_custom: options.state_count: -1; a rule has 0 to 8 states"};
    umbo_strategy_options of_strategy = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_reduce_options of_reduction = UMBO_REDUCE_OPTIONS_INIT;
    umbo_custom_rule_options of_rule = UMBO_CUSTOM_RULE_OPTIONS_INIT;
    umbo_strategy *strategy = make_strategy(1), *other = NULL;
    umbo_value *value = float_value(1), *made = NULL;
    const umbo_value *items[1];
    umbo_element_spec *spec = NULL;
    umbo_optimizer *optimizer = NULL;
    const int64_t size = 1;
    int32_t axis = 0, way;
    items[0] = value;
    of_strategy.compute_device_count = -3;
    of_reduction.axes = &axis;
    of_reduction.axis_count = -2;
    for (way = 0; way < COUNT_OF(words); way++) {
        umbo_status status = UMBO_OK;
        of_rule.state_count = way == 5 ? 9 : -1; /* there are no names at all */
        if (way == 0) status = umbo_value_create_tuple(-1, items, &made);
        if (way == 1) status = umbo_value_create_tuple(INT64_MAX, items, &made);
        if (way == 2) status = umbo_element_spec_create_tensor(UMBO_DTYPE_INT8, -1, &size, &spec);
        if (way == 3) status = umbo_strategy_create(&of_strategy, &other);
        if (way == 4)
            status = umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, value, &of_reduction, &made);
        if (way >= 5)
            status = umbo_optimizer_create_custom(strategy, no_update, NULL, NULL, &of_rule, &optimizer);
        CHECK_STATUS(status, UMBO_STATUS_INVALID_ARGUMENT);
        if (strncmp(umbo_last_error_message(), words[way], strlen(words[way])) != 0)
            check_failed(__FILE__, __LINE__, words[way]);
    }
    CHECK(made == NULL && other == NULL && spec == NULL && optimizer == NULL);
    umbo_value_release(value);
    umbo_strategy_release(strategy);
}

int main(void) {
    sizes();
    unknown_constants();
    devices();
    counts();
    return finish();
}
