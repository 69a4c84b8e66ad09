/* Pairs of which one half fails: the pair is passed over, and an epoch that is called again after the failure trains on
 * the others, each with its own half; also from a position that was saved in between, and over other numbers of replicas. */
#include "check.h"

#define PAIRS 12

typedef struct {
    int64_t fails_at;
    /* What the step has seen, on one thread after the other. */
    int64_t examples, sum, apart;
} scene;

static umbo_status times_ten(const umbo_value *element, void *user_data, umbo_value **result) {
    const scene *self = (const scene *)user_data;
    umbo_view view;
    int64_t number;
    UMBO_TRY(umbo_value_view(element, NULL, UMBO_DTYPE_INT64, &view));
    number = 10 * *(const int64_t *)view.data;
    if (number == 10 * self->fails_at)
        return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "as planned", NULL, NULL);
    return umbo_value_from_data(UMBO_DTYPE_INT64, 0, NULL, &number, NULL, result);
}

static umbo_status step(umbo_replica_context *context, const umbo_value *batch, void *user_data,
                        umbo_value **result) {
    scene *self = (scene *)user_data;
    umbo_view x, y;
    int64_t index;
    (void)context;
    (void)result;
    UMBO_TRY(umbo_value_view(batch, "x", UMBO_DTYPE_INT64, &x));
    UMBO_TRY(umbo_value_view(batch, "y", UMBO_DTYPE_INT64, &y));
    for (index = 0; index < x.shape[0]; index++) {
        const int64_t number = ((const int64_t *)x.data)[index * x.strides[0]];
        const int64_t other = ((const int64_t *)y.data)[index * y.strides[0]];
        __atomic_fetch_add(&self->examples, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&self->sum, number, __ATOMIC_SEQ_CST);
        if (other != 10 * number) __atomic_fetch_add(&self->apart, 1, __ATOMIC_SEQ_CST);
    }
    return UMBO_OK;
}

static umbo_dataset *pairs(scene *self) {
    umbo_dataset *halves[2] = {NULL, NULL}, *zipped = NULL;
    const char *const names[] = {"x", "y"};
    CHECK_OK(umbo_dataset_from_range(0, PAIRS, 1, &halves[0]));
    CHECK_OK(umbo_dataset_from_range(0, PAIRS, 1, &halves[1]));
    CHECK_OK(umbo_dataset_map(&halves[1], times_ten, self, NULL, NULL));
    CHECK_OK(umbo_dataset_zip(2, names, halves, &zipped));
    CHECK_OK(umbo_dataset_batch(&zipped, 4, 0));
    umbo_dataset_release(halves[0]);
    umbo_dataset_release(halves[1]);
    return zipped;
}

static umbo_iterator *iterator_over(umbo_strategy *strategy, umbo_dataset *dataset,
                                    int64_t prefetched) {
    umbo_distribute_options options = UMBO_DISTRIBUTE_OPTIONS_INIT;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    options.prefetch_count = prefetched;
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, dataset, &options, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    umbo_distributed_dataset_release(distributed);
    return iterator;
}

static umbo_strategy *strategy_of(int32_t replicas) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    options.cpu_replicas = replicas;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    return strategy;
}

/* An epoch, called again after the failure: by the same iterator, or by another one at its position. */
static void epoch(int64_t fails_at, int64_t prefetched, int moves) {
    scene self = {0, 0, 0, 0};
    umbo_strategy *strategy = strategy_of(2), *other = strategy_of(1);
    umbo_dataset *dataset;
    umbo_iterator *iterator;
    self.fails_at = fails_at;
    dataset = pairs(&self);
    iterator = iterator_over(strategy, dataset, prefetched);
    CHECK_STATUS(umbo_train_epoch(strategy, iterator, NULL, NULL, step, &self, NULL, NULL),
                 UMBO_STATUS_DATA_LOSS);
    CHECK_MESSAGE("as planned");
    if (moves) {
        char position[4096];
        size_t length;
        CHECK_OK(umbo_iterator_save_position(iterator, position, sizeof(position), &length));
        umbo_iterator_release(iterator);
        iterator = iterator_over(other, dataset, 0);
        CHECK_OK(umbo_iterator_restore_position(iterator, position));
    }
    CHECK_OK(umbo_train_epoch(moves ? other : strategy, iterator, NULL, NULL, step, &self, NULL, NULL));
    CHECK(self.apart == 0);
    CHECK(is_count(self.examples, PAIRS - 1));
    CHECK(is_count(self.sum, PAIRS * (PAIRS - 1) / 2 - fails_at));
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    umbo_strategy_release(other);
    umbo_strategy_release(strategy);
}

int main(void) {
    int64_t fails_at;
    for (fails_at = 0; fails_at < PAIRS; fails_at++) {
        epoch(fails_at, fails_at % 3, fails_at % 2 == 0);
    }
    return finish();
}
