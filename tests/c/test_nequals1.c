/* N replicas equal one replica: with partial batches, with empty replicas, in weights, loss and
 * accuracy.
 *
 * Argument: a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte, plain or .gz. */
#include <math.h>

#include "check.h"

#define CLASSES 10
#define BATCH 48
#define EXAMPLES (29 * BATCH + 2) /* 30 steps; the last has 2 examples */

static const int32_t replica_counts[4] = {1, 2, 3, 5};

typedef struct {
    umbo_variable *weights;
    umbo_gradients *gradients;
} model;

/* Softmax regression on bytes; sums over its rows, in f64. */
static umbo_status classify(umbo_replica_context *context, const umbo_value *args,
                            void *user_data, umbo_value **result) {
    const model *self = (const model *)user_data;
    umbo_view images, labels, weights, gradient;
    const float *w;
    double *sums, loss = 0, correct = 0;
    void *memory = NULL;
    int64_t row, pixel, pixels, index;
    (void)result;
    UMBO_TRY(umbo_value_view(args, "image", UMBO_DTYPE_NONE, &images));
    UMBO_TRY(umbo_value_view(args, "label", UMBO_DTYPE_NONE, &labels));
    UMBO_TRY(umbo_variable_view(self->weights, context, UMBO_DTYPE_NONE, &weights));
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    pixels = weights.shape[0];
    UMBO_TRY(umbo_replica_context_scratch(context, (size_t)(pixels * CLASSES) * sizeof(double),
                                          &memory));
    sums = (double *)memory;
    memset(sums, 0, (size_t)(pixels * CLASSES) * sizeof(double));
    w = (const float *)weights.data;
    for (row = 0; row < images.shape[0]; row++) {
        const uint8_t *image = (const uint8_t *)images.data + row * images.strides[0];
        const int label = ((const uint8_t *)labels.data)[row * labels.strides[0]];
        double logits[CLASSES] = {0}, largest, total = 0;
        int label_class, best = 0;
        for (pixel = 0; pixel < pixels; pixel++) {
            if (image[pixel] == 0) continue;
            for (label_class = 0; label_class < CLASSES; label_class++) {
                logits[label_class] +=
                    image[pixel] / 255.0 * (double)w[pixel * CLASSES + label_class];
            }
        }
        for (label_class = 1; label_class < CLASSES; label_class++) {
            if (logits[label_class] > logits[best]) best = label_class;
        }
        largest = logits[best];
        for (label_class = 0; label_class < CLASSES; label_class++) {
            logits[label_class] = exp(logits[label_class] - largest);
            total += logits[label_class];
        }
        loss -= log(logits[label] / total);
        correct += best == label;
        for (label_class = 0; label_class < CLASSES; label_class++) {
            const double slope = logits[label_class] / total - (label_class == label);
            for (pixel = 0; pixel < pixels; pixel++) {
                sums[pixel * CLASSES + label_class] += image[pixel] / 255.0 * slope;
            }
        }
    }
    for (index = 0; index < pixels * CLASSES; index++) {
        ((float *)gradient.mutable_data)[index] = (float)sums[index];
    }
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", loss, (double)images.shape[0]));
    UMBO_TRY(umbo_replica_context_add_metric(context, "correct", correct, (double)images.shape[0]));
    return umbo_gradients_submit(self->gradients, context);
}

static umbo_dataset *idx_file(const char *folder, const char *name) {
    char path[4096];
    const char *const paths[1] = {path};
    umbo_dataset *dataset = NULL;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (umbo_dataset_from_idx_files(1, NULL, paths, &dataset) == UMBO_OK) return dataset;
    snprintf(path, sizeof(path), "%s/%s.gz", folder, name);
    CHECK_OK(umbo_dataset_from_idx_files(1, NULL, paths, &dataset));
    return dataset;
}

/* Batches of images and labels. */
static umbo_dataset *batches_of_digits(const char *folder) {
    const char *const names[2] = {"image", "label"};
    umbo_dataset *parts[2], *zipped = NULL, *taken = NULL, *batches = NULL;
    parts[0] = idx_file(folder, "train-images-idx3-ubyte");
    parts[1] = idx_file(folder, "train-labels-idx1-ubyte");
    CHECK_OK(umbo_dataset_zip(2, names, (const umbo_dataset *const *)parts, &zipped));
    CHECK_OK(umbo_dataset_retain(zipped, &taken));
    CHECK_OK(umbo_dataset_take(&taken, EXAMPLES));
    CHECK_OK(umbo_dataset_retain(taken, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, BATCH, 0));
    umbo_dataset_release(parts[0]);
    umbo_dataset_release(parts[1]);
    umbo_dataset_release(zipped);
    umbo_dataset_release(taken);
    return batches;
}

static int64_t pixels_of(const umbo_dataset *batches) {
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    umbo_view view;
    CHECK_OK(umbo_iterator_from_dataset(batches, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK_OK(umbo_value_view(element, "image", UMBO_DTYPE_NONE, &view));
    CHECK(view.ndim == 3 && view.dtype == UMBO_DTYPE_UINT8);
    umbo_value_release(element);
    umbo_iterator_release(iterator);
    return view.shape[1] * view.shape[2];
}

typedef struct {
    void *weights;
    double loss;
    double correct;
    int steps;
    int empty_parts;
} outcome;

/* Trains from zero over all batches, `passes` times. `weights` receives `bytes` bytes. */
static outcome train(const umbo_dataset *batches, int32_t replicas, umbo_dtype dtype,
                     int32_t rank, const int64_t *shape, double rate, int passes,
                     umbo_replica_fn fn, size_t bytes) {
    umbo_strategy *strategy = make_strategy(replicas);
    umbo_tensor *zeros = NULL, *weights = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    umbo_optimizer *sgd = NULL;
    umbo_value *element = NULL;
    outcome made = {NULL, 0, 0, 0, 0};
    model self;
    int pass;
    umbo_variable_options variable_options = UMBO_VARIABLE_OPTIONS_INIT;
    umbo_gradients_options gradients_options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_sgd_options sgd_options = UMBO_SGD_OPTIONS_INIT;
    gradients_options.loss_reduction = UMBO_LOSS_SUM;
    sgd_options.learning_rate = rate;
    CHECK_OK(umbo_tensor_create_zeros(dtype, rank, shape, NULL, &zeros));
    CHECK_OK(umbo_variable_create(strategy, "weights", zeros, &variable_options, &self.weights));
    CHECK_OK(umbo_gradients_create(strategy, 1, &self.weights,
                                   &gradients_options, &self.gradients));
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &sgd_options, &sgd));
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, batches, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    for (pass = 0; pass < passes; pass++) {
        for (;;) {
            int32_t replica;
            ZEROED(umbo_metric, metric);
            ZEROED(umbo_apply_report, report);
            CHECK_OK(umbo_iterator_next(iterator, &element));
            if (element == NULL) break;
            for (replica = 0; replica < replicas; replica++) {
                int64_t examples = -1;
                CHECK_OK(umbo_value_example_count(element, replica, &examples));
                made.empty_parts += examples == 0;
            }
            CHECK_OK(umbo_strategy_run(strategy, fn, &self, element, NULL, NULL));
            umbo_value_release(element);
            CHECK_OK(umbo_optimizer_apply(sgd, self.gradients, NULL, &report));
            CHECK(report.applied == 1);
            CHECK_OK(umbo_strategy_metric(strategy, "loss", &metric));
            CHECK(metric.weight == report.total_weight);
            made.loss += metric.sum;
            CHECK_OK(umbo_strategy_metric(strategy, "correct", &metric));
            made.correct += metric.sum;
            made.steps++;
        }
        CHECK_OK(umbo_iterator_reset(iterator));
    }
    made.weights = malloc(bytes);
    CHECK(made.weights != NULL);
    CHECK_OK(umbo_variable_read(self.weights, &weights));
    CHECK_OK(umbo_tensor_copy_to_host(weights, made.weights, bytes));
    umbo_tensor_release(weights);
    umbo_iterator_release(iterator);
    umbo_distributed_dataset_release(distributed);
    umbo_optimizer_release(sgd);
    umbo_gradients_release(self.gradients);
    umbo_variable_release(self.weights);
    umbo_tensor_release(zeros);
    umbo_strategy_release(strategy);
    return made;
}

static void digits(const char *folder) {
    umbo_dataset *batches = batches_of_digits(folder);
    int64_t shape[2];
    size_t bytes;
    outcome one = {NULL, 0, 0, 0, 0};
    int run;
    shape[0] = pixels_of(batches);
    shape[1] = CLASSES;
    bytes = (size_t)(shape[0] * shape[1]) * sizeof(float);
    for (run = 0; run < 4; run++) {
        outcome many = train(batches, replica_counts[run], UMBO_DTYPE_FLOAT32, 2, shape, 0.05, 1,
                             classify, bytes);
        double largest = 0, difference = 0;
        int64_t index;
        CHECK(many.steps == 30);
        CHECK((many.empty_parts > 0) == (replica_counts[run] > 2));
        if (run == 0) {
            one = many;
            CHECK(one.loss > 0 && one.correct > EXAMPLES / 2); /* it does learn */
            continue;
        }
        for (index = 0; index < shape[0] * shape[1]; index++) {
            const double a = (double)((const float *)one.weights)[index];
            const double b = (double)((const float *)many.weights)[index];
            if (fabs(a) > largest) largest = fabs(a);
            if (!(fabs(a - b) <= difference)) difference = fabs(a - b);
        }
        CHECK(difference <= 1e-5 * largest);
        CHECK(fabs(many.loss - one.loss) <= 1e-6 * one.loss);
        CHECK(fabs(many.correct - one.correct) <= 1e-6 * one.correct);
        free(many.weights);
    }
    free(one.weights);
    umbo_dataset_release(batches);
}

/* Least squares in f64; "correct" counts what is met exactly. */
static umbo_status fit(umbo_replica_context *context, const umbo_value *args, void *user_data,
                       umbo_value **result) {
    const model *self = (const model *)user_data;
    umbo_view x, y, weights, gradient;
    double loss = 0, correct = 0;
    const double *w;
    double *g;
    int64_t row, column;
    (void)result;
    UMBO_TRY(umbo_value_view(args, "x", UMBO_DTYPE_NONE, &x));
    UMBO_TRY(umbo_value_view(args, "y", UMBO_DTYPE_NONE, &y));
    UMBO_TRY(umbo_variable_view(self->weights, context, UMBO_DTYPE_NONE, &weights));
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_ADD, &gradient));
    w = (const double *)weights.data;
    g = (double *)gradient.mutable_data;
    for (row = 0; row < x.shape[0]; row++) {
        const double *features = (const double *)x.data + row * x.strides[0];
        double error = -((const double *)y.data)[row * y.strides[0]];
        for (column = 0; column < 3; column++) error += w[column] * features[column];
        for (column = 0; column < 3; column++) g[column] += error * features[column];
        loss += error * error;
        correct += error == 0;
    }
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", loss, (double)x.shape[0]));
    UMBO_TRY(umbo_replica_context_add_metric(context, "correct", correct, (double)x.shape[0]));
    return umbo_gradients_submit(self->gradients, context);
}

/* All numbers are small multiples of powers of two and so are all divisors (batches of 8 and 4,
 * the rate): every sum is exact in f64, whatever its order, so every bit must agree. */
static void dyadic(void) {
    const char *const names[2] = {"x", "y"};
    const int64_t x_shape[2] = {12, 3}, y_shape[1] = {12}, shape[1] = {3};
    double x[36], y[12];
    const umbo_value *items[2];
    umbo_value *features, *targets, *both = NULL;
    umbo_dataset *slices = NULL, *batches = NULL;
    outcome one = {NULL, 0, 0, 0, 0};
    int index, run;
    for (index = 0; index < 36; index++) x[index] = ((index * 7) % 17 - 8) / 4.0;
    for (index = 0; index < 12; index++) y[index] = ((index * 5) % 13 - 6) / 2.0;
    features = into_value(make_tensor(UMBO_DTYPE_FLOAT64, 2, x_shape, x));
    targets = into_value(make_tensor(UMBO_DTYPE_FLOAT64, 1, y_shape, y));
    items[0] = features;
    items[1] = targets;
    CHECK_OK(umbo_value_create_struct(2, names, items, &both));
    CHECK_OK(umbo_dataset_from_tensor_slices(both, &slices));
    CHECK_OK(umbo_dataset_retain(slices, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 8, 0));
    for (run = 0; run < 4; run++) {
        outcome many = train(batches, replica_counts[run], UMBO_DTYPE_FLOAT64, 1, shape, 0.25, 1, fit,
                             3 * sizeof(double));
        CHECK(many.steps == 2);
        CHECK((many.empty_parts > 0) == (replica_counts[run] > 2));
        if (run == 0) {
            one = many;
            CHECK(((const double *)one.weights)[0] != 0);
            continue;
        }
        CHECK(memcmp(one.weights, many.weights, 3 * sizeof(double)) == 0);
        CHECK(many.loss == one.loss && many.correct == one.correct);
        free(many.weights);
    }
    free(one.weights);
    umbo_dataset_release(batches);
    umbo_dataset_release(slices);
    umbo_value_release(both);
    umbo_value_release(targets);
    umbo_value_release(features);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER_WITH_IDX_FILES\n", argv[0]);
        return 2;
    }
    dyadic();
    digits(argv[1]);
    return finish();
}
