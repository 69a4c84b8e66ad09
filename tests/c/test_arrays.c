/* Datasets of the program's arrays and of several IDX files, and conversions of 16-bit floats. */
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
    /* Sizes that cannot be make no view, and nothing overflows. */
    CHECK(umbo_view_of_memory(UMBO_DTYPE_INT32, 1, NULL, labels).dtype == UMBO_DTYPE_NONE);
    CHECK(umbo_view_of_memory(UMBO_DTYPE_INT32, 2, negative, labels).dtype == UMBO_DTYPE_NONE);
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 3, endless, labels);
    CHECK(views[1].dtype == UMBO_DTYPE_NONE && views[1].data == NULL);
    CHECK_STATUS(umbo_dataset_from_arrays(2, names, views, &none), UMBO_STATUS_INVALID_ARGUMENT);
    views[1] = umbo_view_of_memory(UMBO_DTYPE_INT32, 3, empty, NULL);
    CHECK(views[1].dtype == UMBO_DTYPE_INT32 && views[1].ndim == 3 && views[1].shape[0] == 3);
    CHECK(none == NULL);
}

static void write_file(const char *path, const unsigned char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static void idx_files(void) {
    static const unsigned char images[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};
    static const unsigned char short_labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
    static const char *const paths[2] = {"test_arrays_images.idx", "test_arrays_labels.idx"};
    static const char *const names[2] = {"image", "label"};
    umbo_dataset *dataset = NULL, *none = NULL;
    umbo_value *element;
    umbo_view view;
    write_file(paths[0], images, sizeof(images));
    write_file(paths[1], labels, sizeof(labels));
    CHECK_OK(umbo_dataset_from_idx_files(2, names, paths, &dataset));
    element = second_of(dataset);
    CHECK_OK(umbo_value_view(element, "image", UMBO_DTYPE_NONE, &view));
    CHECK(view.shape[0] == 3 && ((const unsigned char *)view.data)[2] == 6);
    CHECK_OK(umbo_value_view(element, "label", UMBO_DTYPE_NONE, &view));
    CHECK(*(const unsigned char *)view.data == 9);
    umbo_value_release(element);
    umbo_dataset_release(dataset);
    write_file(paths[1], short_labels, sizeof(short_labels));
    CHECK_STATUS(umbo_dataset_from_idx_files(2, names, paths, &none), UMBO_STATUS_INVALID_ARGUMENT);
    remove(paths[1]);
    CHECK_STATUS(umbo_dataset_from_idx_files(2, names, paths, &none), UMBO_STATUS_NOT_FOUND);
    CHECK(none == NULL);
    remove(paths[0]);
}

static void conversions(void) {
    /* 2049 and 2051 lie half-way between two float16 numbers: the even one is taken. */
    static const float numbers[6] = {1.5f, -2.0f, 2049, 2051, 70000, 5.9604645e-8f};
    static const uint16_t halves[6] = {0x3e00, 0xc000, 0x6800, 0x6802, 0x7c00, 0x0001};
    /* 257 and 259 for bfloat16. */
    static const float more[3] = {257, 259, -1.0f};
    static const uint16_t brains[3] = {0x4380, 0x4382, 0xbf80};
    uint16_t narrow[6] = {0, 0, 0, 0, 0, 0};
    float wide[6] = {0, 0, 0, 0, 0, 0};
    CHECK_OK(umbo_convert_from_float(UMBO_DTYPE_FLOAT16, 6, numbers, narrow));
    CHECK(memcmp(narrow, halves, sizeof(halves)) == 0);
    CHECK_OK(umbo_convert_to_float(UMBO_DTYPE_FLOAT16, 6, narrow, wide));
    CHECK(wide[0] == 1.5f && wide[1] == -2 && wide[2] == 2048 && wide[3] == 2052);
    CHECK(wide[4] > 3e38f && wide[5] == 5.9604645e-8f);
    CHECK_OK(umbo_convert_from_float(UMBO_DTYPE_BFLOAT16, 3, more, narrow));
    CHECK(memcmp(narrow, brains, sizeof(brains)) == 0);
    CHECK_OK(umbo_convert_to_float(UMBO_DTYPE_BFLOAT16, 3, narrow, wide));
    CHECK(wide[0] == 256 && wide[1] == 260 && wide[2] == -1);
    CHECK_OK(umbo_convert_to_float(UMBO_DTYPE_BFLOAT16, 0, NULL, NULL));
    CHECK_STATUS(umbo_convert_from_float(UMBO_DTYPE_FLOAT32, 1, numbers, narrow),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("UMBO_DTYPE_BFLOAT16");
    CHECK_STATUS(umbo_convert_to_float(UMBO_DTYPE_FLOAT16, -1, narrow, wide),
                 UMBO_STATUS_INVALID_ARGUMENT);
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
        UMBO_CHECK(umbo_convert_to_float(UMBO_DTYPE_NONE, 0, NULL, NULL));
        return 0;
    }
    arrays();
    idx_files();
    conversions();
    macros();
    return finish();
}
