/* next_as_optional: whether there was an element, with no word of it in the element itself. */
#include "check.h"

#include <umbo/all.h>

static umbo_dataset *batches_of_two(int64_t count) {
    umbo_dataset *numbers = NULL, *batches = NULL;
    CHECK_OK(umbo_dataset_from_range(0, count, 1, &numbers));
    CHECK_OK(umbo_dataset_retain(numbers, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 2, 0));
    umbo_dataset_release(numbers);
    return batches;
}

/* Elements until the end, which is told as often as it is asked for, and again after a reset. */
static void count_steps(umbo_iterator *iterator, int expected) {
    umbo_value *element = NULL;
    int32_t has_value = -1;
    int pass, step;
    for (pass = 0; pass < 2; pass++) {
        for (step = 0; step < expected; step++) {
            CHECK_OK(umbo_iterator_next_as_optional(iterator, &has_value, &element));
            CHECK(has_value == 1 && element != NULL);
            umbo_value_release(element);
        }
        for (step = 0; step < 3; step++) {
            element = (umbo_value *)&step;
            CHECK_OK(umbo_iterator_next_as_optional(iterator, &has_value, &element));
            CHECK(has_value == 0 && element == NULL);
        }
        CHECK_OK(umbo_iterator_next(iterator, &element)); /* both say the same */
        CHECK(element == NULL);
        CHECK_OK(umbo_iterator_reset(iterator));
    }
    umbo_iterator_release(iterator);
}

static umbo_iterator *iterator_of(const umbo_dataset *dataset) {
    umbo_iterator *iterator = NULL;
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    return iterator;
}

static umbo_iterator *distributed_iterator(umbo_strategy *strategy, const umbo_dataset *dataset) {
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    umbo_distributed_dataset_release(distributed);
    return iterator;
}

/* It takes turns with next on one iterator. */
static void mixed_with_next(void) {
    umbo_dataset *numbers = NULL;
    umbo_iterator *iterator;
    umbo_value *element = NULL;
    umbo_view view;
    int64_t expected;
    int32_t has_value;
    CHECK_OK(umbo_dataset_from_range(0, 4, 1, &numbers));
    iterator = iterator_of(numbers);
    for (expected = 0; expected < 4; expected++) {
        if (expected % 2 == 0) {
            CHECK_OK(umbo_iterator_next(iterator, &element));
        } else {
            CHECK_OK(umbo_iterator_next_as_optional(iterator, &has_value, &element));
        }
        CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
        CHECK(*(const int64_t *)view.data == expected);
        umbo_value_release(element);
    }
    umbo_iterator_release(iterator);
    umbo_dataset_release(numbers);
}

/* An element is for all replicas: not to be fetched by one of them. */
static umbo_status fetch(umbo_replica_context *context, const umbo_value *args, void *user_data,
                         umbo_value **result) {
    umbo_value *element = NULL;
    int32_t has_value = -1;
    (void)context;
    (void)args;
    (void)result;
    CHECK_STATUS(umbo_iterator_next_as_optional((umbo_iterator *)user_data, &has_value, &element),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK(element == NULL && has_value == -1);
    return UMBO_OK;
}

static void inside_of_a_run(umbo_strategy *strategy, const umbo_dataset *dataset) {
    umbo_iterator *iterator = distributed_iterator(strategy, dataset);
    CHECK_OK(umbo_strategy_run(strategy, fetch, iterator, NULL, NULL, NULL));
    count_steps(iterator, 3); /* nothing was taken */
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    umbo_dataset *five = batches_of_two(5), *none = batches_of_two(0), *endless = NULL;
    umbo_iterator *iterator;
    umbo_value *element = NULL;
    int32_t has_value = -1, step;
    count_steps(iterator_of(five), 3);
    count_steps(iterator_of(none), 0);
    count_steps(distributed_iterator(strategy, five), 3);
    count_steps(distributed_iterator(strategy, none), 0);
    CHECK_OK(umbo_dataset_retain(five, &endless));
    CHECK_OK(umbo_dataset_repeat(&endless, UMBO_INFINITE));
    iterator = distributed_iterator(strategy, endless);
    for (step = 0; step < 20; step++) {
        CHECK_OK(umbo_iterator_next_as_optional(iterator, &has_value, &element));
        CHECK(has_value == 1 && kind_of(element) == UMBO_VALUE_PER_REPLICA);
        umbo_value_release(element);
    }
    umbo_iterator_release(iterator);
    mixed_with_next();
    inside_of_a_run(strategy, five);
    umbo_dataset_release(endless);
    umbo_dataset_release(none);
    umbo_dataset_release(five);
    umbo_strategy_release(strategy);
    return finish();
}
