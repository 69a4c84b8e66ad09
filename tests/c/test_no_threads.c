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

static umbo_status nothing(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    return UMBO_OK;
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
    CHECK_OK(umbo_strategy_run(strategy, nothing, NULL, NULL, &limited, NULL));
    umbo_strategy_release(strategy);
}

static void sum(umbo_strategy *strategy, const umbo_value *values) {
    umbo_value *result = NULL;
    CHECK_OK(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, values, NULL, &result));
    umbo_value_release(result);
}

/* Central work is done by those who are there, and by all once there are more. */
static void central_work(void) {
    const int64_t size = LARGE;
    umbo_strategy *strategy = NULL;
    umbo_value *items[2], *values;
    int item, look;
    CHECK_OK(umbo_default_strategy(&strategy));
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

int main(void) {
    replicas();
    central_work();
    return finish();
}
