/* Trainers over several arrays with options of their own, and rows of a table. */
#include "trainer_rows.h"

/* Array 0 is a table of 7 rows; the others differ in decay, rate, and whether they are frozen. */
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
        CHECK(umbo_rows_gradient_row(rows, 0, number, NULL) == UMBO_STATUS_INVALID_ARGUMENT);
        if (user_data != NULL) {
            CHECK_OK(umbo_rows_gradient_row(rows, 0, 6 - number, &again));
            CHECK((row == again) == (number == 3));
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
    CHECK_OK(umbo_trainer_create_with_arrays(4, parameters, &options, &trainer));
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
        /* One row, whose weight is 2. */
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

enum { MANY = 3000, WIDE = 3 };

/* Adds to rows that lie apart, each time to one number of theirs. What an earlier call got is refused. */
static umbo_status learn_many(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                              double *loss) {
    umbo_rows *earlier = (umbo_rows *)user_data;
    float *row = NULL;
    (void)weights, (void)gradient;
    if (rows->replica_id == 0) {
        if (earlier->call != 0) {
            CHECK_STATUS(umbo_rows_gradient_row(earlier, 0, 0, &row), UMBO_STATUS_FAILED_PRECONDITION);
        }
        *earlier = *rows;
    }
    for (int64_t i = 0; i < rows->count; ++i) {
        const int64_t number = rows->indices[i];
        UMBO_TRY(umbo_rows_gradient_row(rows, 0, number * 1000 % MANY, &row));
        row[number % WIDE] += 1;
        UMBO_TRY(umbo_rows_gradient_row(rows, 0, number * 7 % MANY, &row));
        row[0] += 2;
        UMBO_TRY(umbo_rows_gradient_row(rows, 0, number * 1000 % MANY, &row));
        row[0] += 4;
    }
    CHECK_STATUS(umbo_rows_gradient_row(rows, 0, MANY, &row), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_rows_gradient_row(rows, 0, -1, &row), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_rows_gradient_row(rows, 0, INT64_MIN, &row), UMBO_STATUS_OUT_OF_RANGE);
    *loss = 0;
    return UMBO_OK;
}

/* Steps of few rows and of many, for which the memory of a call grows. */
static void many_rows(void) {
    static const int64_t sizes[6] = {2, 90, 1, 9000, 5, 700};
    for (int64_t replicas = 1; replicas <= 3; ++replicas) {
        static float table_of[MANY * WIDE], expected[MANY * WIDE];
        umbo_rows earlier;
        umbo_parameters parameters = array_of(table_of, MANY * WIDE);
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        umbo_trainer *trainer = NULL;
        memset(&earlier, 0, sizeof(earlier));
        memset(table_of, 0, sizeof(table_of));
        memset(expected, 0, sizeof(expected));
        parameters.row_length = WIDE;
        options.learning_rate = 1;
        options.replicas = replicas;
        options.loss_reduction = UMBO_LOSS_GLOBAL_MEAN; /* nothing is divided */
        CHECK_OK(umbo_trainer_create_with_arrays(1, &parameters, &options, &trainer));
        for (int64_t step = 0; step < 6; ++step) {
            CHECK_OK(umbo_trainer_step(trainer, step, sizes[step], learn_many, &earlier, NULL));
            for (int64_t number = step; number < step + sizes[step]; ++number) {
                expected[number * 1000 % MANY * WIDE + number % WIDE] -= 1;
                expected[number * 7 % MANY * WIDE] -= 2;
                expected[number * 1000 % MANY * WIDE] -= 4;
            }
            CHECK(memcmp(table_of, expected, sizeof(expected)) == 0);
        }
        umbo_trainer_release(trainer);
    }
}

/* Rows are for the call that gets them. */
static void rows_outside_of_a_call(void) {
    umbo_rows rows;
    float *row = NULL;
    memset(&rows, 0, sizeof(rows));
    rows.struct_size = sizeof(rows);
    rows.count = rows.training = 1;
    rows.thread_count = rows.array_count = 1;
    rows.call = 1;
    CHECK_STATUS(umbo_rows_gradient_row(&rows, 0, 0, &row), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("not those of the call");
    CHECK_STATUS(umbo_rows_weigh(&rows, 1), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK(row == NULL);
}

int main(void) {
    arrays();
    many_rows();
    rows_outside_of_a_call();
    return finish();
}
