/* Gradients: buffers, modes, weights, loss reductions; what may not be left out. */
#include <math.h>

#include "check.h"

typedef struct {
    umbo_gradients *gradients;
    float gradient[4];   /* what each replica writes */
    double weight[4];    /* below 0: submits without a weight */
    int silent;          /* the replica that does not submit, or -1 */
    int writes_second;   /* the replica that writes the second gradient, or -1 */
} step_plan;

static umbo_status plan_step(umbo_replica_context *context, const umbo_value *args,
                             void *user_data, umbo_value **result) {
    const step_plan *plan = (const step_plan *)user_data;
    const int32_t id = replica_id(context);
    umbo_view view;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(plan->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    CHECK(view.dtype == UMBO_DTYPE_FLOAT32 && view.ndim == 0);
    *(float *)view.mutable_data = plan->gradient[id];
    if (plan->writes_second == id) {
        UMBO_TRY(umbo_gradients_view(plan->gradients, context, 1, UMBO_GRADIENT_ADD, &view));
        CHECK(*(const float *)view.data == 0); /* zeroed first */
        *(float *)view.mutable_data += 6;
    }
    if (plan->silent == id) return UMBO_OK;
    if (plan->weight[id] < 0) return umbo_gradients_submit(plan->gradients, context);
    return umbo_gradients_submit_weighted(plan->gradients, context, plan->weight[id]);
}

static umbo_gradients *make_gradients(umbo_strategy *strategy, int32_t count,
                                      umbo_variable **variables, umbo_loss_reduction reduction) {
    umbo_gradients *gradients = NULL;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    options.loss_reduction = reduction;
    CHECK_OK(umbo_gradients_create(strategy, count, variables,
                                   &options, &gradients));
    return gradients;
}

static umbo_optimizer *make_sgd(umbo_strategy *strategy) {
    umbo_optimizer *optimizer = NULL;
    umbo_sgd_options options = UMBO_SGD_OPTIONS_INIT;
    options.learning_rate = 1;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &options, &optimizer));
    return optimizer;
}

/* One step from 0 with rate 1 leaves minus the reduced gradient. */
static void loss_reductions(umbo_strategy *strategy) {
    /* SUM: (1 + 3) / (1 + 3). MEAN: (1 * 1 + 3 * 3) / 4. GLOBAL_MEAN: 1 + 3. */
    static const float expected[3] = {-1.0f, -2.5f, -4.0f};
    umbo_loss_reduction reduction;
    for (reduction = UMBO_LOSS_SUM; reduction <= UMBO_LOSS_GLOBAL_MEAN;
         reduction = (umbo_loss_reduction)(reduction + 1)) {
        step_plan plan = {NULL, {1, 3, 0, 0}, {1, 3, 0, 0}, -1, -1};
        umbo_variable *variable = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
        umbo_optimizer *sgd = make_sgd(strategy);
        ZEROED(umbo_apply_report, report);
        plan.gradients = make_gradients(strategy, 1, &variable, reduction);
        CHECK_OK(umbo_strategy_run(strategy, plan_step, &plan, NULL, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(sgd, plan.gradients, NULL, &report));
        CHECK(report.applied == 1 && report.updated_count == 1 && report.total_weight == 4);
        CHECK(float_of_variable(variable) == expected[reduction - UMBO_LOSS_SUM]);
        umbo_optimizer_release(sgd);
        umbo_gradients_release(plan.gradients);
        umbo_variable_release(variable);
    }
}

static void weights_of_zero(umbo_strategy *strategy) {
    step_plan plan = {NULL, {2, 0, 0, 0}, {2, 0, 0, 0}, -1, -1};
    umbo_variable *variable = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    umbo_optimizer *sgd = make_sgd(strategy);
    ZEROED(umbo_apply_report, report);
    plan.gradient[1] = (float)NAN; /* never read: 0 x NaN does not leak */
    plan.gradients = make_gradients(strategy, 1, &variable, UMBO_LOSS_SUM);
    CHECK_OK(umbo_strategy_run(strategy, plan_step, &plan, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(sgd, plan.gradients, NULL, &report));
    CHECK(report.applied == 1 && float_of_variable(variable) == -1);

    plan.weight[0] = 0; /* nothing at all: no update, and said so */
    CHECK_OK(umbo_strategy_run(strategy, plan_step, &plan, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(sgd, plan.gradients, NULL, &report));
    CHECK(report.applied == 0 && report.total_weight == 0);
    CHECK(float_of_variable(variable) == -1);

    plan.weight[0] = NAN;
    CHECK_STATUS(umbo_strategy_run(strategy, plan_step, &plan, NULL, NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("weight");
    CHECK_MESSAGE("replica 0");
    umbo_optimizer_release(sgd);
    umbo_gradients_release(plan.gradients);
    umbo_variable_release(variable);
}

static void unwritten_variables(umbo_strategy *strategy) {
    step_plan plan = {NULL, {1, 1, 0, 0}, {1, 1, 0, 0}, -1, -1};
    umbo_variable *variables[2];
    umbo_optimizer *sgd = make_sgd(strategy);
    ZEROED(umbo_apply_report, report);
    variables[0] = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    variables[1] = make_variable(strategy, 5, UMBO_AGGREGATION_NONE);
    plan.gradients = make_gradients(strategy, 2, variables, UMBO_LOSS_SUM);
    CHECK_OK(umbo_strategy_run(strategy, plan_step, &plan, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(sgd, plan.gradients, NULL, &report));
    CHECK(report.updated_count == 1 && float_of_variable(variables[1]) == 5);
    plan.writes_second = 1; /* some wrote it: the others count as zero, 6 / 2 */
    CHECK_OK(umbo_strategy_run(strategy, plan_step, &plan, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(sgd, plan.gradients, NULL, &report));
    CHECK(report.updated_count == 2 && float_of_variable(variables[1]) == 2);
    umbo_gradients_release(plan.gradients);
    umbo_variable_release(variables[1]);
    umbo_variable_release(variables[0]);
    umbo_optimizer_release(sgd);
}

static void not_submitted(umbo_strategy *strategy) {
    step_plan plan = {NULL, {1, 1, 0, 0}, {1, 1, 0, 0}, 1, -1};
    umbo_variable *variable = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    umbo_optimizer *sgd = make_sgd(strategy);
    plan.gradients = make_gradients(strategy, 1, &variable, UMBO_LOSS_SUM);
    CHECK_OK(umbo_strategy_run(strategy, plan_step, &plan, NULL, NULL, NULL));
    CHECK_STATUS(umbo_optimizer_apply(sgd, plan.gradients, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("replica 1");
    CHECK(float_of_variable(variable) == 0);
    umbo_optimizer_release(sgd);
    umbo_gradients_release(plan.gradients);
    umbo_variable_release(variable);
}

static umbo_status look_wrong(umbo_replica_context *context, const umbo_value *args,
                              void *user_data, umbo_value **result) {
    umbo_gradients *gradients = (umbo_gradients *)user_data;
    umbo_view view;
    (void)args;
    (void)result;
    CHECK_STATUS(umbo_gradients_view(gradients, context, 1, UMBO_GRADIENT_OVERWRITE, &view),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("index");
    CHECK_STATUS(umbo_gradients_view(gradients, context, 0, (umbo_gradient_mode)0, &view),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("mode");
    return UMBO_OK;
}

static void refused(umbo_strategy *strategy) {
    umbo_strategy *other = make_strategy(2);
    umbo_variable *variable = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    umbo_variable *listed[2];
    umbo_gradients *gradients = NULL;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    listed[0] = variable;
    listed[1] = variable;
    CHECK_STATUS(umbo_gradients_create(strategy, 1, listed, &options, &gradients),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("loss_reduction");
    options.loss_reduction = UMBO_LOSS_SUM;
    CHECK_STATUS(umbo_gradients_create(strategy, 0, listed, &options, &gradients),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_gradients_create(strategy, 2, listed, &options, &gradients),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("variables");
    CHECK(umbo_gradients_create(other, 1, listed, &options, &gradients) != UMBO_OK);
    CHECK(gradients == NULL);
    CHECK_OK(umbo_gradients_create(strategy, 1, listed, &options, &gradients));
    CHECK_OK(umbo_strategy_run(strategy, look_wrong, gradients, NULL, NULL, NULL));
    umbo_gradients_release(gradients);
    umbo_variable_release(variable);
    umbo_strategy_release(other);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    loss_reductions(strategy);
    weights_of_zero(strategy);
    unwritten_variables(strategy);
    not_submitted(strategy);
    refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
