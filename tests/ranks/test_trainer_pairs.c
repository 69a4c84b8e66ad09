/* The trainings of trainer_pairs.h over ranks: each rank ends with the bits of one process with one replica. */
#define _POSIX_C_SOURCE 200112L
#include "ranks.h"

#include "../c/trainer_pairs.h"

enum { MOST_RANKS = 4 };

struct scene {
    plan p;
    int is_reference;
    outcome_of_pair of_rank[MOST_RANKS];
};

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    struct scene *const scene = (struct scene *)argument;
    const int64_t before = live(UMBO_HANDLE_ANY);
    training_of_pair self;
    memset(&self, 0, sizeof(self));
    self.p = scene->p;
    self.is_reference = scene->is_reference;
    self.ranks = communicator_info_of(communicator).rank_count;
    self.communicator = communicator;
    snprintf(self.path, sizeof(self.path), "test_trainer_pairs_ranks.umbo");
    snprintf(self.interrupt_path, sizeof(self.interrupt_path), "test_trainer_pairs_ranks_interrupted.umbo");
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    train_pair(&self, &scene->of_rank[rank]);
    CHECK(live(UMBO_HANDLE_ANY) == before);
    return 0;
}

static void run(int size, struct scene *scene) {
    struct ranks_options options = {0};
    options.size = size;
    const struct ranks_outcome outcome = ranks_run(&options, on_rank, scene);
    CHECK(!outcome.hung);
    for (int rank = 0; rank < size; ++rank) CHECK(outcome.code[rank] == 0);
}

int main(void) {
    struct scene *const scene = (struct scene *)ranks_shared(sizeof(*scene));
    outcome_of_pair expected;
    static planner of_all;
    plan p = {0};
    int number = 0;
    of_all.factors = FACTORS, of_all.levels = training_levels, of_all.amend = amend_training;
    of_all.number = MOST_RANKS;
    for (; next_plan(&of_all, p); ++number) {
        const int size = number % 2 ? 2 : MOST_RANKS;
        memcpy(scene->p, p, sizeof(p));
        scene->is_reference = 1;
        run(1, scene);
        expected = scene->of_rank[0];
        scene->is_reference = 0;
        run(size, scene);
        for (int rank = 0; rank < size; ++rank) {
            if (memcmp(&scene->of_rank[rank], &expected, sizeof(expected)) == 0) continue;
            print_plan(p);
            check_failed(__FILE__, __LINE__, "the training of a rank differs");
        }
    }
    CHECK(number >= 15);
    return 0;
}
