/* Managers of checkpoints: which files are kept, and saves that meet one another. */
#include <math.h>

#include "checkpoint_model.h"

static const char folder[] = "test_checkpoint_folder";

static umbo_checkpoint_manager *manager_of(const struct model *m,
                                           const umbo_checkpoint_manager_options *options) {
    umbo_checkpoint_manager *manager;
    CHECK_OK(umbo_checkpoint_manager_create(m->checkpoint, folder, options, &manager));
    return manager;
}

static int64_t latest_of(const umbo_checkpoint_manager *manager) {
    int64_t step = 0;
    CHECK_OK(umbo_checkpoint_manager_latest(manager, &step));
    return step;
}

/* Removes the file of a step, which must be there. */
static void remove_checkpoint(const umbo_checkpoint_manager *manager, int64_t step) {
    char path[4200];
    size_t length = 0;
    CHECK_OK(umbo_checkpoint_manager_path(manager, step, path, sizeof(path), &length));
    CHECK(length == strlen(path) && remove(path) == 0);
}

static int64_t restore_latest(umbo_checkpoint_manager *manager) {
    int64_t step = 0;
    CHECK_OK(umbo_checkpoint_manager_restore_latest(manager, &step));
    return step;
}

/* Of six checkpoints with these losses, the two newest and the best one stay: steps 4, 5 and 1. */
static void the_newest_and_the_best_are_kept(struct model *m, umbo_checkpoint_manager *manager) {
    const double losses[6] = {3, 1, 2, 5, 4, 6};
    umbo_checkpoint_manager *again;
    int64_t step = 0;
    int32_t saved = 0;
    int index;
    CHECK(restore_latest(manager) == UMBO_NONE);
    for (index = 0; index < 6; index++) {
        train(m, 1);
        CHECK_OK(umbo_checkpoint_set_integer(m->checkpoint, "epoch", index));
        CHECK_OK(umbo_checkpoint_manager_save(manager, index, &losses[index], 1, &saved));
        CHECK(saved == 1);
    }
    CHECK_OK(umbo_checkpoint_manager_save(manager, 5, NULL, 0, &saved)); /* not due */
    CHECK(saved == 0);
    CHECK_OK(umbo_checkpoint_manager_wait(manager));
    CHECK(latest_of(manager) == 5);
    CHECK_OK(umbo_checkpoint_manager_best(manager, &step));
    CHECK(step == 1);
    CHECK_OK(umbo_checkpoint_manager_restore_best(manager, &step));
    CHECK_OK(umbo_checkpoint_integer(m->checkpoint, "epoch", &step));
    CHECK(step == 1);
    CHECK_OK(umbo_checkpoint_manager_retain(manager, &again));
    CHECK(restore_latest(again) == 5);
    umbo_checkpoint_manager_release(again);
}

/* Another training does not save among these checkpoints unless it says that it starts fresh. */
static void another_training_starts_fresh(umbo_checkpoint_manager_options options) {
    struct model m;
    umbo_checkpoint_manager *manager;
    make(&m, 2);
    manager = manager_of(&m, &options);
    CHECK_FAILS(umbo_checkpoint_manager_save(manager, 6, NULL, 0, NULL),
                UMBO_STATUS_FAILED_PRECONDITION, "of step 5");
    CHECK_MESSAGE("start_fresh");
    umbo_checkpoint_manager_release(manager);
    options.start_fresh = 1;
    manager = manager_of(&m, &options);
    CHECK(restore_latest(manager) == UMBO_NONE);
    umbo_checkpoint_manager_release(manager);
    release(&m);
}

/* The path of a step is given whole or not at all, and its length in either case. */
static void paths(const umbo_checkpoint_manager *manager) {
    char path[4200];
    size_t length = 0;
    CHECK_FAILS(umbo_checkpoint_manager_path(manager, 7, path, 3, &length),
                UMBO_STATUS_OUT_OF_RANGE, "capacity");
    length = 0;
    CHECK_FAILS(umbo_checkpoint_manager_path(manager, 7, NULL, 0, &length),
                UMBO_STATUS_OUT_OF_RANGE, "capacity");
    CHECK_OK(umbo_checkpoint_manager_path(manager, 7, path, length + 1, &length));
    CHECK(length == strlen(path));
    CHECK_FAILS(umbo_checkpoint_manager_path(manager, 7, NULL, 1, &length),
                UMBO_STATUS_INVALID_ARGUMENT, "buffer: is NULL");
    CHECK_FAILS(umbo_checkpoint_manager_path(manager, -1, NULL, 0, &length),
                UMBO_STATUS_INVALID_ARGUMENT, "step: -1");
}

/* Options that are refused name the option. */
static void refused_options(const struct model *m) {
    const umbo_checkpoint_manager_options defaults = UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT;
    umbo_checkpoint_manager_options options = defaults;
    umbo_checkpoint_manager *manager;
    options.max_to_keep = 0;
    CHECK_FAILS(umbo_checkpoint_manager_create(m->checkpoint, folder, &options, &manager),
                UMBO_STATUS_INVALID_ARGUMENT, "options.max_to_keep: 0; must be 1 or more");
    options = defaults;
    options.max_best_to_keep = -1;
    CHECK_FAILS(umbo_checkpoint_manager_create(m->checkpoint, folder, &options, &manager),
                UMBO_STATUS_INVALID_ARGUMENT, "options.max_best_to_keep: -1; must be 0 or more");
    options = defaults;
    options.start_fresh = 2;
    CHECK_FAILS(umbo_checkpoint_manager_create(m->checkpoint, folder, &options, &manager),
                UMBO_STATUS_INVALID_ARGUMENT, "options.start_fresh");
}

static void a_manager_keeps_some(void) {
    umbo_checkpoint_manager_options options = UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT;
    umbo_checkpoint_manager *manager;
    struct model m;
    make(&m, 2);
    options.max_to_keep = 2;
    options.max_best_to_keep = 1;
    manager = manager_of(&m, &options);
    the_newest_and_the_best_are_kept(&m, manager);
    another_training_starts_fresh(options);
    paths(manager);
    CHECK_FAILS(umbo_checkpoint_manager_save(manager, -1, NULL, 1, NULL),
                UMBO_STATUS_INVALID_ARGUMENT, "step");
    remove_checkpoint(manager, 1);
    remove_checkpoint(manager, 4);
    remove_checkpoint(manager, 5);
    umbo_checkpoint_manager_release(manager);
    refused_options(&m);
    CHECK(remove(folder) == 0); /* nothing else was in it */
    release(&m);
}

/* What calls of a manager return inside of a save, where the log calls `ask`. */
struct asking {
    umbo_checkpoint_manager *manager;
    int64_t calls;
    umbo_status saved, waited, latest;
};

static void ask(umbo_log_level level, const char *message, void *user_data) {
    struct asking *self = (struct asking *)user_data;
    int64_t step = 0;
    (void)level, (void)message;
    if (++self->calls > 1) return;
    self->saved = umbo_checkpoint_manager_save(self->manager, 2, NULL, 1, NULL);
    if (self->saved != UMBO_OK)
        CHECK_MESSAGE("called by a function that a save of the same manager calls");
    self->waited = umbo_checkpoint_manager_wait(self->manager);
    self->latest = umbo_checkpoint_manager_latest(self->manager, &step);
}

/* Saves as `step`, which logs something of this level; the calls of `ask` must return `expected`. */
static void save_and_ask(struct asking *self, int64_t step, umbo_log_level level,
                         umbo_status expected) {
    self->calls = 0;
    CHECK_OK(umbo_set_log_callback(level, ask, self, NULL));
    CHECK_OK(umbo_checkpoint_manager_save(self->manager, step, NULL, 1, NULL));
    CHECK_OK(umbo_checkpoint_manager_wait(self->manager));
    expect_no_messages();
    CHECK(self->calls >= 1);
    CHECK(self->saved == expected && self->waited == expected && self->latest == expected);
}

/* A call of a manager inside of a save of the same manager does not wait for itself: it is refused
 * in the background's thread, and works where the program's own thread saves or makes the folder
 * free for a new training. */
static void a_save_inside_of_a_save(int32_t asynchronous) {
    const float not_finite[3] = {0, (float)NAN, 0};
    umbo_checkpoint_manager_options options = UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT;
    struct asking self;
    struct model m;
    make(&m, 1);
    options.asynchronous = asynchronous;
    self.manager = manager_of(&m, &options);
    CHECK_OK(umbo_variable_upload(m.weights, not_finite, sizeof(not_finite))); /* a warning */
    save_and_ask(&self, 1, UMBO_LOG_WARNING,
                 asynchronous ? UMBO_STATUS_FAILED_PRECONDITION : UMBO_OK);
    umbo_checkpoint_manager_release(self.manager);
    release(&m);

    make(&m, 1);
    options.start_fresh = 1;
    self.manager = manager_of(&m, &options);
    save_and_ask(&self, 3, UMBO_LOG_INFO, UMBO_OK);
    remove_checkpoint(self.manager, 2);
    remove_checkpoint(self.manager, 3);
    umbo_checkpoint_manager_release(self.manager);
    CHECK(remove("test_checkpoint_folder/before-1/step-000000000001.safetensors") == 0);
    if (!asynchronous)
        CHECK(remove("test_checkpoint_folder/before-1/step-000000000002.safetensors") == 0);
    CHECK(remove("test_checkpoint_folder/before-1") == 0 && remove(folder) == 0);
    release(&m);
}

/* A call that returns the failure of an earlier checkpoint has saved its own, and says so. */
static void an_earlier_failure_is_returned_by_a_call_that_saves(void) {
    umbo_checkpoint_manager_options options = UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT;
    umbo_checkpoint_manager *manager, *in_the_way;
    char blocked[4200];
    struct model m;
    size_t length = 0;
    int64_t messages = 0;
    int32_t saved = 0;
    make(&m, 1);
    options.asynchronous = 1;
    manager = manager_of(&m, &options);
    CHECK_OK(umbo_checkpoint_manager_save(manager, 1, NULL, 1, &saved));
    /* A folder where the file of step 2 would be. */
    CHECK_OK(umbo_checkpoint_manager_path(manager, 2, blocked, sizeof(blocked), &length));
    CHECK_OK(umbo_checkpoint_manager_create(m.checkpoint, blocked, NULL, &in_the_way));
    umbo_checkpoint_manager_release(in_the_way);
    expect_messages(&messages);
    CHECK_OK(umbo_checkpoint_manager_save(manager, 2, NULL, 1, &saved));
    CHECK(saved == 1);
    saved = 0;
    CHECK_FAILS(umbo_checkpoint_manager_save(manager, 3, NULL, 1, &saved),
                UMBO_STATUS_INVALID_ARGUMENT,
                "the checkpoint of step 2, in the background (that of step 3");
    CHECK(saved == 1);
    CHECK_OK(umbo_checkpoint_manager_wait(manager));
    expect_no_messages();
    CHECK(messages == 1);
    CHECK(remove(blocked) == 0);
    CHECK(latest_of(manager) == 3);
    remove_checkpoint(manager, 1);
    remove_checkpoint(manager, 3);
    CHECK(remove(folder) == 0);
    umbo_checkpoint_manager_release(manager);
    release(&m);
}

int main(void) {
    a_manager_keeps_some();
    a_save_inside_of_a_save(1);
    a_save_inside_of_a_save(0);
    an_earlier_failure_is_returned_by_a_call_that_saves();
    return finish();
}
