/* What a program is told on the threads that serve as replicas. */
#include <pthread.h>

#include <umbo/all.h>

#include "check.h"

#define MOST 8

typedef struct {
    int started[MOST], stopped[MOST], callers[MOST], destroyed;
    int callbacks;
    pthread_t thread[MOST];
    umbo_strategy *strategy;
} notes;

static void start(const umbo_replica_thread *thread, void *user_data) {
    notes *seen = (notes *)user_data;
    int64_t index;
    CHECK(thread->struct_size == sizeof(*thread));
    CHECK(thread->replica_id >= 0 && thread->replica_id < thread->replica_count);
    CHECK(thread->computing_thread_count >= 1 && thread->processor_count >= 1);
    CHECK(thread->computing_thread_count <= thread->processor_count);
    for (index = 1; index < thread->processor_count; index++)
        CHECK(thread->processors[index - 1] < thread->processors[index]);
    CHECK(strstr(thread->device, "CPU:") != NULL);
    /* It is a part of the replica's callback: no run begins in it. */
    CHECK_STATUS(umbo_strategy_run(seen->strategy, nothing, NULL, NULL, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    __atomic_add_fetch(&seen->started[thread->replica_id], 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&seen->callers[thread->replica_id], thread->is_caller, __ATOMIC_SEQ_CST);
    seen->thread[thread->replica_id] = pthread_self();
}

static void stop(const umbo_replica_thread *thread, void *user_data) {
    notes *seen = (notes *)user_data;
    CHECK(!thread->is_caller && pthread_equal(seen->thread[thread->replica_id], pthread_self()));
    CHECK(seen->destroyed == 0);
    __atomic_add_fetch(&seen->stopped[thread->replica_id], 1, __ATOMIC_SEQ_CST);
}

static void destroy(void *user_data) {
    __atomic_add_fetch(&((notes *)user_data)->destroyed, 1, __ATOMIC_SEQ_CST);
}

static umbo_status callback(umbo_replica_context *context, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    notes *seen = (notes *)user_data;
    (void)args;
    (void)result;
    /* Whoever gets here was told before. */
    CHECK(__atomic_load_n(&seen->started[replica_id(context)], __ATOMIC_SEQ_CST) > 0);
    __atomic_add_fetch(&seen->callbacks, 1, __ATOMIC_SEQ_CST);
    return UMBO_OK;
}

static umbo_strategy_options options_with(notes *seen, int replicas) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    memset(seen, 0, sizeof(*seen));
    options.cpu_replicas = replicas;
    options.replica_thread_start = start;
    options.replica_thread_stop = stop;
    options.replica_thread_user_data = seen;
    options.replica_thread_user_data_destroy = destroy;
    return options;
}

static void *run_elsewhere(void *user_data) {
    notes *seen = (notes *)user_data;
    CHECK_OK(umbo_strategy_run(seen->strategy, callback, NULL, seen, NULL, NULL));
    CHECK_OK(umbo_strategy_run(seen->strategy, callback, NULL, seen, NULL, NULL));
    return NULL;
}

static void each_thread_is_told_once(int replicas) {
    notes seen;
    umbo_strategy_options options = options_with(&seen, replicas);
    umbo_run_options limits = UMBO_RUN_OPTIONS_INIT;
    pthread_t other;
    int replica, round;
    CHECK_OK(umbo_strategy_create(&options, &seen.strategy));
    CHECK(seen.started[0] == 0);
    for (round = 0; round < 3; round++)
        CHECK_OK(umbo_strategy_run(seen.strategy, callback, NULL, &seen, NULL, NULL));
    for (replica = 0; replica < replicas; replica++)
        CHECK(seen.started[replica] == 1 && seen.callers[replica] == (replica == 0));
    /* Another thread of the program's is another thread that serves as replica 0. */
    CHECK(pthread_create(&other, NULL, run_elsewhere, &seen) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(seen.started[0] == 2 && seen.callers[0] == 2);
    /* And so is the library's own, which serves as replica 0 where there are limits. */
    limits.timeout_seconds = 3600;
    CHECK_OK(umbo_strategy_run(seen.strategy, callback, NULL, &seen, &limits, NULL));
    CHECK_OK(umbo_strategy_run(seen.strategy, callback, NULL, &seen, &limits, NULL));
    CHECK(seen.started[0] == 3 && seen.callers[0] == 2);
    for (replica = 1; replica < replicas; replica++) CHECK(seen.started[replica] == 1);
    CHECK(seen.callbacks == 7 * replicas && seen.destroyed == 0);
    umbo_strategy_release(seen.strategy);
    for (replica = 0; replica < replicas; replica++) CHECK(seen.stopped[replica] == 1);
    CHECK(seen.destroyed == 1);
}

/* A copy shares the functions and tells of its own threads; the user data goes with the last. */
static void copies(void) {
    notes seen;
    umbo_strategy_options options = options_with(&seen, 2);
    umbo_strategy *first = NULL, *second = NULL;
    CHECK_OK(umbo_strategy_create(&options, &first));
    CHECK_OK(umbo_strategy_copy(first, &second));
    seen.strategy = first;
    CHECK_OK(umbo_strategy_run(first, callback, NULL, &seen, NULL, NULL));
    umbo_strategy_release(first);
    CHECK(seen.destroyed == 0 && seen.started[1] == 1 && seen.stopped[1] == 1);
    seen.strategy = second;
    CHECK_OK(umbo_strategy_run(second, callback, NULL, &seen, NULL, NULL));
    CHECK(seen.started[0] == 2 && seen.started[1] == 2);
    umbo_strategy_release(second);
    CHECK(seen.destroyed == 1 && seen.stopped[1] == 2);
}

/* Threads that never served are not told of their end, and user data is released without a strategy. */
static void nothing_to_tell(void) {
    notes seen;
    umbo_strategy_options options = options_with(&seen, 3);
    CHECK_OK(umbo_strategy_create(&options, &seen.strategy));
    umbo_strategy_release(seen.strategy);
    CHECK(seen.started[1] == 0 && seen.stopped[1] == 0 && seen.destroyed == 1);
    options = options_with(&seen, -1);
    CHECK_STATUS(umbo_strategy_create(&options, &seen.strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(seen.destroyed == 1);
    options = options_with(&seen, 2);
    CHECK_STATUS(umbo_strategy_create(&options, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(seen.destroyed == 1);
    options.struct_size = 3;
    seen.destroyed = 0;
    CHECK_STATUS(umbo_strategy_create(&options, &seen.strategy), UMBO_STATUS_INVALID_ARGUMENT);
    /* Not even the size is known: nothing of the struct is read. */
    CHECK(seen.destroyed == 0);
    /* User data alone is kept as long as the strategy. */
    options = options_with(&seen, 2);
    options.replica_thread_start = NULL;
    options.replica_thread_stop = NULL;
    CHECK_OK(umbo_strategy_create(&options, &seen.strategy));
    CHECK(seen.destroyed == 0);
    umbo_strategy_release(seen.strategy);
    CHECK(seen.destroyed == 1);
}

int main(void) {
    each_thread_is_told_once(1);
    each_thread_is_told_once(2);
    each_thread_is_told_once(4);
    copies();
    nothing_to_tell();
    return finish();
}
