/* UMBO_CHECK without any header of C's: what it prints, where, and how the program ends. */
#include <umbo/expert.h>

/* Compiled before any header of the standard library. */
static void fail_at_line_6(void) {
    UMBO_CHECK(umbo_metrics_create(NULL, NULL));
}

/* A status of the program's own, without a message. */
static void fail_without_message(void) {
    umbo_clear_last_error();
    UMBO_CHECK(UMBO_STATUS_DATA_LOSS);
}

static void succeed(void) {
    UMBO_CHECK(UMBO_OK);
}

static int never_returns(int value) {
    if (value == 1) return value;
    umbo_check_failed(UMBO_STATUS_ABORTED, NULL, 0);
    /* no warning here: the compiler knows that nothing returns */
}

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void say_goodbye(void) { printf("atexit "); }

/* Runs a function in a child whose output goes to a pipe, and gets what it printed. The exit code has to be `code`. */
static void run(void (*function)(void), int code, char *text, size_t capacity) {
    int ends[2], status = 0;
    size_t length = 0;
    ssize_t got;
    pid_t pid;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        atexit(say_goodbye);
        printf("printed ");
        function();
        exit(0);
    }
    close(ends[1]);
    while (length + 1 < capacity && (got = read(ends[0], text + length, capacity - 1 - length)) > 0) {
        length += (size_t)got;
    }
    text[length] = '\0';
    close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

int main(void) {
    char text[1024], expected[1024];
    CHECK(never_returns(1) == 1);

    run(succeed, 0, text, sizeof text);
    CHECK(strcmp(text, "printed atexit ") == 0);

    /* What was printed before comes first, and functions of atexit() run. */
    run(fail_without_message, EXIT_FAILURE, text, sizeof text);
    snprintf(expected, sizeof expected, "printed %s:12: DATA_LOSS\natexit ", __FILE__);
    CHECK(strcmp(text, expected) == 0);

    run(fail_at_line_6, EXIT_FAILURE, text, sizeof text);
    snprintf(expected, sizeof expected, "printed %s:6: umbo_metrics_create: ", __FILE__);
    CHECK(strncmp(text, expected, strlen(expected)) == 0);
    return finish();
}
