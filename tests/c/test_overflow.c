/* Sizes that overflow or that no machine has: a status, never a wrapped size. */
#include "check.h"

static void refuse(int32_t rank, const int64_t *shape, umbo_status expected, const char *word) {
    float memory[4] = {0};
    umbo_tensor *tensor = NULL;
    CHECK_STATUS(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, rank, shape, NULL, &tensor), expected);
    CHECK(strstr(umbo_last_error_message(), word) != NULL);
    CHECK_STATUS(umbo_tensor_create_uninitialized(UMBO_DTYPE_FLOAT32, rank, shape, NULL, &tensor), expected);
    CHECK(strstr(umbo_last_error_message(), word) != NULL);
    if (expected == UMBO_STATUS_INVALID_ARGUMENT) {
        CHECK_STATUS(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, rank, shape, memory, NULL, &tensor),
                     expected);
        CHECK_STATUS(umbo_tensor_from_memory(UMBO_DTYPE_FLOAT32, rank, shape, NULL, memory, NULL, NULL,
                                             NULL, &tensor),
                     expected);
    }
    CHECK(tensor == NULL);
}

int main(void) {
    const int64_t product[3] = {(int64_t)1 << 32, (int64_t)1 << 31, 4};
    const int64_t bytes[1] = {(int64_t)1 << 62};
    const int64_t not_here[1] = {(int64_t)1 << 55};
    const int64_t negative[2] = {2, -1};
    const int64_t smallest[1] = {INT64_MIN};
    const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t hidden_by_zero[3] = {(int64_t)1 << 62, (int64_t)1 << 62, 0};
    const int64_t two[1] = {2}, far_stride[1] = {(int64_t)1 << 62};
    float memory[2] = {0};
    umbo_tensor *tensor = NULL;

    refuse(3, product, UMBO_STATUS_INVALID_ARGUMENT, "shape");
    refuse(1, bytes, UMBO_STATUS_INVALID_ARGUMENT, "shape");
    refuse(2, negative, UMBO_STATUS_INVALID_ARGUMENT, "shape");
    refuse(1, smallest, UMBO_STATUS_INVALID_ARGUMENT, "shape");
    refuse(9, nine, UMBO_STATUS_INVALID_ARGUMENT, "ndim");
    refuse(-1, nine, UMBO_STATUS_INVALID_ARGUMENT, "ndim");
    refuse(1, not_here, UMBO_STATUS_RESOURCE_EXHAUSTED, "");

    /* A dimension of zero makes no elements, but may not hide a shape that cannot be. */
    refuse(3, hidden_by_zero, UMBO_STATUS_INVALID_ARGUMENT, "shape");

    CHECK_STATUS(umbo_tensor_from_memory(UMBO_DTYPE_FLOAT32, 1, two, far_stride, memory, NULL, NULL,
                                         NULL, &tensor),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("stride");
    CHECK(tensor == NULL);
    return finish();
}
