/* UMBO_CHECK_STEPS=1 runs a step several times before it runs: the deadline and the token of the step end those runs,
 * too, and the call returns as it does without the check. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "check.h"
#include "pairs.h"

enum { ROWS = 8 };
enum { CALL, LIMITS, ENDING, BODY, REPLICAS, FACTORS };

enum { RUN, RUN_OF_A_PASS, TRAIN_EPOCH, TRAINER_EPOCH, TRAINER_STEP, TRAINER_EVALUATE, CALLS };
enum { DEADLINE, TOKEN, DEADLINE_BEFORE_TOKEN, TOKEN_BEFORE_DEADLINE, LIMITS_COUNT };
enum { FROM_A_CALLBACK, FROM_OUTSIDE, IN_TIME, ENDINGS };
enum { POLLS, MERGES, NESTS, IS_LATE, BODIES };
static const int32_t replicas_of[] = {1, 2, 4};
static const int levels_of[FACTORS] = {CALLS, LIMITS_COUNT, ENDINGS, BODIES, 3};

typedef struct {
    const int *p;
    umbo_strategy *strategy;
    umbo_cancellation *token;
    umbo_variable *weights;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    umbo_iterator *iterator;
    umbo_trainer *trainer;
    umbo_value *rows;
    float array;
    int32_t arrived, is_open, is_over, destroyed;
} scene;

static int32_t load(const int32_t *number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }

static void count_up(int32_t *number) { __atomic_fetch_add(number, 1, __ATOMIC_SEQ_CST); }

static void wait_until(const int32_t *number, int32_t at_least) {
    while (load(number) < at_least) sched_yield();
}

static int ends_by_token(const scene *self) {
    return self->p[LIMITS] == TOKEN || self->p[LIMITS] == TOKEN_BEFORE_DEADLINE;
}

static void destroyed(void *user_data) { count_up(&((scene *)user_data)->destroyed); }

static umbo_status never_merged(umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result) {
    (void)strategy, (void)args, (void)user_data, (void)result;
    CHECK(0);
    return UMBO_OK;
}

static umbo_status until_told(umbo_replica_context *context) {
    for (int32_t stops = 0; !stops; sched_yield()) CHECK_OK(umbo_replica_context_is_cancelled(context, &stops));
    return umbo_set_last_error(UMBO_STATUS_CANCELLED, "told to stop", NULL, NULL);
}

static umbo_status nested(umbo_replica_context *context, const umbo_value *args, void *user_data, umbo_value **result) {
    (void)args, (void)user_data, (void)result;
    return until_told(context);
}

static umbo_status run_nested(umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result) {
    (void)args, (void)result;
    return umbo_strategy_run(strategy, nested, NULL, user_data, NULL, NULL);
}

/* The last replica does not return by itself, and the others wait for it, or ask whether to stop. */
static umbo_status wait_in(scene *self, umbo_replica_context *context, int32_t replica) {
    const int32_t last = replicas_of[self->p[REPLICAS]] - 1;
    count_up(&self->arrived);
    if (self->is_over || self->p[ENDING] == IN_TIME) return UMBO_OK;
    if (self->p[ENDING] == FROM_A_CALLBACK && ends_by_token(self) && replica == 0)
        CHECK_OK(umbo_cancellation_cancel(self->token));
    if (self->p[BODY] == NESTS) return umbo_replica_context_merge_call(context, run_nested, NULL, self, NULL);
    if (self->p[BODY] == MERGES && replica != last)
        return umbo_replica_context_merge_call(context, never_merged, NULL, NULL, NULL);
    if (self->p[BODY] != IS_LATE || replica != last) return until_told(context);
    wait_until(&self->is_open, 1);
    return UMBO_OK;
}

/* The gradient of a row is its number. */
static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data, umbo_value **result) {
    scene *const self = (scene *)user_data;
    umbo_view x, weights, gradient;
    (void)result;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_FLOAT32, &x));
    UMBO_TRY(umbo_variable_view(self->weights, context, UMBO_DTYPE_FLOAT32, &weights));
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_ADD, &gradient));
    for (int64_t row = 0; row < x.shape[0]; ++row) *(float *)gradient.mutable_data += ((const float *)x.data)[row];
    UMBO_TRY(wait_in(self, context, replica_id(context)));
    return umbo_gradients_submit(self->gradients, context);
}

static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
    (void)weights;
    for (int64_t at = 0; at < rows->count; ++at) {
        *loss += 1;
        if (gradient != NULL) *gradient += (float)rows->indices[at];
    }
    return wait_in((scene *)user_data, rows->context, rows->replica_id);
}

static double timeout_of(const scene *self) {
    if (self->is_over || self->p[LIMITS] == TOKEN) return UMBO_INFINITE;
    return self->p[ENDING] == IN_TIME || ends_by_token(self) ? 300 : 0.03;
}

static const umbo_cancellation *token_of(const scene *self) {
    return self->is_over || self->p[LIMITS] == DEADLINE ? NULL : self->token;
}

static umbo_status run_on(scene *self, const umbo_value *batch) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    options.timeout_seconds = timeout_of(self);
    options.cancellation = token_of(self);
    options.user_data_destroy = destroyed;
    UMBO_TRY(umbo_strategy_run(self->strategy, step, batch, self, &options, NULL));
    return umbo_optimizer_apply(self->optimizer, self->gradients, NULL, NULL);
}

static umbo_status call(scene *self) {
    umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    umbo_value *batch = NULL;
    umbo_status status;
    double loss = 0;
    switch (self->p[CALL]) {
    case TRAINER_EPOCH: return umbo_trainer_epoch(self->trainer, ROWS, ROWS, learn, self, &loss);
    case TRAINER_STEP: return umbo_trainer_step(self->trainer, 0, ROWS, learn, self, &loss);
    case TRAINER_EVALUATE: return umbo_trainer_evaluate(self->trainer, ROWS, ROWS, learn, self, &loss);
    case TRAIN_EPOCH:
        options.timeout_seconds = timeout_of(self);
        options.cancellation = token_of(self);
        options.user_data_destroy = destroyed;
        return umbo_train_epoch(self->strategy, self->iterator, self->optimizer, self->gradients, step, self, &options,
                                NULL);
    case RUN_OF_A_PASS: CHECK_OK(umbo_iterator_next(self->iterator, &batch)); break;
    default: CHECK_OK(umbo_strategy_split(self->strategy, self->rows, &batch));
    }
    status = run_on(self, batch);
    umbo_value_release(batch);
    return status;
}

static void *cancel(void *user_data) {
    scene *const self = (scene *)user_data;
    wait_until(&self->arrived, 1);
    CHECK_OK(umbo_cancellation_cancel(self->token));
    return NULL;
}

static int has_trainer(const scene *self) { return self->p[CALL] >= TRAINER_EPOCH; }

static void make_trainer(scene *self) {
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.learning_rate = 1;
    options.replicas = replicas_of[self->p[REPLICAS]];
    options.shuffle = 0;
    options.timeout_seconds = timeout_of(self);
    options.cancellation = token_of(self);
    CHECK_OK(umbo_trainer_create(&self->array, 1, &options, &self->trainer));
    CHECK_OK(umbo_trainer_strategy(self->trainer, &self->strategy));
}

static void make_training(scene *self) {
    static const float numbers[ROWS] = {0, 1, 2, 3, 4, 5, 6, 7};
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    umbo_dataset *dataset = NULL;
    umbo_distributed_dataset *distributed = NULL;
    sgd.learning_rate = 1;
    self->strategy = make_strategy(replicas_of[self->p[REPLICAS]]);
    self->weights = make_variable(self->strategy, 0, UMBO_AGGREGATION_NONE);
    CHECK_OK(umbo_gradients_create(self->strategy, 1, &self->weights, UMBO_LOSS_SUM, NULL, &self->gradients));
    CHECK_OK(umbo_optimizer_create_sgd(self->strategy, &sgd, &self->optimizer));
    self->rows = floats_value(ROWS, numbers);
    CHECK_OK(umbo_dataset_from_tensor_slices(self->rows, &dataset));
    CHECK_OK(umbo_dataset_batch(&dataset, ROWS, 0));
    CHECK_OK(umbo_strategy_distribute_dataset(self->strategy, dataset, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &self->iterator));
    umbo_distributed_dataset_release(distributed);
    umbo_dataset_release(dataset);
}

static void release(scene *self) {
    umbo_trainer_release(self->trainer);
    umbo_value_release(self->rows);
    umbo_iterator_release(self->iterator);
    umbo_optimizer_release(self->optimizer);
    umbo_gradients_release(self->gradients);
    umbo_variable_release(self->weights);
    umbo_strategy_release(self->strategy);
    umbo_cancellation_release(self->token);
}

static float weight_of(const scene *self) {
    return has_trainer(self) ? self->array : float_of_variable(self->weights);
}

static void expect_weight(const scene *self, float expected) { CHECK(is_close(weight_of(self), expected)); }

/* A call that the limits end changes nothing, and the next one without limits does all of it. */
static void stops(scene *self) {
    const int is_cancelled = ends_by_token(self);
    pthread_t canceller;
    const int is_from_outside = is_cancelled && self->p[ENDING] == FROM_OUTSIDE;
    if (is_from_outside) CHECK(pthread_create(&canceller, NULL, cancel, self) == 0);
    CHECK_STATUS(call(self), is_cancelled ? UMBO_STATUS_CANCELLED : UMBO_STATUS_DEADLINE_EXCEEDED);
    CHECK_MESSAGE("UMBO_CHECK_STEPS: ");
    if (is_from_outside) CHECK(pthread_join(canceller, NULL) == 0);
    __atomic_store_n(&self->is_open, 1, __ATOMIC_SEQ_CST);
    CHECK_OK(umbo_strategy_synchronize(self->strategy));
    expect_weight(self, 0);
    self->is_over = 1;
    if (has_trainer(self)) return;
    if (self->p[CALL] == RUN_OF_A_PASS) CHECK_OK(umbo_iterator_reset(self->iterator));
    CHECK_OK(call(self));
    expect_weight(self, -3.5f);
}

static void succeeds(scene *self) {
    CHECK_OK(call(self));
    expect_weight(self, self->p[CALL] == TRAINER_EVALUATE ? 0 : -3.5f);
}

static void check_plan(const int *p) {
    scene self;
    memset(&self, 0, sizeof(self));
    self.p = p;
    CHECK_OK(umbo_cancellation_create(&self.token));
    if (has_trainer(&self)) make_trainer(&self);
    else make_training(&self);
    if (p[ENDING] == IN_TIME) succeeds(&self);
    else stops(&self);
    release(&self);
    if (!has_trainer(&self)) CHECK(self.destroyed == (p[ENDING] == IN_TIME ? 1 : 2));
}

static umbo_status take_a_while(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                umbo_value **result) {
    const struct timespec most = {0, 400000000};
    (void)context, (void)args, (void)user_data, (void)result;
    CHECK(nanosleep(&most, NULL) == 0);
    return UMBO_OK;
}

/* A step that is in time is so with a check, too, which takes as long as several steps. */
static void checks_take_no_time(void) {
    static const float numbers[4] = {0, 1, 2, 3};
    umbo_strategy *strategy = make_strategy(1);
    umbo_value *rows = floats_value(4, numbers), *batch = NULL;
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    options.timeout_seconds = 1;
    CHECK_OK(umbo_strategy_split(strategy, rows, &batch));
    CHECK_OK(umbo_strategy_run(strategy, take_a_while, batch, NULL, &options, NULL));
    umbo_value_release(batch);
    umbo_value_release(rows);
    umbo_strategy_release(strategy);
}

static void amend(int *levels, int64_t number) { (void)levels, (void)number; }

int main(void) {
    static planner of_all;
    int64_t told = 0;
    plan p = {0};
    int count = 0;
    CHECK(setenv("UMBO_CHECK_STEPS", "1", 1) == 0);
    of_all.factors = FACTORS, of_all.levels = levels_of, of_all.amend = amend;
    expect_messages(&told);
    for (; next_plan(&of_all, p); ++count) check_plan(p);
    CHECK(count >= CALLS * LIMITS_COUNT);
    checks_take_no_time();
    expect_no_messages();
    return finish();
}
