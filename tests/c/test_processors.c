/* How many processors this process may use, and a replica on each. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* The replicas of a strategy that has one for each processor. */
static int64_t replicas_of_auto(void) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
    umbo_strategy *strategy = NULL;
    options.cpu_replicas = UMBO_AUTO;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    CHECK_OK(umbo_strategy_get_info(strategy, &info));
    umbo_strategy_release(strategy);
    return info.local_replica_count;
}

/* In a process that may run on one processor, from before its first use of the library. */
static int on_one_processor(const cpu_set_t *all) {
    int64_t count = 0;
    cpu_set_t one;
    int processor = 0;
    while (!CPU_ISSET(processor, all)) processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) return 1;
    CHECK_OK(umbo_processor_count(&count));
    return count == 1 && replicas_of_auto() == 1 ? 0 : 1;
}

int main(void) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    const char *names[1] = {"CPU:0"};
    umbo_strategy *strategy = NULL;
    cpu_set_t all;
    int64_t count = 0;
    int status = 0;
    pid_t child;
    CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(on_one_processor(&all));
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    CHECK_STATUS(umbo_processor_count(NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_processor_count(&count));
    CHECK(count >= 1 && count <= CPU_COUNT(&all)); /* a quota may leave fewer */
    CHECK(replicas_of_auto() == (count < 1024 ? count : 1024));

    options.cpu_replicas = -2;
    CHECK_STATUS(umbo_strategy_create(&options, &strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.cpu_replicas: -2; must be 0 or more, or UMBO_AUTO (-13)");
    options.cpu_replicas = UMBO_AUTO;
    options.compute_devices = names;
    options.compute_device_count = 1;
    CHECK_STATUS(umbo_strategy_create(&options, &strategy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("cpu_replicas");
    return finish();
}
