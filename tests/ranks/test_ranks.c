/* The library's functions of a communicator over processes: everything arrives, in sizes beyond what a cell takes,
 * also where ranks are late. */
#include "ranks.h"

#include "../c/check.h"
#include "everything_arrives.h"

static int everything(umbo_communicator *communicator, int rank, void *argument) {
    static const int64_t scales[] = {0, 1, 1000, 70000, 300001};
    const int size = *(int *)argument;
    const umbo_communicator_info here = communicator_info_of(communicator);
    int64_t number, other;
    int32_t index;
    CHECK(here.rank == rank && here.rank_count == size);
    CHECK(here.node_rank == rank % 2 && here.node_rank_count == (rank / 2 * 2 + 1 < size ? 2 : 1));
    for (index = 0; index < COUNT_OF(scales); index++) {
        int root;
        to_all(communicator, rank, size, scales[index]);
        from_all(communicator, rank, size, scales[index]);
        for (root = 0; root < size; root++) {
            unsigned char data[5] = {0};
            if (rank == root) memset(data, root + 1, sizeof(data));
            CHECK_OK(umbo_communicator_broadcast(communicator, root, sizeof(data), data));
            CHECK(data[0] == root + 1 && data[4] == root + 1);
        }
        CHECK_OK(umbo_communicator_vote(communicator, rank * 10 - 5, &number, &other));
        CHECK(number == -5 && other == (size - 1) * 10 - 5);
        CHECK_OK(umbo_communicator_barrier(communicator));
    }
    return 0;
}

int main(void) {
    int size;
    for (size = 1; size <= 5; size++) {
        struct ranks_options options = {0};
        struct ranks_outcome outcome;
        int rank;
        options.size = size;
        options.per_node = 2;
        options.jitter = (uint64_t)size;
        outcome = ranks_run(&options, everything, &size);
        CHECK(!outcome.hung);
        for (rank = 0; rank < size; rank++) CHECK(outcome.code[rank] == 0);
    }
    return finish();
}
