/* Sums over two runs make an update, or, on several ranks, the sums of one run of twice as many replicas, which are the
 * same: a dense array and a table. */
#ifndef UMBO_TESTS_ONE_SHA_SUMS_PART_H
#define UMBO_TESTS_ONE_SHA_SUMS_PART_H

#include "parts.h"

enum { RUNS = 2, UPDATES = 6, SUMMED = 300, SUMMED_ROWS = 9, SUMMED_WIDTH = 4 };

struct sums {
    umbo_strategy *strategy;
    umbo_variable *variables[2];
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    umbo_checkpoint *checkpoint;
    int runs;       /* of an update */
    int64_t first;  /* the number of the first contribution of the run in progress */
};

static void make_sums(umbo_communicator *communicator, int replicas, struct sums *sums) {
    static const int64_t shapes[2][2] = {{SUMMED, 0}, {SUMMED_ROWS, SUMMED_WIDTH}};
    static const int32_t row_sparse[2] = {0, 1};
    umbo_gradients_options how = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    const int is_alone = communicator == NULL || communicator_info_of(communicator).rank_count == 1;
    memset(sums, 0, sizeof(*sums));
    sums->runs = is_alone ? RUNS : 1;
    sums->strategy = make_part_strategy(communicator, replicas, IN_SYNC * RUNS / sums->runs);
    CHECK_OK(umbo_checkpoint_create(sums->strategy, &sums->checkpoint));
    for (int at = 0; at < 2; at++) {
        CHECK_OK(umbo_variable_create_drawn(sums->strategy, at == 0 ? "summed" : "rows", UMBO_DTYPE_FLOAT32, at + 1,
                                            shapes[at], UMBO_INITIAL_NORMAL, 9, &sums->variables[at]));
        CHECK_OK(umbo_checkpoint_add_variable(sums->checkpoint, NULL, sums->variables[at]));
    }
    how.row_sparse = row_sparse;
    how.accumulation_steps = sums->runs;
    CHECK_OK(umbo_gradients_create(sums->strategy, 2, sums->variables, UMBO_LOSS_SUM, &how, &sums->gradients));
    CHECK_OK(umbo_optimizer_create_adam(sums->strategy, NULL, &sums->optimizer));
    options.global_clip_norm = 0.5;
    CHECK_OK(umbo_optimizer_configure(sums->optimizer, &options));
    CHECK_OK(umbo_checkpoint_add_optimizer(sums->checkpoint, "adam", sums->optimizer));
}

static void release_sums(struct sums *sums) {
    umbo_checkpoint_release(sums->checkpoint);
    umbo_optimizer_release(sums->optimizer);
    umbo_gradients_release(sums->gradients);
    umbo_variable_release(sums->variables[0]);
    umbo_variable_release(sums->variables[1]);
    umbo_strategy_release(sums->strategy);
}

static umbo_status contribute(umbo_replica_context *context, const umbo_value *args, void *user_data, umbo_value **result) {
    const struct sums *const sums = (const struct sums *)user_data;
    umbo_replica_context_info place = UMBO_REPLICA_CONTEXT_INFO_INIT;
    umbo_view dense, indices, values;
    int64_t number;
    (void)args, (void)result;
    UMBO_TRY(umbo_replica_context_get_info(context, &place));
    number = sums->first + place.replica_id;
    UMBO_TRY(umbo_gradients_view(sums->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &dense));
    for (int at = 0; at < SUMMED; at++) ((float *)dense.mutable_data)[at] = number_of(number, at);
    UMBO_TRY(umbo_gradients_add_rows(sums->gradients, context, 1, 2, &indices, &values));
    for (int at = 0; at < 2; at++) {
        ((int64_t *)indices.mutable_data)[at] = (number * 2 + at) % SUMMED_ROWS;
        for (int column = 0; column < SUMMED_WIDTH; column++)
            ((float *)values.mutable_data)[at * SUMMED_WIDTH + column] = number_of(number, SUMMED + at * 7 + column);
    }
    return umbo_gradients_submit_weighted(sums->gradients, context, (double)(1 + number % 3));
}

static void train_sums(struct sums *sums, int first, int end) {
    for (int update = first; update < end; update++)
        for (int run = 0; run < sums->runs; run++) {
            sums->first = (int64_t)(update * RUNS + run) * IN_SYNC;
            CHECK_OK(umbo_strategy_run(sums->strategy, contribute, NULL, sums, NULL, NULL));
            CHECK_OK(umbo_optimizer_apply(sums->optimizer, sums->gradients, NULL, NULL));
        }
}

static void sums_until_saved(umbo_communicator *communicator, int replicas) {
    struct sums sums;
    make_sums(communicator, replicas, &sums);
    train_sums(&sums, 0, UPDATES / 2);
    CHECK_OK(umbo_checkpoint_save(sums.checkpoint, "sums.umbo"));
    release_sums(&sums);
}

static void sums_from_saved(umbo_communicator *communicator, int replicas, struct sha256 *sha) {
    struct sums sums;
    make_sums(communicator, replicas, &sums);
    CHECK_OK(umbo_checkpoint_restore(sums.checkpoint, "sums.umbo"));
    train_sums(&sums, UPDATES / 2, UPDATES);
    add_variable(sha, sums.variables[0]);
    add_variable(sha, sums.variables[1]);
    release_sums(&sums);
}

#endif
