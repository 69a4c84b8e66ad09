/* A training of ranks: the same steps for any number of ranks that share its replicas, and what each of
 * them sees of the weights. */
#ifndef UMBO_TESTS_TRAIN_H
#define UMBO_TESTS_TRAIN_H


#include "../c/check.h"

enum { REPLICAS = 4, STEPS = 5, ELEMENTS = 1500, ROWS = 9, WIDTH = 3, TRAINING_RANKS = 16 };

/* What was seen of a training. */
struct seen {
    /* The fingerprint of the weights behind so many steps, on each rank; 0: not come so far. */
    uint64_t fingerprint[STEPS + 1][TRAINING_RANKS];
    /* How each rank's training ended. */
    umbo_status status[TRAINING_RANKS];
};

/* Where the variables are; NULL: with the replicas, on CPUs. */
static const char *train_parameter_device;

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
    umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
    int32_t replica, at;
    umbo_view dense, indices, values;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_replica_context_get_info(context, &here));
    replica = here.replica_id;
    CHECK(here.local_replica_id >= 0 && here.local_replica_id <= replica);
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

/* Trains with so many replicas, each on a device of its own. */
static CHECK_MAYBE_UNUSED umbo_status train(umbo_communicator *communicator, int rank,
                                            int64_t replicas, struct seen *seen) {
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
    options.parameter_device = train_parameter_device;
    options.bind_threads = 0;
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
        CHECK_OK(umbo_gradients_create(strategy, 2, variables, UMBO_LOSS_SUM, &how, &model.gradients));
        CHECK_OK(umbo_optimizer_create_adam(strategy, &adam, &model.optimizer));
        CHECK_OK(umbo_strategy_fingerprint(strategy, &seen->fingerprint[0][rank]));
    }
    for (model.step = 1; status == UMBO_OK && model.step <= STEPS; model.step++) {
        uint64_t print;
        status = umbo_strategy_run(strategy, contribute, NULL, &model, NULL, NULL);
        CHECK_OK(umbo_strategy_fingerprint(strategy, &print));
        if (status == UMBO_OK) {
            seen->fingerprint[model.step][rank] = print;
        } else {
            /* Nothing of the step is left, and nothing more can be done together. */
            CHECK(print == seen->fingerprint[model.step - 1][rank]);
            CHECK(umbo_strategy_run(strategy, contribute, NULL, &model, NULL, NULL) ==
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

#endif
