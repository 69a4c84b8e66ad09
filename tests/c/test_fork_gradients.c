/* Forks while other threads contribute gradients, apply them, convert low-precision copies and listen to
 * tokens: what the child may not do is refused and never waits for a thread that the child does not
 * have; reading and releasing work, and so do new gradients. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>

#include "child.h"

enum { REPLICAS = 2, SIZE = 1 << 16, ROWS = 64, TABLE = 0, DENSE = 1 };

/* Gradients of a table and of a large variable, and what applies them. */
typedef struct {
    umbo_strategy *strategy;
    umbo_variable *variables[2];
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
} trainer;

typedef struct {
    trainer own, plain; /* of a strategy with replicas, of the default strategy */
    umbo_cancellation *token;
    umbo_value *zeros; /* of the large variable's size */
} world;

static void make_gradients(trainer *self) {
    const int32_t row_sparse[2] = {1, 0};
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    options.loss_reduction = UMBO_LOSS_SUM;
    options.accumulation_steps = 2;
    options.row_sparse = row_sparse;
    CHECK_OK(umbo_gradients_create(self->strategy, 2, self->variables,
                                   &options, &self->gradients));
}

static void make_optimizer(trainer *self) {
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    CHECK_OK(umbo_optimizer_create_sgd(self->strategy, NULL, &self->optimizer));
    options.global_clip_norm = 1e9; /* takes time under the gradients' locks */
    CHECK_OK(umbo_optimizer_configure(self->optimizer, &options));
}

static umbo_tensor *zeros(int32_t rank, const int64_t *shape) {
    umbo_tensor *tensor = NULL;
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, rank, shape, NULL, &tensor));
    return tensor;
}

static void make_trainer(trainer *self, umbo_strategy *strategy) {
    const int64_t table[2] = {ROWS, 2}, size = SIZE;
    umbo_tensor *initial;
    memset(self, 0, sizeof(*self));
    self->strategy = strategy;
    initial = zeros(2, table);
    CHECK_OK(umbo_variable_create(strategy, "table", initial, NULL, &self->variables[TABLE]));
    umbo_tensor_release(initial);
    initial = zeros(1, &size);
    CHECK_OK(umbo_variable_create(strategy, "dense", initial, NULL, &self->variables[DENSE]));
    umbo_tensor_release(initial);
    make_gradients(self);
    make_optimizer(self);
}

static void release_trainer(trainer *self) {
    umbo_optimizer_release(self->optimizer);
    umbo_gradients_release(self->gradients);
    umbo_variable_release(self->variables[DENSE]);
    umbo_variable_release(self->variables[TABLE]);
    umbo_strategy_release(self->strategy);
}

static void release_world(world *self) {
    umbo_value_release(self->zeros);
    umbo_cancellation_release(self->token);
    release_trainer(&self->plain);
    release_trainer(&self->own);
}

static umbo_status contribute(umbo_replica_context *context, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    const trainer *self = (const trainer *)user_data;
    umbo_view view, indices, values;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(self->gradients, context, DENSE, UMBO_GRADIENT_ADD, &view));
    ((float *)view.mutable_data)[0] = 1;
    UMBO_TRY(umbo_gradients_add_rows(self->gradients, context, TABLE, 1, &indices, &values));
    *(int64_t *)indices.data = 3;
    ((float *)values.mutable_data)[0] = ((float *)values.mutable_data)[1] = 2;
    return umbo_gradients_submit_weighted(self->gradients, context, 1);
}

static void train(trainer *self, umbo_cancellation *token) {
    umbo_run_options limits = UMBO_RUN_OPTIONS_INIT;
    int run;
    limits.cancellation = token;
    for (run = 0; run < 2; run++) {
        CHECK_OK(umbo_strategy_run(self->strategy, contribute, self, NULL, &limits, NULL));
        CHECK_OK(umbo_optimizer_apply(self->optimizer, self->gradients, NULL, NULL));
    }
}

/* ---- in the child */

#define REFUSED(call)                                 \
    do {                                              \
        CHECK_STATUS(call, UMBO_STATUS_FAILED_PRECONDITION); \
        CHECK_MESSAGE("forked");                      \
    } while (0)

/* Every function that a replica calls, with gradients of the parent's. */
static umbo_status replica_is_refused(umbo_replica_context *context, const umbo_value *args,
                                      void *user_data, umbo_value **result) {
    const float row[2] = {1, 1};
    const int64_t index = 0;
    umbo_gradients *gradients = ((const trainer *)user_data)->gradients;
    umbo_value *slices = make_slices(1, row, &index, ROWS);
    umbo_view view, values;
    (void)args;
    (void)result;
    REFUSED(umbo_gradients_view(gradients, context, DENSE, UMBO_GRADIENT_OVERWRITE, &view));
    REFUSED(umbo_gradients_view(gradients, context, DENSE, UMBO_GRADIENT_ADD, &view));
    REFUSED(umbo_gradients_add_rows(gradients, context, TABLE, 1, &view, &values));
    REFUSED(umbo_gradients_add_indexed_slices(gradients, context, TABLE, slices));
    REFUSED(umbo_gradients_submit(gradients, context));
    REFUSED(umbo_gradients_submit_weighted(gradients, context, 1));
    umbo_value_release(slices);
    return UMBO_OK;
}

static umbo_status nothing(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    return UMBO_OK;
}

static void gradients_are_refused(trainer *old) {
    umbo_apply_options flush = UMBO_APPLY_OPTIONS_INIT;
    umbo_strategy *runs = make_strategy(REPLICAS);
    umbo_gradients *again = NULL;
    trainer fresh = *old;
    flush.flush = 1;
    make_optimizer(&fresh);
    CHECK_OK(umbo_strategy_run(runs, replica_is_refused, old, NULL, NULL, NULL));
    REFUSED(umbo_optimizer_apply(old->optimizer, old->gradients, NULL, NULL));
    REFUSED(umbo_optimizer_apply(fresh.optimizer, old->gradients, NULL, NULL));
    REFUSED(umbo_optimizer_apply(fresh.optimizer, old->gradients, &flush, NULL));
    CHECK_OK(umbo_gradients_retain(old->gradients, &again));
    umbo_gradients_release(again);
    umbo_optimizer_release(fresh.optimizer);
    umbo_strategy_release(runs);
}

/* New gradients, for variables of the parent's default strategy. */
static void new_gradients_work(world *self) {
    trainer fresh = self->plain;
    umbo_view view;
    umbo_tensor *before = NULL, *after = NULL;
    CHECK_OK(umbo_default_strategy(&fresh.strategy));
    make_gradients(&fresh);
    make_optimizer(&fresh);
    CHECK_OK(umbo_variable_read(fresh.variables[TABLE], &before));
    train(&fresh, self->token);
    CHECK_OK(umbo_variable_read(fresh.variables[TABLE], &after));
    CHECK_OK(umbo_tensor_view(before, &view));
    {
        const float was = ((const float *)view.data)[6];
        CHECK_OK(umbo_tensor_view(after, &view));
        CHECK(((const float *)view.data)[6] < was); /* (2 + 2) / 2, times the rate */
        CHECK(((const float *)view.data)[7] == ((const float *)view.data)[6]);
    }
    umbo_tensor_release(after);
    umbo_tensor_release(before);
    umbo_optimizer_release(fresh.optimizer);
    umbo_gradients_release(fresh.gradients);
    umbo_strategy_release(fresh.strategy);
}

/* A copy that is in step, or can be brought there, or is refused; nobody waits for it. */
static void copies_are_read(world *self) {
    umbo_view view;
    umbo_status status =
        umbo_variable_view_as(self->plain.variables[DENSE], NULL, UMBO_DTYPE_BFLOAT16, &view);
    if (status != UMBO_OK) {
        CHECK(status == UMBO_STATUS_FAILED_PRECONDITION);
        CHECK_MESSAGE("forked");
    }
}

static void as_child(void *argument) {
    world *self = (world *)argument;
    umbo_run_options limits = UMBO_RUN_OPTIONS_INIT;
    umbo_strategy *runs = make_strategy(REPLICAS);
    umbo_equivalence *equivalence = NULL;
    gradients_are_refused(&self->own);
    gradients_are_refused(&self->plain);
    REFUSED(umbo_strategy_check_equivalence(self->plain.strategy, contribute, &self->plain,
                                            self->zeros, self->plain.gradients, NULL, &equivalence));
    copies_are_read(self);
    new_gradients_work(self);
    CHECK_OK(umbo_cancellation_cancel(self->token));
    limits.cancellation = self->token;
    CHECK_STATUS(umbo_strategy_run(runs, nothing, NULL, NULL, &limits, NULL), UMBO_STATUS_CANCELLED);
    umbo_strategy_release(runs);
    release_world(self);
}

/* ---- in the parent */

typedef struct {
    world *of;
    int stop;
    pthread_mutex_t mutex;
} traffic;

static int stopped(traffic *self) {
    int stop;
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    stop = self->stop;
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
    return stop;
}

static void *steps(void *argument) {
    traffic *self = (traffic *)argument;
    while (!stopped(self)) train(&self->of->own, self->of->token);
    return NULL;
}

static void *plain_steps(void *argument) {
    traffic *self = (traffic *)argument;
    while (!stopped(self)) train(&self->of->plain, NULL);
    return NULL;
}

static void *conversions(void *argument) {
    traffic *self = (traffic *)argument;
    while (!stopped(self)) {
        umbo_view view;
        CHECK_OK(umbo_variable_view_as(self->of->plain.variables[DENSE], NULL, UMBO_DTYPE_BFLOAT16, &view));
        CHECK_OK(umbo_variable_assign(self->of->plain.variables[DENSE], self->of->zeros));
    }
    return NULL;
}

static void fork_beside(world *self, void *(*others)(void *)) {
    pthread_t thread;
    traffic busy;
    int round, rounds = getenv("UMBO_TEST_UNDER_VALGRIND") != NULL ? 2 : 8;
    busy.of = self;
    busy.stop = 0;
    CHECK(pthread_mutex_init(&busy.mutex, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, others, &busy) == 0);
    for (round = 0; round < rounds; round++) in_child(as_child, self);
    CHECK(pthread_mutex_lock(&busy.mutex) == 0);
    busy.stop = 1;
    CHECK(pthread_mutex_unlock(&busy.mutex) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_mutex_destroy(&busy.mutex);
}

/* A replica that forks: in the child, its step is the parent's. */
typedef struct {
    world *of;
    umbo_replica_context *context;
} in_step;

static void as_child_of_replica(void *argument) {
    in_step *self = (in_step *)argument;
    CHECK_OK(replica_is_refused(self->context, NULL, &self->of->own, NULL));
}

static umbo_status fork_and_contribute(umbo_replica_context *context, const umbo_value *args,
                                       void *user_data, umbo_value **result) {
    in_step step;
    step.of = (world *)user_data;
    step.context = context;
    if (replica_id(context) == 1) in_child(as_child_of_replica, &step);
    return contribute(context, args, &step.of->own, result);
}

int main(void) {
    const int64_t size = SIZE;
    umbo_strategy *plain = NULL;
    world self;
    CHECK_OK(umbo_set_worker_count(2));
    CHECK_OK(umbo_default_strategy(&plain));
    make_trainer(&self.own, make_strategy(REPLICAS));
    make_trainer(&self.plain, plain);
    CHECK_OK(umbo_cancellation_create(&self.token));
    self.zeros = into_value(zeros(1, &size));
    train(&self.own, NULL);
    train(&self.plain, NULL);
    in_child(as_child, &self);
    CHECK_OK(umbo_strategy_run(self.own.strategy, fork_and_contribute, &self, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(self.own.optimizer, self.own.gradients, NULL, NULL));
    CHECK_OK(umbo_strategy_run(self.own.strategy, contribute, &self.own, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(self.own.optimizer, self.own.gradients, NULL, NULL));
    fork_beside(&self, steps);
    fork_beside(&self, plain_steps);
    fork_beside(&self, conversions);
    /* The parent is as it was. */
    train(&self.own, self.token);
    train(&self.plain, NULL);
    release_world(&self);
    return finish();
}
