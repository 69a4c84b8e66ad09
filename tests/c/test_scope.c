/* Scopes and contexts: each thread has its own, scopes nest, one strategy is in force at a time. */
#include <pthread.h>

#include "check.h"

static int is_current(const umbo_strategy *expected) {
    umbo_strategy *current = NULL;
    uint64_t id;
    CHECK_OK(umbo_strategy_current(&current));
    id = info_of(current).id;
    umbo_strategy_release(current);
    return id == info_of(expected).id;
}

static int has_strategy(void) {
    int32_t result = -1;
    CHECK_OK(umbo_strategy_has_current(&result));
    return result;
}

static int in_cross_replica_context(void) {
    int32_t result = -1;
    CHECK_OK(umbo_in_cross_replica_context(&result));
    return result;
}

/* A thread is either in cross-replica context or in the context of a replica. */
static void check_contexts(int has, int cross_replica) {
    umbo_replica_context *context = NULL;
    CHECK(has_strategy() == has);
    CHECK(in_cross_replica_context() == cross_replica);
    CHECK_OK(umbo_replica_context_current(&context));
    CHECK((context == NULL) == (cross_replica != 0));
}

/* Without a scope, the default strategy is in force, with one replica. */
static void default_context(void) {
    umbo_strategy *strategy = NULL;
    umbo_replica_context *context = NULL;
    check_contexts(0, 0);
    CHECK_OK(umbo_strategy_default(&strategy));
    CHECK(is_current(strategy));
    CHECK(info_of(strategy).replica_count == 1);
    CHECK_OK(umbo_replica_context_current(&context));
    CHECK(replica_id(context) == 0);
    umbo_strategy_release(strategy);
}

static umbo_status inside(umbo_strategy *strategy, void *user_data) {
    CHECK(is_current(strategy));
    check_contexts(1, 1);
    *(int *)user_data += 1;
    return UMBO_OK;
}

static umbo_status fail_inside(umbo_strategy *strategy, void *user_data) {
    (void)strategy, (void)user_data;
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "the disk is gone", NULL, NULL);
}

/* The earlier context is restored, also after a failure. */
static void with_a_callback(umbo_strategy *strategy) {
    int calls = 0;
    CHECK_OK(umbo_strategy_scope(strategy, inside, &calls));
    CHECK(calls == 1);
    check_contexts(0, 0);
    CHECK_STATUS(umbo_strategy_scope(strategy, fail_inside, NULL), UMBO_STATUS_DATA_LOSS);
    CHECK_MESSAGE("the disk is gone");
    check_contexts(0, 0);
}

/* A scope may be entered within a scope of the same strategy, and is left before the outer one. */
static void nesting(umbo_strategy *strategy, umbo_strategy *other) {
    umbo_scope *outer = NULL, *inner = NULL, *refused = NULL;
    umbo_strategy *copy = NULL;
    CHECK_OK(umbo_scope_enter(strategy, &outer));
    CHECK_OK(umbo_scope_enter(strategy, &inner));
    CHECK_STATUS(umbo_scope_enter(other, &refused), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("strategy");
    CHECK_OK(umbo_strategy_copy(strategy, &copy)); /* which is another strategy */
    CHECK_STATUS(umbo_scope_enter(copy, &refused), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK(refused == NULL && is_current(strategy));

    CHECK_STATUS(umbo_strategy_set_current(strategy), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("scope");
    CHECK_STATUS(umbo_strategy_set_current(NULL), UMBO_STATUS_FAILED_PRECONDITION);

    CHECK_STATUS(umbo_scope_exit(outer), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK(is_current(strategy));
    CHECK_OK(umbo_scope_exit(inner));
    check_contexts(1, 1);
    CHECK_OK(umbo_scope_exit(outer));
    check_contexts(0, 0);
    CHECK(umbo_scope_exit(outer) != UMBO_OK); /* no longer a handle */
    check_contexts(0, 0);
    umbo_strategy_release(copy);
}

static void set_without_a_scope(umbo_strategy *strategy, umbo_strategy *other) {
    CHECK_OK(umbo_strategy_set_current(strategy));
    CHECK(is_current(strategy));
    check_contexts(1, 1);
    CHECK_OK(umbo_strategy_set_current(other));
    CHECK(is_current(other));
    CHECK_OK(umbo_strategy_set_current(NULL));
    check_contexts(0, 0);
}

typedef struct {
    umbo_strategy *other;
    umbo_scope *scope;
} second_thread;

static void *in_second_thread(void *argument) {
    second_thread *self = (second_thread *)argument;
    umbo_scope *inner = NULL;
    check_contexts(0, 0); /* the first thread's scope has no effect here */
    CHECK_STATUS(umbo_scope_exit(self->scope), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("thread");
    CHECK_OK(umbo_scope_enter(self->other, &inner));
    CHECK(is_current(self->other));
    CHECK_OK(umbo_scope_exit(inner));
    return NULL;
}

static void threads(umbo_strategy *strategy, umbo_strategy *other) {
    pthread_t thread;
    second_thread argument;
    argument.other = other;
    argument.scope = NULL;
    CHECK_OK(umbo_scope_enter(strategy, &argument.scope));
    CHECK(pthread_create(&thread, NULL, in_second_thread, &argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(is_current(strategy));
    CHECK_OK(umbo_scope_exit(argument.scope));
}

static umbo_status in_replica(umbo_replica_context *context, const umbo_value *args,
                              void *user_data, umbo_value **result) {
    umbo_strategy *strategy = NULL;
    umbo_replica_context *current = NULL;
    umbo_scope *scope = NULL;
    umbo_value *value = NULL;
    const umbo_strategy *expected = (const umbo_strategy *)user_data;
    (void)args, (void)result;
    check_contexts(1, 0);
    CHECK(is_current(expected));
    CHECK_OK(umbo_replica_context_current(&current));
    CHECK(replica_id(current) == replica_id(context));
    CHECK_OK(umbo_strategy_current(&strategy));
    /* Functions that need cross-replica context fail, and say so. */
    CHECK_STATUS(umbo_scope_enter(strategy, &scope), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("cross-replica context");
    CHECK_STATUS(umbo_strategy_run(strategy, in_replica, NULL, NULL, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_strategy_set_current(NULL), UMBO_STATUS_FAILED_PRECONDITION);
    value = float_value(1);
    CHECK_STATUS(umbo_strategy_reduce(strategy, value, UMBO_REDUCE_MEAN, NULL, &value),
                 UMBO_STATUS_FAILED_PRECONDITION);
    umbo_value_release(value);
    umbo_strategy_release(strategy);
    return UMBO_OK;
}

static void other_strategy_in_force(umbo_strategy *strategy, umbo_strategy *other) {
    umbo_scope *scope = NULL;
    CHECK_OK(umbo_scope_enter(other, &scope));
    CHECK_STATUS(umbo_strategy_run(strategy, in_replica, NULL, strategy, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_OK(umbo_scope_exit(scope));
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2), *other = make_strategy(1);
    default_context();
    with_a_callback(strategy);
    nesting(strategy, other);
    set_without_a_scope(strategy, other);
    threads(strategy, other);
    CHECK_OK(umbo_strategy_run(strategy, in_replica, NULL, strategy, NULL, NULL));
    check_contexts(0, 0);
    other_strategy_in_force(strategy, other);
    umbo_strategy_release(other);
    umbo_strategy_release(strategy);
    return finish();
}
