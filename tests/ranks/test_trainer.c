/* A trainer of several processes: all have the weights that one process has, also of a table, after a step that fails on one
 * of them, and from a file. */
#define _POSIX_C_SOURCE 200112L
#include "ranks.h"

#include "../c/check.h"

#include <signal.h>
#include <unistd.h>

enum { ROWS = 26, FEATURES = 3, WORDS = 5, LENGTH = 2, REPLICAS = 6, MOST = 3 };

struct seen {
    float weights[MOST][FEATURES];
    float table[MOST][WORDS * LENGTH];
    double loss[MOST], evaluated[MOST];
};

static int fails_on = -1, interrupt_on = -1;

static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                         double *loss) {
    const int rank = *(const int *)user_data;
    CHECK(rows->count >= 1);
    if (rank == interrupt_on) {
        interrupt_on = -1;
        CHECK(kill(getpid(), SIGINT) == 0); /* raise() would be for this thread, whose signals are blocked */
    }
    for (int64_t i = 0; i < rows->count; ++i) {
        const int64_t row = rows->indices[i];
        float x[FEATURES], *word = NULL, error = (float)(row % 5) - 2;
        if (row == 17 && rank == fails_on) return UMBO_STATUS_ABORTED;
        for (int k = 0; k < FEATURES; ++k) {
            x[k] = (float)((row * (k + 2)) % 7) / 3 - 1;
            error += weights[k] * x[k];
        }
        error += rows->weights[1][row % WORDS * LENGTH];
        *loss += error * error / 2;
        if (gradient == NULL) continue;
        for (int k = 0; k < FEATURES; ++k) gradient[k] += error * x[k];
        UMBO_TRY(umbo_rows_gradient_row(rows, 1, row % WORDS, &word));
        word[0] += error;
    }
    return UMBO_OK;
}

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    struct seen *seen = (struct seen *)argument;
    umbo_trainer *trainer = NULL;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_parameters parameters[2];
    umbo_trainer_info info = UMBO_TRAINER_INFO_INIT;
    int64_t epochs = 0;
    memset(parameters, 0, sizeof(parameters));
    parameters[0].weights = seen->weights[rank], parameters[0].count = FEATURES;
    parameters[1].weights = seen->table[rank], parameters[1].count = WORDS * LENGTH;
    parameters[1].row_length = LENGTH;
    options.rule = "adam";
    options.learning_rate = 0.05;
    options.replicas_in_sync = REPLICAS;
    options.communicator = communicator;
    options.interrupt_path = "test_trainer_ranks_interrupted.umbo";
    CHECK_OK(umbo_trainer_create_with_arrays(2, parameters, &options, &trainer));
    fails_on = rank; /* on the one that has the row */
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 9, learn, &rank, NULL), UMBO_STATUS_ABORTED);
    fails_on = -1;
    CHECK_OK(umbo_trainer_get_info(trainer, &info));
    CHECK(info.epoch_count == 0);
    CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 9, learn, &rank, &seen->loss[rank]));
    CHECK_OK(umbo_trainer_save(trainer, "test_trainer_ranks.umbo"));
    CHECK_OK(umbo_trainer_step(trainer, 3, 5, learn, &rank, NULL));
    CHECK_OK(umbo_trainer_resume(trainer, "test_trainer_ranks.umbo", &epochs));
    CHECK(epochs == 1);
    /* An interrupt of one ends all, and all save. */
    interrupt_on = rank == 0 ? rank : -1;
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 9, learn, &rank, NULL), UMBO_STATUS_CANCELLED);
    CHECK_MESSAGE("interrupted");
    CHECK_OK(umbo_trainer_restore(trainer, options.interrupt_path));
    CHECK_OK(umbo_trainer_get_info(trainer, &info));
    CHECK(info.epoch_count == 1 && info.epoch_step_count >= 1);
    CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 9, learn, &rank, &seen->loss[rank]));
    CHECK_OK(umbo_trainer_evaluate(trainer, ROWS, 10, learn, &rank, &seen->evaluated[rank]));
    umbo_trainer_release(trainer);
    return 0;
}

int main(void) {
    struct seen *const reference = (struct seen *)ranks_shared(sizeof(struct seen));
    struct seen *const seen = (struct seen *)ranks_shared(sizeof(struct seen));
    for (int size = 1; size <= MOST; ++size) {
        struct ranks_options options = {0};
        struct seen *const to = size == 1 ? reference : seen;
        options.size = size;
        memset(to, 0, sizeof(*to));
        const struct ranks_outcome outcome = ranks_run(&options, on_rank, to);
        CHECK(!outcome.hung);
        for (int rank = 0; rank < size; ++rank) {
            CHECK(outcome.code[rank] == 0);
            CHECK(memcmp(to->weights[rank], reference->weights[0], sizeof(to->weights[0])) == 0);
            CHECK(memcmp(to->table[rank], reference->table[0], sizeof(to->table[0])) == 0);
            CHECK(to->loss[rank] == reference->loss[0] && to->evaluated[rank] == reference->evaluated[0]);
            CHECK(to->weights[rank][0] != 0 && to->table[rank][0] != 0);
        }
    }
    return 0;
}
