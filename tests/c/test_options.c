/* Options: sizes of structs, and counts. */
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
    CHECK(options.struct_size == UMBO_STRUCT_SIZE(umbo_strategy_options));
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    umbo_strategy_release(strategy);

    memset(&longer, 0, sizeof(longer));
    longer.known.struct_size = UMBO_STRUCT_SIZE(longer_options);
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
    options.struct_size = UMBO_STRUCT_MARK + offsetof(umbo_strategy_options, parameter_device);
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    umbo_strategy_release(strategy);
    strategy = NULL;
    options.struct_size = 0;
    CHECK_STATUS(umbo_strategy_create(&options, &strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("struct_size");
    CHECK(strategy == NULL);
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
    umbo_value *items[1];
    const char *name = "m";
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
        of_rule.state_names = &name; /* fewer than there would be */
        of_rule.state_count = way == 5 ? 9 : -1;
        if (way == 0) status = umbo_value_create_tuple(-1, items, &made);
        if (way == 1) status = umbo_value_create_tuple(INT64_MAX, items, &made);
        if (way == 2) status = umbo_element_spec_create_tensor(UMBO_DTYPE_INT8, -1, &size, &spec);
        if (way == 3) status = umbo_strategy_create(&of_strategy, &other);
        if (way == 4)
            status = umbo_strategy_reduce(strategy, value, UMBO_REDUCE_SUM, &of_reduction, &made);
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

/* An array without the number of its elements, and a number without an array, are both forgotten, and neither is taken for
 * none. The macro of the structs has the check made for each of them. */
static void arrays(void) {
    static const char *const words[] = {
        "umbo_strategy_create: options.compute_device_count: is 0, but options.compute_devices is given",
        "umbo_strategy_create: options.compute_devices: is NULL, but options.compute_device_count is 1",
        "umbo_strategy_reduce: options.axis_count: is 0, but options.axes is given",
        "umbo_strategy_reduce: options.axes: is NULL, but options.axis_count is 1",
        "umbo_optimizer_create_custom: options.state_count: is 0, but options.state_names is given",
        "umbo_optimizer_create_custom: options.state_names: is NULL, but options.state_count is 1",
        "umbo_optimizer_create_custom: options.state_count: is 0, but options.state_initials is given"};
    const char *const name = "CPU:0";
    const int32_t axis = 0;
    const double initial = 0;
    umbo_strategy *strategy = make_strategy(1), *other = NULL;
    umbo_value *value = float_value(1), *made = NULL;
    umbo_optimizer *optimizer = NULL;
    int32_t way;
    for (way = 0; way < COUNT_OF(words); way++) {
        umbo_strategy_options of_strategy = UMBO_STRATEGY_OPTIONS_INIT;
        umbo_reduce_options of_reduction = UMBO_REDUCE_OPTIONS_INIT;
        umbo_custom_rule_options of_rule = UMBO_CUSTOM_RULE_OPTIONS_INIT;
        umbo_status status;
        if (way == 0) of_strategy.compute_devices = &name;
        if (way == 1) of_strategy.compute_device_count = 1;
        if (way == 2) of_reduction.axes = &axis;
        if (way == 3) of_reduction.axis_count = 1;
        if (way == 4) of_rule.state_names = &name;
        if (way == 5) of_rule.state_count = 1;
        if (way == 6) of_rule.state_initials = &initial;
        if (way < 2) {
            status = umbo_strategy_create(&of_strategy, &other);
        } else if (way < 4) {
            status = umbo_strategy_reduce(strategy, value, UMBO_REDUCE_SUM, &of_reduction, &made);
        } else {
            status = umbo_optimizer_create_custom(strategy, no_update, NULL, NULL, &of_rule, &optimizer);
        }
        CHECK_STATUS(status, UMBO_STATUS_INVALID_ARGUMENT);
        if (strncmp(umbo_last_error_message(), words[way], strlen(words[way])) != 0)
            check_failed(__FILE__, __LINE__, words[way]);
    }
    CHECK(made == NULL && other == NULL && optimizer == NULL);
    umbo_value_release(value);
    umbo_strategy_release(strategy);
}

/* The next call says what was wrong with the shape of a view. */
static void views(void) {
    static const int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, negative = -2;
    static const float number = 0;
    umbo_dataset *dataset = NULL;
    umbo_view view = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 9, shape, &number);
    CHECK(view.dtype == UMBO_DTYPE_NONE);
    CHECK_STATUS(umbo_dataset_from_arrays(1, NULL, &view, &dataset), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("ndim: 9; valid are 0 to 8");
    view = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, -1, shape, &number);
    CHECK_STATUS(umbo_dataset_from_arrays(1, NULL, &view, &dataset), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("ndim: -1");
    view = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, &negative, &number);
    CHECK(view.dtype == UMBO_DTYPE_NONE);
    CHECK_STATUS(umbo_dataset_from_arrays(1, NULL, &view, &dataset), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("-2");
    CHECK(dataset == NULL);
}

int main(void) {
    sizes();
    counts();
    arrays();
    views();
    return finish();
}
