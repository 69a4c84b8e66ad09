/* Datasets: what their functions refuse, and elements, which are for reading. */
#include "check.h"

static umbo_dataset *numbers(int64_t count) {
    float data[32];
    int64_t index;
    umbo_value *components;
    umbo_dataset *dataset = NULL;
    CHECK(count <= 32);
    for (index = 0; index < count; index++) data[index] = (float)index;
    components = floats_value(count, data);
    CHECK_OK(umbo_dataset_from_tensor_slices(components, &dataset));
    umbo_value_release(components);
    return dataset;
}

/* Elements are everybody's who iterates; a copy is one's own. */
static void elements_are_for_reading(void) {
    umbo_dataset *source = numbers(3);
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    umbo_tensor *tensor = NULL, *copy = NULL;
    umbo_view view;
    CHECK_OK(umbo_iterator_from_dataset(source, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK_OK(umbo_value_tensor(element, &tensor));
    CHECK_OK(umbo_tensor_mutable_view(tensor, &view));
    CHECK(view.data != NULL && view.mutable_data == NULL && (view.flags & UMBO_VIEW_READ_ONLY) != 0);
    CHECK_OK(umbo_tensor_copy(tensor, NULL, &copy));
    CHECK_OK(umbo_tensor_mutable_view(copy, &view));
    CHECK(view.mutable_data == view.data && (view.flags & UMBO_VIEW_READ_ONLY) == 0);
    umbo_tensor_release(copy);
    umbo_tensor_release(tensor);
    umbo_value_release(element);
    umbo_iterator_release(iterator);
    umbo_dataset_release(source);
}

/* What is wrong is named, and the dataset stays what it was. */
static void refused(umbo_dataset **source) {
    umbo_dataset *const before = *source;
    umbo_dataset *none = NULL, *stale = NULL;
    umbo_shuffle_options options = UMBO_SHUFFLE_OPTIONS_INIT;
    CHECK_STATUS(umbo_dataset_batch(source, 0, 0), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("element_count: 0");
    CHECK_STATUS(umbo_dataset_batch(source, 2, 2), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("drop_remainder: 2");
    CHECK_STATUS(umbo_dataset_take(source, -5), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("count");
    CHECK_STATUS(umbo_dataset_skip(source, -2), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("count");
    CHECK_STATUS(umbo_dataset_repeat(source, -2), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("count");
    CHECK_STATUS(umbo_dataset_prefetch(source, -1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_dataset_prefetch(source, 0), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("depth");
    options.keep_order_each_pass = 7;
    CHECK_STATUS(umbo_dataset_shuffle(source, &options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("keep_order_each_pass");
    options.keep_order_each_pass = 0;
    options.buffer_capacity = -2;
    CHECK_STATUS(umbo_dataset_shuffle(source, &options), UMBO_STATUS_INVALID_ARGUMENT);
    options.buffer_capacity = 0;
    CHECK_STATUS(umbo_dataset_shuffle(source, &options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("buffer_capacity: 0");
    CHECK_STATUS(umbo_dataset_zip(0, NULL, NULL, &none), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("datasets");
    CHECK_STATUS(umbo_dataset_take(&none, 1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("dataset: is NULL; a dataset");
    CHECK(none == NULL && *source == before);
    CHECK_OK(umbo_dataset_take(source, 1));
    CHECK(*source != before);
    stale = before;
    CHECK_STATUS(umbo_dataset_take(&stale, 1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("released");
}

/* What is both taken and replaced. */
static void the_place_of_a_handle(void) {
    CHECK_STATUS(umbo_dataset_prefetch(NULL, 2), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_dataset_prefetch: dataset: is NULL; the address of the dataset's handle");
}

/* How many elements the iterator gives until its end. */
static int left_of(umbo_iterator *iterator) {
    int count = 0;
    for (;;) {
        umbo_value *element = NULL;
        CHECK_OK(umbo_iterator_next(iterator, &element));
        if (element == NULL) return count;
        umbo_value_release(element);
        count++;
    }
}

/* Passes of a loop by hand: each needs a reset, and one that forgets it is told so once. */
static void passes_by_hand(void) {
    umbo_dataset *source = numbers(6);
    umbo_iterator *iterator = NULL;
    int64_t told = 0;
    int32_t has_ended = 7;
    int epoch;
    CHECK_OK(umbo_dataset_batch(&source, 4, 0));
    CHECK_OK(umbo_iterator_from_dataset(source, &iterator));
    expect_messages(&told);
    for (epoch = 0; epoch < 3; epoch++) {
        CHECK_OK(umbo_iterator_has_ended(iterator, &has_ended));
        CHECK(has_ended == 0);
        CHECK(left_of(iterator) == 2);
        CHECK_OK(umbo_iterator_has_ended(iterator, &has_ended));
        CHECK(has_ended == 1);
        CHECK_OK(umbo_iterator_reset(iterator));
    }
    CHECK(told == 0);
    CHECK(left_of(iterator) == 2);
    for (epoch = 0; epoch < 3; epoch++) CHECK(left_of(iterator) == 0 && told == 1);
    CHECK_STATUS(umbo_iterator_has_ended(iterator, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_iterator_has_ended(NULL, &has_ended), UMBO_STATUS_INVALID_ARGUMENT);
    expect_no_messages();
    umbo_iterator_release(iterator);
    umbo_dataset_release(source);
}

int main(void) {
    umbo_dataset *source = numbers(10);
    passes_by_hand();
    the_place_of_a_handle();
    elements_are_for_reading();
    refused(&source);
    umbo_dataset_release(source);
    return finish();
}
