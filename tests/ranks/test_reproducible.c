/* A training with a chosen number of replicas in sync has the same bits for any number of processes and of
 * compute devices. */
#include "ranks.h"

#include "train.h"

enum { IN_SYNC = 12, MOST_RANKS = 4, MOST_DEVICES = 3 };

struct share {
    struct seen *seen;
    int64_t devices, in_sync;
};

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    const struct share *share = (const struct share *)argument;
    share->seen->status[rank] =
        train_in_sync(communicator, rank, share->devices, share->in_sync, share->seen);
    return 0;
}

static struct ranks_outcome run(int size, const struct share *share) {
    struct ranks_options options = {0};
    options.size = size;
    memset(share->seen, 0, sizeof(*share->seen));
    return ranks_run(&options, on_rank, (void *)share);
}

/* A number that ranks cannot have together fails on all of them, and nothing hangs. */
static void refused(int size, int64_t devices, int64_t in_sync, struct seen *seen) {
    struct share share;
    struct ranks_outcome outcome;
    int rank;
    share.seen = seen;
    share.devices = devices;
    share.in_sync = in_sync;
    outcome = run(size, &share);
    CHECK(!outcome.hung);
    for (rank = 0; rank < size; rank++)
        CHECK(outcome.code[rank] == 0 && seen->status[rank] == UMBO_STATUS_INVALID_ARGUMENT);
}

int main(void) {
    struct seen *reference = (struct seen *)ranks_shared(sizeof(struct seen));
    struct seen *seen = (struct seen *)ranks_shared(sizeof(struct seen));
    struct share share;
    int size, rank, step, devices;
    /* What all others are to be like: a device for each replica. */
    share.seen = reference;
    share.devices = IN_SYNC;
    share.in_sync = IN_SYNC;
    CHECK(!run(1, &share).hung && reference->status[0] == UMBO_OK);
    share.seen = seen;
    for (size = 1; size <= MOST_RANKS; size++) {
        for (devices = 1; devices <= MOST_DEVICES; devices++) {
            struct ranks_outcome outcome;
            share.devices = devices;
            outcome = run(size, &share);
            CHECK(!outcome.hung);
            for (rank = 0; rank < size; rank++) {
                CHECK(outcome.code[rank] == 0 && seen->status[rank] == UMBO_OK);
                for (step = 0; step <= STEPS; step++)
                    CHECK(seen->fingerprint[step][rank] == reference->fingerprint[step][0]);
            }
        }
    }
    refused(2, 3, 5, seen);
    refused(1, 2, 1, seen);
    refused(2, 1, 1025, seen);
    refused(1, 1, -1, seen);
    return 0;
}
