/* The processes: started by a fork, watched, and never left behind. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "wire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void *ranks_shared(size_t bytes) {
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("ranks: shared memory");
        exit(1);
    }
    return memory;
}

static int work_as_a_rank(struct wire *wire, int rank, ranks_fn work, void *argument) {
    umbo_communicator *communicator = NULL;
    int code;
    if (wire_join(wire, rank, &communicator) != UMBO_OK) {
        fprintf(stderr, "ranks: rank %d: %s\n", rank, umbo_last_error_message());
        return 1;
    }
    code = work(communicator, rank, argument);
    umbo_communicator_release(communicator);
    return code;
}

static void note_end(struct wire *wire, int rank, int status, struct ranks_outcome *outcome) {
    int alive = ALIVE;
    outcome->code[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome->signal[rank] = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    /* What the rank has said itself is more. */
    __atomic_compare_exchange_n(&wire->members[rank].fate, &alive, WIFSIGNALED(status) ? KILLED : ENDED, 0,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

struct ranks_outcome ranks_run(const struct ranks_options *options, ranks_fn work, void *argument) {
    struct ranks_outcome outcome;
    const int size = options->size;
    const size_t bytes = sizeof(struct wire) + (size_t)(size * size) * sizeof(struct cell);
    struct wire *const wire = (struct wire *)ranks_shared(bytes);
    const double limit = options->limit > 0 ? options->limit : 100;
    const double start = wire_now();
    double first_death = 0;
    pid_t pids[RANKS_MOST];
    int rank, left = size;
    memset(&outcome, 0, sizeof(outcome));
    if (size < 1 || size > RANKS_MOST) {
        fprintf(stderr, "ranks: 1 to %d ranks\n", RANKS_MOST);
        exit(1);
    }
    wire->options = *options;
    if (wire->options.timeout <= 0) wire->options.timeout = 20;
    if (options->fault != NULL) wire->fault = *options->fault;
    fflush(NULL);
    for (rank = 0; rank < size; rank++) {
        pids[rank] = fork();
        if (pids[rank] < 0) {
            perror("ranks: fork");
            exit(1);
        }
        if (pids[rank] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            /* In a process group of its own: if a shell ends, a group with a stopped process gets SIGHUP. */
            setpgid(0, 0);
            exit(work_as_a_rank(wire, rank, work, argument));
        }
    }
    while (left > 0) {
        struct timespec time = {0, 1000000};
        for (rank = 0; rank < size; rank++) {
            int status;
            if (pids[rank] == 0 || waitpid(pids[rank], &status, WNOHANG) != pids[rank]) continue;
            pids[rank] = 0;
            left--;
            note_end(wire, rank, status, &outcome);
            if (WIFSIGNALED(status) && first_death == 0) first_death = wire_now();
        }
        if (!outcome.hung && wire_now() - start > limit) {
            outcome.hung = 1;
            for (rank = 0; rank < size; rank++)
                if (pids[rank] != 0) kill(pids[rank], SIGKILL);
        }
        /* A rank that was stopped is in nobody's way once the others are gone. */
        for (rank = 0; rank < size && left == 1; rank++) {
            int stopped;
            if (pids[rank] != 0 && waitpid(pids[rank], &stopped, WNOHANG | WUNTRACED) == pids[rank]) {
                if (WIFSTOPPED(stopped)) {
                    kill(pids[rank], SIGKILL);
                } else {
                    pids[rank] = 0;
                    left--;
                    note_end(wire, rank, stopped, &outcome);
                }
            }
        }
        if (left > 0) nanosleep(&time, NULL);
    }
    if (first_death > 0) outcome.until_end = wire_now() - first_death;
    for (rank = 0; rank < size; rank++) outcome.calls[rank] = wire->members[rank].call;
    munmap(wire, bytes);
    return outcome;
}
