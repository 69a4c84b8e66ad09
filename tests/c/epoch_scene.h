/* A small training of one variable, for the tests of epochs. */
#ifndef UMBO_TESTS_EPOCH_SCENE_H
#define UMBO_TESTS_EPOCH_SCENE_H

#include <math.h>

#include "check.h"

#define EXAMPLES 11
#define STEPS 3 /* batches of 4, the last one of 3 */

typedef struct {
    umbo_strategy *strategy;
    umbo_variable *variable;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    umbo_metrics *metrics;
    umbo_iterator *iterator;
    /* What goes wrong at the batch that begins with this example; -1: nothing. */
    int64_t fails_at, nan_at, cancels_at;
    umbo_cancellation *token;
    int destroyed;
    /* Of the progress. */
    int told, stops_after;
} scene;

/* The gradient of (v - x)^2 / 2, summed over the examples. */
static CHECK_MAYBE_UNUSED umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                           umbo_value **result) {
    const scene *self = (const scene *)user_data;
    umbo_view part, variable, gradient;
    umbo_replica_context_info position = UMBO_REPLICA_CONTEXT_INFO_INIT;
    const float *x;
    float sum = 0, value;
    int64_t index;
    (void)result;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &part));
    UMBO_TRY(umbo_variable_view(self->variable, context, UMBO_DTYPE_NONE, &variable));
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    UMBO_TRY(umbo_replica_context_get_info(context, &position));
    x = (const float *)part.data;
    value = *(const float *)variable.data;
    for (index = 0; index < part.shape[0]; index++) {
        const int64_t number = (int64_t)x[index];
        sum += value - x[index];
        if (number == self->nan_at) sum = (float)NAN;
        if (number == self->cancels_at) {
            int32_t cancelled = 0;
            CHECK_OK(umbo_cancellation_cancel(self->token));
            while (!cancelled) CHECK_OK(umbo_replica_context_is_cancelled(context, &cancelled));
        }
        UMBO_TRY(umbo_metrics_add(self->metrics, context, "x", (double)x[index], 1));
        if (number == self->fails_at)
            return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "as planned", NULL, NULL);
    }
    *(float *)gradient.mutable_data = sum;
    return umbo_gradients_submit(self->gradients, context);
}

static CHECK_MAYBE_UNUSED umbo_status note_progress(const umbo_progress *progress, void *user_data) {
    scene *self = (scene *)user_data;
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    self->told++;
    /* as the library knows it, which a newer header may have longer */
    CHECK(progress->struct_size <= sizeof(*progress) && progress->step_count == self->told);
    CHECK(progress->example_count == (self->told < STEPS ? 4 * self->told : EXAMPLES));
    CHECK(progress->last_apply != NULL && progress->last_apply->applied == 1);
    CHECK(progress->update_count == self->told && progress->skipped_count == 0 && progress->seconds >= 0);
    CHECK(progress->metrics == self->metrics);
    CHECK_OK(umbo_metrics_result(progress->metrics, "x", &metric));
    CHECK(metric.weight == (double)progress->example_count);
    if (self->told != self->stops_after) return UMBO_OK;
    return umbo_set_last_error(UMBO_STATUS_ABORTED, "good enough", NULL, NULL);
}

static CHECK_MAYBE_UNUSED void count_destroyed(void *user_data) { ((scene *)user_data)->destroyed++; }

static CHECK_MAYBE_UNUSED scene make_scene(int32_t replicas, int64_t accumulation_steps) {
    scene self;
    float numbers[EXAMPLES];
    int32_t index;
    umbo_value *all;
    umbo_dataset *examples = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    memset(&self, 0, sizeof(self));
    self.fails_at = self.nan_at = self.cancels_at = -1;
    self.strategy = make_strategy(replicas);
    self.variable = make_variable(self.strategy, 100, UMBO_AGGREGATION_NONE);
    options.accumulation_steps = accumulation_steps;
    CHECK_OK(umbo_gradients_create(self.strategy, 1, &self.variable, UMBO_LOSS_SUM, &options, &self.gradients));
    sgd.learning_rate = 0.5;
    CHECK_OK(umbo_optimizer_create_sgd(self.strategy, &sgd, &self.optimizer));
    CHECK_OK(umbo_metrics_create(self.strategy, &self.metrics));
    CHECK_OK(umbo_metrics_define(self.metrics, "x", UMBO_METRIC_MEAN, NULL));
    for (index = 0; index < EXAMPLES; index++) numbers[index] = (float)index;
    all = floats_value(EXAMPLES, numbers);
    CHECK_OK(umbo_dataset_from_tensor_slices(all, &examples));
    CHECK_OK(umbo_dataset_batch(&examples, 4, 0));
    CHECK_OK(umbo_strategy_distribute_dataset(self.strategy, examples, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &self.iterator));
    umbo_distributed_dataset_release(distributed);
    umbo_dataset_release(examples);
    umbo_value_release(all);
    return self;
}

static CHECK_MAYBE_UNUSED void release_scene(scene *self) {
    umbo_iterator_release(self->iterator);
    umbo_metrics_release(self->metrics);
    umbo_optimizer_release(self->optimizer);
    umbo_gradients_release(self->gradients);
    umbo_variable_release(self->variable);
    umbo_strategy_release(self->strategy);
}

static CHECK_MAYBE_UNUSED umbo_status epoch(scene *self, const umbo_train_epoch_options *options,
                                            umbo_train_epoch_report *report) {
    return umbo_train_epoch(self->strategy, self->iterator, self->optimizer, self->gradients, step,
                            self, options, report);
}

static CHECK_MAYBE_UNUSED umbo_metric_result metric_of(const scene *self) {
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    CHECK_OK(umbo_metrics_result(self->metrics, "x", &metric));
    return metric;
}

static CHECK_MAYBE_UNUSED int64_t iterations_of(const scene *self) {
    return optimizer_info_of(self->optimizer).iterations;
}

/* So many steps of the loop by hand. */
static CHECK_MAYBE_UNUSED float by_hand(int32_t replicas, int steps) {
    scene self = make_scene(replicas, 1);
    umbo_value *batch = NULL;
    float value;
    for (; steps > 0; steps--) {
        CHECK_OK(umbo_iterator_next(self.iterator, &batch));
        CHECK_OK(umbo_strategy_run(self.strategy, step, batch, &self, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(self.optimizer, self.gradients, NULL, NULL));
        umbo_value_release(batch);
    }
    value = float_of_variable(self.variable);
    release_scene(&self);
    return value;
}

#endif
