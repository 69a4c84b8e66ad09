/* Programs in which the system refuses the memory of data, mappings and threads. Preloaded
 * with fail_requests.c; usage() says what it is told.
 *
 * Each trial is a child process that runs the whole program while one request fails, or so many in
 * a row, or all from one on. A call that fails must say RESOURCE_EXHAUSTED and leave all variables as
 * they were before it, which a run without failures has recorded call by call. Then memory is back,
 * and the trial continues in one of two ways: the call is repeated and must succeed, or everything is
 * released, still without memory, and the program starts again. Either way it must end with the same
 * bits as the run without failures, and without handles. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#endif
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

/* What the run without failures has found, shared with all trials. */
static struct {
    long requests;
    long calls;
    uint64_t weights[MOST_CALLS]; /* after each call */
} *expected;

/* ---- judging calls */

static enum { RECORDING, REPEATING, RESTARTING } mode;
static int failed_once, restarted;
static jmp_buf restart;
static long call_number;

static void fail(const char *what, const char *call) {
    const char *message = umbo_last_error_message();
    umbo_faults_off();
    fprintf(stderr, "call %ld, %s: %s\n  last error: %s\n", call_number, call, what, message);
    _exit(1);
}

uint64_t weights(void) {
    uint64_t hash = 1469598103934665603u;
    int at;
    for (at = 0; at < MOST_VARIABLES && all.variables[at] != NULL; at++) {
        umbo_tensor *tensor = NULL;
        umbo_view view;
        size_t bytes = sizeof(float), byte;
        int32_t axis;
        if (umbo_variable_read(all.variables[at], &tensor) != UMBO_OK ||
            umbo_tensor_view(tensor, &view) != UMBO_OK) {
            fail("the variables cannot be read", "umbo_variable_read");
        }
        for (axis = 0; axis < view.ndim; axis++) bytes *= (size_t)view.shape[axis];
        for (byte = 0; byte < bytes; byte += sizeof(float)) {
            uint32_t bits;
            memcpy(&bits, (const char *)view.data + byte, sizeof bits);
            hash = (hash ^ bits) * 1099511628211u;
        }
        umbo_tensor_release(tensor);
    }
    return hash;
}

int judge(umbo_status status, const char *call, int repeatable) {
    if (call_number >= MOST_CALLS) fail("there are more calls than foreseen", call);
    if (status == UMBO_OK) {
        if (mode == RECORDING) {
            expected->weights[call_number] = weights();
            expected->calls = call_number + 1;
        }
        call_number++;
        return 0;
    }
    if (status != UMBO_STATUS_RESOURCE_EXHAUSTED) fail(umbo_status_name(status), call);
    if (mode == RECORDING) fail("fails without failures", call);
    if (umbo_faults_refused() == 0) fail("fails although nothing was refused", call);
    /* An iterator that reads ahead tells later what happened while there was no memory. */
    if (failed_once && (repeatable || restarted)) fail("fails although memory is back", call);
    failed_once = 1;
    if (*umbo_last_error_message() == '\0') fail("says nothing", call);
    if (mode == RESTARTING || !repeatable) longjmp(restart, 1);
    umbo_faults_off();
    if (call_number > 0 && weights() != expected->weights[call_number - 1]) {
        fail("has changed variables although it failed", call);
    }
    return 1;
}

void make_tensor(int place, int32_t rank, int64_t rows, int64_t columns) {
    const int64_t shape[2] = {rows, columns};
    CALL(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, rank, shape, numbers, NULL, &all.tensors[place]));
    CALL(umbo_value_from_tensor(all.tensors[place], &all.values[place]));
}

void make_strategy(void) {
    CALL(umbo_set_worker_count(2));
    CALL(umbo_strategy_create_cpu(REPLICAS, &all.strategy));
}

static const struct {
    const char *name;
    void (*run)(void);
    long stride; /* of a sample */
} programs[] = {{"training", training, 15}, {"pipelines", pipelines, 15}, {"trainer", trainer, 9}};

static size_t chosen;

static void program(void) {
    call_number = 0;
    programs[chosen].run();
}

/* ---- trials */

static void finish(void) {
    int64_t live = -1;
    const uint64_t final = (umbo_faults_off(), weights());
    release_all();
    if (final != expected->weights[expected->calls - 1]) fail("the weights differ", "the end");
    if (umbo_live_handles(UMBO_HANDLE_ANY, &live) != UMBO_OK || live != 0) {
        fail("handles are left", "the end");
    }
    if (held != 0) fail("user data are left", "the end");
    _exit(0);
}

static void trial(long start, long number) {
    umbo_faults_arm(start, number);
    if (setjmp(restart) != 0) {
        int64_t live = -1;
        restarted = 1;
        release_all();
        if (umbo_live_handles(UMBO_HANDLE_ANY, &live) != UMBO_OK || live != 0) {
            fail("handles are left", "a failed call");
        }
        if (held != 0) fail("user data are left", "a failed call");
        umbo_faults_off();
    }
    program();
    finish();
}

/* Where a trial hangs. */
static void hangs(int number) {
    char text[] = "hangs in call      \n";
    long left = call_number, at;
    (void)number;
    for (at = 18; at >= 14; at--, left /= 10) text[at] = (char)('0' + left % 10);
    (void)!write(2, text, sizeof text - 1);
    _exit(3);
}

/* Runs `work` in a child, which may take a minute. Returns its status as waitpid() gives it. */
static int in_child(void (*work)(long, long), long start, long number) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, hangs);
        alarm(60);
        work(start, number);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        exit(2);
    }
    return status;
}

static void record(long start, long number) {
    mode = RECORDING;
    program();
    release_all();
    (void)start;
    (void)number;
    _exit(held != 0);
}

static void count_requests(long start, long number) {
    (void)start;
    (void)number;
    mode = REPEATING;
    umbo_faults_arm(LONG_MAX, 0);
    program();
    release_all();
    expected->requests = umbo_faults_off();
    _exit(0);
}

/* A .npy file of a column of numbers. */
static void write_array(void) {
    static const char header[] =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 2), }";
    char text[128];
    FILE *file;
    memset(text, ' ', sizeof text);
    memcpy(text, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(text + 10, header, sizeof header - 1);
    text[127] = '\n';
    snprintf(array_file, sizeof array_file, "faults-%ld.npy", (long)getpid());
    file = fopen(array_file, "wb");
    if (file == NULL || fwrite(text, sizeof text, 1, file) != 1 ||
        fwrite(numbers, 2 * sizeof(float), 12, file) != 12 || fclose(file) != 0) {
        perror(array_file);
        exit(2);
    }
}

static void usage(void) {
    fprintf(stderr,
            "usage: faults every|sample training|pipelines|trainer\n"
            "  every: all requests; sample: some of them, for about ten seconds\n"
            "  UMBO_FAULTS_ONLY=number: only this trial; with UMBO_FAULTS_HERE in this process\n"
            "  UMBO_FAULTS_SHOW=1: prints where refused requests come from\n");
    exit(2);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int mode;
        long number;
    } ways[] = {{"one fails, and its call is repeated", REPEATING, 1},
                {"twenty fail, and the call is repeated", REPEATING, 20},
                {"all fail, and the call is repeated", REPEATING, LONG_MAX},
                {"all fail, and everything is released", RESTARTING, LONG_MAX}};
    const size_t way_count = sizeof ways / sizeof *ways;
    const size_t program_count = sizeof programs / sizeof *programs;
    const time_t began = time(NULL);
    size_t way;
    long trials = 0, wrong = 0, request, stride = 1, at, total;
    if (argc < 3) usage();
    while (chosen < program_count && strcmp(argv[2], programs[chosen].name) != 0) chosen++;
    if (chosen == program_count) usage();
    for (at = 0; at < LARGE; at++) numbers[at] = (float)(at % 17) / 8;
    expected = mmap(NULL, sizeof *expected, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (expected == MAP_FAILED) return 2;
    write_array();
    if (in_child(record, 0, 0) != 0 || in_child(count_requests, 0, 0) != 0) {
        fprintf(stderr, "the program fails without failures\n");
        remove(array_file);
        return 1;
    }
    total = expected->requests * (long)way_count;
    if (strcmp(argv[1], "sample") == 0) stride = programs[chosen].stride;
    else if (strcmp(argv[1], "every") != 0) usage();
    printf("%ld calls, %ld requests\n", expected->calls, expected->requests);
    /* A few more, since threads make the number differ from run to run. */
    for (way = 0; way < way_count; way++) {
        for (request = 1 + (long)way; request <= expected->requests + 5; request += stride) {
            int status;
            if (getenv("UMBO_FAULTS_ONLY") != NULL &&
                atol(getenv("UMBO_FAULTS_ONLY")) != (long)way * 100000 + request) continue;
            fflush(NULL);
            mode = ways[way].mode;
            if (getenv("UMBO_FAULTS_HERE") != NULL) trial(request, ways[way].number);
            status = in_child(trial, request, ways[way].number);
            trials++;
            if (status == 0) continue;
            wrong++;
            fprintf(stderr, "from request %ld on %s (UMBO_FAULTS_ONLY=%ld): %s %d\n", request,
                    ways[way].name, (long)way * 100000 + request,
                    WIFSIGNALED(status) ? "signal" : "exit",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
    remove(array_file);
    printf("%ld trials of %ld, %ld wrong, %ld s\n", trials, total, wrong, (long)(time(NULL) - began));
    return wrong != 0;
}
