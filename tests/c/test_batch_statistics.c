/* Several variables assigned at once, with replicas that count by their examples: running statistics of a
 * batch normalisation, over batches that do not divide evenly. */
#include <math.h>

#include "check.h"

#define CHANNELS 3

/* What a step assigns: a mean over the replica's examples, a count, and the first replica's number. */
typedef struct {
    umbo_variable *variables[3];
    int replicas;
    int with_weights;          /* gives weights, and takes no arguments */
    double weights[4];
    int fails;                 /* the replica that fails after the assignment, or -1 */
    int reads;                 /* looks at what the step has assigned */
    umbo_dtype dtype;
} statistics;

static umbo_view view_of(umbo_dtype dtype, int32_t rank, int64_t size, void *data) {
    return umbo_view_of_memory(dtype, rank, &size, data);
}

/* The value of example `index` in channel `channel`. */
static double example(int64_t index, int channel) { return (double)(index * index + channel); }

static umbo_status measure(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    statistics *plan = (statistics *)user_data;
    umbo_replica_context_info position = UMBO_REPLICA_CONTEXT_INFO_INIT;
    const int id = replica_id(context);
    double sums[CHANNELS] = {0}, wide[CHANNELS];
    float narrow[CHANNELS], first = (float)(10 + id);
    int64_t count = 1, row;
    umbo_view views[3];
    umbo_status status;
    int channel;
    (void)args;
    (void)result;
    CHECK_OK(umbo_replica_context_get_info(context, &position));
    for (row = 0; row < position.local_example_count; row++)
        for (channel = 0; channel < CHANNELS; channel++)
            sums[channel] += example(position.first_example + row, channel);
    for (channel = 0; channel < CHANNELS; channel++) {
        wide[channel] = plan->with_weights ? id + 1 : sums[channel] / (double)position.local_example_count;
        narrow[channel] = (float)wide[channel];
    }
    views[0] = plan->dtype == UMBO_DTYPE_FLOAT64 ? view_of(UMBO_DTYPE_FLOAT64, 1, CHANNELS, wide)
                                                 : view_of(UMBO_DTYPE_FLOAT32, 1, CHANNELS, narrow);
    views[1] = view_of(UMBO_DTYPE_INT64, 0, 0, &count);
    views[2] = view_of(UMBO_DTYPE_FLOAT32, 0, 0, &first);
    status = umbo_variable_assign_all(
        3, plan->variables, context, views,
        plan->with_weights ? plan->weights[id] : UMBO_AUTO);
    UMBO_TRY(status);
    if (plan->reads) {
        umbo_view now;
        UMBO_TRY(umbo_variable_view(plan->variables[2], context, UMBO_DTYPE_NONE, &now));
        CHECK(*(const float *)now.data == 10);
    }
    if (plan->fails == id) return umbo_set_last_error(UMBO_STATUS_ABORTED, "as planned", NULL, NULL);
    return UMBO_OK;
}

static umbo_variable *make_one(umbo_strategy *strategy, umbo_dtype dtype, int32_t rank,
                               umbo_aggregation aggregation) {
    const int64_t size = CHANNELS;
    umbo_variable *variable = NULL;
    umbo_tensor *zeros = NULL;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    options.aggregation = aggregation;
    CHECK_OK(umbo_tensor_create_zeros(dtype, rank, &size, NULL, &zeros));
    CHECK_OK(umbo_variable_create(strategy, "s", zeros, &options, &variable));
    umbo_tensor_release(zeros);
    return variable;
}

static statistics make_statistics(umbo_strategy *strategy, int replicas, umbo_dtype dtype) {
    statistics plan;
    memset(&plan, 0, sizeof(plan));
    plan.replicas = replicas;
    plan.fails = -1;
    plan.dtype = dtype;
    plan.variables[0] = make_one(strategy, dtype, 1, UMBO_AGGREGATION_MEAN);
    plan.variables[1] = make_one(strategy, UMBO_DTYPE_INT64, 0, UMBO_AGGREGATION_SUM);
    plan.variables[2] = make_one(strategy, UMBO_DTYPE_FLOAT32, 0, UMBO_AGGREGATION_ONLY_FIRST_REPLICA);
    return plan;
}

static void release_statistics(statistics *plan) {
    int index;
    for (index = 0; index < 3; index++) umbo_variable_release(plan->variables[index]);
}

static double mean_of(const statistics *plan, int channel) {
    float narrow[CHANNELS];
    double wide[CHANNELS];
    if (plan->dtype == UMBO_DTYPE_FLOAT64) {
        CHECK_OK(umbo_variable_download(plan->variables[0], wide, sizeof(wide)));
        return wide[channel];
    }
    CHECK_OK(umbo_variable_download(plan->variables[0], narrow, sizeof(narrow)));
    return (double)narrow[channel];
}

static int64_t count_assigned(const statistics *plan) {
    int64_t count = -1;
    CHECK_OK(umbo_variable_download(plan->variables[1], &count, sizeof(count)));
    return count;
}

/* However examples fall on replicas, the mean is that of the whole batch. */
static void by_examples(void) {
    int replicas;
    int64_t examples;
    for (replicas = 1; replicas <= 4; replicas++) {
        umbo_strategy *strategy = make_strategy(replicas);
        for (examples = 1; examples <= 9; examples++) {
            const umbo_dtype dtype = examples % 2 ? UMBO_DTYPE_FLOAT32 : UMBO_DTYPE_FLOAT64;
            statistics plan = make_statistics(strategy, replicas, dtype);
            float rows[9] = {0};
            umbo_value *whole = floats_value(examples, rows), *batch = NULL;
            int channel;
            int64_t row, used = examples < replicas ? examples : replicas;
            plan.reads = 1;
            CHECK_OK(umbo_strategy_split(strategy, whole, &batch));
            CHECK_OK(umbo_strategy_run(strategy, measure, batch, &plan, NULL, NULL));
            for (channel = 0; channel < CHANNELS; channel++) {
                double sum = 0;
                for (row = 0; row < examples; row++) sum += example(row, channel);
                CHECK(fabs(mean_of(&plan, channel) - sum / (double)examples) < 1e-5);
            }
            /* Replicas without examples make the call and count nowhere; one replica has the value. */
            CHECK(count_assigned(&plan) <= used && count_assigned(&plan) >= 1);
            CHECK(float_of_variable(plan.variables[2]) == 10);
            umbo_value_release(batch);
            umbo_value_release(whole);
            release_statistics(&plan);
        }
        umbo_strategy_release(strategy);
    }
}

static void by_weights(void) {
    umbo_strategy *strategy = make_strategy(3);
    statistics plan = make_statistics(strategy, 3, UMBO_DTYPE_FLOAT32);
    plan.with_weights = 1;
    plan.weights[0] = 1;
    plan.weights[2] = 3; /* (1 * 1 + 3 * 3) / 4; the second counts nowhere */
    CHECK_OK(umbo_strategy_run(strategy, measure, NULL, &plan, NULL, NULL));
    CHECK(mean_of(&plan, 0) == 2.5 && count_assigned(&plan) == 2);
    CHECK(float_of_variable(plan.variables[2]) == 10);
    plan.weights[0] = 0; /* one alone: its value, and it is the first that counts */
    CHECK_OK(umbo_strategy_run(strategy, measure, NULL, &plan, NULL, NULL));
    CHECK(mean_of(&plan, 2) == 3 && count_assigned(&plan) == 1);
    CHECK(float_of_variable(plan.variables[2]) == 12);
    plan.weights[2] = 0; /* nobody: nothing is assigned */
    CHECK_OK(umbo_strategy_run(strategy, measure, NULL, &plan, NULL, NULL));
    CHECK(mean_of(&plan, 2) == 3 && float_of_variable(plan.variables[2]) == 12);
    plan.weights[0] = plan.weights[1] = plan.weights[2] = 1;
    plan.fails = 1; /* all of it or nothing */
    CHECK_STATUS(umbo_strategy_run(strategy, measure, NULL, &plan, NULL, NULL), UMBO_STATUS_ABORTED);
    CHECK(mean_of(&plan, 2) == 3 && count_assigned(&plan) == 1);
    plan.fails = -1;
    plan.weights[1] = NAN;
    CHECK_STATUS(umbo_strategy_run(strategy, measure, NULL, &plan, NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("weight");
    plan.with_weights = 0;
    CHECK_STATUS(umbo_strategy_run(strategy, measure, NULL, &plan, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("assign with a weight");
    CHECK(mean_of(&plan, 2) == 3);
    release_statistics(&plan);
    umbo_strategy_release(strategy);
}

int main(void) {
    by_examples();
    by_weights();
    return finish();
}
