/* Generated from src; do not edit. */
#ifndef UMBO_TENSOR_H
#define UMBO_TENSOR_H

/**
 * @file tensor.h
 * @brief Tensors: elements of one dtype on one device; and views, which say where elements lie.
 *
 * A shape is (ndim, shape): up to UMBO_MAX_NDIM sizes of 0 or more. `shape` may be NULL if `ndim`
 * is 0. What is larger than memory can address is UMBO_STATUS_INVALID_ARGUMENT. Strides count
 * elements. Slices, reshaped and transposed tensors share the memory of their tensor, which stays
 * until the last of them is released. A view is valid as long as the memory.
 *
 * Threads: all functions are *concurrent*, also on one tensor.
 *
 * Example:
 * ```c
 * // The sum of a contiguous float32 tensor.
 * static umbo_status sum_of(const umbo_tensor *tensor, double *sum) {
 *   umbo_view view;
 *   int64_t i, size = 1;
 *   UMBO_TRY(umbo_tensor_view(tensor, &view));
 *   for (i = 0; i < view.ndim; i++) size *= view.shape[i];
 *   for (*sum = 0, i = 0; i < size; i++) *sum += ((const float *)view.data)[i];
 *   return UMBO_OK;
 * }
 * ```
 */

#include <string.h>

#include <umbo/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The largest number of dimensions. */
#define UMBO_MAX_NDIM (8)

/** The type of a tensor's elements. */
typedef enum umbo_dtype UMBO_INT32 {
  /** Any type, or none. */
  UMBO_DTYPE_NONE = 0,
  /** IEEE 754 binary16. */
  UMBO_DTYPE_FLOAT16 = 301,
  /** The upper half of an IEEE 754 binary32. */
  UMBO_DTYPE_BFLOAT16 = 302,
  /** `float`. */
  UMBO_DTYPE_FLOAT32 = 303,
  /** `double`. */
  UMBO_DTYPE_FLOAT64 = 304,
  /** `int8_t`. */
  UMBO_DTYPE_INT8 = 305,
  /** `int16_t`. */
  UMBO_DTYPE_INT16 = 306,
  /** `int32_t`. */
  UMBO_DTYPE_INT32 = 307,
  /** `int64_t`. */
  UMBO_DTYPE_INT64 = 308,
  /** `uint8_t`. */
  UMBO_DTYPE_UINT8 = 309,
  /** `uint16_t`. */
  UMBO_DTYPE_UINT16 = 310,
  /** `uint32_t`. */
  UMBO_DTYPE_UINT32 = 311,
  /** `uint64_t`. */
  UMBO_DTYPE_UINT64 = 312,
  /**
   * One byte, 0 or 1. Nothing checks that where a program gives the elements; of other bytes, what
   * is computed is not specified. Readers of files make every byte but 0 a 1.
   */
  UMBO_DTYPE_BOOL = 313
} umbo_dtype;

/** The properties of a view's memory: a sum of these. */
typedef enum umbo_view_flags UMBO_INT32 {
  /** The elements may only be read: `mutable_data` is NULL. */
  UMBO_VIEW_READ_ONLY = 1 << 16,
  /** The elements lie in row-major order without gaps; a loop need not look at `strides`. */
  UMBO_VIEW_CONTIGUOUS = 1 << 17
} umbo_view_flags;

/** Where elements are in memory. The size of the struct stays the same in later versions. */
typedef struct umbo_view {
  /** The first element, for reading. */
  const void *data;
  /** The first element, for writing; NULL if the elements may only be read. */
  void *mutable_data;
  /** The size of one element. */
  size_t element_bytes;
  /** The type of the elements. */
  umbo_dtype dtype;
  /** The number of dimensions. */
  int32_t ndim;
  /** The device that has the memory. */
  umbo_device device;
  /** The sum of those of UMBO_VIEW_READ_ONLY and UMBO_VIEW_CONTIGUOUS that hold. */
  umbo_view_flags flags;
  /** The size of each dimension; 0 from `ndim` on. */
  int64_t shape[8];
  /** How many elements lie between neighbours along each dimension; 0 from `ndim` on. */
  int64_t strides[8];
  /** Zeros. */
  uint64_t reserved[3];
} umbo_view;

/**
 * Makes a contiguous tensor of zeros.
 *
 * @param[in] device The device that holds the elements; `device` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_create_zeros(
    umbo_dtype dtype, int32_t ndim, const int64_t *shape, const char *device,
    umbo_tensor **tensor);

/**
 * Makes a contiguous tensor whose elements are whatever the memory held before.
 *
 * @param[in] device The device that holds the elements; `device` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_create_uninitialized(
    umbo_dtype dtype, int32_t ndim, const int64_t *shape, const char *device,
    umbo_tensor **tensor);

/**
 * Makes a contiguous tensor with a copy of elements in host memory.
 *
 * @param[in] data The elements, in row-major order. `data` may be NULL if there are none.
 * @param[in] device The device that holds the copy; `device` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_data(
    umbo_dtype dtype, int32_t ndim, const int64_t *shape, const void *data, const char *device,
    umbo_tensor **tensor);

/**
 * Makes a tensor over memory of the program, without a copy.
 *
 * @param[in] strides How many elements lie between neighbours along each dimension, 0 or more.
 *   `strides` may be NULL: row-major order.
 * @param[in] data The first element. `data` may be NULL if there are none.
 * @param[in] device The device that has the memory; `device` may be NULL.
 * @param[in] destroy Releases the memory, when the last tensor over it is gone. NULL: nothing to
 *   release.
 *
 * All elements must be initialised. An address that is not a multiple of an element's size is
 * UMBO_STATUS_INVALID_ARGUMENT.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_memory(
    umbo_dtype dtype, int32_t ndim, const int64_t *shape, const int64_t *strides, void *data,
    const char *device, void *user_data, umbo_destroy_fn destroy, umbo_tensor **tensor);

/** Gets a view of the elements, for reading. */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_view(const umbo_tensor *tensor, umbo_view *view);

/**
 * Gets a view of the elements, for writing.
 *
 * Elements that came from a dataset may be shared between iterators: their views stay read-only.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_mutable_view(umbo_tensor *tensor, umbo_view *view);

/**
 * Makes a tensor of every `step`-th position along one axis, from `start` to before `stop`.
 *
 * @param[in] axis The axis; a negative one counts from the end.
 * @param[in] step 1 or more.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such axis, or not 0 <= start <= stop <= size.
 *
 * It shares memory with the tensor.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_slice(
    const umbo_tensor *tensor, int32_t axis, int64_t start, int64_t stop, int64_t step,
    umbo_tensor **slice);

/**
 * Makes a tensor of the same elements in another shape. It shares memory with the tensor.
 *
 * @param[in] tensor A contiguous tensor. umbo_tensor_copy() makes one of any other.
 * @param[in] shape The new shape, of as many elements. `shape` may be NULL if `ndim` is 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_reshape(
    const umbo_tensor *tensor, int32_t ndim, const int64_t *shape, umbo_tensor **reshaped);

/**
 * Makes a tensor with the axes in another order. It shares memory with the tensor.
 *
 * @param[in] axes For each new axis the old one. `axes` may be NULL: the order is reversed.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such axis.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_transpose(
    const umbo_tensor *tensor, const int32_t *axes, umbo_tensor **transposed);

/**
 * Makes a contiguous copy, which shares nothing with the tensor.
 *
 * @param[in] device The device that holds the copy; `device` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_copy(
    const umbo_tensor *tensor, const char *device, umbo_tensor **copy);

/**
 * Copies the elements to host memory, in row-major order.
 *
 * @param[out] destination Memory at a multiple of an element's size. `destination` may be NULL if
 *   there are no elements.
 * @param[in] bytes The size of `destination`, which must be that of all elements.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_download(
    const umbo_tensor *tensor, void *destination, size_t bytes);

/** Makes another handle to the same tensor: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_tensor_retain(
    const umbo_tensor *tensor, umbo_tensor **retained) {
  return umbo_retain(tensor, UMBO_HANDLE_TENSOR, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_tensor_release(const umbo_tensor *tensor) {
  umbo_release(tensor, UMBO_HANDLE_TENSOR);
}

/**
 * Makes a view of an array in host memory: contiguous, row-major, and for reading.
 *
 * @return The view, or an invalid one (its dtype is UMBO_DTYPE_NONE) if the shape is invalid. The
 *   function that gets it says what is wrong with the shape.
 */
static inline umbo_view umbo_view_of_memory(umbo_dtype dtype, int32_t ndim, const int64_t *shape,
                                            const void *data) {
  /* From UMBO_DTYPE_FLOAT16 on. */
  static const size_t bytes[13] = {2, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  umbo_view view;
  int64_t stride = 1;
  int32_t axis, number;
  memset(&view, 0, sizeof(view));
  view.ndim = ndim;
  view.device.type = UMBO_DEVICE_CPU;
  if (ndim < 0 || ndim > UMBO_MAX_NDIM || (ndim > 0 && shape == NULL)) return view;
  for (axis = 0; axis < ndim; axis++) view.shape[axis] = shape[axis];
  for (axis = ndim - 1; axis >= 0; axis--) {
    if (shape[axis] < 0) return view;
    if (shape[axis] > 0 && stride > INT64_MAX / shape[axis]) return view;
    stride *= shape[axis] > 0 ? shape[axis] : 1;
  }
  stride = 1;
  view.data = data;
  view.dtype = dtype;
  view.flags = UMBO_ENUM_VALUE(umbo_view_flags, UMBO_VIEW_READ_ONLY | UMBO_VIEW_CONTIGUOUS);
  number = UMBO_ENUM_VALUE(int32_t, dtype) - UMBO_ENUM_VALUE(int32_t, UMBO_DTYPE_FLOAT16);
  view.element_bytes = number >= 0 && number < 13 ? bytes[number] : 0;
  for (axis = ndim - 1; axis >= 0; axis--) {
    view.strides[axis] = stride;
    stride *= shape[axis];
  }
  return view;
}

/**
 * Makes a view of an array in host memory that the library may write, for
 * umbo_variable_create_in_memory(). As umbo_view_of_memory() in all else.
 */
static inline umbo_view umbo_view_of_mutable_memory(umbo_dtype dtype, int32_t ndim,
                                                    const int64_t *shape, void *data) {
  umbo_view view = umbo_view_of_memory(dtype, ndim, shape, data);
  if (view.flags != 0) {
    view.mutable_data = data;
    view.flags = UMBO_VIEW_CONTIGUOUS;
  }
  return view;
}

/**
 * Rounds float32 numbers to float16 or bfloat16, to the nearest, ties to even.
 *
 * @param[in] dtype UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16.
 * @param[in] from Host memory. `from` may be NULL if there are no numbers.
 * @param[out] to Host memory that does not overlap `from`. `to` may be NULL if there are no
 *   numbers.
 *
 * Numbers that are too large become infinite, and NaN stays NaN.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dtype_convert_from_float(
    umbo_dtype dtype, int64_t count, const float *from, void *to);

/**
 * Converts float16 or bfloat16 numbers to float32, which is exact.
 *
 * The parameters are those of umbo_dtype_convert_from_float().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dtype_convert_to_float(
    umbo_dtype dtype, int64_t count, const void *from, float *to);

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/**
 * Shares a tensor with another library, as DLPack 1 describes it, without a copy.
 *
 * @param[out] managed The tensor. Its deleter is called exactly once, on any thread; until then it
 *   keeps the memory.
 *
 * The call waits for what the library has queued on a GPU. Elements that may only be read have the
 * flag for it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_to_dlpack(
    const umbo_tensor *tensor, struct DLManagedTensorVersioned **managed);

/**
 * Shares a tensor with a library that knows DLPack before version 1 only.
 *
 * @param[out] managed As for umbo_tensor_to_dlpack().
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the elements may only be read, which this form
 *   cannot say.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_to_dlpack_legacy(
    const umbo_tensor *tensor, struct DLManagedTensor **managed);

/**
 * Makes a tensor over memory of another library, without a copy.
 *
 * @param[in] managed The tensor as DLPack 1 describes it. If the call fails, it stays the
 *   caller's.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: more than UMBO_MAX_NDIM dimensions, or not a valid tensor.
 * - UMBO_STATUS_UNIMPLEMENTED: another major version of DLPack, another device than a CPU or a GPU
 *   of CUDA, a dtype that Umbo does not have, or a negative stride.
 *
 * The library calls the deleter exactly once, on any thread, when the last tensor over the memory
 * is gone and its own work is done. All elements must be initialised, in the byte order of the
 * machine. If they may only be read, that holds for the tensor too.
 *
 * Memory of a GPU becomes a tensor on the first logical GPU of the card. The other library must
 * have finished what it has queued for the elements.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_dlpack(
    struct DLManagedTensorVersioned *managed, umbo_tensor **tensor);

/**
 * Makes a tensor over memory of a library that knows DLPack before version 1 only.
 *
 * @param[in] managed As for umbo_tensor_from_dlpack(). The elements count as writable.
 * @return As umbo_tensor_from_dlpack().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_dlpack_legacy(
    struct DLManagedTensor *managed, umbo_tensor **tensor);

/**
 * Shares the memory of a view with another library, without a copy.
 *
 * @param[in] destroy Called when the other library no longer uses the memory. NULL: nothing to
 *   call.
 * @param[out] managed As for umbo_tensor_to_dlpack().
 *
 * The view must stay valid until then: the library does not keep its memory. umbo_variable_read()
 * and umbo_tensor_to_dlpack() give tensors that stay.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_view_to_dlpack(
    const umbo_view *view, void *user_data, umbo_destroy_fn destroy,
    struct DLManagedTensorVersioned **managed);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
