/* Generated from src/ffi; do not edit. */
#ifndef UMBO_TENSOR_H
#define UMBO_TENSOR_H

/**
 * @file tensor.h
 * @brief Tensors: elements of one dtype on one device, strided, with shared ownership; and views,
 * which say where elements lie, for loops over them.
 *
 * The caller releases each tensor that a function gives, with umbo_tensor_release(). Slices,
 * reshaped and transposed tensors share the memory of the tensor that they were made from; the
 * memory stays as long as one of them is there. A view is valid as long as the tensor's memory.
 *
 * Threads: all functions are *concurrent*, also on one tensor. For the elements the *caller locks*:
 * while a call reads or writes them, nobody else may write them.
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

#include <string.h>

#include <umbo/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The largest rank of a tensor. */
#define UMBO_MAX_RANK (8)

/** The type of a tensor's elements. */
UMBO_ENUM(umbo_dtype) {
  /** No type in particular, where the type may be left open. */
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

/** What holds for the memory of a view: a sum of the UMBO_VIEW_ constants. */
UMBO_ENUM(umbo_view_flags) {
  /** The elements may only be read: `mutable_data` is NULL. */
  UMBO_VIEW_READ_ONLY = 1,
  /** The elements lie one after the other in row-major order. A loop need not look at `strides`. */
  UMBO_VIEW_CONTIGUOUS = 2
};

/**
 * Where elements are in memory: all that a loop over them needs, without a handle.
 *
 * A view is valid as long as what it was taken from. The size of the struct stays the same in
 * later versions, which may give `room` a meaning.
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
  /** The device that has the memory. */
  umbo_device device;
  /** The sum of those of UMBO_VIEW_READ_ONLY and UMBO_VIEW_CONTIGUOUS that hold. */
  umbo_view_flags flags;
  /** The size of one element in bytes. */
  int32_t element_bytes;
  /** The size of each dimension; 0 from `rank` on. */
  int64_t shape[8];
  /** How many elements lie between neighbours along each dimension; 0 from `rank` on. */
  int64_t strides[8];
  /** Zeros, reserved for later versions. */
  uint64_t room[4];
} umbo_view;

/**
 * Makes a contiguous tensor of zeros.
 *
 * @param[in] dtype The type of the elements.
 * @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
 * @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
 * @param[in] device The name of the device that is to hold the elements. `device` may be NULL: in
 *   a replica's callback the replica's device, elsewhere CPU:0.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `dtype` is none of the types, `rank` or a size is out of its
 *   limits, the tensor would be larger than memory can address, or `device` is not a device name.
 * - UMBO_STATUS_NOT_FOUND: there is no such device.
 * - UMBO_STATUS_UNAVAILABLE: the device is a GPU that cannot be used.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_create_zeros(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, const char *device,
    umbo_tensor **tensor);

/**
 * Makes a contiguous tensor without setting its elements.
 *
 * @param[in] dtype The type of the elements.
 * @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
 * @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
 * @param[in] device The name of the device that is to hold the elements. `device` may be NULL: in
 *   a replica's callback the replica's device, elsewhere CPU:0.
 * @return UMBO_OK, or a status that umbo_tensor_create_zeros() can return, for the same causes.
 *
 * The elements are whatever the memory held before.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_create_uninitialized(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, const char *device,
    umbo_tensor **tensor);

/**
 * Makes a contiguous tensor with a copy of elements in host memory.
 *
 * @param[in] dtype The type of the elements.
 * @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
 * @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
 * @param[in] data As many elements as `shape` has, in row-major order, in host memory. The program
 *   keeps them. `data` may be NULL if there are none.
 * @param[in] device The name of the device that is to hold the copy. `device` may be NULL: in a
 *   replica's callback the replica's device, elsewhere CPU:0.
 * @return UMBO_OK, or a status that umbo_tensor_create_zeros() can return, for the same causes.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_data(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, const void *data, const char *device,
    umbo_tensor **tensor);

/**
 * Makes a tensor over memory of the program, without a copy.
 *
 * @param[in] dtype The type of the elements.
 * @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
 * @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
 * @param[in] strides For each dimension, how many elements lie between neighbours along it, 0 or
 *   more. `strides` may be NULL: the elements are in row-major order.
 * @param[in] data The first element, at an address that is a multiple of the size of an element.
 *   `data` may be NULL if there are no elements.
 * @param[in] device The name of the device that has the memory. `device` may be NULL: in a
 *   replica's callback the replica's device, elsewhere CPU:0.
 * @param[in] user_data What `destroy` is given.
 * @param[in] destroy Releases the memory, exactly once, on any thread, also if this function
 *   fails. NULL: nothing to release.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: for the causes that umbo_tensor_create_zeros() has; also if a
 *   stride is negative or reaches further than memory can address, or the address of `data` is not
 *   a multiple of an element's size.
 * - UMBO_STATUS_NOT_FOUND: there is no such device.
 *
 * The memory must stay until the library calls `destroy`, which it does when the last tensor over
 * the memory is gone. All elements must be initialised.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_memory(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, const int64_t *strides, void *data,
    const char *device, void *user_data, umbo_destroy_fn destroy, umbo_tensor **tensor);

/**
 * Gives a view of the elements, for writing too where they may be written.
 *
 * @param[out] view Where the elements are. It is valid as long as the tensor's memory: until the
 *   last tensor over that memory is released.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, or `view` is a
 *   null pointer.
 *
 * Elements that came from a dataset's arrays, from a cache or from a file are of all who iterate,
 * and have a view for reading, without a pointer to write through (UMBO_VIEW_READ_ONLY).
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_view(const umbo_tensor *tensor, umbo_view *view);

/**
 * Makes a tensor of some positions along one axis; shares memory.
 *
 * @param[in] axis The axis; a negative one counts from the last, which is -1.
 * @param[in] start The first position.
 * @param[in] stop The position before which the slice ends.
 * @param[in] step Every `step`-th position is taken, 1 or more.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: there is no such axis, or 0 <= start <= stop <= size does not hold.
 * - UMBO_STATUS_INVALID_ARGUMENT: `step` is less than 1, `tensor` is not a valid handle, or
 *   `slice` is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_slice(
    const umbo_tensor *tensor, int32_t axis, int64_t start, int64_t stop, int64_t step,
    umbo_tensor **slice);

/**
 * Makes a tensor of the same elements in another shape; shares memory.
 *
 * @param[in] tensor The tensor. Its elements must lie in row-major order without gaps.
 * @param[in] rank The new number of dimensions, 0 to UMBO_MAX_RANK.
 * @param[in] shape The new size of each dimension. `shape` may be NULL if `rank` is 0.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `shape` has another number of elements, or the
 *   tensor's strides are not row-major (copy it with umbo_tensor_copy() first), `rank` or a size is
 *   out of its limits, `tensor` is not a valid handle, or `reshaped` is a null pointer.
 *
 * The elements keep their row-major order.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_reshape(
    const umbo_tensor *tensor, int32_t rank, const int64_t *shape, umbo_tensor **reshaped);

/**
 * Makes a tensor with the axes in another order; shares memory.
 *
 * @param[in] axes As many numbers as the tensor has axes: axes[i] is the old number of the new
 *   axis i. `axes` may be NULL: the order is reversed.
 * @param[out] transposed The new tensor over the same memory. Release it with
 *   umbo_tensor_release().
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: there is no axis of such a number.
 * - UMBO_STATUS_INVALID_ARGUMENT: an axis appears twice, `tensor` is not a valid handle, or
 *   `transposed` is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_transpose(
    const umbo_tensor *tensor, const int32_t *axes, umbo_tensor **transposed);

/**
 * Makes a contiguous copy that shares nothing with the tensor.
 *
 * @param[in] device The name of the device that is to hold the copy. `device` may be NULL: in a
 *   replica's callback the replica's device, elsewhere CPU:0.
 * @param[out] copy The new tensor, in row-major order. Release it with umbo_tensor_release().
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: there is no such device.
 * - UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, `device` is not a device name,
 *   or `copy` is a null pointer.
 * - UMBO_STATUS_UNAVAILABLE: a GPU that is needed for it cannot be used, or is lost.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_copy(
    const umbo_tensor *tensor, const char *device, umbo_tensor **copy);

/**
 * Copies the elements to host memory, in row-major order.
 *
 * @param[out] destination Where the elements are written, at an address that is a multiple of the
 *   size of an element. It belongs to the program.
 * @param[in] bytes The size of `destination` in bytes, which must be that of all elements.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `bytes` is not the size of all elements, the address of
 *   `destination` is not a multiple of an element's size, or `tensor` is not a valid handle.
 * - UMBO_STATUS_UNAVAILABLE: a GPU that is needed for it cannot be used, or is lost.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_copy_to_host(
    const umbo_tensor *tensor, void *destination, size_t bytes);

/**
 * Gives the canonical name of the device that holds the elements.
 *
 * @param[out] name A text such as "/job:localhost/replica:0/task:0/device:CPU:0", which lives as
 *   long as the process.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, or `name` is a
 *   null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_device(const umbo_tensor *tensor, const char **name);

/** Makes another handle to the same tensor: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_tensor_retain(
    const umbo_tensor *tensor, umbo_tensor **retained) {
  return umbo_retain(tensor, UMBO_HANDLE_TENSOR, retained);
}

/**
 * Releases a handle: umbo_release().
 *
 * The memory goes with the last handle to it, unless a value or a slice keeps it.
 */
static inline void umbo_tensor_release(const umbo_tensor *tensor) {
  umbo_release(tensor, UMBO_HANDLE_TENSOR);
}

/**
 * Saves a tensor as a `.npy` file, which numpy.load() reads.
 *
 * @param[in] tensor The tensor. Nobody writes its elements meanwhile.
 * @param[in] path The file. It is replaced as a whole: if anything fails it is as it was.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a folder.
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the folder, as the system says.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: no room on the disk.
 * - UMBO_STATUS_UNAVAILABLE: another failure of the system's.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_save(const umbo_tensor *tensor, const char *path);

/**
 * Saves tensors by name as a `.npz` file, which numpy.load() reads.
 *
 * @param[in] count How many there are; 1 or more.
 * @param[in] tensors The tensors. Nobody writes their elements meanwhile.
 * @param[in] names The name of each. Names differ, and have no / \ : in them.
 * @param[in] path The file. It is replaced as a whole: if anything fails it is as it was.
 * @return UMBO_OK, or the statuses of umbo_tensor_save(), and UMBO_STATUS_INVALID_ARGUMENT: `count`
 *   is less than 1, or wrong names.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_save_all(
    int64_t count, const umbo_tensor *const *tensors, const char *const *names, const char *path);

/**
 * Loads a tensor from a `.npy` file, or an array by its name from a `.npz` file, into memory of its
 * own.
 *
 * @param[in] path The file.
 * @param[in] name Which array of a `.npz` file. `name` may be NULL: a `.npy` file.
 * @param[out] tensor A new tensor on CPU:0. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: not a file of that kind.
 * - UMBO_STATUS_NOT_FOUND: no such file, or no array of this name.
 * - UMBO_STATUS_UNIMPLEMENTED: a dtype that Umbo lacks.
 * - UMBO_STATUS_DATA_LOSS: the file is damaged.
 * - UMBO_STATUS_PERMISSION_DENIED: as the system says.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_load(
    const char *path, const char *name, umbo_tensor **tensor);

/**
 * Makes the view of an array of the program's, on the CPU: contiguous, row-major, and for reading.
 *
 * @param[in] dtype The type of the elements.
 * @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
 * @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
 * @param[in] data The elements, which stay where they are.
 * @return The view, valid as long as the memory. A view of no type, which every function refuses,
 *   if `rank` or a size is out of range, or `shape` is missing.
 */
static inline umbo_view umbo_view_of_memory(umbo_dtype dtype, int32_t rank, const int64_t *shape,
                                            const void *data) {
  /* By the numbers of the dtypes. */
  static const int32_t bytes[14] = {0, 2, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  umbo_view view;
  int64_t stride = 1;
  int32_t axis, number;
  memset(&view, 0, sizeof(view));
  if (rank < 0 || rank > UMBO_MAX_RANK || (rank > 0 && shape == NULL)) return view;
  for (axis = rank - 1; axis >= 0; axis--) {
    if (shape[axis] < 0) return view;
    if (shape[axis] > 0 && stride > INT64_MAX / shape[axis]) return view;
    stride *= shape[axis] > 0 ? shape[axis] : 1;
  }
  stride = 1;
  view.data = data;
  view.dtype = dtype;
  view.rank = rank;
  view.device.type = UMBO_DEVICE_CPU;
  view.flags = UMBO_ENUM_VALUE(umbo_view_flags, UMBO_VIEW_READ_ONLY | UMBO_VIEW_CONTIGUOUS);
  number = UMBO_ENUM_VALUE(int32_t, dtype);
  view.element_bytes = number >= 0 && number < 14 ? bytes[number] : 0;
  for (axis = rank - 1; axis >= 0; axis--) {
    view.shape[axis] = shape[axis];
    view.strides[axis] = stride;
    stride *= shape[axis];
  }
  return view;
}

/**
 * Rounds float32 numbers to float16 or bfloat16: to the nearest, ties to even.
 *
 * @param[in] dtype UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16.
 * @param[in] count How many numbers there are, 0 or more.
 * @param[in] from The numbers, in host memory. `from` may be NULL if there are none.
 * @param[out] to The rounded numbers, 2 bytes each, at a multiple of 2. Other memory than that of
 *   `from`. `to` may be NULL if there are none.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: another dtype, a negative `count`.
 *
 * What is too large becomes infinite, and NaN stays NaN.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_convert_from_float(
    umbo_dtype dtype, int64_t count, const float *from, void *to);

/**
 * Converts float16 or bfloat16 numbers to float32, which is exact.
 *
 * @param[in] dtype UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16.
 * @param[in] count How many numbers there are, 0 or more.
 * @param[in] from The numbers, 2 bytes each, at a multiple of 2, in host memory. `from` may be NULL
 *   if there are none.
 * @param[out] to The converted numbers. Other memory than that of `from`. `to` may be NULL if there
 *   are none.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: another dtype, a negative `count`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_convert_to_float(
    umbo_dtype dtype, int64_t count, const void *from, float *to);

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/**
 * Gives a tensor to another library, without a copy.
 *
 * @param[out] managed The tensor as DLPack 1 describes it. Its deleter has to be called exactly
 *   once, on any thread; until then it keeps the memory, also if all handles to the tensor are
 *   released.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, or `managed` is a null pointer.
 * - UMBO_STATUS_UNAVAILABLE: the tensor is on a GPU that cannot be used.
 *
 * Elements on a GPU are complete when the call returns: it waits for what the library has queued.
 *
 * The struct is defined in `umbo/dlpack.h`, and in the header of DLPack itself. Elements that may
 * only be read have the flag that says so. The rule for elements holds for the other library too:
 * while it writes them, nobody else may read or write them.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_to_dlpack(
    const umbo_tensor *tensor, struct DLManagedTensorVersioned **managed);

/**
 * Gives a tensor to a library that knows DLPack before version 1 only, without a copy.
 *
 * @param[out] managed The tensor. Its deleter has to be called exactly once, as for
 *   umbo_tensor_to_dlpack().
 * @return UMBO_OK, a status that umbo_tensor_to_dlpack() can return, for the same causes, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: the elements may only be read, which this form cannot say.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_to_dlpack_legacy(
    const umbo_tensor *tensor, struct DLManagedTensor **managed);

/**
 * Makes a tensor over memory of another library, without a copy.
 *
 * @param[in] managed The tensor as DLPack 1 describes it. If the call succeeds, the library takes
 *   it over. If the call fails, it is still the caller's, who has to call its deleter.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a dimension is negative or there are more than UMBO_MAX_RANK,
 *   `shape` or `data` is missing, an element does not lie at a multiple of its size, or the tensor
 *   is larger than memory can address.
 * - UMBO_STATUS_INVALID_ARGUMENT: `managed` or `tensor` is a null pointer.
 * - UMBO_STATUS_UNIMPLEMENTED: another major version of DLPack, memory of another device than a CPU
 *   or CUDA's GPUs, elements of a type that umbo_dtype does not have, or a negative stride.
 * - UMBO_STATUS_NOT_FOUND: there is no such GPU.
 *
 * The library calls the deleter exactly once, when the last tensor over the memory is gone, on any
 * thread. A library whose deleter needs a lock, such as that of an interpreter, gets it in the
 * deleter. If the flags say that the elements may only be read, that holds for the tensor too. All
 * elements must be initialised. The type code knows no byte order: it is that of the machine.
 *
 * Memory of a GPU becomes a tensor on the first logical GPU of the card. The other library has to
 * be done with what it has queued for the elements. Before the library calls the deleter, it waits
 * for its own work.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_dlpack(
    struct DLManagedTensorVersioned *managed, umbo_tensor **tensor);

/**
 * Makes a tensor over memory of a library that knows DLPack before version 1 only, without a copy.
 *
 * @param[in] managed The tensor. As for umbo_tensor_from_dlpack(), it is taken over only if
 *   the call succeeds.
 * @return UMBO_OK, or a status that umbo_tensor_from_dlpack() can return, for the same causes.
 *
 * This form cannot say that elements may only be read, so they count as writable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_from_dlpack_legacy(
    struct DLManagedTensor *managed, umbo_tensor **tensor);

/**
 * Gives memory that a view shows to another library, without a copy.
 *
 * @param[in] view The view: of a variable, a replica's gradient buffer, a part of a value, or an
 *   array.
 * @param[in] user_data What `destroy` is given.
 * @param[in] destroy Called exactly once, on any thread, when the other library no longer uses the
 *   memory, also if this function fails. NULL: nothing to call.
 * @param[out] managed The memory as a tensor of DLPack 1. Its deleter has to be called exactly
 *   once, on any thread.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `view` is not the view of elements, or `view` or `managed` is a
 *   null pointer.
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_UNAVAILABLE: it is of a GPU that is not there or cannot be
 *   used.
 *
 * The library does not keep the memory of a view. The program sees to it that the other library
 * does not use the memory when the view is no longer valid: after the callback in which a gradient
 * was viewed, or when a variable is written. A view that may only be read gives a tensor that says
 * so. umbo_variable_read() and umbo_tensor_to_dlpack() give a copy that stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_view_to_dlpack(
    const umbo_view *view, void *user_data, umbo_destroy_fn destroy,
    struct DLManagedTensorVersioned **managed);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
