/* Functions that are called when a thread ends: from destructors of thread-specific data, which run
 * after the library has given up what it keeps for the thread. Each says so, none takes it for a defect of its
 * own, and none hangs. What was released there is gone. And what a thread still has then: no code of the program runs
 * without a call. */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"

#include <umbo/all.h>

enum { LARGE = 1 << 19 };

static umbo_strategy *strategy;
static umbo_variable *variable;
static umbo_value *values, *one;
static umbo_gradients *gradients;
static umbo_optimizer *optimizer;
static umbo_dataset *dataset;
static int calls, refused, panics;

static umbo_status add_one(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    return umbo_variable_assign_add(variable, one);
}

static void sink(umbo_log_level level, const char *message, void *user_data) {
    (void)level;
    (void)user_data;
    if (strstr(message, "panic") != NULL) panics++;
}

/* A call that is refused because the thread ends, or that is answered. */
#define ORDERLY(call)                                                                  \
    do {                                                                               \
        umbo_status status_ = (call);                                                  \
        calls++;                                                                       \
        if (status_ != UMBO_OK && status_ != UMBO_STATUS_FAILED_PRECONDITION)          \
            check_failed(__FILE__, __LINE__, #call);                                   \
        if (status_ != UMBO_OK) refused++;                                             \
    } while (0)

/* Of each kind: what makes, what runs, what waits for other threads. */
static void call_all(void) {
    const int64_t size = LARGE;
    umbo_strategy *made = NULL;
    umbo_scope *scope = NULL;
    umbo_tensor *tensor = NULL;
    umbo_value *value = NULL;
    umbo_iterator *iterator = NULL;
    umbo_replica_context *context = NULL;
    umbo_run_options limited = UMBO_RUN_OPTIONS_INIT;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;

    /* Threads that are about to end have an error message, or none, but never a wild one. */
    (void)strlen(umbo_last_error_message());
    (void)umbo_last_error_count();
    ORDERLY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
    umbo_tensor_release(tensor);
    options.cpu_replicas = 2;
    ORDERLY(umbo_strategy_create(&options, &made));
    umbo_strategy_release(made);
    ORDERLY(umbo_scope_enter(strategy, &scope));
    if (scope != NULL) ORDERLY(umbo_scope_exit(scope));
    ORDERLY(umbo_replica_context_current(&context));
    ORDERLY(umbo_strategy_run(strategy, add_one, NULL, NULL, NULL, NULL));
    limited.timeout_seconds = 600;
    ORDERLY(umbo_strategy_run(strategy, add_one, NULL, NULL, &limited, NULL));
    ORDERLY(umbo_strategy_reduce(strategy, values, UMBO_REDUCE_SUM, NULL, &value));
    umbo_value_release(value);
    value = NULL;
    ORDERLY(umbo_optimizer_apply(optimizer, gradients, NULL, NULL));
    ORDERLY(umbo_iterator_from_dataset(dataset, &iterator));
    if (iterator != NULL) ORDERLY(umbo_iterator_next(iterator, &value));
    umbo_value_release(value);
    umbo_iterator_release(iterator);
    (void)umbo_set_last_error(UMBO_STATUS_ABORTED, "at the end", NULL, NULL);
    umbo_clear_last_error();
}

/* What is released here is gone, also what other threads work for. */
struct holds {
    umbo_value *value;
    umbo_strategy *strategy;
    umbo_iterator *iterator;
};

static void at_end(void *of) {
    struct holds *holds = (struct holds *)of;
    refused = 0;
    call_all();
    umbo_value_release(holds->value);
    umbo_strategy_release(holds->strategy);
    umbo_iterator_release(holds->iterator);
    free(holds);
}

static pthread_key_t key;

static void hold(void) {
    umbo_value *element = NULL;
    struct holds *holds = (struct holds *)calloc(1, sizeof(*holds));
    CHECK(holds != NULL);
    holds->value = float_value(1);
    holds->strategy = make_strategy(2);
    CHECK_OK(umbo_strategy_run(holds->strategy, nothing, NULL, NULL, NULL, NULL));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &holds->iterator));
    CHECK_OK(umbo_iterator_next(holds->iterator, &element));
    umbo_value_release(element);
    CHECK(pthread_setspecific(key, holds) == 0);
}

/* A thread that has used much of the library before it ends, or little. */
static void *short_life(void *uses) {
    hold();
    if (uses != NULL) call_all();
    return NULL;
}

/* A replica's thread ends with its strategy, and the program has a destructor there, too. */
static umbo_status leave_data(umbo_replica_context *context, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    if (replica_id(context) == 1) {
        struct holds *holds = (struct holds *)calloc(1, sizeof(*holds));
        CHECK(holds != NULL);
        holds->value = float_value(1);
        CHECK(pthread_setspecific(key, holds) == 0);
    }
    return UMBO_OK;
}

/* ---- what a thread still has at its end */

/* How often something was released, and whether it may be now. */
static int releases, may_release;

static void release_later(void *user_data) {
    CHECK(may_release && user_data == &releases);
    releases++;
}

static void release_otherwise(void *user_data) { (void)user_data; }

static void *fail_at_the_end(void *unused) {
    (void)unused;
    CHECK_STATUS(umbo_set_last_error(UMBO_STATUS_ABORTED, "at the end", &releases, release_later), UMBO_STATUS_ABORTED);
    return NULL;
}

static umbo_status create_as_asked(umbo_variable_request *request, void *user_data, umbo_variable **made) {
    (void)request, (void)user_data, (void)made;
    return UMBO_OK;
}

static void *stay_in_a_scope(void *place) {
    umbo_scope **scope = (umbo_scope **)place;
    CHECK_OK(umbo_variable_creator_scope_enter(create_as_asked, &releases, release_later, scope));
    return NULL;
}

/* The last handle to the strategy is this thread's, and so is the last reference at all. */
static void *stay_in_a_strategy(void *unused) {
    umbo_strategy *own = NULL;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    (void)unused;
    options.cpu_replicas = 1;
    options.replica_thread_user_data = &releases;
    options.replica_thread_user_data_destroy = release_later;
    CHECK_OK(umbo_strategy_create(&options, &own));
    CHECK_OK(umbo_strategy_set_current(own));
    umbo_strategy_release(own);
    return NULL;
}

/* The thread itself runs no code of the program, which may be gone by then. */
static void end_with(void *(*life)(void *), void *argument) {
    pthread_t thread;
    releases = may_release = 0;
    CHECK(pthread_create(&thread, NULL, life, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(releases == 0);
    may_release = 1;
}

static void what_is_left_is_released_by_calls(void) {
    umbo_scope *scope = NULL;
    /* The payload of an error: with the next one that is released alike, not with others, or at a shutdown. */
    end_with(fail_at_the_end, NULL);
    umbo_ignore(umbo_set_last_error(UMBO_STATUS_ABORTED, "x", &releases, release_otherwise));
    CHECK(releases == 0);
    umbo_ignore(umbo_set_last_error(UMBO_STATUS_ABORTED, "x", &releases, release_later));
    CHECK(releases == 1);
    umbo_clear_last_error();
    CHECK(releases == 2);
    end_with(fail_at_the_end, NULL);
    umbo_ignore(umbo_shutdown());
    CHECK(releases == 1);
    /* This thread's own at a shutdown, too, though that fails. */
    fail_at_the_end(NULL);
    CHECK_STATUS(umbo_shutdown(), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK(releases == 2);
    /* A scope: by its handle, on any thread, or at a shutdown; then the handle is released as that of one that was left. */
    end_with(stay_in_a_scope, &scope);
    CHECK_STATUS(umbo_scope_exit(scope), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("or of the thread that entered it");
    CHECK(releases == 1);
    end_with(stay_in_a_scope, &scope);
    umbo_ignore(umbo_shutdown());
    CHECK(releases == 1);
    CHECK_STATUS(umbo_scope_exit(scope), UMBO_STATUS_NOT_FOUND);
    CHECK(releases == 1 && live(UMBO_HANDLE_SCOPE) == 0);
    /* The thread's strategy: where another one is set, or at a shutdown. */
    end_with(stay_in_a_strategy, NULL);
    CHECK_OK(umbo_strategy_set_current(NULL));
    CHECK(releases == 1);
    end_with(stay_in_a_strategy, NULL);
    umbo_ignore(umbo_shutdown());
    CHECK(releases == 1);
}

int main(void) {
    const int64_t size = LARGE;
    umbo_value *items[2];
    umbo_tensor *large = NULL;
    umbo_strategy *own;
    umbo_dataset *numbers = NULL;
    int turn;
    pthread_t thread;
    CHECK_OK(umbo_set_worker_count(3));
    strategy = make_strategy(2);
    variable = make_variable(strategy, 1, UMBO_AGGREGATION_MEAN);
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &large));
    for (turn = 0; turn < 2; turn++) CHECK_OK(umbo_value_from_tensor(large, &items[turn]));
    values = into_per_replica(2, items);
    one = float_value(1);
    gradients = make_mean_gradients(strategy, variable, 0);
    CHECK_OK(umbo_optimizer_create_sgd(strategy, NULL, &optimizer));
    CHECK_OK(umbo_dataset_from_range(0, 100, 1, &numbers));
    CHECK_OK(umbo_dataset_retain(numbers, &dataset));
    CHECK_OK(umbo_dataset_prefetch(&dataset, 2));
    umbo_dataset_release(numbers);

    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, sink, NULL, NULL));
    CHECK(pthread_key_create(&key, at_end) == 0);
    for (turn = 0; turn < 4; turn++) {
        CHECK(pthread_create(&thread, NULL, short_life, turn % 2 == 0 ? &calls : NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(refused > 5);
    }
    own = make_strategy(2);
    CHECK_OK(umbo_strategy_run(own, leave_data, NULL, NULL, NULL, NULL));
    umbo_strategy_release(own);
    CHECK(calls > 50 && panics == 0);
    what_is_left_is_released_by_calls();
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, NULL, NULL, NULL));
    /* Others are not disturbed. */
    CHECK_OK(umbo_strategy_run(strategy, add_one, NULL, NULL, NULL, NULL));
    CHECK_OK(umbo_strategy_synchronize(strategy));

    umbo_dataset_release(dataset);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(gradients);
    umbo_value_release(one);
    umbo_value_release(values);
    umbo_tensor_release(large);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
    return finish();
}
