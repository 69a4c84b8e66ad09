/* A storm of runs: several threads and strategies, deadlines and tokens, failures, callbacks that
 * come back late, merge calls, nested runs, all-reduces, assignments, updates and applies, all
 * drawn from a seed. A model says after each run what central state has to be: changed if the run
 * succeeded, as before if not.
 *
 *   storm [--runs N] [--seconds S] [--seed X] [--threads T]
 *
 * Ends after so many runs or seconds, whichever is first. What it demands:
 *
 * - each variable is what the model says after each run of the one thread that changes it;
 * - a run ends in a way that was drawn for it: one without a deadline and a token, for example, is
 *   never cancelled, whatever happens to the tokens and deadlines of runs before it;
 * - the user data is destroyed exactly once, after the last callback is back, before the run
 *   returns if it has no limits, and in any case before synchronize returns;
 * - callbacks find what they are given, and all-reduces and nested runs give the right numbers;
 * - nothing hangs, and no handle is left. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define MOST_THREADS 16
#define STRATEGIES 3
#define TOKENS 6
#define MOST_ACTIONS 6
#define ALIVE 0x5ca1ab1eu
/* A thread that makes no progress for so long hangs. */
#define PATIENCE 120

static const int32_t replicas_of[STRATEGIES] = {2, 3, 1};

enum action {
    ADD,         /* assign_add by all replicas */
    ALL_REDUCE,  /* and its result */
    MERGE_ADD,   /* assign_add in a merge function */
    MERGE_RUN,   /* a nested run in a merge function */
    MERGE_UPDATE,/* an update in a merge function that fails and is tolerated */
    UPDATE,      /* an update by all replicas */
    APPLY,       /* gradients and a deferred apply */
    STALL,       /* one replica takes its time */
    METRIC,
    ACTIONS
};

#define MAY(status) (1u << (status))

struct thread;

/* What one run is to do. Read only while the run lasts, but for the counters. */
struct plan {
    uint32_t alive;
    struct thread *thread;
    int strategy, limited, is_nested;
    int count;
    enum action actions[MOST_ACTIONS];
    int64_t amounts[MOST_ACTIONS];
    /* The replica that fails before this action; no such action if none does. */
    int failing_action, failing_replica;
    int stalling_replica, stall_microseconds, cancels;
    /* A function of the merge call fails. */
    int merge_fails;
    umbo_cancellation *token;
    struct plan *nested;
    double nested_deadline;
    /* The statuses that the run may end with, as bits. */
    uint32_t may_end;
    /* What the run adds to the variable and takes off the weight if it succeeds. */
    int64_t adds, descends;
    int inside;
    /* Told when the plan is destroyed; of runs that wait for that. */
    int *gone;
};

struct thread {
    pthread_t thread;
    int index;
    uint64_t state;
    umbo_variable *sums[STRATEGIES], *weights[STRATEGIES];
    umbo_gradients *gradients[STRATEGIES];
    umbo_optimizer *optimizers[STRATEGIES];
    int64_t sum[STRATEGIES], weight[STRATEGIES];
    /* Plans that were handed over and destroyed: of the strategies, then of their copies. */
    int64_t given[2 * STRATEGIES], destroyed[2 * STRATEGIES];
    umbo_cancellation *last_token;
    int64_t runs, nested, ended[17];
    int64_t assignments, applies, synchronisations, strategies, cancelled;
    const char *doing;
};

static umbo_strategy *strategies[STRATEGIES];
static struct thread threads[MOST_THREADS];
static int thread_count = 3;
static uint64_t seed = 1;
static int64_t runs_wanted = 100000, runs_begun;
static double seconds_wanted = 1e9, began;
static int failures;
static int64_t late_callbacks, overtaken_most, started[STRATEGIES];
static pthread_mutex_t token_lock = PTHREAD_MUTEX_INITIALIZER;
static umbo_cancellation *tokens[TOKENS];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void wrong(const struct thread *thread, const char *format, ...) {
    va_list arguments;
    const int index = __atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST);
    if (index > 20) return;
    flockfile(stderr);
    fprintf(stderr, "storm --seed %llu: thread %d, run %lld: ", (unsigned long long)seed,
            thread->index, (long long)thread->runs);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    funlockfile(stderr);
}

/* splitmix64 */
static uint64_t draw(struct thread *thread) {
    uint64_t z = thread->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int below(struct thread *thread, int count) {
    return (int)(draw(thread) % (uint64_t)count);
}

static int one_in(struct thread *thread, int count) { return below(thread, count) == 0; }

static umbo_value *double_value(double number) {
    return into_value(make_tensor(UMBO_DTYPE_FLOAT64, 0, NULL, &number));
}

static double double_of(const umbo_value *value) {
    umbo_view view;
    CHECK_OK(umbo_value_view(value, NULL, &view));
    CHECK(view.dtype == UMBO_DTYPE_FLOAT64);
    return *(const double *)view.data;
}

/* ---- callbacks */

static void enter(struct plan *plan) {
    if (__atomic_load_n(&plan->alive, __ATOMIC_SEQ_CST) != ALIVE) {
        fprintf(stderr, "storm --seed %llu: a callback has got user data that was destroyed\n",
                (unsigned long long)seed);
        abort();
    }
    __atomic_fetch_add(&plan->inside, 1, __ATOMIC_SEQ_CST);
}

static umbo_status leave(struct plan *plan, umbo_status status) {
    __atomic_fetch_sub(&plan->inside, 1, __ATOMIC_SEQ_CST);
    return status;
}

static void destroy_plan(void *user_data) {
    struct plan *plan = user_data;
    if (__atomic_exchange_n(&plan->alive, 0, __ATOMIC_SEQ_CST) != ALIVE)
        wrong(plan->thread, "user data is destroyed twice");
    if (__atomic_load_n(&plan->inside, __ATOMIC_SEQ_CST) != 0)
        wrong(plan->thread, "user data is destroyed while %d callbacks use it", plan->inside);
    __atomic_fetch_add(&plan->thread->destroyed[plan->strategy], 1, __ATOMIC_SEQ_CST);
    if (plan->gone != NULL) *plan->gone = 1;
    umbo_cancellation_release(plan->token);
    /* A nested run that was never begun. */
    free(plan->nested);
    free(plan);
}

static umbo_status on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result);

static umbo_status assign_add(umbo_variable *variable, int64_t amount) {
    umbo_value *value = double_value((double)amount);
    const umbo_status status = umbo_variable_assign_add(variable, value);
    umbo_value_release(value);
    return status;
}

static umbo_status failing_update(umbo_variable *variable, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    UMBO_TRY(assign_add(variable, 1000000));
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "drawn", NULL, NULL);
}

static umbo_status adding_update(umbo_variable *variable, const umbo_value *args, void *user_data,
                                 umbo_value **result) {
    (void)args;
    (void)result;
    return assign_add(variable, *(const int64_t *)user_data);
}

struct merge {
    struct plan *plan;
    int action;
};

static umbo_status merged(umbo_strategy *strategy, struct merge *merge) {
    struct plan *plan = merge->plan;
    struct thread *thread = plan->thread;
    umbo_variable *variable = thread->sums[plan->strategy];
    if (plan->merge_fails) return umbo_set_last_error(UMBO_STATUS_ABORTED, "drawn", NULL, NULL);
    switch (plan->actions[merge->action]) {
        case MERGE_ADD: return assign_add(variable, plan->amounts[merge->action]);
        case MERGE_UPDATE: {
            const umbo_status status =
                umbo_strategy_update(strategy, variable, failing_update, NULL, NULL, NULL, NULL);
            if (status == UMBO_OK) wrong(thread, "an update that failed has succeeded");
            return UMBO_OK;
        }
        case MERGE_RUN: {
            struct plan *nested = plan->nested;
            umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
            /* The first one that runs it takes it. */
            plan->nested = NULL;
            if (nested == NULL) return UMBO_OK;
            options.user_data_destroy = destroy_plan;
            options.timeout_seconds = plan->nested_deadline;
            __atomic_fetch_add(&thread->nested, 1, __ATOMIC_SEQ_CST);
            __atomic_fetch_add(&thread->given[plan->strategy], 1, __ATOMIC_SEQ_CST);
            return umbo_strategy_run(strategy, on_a_replica, nested, NULL, &options, NULL);
        }
        default: return UMBO_OK;
    }
}

static umbo_status in_a_merge(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    struct merge *merge = user_data;
    (void)args;
    (void)result;
    enter(merge->plan);
    return leave(merge->plan, merged(strategy, merge));
}

static umbo_status act(umbo_replica_context *context, struct plan *plan, int index, int32_t id,
                       int32_t replicas) {
    struct thread *thread = plan->thread;
    umbo_variable *variable = thread->sums[plan->strategy];
    const int64_t amount = plan->amounts[index];
    switch (plan->actions[index]) {
        case ADD: return assign_add(variable, amount);
        case ALL_REDUCE: {
            umbo_value *own = double_value((double)(amount + id)), *sum = NULL;
            const umbo_status status =
                umbo_replica_context_all_reduce(context, UMBO_REDUCE_SUM, own, &sum);
            umbo_value_release(own);
            if (status == UMBO_OK) {
                const double expected =
                    (double)(amount * replicas + replicas * (replicas - 1) / 2);
                if (double_of(sum) != expected)
                    wrong(thread, "an all-reduce gives %g and not %g", double_of(sum), expected);
                umbo_value_release(sum);
            }
            return status;
        }
        case MERGE_ADD:
        case MERGE_UPDATE:
        case MERGE_RUN: {
            struct merge merge;
            merge.plan = plan;
            merge.action = index;
            return umbo_replica_context_merge_call(context, in_a_merge, &merge, NULL, NULL);
        }
        case UPDATE: {
            int64_t own = amount;
            return umbo_strategy_update(strategies[plan->strategy], variable, adding_update, &own,
                                        NULL, NULL, NULL);
        }
        case APPLY: {
            umbo_view view;
            UMBO_TRY(umbo_gradients_view(thread->gradients[plan->strategy], context, 0,
                                         UMBO_GRADIENT_OVERWRITE, &view));
            *(double *)view.mutable_data = (double)amount;
            UMBO_TRY(umbo_gradients_submit_weighted(thread->gradients[plan->strategy], context,
                                                    1));
            return umbo_optimizer_apply(thread->optimizers[plan->strategy],
                                        thread->gradients[plan->strategy], NULL, NULL);
        }
        case STALL:
            if (id == plan->stalling_replica) {
                /* The token of this run, or in one that has none, of an earlier run: that may stop
                 * runs of others, but not this one. */
                if (plan->cancels && (plan->token != NULL || thread->last_token != NULL))
                    CHECK_OK(umbo_cancellation_cancel(plan->token != NULL ? plan->token
                                                                          : thread->last_token));
                usleep((unsigned)plan->stall_microseconds);
            }
            return UMBO_OK;
        case METRIC: return umbo_replica_context_add_metric(context, "m", 1, 1);
        default: return UMBO_OK;
    }
}

static umbo_status act_all(umbo_replica_context *context, struct plan *plan, umbo_value **result) {
    const int32_t replicas = replicas_of[plan->strategy];
    int32_t id = -1;
    int index;
    /* Also fails if the context is not that of this run. */
    CHECK_OK(umbo_replica_context_replica_id(context, &id));
    CHECK(id >= 0 && id < replicas);
    for (index = 0; index <= plan->count; index++) {
        if (index == plan->failing_action && id == plan->failing_replica)
            return umbo_set_last_error(UMBO_STATUS_ABORTED, "drawn", NULL, NULL);
        if (index < plan->count) UMBO_TRY(act(context, plan, index, id, replicas));
    }
    *result = double_value((double)id);
    return UMBO_OK;
}

static umbo_status on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    struct plan *plan = user_data;
    umbo_status status;
    int32_t is_over = 0;
    (void)args;
    enter(plan);
    if (!plan->is_nested && replica_id(context) == 0)
        __atomic_fetch_add(&started[plan->strategy], 1, __ATOMIC_SEQ_CST);
    status = act_all(context, plan, result);
    CHECK_OK(umbo_replica_context_is_cancelled(context, &is_over));
    if (is_over && plan->limited) __atomic_fetch_add(&late_callbacks, 1, __ATOMIC_SEQ_CST);
    if (is_over && !plan->limited && plan->may_end == MAY(UMBO_OK))
        wrong(plan->thread, "a run without limits in which nothing fails is told to stop");
    return leave(plan, status);
}

/* ---- plans */

static struct plan *draw_plan(struct thread *thread, int strategy, int limited, int is_nested) {
    struct plan *plan = calloc(1, sizeof(*plan));
    const int32_t replicas = replicas_of[strategy];
    int index, merges = 0;
    CHECK(plan != NULL);
    plan->alive = ALIVE;
    plan->thread = thread;
    plan->strategy = strategy;
    plan->limited = limited;
    plan->is_nested = is_nested;
    plan->count = below(thread, is_nested ? 3 : MOST_ACTIONS + 1);
    plan->may_end = MAY(UMBO_OK);
    plan->failing_action = -1;
    if (one_in(thread, 8)) {
        plan->failing_action = below(thread, plan->count + 1);
        plan->failing_replica = below(thread, replicas);
        plan->may_end = MAY(UMBO_STATUS_ABORTED);
    }
    plan->stalling_replica = below(thread, replicas);
    plan->stall_microseconds = below(thread, limited ? 1500 : 60);
    plan->cancels = one_in(thread, 6);
    for (index = 0; index < plan->count; index++) {
        enum action action = (enum action)below(thread, ACTIONS);
        int64_t amount = 1 + below(thread, 9);
        /* One of these in a run, and none within another. */
        if ((action == MERGE_RUN && (is_nested || plan->nested != NULL)) ||
            (action == APPLY && (is_nested || plan->descends != 0)))
            action = ADD;
        plan->actions[index] = action;
        plan->amounts[index] = amount;
        merges |= action == MERGE_ADD || action == MERGE_UPDATE || action == MERGE_RUN;
        if (action == ADD || action == MERGE_ADD || action == UPDATE) plan->adds += amount;
        if (action == APPLY) plan->descends = amount;
        if (action == MERGE_RUN) {
            const int nested_limited = one_in(thread, 24);
            plan->nested = draw_plan(thread, strategy, limited || nested_limited, 1);
            if (nested_limited) {
                plan->nested_deadline = 1e-4 + 1e-6 * below(thread, 1500);
                /* A nested run ends with the one around it, and may refuse limits of its own. */
                plan->may_end |= MAY(UMBO_STATUS_DEADLINE_EXCEEDED) | MAY(UMBO_STATUS_CANCELLED) |
                                 MAY(UMBO_STATUS_INVALID_ARGUMENT);
            }
            plan->adds += plan->nested->adds;
            if (plan->failing_action < 0 || plan->failing_action > index) {
                if (!(plan->nested->may_end & MAY(UMBO_OK))) plan->may_end &= ~MAY(UMBO_OK);
                plan->may_end |= plan->nested->may_end & ~MAY(UMBO_OK);
            }
        }
    }
    if (merges && one_in(thread, 12)) {
        plan->merge_fails = 1;
        plan->may_end = MAY(UMBO_STATUS_ABORTED);
        if (plan->failing_action >= 0) plan->may_end |= MAY(UMBO_STATUS_ABORTED);
    }
    return plan;
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

/* ---- what threads do */

static void check_state(struct thread *thread, int strategy, const char *after) {
    umbo_tensor *tensor = NULL;
    umbo_view view;
    double sum, weight;
    CHECK_OK(umbo_variable_read(thread->sums[strategy], &tensor));
    CHECK_OK(umbo_tensor_view(tensor, &view));
    sum = *(const double *)view.data;
    umbo_tensor_release(tensor);
    CHECK_OK(umbo_variable_read(thread->weights[strategy], &tensor));
    CHECK_OK(umbo_tensor_view(tensor, &view));
    weight = *(const double *)view.data;
    umbo_tensor_release(tensor);
    if (sum != (double)thread->sum[strategy] || weight != (double)thread->weight[strategy]) {
        wrong(thread, "after %s on strategy %d the state is %.0f, %.0f and not %lld, %lld", after,
              strategy, sum, weight, (long long)thread->sum[strategy],
              (long long)thread->weight[strategy]);
        thread->sum[strategy] = (int64_t)sum;
        thread->weight[strategy] = (int64_t)weight;
    }
}

/* While callbacks are late nothing can be changed, and that is said. */
static int is_draining(umbo_status status) {
    return status == UMBO_STATUS_FAILED_PRECONDITION;
}

static void run_on(struct thread *thread, umbo_strategy *strategy, int which, int is_private) {
    const int limited = one_in(thread, 3);
    struct plan *plan = draw_plan(thread, which, limited, 0);
    const int has_nested = plan->nested != NULL;
    const int64_t adds = plan->adds, descends = plan->descends;
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
    if (limited && (options.timeout_seconds == 0 || one_in(thread, 2))) {
        plan->token = borrow_token(thread);
        options.cancellation = plan->token;
        may_end |= MAY(UMBO_STATUS_CANCELLED);
        umbo_cancellation_release(thread->last_token);
        CHECK_OK(umbo_cancellation_retain(plan->token, &thread->last_token));
    }
    /* Who is woken by the end of the nested run may be told before who has ended it. */
    if (has_nested && limited) may_end |= MAY(UMBO_STATUS_CANCELLED);
    plan->gone = gone ? NULL : &gone;
    __atomic_fetch_add(&thread->given[which], 1, __ATOMIC_SEQ_CST);
    thread->runs++;
    status = umbo_strategy_run(strategy, on_a_replica, plan, NULL, &options,
                               one_in(thread, 2) ? &result : NULL);
    umbo_value_release(result);
    overtaken = __atomic_load_n(&started[which], __ATOMIC_SEQ_CST) - before - 1;
    if (overtaken > __atomic_load_n(&overtaken_most, __ATOMIC_RELAXED))
        __atomic_store_n(&overtaken_most, overtaken, __ATOMIC_RELAXED);
    if (status >= 0 && status < 17) thread->ended[status]++;
    if (status < 0 || status > 16 || !(may_end & MAY(status)))
        wrong(thread, "a run%s ends with %s: %s", limited ? " with limits" : "",
              umbo_status_name(status), umbo_last_error_message());
    if (!gone)
        wrong(thread, "a run without limits returns before its user data is destroyed");
    if (status == UMBO_OK && !is_private) {
        thread->sum[which] += adds;
        thread->weight[which] -= descends;
    }
    if (!is_private) check_state(thread, which, "a run");
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
    status = assign_add(thread->sums[which], amount);
    if (status == UMBO_OK) thread->sum[which] += amount;
    else if (!is_draining(status))
        wrong(thread, "an assignment gives %s: %s", umbo_status_name(status),
              umbo_last_error_message());
    thread->assignments++;
    check_state(thread, which, "an assignment");
}

/* Nothing is left to apply: a failed run has dropped it, or one that succeeded applied it. */
static void apply_outside(struct thread *thread, int which) {
    umbo_status status;
    thread->doing = "an apply";
    status = umbo_optimizer_apply(thread->optimizers[which], thread->gradients[which], NULL, NULL);
    if (!is_draining(status))
        wrong(thread, "an apply without gradients gives %s", umbo_status_name(status));
    thread->applies++;
    check_state(thread, which, "an apply");
}

static umbo_status late_on_a_copy(umbo_replica_context *context, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    struct plan *plan = user_data;
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
        struct plan *plan = calloc(1, sizeof(*plan));
        umbo_status status;
        umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
        CHECK(plan != NULL);
        plan->alive = ALIVE;
        plan->thread = thread;
        plan->strategy = STRATEGIES + which;
        plan->stall_microseconds = below(thread, 800);
        options.user_data_destroy = destroy_plan;
        options.timeout_seconds = 1e-5 + 1e-6 * below(thread, 800);
        thread->given[STRATEGIES + which]++;
        status = umbo_strategy_run(strategy, late_on_a_copy, plan, NULL, &options, NULL);
        if (status != UMBO_OK && status != UMBO_STATUS_DEADLINE_EXCEEDED && !is_draining(status))
            wrong(thread, "a run of its own gives %s: %s", umbo_status_name(status),
                  umbo_last_error_message());
    }
    umbo_strategy_release(strategy);
    thread->strategies++;
}

static void *weather(void *user_data) {
    struct thread *thread = user_data;
    while (__atomic_fetch_add(&runs_begun, 1, __ATOMIC_SEQ_CST) < runs_wanted &&
           now() - began < seconds_wanted && __atomic_load_n(&failures, __ATOMIC_SEQ_CST) < 20) {
        const int which = below(thread, STRATEGIES);
        thread->doing = "a run";
        run_on(thread, strategies[which], which, 0);
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

/* ---- the program */

static void make_objects(void) {
    umbo_variable_options variable_options = UMBO_VARIABLE_OPTIONS_INIT;
    umbo_gradients_options gradients_options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    int which, index;
    double zero = 0;
    variable_options.aggregation = UMBO_AGGREGATION_MEAN;
    gradients_options.loss_reduction = UMBO_LOSS_SUM;
    sgd.learning_rate = 1;
    for (index = 0; index < TOKENS; index++) CHECK_OK(umbo_cancellation_create(&tokens[index]));
    for (which = 0; which < STRATEGIES; which++) {
        umbo_tensor *initial = make_tensor(UMBO_DTYPE_FLOAT64, 0, NULL, &zero);
        strategies[which] = make_strategy(replicas_of[which]);
        for (index = 0; index < thread_count; index++) {
            struct thread *thread = &threads[index];
            umbo_variable *weight;
            CHECK_OK(umbo_variable_create(strategies[which], "sum", initial, &variable_options,
                                          &thread->sums[which]));
            CHECK_OK(umbo_variable_create(strategies[which], "weight", initial, &variable_options,
                                          &thread->weights[which]));
            weight = thread->weights[which];
            CHECK_OK(umbo_gradients_create(strategies[which], 1, &weight, &gradients_options,
                                           &thread->gradients[which]));
            CHECK_OK(umbo_optimizer_create_sgd(strategies[which], &sgd,
                                               &thread->optimizers[which]));
        }
        umbo_tensor_release(initial);
    }
}

static void release_objects(void) {
    int which, index;
    for (which = 0; which < STRATEGIES; which++) {
        for (index = 0; index < thread_count; index++) {
            struct thread *thread = &threads[index];
            umbo_optimizer_release(thread->optimizers[which]);
            umbo_gradients_release(thread->gradients[which]);
            umbo_variable_release(thread->weights[which]);
            umbo_variable_release(thread->sums[which]);
        }
        umbo_strategy_release(strategies[which]);
    }
    for (index = 0; index < thread_count; index++)
        umbo_cancellation_release(threads[index].last_token);
    for (index = 0; index < TOKENS; index++) umbo_cancellation_release(tokens[index]);
}

static int finished;

/* Ends the program if no thread gets on. */
static void *watch(void *user_data) {
    int64_t progress = -1;
    double since = now();
    (void)user_data;
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        int64_t sum = __atomic_load_n(&runs_begun, __ATOMIC_SEQ_CST);
        usleep(100000);
        if (sum != progress) {
            progress = sum;
            since = now();
        } else if (now() - since > PATIENCE) {
            int index;
            fprintf(stderr, "storm --seed %llu hangs after %lld runs\n", (unsigned long long)seed,
                    (long long)sum);
            for (index = 0; index < thread_count; index++)
                fprintf(stderr, "  thread %d: %s\n", index,
                        threads[index].doing == NULL ? "main" : threads[index].doing);
            abort();
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int64_t given = 0, destroyed = 0, ended[17] = {0}, runs = 0, nested = 0, others = 0;
    int index, which;
    pthread_t watcher;
    double waited;
    for (index = 1; index + 1 < argc; index += 2) {
        if (strcmp(argv[index], "--runs") == 0) runs_wanted = atoll(argv[index + 1]);
        else if (strcmp(argv[index], "--seconds") == 0) seconds_wanted = atof(argv[index + 1]);
        else if (strcmp(argv[index], "--seed") == 0)
            seed = strtoull(argv[index + 1], NULL, 10);
        else if (strcmp(argv[index], "--threads") == 0) thread_count = atoi(argv[index + 1]);
        else {
            fprintf(stderr, "usage: storm [--runs N] [--seconds S] [--seed X] [--threads T]\n");
            return 2;
        }
    }
    CHECK(thread_count >= 1 && thread_count <= MOST_THREADS);
    printf("storm --seed %llu --threads %d\n", (unsigned long long)seed, thread_count);
    fflush(stdout);
    began = now();
    make_objects();
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    for (index = 0; index < thread_count; index++) {
        threads[index].index = index;
        threads[index].state = seed * 0x2545f4914f6cdd1du + (uint64_t)index;
        CHECK(pthread_create(&threads[index].thread, NULL, weather, &threads[index]) == 0);
    }
    for (index = 0; index < thread_count; index++)
        CHECK(pthread_join(threads[index].thread, NULL) == 0);
    for (which = 0; which < STRATEGIES; which++) CHECK_OK(umbo_strategy_synchronize(strategies[which]));
    for (index = 0; index < thread_count; index++)
        for (which = 0; which < STRATEGIES; which++)
            check_state(&threads[index], which, "everything");
    __atomic_store_n(&finished, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(watcher, NULL) == 0);
    release_objects();
    for (index = 0; index < thread_count; index++) {
        const struct thread *thread = &threads[index];
        runs += thread->runs;
        nested += thread->nested;
        others += thread->assignments + thread->applies + thread->synchronisations +
                  thread->strategies + thread->cancelled;
        for (which = 0; which < 17; which++) ended[which] += thread->ended[which];
        for (which = 0; which < 2 * STRATEGIES; which++) given += thread->given[which];
    }
    /* Strategies that were released with callbacks under way end on their own. */
    for (waited = now(); now() - waited < PATIENCE; usleep(1000)) {
        for (index = 0, destroyed = 0; index < thread_count; index++)
            for (which = 0; which < 2 * STRATEGIES; which++)
                destroyed +=
                    __atomic_load_n(&threads[index].destroyed[which], __ATOMIC_SEQ_CST);
        if (destroyed >= given) break;
    }
    if (destroyed != given)
        wrong(&threads[0], "%lld user data were destroyed and not %lld", (long long)destroyed,
              (long long)given);
    printf("%lld runs and %lld nested ones:", (long long)runs, (long long)nested);
    for (which = 0; which < 17; which++)
        if (ended[which] != 0)
            printf(" %lld %s", (long long)ended[which], umbo_status_name(which));
    printf("\n%lld other calls, %lld callbacks of runs that were over, "
           "at most %lld runs between a call and its end, %d failures\n",
           (long long)others, (long long)late_callbacks, (long long)overtaken_most, failures);
    return failures != 0 || finish() != 0;
}
