/* Own kernels on GPUs: a step that queues them on the stream of its replica, and the same step on CPUs.
 *
 *   05_gpu_kernels FOLDER [DEVICE...]
 *
 * FOLDER has images and labels of handwritten digits; the devices are all GPUs unless they are named. Each
 * replica asks its context for the stream and queues the kernels of network.cu there. It gets device
 * pointers (to its part of the batch, to the variables, to the gradients) and returns before they have
 * been used: the run waits. Where a replica is on a CPU the same functions run in loops. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbo/io.h>
#include <umbo/umbo.h>

#include "kernels.h" /* network.cu, compiled: the text `network_ptx` */
#include "network.h"

enum { BATCH = 64, EPOCHS = 25, MOST_EXAMPLES = 320, MOST_REPLICAS = 16, THREADS = 64 };

/* As cuda.h declares them, which this example does not need to be compiled. */
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
static int (*load_module)(CUmodule *, const void *);
static int (*find_function)(CUfunction *, CUmodule, const char *);
static int (*launch_kernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            void *stream, void **arguments, void **extra);

enum { HIDDEN_KERNEL, ERRORS_KERNEL, GRADIENT2_KERNEL, BACK_KERNEL, GRADIENT1_KERNEL, KERNELS };
static const char *const kernel_names[KERNELS] = {"hidden", "errors", "gradient2", "back", "gradient1"};

typedef struct {
    umbo_variable *variables[4];
    umbo_gradients *gradients;
    /* For each replica on a GPU, once it has loaded them. */
    CUfunction kernels[MOST_REPLICAS][KERNELS];
} trainer;

/* Finds the driver's functions, which are there where a GPU is. */
static int find_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) return 0;
    *(void **)&load_module = dlsym(driver, "cuModuleLoadData");
    *(void **)&find_function = dlsym(driver, "cuModuleGetFunction");
    *(void **)&launch_kernel = dlsym(driver, "cuLaunchKernel");
    return load_module != NULL && find_function != NULL && launch_kernel != NULL;
}

/* In a callback the context of the replica's GPU is current: what is loaded there belongs to it. */
static umbo_status load_kernels(CUfunction *kernels) {
    CUmodule module;
    int kernel;
    if (load_module(&module, network_ptx) != 0) {
        return umbo_set_last_error(UMBO_STATUS_UNAVAILABLE, "the driver does not take the kernels", NULL, NULL);
    }
    for (kernel = 0; kernel < KERNELS; ++kernel) {
        if (find_function(&kernels[kernel], module, kernel_names[kernel]) != 0) {
            return umbo_set_last_error(UMBO_STATUS_INTERNAL, kernel_names[kernel], NULL, NULL);
        }
    }
    return UMBO_OK;
}

static umbo_status queue(CUfunction kernel, int threads, layers *arrays, work *w, void *stream) {
    void *arguments[2];
    arguments[0] = arrays;
    arguments[1] = w;
    if (threads > 0 && launch_kernel(kernel, (unsigned)(threads + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0,
                                     stream, arguments, NULL) != 0) {
        return umbo_set_last_error(UMBO_STATUS_UNAVAILABLE, "a kernel was not launched", NULL, NULL);
    }
    return UMBO_OK;
}

static umbo_status on_gpu(const CUfunction *kernels, layers *net, layers *gradient, work *w, void *stream) {
    UMBO_TRY(queue(kernels[HIDDEN_KERNEL], w->examples * HIDDEN, net, w, stream));
    UMBO_TRY(queue(kernels[ERRORS_KERNEL], w->examples, net, w, stream));
    UMBO_TRY(queue(kernels[GRADIENT2_KERNEL], CLASSES * (HIDDEN + 1), gradient, w, stream));
    UMBO_TRY(queue(kernels[BACK_KERNEL], w->examples * HIDDEN, net, w, stream));
    return queue(kernels[GRADIENT1_KERNEL], HIDDEN * (PIXELS + 1), gradient, w, stream);
}

static void on_cpu(const layers *net, const layers *gradient, const work *w) {
    int i, j;
    for (i = 0; i < w->examples; ++i) {
        for (j = 0; j < HIDDEN; ++j) compute_hidden(net, w, i, j);
        compute_errors(net, w, i);
    }
    for (i = 0; i < CLASSES; ++i)
        for (j = 0; j <= HIDDEN; ++j) compute_gradient2(gradient, w, i, j);
    for (i = 0; i < w->examples; ++i)
        for (j = 0; j < HIDDEN; ++j) compute_back(net, w, i, j);
    for (i = 0; i < HIDDEN; ++i)
        for (j = 0; j <= PIXELS; ++j) compute_gradient1(gradient, w, i, j);
}

static layers layers_of(const umbo_view *views, int writes) {
    float *start[4];
    layers all;
    int i;
    for (i = 0; i < 4; ++i) start[i] = (float *)(uintptr_t)(writes ? views[i].mutable_data : views[i].data);
    all.weights1 = start[0];
    all.biases1 = start[1];
    all.weights2 = start[2];
    all.biases2 = start[3];
    return all;
}

/* Runs on all replicas at the same time. The batch is a pair: images and labels. */
static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
    trainer *own = (trainer *)user_data;
    umbo_view images, labels, variables[4], buffers[4];
    umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
    void *scratch = NULL;
    layers net, gradient;
    work w;
    (void)result;
    UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
    UMBO_TRY(umbo_value_view(batch, "images", UMBO_DTYPE_NONE, &images));
    UMBO_TRY(umbo_value_view(batch, "labels", UMBO_DTYPE_NONE, &labels));
    UMBO_TRY(umbo_variable_views(4, own->variables, ctx, variables));
    UMBO_TRY(umbo_gradients_views(own->gradients, ctx, UMBO_GRADIENT_OVERWRITE, 4, buffers));
    w.examples = (int)images.shape[0];
    w.pixels = (const unsigned char *)images.data;
    w.labels = (const unsigned char *)labels.data;
    UMBO_TRY(umbo_replica_context_scratch(ctx, (size_t)w.examples * (HIDDEN + CLASSES + 1) * sizeof(float), &scratch));
    w.hidden = (float *)scratch;
    w.outputs = w.hidden + w.examples * HIDDEN;
    w.losses = w.outputs + w.examples * CLASSES;
    net = layers_of(variables, 0);
    gradient = layers_of(buffers, 1);
    if (here.stream == NULL) {
        on_cpu(&net, &gradient, &w);
    } else {
        if (own->kernels[here.replica_id][0] == NULL) UMBO_TRY(load_kernels(own->kernels[here.replica_id]));
        UMBO_TRY(on_gpu(own->kernels[here.replica_id], &net, &gradient, &w, here.stream));
    }
    return umbo_gradients_submit(own->gradients, ctx);
}

/* What the network makes of examples that it has not seen: how often its largest output is the right one. */
static double accuracy(const trainer *own, umbo_iterator *iterator) {
    layers net;
    umbo_view images, labels;
    umbo_tensor *values[4];
    umbo_view views[4];
    umbo_value *batch = NULL;
    int64_t right = 0, all = 0, example;
    float hidden[HIDDEN];
    int i, class_, best;
    for (i = 0; i < 4; ++i) {
        umbo_tensor *there = NULL;
        UMBO_CHECK(umbo_variable_read(own->variables[i], &there));
        UMBO_CHECK(umbo_tensor_copy(there, "CPU:0", &values[i])); /* wherever the variables are */
        UMBO_CHECK(umbo_tensor_view(values[i], &views[i]));
        umbo_tensor_release(there);
    }
    net = layers_of(views, 0);
    for (;;) {
        UMBO_CHECK(umbo_iterator_next(iterator, &batch));
        if (batch == NULL) break;
        UMBO_CHECK(umbo_value_view(batch, "images", UMBO_DTYPE_UINT8, &images));
        UMBO_CHECK(umbo_value_view(batch, "labels", UMBO_DTYPE_UINT8, &labels));
        for (example = 0; example < images.shape[0]; ++example) {
            float outputs[CLASSES], loss = 0;
            work w;
            w.examples = 1;
            w.pixels = (const unsigned char *)images.data + example * PIXELS;
            w.labels = (const unsigned char *)labels.data + example;
            w.hidden = hidden;
            w.outputs = outputs;
            w.losses = &loss;
            for (i = 0; i < HIDDEN; ++i) compute_hidden(&net, &w, 0, i);
            compute_errors(&net, &w, 0);
            outputs[w.labels[0]] += 1; /* the outputs themselves */
            for (best = 0, class_ = 1; class_ < CLASSES; ++class_)
                if (outputs[class_] > outputs[best]) best = class_;
            right += best == w.labels[0];
            ++all;
        }
        umbo_value_release(batch);
    }
    for (i = 0; i < 4; ++i) umbo_tensor_release(values[i]);
    return (double)right / (double)all;
}

static umbo_variable *make_variable(umbo_strategy *strategy, const char *name, int64_t rows, int64_t columns) {
    const int64_t shape[2] = {rows, columns};
    umbo_variable *variable = NULL;
    UMBO_CHECK(umbo_variable_create_drawn(strategy, name, UMBO_DTYPE_FLOAT32, 2, shape,
                                          columns == 1 ? UMBO_INITIAL_ZEROS : UMBO_INITIAL_GLOROT_UNIFORM, 1,
                                          &variable));
    return variable;
}

static umbo_dataset *open_digits(const char *folder, const char *set) {
    static const char *const names[2] = {"images", "labels"};
    char paths[2][512];
    const char *both[2];
    umbo_dataset *dataset = NULL;
    snprintf(paths[0], sizeof(paths[0]), "%s/%s-images-idx3-ubyte", folder, set);
    snprintf(paths[1], sizeof(paths[1]), "%s/%s-labels-idx1-ubyte", folder, set);
    both[0] = paths[0];
    both[1] = paths[1];
    UMBO_CHECK(umbo_dataset_from_idx_files(2, names, both, &dataset));
    UMBO_CHECK(umbo_dataset_take(&dataset, MOST_EXAMPLES));
    UMBO_CHECK(umbo_dataset_batch(&dataset, BATCH, 0));
    return dataset;
}

int main(int count, char **words) {
    umbo_strategy *strategy = NULL;
    umbo_optimizer *optimizer = NULL;
    umbo_dataset *digits = NULL, *unseen = NULL;
    umbo_distributed_dataset *input = NULL;
    umbo_iterator *iterator = NULL, *test = NULL;
    trainer own;
    int32_t replica;
    umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
    int64_t replicas = 0;
    int epoch, gpus = 0;
    if (count < 2) {
        fprintf(stderr, "usage: %s FOLDER [DEVICE...]\n", words[0]);
        return 2;
    }
    memset(&own, 0, sizeof(own));
    UMBO_CHECK(umbo_strategy_create(
        &UMBO_OPTIONS(umbo_strategy, .compute_device_count = count - 2,
                      .compute_devices = (const char *const *)(count > 2 ? words + 2 : NULL)),
        &strategy));
    UMBO_CHECK(umbo_strategy_get_info(strategy, &info));
    replicas = info.replica_count;
    for (replica = 0; replica < (int32_t)replicas; ++replica) {
        const char *device = NULL;
        UMBO_CHECK(umbo_strategy_compute_device(strategy, replica, &device));
        gpus += strstr(device, "GPU") != NULL;
    }
    if (replicas > MOST_REPLICAS || (gpus > 0 && !find_driver())) {
        fprintf(stderr, "more than %d replicas, or no driver\n", (int)MOST_REPLICAS);
        return 1;
    }
    own.variables[0] = make_variable(strategy, "weights1", HIDDEN, PIXELS);
    own.variables[1] = make_variable(strategy, "biases1", HIDDEN, 1);
    own.variables[2] = make_variable(strategy, "weights2", CLASSES, HIDDEN);
    own.variables[3] = make_variable(strategy, "biases2", CLASSES, 1);
    UMBO_CHECK(umbo_gradients_create(strategy, 4, own.variables, UMBO_LOSS_SUM, NULL, &own.gradients));
    UMBO_CHECK(umbo_optimizer_create_adam(strategy, &UMBO_OPTIONS(umbo_adam, .learning_rate = 0.02), &optimizer));
    digits = open_digits(words[1], "train");
    UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, digits, NULL, &input));
    UMBO_CHECK(umbo_iterator_from_distributed_dataset(input, &iterator));
    for (epoch = 0; epoch < EPOCHS; ++epoch) {
        UMBO_CHECK(umbo_train_epoch(strategy, iterator, optimizer, own.gradients, step, &own, NULL, NULL));
    }
    unseen = open_digits(words[1], "t10k");
    UMBO_CHECK(umbo_iterator_from_dataset(unseen, &test));
    printf("%lld replicas, %d on GPUs: %.4f of the digits read\n", (long long)replicas, gpus, accuracy(&own, test));
    umbo_iterator_release(test);
    umbo_dataset_release(unseen);
    umbo_iterator_release(iterator);
    umbo_distributed_dataset_release(input);
    umbo_dataset_release(digits);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(own.gradients);
    for (replica = 0; replica < 4; ++replica) umbo_variable_release(own.variables[replica]);
    umbo_strategy_release(strategy);
    return 0;
}
