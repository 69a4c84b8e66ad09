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
 * UMBO_STATUS_INVALID_ARGUMENT. Whoever gets a handle from a function owns a reference and releases it
 * with umbo_X_release(), which accepts NULL; umbo_X_retain() makes one more handle to the same
 * object, which is released by itself. What a callback is given is lent for the call: it cannot be
 * released, and is stale afterwards; retaining it is how a callback keeps it.
 *
 * Pointers. Every pointer must lead to what its type and the function's description say, or be
 * NULL; NULL where something is expected is UMBO_STATUS_INVALID_ARGUMENT. Texts are UTF-8, ended by a NUL,
 * and have at most 4095 bytes, as paths have.
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
 * Memory. Without memory, or a thread, for what it is to do a function returns
 * UMBO_STATUS_RESOURCE_EXHAUSTED, and variables, gradients and optimizers are as they were before it. What
 * has been committed is never reported as failed. Small memory is set aside, so that what has begun
 * can be ended in order: releases work without memory, and so do the functions of the last error,
 * umbo_scope_exit(), umbo_set_strategy(), umbo_cancellation_cancel(), umbo_strategy_synchronize() and
 * umbo_live_handles(). Give memory back and go on. What still ends the process for want of memory:
 * - the C library's and Rust's own records of a thread, less than 100 bytes each, when a thread first
 *   calls the library or one of the library's threads starts, if another thread takes the last memory
 *   right after the library has asked for 64 KiB and got it; and the thread-local data of a library
 *   that was loaded by dlopen(), which the C library makes at a thread's first call;
 * - the directory of a .npz file, if it names so many arrays that a table of them takes more than
 *   64 KiB;
 * - the system itself, if it has promised memory that it does not have.
 *
 * Options. Structs of options start with `struct_size`; the UMBO_X_INIT macros set it and give every
 * other field its default. What a field says counts as it stands: 0 is 0. NULL in place of a struct
 * means all defaults. A program that was built with an older or newer header works as long as it
 * does not use what this library does not know.
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
#define UMBO_STRATEGY_OPTIONS_INIT \
  { sizeof(umbo_strategy_options), NULL, 0, 0, NULL, UMBO_THREAD_BINDING_ON, NULL, 0 }
#define UMBO_RUN_OPTIONS_INIT { sizeof(umbo_run_options), UMBO_NO_TIMEOUT, NULL, NULL }
#define UMBO_METRIC_INIT { sizeof(umbo_metric), 0, 0, 0 }
#define UMBO_BATCH_POSITION_INIT { sizeof(umbo_batch_position), 0, 0, 0, 0 }
#define UMBO_REDUCE_OPTIONS_INIT { sizeof(umbo_reduce_options), NULL, 0, NULL, NULL }
#define UMBO_UPDATE_OPTIONS_INIT { sizeof(umbo_update_options), UMBO_UPDATE_GROUPED }
#define UMBO_DESTINATION_INIT { sizeof(umbo_destination), NULL, NULL, NULL }
#define UMBO_VARIABLE_OPTIONS_INIT \
  { sizeof(umbo_variable_options), NULL, NULL, UMBO_DTYPE_NONE, 0, NULL, UMBO_TRAINABLE_DEFAULT, \
    UMBO_SYNCHRONIZATION_AUTO, UMBO_AGGREGATION_NONE }
#define UMBO_SHUFFLE_OPTIONS_INIT \
  { sizeof(umbo_shuffle_options), UMBO_SHUFFLE_WHOLE_DATASET, 0, 0 }
#define UMBO_GENERATOR_INIT { sizeof(umbo_generator), NULL, NULL, NULL, NULL }
#define UMBO_MAP_OPTIONS_INIT { sizeof(umbo_map_options), NULL, 1 }
#define UMBO_DISTRIBUTE_OPTIONS_INIT \
  { sizeof(umbo_distribute_options), UMBO_SPLIT_CEIL, 0, 0, UMBO_BUFFER_OF_DEVICE, \
    UMBO_REPLICATION_PER_WORKER, 0 }
#define UMBO_INPUT_CONTEXT_INIT { sizeof(umbo_input_context), 0, 0, 0 }
#define UMBO_GRADIENTS_OPTIONS_INIT \
  { sizeof(umbo_gradients_options), UMBO_LOSS_UNSET, 1, NULL, UMBO_DTYPE_NONE }
#define UMBO_SGD_OPTIONS_INIT { sizeof(umbo_sgd_options), 0.01 }
#define UMBO_MOMENTUM_OPTIONS_INIT { sizeof(umbo_momentum_options), 0.01, 0.9, 0 }
#define UMBO_ADAM_OPTIONS_INIT { sizeof(umbo_adam_options), 0.001, 0.9, 0.999, 1e-8 }
#define UMBO_ADAMW_OPTIONS_INIT { sizeof(umbo_adamw_options), 0.001, 0.9, 0.999, 1e-8, 0.01 }
#define UMBO_LAMB_OPTIONS_INIT { sizeof(umbo_lamb_options), 0.001, 0.9, 0.999, 1e-6, 0.01 }
#define UMBO_ADAGRAD_OPTIONS_INIT { sizeof(umbo_adagrad_options), 0.01, 0.0, 1e-10 }
#define UMBO_RMSPROP_OPTIONS_INIT { sizeof(umbo_rmsprop_options), 0.01, 0.9, 0.0, 1e-8, 0 }
#define UMBO_FTRL_OPTIONS_INIT { sizeof(umbo_ftrl_options), 0.1, 1.0, 0.0, 0.0, 0.0 }
#define UMBO_OPTIMIZER_OPTIONS_INIT \
  { sizeof(umbo_optimizer_options), UMBO_WEIGHT_DECAY_OF_RULE, UMBO_NO_CLIPPING, UMBO_NO_CLIPPING, \
    UMBO_NON_FINITE_AUTO, UMBO_LOSS_SCALING_NONE, 65536.0, 2.0, 0.5, 1.0, 2000 }
#define UMBO_GROUP_OPTIONS_INIT \
  { sizeof(umbo_group_options), 1.0, UMBO_WEIGHT_DECAY_OF_OPTIMIZER, 0 }
#define UMBO_APPLY_OPTIONS_INIT { sizeof(umbo_apply_options), 0, 0 }
#define UMBO_APPLY_REPORT_INIT \
  { sizeof(umbo_apply_report), 0, 0, 0, 0, 0.0, 0, 0.0, 0.0, 0.0, NULL, 0, 0 }
#define UMBO_EQUIVALENCE_OPTIONS_INIT \
  { sizeof(umbo_equivalence_options), UMBO_TOLERANCE_OF_DTYPE, 0.0 }
#define UMBO_EQUIVALENCE_FINDING_INIT \
  { sizeof(umbo_equivalence_finding), 0, 0, 0, 0, 0.0, 0.0, NULL, NULL }


/**
 * The largest rank of a tensor.
 */
#define UMBO_MAX_RANK 8

/**
 * The most tuples and structs that may lie in one another, in a value or an element spec: a tuple of
 * tensors has depth 1. A nest also consists of at most 1,048,576 values, each counted as often as it
 * appears. The functions that would build another nest fail with INVALID_ARGUMENT.
 */
#define UMBO_MAX_NEST_DEPTH 64

/**
 * A timeout that never comes.
 */
#define UMBO_NO_TIMEOUT -1.0

/**
 * The size of a dimension in which elements may differ.
 */
#define UMBO_SIZE_UNKNOWN -1

/**
 * A shuffle buffer for all elements of the dataset.
 */
#define UMBO_SHUFFLE_WHOLE_DATASET -1

/**
 * As many steps ahead as the compute devices gain from.
 */
#define UMBO_BUFFER_OF_DEVICE -1

/**
 * The weight decay that the options of the rule say.
 */
#define UMBO_WEIGHT_DECAY_OF_RULE -1.0

/**
 * The weight decay of all variables that are in no group.
 */
#define UMBO_WEIGHT_DECAY_OF_OPTIMIZER -1.0

/**
 * A bound that clips nothing.
 */
#define UMBO_NO_CLIPPING -1.0

/**
 * What sums in another order differ by in the gradients' dtype.
 */
#define UMBO_TOLERANCE_OF_DTYPE -1.0

/**
 * A request to stop, which any thread may make.
 */
typedef struct umbo_cancellation umbo_cancellation;

/**
 * A cluster of processes and this one's place in it.
 */
typedef struct umbo_cluster_resolver umbo_cluster_resolver;

/**
 * A sequence of elements, described but not yet produced.
 */
typedef struct umbo_dataset umbo_dataset;

/**
 * A dataset whose elements are split over the replicas of a strategy.
 */
typedef struct umbo_distributed_dataset umbo_distributed_dataset;

/**
 * The structure, dtypes and shapes of the elements of a dataset.
 */
typedef struct umbo_element_spec umbo_element_spec;

/**
 * What a check of one replica against all has found.
 */
typedef struct umbo_equivalence umbo_equivalence;

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
 * A strategy's scope that a thread has entered.
 */
typedef struct umbo_scope umbo_scope;

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
 * A variable that is about to be made, for a variable creator. Borrowed: it lives as long as the
 * call of the creator.
 */
typedef struct umbo_variable_request umbo_variable_request;

/**
 * The result of a function: `UMBO_OK`, or why it failed. The codes are the canonical ones with
 * their usual numbers.
 */
typedef int32_t umbo_status;

/**
 * Releases `user_data`. Runs exactly once, on any thread, also when the call that took the user
 * data fails; the library does not use the user data afterwards. May be NULL.
 */
typedef void (*umbo_destroy_fn)(void *user_data);

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
  umbo_destroy_fn payload_destroy;
} umbo_error_info;

/**
 * How important a log message is.
 */
typedef int32_t umbo_log_level;

/**
 * Receives a log message, which lives as long as the call. May be called from several threads at
 * the same time.
 */
typedef void (*umbo_log_fn)(umbo_log_level level, const char *message, void *user_data);

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
  int32_t ordinal;
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
 * What a view says of its memory: a sum of the UMBO_VIEW_ constants.
 */
typedef int32_t umbo_view_flags;

/**
 * Where elements lie: all that a loop over them needs, without a handle. Valid as long as what
 * it was taken from. Its size stays the same in later versions, which may give `room` a meaning.
 */
typedef struct umbo_view {
  /**
   * The first element, for reading.
   */
  const void *data;
  /**
   * The first element, for writing; NULL if the elements may only be read.
   */
  void *mutable_data;
  /**
   * The type of the elements.
   */
  umbo_dtype dtype;
  /**
   * How many dimensions there are, 0 to 8.
   */
  int32_t rank;
  /**
   * Where the memory is.
   */
  struct umbo_device device;
  /**
   * UMBO_VIEW_READ_ONLY and UMBO_VIEW_CONTIGUOUS, as far as they hold.
   */
  umbo_view_flags flags;
  /**
   * The size of an element in bytes.
   */
  int32_t element_bytes;
  /**
   * The sizes of the dimensions, 0 past `rank`.
   */
  int64_t shape[8];
  /**
   * The distance between neighbours along each dimension, in elements, 0 past `rank`.
   */
  int64_t strides[8];
  /**
   * Zero.
   */
  uint64_t room[4];
} umbo_view;

/**
 * What a value is.
 */
typedef int32_t umbo_value_kind;

/**
 * Whether replica threads are bound to the processors of their devices.
 */
typedef int32_t umbo_thread_binding;

/**
 * How a central storage strategy is set up. Start from UMBO_STRATEGY_OPTIONS_INIT.
 */
typedef struct umbo_strategy_options {
  /**
   * sizeof(umbo_strategy_options).
   */
  size_t struct_size;
  /**
   * Names of the compute devices, one replica each, all different. NULL: `cpu_replicas`
   * decides; if that is 0 too, CPU:0. (This version computes on CPU devices.)
   */
  const char *const *compute_devices;
  /**
   * How many names there are.
   */
  int64_t compute_device_count;
  /**
   * This many replicas, on CPU:0, CPU:1, ...; the CPU is split into at least as many logical
   * devices. Not together with `compute_devices`.
   */
  int64_t cpu_replicas;
  /**
   * The device that holds the variables. NULL: the compute device if there is exactly one, else
   * CPU:0.
   */
  const char *parameter_device;
  /**
   * UMBO_THREAD_BINDING_ON or UMBO_THREAD_BINDING_OFF.
   */
  umbo_thread_binding thread_binding;
  /**
   * What umbo_strategy_cluster_resolver() is to give. NULL: none. The strategy keeps a reference.
   */
  const struct umbo_cluster_resolver *cluster_resolver;
  /**
   * The size of the stack of each replica's thread, in bytes: 65536 (64 KiB) or more. 0: the size
   * of the stack of the thread that makes the strategy (for the process's first thread what
   * `ulimit -s` says, 8 MiB if that is unlimited), at least 2 MiB. Replica 0 usually runs on the
   * stack of the thread that calls. Below each stack 16 MiB of address space are closed, so that
   * an array that does not fit ends the process with SIGSEGV.
   */
  size_t thread_stack_bytes;
} umbo_strategy_options;

/**
 * A metric over all replicas. Start from UMBO_METRIC_INIT. Metrics of several steps are merged by
 * adding sums and weights.
 */
typedef struct umbo_metric {
  /**
   * sizeof(umbo_metric).
   */
  size_t struct_size;
  /**
   * The sum that the replicas added up to, in replica order.
   */
  double sum;
  /**
   * The sum of the weights.
   */
  double weight;
  /**
   * sum / weight; NaN if the weight is 0.
   */
  double mean;
} umbo_metric;

/**
 * What runs in a scope. `strategy` is the one whose scope it is.
 */
typedef umbo_status (*umbo_scope_fn)(struct umbo_strategy *strategy, void *user_data);

/**
 * What runs on each replica, on a thread of its own (replica 0: on the calling thread, unless the
 * run has a deadline or a token). `ctx` and `args` are borrowed for the call; `args` is this
 * replica's part of the run's arguments (each per-replica value is replaced by this replica's
 * component), NULL if the run was given none. `*result` is NULL on entry; a value that is stored
 * there is taken over by the library. A status other than UMBO_OK fails the run; say why with
 * umbo_set_last_error().
 *
 * Replicas run concurrently; they may wait for each other. A replica whose part of a batch is
 * empty runs too.
 */
typedef umbo_status (*umbo_replica_fn)(struct umbo_replica_context *ctx,
                                       const struct umbo_value *args,
                                       void *user_data,
                                       struct umbo_value **result);

/**
 * How a run is done. Start from UMBO_RUN_OPTIONS_INIT.
 */
typedef struct umbo_run_options {
  /**
   * sizeof(umbo_run_options).
   */
  size_t struct_size;
  /**
   * The run returns after this many seconds at the latest, with DEADLINE_EXCEEDED; 0: at once.
   * UMBO_NO_TIMEOUT, the default: it takes as long as it takes.
   */
  double timeout_seconds;
  /**
   * The run returns, with CANCELLED, when this token is cancelled. NULL: no token.
   */
  const struct umbo_cancellation *cancellation;
  /**
   * Releases `user_data`, exactly once, when the last callback is back, which may be after the
   * run has returned, on another thread; also if the run could not start. May be NULL.
   */
  umbo_destroy_fn user_data_destroy;
} umbo_run_options;

/**
 * The place of a replica's part in the global batch, so that what depends on an example (dropout,
 * say) can be keyed by it and come out the same for any number of replicas. Start from
 * UMBO_BATCH_POSITION_INIT.
 */
typedef struct umbo_batch_position {
  /**
   * sizeof(umbo_batch_position).
   */
  size_t struct_size;
  /**
   * How many examples of the global batch the replicas before this one have.
   */
  int64_t first_example;
  /**
   * How many this replica has; may be 0. -1 if the run's arguments do not tell: there is no
   * element of a distributed dataset and no per-replica value among them.
   */
  int64_t local_examples;
  /**
   * How many all replicas have together; 0 if the arguments do not tell.
   */
  int64_t global_examples;
  /**
   * The number of the step, counted from 1 over the strategy's life. The runs of
   * umbo_strategy_check_equivalence() have the number of the step after them and do not count.
   */
  int64_t step;
} umbo_batch_position;

/**
 * What runs once for all replicas in a merge call, on the thread that called umbo_strategy_run(),
 * in cross-replica context. `strategy` and `args` are borrowed for the call; `args` is what the
 * replicas passed, merged as the results of a run are, or NULL. `*result` is NULL on entry; a
 * value stored there is taken over by the library, and each replica gets its component of it.
 */
typedef umbo_status (*umbo_merge_fn)(struct umbo_strategy *strategy,
                                     const struct umbo_value *args,
                                     void *user_data,
                                     struct umbo_value **result);

/**
 * How values are reduced.
 */
typedef int32_t umbo_reduce_op;

/**
 * How a reduction or a gathering is done. Start from UMBO_REDUCE_OPTIONS_INIT.
 */
typedef struct umbo_reduce_options {
  /**
   * sizeof(umbo_reduce_options).
   */
  size_t struct_size;
  /**
   * Axes that are reduced within each replica too; negative ones count from the back. NULL:
   * reduce over the replicas only.
   */
  const int32_t *axes;
  /**
   * How many axes there are. With `axes` not NULL, 0 reduces over the replicas only.
   */
  int64_t axis_count;
  /**
   * The device of the result. NULL: CPU:0; plain values, which are copied to a device that is
   * named, then stay where they are.
   */
  const char *destination;
  /**
   * A tensor of the result's dtype and shape to write the result into, which must not share
   * memory with the value. NULL: a fresh one. Not for nests.
   */
  struct umbo_tensor *output;
} umbo_reduce_options;

/**
 * Where a reduction goes: exactly one of the fields is set. Start from UMBO_DESTINATION_INIT.
 */
typedef struct umbo_destination {
  /**
   * sizeof(umbo_destination).
   */
  size_t struct_size;
  /**
   * A device.
   */
  const char *device;
  /**
   * The device of a tensor or of indexed slices; of a per-replica value the devices of all
   * components, each of which gets a copy.
   */
  const struct umbo_value *like;
  /**
   * The device of a variable.
   */
  const struct umbo_variable *variable;
} umbo_destination;

/**
 * What runs in an update, once, in cross-replica context. `variable` and `args` are borrowed for
 * the call; of per-replica values in the arguments it gets the first component. `*result` is NULL
 * on entry; a value stored there is taken over by the library.
 */
typedef umbo_status (*umbo_update_fn)(struct umbo_variable *variable,
                                      const struct umbo_value *args,
                                      void *user_data,
                                      struct umbo_value **result);

/**
 * How the result of an update comes back.
 */
typedef int32_t umbo_update_grouping;

/**
 * How an update is done. Start from UMBO_UPDATE_OPTIONS_INIT.
 */
typedef struct umbo_update_options {
  /**
   * sizeof(umbo_update_options).
   */
  size_t struct_size;
  /**
   * UMBO_UPDATE_GROUPED or UMBO_UPDATE_UNGROUPED.
   */
  umbo_update_grouping grouping;
} umbo_update_options;

/**
 * For which replica a value is made.
 */
typedef struct umbo_value_context {
  /**
   * sizeof(umbo_value_context).
   */
  size_t struct_size;
  /**
   * The replica's id.
   */
  int32_t replica_id_in_sync_group;
  /**
   * How many replicas run in sync.
   */
  int64_t num_replicas_in_sync;
} umbo_value_context;

/**
 * Makes the value of one replica. `context` lives as long as the call. `*value` is NULL on entry;
 * the value stored there, which must be one, is taken over by the library.
 */
typedef umbo_status (*umbo_value_fn)(const struct umbo_value_context *context,
                                     void *user_data,
                                     struct umbo_value **value);

/**
 * Writes a variable's initial value: all elements of `memory`, which is contiguous and zero.
 */
typedef umbo_status (*umbo_initializer_fn)(const struct umbo_view *memory, void *user_data);

/**
 * Whether an optimizer should change a variable.
 */
typedef int32_t umbo_trainable;

/**
 * When copies of a variable would be synchronised. There is one copy, so this has no effect on
 * its value; it is recorded, and ON_READ makes `trainable` default to no.
 */
typedef int32_t umbo_synchronization;

/**
 * How values that replicas assign to a variable are combined.
 */
typedef int32_t umbo_aggregation;

/**
 * What a new variable is to be. Start from UMBO_VARIABLE_OPTIONS_INIT.
 */
typedef struct umbo_variable_options {
  /**
   * sizeof(umbo_variable_options).
   */
  size_t struct_size;
  /**
   * Called once, during the call, in place of an initial value.
   */
  umbo_initializer_fn initializer;
  /**
   * Given to `initializer`.
   */
  void *initializer_user_data;
  /**
   * The element type; with an initializer.
   */
  umbo_dtype dtype;
  /**
   * The rank; with an initializer.
   */
  int32_t rank;
  /**
   * The sizes of the dimensions; with an initializer.
   */
  const int64_t *shape;
  /**
   * One of the UMBO_TRAINABLE_ constants.
   */
  umbo_trainable trainable;
  /**
   * One of the UMBO_SYNCHRONIZATION_ constants.
   */
  umbo_synchronization synchronization;
  /**
   * One of the UMBO_AGGREGATION_ constants.
   */
  umbo_aggregation aggregation;
} umbo_variable_options;

/**
 * Sees a variable that is about to be made. It may look at the request and change it; make the
 * variable with umbo_variable_request_next() and store it in `*variable`; or store another variable
 * there. `*variable` is NULL on entry; what is stored there is taken over by the library. If it
 * stays NULL, the variable is made from the request as it now is. A status other than UMBO_OK
 * makes the creation fail with it.
 *
 * `request` is borrowed for the call. A creator that makes variables of its own is called for them
 * too.
 */
typedef umbo_status (*umbo_variable_creator_fn)(struct umbo_variable_request *request,
                                                void *user_data,
                                                struct umbo_variable **variable);

/**
 * Begins a pass of a generator: `*pass` is NULL on entry, and what is stored there is given to the
 * generator's other functions.
 */
typedef umbo_status (*umbo_generator_begin_fn)(void *user_data, void **pass);

/**
 * Makes the next element of a pass: a value, which is taken over by the library. `*element` is
 * NULL on entry; if it stays NULL the pass is at its end.
 */
typedef umbo_status (*umbo_generator_next_fn)(void *pass,
                                              void *user_data,
                                              struct umbo_value **element);

/**
 * Takes a pass back to the beginning.
 */
typedef umbo_status (*umbo_generator_reset_fn)(void *pass, void *user_data);

/**
 * Ends a pass, also before its end.
 */
typedef void (*umbo_generator_end_fn)(void *pass, void *user_data);

/**
 * The functions of a generator. Start from UMBO_GENERATOR_INIT. A pass is used by one thread at a
 * time, which need not be the caller's own nor the same each time; several passes, of several
 * iterators, may be used at once. The functions may use other iterators, but not the one that calls
 * them (FAILED_PRECONDITION).
 */
typedef struct umbo_generator {
  /**
   * sizeof(umbo_generator).
   */
  size_t struct_size;
  /**
   * Begins a pass, when its first element is asked for. NULL: nothing to do.
   */
  umbo_generator_begin_fn begin;
  /**
   * Makes the next element. After an error it may be called again.
   */
  umbo_generator_next_fn next;
  /**
   * Goes back to the beginning. NULL: the pass is ended and another begun.
   */
  umbo_generator_reset_fn reset;
  /**
   * Ends a pass, exactly once for each that was begun. NULL: nothing to do.
   */
  umbo_generator_end_fn end;
} umbo_generator;

/**
 * Makes an element from an element. `element` is borrowed for the call. `*result` is NULL on entry;
 * the value that is stored there is taken over by the library. Several calls may run at once. The
 * function may wait and may use other iterators, but not the one that calls it
 * (FAILED_PRECONDITION).
 */
typedef umbo_status (*umbo_map_fn)(const struct umbo_value *element,
                                   void *user_data,
                                   struct umbo_value **result);

/**
 * How a function is applied to elements. Start from UMBO_MAP_OPTIONS_INIT.
 */
typedef struct umbo_map_options {
  /**
   * sizeof(umbo_map_options).
   */
  size_t struct_size;
  /**
   * What the results look like. NULL: like the elements. Stays the caller's to release.
   */
  const struct umbo_element_spec *element_spec;
  /**
   * How many calls run at once, at most 4096, each on a thread of the iterator's, however many
   * processors there are, since calls may wait. 1, the default: one after the other, on the
   * thread that asks for the element.
   */
  int64_t parallel_calls;
} umbo_map_options;

/**
 * How a dataset is shuffled. UMBO_SHUFFLE_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_shuffle_options {
  /**
   * sizeof(umbo_shuffle_options).
   */
  size_t struct_size;
  /**
   * From how many elements the next one is drawn, 1 or more. UMBO_SHUFFLE_WHOLE_DATASET, the
   * default: from all of them, which makes every order equally likely.
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
} umbo_shuffle_options;

/**
 * How the rows of batches are split.
 */
typedef int32_t umbo_split;

/**
 * Which replicas an input pipeline serves.
 */
typedef int32_t umbo_replication_mode;

/**
 * How a dataset is distributed. Start from UMBO_DISTRIBUTE_OPTIONS_INIT.
 */
typedef struct umbo_distribute_options {
  /**
   * sizeof(umbo_distribute_options).
   */
  size_t struct_size;
  /**
   * How the rows of batches are split.
   */
  umbo_split split;
  /**
   * 1: a last step for which the dataset runs out before every replica has its element or its
   * share is left out. 0: it is completed with components without rows (zero, where elements are
   * scalars). With UMBO_SPLIT_CEIL each batch is a whole step, so there is none to leave out.
   */
  int32_t drop_partial_step;
  /**
   * 1: all components stay on CPU:0. 0: component k is on compute device k.
   */
  int32_t host_only;
  /**
   * How many steps are made ahead, on a thread of the iterator's that starts with its first
   * element. UMBO_BUFFER_OF_DEVICE, the default: as many as the devices gain from, which on CPUs
   * is none, since components are views there (where making a batch takes time,
   * umbo_dataset_prefetch() makes batches ahead). What is delivered never depends on it.
   */
  int64_t per_replica_buffer_size;
  /**
   * Which replicas a pipeline serves.
   */
  umbo_replication_mode replication_mode;
  /**
   * 1: the dataset itself is on the compute devices, for which replication must be per replica
   * and `host_only` 1.
   */
  int32_t place_dataset_on_device;
} umbo_distribute_options;

/**
 * What a function that makes a dataset is told about the pipeline it makes it for.
 */
typedef struct umbo_input_context {
  /**
   * sizeof(umbo_input_context).
   */
  size_t struct_size;
  /**
   * How many input pipelines there are.
   */
  int64_t num_input_pipelines;
  /**
   * Which of them this is.
   */
  int32_t input_pipeline_id;
  /**
   * The replicas of all pipelines together.
   */
  int64_t num_replicas_in_sync;
} umbo_input_context;

/**
 * Makes the dataset of an input pipeline. `context` is borrowed for the call. `*dataset` is NULL on
 * entry; the dataset that is stored there is taken over by the library.
 */
typedef umbo_status (*umbo_dataset_fn)(const struct umbo_input_context *context,
                                       void *user_data,
                                       struct umbo_dataset **dataset);

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
   * How many runs make one update; umbo_optimizer_apply() is called after each of them. Their
   * contributions are one sum, divided by the weight of all these runs, as if one run had submitted
   * them; with UMBO_LOSS_GLOBAL_MEAN the callback divides by the examples of all of them. More than
   * 1 costs 8 bytes for each element of the variables, on their device (of row-sparse ones: of the
   * rows that were touched). 1 or more; by default 1.
   */
  int64_t accumulation_steps;
  /**
   * NULL, or as many numbers as there are variables: 1 for a variable, of one dimension or more, of
   * which a step contributes some rows only, such as an embedding table; 0 for the others. Replicas
   * contribute to it by umbo_gradients_add_rows() and umbo_gradients_add_indexed_slices() instead
   * of umbo_gradients_view(). It has no buffers of its size, and an apply costs by the rows.
   */
  const int32_t *row_sparse;
  /**
   * The element type of the gradients: UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16 for float32 variables, so that
   * replicas write, and an update reads, half as much. Sums over replicas are float64 all the same,
   * and weights and state stay what they are. UMBO_DTYPE_NONE, the default: the type of each variable.
   */
  umbo_dtype dtype;
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
   * Finite and 0 or more. By default 0.01.
   */
  double learning_rate;
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
   * Finite and 0 or more. By default 0.01.
   */
  double learning_rate;
  /**
   * The decay factor of the sum of gradients, less than 1. By default 0.9.
   */
  double momentum;
  /**
   * 1: Nesterov's momentum.
   */
  int32_t nesterov;
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
   * Finite and 0 or more. By default 0.001.
   */
  double learning_rate;
  /**
   * The decay factor of the first moment, less than 1. By default 0.9.
   */
  double beta1;
  /**
   * The decay factor of the second moment, less than 1. By default 0.999.
   */
  double beta2;
  /**
   * What is added to the square root of the second moment. By default 1e-8.
   */
  double epsilon;
} umbo_adam_options;

/**
 * Options of Adam with decoupled weight decay. UMBO_ADAMW_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_adamw_options {
  /**
   * sizeof(umbo_adamw_options).
   */
  size_t struct_size;
  /**
   * Finite and 0 or more. By default 0.001.
   */
  double learning_rate;
  /**
   * The decay factor of the first moment, less than 1. By default 0.9.
   */
  double beta1;
  /**
   * The decay factor of the second moment, less than 1. By default 0.999.
   */
  double beta2;
  /**
   * What is added to the square root of the second moment. By default 1e-8.
   */
  double epsilon;
  /**
   * The decay, which is multiplied with the learning rate. By default 0.01.
   */
  double weight_decay;
} umbo_adamw_options;

/**
 * Options of LAMB. UMBO_LAMB_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_lamb_options {
  /**
   * sizeof(umbo_lamb_options).
   */
  size_t struct_size;
  /**
   * Finite and 0 or more. By default 0.001.
   */
  double learning_rate;
  /**
   * The decay factor of the first moment, less than 1. By default 0.9.
   */
  double beta1;
  /**
   * The decay factor of the second moment, less than 1. By default 0.999.
   */
  double beta2;
  /**
   * What is added to the square root of the second moment. By default 1e-6.
   */
  double epsilon;
  /**
   * The decay, as a part of the direction whose norm is adapted. By default 0.01.
   */
  double weight_decay;
} umbo_lamb_options;

/**
 * Options of Adagrad. UMBO_ADAGRAD_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_adagrad_options {
  /**
   * sizeof(umbo_adagrad_options).
   */
  size_t struct_size;
  /**
   * Finite and 0 or more. By default 0.01.
   */
  double learning_rate;
  /**
   * Where the sums of squares start; 0 or more.
   */
  double initial_accumulator;
  /**
   * What is added to the square root of the sum of squares. By default 1e-10.
   */
  double epsilon;
} umbo_adagrad_options;

/**
 * Options of RMSprop. UMBO_RMSPROP_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_rmsprop_options {
  /**
   * sizeof(umbo_rmsprop_options).
   */
  size_t struct_size;
  /**
   * Finite and 0 or more. By default 0.01.
   */
  double learning_rate;
  /**
   * The decay factor of the moments, less than 1. By default 0.9.
   */
  double rho;
  /**
   * The decay factor of the sum of steps, less than 1; 0: no momentum.
   */
  double momentum;
  /**
   * What is added to the square root of the second moment. By default 1e-8.
   */
  double epsilon;
  /**
   * 1: the second moment is taken about the mean.
   */
  int32_t centered;
} umbo_rmsprop_options;

/**
 * Options of FTRL-Proximal. UMBO_FTRL_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_ftrl_options {
  /**
   * sizeof(umbo_ftrl_options).
   */
  size_t struct_size;
  /**
   * Finite and more than 0. By default 0.1.
   */
  double learning_rate;
  /**
   * What is added to the square root of the sum of squares. By default 1.
   */
  double beta;
  /**
   * The strength of the L1 regularisation; 0 or more.
   */
  double l1;
  /**
   * The strength of the L2 regularisation; 0 or more.
   */
  double l2;
  /**
   * Where the sums of squares start; 0 or more.
   */
  double initial_accumulator;
} umbo_ftrl_options;

/**
 * What an apply does with gradients that are not finite.
 */
typedef int32_t umbo_non_finite;

/**
 * Whether losses are multiplied with a factor, so that small gradients of 16 bits do not vanish.
 */
typedef int32_t umbo_loss_scaling;

/**
 * What an optimizer does around its rule; for umbo_optimizer_configure(). An apply sums what the
 * replicas submitted, takes the loss scale out, clips by the norm, then by the value, adds the
 * weight decay, and updates. UMBO_OPTIMIZER_OPTIONS_INIT sets all to default: everything is off.
 */
typedef struct umbo_optimizer_options {
  /**
   * sizeof(umbo_optimizer_options).
   */
  size_t struct_size;
  /**
   * The weight decay. AdamW and LAMB decay weights beside the gradient (decoupled); for all other
   * rules weight_decay * w is added to the gradient (L2). UMBO_WEIGHT_DECAY_OF_RULE, the default:
   * what the options of the rule say, and where they say nothing, none.
   */
  double weight_decay;
  /**
   * The largest norm of all gradients of an apply together; if it is larger, all of them are
   * scaled down to it. UMBO_NO_CLIPPING, the default: no bound. The norm is found in a pass of its own, and likewise whether
   * all gradients are finite where `non_finite` asks for that. With more than two replicas, or
   * several accumulated runs, that pass keeps the aggregated gradients, which takes as much memory
   * as the variables, from the first apply on until the gradients are released; where there is no
   * such memory, it takes time instead.
   */
  double global_clip_norm;
  /**
   * The largest magnitude of each element of a gradient. UMBO_NO_CLIPPING, the default: no bound.
   */
  double clip_value;
  /**
   * What an apply does with gradients that are not finite. A dynamic loss scale cannot be had with
   * another than SKIP. Where runs are accumulated, FAIL looks at each of them before it is added, SKIP at the
   * sum when it is applied.
   */
  umbo_non_finite non_finite;
  /**
   * Whether there is a loss scale, and whether it adapts. By default there is none.
   */
  umbo_loss_scaling loss_scaling;
  /**
   * What the callbacks multiply their loss with, and an apply divides by, where there is a loss
   * scale; see umbo_optimizer_loss_scale(). A dynamic one starts there. By default 65536.
   */
  double loss_scale;
  /**
   * What a dynamic loss scale is multiplied with to grow, more than 1. By default 2.
   */
  double loss_scale_growth_factor;
  /**
   * What it is multiplied with to back off, less than 1. By default 0.5.
   */
  double loss_scale_backoff_factor;
  /**
   * The least that it becomes. By default 1.
   */
  double loss_scale_minimum;
  /**
   * It grows after so many applies in a row that took effect. By default 2000.
   */
  int64_t loss_scale_growth_interval;
} umbo_optimizer_options;

/**
 * How the variables of a group are treated. Start from UMBO_GROUP_OPTIONS_INIT.
 */
typedef struct umbo_group_options {
  /**
   * sizeof(umbo_group_options).
   */
  size_t struct_size;
  /**
   * What the learning rate is multiplied with, 0 or more. By default 1.
   */
  double learning_rate_factor;
  /**
   * Their weight decay; 0, as is usual for biases and normalisation: none.
   * UMBO_WEIGHT_DECAY_OF_OPTIMIZER, the default: that of the optimizer.
   */
  double weight_decay;
  /**
   * 1: they are not updated, and their gradients are neither looked at nor part of the norm.
   */
  int32_t frozen;
} umbo_group_options;

/**
 * Tells the learning rate of an update. `step` counts the updates of the optimizer before it;
 * `learning_rate` is to be written, finite and 0 or more. Called by each apply that is to update (also
 * if that then finds a gradient that is not finite and is skipped), on the thread that carries it out.
 * Functions of the strategy that run steps or change its state (runs, applies, assignments,
 * umbo_strategy_synchronize()) fail with UMBO_STATUS_FAILED_PRECONDITION here. A status other than UMBO_OK
 * makes the apply fail, which changes nothing.
 */
typedef umbo_status (*umbo_schedule_fn)(int64_t step, void *user_data, double *learning_rate);

/**
 * Options of an apply. UMBO_APPLY_OPTIONS_INIT sets all to default.
 */
typedef struct umbo_apply_options {
  /**
   * sizeof(umbo_apply_options).
   */
  size_t struct_size;
  /**
   * 1: update now, also if the gradients have accumulated fewer runs than their
   * `accumulation_steps`: at the end of an epoch, say. Runs that earlier applies have accumulated are
   * applied without another run, after the loop.
   */
  int32_t flush;
  /**
   * 1: report the norm of the gradient also if clipping does not need it; costs a pass over the
   * gradients, and the memory that it says at `global_clip_norm`.
   */
  int32_t measure_norm;
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
   * 1: the apply took effect, and `variables_updated` variables were updated. 0: not yet (`deferred`,
   * or `accumulated_runs` is not 0), or not at all (`skipped`, or the total weight was 0), in which
   * case the gradients are used up.
   */
  int32_t applied;
  /**
   * 1: the apply was called inside of a run and waits for its commit point; all other fields
   * are 0. umbo_optimizer_last_report() says later what it did.
   */
  int32_t deferred;
  /**
   * How many variables were updated: those that a replica of non-zero weight viewed and that are
   * not frozen. There may be none.
   */
  int64_t variables_updated;
  /**
   * 1: a gradient was not finite, so nothing was updated.
   */
  int32_t skipped;
  /**
   * The sum of the replicas' weights, over all accumulated runs.
   */
  double total_weight;
  /**
   * How many applies of this optimizer have taken effect, with this one.
   */
  int64_t iterations;
  /**
   * The norm of all gradients together, without the loss scale, before clipping and without
   * weight decay; -1 if it was not measured.
   */
  double gradient_norm;
  /**
   * The learning rate of the update; 0 if there was none.
   */
  double learning_rate;
  /**
   * The loss scale of the next run.
   */
  double loss_scale;
  /**
   * The name of the first variable whose gradient (or, with global_clip_norm, its norm) was not finite,
   * also if it was applied; NULL if all are finite. Lives as long as the process.
   */
  const char *non_finite_variable;
  /**
   * 1: the norm was larger than global_clip_norm.
   */
  int32_t clipped;
  /**
   * How many runs are accumulated and wait for an update.
   */
  int64_t accumulated_runs;
} umbo_apply_report;

/**
 * When two numbers count as the same. Start from UMBO_EQUIVALENCE_OPTIONS_INIT.
 */
typedef struct umbo_equivalence_options {
  /**
   * sizeof(umbo_equivalence_options).
   */
  size_t struct_size;
  /**
   * The largest difference, as a fraction of the terms that a gradient is the sum of; 0: the same
   * bits. UMBO_TOLERANCE_OF_DTYPE, the default: what a sum over the batch may differ by in the gradients' dtype when it is added in another order:
   * 0.0001 to 0.01 for float32, as the batch grows, 0.012 for float16, 0.026 for bfloat16.
   */
  double relative_tolerance;
  /**
   * A difference that never counts.
   */
  double absolute_tolerance;
} umbo_equivalence_options;

/**
 * What a finding is about.
 */
typedef int32_t umbo_equivalence_subject;

/**
 * What a check has found.
 */
typedef int32_t umbo_equivalence_verdict;

/**
 * One thing that was found. Start from UMBO_EQUIVALENCE_FINDING_INIT. The texts live as long as
 * the umbo_equivalence.
 */
typedef struct umbo_equivalence_finding {
  /**
   * sizeof(umbo_equivalence_finding).
   */
  size_t struct_size;
  /**
   * UMBO_EQUIVALENCE_OF_STEP, UMBO_EQUIVALENCE_OF_GRADIENT, UMBO_EQUIVALENCE_OF_METRIC or
   * UMBO_EQUIVALENCE_OF_VARIABLE.
   */
  umbo_equivalence_subject subject;
  /**
   * UMBO_EQUIVALENCE_EQUAL, or what is wrong.
   */
  umbo_equivalence_verdict verdict;
  /**
   * The place of the variable among the gradients; -1 if it is about none, or has no place there.
   */
  int64_t variable;
  /**
   * The element of the gradient or variable, in row-major order, that `text` speaks of; -1 if none.
   */
  int64_t element;
  /**
   * How many times too large the gradient is on all replicas, less than 1 if it is too small; 0 if
   * no single number says it.
   */
  double factor;
  /**
   * The largest difference that the split makes, as a fraction of the largest element.
   */
  double difference;
  /**
   * The name of the variable or metric; NULL if it is about the step.
   */
  const char *name;
  /**
   * What was found and what to do about it.
   */
  const char *text;
} umbo_equivalence_finding;

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
 * `umbo_cluster_resolver`.
 */
#define UMBO_HANDLE_CLUSTER_RESOLVER 13

/**
 * `umbo_variable_request`.
 */
#define UMBO_HANDLE_VARIABLE_REQUEST 14

/**
 * `umbo_element_spec`.
 */
#define UMBO_HANDLE_ELEMENT_SPEC 15

/**
 * `umbo_equivalence`.
 */
#define UMBO_HANDLE_EQUIVALENCE 16

/**
 * Success.
 */
#define UMBO_OK 0

/**
 * Stopped on request, or because another replica failed.
 */
#define UMBO_STATUS_CANCELLED 1

/**
 * A callback failed with a status that is none of these.
 */
#define UMBO_STATUS_UNKNOWN 2

/**
 * An argument has a wrong value, shape, dtype or name, or is NULL or a stale handle.
 */
#define UMBO_STATUS_INVALID_ARGUMENT 3

/**
 * Not finished when the deadline came.
 */
#define UMBO_STATUS_DEADLINE_EXCEEDED 4

/**
 * A device, file or name that is not there.
 */
#define UMBO_STATUS_NOT_FOUND 5

/**
 * Something that is to be made is there already.
 */
#define UMBO_STATUS_ALREADY_EXISTS 6

/**
 * The operating system refused access.
 */
#define UMBO_STATUS_PERMISSION_DENIED 7

/**
 * Memory, threads or handles could not be had.
 */
#define UMBO_STATUS_RESOURCE_EXHAUSTED 8

/**
 * The call is right but not now or not here: wrong context, wrong order, draining.
 */
#define UMBO_STATUS_FAILED_PRECONDITION 9

/**
 * Given up because of a conflict with something that ran at the same time.
 */
#define UMBO_STATUS_ABORTED 10

/**
 * An axis, index or position lies outside of what there is.
 */
#define UMBO_STATUS_OUT_OF_RANGE 11

/**
 * Not offered by this strategy, or not by this version.
 */
#define UMBO_STATUS_UNIMPLEMENTED 12

/**
 * A defect of the library.
 */
#define UMBO_STATUS_INTERNAL 13

/**
 * Offered, but what it needs is not here now (a driver, a device).
 */
#define UMBO_STATUS_UNAVAILABLE 14

/**
 * A file or stream is damaged.
 */
#define UMBO_STATUS_DATA_LOSS 15

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
 * No type in particular, where an option may leave it open.
 */
#define UMBO_DTYPE_NONE 0

/**
 * IEEE 754 binary16.
 */
#define UMBO_DTYPE_FLOAT16 1

/**
 * The upper half of an IEEE 754 binary32.
 */
#define UMBO_DTYPE_BFLOAT16 2

/**
 * `float`.
 */
#define UMBO_DTYPE_FLOAT32 3

/**
 * `double`.
 */
#define UMBO_DTYPE_FLOAT64 4

/**
 * `int8_t`.
 */
#define UMBO_DTYPE_INT8 5

/**
 * `int16_t`.
 */
#define UMBO_DTYPE_INT16 6

/**
 * `int32_t`.
 */
#define UMBO_DTYPE_INT32 7

/**
 * `int64_t`.
 */
#define UMBO_DTYPE_INT64 8

/**
 * `uint8_t`.
 */
#define UMBO_DTYPE_UINT8 9

/**
 * `uint16_t`.
 */
#define UMBO_DTYPE_UINT16 10

/**
 * `uint32_t`.
 */
#define UMBO_DTYPE_UINT32 11

/**
 * `uint64_t`.
 */
#define UMBO_DTYPE_UINT64 12

/**
 * One byte, 0 or 1.
 */
#define UMBO_DTYPE_BOOL 13

/**
 * The elements may only be read: `mutable_data` is NULL.
 */
#define UMBO_VIEW_READ_ONLY 1

/**
 * The elements lie one after the other, in row-major order: `strides` need not be looked at.
 */
#define UMBO_VIEW_CONTIGUOUS 2

/**
 * A tensor.
 */
#define UMBO_VALUE_TENSOR 1

/**
 * One tensor, or indexed slices, per replica.
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
 * Indexed slices: some rows of a tensor, by number.
 */
#define UMBO_VALUE_INDEXED_SLICES 6

/**
 * Each replica's thread runs on the processors of its device, and what it starts (OpenMP, BLAS)
 * inherits them. The thread that calls umbo_strategy_run(), which runs replica 0, is left alone.
 */
#define UMBO_THREAD_BINDING_ON 0

/**
 * Threads run where the operating system puts them.
 */
#define UMBO_THREAD_BINDING_OFF 1

/**
 * The sum. Integers wrap; 16-bit floats add up in 32 bits and 32-bit ones in 64, in replica
 * order, rounded once.
 */
#define UMBO_REDUCE_SUM 1

/**
 * The sum divided by the count. Integers of 8 and 16 bits give float32, wider ones float64.
 */
#define UMBO_REDUCE_MEAN 2

/**
 * As the function stored it.
 */
#define UMBO_UPDATE_GROUPED 0

/**
 * Each leaf of it as a tuple of one item: one for each device that holds a copy of the variable.
 */
#define UMBO_UPDATE_UNGROUPED 1

/**
 * Assigning in replica context is INVALID_ARGUMENT.
 */
#define UMBO_AGGREGATION_NONE 0

/**
 * The replicas' values are added.
 */
#define UMBO_AGGREGATION_SUM 1

/**
 * The sum is divided by the number of replicas. Not for integer variables.
 */
#define UMBO_AGGREGATION_MEAN 2

/**
 * Replica 0's value counts.
 */
#define UMBO_AGGREGATION_ONLY_FIRST_REPLICA 3

/**
 * The strategy decides.
 */
#define UMBO_SYNCHRONIZATION_AUTO 0

/**
 * Never.
 */
#define UMBO_SYNCHRONIZATION_NONE 1

/**
 * On every write.
 */
#define UMBO_SYNCHRONIZATION_ON_WRITE 2

/**
 * On every read.
 */
#define UMBO_SYNCHRONIZATION_ON_READ 3

/**
 * Yes, unless the variable is synchronised on reading.
 */
#define UMBO_TRAINABLE_DEFAULT 0

/**
 * Yes.
 */
#define UMBO_TRAINABLE_YES 1

/**
 * No.
 */
#define UMBO_TRAINABLE_NO 2

/**
 * Each batch by itself: of r rows over n replicas each gets r / n, rounded up, as far as there are
 * any.
 */
#define UMBO_SPLIT_CEIL 0

/**
 * All batches as one stream, from which replicas in turn get their share of a full batch: shares
 * of 9 over 4 replicas are 3, 2, 2 and 2. What is left over at the end goes to the first replicas.
 * Where the size of a full batch is not known, as UMBO_SPLIT_CEIL.
 */
#define UMBO_SPLIT_BALANCED 1

/**
 * All replicas of a worker.
 */
#define UMBO_REPLICATION_PER_WORKER 0

/**
 * One each. Not offered by this strategy.
 */
#define UMBO_REPLICATION_PER_REPLICA 1

/**
 * Not said yet; no function takes it.
 */
#define UMBO_LOSS_UNSET 0

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
#define UMBO_GRADIENT_OVERWRITE 1

/**
 * It adds to the elements, which are zero at its first view in a step.
 */
#define UMBO_GRADIENT_ADD 2

/**
 * UMBO_NON_FINITE_SKIP with a dynamic loss scale, UMBO_NON_FINITE_FAIL with `global_clip_norm`, since
 * one element would spoil all variables, else UMBO_NON_FINITE_IGNORE.
 */
#define UMBO_NON_FINITE_AUTO 0

/**
 * It applies them like any others, so that NaN and infinity get into the weights. The report names
 * the first variable, and the log gets one warning for each optimizer.
 */
#define UMBO_NON_FINITE_IGNORE 1

/**
 * It changes no variable and no state, uses the gradients up and reports `skipped`.
 */
#define UMBO_NON_FINITE_SKIP 2

/**
 * It fails with INVALID_ARGUMENT, naming variable, step, replica and first element; nothing is changed.
 */
#define UMBO_NON_FINITE_FAIL 3

/**
 * They are not.
 */
#define UMBO_LOSS_SCALING_NONE 0

/**
 * By the same factor in all runs.
 */
#define UMBO_LOSS_SCALING_FIXED 1

/**
 * The factor grows after applies that took effect, and backs off when one is skipped.
 */
#define UMBO_LOSS_SCALING_DYNAMIC 2

/**
 * The step as a whole.
 */
#define UMBO_EQUIVALENCE_OF_STEP 1

/**
 * The gradient of a variable.
 */
#define UMBO_EQUIVALENCE_OF_GRADIENT 2

/**
 * A metric.
 */
#define UMBO_EQUIVALENCE_OF_METRIC 3

/**
 * The value of a variable.
 */
#define UMBO_EQUIVALENCE_OF_VARIABLE 4

/**
 * The same, however the batch is split.
 */
#define UMBO_EQUIVALENCE_EQUAL 1

/**
 * No replica writes the gradient, so the variable would not be updated. Does not count against the
 * equivalence.
 */
#define UMBO_EQUIVALENCE_NOT_WRITTEN 2

/**
 * The callback fails when the batch is split in another way, with empty parts for instance.
 */
#define UMBO_EQUIVALENCE_CALLBACK_FAILED 3

/**
 * A replica does not submit its gradients.
 */
#define UMBO_EQUIVALENCE_NOT_SUBMITTED 4

/**
 * Weights do not follow the examples.
 */
#define UMBO_EQUIVALENCE_WRONG_WEIGHT 5

/**
 * A buffer that was viewed with UMBO_GRADIENT_OVERWRITE is not written in full, or is added to.
 */
#define UMBO_EQUIVALENCE_NOT_OVERWRITTEN 6

/**
 * Infinite or NaN.
 */
#define UMBO_EQUIVALENCE_NOT_FINITE 7

/**
 * Two runs with the same parts differ.
 */
#define UMBO_EQUIVALENCE_NOT_REPEATABLE 8

/**
 * The callback reduces over its examples in another way than was declared.
 */
#define UMBO_EQUIVALENCE_WRONG_REDUCTION 9

/**
 * Each replica contributes the gradient of the whole batch.
 */
#define UMBO_EQUIVALENCE_WHOLE_BATCH 10

/**
 * Replicas with different examples contribute the very same.
 */
#define UMBO_EQUIVALENCE_SAME_EXAMPLES 11

/**
 * Only some of the replicas that have examples write the gradient.
 */
#define UMBO_EQUIVALENCE_PARTLY_WRITTEN 12

/**
 * Each replica adds a term that is no example's, such as weight decay: that belongs to the optimizer.
 */
#define UMBO_EQUIVALENCE_TERM_PER_REPLICA 13

/**
 * Different, for a reason that the numbers do not tell; the text lists what is likely.
 */
#define UMBO_EQUIVALENCE_DIFFERENT 14

/**
 * The callback writes a variable through a view of it, which is for reading. The check puts the value
 * back.
 */
#define UMBO_EQUIVALENCE_VARIABLE_WRITTEN 15

/**
 * The same however a batch is split, but other for a smaller batch: the callback uses statistics of the
 * whole batch, or its size for more than the mean. Does not count against the equivalence.
 */
#define UMBO_EQUIVALENCE_SIZE_DEPENDENT 16

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
 * What went wrong in the last umbo function that failed on this thread, in UTF-8: one line that
 * begins with the function's name ("umbo_strategy_reduce: axis: ..."), or one line for each replica
 * that failed, which begins with the replica. If a callback has passed on a failure of another umbo
 * function, it is that one's name. Never NULL; "" if nothing has failed since the last
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
 * `return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "...", NULL, NULL);`.
 *
 * `message` is copied, up to 16 KiB of it; NULL means none. `payload` is taken over, travels to the thread that
 * called the library and can be read there with umbo_last_error_at(); `destroy` (or NULL)
 * releases it, exactly once, when the error is forgotten.
 *
 * Returns `status`; UNKNOWN if that is not a status; INVALID_ARGUMENT if it is UMBO_OK, which is
 * no failure.
 */
umbo_status umbo_set_last_error(umbo_status status,
                                const char *message,
                                void *payload,
                                umbo_destroy_fn destroy);

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
 * Whether a feature works here and now: `result` gets 1 or 0. "cuda": GPUs can be devices of a
 * strategy, which they cannot in this version, whatever driver and devices there are
 * (umbo_device_count() counts them). 0 for a name that this version does not know.
 */
umbo_status umbo_has_feature(const char *name, int32_t *result);

/**
 * Sends log messages up to the level `most_verbose` to `callback`, in place of the one before.
 * NULL sends them nowhere, as it is at the start. `destroy` (or NULL) releases `user_data` when
 * the callback is replaced and its last call is over, and also if this function fails.
 */
umbo_status umbo_set_log_callback(umbo_log_level most_verbose,
                                  umbo_log_fn callback,
                                  void *user_data,
                                  umbo_destroy_fn destroy);

/**
 * Sets how many threads do central work (reductions, updates, copies), the calling one included.
 * The start is the number of processors that the process may use. Results do not depend on it.
 */
umbo_status umbo_set_worker_count(int64_t count);

/**
 * How many threads do central work.
 */
umbo_status umbo_worker_count(int64_t *count);

/**
 * Ends the threads of the library that no object needs (those for central work, and those that share
 * heavy computations such as the equivalence check's), waits for their end, and gives kept memory
 * back: for programs that look for leaks or are about to unload the library. Whatever is called
 * afterwards starts what it needs anew. The threads of replicas, of prefetching and of parallel maps
 * end with the strategies and iterators that have them.
 *
 * FAILED_PRECONDITION, and nothing has ended, while strategies or iterators have threads (the
 * message says how many; release them first), while another call uses the threads that would be
 * ended, and in a function that central work calls.
 */
umbo_status umbo_shutdown(void);

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
umbo_status umbo_physical_device_count(umbo_device_type type, int64_t *count);

/**
 * How many logical devices of a type there are; their indices are 0 to one less.
 */
umbo_status umbo_logical_device_count(umbo_device_type type, int64_t *count);

/**
 * Splits a physical device into `count` logical ones, in place of the split before. The host is
 * physical CPU 0; its logical devices share its processors out.
 *
 * NOT_FOUND if there is no such physical device, INVALID_ARGUMENT for a count that is less than 1
 * or too large, UNIMPLEMENTED for a GPU and more than one, FAILED_PRECONDITION while a strategy
 * lives that uses a device which would vanish; then nothing changes.
 */
umbo_status umbo_set_logical_device_count(umbo_device_type type,
                                          int32_t physical_ordinal,
                                          int64_t count);

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
 * A new tensor of zeros, contiguous, on `device` (NULL: in a replica's callback its device, else CPU:0).
 *
 * `shape` has `rank` sizes and may be NULL if `rank` is 0. Release the tensor with
 * umbo_tensor_release(). RESOURCE_EXHAUSTED if the memory cannot be had.
 */
umbo_status umbo_tensor_create_zeros(umbo_dtype dtype,
                                     int32_t rank,
                                     const int64_t *shape,
                                     const char *device,
                                     struct umbo_tensor **tensor);

/**
 * A new tensor on `device` (NULL: in a replica's callback its device, else CPU:0) whose elements are whatever was in memory; for the rest
 * as umbo_tensor_create_zeros().
 */
umbo_status umbo_tensor_create_uninitialized(umbo_dtype dtype,
                                             int32_t rank,
                                             const int64_t *shape,
                                             const char *device,
                                             struct umbo_tensor **tensor);

/**
 * A new tensor on `device` (NULL: in a replica's callback its device, else CPU:0) with a copy of `data`: host memory with as many elements
 * as `shape` has, in row-major order. `data` may be NULL if there are none. For the rest as
 * umbo_tensor_create_zeros().
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
 * initialised. `device` tells where the memory is (NULL: in a replica's callback its device, else CPU:0).
 */
umbo_status umbo_tensor_from_memory(umbo_dtype dtype,
                                    int32_t rank,
                                    const int64_t *shape,
                                    const int64_t *strides,
                                    void *data,
                                    const char *device,
                                    void *user_data,
                                    umbo_destroy_fn destroy,
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
 * A copy on `device` (NULL: in a replica's callback its device, else CPU:0): a new tensor, contiguous in row-major order, that shares
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
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_tensor_retain(const struct umbo_tensor *tensor, struct umbo_tensor **retained);

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
 * A tuple of `count` values. The items stay the caller's to release. INVALID_ARGUMENT if it would be
 * deeper than UMBO_MAX_NEST_DEPTH.
 */
umbo_status umbo_value_create_tuple(int64_t count,
                                    const struct umbo_value *const *items,
                                    struct umbo_value **value);

/**
 * A struct of `count` values with names, which must differ. Names are copied; the items stay the
 * caller's to release. INVALID_ARGUMENT also if it would be deeper than UMBO_MAX_NEST_DEPTH.
 */
umbo_status umbo_value_create_struct(int64_t count,
                                     const char *const *names,
                                     const struct umbo_value *const *items,
                                     struct umbo_value **value);

/**
 * A per-replica value: one component per replica, each of them a tensor or indexed slices. The
 * components need not agree in anything. They stay the caller's to release.
 */
umbo_status umbo_value_create_per_replica(int64_t count,
                                          const struct umbo_value *const *components,
                                          struct umbo_value **value);

/**
 * What the value is: one of the `UMBO_VALUE_` constants.
 */
umbo_status umbo_value_get_kind(const struct umbo_value *value, umbo_value_kind *kind);

/**
 * How many items, fields or components there are; 1 for a tensor, indexed slices or a variable.
 */
umbo_status umbo_value_count(const struct umbo_value *value, int64_t *count);

/**
 * The item of a tuple, the field of a struct by position, or the component of a per-replica
 * value: the same object, a new handle. OUT_OF_RANGE if there is none at `index`.
 */
umbo_status umbo_value_item(const struct umbo_value *value,
                            int64_t index,
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
umbo_status umbo_value_field_name(const struct umbo_value *value, int64_t index, const char **name);

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
 * The value in words: dtype, shape, device and elements of each tensor in it, the middle of long
 * axes left out. Variables are read as by umbo_variable_read().
 *
 * `length` gets the length without the NUL, also if `capacity`, the size of `buffer` in bytes, is
 * not enough: then the result is OUT_OF_RANGE and `buffer`, which may be NULL if `capacity` is 0,
 * is not written.
 */
umbo_status umbo_value_text(const struct umbo_value *value,
                            char *buffer,
                            size_t capacity,
                            size_t *length);

/**
 * How many examples of the global batch an element of a distributed dataset holds: the part of
 * `replica`, or all parts together if `replica` is -1. INVALID_ARGUMENT for a value that is not
 * such an element and has no per-replica value in it.
 */
umbo_status umbo_value_examples(const struct umbo_value *value, int32_t replica, int64_t *count);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_value_retain(const struct umbo_value *value, struct umbo_value **retained);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_value_release(const struct umbo_value *value);

/* ---- indexed slices ------------------------------------------------------------------------ */

/**
 * A value that is indexed slices: some rows of a tensor of shape `dense_shape`, by number. Row i
 * of `values` belongs to row `indices[i]`; a row that is named several times stands for the sum.
 *
 * `indices` is int64 of shape [k]; `values` has the shape `dense_shape` but for k rows
 * (INVALID_ARGUMENT if not). Both are kept, not copied, and stay the caller's to release. The
 * range of the indices is checked where they are used.
 */
umbo_status umbo_value_create_indexed_slices(const struct umbo_tensor *values,
                                             const struct umbo_tensor *indices,
                                             int32_t rank,
                                             const int64_t *dense_shape,
                                             struct umbo_value **value);

/**
 * The rows of indexed slices: the same tensor, a new handle.
 */
umbo_status umbo_value_slices_values(const struct umbo_value *value, struct umbo_tensor **tensor);

/**
 * The row numbers of indexed slices: the same tensor, a new handle.
 */
umbo_status umbo_value_slices_indices(const struct umbo_value *value, struct umbo_tensor **tensor);

/**
 * The shape of the tensor that indexed slices are slices of. `shape` has room for UMBO_MAX_RANK
 * sizes, those past `rank` are set to 0.
 */
umbo_status umbo_value_slices_dense_shape(const struct umbo_value *value,
                                          int32_t *rank,
                                          int64_t *shape);

/* ---- cluster resolvers --------------------------------------------------------------------- */

/**
 * A resolver from `text`, JSON in the form of the environment variable TF_CONFIG:
 * {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}. `text` may
 * be NULL: then the variable itself is read, and there is an empty cluster if it is not set. The
 * tasks of a job are an array of addresses or an object from numbers to addresses; other fields
 * make no difference.
 *
 * INVALID_ARGUMENT, with the place, for what is not JSON or not of this form, and for a task that
 * the cluster does not have (but the task type "evaluator" need not be in it).
 */
umbo_status umbo_cluster_resolver_from_tf_config(const char *text,
                                                 struct umbo_cluster_resolver **resolver);

/**
 * How many jobs the cluster has.
 */
umbo_status umbo_cluster_resolver_job_count(const struct umbo_cluster_resolver *resolver,
                                            int64_t *count);

/**
 * The name of the job at `index`, in alphabetical order. Lives as long as the process.
 */
umbo_status umbo_cluster_resolver_job_name(const struct umbo_cluster_resolver *resolver,
                                           int64_t index,
                                           const char **name);

/**
 * How many tasks a job has. NOT_FOUND if there is no such job.
 */
umbo_status umbo_cluster_resolver_task_count(const struct umbo_cluster_resolver *resolver,
                                             const char *job,
                                             int64_t *count);

/**
 * The number and the address of the task of `job` at `position`, in the order of their numbers
 * (which are the positions if the tasks were given as an array). The address lives as long as the
 * process. NOT_FOUND if there is no such job, OUT_OF_RANGE if it has no such task.
 */
umbo_status umbo_cluster_resolver_task(const struct umbo_cluster_resolver *resolver,
                                       const char *job,
                                       int64_t position,
                                       int64_t *index,
                                       const char **address);

/**
 * The job that this process is a task of; NULL if the configuration does not say. Lives as long
 * as the process.
 */
umbo_status umbo_cluster_resolver_task_type(const struct umbo_cluster_resolver *resolver,
                                            const char **task_type);

/**
 * Which task of its job this process is; -1 if the configuration does not say.
 */
umbo_status umbo_cluster_resolver_task_index(const struct umbo_cluster_resolver *resolver,
                                             int64_t *task_index);

/**
 * The resolver that the strategy was made with; NULL if it was made without one, whatever the
 * environment says. A new handle, to be released.
 */
umbo_status umbo_strategy_cluster_resolver(const struct umbo_strategy *strategy,
                                           struct umbo_cluster_resolver **resolver);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_cluster_resolver_retain(const struct umbo_cluster_resolver *resolver,
                                         struct umbo_cluster_resolver **retained);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_cluster_resolver_release(const struct umbo_cluster_resolver *resolver);

/* ---- strategies ---------------------------------------------------------------------------- */

/**
 * Makes a strategy that keeps every variable on one parameter device and replicates callbacks
 * over the compute devices. `options` may be NULL. Starts a thread for each replica but the
 * first, which runs on the thread that calls umbo_strategy_run().
 *
 * Device names are taken in every form: "CPU:1", "/cpu:1", "/device:CPU:1" or the full
 * "/job:localhost/replica:0/task:0/device:CPU:1". INVALID_ARGUMENT for an empty list, a duplicate
 * or a name that cannot be read; NOT_FOUND for a device that is not there; UNIMPLEMENTED for a
 * GPU in this version; RESOURCE_EXHAUSTED if a thread cannot be started.
 *
 * The strategy is of use in this process. In the child of a fork its values can be read and it can be
 * released; runs, assignments, making variables and umbo_strategy_synchronize() are
 * FAILED_PRECONDITION there.
 */
umbo_status umbo_strategy_create(const struct umbo_strategy_options *options,
                                 struct umbo_strategy **strategy);

/**
 * The default strategy, which is current where no other one is: one replica on CPU:0. It cannot
 * be copied and never ends; the handle is released like any other.
 */
umbo_status umbo_default_strategy(struct umbo_strategy **strategy);

/**
 * How many replicas run in sync: gradients are aggregated over this many.
 */
umbo_status umbo_strategy_num_replicas_in_sync(const struct umbo_strategy *strategy,
                                               int64_t *count);

/**
 * The canonical name of the compute device of `replica`. Lives as long as the process.
 */
umbo_status umbo_strategy_compute_device(const struct umbo_strategy *strategy,
                                         int32_t replica,
                                         const char **name);

/**
 * The canonical name of the device that holds the variables. Lives as long as the process.
 */
umbo_status umbo_strategy_parameter_device(const struct umbo_strategy *strategy, const char **name);

/**
 * An independent strategy with the same devices. Variables stay those of the strategy they were
 * made in. FAILED_PRECONDITION for the default strategy.
 */
umbo_status umbo_strategy_copy(const struct umbo_strategy *strategy, struct umbo_strategy **copy);

/**
 * Whether two handles are of the same strategy: 1 or 0.
 */
umbo_status umbo_strategy_same(const struct umbo_strategy *a,
                               const struct umbo_strategy *b,
                               int32_t *same);

/**
 * Whether the variable was made in the scope of this very strategy: 1 or 0.
 */
umbo_status umbo_strategy_created_variable(const struct umbo_strategy *strategy,
                                           const struct umbo_variable *variable,
                                           int32_t *result);

/**
 * How many replicas have not come back from the callback of a run that ended without them, by
 * deadline or cancellation. While there are any the strategy is draining: values can be read;
 * runs, assignments and applies give FAILED_PRECONDITION and name the replicas.
 */
umbo_status umbo_strategy_late_replicas(const struct umbo_strategy *strategy, int64_t *count);

/**
 * Waits until all work of the strategy is done: late callbacks have come back, and runs of other
 * threads that were under way have ended. FAILED_PRECONDITION in a callback of the strategy.
 */
umbo_status umbo_strategy_synchronize(struct umbo_strategy *strategy);

/**
 * What the replicas added with umbo_replica_context_add_metric() in the last run that succeeded.
 * NOT_FOUND, with the names that there are, if none of them added a metric of this name.
 */
umbo_status umbo_strategy_metric(const struct umbo_strategy *strategy,
                                 const char *name,
                                 struct umbo_metric *metric);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_strategy_retain(const struct umbo_strategy *strategy,
                                 struct umbo_strategy **retained);

/**
 * Releases a reference. With the last one, and no run under way, the replica threads end before
 * this returns; a thread whose callback is late is left to come back on its own. NULL is fine.
 */
void umbo_strategy_release(const struct umbo_strategy *strategy);

/* ---- scopes and contexts ------------------------------------------------------------------- */

/**
 * Calls `function` once, on this thread, in the strategy's scope: the strategy is current and the
 * context is cross-replica context. Scopes that `function` entered and did not leave are left.
 * Returns what `function` returned.
 *
 * The own scope nests. FAILED_PRECONDITION in a replica's callback of this strategy, and in the
 * scope or a run of another one. The scope of the default strategy is like no scope: the context
 * stays the default one, and another strategy's scope may be entered inside of it; but variables
 * of that one cannot be made there.
 */
umbo_status umbo_strategy_scope(struct umbo_strategy *strategy,
                                umbo_scope_fn function,
                                void *user_data);

/**
 * Makes the strategy current for this thread, in cross-replica context, until
 * umbo_scope_exit(). Errors as for umbo_strategy_scope().
 */
umbo_status umbo_scope_enter(struct umbo_strategy *strategy, struct umbo_scope **scope);

/**
 * Leaves a scope, of a strategy or of a variable creator, and releases its handle.
 *
 * FAILED_PRECONDITION if it is not the innermost scope that this thread has open, or was entered by
 * another thread: then it stays open and its handle valid. NOT_FOUND if the end of the callback that
 * entered it has left it already: then the handle is released.
 *
 * What the scope kept is released last: the `destroy` of a variable creator finds the scope left and
 * its handle stale.
 */
umbo_status umbo_scope_exit(struct umbo_scope *scope);

/**
 * Makes `strategy` current for this thread where no scope is open, until the next call; NULL
 * clears, and so does the default strategy. The thread keeps a reference to it. FAILED_PRECONDITION inside of scopes and runs.
 */
umbo_status umbo_set_strategy(struct umbo_strategy *strategy);

/**
 * Whether this thread is in the scope or a run of a strategy other than the default one: 1 or 0.
 */
umbo_status umbo_has_strategy(int32_t *result);

/**
 * Whether this thread speaks for all replicas: in a scope, in a merge call, in an update. 1 or 0.
 * Exactly one of this and "there is a replica context" is true.
 */
umbo_status umbo_in_cross_replica_context(int32_t *result);

/**
 * The current strategy; the default one where no other is current. A new handle, to be released.
 */
umbo_status umbo_current_strategy(struct umbo_strategy **strategy);

/**
 * The context of the replica whose callback this thread runs; in the default context that of
 * replica 0 of 1 of the default strategy; NULL in cross-replica context. Borrowed: it is of use
 * on this thread and until the callback returns.
 */
umbo_status umbo_current_replica_context(struct umbo_replica_context **context);

/* ---- run ----------------------------------------------------------------------------------- */

/**
 * Runs `function` once on each replica, concurrently, and waits until all have returned.
 *
 * `args` may be NULL; to pass several arguments, or named ones, pass a tuple or a struct. Per
 * replica values in it must have a component for each replica. `options` may be NULL.
 *
 * The replicas' results are merged into `*result`: structures leaf by leaf; a leaf for which all
 * replicas returned the very same tensor stays a tensor, others become per-replica values; with
 * one replica nothing is wrapped. All replicas return a value, or none does: then `*result` is
 * NULL. `result` may be NULL, which discards the results.
 *
 * The run succeeds if all callbacks do, and only then do assignments and applies that were made
 * in it change central state. If callbacks fail, the status is that of the first replica in
 * replica order that failed by itself, and the last error lists all of them. When one fails,
 * replicas that wait in a merge call are woken with CANCELLED; others run to their end, and
 * umbo_replica_context_is_cancelled() tells them.
 *
 * With a deadline or a token every replica has a thread of its own and this thread watches. When
 * the time is up the run returns, with all as it was before, and callbacks that have not returned
 * are late: see umbo_strategy_late_replicas(). They must not use what the caller has released. One that
 * has not begun by then is not called.
 *
 * Runs of one strategy, from whichever thread, are taken in the order of asking, one at a time.
 * Inside of a merge call a run is part of the step around it: it ends with that one's deadline or
 * token, and what it assigns is committed with that step.
 *
 * A callback must not wait for a thread that runs or assigns on the same strategy: that thread waits
 * for the step, and the step for the thread, for ever. The library cannot tell this from a step that
 * takes long, but a thread that has waited 10 seconds for another one's step says so in the log, with
 * the step and its thread.
 *
 * FAILED_PRECONDITION in a replica's callback, in another strategy's scope, and while the
 * strategy is draining.
 */
umbo_status umbo_strategy_run(struct umbo_strategy *strategy,
                              umbo_replica_fn function,
                              void *user_data,
                              const struct umbo_value *args,
                              const struct umbo_run_options *options,
                              struct umbo_value **result);

/**
 * Makes a token with which any thread can stop runs, each of them or several.
 */
umbo_status umbo_cancellation_create(struct umbo_cancellation **cancellation);

/**
 * Stops the runs that have this token, now and later: they return CANCELLED. Does not wait, and
 * cannot be undone. Any thread may call it, a callback too.
 */
umbo_status umbo_cancellation_cancel(struct umbo_cancellation *cancellation);

/**
 * Whether umbo_cancellation_cancel() was called: 1 or 0.
 */
umbo_status umbo_cancellation_is_cancelled(const struct umbo_cancellation *cancellation,
                                           int32_t *result);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_cancellation_retain(const struct umbo_cancellation *cancellation,
                                     struct umbo_cancellation **retained);

/**
 * Releases a reference. Runs that have the token keep it until they end. NULL is fine.
 */
void umbo_cancellation_release(const struct umbo_cancellation *cancellation);

/* ---- replica context ----------------------------------------------------------------------- */

/**
 * The replica's id: 0 to the number of replicas less one.
 */
umbo_status umbo_replica_context_replica_id(const struct umbo_replica_context *ctx,
                                            int32_t *replica);

/**
 * How many replicas run in sync.
 */
umbo_status umbo_replica_context_num_replicas_in_sync(const struct umbo_replica_context *ctx,
                                                      int64_t *count);

/**
 * The canonical name of this replica's compute device. Lives as long as the process.
 */
umbo_status umbo_replica_context_device(const struct umbo_replica_context *ctx, const char **name);

/**
 * The strategy whose run this is. A new handle, to be released.
 */
umbo_status umbo_replica_context_strategy(const struct umbo_replica_context *ctx,
                                          struct umbo_strategy **strategy);

/**
 * The stream on which this replica's device works: a CUstream on a GPU, NULL on a CPU, which
 * needs none.
 */
umbo_status umbo_replica_context_stream(const struct umbo_replica_context *ctx, void **stream);

/**
 * The place of this replica's part in the global batch.
 */
umbo_status umbo_replica_context_batch_position(const struct umbo_replica_context *ctx,
                                                struct umbo_batch_position *position);

/**
 * Whether the callback should return early, since its result will not be used: another replica
 * has failed, the run was cancelled, or its deadline has passed. 1 or 0. Cheap enough for every
 * few thousand operations of a long loop; a callback that returns then returns UMBO_STATUS_CANCELLED.
 */
umbo_status umbo_replica_context_is_cancelled(const struct umbo_replica_context *ctx,
                                              int32_t *result);

/**
 * Memory for the callback's own use, until it returns: `bytes` bytes at a multiple of 64, of
 * undefined contents. Each call grants another region. The memory is kept for the next step, so
 * a step that asks for the same as the one before allocates nothing. RESOURCE_EXHAUSTED if there
 * is not enough.
 */
umbo_status umbo_replica_context_scratch(struct umbo_replica_context *ctx,
                                         size_t bytes,
                                         void **memory);

/**
 * Adds `sum` to the metric `name` of this step, and `weight` (usually a number of examples) to
 * its weight. umbo_strategy_metric() tells the total over all replicas after the run. Names are
 * copied; up to a few dozen are looked up fast. INVALID_ARGUMENT for a weight that is negative or
 * not finite.
 */
umbo_status umbo_replica_context_add_metric(struct umbo_replica_context *ctx,
                                            const char *name,
                                            double sum,
                                            double weight);

/**
 * Waits until all replicas have called this with the same function, has the function run once,
 * and goes on with this replica's part of its result. `user_data` is that of replica 0. `args`
 * may be NULL, on all replicas or on none. `result` may be NULL, which discards the part; a part
 * is a new handle, NULL if the function stored no value.
 *
 * All replicas must make the same synchronising calls in the same order: merge calls, all-reduce,
 * all-gather, assignments to variables, applies. If they do not, all of them get
 * FAILED_PRECONDITION, and so does the run; the message says who was where. CANCELLED if another
 * replica failed, or the run ended. If `function` fails, the run fails with its status, and the
 * replicas get CANCELLED.
 *
 * In the default context the function runs at once.
 */
umbo_status umbo_replica_context_merge_call(struct umbo_replica_context *ctx,
                                            umbo_merge_fn function,
                                            void *user_data,
                                            const struct umbo_value *args,
                                            struct umbo_value **result);

/**
 * Reduces a tensor, or a nest of tensors, over the replicas: SUM or MEAN, element by element.
 * Each replica gets a value of its own, on its device. One synchronising call for the whole nest.
 * The components must agree in shape and dtype (INVALID_ARGUMENT). Indexed slices are
 * concatenated in replica order; MEAN divides their values by the number of replicas. MEAN of
 * integers is a float for any number of replicas, one included. See
 * umbo_replica_context_merge_call() for what synchronising calls have in common.
 */
umbo_status umbo_replica_context_all_reduce(struct umbo_replica_context *ctx,
                                            umbo_reduce_op op,
                                            const struct umbo_value *value,
                                            struct umbo_value **result);

/**
 * Concatenates a tensor, or each tensor of a nest, over the replicas along `axis`, in replica
 * order; negative axes count from the back. Each replica gets the whole, on its device. One
 * synchronising call. The components must agree in rank, dtype and all other dimensions
 * (INVALID_ARGUMENT); OUT_OF_RANGE for an axis that is not there; UNIMPLEMENTED for indexed
 * slices.
 */
umbo_status umbo_replica_context_all_gather(struct umbo_replica_context *ctx,
                                            const struct umbo_value *value,
                                            int32_t axis,
                                            struct umbo_value **result);

/* ---- reduce and gather --------------------------------------------------------------------- */

/**
 * Reduces a value over the replicas and, if `options` names axes, within each replica along them.
 * `options` may be NULL. Nests are reduced leaf by leaf.
 *
 * Without axes the components of a per-replica value, which must agree in shape and dtype, are
 * added element by element; MEAN divides by their number. With axes each component is summed
 * along them and the sums are added, so components may differ in those dimensions: axis 0 is
 * right for the last, partial batch. MEAN then divides by the number of elements that were added,
 * over all replicas. Empty components count as nothing; the mean of nothing is NaN.
 *
 * A plain tensor or variable without axes is its own mean (of integers a float all the same, so that
 * the dtype does not depend on the number of replicas); its SUM over several replicas is
 * INVALID_ARGUMENT. With axes it counts once for each replica.
 *
 * Indexed slices without axes are concatenated in replica order, values and indices, with
 * duplicates kept: a row's sum is the sum of its slices. MEAN divides the values by the number of
 * components. Their dense shapes must agree. Where some components are tensors, and with axes,
 * indexed slices count as the dense tensors that they stand for, and so does the result.
 *
 * INVALID_ARGUMENT for shapes that differ (the message lists all of them), for bool and for an
 * output that does not fit; OUT_OF_RANGE for an axis that is not there, and for an index outside
 * of the dense shape; FAILED_PRECONDITION in a
 * replica's callback (use umbo_replica_context_all_reduce()) and in another strategy's scope.
 */
umbo_status umbo_strategy_reduce(struct umbo_strategy *strategy,
                                 umbo_reduce_op op,
                                 const struct umbo_value *value,
                                 const struct umbo_reduce_options *options,
                                 struct umbo_value **result);

/**
 * Concatenates the components of a per-replica value along `axis`, in replica order; a negative
 * axis counts from the back. `options` may be NULL; of its fields destination and output count.
 * Nests are gathered leaf by leaf; plain values, and values of one component, come back as they
 * are. Indexed slices in a per-replica value are made dense first; a plain one is UNIMPLEMENTED.
 *
 * The components must agree in rank, dtype and all other dimensions (INVALID_ARGUMENT, naming the
 * replicas); they may be empty. Scalars are INVALID_ARGUMENT; OUT_OF_RANGE for an axis that is
 * not there. Contexts as for umbo_strategy_reduce().
 */
umbo_status umbo_strategy_gather(struct umbo_strategy *strategy,
                                 const struct umbo_value *value,
                                 int32_t axis,
                                 const struct umbo_reduce_options *options,
                                 struct umbo_value **result);

/**
 * The local results of a value, as a tuple: the components of a per-replica value; for a nest one
 * nest for each replica; anything else alone. In every context.
 */
umbo_status umbo_strategy_local_results(const struct umbo_strategy *strategy,
                                        const struct umbo_value *value,
                                        struct umbo_value **results);

/**
 * Reduces a value over the replicas onto a destination: a plain value on one device, or a
 * per-replica value with one copy for each component of a per-replica destination. Otherwise as
 * umbo_strategy_reduce() without axes.
 */
umbo_status umbo_strategy_reduce_to(struct umbo_strategy *strategy,
                                    umbo_reduce_op op,
                                    const struct umbo_value *value,
                                    const struct umbo_destination *destination,
                                    struct umbo_value **result);

/* ---- update -------------------------------------------------------------------------------- */

/**
 * Calls `function` once with the variable, on this thread, in cross-replica context. What it
 * assigns, to this or other variables of the strategy, becomes central state if it succeeds and
 * is dropped if it fails. `args` may be NULL; of per-replica values in it the first component
 * counts. `options` may be NULL. `result` may be NULL, which discards the result.
 *
 * In a replica's callback it is a synchronising call that all replicas make (see
 * umbo_replica_context_merge_call()): `function` runs once, on the thread that called
 * umbo_strategy_run(), with replica 0's arguments and user data, and each replica gets its part of
 * the result.
 *
 * FAILED_PRECONDITION in another strategy's scope, and while the strategy is draining.
 */
umbo_status umbo_strategy_update(struct umbo_strategy *strategy,
                                 struct umbo_variable *variable,
                                 umbo_update_fn function,
                                 void *user_data,
                                 const struct umbo_value *args,
                                 const struct umbo_update_options *options,
                                 struct umbo_value **result);

/**
 * As umbo_strategy_update(), for state that is kept where the variable is but is not the variable
 * itself, such as an optimizer's step count. `args` may be NULL. `options` may be NULL. `result` may
 * be NULL, which discards the result. FAILED_PRECONDITION in a replica's callback.
 */
umbo_status umbo_strategy_update_non_slot(struct umbo_strategy *strategy,
                                          struct umbo_variable *colocate_with,
                                          umbo_update_fn function,
                                          void *user_data,
                                          const struct umbo_value *args,
                                          const struct umbo_update_options *options,
                                          struct umbo_value **result);

/**
 * The variable beside which state of all of `variables` together is kept: the one whose name comes
 * first. A new handle. INVALID_ARGUMENT if there are none.
 */
umbo_status umbo_strategy_non_slot_devices(const struct umbo_strategy *strategy,
                                           int64_t count,
                                           struct umbo_variable *const *variables,
                                           struct umbo_variable **variable);

/**
 * Calls `function` once, on this thread; variables that it makes lie on the device of `variable`.
 * (All variables of a strategy lie on its parameter device, so they would do so anyway.) Returns
 * what `function` returned.
 *
 * FAILED_PRECONDITION outside of the strategy's scope and its callbacks; INVALID_ARGUMENT for a
 * variable that was not made in this strategy's scope.
 */
umbo_status umbo_strategy_colocate_vars_with(struct umbo_strategy *strategy,
                                             const struct umbo_variable *variable,
                                             umbo_scope_fn function,
                                             void *user_data);

/* ---- values from functions, destinations, and the like ------------------------------------- */

/**
 * Calls `function` once for each replica, in order, on this thread and in this thread's context,
 * and makes a per-replica value of the results. Structures are merged leaf by leaf (INVALID_ARGUMENT
 * if they differ); shapes and dtypes may differ. Leaves are always wrapped, even the very same
 * tensor, and also with one replica; the default strategy wraps nothing. Components stay on the
 * device they were made on. In every context.
 *
 * If `function` fails, so does this, with its status.
 */
umbo_status umbo_strategy_values_from_function(struct umbo_strategy *strategy,
                                               umbo_value_fn function,
                                               void *user_data,
                                               struct umbo_value **result);

/**
 * Reduces each of `count` values onto its destination, as umbo_strategy_reduce_to() does; `results`
 * gets a tuple. A plain value counts as one component, so that its SUM is itself.
 * INVALID_ARGUMENT if `count` is less than 1.
 */
umbo_status umbo_strategy_batch_reduce_to(struct umbo_strategy *strategy,
                                          umbo_reduce_op op,
                                          int64_t count,
                                          const struct umbo_value *const *values,
                                          const struct umbo_destination *const *destinations,
                                          struct umbo_value **results);

/**
 * Copies a tensor, indexed slices or a variable's value to a destination: a plain value on one
 * device, or a per-replica value with one copy for each component of a per-replica destination.
 * INVALID_ARGUMENT for other values; UNIMPLEMENTED for the default strategy. Contexts as for
 * umbo_strategy_reduce().
 */
umbo_status umbo_strategy_broadcast_to(struct umbo_strategy *strategy,
                                       const struct umbo_value *value,
                                       const struct umbo_destination *destination,
                                       struct umbo_value **result);

/**
 * The value that contains `value`: itself, since a variable has one copy, which is it. A new
 * handle.
 */
umbo_status umbo_strategy_value_container(const struct umbo_strategy *strategy,
                                          const struct umbo_value *value,
                                          struct umbo_value **container);

/**
 * umbo_strategy_run() without options. `args` may be NULL. `result` may be NULL, which discards the
 * results.
 */
umbo_status umbo_strategy_call_for_each_replica(struct umbo_strategy *strategy,
                                                umbo_replica_fn function,
                                                void *user_data,
                                                const struct umbo_value *args,
                                                struct umbo_value **result);

/**
 * The value that the variable has now; see umbo_variable_read(). In every context.
 */
umbo_status umbo_strategy_read_var(const struct umbo_strategy *strategy,
                                   const struct umbo_variable *variable,
                                   struct umbo_tensor **value);

/**
 * Not offered by this strategy: UNIMPLEMENTED. Call umbo_strategy_run() for each element of the
 * iterator.
 */
umbo_status umbo_strategy_run_steps_on_iterator(struct umbo_strategy *strategy,
                                                umbo_replica_fn function,
                                                void *user_data,
                                                struct umbo_iterator *iterator,
                                                int64_t steps,
                                                struct umbo_value **result);

/**
 * The canonical names of the compute devices, in replica order: as many of them as `names`, which
 * is an array of `capacity` pointers, has room for (NULL if it has none). `count` gets how many
 * there are. Names live as long as the process. FAILED_PRECONDITION for the default strategy, which was given none.
 */
umbo_status umbo_strategy_worker_devices(const struct umbo_strategy *strategy,
                                         int64_t capacity,
                                         const char **names,
                                         int64_t *count);

/**
 * The canonical names of the devices that hold variables, of which there is one; otherwise as
 * umbo_strategy_worker_devices().
 */
umbo_status umbo_strategy_parameter_devices(const struct umbo_strategy *strategy,
                                            int64_t capacity,
                                            const char **names,
                                            int64_t *count);

/**
 * Annotates a tensor with the logical device, of those of its replica, that it is to lie on. A
 * central storage strategy has one logical device per replica: OUT_OF_RANGE for an id other than
 * 0, else UNIMPLEMENTED.
 */
umbo_status umbo_strategy_assign_to_logical_device(const struct umbo_strategy *strategy,
                                                   const struct umbo_tensor *tensor,
                                                   int32_t logical_device_id,
                                                   struct umbo_tensor **annotated);

/**
 * Annotates a tensor as replicated to all logical devices of its replica. UNIMPLEMENTED.
 */
umbo_status umbo_strategy_replicate_to_logical_devices(const struct umbo_strategy *strategy,
                                                       const struct umbo_tensor *tensor,
                                                       struct umbo_tensor **annotated);

/**
 * Annotates a tensor as split over the logical devices of its replica, dimension i in
 * `partition_dimensions[i]` parts. INVALID_ARGUMENT if there is not one number, of 1 or more, for
 * each dimension, if a dimension is not divisible by its number, or if the product is not 1, the
 * number of logical devices of a replica; else UNIMPLEMENTED.
 */
umbo_status umbo_strategy_split_to_logical_devices(const struct umbo_strategy *strategy,
                                                   const struct umbo_tensor *tensor,
                                                   int64_t count,
                                                   const int64_t *partition_dimensions,
                                                   struct umbo_tensor **annotated);

/* ---- variables ----------------------------------------------------------------------------- */

/**
 * Makes a variable on the strategy's parameter device. `strategy` may be NULL: then it is made in
 * the current strategy, so that a function which makes variables can be called in a scope.
 * `name` may be NULL; names need not differ. `initial_value`, of which the variable gets a copy,
 * is NULL if the options have an initializer; exactly one of the two is given. `options` may be
 * NULL.
 *
 * In the callback of several replicas, with `strategy` NULL, replica 0 makes the variable, and each
 * other replica's call waits for it and gives the same variable: by name and by position among the
 * variables of that name, whatever its own initial value. A name that ends in an underscore and one
 * digit counts as the name without them. FAILED_PRECONDITION, naming the device, if replica 0 makes
 * no such variable before it returns or waits in a synchronising call. A variable that replica 0
 * alone makes is fine.
 *
 * FAILED_PRECONDITION in a replica's callback if `strategy` is given, in another strategy's scope,
 * and, unless for the default strategy, in a scope of the default strategy.
 */
umbo_status umbo_variable_create(struct umbo_strategy *strategy,
                                 const char *name,
                                 const struct umbo_tensor *initial_value,
                                 const struct umbo_variable_options *options,
                                 struct umbo_variable **variable);

/**
 * Where the variable's value lies right now, for reading: never write through it. In a replica's
 * callback `ctx` is its context: the view is on the replica's device, shows what this step has
 * written so far, and is valid until the callback returns or the variable is written. Outside of
 * runs `ctx` is NULL, and the view is valid until the variable is written next or released; no
 * other thread may write it meanwhile.
 */
umbo_status umbo_variable_view(const struct umbo_variable *variable,
                               const struct umbo_replica_context *ctx,
                               struct umbo_view *view);

/**
 * As umbo_variable_view(), with the variable's current value in another type: UMBO_DTYPE_FLOAT16 or
 * UMBO_DTYPE_BFLOAT16 for a float32 variable. (The variable's own type gives what umbo_variable_view()
 * gives; all others are INVALID_ARGUMENT.) `ctx` is the replica's context, or NULL outside of runs.
 *
 * The variable stays float32: it is what updates and assignments act on. Beside it lies a contiguous
 * copy, each element rounded to the nearest value, ties to even. The first call for a type makes the
 * copy (RESOURCE_EXHAUSTED if there is no memory) and it stays as long as the variable; from then on
 * an apply of an optimizer writes it along with the variable, at the cost of its own bytes. After
 * other writes the next call converts the variable anew. Replicas may call at the same time: one
 * converts, the others wait for it.
 */
umbo_status umbo_variable_view_as(const struct umbo_variable *variable,
                                  const struct umbo_replica_context *ctx,
                                  umbo_dtype dtype,
                                  struct umbo_view *view);

/**
 * A copy of the value that the variable has now: in a run or a merge call with what the step has
 * written so far, elsewhere the value of the last step that succeeded. A new tensor on the
 * variable's device.
 */
umbo_status umbo_variable_read(const struct umbo_variable *variable, struct umbo_tensor **value);

/**
 * Assigns a value of the variable's dtype and shape (INVALID_ARGUMENT if they differ).
 *
 * In cross-replica and default context it acts once; of a per-replica value the first component
 * counts, and the log gets one warning for each variable. In a replica's callback it is a synchronising call that all replicas make (see
 * umbo_replica_context_merge_call()): their values are combined as the variable's aggregation
 * says and the result is assigned once. Later reads in the step see it; it becomes central state
 * when the run succeeds, and is dropped when it fails. With SUM the very same tensor on all
 * replicas is INVALID_ARGUMENT. A variable of the default strategy is written by each replica in
 * turn, at once.
 *
 * FAILED_PRECONDITION in the scope or a run of another strategy than the variable's, and while
 * its strategy is draining.
 */
umbo_status umbo_variable_assign(struct umbo_variable *variable,
                                 const struct umbo_value *value);

/**
 * Adds a value; otherwise as umbo_variable_assign().
 */
umbo_status umbo_variable_assign_add(struct umbo_variable *variable,
                                     const struct umbo_value *value);

/**
 * Subtracts a value; otherwise as umbo_variable_assign().
 */
umbo_status umbo_variable_assign_sub(struct umbo_variable *variable,
                                     const struct umbo_value *value);

/**
 * The variable's name. Lives as long as the process.
 */
umbo_status umbo_variable_name(const struct umbo_variable *variable, const char **name);

/**
 * The type of the variable's elements.
 */
umbo_status umbo_variable_dtype(const struct umbo_variable *variable, umbo_dtype *dtype);

/**
 * Whether an optimizer should change the variable: 1 or 0.
 */
umbo_status umbo_variable_trainable(const struct umbo_variable *variable, int32_t *trainable);

/**
 * How values that replicas assign are combined.
 */
umbo_status umbo_variable_aggregation(const struct umbo_variable *variable,
                                      umbo_aggregation *aggregation);

/**
 * The synchronisation that the variable was made with.
 */
umbo_status umbo_variable_synchronization(const struct umbo_variable *variable,
                                          umbo_synchronization *synchronization);

/**
 * The canonical name of the device that holds the variable. Lives as long as the process.
 */
umbo_status umbo_variable_device(const struct umbo_variable *variable, const char **name);

/**
 * An independent variable of the same strategy, with the same name and modes and the value that
 * this one has now. FAILED_PRECONDITION in another strategy's scope or run.
 */
umbo_status umbo_variable_copy(const struct umbo_variable *variable, struct umbo_variable **copy);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_variable_retain(const struct umbo_variable *variable,
                                 struct umbo_variable **retained);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_variable_release(const struct umbo_variable *variable);

/* ---- variable creators --------------------------------------------------------------------- */

/**
 * Has `creator` called for each variable that this thread makes, until the scope is left with
 * umbo_scope_exit(). Creators are called from the innermost scope outwards. A strategy's own
 * creator, which places variables on the parameter device, stands where the strategy's scope was
 * entered: creators entered inside of it run before, creators entered around it run after.
 *
 * Runs that this thread starts meanwhile are inside of the scope too; with several replicas only
 * replica 0 makes variables, so `creator` is called on replica 0's thread only. An initializer is
 * called before the creators, which see the initial value.
 *
 * `destroy` (or NULL) releases `user_data` when the scope is left and the last variable of it is
 * made, and also if this function fails.
 */
umbo_status umbo_variable_creator_scope_enter(umbo_variable_creator_fn creator,
                                              void *user_data,
                                              umbo_destroy_fn destroy,
                                              struct umbo_scope **scope);

/**
 * Goes on with the request as it now is: to the next creator, in the end to the variable itself.
 * Each call makes a variable.
 */
umbo_status umbo_variable_request_next(struct umbo_variable_request *request,
                                       struct umbo_variable **variable);

/**
 * The name that the variable is to have. Lives as long as the process.
 */
umbo_status umbo_variable_request_name(const struct umbo_variable_request *request,
                                       const char **name);

/**
 * Gives the variable another name, which is copied.
 */
umbo_status umbo_variable_request_set_name(struct umbo_variable_request *request, const char *name);

/**
 * The initial value: its dtype and shape become the variable's. A new handle; do not write it.
 */
umbo_status umbo_variable_request_initial_value(const struct umbo_variable_request *request,
                                                struct umbo_tensor **tensor);

/**
 * Gives the variable another initial value, of any dtype and shape. The variable gets a copy, made
 * when it is made; the tensor stays the caller's to release.
 */
umbo_status umbo_variable_request_set_initial_value(struct umbo_variable_request *request,
                                                    const struct umbo_tensor *tensor);

/**
 * Whether an optimizer should change the variable: one of the UMBO_TRAINABLE_ constants.
 */
umbo_status umbo_variable_request_trainable(const struct umbo_variable_request *request,
                                            umbo_trainable *trainable);

/**
 * Says whether an optimizer should change the variable.
 */
umbo_status umbo_variable_request_set_trainable(struct umbo_variable_request *request,
                                                umbo_trainable trainable);

/**
 * How values that replicas assign are to be combined.
 */
umbo_status umbo_variable_request_aggregation(const struct umbo_variable_request *request,
                                              umbo_aggregation *aggregation);

/**
 * Says how values that replicas assign are to be combined.
 */
umbo_status umbo_variable_request_set_aggregation(struct umbo_variable_request *request,
                                                  umbo_aggregation aggregation);

/**
 * The synchronisation that is asked for.
 */
umbo_status umbo_variable_request_synchronization(const struct umbo_variable_request *request,
                                                  umbo_synchronization *synchronization);

/**
 * Asks for another synchronisation.
 */
umbo_status umbo_variable_request_set_synchronization(struct umbo_variable_request *request,
                                                      umbo_synchronization synchronization);

/**
 * The canonical name of the device that the variable will lie on; NULL for creators that run before
 * the strategy's own has chosen it. Lives as long as the process.
 */
umbo_status umbo_variable_request_device(const struct umbo_variable_request *request,
                                         const char **name);

/* ---- scatter updates ----------------------------------------------------------------------- */

/**
 * Adds each row of the slices to the row of the variable that it belongs to.
 *
 * `slices` is indexed slices of the variable's dtype and shape (INVALID_ARGUMENT if they differ).
 * Rows are taken in order; one that is named several times is changed several times. An index
 * that is no row of the variable is OUT_OF_RANGE. Whatever is wrong, nothing is changed then.
 * Integers wrap; bool is INVALID_ARGUMENT.
 *
 * In cross-replica and default context it acts once, and a per-replica value is INVALID_ARGUMENT. In a
 * replica's callback it is a synchronising call that all replicas make (see
 * umbo_replica_context_merge_call()), and the variable's aggregation says which slices count: with
 * SUM all replicas' in replica order, with MEAN the same with the values divided by the number of
 * replicas, with ONLY_FIRST_REPLICA replica 0's; NONE is INVALID_ARGUMENT with several replicas.
 * The very same value on all replicas is INVALID_ARGUMENT with SUM and counts once with MEAN.
 * Later reads in the step see the result; it becomes central state when the run succeeds, and is
 * dropped when it fails. Other errors as for umbo_variable_assign().
 */
umbo_status umbo_variable_scatter_add(struct umbo_variable *variable,
                                      const struct umbo_value *slices);

/**
 * Subtracts each row of the slices; otherwise as umbo_variable_scatter_add().
 */
umbo_status umbo_variable_scatter_sub(struct umbo_variable *variable,
                                      const struct umbo_value *slices);

/**
 * Multiplies by each row of the slices; otherwise as umbo_variable_scatter_add().
 */
umbo_status umbo_variable_scatter_mul(struct umbo_variable *variable,
                                      const struct umbo_value *slices);

/**
 * Divides by each row of the slices; otherwise as umbo_variable_scatter_add(). Integers are
 * truncated towards zero; a divisor of 0 is INVALID_ARGUMENT for them.
 */
umbo_status umbo_variable_scatter_div(struct umbo_variable *variable,
                                      const struct umbo_value *slices);

/**
 * Takes the smaller of each pair of elements, NaN if either is; otherwise as
 * umbo_variable_scatter_add().
 */
umbo_status umbo_variable_scatter_min(struct umbo_variable *variable,
                                      const struct umbo_value *slices);

/**
 * Takes the larger of each pair of elements, NaN if either is; otherwise as
 * umbo_variable_scatter_add().
 */
umbo_status umbo_variable_scatter_max(struct umbo_variable *variable,
                                      const struct umbo_value *slices);

/**
 * Replaces the rows of the variable by those of the slices; otherwise as
 * umbo_variable_scatter_add(). Takes bool as well.
 */
umbo_status umbo_variable_scatter_update(struct umbo_variable *variable,
                                         const struct umbo_value *slices);

/* ---- element specs ------------------------------------------------------------------------- */

/**
 * The spec of a tensor. `shape` has `rank` sizes; UMBO_SIZE_UNKNOWN (-1) where elements may
 * differ.
 */
umbo_status umbo_element_spec_create_tensor(umbo_dtype dtype,
                                            int32_t rank,
                                            const int64_t *shape,
                                            struct umbo_element_spec **spec);

/**
 * The spec of a tuple of `count` items. The items stay the caller's to release. INVALID_ARGUMENT if
 * more than UMBO_MAX_NEST_DEPTH specs would lie in one another.
 */
umbo_status umbo_element_spec_create_tuple(int64_t count,
                                           const struct umbo_element_spec *const *items,
                                           struct umbo_element_spec **spec);

/**
 * The spec of a struct of `count` fields with names, which must differ. Names are copied; the
 * items stay the caller's to release. INVALID_ARGUMENT also if more than UMBO_MAX_NEST_DEPTH specs
 * would lie in one another.
 */
umbo_status umbo_element_spec_create_struct(int64_t count,
                                            const char *const *names,
                                            const struct umbo_element_spec *const *items,
                                            struct umbo_element_spec **spec);

/**
 * What elements are: UMBO_VALUE_TENSOR, UMBO_VALUE_PER_REPLICA, UMBO_VALUE_TUPLE or
 * UMBO_VALUE_STRUCT.
 */
umbo_status umbo_element_spec_get_kind(const struct umbo_element_spec *spec, umbo_value_kind *kind);

/**
 * How many items, fields or components there are; 1 for a tensor.
 */
umbo_status umbo_element_spec_count(const struct umbo_element_spec *spec, int64_t *count);

/**
 * The spec of the item of a tuple, the field of a struct by position, or the component of a
 * per-replica value. OUT_OF_RANGE if there is none at `index`.
 */
umbo_status umbo_element_spec_item(const struct umbo_element_spec *spec,
                                   int64_t index,
                                   struct umbo_element_spec **item);

/**
 * The name of the field of a struct at `index`. Lives as long as the process. OUT_OF_RANGE if
 * there is none.
 */
umbo_status umbo_element_spec_field_name(const struct umbo_element_spec *spec,
                                         int64_t index,
                                         const char **name);

/**
 * The dtype, rank and shape of a tensor, or of each component of a per-replica value. `shape` has
 * room for 8 sizes; UMBO_SIZE_UNKNOWN (-1) is one in which elements may differ.
 */
umbo_status umbo_element_spec_leaf(const struct umbo_element_spec *spec,
                                   umbo_dtype *dtype,
                                   int32_t *rank,
                                   int64_t *shape);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_element_spec_retain(const struct umbo_element_spec *spec,
                                     struct umbo_element_spec **retained);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_element_spec_release(const struct umbo_element_spec *spec);

/* ---- sources of datasets ------------------------------------------------------------------- */

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
 * A dataset of the slices along dimension 0 of the array in a NumPy `.npy` file.
 *
 * A file in the machine's byte order and in C order, of anything but bool, is mapped into memory
 * and must not be rewritten or shortened while the dataset or an element of it is in use. Others
 * are read and converted at this call. INVALID_ARGUMENT: not a `.npy` file, or one of a scalar.
 * UNIMPLEMENTED: a dtype that there is no constant for, such as Python objects. DATA_LOSS: shorter
 * or longer than its header says, or damaged. NOT_FOUND, PERMISSION_DENIED: as the system says.
 * RESOURCE_EXHAUSTED: no memory.
 */
umbo_status umbo_dataset_from_npy_file(const char *path, struct umbo_dataset **dataset);

/**
 * A dataset of the slices along dimension 0 of arrays in a NumPy `.npz` file, which are read at
 * this call. Elements are structs of which each field has the name of an array: those of the
 * `count` names, in this order, or all in the order of the file if `names` is NULL.
 *
 * Errors are those of umbo_dataset_from_npy_file(), and NOT_FOUND: no array of a name;
 * UNIMPLEMENTED: encryption, a compression other than DEFLATE; INVALID_ARGUMENT: an entry that is
 * not an array of this folder, arrays that differ in dimension 0.
 */
umbo_status umbo_dataset_from_npz_file(const char *path,
                                       int64_t count,
                                       const char *const *names,
                                       struct umbo_dataset **dataset);

/**
 * A dataset of one element: a tensor, or a tuple or struct of tensors, which are shared as by
 * umbo_dataset_from_tensor_slices(). INVALID_ARGUMENT: a per-replica value, a variable.
 */
umbo_status umbo_dataset_from_tensors(const struct umbo_value *element,
                                      struct umbo_dataset **dataset);

/**
 * A dataset of `count` tensors, an element each, which are shared as by
 * umbo_dataset_from_tensor_slices(). They have one dtype and rank; their shapes may differ, so
 * that the element spec has no sizes.
 */
umbo_status umbo_dataset_from_elements(int64_t count,
                                       const struct umbo_tensor *const *tensors,
                                       struct umbo_dataset **dataset);

/**
 * A dataset of int64 scalars: `start`, `start + step`, ... as long as they are below `stop`, or
 * above it if `step` is negative. INVALID_ARGUMENT if `step` is 0.
 */
umbo_status umbo_dataset_from_range(int64_t start,
                                    int64_t stop,
                                    int64_t step,
                                    struct umbo_dataset **dataset);

/* ---- datasets from functions --------------------------------------------------------------- */

/**
 * A dataset of what `generator` makes: elements as `element_spec` says, one after the other until
 * it says that there are no more. The struct is copied.
 *
 * INVALID_ARGUMENT: a `generator` without `next`, a spec without tensors or with per-replica values;
 * while iterating, an element that is not as the spec says.
 */
umbo_status umbo_dataset_from_generator(const struct umbo_element_spec *element_spec,
                                        const struct umbo_generator *generator,
                                        void *user_data,
                                        umbo_destroy_fn destroy,
                                        struct umbo_dataset **dataset);

/**
 * The results of `function` for each element, in the order of the elements however many calls run
 * at once. A failure of the function is that of umbo_iterator_next() in the place of the element;
 * after it the next elements come. `options` may be NULL.
 *
 * INVALID_ARGUMENT: a number of calls that is not in [1, 4096]; while iterating, a result that is
 * not as its spec says. RESOURCE_EXHAUSTED, while iterating: no thread at all; with fewer than
 * `parallel_calls`, fewer calls run at once.
 */
umbo_status umbo_dataset_map(const struct umbo_dataset *dataset,
                             umbo_map_fn function,
                             void *user_data,
                             umbo_destroy_fn destroy,
                             const struct umbo_map_options *options,
                             struct umbo_dataset **mapped);

/* ---- datasets ------------------------------------------------------------------------------ */

/**
 * Several datasets side by side: element i consists of element i of each. `names` has `count`
 * names, which must differ, and makes elements structs; NULL makes them tuples. Ends with the
 * dataset that ends first; if others have more elements, the log says so once, as a warning. The
 * datasets stay the caller's to release.
 */
umbo_status umbo_dataset_zip(int64_t count,
                             const struct umbo_dataset *const *datasets,
                             const char *const *names,
                             struct umbo_dataset **zipped);

/**
 * The elements in random order. `options` may be NULL. Over tensors and files only row numbers are
 * shuffled; elsewhere the buffer holds elements. INVALID_ARGUMENT: a buffer size of 0 or
 * less, or UMBO_SHUFFLE_WHOLE_DATASET for a dataset without end.
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
 * Batches as of umbo_dataset_batch(), of elements whose shapes may differ: each is padded with
 * zeros, at the end of each dimension, to the largest of its batch. INVALID_ARGUMENT: a size less
 * than 1, elements of rank 8; while iterating, elements of one batch that differ in dtype or rank.
 */
umbo_status umbo_dataset_padded_batch(const struct umbo_dataset *dataset,
                                      int64_t size,
                                      int32_t drop_remainder,
                                      struct umbo_dataset **batches);

/**
 * The rows of all batches as one stream, cut into batches of the `count` sizes, over and over
 * again. A size of 0 makes a batch without rows. The last batch is smaller if rows are left over,
 * and nothing follows it, or left out if `drop_remainder` is 1. INVALID_ARGUMENT: no size above 0, a negative one,
 * elements with a scalar; while iterating, batches that do not fit together.
 */
umbo_status umbo_dataset_rebatch(const struct umbo_dataset *dataset,
                                 int64_t count,
                                 const int64_t *sizes,
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
 * RESOURCE_EXHAUSTED, while iterating: no thread; the next call tries again.
 */
umbo_status umbo_dataset_prefetch(const struct umbo_dataset *dataset,
                                  int64_t depth,
                                  struct umbo_dataset **prefetched);

/**
 * The first `count` elements, or all if there are fewer or if it is -1. INVALID_ARGUMENT: less than
 * -1.
 */
umbo_status umbo_dataset_take(const struct umbo_dataset *dataset,
                              int64_t count,
                              struct umbo_dataset **taken);

/**
 * All but the first `count` elements; none if there are no more or if it is -1, which is all.
 * INVALID_ARGUMENT: less than -1.
 */
umbo_status umbo_dataset_skip(const struct umbo_dataset *dataset,
                              int64_t count,
                              struct umbo_dataset **rest);

/**
 * The elements at positions `index`, `index + shards`, `index + 2 * shards`, ... INVALID_ARGUMENT:
 * less than 1 shard, an index that is not in [0, shards).
 */
umbo_status umbo_dataset_shard(const struct umbo_dataset *dataset,
                               int64_t shards,
                               int64_t index,
                               struct umbo_dataset **shard);

/**
 * The same elements, kept in memory by the first pass that reaches the end: later passes yield them
 * in the order that they had then and ask the dataset for nothing. Elements are read-only. While
 * iterating, RESOURCE_EXHAUSTED if there is no memory to keep them in.
 */
umbo_status umbo_dataset_cache(const struct umbo_dataset *dataset, struct umbo_dataset **cached);

/**
 * The elements of several datasets, one dataset after the other. Structure, dtypes and ranks must
 * be the same. The datasets stay the caller's to release. To join many, give them to one call: no
 * more than 256 transformations, of whatever kind, may lie above each other (INVALID_ARGUMENT).
 */
umbo_status umbo_dataset_concatenate(int64_t count,
                                     const struct umbo_dataset *const *datasets,
                                     struct umbo_dataset **concatenated);

/**
 * How many elements a pass yields; -1: it never ends, -2: only iterating tells.
 */
umbo_status umbo_dataset_cardinality(const struct umbo_dataset *dataset, int64_t *count);

/**
 * The structure, dtypes and shapes of the elements, which the caller releases.
 */
umbo_status umbo_dataset_element_spec(const struct umbo_dataset *dataset,
                                      struct umbo_element_spec **spec);

/**
 * An iterator at the beginning of a pass, independent of all others. It keeps what it needs of the
 * dataset, which may be released.
 */
umbo_status umbo_iterator_from_dataset(const struct umbo_dataset *dataset,
                                       struct umbo_iterator **iterator);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_dataset_retain(const struct umbo_dataset *dataset, struct umbo_dataset **retained);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_dataset_release(const struct umbo_dataset *dataset);

/* ---- distribution of datasets -------------------------------------------------------------- */

/**
 * Splits each element of a dataset, which is a global batch, along dimension 0 over the replicas of
 * a strategy. `options` may be NULL.
 *
 * With one replica elements stay as they are. With n, each tensor becomes a per-replica value of
 * which component k has rows [k * c, (k + 1) * c), c being the number of rows over n, rounded up:
 * 9 rows over 4 replicas are 3, 3, 3 and 0. Nothing is copied. The elements know how many examples
 * each replica has, which umbo_gradients_submit() uses.
 *
 * Component k is on compute device k, without a copy: CPUs share their memory.
 *
 * INVALID_ARGUMENT: with several replicas, elements that contain a scalar (batch them first);
 * options that contradict each other. UNIMPLEMENTED: replication per replica.
 */
umbo_status umbo_strategy_distribute_dataset(struct umbo_strategy *strategy,
                                             const struct umbo_dataset *dataset,
                                             const struct umbo_distribute_options *options,
                                             struct umbo_distributed_dataset **distributed);

/**
 * The elements of a batch of one replica, if all replicas together have `global_batch_size`.
 * INVALID_ARGUMENT if the number of replicas does not divide it.
 */
umbo_status umbo_input_context_per_replica_batch_size(const struct umbo_input_context *context,
                                                      int64_t global_batch_size,
                                                      int64_t *size);

/**
 * Calls `function` once, before it returns, on this thread, to make a dataset, and gives each
 * replica whole elements of it: with n replicas, replica k gets element s * n + k in step s. There
 * is one pipeline for all replicas. `options` may be NULL.
 *
 * The dataset is batched for one replica (umbo_input_context_per_replica_batch_size()); nothing is
 * split, and elements may be scalars. If the number of elements is not a multiple of n, the last
 * step is completed with components without rows (zero, for scalars), or left out if the options
 * say so. With one replica elements stay as they are.
 *
 * Fails as the function fails. INVALID_ARGUMENT: no dataset stored, options that contradict each
 * other. UNIMPLEMENTED: replication per replica.
 */
umbo_status umbo_strategy_distribute_datasets_from_function(struct umbo_strategy *strategy,
                                                            umbo_dataset_fn function,
                                                            void *user_data,
                                                            const struct umbo_distribute_options *options,
                                                            struct umbo_distributed_dataset **distributed);

/**
 * A dataset of the slices of arrays along dimension 0, as of umbo_dataset_from_tensor_slices(), of
 * copies that are made at this call: the arrays may be changed afterwards. It is an ordinary
 * dataset, to be batched and then distributed.
 *
 * FAILED_PRECONDITION in a replica's callback and in another strategy's scope. INVALID_ARGUMENT: a
 * scalar, dimensions 0 that differ, a per-replica value, a variable.
 */
umbo_status umbo_strategy_make_numpy_dataset(struct umbo_strategy *strategy,
                                             const struct umbo_value *arrays,
                                             struct umbo_dataset **dataset);

/**
 * The structure of the steps, which the caller releases: per-replica values where the dataset's
 * elements have tensors, with one replica the tensors themselves. The number of rows is known only
 * if it is the same in all steps.
 */
umbo_status umbo_distributed_dataset_element_spec(const struct umbo_distributed_dataset *distributed,
                                                  struct umbo_element_spec **spec);

/**
 * How many steps a pass yields; -1: it never ends, -2: only iterating tells.
 */
umbo_status umbo_distributed_dataset_cardinality(const struct umbo_distributed_dataset *distributed,
                                                 int64_t *count);

/**
 * An iterator at the beginning of a pass, independent of all others. It keeps what it needs of the
 * distributed dataset, which may be released.
 */
umbo_status umbo_iterator_from_distributed_dataset(const struct umbo_distributed_dataset *distributed,
                                                   struct umbo_iterator **iterator);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_distributed_dataset_retain(const struct umbo_distributed_dataset *distributed,
                                            struct umbo_distributed_dataset **retained);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_distributed_dataset_release(const struct umbo_distributed_dataset *distributed);

/* ---- iterators ----------------------------------------------------------------------------- */

/**
 * The next element, which the caller releases; NULL at the end of the pass and ever after.
 *
 * Waits until the element is there. Threads may share an iterator; each element goes to one of
 * them, in the order in which they ask. The memory of an element that was released, with all that
 * was made from it, serves a later one. After an error the call may be repeated and goes on behind
 * what failed.
 *
 * FAILED_PRECONDITION: in a function that this iterator has called, on whatever thread (of a
 * generator, a map, the release of an element), since the call would wait for itself; where
 * functions of several iterators would wait for each other; in the child of a fork, if the iterator
 * had threads or another thread was in it; for an iterator over a distributed dataset inside of a
 * replica's callback, since an element is for all replicas, and in the scope of another strategy.
 * RESOURCE_EXHAUSTED: no memory or no thread; nothing is lost, and the next call tries again.
 */
umbo_status umbo_iterator_next(struct umbo_iterator *iterator, struct umbo_value **element);

/**
 * As umbo_iterator_next(), with a word on whether there was an element: `*has_value` is 1, or 0 at
 * the end of the pass and ever after; then `*element` is NULL.
 */
umbo_status umbo_iterator_next_as_optional(struct umbo_iterator *iterator,
                                           int32_t *has_value,
                                           struct umbo_value **element);

/**
 * The structure, dtypes and shapes of the elements, which the caller releases: those of the
 * dataset.
 */
umbo_status umbo_iterator_element_spec(const struct umbo_iterator *iterator,
                                       struct umbo_element_spec **spec);

/**
 * Starts a new pass from the beginning, in another order if the dataset is shuffled. What the
 * iterator has allocated is used again. FAILED_PRECONDITION as for umbo_iterator_next().
 */
umbo_status umbo_iterator_reset(struct umbo_iterator *iterator);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_iterator_retain(const struct umbo_iterator *iterator,
                                 struct umbo_iterator **retained);

/**
 * Releases a reference; the last one stops and joins the iterator's threads, if it has any. In a
 * function that the iterator has called it does not wait for a thread that waits for that function;
 * the thread ends by itself. A call that another thread is in goes on to its end. NULL is fine.
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
                                  int64_t count,
                                  struct umbo_variable *const *variables,
                                  const struct umbo_gradients_options *options,
                                  struct umbo_gradients **gradients);

/**
 * This replica's own buffer for variable `index`, of the variable's shape, and of its dtype unless
 * the options say another, on the replica's device; to be written until the replica submits. `mode` is UMBO_GRADIENT_OVERWRITE or UMBO_GRADIENT_ADD.
 * A variable that a replica does not view in a step counts as zero from it; one that no replica
 * views is not updated.
 *
 * Replicas call this at the same time; nothing is allocated and nobody waits. OUT_OF_RANGE: no
 * such variable. FAILED_PRECONDITION: a row-sparse variable, not in a run of the strategy that the gradients were made
 * for, or submitted already. CANCELLED: the run has returned without this replica.
 */
umbo_status umbo_gradients_view(struct umbo_gradients *gradients,
                                struct umbo_replica_context *ctx,
                                int64_t index,
                                umbo_gradient_mode mode,
                                struct umbo_view *view);

/**
 * Adds `rows` rows (0 or more) to what this replica contributes to row-sparse variable `index` in
 * this step, and gives room to write them, on the replica's device, until the replica submits:
 * `indices`, int64 of shape [rows], takes which rows of the variable they are, and `values`, of the
 * gradients' dtype and the variable's shape but for the number of rows, their gradients. Both hold whatever they
 * held before. A further call in the step adds further rows; the first views stay valid.
 *
 * Rows may come in any order. One that is named several times, in a call, in several or by several
 * replicas, stands for the sum of what is given for it; what is done with sums is the same as for
 * other variables. But the update is lazy: rows that nobody named, and what the optimizer keeps for
 * them, stay as they are, so that momentum and weight decay act on the rows that were named alone.
 * Adam's t counts the updates of the variable. An apply with LAMB is INVALID_ARGUMENT. A variable to
 * which replicas add 0 rows counts as updated; one to which none adds any, not even 0, does not.
 *
 * Sums are in replica order, then in the order in which rows were added, so the bits depend neither
 * on threads nor on who comes first.
 *
 * Replicas call this at the same time, and nobody waits; nothing is allocated once a step had as
 * many rows in as many calls. An index that is no row of the variable is OUT_OF_RANGE from the call
 * that submits with a weight other than 0. FAILED_PRECONDITION: not declared row-sparse; else as
 * for umbo_gradients_view(). RESOURCE_EXHAUSTED: no memory for as many rows.
 */
umbo_status umbo_gradients_add_rows(struct umbo_gradients *gradients,
                                    struct umbo_replica_context *ctx,
                                    int64_t index,
                                    int64_t rows,
                                    struct umbo_view *indices,
                                    struct umbo_view *values);

/**
 * Adds copies of the rows of `slices` to what this replica contributes to row-sparse variable
 * `index` in this step: indexed slices of the gradients' dtype and the variable's shape (INVALID_ARGUMENT if they
 * differ). Otherwise as umbo_gradients_add_rows().
 */
umbo_status umbo_gradients_add_indexed_slices(struct umbo_gradients *gradients,
                                              struct umbo_replica_context *ctx,
                                              int64_t index,
                                              const struct umbo_value *slices);

/**
 * Submits what this replica wrote into its buffers in this step, once, weighted by the examples of
 * its part of the run's arguments. A replica without examples submits too, and what it wrote is not
 * read.
 *
 * FAILED_PRECONDITION: the run's arguments contain no per-replica value that tells how many
 * examples there are (umbo_gradients_submit_weighted() says the weight), submitted already, or
 * as for umbo_gradients_view(). OUT_OF_RANGE: an index among the rows that this replica added is no
 * row of its variable; the replica has not submitted then.
 */
umbo_status umbo_gradients_submit(struct umbo_gradients *gradients,
                                  struct umbo_replica_context *ctx);

/**
 * As umbo_gradients_submit(), with a weight of the caller's, which is finite and 0 or more. With
 * weight 0 nothing of what this replica wrote is read.
 */
umbo_status umbo_gradients_submit_weighted(struct umbo_gradients *gradients,
                                           struct umbo_replica_context *ctx,
                                           double weight);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_gradients_retain(const struct umbo_gradients *gradients,
                                  struct umbo_gradients **retained);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_gradients_release(const struct umbo_gradients *gradients);

/* ---- update rules -------------------------------------------------------------------------- */

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
 * AdamW (Loshchilov and Hutter, 2019), for variables of the strategy: w = (1 - learning_rate *
 * weight_decay) * w, then the step of Adam, whose states "m" and "v" have nothing of the decay.
 * `options` may be NULL.
 */
umbo_status umbo_optimizer_create_adamw(struct umbo_strategy *strategy,
                                        const struct umbo_adamw_options *options,
                                        struct umbo_optimizer **optimizer);

/**
 * LAMB (You et al., 2020), for variables of the strategy: with Adam's direction r = m / (sqrt(v) +
 * epsilon), corrected, and u = r + weight_decay * w, it is w = w - learning_rate * |w| / |u| * u
 * for each variable, where |w| / |u| is 1 if one of the norms is 0. The states are "m" and "v". The
 * norms cost one more pass over memory. `options` may be NULL.
 */
umbo_status umbo_optimizer_create_lamb(struct umbo_strategy *strategy,
                                       const struct umbo_lamb_options *options,
                                       struct umbo_optimizer **optimizer);

/**
 * Adagrad (Duchi, Hazan and Singer, 2011), for variables of the strategy: n = n + g * g, then
 * w = w - learning_rate * g / (sqrt(n) + epsilon). The state "accumulator" is n. `options` may be
 * NULL.
 */
umbo_status umbo_optimizer_create_adagrad(struct umbo_strategy *strategy,
                                          const struct umbo_adagrad_options *options,
                                          struct umbo_optimizer **optimizer);

/**
 * RMSprop (Tieleman and Hinton, 2012), for variables of the strategy: v = rho * v + (1 - rho) *
 * g * g and d = sqrt(v) + epsilon; centered (Graves, 2013), a = rho * a + (1 - rho) * g and
 * d = sqrt(v - a * a) + epsilon; then w = w - learning_rate * g / d, or with momentum b = momentum *
 * b + g / d and w = w - learning_rate * b. The states are "v", "mean" (a) and "momentum" (b), as far
 * as there are any. `options` may be NULL.
 */
umbo_status umbo_optimizer_create_rmsprop(struct umbo_strategy *strategy,
                                          const struct umbo_rmsprop_options *options,
                                          struct umbo_optimizer **optimizer);

/**
 * FTRL-Proximal (McMahan et al., 2013, Algorithm 1), for variables of the strategy: s = (sqrt(n + g *
 * g) - sqrt(n)) / learning_rate, z = z + g - s * w, n = n + g * g, then w = 0 where |z| <= l1, else
 * w = -(z - sign(z) * l1) / ((beta + sqrt(n)) / learning_rate + l2). The states are "z" and "n".
 * Weights follow from the states alone: start them at 0. `options` may be NULL.
 */
umbo_status umbo_optimizer_create_ftrl(struct umbo_strategy *strategy,
                                       const struct umbo_ftrl_options *options,
                                       struct umbo_optimizer **optimizer);

/* ---- optimizers ---------------------------------------------------------------------------- */

/**
 * Replaces all settings of the optimizer, from the next apply on. `options` may be NULL: everything
 * is off. The loss scale starts anew if its settings are other ones than before. INVALID_ARGUMENT: settings that are
 * out of range or exclude each other.
 */
umbo_status umbo_optimizer_configure(struct umbo_optimizer *optimizer,
                                     const struct umbo_optimizer_options *options);

/**
 * Treats `count` variables, from the next apply on, as `options` (NULL: all defaults) say. A variable is in one group
 * at most; those in none are treated as umbo_optimizer_configure() says.
 *
 * INVALID_ARGUMENT: a variable of another strategy or in a group already (none of the variables is
 * then in the group), options that are out of range or exclude each other.
 */
umbo_status umbo_optimizer_add_group(struct umbo_optimizer *optimizer,
                                     int64_t count,
                                     struct umbo_variable *const *variables,
                                     const struct umbo_group_options *options);

/**
 * Takes the learning rate of each update from `schedule`, in place of the one before. NULL keeps
 * the learning rate where it is, as umbo_optimizer_set_learning_rate() does. `destroy` (or NULL)
 * releases `user_data` when the schedule is replaced or the optimizer is gone, and also if this
 * function fails.
 */
umbo_status umbo_optimizer_set_schedule(struct umbo_optimizer *optimizer,
                                        umbo_schedule_fn schedule,
                                        void *user_data,
                                        umbo_destroy_fn destroy);

/**
 * What callbacks multiply their loss (or their gradients) with, in this run and until the next
 * apply. May be called inside of a run. 1 where no loss scale was configured. Several gradients of one
 * run may be applied after it, one by one: each apply divides by the scale that the run had.
 */
umbo_status umbo_optimizer_loss_scale(const struct umbo_optimizer *optimizer,
                                      double *loss_scale);

/**
 * Reduces the gradients that the replicas submitted and updates the variables, in one pass over
 * memory; a norm or a look for values that are not finite is a pass over the gradients before it.
 * Uses the gradients up: apply once for each run. `options` may be NULL; `report` may be NULL.
 *
 * With gradients whose `accumulation_steps` is k, every k-th apply updates; the others add what was
 * submitted to a sum, and report `accumulated_runs`.
 *
 * After a run it acts at once; it waits for a run that another thread has in progress. Inside of a
 * run it is deferred to the commit point, takes what the replicas have submitted by then, and is
 * reported as `deferred`; called by a replica's callback it synchronises, and all replicas call
 * it. If the run fails, nothing is applied; if a deferred apply fails, so does the run. An apply
 * that fails changes nothing.
 *
 * FAILED_PRECONDITION: nothing was submitted since the last apply, a replica did not submit (it is
 * named), the last run failed, the context of another strategy, a strategy that was released.
 * INVALID_ARGUMENT: optimizer and gradients of different strategies, or a gradient that is not finite
 * where that was to fail (umbo_optimizer_options). Also whatever a schedule fails with.
 */
umbo_status umbo_optimizer_apply(struct umbo_optimizer *optimizer,
                                 struct umbo_gradients *gradients,
                                 const struct umbo_apply_options *options,
                                 struct umbo_apply_report *report);

/**
 * What the last apply did that was carried out, also if it was deferred; all 0 before the first.
 */
umbo_status umbo_optimizer_last_report(const struct umbo_optimizer *optimizer,
                                       struct umbo_apply_report *report);

/**
 * Sets the learning rate, from the next apply on: finite and 0 or more. Ends a schedule.
 */
umbo_status umbo_optimizer_set_learning_rate(struct umbo_optimizer *optimizer,
                                             double learning_rate);

/**
 * The learning rate of the next apply; while there is a schedule, that of the last one.
 */
umbo_status umbo_optimizer_learning_rate(const struct umbo_optimizer *optimizer,
                                         double *learning_rate);

/**
 * How many applies have taken effect.
 */
umbo_status umbo_optimizer_iterations(const struct umbo_optimizer *optimizer, int64_t *iterations);

/**
 * A copy of what the optimizer keeps for a variable under `name`, such as "momentum"; the function
 * that makes the optimizer lists the names. It is of the variable's dtype and shape. NOT_FOUND: a name that its rule does not have, or a
 * variable that it has not updated yet.
 */
umbo_status umbo_optimizer_state(const struct umbo_optimizer *optimizer,
                                 const struct umbo_variable *variable,
                                 const char *name,
                                 struct umbo_tensor **state);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_optimizer_retain(const struct umbo_optimizer *optimizer,
                                  struct umbo_optimizer **retained);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_optimizer_release(const struct umbo_optimizer *optimizer);

/* ---- equivalence of one replica and many --------------------------------------------------- */

/**
 * Finds out whether a step means the same on one replica and on all, and if not, why. For tests and
 * for the first step of a new trainer.
 *
 * `function` and `user_data` are what umbo_strategy_run() is given. `batch` is a global batch, not
 * distributed yet: a tensor, or a tuple or struct of tensors, with 3 examples or more along dimension
 * 0. The check splits it over the replicas as umbo_strategy_distribute_dataset() does, runs the
 * callback, and compares with other splits: all examples on replica 0, which is what one replica
 * would do, two parts of different sizes, and a smaller batch. `gradients` are the ones that the
 * callback writes, or NULL: then only metrics are compared. `options` may be NULL.
 *
 * Nothing is committed. Variables of the strategy, `gradients` with what they may have
 * accumulated, optimizers and metrics are as they were; an umbo_optimizer_apply() in the callback
 * does not take place. What the callback changes in the caller's own memory stays changed. Other
 * gradients than `gradients` that the callback writes, also where that is NULL, are as after a run
 * that failed: what an earlier run has contributed to them, and no umbo_optimizer_apply() has used
 * yet, is lost, and that apply fails. Give those gradients, or apply before the check.
 *
 * The callback runs 6 times on each replica, up to 22 times if something differs, and finds 0 or NaN
 * in buffers of `gradients` that it views with UMBO_GRADIENT_OVERWRITE, which shows whether it writes all of
 * them. The check waits for its turn as a run does; runs of other threads may come in between, and
 * notice nothing.
 *
 * The check keeps copies of all gradients in float64: two for each replica and five more, and another
 * two once something differs. Row-sparse gradients count with their whole table in each of them,
 * however few rows are added: for a large table that is many times the memory of its variable.
 * Of contributions that wait for an apply it keeps one copy more, but for rows, in their own dtype.
 *
 * What is found: gradients that are reduced over the examples in another way than
 * `loss_reduction` declares, or divided by a fixed number; weights that do not follow the examples;
 * buffers that are not overwritten in full; replicas that read the whole batch, or all the same
 * rows; that do not submit, or fail, without examples; regularisers that count once a replica; results that are not repeatable, on one
 * replica or only on several; and metrics that are added with wrong sums or weights. Of what
 * depends on the split by design, such as the statistics of batch normalisation, the check can only
 * say that it does. With one replica there is nothing to compare, and only what one run shows is
 * found.
 *
 * What the callback gets wrong is no failure of this function, but in `*equivalence`, a new handle;
 * see umbo_equivalence_holds() and umbo_equivalence_text().
 *
 * INVALID_ARGUMENT: a batch that cannot be split, gradients of another strategy, tolerances below
 * 0. FAILED_PRECONDITION: in a replica's callback, in a merge call, in another strategy's scope, and
 * while the strategy is draining. RESOURCE_EXHAUSTED: no memory for the copies. If the callback fails
 * on the batch as it is usually split, its status, as from umbo_strategy_run().
 */
umbo_status umbo_strategy_check_equivalence(struct umbo_strategy *strategy,
                                            umbo_replica_fn function,
                                            void *user_data,
                                            const struct umbo_value *batch,
                                            struct umbo_gradients *gradients,
                                            const struct umbo_equivalence_options *options,
                                            struct umbo_equivalence **equivalence);

/**
 * Whether an update and the metrics are the same on one replica and on all: 1 or 0.
 */
umbo_status umbo_equivalence_holds(const struct umbo_equivalence *equivalence, int32_t *holds);

/**
 * All that was found as text: a line that says whether the equivalence holds and for which parts of
 * the batch, then one for each finding that is not UMBO_EQUIVALENCE_EQUAL. Lives as long as `equivalence`.
 */
umbo_status umbo_equivalence_text(const struct umbo_equivalence *equivalence,
                                  const char **text);

/**
 * How many findings there are: what is wrong with the step as a whole, then one for each gradient
 * and each metric, also if it is the same.
 */
umbo_status umbo_equivalence_count(const struct umbo_equivalence *equivalence, int64_t *count);

/**
 * The finding at `index`. OUT_OF_RANGE if there is none.
 */
umbo_status umbo_equivalence_at(const struct umbo_equivalence *equivalence,
                                int64_t index,
                                struct umbo_equivalence_finding *finding);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
umbo_status umbo_equivalence_retain(const struct umbo_equivalence *equivalence,
                                    struct umbo_equivalence **retained);

/**
 * Releases a reference. NULL is fine.
 */
void umbo_equivalence_release(const struct umbo_equivalence *equivalence);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UMBO_UMBO_H */
