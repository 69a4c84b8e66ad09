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
   * One byte, 0 or 1. The library does not check elements that a program gives; with other bytes,
   * results are unspecified. Readers of files make every byte but 0 a 1.
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

/**
 * The place of elements in memory, and their shape. The size of the struct stays the same in later
 * versions.
 */
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

/**
 * Writes the elements from host memory, in row-major order.
 *
 * @param[in] source All elements. `source` may be NULL if there are none.
 * @param[in] bytes The size of `source`, which must be that of all elements.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT also for elements that may only be read; see
 *   umbo_tensor_mutable_view().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_upload(
    umbo_tensor *tensor, const void *source, size_t bytes);

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
                                            const void *data);

/**
 * Makes a view of an array in host memory that the library may write, for
 * umbo_variable_create_in_memory(). As umbo_view_of_memory() in all else.
 */
static inline umbo_view umbo_view_of_mutable_memory(umbo_dtype dtype, int32_t ndim,
                                                    const int64_t *shape, void *data);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include <umbo/inline/tensor.h>

#endif
