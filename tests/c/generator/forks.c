/* Written by tests/c/generator from umbo.h: a process that uses the library forks at random moments. In each
 * child every function answers FAILED_PRECONDITION, releases do nothing and the process ends well; in the
 * parent nothing changes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#include <umbo/dlpack.h>
#include <umbo/all.h>

enum { REPLICAS = 2, FORKS = 200, SIZE = 1 << 18 };

#ifdef __SANITIZE_ADDRESS__
static pid_t first_process;

/* LeakSanitizer asks this before it looks: what a child has is its parent's. */
#ifdef __cplusplus
extern "C"
#endif
    int
    __lsan_is_turned_off(void) {
    return getpid() != first_process;
}
#endif

static umbo_strategy *strategy;
static umbo_variable *variable;
static umbo_iterator *iterator;
static umbo_value *values;
static int failures, stop;
static int64_t steps;

static void refused(umbo_status status, const char *function) {
    const size_t length = strlen(function);
    const char *const message = umbo_last_error_message();
    if (status != UMBO_STATUS_FAILED_PRECONDITION || strncmp(message, function, length) != 0 ||
        strstr(message, "forked") == NULL || strstr(message, "exec") == NULL) {
        fprintf(stderr, "%s in a child: %s: %s\n", function, umbo_status_name(status), message);
        failures++;
    }
}

static void call_everything(void) {
    /* CALLS */
}

static void release_everything(void) {
    umbo_value_release(values);
    umbo_iterator_release(iterator);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
}

static void as_child(void) {
    umbo_view view;
    alarm(60);
    CHECK(strcmp(umbo_version(), UMBO_VERSION) == 0);
    CHECK(strcmp(umbo_status_name(UMBO_STATUS_ABORTED), "ABORTED") == 0);
    call_everything();
    refused(umbo_variable_view(variable, NULL, UMBO_DTYPE_NONE, &view), "umbo_variable_view");
    refused(umbo_strategy_synchronize(strategy), "umbo_strategy_synchronize");
    release_everything();
    /* With what runs at the end of a process. */
    exit(failures != 0);
}

static void ends_well(pid_t child) {
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void fork_here(void) {
    pid_t child;
    fflush(NULL);
    child = fork();
    if (child == 0) as_child();
    ends_well(child);
}

static umbo_status add_one(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    umbo_value *one = float_value(1);
    const umbo_status status = umbo_variable_assign_add(variable, one);
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    umbo_value_release(one);
    return status;
}

/* A child of a callback may use exec and _exit. */
static umbo_status fork_on_last_replica(umbo_replica_context *context, const umbo_value *args,
                                        void *user_data, umbo_value **result) {
    if (replica_id(context) == REPLICAS - 1) {
        pid_t child = fork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        ends_well(child);
        child = fork();
        if (child == 0) {
            refused(umbo_replica_context_get_info(context, NULL), "umbo_replica_context_get_info");
            _exit(failures != 0);
        }
        ends_well(child);
    }
    return add_one(context, args, user_data, result);
}

/* Steps, central work, input with threads of its own and handles that come and go. */
static void *train(void *unused) {
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        umbo_value *sum = NULL, *element = NULL;
        CHECK_OK(umbo_strategy_run(strategy, add_one, NULL, NULL, NULL, NULL));
        steps++;
        CHECK_OK(umbo_strategy_reduce(strategy, values, UMBO_REDUCE_SUM, NULL, &sum));
        CHECK_OK(umbo_iterator_next(iterator, &element));
        if (element == NULL) CHECK_OK(umbo_iterator_reset(iterator));
        umbo_value_release(element);
        umbo_value_release(sum);
    }
    return unused;
}

int main(void) {
    const int forks = getenv("UMBO_TEST_UNDER_VALGRIND") != NULL ? 5 : FORKS;
    const int64_t rows = 100;
    umbo_dataset *dataset = NULL;
    umbo_tensor *tensor = NULL;
    umbo_value *elements;
    pthread_t thread;
    unsigned seed = 1;
    int number;
    pid_t child;
#ifdef __SANITIZE_ADDRESS__
    first_process = getpid();
#endif
    /* Before the first use a child is a process like any other. */
    CHECK(umbo_version() != NULL);
    fflush(NULL);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        umbo_strategy *own = make_strategy(REPLICAS);
        umbo_strategy_release(own);
        _exit(finish());
    }
    ends_well(child);

    strategy = make_strategy(REPLICAS);
    variable = make_variable(strategy, 0, UMBO_AGGREGATION_MEAN);
    values = zeros_of_replicas(REPLICAS, SIZE);
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &rows, NULL, &tensor));
    elements = into_value(tensor);
    CHECK_OK(umbo_dataset_from_tensor_slices(elements, &dataset));
    umbo_value_release(elements);
    CHECK_OK(umbo_dataset_prefetch(&dataset, 4));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    umbo_dataset_release(dataset);
    fork_here();
    CHECK_OK(umbo_strategy_run(strategy, fork_on_last_replica, NULL, NULL, NULL, NULL));
    steps++;
    CHECK(pthread_create(&thread, NULL, train, NULL) == 0);
    for (number = 0; number < forks; number++) {
        usleep((useconds_t)(rand_r(&seed) % 3000));
        fork_here();
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
    /* The parent is as if it had not forked. */
    CHECK(float_of_variable(variable) == (float)steps);
    CHECK_OK(umbo_strategy_synchronize(strategy));
    release_everything();
    printf("%d forks beside %lld steps\n", forks, (long long)steps);
    return finish();
}
