/* Epochs that fail, reach a limit or are given mistakes: what is said, and what is left. */
#include "epoch_scene.h"

/* What messages say of a run whose element comes again. */
#define FAILED " failed and changed nothing (the next epoch begins with its batch)"

/* Whatever goes wrong in the second step, all is as after the first, and training continues. */
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
            options.progress = note_progress;
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
    int64_t count, cancels_at, fails_at;
    umbo_cancellation *token;
} source;

static umbo_status next_number(void *pass, void *user_data, umbo_value **element) {
    source *self = (source *)user_data;
    const float number = (float)++self->count;
    (void)pass;
    if (self->count == self->cancels_at) CHECK_OK(umbo_cancellation_cancel(self->token));
    if (self->count == self->fails_at)
        return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "a broken number", NULL, NULL);
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

/* Limits end the making of elements that are left out, and another epoch continues there. */
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
        CHECK_MESSAGE("between elements that are left out, where the next request continues");
        CHECK(numbers.count == 1000 && float_of_variable(self.variable) == 100);
        CHECK_OK(epoch(&self, NULL, &report));
        CHECK(report.step_count == 2 && report.example_count == 8 && numbers.count == 2008);
        umbo_iterator_release(self.iterator);
        umbo_cancellation_release(numbers.token);
        self.iterator = examples;
        release_scene(&self);
    }
}

/* An epoch of as many steps as are left ends a pass of unknown length. The element by which it finds out whether there
 * is another one, or the failure to make that, is the next request's. */
static void ends_found_out(void) {
    int64_t prefetch_count, most;
    for (prefetch_count = 0; prefetch_count < 3; prefetch_count += 2) {
        scene self = make_scene(2, 1);
        source numbers;
        umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
        umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
        umbo_iterator *const examples = self.iterator;
        umbo_value *element = NULL;
        memset(&numbers, 0, sizeof(numbers));
        self.iterator = numbers_behind(&self, &numbers, 0, prefetch_count);
        for (most = 1; most <= 3; most++) {
            int64_t steps = 0;
            options.max_steps = most;
            do {
                CHECK_OK(epoch(&self, &options, &report));
                CHECK(report.step_count > 0);
                steps += report.step_count;
            } while (report.pass_ended == 0);
            CHECK(steps == 2);
        }
        options.max_steps = 1;
        CHECK_OK(epoch(&self, &options, &report));
        CHECK_OK(umbo_iterator_next(self.iterator, &element));
        CHECK(element != NULL);
        umbo_value_release(element);
        CHECK_OK(umbo_iterator_next(self.iterator, &element));
        CHECK(element == NULL);
        umbo_iterator_release(self.iterator);

        memset(&numbers, 0, sizeof(numbers));
        numbers.fails_at = 5;
        self.iterator = numbers_behind(&self, &numbers, 0, prefetch_count);
        CHECK_OK(epoch(&self, &options, &report));
        CHECK(report.step_count == 1 && report.pass_ended == 0);
        CHECK_STATUS(epoch(&self, &options, NULL), UMBO_STATUS_DATA_LOSS);
        CHECK_MESSAGE("step 1 of the epoch: the next element");
        CHECK_MESSAGE("a broken number");
        umbo_iterator_release(self.iterator);
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
    CHECK_MESSAGE("optimizer: made for a strategy other than");
    options.max_steps = -2;
    options.user_data_destroy = count_destroyed;
    CHECK_STATUS(epoch(&self, &options, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(self.destroyed == 1);
    CHECK(float_of_variable(self.variable) == 100);
    release_scene(&other);
    release_scene(&self);
}

int main(void) {
    failures();
    nothing_submitted();
    passed_over();
    evaluation_that_submits();
    limits();
    elements_left_out();
    ends_found_out();
    mistakes();
    return finish();
}
