/* Moving averages of weights: as a state, in the place of the weights, saved, and refused. */
#include <math.h>

#include "one_weight.h"

enum { STEPS = 6 };

static umbo_optimizer_options averaging(umbo_average kind) {
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    options.average = kind;
    return options;
}

/* The weight is -1, -2, -3 and so on. */
static void step(const training *self) {
    CHECK_OK(umbo_strategy_run(self->strategy, give_gradient, NULL, (void *)self, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(self->optimizer, self->gradients, NULL, NULL));
}

static float weight_of(const training *self) {
    return float_of_variable(self->weight);
}

static float average_of(const training *self) {
    float value = 0;
    umbo_tensor *state = NULL;
    CHECK_OK(umbo_optimizer_read_state(self->optimizer, self->weight, "average", &state));
    CHECK_OK(umbo_tensor_download(state, &value, sizeof value));
    umbo_tensor_release(state);
    return value;
}

/* By hand, in float64. */
static void values(umbo_strategy *strategy) {
    umbo_optimizer_options of_kind[3];
    int kind, t;
    of_kind[0] = averaging(UMBO_AVERAGE_EXPONENTIAL);
    of_kind[0].average_decay = 0.75;
    of_kind[1] = averaging(UMBO_AVERAGE_MEAN);
    of_kind[1].average_start = 2;
    of_kind[2] = averaging(UMBO_AVERAGE_EXPONENTIAL);
    of_kind[2].average_warmup = 1;
    of_kind[2].average_interval = 2;
    for (kind = 0; kind < 3; kind++) {
        training self = begin(strategy, 1, &of_kind[kind]);
        double average = 0;
        for (t = 1; t <= STEPS; t++) {
            step(&self);
            if (t == 1) average = -1;
            else if (kind == 0) average = 0.75 * average + 0.25 * -t;
            else if (kind == 1) average = t <= 3 ? -t : average + (-t - average) / (t - 2);
            else if (t % 2 == 1) {
                const double move = (t - 1) / 2, decay = (1 + move) / (10 + move);
                average = decay * average + (1 - decay) * -t;
            }
            CHECK(weight_of(&self) == -t);
            CHECK(fabs(average_of(&self) - average) < 1e-6);
        }
        end(&self);
    }
}

/* What is seen, and what is refused, while the weight is the average. */
static umbo_status look(void *user_data) {
    const training *self = (const training *)user_data;
    umbo_checkpoint *checkpoint = NULL;
    const float other = 9;
    CHECK(weight_of(self) == average_of(self));
    CHECK_OK(umbo_checkpoint_create(self->strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", self->optimizer));
    CHECK_STATUS(umbo_checkpoint_save(checkpoint, "average.safetensors"), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("save a checkpoint");
    umbo_checkpoint_release(checkpoint);
    CHECK_OK(umbo_strategy_run(self->strategy, give_gradient, NULL, user_data, NULL, NULL));
    CHECK_STATUS(umbo_optimizer_apply(self->optimizer, self->gradients, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("the averages of their weights as values");
    CHECK_STATUS(umbo_optimizer_with_average(self->optimizer, look, user_data), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("average");
    CHECK_OK(umbo_variable_upload(self->weight, &other, sizeof other));
    return UMBO_STATUS_ABORTED;
}

static void in_place_of_weights(umbo_strategy *strategy) {
    const umbo_optimizer_options none = averaging(UMBO_AVERAGE_NONE), mean = averaging(UMBO_AVERAGE_MEAN);
    training self = begin(strategy, 1, &mean);
    int t;
    for (t = 0; t < 3; t++) step(&self);
    CHECK_STATUS(umbo_optimizer_with_average(self.optimizer, look, &self), UMBO_STATUS_ABORTED);
    CHECK(weight_of(&self) == -3 && average_of(&self) == -2);
    CHECK_OK(umbo_optimizer_apply(self.optimizer, self.gradients, NULL, NULL)); /* what was refused before */
    CHECK(weight_of(&self) == -4);
    CHECK_STATUS(umbo_optimizer_configure(self.optimizer, &none), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("average");
    end(&self);

    self = begin(strategy, 1, &none);
    CHECK_STATUS(umbo_optimizer_with_average(self.optimizer, look, &self), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("keeps no average");
    step(&self);
    CHECK_STATUS(umbo_optimizer_configure(self.optimizer, &mean), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("average_start");
    end(&self);
}

static void refuse(const training *self, const umbo_optimizer_options *options, const char *named) {
    CHECK_STATUS(umbo_optimizer_configure(self->optimizer, options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(umbo_last_error_message(), named) != NULL);
}

static void refused(umbo_strategy *strategy) {
    const umbo_optimizer_options exponential = averaging(UMBO_AVERAGE_EXPONENTIAL);
    umbo_optimizer_options options = averaging(UMBO_AVERAGE_NONE);
    training self = begin(strategy, 1, &options);
    options = exponential;
    options.average_decay = 1;
    refuse(&self, &options, "average_decay");
    options.average_decay = (double)NAN;
    refuse(&self, &options, "average_decay");
    options = exponential;
    options.average_warmup = 2;
    refuse(&self, &options, "average_warmup");
    options = exponential;
    options.average_start = -1;
    refuse(&self, &options, "average_start");
    options = exponential;
    options.average_interval = 0;
    refuse(&self, &options, "average_interval");
    options = exponential;
    options.average = UMBO_ENUM_VALUE(umbo_average, UMBO_LOSS_SCALING_FIXED);
    refuse(&self, &options, "options.average");
    end(&self);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    values(strategy);
    in_place_of_weights(strategy);
    refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
