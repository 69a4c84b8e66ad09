/* Mistakes that compile: each row of the table in docs/internals/mistakes.md has its block here, or in tests/cpp/test_hazards.cpp. A
 * test of the documents compares the rows with the calls of hazard(). */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include "check.h"

#define ROWS 8

static char said[16384]; /* the warnings since the block began */
static int64_t warnings;

static void note(umbo_log_level level, const char *message, void *user_data) {
    (void)level, (void)user_data;
    warnings++;
    if (strlen(said) + strlen(message) + 2 < sizeof(said)) strcat(strcat(said, message), "\n");
}

/* A row of the table begins. */
static void hazard(const char *mistake) {
    (void)mistake;
    said[0] = '\0';
    warnings = 0;
}

static void check_said(int line, int64_t count, const char *words) {
    if (warnings != count || strstr(said, words) == NULL) {
        fprintf(stderr, "%d warnings, expected %d with \"%s\":\n%s", (int)warnings, (int)count, words, said);
        check_failed(__FILE__, line, words);
    }
}

#define CHECK_SAID(count, words) check_said(__LINE__, count, words)

static umbo_strategy *strategy_of(int strict) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    options.cpu_replicas = 2;
    options.strict = strict;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    return strategy;
}

static umbo_dataset *rows_in_batches(int64_t size) {
    static const float rows[ROWS] = {1, 2, 3, 4, 5, 6, 7, 8};
    umbo_value *value = floats_value(ROWS, rows);
    umbo_dataset *dataset = NULL;
    CHECK_OK(umbo_dataset_from_tensor_slices(value, &dataset));
    umbo_value_release(value);
    CHECK_OK(umbo_dataset_batch(&dataset, size, 0));
    return dataset;
}

static umbo_iterator *batches_of(umbo_strategy *strategy, umbo_dataset *dataset) {
    umbo_iterator *iterator = NULL;
    CHECK_OK(umbo_strategy_iterate(strategy, dataset, NULL, &iterator));
    umbo_dataset_release(dataset);
    return iterator;
}

/* ---- options, and arguments */

static umbo_status two_numbers(umbo_replica_context *context, const umbo_value *args, void *user_data,
                               umbo_value **result) {
    umbo_tensor *tensor = NULL;
    const int64_t size = 2;
    (void)context, (void)args, (void)user_data;
    UMBO_TRY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
    return umbo_value_from_tensor(tensor, result);
}

static void never(const umbo_update_tile *tile, void *user_data) { (void)tile, (void)user_data; }

static void of_options(umbo_strategy *strategy) {
    const int32_t axes[1] = {0};
    const char *const names[1] = {"velocity"};
    umbo_reduce_options reduction = UMBO_REDUCE_OPTIONS_INIT;
    umbo_custom_rule_options rule = UMBO_CUSTOM_RULE_OPTIONS_INIT;
    umbo_optimizer *optimizer = NULL;
    umbo_value *values = NULL, *sum = NULL;
    CHECK_OK(umbo_strategy_run(strategy, two_numbers, NULL, NULL, NULL, &values));

    hazard("a list of options without its count: `options.axes = axes` without `axis_count`");
    reduction.axes = axes;
    CHECK_STATUS(umbo_strategy_reduce(strategy, values, UMBO_REDUCE_SUM, &reduction, &sum), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.axis_count: is 0, but options.axes is given");

    hazard("a list of options without its count: `state_names` of an update rule without `state_count`");
    rule.state_names = names;
    CHECK_STATUS(umbo_optimizer_create_custom(strategy, never, NULL, NULL, &rule, &optimizer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.state_count: is 0, but options.state_names is given");

    hazard("options by an initialiser that sets some fields, as `{.struct_size = sizeof(o), .learning_rate = 0.1}`");
    {
        umbo_momentum_options options;
        memset(&options, 0, sizeof(options));
        options.struct_size = sizeof(options);
        options.learning_rate = 0.1;
        CHECK_STATUS(umbo_optimizer_create_momentum(strategy, &options, &optimizer), UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("nothing has set the defaults; start from UMBO_MOMENTUM_OPTIONS_INIT or UMBO_OPTIONS");
    }

    hazard("a constant of another enum, as `umbo_strategy_reduce(strategy, value, UMBO_GRADIENT_ADD, …)`");
    CHECK_STATUS(umbo_strategy_reduce(strategy, values, UMBO_ENUM_VALUE(umbo_reduce_op, UMBO_GRADIENT_ADD), NULL, &sum),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("op: UMBO_GRADIENT_ADD (702), which is a umbo_gradient_mode; valid are UMBO_REDUCE_SUM (601)");
    umbo_value_release(values);
}

static void of_arguments(umbo_strategy *strategy) {
    const int64_t size = 3;
    umbo_tensor *tensor = NULL;
    umbo_dataset *dataset = rows_in_batches(4);

    hazard("arguments in another order, as `umbo_tensor_create_zeros(ndim, dtype, …)`");
    CHECK_STATUS(umbo_tensor_create_zeros(UMBO_ENUM_VALUE(umbo_dtype, 1), UMBO_DTYPE_FLOAT32, &size, NULL, &tensor),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_tensor_create_zeros: ");

    hazard("the constant `UMBO_NONE` in the place of `UMBO_ALL`, as in `umbo_dataset_take`");
    CHECK_STATUS(umbo_dataset_take(&dataset, UMBO_NONE), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("count: UMBO_NONE (-14); must be 0 or more, or UMBO_ALL");
    umbo_dataset_release(dataset);

    hazard("two variables of one name and shape, both drawn with the default seed");
    {
        umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
        umbo_variable *towers[2] = {NULL, NULL};
        float numbers[2][3];
        int32_t at;
        options.initial = UMBO_INITIAL_GLOROT_UNIFORM;
        options.dtype = UMBO_DTYPE_FLOAT32;
        options.ndim = 1;
        options.shape = &size;
        for (at = 0; at < 2; at++) {
            CHECK_OK(umbo_variable_create(strategy, "w", NULL, &options, &towers[at]));
            CHECK_OK(umbo_variable_download(towers[at], numbers[at], sizeof(numbers[at])));
            umbo_variable_release(towers[at]);
        }
        CHECK(memcmp(numbers[0], numbers[1], sizeof(numbers[0])) != 0);
    }
}

/* ---- loops */

/* The numbers of batches of two passes by hand. */
static void two_passes(umbo_iterator *iterator, int64_t *batches, umbo_status *status) {
    int32_t pass;
    for (pass = 0; pass < 2; pass++) {
        umbo_value *batch = NULL;
        while ((*status = umbo_iterator_next(iterator, &batch)) == UMBO_OK && batch != NULL) {
            batches[pass]++;
            umbo_value_release(batch);
        }
    }
}

static void of_loops(umbo_strategy *strategy, umbo_strategy *strict) {
    umbo_strategy *const both[2] = {strategy, strict};
    int32_t at;
    for (at = 0; at < 2; at++) {
        int64_t batches[2] = {0, 0};
        umbo_status status;
        umbo_iterator *iterator = batches_of(both[at], rows_in_batches(4));
        hazard("a loop of your own that does not reset its iterator: all passes but the first are empty");
        two_passes(iterator, batches, &status);
        CHECK(batches[0] == 2 && batches[1] == 0);
        if (at == 0) CHECK_SAID(1, "asked for an element once more without a reset");
        CHECK(status == (at == 0 ? UMBO_OK : UMBO_STATUS_FAILED_PRECONDITION));
        umbo_iterator_release(iterator);
    }
    for (at = 0; at < 2; at++) {
        umbo_dataset *dataset = rows_in_batches(4);
        umbo_iterator *iterator;
        umbo_value *batch = NULL;
        umbo_distributed_dataset *distributed = NULL;
        umbo_status status;
        hazard("batches that are shuffled: `umbo_dataset_shuffle` after `umbo_dataset_batch`");
        CHECK_OK(umbo_dataset_shuffle(&dataset, NULL));
        status = umbo_strategy_distribute_dataset(both[at], dataset, NULL, &distributed);
        if (status == UMBO_OK) {
            CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
            status = umbo_iterator_next(iterator, &batch);
            umbo_value_release(batch);
            umbo_iterator_release(iterator);
            umbo_distributed_dataset_release(distributed);
        }
        umbo_dataset_release(dataset);
        CHECK(status == (at == 0 ? UMBO_OK : UMBO_STATUS_INVALID_ARGUMENT));
        if (at == 0) CHECK_SAID(1, "batches are shuffled, and not the elements in them");
    }
}

/* ---- handles */

typedef struct {
    umbo_tensor *kept;
} holder;

static umbo_status leaves_a_value(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                  umbo_value **result) {
    umbo_value *value = NULL;
    (void)context, (void)args, (void)user_data, (void)result;
    return two_numbers(context, NULL, NULL, &value);
}

static umbo_status stops_with_a_value(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                      umbo_value **result) {
    umbo_value *value = NULL, *item = NULL;
    (void)args, (void)user_data, (void)result;
    UMBO_TRY(two_numbers(context, NULL, NULL, &value));
    UMBO_TRY(umbo_value_item(value, 9, &item));
    return UMBO_OK;
}

static umbo_status keeps_a_tensor(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                  umbo_value **result) {
    const int64_t size = 2;
    (void)args, (void)result;
    if (replica_id(context) != 0) return UMBO_OK;
    return umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &((holder *)user_data)->kept);
}

static void of_handles(umbo_strategy *strategy) {
    holder kept = {NULL};
    umbo_view view;
    int64_t before;

    hazard("a callback that does not release the tensors and values that it makes");
    CHECK_OK(umbo_strategy_run(strategy, leaves_a_value, NULL, NULL, NULL, NULL));
    CHECK(live(UMBO_HANDLE_TENSOR) == 0 && live(UMBO_HANDLE_VALUE) == 0);

    hazard("the macro `UMBO_TRY` that leaves a callback with tensors or values in hand");
    CHECK(umbo_strategy_run(strategy, stops_with_a_value, NULL, NULL, NULL, NULL) != UMBO_OK);
    CHECK(live(UMBO_HANDLE_TENSOR) == 0 && live(UMBO_HANDLE_VALUE) == 0);

    hazard("a tensor that a callback has made, used after it has returned and not retained");
    CHECK_OK(umbo_strategy_run(strategy, keeps_a_tensor, NULL, &kept, NULL, NULL));
    CHECK_STATUS(umbo_tensor_view(kept.kept, &view), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("belonged to a callback that has returned");

    hazard("a loop outside of callbacks that releases nothing of what it makes");
    before = live(UMBO_HANDLE_TENSOR);
    {
        enum { MANY = 70000 };
        umbo_tensor **all = (umbo_tensor **)calloc(MANY, sizeof(*all));
        int32_t at;
        CHECK(all != NULL);
        for (at = 0; at < MANY; at++) CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 0, NULL, NULL, &all[at]));
        CHECK_SAID(1, "check that a loop releases each that it makes");
        for (at = 0; at < MANY; at++) umbo_tensor_release(all[at]);
        free(all);
    }
    CHECK(live(UMBO_HANDLE_TENSOR) == before);
}

/* ---- steps */

enum { MEAN_AS_SUM, SWAPPED, RIGHT, WRITES };

typedef struct {
    int what;
    umbo_variable *variable;
} mistake;

static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data, umbo_value **result) {
    const mistake *const self = (const mistake *)user_data;
    umbo_view rows;
    double sum = 0, count;
    int64_t at;
    (void)result;
    if (self->what == WRITES) {
        UMBO_TRY(umbo_variable_view(self->variable, context, UMBO_DTYPE_FLOAT32, &rows));
        memset((void *)(size_t)rows.data, 0, sizeof(float));
        return UMBO_OK;
    }
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_FLOAT32, &rows));
    for (at = 0; at < rows.shape[0]; at++) sum += (double)((const float *)rows.data)[at];
    count = (double)rows.shape[0];
    switch (self->what) {
        case MEAN_AS_SUM: return umbo_replica_context_add_metric(context, "loss", count > 0 ? sum / count : 0, count);
        case SWAPPED: return umbo_replica_context_add_metric(context, "loss", count, 0.3 * sum);
        default: return umbo_replica_context_add_metric(context, "loss", sum, count);
    }
}

static void run_checked(umbo_strategy *strategy, mistake *self) {
    umbo_iterator *iterator = batches_of(strategy, rows_in_batches(ROWS));
    umbo_value *batch = NULL;
    CHECK_OK(umbo_iterator_next(iterator, &batch));
    CHECK_OK(umbo_strategy_run(strategy, step, batch, self, NULL, NULL));
    umbo_value_release(batch);
    umbo_iterator_release(iterator);
}

static void of_steps(umbo_strategy *strategy, umbo_strategy *strict) {
    mistake self = {RIGHT, NULL};
    umbo_strategy *lax;
    float number = 0;

    hazard("");
    run_checked(strategy, &self);
    CHECK(warnings == 0);

    hazard("a mean in the place of a sum: `umbo_replica_context_add_metric(ctx, \"loss\", mean, count)`");
    self.what = MEAN_AS_SUM;
    run_checked(strategy, &self);
    CHECK_SAID(1, "the callback adds a mean with the number of its examples as the weight");

    hazard("weight and sum swapped: `umbo_replica_context_add_metric(ctx, \"loss\", count, sum)`");
    self.what = SWAPPED;
    run_checked(strategy, &self);
    CHECK_SAID(1, "as if they were swapped; the sum comes first, then the weight");

    hazard("a variable written through a view of it, after a cast");
    self.what = WRITES;
    lax = strategy_of(0);
    self.variable = make_variable(lax, 5, UMBO_AGGREGATION_NONE);
    CHECK_OK(umbo_strategy_run(lax, step, NULL, &self, NULL, NULL));
    CHECK_SAID(1, "was written through a view of it, which is for reading");
    CHECK_OK(umbo_strategy_run(lax, step, NULL, &self, NULL, NULL));
    CHECK(warnings == 1);
    umbo_variable_release(self.variable);
    umbo_strategy_release(lax);
    self.variable = make_variable(strict, 5, UMBO_AGGREGATION_NONE);
    CHECK_STATUS(umbo_strategy_run(strict, step, NULL, &self, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("was written through a view of it, which is for reading");
    CHECK_OK(umbo_variable_download(self.variable, &number, sizeof(number)));
    CHECK(number == 5);
    umbo_variable_release(self.variable);
}

int main(void) {
    umbo_strategy *strategy, *strict;
    CHECK(setenv("UMBO_CHECK_STEPS", "1", 1) == 0);
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, note, NULL, NULL));
    strategy = strategy_of(0);
    strict = strategy_of(1);
    of_options(strategy);
    of_arguments(strategy);
    of_loops(strategy, strict);
    of_handles(strategy);
    of_steps(strategy, strict);
    umbo_strategy_release(strict);
    umbo_strategy_release(strategy);
    return finish();
}
