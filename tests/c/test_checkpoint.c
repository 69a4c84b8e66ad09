/* Checkpoints: training goes on from a file with the bits that it would have had. */
#include <math.h>

#include "check.h"

#define STEPS 4

/* Fails with this status, and a message with these words. */
#define CHECK_FAILS(call, status, words) \
    do {                                 \
        CHECK_STATUS(call, status);      \
        CHECK_MESSAGE(words);            \
    } while (0)

static const char file[] = "test_checkpoint.safetensors";

struct model {
    umbo_strategy *strategy;
    umbo_variable *weights;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    umbo_metrics *metrics;
    umbo_tensor *seen;
    umbo_checkpoint *checkpoint;
};

static umbo_status step(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    struct model *m = (struct model *)user_data;
    umbo_view w, g;
    umbo_replica_context_info position = UMBO_REPLICA_CONTEXT_INFO_INIT;
    const float *weights;
    float *gradient;
    int64_t index;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_replica_context_get_info(ctx, &position));
    UMBO_TRY(umbo_variable_view(m->weights, ctx, UMBO_DTYPE_NONE, &w));
    UMBO_TRY(umbo_gradients_view(m->gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &g));
    weights = (const float *)w.data;
    gradient = (float *)g.mutable_data;
    for (index = 0; index < w.shape[0]; index++) {
        gradient[index] = weights[index] * 0.5f + (float)(position.step * (index + 1)) * 0.01f;
    }
    UMBO_TRY(umbo_metrics_add(m->metrics, ctx, 0, (double)gradient[0], 1));
    return umbo_gradients_submit_weighted(m->gradients, ctx, 1);
}

static void make(struct model *m, int32_t replicas) {
    const float start[3] = {1, 2, 3}, zeros[2] = {0, 0};
    umbo_tensor *initial = make_floats(3, start);
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    m->strategy = make_strategy(replicas);
    CHECK_OK(umbo_variable_create(m->strategy, "weights", initial, NULL, &m->weights));
    umbo_tensor_release(initial);
    options.loss_reduction = UMBO_LOSS_SUM;
    options.accumulation_steps = 3;
    CHECK_OK(umbo_gradients_create(m->strategy, 1, &m->weights, &options, &m->gradients));
    CHECK_OK(umbo_optimizer_create_adam(m->strategy, NULL, &m->optimizer));
    CHECK_OK(umbo_metrics_create(m->strategy, &m->metrics));
    CHECK_OK(umbo_metrics_define(m->metrics, "loss", UMBO_METRIC_MEAN, NULL, NULL));
    m->seen = make_floats(2, zeros);
    CHECK_OK(umbo_checkpoint_create(m->strategy, &m->checkpoint));
    CHECK_OK(umbo_checkpoint_add_variable(m->checkpoint, NULL, m->weights));
    CHECK_OK(umbo_checkpoint_add_optimizer(m->checkpoint, "optimizer", m->optimizer));
    CHECK_OK(umbo_checkpoint_add_gradients(m->checkpoint, "gradients", m->gradients));
    CHECK_OK(umbo_checkpoint_add_metrics(m->checkpoint, "metrics", m->metrics));
    CHECK_OK(umbo_checkpoint_add_tensor(m->checkpoint, "seen", m->seen));
    CHECK_OK(umbo_checkpoint_set_integer(m->checkpoint, "epoch", 0));
    CHECK_OK(umbo_checkpoint_set_number(m->checkpoint, "best", 1.0));
}

static void release(struct model *m) {
    umbo_checkpoint_release(m->checkpoint);
    umbo_tensor_release(m->seen);
    umbo_metrics_release(m->metrics);
    umbo_optimizer_release(m->optimizer);
    umbo_gradients_release(m->gradients);
    umbo_variable_release(m->weights);
    umbo_strategy_release(m->strategy);
}

static void train(struct model *m, int steps) {
    for (; steps > 0; steps--) {
        CHECK_OK(umbo_strategy_run(m->strategy, step, m, NULL, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(m->optimizer, m->gradients, NULL, NULL));
    }
}

static void check_same(const struct model *a, const struct model *b) {
    float one[3], other[3];
    umbo_metric mean = UMBO_METRIC_INIT, other_mean = UMBO_METRIC_INIT;
    CHECK_OK(umbo_variable_copy_to_host(a->weights, one, sizeof(one)));
    CHECK_OK(umbo_variable_copy_to_host(b->weights, other, sizeof(other)));
    CHECK(memcmp(one, other, sizeof(one)) == 0);
    CHECK_OK(umbo_metrics_result(a->metrics, 0, &mean));
    CHECK_OK(umbo_metrics_result(b->metrics, 0, &other_mean));
    CHECK(memcmp(&mean, &other_mean, sizeof(mean)) == 0);
}

static void goes_on_from_a_file(int32_t replicas) {
    struct model a, b;
    umbo_view view;
    int64_t epoch = 0;
    double best = 0;
    float seen[2];
    make(&a, replicas);
    train(&a, STEPS);
    CHECK_OK(umbo_tensor_mutable_view(a.seen, &view));
    ((float *)view.mutable_data)[1] = 4.5f;
    CHECK_OK(umbo_checkpoint_set_integer(a.checkpoint, "epoch", 7));
    CHECK_OK(umbo_checkpoint_set_number(a.checkpoint, "best", -0.25));
    CHECK_OK(umbo_checkpoint_save(a.checkpoint, file));
    make(&b, replicas);
    CHECK_OK(umbo_checkpoint_restore(b.checkpoint, file));
    check_same(&a, &b);
    CHECK_OK(umbo_checkpoint_integer(b.checkpoint, "epoch", &epoch));
    CHECK_OK(umbo_checkpoint_number(b.checkpoint, "best", &best));
    CHECK(epoch == 7 && best == -0.25);
    CHECK_OK(umbo_tensor_copy_to_host(b.seen, seen, sizeof(seen)));
    CHECK(seen[0] == 0 && seen[1] == 4.5f);
    train(&a, STEPS);
    train(&b, STEPS);
    check_same(&a, &b);
    release(&b);
    release(&a);
}

static void what_does_not_fit_is_told(void) {
    struct model a;
    float before[3], after[3];
    umbo_variable *more;
    int64_t updates = 0;
    const char *const names[1] = {"weights"}, *const tensors[1] = {"no such tensor"};
    make(&a, 2);
    train(&a, 1);
    CHECK_OK(umbo_checkpoint_save(a.checkpoint, file));
    train(&a, 1);
    CHECK_OK(umbo_variable_copy_to_host(a.weights, before, sizeof(before)));
    more = make_variable(a.strategy, 1, UMBO_AGGREGATION_SUM);
    CHECK_OK(umbo_checkpoint_add_variable(a.checkpoint, "more", more));
    CHECK_FAILS(umbo_checkpoint_restore(a.checkpoint, file), UMBO_STATUS_INVALID_ARGUMENT,
                "the file has no variable 'more'");
    CHECK_FAILS(umbo_checkpoint_add_variable(a.checkpoint, "optimizer", more),
                UMBO_STATUS_INVALID_ARGUMENT, "an optimizer that was added before");
    CHECK_FAILS(umbo_checkpoint_restore(a.checkpoint, "no such file"), UMBO_STATUS_NOT_FOUND,
                "no such file");
    CHECK_FAILS(umbo_checkpoint_save(a.checkpoint, "no/such/folder/file"), UMBO_STATUS_NOT_FOUND,
                "no/such/folder");
    CHECK_FAILS(umbo_checkpoint_load_weights(a.checkpoint, file, 1, names, tensors),
                UMBO_STATUS_INVALID_ARGUMENT, "no tensor 'no such tensor'");
    CHECK_FAILS(umbo_checkpoint_load_weights(a.checkpoint, file, 1, NULL, tensors),
                UMBO_STATUS_INVALID_ARGUMENT, "count");
    CHECK_FAILS(umbo_checkpoint_integer(a.checkpoint, "best", &updates),
                UMBO_STATUS_INVALID_ARGUMENT, "umbo_checkpoint_number()");
    CHECK_OK(umbo_variable_copy_to_host(a.weights, after, sizeof(after)));
    CHECK(memcmp(before, after, sizeof(before)) == 0);
    CHECK_OK(umbo_checkpoint_load_weights(a.checkpoint, file, 1, names, NULL));
    CHECK_OK(umbo_variable_copy_to_host(a.weights, after, sizeof(after)));
    CHECK_OK(umbo_checkpoint_save_weights(a.checkpoint, file));
    CHECK_OK(umbo_checkpoint_load_weights(a.checkpoint, file, 0, NULL, NULL));
    umbo_variable_release(more);
    release(&a);
}

/* Each piece of state by itself. */
static void state_is_set(void) {
    struct model a;
    const float momentum[3] = {1, 2, 3};
    float read[3];
    double scale = 0;
    int64_t iterations = 0;
    umbo_variable_progress progress = UMBO_VARIABLE_PROGRESS_INIT;
    umbo_tensor *state = make_floats(3, momentum), *other = make_floats(2, momentum), *kept;
    make(&a, 1);
    CHECK_OK(umbo_optimizer_set_state(a.optimizer, a.weights, "m", state));
    CHECK_OK(umbo_optimizer_state(a.optimizer, a.weights, "m", &kept));
    CHECK_OK(umbo_tensor_copy_to_host(kept, read, sizeof(read)));
    CHECK(memcmp(read, momentum, sizeof(read)) == 0);
    progress.update_count = 5;
    progress.first_running = 0.5;
    progress.second_running = 0.25;
    CHECK_OK(umbo_optimizer_set_variable_progress(a.optimizer, a.weights, &progress));
    progress.update_count = 0;
    CHECK_OK(umbo_optimizer_variable_progress(a.optimizer, a.weights, &progress));
    CHECK(progress.update_count == 5 && progress.first_running == 0.5 && progress.second_running == 0.25);
    CHECK_OK(umbo_optimizer_set_iterations(a.optimizer, 9));
    iterations = optimizer_info_of(a.optimizer).iterations;
    CHECK_OK(umbo_optimizer_set_loss_scale(a.optimizer, 8, 0));
    scale = optimizer_info_of(a.optimizer).loss_scale;
    CHECK(iterations == 9 && scale == 8);
    CHECK_FAILS(umbo_optimizer_set_state(a.optimizer, a.weights, "m", other),
                UMBO_STATUS_INVALID_ARGUMENT, "[2]");
    CHECK_FAILS(umbo_optimizer_set_state(a.optimizer, a.weights, "momentum", state),
                UMBO_STATUS_NOT_FOUND, "adam keeps");
    CHECK_FAILS(umbo_optimizer_set_iterations(a.optimizer, -1), UMBO_STATUS_INVALID_ARGUMENT, "-1");
    CHECK_FAILS(umbo_optimizer_set_loss_scale(a.optimizer, 0, 0), UMBO_STATUS_INVALID_ARGUMENT, "0");
    umbo_tensor_release(kept);
    umbo_tensor_release(other);
    umbo_tensor_release(state);
    release(&a);
}

/* The newest and the best, and nothing else. */
static void a_manager_keeps_some(void) {
    struct model a, b;
    umbo_checkpoint_manager *manager, *again;
    umbo_checkpoint_manager_options options = UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT;
    const double losses[6] = {3, 1, 2, 5, 4, 6};
    const int64_t kept[3] = {1, 4, 5};
    char path[4200];
    size_t length = 0;
    int64_t step = 0;
    int32_t saved = 0;
    int index;
    make(&a, 2);
    options.max_to_keep = 2;
    options.max_best_to_keep = 1;
    CHECK_OK(umbo_checkpoint_manager_create(a.checkpoint, "test_checkpoint_folder", &options, &manager));
    CHECK_OK(umbo_checkpoint_manager_restore_latest(manager, &step));
    CHECK(step == UMBO_NONE);
    for (index = 0; index < 6; index++) {
        train(&a, 1);
        CHECK_OK(umbo_checkpoint_set_integer(a.checkpoint, "epoch", index));
        CHECK_OK(umbo_checkpoint_manager_save(manager, index, &losses[index], 1, &saved));
        CHECK(saved == 1);
    }
    CHECK_OK(umbo_checkpoint_manager_save(manager, 5, NULL, 0, &saved));
    CHECK(saved == 0);
    CHECK_OK(umbo_checkpoint_manager_wait(manager));
    CHECK_OK(umbo_checkpoint_manager_latest(manager, &step));
    CHECK(step == 5);
    CHECK_OK(umbo_checkpoint_manager_best(manager, &step));
    CHECK(step == 1);
    CHECK_OK(umbo_checkpoint_manager_restore_best(manager, &step));
    CHECK_OK(umbo_checkpoint_integer(a.checkpoint, "epoch", &step));
    CHECK(step == 1);
    CHECK_OK(umbo_checkpoint_manager_retain(manager, &again));
    CHECK_OK(umbo_checkpoint_manager_restore_latest(again, &step));
    CHECK(step == 5);
    umbo_checkpoint_manager_release(again);
    /* Another training does not save among these, and begins anew beside them if it says so. */
    make(&b, 2);
    CHECK_OK(umbo_checkpoint_manager_create(b.checkpoint, "test_checkpoint_folder", &options, &again));
    CHECK_FAILS(umbo_checkpoint_manager_save(again, 6, NULL, 0, NULL), UMBO_STATUS_FAILED_PRECONDITION, "of step 5");
    CHECK_MESSAGE("start_fresh");
    umbo_checkpoint_manager_release(again);
    options.start_fresh = 1;
    CHECK_OK(umbo_checkpoint_manager_create(b.checkpoint, "test_checkpoint_folder", &options, &again));
    CHECK_OK(umbo_checkpoint_manager_restore_latest(again, &step));
    CHECK(step == UMBO_NONE);
    umbo_checkpoint_manager_release(again);
    options.start_fresh = 2;
    CHECK_FAILS(umbo_checkpoint_manager_create(b.checkpoint, "test_checkpoint_folder", &options, &again),
                UMBO_STATUS_INVALID_ARGUMENT, "options.start_fresh");
    options.start_fresh = 0;
    release(&b);
    for (index = 0; index < 3; index++) {
        CHECK_OK(umbo_checkpoint_manager_path(manager, kept[index], path, sizeof(path), &length));
        CHECK(length == strlen(path) && remove(path) == 0);
    }
    CHECK_FAILS(umbo_checkpoint_manager_path(manager, 7, path, 3, &length), UMBO_STATUS_OUT_OF_RANGE, "capacity");
    length = 0;
    CHECK_FAILS(umbo_checkpoint_manager_path(manager, 7, NULL, 0, &length), UMBO_STATUS_OUT_OF_RANGE, "capacity");
    CHECK_OK(umbo_checkpoint_manager_path(manager, 7, path, length + 1, &length));
    CHECK(length == strlen(path));
    CHECK_FAILS(umbo_checkpoint_manager_path(manager, 7, NULL, 1, &length), UMBO_STATUS_INVALID_ARGUMENT,
                "buffer: is NULL");
    CHECK_FAILS(umbo_checkpoint_manager_path(manager, -1, NULL, 0, &length), UMBO_STATUS_INVALID_ARGUMENT,
                "step: -1");
    CHECK_FAILS(umbo_checkpoint_manager_save(manager, -1, NULL, 1, NULL), UMBO_STATUS_INVALID_ARGUMENT, "step");
    umbo_checkpoint_manager_release(manager);
    for (index = 0; index < 2; index++) {
        options.max_to_keep = -index;
        CHECK_FAILS(umbo_checkpoint_manager_create(a.checkpoint, "test_checkpoint_folder", &options, &manager),
                    UMBO_STATUS_INVALID_ARGUMENT, "must be 1 or more");
        CHECK_MESSAGE("options.max_to_keep: ");
    }
    options.max_to_keep = 1;
    options.max_best_to_keep = -1;
    CHECK_FAILS(umbo_checkpoint_manager_create(a.checkpoint, "test_checkpoint_folder", &options, &manager),
                UMBO_STATUS_INVALID_ARGUMENT, "options.max_best_to_keep: -1; must be 0 or more");
    CHECK(remove("test_checkpoint_folder") == 0);
    release(&a);
}

/* A function of the log that asks the manager while it saves. */
struct asking {
    umbo_checkpoint_manager *manager;
    int64_t calls;
    umbo_status saved, waited, latest;
};

static void ask(umbo_log_level level, const char *message, void *user_data) {
    struct asking *self = (struct asking *)user_data;
    int64_t step = 0;
    (void)level;
    (void)message;
    if (++self->calls > 1) return;
    self->saved = umbo_checkpoint_manager_save(self->manager, 2, NULL, 1, NULL);
    if (self->saved != UMBO_OK) CHECK_MESSAGE("called by a function that a save of the same manager calls");
    self->waited = umbo_checkpoint_manager_wait(self->manager);
    self->latest = umbo_checkpoint_manager_latest(self->manager, &step);
}

/* A save that a save of the same manager calls does not wait for itself, whoever writes, nor does one that is called
 * when the folder is made free for a new training. */
static void a_save_inside_of_a_save(void) {
    const float numbers[3] = {0, (float)NAN, 0};
    const umbo_status refused = UMBO_STATUS_FAILED_PRECONDITION;
    umbo_checkpoint_manager_options options = UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT;
    char path[4200];
    int way;
    for (way = 0; way < 2; way++) {
        struct model m;
        struct asking self = {NULL, 0, UMBO_OK, UMBO_OK, UMBO_OK};
        size_t length = 0;
        int64_t step;
        make(&m, 1);
        options.asynchronous = way == 0;
        CHECK_OK(umbo_checkpoint_manager_create(m.checkpoint, "test_checkpoint_inside", &options, &self.manager));
        CHECK_OK(umbo_variable_write(m.weights, numbers, sizeof(numbers)));
        CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, ask, &self, NULL));
        CHECK_OK(umbo_checkpoint_manager_save(self.manager, 1, NULL, 1, NULL));
        CHECK_OK(umbo_checkpoint_manager_wait(self.manager));
        expect_no_messages();
        CHECK(self.calls >= 1);
        CHECK(self.saved == (way == 0 ? refused : UMBO_OK) && self.waited == (way == 0 ? refused : UMBO_OK));
        CHECK(self.latest == (way == 0 ? refused : UMBO_OK));
        umbo_checkpoint_manager_release(self.manager);
        release(&m);
        make(&m, 1);
        options.start_fresh = 1;
        CHECK_OK(umbo_checkpoint_manager_create(m.checkpoint, "test_checkpoint_inside", &options, &self.manager));
        self.calls = 0;
        CHECK_OK(umbo_set_log_callback(UMBO_LOG_INFO, ask, &self, NULL));
        CHECK_OK(umbo_checkpoint_manager_save(self.manager, 3, NULL, 1, NULL));
        CHECK_OK(umbo_checkpoint_manager_wait(self.manager));
        expect_no_messages();
        CHECK(self.calls >= 1 && self.saved == UMBO_OK && self.waited == UMBO_OK && self.latest == UMBO_OK);
        for (step = 2; step <= 3; step++) {
            CHECK_OK(umbo_checkpoint_manager_path(self.manager, step, path, sizeof(path), &length));
            CHECK(remove(path) == 0);
        }
        umbo_checkpoint_manager_release(self.manager);
        options.start_fresh = 0;
        CHECK(remove("test_checkpoint_inside/before-1/step-000000000001.safetensors") == 0);
        if (way == 1) CHECK(remove("test_checkpoint_inside/before-1/step-000000000002.safetensors") == 0);
        CHECK(remove("test_checkpoint_inside/before-1") == 0 && remove("test_checkpoint_inside") == 0);
        release(&m);
    }
}

/* The place of a pass. */
static void an_iterator_goes_on(void) {
    struct model a;
    umbo_dataset *dataset;
    umbo_iterator *iterator;
    umbo_value *element;
    int32_t index;
    make(&a, 1);
    CHECK_OK(umbo_dataset_from_range(0, 9, 1, &dataset));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_checkpoint_add_iterator(a.checkpoint, "pass", iterator));
    for (index = 0; index < 9; index++) {
        CHECK_OK(umbo_iterator_next(iterator, &element));
        CHECK(element != NULL);
        umbo_value_release(element);
        if (index == 7) CHECK_OK(umbo_checkpoint_save(a.checkpoint, file));
    }
    CHECK_OK(umbo_checkpoint_restore(a.checkpoint, file));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element != NULL);
    umbo_value_release(element);
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element == NULL);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    release(&a);
}

/* An epoch that ends in its middle and goes on from a file. */
static umbo_status fails_behind_step_3(const umbo_progress *progress, void *user_data) {
    struct model *m = (struct model *)user_data;
    if (progress->step_count == 2) UMBO_TRY(umbo_checkpoint_save(m->checkpoint, file));
    if (progress->step_count == 3) return umbo_set_last_error(UMBO_STATUS_ABORTED, "as planned", NULL, NULL);
    return UMBO_OK;
}

static void an_epoch_goes_on(void) {
    struct model a, b;
    struct model *models[2];
    umbo_dataset *dataset, *batches;
    umbo_distributed_dataset *distributed;
    umbo_iterator *iterators[2];
    umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
    int index;
    models[0] = &a;
    models[1] = &b;
    for (index = 0; index < 2; index++) {
        struct model *m = models[index];
        make(m, 2);
        CHECK_OK(umbo_dataset_from_range(0, 20, 1, &dataset));
        CHECK_OK(umbo_dataset_retain(dataset, &batches));
        CHECK_OK(umbo_dataset_batch(&batches, 4, 0));
        CHECK_OK(umbo_strategy_distribute_dataset(m->strategy, batches, NULL, &distributed));
        CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterators[index]));
        CHECK_OK(umbo_checkpoint_add_iterator(m->checkpoint, "pass", iterators[index]));
        umbo_distributed_dataset_release(distributed);
        umbo_dataset_release(batches);
        umbo_dataset_release(dataset);
    }
    for (index = 0; index < 2; index++) {
        struct model *m = models[index];
        umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
        options.metrics = m->metrics;
        if (index == 1) {
            options.progress = fails_behind_step_3;
            options.progress_user_data = m;
            CHECK_STATUS(umbo_train_epoch(m->strategy, iterators[1], m->optimizer, m->gradients, step, m, &options,
                                          NULL), UMBO_STATUS_ABORTED);
            CHECK_OK(umbo_checkpoint_restore(m->checkpoint, file));
            options.progress = NULL;
            options.keep_metrics = 1;
        }
        CHECK_OK(umbo_train_epoch(m->strategy, iterators[index], m->optimizer, m->gradients, step, m, &options,
                                  &report));
        CHECK(report.step_count == (index == 0 ? 5 : 3) && report.pass_ended == 1);
    }
    check_same(&a, &b);
    for (index = 0; index < 2; index++) {
        umbo_iterator_release(iterators[index]);
        release(models[index]);
    }
}

int main(void) {
    int32_t replicas;
    for (replicas = 1; replicas <= 3; replicas++) goes_on_from_a_file(replicas);
    what_does_not_fit_is_told();
    state_is_set();
    a_manager_keeps_some();
    a_save_inside_of_a_save();
    an_iterator_goes_on();
    an_epoch_goes_on();
    CHECK(remove(file) == 0);
    return finish();
}
