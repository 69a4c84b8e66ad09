/* A trainer over arrays of the program: what it computes, what it refuses, and what it hands out. */
#include "check.h"

#include <signal.h>

enum { ROWS = 23, FEATURES = 3 };

static float table[ROWS][FEATURES + 1]; /* each row: the features, and what to predict */

static void make_table(void) {
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

/* What a learn function is told, and what it does. */
typedef struct {
    int64_t fail_at;   /* the row at which it fails; -1: at none */
    int64_t calls;     /* all calls */
    int64_t seen[ROWS];/* how often it got each row */
    int64_t evaluated; /* rows without gradients */
    int stray;         /* asks for what there is not */
} notes;

static double learn_row(const float *x, const float *w, float *sum) {
    float error = -x[FEATURES];
    for (int k = 0; k < FEATURES; ++k) error += w[k] * x[k];
    for (int k = 0; sum != NULL && k < FEATURES; ++k) sum[k] += error * x[k];
    return (double)(error * error) / 2;
}

static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient,
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

static notes no_notes(void) {
    notes n;
    memset(&n, 0, sizeof(n));
    n.fail_at = -1;
    return n;
}

static umbo_parameters array_of(float *weights, int64_t count) {
    umbo_parameters parameters;
    memset(&parameters, 0, sizeof(parameters));
    parameters.weights = weights;
    parameters.count = count;
    return parameters;
}

static umbo_trainer *trainer_with(float *weights, const umbo_trainer_options *options) {
    const umbo_parameters parameters = array_of(weights, FEATURES);
    umbo_trainer *trainer = NULL;
    CHECK_OK(umbo_trainer_create(1, &parameters, options, &trainer));
    return trainer;
}

static umbo_trainer_info progress_of(const umbo_trainer *trainer) {
    umbo_trainer_info info = UMBO_TRAINER_INFO_INIT;
    CHECK_OK(umbo_trainer_get_info(trainer, &info));
    return info;
}

/* The step by hand: the mean gradient of some rows, gradient descent. */
static double descend(float *weights, int64_t first, int64_t count, float rate) {
    float sum[FEATURES] = {0};
    double loss = 0;
    for (int64_t i = first; i < first + count; ++i) loss += learn_row(table[i], weights, sum);
    for (int k = 0; k < FEATURES; ++k) weights[k] -= rate * (sum[k] / (float)count);
    return loss / (double)count;
}

static int near(double a, double b) { return a - b < 1e-5 && b - a < 1e-5; }

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
    CHECK(near(loss, total / ROWS) && n.evaluated == ROWS);
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
            umbo_dataset *dataset = NULL;
            umbo_iterator *iterator = NULL;
            umbo_value *batch = NULL;
            umbo_view view;
            CHECK_OK(umbo_trainer_dataset(trainer, ROWS, ROWS, &dataset));
            CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
            CHECK_OK(umbo_iterator_next(iterator, &batch));
            CHECK_OK(umbo_value_view(batch, NULL, UMBO_DTYPE_INT64, &view));
            memcpy(first[run][epoch], view.data, sizeof(first[run][epoch]));
            umbo_value_release(batch);
            umbo_iterator_release(iterator);
            umbo_dataset_release(dataset);
            CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 4, learn, &n, NULL));
            for (int i = 0; i < ROWS; ++i) CHECK(n.seen[i] == epoch + 1);
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

/* A step that fails changes nothing, and an epoch goes on with its batch. */
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

/* Arrays with options of their own: rows of a table, decay, rate, frozen. */
static umbo_status learn_table(const umbo_rows *rows, const float *weights, float *gradient,
                               void *user_data, double *loss) {
    float *row = NULL, *again = NULL;
    int64_t number;
    CHECK(gradient == NULL && rows->gradients[0] == NULL && rows->array_count == 4);
    CHECK(weights == rows->weights[0]);
    for (int64_t i = 0; i < rows->count; ++i) {
        number = rows->indices[i] % 7;
        if (!rows->training) {
            CHECK(rows->gradients[1] == NULL);
            CHECK_STATUS(umbo_rows_gradient_row(rows, 0, 0, &row), UMBO_STATUS_FAILED_PRECONDITION);
            CHECK_MESSAGE("training is 1");
            continue;
        }
        CHECK_OK(umbo_rows_gradient_row(rows, 0, number, &row));
        row[0] += 1, row[1] -= 2;
        for (int k = 1; k < 4; ++k) rows->gradients[k][0] += 1;
        {
            const int64_t both[3] = {number, 6 - number, number}, wrong[2] = {3, 7};
            float *places[3] = {NULL, NULL, NULL};
            CHECK_STATUS(umbo_rows_gradient_rows(rows, 0, 2, wrong, places), UMBO_STATUS_OUT_OF_RANGE);
            CHECK_STATUS(umbo_rows_gradient_rows(rows, 1, 1, both, places),
                         UMBO_STATUS_INVALID_ARGUMENT);
            CHECK(places[0] == NULL);
            CHECK_OK(umbo_rows_gradient_rows(rows, 0, 1, both, places));
            CHECK(places[0] == row && places[1] == NULL);
            CHECK_OK(umbo_rows_gradient_rows(rows, 0, 0, NULL, NULL));
            if (user_data != NULL) {
                CHECK_OK(umbo_rows_gradient_rows(rows, 0, 3, both, places));
                CHECK(places[0] == row && places[2] == row);
                CHECK((places[1] == row) == (number == 3));
            }
        }
        CHECK_OK(umbo_rows_gradient_row(rows, 0, number, &again));
        CHECK(row == again);
    }
    *loss += 3 * (double)rows->count;
    if (user_data == NULL) return UMBO_OK;
    CHECK_STATUS(umbo_rows_gradient_row(rows, 0, 7, &row), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("row: 7 is not in [0, 7)");
    CHECK_STATUS(umbo_rows_gradient_row(rows, 0, -1, &row), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_rows_gradient_row(rows, 4, 0, &row), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("array: 4");
    CHECK_STATUS(umbo_rows_gradient_row(rows, 1, 0, &row), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("row_length");
    CHECK_STATUS(umbo_rows_weigh(rows, -1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("weight: -1");
    {
        umbo_rows other = *rows;
        other.call++;
        CHECK_STATUS(umbo_rows_gradient_row(&other, 0, 0, &row), UMBO_STATUS_FAILED_PRECONDITION);
        CHECK_STATUS(umbo_rows_weigh(&other, 1), UMBO_STATUS_FAILED_PRECONDITION);
    }
    return umbo_rows_weigh(rows, *(const double *)user_data);
}

static umbo_trainer *several(float *table_of, float *others, int64_t replicas) {
    umbo_parameters parameters[4];
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_trainer *trainer = NULL;
    options.learning_rate = 1;
    options.weight_decay = 0.5;
    options.replicas = replicas;
    options.shuffle = 0;
    parameters[0] = array_of(table_of, 14);
    parameters[0].row_length = 2;
    parameters[0].no_weight_decay = 1;
    for (int k = 1; k < 4; ++k) parameters[k] = array_of(&others[k - 1], 1);
    parameters[1].name = "first";
    parameters[2].learning_rate_factor = 0.5;
    parameters[3].frozen = 1;
    CHECK_OK(umbo_trainer_create(4, parameters, &options, &trainer));
    return trainer;
}

static void arrays(void) {
    for (int64_t replicas = 1; replicas <= 3; ++replicas) {
        float table_of[14] = {0}, others[3] = {1, 1, 1};
        double loss = 0, weight = 2;
        umbo_trainer *trainer = several(table_of, others, replicas);
        umbo_variable *variable = NULL;
        /* Rows 0 to 8 of the table of 7 rows: two of them twice. */
        CHECK_OK(umbo_trainer_step(trainer, 0, 9, learn_table, NULL, &loss));
        CHECK(loss == 3);
        for (int row = 0; row < 7; ++row) {
            const double times = row < 2 ? 2 : 1;
            CHECK(near(table_of[2 * row], -times / 9) && near(table_of[2 * row + 1], 2 * times / 9));
        }
        /* w - rate * factor * (1 + 0.5 * w) */
        CHECK(near(others[0], -0.5) && near(others[1], 0.25) && others[2] == 1);
        CHECK_OK(umbo_trainer_evaluate(trainer, 9, 4, learn_table, NULL, &loss));
        /* One row, which counts twice. */
        CHECK_OK(umbo_trainer_step(trainer, 3, 1, learn_table, &weight, &loss));
        CHECK(loss == 1.5 && near(table_of[6], -1.0 / 9 - 0.5));
        CHECK_OK(umbo_trainer_variable(trainer, 3, &variable));
        CHECK(strcmp(facts_of(variable).name, "weights_3") == 0);
        umbo_variable_release(variable);
        CHECK_OK(umbo_trainer_variable(trainer, 1, &variable));
        CHECK(strcmp(facts_of(variable).name, "first") == 0);
        umbo_variable_release(variable);
        CHECK_STATUS(umbo_trainer_variable(trainer, 4, &variable), UMBO_STATUS_OUT_OF_RANGE);
        umbo_trainer_release(trainer);
    }
}

/* Rows are for the call that gets them. */
static void rows_outside_of_a_call(void) {
    const umbo_rows rows = {sizeof(umbo_rows), 1, NULL, 1, 0, NULL, 1, NULL, NULL, 1};
    float *row = NULL;
    CHECK_STATUS(umbo_rows_gradient_row(&rows, 0, 0, &row), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("not those of the call");
    CHECK_STATUS(umbo_rows_weigh(&rows, 1), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK(row == NULL);
}

/* A training goes on from a file as if it had never stopped, also from the middle of an epoch. */
static void resumes(void) {
    const char *const path = "test_trainer.umbo";
    float whole[FEATURES] = {0}, part[FEATURES] = {0}, rest[FEATURES] = {0};
    double whole_loss = 0, loss = 0;
    int64_t epochs = -1;
    notes n = no_notes();
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.rule = "adam";
    options.accumulation_steps = 3;
    options.replicas = 2;
    options.replicas_in_sync = 4;
    umbo_trainer *trainer = trainer_with(whole, &options);
    for (int epoch = 0; epoch < 3; ++epoch)
        CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 2, learn, &n, &whole_loss));
    umbo_trainer_release(trainer);

    trainer = trainer_with(part, &options);
    CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 2, learn, &n, NULL));
    n.fail_at = 11;
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 2, learn, &n, NULL), UMBO_STATUS_ABORTED);
    CHECK_OK(umbo_trainer_save(trainer, path));
    umbo_trainer_release(trainer);

    n.fail_at = -1;
    options.replicas = 1;
    trainer = trainer_with(rest, &options);
    CHECK_OK(umbo_trainer_resume(trainer, "test_trainer.none", &epochs));
    CHECK(epochs == 0 && rest[0] == 0);
    CHECK_STATUS(umbo_trainer_restore(trainer, "test_trainer.none"), UMBO_STATUS_NOT_FOUND);
    CHECK_OK(umbo_trainer_resume(trainer, path, &epochs));
    CHECK(epochs == 1 && memcmp(rest, part, sizeof(rest)) == 0);
    for (; epochs < 3; ++epochs) CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 2, learn, &n, &loss));
    CHECK(memcmp(rest, whole, sizeof(rest)) == 0 && loss == whole_loss);
    CHECK(progress_of(trainer).step_count == 36 && progress_of(trainer).epoch_count == 3);
    CHECK_OK(umbo_trainer_restore(trainer, path));
    CHECK_OK(umbo_trainer_resume(trainer, path, NULL));
    CHECK(memcmp(rest, part, sizeof(rest)) == 0 && progress_of(trainer).epoch_count == 1);
    umbo_trainer_release(trainer);
    CHECK(remove(path) == 0);
    /* What is no file of a training is refused. */
    trainer = trainer_with(rest, NULL);
    CHECK_STATUS(umbo_trainer_save(trainer, "no/such/folder"), UMBO_STATUS_NOT_FOUND);
    CHECK_STATUS(umbo_trainer_restore(trainer, "."), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_trainer_resume(trainer, ".", NULL), UMBO_STATUS_INVALID_ARGUMENT);
    /* Nor can a training be saved later where it could not be resumed from. */
    CHECK_STATUS(umbo_trainer_resume(trainer, "", NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("path: '': names no file");
    CHECK_STATUS(umbo_trainer_resume(trainer, "no/such", NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("path: 'no/such': there is no such folder");
    umbo_trainer_release(trainer);
}

/* An interrupt ends the epoch after a step, and the training is saved. */
static umbo_status learn_interrupted(const umbo_rows *rows, const float *weights, float *gradient,
                                     void *user_data, double *loss) {
    if (*(int *)user_data) {
        *(int *)user_data = 0;
        CHECK(raise(SIGINT) == 0);
    }
    for (int64_t i = 0; i < rows->count; ++i)
        *loss += learn_row(table[rows->indices[i]], weights, gradient);
    return UMBO_OK;
}

static int interrupts_of_the_program = 0;

static void on_interrupt(int number) {
    (void)number;
    interrupts_of_the_program++;
}

static void interrupts(void) {
    const char *const path = "test_trainer_interrupted.umbo";
    float weights[FEATURES] = {0}, again[FEATURES] = {0};
    int interrupt = 1;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.replicas = 1;
    options.interrupt_path = path;
    CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
    umbo_trainer *trainer = trainer_with(weights, &options);
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 4, learn_interrupted, &interrupt, NULL),
                 UMBO_STATUS_CANCELLED);
    CHECK_MESSAGE("interrupted");
    CHECK_MESSAGE("the training is in 'test_trainer_interrupted.umbo'");
    CHECK(interrupts_of_the_program == 0 && progress_of(trainer).epoch_step_count == 1);
    CHECK(raise(SIGINT) == 0 && interrupts_of_the_program == 1);
    umbo_trainer *other = trainer_with(again, &options);
    CHECK_OK(umbo_trainer_resume(other, path, NULL));
    CHECK(memcmp(again, weights, sizeof(again)) == 0 && progress_of(other).epoch_step_count == 1);
    CHECK_OK(umbo_trainer_epoch(other, ROWS, 4, learn_interrupted, &interrupt, NULL));
    CHECK(progress_of(other).step_count == 6);
    umbo_trainer_release(other);
    umbo_trainer_release(trainer);
    CHECK(remove(path) == 0 && signal(SIGINT, SIG_DFL) != SIG_ERR);
}

static void refused(umbo_parameters parameters, const umbo_trainer_options *options,
                    const char *words) {
    umbo_trainer *trainer = NULL;
    CHECK_STATUS(umbo_trainer_create(1, &parameters, options, &trainer),
                 UMBO_STATUS_INVALID_ARGUMENT);
    if (strstr(umbo_last_error_message(), words) == NULL) {
        fprintf(stderr, "expected: %s\n", words);
        check_failed(__FILE__, __LINE__, "the message");
    }
    CHECK(trainer == NULL);
}

/* Each field of each array is named with the array's index. */
static void fields(void) {
    static float both[2][FEATURES];
    for (int index = 0; index < 2; ++index) {
        for (int field = 0; field < 9; ++field) {
            umbo_parameters parameters[2] = {array_of(both[0], FEATURES), array_of(both[1], FEATURES)};
            umbo_parameters *one = &parameters[index];
            umbo_trainer *trainer = NULL;
            char expected[64];
            const char *name = "weights";
            if (field == 0) one->weights = NULL;
            if (field == 1) one->count = 0, name = "count";
            if (field == 2) one->name = "\xff", name = "name";
            if (field == 3) one->row_length = 2, name = "row_length";
            if (field == 4) one->row_length = -1, name = "row_length";
            if (field == 5) one->learning_rate_factor = -1, name = "learning_rate_factor";
            if (field == 6) one->no_weight_decay = 2, name = "no_weight_decay";
            if (field == 7) one->frozen = 2, name = "frozen";
            if (field == 8) one->reserved[3] = 1, name = "reserved";
            snprintf(expected, sizeof(expected), "parameters[%d].%s: ", index, name);
            CHECK_STATUS(umbo_trainer_create(2, parameters, NULL, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
            if (strstr(umbo_last_error_message(), expected) == NULL)
                check_failed(__FILE__, __LINE__, expected);
        }
    }
    /* No memory is there up to the last address. */
    refused(array_of((float *)(UINTPTR_MAX - 7), 4), NULL, "parameters[0]: 16 bytes from 0x");
}

/* A step has so many rows at most, also one of an epoch. */
static void too_large_batches(umbo_trainer *trainer) {
    const int64_t rows = INT64_C(1) << 30, most = INT64_C(1) << 28;
    umbo_dataset *dataset = NULL;
    notes n = no_notes();
    CHECK_STATUS(umbo_trainer_epoch(trainer, rows, most + 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch_size: 268435457; a step has at most 268435456 rows");
    CHECK_STATUS(umbo_trainer_evaluate(trainer, rows, most + 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch_size: 268435457");
    CHECK_STATUS(umbo_trainer_dataset(trainer, rows, most + 1, &dataset), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch_size: 268435457");
    CHECK_STATUS(umbo_trainer_step(trainer, 0, most + 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("row_count: 268435457");
    CHECK_OK(umbo_trainer_evaluate(trainer, ROWS, INT64_MAX, learn, &n, NULL));
    CHECK(n.evaluated == ROWS);
}

static void set_rates(umbo_trainer *trainer) {
    CHECK_STATUS(umbo_trainer_set_learning_rate(trainer, -1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("learning_rate: -1");
    CHECK_STATUS(umbo_trainer_set_learning_rate(NULL, 1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("trainer: is NULL");
    CHECK_OK(umbo_trainer_set_learning_rate(trainer, 0));
}

static void mistakes(void) {
    float weights[FEATURES + 1] = {0};
    umbo_trainer *trainer = NULL;
    umbo_strategy *strategy = NULL, *strange = NULL;
    umbo_optimizer *optimizer = NULL;
    umbo_parameters one = array_of(weights, FEATURES), two[2];
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    notes n = no_notes();
    CHECK_STATUS(umbo_trainer_create(0, &one, NULL, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("count: 0");
    refused(array_of(NULL, 3), NULL, "parameters[0].weights: is NULL");
    refused(array_of((float *)(void *)((char *)weights + 1), 1), NULL, "not a multiple of 4");
    refused(array_of(weights, 0), NULL, "parameters[0].count: 0");
    refused(array_of(weights, -1), NULL, "parameters[0].count: -1");
    one.row_length = 2;
    refused(one, NULL, "parameters[0].row_length: 2");
    one.row_length = -1;
    refused(one, NULL, "row_length");
    one = array_of(weights, FEATURES), one.reserved[2] = 1;
    refused(one, NULL, "parameters[0].reserved");
    one = array_of(weights, FEATURES), one.learning_rate_factor = -1;
    refused(one, NULL, "parameters[0].learning_rate_factor: -1");
    one = array_of(weights, FEATURES), one.frozen = 2;
    refused(one, NULL, "frozen: 2");
    one = array_of(weights, FEATURES), one.no_weight_decay = 2;
    refused(one, NULL, "no_weight_decay: 2");
    two[0] = array_of(weights, 2), two[1] = array_of(weights + 1, 2);
    CHECK_STATUS(umbo_trainer_create(2, two, NULL, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("parameters[0] and parameters[1] have elements in common");
    two[1] = array_of(weights + 2, 2), two[0].name = two[1].name = "w";
    CHECK_STATUS(umbo_trainer_create(2, two, NULL, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("'w'");
    one = array_of(weights, FEATURES);
    options.rule = "adamax";
    refused(one, &options, "options.rule: 'adamax'; valid are sgd, momentum");
    options.rule = NULL, options.learning_rate = -1;
    refused(one, &options, "options.learning_rate: -1");
    options.learning_rate = UMBO_AUTO, options.weight_decay = -1;
    refused(one, &options, "options.weight_decay: -1");
    options.weight_decay = UMBO_AUTO, options.global_clip_norm = 0;
    refused(one, &options, "options.global_clip_norm: 0");
    options.global_clip_norm = UMBO_INFINITE, options.schedule = "steps";
    refused(one, &options, "options.schedule: 'steps'; valid are linear and cosine");
    options.schedule = "cosine", options.warmup_updates = 3, options.schedule_updates = 3;
    refused(one, &options, "options.schedule_updates: 3; must be more than the 3");
    options.schedule = NULL;
    refused(one, &options, "options.schedule_updates: 3; a learning rate that does not fall");
    options.schedule_updates = 0, options.warmup_updates = -1;
    refused(one, &options, "options.warmup_updates: -1");
    options.warmup_updates = 0, options.accumulation_steps = 0;
    refused(one, &options, "options.accumulation_steps: 0");
    options.accumulation_steps = 1, options.loss_reduction = (umbo_loss_reduction)7;
    refused(one, &options, "options.loss_reduction: 7");
    options.loss_reduction = UMBO_LOSS_SUM, options.replicas = -1;
    refused(one, &options, "options.replicas: -1");
    options.replicas = 2000;
    refused(one, &options, "options.replicas: 2000");
    options.replicas = 3, options.replicas_in_sync = 2;
    refused(one, &options, "options.replicas_in_sync: 2");
    options.replicas = 0, options.replicas_in_sync = 0, options.shuffle = 2;
    refused(one, &options, "options.shuffle: 2");
    options.shuffle = 1, options.progress = -1;
    refused(one, &options, "options.progress: -1");
    options.progress = 0, options.timeout_seconds = -1;
    refused(one, &options, "options.timeout_seconds: -1");
    options.timeout_seconds = UMBO_INFINITE, options.interrupt_path = "";
    refused(one, &options, "options.interrupt_path: '': names no file");
    options.interrupt_path = "no/such";
    refused(one, &options, "options.interrupt_path: 'no/such': there is no such folder");
    options.interrupt_path = ".";
    refused(one, &options, "options.interrupt_path: '.': is a folder");
    options.interrupt_path = "test_trainer.none/";
    refused(one, &options, "options.interrupt_path: 'test_trainer.none/': is a folder");
    options.interrupt_path = NULL;
    CHECK_OK(umbo_strategy_create_cpu(1, &strategy));
    CHECK_OK(umbo_strategy_create_cpu(1, &strange));
    CHECK_OK(umbo_optimizer_create_sgd(strange, NULL, &optimizer));
    options.strategy = strategy, options.replicas = 1;
    refused(one, &options, "options.replicas: given together with options.strategy");
    options.replicas = 0, options.replicas_in_sync = 1;
    refused(one, &options, "options.replicas_in_sync: given together");
    options.replicas_in_sync = 0, options.optimizer = optimizer;
    refused(one, &options, "options.optimizer: made for another strategy");
    options.strategy = strange, options.rule = "sgd";
    refused(one, &options, "options.rule: given together with options.optimizer");
    options.rule = NULL, options.learning_rate = 1;
    refused(one, &options, "options.learning_rate: given together");
    options.learning_rate = UMBO_AUTO;
    CHECK_OK(umbo_trainer_create(1, &one, &options, &trainer));
    CHECK_STATUS(umbo_trainer_epoch(trainer, 0, 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("row_count: 0");
    CHECK_STATUS(umbo_trainer_epoch(trainer, 1, 0, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch_size: 0");
    CHECK_STATUS(umbo_trainer_evaluate(trainer, 1, -1, learn, &n, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    too_large_batches(trainer);
    set_rates(trainer);
    CHECK_STATUS(umbo_trainer_step(trainer, -1, 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("first_row: -1");
    CHECK_STATUS(umbo_trainer_step(trainer, 0, INT64_C(1) << 40, learn, &n, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("row_count: 1099511627776");
    CHECK_STATUS(umbo_trainer_step(trainer, INT64_MAX, 2, learn, &n, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("first_row: ");
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, NULL, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("learn: is NULL");
    umbo_trainer_release(trainer);
    umbo_optimizer_release(optimizer);
    umbo_strategy_release(strange);
    umbo_strategy_release(strategy);
}

/* A trainer cannot be used in one of its steps. */
static umbo_status learn_inside(const umbo_rows *rows, const float *weights, float *gradient,
                                void *user_data, double *loss) {
    (void)rows, (void)weights, (void)gradient, (void)loss;
    return umbo_trainer_step((umbo_trainer *)user_data, 0, 1, learn_inside, user_data, NULL);
}

/* A clip, a gradient that is not finite, limits. */
static umbo_status learn_nothing(const umbo_rows *rows, const float *weights, float *gradient,
                                 void *user_data, double *loss) {
    (void)rows, (void)weights, (void)loss;
    gradient[0] = *(float *)user_data;
    return UMBO_OK;
}

static void limits(void) {
    float weights[FEATURES] = {0}, gradient = 100;
    umbo_cancellation *token = NULL;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.global_clip_norm = 1;
    options.learning_rate = 1;
    options.replicas = 2;
    umbo_trainer *trainer = trainer_with(weights, &options);
    CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_nothing, &gradient, NULL));
    CHECK(near(weights[0], -1));
    gradient = 1e30f;
    gradient *= gradient;
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, learn_nothing, &gradient, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("weights");
    CHECK(near(weights[0], -1) && progress_of(trainer).step_count == 1);
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, learn_inside, trainer, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    umbo_trainer_release(trainer);
    CHECK_OK(umbo_cancellation_create(&token));
    options.cancellation = token;
    options.timeout_seconds = 3600;
    trainer = trainer_with(weights, &options);
    gradient = 0;
    CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_nothing, &gradient, NULL));
    CHECK_OK(umbo_cancellation_cancel(token));
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, learn_nothing, &gradient, NULL),
                 UMBO_STATUS_CANCELLED);
    CHECK_STATUS(umbo_trainer_epoch(trainer, 4, 1, learn_nothing, &gradient, NULL),
                 UMBO_STATUS_CANCELLED);
    umbo_trainer_release(trainer);
    options.cancellation = NULL;
    options.timeout_seconds = 0;
    trainer = trainer_with(weights, &options);
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, learn_nothing, &gradient, NULL),
                 UMBO_STATUS_DEADLINE_EXCEEDED);
    umbo_trainer_release(trainer);
    umbo_cancellation_release(token);
}

/* Of steps with so little to do the trainer chooses one replica, and goes on as if it had been so from the beginning. */
static void chooses(void) {
    float weights[2][FEATURES] = {{0}, {0}};
    double loss[2] = {0, 0};
    int64_t processors = 1;
    notes n = no_notes();
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    CHECK_OK(umbo_processor_count(&processors));
    options.rule = "adam";
    options.accumulation_steps = 3;
    options.replicas_in_sync = processors < 4 ? 4 : processors;
    for (int run = 0; run < 2; ++run) {
        options.replicas = run == 0 ? UMBO_AUTO : 1;
        umbo_trainer *trainer = trainer_with(weights[run], &options);
        umbo_strategy *strategy = NULL;
        umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
        for (int epoch = 0; epoch < 10; ++epoch) {
            CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 3, learn, &n, &loss[run]));
            CHECK_OK(umbo_trainer_step(trainer, epoch, 2, learn, &n, NULL));
        }
        CHECK(progress_of(trainer).step_count == 90 && progress_of(trainer).epoch_count == 10);
        CHECK_OK(umbo_trainer_strategy(trainer, &strategy));
        CHECK_OK(umbo_strategy_get_info(strategy, &info));
        printf("%d compute devices are left\n", (int)info.compute_device_count);
        CHECK(info.replica_count == options.replicas_in_sync && info.compute_device_count <= processors);
        umbo_strategy_release(strategy);
        umbo_trainer_release(trainer);
    }
    CHECK(loss[0] == loss[1] && memcmp(weights[0], weights[1], sizeof(weights[0])) == 0);
    /* Who gets a part settles the choice. */
    umbo_gradients *gradients = NULL;
    options.replicas = UMBO_AUTO;
    options.replicas_in_sync = 0;
    umbo_trainer *trainer = trainer_with(weights[0], &options);
    const int64_t before = progress_of(trainer).replica_count;
    CHECK_OK(umbo_trainer_step(trainer, 0, 2, learn, &n, NULL));
    CHECK_OK(umbo_trainer_gradients(trainer, &gradients));
    for (int epoch = 0; epoch < 4; ++epoch)
        CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 1, learn, &n, NULL));
    CHECK(progress_of(trainer).replica_count == before);
    umbo_gradients_release(gradients);
    umbo_trainer_release(trainer);
}

/* The learning rate rises and falls, also over a restart. */
static void schedules(void) {
    static const double factors[] = {0.5, 1, 1, 0.75, 0.5, 0.25, 0, 0};
    float weights[FEATURES] = {0}, one = 1;
    double at = 0;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.learning_rate = 0.5;
    options.schedule = "linear";
    options.schedule_updates = 6;
    options.warmup_updates = 2;
    options.replicas = 1;
    umbo_trainer *trainer = trainer_with(weights, &options);
    for (int step = 0; step < 8; ++step) {
        CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_nothing, &one, NULL));
        at -= 0.5 * factors[step];
        CHECK(near((double)weights[0], at));
        if (step != 3) continue;
        CHECK_OK(umbo_trainer_save(trainer, "test_trainer.umbo"));
        umbo_trainer_release(trainer);
        trainer = trainer_with(weights, &options);
        CHECK_OK(umbo_trainer_restore(trainer, "test_trainer.umbo"));
        CHECK(remove("test_trainer.umbo") == 0);
    }
    umbo_trainer_release(trainer);
}

/* The program sets the rate of each update, which ends a schedule, and keeps it if one replica is chosen. */
static void rates_of_the_program(void) {
    float weights[FEATURES] = {0}, one = 1;
    double at = 0;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.schedule = "linear";
    options.schedule_updates = 6;
    options.replicas = UMBO_AUTO;
    umbo_trainer *trainer = trainer_with(weights, &options);
    for (int step = 0; step < 60; ++step) {
        if (step < 50) CHECK_OK(umbo_trainer_set_learning_rate(trainer, 1.0 / (step + 1)));
        CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_nothing, &one, NULL));
        at -= 1.0 / (step < 50 ? step + 1 : 50);
        CHECK(near((double)weights[0], at));
    }
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

/* An epoch that another seed or order has begun is not continued: its rows would be others. */
static void other_orders(void) {
    for (int other = 0; other < 3; ++other) {
        float weights[FEATURES] = {0};
        notes n = no_notes();
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.seed = 3;
        options.replicas = 1;
        umbo_trainer *trainer = trainer_with(weights, &options);
        n.fail_at = 9;
        CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 1, learn, &n, NULL), UMBO_STATUS_ABORTED);
        const int64_t done = progress_of(trainer).epoch_step_count;
        CHECK(done > 0);
        CHECK_OK(umbo_trainer_save(trainer, "test_trainer.umbo"));
        umbo_trainer_release(trainer);
        if (other == 1) options.seed = 4;
        if (other == 2) options.shuffle = 0;
        trainer = trainer_with(weights, &options);
        CHECK_OK(umbo_trainer_resume(trainer, "test_trainer.umbo", NULL));
        n = no_notes();
        CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 1, learn, &n, NULL));
        CHECK(n.calls == ROWS - (other == 0 ? done : 0));
        umbo_trainer_release(trainer);
        CHECK(remove("test_trainer.umbo") == 0);
    }
}

/* Each part can be had. */
static void grows(void) {
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
    CHECK(same == trainer || same != NULL);
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

int main(void) {
    make_table();
    for (int64_t replicas = 1; replicas <= 4; ++replicas) as_by_hand(replicas);
    orders();
    one_result();
    failures();
    arrays();
    rows_outside_of_a_call();
    resumes();
    interrupts();
    fields();
    mistakes();
    limits();
    schedules();
    rates_of_the_program();
    sums();
    other_orders();
    chooses();
    grows();
    return finish();
}
