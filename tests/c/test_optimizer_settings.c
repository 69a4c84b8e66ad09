/* What an optimizer does around its rule, through C: rules, loss scale, groups, schedule, accumulation, reports. */
#include <math.h>

#include "check.h"

typedef struct {
    umbo_strategy *strategy;
    umbo_gradients *gradients;
    umbo_optimizer *inside; /* applied within the step, or NULL */
    float gradient;
} training;

static umbo_status give_gradient(umbo_replica_context *context, const umbo_value *args,
                                 void *user_data, umbo_value **result) {
    const training *self = (const training *)user_data;
    umbo_view gradient;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    *(float *)gradient.mutable_data = self->gradient;
    UMBO_TRY(umbo_gradients_submit_weighted(self->gradients, context, 1));
    if (self->inside == NULL) return UMBO_OK;
    return umbo_optimizer_apply(self->inside, self->gradients, NULL, NULL);
}

/* A run in which every replica's gradient is `gradient`, and its apply. */
static umbo_apply_report step(umbo_strategy *strategy, umbo_optimizer *optimizer,
                              umbo_gradients *gradients, float gradient) {
    training self = {NULL, NULL, NULL, 0};
    umbo_apply_report report = UMBO_APPLY_REPORT_INIT;
    self.gradients = gradients;
    self.gradient = gradient;
    CHECK_OK(umbo_strategy_run(strategy, give_gradient, NULL, &self, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(optimizer, gradients, NULL, &report));
    return report;
}

/* Creates an optimizer of a rule with the default options. */
#define CREATE(rule)                                                                              \
    static umbo_status create_##rule(umbo_strategy *strategy, umbo_optimizer **optimizer) {       \
        const umbo_##rule##_options options = {umbo_##rule##_options_defaults};                   \
        return umbo_optimizer_create_##rule(strategy, &options, optimizer);                       \
    }
CREATE(sgd)
CREATE(momentum)
CREATE(adam)
CREATE(adamw)
CREATE(nadam)
CREATE(radam)
CREATE(lion)
CREATE(lamb)
CREATE(lars)
CREATE(adagrad)
CREATE(rmsprop)
CREATE(ftrl)

/* One step of gradient 2 from weight 1, with each rule's default options. */
static void rules(umbo_strategy *strategy) {
    /* NAdam's momentum in the first update and the second. */
    const double p1 = 0.9 * (1 - 0.5 * pow(0.96, 0.004)), p2 = 0.9 * (1 - 0.5 * pow(0.96, 0.008));
    const struct {
        umbo_status (*create)(umbo_strategy *, umbo_optimizer **);
        const char *state;
        double expected;
    } all[] = {
        {create_sgd, NULL, 1 - 0.01 * 2},
        {create_momentum, "momentum", 1 - 0.01 * 2},
        {create_adam, "m", 1 - 0.001},
        {create_adamw, "m", 1 - 0.001 * 0.01 - 0.001},
        {create_nadam, "m", 1 - 0.002 * ((1 - p1) / (1 - p1) + p2 / (1 - p1 * p2) * 0.1)},
        {create_radam, "v", 1 - 0.001 * 2},
        {create_lion, "m", 1 - 0.0001},
        {create_lamb, "v", 1 - 0.001 * 1},
        {create_lars, "momentum", 1 - 0.1 * 0.001 * 1},
        {create_adagrad, "accumulator", 1 - 0.01},
        {create_rmsprop, "v", 1 - 0.01 * 2 / sqrt(0.01 * 4)},
        {create_ftrl, "n", -(2 - 2 / 0.1) / ((1 + 2) / 0.1)},
    };
    int rule;
    for (rule = 0; rule < COUNT_OF(all); rule++) {
        umbo_variable *variable = make_variable(strategy, 1, UMBO_AGGREGATION_NONE);
        umbo_gradients *gradients = make_mean_gradients(strategy, variable, 0);
        umbo_optimizer *optimizer = NULL;
        umbo_tensor *state = NULL;
        CHECK_OK(all[rule].create(strategy, &optimizer));
        CHECK(step(strategy, optimizer, gradients, 2).applied == 1);
        CHECK(is_close(float_of_variable(variable), all[rule].expected));
        if (all[rule].state != NULL)
            CHECK_OK(umbo_optimizer_read_state(optimizer, variable, all[rule].state, &state));
        umbo_tensor_release(state);
        umbo_gradients_release(gradients);
        umbo_variable_release(variable);
        umbo_optimizer_release(optimizer);
    }
}

static umbo_optimizer *sgd_of(umbo_strategy *strategy) {
    umbo_sgd_options options = UMBO_SGD_OPTIONS_INIT;
    umbo_optimizer *optimizer = NULL;
    options.learning_rate = 1;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &options, &optimizer));
    return optimizer;
}

/* The scale halves when an apply is skipped, and doubles after two that were not. */
static void loss_scale(umbo_strategy *strategy) {
    umbo_variable *variable = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    umbo_gradients *gradients = make_mean_gradients(strategy, variable, 0);
    umbo_optimizer *optimizer = sgd_of(strategy);
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    umbo_apply_report report;
    training self = {NULL, NULL, NULL, (float)NAN};
    double scale = 0;
    options.loss_scaling = UMBO_LOSS_SCALING_DYNAMIC;
    options.loss_scale = 8;
    options.loss_scale_growth_interval = 2;
    CHECK_OK(umbo_optimizer_configure(optimizer, &options));
    report = step(strategy, optimizer, gradients, (float)NAN);
    CHECK(report.skipped == 1 && report.applied == 0 && report.iterations == 0);
    CHECK(report.non_finite_variable != NULL && report.loss_scale == 4);
    scale = optimizer_info_of(optimizer).loss_scale;
    CHECK(scale == 4);
    CHECK(step(strategy, optimizer, gradients, 4).loss_scale == 4);
    report = step(strategy, optimizer, gradients, 4);
    CHECK(report.loss_scale == 8 && report.non_finite_variable == NULL);
    CHECK(float_of_variable(variable) == -2);
    /* A deferred apply is reported later. */
    self.gradients = gradients;
    self.inside = optimizer;
    CHECK_OK(umbo_strategy_run(strategy, give_gradient, NULL, &self, NULL, NULL));
    CHECK_OK(umbo_optimizer_last_report(optimizer, &report));
    CHECK(report.skipped == 1 && report.loss_scale == 4 && report.deferred == 0);
    CHECK(report.non_finite_variable != NULL && float_of_variable(variable) == -2);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(gradients);
    umbo_variable_release(variable);
}

static void accumulation(umbo_strategy *strategy) {
    umbo_variable *variable = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    umbo_gradients *gradients = make_mean_gradients(strategy, variable, 3);
    umbo_optimizer *optimizer = sgd_of(strategy);
    umbo_apply_options options = UMBO_APPLY_OPTIONS_INIT;
    umbo_apply_report report;
    training self = {NULL, NULL, NULL, 5};
    CHECK(step(strategy, optimizer, gradients, 1).accumulated_count == 1);
    CHECK(step(strategy, optimizer, gradients, 2).accumulated_count == 2);
    CHECK(float_of_variable(variable) == 0);
    report = step(strategy, optimizer, gradients, 6);
    CHECK(report.applied == 1 && report.accumulated_count == 0 && report.total_weight == 6);
    CHECK(float_of_variable(variable) == -3);
    self.gradients = gradients;
    CHECK_OK(umbo_strategy_run(strategy, give_gradient, NULL, &self, NULL, NULL));
    options.flush = 1;
    options.measure_norm = 1;
    CHECK_OK(umbo_optimizer_apply(optimizer, gradients, &options, &report));
    CHECK(report.applied == 1 && report.gradient_norm == 5 && float_of_variable(variable) == -8);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(gradients);
    umbo_variable_release(variable);
}

typedef struct {
    int64_t steps[4];
    int calls, released;
} schedule_log;

static umbo_status schedule(int64_t step_number, void *user_data, double *learning_rate) {
    schedule_log *log = (schedule_log *)user_data;
    log->steps[log->calls++] = step_number;
    if (log->calls == 2) return umbo_set_last_error(UMBO_STATUS_UNAVAILABLE, "no rate today", NULL, NULL);
    if (log->calls < 4) *learning_rate = 0.5 * log->calls; /* else it is forgotten */
    return UMBO_OK;
}

/* Calls back what would wait for the apply that calls it. */
static umbo_status reentrant(int64_t step_number, void *user_data, double *learning_rate) {
    const training *self = (const training *)user_data;
    umbo_strategy *strategy = self->strategy;
    (void)step_number;
    CHECK_STATUS(umbo_optimizer_apply(self->inside, self->gradients, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("schedule");
    CHECK_STATUS(umbo_strategy_synchronize(strategy), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_strategy_run(strategy, give_gradient, NULL, user_data, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    *learning_rate = optimizer_info_of(self->inside).learning_rate;
    return UMBO_OK;
}

static void reentrant_schedules(umbo_strategy *strategy) {
    umbo_variable *variable = make_variable(strategy, 4, UMBO_AGGREGATION_NONE);
    umbo_gradients *gradients = make_mean_gradients(strategy, variable, 0);
    umbo_optimizer *optimizer = sgd_of(strategy);
    training self = {NULL, NULL, NULL, 0};
    self.strategy = strategy;
    self.gradients = gradients;
    self.inside = optimizer;
    CHECK_OK(umbo_optimizer_set_schedule(optimizer, reentrant, &self, NULL));
    CHECK(step(strategy, optimizer, gradients, 1).learning_rate == 1);
    CHECK(float_of_variable(variable) == 3);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(gradients);
    umbo_variable_release(variable);
}

static void release_log(void *user_data) { ((schedule_log *)user_data)->released++; }

static void schedules_and_groups(umbo_strategy *strategy) {
    umbo_variable *variable = make_variable(strategy, 4, UMBO_AGGREGATION_NONE);
    umbo_variable *member = variable;
    umbo_gradients *gradients = make_mean_gradients(strategy, variable, 0);
    umbo_optimizer *optimizer = sgd_of(strategy);
    umbo_group_options group = UMBO_GROUP_OPTIONS_INIT;
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    training self = {NULL, NULL, NULL, 1};
    schedule_log log = {{0, 0, 0, 0}, 0, 0};
    double rate = 0;
    self.gradients = gradients;
    options.weight_decay = 0.5;
    CHECK_OK(umbo_optimizer_configure(optimizer, &options));
    group.learning_rate_factor = 2;
    group.weight_decay = 0;
    CHECK_OK(umbo_optimizer_add_group(optimizer, 1, &member, &group));
    CHECK_STATUS(umbo_optimizer_add_group(optimizer, 1, &member, &group), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("variables[0]");
    CHECK_OK(umbo_optimizer_set_schedule(optimizer, schedule, &log, release_log));
    CHECK(step(strategy, optimizer, gradients, 1).learning_rate == 0.5);
    CHECK(float_of_variable(variable) == 3);
    CHECK_OK(umbo_strategy_run(strategy, give_gradient, NULL, &self, NULL, NULL));
    CHECK_STATUS(umbo_optimizer_apply(optimizer, gradients, NULL, NULL), UMBO_STATUS_UNAVAILABLE);
    CHECK_MESSAGE("no rate today");
    CHECK(float_of_variable(variable) == 3);
    CHECK_OK(umbo_optimizer_apply(optimizer, gradients, NULL, NULL)); /* the gradients are there */
    CHECK(float_of_variable(variable) == 0 && log.steps[1] == 1 && log.steps[2] == 1);
    CHECK_OK(umbo_strategy_run(strategy, give_gradient, NULL, &self, NULL, NULL));
    CHECK_STATUS(umbo_optimizer_apply(optimizer, gradients, NULL, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("learning_rate");
    CHECK(log.steps[3] == 2 && log.released == 0);
    CHECK_OK(umbo_optimizer_set_schedule(optimizer, NULL, NULL, NULL));
    CHECK(log.released == 1);
    rate = optimizer_info_of(optimizer).learning_rate;
    CHECK(rate == 1.5);
    umbo_optimizer_release(optimizer);

    /* A frozen variable stays; what it is given is not even looked at. */
    optimizer = sgd_of(strategy);
    group.frozen = 1;
    options.global_clip_norm = 1;
    CHECK_OK(umbo_optimizer_configure(optimizer, &options));
    CHECK_OK(umbo_optimizer_add_group(optimizer, 1, &member, &group));
    CHECK(step(strategy, optimizer, gradients, (float)NAN).updated_count == 0);
    CHECK(float_of_variable(variable) == 0);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(gradients);
    umbo_variable_release(variable);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    rules(strategy);
    loss_scale(strategy);
    accumulation(strategy);
    schedules_and_groups(strategy);
    reentrant_schedules(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
