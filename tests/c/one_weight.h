/* A training of one weight, whose gradient is 1 in each step: with SGD it falls by the learning rate. */
#ifndef ONE_WEIGHT_H
#define ONE_WEIGHT_H

#include "check.h"

typedef struct {
    umbo_strategy *strategy;
    umbo_variable *weight;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
} training;

static umbo_status give_gradient(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                 umbo_value **result) {
    const training *self = (const training *)user_data;
    umbo_view gradient;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    *(float *)gradient.mutable_data = 1;
    return umbo_gradients_submit_weighted(self->gradients, context, 1);
}

/* options: NULL for the defaults. */
static training begin(umbo_strategy *strategy, double learning_rate, const umbo_optimizer_options *options) {
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    training self = {NULL, NULL, NULL, NULL};
    self.strategy = strategy;
    self.weight = make_variable(strategy, 0, UMBO_AGGREGATION_NONE);
    self.gradients = make_mean_gradients(strategy, self.weight, 0);
    sgd.learning_rate = learning_rate;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &sgd, &self.optimizer));
    if (options != NULL) CHECK_OK(umbo_optimizer_configure(self.optimizer, options));
    return self;
}

static void end(training *self) {
    umbo_optimizer_release(self->optimizer);
    umbo_gradients_release(self->gradients);
    umbo_variable_release(self->weight);
}

#endif
