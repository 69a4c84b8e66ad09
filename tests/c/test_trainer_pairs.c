/* The trainings of trainer_pairs.h in one process. */
#define _POSIX_C_SOURCE 200112L
#include "trainer_pairs.h"

int main(int argc, char **argv) {
    const int only = argc > 1 ? atoi(argv[1]) : -1;
    int64_t told = 0;
    static planner of_all;
    plan p = {0};
    int number = 0;
    of_all.factors = FACTORS, of_all.levels = training_levels, of_all.amend = amend_training, of_all.number = 1;
    expect_messages(&told);
    for (; next_plan(&of_all, p); ++number) {
        training_of_pair self;
        outcome_of_pair expected, seen;
        if (only >= 0 && number != only) continue;
        memset(&self, 0, sizeof(self));
        self.p = p;
        self.ranks = 1;
        snprintf(self.path, sizeof(self.path), "test_trainer_pairs.umbo");
        snprintf(self.interrupt_path, sizeof(self.interrupt_path), "test_trainer_pairs_interrupted.umbo");
        self.is_reference = 1;
        train_pair(&self, &expected);
        self.is_reference = 0;
        if (only >= 0) print_plan(p);
        train_pair(&self, &seen);
        if (memcmp(&seen, &expected, sizeof(seen)) == 0) continue;
        fprintf(stderr, "plan %d: ", number);
        print_plan(p);
        for (int epoch = 0; epoch < PAIR_EPOCHS; ++epoch)
            fprintf(stderr, "loss %.17g, expected %.17g\n", seen.loss[epoch], expected.loss[epoch]);
        fprintf(stderr, "weight %.9g, expected %.9g; steps %d, expected %d\n", (double)seen.numbers.dense[0],
                (double)expected.numbers.dense[0], (int)seen.steps, (int)expected.steps);
        check_failed(__FILE__, __LINE__, "the training differs");
    }
    CHECK(number >= 20 || only >= 0);
    expect_no_messages();
    return finish();
}
