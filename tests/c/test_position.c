/* Places in the data: saved as text, restored into another iterator. */
#include "check.h"

enum { ROWS = 23, ROOM = 4096 };

static umbo_dataset *numbers(int64_t count) {
    umbo_dataset *dataset = NULL;
    CHECK_OK(umbo_dataset_from_range(0, count, 1, &dataset));
    return dataset;
}

static umbo_dataset *shuffled(uint64_t seed, int64_t batch) {
    umbo_shuffle_options options = UMBO_SHUFFLE_OPTIONS_INIT;
    umbo_dataset *dataset = numbers(ROWS);
    options.seed = seed;
    options.buffer_capacity = 7;
    CHECK_OK(umbo_dataset_shuffle(&dataset, &options));
    CHECK_OK(umbo_dataset_repeat(&dataset, 2));
    CHECK_OK(umbo_dataset_batch(&dataset, batch, 0));
    return dataset;
}

/* The numbers of the next element in words; 0 at the end. */
static int next_text(umbo_iterator *iterator, char *text) {
    umbo_value *element = NULL;
    size_t length = 0;
    CHECK_OK(umbo_iterator_next(iterator, &element));
    if (element == NULL) return 0;
    CHECK_OK(umbo_value_text(element, text, ROOM, &length));
    umbo_value_release(element);
    return 1;
}

static void what_does_not_fit_is_refused(void) {
    static char position[ROOM], text[ROOM];
    umbo_dataset *dataset = shuffled(1, 4), *another = shuffled(1, 5);
    umbo_iterator *iterator = NULL, *other = NULL;
    size_t length = 0, expected;
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_from_dataset(another, &other));
    CHECK(next_text(iterator, text));
    CHECK(umbo_iterator_save_position(iterator, NULL, 0, &expected) == UMBO_STATUS_OUT_OF_RANGE);
    CHECK(umbo_iterator_save_position(iterator, position, expected, &length) ==
          UMBO_STATUS_OUT_OF_RANGE);
    CHECK(length == expected);
    CHECK_OK(umbo_iterator_save_position(iterator, position, expected + 1, &length));
    CHECK(umbo_iterator_restore_position(other, position) == UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(umbo_last_error_message(), "size: 4") != NULL);
    CHECK(strstr(umbo_last_error_message(), "size: 5") != NULL);
    CHECK(umbo_iterator_restore_position(iterator, "{}") == UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(umbo_iterator_restore_position(iterator, NULL) == UMBO_STATUS_INVALID_ARGUMENT);
    position[length / 2] = position[length / 2] == '1' ? '2' : '1';
    CHECK(umbo_iterator_restore_position(iterator, position) == UMBO_STATUS_INVALID_ARGUMENT);
    /* The iterators are where they were. */
    CHECK_OK(umbo_iterator_reset(other));
    CHECK(next_text(other, text) && next_text(iterator, text));
    umbo_iterator_release(iterator);
    umbo_iterator_release(other);
    umbo_dataset_release(dataset);
    umbo_dataset_release(another);
}

int main(void) {
    what_does_not_fit_is_refused();
    return 0;
}
