/* Ranks for tests: processes on this machine, joined over shared memory, with failures on request.
 * Not installed. A test calls `ranks_run` before it uses the library, which does not work in the child
 * of a fork; each rank gets a communicator of its own and returns the exit code of its process. */
#ifndef UMBO_TESTS_RANKS_H
#define UMBO_TESTS_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include <umbo/all.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RANKS_MOST = 16 };

/* What happens to a rank in one of its calls; the first call is number 1. */
enum ranks_event {
    RANKS_NOTHING = 0,
    RANKS_DEATH,       /* it is killed as the call begins */
    RANKS_DEATH_WITHIN, /* it is killed when it has sent a part of what it sends */
    RANKS_STOP,        /* it is stopped, and neither dies nor continues */
    RANKS_FAILURE      /* its engine reports a failure of its own */
};

struct ranks_fault {
    enum ranks_event event;
    int rank;
    int64_t call;
};

struct ranks_options {
    int size;      /* 1 to RANKS_MOST */
    int per_node;  /* how many ranks share a machine, as far as they say; 0: all */
    double timeout; /* how long a call waits, in seconds; 0: 20 */
    double limit;  /* after so many seconds all ranks are killed, which is a hang; 0: 100 */
    uint64_t jitter; /* not 0: calls begin later by up to a millisecond, drawn from this seed */
    const struct ranks_fault *fault; /* NULL: none */
};

struct ranks_outcome {
    int hung;
    int code[RANKS_MOST];   /* the exit code, or -1 */
    int signal[RANKS_MOST]; /* what killed it, or 0 */
    int64_t calls[RANKS_MOST];
    /* Seconds from the first death of a rank until the last of the others had ended; 0 without a death. */
    double until_end;
};

typedef int (*ranks_fn)(umbo_communicator *communicator, int rank, void *argument);

/* Runs `work` on every rank, and waits for all of them. */
struct ranks_outcome ranks_run(const struct ranks_options *options, ranks_fn work, void *argument);

/* Zeros that ranks and the test share, if it is made before `ranks_run`. */
void *ranks_shared(size_t bytes);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
