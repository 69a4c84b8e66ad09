/* A training of one variable by AdamW, with a checkpoint of all that it has. The test defines the step. */
#ifndef UMBO_TESTS_KEPT_WEIGHTS_H
#define UMBO_TESTS_KEPT_WEIGHTS_H

#include "check.h"

enum { ELEMENTS = 70 * 70 };

typedef struct {
    umbo_strategy *strategy;
    umbo_variable *weights;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    umbo_checkpoint *checkpoint;
    umbo_dtype dtype;
} training;

static umbo_status give_gradient(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                 umbo_value **result);

/* A training whose weights are 0. adamw: NULL for the defaults. */
static training begin_with(umbo_strategy *strategy, umbo_dtype dtype, const umbo_adamw_options *adamw,
                           const umbo_optimizer_options *options) {
    static const float zeros[ELEMENTS] = {0};
    const int64_t elements = ELEMENTS;
    umbo_tensor *initial = make_tensor(dtype, 1, &elements, zeros);
    training self = {NULL, NULL, NULL, NULL, NULL, UMBO_DTYPE_NONE};
    self.strategy = strategy;
    self.dtype = dtype;
    CHECK_OK(umbo_variable_create(strategy, "weights", initial, NULL, &self.weights));
    umbo_tensor_release(initial);
    self.gradients = make_mean_gradients(strategy, self.weights, 0);
    CHECK_OK(umbo_optimizer_create_adamw(strategy, adamw, &self.optimizer));
    CHECK_OK(umbo_optimizer_configure(self.optimizer, options));
    CHECK_OK(umbo_checkpoint_create(strategy, &self.checkpoint));
    CHECK_OK(umbo_checkpoint_add_variable(self.checkpoint, "weights", self.weights));
    CHECK_OK(umbo_checkpoint_add_optimizer(self.checkpoint, "optimizer", self.optimizer));
    return self;
}

static void train(training *self, int steps) {
    int step;
    for (step = 0; step < steps; step++) {
        CHECK_OK(umbo_strategy_run(self->strategy, give_gradient, NULL, self, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(self->optimizer, self->gradients, NULL, NULL));
    }
}

static void end(training *self) {
    umbo_checkpoint_release(self->checkpoint);
    umbo_optimizer_release(self->optimizer);
    umbo_gradients_release(self->gradients);
    umbo_variable_release(self->weights);
}

#endif
