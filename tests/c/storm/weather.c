/* What threads do one after the other: runs, and what may come between them. */
#define _GNU_SOURCE
#include <unistd.h>

#include "storm.h"

#include <umbo/all.h>

static pthread_mutex_t token_lock = PTHREAD_MUTEX_INITIALIZER;
static umbo_cancellation *tokens[TOKENS];

void make_tokens(void) {
    int index;
    for (index = 0; index < TOKENS; index++) CHECK_OK(umbo_cancellation_create(&tokens[index]));
}

void release_tokens(void) {
    int index;
    for (index = 0; index < thread_count; index++)
        umbo_cancellation_release(threads[index].last_token);
    for (index = 0; index < TOKENS; index++) umbo_cancellation_release(tokens[index]);
}

/* One of the tokens that all threads share, with a reference of its own. */
static umbo_cancellation *borrow_token(struct thread *thread) {
    umbo_cancellation *token = NULL;
    const int index = below(thread, TOKENS);
    pthread_mutex_lock(&token_lock);
    if (one_in(thread, 2)) {
        umbo_cancellation_release(tokens[index]);
        CHECK_OK(umbo_cancellation_create(&tokens[index]));
    }
    CHECK_OK(umbo_cancellation_retain(tokens[index], &token));
    pthread_mutex_unlock(&token_lock);
    return token;
}

/* While callbacks are late nothing can be changed, and that is said. */
static int is_draining(umbo_status status) {
    return status == UMBO_STATUS_FAILED_PRECONDITION;
}

static void keep_last_token(struct plan *plan, umbo_cancellation *token) {
    if (token != NULL) CHECK_OK(umbo_cancellation_retain(token, &plan->last_token));
}

static void run_on(struct thread *thread, int which) {
    const int limited = one_in(thread, 3);
    struct plan *plan = draw_plan(thread, which, limited, 0);
    const int has_nested = plan->nested != NULL;
    const struct effect effect = plan->effect;
    uint32_t may_end = plan->may_end | MAY(UMBO_STATUS_FAILED_PRECONDITION);
    const int64_t before = __atomic_load_n(&started[which], __ATOMIC_SEQ_CST);
    int gone = limited || (plan->nested != NULL && plan->nested->limited);
    int64_t overtaken;
    umbo_status status;
    umbo_value *result = NULL;
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    options.user_data_destroy = destroy_plan;
    if (limited && one_in(thread, 2)) {
        options.timeout_seconds = 1e-4 + 1e-6 * below(thread, 2000);
        may_end |= MAY(UMBO_STATUS_DEADLINE_EXCEEDED);
    }
    if (limited && (options.timeout_seconds == UMBO_INFINITE || one_in(thread, 2))) {
        plan->token = borrow_token(thread);
        options.cancellation = plan->token;
        may_end |= MAY(UMBO_STATUS_CANCELLED);
        umbo_cancellation_release(thread->last_token);
        CHECK_OK(umbo_cancellation_retain(plan->token, &thread->last_token));
    }
    keep_last_token(plan, thread->last_token);
    if (has_nested) keep_last_token(plan->nested, thread->last_token);
    thread->runs++;
    if (plan->token != NULL) {
        plan->run = thread->runs;
        if (has_nested) plan->nested->run = thread->runs;
    }
    /* Who is woken by the end of the nested run may be told before who has ended it. */
    if (has_nested && limited) may_end |= MAY(UMBO_STATUS_CANCELLED);
    plan->gone = gone ? NULL : &gone;
    __atomic_fetch_add(&thread->given[which], 1, __ATOMIC_SEQ_CST);
    status = umbo_strategy_run(strategies[which], on_a_replica, NULL, plan, &options,
                               one_in(thread, 2) ? &result : NULL);
    umbo_value_release(result);
    overtaken = __atomic_load_n(&started[which], __ATOMIC_SEQ_CST) - before - 1;
    if (overtaken > __atomic_load_n(&overtaken_most, __ATOMIC_RELAXED))
        __atomic_store_n(&overtaken_most, overtaken, __ATOMIC_RELAXED);
    if (status >= 0 && status < 17) thread->ended[status]++;
    if (status < 0 || status > 16 || !(may_end & MAY(status)))
        wrong(thread, "a run%s ends with %s: %s", limited ? " with limits" : "",
              umbo_status_name(status), umbo_last_error_message());
    if (status == UMBO_OK && __atomic_load_n(&thread->cancelled_run, __ATOMIC_SEQ_CST) == thread->runs)
        wrong(thread, "a run that its own callback has cancelled takes effect");
    if (!gone)
        wrong(thread, "a run without limits returns before its user data is destroyed");
    if (status == UMBO_OK) {
        take_effect(&thread->expected[which], &effect);
        if (effect.trainer >= 0) thread->applied[effect.trainer]++;
    }
    check_state(thread, which, "a run");
}

static void synchronize(struct thread *thread, int which) {
    umbo_status status;
    thread->doing = "synchronize";
    status = umbo_strategy_synchronize(strategies[which]);
    if (status != UMBO_OK)
        wrong(thread, "synchronize gives %s: %s", umbo_status_name(status),
              umbo_last_error_message());
    else if (__atomic_load_n(&thread->destroyed[which], __ATOMIC_SEQ_CST) !=
        __atomic_load_n(&thread->given[which], __ATOMIC_SEQ_CST))
        wrong(thread, "synchronize returns before the user data of all runs is destroyed");
    thread->synchronisations++;
    check_state(thread, which, "synchronize");
}

static void change_outside(struct thread *thread, int which) {
    const int64_t amount = 1 + below(thread, 9);
    umbo_status status;
    thread->doing = "an assignment";
    status = assign_add(thread->objects[which].sum, amount);
    if (status == UMBO_OK) thread->expected[which].sum += amount;
    else if (!is_draining(status))
        wrong(thread, "an assignment gives %s: %s", umbo_status_name(status),
              umbo_last_error_message());
    thread->assignments++;
    check_state(thread, which, "an assignment");
}

/* Nothing is left to apply: a failed run has dropped it, or one that succeeded applied it. */
static void apply_outside(struct thread *thread, int which) {
    const int trainer = below(thread, TRAINERS);
    umbo_status status;
    thread->doing = "an apply";
    status = umbo_optimizer_apply(thread->objects[which].optimizers[trainer],
                                  thread->objects[which].gradients[trainer], NULL, NULL);
    if (!is_draining(status))
        wrong(thread, "an apply without gradients gives %s", umbo_status_name(status));
    thread->applies++;
    check_state(thread, which, "an apply");
}

static umbo_status late_on_a_copy(umbo_replica_context *context, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    struct plan *plan = (struct plan *)user_data;
    (void)context;
    (void)args;
    (void)result;
    enter(plan);
    usleep((unsigned)plan->stall_microseconds);
    return leave(plan, UMBO_OK);
}

/* A strategy of its own, which is released while its callbacks may be late. */
static void short_life(struct thread *thread, int which) {
    umbo_strategy *strategy = NULL;
    int count = 1 + below(thread, 3);
    thread->doing = "a strategy of its own";
    CHECK_OK(umbo_strategy_copy(strategies[which], &strategy));
    for (; count > 0; count--) {
        struct plan *plan = new_plan(thread, STRATEGIES + which);
        umbo_status status;
        umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
        plan->stall_microseconds = below(thread, 800);
        options.user_data_destroy = destroy_plan;
        options.timeout_seconds = 1e-5 + 1e-6 * below(thread, 800);
        thread->given[STRATEGIES + which]++;
        status = umbo_strategy_run(strategy, late_on_a_copy, NULL, plan, &options, NULL);
        if (status != UMBO_OK && status != UMBO_STATUS_DEADLINE_EXCEEDED && !is_draining(status))
            wrong(thread, "a run of its own gives %s: %s", umbo_status_name(status),
                  umbo_last_error_message());
    }
    umbo_strategy_release(strategy);
    thread->strategies++;
}

void *weather(void *user_data) {
    struct thread *thread = (struct thread *)user_data;
    while (__atomic_fetch_add(&runs_begun, 1, __ATOMIC_SEQ_CST) < runs_wanted &&
           now() - began < seconds_wanted && __atomic_load_n(&failures, __ATOMIC_SEQ_CST) < 20) {
        const int which = below(thread, STRATEGIES);
        thread->doing = "a run";
        run_on(thread, which);
        if (one_in(thread, 4)) change_outside(thread, below(thread, STRATEGIES));
        if (one_in(thread, 16)) apply_outside(thread, below(thread, STRATEGIES));
        if (one_in(thread, 32)) synchronize(thread, below(thread, STRATEGIES));
        if (one_in(thread, 200)) short_life(thread, below(thread, STRATEGIES));
        /* The token of a run that has ended, which others may be using. */
        if (thread->last_token != NULL && one_in(thread, 12)) {
            CHECK_OK(umbo_cancellation_cancel(thread->last_token));
            umbo_cancellation_release(thread->last_token);
            thread->last_token = NULL;
            thread->cancelled++;
        }
    }
    thread->doing = "nothing";
    return NULL;
}
