/* Datasets: transformations, IDX files, distribution, iterators. */
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

static int64_t cardinality(const umbo_dataset *dataset) {
    int64_t count = -9;
    CHECK_OK(umbo_dataset_cardinality(dataset, &count));
    return count;
}

/* Iterates over all and gives the dataset up; returns how many numbers were written. */
static int drain(umbo_dataset *dataset, float *into, int room) {
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    int count = 0;
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    for (;;) {
        umbo_view view;
        int64_t index, size;
        CHECK_OK(umbo_iterator_next(iterator, &element));
        if (element == NULL) break;
        CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
        size = view.ndim == 0 ? 1 : view.shape[0];
        for (index = 0; index < size; index++) {
            CHECK(count < room);
            into[count++] = ((const float *)view.data)[index];
        }
        umbo_value_release(element);
    }
    CHECK_OK(umbo_iterator_next(iterator, &element)); /* keeps signalling the end */
    CHECK(element == NULL);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    return count;
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

static void transformations(void) {
    umbo_dataset *source = numbers(10), *a = NULL, *b = NULL, *c = NULL;
    float seen[64];
    CHECK(cardinality(source) == 10);
    CHECK_OK(umbo_dataset_retain(source, &a));
    CHECK_OK(umbo_dataset_skip(&a, 3));
    CHECK_OK(umbo_dataset_retain(a, &b));
    CHECK_OK(umbo_dataset_take(&b, 4));
    CHECK(cardinality(b) == 4);
    CHECK_OK(umbo_dataset_retain(b, &c));
    CHECK_OK(umbo_dataset_repeat(&c, 2));
    umbo_dataset_release(a);
    umbo_dataset_release(b);
    CHECK(drain(c, seen, 64) == 8);
    CHECK(seen[0] == 3 && seen[3] == 6 && seen[4] == 3 && seen[7] == 6);

    CHECK_OK(umbo_dataset_retain(source, &a));
    CHECK_OK(umbo_dataset_batch(&a, 4, 0));
    CHECK(cardinality(a) == 3);
    CHECK_OK(umbo_dataset_retain(a, &b));
    CHECK_OK(umbo_dataset_prefetch(&b, 2));
    umbo_dataset_release(a);
    CHECK(drain(b, seen, 64) == 10);
    CHECK(seen[9] == 9);
    CHECK_OK(umbo_dataset_retain(source, &a));
    CHECK_OK(umbo_dataset_batch(&a, 4, 1));
    CHECK(cardinality(a) == 2);
    CHECK(drain(a, seen, 64) == 8);
    CHECK_OK(umbo_dataset_retain(source, &a));
    CHECK_OK(umbo_dataset_repeat(&a, UMBO_INFINITE));
    CHECK(cardinality(a) == UMBO_INFINITE);
    umbo_dataset_release(a);
    CHECK_OK(umbo_dataset_retain(source, &a));
    CHECK_OK(umbo_dataset_take(&a, 0));
    CHECK(drain(a, seen, 64) == 0);

    refused(&source);
    umbo_dataset_release(source);
}

static void shuffling(void) {
    umbo_dataset *source = numbers(20), *a = NULL;
    float first[20], second[20], repeated[40];
    int present[20] = {0}, index, moved = 0;
    umbo_shuffle_options options = UMBO_SHUFFLE_OPTIONS_INIT;
    options.seed = 7;
    CHECK_OK(umbo_dataset_retain(source, &a));
    CHECK_OK(umbo_dataset_shuffle(&a, &options));
    CHECK(drain(a, first, 20) == 20);
    CHECK_OK(umbo_dataset_retain(source, &a));
    CHECK_OK(umbo_dataset_shuffle(&a, &options));
    CHECK(drain(a, second, 20) == 20);
    CHECK(memcmp(first, second, sizeof(first)) == 0); /* the seed decides */
    options.seed = 8;
    CHECK_OK(umbo_dataset_retain(source, &a));
    CHECK_OK(umbo_dataset_shuffle(&a, &options));
    CHECK(drain(a, second, 20) == 20);
    CHECK(memcmp(first, second, sizeof(first)) != 0);
    for (index = 0; index < 20; index++) {
        present[(int)first[index]]++;
        moved += first[index] != (float)index;
    }
    for (index = 0; index < 20; index++) CHECK(present[index] == 1);
    CHECK(moved > 0);

    for (index = 0; index < 2; index++) {
        umbo_dataset *twice = NULL;
        options.keep_order_each_pass = index;
        CHECK_OK(umbo_dataset_retain(source, &a));
        CHECK_OK(umbo_dataset_shuffle(&a, &options));
        CHECK_OK(umbo_dataset_retain(a, &twice));
        CHECK_OK(umbo_dataset_repeat(&twice, 2));
        umbo_dataset_release(a);
        CHECK(drain(twice, repeated, 40) == 40);
        CHECK((memcmp(repeated, repeated + 20, sizeof(first)) == 0) == (index == 1));
    }
    umbo_dataset_release(source);
}

static void zipping_and_resetting(void) {
    const char *const names[2] = {"x", "y"};
    umbo_dataset *long_one = numbers(5), *short_one = numbers(3), *zipped = NULL;
    const umbo_dataset *both[2];
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    umbo_view view;
    int pass;
    static int64_t messages;
    expect_messages(&messages); /* of lengths that differ */
    both[0] = long_one;
    both[1] = short_one;
    CHECK_OK(umbo_dataset_zip(2, names, both, &zipped));
    CHECK(cardinality(zipped) == 3);
    CHECK_OK(umbo_iterator_from_dataset(zipped, &iterator));
    for (pass = 0; pass < 2; pass++) {
        CHECK_OK(umbo_iterator_next(iterator, &element));
        CHECK_OK(umbo_value_view(element, "y", UMBO_DTYPE_NONE, &view));
        CHECK(view.ndim == 0 && *(const float *)view.data == 0);
        umbo_value_release(element);
        CHECK_OK(umbo_iterator_reset(iterator));
    }
    umbo_iterator_release(iterator);
    umbo_dataset_release(zipped);
    CHECK_OK(umbo_dataset_zip(2, NULL, both, &zipped));
    CHECK_OK(umbo_iterator_from_dataset(zipped, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(kind_of(element) == UMBO_VALUE_TUPLE);
    umbo_value_release(element);
    umbo_iterator_release(iterator);
    umbo_dataset_release(zipped);
    umbo_dataset_release(short_one);
    umbo_dataset_release(long_one);
    CHECK(messages == 2);
    expect_no_messages();
}

static void write_file(const char *path, const unsigned char *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    CHECK(fwrite(bytes, 1, count, file) == count);
    CHECK(fclose(file) == 0);
}

static void idx_files(void) {
    static const unsigned char good[] = {0, 0, 8, 2,  0,  0,  0,  3,  0,
                                         0, 0, 2, 10, 11, 12, 13, 14, 15};
    static const unsigned char wrong_magic[] = {1, 2, 8, 1, 0, 0, 0, 0};
    static const unsigned char huge[] = {0,    0,    8,    2,    0xff, 0xff,
                                         0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const char *const path = "test_dataset.idx";
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    umbo_view view;
    write_file(path, good, sizeof(good));
    CHECK_OK(umbo_dataset_from_idx_files(1, NULL, &path, &dataset));
    CHECK(cardinality(dataset) == 3);
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    umbo_value_release(element);
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.dtype == UMBO_DTYPE_UINT8 && view.ndim == 1 && view.shape[0] == 2);
    CHECK(((const uint8_t *)view.data)[0] == 12 && ((const uint8_t *)view.data)[1] == 13);
    umbo_value_release(element);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);

    dataset = NULL;
    write_file(path, good, sizeof(good) - 1); /* one byte is missing */
    CHECK_STATUS(umbo_dataset_from_idx_files(1, NULL, &path, &dataset), UMBO_STATUS_DATA_LOSS);
    CHECK(strstr(umbo_last_error_message(), path) != NULL);
    write_file(path, wrong_magic, sizeof(wrong_magic));
    CHECK_STATUS(umbo_dataset_from_idx_files(1, NULL, &path, &dataset), UMBO_STATUS_INVALID_ARGUMENT);
    write_file(path, huge, sizeof(huge));
    CHECK(umbo_dataset_from_idx_files(1, NULL, &path, &dataset) != UMBO_OK);
    write_file(path, good, 0);
    CHECK_STATUS(umbo_dataset_from_idx_files(1, NULL, &path, &dataset), UMBO_STATUS_DATA_LOSS);
    CHECK(remove(path) == 0);
    CHECK_STATUS(umbo_dataset_from_idx_files(1, NULL, &path, &dataset), UMBO_STATUS_NOT_FOUND);
    CHECK(strstr(umbo_last_error_message(), path) != NULL);
    CHECK(dataset == NULL);
}

/* 5 elements in batches of 4 over 3 replicas: 2, 2, 0 and then 1, 0, 0. */
static void distributed(void) {
    static const int64_t expected[2][3] = {{2, 2, 0}, {1, 0, 0}};
    umbo_strategy *strategy = make_strategy(3);
    umbo_dataset *source = numbers(5), *batches = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL, *other = NULL;
    umbo_value *element = NULL, *component = NULL;
    umbo_view view;
    int64_t examples = 0;
    int step, replica;
    CHECK_OK(umbo_dataset_retain(source, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 4, 0));
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, batches, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &other)); /* independent passes */
    for (step = 0; step < 2; step++) {
        float next = (float)(4 * step);
        CHECK_OK(umbo_iterator_next(iterator, &element));
        CHECK(kind_of(element) == UMBO_VALUE_PER_REPLICA && count_of(element) == 3);
        for (replica = 0; replica < 3; replica++) {
            int64_t row;
            CHECK_OK(umbo_value_item(element, replica, &component));
            CHECK_OK(umbo_value_view(component, NULL, UMBO_DTYPE_NONE, &view));
            CHECK(view.shape[0] == expected[step][replica]);
            for (row = 0; row < view.shape[0]; row++) {
                CHECK(((const float *)view.data)[row] == next++);
            }
            umbo_value_release(component);
            CHECK_OK(umbo_value_example_count(element, replica, &examples));
            CHECK(examples == expected[step][replica]);
        }
        umbo_value_release(element);
    }
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element == NULL);
    CHECK_OK(umbo_iterator_reset(iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element != NULL);
    umbo_value_release(element);
    CHECK_OK(umbo_iterator_next(other, &element));
    CHECK_OK(umbo_value_example_count(element, -1, &examples));
    CHECK(examples == 4);
    umbo_value_release(element);
    umbo_iterator_release(other);
    umbo_iterator_release(iterator);
    umbo_distributed_dataset_release(distributed);

    distributed = NULL; /* scalars cannot be split: said at once, not in next */
    CHECK_STATUS(umbo_strategy_distribute_dataset(strategy, source, NULL, &distributed),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch");
    CHECK(distributed == NULL);
    umbo_dataset_release(batches);
    umbo_dataset_release(source);
    umbo_strategy_release(strategy);
}

/* What is both taken and replaced. */
static void the_place_of_a_handle(void) {
    CHECK_STATUS(umbo_dataset_prefetch(NULL, 2), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_dataset_prefetch: dataset: is NULL; the address of the dataset's handle");
}

int main(void) {
    the_place_of_a_handle();
    elements_are_for_reading();
    transformations();
    shuffling();
    zipping_and_resetting();
    idx_files();
    distributed();
    return finish();
}
