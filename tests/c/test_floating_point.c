/* The floating-point mode of the thread that calls changes no result, and the library changes no mode of the program's: each
 * function that computes is called in each mode; what comes out has the bits of the default mode, and callbacks and the
 * program continue in the mode that they had. That every other function leaves the mode alone is shown by the generated
 * program of all functions. */
#include "check.h"
#include "floating_point.h"

enum { REPLICAS = 3, SIZE = 96, RULES = 14, MOST = 1 << 18, MOST_PARTS = 512 };

/* What has come out: the bytes, one part behind the other. */
struct outcome {
    unsigned char bytes[MOST];
    size_t length;
    struct {
        const char *what;
        size_t from;
    } parts[MOST_PARTS];
    int part_count;
};

static struct outcome usual, other, *now;
/* The mode that callbacks have to see. */
static unsigned long expected;

static void record(const char *what, const void *bytes, size_t length) {
    CHECK(now->length + length <= MOST && now->part_count < MOST_PARTS);
    now->parts[now->part_count].what = what;
    now->parts[now->part_count++].from = now->length;
    memcpy(now->bytes + now->length, bytes, length);
    now->length += length;
}

static void record_value(const char *what, const umbo_value *value, umbo_dtype dtype) {
    umbo_view view;
    size_t elements = 1;
    int32_t axis;
    CHECK_OK(umbo_value_view(value, NULL, dtype, &view));
    for (axis = 0; axis < view.ndim; axis++) elements *= (size_t)view.shape[axis];
    record(what, view.data, elements * view.element_bytes);
}

static void record_variable(const char *what, const umbo_variable *variable) {
    float elements[SIZE];
    CHECK_OK(umbo_variable_download(variable, elements, sizeof(elements)));
    record(what, elements, sizeof(elements));
}

static void record_metric(const char *what, const umbo_metric_result *metric) {
    const double numbers[3] = {metric->sum, metric->weight, metric->mean};
    record(what, numbers, sizeof(numbers));
}

/* Numbers of every size, a third of them denormal, made without arithmetic on floats. */
static void fill(float *to, size_t count, uint32_t seed) {
    size_t at;
    for (at = 0; at < count; at++) {
        uint32_t bits;
        seed = seed * 1664525u + 1013904223u;
        bits = at % 3 == 0 ? seed & 0x807fffffu : (seed & 0x807fffffu) | (100u + (seed >> 24) % 30u) << 23;
        memcpy(to + at, &bits, sizeof(bits));
    }
}

static umbo_value *filled(uint32_t seed) {
    float elements[SIZE];
    fill(elements, SIZE, seed);
    return floats_value(SIZE, elements);
}

static umbo_value *filled_of_replicas(void) {
    umbo_value *items[REPLICAS];
    uint32_t replica;
    for (replica = 0; replica < REPLICAS; replica++) items[replica] = filled(70 + replica);
    return into_per_replica(REPLICAS, items);
}

/* ---- a step that computes nothing itself */

struct step {
    umbo_gradients *gradients;
    umbo_metrics *metrics;
    umbo_variable *variable;
};

static umbo_status nothing_central(umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result) {
    (void)strategy, (void)args, (void)user_data, (void)result;
    CHECK(mode_of_thread() == expected);
    return UMBO_OK;
}

static umbo_status take_step(umbo_replica_context *context, const umbo_value *args, void *user_data, umbo_value **result) {
    const struct step *step = (const struct step *)user_data;
    const int64_t shape[1] = {4};
    const float scores[4] = {0.1f, 0.7f, 0.4f, 0.9f};
    const int32_t classes[4] = {2, 0, 1, 1}, binary[4] = {0, 1, 1, 0};
    const umbo_view predicted = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, shape, scores);
    const umbo_view labels = umbo_view_of_memory(UMBO_DTYPE_INT32, 1, shape, binary);
    const umbo_view truth = umbo_view_of_memory(UMBO_DTYPE_INT32, 1, shape, classes);
    umbo_value *mine, *sum = NULL;
    umbo_view view;
    (void)args;
    CHECK(mode_of_thread() == expected);
    UMBO_TRY(umbo_gradients_view(step->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    fill((float *)view.mutable_data, SIZE, 40 + (uint32_t)replica_id(context));
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", 0.1, 0.3));
    UMBO_TRY(umbo_metrics_add(step->metrics, context, "mean", 0.1, 0.7));
    UMBO_TRY(umbo_metrics_add_labels(step->metrics, context, "auc", &predicted, &labels, NULL));
    UMBO_TRY(umbo_metrics_add_labels(step->metrics, context, "confusion", &truth, &truth, NULL));
    UMBO_TRY(umbo_variable_view(step->variable, context, UMBO_DTYPE_BFLOAT16, &view));
    mine = filled(50 + (uint32_t)replica_id(context));
    UMBO_TRY(umbo_variable_assign_add(step->variable, mine));
    UMBO_TRY(umbo_replica_context_merge_call(context, nothing_central, NULL, NULL, NULL));
    UMBO_TRY(umbo_replica_context_all_reduce(context, mine, UMBO_REDUCE_MEAN, &sum));
    umbo_value_release(mine);
    *result = sum;
    CHECK(mode_of_thread() == expected);
    return umbo_gradients_submit_weighted(step->gradients, context, 1.1);
}

/* ---- what computes */

static umbo_variable *variable_of(umbo_strategy *strategy, umbo_initial initial, double spread) {
    const int64_t shape[2] = {8, SIZE / 8};
    umbo_variable *variable = NULL;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    options.dtype = UMBO_DTYPE_FLOAT32;
    options.ndim = 2;
    options.shape = shape;
    options.initial = initial;
    options.initial_mean = 0.1;
    options.initial_spread = spread;
    CHECK_OK(umbo_variable_create(strategy, "drawn", NULL, &options, &variable));
    return variable;
}

static void draw(umbo_strategy *strategy) {
    int32_t initial;
    for (initial = UMBO_INITIAL_CONSTANT; initial <= UMBO_INITIAL_HE_NORMAL; initial++) {
        umbo_variable *variable = variable_of(strategy, UMBO_ENUM_VALUE(umbo_initial, initial), 1e-40);
        record_variable("an initial value", variable);
        umbo_variable_release(variable);
    }
}

static umbo_status tenth(int64_t step, void *user_data, double *learning_rate) {
    (void)step, (void)user_data;
    CHECK(mode_of_thread() == expected);
    *learning_rate = 0.1;
    return UMBO_OK;
}

static umbo_optimizer *optimizer_of(umbo_strategy *strategy, int rule) {
    umbo_optimizer *optimizer = NULL;
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    if (rule == 0) CHECK_OK(umbo_optimizer_create_sgd(strategy, NULL, &optimizer));
    if (rule == 1) CHECK_OK(umbo_optimizer_create_momentum(strategy, NULL, &optimizer));
    if (rule == 2) CHECK_OK(umbo_optimizer_create_adam(strategy, NULL, &optimizer));
    if (rule == 3) CHECK_OK(umbo_optimizer_create_adamw(strategy, NULL, &optimizer));
    if (rule == 4) CHECK_OK(umbo_optimizer_create_lamb(strategy, NULL, &optimizer));
    if (rule == 5) CHECK_OK(umbo_optimizer_create_adagrad(strategy, NULL, &optimizer));
    if (rule == 6) CHECK_OK(umbo_optimizer_create_rmsprop(strategy, NULL, &optimizer));
    if (rule == 7) CHECK_OK(umbo_optimizer_create_ftrl(strategy, NULL, &optimizer));
    if (rule == 8) CHECK_OK(umbo_optimizer_create_nadam(strategy, NULL, &optimizer));
    if (rule == 9) CHECK_OK(umbo_optimizer_create_radam(strategy, NULL, &optimizer));
    if (rule == 10) CHECK_OK(umbo_optimizer_create_lion(strategy, NULL, &optimizer));
    if (rule == 11) CHECK_OK(umbo_optimizer_create_lars(strategy, NULL, &optimizer));
    if (rule == 12) CHECK_OK(umbo_optimizer_create_muon(strategy, NULL, &optimizer));
    if (rule == 13) CHECK_OK(umbo_optimizer_create_adafactor(strategy, NULL, &optimizer));
    if (rule % 3 == 0) options.global_clip_norm = 0.3;
    CHECK_OK(umbo_optimizer_configure(optimizer, &options));
    if (rule % 4 == 0) CHECK_OK(umbo_optimizer_set_schedule(optimizer, tenth, NULL, NULL));
    return optimizer;
}

static void view_narrow(const umbo_variable *variable) {
    umbo_view view;
    CHECK_OK(umbo_variable_view(variable, NULL, UMBO_DTYPE_BFLOAT16, &view));
    record("a bfloat16 view", view.data, SIZE * 2);
    CHECK_OK(umbo_variable_view(variable, NULL, UMBO_DTYPE_FLOAT16, &view));
    record("a float16 view", view.data, SIZE * 2);
}

static void train(umbo_strategy *strategy, int rule) {
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_variable_options of_sum = UMBO_VARIABLE_OPTIONS_INIT;
    umbo_apply_report report = UMBO_APPLY_REPORT_INIT;
    umbo_optimizer *optimizer = optimizer_of(strategy, rule);
    umbo_variable *variable = variable_of(strategy, UMBO_INITIAL_NORMAL, 1e-38);
    static const char *const names[3] = {"mean", "auc", "confusion"};
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    umbo_metric_options classes = UMBO_METRIC_OPTIONS_INIT;
    umbo_metric_class_result of_class = UMBO_METRIC_CLASS_RESULT_INIT;
    umbo_value *initial = filled(30), *reduced = NULL, *result = NULL, *mean = NULL;
    umbo_tensor *element = NULL;
    struct step step;
    int32_t turn;
    float numbers[SIZE];
    fill(numbers, SIZE, 30);
    element = make_floats(SIZE, numbers);
    of_sum.aggregation = UMBO_AGGREGATION_MEAN;
    CHECK_OK(umbo_variable_create(strategy, "sum", element, &of_sum, &step.variable));
    umbo_tensor_release(element);
    options.accumulation_steps = rule == 6 ? 2 : 1;
    CHECK_OK(umbo_gradients_create(strategy, 1, &variable, rule % 2 == 0 ? UMBO_LOSS_MEAN : UMBO_LOSS_SUM,
                                   &options, &step.gradients));
    CHECK_OK(umbo_metrics_create(strategy, &step.metrics));
    CHECK_OK(umbo_metrics_define(step.metrics, "mean", UMBO_METRIC_MEAN, NULL));
    CHECK_OK(umbo_metrics_define(step.metrics, "auc", UMBO_METRIC_AUC, NULL));
    classes.class_count = 4;
    CHECK_OK(umbo_metrics_define(step.metrics, "confusion", UMBO_METRIC_CONFUSION, &classes));
    /* Of nothing: divisions of 0 by 0. */
    for (turn = 0; turn < 3; turn++) {
        CHECK_OK(umbo_metrics_result(step.metrics, names[turn], &metric));
        record_metric("a metric of nothing", &metric);
    }
    for (turn = 0; turn < 3; turn++) {
        CHECK_OK(umbo_strategy_run(strategy, take_step, NULL, &step, NULL, &result));
        CHECK_OK(umbo_value_item(result, 0, &mean));
        record_value("a mean of replicas", mean, UMBO_DTYPE_FLOAT32);
        umbo_value_release(mean);
        umbo_value_release(result);
        result = NULL;
        if (rule != 6 || turn == 1) {
            CHECK_OK(umbo_gradients_reduced(step.gradients, 0, optimizer, &reduced));
            record_value("a reduced gradient", reduced, UMBO_DTYPE_FLOAT32);
            umbo_value_release(reduced);
        }
        CHECK_OK(umbo_optimizer_apply(optimizer, step.gradients, NULL, &report));
        record("the norm of gradients", &report.gradient_norm, sizeof(double));
        record("a weight of gradients", &report.total_weight, sizeof(double));
    }
    record_variable("weights", variable);
    record_variable("a sum of steps", step.variable);
    view_narrow(variable);
    CHECK_OK(umbo_strategy_metric_result(strategy, "loss", &metric));
    record_metric("a metric of the strategy", &metric);
    for (turn = 0; turn < 3; turn++) {
        CHECK_OK(umbo_metrics_result(step.metrics, names[turn], &metric));
        record_metric("a metric", &metric);
    }
    for (turn = 0; turn < 4; turn++) {
        CHECK_OK(umbo_metrics_class_result(step.metrics, "confusion", turn, &of_class));
        record("a metric of a class", &of_class.precision, 3 * sizeof(double));
    }
    umbo_value_release(initial);
    umbo_metrics_release(step.metrics);
    umbo_gradients_release(step.gradients);
    umbo_variable_release(step.variable);
    umbo_variable_release(variable);
    umbo_optimizer_release(optimizer);
}

static void convert(void) {
    static const uint32_t special[8] = {0x7fa00000, 0x7f7fffff, 1, 0x33000001, 0x477ff000, 0xff800000, 0x80000001, 0};
    const umbo_dtype narrow[2] = {UMBO_DTYPE_FLOAT16, UMBO_DTYPE_BFLOAT16};
    float wide[SIZE], back[SIZE];
    uint16_t half[SIZE];
    int which;
    fill(wide, SIZE, 11);
    memcpy(wide, special, sizeof(special));
    for (which = 0; which < 2; which++) {
        CHECK_OK(umbo_dtype_convert_from_float(narrow[which], SIZE, wide, half));
        record("a narrow number", half, sizeof(half));
        CHECK_OK(umbo_dtype_convert_to_float(narrow[which], SIZE, half, back));
        record("a wide number", back, sizeof(back));
    }
}

static void reduce(umbo_strategy *strategy) {
    const umbo_reduce_op operations[2] = {UMBO_REDUCE_SUM, UMBO_REDUCE_MEAN};
    const int32_t axis = 0;
    const int64_t none[1] = {0};
    umbo_value *values = filled_of_replicas(), *result = NULL;
    umbo_tensor *empty = NULL;
    int way;
    for (way = 0; way < 4; way++) {
        umbo_reduce_options options = UMBO_REDUCE_OPTIONS_INIT;
        if (way >= 2) options.axes = &axis, options.axis_count = 1;
        CHECK_OK(umbo_strategy_reduce(strategy, values, operations[way % 2], &options, &result));
        record_value("a reduced value", result, UMBO_DTYPE_FLOAT32);
        umbo_value_release(result);
    }
    umbo_value_release(values);
    {
        umbo_reduce_options options = UMBO_REDUCE_OPTIONS_INIT;
        options.axes = &axis, options.axis_count = 1;
        CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, none, NULL, &empty));
        values = into_value(empty);
        CHECK_OK(umbo_strategy_reduce(strategy, values, UMBO_REDUCE_MEAN, &options, &result));
        record_value("a mean of nothing", result, UMBO_DTYPE_FLOAT32);
        umbo_value_release(result);
        umbo_value_release(values);
    }
}

static void change_variables(umbo_strategy *strategy) {
    static const int64_t rows[2] = {1, 6}, dense[2] = {8, SIZE / 8}, shape[2] = {2, SIZE / 8}, two = 2;
    float numbers[SIZE];
    umbo_variable *variable = variable_of(strategy, UMBO_INITIAL_NORMAL, 1e-39);
    umbo_tensor *indices = make_tensor(UMBO_DTYPE_INT64, 1, &two, rows), *elements;
    umbo_value *slices = NULL, *added;
    char text[4096];
    size_t length = 0;
    int32_t operation;
    fill(numbers, SIZE, 21);
    elements = make_tensor(UMBO_DTYPE_FLOAT32, 2, dense, numbers);
    added = into_value(elements);
    CHECK_OK(umbo_variable_assign_add(variable, added));
    CHECK_OK(umbo_variable_assign_sub(variable, added));
    CHECK_OK(umbo_variable_assign_add(variable, added));
    CHECK_OK(umbo_value_text(added, text, sizeof(text), &length));
    record("a text", text, length);
    umbo_value_release(added);
    elements = make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, numbers);
    CHECK_OK(umbo_value_create_indexed_slices(elements, indices, 2, dense, &slices));
    for (operation = UMBO_SCATTER_ADD; operation <= UMBO_SCATTER_UPDATE; operation++)
        CHECK_OK(umbo_variable_scatter(variable, slices, UMBO_ENUM_VALUE(umbo_scatter_op, operation)));
    record_variable("a variable after additions and scatter updates", variable);
    umbo_value_release(slices);
    umbo_tensor_release(elements);
    umbo_tensor_release(indices);
    umbo_variable_release(variable);
}

/* ---- callbacks that nobody waits for in a step */

static umbo_status same_element(const umbo_value *element, void *user_data, umbo_value **result) {
    (void)user_data;
    CHECK(mode_of_thread() == expected);
    return umbo_value_retain(element, result);
}

static void look_at_mode(void *user_data) {
    CHECK(mode_of_thread() == expected);
    ++*(int *)user_data;
}

/* Also of how many replicas there are for the processors. */
static void look_at_log(umbo_log_level level, const char *message, void *user_data) {
    (void)level, (void)message, (void)user_data;
    CHECK(mode_of_thread() == expected);
}

/* Elements that are made on this thread and ahead on another one; what releases user data. */
static void read_input(void) {
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    int ahead, ends = 0, elements;
    for (ahead = 0; ahead < 2; ahead++) {
        CHECK_OK(umbo_dataset_from_range(0, 4, 1, &dataset));
        CHECK_OK(umbo_dataset_map(&dataset, same_element, &ends, look_at_mode, NULL));
        if (ahead) CHECK_OK(umbo_dataset_prefetch(&dataset, 2));
        CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
        for (elements = 0; umbo_iterator_next(iterator, &element) == UMBO_OK && element != NULL; elements++)
            umbo_value_release(element);
        CHECK(elements == 4);
        umbo_iterator_release(iterator);
        umbo_dataset_release(dataset);
    }
    CHECK(ends == 2);
}

static void compute(struct outcome *outcome) {
    umbo_strategy *strategy;
    int rule;
    now = outcome;
    now->length = 0;
    now->part_count = 0;
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, look_at_log, NULL, NULL));
    strategy = make_strategy(REPLICAS);
    draw(strategy);
    for (rule = 0; rule < RULES; rule++) train(strategy, rule);
    convert();
    reduce(strategy);
    change_variables(strategy);
    read_input();
    CHECK(mode_of_thread() == expected);
    umbo_strategy_release(strategy);
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, NULL, NULL, NULL));
    umbo_clear_last_error();
    CHECK(mode_of_thread() == expected);
}

/* What differs from the default mode. */
static void compare(const struct mode *mode) {
    int part, differ = 0;
    CHECK(other.length == usual.length && other.part_count == usual.part_count);
    for (part = 0; part < usual.part_count; part++) {
        const size_t from = usual.parts[part].from;
        const size_t to = part + 1 < usual.part_count ? usual.parts[part + 1].from : usual.length;
        if (memcmp(usual.bytes + from, other.bytes + from, to - from) == 0) continue;
        fprintf(stderr, "%s: %s differs\n", mode->name, usual.parts[part].what);
        differ = 1;
    }
    CHECK(!differ);
}

/* ---- what callbacks change */

static umbo_status change_mode(umbo_replica_context *context, const umbo_value *args, void *user_data, umbo_value **result) {
    const struct mode *modes = (const struct mode *)user_data;
    (void)context, (void)args, (void)result;
    CHECK(mode_of_thread() == modes[0].control);
    set_mode(modes[1].control);
    return UMBO_OK;
}

/* It stays, on the thread of the callback: on that of replica 0 behind the call, on the others in the next one. */
static void change(struct mode before, struct mode after) {
    struct mode modes[2];
    umbo_strategy *strategy;
    set_mode(before.control);
    strategy = make_strategy(2);
    modes[0] = before;
    modes[1] = after;
    CHECK_OK(umbo_strategy_run(strategy, change_mode, NULL, modes, NULL, NULL));
    CHECK(mode_of_thread() == after.control);
    modes[0] = after;
    modes[1] = before;
    CHECK_OK(umbo_strategy_run(strategy, change_mode, NULL, modes, NULL, NULL));
    CHECK(mode_of_thread() == before.control);
    umbo_strategy_release(strategy);
    set_mode(MODE_DEFAULT);
}

int main(void) {
    const struct mode default_mode = {"default", MODE_DEFAULT};
    size_t which;
    expected = try_mode(MODE_DEFAULT);
    compute(&usual);
    for (which = 0; which < sizeof(unusual_modes) / sizeof(unusual_modes[0]); which++) {
        struct mode mode = unusual_modes[which];
        mode.control = expected = try_mode(mode.control);
        compute(&other);
        set_mode(MODE_DEFAULT);
        compare(&mode);
        change(default_mode, mode);
        change(mode, default_mode);
    }
    return finish();
}
