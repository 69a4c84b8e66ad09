/* An epoch in one call: the same as the loop by hand, in parts, and its metrics. */
#include "epoch_scene.h"

static umbo_status evaluate(umbo_replica_context *context, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    const scene *self = (const scene *)user_data;
    umbo_view part;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &part));
    UMBO_TRY(umbo_metrics_add(self->metrics, context, "x", 0, (double)part.shape[0]));
    return return_float(1, result);
}

static umbo_metric_result total_of(const scene *self, const char *name) {
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    CHECK_OK(umbo_strategy_metric_result(self->strategy, name, &metric));
    return metric;
}

/* Adds its numbers to a metric of the step, and fails where it is to fail. */
static umbo_status add_numbers(umbo_replica_context *context, const umbo_value *args, void *user_data,
                               umbo_value **result) {
    const scene *self = (const scene *)user_data;
    umbo_view part;
    int64_t index;
    (void)result;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_FLOAT32, &part));
    for (index = 0; index < part.shape[0]; index++) {
        const double number = (double)((const float *)part.data)[index];
        UMBO_TRY(umbo_replica_context_add_metric(context, "x", number, 1));
        if ((int64_t)number == self->fails_at)
            return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "as planned", NULL, NULL);
    }
    return UMBO_OK;
}

static umbo_status add_once(umbo_replica_context *context, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    return umbo_replica_context_add_metric(context, "once", 1, 1);
}

/* Looks at the step's metrics, and runs something else in between. */
static umbo_status look(const umbo_progress *progress, void *user_data) {
    scene *self = (scene *)user_data;
    CHECK(total_of(self, "x").weight == (progress->step_count < STEPS ? 4 : 3));
    return umbo_strategy_run(self->strategy, add_once, NULL, NULL, NULL, NULL);
}

/* The metrics of a strategy are then those of all steps of the epoch that took effect, and of nothing else. */
static void metrics_of_an_epoch(void) {
    int32_t replicas;
    for (replicas = 1; replicas <= 5; replicas++) { /* of 4 and 5 some have no part of the last batch */
        scene self = make_scene(replicas, 1);
        umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
        umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
        options.progress = look;
        options.progress_user_data = &self;
        CHECK_OK(umbo_train_epoch(self.strategy, self.iterator, NULL, NULL, add_numbers, &self, &options, NULL));
        CHECK(total_of(&self, "x").sum == 55 && total_of(&self, "x").weight == EXAMPLES);
        CHECK(is_close(total_of(&self, "x").mean, 5));
        CHECK_STATUS(umbo_strategy_metric_result(self.strategy, "once", &metric), UMBO_STATUS_NOT_FOUND);
        CHECK_MESSAGE("'once' in the last epoch, or in a run since; the metrics are 'x'");
        /* The second step fails: the first one counts, and later the two others. */
        self.fails_at = 6;
        CHECK_STATUS(umbo_train_epoch(self.strategy, self.iterator, NULL, NULL, add_numbers, &self, NULL, NULL),
                     UMBO_STATUS_DATA_LOSS);
        CHECK(total_of(&self, "x").sum == 6 && total_of(&self, "x").weight == 4);
        self.fails_at = -1;
        CHECK_OK(umbo_train_epoch(self.strategy, self.iterator, NULL, NULL, add_numbers, &self, NULL, NULL));
        CHECK(total_of(&self, "x").sum == 49 && total_of(&self, "x").weight == 7);
        CHECK_OK(umbo_strategy_run(self.strategy, add_once, NULL, NULL, NULL, NULL));
        CHECK(total_of(&self, "once").sum == replicas);
        release_scene(&self);
    }
}

/* Epochs that measure nothing: of no steps, over a dataset without elements, and with a step that adds no metric. The
 * numbers of the epoch before are not theirs. */
static void metrics_of_nothing(void) {
    scene self = make_scene(2, 1);
    umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    umbo_dataset *rows = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *empty = NULL;
    const float numbers[3] = {1, 2, 3};
    umbo_value *all = floats_value(3, numbers);
    int kind;
    CHECK_OK(umbo_dataset_from_tensor_slices(all, &rows));
    CHECK_OK(umbo_dataset_batch(&rows, 4, 0));
    CHECK_OK(umbo_dataset_take(&rows, 0));
    CHECK_OK(umbo_strategy_distribute_dataset(self.strategy, rows, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &empty));
    options.metrics = self.metrics;
    for (kind = 0; kind < 3; kind++) {
        umbo_iterator *const iterator = kind == 0 ? empty : self.iterator;
        options.max_steps = UMBO_ALL;
        CHECK_OK(umbo_train_epoch(self.strategy, self.iterator, NULL, NULL, add_numbers, &self, &options, NULL));
        CHECK(total_of(&self, "x").weight == EXAMPLES);
        options.max_steps = kind == 1 ? 0 : UMBO_ALL;
        CHECK_OK(umbo_train_epoch(self.strategy, iterator, NULL, NULL, nothing, NULL, &options, &report));
        CHECK(report.step_count == (kind == 2 ? STEPS : 0));
        CHECK_STATUS(umbo_strategy_metric_result(self.strategy, "x", &metric), UMBO_STATUS_NOT_FOUND);
        CHECK_MESSAGE("none was added");
        CHECK(metric_of(&self).weight == 0 && metric_of(&self).mean != metric_of(&self).mean);
    }
    umbo_iterator_release(empty);
    umbo_distributed_dataset_release(distributed);
    umbo_dataset_release(rows);
    umbo_value_release(all);
    release_scene(&self);
}

static void as_by_hand(void) {
    int32_t replicas;
    for (replicas = 1; replicas <= 5; replicas++) {
        scene self = make_scene(replicas, 1);
        umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
        umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
        int pass;
        options.metrics = self.metrics;
        options.progress = note_progress;
        options.progress_user_data = &self;
        options.user_data_destroy = count_destroyed;
        for (pass = 1; pass <= 2; pass++) {
            self.told = 0;
            CHECK_OK(epoch(&self, &options, &report));
            CHECK(report.step_count == STEPS && report.example_count == EXAMPLES && report.update_count == STEPS);
            CHECK(report.skipped_count == 0 && report.pass_ended == 1 && report.seconds >= 0);
            CHECK(self.told == STEPS && self.destroyed == pass);
            /* Of this epoch alone. */
            CHECK(metric_of(&self).sum == 55 && metric_of(&self).weight == EXAMPLES);
            if (pass == 1) CHECK(float_of_variable(self.variable) == by_hand(replicas, STEPS));
        }
        CHECK(iterations_of(&self) == 2 * STEPS);
        /* Everything may be left out. */
        CHECK_OK(epoch(&self, NULL, NULL));
        CHECK(metric_of(&self).weight == 2 * EXAMPLES);
        CHECK_OK(umbo_train_epoch(self.strategy, self.iterator, NULL, NULL, evaluate, &self, NULL,
                                  &report));
        CHECK(report.step_count == STEPS && report.update_count == 0);
        CHECK(iterations_of(&self) == 3 * STEPS);
        release_scene(&self);
    }
}

static void parts_of_a_pass(void) {
    scene self = make_scene(2, 1);
    umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
    options.max_steps = 0;
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.step_count == 0 && report.pass_ended == 0);
    options.max_steps = 2;
    options.reset_iterator = 0;
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.step_count == 2 && report.example_count == 8 && report.pass_ended == 0);
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.step_count == 1 && report.example_count == 3 && report.pass_ended == 1);
    CHECK(float_of_variable(self.variable) == by_hand(2, STEPS));
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.step_count == 0 && report.pass_ended == 1);
    /* At the end of a pass a new one begins, also after a loop over the elements, and after the last of a known number. */
    options.reset_iterator = 1;
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.step_count == 2 && report.pass_ended == 0);
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.step_count == 1 && report.pass_ended == 1);
    options.max_steps = STEPS;
    for (int pass = 0; pass < 3; ++pass) {
        CHECK_OK(epoch(&self, &options, &report));
        CHECK(report.step_count == STEPS && report.pass_ended == 1);
    }
    options.max_steps = UMBO_ALL;
    for (int pass = 0; pass < 2; ++pass) {
        umbo_value *element = NULL;
        do {
            umbo_value_release(element);
            CHECK_OK(umbo_iterator_next(self.iterator, &element));
        } while (element != NULL);
        CHECK_OK(epoch(&self, &options, &report));
        CHECK(report.step_count == STEPS && report.pass_ended == 1);
    }
    release_scene(&self);
}

static void accumulation(void) {
    scene self = make_scene(2, 2);
    umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
    CHECK_OK(epoch(&self, &options, &report)); /* 2 + 1 runs */
    CHECK(report.step_count == STEPS && report.update_count == 2 && iterations_of(&self) == 2);
    options.flush = 0;
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.update_count == 1 && iterations_of(&self) == 3);
    CHECK_OK(epoch(&self, &options, &report)); /* what was left, and three more */
    CHECK(report.update_count == 2 && iterations_of(&self) == 5);
    release_scene(&self);
}

int main(void) {
    as_by_hand();
    parts_of_a_pass();
    metrics_of_an_epoch();
    metrics_of_nothing();
    accumulation();
    return finish();
}
