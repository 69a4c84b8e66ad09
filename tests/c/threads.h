/* How many threads a process has, for tests that start and end them. */
#ifndef UMBO_TESTS_THREADS_H
#define UMBO_TESTS_THREADS_H

#include <dirent.h>
#include <unistd.h>

#include "check.h"

#ifdef __SANITIZE_THREAD__
enum { OF_CHECKER = 1 }; /* ThreadSanitizer has a thread of its own once there is a second one */
#else
enum { OF_CHECKER = 0 };
#endif

static int threads_of_process(void) {
    int count = -OF_CHECKER;
    DIR *list = opendir("/proc/self/task");
    struct dirent *entry;
    CHECK(list != NULL);
    while ((entry = readdir(list)) != NULL) count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}

/* Demands that the process comes to have so many threads: one that was joined may still be on its way out of the
 * system's list. */
static void check_threads_of_process(int expected) {
    int look;
    for (look = 0; look < 10000 && threads_of_process() != expected; look++) usleep(1000);
    if (threads_of_process() == expected) return;
    fprintf(stderr, "%d threads in place of %d\n", threads_of_process(), expected);
    check_failed(__FILE__, __LINE__, "how many threads the process has");
}

#endif
