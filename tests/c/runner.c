/* The tests of a folder in one program: check.h calls the `main` of test_NAME.c `test_NAME`.
 *
 *   runner NAME [ARGUMENT...]        runs this test
 *   runner --part I N [ARGUMENT...]  runs every Nth test, from the one of index I, in a process and a folder of its own:
 *                                    under valgrind, which is started once and reads the library once
 *
 * The parent calls nothing of the library, which ends at a fork. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEST(name) int test_##name(void);
#define TEST_WITH_ARGUMENTS(name) int test_##name(int count, char **arguments);
#include "tests.inc"
#undef TEST
#undef TEST_WITH_ARGUMENTS

static const struct {
    const char *name;
    int (*run)(void);
    int (*run_with_arguments)(int count, char **arguments);
} tests[] = {
#define TEST(name) {#name, test_##name, NULL},
#define TEST_WITH_ARGUMENTS(name) {#name, NULL, test_##name},
#include "tests.inc"
};

#define TESTS (sizeof(tests) / sizeof(tests[0]))

static int run(size_t index, int count, char **arguments) {
    return tests[index].run != NULL ? tests[index].run() : tests[index].run_with_arguments(count, arguments);
}

/* The exit status of the test's process; 128 and more for a signal. */
static int run_in_a_child(size_t index, int count, char **arguments) {
    int status = 0;
    pid_t child;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        const char *const name = tests[index].name;
        if ((mkdir(name, 0777) != 0 && errno != EEXIST) || chdir(name) != 0) {
            perror(name);
            exit(1);
        }
        exit(run(index, count, arguments));
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        exit(1);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
    size_t index;
    int failed = 0;
    if (argc >= 4 && strcmp(argv[1], "--part") == 0) {
        const size_t first = (size_t)atoi(argv[2]), every = (size_t)atoi(argv[3]);
        if (every == 0 || first >= TESTS) return 2;
        for (index = first; index < TESTS; index += every) {
            const int status = run_in_a_child(index, argc - 3, argv + 3);
            printf("%s: %s\n", tests[index].name, status == 0 ? "passed" : "FAILED");
            if (status != 0) {
                printf("%s: exit status %d\n", tests[index].name, status);
                failed++;
            }
        }
        return failed != 0;
    }
    for (index = 0; argc >= 2 && index < TESTS; index++)
        if (strcmp(tests[index].name, argv[1]) == 0) return run(index, argc - 1, argv + 1);
    fprintf(stderr, "usage: NAME [ARGUMENT...], or --part I N; the names:\n");
    for (index = 0; index < TESTS; index++) fprintf(stderr, "  %s\n", tests[index].name);
    return 2;
}
