/* Tensors: creation, foreign memory, views that share storage, copies. */
#include "check.h"

static void made_of_host_data(void) {
    const int64_t shape[2] = {2, 3};
    const float data[6] = {1, 2, 3, 4, 5, 6};
    float back[6] = {0};
    umbo_view view, writable;
    umbo_device_info device = UMBO_DEVICE_INFO_INIT;
    umbo_tensor *tensor = make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, data);
    CHECK_OK(umbo_tensor_view(tensor, &view));
    CHECK(view.dtype == UMBO_DTYPE_FLOAT32 && view.ndim == 2);
    CHECK(view.shape[0] == 2 && view.shape[1] == 3);
    CHECK(view.strides[0] == 3 && view.strides[1] == 1);
    CHECK(view.device.type == UMBO_DEVICE_CPU && view.device.ordinal == 0);
    CHECK(view.data != (const void *)data);
    CHECK_OK(umbo_tensor_download(tensor, back, sizeof(back)));
    CHECK(memcmp(back, data, sizeof(data)) == 0);
    CHECK_STATUS(umbo_tensor_download(tensor, back, sizeof(back) - 1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("bytes");
    CHECK(view.mutable_data == NULL && (view.flags & UMBO_VIEW_READ_ONLY) != 0);
    CHECK_OK(umbo_tensor_mutable_view(tensor, &writable));
    CHECK(writable.data == view.data && writable.mutable_data == view.data);
    CHECK((writable.flags & UMBO_VIEW_READ_ONLY) == 0 && writable.element_bytes == sizeof(float));
    CHECK_OK(umbo_device_get_info(NULL, &device));
    CHECK(device.device.type == view.device.type && device.device.ordinal == view.device.ordinal);
    CHECK(strcmp(device.name, "/job:localhost/replica:0/task:0/device:CPU:0") == 0);
    CHECK(device.physical_count == 1 && device.logical_count >= 1 && device.physical_ordinal == 0);
    CHECK(device.total_bytes > 0 && device.available_bytes <= device.total_bytes);
    CHECK_OK(umbo_device_get_info("cpu:4095", &device)); /* which does not exist */
    CHECK(device.name == NULL && device.device.ordinal == 4095 && device.total_bytes == 0);
    CHECK(device.physical_ordinal == UMBO_NONE);
    CHECK_STATUS(umbo_device_get_info("/job:w/CPU:0", &device), UMBO_STATUS_NOT_FOUND);
    umbo_tensor_release(tensor);
}

/* The elements of an element of a dataset may be shared. */
static umbo_tensor *shared_tensor(void) {
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    const float numbers[2] = {1, 2};
    umbo_tensor *tensor = NULL, *rows = make_floats(2, numbers);
    umbo_value *value = NULL;
    CHECK_OK(umbo_value_from_tensor(rows, &value));
    CHECK_OK(umbo_dataset_from_tensors(value, &dataset));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK_OK(umbo_value_tensor(element, &tensor));
    umbo_value_release(element);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    umbo_value_release(value);
    umbo_tensor_release(rows);
    return tensor;
}

static void written_from_host_memory(void) {
    const int64_t shape[2] = {2, 3}, none[2] = {0, 3};
    const float data[6] = {1, 2, 3, 4, 5, 6}, column[2] = {8, 9};
    const float expected[6] = {1, 8, 3, 4, 9, 6};
    float back[6] = {0};
    umbo_tensor *tensor = NULL, *slice = NULL, *empty = NULL, *shared = shared_tensor();
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 2, shape, NULL, &tensor));
    CHECK_OK(umbo_tensor_upload(tensor, data, sizeof(data)));
    /* A column of it, whose elements do not lie side by side. */
    CHECK_OK(umbo_tensor_slice(tensor, 1, 1, 2, 1, &slice));
    CHECK_OK(umbo_tensor_upload(slice, column, sizeof(column)));
    CHECK_OK(umbo_tensor_download(tensor, back, sizeof(back)));
    CHECK(memcmp(back, expected, sizeof(back)) == 0);

    /* From the tensor's own memory, which it then writes. */
    umbo_view view;
    CHECK_OK(umbo_tensor_view(tensor, &view));
    CHECK_OK(umbo_tensor_upload(slice, (const float *)view.data + 1, sizeof(column)));
    CHECK_OK(umbo_tensor_download(slice, back, sizeof(column)));
    CHECK(back[0] == 8 && back[1] == 3);

    CHECK_STATUS(umbo_tensor_upload(tensor, data, sizeof(data) - 1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("bytes: 23; shape [2, 3] of float32 has 24");
    CHECK_STATUS(umbo_tensor_upload(tensor, NULL, sizeof(data)), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("source");
    CHECK_STATUS(umbo_tensor_upload(shared, data, 2 * sizeof(float)), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("tensor: read-only; its elements may be shared, so make a copy by umbo_tensor_copy()");
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 2, none, NULL, &empty));
    CHECK_OK(umbo_tensor_upload(empty, NULL, 0));
    umbo_tensor_release(tensor);
    umbo_tensor_release(slice);
    umbo_tensor_release(empty);
    umbo_tensor_release(shared);
}

static void zeros_of_every_dtype(void) {
    const size_t sizes[13] = {2, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
    umbo_dtype dtype;
    for (dtype = UMBO_DTYPE_FLOAT16; dtype <= UMBO_DTYPE_BOOL; dtype = (umbo_dtype)(dtype + 1)) {
        const int64_t shape[1] = {3};
        unsigned char bytes[24];
        size_t size = 3 * sizes[dtype - UMBO_DTYPE_FLOAT16], index;
        umbo_tensor *tensor = NULL;
        memset(bytes, 1, sizeof(bytes));
        CHECK_OK(umbo_tensor_create_zeros(dtype, 1, shape, "cpu:0", &tensor));
        CHECK_OK(umbo_tensor_download(tensor, bytes, size));
        for (index = 0; index < size; index++) CHECK(bytes[index] == 0);
        umbo_tensor_release(tensor);
    }
}

static void count_destroyed(void *user_data) { ++*(int *)user_data; }

static void foreign_memory(void) {
    const int64_t shape[2] = {2, 2};
    const int64_t strides[2] = {1, 2}; /* column-major */
    const int64_t backwards[2] = {-1, 1};
    float memory[4] = {1, 2, 3, 4}, rows[4];
    int destroyed = 0;
    umbo_view view;
    umbo_tensor *tensor = NULL, *slice = NULL;
    CHECK_OK(umbo_tensor_from_memory(UMBO_DTYPE_FLOAT32, 2, shape, strides, memory, NULL, &destroyed,
                                     count_destroyed, &tensor));
    CHECK_OK(umbo_tensor_view(tensor, &view));
    CHECK(view.data == memory);
    CHECK_OK(umbo_tensor_download(tensor, rows, sizeof(rows)));
    CHECK(rows[0] == 1 && rows[1] == 3 && rows[2] == 2 && rows[3] == 4);
    CHECK_OK(umbo_tensor_slice(tensor, 0, 1, 2, 1, &slice));
    umbo_tensor_release(tensor);
    CHECK(destroyed == 0); /* the slice still uses the memory */
    umbo_tensor_release(slice);
    CHECK(destroyed == 1);

    /* Runs exactly once also when the tensor cannot be made. */
    destroyed = 0;
    CHECK_STATUS(umbo_tensor_from_memory((umbo_dtype)999, 2, shape, NULL, memory, NULL, &destroyed,
                                         count_destroyed, &tensor),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("dtype");
    CHECK_STATUS(umbo_tensor_from_memory(UMBO_DTYPE_FLOAT32, 2, shape, NULL, memory, "TPU:0", &destroyed,
                                         count_destroyed, &tensor),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_tensor_from_memory(UMBO_DTYPE_FLOAT32, 2, shape, backwards, memory, NULL, &destroyed,
                                         count_destroyed, &tensor),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_tensor_from_memory(UMBO_DTYPE_FLOAT32, 2, shape, NULL, memory, NULL, &destroyed,
                                         count_destroyed, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(destroyed == 4);
    CHECK_OK(umbo_tensor_from_memory(UMBO_DTYPE_FLOAT32, 2, shape, NULL, memory, NULL, NULL, NULL,
                                     &tensor));
    umbo_tensor_release(tensor);
}

static void shared_views(void) {
    const int64_t shape[2] = {3, 4}, flat[1] = {12}, wrong[2] = {5, 2};
    const int32_t twice[2] = {1, 1};
    int32_t data[12], back[12];
    int index;
    umbo_view view, of_slice;
    umbo_tensor *tensor, *slice = NULL, *transposed = NULL, *reshaped = NULL, *copy = NULL;
    for (index = 0; index < 12; index++) data[index] = index;
    tensor = make_tensor(UMBO_DTYPE_INT32, 2, shape, data);
    CHECK_OK(umbo_tensor_view(tensor, &view));

    CHECK_OK(umbo_tensor_slice(tensor, -1, 1, 4, 2, &slice)); /* columns 1 and 3 */
    CHECK_OK(umbo_tensor_mutable_view(slice, &of_slice));
    CHECK(of_slice.data == (const void *)((const int32_t *)view.data + 1));
    CHECK(of_slice.shape[0] == 3 && of_slice.shape[1] == 2 && of_slice.strides[1] == 2);
    ((int32_t *)of_slice.mutable_data)[0] = 100;
    CHECK(((const int32_t *)view.data)[1] == 100);
    CHECK_OK(umbo_tensor_download(slice, back, 6 * sizeof(int32_t)));
    CHECK(back[0] == 100 && back[1] == 3 && back[2] == 5 && back[5] == 11);

    CHECK_OK(umbo_tensor_transpose(tensor, NULL, &transposed));
    CHECK_OK(umbo_tensor_download(transposed, back, sizeof(back)));
    CHECK(back[0] == 0 && back[1] == 4 && back[2] == 8 && back[3] == 100);
    CHECK_STATUS(umbo_tensor_transpose(tensor, twice, &copy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("axes");

    CHECK_OK(umbo_tensor_reshape(tensor, 1, flat, &reshaped));
    CHECK_STATUS(umbo_tensor_reshape(tensor, 2, wrong, &copy), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("shape");
    CHECK_STATUS(umbo_tensor_reshape(transposed, 1, flat, &copy), UMBO_STATUS_INVALID_ARGUMENT);

    CHECK_OK(umbo_tensor_copy(transposed, NULL, &copy));
    CHECK_OK(umbo_tensor_view(copy, &view));
    CHECK(view.strides[0] == 3 && view.strides[1] == 1);

    umbo_tensor_release(copy);
    umbo_tensor_release(reshaped);
    umbo_tensor_release(transposed);
    umbo_tensor_release(slice);
    umbo_tensor_release(tensor);
}

int main(void) {
    made_of_host_data();
    written_from_host_memory();
    zeros_of_every_dtype();
    foreign_memory();
    shared_views();
    return finish();
}
