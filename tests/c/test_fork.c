/* Forks: what the child can do with what was made before, what it cannot and is told so, and that it
 * can begin anew. Children run under an alarm, so that a hang is a failure. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>

#include "child.h"

enum { REPLICAS = 2, LARGE = 1 << 19 };

#ifdef __SANITIZE_ADDRESS__
static pid_t first_process;

/* LeakSanitizer asks this before it looks. What only threads of the parent knew is nobody's in a child;
 * that is what forks do, and no leak. */
#ifdef __cplusplus
extern "C"
#endif
    int
    __lsan_is_turned_off(void) {
    return getpid() != first_process;
}
#endif

typedef struct {
    umbo_strategy *strategy;
    umbo_variable *variable, *plain;
    umbo_tensor *large;
    umbo_value *values; /* one large tensor for each replica */
    umbo_metrics *metrics;
} world;

static umbo_status add_one(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    umbo_value *one = float_value(1);
    umbo_status status = umbo_variable_assign_add((umbo_variable *)user_data, one);
    (void)context;
    (void)args;
    (void)result;
    umbo_value_release(one);
    return status;
}

static umbo_status nothing(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    return UMBO_OK;
}

static umbo_status merge(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                         umbo_value **result) {
    (void)strategy;
    (void)args;
    (void)user_data;
    (void)result;
    return UMBO_OK;
}

static umbo_value *large_values(void) {
    const int64_t size = LARGE;
    umbo_value *items[REPLICAS];
    int32_t replica;
    for (replica = 0; replica < REPLICAS; replica++) {
        umbo_tensor *tensor = NULL;
        CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
        items[replica] = into_value(tensor);
    }
    return into_per_replica(REPLICAS, items);
}

static void make_world(world *self) {
    const int64_t size = LARGE;
    umbo_value *sum = NULL;
    self->strategy = make_strategy(REPLICAS);
    self->variable = make_variable(self->strategy, 0, UMBO_AGGREGATION_MEAN);
    self->plain = make_variable(NULL, 7, UMBO_AGGREGATION_NONE);
    CHECK_OK(umbo_metrics_create(self->strategy, &self->metrics));
    CHECK_OK(umbo_metrics_define(self->metrics, "seen", UMBO_METRIC_COUNT, NULL, NULL));
    self->values = large_values();
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &self->large));
    CHECK_OK(umbo_strategy_run(self->strategy, add_one, self->variable, NULL, NULL, NULL));
    /* Makes the threads for central work. */
    CHECK_OK(umbo_strategy_reduce(self->strategy, UMBO_REDUCE_SUM, self->values, NULL, &sum));
    umbo_value_release(sum);
}

static void release_world(world *self) {
    umbo_tensor_release(self->large);
    umbo_value_release(self->values);
    umbo_metrics_release(self->metrics);
    umbo_variable_release(self->plain);
    umbo_variable_release(self->variable);
    umbo_strategy_release(self->strategy);
}

/* Everything that needs the threads of the strategy is refused, at once and with the reason. */
static void old_strategy_is_refused(world *self) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    umbo_variable *made = NULL;
    umbo_value *one = float_value(1);
    umbo_tensor *initial = make_float(1);
    umbo_metric metric = UMBO_METRIC_INIT;
    int64_t late = -1;
    CHECK_STATUS(umbo_strategy_run(self->strategy, nothing, NULL, NULL, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("forked");
    CHECK_MESSAGE("make a new one");
    options.timeout_seconds = 1;
    CHECK_STATUS(umbo_strategy_run(self->strategy, nothing, NULL, NULL, &options, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_variable_assign(self->variable, one), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("forked");
    CHECK_STATUS(umbo_strategy_synchronize(self->strategy), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("forked");
    CHECK_STATUS(umbo_variable_create(self->strategy, "w", initial, NULL, &made),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_OK(umbo_strategy_late_replicas(self->strategy, &late));
    CHECK(late == 0);
    /* Metrics have no threads. What they have is read. */
    CHECK_OK(umbo_metrics_result(self->metrics, 0, &metric));
    CHECK_STATUS(umbo_metrics_define(self->metrics, "more", UMBO_METRIC_SUM, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("umbo_metrics_define: metrics: they were made before this process was forked");
    CHECK(strstr(umbo_last_error_message(), "threads") == NULL);
    CHECK_STATUS(umbo_metrics_reset(self->metrics), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("make new metrics of a strategy of this process");
    umbo_tensor_release(initial);
    umbo_value_release(one);
}

static void old_values_are_read(world *self, float at_least) {
    umbo_view view;
    umbo_tensor *copy = NULL;
    const char *name = NULL;
    int64_t devices = 0;
    CHECK(float_of_variable(self->variable) >= at_least);
    CHECK(float_of_variable(self->plain) == 7);
    CHECK_OK(umbo_variable_view(self->variable, NULL, &view));
    CHECK(*(const float *)view.data >= at_least);
    CHECK_OK(umbo_tensor_view(self->large, &view));
    CHECK_OK(umbo_tensor_copy(self->large, NULL, &copy));
    umbo_tensor_release(copy);
    CHECK_OK(umbo_strategy_compute_device(self->strategy, 1, &name));
    CHECK(strstr(name, "CPU:1") != NULL);
    CHECK_OK(umbo_logical_device_count(UMBO_DEVICE_CPU, &devices));
    CHECK(devices >= REPLICAS);
}

/* A strategy that is made here does everything, on threads of this process. */
static void new_strategy_works(void) {
    umbo_strategy *strategy = make_strategy(REPLICAS);
    umbo_variable *variable = make_variable(strategy, 1, UMBO_AGGREGATION_MEAN);
    umbo_value *values = large_values(), *sum = NULL, *two = float_value(2);
    int32_t step;
    for (step = 0; step < 20; step++)
        CHECK_OK(umbo_strategy_run(strategy, add_one, variable, NULL, NULL, NULL));
    CHECK(float_of_variable(variable) == 21);
    CHECK_OK(umbo_variable_assign(variable, two));
    CHECK(float_of_variable(variable) == 2);
    CHECK_OK(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, values, NULL, &sum));
    CHECK_OK(umbo_strategy_synchronize(strategy));
    umbo_value_release(sum);
    umbo_value_release(two);
    umbo_value_release(values);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
}

static void default_strategy_works(world *self) {
    umbo_value *eight = float_value(8);
    umbo_variable *variable = make_variable(NULL, 3, UMBO_AGGREGATION_NONE);
    CHECK_OK(umbo_variable_assign(self->plain, eight));
    CHECK(float_of_variable(self->plain) == 8);
    CHECK_OK(umbo_variable_assign_add(variable, eight));
    CHECK(float_of_variable(variable) == 11);
    umbo_variable_release(variable);
    umbo_value_release(eight);
}

static int sinks;

static void sink(umbo_log_level level, const char *message, void *user_data) {
    (void)level;
    (void)message;
    (void)user_data;
    sinks++;
}

typedef struct {
    world *of;
    float at_least;
    int releases;
} child;

static void as_child(void *argument) {
    const child *self = (const child *)argument;
    old_values_are_read(self->of, self->at_least);
    old_strategy_is_refused(self->of);
    default_strategy_works(self->of);
    new_strategy_works();
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, sink, NULL, NULL));
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, NULL, NULL, NULL));
    if (self->releases) release_world(self->of);
}

static void forked(world *self, float at_least, int releases) {
    child work;
    work.of = self;
    work.at_least = at_least;
    work.releases = releases;
    in_child(as_child, &work);
}

/* ---- beside a thread that is in steps, in the registry, in the log */

typedef struct {
    world *of;
    pthread_mutex_t mutex;
    int stop;
} traffic;

static int stopped(traffic *self) {
    int stop;
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    stop = self->stop;
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
    return stop;
}

static void *steps(void *argument) {
    traffic *self = (traffic *)argument;
    while (!stopped(self)) {
        umbo_value *sum = NULL;
        CHECK_OK(umbo_strategy_run(self->of->strategy, add_one, self->of->variable, NULL, NULL, NULL));
        CHECK_OK(umbo_strategy_reduce(self->of->strategy, UMBO_REDUCE_SUM, self->of->values, NULL, &sum));
        umbo_value_release(sum);
    }
    return NULL;
}

static void *names(void *argument) {
    traffic *self = (traffic *)argument;
    while (!stopped(self)) {
        const char *name = NULL;
        int64_t devices = 0;
        umbo_variable *variable = make_variable(self->of->strategy, 1, UMBO_AGGREGATION_SUM);
        CHECK_OK(umbo_variable_name(variable, &name));
        CHECK_OK(umbo_strategy_compute_device(self->of->strategy, 0, &name));
        CHECK_OK(umbo_logical_device_count(UMBO_DEVICE_CPU, &devices));
        umbo_variable_release(variable);
        CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, sink, NULL, NULL));
    }
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    return NULL;
}

static void fork_beside_steps(world *self) {
    traffic busy;
    pthread_t threads[2];
    int32_t round, rounds = getenv("UMBO_TEST_UNDER_VALGRIND") != NULL ? 3 : 20;
    busy.of = self;
    busy.stop = 0;
    CHECK(pthread_mutex_init(&busy.mutex, NULL) == 0);
    CHECK(pthread_create(&threads[0], NULL, steps, &busy) == 0);
    CHECK(pthread_create(&threads[1], NULL, names, &busy) == 0);
    for (round = 0; round < rounds; round++) forked(self, 1, round % 2);
    CHECK(pthread_mutex_lock(&busy.mutex) == 0);
    busy.stop = 1;
    CHECK(pthread_mutex_unlock(&busy.mutex) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
    CHECK(pthread_join(threads[1], NULL) == 0);
    pthread_mutex_destroy(&busy.mutex);
}

/* ---- in callbacks */

typedef struct {
    world *of;
    int32_t replica;
    int own_end; /* the child ends in the callback, not by returning from it */
    int in_child;
    int ends[2];
    pid_t pid;
} fork_in_run;

static umbo_status forking(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    fork_in_run *self = (fork_in_run *)user_data;
    umbo_view view;
    (void)args;
    (void)result;
    if (replica_id(context) != self->replica) return UMBO_OK;
    self->pid = fork();
    CHECK(self->pid >= 0);
    if (self->pid > 0) return UMBO_OK;
    alarm(60);
    self->in_child = 1;
    CHECK_OK(umbo_variable_view(self->of->variable, context, &view));
    CHECK(*(const float *)view.data >= 1);
    CHECK_STATUS(umbo_replica_context_merge_call(context, merge, NULL, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("forked");
    if (self->own_end) end_child(self->ends[1]);
    return UMBO_OK;
}

static void fork_in_callback(world *self, int32_t replica, int own_end, int with_deadline) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    fork_in_run run;
    umbo_status status;
    char said = 0;
    int ended = 0;
    memset(&run, 0, sizeof(run));
    run.of = self;
    run.replica = replica;
    run.own_end = own_end;
    if (with_deadline) options.timeout_seconds = 600;
    CHECK(pipe(run.ends) == 0);
    status = umbo_strategy_run(self->strategy, forking, &run, NULL, &options, NULL);
    if (run.in_child) {
        /* Only replica 0 of a plain run comes back to its caller. */
        if (status != UMBO_STATUS_FAILED_PRECONDITION || replica != 0 || with_deadline) _exit(3);
        CHECK_MESSAGE("forked");
        new_strategy_works();
        release_world(self);
        end_child(run.ends[1]);
    }
    CHECK_OK(status);
    close(run.ends[1]);
    if (own_end || (replica == 0 && !with_deadline)) {
        CHECK(read(run.ends[0], &said, 1) == 1 && said == 'k');
        CHECK(waitpid(run.pid, NULL, 0) == run.pid);
    } else {
        /* The child's only thread was the library's, and ends with the callback. */
        CHECK(waitpid(run.pid, &ended, 0) == run.pid);
        CHECK(WIFEXITED(ended));
        CHECK(WEXITSTATUS(ended) == 0 || getenv("UMBO_TEST_UNDER_VALGRIND") != NULL);
    }
    close(run.ends[0]);
}

/* A child of a child, with a strategy of each generation. */
static void fork_again(world *self) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        world own;
        alarm(60);
        make_world(&own);
        forked(&own, 1, 1);
        old_strategy_is_refused(self);
        CHECK_OK(umbo_strategy_run(own.strategy, add_one, own.variable, NULL, NULL, NULL));
        raise(SIGKILL);
    }
    {
        int ended = 0;
        CHECK(waitpid(pid, &ended, 0) == pid);
        CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    }
}

int main(void) {
    world self;
#ifdef __SANITIZE_ADDRESS__
    first_process = getpid();
#endif
    CHECK_OK(umbo_set_worker_count(3));
    make_world(&self);
    forked(&self, 1, 1);
    forked(&self, 1, 0);
    fork_again(&self);
    fork_in_callback(&self, 0, 0, 0);
    fork_in_callback(&self, 0, 1, 0);
    fork_in_callback(&self, 1, 0, 0);
    fork_in_callback(&self, 1, 1, 0);
    fork_in_callback(&self, 0, 0, 1);
    fork_in_callback(&self, 1, 1, 1);
    fork_beside_steps(&self);
    /* The parent is as it was. */
    CHECK_OK(umbo_strategy_run(self.strategy, add_one, self.variable, NULL, NULL, NULL));
    CHECK_OK(umbo_strategy_synchronize(self.strategy));
    release_world(&self);
    return finish();
}
