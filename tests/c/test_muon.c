/* Muon: the matrices of a model, beside a bias that another optimizer updates in the same step. */
#include <math.h>
#include <string.h>

#include "check.h"

enum { ROWS = 4, COLUMNS = 2 };

typedef struct {
    umbo_gradients *of_kernel, *of_bias;
    umbo_optimizer *muon, *adamw;
} training;

static umbo_status fill(umbo_gradients *gradients, umbo_replica_context *context, int64_t count, float first) {
    umbo_view gradient;
    int64_t i;
    UMBO_TRY(umbo_gradients_view(gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    for (i = 0; i < count; i++) ((float *)gradient.mutable_data)[i] = first + (float)(i % 3);
    return umbo_gradients_submit_weighted(gradients, context, 1);
}

/* One step submits the gradients of both, and applies both. */
static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data, umbo_value **result) {
    const training *self = (const training *)user_data;
    (void)args, (void)result;
    UMBO_TRY(fill(self->of_kernel, context, ROWS * COLUMNS, -1));
    UMBO_TRY(fill(self->of_bias, context, COLUMNS, 1));
    UMBO_TRY(umbo_optimizer_apply(self->muon, self->of_kernel, NULL, NULL));
    return umbo_optimizer_apply(self->adamw, self->of_bias, NULL, NULL);
}

static umbo_variable *variable_of(umbo_strategy *strategy, const char *name, int32_t rank) {
    const int64_t matrix[2] = {ROWS, COLUMNS}, vector[1] = {COLUMNS};
    float start[ROWS * COLUMNS];
    umbo_variable *variable = NULL;
    umbo_tensor *initial = NULL;
    int i;
    for (i = 0; i < ROWS * COLUMNS; i++) start[i] = 0.5f;
    initial = make_tensor(UMBO_DTYPE_FLOAT32, rank, rank == 2 ? matrix : vector, start);
    CHECK_OK(umbo_variable_create(strategy, name, initial, NULL, &variable));
    umbo_tensor_release(initial);
    return variable;
}

static void read_floats(const umbo_variable *variable, float *to, size_t bytes) {
    umbo_tensor *value = NULL;
    CHECK_OK(umbo_variable_read(variable, &value));
    CHECK_OK(umbo_tensor_download(value, to, bytes));
    umbo_tensor_release(value);
}

/* The first step, by hand in float64: the momentum is 0.05 g, and its direction that of g. */
static void expected_first_step(double w[ROWS][COLUMNS]) {
    double x[ROWS][COLUMNS], norm = 0;
    int i, j, k, l, round;
    for (i = 0; i < ROWS; i++)
        for (j = 0; j < COLUMNS; j++) {
            x[i][j] = -1 + (i * COLUMNS + j) % 3;
            norm += x[i][j] * x[i][j];
        }
    for (i = 0; i < ROWS; i++)
        for (j = 0; j < COLUMNS; j++) x[i][j] /= sqrt(norm);
    for (round = 0; round < 5; round++) {
        double y[COLUMNS][COLUMNS] = {{0}}, p[COLUMNS][COLUMNS], next[ROWS][COLUMNS];
        for (j = 0; j < COLUMNS; j++)
            for (k = 0; k < COLUMNS; k++)
                for (i = 0; i < ROWS; i++) y[j][k] += x[i][j] * x[i][k];
        for (j = 0; j < COLUMNS; j++)
            for (k = 0; k < COLUMNS; k++) {
                p[j][k] = -4.7750 * y[j][k];
                for (l = 0; l < COLUMNS; l++) p[j][k] += 2.0315 * y[j][l] * y[l][k];
            }
        for (i = 0; i < ROWS; i++)
            for (j = 0; j < COLUMNS; j++) {
                next[i][j] = 3.4445 * x[i][j];
                for (k = 0; k < COLUMNS; k++) next[i][j] += x[i][k] * p[k][j];
            }
        memcpy(x, next, sizeof x);
    }
    for (i = 0; i < ROWS; i++)
        for (j = 0; j < COLUMNS; j++)
            w[i][j] = 0.5 * (1 - 0.001 * 0.1) - 0.001 * sqrt((double)ROWS / COLUMNS) * x[i][j];
}

static void two_optimizers_in_one_step(umbo_strategy *strategy) {
    umbo_variable *kernel = variable_of(strategy, "kernel", 2), *bias = variable_of(strategy, "bias", 1);
    umbo_muon_options muon = UMBO_MUON_OPTIONS_INIT;
    umbo_tensor *momentum = NULL;
    training self = {NULL, NULL, NULL, NULL};
    float weights[ROWS * COLUMNS], of_bias[COLUMNS];
    double expected[ROWS][COLUMNS], rms = 0;
    int i;
    self.of_kernel = make_mean_gradients(strategy, kernel, 0);
    self.of_bias = make_mean_gradients(strategy, bias, 0);
    CHECK_OK(umbo_optimizer_create_muon(strategy, &muon, &self.muon));
    CHECK_OK(umbo_optimizer_create_adamw(strategy, NULL, &self.adamw));
    CHECK_OK(umbo_strategy_run(strategy, step, NULL, &self, NULL, NULL));
    read_floats(kernel, weights, sizeof weights);
    read_floats(bias, of_bias, sizeof of_bias);
    expected_first_step(expected);
    for (i = 0; i < ROWS * COLUMNS; i++)
        CHECK(fabs(weights[i] - expected[i / COLUMNS][i % COLUMNS]) < 1e-6);
    for (i = 0; i < COLUMNS; i++) CHECK(of_bias[i] < 0.5f);
    CHECK_OK(umbo_optimizer_read_state(self.muon, kernel, "momentum", &momentum));
    CHECK_OK(umbo_tensor_download(momentum, weights, sizeof weights));
    umbo_tensor_release(momentum);
    CHECK(is_close(weights[0], -0.05) && is_close(weights[2], 0.05));
    umbo_optimizer_release(self.muon);

    /* Steps as large as AdamW's: about 0.2 of the learning rate. */
    muon.match_adamw = 1;
    muon.nesterov = 0;
    muon.weight_decay = 0;
    muon.learning_rate = 1;
    CHECK_OK(umbo_optimizer_create_muon(strategy, &muon, &self.muon));
    read_floats(kernel, weights, sizeof weights);
    CHECK_OK(umbo_strategy_run(strategy, step, NULL, &self, NULL, NULL));
    {
        float after[ROWS * COLUMNS];
        read_floats(kernel, after, sizeof after);
        for (i = 0; i < ROWS * COLUMNS; i++) rms += (after[i] - weights[i]) * (after[i] - weights[i]);
    }
    rms = sqrt(rms / (ROWS * COLUMNS));
    CHECK(rms > 0.1 && rms < 0.3);
    umbo_optimizer_release(self.muon);
    umbo_optimizer_release(self.adamw);
    umbo_gradients_release(self.of_kernel);
    umbo_gradients_release(self.of_bias);
    umbo_variable_release(kernel);
    umbo_variable_release(bias);
}

/* A step that gives a bias to Muon fails as a whole, and names the bias. */
static void what_is_no_matrix(umbo_strategy *strategy) {
    umbo_variable *kernel = variable_of(strategy, "kernel", 2), *bias = variable_of(strategy, "the_bias", 1);
    training self = {NULL, NULL, NULL, NULL};
    umbo_group_options frozen = UMBO_GROUP_OPTIONS_INIT;
    float weights[ROWS * COLUMNS];
    self.of_kernel = make_mean_gradients(strategy, kernel, 0);
    self.of_bias = make_mean_gradients(strategy, bias, 0);
    CHECK_OK(umbo_optimizer_create_muon(strategy, NULL, &self.muon));
    CHECK_OK(umbo_optimizer_create_muon(strategy, NULL, &self.adamw));
    CHECK_STATUS(umbo_strategy_run(strategy, step, NULL, &self, NULL, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(umbo_last_error_message(), "the_bias") != NULL);
    CHECK(strstr(umbo_last_error_message(), "muon") != NULL);
    read_floats(kernel, weights, sizeof weights);
    CHECK(weights[0] == 0.5f && weights[7] == 0.5f);
    frozen.frozen = 1;
    CHECK_OK(umbo_optimizer_add_group(self.adamw, 1, &bias, &frozen));
    CHECK_OK(umbo_strategy_run(strategy, step, NULL, &self, NULL, NULL));
    umbo_optimizer_release(self.muon);
    umbo_optimizer_release(self.adamw);
    umbo_gradients_release(self.of_kernel);
    umbo_gradients_release(self.of_bias);
    umbo_variable_release(kernel);
    umbo_variable_release(bias);
}

static void refused_options(umbo_strategy *strategy) {
    umbo_muon_options wrong = UMBO_MUON_OPTIONS_INIT;
    umbo_optimizer *optimizer = NULL;
    wrong.momentum = 1;
    CHECK_STATUS(umbo_optimizer_create_muon(strategy, &wrong, &optimizer), UMBO_STATUS_INVALID_ARGUMENT);
    wrong.momentum = 0.95;
    wrong.epsilon = 0;
    CHECK_STATUS(umbo_optimizer_create_muon(strategy, &wrong, &optimizer), UMBO_STATUS_INVALID_ARGUMENT);
    wrong.epsilon = 1e-7;
    wrong.match_adamw = 2;
    CHECK_STATUS(umbo_optimizer_create_muon(strategy, &wrong, &optimizer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(umbo_last_error_message(), "match_adamw") != NULL);
    CHECK(optimizer == NULL);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    two_optimizers_in_one_step(strategy);
    what_is_no_matrix(strategy);
    refused_options(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
