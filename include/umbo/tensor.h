/* Generated from src/ffi; do not edit. */
#ifndef UMBO_TENSOR_H
#define UMBO_TENSOR_H

/**
 * @file tensor.h
 * @brief Tensors: elements of one dtype on one device, strided, with shared ownership; and views,
 * which say where elements lie, for loops over them.
 *
 * A function that gives a tensor gives a reference, which its caller releases with
 * umbo_tensor_release(). Slices, reshaped and transposed tensors share the memory of the tensor
 * that they were made from and keep it. A view is valid as long as what it was taken from.
 *
 * Threads: all functions are *concurrent*, also on one tensor. Of the elements the *caller locks*:
 * while a call reads or writes a tensor's memory, nobody else may write it.
 *
 * Functions:
 * - umbo_tensor_create_zeros(): A new tensor of zeros, contiguous, on `device` (NULL: in a
 *   replica's callback its device, else CPU:0).
 * - umbo_tensor_create_uninitialized(): A new tensor on `device` (NULL: in a replica's callback
 *   its device, else CPU:0) whose elements are whatever was in memory; for the rest as
 *   umbo_tensor_create_zeros().
 * - umbo_tensor_from_data(): A new tensor on `device` (NULL: in a replica's callback its device,
 *   else CPU:0) with a copy of `data`: host memory with as many elements as `shape` has, in
 *   row-major order.
 * - umbo_tensor_from_memory(): A new tensor over memory of the caller's, which must stay there
 *   until `destroy` (or NULL) is called with `user_data`: when the last tensor over it is gone.
 * - umbo_tensor_view(): Where the elements lie.
 * - umbo_tensor_slice(): Every `step`-th position from `start` to before `stop` along `axis`
 *   (negative: counted from the last): a new tensor that shares the memory.
 * - umbo_tensor_reshape(): The same elements in row-major order under another shape: a new tensor
 *   that shares the memory.
 * - umbo_tensor_transpose(): The same elements with the axes in another order: a new tensor that
 *   shares the memory.
 * - umbo_tensor_copy(): A copy on `device` (NULL: in a replica's callback its device, else CPU:0):
 *   a new tensor, contiguous in row-major order, that shares nothing.
 * - umbo_tensor_copy_to_host(): Copies the elements to host memory, in row-major order.
 * - umbo_tensor_device_name(): The canonical name of the device that holds the elements, such as
 *   "/job:localhost/replica:0/task:0/device:CPU:0".
 * - umbo_tensor_retain(): Another handle to the same object, to be released like the first; also
 *   of what a callback was only lent, which then stays.
 * - umbo_tensor_release(): Releases a reference.
 *
 * Example:
 * ```c
 * // The sum of a contiguous float32 tensor.
 * static umbo_status sum_of(const umbo_tensor *tensor, double *sum) {
 *   umbo_view view;
 *   int64_t i, size = 1;
 *   UMBO_TRY(umbo_tensor_view(tensor, &view));
 *   for (i = 0; i < view.rank; i++) size *= view.shape[i];
 *   for (*sum = 0, i = 0; i < size; i++) *sum += ((const float *)view.data)[i];
 *   return UMBO_OK;
 * }
 * ```
 */

#include <umbo/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The largest rank of a tensor. */
#define UMBO_MAX_RANK (8)

/** The type of a tensor's elements. */
UMBO_ENUM(umbo_dtype) {
  /** No type in particular, where an option may leave it open. */
  UMBO_DTYPE_NONE = 0,
  /** IEEE 754 binary16. */
  UMBO_DTYPE_FLOAT16 = 1,
  /** The upper half of an IEEE 754 binary32. */
  UMBO_DTYPE_BFLOAT16 = 2,
  /** `float`. */
  UMBO_DTYPE_FLOAT32 = 3,
  /** `double`. */
  UMBO_DTYPE_FLOAT64 = 4,
  /** `int8_t`. */
  UMBO_DTYPE_INT8 = 5,
  /** `int16_t`. */
  UMBO_DTYPE_INT16 = 6,
  /** `int32_t`. */
  UMBO_DTYPE_INT32 = 7,
  /** `int64_t`. */
  UMBO_DTYPE_INT64 = 8,
  /** `uint8_t`. */
  UMBO_DTYPE_UINT8 = 9,
  /** `uint16_t`. */
  UMBO_DTYPE_UINT16 = 10,
  /** `uint32_t`. */
  UMBO_DTYPE_UINT32 = 11,
  /** `uint64_t`. */
  UMBO_DTYPE_UINT64 = 12,
  /** One byte, 0 or 1. */
  UMBO_DTYPE_BOOL = 13
};

/** What a view says of its memory: a sum of the UMBO_VIEW_ constants. */
UMBO_ENUM(umbo_view_flags) {
  /** The elements may only be read: `mutable_data` is NULL. */
  UMBO_VIEW_READ_ONLY = 1,
  /** The elements lie one after the other, in row-major order: `strides` need not be looked at. */
  UMBO_VIEW_CONTIGUOUS = 2
};

/**
 * Where elements lie: all that a loop over them needs, without a handle. Valid as long as what
 * it was taken from. Its size stays the same in later versions, which may give `room` a meaning.
 */
typedef struct umbo_view {
  /** The first element, for reading. */
  const void *data;
  /** The first element, for writing; NULL if the elements may only be read. */
  void *mutable_data;
  /** The type of the elements. */
  umbo_dtype dtype;
  /** How many dimensions there are, 0 to 8. */
  int32_t rank;
  /** Where the memory is. */
  umbo_device device;
  /** UMBO_VIEW_READ_ONLY and UMBO_VIEW_CONTIGUOUS, as far as they hold. */
  umbo_view_flags flags;
  /** The size of an element in bytes. */
  int32_t element_bytes;
  /** The sizes of the dimensions, 0 past `rank`. */
  int64_t shape[8];
  /** The distance between neighbours along each dimension, in elements, 0 past `rank`. */
  int64_t strides[8];
  /** Zero. */
  uint64_t room[4];
} umbo_view;

/**
 * A new tensor of zeros, contiguous, on `device` (NULL: in a replica's callback its device, else
 * CPU:0).
 *
 * `shape` has `rank` sizes and may be NULL if `rank` is 0. Release the tensor with
 * umbo_tensor_release(). RESOURCE_EXHAUSTED if the memory cannot be had.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_create_zeros(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, const char *device,
    umbo_tensor **tensor);

/**
 * A new tensor on `device` (NULL: in a replica's callback its device, else CPU:0) whose elements
 * are whatever was in memory; for the rest as umbo_tensor_create_zeros().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_create_uninitialized(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, const char *device,
    umbo_tensor **tensor);

/**
 * A new tensor on `device` (NULL: in a replica's callback its device, else CPU:0) with a copy of
 * `data`: host memory with as many elements as `shape` has, in row-major order. `data` may be NULL
 * if there are none. For the rest as umbo_tensor_create_zeros().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_data(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, const void *data, const char *device,
    umbo_tensor **tensor);

/**
 * A new tensor over memory of the caller's, which must stay there until `destroy` (or NULL) is
 * called with `user_data`: when the last tensor over it is gone. `destroy` runs exactly once, on
 * any thread, also if this function fails.
 *
 * `strides` has `rank` distances in elements, none negative; NULL means row-major. `data` must be
 * a multiple of the element's size, and may be NULL if there are no elements. Elements must be
 * initialised. `device` tells where the memory is (NULL: in a replica's callback its device, else
 * CPU:0).
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_memory(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, const int64_t *strides, void *data,
    const char *device, void *user_data, umbo_destroy_fn destroy, umbo_tensor **tensor);

/**
 * Where the elements lie. The view is valid as long as the tensor's memory: until the last
 * tensor over it is released.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_view(const umbo_tensor *tensor, umbo_view *view);

/**
 * Every `step`-th position from `start` to before `stop` along `axis` (negative: counted from
 * the last): a new tensor that shares the memory. OUT_OF_RANGE if 0 <= start <= stop <= size
 * does not hold; INVALID_ARGUMENT if `step` is less than 1.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_slice(
    const umbo_tensor *tensor, int32_t axis, int64_t start, int64_t stop, int64_t step,
    umbo_tensor **slice);

/**
 * The same elements in row-major order under another shape: a new tensor that shares the memory.
 * INVALID_ARGUMENT if the numbers of elements differ, or if the tensor's strides are not
 * row-major: copy it first.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_reshape(
    const umbo_tensor *tensor, int32_t rank, const int64_t *shape, umbo_tensor **reshaped);

/**
 * The same elements with the axes in another order: a new tensor that shares the memory. `axes`
 * has as many numbers as the tensor has axes, the first of which says which axis comes first;
 * NULL reverses them.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_transpose(
    const umbo_tensor *tensor, const int32_t *axes, umbo_tensor **transposed);

/**
 * A copy on `device` (NULL: in a replica's callback its device, else CPU:0): a new tensor,
 * contiguous in row-major order, that shares nothing.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_copy(
    const umbo_tensor *tensor, const char *device, umbo_tensor **copy);

/**
 * Copies the elements to host memory, in row-major order. `bytes` is the size of `destination`,
 * which must be that of all elements; its address must be a multiple of an element's size.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_copy_to_host(
    const umbo_tensor *tensor, void *destination, size_t bytes);

/**
 * The canonical name of the device that holds the elements, such as
 * "/job:localhost/replica:0/task:0/device:CPU:0". Lives as long as the process.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_device_name(
    const umbo_tensor *tensor, const char **name);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_retain(
    const umbo_tensor *tensor, umbo_tensor **retained);

/** Releases a reference. NULL is fine. */
UMBO_API void umbo_tensor_release(const umbo_tensor *tensor);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
