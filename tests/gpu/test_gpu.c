/* GPUs from C, over the tests' own driver: devices, the caller's own work on the stream, memory that
 * the caller owns, training with the bits of CPUs. */
#define _GNU_SOURCE
#include <math.h>

#include "gpu_memory.h"

typedef int driver_result;
typedef uint64_t device_address;

/* The driver's functions that the test calls as a program with kernels of its own would. */
static driver_result (*driver_alloc)(device_address *, size_t);
static driver_result (*driver_free)(device_address);
static driver_result (*driver_to_host)(void *, device_address, size_t, void *);
static driver_result (*driver_to_device)(device_address, const void *, size_t, void *);
static driver_result (*driver_synchronize)(void *);
static driver_result (*driver_retain)(void **, int);
static driver_result (*driver_make_current)(void *);
static driver_result (*driver_make_stream)(void **, unsigned);
static driver_result (*driver_make_pool)(void **, const void *);
static driver_result (*driver_pool_attribute)(void *, int, void *);
static uint64_t (*ask)(const char *, char *, size_t);

static void find_driver(void) {
    DRIVER_FUNCTION(driver_alloc, "cuMemAlloc_v2");
    DRIVER_FUNCTION(driver_free, "cuMemFree_v2");
    DRIVER_FUNCTION(driver_to_host, "cuMemcpyDtoHAsync_v2");
    DRIVER_FUNCTION(driver_to_device, "cuMemcpyHtoDAsync_v2");
    DRIVER_FUNCTION(driver_synchronize, "cuStreamSynchronize");
    DRIVER_FUNCTION(driver_retain, "cuDevicePrimaryCtxRetain");
    DRIVER_FUNCTION(driver_make_current, "cuCtxSetCurrent");
    DRIVER_FUNCTION(driver_make_stream, "cuStreamCreate");
    DRIVER_FUNCTION(driver_make_pool, "cuMemPoolCreate");
    DRIVER_FUNCTION(driver_pool_attribute, "cuMemPoolGetAttribute");
    DRIVER_FUNCTION(ask, "fake_cuda_ask");
}

/* What GPU:0 works on. */
static void *own_stream;

enum { ELEMENTS = 5, STEPS = 8 };

typedef struct {
    umbo_variable *weights;
    umbo_gradients *gradients;
} training;

/* The gradient is w - target of the replica. On a GPU it is made as a kernel of the program's would:
 * by work that is queued on the context's stream. */
static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    const training *own = (const training *)user_data;
    float elements[ELEMENTS];
    umbo_view weights, gradient;
    umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
    void *stream, *scratch = NULL;
    int index;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_variable_view(own->weights, context, UMBO_DTYPE_NONE, &weights));
    UMBO_TRY(umbo_gradients_view(own->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    UMBO_TRY(umbo_replica_context_get_info(context, &here));
    stream = here.stream;
    UMBO_TRY(umbo_replica_context_scratch(context, sizeof(elements), &scratch));
    CHECK((stream != NULL) == (weights.device.type == UMBO_DEVICE_GPU));
    CHECK((stream == own_stream) == (stream != NULL && weights.device.ordinal == 0));
    CHECK(gradient.device.type == weights.device.type);
    if (stream != NULL) {
        CHECK(driver_to_host(elements, (device_address)(uintptr_t)weights.data, sizeof(elements),
                             stream) == 0);
        CHECK(driver_synchronize(stream) == 0);
    } else {
        memcpy(elements, weights.data, sizeof(elements));
    }
    for (index = 0; index < ELEMENTS; index++) {
        elements[index] -= (float)(replica_id(context) + index);
    }
    if (stream != NULL) {
        /* By way of the scratch memory, which is the GPU's too. */
        const device_address there = (device_address)(uintptr_t)gradient.mutable_data;
        const device_address between = (device_address)(uintptr_t)scratch;
        CHECK(driver_to_device(between, elements, sizeof(elements), stream) == 0);
        CHECK(driver_to_host(elements, between, sizeof(elements), stream) == 0);
        CHECK(driver_synchronize(stream) == 0);
        CHECK(driver_to_device(there, elements, sizeof(elements), stream) == 0);
    } else {
        memcpy(gradient.mutable_data, elements, sizeof(elements));
    }
    return umbo_gradients_submit_weighted(own->gradients, context, 1.0 + replica_id(context));
}

static void train(const char *const *devices, int64_t count, float *trained) {
    static const int64_t shape[1] = {ELEMENTS};
    static const float zeros[ELEMENTS] = {0};
    umbo_strategy *strategy = NULL;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_gradients_options gradients = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_tensor *initial = NULL;
    umbo_optimizer *optimizer = NULL;
    umbo_adam_options adam = UMBO_ADAM_OPTIONS_INIT;
    training own = {NULL, NULL};
    int index;
    options.compute_devices = devices;
    options.compute_device_count = count;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    CHECK_OK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 1, shape, zeros, NULL, &initial));
    CHECK_OK(umbo_variable_create(strategy, "w", initial, NULL, &own.weights));
    CHECK_OK(umbo_gradients_create(strategy, 1, &own.weights, UMBO_LOSS_MEAN, &gradients, &own.gradients));
    adam.learning_rate = 0.1;
    CHECK_OK(umbo_optimizer_create_adam(strategy, &adam, &optimizer));
    for (index = 0; index < STEPS; index++) {
        CHECK_OK(umbo_strategy_run(strategy, step, NULL, &own, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(optimizer, own.gradients, NULL, NULL));
    }
    CHECK_OK(umbo_strategy_synchronize(strategy));
    CHECK_OK(umbo_variable_download(own.weights, trained, ELEMENTS * sizeof(float)));
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(own.gradients);
    umbo_variable_release(own.weights);
    umbo_tensor_release(initial);
    umbo_strategy_release(strategy);
}

static void training_has_the_bits_of_cpus(void) {
    static const char *const cpus[2] = {"CPU:0", "CPU:1"};
    static const char *const gpus[2] = {"GPU:0", "GPU:1"};
    static const char *const mixed[2] = {"GPU:1", "CPU:0"};
    float expected[ELEMENTS], trained[ELEMENTS];
    CHECK_OK(umbo_device_set_logical_count(UMBO_DEVICE_CPU, 0, 2, NULL));
    train(cpus, 2, expected);
    CHECK(fabsf(expected[4] - 0.8f) < 0.1f);
    train(gpus, 2, trained);
    CHECK(memcmp(trained, expected, sizeof(trained)) == 0);
    train(mixed, 2, trained);
    CHECK(memcmp(trained, expected, sizeof(trained)) == 0);
}

static void devices(void) {
    static const size_t limits[2] = {1 << 20, 4096};
    static const size_t none[1] = {0};
    int32_t works = 0;
    umbo_tensor *tensor = NULL;
    umbo_device_info info = UMBO_DEVICE_INFO_INIT;
    static const int64_t large[1] = {4097};
    CHECK_OK(umbo_build_has_feature("cuda", &works));
    CHECK(works == 1);
    CHECK_STATUS(umbo_device_set_logical_count(UMBO_DEVICE_GPU, 0, 1, none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("limits");
    CHECK_STATUS(umbo_device_set_logical_count(UMBO_DEVICE_CPU, 0, 2, limits),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("memory_limits");
    CHECK_OK(umbo_device_set_logical_count(UMBO_DEVICE_GPU, 1, 2, limits));
    CHECK_STATUS(umbo_device_set_logical_count(3, 0, 1, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("type: 3; valid are UMBO_DEVICE_CPU (401) and UMBO_DEVICE_GPU (402)");
    CHECK_OK(umbo_device_get_info("CPU:7", &info));
    CHECK(info.name == NULL && info.device.ordinal == 7 && info.total_bytes == 0);
    CHECK_OK(umbo_device_get_info("GPU:0", &info));
    CHECK(info.name != NULL && info.logical_count == 3 && info.physical_count == 2 && info.total_bytes > 4096);
    CHECK(info.physical_ordinal == 0);
    CHECK_OK(umbo_device_get_info("GPU:1", &info));
    CHECK(info.physical_ordinal == 1);
    CHECK_STATUS(umbo_tensor_create_zeros(UMBO_DTYPE_INT8, 1, large, "GPU:2", &tensor),
                 UMBO_STATUS_RESOURCE_EXHAUSTED);
    CHECK_MESSAGE("GPU:2: 4097 bytes; its limit is 4096, and 4096 are left");
    CHECK_OK(umbo_device_get_info("GPU:2", &info));
    CHECK(info.total_bytes == 4096 && info.available_bytes == 4096);
    CHECK_STATUS(umbo_device_set_logical_count(UMBO_DEVICE_GPU, 1, 1, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_device_set_stream("GPU:2", &works), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_device_set_stream("CPU:0", &works), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_device_set_stream("GPU:9", NULL), UMBO_STATUS_NOT_FOUND);
    CHECK_OK(umbo_device_set_stream("GPU:0", NULL));
}

/* A stream of the program's, of the GPU's primary context, takes the place of the library's. */
static void a_stream_of_the_program(void) {
    void *context = NULL;
    CHECK(driver_retain(&context, 0) == 0);
    CHECK(driver_make_current(context) == 0);
    CHECK(driver_make_stream(&own_stream, 0) == 0);
    CHECK(driver_make_current(NULL) == 0);
    CHECK_OK(umbo_device_set_stream("GPU:0", own_stream));
}

/* As CUmemPoolProps: pinned memory of a device, with no handles for other processes. */
typedef struct {
    int allocations, handles, location, device;
    unsigned char rest[72];
} pool_properties;

static void *own_pool;

static uint64_t bytes_of_pool(void) {
    uint64_t bytes = UINT64_MAX;
    CHECK(driver_pool_attribute(own_pool, 7 /* CU_MEMPOOL_ATTR_USED_MEM_CURRENT */, &bytes) == 0);
    return bytes;
}

/* A pool of the program's, from which a GPU's memory comes and to which it goes back. */
static void a_pool_of_the_program(void) {
    static const int64_t shape[1] = {1000};
    pool_properties properties;
    umbo_tensor *tensor = NULL;
    uint64_t before;
    memset(&properties, 0, sizeof(properties));
    properties.allocations = 1;
    properties.location = 1;
    properties.device = 1;
    CHECK(driver_make_pool(&own_pool, &properties) == 0);
    CHECK_STATUS(umbo_device_set_memory_pool("CPU:0", own_pool), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("pool");
    CHECK_STATUS(umbo_device_set_memory_pool("GPU:9", own_pool), UMBO_STATUS_NOT_FOUND);
    CHECK_OK(umbo_device_set_memory_pool("GPU:1", NULL));
    CHECK_OK(umbo_device_set_memory_pool("GPU:1", own_pool));
    CHECK(bytes_of_pool() == 0);
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, shape, "GPU:1", &tensor));
    before = bytes_of_pool();
    CHECK(before >= 4000);
    CHECK_STATUS(umbo_device_set_memory_pool("GPU:1", NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("before the first use");
    umbo_tensor_release(tensor);
    /* What is freed on the stream is free when the stream has come there. */
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, shape, "GPU:1", &tensor));
    CHECK_OK(umbo_tensor_download(tensor, (float[1000]){0}, 4000));
    CHECK(bytes_of_pool() == before);
    umbo_tensor_release(tensor);
}

static void count_call(void *user_data) { ++*(int *)user_data; }

/* Memory that the program has on a GPU becomes a tensor, without a copy. */
static void memory_of_the_program(void) {
    static const int64_t shape[1] = {3};
    static const float numbers[3] = {1, 2, 3};
    float back[3] = {0, 0, 0};
    umbo_tensor *own = NULL, *there = NULL, *copy = NULL;
    umbo_view view;
    int destroyed = 0;
    CHECK_OK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 1, shape, numbers, "GPU:0", &own));
    CHECK_OK(umbo_tensor_mutable_view(own, &view));
    CHECK(view.device.type == UMBO_DEVICE_GPU && view.device.ordinal == 0);
    CHECK_OK(umbo_tensor_from_memory(UMBO_DTYPE_FLOAT32, 1, shape, NULL, view.mutable_data, "GPU:0",
                                     &destroyed, count_call, &there));
    CHECK_OK(umbo_tensor_copy(there, "GPU:1", &copy));
    CHECK_OK(umbo_tensor_download(copy, back, sizeof(back)));
    CHECK(memcmp(back, numbers, sizeof(back)) == 0);
    CHECK(destroyed == 0);
    umbo_tensor_release(there);
    CHECK(destroyed == 1);
    umbo_tensor_release(copy);
    umbo_tensor_release(own);
}

/* Scores, labels and what was predicted, on the replica's own device: metrics read them where they are. */
enum { EXAMPLES = 6, CLASSES = 3, BINS = 8 };

typedef struct {
    umbo_metrics *metrics;
} measured;

static int is_on_gpu(umbo_replica_context *context) {
    umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
    CHECK_OK(umbo_replica_context_get_info(context, &here));
    return strstr(here.device, "GPU") != NULL;
}

static umbo_status measure(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    const measured *own = (const measured *)user_data;
    const int32_t replica = replica_id(context);
    const int64_t shapes[2] = {EXAMPLES, CLASSES}, turned[2] = {CLASSES, EXAMPLES};
    const int32_t order[2] = {1, 0};
    float rows[EXAMPLES * CLASSES], scores[EXAMPLES];
    int32_t labels[EXAMPLES];
    uint8_t binary[EXAMPLES];
    const int64_t single = 1;
    int64_t predicted = 1, label = 2;
    umbo_tensor *tensors[5] = {NULL, NULL, NULL, NULL, NULL};
    umbo_view views[5], one[2];
    umbo_status status = UMBO_OK;
    int index;
    (void)args;
    (void)result;
    for (index = 0; index < EXAMPLES * CLASSES; index++) {
        /* The scores of one class after the other, so that the rows of examples are strided. */
        rows[index] = (float)((index * 7 + replica * 5) % 11);
    }
    for (index = 0; index < EXAMPLES; index++) {
        labels[index] = (index + replica) % CLASSES;
        binary[index] = (uint8_t)((index ^ replica) & 1);
        scores[index] = (float)(index + replica) / 8.0f;
    }
    UMBO_TRY_ELSE(status, umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 2, turned, rows, NULL, &tensors[0]), out);
    UMBO_TRY_ELSE(status, umbo_tensor_transpose(tensors[0], order, &tensors[1]), out);
    UMBO_TRY_ELSE(status, umbo_tensor_from_data(UMBO_DTYPE_INT32, 1, shapes, labels, NULL, &tensors[2]), out);
    UMBO_TRY_ELSE(status, umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 1, shapes, scores, NULL, &tensors[3]), out);
    UMBO_TRY_ELSE(status, umbo_tensor_from_data(UMBO_DTYPE_UINT8, 1, shapes, binary, NULL, &tensors[4]), out);
    for (index = 0; index < 5; index++) {
        UMBO_TRY_ELSE(status, umbo_tensor_view(tensors[index], &views[index]), out);
        CHECK((views[index].device.type == UMBO_DEVICE_GPU) == is_on_gpu(context));
    }
    UMBO_TRY_ELSE(status, umbo_metrics_add_labels(own->metrics, context, "matrix", &views[1], &views[2], NULL), out);
    UMBO_TRY_ELSE(status, umbo_metrics_add_labels(own->metrics, context, "auc", &views[3], &views[4], NULL), out);
    one[0] = umbo_view_of_memory(UMBO_DTYPE_INT64, 1, &single, &predicted);
    one[1] = umbo_view_of_memory(UMBO_DTYPE_INT64, 1, &single, &label);
    UMBO_TRY_ELSE(status, umbo_metrics_add_labels(own->metrics, context, "matrix", &one[0], &one[1], NULL), out);
    /* A class that there is not is named as it is elsewhere. */
    CHECK_STATUS(umbo_metrics_add_labels(own->metrics, context, "matrix", &views[2], &views[3], NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
out:
    for (index = 0; index < 5; index++) umbo_tensor_release(tensors[index]);
    return status;
}

typedef struct {
    umbo_metric_result auc;
    double matrix[CLASSES * CLASSES];
} measurements;

static void measure_on(const char *const *devices, measurements *all) {
    umbo_strategy *strategy = NULL;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_metric_options of_metric = UMBO_METRIC_OPTIONS_INIT;
    umbo_metric_result empty = UMBO_METRIC_RESULT_INIT;
    measured own = {NULL};
    int64_t count = 0;
    int run;
    options.compute_devices = devices;
    options.compute_device_count = 2;
    options.strict = 1;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    CHECK_OK(umbo_metrics_create(strategy, &own.metrics));
    of_metric.class_count = CLASSES;
    of_metric.bin_count = BINS;
    CHECK_OK(umbo_metrics_define(own.metrics, "matrix", UMBO_METRIC_CONFUSION, &of_metric));
    CHECK_OK(umbo_metrics_define(own.metrics, "auc", UMBO_METRIC_AUC, &of_metric));
    for (run = 0; run < 3; run++) CHECK_OK(umbo_strategy_run(strategy, measure, NULL, &own, NULL, NULL));
    all->auc = empty;
    CHECK_OK(umbo_metrics_result(own.metrics, "auc", &all->auc));
    CHECK_OK(umbo_metrics_cells(own.metrics, "matrix", all->matrix, CLASSES * CLASSES, &count));
    umbo_metrics_release(own.metrics);
    umbo_strategy_release(strategy);
}

static void metrics_of_gpus_are_those_of_cpus(void) {
    static const char *const places[4][2] = {
        {"CPU:0", "CPU:1"}, {"GPU:0", "GPU:1"}, {"GPU:1", "CPU:0"}, {"CPU:1", "GPU:0"}};
    measurements all[4];
    int place;
    for (place = 0; place < 4; place++) {
        measure_on(places[place], &all[place]);
        CHECK(all[place].auc.weight > 0 && all[place].auc.mean == all[0].auc.mean);
        CHECK(memcmp(all[place].matrix, all[0].matrix, sizeof(all[0].matrix)) == 0);
    }
}

/* A trainer lends arrays of the program, so that it takes no GPU. */
static umbo_status no_lesson(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
    (void)rows, (void)weights, (void)gradient, (void)user_data, (void)loss;
    return UMBO_OK;
}

static void trainers(void) {
    static const char *const devices_of[3][2] = {{"GPU:0", "GPU:1"}, {"CPU:0", "GPU:1"}, {"CPU:0", "CPU:1"}};
    for (int at = 0; at < 4; at++) {
        float weights[2] = {0};
        umbo_strategy_options own = UMBO_STRATEGY_OPTIONS_INIT;
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        umbo_parameters parameters;
        umbo_trainer *trainer = NULL;
        memset(&parameters, 0, sizeof(parameters));
        parameters.weights = weights, parameters.count = 2;
        own.compute_devices = devices_of[at < 3 ? at : 2];
        own.compute_device_count = 2;
        if (at == 2) own.parameter_device = "GPU:0";
        CHECK_OK(umbo_strategy_create(&own, &options.strategy));
        if (at < 3) {
            CHECK_STATUS(umbo_trainer_create_with_arrays(1, &parameters, &options, &trainer), UMBO_STATUS_UNIMPLEMENTED);
            CHECK_MESSAGE("a trainer lends arrays of the program");
        } else {
            CHECK_OK(umbo_trainer_create_with_arrays(1, &parameters, &options, &trainer));
            CHECK_OK(umbo_trainer_step(trainer, 0, 3, no_lesson, NULL, NULL));
            umbo_trainer_release(trainer);
        }
        umbo_strategy_release(options.strategy);
    }
}

/* A batch in arrays of the program, over GPUs and CPUs: parts on GPUs are those of the split, and on CPUs those
 * of the run. */
static umbo_status see_batch(umbo_replica_context *context, const umbo_value *args, void *user_data,
                             umbo_value **result) {
    const float *const numbers_of = (const float *)user_data;
    const int64_t share = 3, at = replica_id(context) * share, count = at + share <= 5 ? share : 5 - at;
    float numbers[3][2];
    umbo_view part;
    umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
    (void)result;
    UMBO_TRY(umbo_replica_context_get_info(context, &here));
    UMBO_TRY(umbo_value_view(args, "x", UMBO_DTYPE_FLOAT32, &part));
    CHECK(part.shape[0] == count && part.shape[1] == 2 && part.strides[1] == 1);
    for (int64_t row = 0; row < count; row++) {
        const float *const from = (const float *)part.data + row * part.strides[0];
        if (part.device.type == UMBO_DEVICE_GPU) {
            CHECK(driver_to_host(numbers[row], (device_address)(uintptr_t)from, sizeof(numbers[row]), here.stream) == 0);
            CHECK(driver_synchronize(here.stream) == 0);
        } else {
            memcpy(numbers[row], from, sizeof(numbers[row]));
        }
        for (int k = 0; k < 2; k++) {
            const float first = numbers_of[part.device.type == UMBO_DEVICE_GPU ? 0 : 1];
            CHECK(numbers[row][k] == first + (float)(10 * (at + row) + k));
        }
    }
    return UMBO_OK;
}

static void a_batch_of_the_program(void) {
    static const char *const devices_of[3][2] = {{"GPU:0", "GPU:1"}, {"CPU:0", "GPU:1"}, {"GPU:1", "CPU:0"}};
    static const char *const names[1] = {"x"};
    for (int at = 0; at < 3; at++)
        for (int64_t room = 0; room < 2; room++) {
            const int64_t shape[2] = {5, 2};
            float x[15] = {0};
            umbo_view view = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, shape, x);
            umbo_strategy_options own = UMBO_STRATEGY_OPTIONS_INIT;
            umbo_strategy *strategy = NULL;
            umbo_value *batch = NULL;
            view.strides[0] += room;
            own.compute_devices = devices_of[at];
            own.compute_device_count = 2;
            CHECK_OK(umbo_strategy_create(&own, &strategy));
            for (int turn = 0; turn < 6; turn++) {
                const float first = (float)turn, numbers_of[2] = {first - (float)(turn % 2), first};
                for (int64_t row = 0; row < 5; row++)
                    for (int k = 0; k < 2; k++) x[row * view.strides[0] + k] = first + (float)(10 * row + k);
                if (turn % 2 == 0) CHECK_OK(umbo_strategy_split_arrays(strategy, 1, names, &view, &batch));
                CHECK_OK(umbo_strategy_run(strategy, see_batch, batch, (void *)(uintptr_t)numbers_of, NULL, NULL));
                if (turn % 2 == 1) umbo_value_release(batch);
            }
            umbo_strategy_release(strategy);
        }
}

int main(void) {
    char texts[4096];
    find_driver();
    devices();
    a_stream_of_the_program();
    a_pool_of_the_program();
    memory_of_the_program();
    training_has_the_bits_of_cpus();
    metrics_of_gpus_are_those_of_cpus();
    trainers();
    a_batch_of_the_program();
    if (ask("reports", texts, sizeof(texts)) != 0) fprintf(stderr, "the driver reports:\n%s\n", texts);
    CHECK(ask("reports", NULL, 0) == 0);
    return finish();
}
