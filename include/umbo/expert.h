/* Generated from src; do not edit. */
#ifndef UMBO_EXPERT_H
#define UMBO_EXPERT_H

/**
 * @file expert.h
 * @brief Functions of umbo.h's objects that most trainers do without.
 *
 * Update rules of the program, parts of tensors, tensors of other libraries, sparse values and
 * updates, scopes, variables as one array, rarer datasets, logical devices, how many replicas
 * are fastest, and what bindings ask an object for by name or by number.
 *
 * Example:
 * ```c
 * // The first rows of a table, without a copy.
 * static umbo_status first_rows(const umbo_tensor *table, int64_t count, umbo_tensor **rows) {
 *   return umbo_tensor_slice(table, 0, 0, count, 1, rows);
 * }
 * ```
 */

#include <umbo/umbo.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Sets the number of threads for central work: reductions, updates, copies.
 *
 * @param[in] count 1 to 1024, the calling thread included. By default the number of processors
 *   of the process, or what the quota of its cgroup grants, if that is less.
 *
 * The number holds from the next operation on. Results do not depend on it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_worker_count(int64_t count);

/**
 * Says how many replicas the next step is to have, by the times of those before: the rule of
 * trainers with `replicas` UMBO_AUTO, for loops that make their strategies themselves.
 *
 * @param[in] first_count The number of replicas of the first steps, usually one for each
 *   processor; 1 to 1024.
 * @param[in] step_count How many steps were taken.
 * @param[in] seconds Their times, in order, each finite and 0 or more. `seconds` may be NULL if
 *   there are none.
 * @param[out] replica_count `first_count` or a divisor of it.
 * @param[out] is_chosen 1: this number stays; the log says so, as information, after the step that
 *   decides. 0: it is tried. `is_chosen` may be NULL.
 *
 * With each number 48 steps are taken, of which the median counts. While fewer replicas are faster
 * by 3 %, the next smaller divisor is tried; the fastest of all that were tried stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_choice_count(
    int64_t first_count, int64_t step_count, const double *seconds, int64_t *replica_count,
    int32_t *is_chosen);

/**
 * Writes what was tried and the result, such as "1 replica: a step takes 2.00 ms with 2
 * replicas, 1.00 ms with 1 replica".
 *
 * @param[out] buffer The text. `buffer` may be NULL if `capacity` is 0.
 *
 * The other parameters are those of umbo_replica_choice_count().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_choice_text(
    int64_t first_count, int64_t step_count, const double *seconds, char *buffer, size_t capacity,
    size_t *length);

/** Forgets this thread's last error and releases its payload. */
UMBO_API void umbo_clear_last_error(void);

/**
 * Keeps the tensors and values that the running callback makes, and those that it has made: they
 * are not released when it returns.
 *
 * For bindings whose objects own handles and release them, as those of umbo.hpp do: they call it
 * first in each callback. Outside of a callback it does nothing.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_callback_keep_handles(void);

/** Gets the version of the loaded library: major * 1000000 + minor * 1000 + patch. */
UMBO_API uint32_t umbo_version_number(void);

/**
 * Writes the canonical form of a device name, such as
 * "/job:localhost/replica:0/task:0/device:CPU:0".
 *
 * @param[in] name The name. The device need not exist.
 * @param[in] defaults The name of a device that has the parts which `name` does not have.
 *   `defaults` may be NULL: CPU:0 of this process, which also has the parts that `defaults` does
 *   not have.
 * @param[out] buffer The canonical name. `buffer` may be NULL if `capacity` is 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_canonical_name(
    const char *name, const char *defaults, char *buffer, size_t capacity, size_t *length);

/**
 * Splits a physical device into logical devices, in place of the split before.
 *
 * @param[in] count How many logical devices it becomes: 1 to 4096 for the host, 1 to 64 for a GPU.
 * @param[in] memory_limits How many bytes each logical GPU may allocate, 1 or more.
 *   `memory_limits` may be NULL: equal shares of the memory, or all of it for one. The host has no
 *   limits.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: a strategy uses a device that would go
 *   away, or a GPU that was used would get another ordinal or share. Nothing changes.
 *
 * The host is physical CPU 0. Its logical devices share its processors; strategies that exist keep
 * theirs. GPUs are split before their first use. Each logical GPU has a stream of its own. Logical
 * GPUs are numbered through all physical ones, so those of GPUs after this one may get other
 * ordinals; they keep the streams and pools that were set. Logical GPUs beyond `count` lose
 * theirs.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_set_logical_count(
    umbo_device_type type, int32_t physical_ordinal, int64_t count, const size_t *memory_limits);

/**
 * Makes a contiguous tensor without initialising its elements.
 *
 * @param[in] device The device that holds the elements; `device` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_create_uninitialized(
    umbo_dtype dtype, int32_t ndim, const int64_t *shape, const char *device,
    umbo_tensor **tensor);

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
 * Shares a tensor with a library that knows only DLPack before version 1.
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
 * - UMBO_STATUS_UNIMPLEMENTED: another major version of DLPack, a device other than a CPU or a GPU
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
 * Makes a tensor over memory of a library that knows only DLPack before version 1.
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

/**
 * Gets the name of a struct's field.
 *
 * @param[out] name The name, which lives as long as the value.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there is no field at `index`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_field_name(
    const umbo_value *value, int64_t index, const char **name);

/** Makes a value of a variable: of the variable itself, not of what it holds now. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_from_variable(
    const umbo_variable *variable, umbo_value **value);

/** Gets a new handle to the variable of a value that is a variable. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_variable(
    const umbo_value *value, umbo_variable **variable);

/**
 * Makes a per-replica value.
 *
 * @param[in] count How many components there are, 1 or more.
 * @param[in] components Tensors or indexed slices. They may differ in shape and dtype.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_per_replica(
    int64_t count, umbo_value *const *components, umbo_value **value);

/**
 * Counts the examples of the global batch that a value holds.
 *
 * @param[in] value An element of a distributed dataset, or a value that contains a per-replica
 *   value.
 * @param[in] replica Whose part is counted, from 0, or UMBO_ALL.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_example_count(
    const umbo_value *value, int32_t replica, int64_t *count);

/**
 * Makes indexed slices: some rows of a tensor.
 *
 * @param[in] values The rows: k of them.
 * @param[in] indices Their numbers: an int64 tensor of shape [k]. Row i of `values` is row
 *   `indices[i]` of the tensor.
 * @param[in] ndim The number of dimensions of the tensor, 1 to UMBO_MAX_NDIM.
 * @param[in] dense_shape The shape of the tensor.
 *
 * A row that is named several times stands for the sum. Whether the numbers are in range is
 * checked where the slices are used.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_indexed_slices(
    const umbo_tensor *values, const umbo_tensor *indices, int32_t ndim,
    const int64_t *dense_shape, umbo_value **value);

/**
 * Gets new handles to the tensors of indexed slices; umbo_value_get_info() gets the dense shape.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_indexed_slices(
    const umbo_value *value, umbo_tensor **values, umbo_tensor **indices);

/**
 * Hashes all variables of a strategy, so that processes can compare their weights.
 *
 * @param[out] fingerprint A hash of the names, dtypes, shapes and committed values of the
 *   variables in use, in the order in which they were made.
 * @return UMBO_STATUS_UNAVAILABLE: a GPU that was lost.
 *
 * It reads all weights and exchanges nothing. Processes with one version of the library can
 * compare it; see `fingerprint_interval` of umbo_strategy_options.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_fingerprint(
    const umbo_strategy *strategy, uint64_t *fingerprint);

/**
 * Gets a new handle to a variable of a strategy.
 *
 * @param[in] index Its position among those in use, in the order in which they were made. It
 *   changes when one before it ends.
 * @return UMBO_STATUS_OUT_OF_RANGE: no such variable.
 *
 * A loop over all of them adds the variables that adapters have made to a checkpoint, too.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_variable(
    const umbo_strategy *strategy, int64_t index, umbo_variable **variable);

/** Runs in the scope of a strategy, which is lent. */
typedef umbo_status (*umbo_scope_fn)(umbo_strategy *strategy, void *user_data);

/**
 * Calls a function in the scope of a strategy.
 *
 * @return What `function` returned, or UMBO_STATUS_FAILED_PRECONDITION: this thread is in a
 *   replica's callback, or in the scope or a run of another strategy.
 *
 * In the scope the strategy is current and the thread is in cross-replica context. Scopes that
 * `function` enters and does not leave are left for it. A strategy's scope may be entered again
 * inside itself. The default strategy's scope changes nothing, but no variable of another strategy
 * can be made inside it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_scope(
    umbo_strategy *strategy, umbo_scope_fn function, void *user_data);

/**
 * Enters the scope of a strategy on this thread, as umbo_strategy_scope() does.
 *
 * @param[out] scope Leave it with umbo_scope_exit(), which also releases it.
 * @return UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_scope().
 *
 * A scope that a callback enters and does not leave is left when the callback returns.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_scope_enter(umbo_strategy *strategy, umbo_scope **scope);

/**
 * Leaves a scope, of a strategy or of a variable creator, and releases its handle.
 *
 * @return
 * - UMBO_STATUS_FAILED_PRECONDITION: another thread entered the scope, or it is not the innermost
 *   one of this thread. It stays open and the handle valid.
 * - UMBO_STATUS_NOT_FOUND: it was left when the callback that entered it returned, or when the
 *   thread ended. The handle is released, on whatever thread.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_scope_exit(umbo_scope *scope);

/**
 * Gets a new handle to the strategy that is current on this thread: that of its scope or run, else
 * the default strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_current(umbo_strategy **strategy);

/**
 * Gets the replica context that this thread is in.
 *
 * @param[out] context Lent until the replica's callback returns, for this thread. NULL in
 *   cross-replica context. In the default context it is replica 0 of 1 of the default strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_current(umbo_replica_context **context);

/** Gets whether a token was cancelled: 1 or 0. */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_is_cancelled(
    const umbo_cancellation *cancellation, int32_t *result);

/**
 * The replica for which a value is made. The library fills it; later versions may append fields.
 */
typedef struct umbo_value_context {
  size_t struct_size;
  /** The id of the replica: 0 to `replica_count` less one. */
  int32_t replica_id;
  /** The number of replicas of all ranks. */
  int64_t replica_count;
} umbo_value_context;

/**
 * Makes the value of one replica.
 *
 * @param[in] context The replica; valid for the call.
 * @param[out] value NULL on entry. A value must be stored there, which the library takes over.
 */
typedef umbo_status (*umbo_value_fn)(
    const umbo_value_context *context, void *user_data, umbo_value **value);

/**
 * Makes a per-replica value.
 *
 * @param[in] function Called once for each local replica, in order, on this thread and in its
 *   context.
 * @return What `function` returned, or UMBO_STATUS_INVALID_ARGUMENT: it stored no value, or values
 *   with different structures.
 *
 * Structures are merged leaf by leaf; shapes and dtypes may differ. Each leaf becomes a
 * per-replica value, with one replica too; the default strategy gives its one value as it is.
 * Components stay on their devices.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_values_from_function(
    umbo_strategy *strategy, umbo_value_fn function, void *user_data, umbo_value **result);

/**
 * Changes a variable, in cross-replica context.
 *
 * @param[in] variable The variable, lent for the call.
 * @param[in] args The arguments, lent for the call, with the first component in place of each
 *   per-replica value. NULL if there are none.
 * @param[out] result NULL on entry. The library takes over a value that is stored there.
 */
typedef umbo_status (*umbo_update_fn)(
    umbo_variable *variable, const umbo_value *args, void *user_data, umbo_value **result);

/**
 * Calls a function once that changes a variable for all replicas.
 *
 * @param[in] args May be NULL.
 * @param[out] result What was stored, or NULL. `result` may be NULL, which discards it.
 * @return What `function` returned, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's scope, or the strategy
 *   is draining.
 *
 * `function` runs on this thread. What it assigns, to any variable of the strategy, becomes
 * central state if it succeeds. In a replica's callback this is a synchronising call
 * (umbo_replica_context_merge_call()): `function` runs on the thread that called
 * umbo_strategy_run(), with the arguments and user data of replica 0, and each replica gets its
 * component of the result. Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_update(
    umbo_strategy *strategy, umbo_variable *variable, umbo_update_fn function,
    const umbo_value *args, void *user_data, umbo_value **result);

/** The operation of a scatter on a row of a variable. Integers wrap. */
typedef enum umbo_scatter_op UMBO_INT32 {
  /** Adds the values to the row. */
  UMBO_SCATTER_ADD = 1101,
  /** Subtracts the values from the row. */
  UMBO_SCATTER_SUB = 1102,
  /** Multiplies the row by the values. */
  UMBO_SCATTER_MUL = 1103,
  /** Divides the row by the values. Integers are rounded towards zero. */
  UMBO_SCATTER_DIV = 1104,
  /** Takes the smaller element of each pair; NaN, if one of them is NaN. */
  UMBO_SCATTER_MIN = 1105,
  /** Takes the larger element of each pair; NaN, if one of them is NaN. */
  UMBO_SCATTER_MAX = 1106,
  /** Replaces the row. The only one for bool. */
  UMBO_SCATTER_UPDATE = 1107
} umbo_scatter_op;

/**
 * Changes rows of a variable, in the order of the slices. A row that is named several times is
 * changed several times.
 *
 * @param[in] slices Indexed slices of the variable's dtype and shape.
 * @return As umbo_variable_assign(), or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or an integer divided by 0.
 * - UMBO_STATUS_OUT_OF_RANGE: an index that is not a row. No row is changed.
 *
 * In a replica's callback UMBO_AGGREGATION_SUM applies the slices of all replicas in replica
 * order; UMBO_AGGREGATION_MEAN does, with the values divided by the number of replicas, but
 * applies the very same value on all replicas once, as it is; UMBO_AGGREGATION_ONLY_FIRST_REPLICA
 * applies those of replica 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_scatter(
    umbo_variable *variable, const umbo_value *slices, umbo_scatter_op op);

/**
 * Gets how many elements variables have together, for umbo_variable_download_flat().
 *
 * @param[in] variables Variables of one strategy and one dtype.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: variables of several strategies or dtypes.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_element_count(
    int64_t count, umbo_variable *const *variables, int64_t *element_count);

/**
 * Copies the values of variables into one array: those of the first in row-major order, then those
 * of the second, and so on.
 *
 * @param[in] variables Variables of one strategy and one dtype.
 * @param[out] data Host memory at a multiple of an element's size. `data` may be NULL if there are
 *   no elements.
 * @param[in] bytes The size of `data`, which must be that of all elements.
 * @return As umbo_variable_element_count(), or UMBO_STATUS_INVALID_ARGUMENT: another size.
 *
 * The values are as between two steps. In a run and in a merge call they have what the step has
 * written so far.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_download_flat(
    int64_t count, umbo_variable *const *variables, void *data, size_t bytes);

/**
 * Gives variables new values from one array, in the order of umbo_variable_download_flat().
 *
 * @param[in] variables Variables of one strategy and one dtype.
 * @param[in] data All elements. `data` may be NULL if there are none.
 * @param[in] bytes The size of `data`, which must be that of all elements.
 * @return As umbo_variable_assign().
 *
 * Outside of callbacks all variables get their values between two steps. In a replica's callback
 * this is one synchronising call after the other, as umbo_variable_assign() for each variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_upload_flat(
    int64_t count, umbo_variable *const *variables, const void *data, size_t bytes);

/** Gets what elements are. */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_get_info(
    const umbo_element_spec *spec, umbo_element_spec_info *info);

/**
 * Gets a new handle to the spec of an item, field or component.
 *
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there is nothing at `index`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_item(
    const umbo_element_spec *spec, int64_t index, umbo_element_spec **item);

/**
 * Gets the name of a struct's field.
 *
 * @param[out] name The name, which lives as long as the spec.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there is no field at `index`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_field_name(
    const umbo_element_spec *spec, int64_t index, const char **name);

/**
 * Makes a dataset of tensors: each is an element.
 *
 * @param[in] count How many tensors there are, 1 or more.
 * @param[in] tensors They have the same dtype and number of dimensions. Their sizes may differ,
 *   and are unknown in the element spec.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_elements(
    int64_t count, umbo_tensor *const *tensors, umbo_dataset **dataset);

/**
 * Makes a dataset of one element.
 *
 * @param[in] element A tensor or a nest of tensors.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_tensors(
    const umbo_value *element, umbo_dataset **dataset);

/**
 * Makes a dataset of int64 scalars: `start`, `start` + `step` and so on, as long as they are
 * before `stop`.
 *
 * @param[in] step The distance between numbers, not 0. It may be negative.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_range(
    int64_t start, int64_t stop, int64_t step, umbo_dataset **dataset);

/** How elements are drawn from several datasets. Start from UMBO_SAMPLE_OPTIONS_INIT. */
typedef struct umbo_sample_options {
  size_t struct_size;
  /** The seed of the draws, which are the same on every machine. */
  uint64_t seed;
  /**
   * 1: all passes and repetitions draw alike. 0: each draws anew, also the passes of different
   * iterators.
   */
  int32_t keep_order_each_pass;
  /**
   * 1: a pass ends when a dataset is drawn that has ended, so that the weights hold to its end.
   * 0: the other datasets continue, and the pass ends when all have ended.
   */
  int32_t stop_on_empty;
} umbo_sample_options;

#define umbo_sample_options_defaults UMBO_STRUCT_SIZE(umbo_sample_options), 0, 0, 0
#define UMBO_SAMPLE_OPTIONS_INIT { umbo_sample_options_defaults }

/**
 * Puts datasets one after the other.
 *
 * @param[in] count How many datasets there are, 1 or more.
 * @param[in] datasets Their elements have the same structure, dtypes and numbers of dimensions.
 *   Sizes that differ are unknown in the element spec.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_concatenate(
    int64_t count, umbo_dataset *const *datasets, umbo_dataset **concatenated);

/**
 * Mixes datasets: each element comes from one that is drawn at random.
 *
 * @param[in] count How many datasets there are, 1 or more.
 * @param[in] datasets Each keeps its own order. Their elements have the same structure, dtypes and
 *   numbers of dimensions. Sizes that differ are unknown in the element spec.
 * @param[in] weights A weight for each dataset, which is drawn in proportion to it: finite, 0 or
 *   more, not all 0. A dataset of weight 0 is never drawn. `weights` may be NULL: all have the
 *   same.
 * @param[in] options The seed, whether passes differ, and the end; `options` may be NULL.
 *
 * A failure of the dataset that is drawn takes the place of its element. A saved position has the
 * draws of the pass, so that the same elements follow.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_sample(
    int64_t count, umbo_dataset *const *datasets, const double *weights,
    const umbo_sample_options *options, umbo_dataset **sampled);

/**
 * Re-splits the rows of all batches into batches of the given numbers of rows.
 *
 * @param[in] row_counts The numbers of rows, 0 or more, not all 0. After the last comes the first
 *   again.
 * @param[in] drop_remainder 1: rows that do not fill a last batch are left out. 0: it is smaller.
 *
 * New batches within one old batch are views of it; others are copies. Old batches that are joined
 * may differ in nothing but their number of rows, which is the same for all tensors of an element.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_rebatch(
    umbo_dataset **dataset, int64_t count, const int64_t *row_counts, int32_t drop_remainder);

/**
 * Takes elements apart: each row of their tensors, along dimension 0, becomes an element.
 *
 * The elements are nests of tensors with at least one dimension, and all tensors of an element
 * have the same number of rows. What this makes are views of them. An element without rows makes
 * none.
 *
 * umbo_dataset_cardinality() knows the number if it knows that of the elements and their spec has
 * the number of their rows, as after a umbo_dataset_batch() that drops a remainder.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_unbatch(umbo_dataset **dataset);

/** Gets a new handle to the spec of the elements. */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_element_spec(
    const umbo_dataset *dataset, umbo_element_spec **spec);

/** The input pipeline for which a function makes a dataset. */
typedef struct umbo_input_context {
  size_t struct_size;
  /** The number of pipelines: one for each rank. */
  int64_t pipeline_count;
  /** The number of this one, from 0. */
  int32_t pipeline_index;
  /** The number of replicas that all pipelines serve together. */
  int64_t replica_count;
} umbo_input_context;

#define UMBO_INPUT_CONTEXT_INIT { UMBO_STRUCT_SIZE(umbo_input_context), 0, 0, 0 }

/**
 * Makes the dataset of an input pipeline.
 *
 * @param[in] context Valid for the call.
 * @param[out] dataset The dataset, which the library takes over. It is NULL before, and must be
 *   set.
 * @return UMBO_OK, or why it failed.
 */
typedef umbo_status (*umbo_dataset_fn)(
    const umbo_input_context *context, void *user_data, umbo_dataset **dataset);

/**
 * Gives each replica whole elements.
 *
 * @param[in] function Makes the dataset of this rank. It is called once, before this function
 *   returns.
 * @param[in] options `options` may be NULL. `sharding` is UMBO_SHARDING_OFF, whatever they say.
 * @return UMBO_OK, or the status of `function`.
 *
 * With n replicas, replica k gets element s * n + k in step s: the batch of one replica, or a
 * scalar. With one replica, elements stay as they are. A last step that is not whole is as
 * `drop_partial_step` says.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_distribute_datasets_from_function(
    umbo_strategy *strategy, umbo_dataset_fn function, void *user_data,
    const umbo_distribute_options *options, umbo_distributed_dataset **distributed);

/**
 * Gets a new handle to the spec of the elements. With several replicas each tensor is a
 * per-replica value.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_distributed_dataset_element_spec(
    const umbo_distributed_dataset *distributed, umbo_element_spec **spec);

/**
 * Counts the steps of a pass.
 *
 * @param[out] count The number, UMBO_INFINITE or UMBO_CARDINALITY_UNKNOWN.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_distributed_dataset_cardinality(
    const umbo_distributed_dataset *distributed, int64_t *count);

/** Gets a new handle to the spec of the elements. */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_element_spec(
    const umbo_iterator *iterator, umbo_element_spec **spec);

/**
 * Finds out whether the pass has ended, so that the next element can only come after
 * umbo_iterator_reset().
 *
 * @param[out] has_ended 1: umbo_iterator_next() has given NULL, or umbo_train_epoch() has ended
 *   the pass with `reset_iterator` 0. 0: it has not, even if no element is left.
 * @return As umbo_iterator_next().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_has_ended(
    umbo_iterator *iterator, int32_t *has_ended);

/**
 * Gets what gradients are.
 *
 * @param[in] index Also gets what the gradient of this variable is. UMBO_NONE: of none.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_get_info(
    const umbo_gradients *gradients, int64_t index, umbo_gradients_info *info);

/**
 * Gets a new handle to one of the variables.
 *
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_variable(
    const umbo_gradients *gradients, int64_t index, umbo_variable **variable);

/**
 * Gets a new handle to the gradient of a variable that the next apply would use, before clipping
 * and weight decay.
 *
 * @param[in] optimizer Its loss scale is taken out. NULL: there is none.
 * @param[out] value A tensor of the variable's type, or for a row-sparse variable indexed slices
 *   of the rows that were named, ascending, each once. With accumulated runs it is divided by the
 *   weight of the runs so far.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable. UMBO_STATUS_NOT_FOUND: no
 *   replica contributed to it, or it is frozen and runs are accumulated, which leaves it out.
 *   UMBO_STATUS_FAILED_PRECONDITION: inside a run, if there is nothing to apply, or all weights
 *   are 0.
 *
 * Nothing is used up. Waits for a run of another thread. Collective: each rank gets the gradient
 * over all ranks, which exchange more than in an apply.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_reduced(
    const umbo_gradients *gradients, int64_t index, const umbo_optimizer *optimizer,
    umbo_value **value);

/**
 * Adds copies of the rows of indexed slices, as umbo_gradients_add_rows() does.
 *
 * @param[in] slices Indexed slices of the gradient's dtype and the variable's shape.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: another kind of value, dtype or shape.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_add_indexed_slices(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, const umbo_value *slices);

/**
 * Attaches memory of the program as this replica's gradient of a variable: it is read from there,
 * without a copy, in place of the buffer of umbo_gradients_view().
 *
 * @param[in] view All elements: of the variable's shape and the gradient's dtype, row-major, in
 *   memory of the replica's device.
 * @param[in] destroy Gets `user_data` when nothing reads the elements any more. NULL: none.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a view that does not fit.
 *   UMBO_STATUS_NOT_FOUND: no such device. UMBO_STATUS_FAILED_PRECONDITION: also if the replica
 *   has viewed or attached this gradient in this step (umbo_gradients_discard() takes that back).
 *
 * The replica writes the elements until it submits. After that nobody writes them until `destroy`
 * is called: after the apply that uses the gradient, a run that fails, or a discard; at the latest
 * when a later step replaces it or the gradients end. The thread that runs or applies may call
 * `destroy` in that call; then it cannot run or change anything of this strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_attach(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, const umbo_view *view,
    void *user_data, umbo_destroy_fn destroy);

/**
 * Discards what this replica has contributed to a variable in this step, as if it had not viewed,
 * added or attached anything. It may do so again before it submits.
 *
 * The declaration of a replica that the step does not use a parameter. If no replica contributes
 * to it, an apply leaves the variable alone: no weight decay, no momentum. If others do, this one
 * is zero.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_discard(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index);

/**
 * Neighbouring elements of a variable, which a custom rule is to update. Arrays have `count`
 * elements of type `dtype`. Later versions may append fields.
 */
typedef struct umbo_update_tile {
  size_t struct_size;
  /** UMBO_DTYPE_FLOAT32 or UMBO_DTYPE_FLOAT64. */
  umbo_dtype dtype;
  /** How many states there are. */
  int32_t state_count;
  /** How many elements there are, 1 or more. */
  int64_t count;
  /** The position of the first of them in the variable, in row-major order. */
  int64_t first;
  /** Read and written. */
  void *weights;
  /**
   * Summed over replicas and runs, without the loss scale, clipped, and with the weight decay
   * added unless that is decoupled.
   */
  const void *gradient;
  /** Read and written, in the order of umbo_custom_rule_options. */
  void *const *states;
  /** With the factor of the variable's group. */
  double learning_rate;
  /** The weight decay that the rule has to apply itself; 0 unless it is decoupled. */
  double weight_decay;
  /** How often this optimizer has updated the variable before. */
  int64_t step;
} umbo_update_tile;

/**
 * Updates weights and states of some elements, each from its own weight, states and gradient
 * alone.
 *
 * @param[in] tile Valid until the function returns.
 *
 * Several threads call it at once, on tiles that have nothing in common. With several ranks it
 * runs twice for each element, first on copies of weights and states, and must do the same both
 * times. It cannot fail, because other tiles are changed already. Functions of the library are
 * UMBO_STATUS_FAILED_PRECONDITION here. It runs with the default floating-point settings, which it
 * may not change for good.
 */
typedef void (*umbo_update_tile_fn)(const umbo_update_tile *tile, void *user_data);

/**
 * A variable that a GPU holds, or those of its rows that have gradients, which a custom rule is to
 * update. Arrays are copies in the GPU's memory, with `count` elements; `states` itself is in host
 * memory. Later versions may append fields.
 */
typedef struct umbo_gpu_update {
  size_t struct_size;
  /** As in umbo_update_tile, up to `states`. */
  umbo_dtype dtype;
  /** How many states there are. */
  int32_t state_count;
  /** How many elements there are, 1 or more. */
  int64_t count;
  /** Read and written. */
  void *weights;
  /** Read. */
  const void *gradient;
  /** Read and written. */
  void *const *states;
  /** How many rows of the variable the elements are; 0 if they are all of it. */
  int64_t row_count;
  /** The numbers of these rows, ascending, in memory of the GPU. NULL if they are all of it. */
  const int64_t *rows;
  /** With the factor of the variable's group. */
  double learning_rate;
  /** The weight decay that the rule has to apply itself; 0 unless it is decoupled. */
  double weight_decay;
  /** How often this optimizer has updated the variable before. */
  int64_t step;
  /** The GPU. */
  umbo_device device;
  /** The CUstream to queue on; never NULL. */
  void *stream;
} umbo_gpu_update;

/**
 * Queues kernels that update weights and states, each from its own weight, states and gradient
 * alone.
 *
 * @param[in] update Valid, with `states`, until the function returns; the arrays until the kernels
 *   are done.
 * @return UMBO_OK, or why it fails: then the apply, or its step, fails and nothing changes.
 *
 * It is called before an apply changes anything, for one variable after the other, with the GPU's
 * primary context current; the library waits for the kernels. Functions of the library, except
 * umbo_set_last_error(), are UMBO_STATUS_FAILED_PRECONDITION here.
 */
typedef umbo_status (*umbo_update_on_gpu_fn)(const umbo_gpu_update *update, void *user_data);

/** Options of a custom rule: its state and its GPU function. */
typedef struct umbo_custom_rule_options {
  size_t struct_size;
  /** For messages and umbo_optimizer_info. NULL: "custom". */
  const char *name;
  /** Finite and 0 or more. */
  double learning_rate;
  /** Used where umbo_optimizer_configure() gives none; finite and 0 or more. */
  double weight_decay;
  /** 1: the rule decays weights itself. 0: weight_decay * w is added to the gradient. */
  int32_t decoupled_weight_decay;
  /** How many states the rule keeps for each variable, of its type and shape: 0 to 8. */
  int64_t state_count;
  /** Their names, which differ and are not empty. NULL if there are no states. */
  const char *const *state_names;
  /** The elements of each state before the first update. NULL: all are 0. */
  const double *state_initials;
  /**
   * Updates variables that a GPU holds, with the same user data. NULL: to update such a variable
   * is UMBO_STATUS_UNIMPLEMENTED.
   */
  umbo_update_on_gpu_fn update_on_gpu;
} umbo_custom_rule_options;

#define umbo_custom_rule_options_defaults \
  UMBO_STRUCT_SIZE(umbo_custom_rule_options), NULL, 0.01, 0.0, 0, 0, NULL, NULL, NULL
#define UMBO_CUSTOM_RULE_OPTIONS_INIT { umbo_custom_rule_options_defaults }

/**
 * Makes an optimizer whose rule is a function of the program.
 *
 * @param[in] update The rule, called with `user_data` until the optimizer ends.
 *
 * All else is as for other rules: gradients are reduced and clipped, and come in tiles of some
 * hundred elements while they are in the cache; row-sparse variables are updated by rows.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_custom(
    const umbo_strategy *strategy, umbo_update_tile_fn update, void *user_data,
    umbo_destroy_fn destroy, const umbo_custom_rule_options *options, umbo_optimizer **optimizer);

/**
 * Gets a number that an optimizer is set up with, as it takes effect.
 *
 * @param[in] variable NULL: of the optimizer. Otherwise of how it treats this variable.
 * @param[in] name A field of the rule's options, such as "beta1", or of umbo_optimizer_options;
 *   with a variable a field of umbo_group_options. A weight decay is the number that updates use,
 *   and "non_finite" is never UMBO_NON_FINITE_AUTO.
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no such field. The message lists those that there
 *   are.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_setting(
    const umbo_optimizer *optimizer, const umbo_variable *variable, const char *name,
    double *value);

/**
 * Copies a state that an optimizer keeps for a variable to a new tensor.
 *
 * @param[in] name Such as "momentum"; the creator of the optimizer lists the names. "average" is
 *   the moving average of the weights.
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: the rule has no such state of a variable of this
 *   shape, or the optimizer has not updated the variable yet.
 *
 * Collective, outside of runs: each rank keeps a part of the state.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_read_state(
    const umbo_optimizer *optimizer, const umbo_variable *variable, const char *name,
    umbo_tensor **state);

/**
 * Makes a variable with other rows of one, and puts it in that one's place in an optimizer: for
 * vocabularies that grow, tables whose entries expire, and sets of points.
 *
 * @param[in] variable It keeps its value and its views until it is released, but optimizers refuse
 *   it from now on.
 * @param[in] kept_count How many rows stay.
 * @param[in] kept_rows Their numbers, in their new order, each at most once. NULL: the first
 *   `kept_count`.
 * @param[in] appended The rows after them: of the variable's dtype, and of its shape except for
 *   the first dimension. NULL: none.
 * @param[out] changed Has the variable's name and properties, and replaces `variable`.
 * @return UMBO_OK, or as follows, and all is as before:
 * - UMBO_STATUS_OUT_OF_RANGE: a row that the variable does not have.
 * - UMBO_STATUS_FAILED_PRECONDITION: in a run, a merge call or umbo_optimizer_with_average();
 *   while gradients that the optimizer has applied before hold runs that wait for an update; for a
 *   variable that was replaced before, or lies in memory of the program's, as a trainer's do.
 *
 * All that the optimizer keeps for a row (states and average) moves with it. The state of an
 * appended row is that before the first update, and its average is the row itself; how often the
 * variable was updated stays, and so does its group. Make new gradients: an apply of those of
 * `variable` fails. Add `changed` and them to a checkpoint by the same names, where they take the
 * place of those before; until then saving fails.
 *
 * Collective: all ranks change the same rows, and rank 0's are appended.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_change_rows(
    umbo_optimizer *optimizer, const umbo_variable *variable, int64_t kept_count,
    const int64_t *kept_rows, const umbo_tensor *appended, umbo_variable **changed);

/**
 * Gets the names of all metrics, in the order of their definitions.
 *
 * @param[in] capacity The length of `names`.
 * @param[out] names Live as long as the metrics. NULL if `capacity` is 0.
 * @param[out] length How many there are, even if there are more than `capacity`.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there are more than `capacity`, and `names` is
 *   unchanged.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_names(
    const umbo_metrics *metrics, const char **names, int64_t capacity, int64_t *length);

/**
 * Copies the cells of a confusion matrix, row by row, or of an AUC's histogram: the bins of the
 * negative examples, then those of the positive ones. Each is the weight of the examples in it:
 * their number without weights.
 *
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a metric without cells.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_metrics_cells(
    const umbo_metrics *metrics, const char *name, double *cells, int64_t capacity,
    int64_t *length);

/**
 * Gets one finding.
 *
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such finding.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_at(
    const umbo_equivalence *equivalence, int64_t index, umbo_equivalence_finding *finding);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
