/* An epoch in one call: the same as the loop by hand, its limits, what is left when it fails. */
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
static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
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

static umbo_status evaluate(umbo_replica_context *context, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    const scene *self = (const scene *)user_data;
    umbo_view part;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &part));
    UMBO_TRY(umbo_metrics_add(self->metrics, context, "x", 0, (double)part.shape[0]));
    return return_float(1, result);
}

static umbo_status tell(const umbo_progress *progress, void *user_data) {
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

static void count_destroyed(void *user_data) { ((scene *)user_data)->destroyed++; }

static scene make_scene(int32_t replicas, int64_t accumulation_steps) {
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

static void release_scene(scene *self) {
    umbo_iterator_release(self->iterator);
    umbo_metrics_release(self->metrics);
    umbo_optimizer_release(self->optimizer);
    umbo_gradients_release(self->gradients);
    umbo_variable_release(self->variable);
    umbo_strategy_release(self->strategy);
}

static umbo_status epoch(scene *self, const umbo_train_epoch_options *options,
                         umbo_train_epoch_report *report) {
    return umbo_train_epoch(self->strategy, self->iterator, self->optimizer, self->gradients, step,
                            self, options, report);
}

static umbo_metric_result metric_of(const scene *self) {
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    CHECK_OK(umbo_metrics_result(self->metrics, "x", &metric));
    return metric;
}

static int64_t iterations_of(const scene *self) {
    return optimizer_info_of(self->optimizer).iterations;
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

/* So many steps of the loop by hand. */
static float by_hand(int32_t replicas, int steps) {
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

static void as_by_hand(void) {
    int32_t replicas;
    for (replicas = 1; replicas <= 5; replicas++) {
        scene self = make_scene(replicas, 1);
        umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
        umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
        int pass;
        options.metrics = self.metrics;
        options.progress = tell;
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
    /* At the end of a pass a new one begins, also behind a loop over the elements. */
    options.reset_iterator = 1;
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.step_count == 2 && report.pass_ended == 0);
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.step_count == 1 && report.pass_ended == 1);
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

/* What messages say of a run whose element comes again. */
#define FAILED " failed and changed nothing (the next epoch begins with its batch)"

/* Whatever goes wrong in the second step, all is as after the first, and training goes on. */
static void failures(void) {
    int way;
    for (way = 0; way < 4; way++) {
        static const char *const words[] = {
            "umbo_train_epoch: step 2 of the epoch" FAILED "\nreplica 1 (CPU:1",
            "umbo_train_epoch: step 2 of the epoch" FAILED ": gradients: the gradient of",
            "umbo_train_epoch: step 2 of the epoch: progress: good enough",
            "umbo_train_epoch: step 2 of the epoch" FAILED "\n"};
        static const umbo_status statuses[] = {UMBO_STATUS_DATA_LOSS, UMBO_STATUS_INVALID_ARGUMENT,
                                               UMBO_STATUS_ABORTED, UMBO_STATUS_CANCELLED};
        scene self = make_scene(2, 1);
        umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
        umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
        umbo_optimizer_options strict = UMBO_OPTIMIZER_OPTIONS_INIT;
        umbo_error_info info = UMBO_ERROR_INFO_INIT;
        const int64_t done = way == 2 ? 2 : 1; /* the step before progress was told is done */
        strict.non_finite = UMBO_NON_FINITE_FAIL;
        CHECK_OK(umbo_optimizer_configure(self.optimizer, &strict));
        CHECK_OK(umbo_cancellation_create(&self.token));
        options.metrics = self.metrics;
        options.user_data_destroy = count_destroyed;
        if (way == 0) self.fails_at = 7;
        if (way == 1) self.nan_at = 5;
        if (way == 2) {
            self.stops_after = 2;
            options.progress = tell;
            options.progress_user_data = &self;
        }
        if (way == 3) {
            self.cancels_at = 4;
            options.cancellation = self.token;
        }
        report.step_count = 77;
        CHECK_STATUS(epoch(&self, &options, &report), statuses[way]);
        if (strncmp(umbo_last_error_message(), words[way], strlen(words[way])) != 0)
            check_failed(__FILE__, __LINE__, words[way]);
        if (way == 0) {
            CHECK(umbo_last_error_count() == 1);
            CHECK_MESSAGE("DATA_LOSS: as planned");
            CHECK_OK(umbo_last_error_at(0, &info));
            CHECK(info.replica == 1 && info.status == UMBO_STATUS_DATA_LOSS);
        }
        CHECK(report.step_count == 77);
        CHECK_OK(umbo_strategy_synchronize(self.strategy));
        CHECK(self.destroyed == 1);
        CHECK(float_of_variable(self.variable) == by_hand(2, (int)done));
        CHECK(iterations_of(&self) == done && metric_of(&self).weight == (double)(4 * done));
        self.fails_at = self.nan_at = self.cancels_at = -1;
        options.progress = NULL;
        options.cancellation = NULL;
        CHECK_OK(epoch(&self, &options, &report)); /* it begins with the batch that failed */
        CHECK(report.step_count == STEPS - done && report.pass_ended == 1);
        CHECK(float_of_variable(self.variable) == by_hand(2, STEPS));
        umbo_cancellation_release(self.token);
        release_scene(&self);
    }
}

static umbo_status forget(umbo_replica_context *context, const umbo_value *args, void *user_data,
                          umbo_value **result) {
    const scene *self = (const scene *)user_data;
    umbo_view part;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &part));
    /* Not in the batch that begins with this example. */
    if (self->fails_at >= 0 && ((const float *)part.data)[0] < (float)self->fails_at)
        return step(context, args, user_data, result);
    return UMBO_OK;
}

/* The message is of the step: nobody can apply beside it, whatever was before. */
static void nothing_submitted(void) {
    static const char *const words[] = {
        "umbo_train_epoch: step 1 of the epoch" FAILED ": gradients: no replica submitted any",
        "umbo_train_epoch: step 2 of the epoch" FAILED ": gradients: no replica submitted any",
        "umbo_train_epoch: step 1 of the epoch" FAILED ": gradients: no replica submitted any"};
    scene self = make_scene(2, 1);
    int way;
    for (way = 0; way < COUNT_OF(words); way++) {
        self.fails_at = way == 1 ? 4 : -1;
        CHECK_OK(umbo_iterator_reset(self.iterator));
        CHECK_STATUS(umbo_train_epoch(self.strategy, self.iterator, self.optimizer, self.gradients, forget,
                                      &self, NULL, NULL),
                     UMBO_STATUS_FAILED_PRECONDITION);
        if (strncmp(umbo_last_error_message(), words[way], strlen(words[way])) != 0)
            check_failed(__FILE__, __LINE__, words[way]);
        CHECK_MESSAGE("each replica submits once in each step");
        CHECK(iterations_of(&self) == (way == 0 ? 0 : 1));
    }
    release_scene(&self);
}

/* What asks the iterator for something else leaves out the batch that would come again. */
static void passed_over(void) {
    int way;
    for (way = 0; way < 2; way++) {
        scene self = make_scene(2, 1);
        umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
        umbo_value *batch = NULL;
        self.fails_at = 7;
        CHECK_STATUS(epoch(&self, NULL, NULL), UMBO_STATUS_DATA_LOSS);
        if (way == 0) {
            CHECK_OK(umbo_iterator_next(self.iterator, &batch));
            umbo_value_release(batch);
        }
        if (way == 1) CHECK_OK(umbo_iterator_reset(self.iterator));
        self.fails_at = -1;
        CHECK_OK(epoch(&self, NULL, &report));
        CHECK(report.step_count == (way == 0 ? 0 : STEPS));
        release_scene(&self);
    }
}

/* What a step that evaluates has submitted stops the next one, which says what it was. */
static void evaluation_that_submits(void) {
    scene self = make_scene(2, 1);
    CHECK_STATUS(umbo_train_epoch(self.strategy, self.iterator, NULL, NULL, step, &self, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("step 2 of the epoch");
    CHECK_MESSAGE("A step that evaluates submits nothing");
    release_scene(&self);
}

static umbo_status cancel(const umbo_progress *progress, void *user_data) {
    (void)progress;
    return umbo_cancellation_cancel(((scene *)user_data)->token);
}

static void limits(void) {
    scene self = make_scene(2, 1);
    umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
    options.timeout_seconds = 0;
    CHECK_STATUS(epoch(&self, &options, NULL), UMBO_STATUS_DEADLINE_EXCEEDED);
    CHECK_MESSAGE("step 1 of the epoch");
    CHECK(float_of_variable(self.variable) == 100);
    options.timeout_seconds = 1e6;
    CHECK_OK(epoch(&self, &options, &report));
    CHECK(report.step_count == STEPS && float_of_variable(self.variable) == by_hand(2, STEPS));
    options.timeout_seconds = NAN;
    CHECK_STATUS(epoch(&self, &options, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    options.timeout_seconds = UMBO_INFINITE;
    CHECK_OK(umbo_cancellation_create(&self.token));
    options.cancellation = self.token;
    options.progress = cancel;
    options.progress_user_data = &self;
    CHECK_STATUS(epoch(&self, &options, NULL), UMBO_STATUS_CANCELLED);
    CHECK_MESSAGE("step 2 of the epoch: before it began");
    CHECK(iterations_of(&self) == STEPS + 1);
    umbo_cancellation_release(self.token);
    release_scene(&self);
}

/* The numbers from 1 on. */
typedef struct {
    int64_t count, cancels_at;
    umbo_cancellation *token;
} source;

static umbo_status next_number(void *pass, void *user_data, umbo_value **element) {
    source *self = (source *)user_data;
    const float number = (float)++self->count;
    (void)pass;
    if (self->count == self->cancels_at) CHECK_OK(umbo_cancellation_cancel(self->token));
    if (self->count == 10000000)
        return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "no limit has ended a skip", NULL, NULL);
    return umbo_value_from_data(UMBO_DTYPE_FLOAT32, 0, NULL, &number, NULL, element);
}

/* Eight numbers behind so many, in two batches. */
static umbo_iterator *numbers_behind(const scene *self, source *numbers, int64_t left_out,
                                     int64_t prefetch_count) {
    umbo_element_spec *spec = NULL;
    umbo_dataset *rest = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    umbo_generator generator = UMBO_GENERATOR_INIT;
    umbo_distribute_options options = UMBO_DISTRIBUTE_OPTIONS_INIT;
    generator.next = next_number;
    options.prefetch_count = prefetch_count;
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 0, NULL, &spec));
    CHECK_OK(umbo_dataset_from_generator(spec, &generator, numbers, NULL, &rest));
    CHECK_OK(umbo_dataset_skip(&rest, left_out));
    CHECK_OK(umbo_dataset_take(&rest, 8));
    CHECK_OK(umbo_dataset_batch(&rest, 4, 0));
    CHECK_OK(umbo_strategy_distribute_dataset(self->strategy, rest, &options, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    umbo_distributed_dataset_release(distributed);
    umbo_dataset_release(rest);
    umbo_element_spec_release(spec);
    return iterator;
}

/* Limits end the making of elements that are left out, and another epoch goes on there. */
static void elements_left_out(void) {
    int64_t prefetch_count;
    for (prefetch_count = 0; prefetch_count < 3; prefetch_count += 2) {
        scene self = make_scene(2, 1);
        source numbers;
        umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
        umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
        umbo_iterator *const examples = self.iterator;
        memset(&numbers, 0, sizeof(numbers));
        self.iterator = numbers_behind(&self, &numbers, INT64_C(1) << 40, prefetch_count);
        options.timeout_seconds = 0.02;
        CHECK_STATUS(epoch(&self, &options, NULL), UMBO_STATUS_DEADLINE_EXCEEDED);
        CHECK_MESSAGE("step 1 of the epoch: the next element: between elements that are left out");
        umbo_iterator_release(self.iterator);

        memset(&numbers, 0, sizeof(numbers));
        numbers.cancels_at = 1000;
        self.iterator = numbers_behind(&self, &numbers, 2000, prefetch_count);
        CHECK_OK(umbo_cancellation_create(&numbers.token));
        options.timeout_seconds = UMBO_INFINITE;
        options.cancellation = numbers.token;
        CHECK_STATUS(epoch(&self, &options, NULL), UMBO_STATUS_CANCELLED);
        CHECK_MESSAGE("between elements that are left out, where the next request goes on");
        CHECK(numbers.count == 1000 && float_of_variable(self.variable) == 100);
        CHECK_OK(epoch(&self, NULL, &report));
        CHECK(report.step_count == 2 && report.example_count == 8 && numbers.count == 2008);
        umbo_iterator_release(self.iterator);
        umbo_cancellation_release(numbers.token);
        self.iterator = examples;
        release_scene(&self);
    }
}

static umbo_status epoch_in_a_step(umbo_replica_context *context, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    (void)context;
    (void)args;
    (void)result;
    return epoch((scene *)user_data, NULL, NULL);
}

static void mistakes(void) {
    scene self = make_scene(1, 1), other = make_scene(1, 1);
    umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    CHECK_STATUS(umbo_strategy_run(self.strategy, epoch_in_a_step, NULL, &self, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("inside of a run: an epoch consists of runs; call it outside of them");
    CHECK_STATUS(umbo_train_epoch(self.strategy, self.iterator, self.optimizer, NULL, step, &self,
                                  NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("gradients: there is none");
    CHECK_STATUS(umbo_train_epoch(self.strategy, self.iterator, NULL, self.gradients, step, &self,
                                  NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_train_epoch(self.strategy, self.iterator, other.optimizer, other.gradients,
                                  step, &self, NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("optimizer: made for another strategy");
    options.max_steps = -2;
    options.user_data_destroy = count_destroyed;
    CHECK_STATUS(epoch(&self, &options, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(self.destroyed == 1);
    CHECK(float_of_variable(self.variable) == 100);
    release_scene(&other);
    release_scene(&self);
}

int main(void) {
    as_by_hand();
    parts_of_a_pass();
    metrics_of_an_epoch();
    metrics_of_nothing();
    accumulation();
    failures();
    nothing_submitted();
    passed_over();
    evaluation_that_submits();
    limits();
    elements_left_out();
    mistakes();
    return finish();
}
