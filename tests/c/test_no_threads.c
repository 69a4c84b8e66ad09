/* The system has no thread to give: what needs one says so and works again later, and what can do
 * without one does. The program's pthread_create stands before the C library's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "threads.h"

enum { REPLICAS = 3, LARGE = 1 << 19 };

typedef int (*create_function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static int left = -1; /* so many threads can be had; -1: any number */

/* Under a sanitizer the next one is the sanitizer's, which has to know the threads. */
#ifdef __cplusplus
extern "C"
#else
extern
#endif
    int __interceptor_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
        __attribute__((weak));

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument) {
    create_function next = __interceptor_pthread_create;
    if (next == NULL) {
        void *symbol = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&next, &symbol, sizeof(next));
    }
    if (left == 0) return EAGAIN;
    if (left > 0) left--;
    return next(thread, attributes, body, argument);
}

/* No thread can be bound. */
int sched_setaffinity(pid_t process, size_t size, const cpu_set_t *processors) {
    (void)process;
    (void)size;
    (void)processors;
    errno = EPERM;
    return -1;
}

/* Runs a step, for which it would have to wait if the run were in progress whose thread logs. */
static int steps_of_the_log;
static void run_a_step(umbo_log_level level, const char *message, void *user_data) {
    (void)level;
    CHECK(strstr(message, "replica 0 is not bound") != NULL);
    CHECK_OK(umbo_strategy_run((umbo_strategy *)user_data, nothing, NULL, NULL, NULL, NULL));
    steps_of_the_log++;
}

/* Each replica's thread in turn cannot be had. */
static void replicas(void) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_run_options limited = UMBO_RUN_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    int had;
    options.cpu_replicas = REPLICAS;
    limited.timeout_seconds = 600;
    for (had = 0; had < REPLICAS - 1; had++) {
        left = had;
        CHECK_STATUS(umbo_strategy_create(&options, &strategy),
                     UMBO_STATUS_RESOURCE_EXHAUSTED);
        CHECK_MESSAGE("umbo-replica-");
        CHECK(strategy == NULL);
    }
    left = REPLICAS - 1;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    /* Replica 0 needs a thread where there is a deadline. */
    CHECK_STATUS(umbo_strategy_run(strategy, nothing, NULL, NULL, &limited, NULL),
                 UMBO_STATUS_RESOURCE_EXHAUSTED);
    CHECK_OK(umbo_strategy_run(strategy, nothing, NULL, NULL, NULL, NULL));
    left = -1;
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, run_a_step, strategy, NULL));
    CHECK_OK(umbo_strategy_run(strategy, nothing, NULL, NULL, &limited, NULL));
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, NULL, NULL, NULL));
    CHECK(steps_of_the_log == 1);
    umbo_strategy_release(strategy);
}

static void sum(umbo_strategy *strategy, const umbo_value *values) {
    umbo_value *result = NULL;
    CHECK_OK(umbo_strategy_reduce(strategy, values, UMBO_REDUCE_SUM, NULL, &result));
    umbo_value_release(result);
}

/* Central work is done by those who are there, and by all once there are more. */
static void central_work(void) {
    const int64_t size = LARGE;
    umbo_strategy *strategy = NULL;
    umbo_value *items[2], *values;
    int item, look;
    CHECK_OK(umbo_strategy_default(&strategy));
    for (item = 0; item < 2; item++) {
        umbo_tensor *tensor = NULL;
        CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
        items[item] = into_value(tensor);
    }
    values = into_per_replica(2, items);
    CHECK_OK(umbo_set_worker_count(4));
    CHECK_OK(umbo_shutdown());
    left = 1;
    sum(strategy, values);
    CHECK(left == 0);
    check_threads_of_process(2);
    left = -1;
    for (look = 0; look < 10000 && threads_of_process() < 4; look++) {
        sum(strategy, values);
        usleep(1000);
    }
    check_threads_of_process(4);
    umbo_value_release(values);
    umbo_strategy_release(strategy);
}

typedef struct {
    umbo_gradients *gradients;
    umbo_variable *variable;
    const umbo_value *slices;
    int messages;
} logged;

static umbo_status make_as_usual(umbo_variable_request *request, void *user_data, umbo_variable **variable) {
    (void)user_data;
    return umbo_variable_request_next(request, variable);
}

/* Opens and closes a scope, reads the variable, and releases the handle that the call uses which logs. What it logs
 * itself has no effect. */
static void exchange_handles(umbo_log_level level, const char *message, void *user_data) {
    umbo_scope *scope = NULL;
    umbo_gradients *same = NULL;
    static float host[LARGE];
    logged *self = (logged *)user_data;
    self->messages++;
    CHECK(level == UMBO_LOG_WARNING && strstr(message, "central work has fewer threads") != NULL);
    CHECK_OK(umbo_variable_creator_scope_enter(make_as_usual, NULL, NULL, &scope));
    CHECK_OK(umbo_scope_exit(scope));
    CHECK_OK(umbo_variable_download(self->variable, host, sizeof(host)));
    CHECK_OK(umbo_gradients_retain(self->gradients, &same));
    umbo_gradients_release(self->gradients);
    umbo_gradients_release(self->gradients);
    self->gradients = same;
}

static umbo_status add_slices(umbo_replica_context *context, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    logged *self = (logged *)user_data;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_add_indexed_slices(self->gradients, context, 0, self->slices));
    CHECK(self->messages == 1);
    return umbo_gradients_submit_weighted(self->gradients, context, 1);
}

/* A call that uses handles copies so much that it asks for a thread. So does an apply, which changes the variable. */
static void what_a_log_callback_may_do(void) {
    const int64_t shape[2] = {1, LARGE}, count = 1, index = 0;
    const int32_t row_sparse = 1;
    umbo_strategy *strategy = make_strategy(1);
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_optimizer *optimizer = NULL;
    umbo_tensor *rows = NULL, *indices = make_tensor(UMBO_DTYPE_INT64, 1, &count, &index);
    umbo_value *slices = NULL;
    logged self;
    memset(&self, 0, sizeof(self));
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 2, shape, NULL, &rows));
    CHECK_OK(umbo_value_create_indexed_slices(rows, indices, 2, shape, &slices));
    CHECK_OK(umbo_variable_create(strategy, "table", rows, NULL, &self.variable));
    options.row_sparse = &row_sparse;
    CHECK_OK(umbo_gradients_create(strategy, 1, &self.variable, UMBO_LOSS_SUM, &options, &self.gradients));
    CHECK_OK(umbo_optimizer_create_sgd(strategy, NULL, &optimizer));
    self.slices = slices;
    CHECK_OK(umbo_shutdown());
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, exchange_handles, &self, NULL));
    left = 0;
    CHECK_OK(umbo_strategy_run(strategy, add_slices, NULL, &self, NULL, NULL));
    CHECK_OK(umbo_shutdown());
    CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
    CHECK(self.messages == 2);
    left = -1;
    expect_no_messages();
    umbo_gradients_release(self.gradients);
    umbo_optimizer_release(optimizer);
    umbo_variable_release(self.variable);
    umbo_value_release(slices);
    umbo_tensor_release(indices);
    umbo_tensor_release(rows);
    umbo_strategy_release(strategy);
}

int main(void) {
    replicas();
    central_work();
    what_a_log_callback_may_do();
    return finish();
}
