/* Whether a step means the same on one replica and on all: what a C program asks and is told. */
#include <math.h>

#include "check.h"

enum { ROWS = 8 };

typedef struct {
    umbo_gradients *gradients;
    umbo_loss_reduction written; /* how the callback reduces over its rows */
    umbo_gradient_mode mode;
    int adds;           /* adds to the buffer rather than writing it */
    int silent_without; /* does not submit without rows */
    int fails_without;  /* fails without rows */
    double weight;      /* 0: as many as there are rows */
} step_plan;

/* The gradient is the reduction of the rows; so is the loss. */
static umbo_status reduce_rows(umbo_replica_context *context, const umbo_value *args,
                               void *user_data, umbo_value **result) {
    const step_plan *plan = (const step_plan *)user_data;
    ZEROED(umbo_replica_context_info, position);
    umbo_view rows, gradient;
    float sum = 0;
    int64_t row;
    (void)result;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &rows));
    UMBO_TRY(umbo_replica_context_get_info(context, &position));
    if (rows.shape[0] == 0 && plan->fails_without) {
        return umbo_set_last_error(UMBO_STATUS_OUT_OF_RANGE, "there are no rows", NULL, NULL);
    }
    for (row = 0; row < rows.shape[0]; row++) sum += ((const float *)rows.data)[row];
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", (double)sum, (double)rows.shape[0]));
    if (plan->written == UMBO_LOSS_MEAN && rows.shape[0] > 0) sum /= (float)rows.shape[0];
    if (plan->written == UMBO_LOSS_GLOBAL_MEAN) sum /= (float)position.global_example_count;
    if (rows.shape[0] == 0 && plan->silent_without) return UMBO_OK;
    UMBO_TRY(umbo_gradients_view(plan->gradients, context, 0, plan->mode, &gradient));
    *(float *)gradient.mutable_data = plan->adds ? *(float *)gradient.mutable_data + sum : sum;
    if (plan->weight == 0) return umbo_gradients_submit(plan->gradients, context);
    return umbo_gradients_submit_weighted(plan->gradients, context, plan->weight);
}

typedef struct {
    umbo_strategy *strategy;
    umbo_variable *variable;
    umbo_value *batch;
} world;

static step_plan right_plan(const world *at, umbo_loss_reduction declared) {
    step_plan plan = {NULL, UMBO_LOSS_SUM, UMBO_GRADIENT_OVERWRITE, 0, 0, 0, 0};
    CHECK_OK(umbo_gradients_create(at->strategy, 1, &at->variable,
                                   declared, NULL, &plan.gradients));
    plan.written = declared;
    return plan;
}

/* The check's answer; gives the plan's gradients up. */
static umbo_equivalence *check_plan(const world *at, step_plan *plan) {
    umbo_equivalence *equivalence = NULL;
    CHECK_OK(umbo_strategy_check_equivalence(at->strategy, plan->gradients, reduce_rows, at->batch,
                                             plan, NULL, &equivalence));
    umbo_gradients_release(plan->gradients);
    return equivalence;
}

static void right(const world *at) {
    umbo_loss_reduction reduction;
    for (reduction = UMBO_LOSS_SUM; reduction <= UMBO_LOSS_GLOBAL_MEAN;
         reduction = (umbo_loss_reduction)(reduction + 1)) {
        step_plan plan = right_plan(at, reduction);
        umbo_equivalence *equivalence = check_plan(at, &plan), *another = NULL;
        umbo_equivalence_finding finding = UMBO_EQUIVALENCE_FINDING_INIT;
        umbo_equivalence_info info = UMBO_EQUIVALENCE_INFO_INIT;
        CHECK_OK(umbo_equivalence_get_info(equivalence, &info));
        CHECK(info.holds == 1 && info.finding_count == 2);
        CHECK(strcmp(info.text, "equivalent: 1 replica and 2, on 4 + 4 examples, 1 gradient, 1 metric") == 0);
        CHECK_OK(umbo_equivalence_at(equivalence, 0, &finding));
        CHECK(finding.subject == UMBO_EQUIVALENCE_OF_GRADIENT && finding.variable_index == 0);
        CHECK(finding.verdict == UMBO_EQUIVALENCE_EQUAL && finding.element_index == UMBO_NONE);
        CHECK(strcmp(finding.name, "v") == 0 && finding.factor == 0);
        CHECK_OK(umbo_equivalence_at(equivalence, 1, &finding));
        CHECK(finding.subject == UMBO_EQUIVALENCE_OF_METRIC && finding.variable_index == UMBO_NONE);
        CHECK(strcmp(finding.name, "loss") == 0);
        CHECK_STATUS(umbo_equivalence_at(equivalence, 2, &finding), UMBO_STATUS_OUT_OF_RANGE);
        CHECK_STATUS(umbo_equivalence_at(equivalence, -1, &finding), UMBO_STATUS_OUT_OF_RANGE);
        CHECK_MESSAGE("is not in [0, 2), the findings");
        CHECK_OK(umbo_equivalence_retain(equivalence, &another));
        umbo_equivalence_release(equivalence);
        equivalence = another;
        CHECK_OK(umbo_equivalence_get_info(equivalence, &info));
        umbo_equivalence_release(equivalence);
    }
}

static umbo_status always_fails(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    if (replica_id(context) == 0) return UMBO_OK;
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "the weights are gone", NULL, NULL);
}

static void refusals(const world *at) {
    umbo_equivalence *equivalence = NULL;
    umbo_equivalence_options options = UMBO_EQUIVALENCE_OPTIONS_INIT;
    umbo_value *few = float_value(1);
    step_plan plan = right_plan(at, UMBO_LOSS_SUM);
    CHECK_STATUS(umbo_strategy_check_equivalence(at->strategy, NULL, always_fails, at->batch, NULL,
                                                 NULL, &equivalence), UMBO_STATUS_DATA_LOSS);
    CHECK_MESSAGE("the weights are gone");
    CHECK(umbo_last_error_count() == 1);
    CHECK_STATUS(umbo_strategy_check_equivalence(at->strategy, NULL, reduce_rows, few, &plan, NULL,
                                                 &equivalence), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch");
    options.relative_tolerance = -2;
    CHECK_STATUS(umbo_strategy_check_equivalence(at->strategy, NULL, reduce_rows, at->batch, &plan,
                                                 &options, &equivalence), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("relative_tolerance");
    CHECK_STATUS(umbo_equivalence_retain(NULL, &equivalence), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(equivalence == NULL);
    umbo_gradients_release(plan.gradients);
    umbo_value_release(few);
}

int main(void) {
    static const float rows[ROWS] = {1, 2, 4, 8, 3, 5, 7, 11};
    world at;
    at.strategy = make_strategy(2);
    at.variable = make_variable(at.strategy, 0, UMBO_AGGREGATION_NONE);
    at.batch = floats_value(ROWS, rows);
    right(&at);
    refusals(&at);
    umbo_value_release(at.batch);
    umbo_variable_release(at.variable);
    umbo_strategy_release(at.strategy);
    return finish();
}
