/* Umbo: central-storage data-parallel training for C and C++.
 *
 * Generated from src/ffi by cbindgen; do not edit.
 *
 * Status. A function that can fail returns a umbo_status: UMBO_OK (0), or why it failed. It writes
 * its outputs only if it succeeds. UMBO_TRY(call) returns from the calling function if the call
 * fails.
 *
 * Last error. umbo_last_error_message() says what went wrong in the last function that failed on
 * the calling thread. What fails on a replica's thread is carried to the thread that called.
 * Functions that succeed leave it as it is.
 *
 * Ownership. Objects are handles: pointers that are never to be dereferenced. NULL, a released
 * handle, one of another type and a number that never was a handle are recognised and give
 * UMBO_INVALID_ARGUMENT. Whoever gets a handle from a function owns a reference and releases it
 * with umbo_X_release(), which accepts NULL; umbo_X_retain() makes one more reference. What a
 * callback is given is borrowed for the call: it can be neither retained nor released, and is
 * stale afterwards.
 *
 * Pointers. Every pointer must lead to what its type and the function's description say, or be
 * NULL; NULL where something is expected is UMBO_INVALID_ARGUMENT. Texts are UTF-8, ended by a NUL.
 *
 * Callbacks. They return a umbo_status and get `user_data` back, last. umbo_set_last_error() says
 * why one fails. They may call functions of the library. A C++ exception must not leave them
 * (umbo.hpp takes care of that), nor a longjmp. Where the library keeps a callback it also takes a
 * `destroy`, which runs exactly once, on any thread, also if the call that took it fails.
 *
 * Threads. Any thread may call any function. A function that takes `const umbo_X *` does not change
 * the object and may run at the same time as others on it. While a call reads or writes a tensor,
 * nobody else may write it.
 *
 * Options. Structs of options start with `struct_size`; the UMBO_X_INIT macros set it. In options
 * zero means default, and NULL means all defaults. Fields called `reserved` must be zero. A program
 * that was built with an older or newer header works as long as it does not use what this library
 * does not know.
 */


#ifndef UMBO_UMBO_H
#define UMBO_UMBO_H

#include <stddef.h>
#include <stdint.h>

/** The version of this header; umbo_version() tells the library's. */
#define UMBO_VERSION "0.1.0"
#define UMBO_VERSION_MAJOR 0
#define UMBO_VERSION_MINOR 1
#define UMBO_VERSION_PATCH 0
#define UMBO_VERSION_NUMBER \
  (UMBO_VERSION_MAJOR * 1000000 + UMBO_VERSION_MINOR * 1000 + UMBO_VERSION_PATCH)

/** Returns from the calling function with the status of a call, if it failed. */
#define UMBO_TRY(call)                                                                             \
  do {                                                                                             \
    umbo_status umbo_try_status = (call);                                                          \
    if (umbo_try_status != UMBO_OK) return umbo_try_status;                                        \
  } while (0)

/** Starting values of the structs that begin with their size. */
#define UMBO_ERROR_INFO_INIT { sizeof(umbo_error_info), 0, 0, NULL, NULL, NULL, NULL }
#define UMBO_MEMORY_INFO_INIT { sizeof(umbo_memory_info), 0, 0 }


/**
 * The largest rank of a tensor.
 */
#define UMBO_MAX_RANK 8

/**
 * Elements of one type on one device, strided, with shared ownership.
 */
typedef struct umbo_tensor umbo_tensor;

/**
 * A nest: a tensor, a variable, a per-replica value, or a tuple or struct of nests.
 */
typedef struct umbo_value umbo_value;

/**
 * A value on the parameter device that steps read and change.
 */
typedef struct umbo_variable umbo_variable;

/**
 * The result of a function: `UMBO_OK`, or why it failed. The codes are the canonical ones with
 * their usual numbers.
 */
typedef int32_t umbo_status;

/**
 * Releases `user_data`. Runs exactly once, on any thread, also when the call that took the user
 * data fails; the library does not use the user data afterwards. May be NULL.
 */
typedef void (*umbo_destroy)(void *user_data);

/**
 * One failure: of the call, or of one replica of it.
 */
typedef struct umbo_error_info {
  /**
   * `sizeof(umbo_error_info)`; set by the caller.
   */
  size_t struct_size;
  /**
   * Why it failed.
   */
  umbo_status status;
  /**
   * The replica that failed; -1 if the failure is not a replica's.
   */
  int32_t replica;
  /**
   * The canonical name of the replica's compute device; "" if the failure is not a replica's.
   */
  const char *device;
  /**
   * What went wrong, in UTF-8.
   */
  const char *message;
  /**
   * What the failing callback attached with umbo_set_last_error(); NULL if nothing. It stays
   * the library's: look at it, do not destroy it.
   */
  void *payload;
  /**
   * The `destroy` that came with the payload, by which its owner can recognise it.
   */
  umbo_destroy payload_destroy;
} umbo_error_info;

/**
 * How important a log message is.
 */
typedef int32_t umbo_log_level;

/**
 * Receives a log message, which lives as long as the call. May be called from several threads at
 * the same time.
 */
typedef void (*umbo_log_callback)(umbo_log_level level, const char *message, void *user_data);

/**
 * A type of handle: one of the `UMBO_HANDLE_` constants.
 */
typedef int32_t umbo_handle_type;

/**
 * A kind of device.
 */
typedef int32_t umbo_device_type;

/**
 * A logical device of this process.
 */
typedef struct umbo_device {
  /**
   * UMBO_DEVICE_CPU or UMBO_DEVICE_GPU.
   */
  umbo_device_type type;
  /**
   * Its number among the logical devices of its type.
   */
  int32_t index;
} umbo_device;

/**
 * The memory of the physical device that a logical device is a part of.
 */
typedef struct umbo_memory_info {
  /**
   * `sizeof(umbo_memory_info)`; set by the caller.
   */
  size_t struct_size;
  /**
   * All of it.
   */
  uint64_t total_bytes;
  /**
   * What could be allocated now, if nobody else asks.
   */
  uint64_t available_bytes;
} umbo_memory_info;

/**
 * The type of a tensor's elements.
 */
typedef int32_t umbo_dtype;

/**
 * Where elements lie: all that a loop over them needs, without a handle. Valid as long as what
 * it was taken from.
 */
typedef struct umbo_view {
  /**
   * The first element.
   */
  void *data;
  /**
   * The type of the elements.
   */
  umbo_dtype dtype;
  /**
   * How many dimensions there are, 0 to 8.
   */
  int32_t rank;
  /**
   * The sizes of the dimensions, 0 past `rank`.
   */
  int64_t shape[8];
  /**
   * The distance between neighbours along each dimension, in elements, 0 past `rank`.
   */
  int64_t strides[8];
  /**
   * Where the memory is.
   */
  struct umbo_device device;
} umbo_view;

/**
 * What a value is.
 */
typedef int32_t umbo_value_kind;

/**
 * Handles of all types together.
 */
#define UMBO_HANDLE_ANY 0

/**
 * `umbo_tensor`.
 */
#define UMBO_HANDLE_TENSOR 1

/**
 * `umbo_value`.
 */
#define UMBO_HANDLE_VALUE 2

/**
 * `umbo_strategy`.
 */
#define UMBO_HANDLE_STRATEGY 3

/**
 * `umbo_scope`.
 */
#define UMBO_HANDLE_SCOPE 4

/**
 * `umbo_replica_context`.
 */
#define UMBO_HANDLE_REPLICA_CONTEXT 5

/**
 * `umbo_variable`.
 */
#define UMBO_HANDLE_VARIABLE 6

/**
 * `umbo_dataset`.
 */
#define UMBO_HANDLE_DATASET 7

/**
 * `umbo_distributed_dataset`.
 */
#define UMBO_HANDLE_DISTRIBUTED_DATASET 8

/**
 * `umbo_iterator`.
 */
#define UMBO_HANDLE_ITERATOR 9

/**
 * `umbo_gradients`.
 */
#define UMBO_HANDLE_GRADIENTS 10

/**
 * `umbo_optimizer`.
 */
#define UMBO_HANDLE_OPTIMIZER 11

/**
 * `umbo_cancellation`.
 */
#define UMBO_HANDLE_CANCELLATION 12

/**
 * Success.
 */
#define UMBO_OK 0

/**
 * Stopped on request, or because another replica failed.
 */
#define UMBO_CANCELLED 1

/**
 * A callback failed with a status that is none of these.
 */
#define UMBO_UNKNOWN 2

/**
 * An argument has a wrong value, shape, dtype or name, or is NULL or a stale handle.
 */
#define UMBO_INVALID_ARGUMENT 3

/**
 * Not finished when the deadline came.
 */
#define UMBO_DEADLINE_EXCEEDED 4

/**
 * A device, file or name that is not there.
 */
#define UMBO_NOT_FOUND 5

/**
 * Something that is to be made is there already.
 */
#define UMBO_ALREADY_EXISTS 6

/**
 * The operating system refused access.
 */
#define UMBO_PERMISSION_DENIED 7

/**
 * Memory, threads or handles could not be had.
 */
#define UMBO_RESOURCE_EXHAUSTED 8

/**
 * The call is right but not now or not here: wrong context, wrong order, draining.
 */
#define UMBO_FAILED_PRECONDITION 9

/**
 * Given up because of a conflict with something that ran at the same time.
 */
#define UMBO_ABORTED 10

/**
 * An axis, index or position lies outside of what there is.
 */
#define UMBO_OUT_OF_RANGE 11

/**
 * Not offered by this strategy, or not by this version.
 */
#define UMBO_UNIMPLEMENTED 12

/**
 * A defect of the library.
 */
#define UMBO_INTERNAL 13

/**
 * Offered, but what it needs is not here now (a driver, a device).
 */
#define UMBO_UNAVAILABLE 14

/**
 * A file or stream is damaged.
 */
#define UMBO_DATA_LOSS 15

/**
 * Something failed that no caller hears of otherwise.
 */
#define UMBO_LOG_ERROR 1

/**
 * It works, but probably not as meant.
 */
#define UMBO_LOG_WARNING 2

/**
 * What was set up and how.
 */
#define UMBO_LOG_INFO 3

/**
 * Details, for a search for a fault.
 */
#define UMBO_LOG_DEBUG 4

/**
 * A share of the host's processors, with host memory.
 */
#define UMBO_DEVICE_CPU 1

/**
 * A CUDA device or a share of one.
 */
#define UMBO_DEVICE_GPU 2

/**
 * IEEE 754 binary16.
 */
#define UMBO_FLOAT16 1

/**
 * The upper half of an IEEE 754 binary32.
 */
#define UMBO_BFLOAT16 2

/**
 * `float`.
 */
#define UMBO_FLOAT32 3

/**
 * `double`.
 */
#define UMBO_FLOAT64 4

/**
 * `int8_t`.
 */
#define UMBO_INT8 5

/**
 * `int16_t`.
 */
#define UMBO_INT16 6

/**
 * `int32_t`.
 */
#define UMBO_INT32 7

/**
 * `int64_t`.
 */
#define UMBO_INT64 8

/**
 * `uint8_t`.
 */
#define UMBO_UINT8 9

/**
 * `uint16_t`.
 */
#define UMBO_UINT16 10

/**
 * `uint32_t`.
 */
#define UMBO_UINT32 11

/**
 * `uint64_t`.
 */
#define UMBO_UINT64 12

/**
 * One byte, 0 or 1.
 */
#define UMBO_BOOL 13

/**
 * A tensor.
 */
#define UMBO_VALUE_TENSOR 1

/**
 * One tensor per replica.
 */
#define UMBO_VALUE_PER_REPLICA 2

/**
 * Values in order.
 */
#define UMBO_VALUE_TUPLE 3

/**
 * Values with names, in order.
 */
#define UMBO_VALUE_STRUCT 4

/**
 * A variable.
 */
#define UMBO_VALUE_VARIABLE 5

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/* ---- status and last error ----------------------------------------------------------------- */

/**
 * The name of a status, such as "INVALID_ARGUMENT"; "UNKNOWN_STATUS" for a number that is none.
 * Lives as long as the process.
 */
const char *umbo_status_name(umbo_status status);

/**
 * What went wrong in the last umbo function that failed on this thread, in UTF-8: one line, or
 * one line for each replica that failed. Never NULL; "" if nothing has failed since the last
 * umbo_clear_last_error(). Lives until the next umbo function on this thread that fails or runs
 * a callback.
 */
const char *umbo_last_error_message(void);

/**
 * How many failures the last error consists of: one for each replica that failed or was stopped,
 * in replica order; 1 if the failure is not a replica's; 0 if there is none.
 */
int64_t umbo_last_error_count(void);

/**
 * One failure of the last error. The texts and the payload live as long as
 * umbo_last_error_message().
 *
 * The functions of this section do not change the last error when they fail: OUT_OF_RANGE if
 * there is no failure at `index`, INVALID_ARGUMENT if `info` is NULL or its `struct_size` unset.
 */
umbo_status umbo_last_error_at(int64_t index, struct umbo_error_info *info);

/**
 * Says why a callback is about to fail; to be called in it, as
 * `return umbo_set_last_error(UMBO_DATA_LOSS, "...", NULL, NULL);`.
 *
 * `message` is copied; NULL means none. `payload` is taken over, travels to the thread that
 * called the library and can be read there with umbo_last_error_at(); `destroy` (or NULL)
 * releases it, exactly once, when the error is forgotten.
 *
 * Returns `status`; UNKNOWN if that is not a status; INVALID_ARGUMENT if it is UMBO_OK, which is
 * no failure.
 */
umbo_status umbo_set_last_error(umbo_status status,
                                const char *message,
                                void *payload,
                                umbo_destroy destroy);

/**
 * Forgets this thread's last error and releases its payload.
 */
void umbo_clear_last_error(void);

/* ---- library ------------------------------------------------------------------------------- */

/**
 * The version of the library that is loaded, such as "0.1.0". Compare with UMBO_VERSION, the
 * header's. Lives as long as the process.
 */
const char *umbo_version(void);

/**
 * The version of the library that is loaded as one number, major * 1000000 + minor * 1000 +
 * patch. Compare with UMBO_VERSION_NUMBER, the header's.
 */
uint32_t umbo_version_number(void);

/**
 * How the library was built, as one JSON object: "version", "target", "profile". Lives as long
 * as the process.
 */
const char *umbo_build_info(void);

/**
 * Whether a feature works here and now: `result` gets 1 or 0. "cuda": there are a CUDA driver and
 * a device. 0 for a name that this version does not know.
 */
umbo_status umbo_has_feature(const char *name, int32_t *result);

/**
 * Sends log messages up to the level `most_verbose` to `callback`, in place of the one before.
 * NULL sends them nowhere, as it is at the start. `destroy` (or NULL) releases `user_data` when
 * the callback is replaced and its last call is over, and also if this function fails.
 */
umbo_status umbo_set_log_callback(umbo_log_level most_verbose,
                                  umbo_log_callback callback,
                                  void *user_data,
                                  umbo_destroy destroy);

/**
 * Sets how many threads do central work (reductions, updates, copies), the calling one included.
 * The start is the number of processors that the process may use. Results do not depend on it.
 */
umbo_status umbo_set_worker_count(int32_t count);

/**
 * How many threads do central work.
 */
umbo_status umbo_worker_count(int32_t *count);

/**
 * How many handles of a type are in use: made and not yet released. UMBO_HANDLE_ANY counts all.
 * A program that releases all it makes sees 0 at its end.
 */
umbo_status umbo_live_handles(umbo_handle_type type, int64_t *count);

/* ---- devices ------------------------------------------------------------------------------- */

/**
 * How many physical devices of a type there are: one CPU, which is the host, and the GPUs that
 * the CUDA driver shows to this process; 0 GPUs if there is no driver.
 */
umbo_status umbo_physical_device_count(umbo_device_type type, int32_t *count);

/**
 * How many logical devices of a type there are; their indices are 0 to one less.
 */
umbo_status umbo_logical_device_count(umbo_device_type type, int32_t *count);

/**
 * Splits a physical device into `count` logical ones, in place of the split before. The host is
 * physical CPU 0; its logical devices share its processors out.
 *
 * NOT_FOUND if there is no such physical device, INVALID_ARGUMENT for a count that is less than 1
 * or too large, UNIMPLEMENTED for a GPU and more than one, FAILED_PRECONDITION while a strategy
 * lives that uses a device which would vanish; then nothing changes.
 */
umbo_status umbo_set_logical_device_count(umbo_device_type type,
                                          int32_t physical_index,
                                          int32_t count);

/**
 * The canonical form of a device name, such as "/job:localhost/replica:0/task:0/device:CPU:0".
 * Parts that `name` lacks come from `defaults`, whose own come from CPU:0 of this process, as
 * they do if `defaults` is NULL. The device need not exist.
 *
 * `length` gets the length without the NUL, also if `capacity`, the size of `buffer` in bytes, is
 * not enough: then the result is OUT_OF_RANGE and `buffer`, which may be NULL if `capacity` is 0,
 * is not written.
 */
umbo_status umbo_device_canonical_name(const char *name,
                                       const char *defaults,
                                       char *buffer,
                                       size_t capacity,
                                       size_t *length);

/**
 * The device of this process that a name means. It need not exist. NOT_FOUND if the name is of
 * another process.
 */
umbo_status umbo_device_parse(const char *name, struct umbo_device *device);

/**
 * The memory of the physical device that `device` (NULL: CPU:0) is a part of. NOT_FOUND if there
 * is no such device, UNAVAILABLE if the system or the driver does not tell.
 */
umbo_status umbo_device_memory_info(const char *device, struct umbo_memory_info *info);

/* ---- tensors ------------------------------------------------------------------------------- */

/**
 * A new tensor of zeros, contiguous, on `device` (NULL: CPU:0).
 *
 * `shape` has `rank` sizes and may be NULL if `rank` is 0. Release the tensor with
 * umbo_tensor_release(). RESOURCE_EXHAUSTED if the memory cannot be had.
 */
umbo_status umbo_tensor_zeros(umbo_dtype dtype,
                              int32_t rank,
                              const int64_t *shape,
                              const char *device,
                              struct umbo_tensor **tensor);

/**
 * A new tensor whose elements are whatever was in memory; for the rest as umbo_tensor_zeros().
 */
umbo_status umbo_tensor_uninitialized(umbo_dtype dtype,
                                      int32_t rank,
                                      const int64_t *shape,
                                      const char *device,
                                      struct umbo_tensor **tensor);

/**
 * A new tensor with a copy of `data`: host memory with as many elements as `shape` has, in
 * row-major order. `data` may be NULL if there are none. For the rest as umbo_tensor_zeros().
 */
umbo_status umbo_tensor_from_data(umbo_dtype dtype,
                                  int32_t rank,
                                  const int64_t *shape,
                                  const void *data,
                                  const char *device,
                                  struct umbo_tensor **tensor);

/**
 * A new tensor over memory of the caller's, which must stay there until `destroy` (or NULL) is
 * called with `user_data`: when the last tensor over it is gone. `destroy` runs exactly once, on
 * any thread, also if this function fails.
 *
 * `strides` has `rank` distances in elements, none negative; NULL means row-major. `data` must be
 * a multiple of the element's size, and may be NULL if there are no elements. Elements must be
 * initialised. `device` tells where the memory is (NULL: CPU:0).
 */
umbo_status umbo_tensor_from_memory(umbo_dtype dtype,
                                    int32_t rank,
                                    const int64_t *shape,
                                    const int64_t *strides,
                                    void *data,
                                    const char *device,
                                    void *user_data,
                                    umbo_destroy destroy,
                                    struct umbo_tensor **tensor);

/**
 * Where the elements lie. The view is valid as long as the tensor's memory: until the last
 * tensor over it is released.
 */
umbo_status umbo_tensor_view(const struct umbo_tensor *tensor, struct umbo_view *view);

/**
 * Every `step`-th position from `start` to before `stop` along `axis` (negative: counted from
 * the last): a new tensor that shares the memory. OUT_OF_RANGE if 0 <= start <= stop <= size
 * does not hold; INVALID_ARGUMENT if `step` is less than 1.
 */
umbo_status umbo_tensor_slice(const struct umbo_tensor *tensor,
                              int32_t axis,
                              int64_t start,
                              int64_t stop,
                              int64_t step,
                              struct umbo_tensor **slice);

/**
 * The same elements in row-major order under another shape: a new tensor that shares the memory.
 * INVALID_ARGUMENT if the numbers of elements differ, or if the tensor's strides are not
 * row-major: copy it first.
 */
umbo_status umbo_tensor_reshape(const struct umbo_tensor *tensor,
                                int32_t rank,
                                const int64_t *shape,
                                struct umbo_tensor **reshaped);

/**
 * The same elements with the axes in another order: a new tensor that shares the memory. `axes`
 * has as many numbers as the tensor has axes, the first of which says which axis comes first;
 * NULL reverses them.
 */
umbo_status umbo_tensor_transpose(const struct umbo_tensor *tensor,
                                  const int32_t *axes,
                                  struct umbo_tensor **transposed);

/**
 * A copy on `device` (NULL: CPU:0): a new tensor, contiguous in row-major order, that shares
 * nothing.
 */
umbo_status umbo_tensor_copy(const struct umbo_tensor *tensor,
                             const char *device,
                             struct umbo_tensor **copy);

/**
 * Copies the elements to host memory, in row-major order. `bytes` is the size of `destination`,
 * which must be that of all elements; its address must be a multiple of an element's size.
 */
umbo_status umbo_tensor_copy_to_host(const struct umbo_tensor *tensor,
                                     void *destination,
                                     size_t bytes);

/**
 * The canonical name of the device that holds the elements, such as
 * "/job:localhost/replica:0/task:0/device:CPU:0". Lives as long as the process.
 */
umbo_status umbo_tensor_device_name(const struct umbo_tensor *tensor, const char **name);

/**
 * One more reference to the handle, to be released like the first.
 */
umbo_status umbo_tensor_retain(const struct umbo_tensor *tensor);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_tensor_release(const struct umbo_tensor *tensor);

/* ---- values -------------------------------------------------------------------------------- */

/**
 * A value that is a tensor: the same object, so that the value and the tensor share memory.
 */
umbo_status umbo_value_from_tensor(const struct umbo_tensor *tensor, struct umbo_value **value);

/**
 * A value that is a variable, passed as itself and not as what it holds now.
 */
umbo_status umbo_value_from_variable(const struct umbo_variable *variable,
                                     struct umbo_value **value);

/**
 * A tuple of `count` values. The items stay the caller's to release.
 */
umbo_status umbo_value_tuple(int32_t count,
                             const struct umbo_value *const *items,
                             struct umbo_value **value);

/**
 * A struct of `count` values with names, which must differ. Names are copied; the items stay the
 * caller's to release.
 */
umbo_status umbo_value_struct(int32_t count,
                              const char *const *names,
                              const struct umbo_value *const *items,
                              struct umbo_value **value);

/**
 * A per-replica value: one component per replica, each of them a tensor. The components need not
 * agree in shape. They stay the caller's to release.
 */
umbo_status umbo_value_per_replica(int32_t count,
                                   const struct umbo_value *const *components,
                                   struct umbo_value **value);

/**
 * What the value is: one of the `UMBO_VALUE_` constants.
 */
umbo_status umbo_value_kind_of(const struct umbo_value *value, umbo_value_kind *kind);

/**
 * How many items, fields or components there are; 1 for a tensor or a variable.
 */
umbo_status umbo_value_count(const struct umbo_value *value, int32_t *count);

/**
 * The item of a tuple, the field of a struct by position, or the component of a per-replica
 * value: the same object, a new handle. OUT_OF_RANGE if there is none at `index`.
 */
umbo_status umbo_value_item(const struct umbo_value *value,
                            int32_t index,
                            struct umbo_value **item);

/**
 * The field `name` of a struct; "a.b" is field b of field a, and a number is the item of a tuple.
 * The same object, a new handle. NOT_FOUND if there is none.
 */
umbo_status umbo_value_field(const struct umbo_value *value,
                             const char *name,
                             struct umbo_value **field);

/**
 * The name of the field of a struct at `index`. Lives as long as the process.
 */
umbo_status umbo_value_field_name(const struct umbo_value *value, int32_t index, const char **name);

/**
 * The tensor of a value that is one: the same object, a new handle.
 */
umbo_status umbo_value_tensor(const struct umbo_value *value, struct umbo_tensor **tensor);

/**
 * The variable of a value that is one: the same variable, a new handle.
 */
umbo_status umbo_value_variable(const struct umbo_value *value, struct umbo_variable **variable);

/**
 * Where the elements of a tensor in the value lie. `name` is NULL for the value itself, "x" for a
 * field, "a.b" for a field of a field, "0" for the item of a tuple. NOT_FOUND if there is none.
 *
 * The view is valid as long as the tensor's memory; in a callback, as long as the callback.
 */
umbo_status umbo_value_view(const struct umbo_value *value,
                            const char *name,
                            struct umbo_view *view);

/**
 * A new handle to the same value, which the caller owns. This is how a callback keeps an argument
 * that it was given for the call. The memory of an element of a dataset is reused for a later one
 * only if nobody has kept it.
 */
umbo_status umbo_value_clone(const struct umbo_value *value, struct umbo_value **clone);

/**
 * How many examples of the global batch an element of a distributed dataset holds: the part of
 * `replica`, or all parts together if `replica` is -1. INVALID_ARGUMENT for a value that is not
 * such an element and has no per-replica value in it.
 */
umbo_status umbo_value_examples(const struct umbo_value *value, int32_t replica, int64_t *count);

/**
 * One more reference to the handle, to be released like the first. FAILED_PRECONDITION for an
 * argument of a callback, which is borrowed for the call: umbo_value_clone() makes one that you
 * own.
 */
umbo_status umbo_value_retain(const struct umbo_value *value);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_value_release(const struct umbo_value *value);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UMBO_UMBO_H */
