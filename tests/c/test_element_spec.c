/* Element specs: making them, looking at them, those of datasets and iterators. */
#include "check.h"

static umbo_element_spec *tensor_spec(umbo_dtype dtype, int32_t ndim, const int64_t *shape) {
    umbo_element_spec *spec = NULL;
    CHECK_OK(umbo_element_spec_create_tensor(dtype, ndim, shape, &spec));
    return spec;
}

static umbo_element_spec_info spec_info_of(const umbo_element_spec *spec) {
    umbo_element_spec_info info = UMBO_ELEMENT_SPEC_INFO_INIT;
    CHECK_OK(umbo_element_spec_get_info(spec, &info));
    return info;
}

static umbo_value_kind spec_kind(const umbo_element_spec *spec) { return spec_info_of(spec).kind; }

static int64_t spec_count(const umbo_element_spec *spec) { return spec_info_of(spec).item_count; }

/* A vector (or each component of a per-replica value) of `size` elements. */
static int is_vector(const umbo_element_spec *spec, umbo_dtype dtype, int64_t size) {
    const umbo_element_spec_info info = spec_info_of(spec);
    return info.dtype == dtype && info.ndim == 1 && info.shape[0] == size && info.shape[1] == 0;
}

static void making(void) {
    static const char *const names[2] = {"x", "y"}, *const same[2] = {"x", "x"};
    const int64_t unknown[1] = {UMBO_SIZE_UNKNOWN}, wrong[1] = {-2};
    umbo_element_spec *items[2], *tuple = NULL, *fields = NULL, *item = NULL, *another = NULL;
    const char *name = NULL;
    umbo_element_spec_info info;
    items[0] = tensor_spec(UMBO_DTYPE_FLOAT32, 1, unknown);
    items[1] = tensor_spec(UMBO_DTYPE_INT64, 0, NULL);
    CHECK(spec_kind(items[0]) == UMBO_VALUE_TENSOR && spec_count(items[0]) == 1);
    CHECK(is_vector(items[0], UMBO_DTYPE_FLOAT32, UMBO_SIZE_UNKNOWN));
    info = spec_info_of(items[1]);
    CHECK(info.dtype == UMBO_DTYPE_INT64 && info.ndim == 0 && info.shape[0] == 0);
    CHECK_OK(umbo_element_spec_create_tuple(2, (const umbo_element_spec *const *)items, &tuple));
    CHECK(spec_kind(tuple) == UMBO_VALUE_TUPLE && spec_count(tuple) == 2);
    CHECK_OK(umbo_element_spec_create_struct(2, names, (const umbo_element_spec *const *)items, &fields));
    CHECK(spec_kind(fields) == UMBO_VALUE_STRUCT && spec_count(fields) == 2);
    CHECK_OK(umbo_element_spec_field_name(fields, 1, &name));
    CHECK(strcmp(name, "y") == 0);
    CHECK_OK(umbo_element_spec_item(fields, 0, &item));
    CHECK(is_vector(item, UMBO_DTYPE_FLOAT32, UMBO_SIZE_UNKNOWN));
    CHECK_OK(umbo_element_spec_retain(item, &another));
    umbo_element_spec_release(item);
    item = another;
    CHECK(is_vector(item, UMBO_DTYPE_FLOAT32, UMBO_SIZE_UNKNOWN));
    umbo_element_spec_release(item);

    item = NULL;
    CHECK_STATUS(umbo_element_spec_item(tuple, 2, &item), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_element_spec_item(tuple, -1, &item), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_element_spec_field_name(fields, 2, &name), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(umbo_element_spec_field_name(tuple, 0, &name) != UMBO_OK);
    info = spec_info_of(tuple);
    CHECK(info.dtype == UMBO_DTYPE_NONE && info.ndim == 0 && info.shape[0] == 0);
    CHECK_STATUS(umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 1, wrong, &item), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_element_spec_create_tensor((umbo_dtype)99, 1, unknown, &item),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 9, unknown, &item), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_element_spec_create_struct(2, same, (const umbo_element_spec *const *)items, &item),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(item == NULL);
    umbo_element_spec_release(fields);
    umbo_element_spec_release(tuple);
    umbo_element_spec_release(items[1]);
    umbo_element_spec_release(items[0]);
}

static umbo_dataset *batches_of_four(int64_t count, int32_t drop_remainder) {
    umbo_dataset *numbers = NULL, *batches = NULL;
    CHECK_OK(umbo_dataset_from_range(0, count, 1, &numbers));
    CHECK_OK(umbo_dataset_retain(numbers, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 4, drop_remainder));
    umbo_dataset_release(numbers);
    return batches;
}

/* The number of rows is known only if it is the same in all steps. */
static void distributed(int32_t replicas, int32_t drop_remainder, int64_t rows) {
    umbo_strategy *strategy = make_strategy(replicas);
    umbo_dataset *batches = batches_of_four(10, drop_remainder);
    umbo_distributed_dataset *distributed_batches = NULL;
    umbo_iterator *iterator = NULL;
    umbo_element_spec *spec = NULL, *component = NULL;
    int64_t steps = 0;
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, batches, NULL, &distributed_batches));
    CHECK_OK(umbo_distributed_dataset_cardinality(distributed_batches, &steps));
    CHECK(steps == (drop_remainder ? 2 : 3));
    CHECK_OK(umbo_distributed_dataset_element_spec(distributed_batches, &spec));
    CHECK(is_vector(spec, UMBO_DTYPE_INT64, rows));
    if (replicas == 1) {
        CHECK(spec_kind(spec) == UMBO_VALUE_TENSOR);
    } else {
        CHECK(spec_kind(spec) == UMBO_VALUE_PER_REPLICA && spec_count(spec) == replicas);
        CHECK_OK(umbo_element_spec_item(spec, replicas - 1, &component));
        CHECK(spec_kind(component) == UMBO_VALUE_TENSOR);
        CHECK(is_vector(component, UMBO_DTYPE_INT64, rows));
        umbo_element_spec_release(component);
    }
    umbo_element_spec_release(spec);
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed_batches, &iterator));
    CHECK_OK(umbo_iterator_element_spec(iterator, &spec)); /* the same */
    CHECK(is_vector(spec, UMBO_DTYPE_INT64, rows));
    umbo_element_spec_release(spec);
    umbo_iterator_release(iterator);
    umbo_distributed_dataset_release(distributed_batches);
    umbo_dataset_release(batches);
    umbo_strategy_release(strategy);
}

static void of_datasets(void) {
    umbo_dataset *batches = batches_of_four(10, 0);
    umbo_iterator *iterator = NULL;
    umbo_element_spec *spec = NULL;
    CHECK_OK(umbo_dataset_element_spec(batches, &spec));
    CHECK(spec_kind(spec) == UMBO_VALUE_TENSOR);
    CHECK(is_vector(spec, UMBO_DTYPE_INT64, UMBO_SIZE_UNKNOWN));
    umbo_element_spec_release(spec);
    CHECK_OK(umbo_iterator_from_dataset(batches, &iterator));
    CHECK_OK(umbo_iterator_element_spec(iterator, &spec));
    CHECK(is_vector(spec, UMBO_DTYPE_INT64, UMBO_SIZE_UNKNOWN));
    umbo_element_spec_release(spec);
    umbo_iterator_release(iterator);
    umbo_dataset_release(batches);
    batches = batches_of_four(10, 1);
    CHECK_OK(umbo_dataset_element_spec(batches, &spec));
    CHECK(is_vector(spec, UMBO_DTYPE_INT64, 4));
    umbo_element_spec_release(spec);
    umbo_dataset_release(batches);
}

int main(void) {
    making();
    of_datasets();
    distributed(1, 1, 4);
    distributed(2, 1, 2);
    distributed(2, 0, UMBO_SIZE_UNKNOWN);
    distributed(3, 1, UMBO_SIZE_UNKNOWN); /* 2, 2 and 0 rows */
    return finish();
}
