/* Rows of a linear model, and trainers that learn from them, for the tests of trainers. */
#ifndef UMBO_TESTS_TRAINER_ROWS_H
#define UMBO_TESTS_TRAINER_ROWS_H

#include "check.h"

enum { ROWS = 23, FEATURES = 3 };

static CHECK_MAYBE_UNUSED float table[ROWS][FEATURES + 1]; /* each row: the features, and what to predict */

static CHECK_MAYBE_UNUSED void make_table(void) {
    uint32_t state = 7;
    for (int i = 0; i < ROWS; ++i) {
        table[i][FEATURES] = 0;
        for (int k = 0; k < FEATURES; ++k) {
            state = state * 1664525u + 1013904223u;
            table[i][k] = (float)(state >> 8) / 8388608.0f - 1.0f;
            table[i][FEATURES] += table[i][k] * (float)(k + 1);
        }
    }
}

/* What a learn function has to do, and what it has done. */
typedef struct {
    int64_t fail_at;    /* the row at which it fails; -1: at none */
    int64_t calls;      /* all calls */
    int64_t seen[ROWS]; /* how often it got each row */
    int64_t evaluated;  /* rows without gradients */
} notes;

static CHECK_MAYBE_UNUSED double learn_row(const float *x, const float *w, float *sum) {
    float error = -x[FEATURES];
    for (int k = 0; k < FEATURES; ++k) error += w[k] * x[k];
    for (int k = 0; sum != NULL && k < FEATURES; ++k) sum[k] += error * x[k];
    return (double)(error * error) / 2;
}

static CHECK_MAYBE_UNUSED umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient,
                                            void *user_data, double *loss) {
    notes *n = (notes *)user_data;
    __atomic_fetch_add(&n->calls, 1, __ATOMIC_SEQ_CST);
    CHECK(rows->count >= 1 && rows->array_count == 1 && *loss == 0);
    CHECK(rows->weights[0] == weights && rows->gradients[0] == gradient);
    CHECK(rows->training == (gradient != NULL));
    for (int64_t i = 0; i < rows->count; ++i) {
        const int64_t row = rows->indices[i];
        CHECK(row >= 0 && row < ROWS);
        if (row == n->fail_at) return UMBO_STATUS_ABORTED;
        __atomic_fetch_add(gradient ? &n->seen[row] : &n->evaluated, 1, __ATOMIC_SEQ_CST);
        *loss += learn_row(table[row], weights, gradient);
    }
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED notes no_notes(void) {
    notes n;
    memset(&n, 0, sizeof(n));
    n.fail_at = -1;
    return n;
}

static CHECK_MAYBE_UNUSED umbo_parameters array_of(float *weights, int64_t count) {
    umbo_parameters parameters;
    memset(&parameters, 0, sizeof(parameters));
    parameters.weights = weights;
    parameters.count = count;
    return parameters;
}

static CHECK_MAYBE_UNUSED umbo_trainer *trainer_with(float *weights, const umbo_trainer_options *options) {
    const umbo_parameters parameters = array_of(weights, FEATURES);
    umbo_trainer *trainer = NULL;
    CHECK_OK(umbo_trainer_create_with_arrays(1, &parameters, options, &trainer));
    return trainer;
}

static CHECK_MAYBE_UNUSED umbo_trainer_info progress_of(const umbo_trainer *trainer) {
    umbo_trainer_info info = UMBO_TRAINER_INFO_INIT;
    CHECK_OK(umbo_trainer_get_info(trainer, &info));
    return info;
}

/* The rows of the epoch that comes, in its order. */
static CHECK_MAYBE_UNUSED void order_of_epoch(const umbo_trainer *trainer, int64_t row_count, int64_t *rows) {
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    umbo_value *batch = NULL;
    umbo_view view;
    CHECK_OK(umbo_trainer_dataset(trainer, row_count, row_count, &dataset));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &batch));
    CHECK_OK(umbo_value_view(batch, NULL, UMBO_DTYPE_INT64, &view));
    memcpy(rows, view.data, (size_t)row_count * sizeof(rows[0]));
    umbo_value_release(batch);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
}

/* Its gradient is a number of the test's, of the first weight alone. */
static CHECK_MAYBE_UNUSED umbo_status learn_given(const umbo_rows *rows, const float *weights, float *gradient,
                                                  void *user_data, double *loss) {
    (void)rows, (void)weights, (void)loss;
    gradient[0] = *(float *)user_data;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED int near(double a, double b) { return a - b < 1e-5 && b - a < 1e-5; }

#endif
