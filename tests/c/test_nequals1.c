/* The promise of the library: training on N replicas is training on one.
 *
 * Two models are trained on 1, 2, 3 and 5 replicas. The last batch has fewer examples than there
 * are replicas, so some have none. A least-squares fit has sums that are exact in any order: every
 * bit must agree. A softmax regression on pictures of digits has sums that are rounded: weights,
 * loss and accuracy must agree closely.
 *
 * Argument: a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte, 8 by 8 pixels. */
#include <math.h>

#include "check.h"

#define CLASSES 10
#define PIXELS 64
#define MOST_WEIGHTS (PIXELS * CLASSES)

/* What a callback trains. */
typedef struct {
    umbo_variable *weights;
    umbo_gradients *gradients;
} model;

/* A model, its data, and how it learns. */
typedef struct {
    umbo_replica_fn step;
    umbo_dataset *batches;
    int batch_count;
    umbo_dtype dtype;
    int64_t shape[2];
    double learning_rate;
} problem;

/* What a training ends with. */
typedef struct {
    double weights[MOST_WEIGHTS];
    double loss, correct;
    int empty_parts; /* how often the last replica had no example */
} outcome;

/* The end of a callback: metrics and gradients of its examples. */
static umbo_status end_step(const model *self, umbo_replica_context *context, double loss,
                            double correct, int64_t examples) {
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", loss, (double)examples));
    UMBO_TRY(umbo_replica_context_add_metric(context, "correct", correct, (double)examples));
    return umbo_gradients_submit(self->gradients, context);
}

/* ---- least squares, in float64 */

#define FEATURES 3

static umbo_status fit(umbo_replica_context *context, const umbo_value *args, void *user_data,
                       umbo_value **result) {
    const model *self = (const model *)user_data;
    umbo_view x, y, weights, gradient;
    const double *w;
    double *g, loss = 0, correct = 0;
    int64_t row, column;
    (void)result;
    UMBO_TRY(umbo_value_view(args, "x", UMBO_DTYPE_FLOAT64, &x));
    UMBO_TRY(umbo_value_view(args, "y", UMBO_DTYPE_FLOAT64, &y));
    UMBO_TRY(umbo_variable_view(self->weights, context, UMBO_DTYPE_FLOAT64, &weights));
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_ADD, &gradient));
    w = (const double *)weights.data;
    g = (double *)gradient.mutable_data;
    for (row = 0; row < x.shape[0]; row++) {
        const double *features = (const double *)x.data + row * x.strides[0];
        double error = -((const double *)y.data)[row * y.strides[0]];
        for (column = 0; column < FEATURES; column++) error += w[column] * features[column];
        for (column = 0; column < FEATURES; column++) g[column] += error * features[column];
        loss += error * error;
        correct += error == 0;
    }
    return end_step(self, context, loss, correct, x.shape[0]);
}

/* Two batches, of 8 examples and of 4. All numbers are small multiples of powers of two, and so are
 * the divisors of the means: float64 rounds nothing. */
static umbo_dataset *batches_of_numbers(void) {
    const char *const names[2] = {"x", "y"};
    const int64_t x_shape[2] = {12, FEATURES}, y_shape[1] = {12};
    double x[12 * FEATURES], y[12];
    umbo_view views[2];
    umbo_dataset *batches = NULL;
    int index;
    for (index = 0; index < 12 * FEATURES; index++) x[index] = ((index * 7) % 17 - 8) / 4.0;
    for (index = 0; index < 12; index++) y[index] = ((index * 5) % 13 - 6) / 2.0;
    views[0] = umbo_view_of_memory(UMBO_DTYPE_FLOAT64, 2, x_shape, x);
    views[1] = umbo_view_of_memory(UMBO_DTYPE_FLOAT64, 1, y_shape, y);
    CHECK_OK(umbo_dataset_from_arrays(2, names, views, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 8, 0));
    return batches;
}

/* ---- softmax regression, in float32 */

/* Computes the probability of each digit for a picture; returns the likeliest digit. */
static int classify(const uint8_t *image, const float *weights, double *probabilities) {
    double total = 0;
    int pixel, digit, likeliest = 0;
    for (digit = 0; digit < CLASSES; digit++) {
        double logit = 0;
        for (pixel = 0; pixel < PIXELS; pixel++) {
            logit += image[pixel] / 16.0 * (double)weights[pixel * CLASSES + digit];
        }
        probabilities[digit] = exp(logit);
        total += probabilities[digit];
        if (probabilities[digit] > probabilities[likeliest]) likeliest = digit;
    }
    for (digit = 0; digit < CLASSES; digit++) probabilities[digit] /= total;
    return likeliest;
}

static umbo_status recognise(umbo_replica_context *context, const umbo_value *args,
                             void *user_data, umbo_value **result) {
    const model *self = (const model *)user_data;
    umbo_view images, labels, weights, gradient;
    double sums[MOST_WEIGHTS] = {0}, slopes[CLASSES], loss = 0, correct = 0;
    float *g;
    int64_t row, index;
    (void)result;
    UMBO_TRY(umbo_value_view(args, "image", UMBO_DTYPE_UINT8, &images));
    UMBO_TRY(umbo_value_view(args, "label", UMBO_DTYPE_UINT8, &labels));
    UMBO_TRY(umbo_variable_view(self->weights, context, UMBO_DTYPE_FLOAT32, &weights));
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    for (row = 0; row < images.shape[0]; row++) {
        const uint8_t *image = (const uint8_t *)images.data + row * images.strides[0];
        const int label = ((const uint8_t *)labels.data)[row * labels.strides[0]];
        correct += classify(image, (const float *)weights.data, slopes) == label;
        loss -= log(slopes[label]);
        slopes[label] -= 1; /* now they are the slopes of the loss */
        for (index = 0; index < MOST_WEIGHTS; index++) {
            sums[index] += image[index / CLASSES] / 16.0 * slopes[index % CLASSES];
        }
    }
    g = (float *)gradient.mutable_data;
    for (index = 0; index < MOST_WEIGHTS; index++) g[index] = (float)sums[index];
    return end_step(self, context, loss, correct, images.shape[0]);
}

/* 29 batches of 48 pictures and their labels, and one batch of 2. */
static umbo_dataset *batches_of_digits(const char *folder) {
    const char *const names[2] = {"image", "label"};
    char images[4096], labels[4096];
    const char *const paths[2] = {images, labels};
    umbo_dataset *batches = NULL;
    snprintf(images, sizeof(images), "%s/train-images-idx3-ubyte", folder);
    snprintf(labels, sizeof(labels), "%s/train-labels-idx1-ubyte", folder);
    CHECK_OK(umbo_dataset_from_idx_files(2, names, paths, &batches));
    CHECK_OK(umbo_dataset_take(&batches, 29 * 48 + 2));
    CHECK_OK(umbo_dataset_batch(&batches, 48, 0));
    return batches;
}

static umbo_metric_result metric_of(const umbo_strategy *strategy, const char *name) {
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    CHECK_OK(umbo_strategy_metric_result(strategy, name, &metric));
    return metric;
}

/* Trains on so many replicas, from weights of zero, over all batches. */
static outcome train(const problem *given, int32_t replicas) {
    umbo_strategy *strategy = make_strategy(replicas);
    umbo_tensor *zeros = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    umbo_optimizer *sgd = NULL;
    umbo_value *element = NULL;
    umbo_sgd_options sgd_options = UMBO_SGD_OPTIONS_INIT;
    umbo_apply_report report = UMBO_APPLY_REPORT_INIT;
    umbo_view view;
    outcome made = {{0}, 0, 0, 0};
    model self;
    int64_t index, examples = -1;
    int steps;
    sgd_options.learning_rate = given->learning_rate;
    CHECK_OK(umbo_tensor_create_zeros(given->dtype, 2, given->shape, NULL, &zeros));
    CHECK_OK(umbo_variable_create(strategy, "weights", zeros, NULL, &self.weights));
    umbo_tensor_release(zeros);
    CHECK_OK(umbo_gradients_create(strategy, 1, &self.weights, UMBO_LOSS_SUM, NULL, &self.gradients));
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &sgd_options, &sgd));
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, given->batches, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    for (steps = 0;; steps++) {
        CHECK_OK(umbo_iterator_next(iterator, &element));
        if (element == NULL) break;
        CHECK_OK(umbo_value_example_count(element, replicas - 1, &examples));
        made.empty_parts += examples == 0;
        CHECK_OK(umbo_strategy_run(strategy, given->step, element, &self, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(sgd, self.gradients, NULL, &report));
        CHECK(report.applied == 1 && report.total_weight == metric_of(strategy, "loss").weight);
        made.loss += metric_of(strategy, "loss").sum;
        made.correct += metric_of(strategy, "correct").sum;
        umbo_value_release(element);
    }
    CHECK(steps == given->batch_count);
    CHECK_OK(umbo_variable_view(self.weights, NULL, given->dtype, &view));
    for (index = 0; index < given->shape[0] * given->shape[1]; index++) {
        made.weights[index] = given->dtype == UMBO_DTYPE_FLOAT32
                                  ? (double)((const float *)view.data)[index]
                                  : ((const double *)view.data)[index];
    }
    umbo_iterator_release(iterator);
    umbo_distributed_dataset_release(distributed);
    umbo_optimizer_release(sgd);
    umbo_gradients_release(self.gradients);
    umbo_variable_release(self.weights);
    umbo_strategy_release(strategy);
    return made;
}

/* Demands that the weights differ from those of one replica by no more than `tolerance` of the
 * largest, and loss and accuracy by a tenth of that. */
static outcome same_on_all_counts(const problem *given, double tolerance) {
    static const int32_t counts[3] = {2, 3, 5};
    const outcome one = train(given, 1);
    const double *weights = one.weights;
    double largest = 0;
    int run, index;
    for (index = 0; index < MOST_WEIGHTS; index++) largest = fmax(largest, fabs(weights[index]));
    CHECK(largest > 0 && one.empty_parts == 0);
    for (run = 0; run < 3; run++) {
        const outcome many = train(given, counts[run]);
        CHECK((many.empty_parts > 0) == (counts[run] > 2));
        for (index = 0; index < MOST_WEIGHTS; index++) {
            CHECK(fabs(many.weights[index] - weights[index]) <= tolerance * largest);
        }
        CHECK(fabs(many.loss - one.loss) <= tolerance / 10 * one.loss);
        CHECK(fabs(many.correct - one.correct) <= tolerance / 10 * one.correct);
    }
    return one;
}

int main(int count, char **arguments) {
    problem numbers = {fit, NULL, 2, UMBO_DTYPE_FLOAT64, {FEATURES, 1}, 0.25};
    problem digits = {recognise, NULL, 30, UMBO_DTYPE_FLOAT32, {PIXELS, CLASSES}, 0.5};
    outcome learnt;
    CHECK(count == 2);
    numbers.batches = batches_of_numbers();
    same_on_all_counts(&numbers, 0);
    umbo_dataset_release(numbers.batches);
    digits.batches = batches_of_digits(arguments[1]);
    learnt = same_on_all_counts(&digits, 1e-5);
    CHECK(learnt.correct > 29 * 48 / 2); /* it does learn */
    umbo_dataset_release(digits.batches);
    return finish();
}
