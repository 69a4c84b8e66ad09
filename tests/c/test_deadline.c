/* Deadlines and cancellation: while a replica computes, while it waits for another, and what a late
 * callback may still do. Threads wait for conditions that others signal, and a deadline that passes
 * before the callbacks have begun is tried again with more time, so the speed of the machine does
 * not matter. */
#include <pthread.h>
#include <sched.h>

#include "check.h"

/* Where a test meets its callbacks, and what they change. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int arrived;   /* how many replicas are in their callback */
    int open;      /* 1: the late callback may return */
    int destroyed; /* how often user_data_destroy has run */
    umbo_cancellation *cancellation;
    umbo_variable *variable;
} gate;

static void gate_add(gate *self, int *counter) {
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    ++*counter;
    CHECK(pthread_cond_broadcast(&self->changed) == 0);
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
}

static void gate_wait(gate *self, const int *counter, int at_least) {
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    while (*counter < at_least) CHECK(pthread_cond_wait(&self->changed, &self->mutex) == 0);
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
}

static int gate_count(gate *self, const int *counter) {
    int count;
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    count = *counter;
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
    return count;
}

static void gate_destroy(void *user_data) {
    gate *self = (gate *)user_data;
    gate_add(self, &self->destroyed);
}

/* A merge function that is never called, since one replica never arrives. */
static umbo_status no_merge(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    (void)strategy, (void)args, (void)user_data, (void)result;
    CHECK(0);
    return UMBO_OK;
}

/* Adds 1, which only a step that takes effect may do. */
static umbo_status add_one(umbo_variable *variable) {
    umbo_value *one = float_value(1);
    umbo_status status = umbo_variable_assign_add(variable, one);
    umbo_value_release(one);
    return status;
}

/* Replica 1 never asks whether it is cancelled; it returns when the gate opens. */
static umbo_status deaf(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    gate *self = (gate *)user_data;
    umbo_status status;
    (void)args;
    status = add_one(self->variable);
    gate_add(self, &self->arrived);
    if (replica_id(context) == 1) gate_wait(self, &self->open, 1);
    return status != UMBO_OK ? status : return_float(1, result);
}

/* As above, and replica 0 waits for replica 1 in a merge call. */
static umbo_status deaf_to_a_merge(umbo_replica_context *context, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    gate *self = (gate *)user_data;
    umbo_status status;
    (void)args, (void)result;
    status = add_one(self->variable);
    gate_add(self, &self->arrived);
    if (replica_id(context) == 1) gate_wait(self, &self->open, 1);
    if (status != UMBO_OK) return status;
    return umbo_replica_context_merge_call(context, no_merge, NULL, NULL, NULL);
}

/* Asks again and again whether it is cancelled. */
static umbo_status polling(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    gate *self = (gate *)user_data;
    int32_t cancelled = 0;
    (void)args, (void)result;
    UMBO_TRY(add_one(self->variable));
    gate_add(self, &self->arrived);
    while (!cancelled) {
        CHECK_OK(umbo_replica_context_is_cancelled(context, &cancelled));
        sched_yield();
    }
    return umbo_set_last_error(UMBO_STATUS_CANCELLED, "told to stop", NULL, NULL);
}

/* Replica 0 waits in a merge call, replica 1 asks whether it is cancelled. */
static umbo_status waiting(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    gate *self = (gate *)user_data;
    if (replica_id(context) == 1) return polling(context, args, user_data, result);
    UMBO_TRY(add_one(self->variable));
    gate_add(self, &self->arrived);
    return umbo_replica_context_merge_call(context, no_merge, NULL, NULL, NULL);
}

static umbo_status well_behaved(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    gate *self = (gate *)user_data;
    (void)args;
    UMBO_TRY(add_one(self->variable));
    return return_float((float)replica_id(context), result);
}

/* Waits for the late replicas; then the variable is as it was before the step, and runs work. */
static void check_usable_again(umbo_strategy *strategy, gate *self, float expected) {
    umbo_value *result = NULL;
    gate_wait(self, &self->destroyed, 1);
    while (info_of(strategy).late_replica_count != 0) sched_yield();
    CHECK(self->destroyed == 1);
    CHECK(float_of_variable(self->variable) == expected);
    CHECK_OK(umbo_strategy_run(strategy, well_behaved, NULL, self, NULL, &result));
    CHECK(float_at(result, 1) == 1);
    CHECK(float_of_variable(self->variable) == expected + 2);
    umbo_value_release(result);
    self->arrived = self->open = self->destroyed = 0;
}

/* Runs with a deadline that passes when both callbacks have begun. */
static void run_late(umbo_strategy *strategy, gate *self, umbo_replica_fn fn) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    options.timeout_seconds = 0.25;
    options.user_data_destroy = gate_destroy;
    for (;;) {
        CHECK_STATUS(umbo_strategy_run(strategy, fn, NULL, self, &options, NULL),
                     UMBO_STATUS_DEADLINE_EXCEEDED);
        if (gate_count(self, &self->arrived) == 2) break;
        gate_add(self, &self->open);
        gate_wait(self, &self->destroyed, 1);
        CHECK_OK(umbo_strategy_synchronize(strategy));
        self->arrived = self->open = self->destroyed = 0;
        options.timeout_seconds *= 2;
    }
    CHECK_MESSAGE("replica 1");
    CHECK(gate_count(self, &self->destroyed) == 0);
}

/* While a replica is late, values can be read; runs and assignments fail and name the replica. */
static void check_deadline(umbo_strategy *strategy, gate *self, umbo_replica_fn fn) {
    const float before = float_of_variable(self->variable);
    umbo_value *one = float_value(1);
    umbo_view view;
    run_late(strategy, self, fn);
    CHECK(info_of(strategy).late_replica_count >= 1);
    CHECK(float_of_variable(self->variable) == before);
    CHECK_OK(umbo_variable_view(self->variable, NULL, UMBO_DTYPE_NONE, &view));
    CHECK_STATUS(umbo_strategy_run(strategy, well_behaved, NULL, self, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("replica 1");
    CHECK_STATUS(umbo_variable_assign(self->variable, one), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("replica 1");
    umbo_value_release(one);
    gate_add(self, &self->open);
    check_usable_again(strategy, self, before);
}

static void *cancel_when_both_have_arrived(void *argument) {
    gate *self = (gate *)argument;
    gate_wait(self, &self->arrived, 2);
    CHECK_OK(umbo_cancellation_cancel(self->cancellation));
    return NULL;
}

/* A cancelled run changes nothing; a run whose token was cancelled before starts nothing. */
static void check_cancellation(umbo_strategy *strategy, gate *self, umbo_replica_fn fn) {
    const float before = float_of_variable(self->variable);
    pthread_t thread;
    int32_t cancelled = -1;
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    CHECK_OK(umbo_cancellation_create(&self->cancellation));
    CHECK_OK(umbo_cancellation_is_cancelled(self->cancellation, &cancelled));
    CHECK(cancelled == 0);
    options.cancellation = self->cancellation;
    options.user_data_destroy = gate_destroy;
    CHECK(pthread_create(&thread, NULL, cancel_when_both_have_arrived, self) == 0);
    CHECK_STATUS(umbo_strategy_run(strategy, fn, NULL, self, &options, NULL),
                 UMBO_STATUS_CANCELLED);
    CHECK(pthread_join(thread, NULL) == 0);
    check_usable_again(strategy, self, before);

    CHECK_OK(umbo_cancellation_is_cancelled(self->cancellation, &cancelled));
    CHECK(cancelled == 1);
    CHECK_STATUS(umbo_strategy_run(strategy, fn, NULL, self, &options, NULL),
                 UMBO_STATUS_CANCELLED);
    gate_wait(self, &self->destroyed, 1);
    CHECK(self->arrived == 0);
    self->destroyed = 0;
    umbo_cancellation_release(self->cancellation);
}

/* A strategy may be released while a late callback still runs. */
static void check_release_before_the_end(gate *self) {
    umbo_strategy *strategy = make_strategy(2);
    umbo_variable *kept = self->variable;
    self->variable = make_variable(strategy, 1, UMBO_AGGREGATION_SUM);
    run_late(strategy, self, deaf);
    umbo_variable_release(self->variable);
    umbo_strategy_release(strategy);
    CHECK(self->destroyed == 0);
    gate_add(self, &self->open);
    gate_wait(self, &self->destroyed, 1);
    self->variable = kept;
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    umbo_value *result = NULL;
    gate self;
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    memset(&self, 0, sizeof(self));
    CHECK(pthread_mutex_init(&self.mutex, NULL) == 0);
    CHECK(pthread_cond_init(&self.changed, NULL) == 0);
    self.variable = make_variable(strategy, 10, UMBO_AGGREGATION_SUM);

    /* A deadline that is met has no effect. */
    options.timeout_seconds = 3600;
    CHECK_OK(umbo_strategy_run(strategy, well_behaved, NULL, &self, &options, &result));
    CHECK(float_of_variable(self.variable) == 12);
    umbo_value_release(result);

    check_deadline(strategy, &self, deaf);
    check_deadline(strategy, &self, deaf_to_a_merge);
    check_cancellation(strategy, &self, polling);
    check_cancellation(strategy, &self, waiting);
    check_release_before_the_end(&self);

    umbo_variable_release(self.variable);
    umbo_strategy_release(strategy);
    CHECK(pthread_cond_destroy(&self.changed) == 0);
    CHECK(pthread_mutex_destroy(&self.mutex) == 0);
    return finish();
}
