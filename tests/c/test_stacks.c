/* The threads of the library: stacks as large as the process's, or as asked for; signals that go to the
 * program's threads. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include "check.h"

#include <umbo/all.h>

enum { REPLICAS = 3, MIB = 1 << 20 };

/* Writes to so many quarters of a MiB of locals. In pieces, since checkers take larger steps of the
 * stack for a change to another one. */
static int fill(int quarters) {
    volatile char locals[MIB / 4];
    size_t byte;
    for (byte = 0; byte < sizeof(locals); byte += 4096) locals[byte] = 1;
    return quarters > 1 ? fill(quarters - 1) + locals[0] : locals[4096];
}

static int fill_3(void) {
    return fill(3 * 4);
}

static int fill_20(void) {
    return fill(20 * 4);
}

typedef struct {
    int (*function)(void);
    int32_t replica; /* the one that calls it; -1: all */
} task;

static umbo_status perform(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    task *self = (task *)user_data;
    (void)args;
    (void)result;
    if (self->replica >= 0 && replica_id(context) != self->replica) return UMBO_OK;
    return self->function() > 0 ? UMBO_OK : UMBO_STATUS_ABORTED;
}

static umbo_status run(umbo_strategy *strategy, int (*function)(void), int32_t replica,
                       double deadline) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    task self;
    self.function = function;
    self.replica = replica;
    options.timeout_seconds = deadline;
    return umbo_strategy_run(strategy, perform, NULL, &self, &options, NULL);
}

static umbo_strategy *with_stack(size_t bytes) {
    umbo_strategy *strategy = NULL;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    options.cpu_replicas = REPLICAS;
    options.thread_stack_bytes = bytes;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    return strategy;
}

/* Three MiB of locals on every replica, those of threads of the library's too. */
static void *every_replica(void *nothing) {
    umbo_strategy *strategy = make_strategy(REPLICAS);
    (void)nothing;
    CHECK_OK(run(strategy, fill_3, -1, UMBO_INFINITE));
    CHECK_OK(run(strategy, fill_3, -1, 600));
    umbo_strategy_release(strategy);
    return NULL;
}

static void in_thread(void *(*function)(void *), size_t stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, stack) == 0);
    CHECK(pthread_create(&thread, &attributes, function, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
}

static void the_option(void) {
    umbo_strategy *strategy = with_stack((size_t)32 * MIB);
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    CHECK_OK(run(strategy, fill_20, 1, UMBO_INFINITE));
    CHECK_OK(run(strategy, fill_20, 2, UMBO_INFINITE));
    CHECK_OK(run(strategy, fill_20, 0, 600));
    umbo_strategy_release(strategy);
    strategy = NULL;
    options.cpu_replicas = REPLICAS;
    options.thread_stack_bytes = 4096;
    CHECK_STATUS(umbo_strategy_create(&options, &strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("thread_stack_bytes: 4096");
    options.thread_stack_bytes = (size_t)-1;
    CHECK_STATUS(umbo_strategy_create(&options, &strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("thread_stack_bytes");
    CHECK(strategy == NULL);
}

static int usr1_is_blocked(void) {
    sigset_t set;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &set) == 0);
    return sigismember(&set, SIGUSR1) == 1 && sigismember(&set, SIGSEGV) == 0;
}

static pthread_t main_thread;
static volatile sig_atomic_t handled, elsewhere;

static void handle(int number) {
    (void)number;
    handled++;
    if (!pthread_equal(pthread_self(), main_thread)) elsewhere++;
}

/* Signals of the process are handled on its own threads. */
static void signals(void) {
    umbo_strategy *strategy = make_strategy(REPLICAS);
    struct sigaction action;
    int32_t round;
    sigset_t before;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &before) == 0);
    CHECK(sigismember(&before, SIGUSR1) == 0);
    memset(&action, 0, sizeof(action));
    action.sa_handler = handle;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    main_thread = pthread_self();
    CHECK_OK(run(strategy, usr1_is_blocked, 1, UMBO_INFINITE));
    CHECK_OK(run(strategy, usr1_is_blocked, 2, UMBO_INFINITE));
    for (round = 0; round < 100; round++) CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(handled > 0 && elsewhere == 0);
    umbo_strategy_release(strategy);
}

int main(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
    the_option();
    signals();
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)6 * MIB) {
        every_replica(NULL);
        in_thread(every_replica, (size_t)6 * MIB);
    }
    return finish();
}
