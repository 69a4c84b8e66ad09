/* What a training over processes takes of memory: of each rank at most the weights, its own
 * gradients, what it accumulates, its part of the state, and a few rounds of the exchange. A
 * checkpoint takes nothing more, neither while it is saved nor afterwards. With a number, so many
 * million elements on 1, 2 and 4 ranks, each with and without accumulation. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../c/check.h"

#define CHECKPOINT "test_memory.safetensors"

/* The last is of a save: its header, checksums, and what a file system takes. */
enum { MIB = 1 << 20, MOST_SIZE = 4, ALLOWED = 40, UPDATES = 2, ALLOWED_TO_SAVE = 6 };

struct work {
    int64_t elements;
    int64_t accumulation_steps;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    int step;
    /* Seen by all: in MiB, and the fingerprint of the weights. */
    double peak[MOST_SIZE];
    double more_to_save[MOST_SIZE];
    double more_when_saved[MOST_SIZE];
    uint64_t fingerprint[MOST_SIZE];
};

/* A line of /proc/self/status, in MiB. */
static double status_line(const char *name) {
    char line[256];
    double found = -1;
    FILE *const file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0) found = atof(line + strlen(name)) / 1024;
    fclose(file);
    CHECK(found > 0);
    return found;
}

static umbo_status contribute(umbo_replica_context *context, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    const struct work *const work = (const struct work *)user_data;
    umbo_view view;
    float *to;
    int64_t at;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(work->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    to = (float *)view.mutable_data;
    for (at = 0; at < work->elements; at++)
        to[at] = (float)((at * 7919 + work->step * 104729) % 2003) / 1001.0f - 0.97f;
    UMBO_TRY(umbo_gradients_submit_weighted(work->gradients, context, 1));
    return umbo_optimizer_apply(work->optimizer, work->gradients, NULL, NULL);
}

/* Saves twice. A save that fits into the memory that training has given back takes no more of it. */
static void save(struct work *work, struct work *shared, int rank, umbo_strategy *strategy,
                 umbo_variable *variable) {
    umbo_checkpoint *checkpoint = NULL;
    const double peak = status_line("VmHWM:"), before = status_line("VmRSS:");
    int time;
    CHECK_OK(umbo_checkpoint_create(strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, NULL, variable));
    CHECK_OK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", work->optimizer));
    CHECK_OK(umbo_checkpoint_add_gradients(checkpoint, "gradients", work->gradients));
    for (time = 0; time < 2; time++) CHECK_OK(umbo_checkpoint_save(checkpoint, CHECKPOINT));
    umbo_checkpoint_release(checkpoint);
    shared->more_to_save[rank] = status_line("VmHWM:") - peak;
    shared->more_when_saved[rank] = status_line("VmRSS:") - before;
}

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    struct work *const shared = (struct work *)argument;
    struct work work = *shared;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_gradients_options how = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_adam_options adam = UMBO_ADAM_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    umbo_variable *variable = NULL;
    umbo_tensor *initial = NULL;
    double start;
    options.cpu_replicas = 1;
    options.communicator = communicator;
    options.bind_threads = 0;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    start = status_line("VmRSS:");
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &work.elements, NULL, &initial));
    CHECK_OK(umbo_variable_create(strategy, "w", initial, NULL, &variable));
    umbo_tensor_release(initial);
    how.accumulation_steps = work.accumulation_steps;
    CHECK_OK(umbo_gradients_create(strategy, 1, &variable, UMBO_LOSS_MEAN, &how, &work.gradients));
    CHECK_OK(umbo_optimizer_create_adam(strategy, &adam, &work.optimizer));
    for (work.step = 0; work.step < UPDATES * work.accumulation_steps; work.step++)
        CHECK_OK(umbo_strategy_run(strategy, contribute, NULL, &work, NULL, NULL));
    shared->peak[rank] = status_line("VmHWM:") - start;
    CHECK_OK(umbo_strategy_fingerprint(strategy, &shared->fingerprint[rank]));
    save(&work, shared, rank, strategy, variable);
    umbo_optimizer_release(work.optimizer);
    umbo_gradients_release(work.gradients);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
    return 0;
}

/* Trains; the fingerprint of the weights, which is the same on all ranks. */
static uint64_t train(double elements, int size, int64_t accumulation_steps) {
    struct work *const work = (struct work *)ranks_shared(sizeof(struct work));
    struct ranks_options options = {0};
    struct ranks_outcome outcome;
    /* Weights, gradients and, in float64, what is accumulated; two states. */
    const double needed = elements * (4 + 4 + (accumulation_steps > 1 ? 8 : 0) + 8.0 / size);
    int rank;
    options.size = size;
    options.limit = 1000;
    options.timeout = 500;
    work->elements = (int64_t)(elements * MIB);
    work->accumulation_steps = accumulation_steps;
    outcome = ranks_run(&options, on_rank, work);
    CHECK(!outcome.hung);
    for (rank = 0; rank < size; rank++) {
        CHECK(outcome.code[rank] == 0);
        printf("%d runs an update, rank %d of %d: %.0f MiB, %.0f more than needed\n", (int)accumulation_steps,
               rank, size, work->peak[rank], work->peak[rank] - needed);
        printf("a save takes %.0f MiB more, %.0f afterwards\n", work->more_to_save[rank],
               work->more_when_saved[rank]);
        CHECK(work->peak[rank] <= needed + ALLOWED);
        CHECK(work->more_to_save[rank] <= ALLOWED_TO_SAVE);
        CHECK(work->more_when_saved[rank] <= ALLOWED_TO_SAVE);
        CHECK(work->fingerprint[rank] == work->fingerprint[0]);
    }
    return work->fingerprint[0];
}

int main(int argc, char **argv) {
    int64_t steps;
    int size;
    if (argc > 1) {
        for (steps = 1; steps <= 2; steps++)
            for (size = 1; size <= MOST_SIZE; size *= 2) (void)train(atof(argv[1]), size, steps);
        return 0;
    }
    /* Several rounds. All ranks contribute the same, whose mean is exact. */
    CHECK(train(5, 1, 1) == train(5, 2, 1));
    (void)train(5, 2, 2);
    return 0;
}
