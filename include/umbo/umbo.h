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
#define UMBO_SHUFFLE_OPTIONS_INIT { sizeof(umbo_shuffle_options), 0, 0, 0, 0 }
#define UMBO_DISTRIBUTE_OPTIONS_INIT { sizeof(umbo_distribute_options), { 0, 0, 0, 0 } }
#define UMBO_GRADIENTS_OPTIONS_INIT { sizeof(umbo_gradients_options), 0, 0, { 0, 0, 0, 0 } }
#define UMBO_SGD_OPTIONS_INIT { sizeof(umbo_sgd_options), 0.0, { 0, 0, 0, 0 } }
#define UMBO_MOMENTUM_OPTIONS_INIT                                                                 \
  { sizeof(umbo_momentum_options), 0.0, 0.0, 0, 0, { 0, 0, 0, 0 } }
#define UMBO_ADAM_OPTIONS_INIT                                                                     \
  { sizeof(umbo_adam_options), 0.0, 0.0, 0.0, 0.0, { 0, 0, 0, 0 } }
#define UMBO_APPLY_OPTIONS_INIT { sizeof(umbo_apply_options), { 0, 0, 0, 0 } }
#define UMBO_APPLY_REPORT_INIT { sizeof(umbo_apply_report), 0, 0, 0, 0, 0.0, 0 }


/**
 * The largest rank of a tensor.
 */
#define UMBO_MAX_RANK 8

/**
 * A sequence of elements, described but not yet produced.
 */
typedef struct umbo_dataset umbo_dataset;

/**
 * A dataset whose elements are split over the replicas of a strategy.
 */
typedef struct umbo_distributed_dataset umbo_distributed_dataset;

/**
 * Gradient buffers, one per variable and replica.
 */
typedef struct umbo_gradients umbo_gradients;

/**
 * A pass through a dataset or a distributed dataset.
 */
typedef struct umbo_iterator umbo_iterator;

/**
 * A rule that changes variables by gradients, and its state.
 */
typedef struct umbo_optimizer umbo_optimizer;

/**
 * A replica's part in the step in progress. Borrowed: it lives as long as the callback that was
 * given it.
 */
typedef struct umbo_replica_context umbo_replica_context;

/**
 * How a training step is replicated over devices, and where its variables live.
 */
typedef struct umbo_strategy umbo_strategy;

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
 * A type of handle: one of the `UMBO_HANDLE_` constants.
 */
typedef int32_t umbo_handle_type;

/**
 * The type of a tensor's elements.
 */
typedef int32_t umbo_dtype;

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
 * How a dataset is shuffled. UMBO_SHUFFLE_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_shuffle_options {
  /**
   * sizeof(umbo_shuffle_options).
   */
  size_t struct_size;
  /**
   * From how many elements the next one is drawn; 0: from the whole dataset, which makes every
   * order equally likely.
   */
  int64_t buffer_size;
  /**
   * Which orders come: the same seed gives the same orders on every machine.
   */
  uint64_t seed;
  /**
   * 0: each pass and each repetition has another order. 1: all have the same.
   */
  int32_t keep_order_each_pass;
  /**
   * Zero.
   */
  int32_t reserved0;
} umbo_shuffle_options;

/**
 * How a dataset is distributed: nothing to choose yet. UMBO_DISTRIBUTE_OPTIONS_INIT.
 */
typedef struct umbo_distribute_options {
  /**
   * sizeof(umbo_distribute_options).
   */
  size_t struct_size;
  /**
   * Zero.
   */
  uint64_t reserved[4];
} umbo_distribute_options;

/**
 * How the callback reduces the losses of its examples, and so what its gradients stand for.
 */
typedef int32_t umbo_loss_reduction;

/**
 * How gradients are combined. Start from UMBO_GRADIENTS_OPTIONS_INIT.
 */
typedef struct umbo_gradients_options {
  /**
   * sizeof(umbo_gradients_options).
   */
  size_t struct_size;
  /**
   * UMBO_LOSS_SUM, UMBO_LOSS_MEAN or UMBO_LOSS_GLOBAL_MEAN. Must be given: there is no default.
   */
  umbo_loss_reduction loss_reduction;
  /**
   * Zero.
   */
  int32_t reserved0;
  /**
   * Zero.
   */
  uint64_t reserved[4];
} umbo_gradients_options;

/**
 * What a replica does with its gradient buffer.
 */
typedef int32_t umbo_gradient_mode;

/**
 * Options of stochastic gradient descent. UMBO_SGD_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_sgd_options {
  /**
   * sizeof(umbo_sgd_options).
   */
  size_t struct_size;
  /**
   * Finite and 0 or more; 0 stands for 0.01.
   */
  double learning_rate;
  /**
   * Zero.
   */
  uint64_t reserved[4];
} umbo_sgd_options;

/**
 * Options of gradient descent with momentum. UMBO_MOMENTUM_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_momentum_options {
  /**
   * sizeof(umbo_momentum_options).
   */
  size_t struct_size;
  /**
   * Finite and 0 or more; 0 stands for 0.01.
   */
  double learning_rate;
  /**
   * The decay factor of the sum of gradients, less than 1; 0 stands for 0.9.
   */
  double momentum;
  /**
   * 1: Nesterov's momentum.
   */
  int32_t nesterov;
  /**
   * Zero.
   */
  int32_t reserved0;
  /**
   * Zero.
   */
  uint64_t reserved[4];
} umbo_momentum_options;

/**
 * Options of Adam. UMBO_ADAM_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_adam_options {
  /**
   * sizeof(umbo_adam_options).
   */
  size_t struct_size;
  /**
   * Finite and 0 or more; 0 stands for 0.001.
   */
  double learning_rate;
  /**
   * The decay factor of the first moment, less than 1; 0 stands for 0.9.
   */
  double beta1;
  /**
   * The decay factor of the second moment, less than 1; 0 stands for 0.999.
   */
  double beta2;
  /**
   * What is added to the square root of the second moment; 0 stands for 1e-8.
   */
  double epsilon;
  /**
   * Zero.
   */
  uint64_t reserved[4];
} umbo_adam_options;

/**
 * Options of an apply: nothing to choose yet. UMBO_APPLY_OPTIONS_INIT.
 */
typedef struct umbo_apply_options {
  /**
   * sizeof(umbo_apply_options).
   */
  size_t struct_size;
  /**
   * Zero.
   */
  uint64_t reserved[4];
} umbo_apply_options;

/**
 * What an apply did. Start from UMBO_APPLY_REPORT_INIT.
 */
typedef struct umbo_apply_report {
  /**
   * sizeof(umbo_apply_report).
   */
  size_t struct_size;
  /**
   * 1: variables were updated. 0: not yet (`deferred`), or the total weight was 0, in which case
   * the gradients are used up and nothing was changed.
   */
  int32_t applied;
  /**
   * 1: the apply was called inside of a run and waits for its commit point; the fields below
   * are 0.
   */
  int32_t deferred;
  /**
   * How many variables were updated: those that a replica of non-zero weight viewed.
   */
  int32_t variables_updated;
  /**
   * Zero.
   */
  int32_t reserved0;
  /**
   * The sum of the replicas' weights.
   */
  double total_weight;
  /**
   * How many applies of this optimizer have taken effect, with this one.
   */
  int64_t iterations;
} umbo_apply_report;

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
 * A share of the host's processors, with host memory.
 */
#define UMBO_DEVICE_CPU 1

/**
 * A CUDA device or a share of one.
 */
#define UMBO_DEVICE_GPU 2

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

/**
 * The callback sums over its examples. The update takes the sum over replicas, divided by the
 * total weight.
 */
#define UMBO_LOSS_SUM 1

/**
 * The callback takes the mean over its examples. The update takes the mean over replicas, weighted
 * by their weights.
 */
#define UMBO_LOSS_MEAN 2

/**
 * The callback divides by the examples of the global batch itself. The update takes the sum over
 * replicas.
 */
#define UMBO_LOSS_GLOBAL_MEAN 3

/**
 * It writes every element; the buffer holds whatever it held before.
 */
#define UMBO_OVERWRITE 1

/**
 * It adds to the elements, which are zero at its first view in a step.
 */
#define UMBO_ADD 2

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
 * How many handles of a type are in use: made and not yet released. UMBO_HANDLE_ANY counts all.
 * A program that releases all it makes sees 0 at its end.
 */
umbo_status umbo_live_handles(umbo_handle_type type, int64_t *count);

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

/* ---- datasets ------------------------------------------------------------------------------ */

/**
 * A dataset of the slices of tensors along dimension 0: element i consists of row i of each
 * tensor, in the structure of `components`, which is a tensor, or a tuple or struct of tensors.
 *
 * Tensors are shared, not copied, and must not be written while the dataset or an element of it
 * is in use. INVALID_ARGUMENT: a scalar, dimensions 0 that differ, a per-replica value, a
 * variable.
 */
umbo_status umbo_dataset_from_tensor_slices(const struct umbo_value *components,
                                            struct umbo_dataset **dataset);

/**
 * A dataset of the slices along dimension 0 of the array in an IDX file (the format of MNIST),
 * plain or compressed by gzip.
 *
 * A plain file of 8-bit elements is mapped into memory and must not be rewritten or shortened
 * while the dataset or an element of it is in use. Others are read at this call. INVALID_ARGUMENT:
 * not an IDX file, or one of a scalar. DATA_LOSS: shorter or longer than its header says, or
 * damaged. NOT_FOUND, PERMISSION_DENIED: as the system says. RESOURCE_EXHAUSTED: no memory.
 */
umbo_status umbo_dataset_from_idx_file(const char *path, struct umbo_dataset **dataset);

/**
 * Several datasets side by side: element i consists of element i of each. `names` has `count`
 * names, which must differ, and makes elements structs; NULL makes them tuples. Ends with the
 * dataset that ends first. The datasets stay the caller's to release.
 */
umbo_status umbo_dataset_zip(int32_t count,
                             const struct umbo_dataset *const *datasets,
                             const char *const *names,
                             struct umbo_dataset **zipped);

/**
 * The elements in random order. `options` may be NULL. Over tensors and files only row numbers are
 * shuffled; elsewhere the buffer holds elements. INVALID_ARGUMENT: a negative buffer size, or 0
 * (the whole dataset) for one without end.
 */
umbo_status umbo_dataset_shuffle(const struct umbo_dataset *dataset,
                                 const struct umbo_shuffle_options *options,
                                 struct umbo_dataset **shuffled);

/**
 * Batches of `size` elements, stacked along a new dimension 0. The last batch is smaller if
 * elements are left over, or left out if `drop_remainder` is 1. Over tensors in their own order
 * batches are views. INVALID_ARGUMENT: a size less than 1, elements of rank 8; while iterating,
 * elements of one batch that differ in shape.
 */
umbo_status umbo_dataset_batch(const struct umbo_dataset *dataset,
                               int64_t size,
                               int32_t drop_remainder,
                               struct umbo_dataset **batches);

/**
 * The elements `count` times over, or without end if it is -1. A shuffled dataset has another
 * order each time, unless told to keep one.
 */
umbo_status umbo_dataset_repeat(const struct umbo_dataset *dataset,
                                int64_t count,
                                struct umbo_dataset **repeated);

/**
 * The same elements, up to `depth` (1 to 4096) of them made ahead of their consumer by a thread of
 * each iterator, which starts with its first element and is joined when it is released.
 */
umbo_status umbo_dataset_prefetch(const struct umbo_dataset *dataset,
                                  int32_t depth,
                                  struct umbo_dataset **prefetched);

/**
 * The first `count` elements, or all if there are fewer.
 */
umbo_status umbo_dataset_take(const struct umbo_dataset *dataset,
                              int64_t count,
                              struct umbo_dataset **taken);

/**
 * All but the first `count` elements.
 */
umbo_status umbo_dataset_skip(const struct umbo_dataset *dataset,
                              int64_t count,
                              struct umbo_dataset **rest);

/**
 * How many elements a pass yields; -1: it never ends, -2: only iterating tells.
 */
umbo_status umbo_dataset_cardinality(const struct umbo_dataset *dataset, int64_t *count);

/**
 * An iterator at the beginning of a pass, independent of all others. It keeps what it needs of the
 * dataset, which may be released.
 */
umbo_status umbo_dataset_iterator(const struct umbo_dataset *dataset,
                                  struct umbo_iterator **iterator);

/**
 * Splits each element of a dataset, which is a global batch, along dimension 0 over the replicas of
 * a strategy. `options` may be NULL.
 *
 * With one replica elements stay as they are. With n, each tensor becomes a per-replica value of
 * which component k has rows [k * c, (k + 1) * c), c being the number of rows over n, rounded up:
 * 9 rows over 4 replicas are 3, 3, 3 and 0. Nothing is copied. The elements know how many examples
 * each replica has, which umbo_gradients_submit() uses.
 *
 * INVALID_ARGUMENT with several replicas: elements that contain a scalar; batch them first.
 */
umbo_status umbo_strategy_distribute_dataset(struct umbo_strategy *strategy,
                                             const struct umbo_dataset *dataset,
                                             const struct umbo_distribute_options *options,
                                             struct umbo_distributed_dataset **distributed);

/**
 * An iterator at the beginning of a pass, independent of all others. It keeps what it needs of the
 * distributed dataset, which may be released.
 */
umbo_status umbo_distributed_dataset_iterator(const struct umbo_distributed_dataset *distributed,
                                              struct umbo_iterator **iterator);

/**
 * One more reference to the handle, to be released like the first.
 */
umbo_status umbo_dataset_retain(const struct umbo_dataset *dataset);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_dataset_release(const struct umbo_dataset *dataset);

/**
 * One more reference to the handle, to be released like the first.
 */
umbo_status umbo_distributed_dataset_retain(const struct umbo_distributed_dataset *distributed);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_distributed_dataset_release(const struct umbo_distributed_dataset *distributed);

/* ---- iterators ----------------------------------------------------------------------------- */

/**
 * The next element, which the caller releases; NULL at the end of the pass and ever after.
 *
 * Waits until the element is there. Threads may share an iterator; each element goes to one of
 * them. The memory of an element that was released, with all that was made from it, serves a later
 * one. After an error the call may be repeated and goes on behind what failed.
 *
 * FAILED_PRECONDITION for an iterator over a distributed dataset inside of a replica's callback,
 * since an element is for all replicas, and in the scope of another strategy.
 */
umbo_status umbo_iterator_next(struct umbo_iterator *iterator, struct umbo_value **element);

/**
 * Starts a new pass from the beginning, in another order if the dataset is shuffled. What the
 * iterator has allocated is used again. FAILED_PRECONDITION as for umbo_iterator_next().
 */
umbo_status umbo_iterator_reset(struct umbo_iterator *iterator);

/**
 * One more reference to the handle, to be released like the first.
 */
umbo_status umbo_iterator_retain(const struct umbo_iterator *iterator);

/**
 * Releases a reference; the last one stops and joins the iterator's thread, if it has one. NULL is
 * fine.
 */
void umbo_iterator_release(const struct umbo_iterator *iterator);

/* ---- gradients ----------------------------------------------------------------------------- */

/**
 * Gradient buffers for `count` variables, one for each variable and replica of a strategy.
 *
 * The variables must differ, have been made by the strategy, and be float32 or float64; they stay
 * the caller's to release. `options` must say what the callback's gradients stand for.
 */
umbo_status umbo_gradients_create(struct umbo_strategy *strategy,
                                  int32_t count,
                                  const struct umbo_variable *const *variables,
                                  const struct umbo_gradients_options *options,
                                  struct umbo_gradients **gradients);

/**
 * This replica's own buffer for variable `index`, of the variable's dtype and shape, on the
 * replica's device; to be written until the replica submits. `mode` is UMBO_OVERWRITE or UMBO_ADD.
 * A variable that a replica does not view in a step counts as zero from it; one that no replica
 * views is not updated.
 *
 * Replicas call this at the same time; nothing is allocated and nobody waits. OUT_OF_RANGE: no
 * such variable. FAILED_PRECONDITION: not in a run of the strategy that the gradients were made
 * for, or submitted already. CANCELLED: the run has returned without this replica.
 */
umbo_status umbo_gradients_view(struct umbo_replica_context *ctx,
                                struct umbo_gradients *gradients,
                                int32_t index,
                                umbo_gradient_mode mode,
                                struct umbo_view *view);

/**
 * Submits what this replica wrote into its buffers in this step, once, weighted by the examples of
 * its part of the run's arguments. A replica without examples submits too, and what it wrote is not
 * read.
 *
 * FAILED_PRECONDITION: the run's arguments contain no per-replica value that tells how many
 * examples there are (umbo_gradients_submit_weighted() says the weight), submitted already, or
 * as for umbo_gradients_view().
 */
umbo_status umbo_gradients_submit(struct umbo_replica_context *ctx,
                                  struct umbo_gradients *gradients);

/**
 * As umbo_gradients_submit(), with a weight of the caller's, which is finite and 0 or more. With
 * weight 0 nothing of what this replica wrote is read.
 */
umbo_status umbo_gradients_submit_weighted(struct umbo_replica_context *ctx,
                                           struct umbo_gradients *gradients,
                                           double weight);

/**
 * One more reference to the handle, to be released like the first.
 */
umbo_status umbo_gradients_retain(const struct umbo_gradients *gradients);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_gradients_release(const struct umbo_gradients *gradients);

/* ---- optimizers ---------------------------------------------------------------------------- */

/**
 * Stochastic gradient descent, for variables of the strategy: w = w - learning_rate * g.
 * `options` may be NULL.
 */
umbo_status umbo_optimizer_create_sgd(struct umbo_strategy *strategy,
                                      const struct umbo_sgd_options *options,
                                      struct umbo_optimizer **optimizer);

/**
 * Gradient descent with momentum, for variables of the strategy: a = momentum * a + g, then
 * w = w - learning_rate * a, or with Nesterov's momentum w = w - learning_rate * (g + momentum * a).
 * The state "momentum" is a. `options` may be NULL.
 */
umbo_status umbo_optimizer_create_momentum(struct umbo_strategy *strategy,
                                           const struct umbo_momentum_options *options,
                                           struct umbo_optimizer **optimizer);

/**
 * Adam (Kingma and Ba, 2015, Algorithm 1), for variables of the strategy: m = beta1 * m +
 * (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g, and with both corrected for their start
 * at zero, w = w - learning_rate * m / (sqrt(v) + epsilon). The states are "m" and "v", before the
 * correction. `options` may be NULL.
 */
umbo_status umbo_optimizer_create_adam(struct umbo_strategy *strategy,
                                       const struct umbo_adam_options *options,
                                       struct umbo_optimizer **optimizer);

/**
 * Reduces the gradients that the replicas submitted and updates the variables, in one pass over
 * memory. Uses the gradients up: apply once for each run. `options` and `report` may be NULL.
 *
 * After a run it acts at once; it waits for a run that another thread has in progress. Inside of a
 * run it is deferred to the commit point, takes what the replicas have submitted by then, and is
 * reported as `deferred`; called by a replica's callback it synchronises, and all replicas call
 * it. If the run fails, nothing is applied; if a deferred apply fails, so does the run. An apply
 * that fails changes nothing.
 *
 * FAILED_PRECONDITION: nothing was submitted since the last apply, a replica did not submit (it is
 * named), the last run failed, the context of another strategy, a strategy that was released.
 * INVALID_ARGUMENT: optimizer and gradients of different strategies.
 */
umbo_status umbo_optimizer_apply(struct umbo_optimizer *optimizer,
                                 struct umbo_gradients *gradients,
                                 const struct umbo_apply_options *options,
                                 struct umbo_apply_report *report);

/**
 * Sets the learning rate, from the next apply on: finite and 0 or more.
 */
umbo_status umbo_optimizer_set_learning_rate(struct umbo_optimizer *optimizer,
                                             double learning_rate);

/**
 * The learning rate of the next apply.
 */
umbo_status umbo_optimizer_learning_rate(const struct umbo_optimizer *optimizer,
                                         double *learning_rate);

/**
 * How many applies have taken effect. One whose total weight was 0 has not.
 */
umbo_status umbo_optimizer_iterations(const struct umbo_optimizer *optimizer, int64_t *iterations);

/**
 * A copy of what the optimizer keeps for a variable under `name`: "momentum", or "m" or "v" of
 * Adam; of the variable's dtype and shape. NOT_FOUND: a name that its rule does not have, or a
 * variable that it has not updated yet.
 */
umbo_status umbo_optimizer_state(const struct umbo_optimizer *optimizer,
                                 const struct umbo_variable *variable,
                                 const char *name,
                                 struct umbo_tensor **state);

/**
 * One more reference to the handle, to be released like the first.
 */
umbo_status umbo_optimizer_retain(const struct umbo_optimizer *optimizer);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_optimizer_release(const struct umbo_optimizer *optimizer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UMBO_UMBO_H */
