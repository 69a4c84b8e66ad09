/* A small model, its training, and a checkpoint of all its state, for the tests of checkpoints. */
#ifndef UMBO_TESTS_CHECKPOINT_MODEL_H
#define UMBO_TESTS_CHECKPOINT_MODEL_H

#include "check.h"

/* A call that must fail with this status, and with these words in its message. */
#define CHECK_FAILS(call, status, words) \
    do {                                 \
        CHECK_STATUS(call, status);      \
        CHECK_MESSAGE(words);            \
    } while (0)

/* A model whose state is spread over all kinds of objects that a checkpoint holds. */
struct model {
    umbo_strategy *strategy;
    umbo_variable *weights;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    umbo_metrics *metrics;
    umbo_tensor *seen;
    umbo_checkpoint *checkpoint;
};

/* A gradient that depends on the weights and on the number of the step. */
static umbo_status step(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    struct model *m = (struct model *)user_data;
    umbo_view w, g;
    umbo_replica_context_info position = UMBO_REPLICA_CONTEXT_INFO_INIT;
    const float *weights;
    float *gradient;
    int64_t index;
    (void)args, (void)result;
    UMBO_TRY(umbo_replica_context_get_info(ctx, &position));
    UMBO_TRY(umbo_variable_view(m->weights, ctx, UMBO_DTYPE_NONE, &w));
    UMBO_TRY(umbo_gradients_view(m->gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &g));
    weights = (const float *)w.data;
    gradient = (float *)g.mutable_data;
    for (index = 0; index < w.shape[0]; index++) {
        gradient[index] = weights[index] * 0.5f + (float)(position.step * (index + 1)) * 0.01f;
    }
    UMBO_TRY(umbo_metrics_add(m->metrics, ctx, "loss", (double)gradient[0], 1));
    return umbo_gradients_submit_weighted(m->gradients, ctx, 1);
}

static void make(struct model *m, int32_t replicas) {
    const float start[3] = {1, 2, 3}, zeros[2] = {0, 0};
    umbo_tensor *initial = make_floats(3, start);
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    m->strategy = make_strategy(replicas);
    CHECK_OK(umbo_variable_create(m->strategy, "weights", initial, NULL, &m->weights));
    umbo_tensor_release(initial);
    options.accumulation_steps = 3;
    CHECK_OK(umbo_gradients_create(m->strategy, 1, &m->weights, UMBO_LOSS_SUM, &options, &m->gradients));
    CHECK_OK(umbo_optimizer_create_adam(m->strategy, NULL, &m->optimizer));
    CHECK_OK(umbo_metrics_create(m->strategy, &m->metrics));
    CHECK_OK(umbo_metrics_define(m->metrics, "loss", UMBO_METRIC_MEAN, NULL));
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

/* Trains so many steps. Every third one updates the weights. */
static void train(struct model *m, int steps) {
    for (; steps > 0; steps--) {
        CHECK_OK(umbo_strategy_run(m->strategy, step, NULL, m, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(m->optimizer, m->gradients, NULL, NULL));
    }
}

#endif
