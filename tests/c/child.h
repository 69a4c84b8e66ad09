/* Children of a fork, which run under an alarm so that a hang is a failure. */
#ifndef UMBO_TESTS_CHILD_H
#define UMBO_TESTS_CHILD_H

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Says that the child has come here, and ends it without a word from atexit functions or checkers of
 * leaks: what only threads of the parent's knew is nobody's in the child. */
static CHECK_MAYBE_UNUSED void end_child(int pipe_end) {
    if (write(pipe_end, "k", 1) != 1) _exit(1);
    raise(SIGKILL);
}

/* Has a child do `work`, which must come to its end there. */
static CHECK_MAYBE_UNUSED void in_child(void (*work)(void *argument), void *argument) {
    int ends[2];
    char said = 0;
    pid_t pid;
    CHECK(pipe(ends) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(60);
        close(ends[0]);
        work(argument);
        end_child(ends[1]);
    }
    close(ends[1]);
    CHECK(read(ends[0], &said, 1) == 1 && said == 'k');
    close(ends[0]);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

#endif
