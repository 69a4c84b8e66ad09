/* Sources of datasets, and the transformations that test_dataset.c leaves. */
#include "check.h"

#include <umbo/all.h>

/* Iterates over int64 elements and gives the dataset up: how many numbers there were. */
static int drain(umbo_dataset *dataset, int64_t *into, int room) {
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    int count = 0;
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    for (;;) {
        umbo_view view;
        int64_t index, size = 1;
        int32_t axis;
        CHECK_OK(umbo_iterator_next(iterator, &element));
        if (element == NULL) break;
        CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
        CHECK(view.dtype == UMBO_DTYPE_INT64);
        for (axis = 0; axis < view.ndim; axis++) size *= view.shape[axis];
        CHECK(count + size <= room);
        for (index = 0; index < size; index++) into[count++] = ((const int64_t *)view.data)[index];
        umbo_value_release(element);
    }
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    return count;
}

static umbo_dataset *range(int64_t start, int64_t stop, int64_t step) {
    umbo_dataset *dataset = NULL;
    CHECK_OK(umbo_dataset_from_range(start, stop, step, &dataset));
    return dataset;
}

static void ranges(void) {
    umbo_dataset *dataset = NULL;
    int64_t seen[8];
    CHECK(drain(range(2, 9, 3), seen, 8) == 3 && seen[0] == 2 && seen[2] == 8);
    CHECK(drain(range(1, -2, -1), seen, 8) == 3 && seen[2] == -1);
    CHECK(drain(range(5, 5, 1), seen, 8) == 0);
    CHECK_STATUS(umbo_dataset_from_range(0, 5, 0, &dataset), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("step");
    CHECK(dataset == NULL);
}

static void tensors(void) {
    const int64_t numbers[3] = {1, 2, 3}, one = 1, three = 3;
    umbo_tensor *both[2];
    umbo_value *value;
    umbo_dataset *dataset = NULL, *padded = NULL;
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    umbo_view view;
    int64_t seen[8];
    both[0] = make_tensor(UMBO_DTYPE_INT64, 1, &three, numbers);
    both[1] = make_tensor(UMBO_DTYPE_INT64, 1, &one, numbers);
    CHECK_OK(umbo_value_from_tensor(both[0], &value));
    CHECK_OK(umbo_dataset_from_tensors(value, &dataset)); /* one element, not three */
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.ndim == 1 && view.shape[0] == 3);
    umbo_value_release(element);
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element == NULL);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    umbo_value_release(value);

    CHECK_OK(umbo_dataset_from_elements(2, (const umbo_tensor *const *)both, &dataset));
    CHECK_OK(umbo_dataset_retain(dataset, &padded));
    CHECK_OK(umbo_dataset_padded_batch(&padded, 2, 0));
    CHECK(drain(padded, seen, 8) == 6 && seen[2] == 3 && seen[3] == 1 && seen[4] == 0);
    CHECK_OK(umbo_dataset_retain(dataset, &padded));
    CHECK_OK(umbo_dataset_batch(&padded, 2, 0)); /* without padding they do not fit */
    umbo_dataset_release(dataset);
    CHECK_OK(umbo_iterator_from_dataset(padded, &iterator));
    CHECK_STATUS(umbo_iterator_next(iterator, &element), UMBO_STATUS_INVALID_ARGUMENT);
    umbo_iterator_release(iterator);
    umbo_dataset_release(padded);
    umbo_tensor_release(both[1]);
    umbo_tensor_release(both[0]);
}

static void write_file(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    CHECK(fwrite(bytes, 1, count, file) == count);
    CHECK(fclose(file) == 0);
}

/* NumPy's format, version 1.0: a header of 118 bytes, then two little-endian int64. */
static void npy_files(void) {
    const char *const path = "test_sources.npy";
    unsigned char file[128 + 16];
    umbo_dataset *dataset = NULL;
    int64_t seen[4];
    memset(file, ' ', 128);
    memset(file + 128, 0, 16);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(file + 10, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 57);
    file[127] = '\n';
    file[128] = 5;
    file[136] = 6;
    write_file(path, file, sizeof(file));
    CHECK_OK(umbo_dataset_from_npy_file(path, &dataset));
    CHECK(drain(dataset, seen, 4) == 2 && seen[0] == 5 && seen[1] == 6);
    dataset = NULL;
    write_file(path, file, sizeof(file) - 1);
    CHECK_STATUS(umbo_dataset_from_npy_file(path, &dataset), UMBO_STATUS_DATA_LOSS);
    file[0] = 'x';
    write_file(path, file, sizeof(file));
    CHECK_STATUS(umbo_dataset_from_npy_file(path, &dataset), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(umbo_dataset_from_npz_file(path, 0, NULL, &dataset) != UMBO_OK);
    CHECK(remove(path) == 0);
    CHECK_STATUS(umbo_dataset_from_npy_file(path, &dataset), UMBO_STATUS_NOT_FOUND);
    CHECK_STATUS(umbo_dataset_from_npz_file(path, 0, NULL, &dataset), UMBO_STATUS_NOT_FOUND);
    CHECK(dataset == NULL);
}

/* A generator of 0, 1, ... up to a limit; the pass is its position. */
typedef struct {
    int64_t limit;
    int begun;
    int ended;
    int destroyed;
} counting;

static umbo_status begin(void *user_data, void **pass) {
    *pass = calloc(1, sizeof(int64_t));
    CHECK(*pass != NULL);
    ((counting *)user_data)->begun++;
    return UMBO_OK;
}

static umbo_status next(void *pass, void *user_data, umbo_value **element) {
    int64_t *position = (int64_t *)pass;
    if (*position == ((counting *)user_data)->limit) return UMBO_OK;
    *element = into_value(make_tensor(UMBO_DTYPE_INT64, 0, NULL, position));
    *position += 1;
    return UMBO_OK;
}

static void end(void *pass, void *user_data) {
    free(pass);
    ((counting *)user_data)->ended++;
}

static void destroy(void *user_data) { ((counting *)user_data)->destroyed++; }

static void generators(void) {
    counting self = {3, 0, 0, 0};
    umbo_element_spec *spec = NULL;
    umbo_dataset *dataset = NULL, *twice = NULL;
    int64_t seen[8], count = 0;
    umbo_generator generator = UMBO_GENERATOR_INIT;
    generator.begin = begin;
    generator.next = next;
    generator.end = end;
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 0, NULL, &spec));
    CHECK_OK(umbo_dataset_from_generator(spec, &generator, &self, destroy, &dataset));
    CHECK_OK(umbo_dataset_cardinality(dataset, &count));
    CHECK(count == -2 && self.begun == 0);
    CHECK_OK(umbo_dataset_retain(dataset, &twice));
    CHECK_OK(umbo_dataset_repeat(&twice, 2));
    umbo_dataset_release(dataset);
    CHECK(self.destroyed == 0);
    CHECK(drain(twice, seen, 8) == 6 && seen[2] == 2 && seen[3] == 0);
    CHECK(self.begun == self.ended && self.begun >= 2 && self.destroyed == 1);

    generator.next = NULL;
    dataset = NULL;
    CHECK_STATUS(umbo_dataset_from_generator(spec, &generator, &self, destroy, &dataset),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("next");
    CHECK(self.destroyed == 2 && dataset == NULL);
    umbo_element_spec_release(spec);
}

/* Squares; 3 is refused. */
static umbo_status square(const umbo_value *element, void *user_data, umbo_value **result) {
    umbo_view view;
    int64_t number;
    (void)user_data;
    CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
    number = *(const int64_t *)view.data;
    if (number == 3) return umbo_set_last_error(UMBO_STATUS_ABORTED, "three", NULL, NULL);
    number *= number;
    *result = into_value(make_tensor(UMBO_DTYPE_INT64, 0, NULL, &number));
    return UMBO_OK;
}

static void mapping(void) {
    int32_t parallel;
    for (parallel = 1; parallel <= 4; parallel += 3) {
        counting self = {0, 0, 0, 0};
        umbo_dataset *numbers = range(0, 6, 1), *mapped = NULL;
        umbo_iterator *iterator = NULL;
        umbo_value *element = NULL;
        umbo_view view;
        int64_t index;
        umbo_map_options options = UMBO_MAP_OPTIONS_INIT;
        options.parallel_call_count = parallel;
        CHECK_OK(umbo_dataset_retain(numbers, &mapped));
        CHECK_OK(umbo_dataset_map(&mapped, square, &self, destroy, &options));
        CHECK_OK(umbo_iterator_from_dataset(mapped, &iterator));
        for (index = 0; index < 6; index++) { /* in order, the failure in its place */
            if (index == 3) {
                CHECK_STATUS(umbo_iterator_next(iterator, &element), UMBO_STATUS_ABORTED);
                CHECK_MESSAGE("three");
                continue;
            }
            CHECK_OK(umbo_iterator_next(iterator, &element));
            CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
            CHECK(*(const int64_t *)view.data == index * index);
            umbo_value_release(element);
        }
        CHECK_OK(umbo_iterator_next(iterator, &element));
        CHECK(element == NULL);
        umbo_iterator_release(iterator);
        umbo_dataset_release(mapped);
        CHECK(self.destroyed == 1);
        options.parallel_call_count = 5000;
        CHECK_STATUS(umbo_dataset_map(&numbers, square, &self, destroy, &options),
                     UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("parallel_call_count");
        CHECK(self.destroyed == 2);
        umbo_dataset_release(numbers);
    }
}

static void other_transformations(void) {
    const int64_t sizes[2] = {3, 1};
    umbo_dataset *numbers = range(0, 7, 1), *batches = NULL, *a = NULL, *b = NULL;
    const umbo_dataset *both[2];
    int64_t seen[16], count = 0;
    CHECK_OK(umbo_dataset_retain(numbers, &a));
    CHECK_OK(umbo_dataset_shard(&a, 3, 1));
    CHECK(drain(a, seen, 16) == 2 && seen[0] == 1 && seen[1] == 4);
    CHECK_OK(umbo_dataset_retain(numbers, &a));
    CHECK_OK(umbo_dataset_cache(&a));
    CHECK_OK(umbo_dataset_retain(a, &b));
    CHECK_OK(umbo_dataset_repeat(&b, 2));
    umbo_dataset_release(a);
    CHECK(drain(b, seen, 16) == 14 && seen[6] == 6 && seen[13] == 6);
    both[0] = numbers;
    both[1] = numbers;
    CHECK_OK(umbo_dataset_concatenate(2, both, &a));
    CHECK(drain(a, seen, 16) == 14 && seen[7] == 0);
    CHECK_OK(umbo_dataset_retain(numbers, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 4, 0));
    CHECK_OK(umbo_dataset_retain(batches, &a));
    CHECK_OK(umbo_dataset_rebatch(&a, 2, sizes, 0)); /* 3, 1, 3 */
    CHECK_OK(umbo_dataset_cardinality(a, &count));
    CHECK(count == 3 || count == -2);
    CHECK(drain(a, seen, 16) == 7 && seen[6] == 6);
    a = NULL;
    CHECK_STATUS(umbo_dataset_shard(&numbers, 0, 0), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_dataset_shard(&numbers, 2, 2), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_dataset_rebatch(&batches, 0, sizes, 0), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_dataset_concatenate(0, both, &a), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(a == NULL);
    umbo_dataset_release(batches);
    umbo_dataset_release(numbers);
}

/* Copies are made at the call: what the caller writes later is not seen. */
static void numpy_datasets(void) {
    umbo_strategy *strategy = make_strategy(2);
    int64_t numbers[3] = {1, 2, 3}, seen[4];
    const int64_t three = 3;
    umbo_tensor *tensor = NULL;
    umbo_value *arrays, *scalar = float_value(1);
    umbo_dataset *dataset = NULL;
    CHECK_OK(umbo_tensor_from_memory(UMBO_DTYPE_INT64, 1, &three, NULL, numbers, NULL, NULL, NULL,
                                     &tensor));
    arrays = into_value(tensor);
    CHECK_OK(umbo_strategy_make_numpy_dataset(strategy, arrays, &dataset));
    umbo_value_release(arrays);
    numbers[1] = 99;
    CHECK(drain(dataset, seen, 4) == 3 && seen[1] == 2);
    dataset = NULL;
    CHECK_STATUS(umbo_strategy_make_numpy_dataset(strategy, scalar, &dataset),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(dataset == NULL);
    umbo_value_release(scalar);
    umbo_strategy_release(strategy);
}

int main(void) {
    ranges();
    tensors();
    npy_files();
    generators();
    mapping();
    other_transformations();
    numpy_datasets();
    return finish();
}
