/* Checks for the C tests, and the few things that most of them make.
 *
 * A failed check prints where it is, what was expected and the library's last message, and ends
 * the program: the rest of a test means little once its ground is gone. Works on any thread.
 * Every test ends with `return finish();`, which demands that no handle is left. */
#ifndef UMBO_TESTS_CHECK_H
#define UMBO_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbo/all.h>

#if defined(__GNUC__)
#define CHECK_MAYBE_UNUSED __attribute__((unused))
#else
#define CHECK_MAYBE_UNUSED
#endif

static CHECK_MAYBE_UNUSED void check_failed(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: %s\n  last error: %s\n", file, line, what, umbo_last_error_message());
    exit(1);
}

/* A condition that must hold. */
#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) check_failed(__FILE__, __LINE__, #condition);   \
    } while (0)

/* A call that must return this status. */
#define CHECK_STATUS(call, expected)                                                        \
    do {                                                                                    \
        umbo_status check_status_ = (call);                                                 \
        if (check_status_ != (expected)) {                                                  \
            fprintf(stderr, "got %s, expected %s\n", umbo_status_name(check_status_),       \
                    umbo_status_name(expected));                                            \
            check_failed(__FILE__, __LINE__, #call);                                        \
        }                                                                                   \
    } while (0)

/* A call that must succeed. */
#define CHECK_OK(call) CHECK_STATUS(call, UMBO_OK)

/* The last error message of this thread must contain these words. */
#define CHECK_MESSAGE(words)                                                                      \
    do {                                                                                          \
        if (strstr(umbo_last_error_message(), (words)) == NULL)                                   \
            check_failed(__FILE__, __LINE__, "the message does not contain \"" words "\"");       \
    } while (0)

static CHECK_MAYBE_UNUSED void count_message(umbo_log_level level, const char *message, void *count) {
    (void)level;
    (void)message;
    __atomic_fetch_add((int64_t *)count, 1, __ATOMIC_SEQ_CST);
}

/* Whether the library calls a step several times, to check it. */
static CHECK_MAYBE_UNUSED int steps_are_checked(void) {
    const char *const text = getenv("UMBO_CHECK_STEPS");
    return text != NULL && strcmp(text, "1") == 0;
}

/* Whether so many calls were counted, of a step or its rows; more if steps are checked. */
static CHECK_MAYBE_UNUSED int is_count(int64_t count, int64_t expected) {
    return steps_are_checked() ? count >= expected : count == expected;
}

/* Messages of the log that a test provokes: from here on they are counted, and not printed. */
static CHECK_MAYBE_UNUSED void expect_messages(int64_t *count) {
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, count_message, count, NULL));
}

/* None are provoked from here on. */
static CHECK_MAYBE_UNUSED void expect_no_messages(void) {
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, NULL, NULL, NULL));
}

/* The number of elements of an array. */
#define COUNT_OF(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

/* Declares a zeroed struct with its struct_size set. */
#define ZEROED(type, name)            \
    type name;                        \
    memset(&name, 0, sizeof(name));   \
    name.struct_size = UMBO_STRUCT_SIZE(type)

/* No handle may be left at the end of a test. */
static CHECK_MAYBE_UNUSED int finish(void) {
    int64_t count = -1;
    CHECK_OK(umbo_live_handles(UMBO_HANDLE_ANY, &count));
    if (count != 0) {
        fprintf(stderr, "%lld handles are still alive\n", (long long)count);
        return 1;
    }
    return 0;
}

/* ---- what most tests make */

static CHECK_MAYBE_UNUSED umbo_strategy *make_strategy(int32_t replicas) {
    umbo_strategy *strategy = NULL;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    options.cpu_replicas = replicas;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    return strategy;
}

static CHECK_MAYBE_UNUSED umbo_tensor *make_tensor(umbo_dtype dtype, int32_t rank,
                                                   const int64_t *shape, const void *data) {
    umbo_tensor *tensor = NULL;
    CHECK_OK(umbo_tensor_from_data(dtype, rank, shape, data, NULL, &tensor));
    return tensor;
}

/* A callback of a run. */
static CHECK_MAYBE_UNUSED umbo_status nothing(umbo_replica_context *context, const umbo_value *args,
                                              void *user_data, umbo_value **result) {
    (void)context, (void)args, (void)user_data, (void)result;
    return UMBO_OK;
}

/* What a strategy says of itself. */
static CHECK_MAYBE_UNUSED umbo_strategy_info info_of(const umbo_strategy *strategy) {
    umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
    CHECK_OK(umbo_strategy_get_info(strategy, &info));
    return info;
}

/* Where a process stands among the ranks. */
static CHECK_MAYBE_UNUSED umbo_communicator_info communicator_info_of(const umbo_communicator *communicator) {
    umbo_communicator_info info = UMBO_COMMUNICATOR_INFO_INIT;
    CHECK_OK(umbo_communicator_get_info(communicator, &info));
    return info;
}

/* What a variable says of itself. */
static CHECK_MAYBE_UNUSED umbo_variable_info facts_of(const umbo_variable *variable) {
    umbo_variable_info info = UMBO_VARIABLE_INFO_INIT;
    CHECK_OK(umbo_variable_get_info(variable, &info));
    return info;
}

static CHECK_MAYBE_UNUSED umbo_optimizer_info optimizer_info_of(const umbo_optimizer *optimizer) {
    umbo_optimizer_info info = UMBO_OPTIMIZER_INFO_INIT;
    CHECK_OK(umbo_optimizer_get_info(optimizer, &info));
    return info;
}

/* A vector of f32. */
static CHECK_MAYBE_UNUSED umbo_tensor *make_floats(int64_t count, const float *data) {
    return make_tensor(UMBO_DTYPE_FLOAT32, 1, &count, data);
}

/* A scalar of f32. */
static CHECK_MAYBE_UNUSED umbo_tensor *make_float(float number) {
    return make_tensor(UMBO_DTYPE_FLOAT32, 0, NULL, &number);
}

/* The tensor as a value; gives the tensor up. */
static CHECK_MAYBE_UNUSED umbo_value *into_value(umbo_tensor *tensor) {
    umbo_value *value = NULL;
    CHECK_OK(umbo_value_from_tensor(tensor, &value));
    umbo_tensor_release(tensor);
    return value;
}

static CHECK_MAYBE_UNUSED umbo_value *float_value(float number) {
    return into_value(make_float(number));
}

static CHECK_MAYBE_UNUSED umbo_value *floats_value(int64_t count, const float *data) {
    return into_value(make_floats(count, data));
}

/* The items as a per-replica value; gives the items up. */
static CHECK_MAYBE_UNUSED umbo_value *into_per_replica(int32_t count, umbo_value **items) {
    umbo_value *value = NULL;
    int32_t index;
    CHECK_OK(umbo_value_create_per_replica(count, items, &value));
    for (index = 0; index < count; index++) umbo_value_release(items[index]);
    return value;
}

/* So many zeros for each replica. */
static CHECK_MAYBE_UNUSED umbo_value *zeros_of_replicas(int32_t count, int64_t size) {
    umbo_value *items[16];
    int32_t index;
    CHECK(count <= 16);
    for (index = 0; index < count; index++) {
        umbo_tensor *tensor = NULL;
        CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
        items[index] = into_value(tensor);
    }
    return into_per_replica(count, items);
}

/* One f32 scalar for each replica. */
static CHECK_MAYBE_UNUSED umbo_value *per_replica_floats(int32_t count, const float *numbers) {
    umbo_value *items[16];
    int32_t index;
    CHECK(count <= 16);
    for (index = 0; index < count; index++) items[index] = float_value(numbers[index]);
    return into_per_replica(count, items);
}

/* Indexed slices of `count` rows of two f32 out of a matrix of `dense_rows` rows. */
static CHECK_MAYBE_UNUSED umbo_value *make_slices(int64_t count, const float *rows,
                                                  const int64_t *indices, int64_t dense_rows) {
    const int64_t rows_shape[2] = {count, 2}, dense_shape[2] = {dense_rows, 2};
    umbo_tensor *values = make_tensor(UMBO_DTYPE_FLOAT32, 2, rows_shape, rows);
    umbo_tensor *numbers = make_tensor(UMBO_DTYPE_INT64, 1, &count, indices);
    umbo_value *slices = NULL;
    CHECK_OK(umbo_value_create_indexed_slices(values, numbers, 2, dense_shape, &slices));
    umbo_tensor_release(numbers);
    umbo_tensor_release(values);
    return slices;
}

/* Whether a value, with its elements in row-major order, is these f32. */
static CHECK_MAYBE_UNUSED int has_floats(const umbo_value *value, int64_t count,
                                         const float *expected) {
    umbo_view view;
    int64_t size = 1;
    int32_t axis;
    CHECK_OK(umbo_value_view(value, NULL, UMBO_DTYPE_FLOAT32, &view));
    for (axis = 0; axis < view.ndim; axis++) size *= view.shape[axis];
    return size == count &&
           (size == 0 || memcmp(view.data, expected, (size_t)size * sizeof(float)) == 0);
}

/* A variable of `strategy` with this f32 scalar. */
static CHECK_MAYBE_UNUSED umbo_variable *make_variable(umbo_strategy *strategy, float number,
                                                       umbo_aggregation aggregation) {
    umbo_variable *variable = NULL;
    umbo_tensor *initial = make_float(number);
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    options.aggregation = aggregation;
    CHECK_OK(umbo_variable_create(strategy, "v", initial, &options, &variable));
    umbo_tensor_release(initial);
    return variable;
}

/* Gradients of one variable, the mean over the examples of so many runs (0: of one). */
static CHECK_MAYBE_UNUSED umbo_gradients *make_mean_gradients(umbo_strategy *strategy,
                                                              umbo_variable *variable,
                                                              int64_t accumulation_steps) {
    umbo_gradients *gradients = NULL;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    if (accumulation_steps != 0) options.accumulation_steps = accumulation_steps;
    CHECK_OK(umbo_gradients_create(strategy, 1, &variable, UMBO_LOSS_MEAN, &options, &gradients));
    return gradients;
}

/* Whether a number has the first six digits of another. */
static CHECK_MAYBE_UNUSED int is_close(double value, double expected) {
    const double difference = value < expected ? expected - value : value - expected;
    return difference <= 1e-6 * (expected < 0 ? -expected : expected);
}

/* The first element of an f32 value. */
static CHECK_MAYBE_UNUSED float float_of(const umbo_value *value) {
    umbo_view view;
    CHECK_OK(umbo_value_view(value, NULL, UMBO_DTYPE_FLOAT32, &view));
    return *(const float *)view.data;
}

/* Component or item `index` of a value, as its first f32. */
static CHECK_MAYBE_UNUSED float float_at(const umbo_value *value, int32_t index) {
    umbo_value *item = NULL;
    float number;
    CHECK_OK(umbo_value_item(value, index, &item));
    number = float_of(item);
    umbo_value_release(item);
    return number;
}

static CHECK_MAYBE_UNUSED umbo_value_info value_info_of(const umbo_value *value) {
    umbo_value_info info = UMBO_VALUE_INFO_INIT;
    CHECK_OK(umbo_value_get_info(value, &info));
    return info;
}

static CHECK_MAYBE_UNUSED umbo_value_kind kind_of(const umbo_value *value) {
    return value_info_of(value).kind;
}

static CHECK_MAYBE_UNUSED int64_t count_of(const umbo_value *value) {
    return value_info_of(value).item_count;
}

/* The first f32 of a variable, read outside of `run`. */
static CHECK_MAYBE_UNUSED float float_of_variable(const umbo_variable *variable) {
    umbo_tensor *tensor = NULL;
    float number = 0;
    umbo_view view;
    CHECK_OK(umbo_variable_read(variable, &tensor));
    CHECK_OK(umbo_tensor_view(tensor, &view));
    CHECK(view.dtype == UMBO_DTYPE_FLOAT32);
    number = *(const float *)view.data;
    umbo_tensor_release(tensor);
    return number;
}

static CHECK_MAYBE_UNUSED int64_t live(umbo_handle_type type) {
    int64_t count = -1;
    CHECK_OK(umbo_live_handles(type, &count));
    return count;
}

static CHECK_MAYBE_UNUSED int32_t replica_id(const umbo_replica_context *context) {
    umbo_replica_context_info info = UMBO_REPLICA_CONTEXT_INFO_INIT;
    CHECK_OK(umbo_replica_context_get_info(context, &info));
    return info.replica_id;
}

/* A run callback's result: this f32 scalar. */
static CHECK_MAYBE_UNUSED umbo_status return_float(float number, umbo_value **result) {
    *result = float_value(number);
    return UMBO_OK;
}

/* The tests of a folder are one program (runner.c), in which the `main` of each has another name. */
#ifdef UMBO_TEST_MAIN
#define main UMBO_TEST_MAIN
#endif

#endif
