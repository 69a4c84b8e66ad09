/* A training over processes that are killed and stopped: all ranks that are left have the weights of one
 * and the same step, none hangs, and what needs the others says that they are gone. */
#include "ranks.h"

#include "../c/check.h"

enum { SIZE = 2, REPLICAS = 2, STEPS = 5, ELEMENTS = 1500, ROWS = 9, WIDTH = 3 };

/* What ranks and the test share. */
struct seen {
    /* The fingerprint of the weights behind so many steps, on each rank; 0: not come so far. */
    int64_t fingerprint[STEPS + 1][RANKS_MOST];
    /* How each rank's training ended. */
    umbo_status status[RANKS_MOST];
};

struct model {
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    int32_t step;
};

/* A number that replica `replica` adds to element `at` in a step. */
static float number_of(int32_t step, int32_t replica, int64_t at) {
    return (float)((step * 7 + replica * 13 + at * 31) % 23 - 11) / 8.0f;
}

static umbo_status contribute(umbo_replica_context *context, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    const struct model *model = (const struct model *)user_data;
    int32_t replica, own, at;
    umbo_view dense, indices, values;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_replica_context_replica_id(context, &replica));
    UMBO_TRY(umbo_replica_context_local_replica_id(context, &own));
    CHECK(own >= 0 && own <= replica);
    UMBO_TRY(umbo_gradients_view(model->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &dense));
    for (at = 0; at < ELEMENTS; at++)
        ((float *)dense.mutable_data)[at] = number_of(model->step, replica, at);
    UMBO_TRY(umbo_gradients_add_rows(model->gradients, context, 1, 2, &indices, &values));
    for (at = 0; at < 2; at++) {
        int32_t column;
        ((int64_t *)indices.mutable_data)[at] = (model->step + replica * 2 + at) % ROWS;
        for (column = 0; column < WIDTH; column++)
            ((float *)values.mutable_data)[at * WIDTH + column] =
                number_of(model->step, replica, at + column);
    }
    UMBO_TRY(umbo_gradients_submit_weighted(model->gradients, context, 1 + replica % 2));
    return umbo_optimizer_apply(model->optimizer, model->gradients, NULL, NULL);
}

static umbo_status train(umbo_communicator *communicator, int rank, int64_t replicas,
                         struct seen *seen) {
    static const float zeros[ELEMENTS] = {0};
    static const int64_t shapes[2][2] = {{ELEMENTS, 0}, {ROWS, WIDTH}};
    static const int32_t row_sparse[2] = {0, 1};
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_gradients_options how = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_adam_options adam = UMBO_ADAM_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    umbo_variable *variables[2] = {NULL, NULL};
    struct model model = {NULL, NULL, 0};
    umbo_status status;
    int32_t index;
    options.cpu_replicas = replicas;
    options.communicator = communicator;
    options.thread_binding = UMBO_THREAD_BINDING_OFF;
    options.fingerprint_interval = 2;
    status = umbo_strategy_create(&options, &strategy);
    for (index = 0; status == UMBO_OK && index < 2; index++) {
        umbo_tensor *initial = make_tensor(UMBO_DTYPE_FLOAT32, index + 1, shapes[index], zeros);
        status = umbo_variable_create(strategy, index == 0 ? "w" : "table", initial, NULL,
                                      &variables[index]);
        umbo_tensor_release(initial);
    }
    if (status == UMBO_OK) {
        how.row_sparse = row_sparse;
        how.loss_reduction = UMBO_LOSS_SUM;
        CHECK_OK(umbo_gradients_create(strategy, 2, variables, &how, &model.gradients));
        CHECK_OK(umbo_optimizer_create_adam(strategy, &adam, &model.optimizer));
        CHECK_OK(umbo_strategy_fingerprint(strategy, &seen->fingerprint[0][rank]));
    }
    for (model.step = 1; status == UMBO_OK && model.step <= STEPS; model.step++) {
        int64_t print;
        status = umbo_strategy_run(strategy, contribute, &model, NULL, NULL, NULL);
        CHECK_OK(umbo_strategy_fingerprint(strategy, &print));
        if (status == UMBO_OK) {
            seen->fingerprint[model.step][rank] = print;
        } else {
            /* Nothing of the step is left, and nothing more can be done together. */
            CHECK(print == seen->fingerprint[model.step - 1][rank]);
            CHECK(umbo_strategy_run(strategy, contribute, &model, NULL, NULL, NULL) ==
                  UMBO_STATUS_UNAVAILABLE);
            CHECK_OK(umbo_strategy_fingerprint(strategy, &print));
            CHECK(print == seen->fingerprint[model.step - 1][rank]);
        }
    }
    umbo_optimizer_release(model.optimizer);
    umbo_gradients_release(model.gradients);
    umbo_variable_release(variables[0]);
    umbo_variable_release(variables[1]);
    umbo_strategy_release(strategy);
    return status;
}

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    struct seen *seen = (struct seen *)argument;
    int64_t size;
    CHECK_OK(umbo_communicator_size(communicator, &size));
    seen->status[rank] = train(communicator, rank, SIZE * REPLICAS / size, seen);
    return 0;
}

static struct ranks_outcome run(int size, const struct ranks_fault *fault, struct seen *seen) {
    struct ranks_options options = {0};
    options.size = size;
    options.timeout = fault != NULL && fault->event == RANKS_STOP ? 1 : 0;
    options.faults = fault;
    options.fault_count = fault != NULL;
    memset(seen, 0, sizeof(*seen));
    return ranks_run(&options, on_rank, seen);
}

int main(void) {
    static const enum ranks_event events[] = {RANKS_DEATH, RANKS_DEATH_WITHIN, RANKS_DEATH,
                                              RANKS_FAILURE, RANKS_DEATH};
    struct seen *reference = (struct seen *)ranks_shared(sizeof(struct seen));
    struct seen *seen = (struct seen *)ranks_shared(sizeof(struct seen));
    struct ranks_outcome outcome;
    int64_t calls, faults, unfinished = 0;
    int step, rank, size;
    /* Processes of several replicas are as one process with all of them. */
    outcome = run(1, NULL, reference);
    CHECK(!outcome.hung && outcome.code[0] == 0 && reference->status[0] == UMBO_OK);
    for (size = 2; size <= SIZE * REPLICAS; size *= 2) {
        outcome = run(size, NULL, seen);
        CHECK(!outcome.hung);
        for (rank = 0; rank < size; rank++) {
            CHECK(outcome.code[rank] == 0 && seen->status[rank] == UMBO_OK);
            for (step = 0; step <= STEPS; step++)
                CHECK(seen->fingerprint[step][rank] == reference->fingerprint[step][0]);
        }
    }
    outcome = run(SIZE, NULL, seen);
    calls = outcome.calls[0];
    CHECK(calls > 40);
    for (faults = 0; faults < 200; faults++) {
        struct ranks_fault fault = {RANKS_NOTHING, 0, 0, 0};
        fault.event = events[faults % COUNT_OF(events)];
        fault.rank = (int)(faults / 2 % SIZE);
        fault.call = 1 + faults * 7919 % calls;
        outcome = run(SIZE, &fault, seen);
        CHECK(!outcome.hung);
        for (rank = 0; rank < SIZE; rank++) {
            if (rank == fault.rank && fault.event != RANKS_FAILURE) {
                CHECK(outcome.signal[rank] != 0);
            } else {
                CHECK(outcome.code[rank] == 0);
                /* A rank may go in the very last call, when the others have all that they need. */
                CHECK((seen->status[rank] == UMBO_OK) == (seen->fingerprint[STEPS][rank] != 0));
                unfinished += seen->status[rank] != UMBO_OK;
            }
            for (step = 0; step <= STEPS; step++) {
                const int64_t print = seen->fingerprint[step][rank];
                CHECK(print == 0 || print == reference->fingerprint[step][0]);
            }
        }
    }
    CHECK(unfinished > 190);
    return 0;
}
