/* A rule of the program's with a function for GPUs, over the tests' own driver: the bits of its function for CPUs. */
#define _GNU_SOURCE
#include "gpu_memory.h"

typedef int driver_result;
typedef uint64_t device_address;

/* The driver's functions that the rule calls as a program with kernels of its own would. */
static driver_result (*driver_to_host)(void *, device_address, size_t, void *);
static driver_result (*driver_to_device)(device_address, const void *, size_t, void *);
static driver_result (*driver_synchronize)(void *);
static uint64_t (*ask)(const char *, char *, size_t);

static void find_driver(void) {
    DRIVER_FUNCTION(driver_to_host, "cuMemcpyDtoHAsync_v2");
    DRIVER_FUNCTION(driver_to_device, "cuMemcpyHtoDAsync_v2");
    DRIVER_FUNCTION(driver_synchronize, "cuStreamSynchronize");
    DRIVER_FUNCTION(ask, "fake_cuda_ask");
}

enum { ELEMENTS = 5, STEPS = 8 };

/* Momentum as a rule of the program's. A program has a kernel for what is done here by way of the host,
 * with work that is queued on the stream. */
typedef struct {
    int calls;
    /* The call that fails, from 1. */
    int fails;
    int rows;
    int destroyed;
} own_rule;

enum { MOST = 64 };

static void own_on_cpu(const umbo_update_tile *tile, void *user_data) {
    float *weights = (float *)tile->weights, *sums = (float *)tile->states[0];
    const float *gradient = (const float *)tile->gradient;
    int64_t at;
    (void)user_data;
    for (at = 0; at < tile->count; at++) {
        sums[at] = 0.5f * sums[at] + gradient[at];
        weights[at] = weights[at] - (float)tile->learning_rate * sums[at];
        weights[at] = weights[at] - (float)tile->weight_decay * weights[at];
    }
}

static umbo_status own_on_gpu(const umbo_gpu_update *update, void *user_data) {
    own_rule *own = (own_rule *)user_data;
    const size_t bytes = (size_t)update->count * sizeof(float);
    float weights[MOST], gradient[MOST], sums[MOST];
    int64_t numbers[MOST];
    void *states[1];
    umbo_update_tile tile;
    umbo_device_info info = UMBO_DEVICE_INFO_INIT;
    const int fails = ++own->calls == own->fails;
    CHECK(update->struct_size == sizeof(*update));
    CHECK(update->dtype == UMBO_DTYPE_FLOAT32 && update->state_count == 1 && update->count <= MOST);
    CHECK(update->device.type == UMBO_DEVICE_GPU && update->device.ordinal == 1);
    CHECK_STATUS(umbo_device_get_info("GPU:0", &info), UMBO_STATUS_FAILED_PRECONDITION);
    if (update->row_count > 0) {
        own->rows++;
        CHECK(driver_to_host(numbers, (device_address)(uintptr_t)update->rows,
                             (size_t)update->row_count * sizeof(int64_t), update->stream) == 0);
    }
    CHECK(driver_to_host(weights, (device_address)(uintptr_t)update->weights, bytes, update->stream) == 0);
    CHECK(driver_to_host(gradient, (device_address)(uintptr_t)update->gradient, bytes, update->stream) == 0);
    CHECK(driver_to_host(sums, (device_address)(uintptr_t)update->states[0], bytes, update->stream) == 0);
    CHECK(driver_synchronize(update->stream) == 0);
    if (update->row_count > 0) {
        CHECK(update->count == update->row_count * 4 && update->row_count == 2);
        CHECK(numbers[0] == 1 && numbers[1] == 5);
    }
    states[0] = sums;
    memset(&tile, 0, sizeof(tile));
    tile.count = update->count;
    tile.weights = weights;
    tile.gradient = gradient;
    tile.states = states;
    tile.learning_rate = update->learning_rate;
    tile.weight_decay = update->weight_decay;
    own_on_cpu(&tile, user_data);
    CHECK(driver_to_device((device_address)(uintptr_t)update->weights, weights, bytes, update->stream) == 0);
    CHECK(driver_to_device((device_address)(uintptr_t)update->states[0], sums, bytes, update->stream) == 0);
    CHECK(driver_synchronize(update->stream) == 0);
    if (fails) return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "the kernel is not to be had", NULL, NULL);
    return UMBO_OK;
}

static void own_destroy(void *user_data) { ((own_rule *)user_data)->destroyed++; }

/* Two variables: all of the one is updated, and two rows of the other. */
static umbo_status own_step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    umbo_gradients *gradients = (umbo_gradients *)user_data;
    static const int64_t rows[2] = {5, 1};
    float elements[8];
    umbo_view view, indices, values;
    int at;
    (void)args;
    (void)result;
    for (at = 0; at < 8; at++) elements[at] = (float)(at + replica_id(context)) / 4.0f;
    UMBO_TRY(umbo_gradients_view(gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    memcpy(view.mutable_data, elements, ELEMENTS * sizeof(float));
    UMBO_TRY(umbo_gradients_add_rows(gradients, context, 1, 2, &indices, &values));
    memcpy(indices.mutable_data, rows, sizeof(rows));
    memcpy(values.mutable_data, elements, sizeof(elements));
    return umbo_gradients_submit_weighted(gradients, context, 1.0);
}

/* Trains with variables on the device, while one call of the rule fails. */
static void train_own(const char *parameter_device, int fails, float *trained) {
    static const char *const devices[2] = {"CPU:0", "CPU:1"};
    static const char *const states[1] = {"sums"};
    static const int64_t shapes[2][2] = {{ELEMENTS, 1}, {7, 4}};
    static const float zeros[28] = {0};
    static const int32_t row_sparse[2] = {0, 1};
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_gradients_options of_gradients = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_custom_rule_options of_rule = UMBO_CUSTOM_RULE_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    umbo_variable *variables[2];
    umbo_gradients *gradients = NULL;
    umbo_optimizer *optimizer = NULL;
    umbo_tensor *initial = NULL;
    own_rule own = {0, 0, 0, 0};
    const int on_gpu = strcmp(parameter_device, "GPU:1") == 0;
    int index, failures = 0;
    own.fails = fails;
    options.compute_devices = devices;
    options.compute_device_count = 2;
    options.parameter_device = parameter_device;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    for (index = 0; index < 2; index++) {
        CHECK_OK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 2, shapes[index], zeros, NULL, &initial));
        CHECK_OK(umbo_variable_create(strategy, "w", initial, NULL, &variables[index]));
        umbo_tensor_release(initial);
    }
    of_gradients.row_sparse = row_sparse;
    CHECK_OK(umbo_gradients_create(strategy, 2, variables, UMBO_LOSS_MEAN, &of_gradients, &gradients));
    of_rule.learning_rate = 0.25;
    of_rule.weight_decay = 0.125;
    of_rule.decoupled_weight_decay = 1;
    of_rule.state_count = 1;
    of_rule.state_names = states;
    of_rule.update_on_gpu = own_on_gpu;
    CHECK_OK(umbo_optimizer_create_custom(strategy, own_on_cpu, &own, own_destroy, &of_rule, &optimizer));
    for (index = 0; index < STEPS; index++) {
        CHECK_OK(umbo_strategy_run(strategy, own_step, NULL, gradients, NULL, NULL));
        while (umbo_optimizer_apply(optimizer, gradients, NULL, NULL) != UMBO_OK) {
            CHECK_MESSAGE("the kernel is not to be had");
            CHECK(++failures == 1);
        }
    }
    /* An apply that failed at the first variable has not come to the second. */
    CHECK(failures == (on_gpu && fails != 0));
    CHECK(own.calls == on_gpu * (2 * STEPS + (fails == 0 ? 0 : 2 - fails % 2)));
    CHECK(own.rows == on_gpu * (STEPS + (fails != 0 && fails % 2 == 0)));
    CHECK_OK(umbo_variable_download(variables[0], trained, ELEMENTS * sizeof(float)));
    CHECK_OK(umbo_variable_download(variables[1], trained + ELEMENTS, sizeof(zeros)));
    umbo_optimizer_release(optimizer);
    CHECK(own.destroyed == 1);
    umbo_gradients_release(gradients);
    umbo_variable_release(variables[0]);
    umbo_variable_release(variables[1]);
    umbo_strategy_release(strategy);
}

static void a_rule_of_the_program(void) {
    float on_cpu[ELEMENTS + 28], on_gpu[ELEMENTS + 28];
    int fails;
    train_own("CPU:0", 0, on_cpu);
    for (fails = 0; fails < 6; fails++) {
        train_own("GPU:1", fails, on_gpu);
        CHECK(memcmp(on_cpu, on_gpu, sizeof(on_cpu)) == 0);
    }
}

int main(void) {
    char texts[4096];
    umbo_device_info info = UMBO_DEVICE_INFO_INIT;
    CHECK_OK(umbo_device_set_logical_count(UMBO_DEVICE_CPU, 0, 2, NULL));
    CHECK_OK(umbo_device_get_info("GPU:1", &info)); /* loads the driver, in which functions are found */
    find_driver();
    a_rule_of_the_program();
    if (ask("reports", texts, sizeof(texts)) != 0) fprintf(stderr, "the driver reports:\n%s\n", texts);
    CHECK(ask("reports", NULL, 0) == 0);
    return finish();
}
