/* Optimizers: the rules against their formulas in f64, options, state, learning rate. */
#include <math.h>

#include "check.h"

typedef struct {
    umbo_gradients *gradients;
    umbo_optimizer *inside; /* applied within the step, or NULL */
    int fail;
} training;

/* Gradient 1 on replica 0, 2 on replica 1. */
static umbo_status constant_gradient(umbo_replica_context *context, const umbo_value *args,
                                 void *user_data, umbo_value **result) {
    const training *self = (const training *)user_data;
    umbo_view gradient;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    *(float *)gradient.mutable_data = (float)(replica_id(context) + 1);
    return umbo_gradients_submit_weighted(self->gradients, context, 1);
}

/* The mean gradient of each step is 1.5. */
static void steps(umbo_strategy *strategy, umbo_optimizer *optimizer, umbo_variable *variable,
                  int count) {
    training self = {NULL, NULL, 0};
    int64_t before = 0, after = 0;
    int step;
    self.gradients = make_mean_gradients(strategy, variable, 0);
    before = optimizer_info_of(optimizer).iterations;
    for (step = 0; step < count; step++) {
        ZEROED(umbo_apply_report, report);
        CHECK_OK(umbo_strategy_run(strategy, constant_gradient, &self, NULL, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, &report));
        CHECK(report.applied == 1 && report.iterations == before + step + 1);
    }
    after = optimizer_info_of(optimizer).iterations;
    CHECK(after == before + count);
    umbo_gradients_release(self.gradients);
}

static float state_of(const umbo_optimizer *optimizer, const umbo_variable *variable,
                      const char *name) {
    umbo_tensor *tensor = NULL;
    float number = 0;
    CHECK_OK(umbo_optimizer_state(optimizer, variable, name, &tensor));
    CHECK_OK(umbo_tensor_copy_to_host(tensor, &number, sizeof(number)));
    umbo_tensor_release(tensor);
    return number;
}

static void sgd(umbo_strategy *strategy) {
    umbo_variable *variable = make_variable(strategy, 1, UMBO_AGGREGATION_NONE);
    umbo_optimizer *optimizer = NULL;
    double rate = 0;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, NULL, &optimizer));
    rate = optimizer_info_of(optimizer).learning_rate;
    CHECK(rate == 0.01);
    CHECK_OK(umbo_optimizer_set_learning_rate(optimizer, 0.5));
    steps(strategy, optimizer, variable, 2);
    CHECK(float_of_variable(variable) == 1 - 2 * 0.75f);
    CHECK_STATUS(umbo_optimizer_set_learning_rate(optimizer, (double)NAN), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("learning_rate");
    rate = optimizer_info_of(optimizer).learning_rate;
    CHECK(rate == 0.5);
    umbo_optimizer_release(optimizer);
    umbo_variable_release(variable);
}

static void momentum(umbo_strategy *strategy, int32_t nesterov) {
    umbo_variable *variable = make_variable(strategy, 1, UMBO_AGGREGATION_NONE);
    umbo_optimizer *optimizer = NULL;
    umbo_tensor *state = NULL;
    double weight = 1, velocity = 0;
    int step;
    umbo_momentum_options options = UMBO_MOMENTUM_OPTIONS_INIT;
    options.learning_rate = 0.1;
    options.momentum = 0.5;
    options.nesterov = nesterov;
    CHECK_OK(umbo_optimizer_create_momentum(strategy, &options, &optimizer));
    CHECK_STATUS(umbo_optimizer_state(optimizer, variable, "momentum", &state), UMBO_STATUS_NOT_FOUND);
    steps(strategy, optimizer, variable, 3);
    for (step = 0; step < 3; step++) {
        velocity = 0.5 * velocity - 0.1 * 1.5;
        weight += nesterov ? 0.5 * velocity - 0.1 * 1.5 : velocity;
    }
    CHECK(is_close(float_of_variable(variable), weight));
    CHECK(state_of(optimizer, variable, "momentum") != 0);
    CHECK_STATUS(umbo_optimizer_state(optimizer, variable, "m", &state), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("'m'");
    CHECK(state == NULL);
    umbo_optimizer_release(optimizer);
    umbo_variable_release(variable);
}

static void adam(umbo_strategy *strategy) {
    umbo_variable *variable = make_variable(strategy, 1, UMBO_AGGREGATION_NONE);
    umbo_optimizer *optimizer = NULL;
    double weight = 1, m = 0, v = 0, power1 = 1, power2 = 1;
    int step;
    CHECK_OK(umbo_optimizer_create_adam(strategy, NULL, &optimizer));
    steps(strategy, optimizer, variable, 3);
    for (step = 0; step < 3; step++) {
        m = 0.9 * m + 0.1 * 1.5;
        v = 0.999 * v + 0.001 * 1.5 * 1.5;
        power1 *= 0.9;
        power2 *= 0.999;
        weight -= 0.001 * (m / (1 - power1)) / (sqrt(v / (1 - power2)) + 1e-8);
    }
    CHECK(is_close(float_of_variable(variable), weight));
    CHECK(is_close(state_of(optimizer, variable, "m"), m));
    CHECK(is_close(state_of(optimizer, variable, "v"), v));
    umbo_optimizer_release(optimizer);
    umbo_variable_release(variable);
}

static umbo_status apply_inside(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    const training *self = (const training *)user_data;
    UMBO_TRY(constant_gradient(context, args, user_data, result));
    UMBO_TRY(umbo_optimizer_apply(self->inside, self->gradients, NULL, NULL));
    if (self->fail && replica_id(context) == 1) {
        return umbo_set_last_error(UMBO_STATUS_ABORTED, "after apply", NULL, NULL);
    }
    return UMBO_OK;
}

/* An apply inside of run waits for the commit point, and a failed step has none. */
static void deferred(umbo_strategy *strategy) {
    training self = {NULL, NULL, 1};
    umbo_variable *variable = make_variable(strategy, 1, UMBO_AGGREGATION_NONE);
    int64_t iterations = -1;
    umbo_sgd_options options = UMBO_SGD_OPTIONS_INIT;
    options.learning_rate = 1;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &options, &self.inside));
    self.gradients = make_mean_gradients(strategy, variable, 0);
    CHECK_STATUS(umbo_strategy_run(strategy, apply_inside, &self, NULL, NULL, NULL), UMBO_STATUS_ABORTED);
    iterations = optimizer_info_of(self.inside).iterations;
    CHECK(iterations == 0 && float_of_variable(variable) == 1);
    self.fail = 0;
    CHECK_OK(umbo_strategy_run(strategy, apply_inside, &self, NULL, NULL, NULL));
    iterations = optimizer_info_of(self.inside).iterations;
    CHECK(iterations == 1 && float_of_variable(variable) == -0.5f);
    umbo_gradients_release(self.gradients);
    umbo_optimizer_release(self.inside);
    umbo_variable_release(variable);
}

static void refused(umbo_strategy *strategy) {
    umbo_optimizer *optimizer = NULL;
    umbo_sgd_options sgd_options = UMBO_SGD_OPTIONS_INIT;
    umbo_momentum_options momentum_options = UMBO_MOMENTUM_OPTIONS_INIT;
    umbo_adam_options adam_options = UMBO_ADAM_OPTIONS_INIT;
    sgd_options.learning_rate = -1;
    CHECK_STATUS(umbo_optimizer_create_sgd(strategy, &sgd_options, &optimizer),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("learning_rate");
    momentum_options.momentum = 1.5;
    CHECK_STATUS(umbo_optimizer_create_momentum(strategy, &momentum_options, &optimizer),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("momentum");
    adam_options.beta2 = 1;
    CHECK_STATUS(umbo_optimizer_create_adam(strategy, &adam_options, &optimizer),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("beta2");
    CHECK(optimizer == NULL);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    sgd(strategy);
    momentum(strategy, 0);
    momentum(strategy, 1);
    adam(strategy);
    deferred(strategy);
    refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
