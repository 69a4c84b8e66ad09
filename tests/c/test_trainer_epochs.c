/* Steps, epochs and evaluations of a trainer: what they compute, in which order, and what is left when one fails. */
#include "trainer_rows.h"

/* The step by hand: the mean gradient of some rows, gradient descent. */
static double descend(float *weights, int64_t first, int64_t count, float rate) {
    float sum[FEATURES] = {0};
    double loss = 0;
    for (int64_t i = first; i < first + count; ++i) loss += learn_row(table[i], weights, sum);
    for (int k = 0; k < FEATURES; ++k) weights[k] -= rate * (sum[k] / (float)count);
    return loss / (double)count;
}

/* Steps, epochs and evaluations are what a loop by hand does, also with a smaller last batch. */
static void as_by_hand(int64_t replicas) {
    float weights[FEATURES] = {0}, by_hand[FEATURES] = {0};
    notes n = no_notes();
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    double loss = -1;
    options.learning_rate = 0.25;
    options.replicas = replicas;
    options.shuffle = 0;
    umbo_trainer *trainer = trainer_with(weights, &options);
    CHECK(progress_of(trainer).replica_count == replicas && progress_of(trainer).array_count == 1);
    for (int64_t first = 0; first < 10; first += 5) {
        CHECK_OK(umbo_trainer_step(trainer, first, 5, learn, &n, &loss));
        CHECK(near(loss, descend(by_hand, first, 5, 0.25f)));
    }
    CHECK(progress_of(trainer).step_count == 2 && progress_of(trainer).epoch_count == 0);
    CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 4, learn, &n, &loss));
    double sum = 0;
    for (int64_t first = 0; first < ROWS; first += 4) {
        const int64_t count = ROWS - first < 4 ? ROWS - first : 4;
        sum += descend(by_hand, first, count, 0.25f) * (double)count;
    }
    CHECK(near(loss, sum / ROWS));
    for (int k = 0; k < FEATURES; ++k) CHECK(near(weights[k], by_hand[k]));
    CHECK(progress_of(trainer).step_count == 8 && progress_of(trainer).epoch_count == 1);
    CHECK_OK(umbo_trainer_evaluate(trainer, ROWS, 7, learn, &n, &loss));
    double total = 0;
    for (int i = 0; i < ROWS; ++i) total += learn_row(table[i], by_hand, NULL);
    CHECK(near(loss, total / ROWS) && is_count(n.evaluated, ROWS));
    CHECK(progress_of(trainer).step_count == 8);
    for (int k = 0; k < FEATURES; ++k) CHECK(near(weights[k], by_hand[k]));
    /* The loss need not be asked for. */
    CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn, &n, NULL));
    CHECK_OK(umbo_trainer_epoch(trainer, ROWS, ROWS, learn, &n, NULL));
    CHECK_OK(umbo_trainer_evaluate(trainer, 1, 1, learn, &n, NULL));
    umbo_trainer_release(trainer);
}

/* Each epoch has each row once, in an order of its own that the seed says. */
static void orders(void) {
    float weights[2][FEATURES] = {{0}, {0}};
    int64_t first[2][3][ROWS];
    for (int run = 0; run < 2; ++run) {
        notes n = no_notes();
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.replicas = 2;
        options.seed = 5;
        umbo_trainer *trainer = trainer_with(weights[run], &options);
        for (int epoch = 0; epoch < 3; ++epoch) {
            order_of_epoch(trainer, ROWS, first[run][epoch]);
            CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 4, learn, &n, NULL));
            for (int i = 0; i < ROWS; ++i) CHECK(is_count(n.seen[i], epoch + 1));
        }
        umbo_trainer_release(trainer);
    }
    CHECK(memcmp(first[0], first[1], sizeof(first[0])) == 0);
    CHECK(memcmp(weights[0], weights[1], sizeof(weights[0])) == 0);
    CHECK(memcmp(first[0][0], first[0][1], sizeof(first[0][0])) != 0);
    CHECK(memcmp(first[0][1], first[0][2], sizeof(first[0][0])) != 0);
}

/* With replicas in sync there is one result, whatever the number of processors. */
static void one_result(void) {
    float expected[FEATURES] = {0};
    double expected_loss = 0;
    for (int64_t replicas = 1; replicas <= 8; ++replicas) {
        float weights[FEATURES] = {0};
        double loss = 0;
        notes n = no_notes();
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.rule = "adam";
        options.replicas = replicas;
        options.replicas_in_sync = 8;
        umbo_trainer *trainer = trainer_with(weights, &options);
        for (int epoch = 0; epoch < 3; ++epoch) {
            CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 6, learn, &n, &loss));
        }
        umbo_trainer_release(trainer);
        if (replicas == 1) memcpy(expected, weights, sizeof(weights)), expected_loss = loss;
        CHECK(memcmp(expected, weights, sizeof(weights)) == 0 && loss == expected_loss);
    }
}

/* A step that fails changes nothing, and an epoch resumes with its batch. */
static void failures(void) {
    float weights[FEATURES] = {0}, whole[FEATURES] = {0}, before[FEATURES];
    notes n = no_notes(), m = no_notes();
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    double loss = -1, whole_loss = -1;
    options.replicas = 2;
    umbo_trainer *trainer = trainer_with(weights, &options);
    umbo_trainer *other = trainer_with(whole, &options);
    CHECK_OK(umbo_trainer_epoch(other, ROWS, 4, learn, &m, &whole_loss));
    n.fail_at = 3;
    CHECK_STATUS(umbo_trainer_step(trainer, 1, 6, learn, &n, &loss), UMBO_STATUS_ABORTED);
    CHECK_MESSAGE("replica 0");
    CHECK_MESSAGE("rows 1 to 3");
    CHECK(loss == -1 && weights[0] == 0 && progress_of(trainer).step_count == 0);
    CHECK_STATUS(umbo_trainer_evaluate(trainer, 5, 5, learn, &n, &loss), UMBO_STATUS_ABORTED);
    CHECK_MESSAGE("step 1 of the evaluation failed");
    CHECK(strstr(umbo_last_error_message(), "epoch begins") == NULL);
    n = no_notes();
    n.fail_at = 9;
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 4, learn, &n, &loss), UMBO_STATUS_ABORTED);
    CHECK_MESSAGE("step ");
    CHECK_MESSAGE(" rows (");
    const int64_t done = progress_of(trainer).epoch_step_count;
    CHECK(loss == -1 && done == progress_of(trainer).step_count && progress_of(trainer).epoch_count == 0);
    memcpy(before, weights, sizeof(before));
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 4, learn, &n, &loss), UMBO_STATUS_ABORTED);
    CHECK(memcmp(before, weights, sizeof(before)) == 0 && progress_of(trainer).epoch_step_count == done);
    n = no_notes();
    CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 4, learn, &n, &loss));
    CHECK(loss == whole_loss && memcmp(weights, whole, sizeof(whole)) == 0);
    CHECK(progress_of(trainer).epoch_count == 1 && progress_of(trainer).step_count == 6);
    CHECK(n.calls < m.calls || done == 0);
    umbo_trainer_release(other);
    umbo_trainer_release(trainer);
}

/* The function reads the program's own array; by a sum without a division the update is the sum, as the loss is. */
static umbo_status learn_in_place(const umbo_rows *rows, const float *weights, float *gradient,
                                  void *user_data, double *loss) {
    CHECK(weights == (const float *)user_data && rows->weights[0] == weights);
    for (int64_t i = 0; i < rows->count; ++i) *loss += 1, gradient[0] -= 1;
    return UMBO_OK;
}

static void sums(void) {
    for (int64_t replicas = 1; replicas <= 3; ++replicas) {
        float weights[FEATURES] = {0};
        double loss = 0;
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.loss_reduction = UMBO_LOSS_GLOBAL_MEAN;
        options.learning_rate = 1;
        options.replicas = replicas;
        umbo_trainer *trainer = trainer_with(weights, &options);
        CHECK_OK(umbo_trainer_step(trainer, 0, 7, learn_in_place, weights, &loss));
        CHECK(weights[0] == 7 && loss == 7);
        umbo_trainer_release(trainer);
    }
}

/* Rows with weights of their own, by a function that takes the mean over its rows. */
static double weight_of(int64_t row) { return (double)(1 + row % 3); }

static umbo_status learn_weighed_mean(const umbo_rows *rows, const float *weights, float *gradient,
                                      void *user_data, double *loss) {
    double weight = 0, sum = 0;
    (void)weights, (void)user_data;
    for (int64_t i = 0; i < rows->count; ++i) {
        weight += weight_of(rows->indices[i]);
        sum += weight_of(rows->indices[i]) * (double)rows->indices[i];
    }
    *loss = sum / weight;
    gradient[0] = (float)(-sum / weight);
    return umbo_rows_weigh(rows, weight);
}

static void weighed_means(void) {
    double weight = 0, sum = 0;
    for (int64_t row = 0; row < 7; ++row) weight += weight_of(row), sum += weight_of(row) * (double)row;
    for (int64_t replicas = 1; replicas <= 3; ++replicas) {
        float weights[FEATURES] = {0};
        double loss = 0;
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.loss_reduction = UMBO_LOSS_MEAN;
        options.learning_rate = 1;
        options.replicas = replicas;
        umbo_trainer *trainer = trainer_with(weights, &options);
        CHECK_OK(umbo_trainer_step(trainer, 0, 7, learn_weighed_mean, NULL, &loss));
        CHECK(near(loss, sum / weight) && near((double)weights[0], sum / weight));
        umbo_trainer_release(trainer);
    }
}

/* Gradients of 16 bits: where they are exact, the training is that of float32. */
static umbo_status learn_halves(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                                double *loss) {
    const umbo_dtype dtype = *(const umbo_dtype *)user_data;
    (void)weights;
    for (int64_t i = 0; i < rows->count; ++i) {
        float sum;
        *loss += (double)rows->indices[i];
        if (!rows->training) continue;
        if (dtype == UMBO_DTYPE_NONE || dtype == UMBO_DTYPE_FLOAT32) {
            CHECK(rows->half_gradients == NULL && gradient == rows->gradients[0]);
            gradient[rows->indices[i] % FEATURES] += 0.5f * (float)(rows->indices[i] % 5);
            continue;
        }
        CHECK(gradient == NULL && rows->gradients[0] == NULL);
        uint16_t *const at = (uint16_t *)rows->half_gradients[0] + rows->indices[i] % FEATURES;
        UMBO_TRY(umbo_dtype_convert_to_float(dtype, 1, at, &sum));
        sum += 0.5f * (float)(rows->indices[i] % 5);
        UMBO_TRY(umbo_dtype_convert_from_float(dtype, 1, &sum, at));
    }
    return UMBO_OK;
}

static void halves(void) {
    static const umbo_dtype dtypes[] = {UMBO_DTYPE_NONE, UMBO_DTYPE_FLOAT32, UMBO_DTYPE_FLOAT16, UMBO_DTYPE_BFLOAT16};
    float reference[FEATURES] = {0};
    for (int at = 0; at < COUNT_OF(dtypes); ++at) {
        umbo_dtype dtype = dtypes[at];
        float weights[FEATURES] = {0};
        double loss = -1;
        umbo_gradients *gradients = NULL;
        umbo_gradients_info info = UMBO_GRADIENTS_INFO_INIT;
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.rule = "adam";
        options.gradient_dtype = dtype;
        options.replicas = 3;
        umbo_trainer *const trainer = trainer_with(weights, &options);
        for (int epoch = 0; epoch < 3; ++epoch)
            CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 7, learn_halves, &dtype, NULL));
        CHECK_OK(umbo_trainer_evaluate(trainer, ROWS, 7, learn_halves, &dtype, &loss));
        CHECK(near(loss, (ROWS - 1) / 2.0));
        CHECK_OK(umbo_trainer_gradients(trainer, &gradients));
        CHECK_OK(umbo_gradients_get_info(gradients, 0, &info));
        CHECK(info.dtype == (at < 2 ? UMBO_DTYPE_FLOAT32 : dtype));
        if (at == 0) memcpy(reference, weights, sizeof(weights));
        CHECK(weights[0] != 0 && memcmp(reference, weights, sizeof(weights)) == 0);
        umbo_gradients_release(gradients);
        umbo_trainer_release(trainer);
    }
}

/* A program gets each part of a trainer, and another handle to it. */
static void parts(void) {
    float weights[FEATURES] = {0};
    notes n = no_notes();
    umbo_trainer *trainer = trainer_with(weights, NULL), *same = NULL;
    umbo_strategy *strategy = NULL;
    umbo_optimizer *optimizer = NULL;
    umbo_gradients *gradients = NULL;
    umbo_checkpoint *checkpoint = NULL;
    umbo_metric_result loss = UMBO_METRIC_RESULT_INIT;
    umbo_optimizer_info rule = UMBO_OPTIMIZER_INFO_INIT;
    CHECK_OK(umbo_trainer_retain(trainer, &same));
    umbo_trainer_release(trainer);
    CHECK_OK(umbo_trainer_epoch(same, ROWS, 4, learn, &n, NULL));
    CHECK_OK(umbo_trainer_strategy(same, &strategy));
    CHECK_OK(umbo_strategy_metric_result(strategy, "loss", &loss));
    CHECK(loss.weight == ROWS);
    CHECK_OK(umbo_trainer_optimizer(same, &optimizer));
    CHECK_OK(umbo_optimizer_get_info(optimizer, &rule));
    CHECK(strcmp(rule.rule, "sgd") == 0 && rule.iterations == 6);
    CHECK_OK(umbo_trainer_gradients(same, &gradients));
    CHECK_OK(umbo_trainer_checkpoint(same, &checkpoint));
    CHECK_OK(umbo_checkpoint_set_string(checkpoint, "note", "mine"));
    umbo_checkpoint_release(checkpoint);
    umbo_gradients_release(gradients);
    umbo_optimizer_release(optimizer);
    umbo_strategy_release(strategy);
    umbo_trainer_release(same);
}

/* A trainer of one array, and steps of some sizes: those with as many rows as the one before use its memory again. */
static void one_array(void) {
    static const int64_t sizes[] = {5, 5, 3, 3, 3, 7, 1, 1};
    float weights[FEATURES] = {0}, by_hand[FEATURES] = {0};
    notes n = no_notes();
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_trainer *trainer = NULL;
    double loss = -1;
    int64_t first = 0;
    options.learning_rate = 0.25;
    options.replicas = 2;
    CHECK_STATUS(umbo_trainer_create(NULL, FEATURES, &options, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("parameters[0].weights: is NULL");
    CHECK_STATUS(umbo_trainer_create(weights, 0, NULL, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("parameters[0].count: 0");
    CHECK_OK(umbo_trainer_create(weights, FEATURES, &options, &trainer));
    for (int step = 0; step < COUNT_OF(sizes); first = (first + sizes[step++]) % 16) {
        CHECK_OK(umbo_trainer_step(trainer, first, sizes[step], learn, &n, &loss));
        CHECK(near(loss, descend(by_hand, first, sizes[step], 0.25f)));
        for (int k = 0; k < FEATURES; ++k) CHECK(near(weights[k], by_hand[k]));
    }
    umbo_trainer_release(trainer);
}

int main(void) {
    make_table();
    one_array();
    for (int64_t replicas = 1; replicas <= 4; ++replicas) as_by_hand(replicas);
    orders();
    one_result();
    failures();
    sums();
    weighed_means();
    halves();
    parts();
    return finish();
}
