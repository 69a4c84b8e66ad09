/* The batches of split_pairs.h in one process. */
#include "split_pairs.h"

#include <pthread.h>

static void on_three_threads(split_scene *self) {
    pthread_t threads[3];
    for (int at = 0; at < 3; ++at) CHECK(pthread_create(&threads[at], NULL, run_well, self) == 0);
    for (int at = 0; at < 3; ++at) CHECK(pthread_join(threads[at], NULL) == 0);
}

static void amend(int *levels, int64_t number) { (void)levels, (void)number; }

int main(void) {
    static planner of_all;
    static split_scene scene;
    int64_t told = 0;
    plan p = {0};
    int count = 0;
    of_all.factors = SPLIT_FACTORS, of_all.levels = split_levels, of_all.amend = amend;
    expect_messages(&told);
    for (; next_plan(&of_all, p); ++count) {
        memset(&scene, 0, sizeof(scene));
        scene.p = p;
        split_and_run(&scene, NULL, 1, on_three_threads);
    }
    CHECK(count >= 32);
    expect_no_messages();
    return finish();
}
