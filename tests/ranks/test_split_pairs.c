/* The batches of split_pairs.h over ranks: each replica of each rank sees its rows of the batch that all ranks have. */
#include "ranks.h"

#include "../c/split_pairs.h"

enum { MOST_RANKS = 3 };

static void amend(int *p, int64_t number) {
    (void)number;
    if (p[PLACE] == ON_THREADS) p[PLACE] = IN_A_RUN; /* in which order threads run would differ between ranks */
}

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    static planner of_all;
    static split_scene scene;
    const int64_t before = live(UMBO_HANDLE_ANY);
    plan p = {0};
    int count = 0;
    (void)rank, (void)argument;
    of_all.factors = SPLIT_FACTORS, of_all.levels = split_levels, of_all.amend = amend;
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    for (; next_plan(&of_all, p); ++count) {
        memset(&scene, 0, sizeof(scene));
        scene.p = p;
        split_and_run(&scene, communicator, communicator_info_of(communicator).rank_count, NULL);
    }
    CHECK(count >= 32);
    CHECK(live(UMBO_HANDLE_ANY) == before);
    return 0;
}

int main(void) {
    for (int size = 2; size <= MOST_RANKS; ++size) {
        struct ranks_options options = {0};
        options.size = size;
        const struct ranks_outcome outcome = ranks_run(&options, on_rank, NULL);
        CHECK(!outcome.hung);
        for (int rank = 0; rank < size; ++rank) CHECK(outcome.code[rank] == 0);
    }
    return 0;
}
