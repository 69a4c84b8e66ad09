/* Trainings that are saved, interrupted and resumed. */
#include "trainer_rows.h"

#include <signal.h>

/* A training that is resumed from a file ends as one that has never stopped, also from the middle of an epoch. */
static void resumes(void) {
    const char *const path = "test_trainer_resume.umbo";
    float whole[FEATURES] = {0}, part[FEATURES] = {0}, rest[FEATURES] = {0};
    double whole_loss = 0, loss = 0;
    int64_t epochs = -1;
    notes n = no_notes();
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.rule = "adam";
    options.accumulation_steps = 3;
    options.replicas = 2;
    options.replicas_in_sync = 4;
    umbo_trainer *trainer = trainer_with(whole, &options);
    for (int epoch = 0; epoch < 3; ++epoch)
        CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 2, learn, &n, &whole_loss));
    umbo_trainer_release(trainer);

    trainer = trainer_with(part, &options);
    CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 2, learn, &n, NULL));
    n.fail_at = 11;
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 2, learn, &n, NULL), UMBO_STATUS_ABORTED);
    CHECK_OK(umbo_trainer_save(trainer, path));
    umbo_trainer_release(trainer);

    n.fail_at = -1;
    options.replicas = 1;
    trainer = trainer_with(rest, &options);
    CHECK_OK(umbo_trainer_resume(trainer, "test_trainer_resume.none", &epochs));
    CHECK(epochs == 0 && rest[0] == 0);
    CHECK_STATUS(umbo_trainer_restore(trainer, "test_trainer_resume.none"), UMBO_STATUS_NOT_FOUND);
    CHECK_OK(umbo_trainer_resume(trainer, path, &epochs));
    CHECK(epochs == 1 && memcmp(rest, part, sizeof(rest)) == 0);
    for (; epochs < 3; ++epochs) CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 2, learn, &n, &loss));
    CHECK(memcmp(rest, whole, sizeof(rest)) == 0 && loss == whole_loss);
    CHECK(progress_of(trainer).step_count == 36 && progress_of(trainer).epoch_count == 3);
    CHECK_OK(umbo_trainer_restore(trainer, path));
    CHECK_OK(umbo_trainer_resume(trainer, path, NULL));
    CHECK(memcmp(rest, part, sizeof(rest)) == 0 && progress_of(trainer).epoch_count == 1);
    umbo_trainer_release(trainer);
    CHECK(remove(path) == 0);
    /* Files that no trainer has saved are refused. */
    trainer = trainer_with(rest, NULL);
    CHECK_STATUS(umbo_trainer_save(trainer, "no/such/folder"), UMBO_STATUS_NOT_FOUND);
    CHECK_STATUS(umbo_trainer_restore(trainer, "."), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_trainer_resume(trainer, ".", NULL), UMBO_STATUS_INVALID_ARGUMENT);
    /* So are paths at which the training could not be saved later. */
    CHECK_STATUS(umbo_trainer_resume(trainer, "", NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("path: '': names no file");
    CHECK_STATUS(umbo_trainer_resume(trainer, "no/such", NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("path: 'no/such': there is no such folder");
    umbo_trainer_release(trainer);
}

/* An interrupt ends the epoch after a step, and the training is saved. */
static umbo_status learn_interrupted(const umbo_rows *rows, const float *weights, float *gradient,
                                     void *user_data, double *loss) {
    if (*(int *)user_data) {
        *(int *)user_data = 0;
        CHECK(raise(SIGINT) == 0);
    }
    for (int64_t i = 0; i < rows->count; ++i)
        *loss += learn_row(table[rows->indices[i]], weights, gradient);
    return UMBO_OK;
}

static int interrupts_of_the_program = 0;

static void on_interrupt(int number) {
    (void)number;
    interrupts_of_the_program++;
}

static void interrupts(void) {
    const char *const path = "test_trainer_interrupted.umbo";
    float weights[FEATURES] = {0}, again[FEATURES] = {0};
    int interrupt = 1;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.replicas = 1;
    options.interrupt_path = path;
    CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
    umbo_trainer *trainer = trainer_with(weights, &options);
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 4, learn_interrupted, &interrupt, NULL),
                 UMBO_STATUS_CANCELLED);
    CHECK_MESSAGE("interrupted");
    CHECK_MESSAGE("the training was saved in 'test_trainer_interrupted.umbo'");
    CHECK(interrupts_of_the_program == 0 && progress_of(trainer).epoch_step_count == 1);
    CHECK(raise(SIGINT) == 0 && interrupts_of_the_program == 1);
    umbo_trainer *other = trainer_with(again, &options);
    CHECK_OK(umbo_trainer_resume(other, path, NULL));
    CHECK(memcmp(again, weights, sizeof(again)) == 0 && progress_of(other).epoch_step_count == 1);
    CHECK_OK(umbo_trainer_epoch(other, ROWS, 4, learn_interrupted, &interrupt, NULL));
    CHECK(progress_of(other).step_count == 6);
    umbo_trainer_release(other);
    umbo_trainer_release(trainer);
    CHECK(remove(path) == 0 && signal(SIGINT, SIG_DFL) != SIG_ERR);
}

/* An epoch that another seed or order has begun is not continued: its rows would be others. */
static void other_orders(void) {
    for (int other = 0; other < 3; ++other) {
        float weights[FEATURES] = {0};
        notes n = no_notes();
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.seed = 3;
        options.replicas = 1;
        umbo_trainer *trainer = trainer_with(weights, &options);
        n.fail_at = 9;
        CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 1, learn, &n, NULL), UMBO_STATUS_ABORTED);
        const int64_t done = progress_of(trainer).epoch_step_count;
        CHECK(done > 0);
        CHECK_OK(umbo_trainer_save(trainer, "test_trainer_resume.umbo"));
        umbo_trainer_release(trainer);
        if (other == 1) options.seed = 4;
        if (other == 2) options.shuffle = 0;
        trainer = trainer_with(weights, &options);
        CHECK_OK(umbo_trainer_resume(trainer, "test_trainer_resume.umbo", NULL));
        n = no_notes();
        CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 1, learn, &n, NULL));
        CHECK(n.calls == ROWS - (other == 0 ? done : 0));
        umbo_trainer_release(trainer);
        CHECK(remove("test_trainer_resume.umbo") == 0);
    }
}

int main(void) {
    make_table();
    resumes();
    interrupts();
    other_orders();
    return finish();
}
