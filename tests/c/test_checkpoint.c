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

/* A call that returns the failure of an earlier checkpoint has saved its own, and says so. */
static void an_earlier_failure_is_returned_by_a_call_that_saves(void) {
    umbo_checkpoint_manager_options options = UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT;
    umbo_checkpoint_manager *manager, *in_the_way;
    char blocked[4096], path[4096];
    struct model m;
    size_t length = 0;
    int64_t step = 0, messages = 0;
    int32_t saved = 0;
    make(&m, 1);
    options.asynchronous = 1;
    CHECK_OK(umbo_checkpoint_manager_create(m.checkpoint, "test_checkpoint_earlier", &options, &manager));
    CHECK_OK(umbo_checkpoint_manager_path(manager, 3, path, sizeof(path), &length));
    /* A folder where the file would be. */
    CHECK_OK(umbo_checkpoint_manager_save(manager, 1, NULL, 1, &saved));
    CHECK_OK(umbo_checkpoint_manager_path(manager, 2, blocked, sizeof(blocked), &length));
    CHECK_OK(umbo_checkpoint_manager_create(m.checkpoint, blocked, NULL, &in_the_way));
    umbo_checkpoint_manager_release(in_the_way);
    expect_messages(&messages);
    CHECK_OK(umbo_checkpoint_manager_save(manager, 2, NULL, 1, &saved));
    CHECK(saved == 1);
    saved = 0;
    CHECK_FAILS(umbo_checkpoint_manager_save(manager, 3, NULL, 1, &saved), UMBO_STATUS_INVALID_ARGUMENT,
                "the checkpoint of step 2, in the background (that of step 3");
    CHECK(saved == 1);
    CHECK_OK(umbo_checkpoint_manager_wait(manager));
    expect_no_messages();
    CHECK(messages == 1);
    CHECK(remove(blocked) == 0);
    CHECK_OK(umbo_checkpoint_manager_latest(manager, &step));
    CHECK(step == 3);
    CHECK(remove(path) == 0);
    CHECK_OK(umbo_checkpoint_manager_path(manager, 1, path, sizeof(path), &length));
    CHECK(remove(path) == 0);
    CHECK(remove("test_checkpoint_earlier") == 0);
    umbo_checkpoint_manager_release(manager);
    release(&m);
}

int main(void) {
    int32_t replicas;
    for (replicas = 1; replicas <= 3; replicas++) goes_on_from_a_file(replicas);
    state_is_set();
    a_save_inside_of_a_save();
    an_earlier_failure_is_returned_by_a_call_that_saves();
    CHECK(remove(file) == 0);
    return finish();
}
