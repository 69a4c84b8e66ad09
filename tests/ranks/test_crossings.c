/* The training of crossings.h over ranks: what one process with all replicas sees, each of several ranks sees, too. */
#include "ranks.h"

#include "crossings.h"

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    const int64_t size = communicator_info_of(communicator).rank_count;
    const int64_t before = live(UMBO_HANDLE_ANY);
    cross(communicator, rank, REPLICAS / size, NULL, (struct crossings *)argument);
    CHECK(live(UMBO_HANDLE_ANY) == before);
    return 0;
}

static void run(int size, struct crossings *shared) {
    struct ranks_options options = {0};
    struct ranks_outcome outcome;
    int rank;
    options.size = size;
    outcome = ranks_run(&options, on_rank, shared);
    CHECK(!outcome.hung);
    for (rank = 0; rank < size; rank++) CHECK(outcome.code[rank] == 0);
}

int main(void) {
    struct crossings *reference = (struct crossings *)ranks_shared(sizeof(*reference));
    struct crossings *shared = (struct crossings *)ranks_shared(sizeof(*shared));
    int size, rank;
    run(1, reference);
    CHECK(reference->length > 0 && reference->of_rank[0].error[0][1] == EXAMPLES);
    for (size = 2; size <= CROSSING_RANKS; size *= 2) {
        *shared = *reference;
        memset(shared->of_rank, 0, sizeof(shared->of_rank));
        run(size, shared);
        for (rank = 0; rank < size; rank++)
            CHECK(memcmp(&shared->of_rank[rank], &reference->of_rank[0], sizeof(struct crossing)) == 0);
    }
    return 0;
}
