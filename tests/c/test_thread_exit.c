/* Functions that are called when a thread ends: from destructors of thread-specific data, which run
 * after the library has given up what it keeps for the thread. Each works, or says why not; none takes
 * it for a defect of its own, and none hangs. What was released there is gone. */
#include <pthread.h>

#include "check.h"

#include <umbo/tensorflow.h>

enum { LARGE = 1 << 19 };

static umbo_strategy *strategy;
static umbo_variable *variable, *plain;
static umbo_value *values, *one;
static umbo_tensor *large;
static umbo_gradients *gradients;
static umbo_optimizer *optimizer;
static umbo_dataset *dataset, *parallel;
static int calls, refused, panics;

static umbo_status add_one(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    return umbo_variable_assign_add(variable, one);
}

static umbo_status in_scope(umbo_strategy *self, void *user_data) {
    (void)self;
    (void)user_data;
    return UMBO_OK;
}

static umbo_status on_variable(umbo_variable *of, const umbo_value *args, void *user_data,
                               umbo_value **result) {
    (void)of;
    (void)args;
    (void)user_data;
    (void)result;
    return UMBO_OK;
}

static umbo_status identity(const umbo_value *element, void *user_data, umbo_value **mapped) {
    (void)user_data;
    return umbo_value_retain(element, mapped);
}

static void sink(umbo_log_level level, const char *message, void *user_data) {
    (void)level;
    (void)user_data;
    if (strstr(message, "panic") != NULL) panics++;
}

/* A call that is answered; one that is refused because the thread ends says so. */
#define ORDERLY(call)                                                                  \
    do {                                                                               \
        umbo_status status_ = (call);                                                  \
        calls++;                                                                       \
        if (status_ == UMBO_STATUS_INTERNAL || status_ == UMBO_STATUS_UNKNOWN)                       \
            check_failed(__FILE__, __LINE__, #call);                                   \
        if (status_ != UMBO_OK) refused++;                                             \
    } while (0)

/* Everything that is not about a callback's context. */
static void call_all(void) {
    const int64_t size = LARGE;
    umbo_view view;
    umbo_strategy *made = NULL;
    umbo_scope *scope = NULL;
    umbo_variable *fresh = NULL;
    umbo_tensor *tensor = NULL;
    umbo_value *value = NULL;
    umbo_iterator *iterator = NULL;
    umbo_replica_context *context = NULL;
    umbo_cancellation *token = NULL;
    umbo_run_options limited = UMBO_RUN_OPTIONS_INIT;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_metric metric = UMBO_METRIC_INIT;
    const char *text = NULL;
    double number = 0;
    int64_t count = 0;
    int32_t turn;
    int32_t flag = 0;

    /* Threads that are about to end have an error message, or none, but never a wild one. */
    (void)strlen(umbo_last_error_message());
    (void)umbo_last_error_count();
    ORDERLY(umbo_set_log_callback(UMBO_LOG_DEBUG, sink, NULL, NULL));
    ORDERLY(umbo_live_handles(UMBO_HANDLE_ANY, &count));
    ORDERLY(umbo_worker_count(&count));
    ORDERLY(umbo_has_feature("cuda", &flag));
    ORDERLY(umbo_logical_device_count(UMBO_DEVICE_CPU, &count));

    ORDERLY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
    umbo_tensor_release(tensor);
    tensor = NULL;
    ORDERLY(umbo_tensor_view(large, &view));
    ORDERLY(umbo_tensor_copy(large, NULL, &tensor));
    umbo_tensor_release(tensor);
    tensor = NULL;
    ORDERLY(umbo_value_from_tensor(large, &value));
    umbo_value_release(value);
    value = NULL;
    ORDERLY(umbo_value_retain(values, &value));
    umbo_value_release(value);
    value = NULL;
    ORDERLY(umbo_value_item(values, 0, &value));
    umbo_value_release(value);
    value = NULL;

    options.cpu_replicas = 2;
    ORDERLY(umbo_strategy_create(&options, &made));
    umbo_strategy_release(made);
    made = NULL;
    ORDERLY(umbo_default_strategy(&made));
    umbo_strategy_release(made);
    made = NULL;
    ORDERLY(umbo_strategy_copy(strategy, &made));
    umbo_strategy_release(made);
    made = NULL;
    ORDERLY(umbo_current_strategy(&made));
    umbo_strategy_release(made);
    ORDERLY(umbo_strategy_num_replicas_in_sync(strategy, &count));
    ORDERLY(umbo_strategy_compute_device(strategy, 0, &text));
    ORDERLY(umbo_strategy_late_replicas(strategy, &count));
    ORDERLY(umbo_strategy_metric(strategy, "loss", &metric));
    ORDERLY(umbo_strategy_synchronize(strategy));
    ORDERLY(umbo_strategy_scope(strategy, in_scope, NULL));
    ORDERLY(umbo_scope_enter(strategy, &scope));
    if (scope != NULL) ORDERLY(umbo_scope_exit(scope));
    ORDERLY(umbo_set_strategy(strategy));
    ORDERLY(umbo_set_strategy(NULL));
    ORDERLY(umbo_has_strategy(&flag));
    ORDERLY(umbo_in_cross_replica_context(&flag));
    ORDERLY(umbo_current_replica_context(&context));
    ORDERLY(umbo_strategy_run(strategy, add_one, NULL, NULL, NULL, NULL));
    limited.timeout_seconds = 600;
    ORDERLY(umbo_strategy_run(strategy, add_one, NULL, NULL, &limited, NULL));
    ORDERLY(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, values, NULL, &value));
    umbo_value_release(value);
    value = NULL;
    ORDERLY(umbo_strategy_gather(strategy, values, 0, NULL, &value));
    umbo_value_release(value);
    value = NULL;
    ORDERLY(umbo_strategy_update(strategy, variable, on_variable, NULL, NULL, NULL, NULL));

    for (turn = 0; turn < 2; turn++) {
        umbo_variable *of = turn == 0 ? variable : plain;
        ORDERLY(umbo_variable_view(of, NULL, &view));
        ORDERLY(umbo_variable_view_as(of, NULL, UMBO_DTYPE_BFLOAT16, &view));
        ORDERLY(umbo_variable_read(of, &tensor));
        umbo_tensor_release(tensor);
        tensor = NULL;
        ORDERLY(umbo_variable_assign(of, one));
        ORDERLY(umbo_variable_assign_add(of, one));
        ORDERLY(umbo_variable_copy(of, &fresh));
        umbo_variable_release(fresh);
        fresh = NULL;
        ORDERLY(umbo_variable_name(of, &text));
        ORDERLY(umbo_variable_create(turn == 0 ? strategy : NULL, "w", large, NULL, &fresh));
        umbo_variable_release(fresh);
        fresh = NULL;
    }

    ORDERLY(umbo_optimizer_apply(optimizer, gradients, NULL, NULL));
    ORDERLY(umbo_optimizer_set_learning_rate(optimizer, 0.5));
    ORDERLY(umbo_optimizer_learning_rate(optimizer, &number));
    ORDERLY(umbo_optimizer_iterations(optimizer, &count));

    ORDERLY(umbo_iterator_from_dataset(dataset, &iterator));
    ORDERLY(umbo_iterator_next(iterator, &value));
    umbo_value_release(value);
    value = NULL;
    ORDERLY(umbo_iterator_reset(iterator));
    umbo_iterator_release(iterator);
    iterator = NULL;
    ORDERLY(umbo_iterator_from_dataset(parallel, &iterator));
    ORDERLY(umbo_iterator_next(iterator, &value));
    umbo_value_release(value);
    umbo_iterator_release(iterator);

    ORDERLY(umbo_cancellation_create(&token));
    ORDERLY(umbo_cancellation_cancel(token));
    umbo_cancellation_release(token);
    ORDERLY(umbo_set_log_callback(UMBO_LOG_DEBUG, NULL, NULL, NULL));
    (void)umbo_set_last_error(UMBO_STATUS_ABORTED, "at the end", NULL, NULL);
    umbo_clear_last_error();
}

static void at_end(void *holds) {
    umbo_value_release((umbo_value *)holds);
    call_all();
}

static pthread_key_t key;

/* A thread that has used the library before it ends, or that meets it at its end. */
static void *short_life(void *uses) {
    CHECK(pthread_setspecific(key, float_value(1)) == 0);
    if (uses != NULL) call_all();
    return NULL;
}

/* A replica's thread ends with its strategy, and the program has a destructor there, too. */
static umbo_status leave_data(umbo_replica_context *context, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    if (replica_id(context) == 1) CHECK(pthread_setspecific(key, float_value(1)) == 0);
    return UMBO_OK;
}

int main(void) {
    const int64_t size = LARGE;
    umbo_value *items[2];
    umbo_strategy *own;
    umbo_dataset *numbers = NULL;
    umbo_map_options map_options = UMBO_MAP_OPTIONS_INIT;
    int turn;
    pthread_t thread;
    CHECK_OK(umbo_set_worker_count(3));
    strategy = make_strategy(2);
    variable = make_variable(strategy, 1, UMBO_AGGREGATION_MEAN);
    plain = make_variable(NULL, 1, UMBO_AGGREGATION_NONE);
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &large));
    for (turn = 0; turn < 2; turn++) CHECK_OK(umbo_value_from_tensor(large, &items[turn]));
    values = into_per_replica(2, items);
    one = float_value(1);
    gradients = make_mean_gradients(strategy, variable, 0);
    CHECK_OK(umbo_optimizer_create_sgd(strategy, NULL, &optimizer));
    CHECK_OK(umbo_dataset_from_range(0, 100, 1, &numbers));
    CHECK_OK(umbo_dataset_retain(numbers, &dataset));
    CHECK_OK(umbo_dataset_prefetch(&dataset, 2));
    map_options.parallel_calls = 2;
    CHECK_OK(umbo_dataset_retain(numbers, &parallel));
    CHECK_OK(umbo_dataset_map(&parallel, identity, NULL, NULL, &map_options));
    umbo_dataset_release(numbers);

    CHECK(pthread_key_create(&key, at_end) == 0);
    for (turn = 0; turn < 4; turn++) {
        CHECK(pthread_create(&thread, NULL, short_life, turn % 2 == 0 ? &calls : NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    own = make_strategy(2);
    CHECK_OK(umbo_strategy_run(own, leave_data, NULL, NULL, NULL, NULL));
    umbo_strategy_release(own);
    CHECK(calls > 300 && panics == 0);
    /* Others are not disturbed. */
    CHECK_OK(umbo_strategy_run(strategy, add_one, NULL, NULL, NULL, NULL));
    CHECK_OK(umbo_strategy_synchronize(strategy));

    umbo_dataset_release(parallel);
    umbo_dataset_release(dataset);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(gradients);
    umbo_value_release(one);
    umbo_value_release(values);
    umbo_tensor_release(large);
    umbo_variable_release(plain);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
    return finish();
}
