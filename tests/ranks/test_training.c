/* A training over processes that are killed and stopped: all ranks that are left have the weights of one
 * and the same step, none hangs, and what needs the others says that they are gone. */
#include "ranks.h"

#include "train.h"

enum { SIZE = 2 };

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    struct seen *seen = (struct seen *)argument;
    const int64_t size = communicator_info_of(communicator).rank_count;
    seen->status[rank] = train(communicator, rank, REPLICAS / size, seen);
    return 0;
}

static struct ranks_outcome run(int size, const struct ranks_fault *fault, struct seen *seen) {
    struct ranks_options options = {0};
    options.size = size;
    options.timeout = fault != NULL && fault->event == RANKS_STOP ? 1 : 0;
    options.fault = fault;
    memset(seen, 0, sizeof(*seen));
    return ranks_run(&options, on_rank, seen);
}

int main(void) {
    static const enum ranks_event events[] = {RANKS_DEATH, RANKS_DEATH_WITHIN, RANKS_DEATH,
                                              RANKS_FAILURE, RANKS_DEATH};
    struct seen *reference = (struct seen *)ranks_shared(sizeof(struct seen));
    struct seen *seen = (struct seen *)ranks_shared(sizeof(struct seen));
    struct ranks_outcome outcome;
    int64_t calls, faults, unfinished = 0;
    int step, rank, size;
    /* Processes of several replicas are as one process with all of them. */
    outcome = run(1, NULL, reference);
    CHECK(!outcome.hung && outcome.code[0] == 0 && reference->status[0] == UMBO_OK);
    for (size = 2; size <= REPLICAS; size *= 2) {
        outcome = run(size, NULL, seen);
        CHECK(!outcome.hung);
        for (rank = 0; rank < size; rank++) {
            CHECK(outcome.code[rank] == 0 && seen->status[rank] == UMBO_OK);
            for (step = 0; step <= STEPS; step++)
                CHECK(seen->fingerprint[step][rank] == reference->fingerprint[step][0]);
        }
    }
    outcome = run(SIZE, NULL, seen);
    calls = outcome.calls[0];
    CHECK(calls > 40);
    for (faults = 0; faults < 200; faults++) {
        struct ranks_fault fault = {RANKS_NOTHING, 0, 0};
        /* Few are stopped: the others wait for each until their time is over. */
        fault.event = faults % 50 == 49 ? RANKS_STOP : events[faults % COUNT_OF(events)];
        fault.rank = (int)(faults / 2 % SIZE);
        fault.call = 1 + faults * 7919 % calls;
        outcome = run(SIZE, &fault, seen);
        CHECK(!outcome.hung);
        /* Well below the timeout: the death itself was noticed. */
        CHECK(outcome.until_end < 10);
        for (rank = 0; rank < SIZE; rank++) {
            if (rank == fault.rank && fault.event != RANKS_FAILURE) {
                CHECK(outcome.signal[rank] != 0);
            } else {
                CHECK(outcome.code[rank] == 0);
                /* A rank may go in the very last call, when the others have all that they need. */
                CHECK((seen->status[rank] == UMBO_OK) == (seen->fingerprint[STEPS][rank] != 0));
                unfinished += seen->status[rank] != UMBO_OK;
            }
            for (step = 0; step <= STEPS; step++) {
                const uint64_t print = seen->fingerprint[step][rank];
                CHECK(print == 0 || print == reference->fingerprint[step][0]);
            }
        }
    }
    CHECK(unfinished > 190);
    return 0;
}
