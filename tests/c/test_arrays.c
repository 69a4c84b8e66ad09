/* Datasets of the program's arrays, and macros for statuses. */
#include "check.h"

/* The second element, as the first one is taken and dropped. */
static umbo_value *second_of(const umbo_dataset *dataset) {
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    umbo_value_release(element);
    CHECK_OK(umbo_iterator_next(iterator, &element));
    umbo_iterator_release(iterator);
    return element;
}

static void arrays(void) {
    static const char *const names[2] = {"x", "y"};
    static const char *const same[2] = {"x", "x"};
    const int64_t table_shape[2] = {3, 2}, three = 3, two = 2;
    const int64_t negative[2] = {3, -1}, endless[3] = {INT64_MAX, INT64_MAX, 3}, empty[3] = {3, 0, 2};
    float table[6] = {1, 2, 3, 4, 5, 6};
    int32_t labels[3] = {7, 8, 9};
    umbo_view views[2];
    umbo_dataset *dataset = NULL, *none = NULL;
    umbo_value *element;
    umbo_view view;
    int64_t count = 0;
    views[0] = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, table_shape, table);
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 1, &three, labels);
    CHECK(views[0].strides[0] == 2 && views[0].element_bytes == 4 && views[0].mutable_data == NULL);
    CHECK_OK(umbo_dataset_from_arrays(2, names, views, &dataset));
    table[2] = 99; /* was copied */
    element = second_of(dataset);
    CHECK(kind_of(element) == UMBO_VALUE_STRUCT);
    CHECK_OK(umbo_value_view(element, "x", UMBO_DTYPE_NONE, &view));
    CHECK(view.shape[0] == 2 && ((const float *)view.data)[0] == 3);
    CHECK_OK(umbo_value_view(element, "y", UMBO_DTYPE_NONE, &view));
    CHECK(view.ndim == 0 && *(const int32_t *)view.data == 8);
    umbo_value_release(element);
    umbo_dataset_release(dataset);

    CHECK_OK(umbo_dataset_from_arrays(2, NULL, views, &dataset));
    element = second_of(dataset);
    CHECK(kind_of(element) == UMBO_VALUE_TUPLE);
    umbo_value_release(element);
    umbo_dataset_release(dataset);

    /* One without a name is plain slices; a view need not be contiguous. */
    views[0].flags = UMBO_VIEW_READ_ONLY;
    views[0].strides[0] = 1;
    views[0].strides[1] = 3;
    CHECK_OK(umbo_dataset_from_arrays(1, NULL, views, &dataset));
    element = second_of(dataset);
    CHECK(kind_of(element) == UMBO_VALUE_TENSOR);
    CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(*(const float *)view.data == 2 && ((const float *)view.data)[view.strides[0]] == 5);
    umbo_value_release(element);
    CHECK_OK(umbo_dataset_cardinality(dataset, &count));
    CHECK(count == 3);
    umbo_dataset_release(dataset);

    CHECK_STATUS(umbo_dataset_from_arrays(2, same, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_dataset_from_arrays(0, NULL, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 1, &two, labels);
    CHECK_STATUS(umbo_dataset_from_arrays(2, names, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("dimension 0");
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, UMBO_MAX_NDIM + 1, &two, labels);
    CHECK_STATUS(umbo_dataset_from_arrays(2, names, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("views: ndim: 9; valid are 0 to 8");
    /* Sizes that cannot be make no view, and nothing overflows. */
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 1, NULL, labels);
    CHECK(views[1].dtype == UMBO_DTYPE_NONE);
    CHECK_STATUS(umbo_dataset_from_arrays(2, names, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("dtype: 0, and no data, as umbo_view_of_memory() makes of a shape that is NULL; 1 sizes");
    CHECK(umbo_view_of_memory(UMBO_DTYPE_INT32, 2, negative, labels).dtype == UMBO_DTYPE_NONE);
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 3, endless, labels);
    CHECK(views[1].dtype == UMBO_DTYPE_NONE && views[1].data == NULL);
    CHECK_STATUS(umbo_dataset_from_arrays(2, names, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 3, empty, NULL);
    CHECK(views[1].dtype == UMBO_DTYPE_INT32 && views[1].ndim == 3 && views[1].shape[0] == 3);
    CHECK(none == NULL);
}

static umbo_status fails_late(int *released) {
    umbo_status status;
    umbo_tensor *tensor = NULL, *other = NULL;
    UMBO_TRY_ELSE(status, umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 0, NULL, NULL, &tensor),
                  done);
    UMBO_TRY_ELSE(status, umbo_tensor_create_zeros(UMBO_DTYPE_NONE, 0, NULL, NULL, &other), done);
    CHECK(!"the type is none");
done:
    umbo_tensor_release(tensor);
    umbo_tensor_release(other);
    *released = 1;
    return status;
}

static void macros(void) {
    int released = 0;
    CHECK_STATUS(fails_late(&released), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(released);
    UMBO_CHECK(UMBO_OK);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "fail") == 0) { /* how a test of the build looks at what UMBO_CHECK does */
        UMBO_CHECK(umbo_dtype_convert_to_float(UMBO_DTYPE_NONE, 0, NULL, NULL));
        return 0;
    }
    arrays();
    macros();
    return finish();
}
