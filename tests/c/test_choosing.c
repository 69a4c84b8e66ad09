/* Datasets whose elements are chosen, mixed or taken apart. */
#include "check.h"

/* Counts calls and the release of the user data. */
struct choice {
    int calls;
    int destroyed;
    int32_t answer_to_odd;
};

static int64_t number_of(const umbo_value *element) {
    umbo_view view;
    CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_INT64, &view));
    return *(const int64_t *)view.data;
}

static umbo_status keep_even(const umbo_value *element, void *user_data, int32_t *keep) {
    struct choice *const choice = (struct choice *)user_data;
    const int64_t number = number_of(element);
    choice->calls++;
    if (number % 2 == 0) {
        *keep = 1;
    } else if (choice->answer_to_odd >= 0) {
        *keep = choice->answer_to_odd;
    }
    return UMBO_OK;
}

static void destroy_choice(void *user_data) {
    ((struct choice *)user_data)->destroyed++;
}

/* The next number, or -1 at the end. */
static int64_t next_number(umbo_iterator *iterator) {
    umbo_value *element = NULL;
    int64_t number = -1;
    CHECK_OK(umbo_iterator_next(iterator, &element));
    if (element != NULL) number = number_of(element);
    umbo_value_release(element);
    return number;
}

static umbo_iterator *filtered(struct choice *choice) {
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    int64_t count = 0;
    CHECK_OK(umbo_dataset_from_range(0, 4, 1, &dataset));
    CHECK_OK(umbo_dataset_filter(&dataset, keep_even, choice, destroy_choice));
    CHECK_OK(umbo_dataset_cardinality(dataset, &count));
    CHECK(count == UMBO_CARDINALITY_UNKNOWN);
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    umbo_dataset_release(dataset);
    return iterator;
}

static void a_filter(void) {
    struct choice choice = {0, 0, 0};
    umbo_iterator *iterator = filtered(&choice);
    CHECK(next_number(iterator) == 0 && next_number(iterator) == 2);
    CHECK(next_number(iterator) == -1 && choice.calls == 4);
    CHECK(choice.destroyed == 0);
    umbo_iterator_release(iterator);
    CHECK(choice.destroyed == 1);
}

/* A function that says nothing, or something else than yes or no. */
static void an_answer_that_is_none(void) {
    struct choice choice = {0, 0, -1};
    umbo_iterator *iterator = filtered(&choice);
    umbo_value *element = NULL;
    CHECK(next_number(iterator) == 0);
    CHECK_STATUS(umbo_iterator_next(iterator, &element), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("keep: -1; valid are 0 (no) and 1 (yes)");
    choice.answer_to_odd = 2;
    CHECK(next_number(iterator) == 2);
    CHECK_STATUS(umbo_iterator_next(iterator, &element), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("keep: 2");
    CHECK(next_number(iterator) == -1 && element == NULL);
    umbo_iterator_release(iterator);
}

static void a_filter_without_a_function(void) {
    struct choice choice = {0, 0, 0};
    umbo_dataset *dataset = NULL;
    CHECK_OK(umbo_dataset_from_range(0, 4, 1, &dataset));
    CHECK_STATUS(umbo_dataset_filter(&dataset, NULL, &choice, destroy_choice),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("function: is NULL");
    CHECK(choice.destroyed == 1 && dataset != NULL);
    umbo_dataset_release(dataset);
}

/* Rows of batches, and batches that have none. */
static void rows_of_batches(void) {
    umbo_dataset *dataset = NULL, *scalars = NULL;
    umbo_iterator *iterator = NULL;
    int64_t number, count = 0;
    CHECK_OK(umbo_dataset_from_range(0, 7, 1, &dataset));
    CHECK_OK(umbo_dataset_retain(dataset, &scalars));
    CHECK_STATUS(umbo_dataset_unbatch(&scalars), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("dataset: its elements contain a scalar");
    umbo_dataset_release(scalars);
    CHECK_OK(umbo_dataset_batch(&dataset, 3, 1));
    CHECK_OK(umbo_dataset_unbatch(&dataset));
    CHECK_OK(umbo_dataset_cardinality(dataset, &count));
    CHECK(count == 6);
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    for (number = 0; number < 6; number++) CHECK(next_number(iterator) == number);
    CHECK(next_number(iterator) == -1);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
}

/* Two datasets, of which the second is drawn alone. */
static void a_sample(void) {
    const double weights[] = {0, 2}, wrong[] = {1, -1};
    umbo_sample_options options = UMBO_SAMPLE_OPTIONS_INIT;
    umbo_dataset *both[2] = {NULL, NULL}, *mixed = NULL;
    umbo_iterator *iterator = NULL;
    int64_t count = 0;
    CHECK_OK(umbo_dataset_from_range(0, 3, 1, &both[0]));
    CHECK_OK(umbo_dataset_from_range(10, 12, 1, &both[1]));
    CHECK_STATUS(umbo_dataset_sample(2, both, wrong, NULL, &mixed), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("weights: -1 for dataset 1");
    options.stop_on_empty = 2;
    CHECK_STATUS(umbo_dataset_sample(2, both, NULL, &options, &mixed), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.stop_on_empty: 2");
    options.stop_on_empty = 1;
    CHECK_OK(umbo_dataset_sample(2, both, weights, &options, &mixed));
    CHECK_OK(umbo_iterator_from_dataset(mixed, &iterator));
    CHECK(next_number(iterator) == 10 && next_number(iterator) == 11 && next_number(iterator) == -1);
    umbo_iterator_release(iterator);
    umbo_dataset_release(mixed);
    CHECK_OK(umbo_dataset_sample(2, both, NULL, NULL, &mixed));
    CHECK_OK(umbo_dataset_cardinality(mixed, &count));
    CHECK(count == 5);
    umbo_dataset_release(mixed);
    umbo_dataset_release(both[0]);
    umbo_dataset_release(both[1]);
}

int main(void) {
    a_sample();
    rows_of_batches();
    a_filter();
    an_answer_that_is_none();
    a_filter_without_a_function();
    return finish();
}
