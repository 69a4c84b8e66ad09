/* Generated from src/ffi; do not edit. */
#ifndef UMBO_STRATEGY_H
#define UMBO_STRATEGY_H

/**
 * @file strategy.h
 * @brief Strategies: how a step is replicated over devices; scopes, runs, cancelling, updates.
 *
 * A strategy has one replica for each of its compute devices, and a device that holds its
 * variables. The caller releases it; variables, datasets and optimizers that were made with it keep
 * it. A step is a run with all that happens in it: what it assigns becomes central state when all
 * replicas have returned UMBO_OK, all of it at once, or not at all.
 *
 * Threads: functions that only ask are *concurrent*. Runs, updates and umbo_strategy_synchronize()
 * are *serialised*: one step of a strategy at a time, in the order of asking. A callback that runs
 * on replicas is called by several threads at once. Scopes belong to the thread that entered them.
 * umbo_cancellation_cancel() is *concurrent*.
 *
 * Functions:
 * - umbo_strategy_create(): Makes a strategy that keeps every variable on one parameter device and
 *   replicates callbacks over the compute devices.
 * - umbo_default_strategy(): The default strategy, which is current where no other one is: one
 *   replica on CPU:0.
 * - umbo_strategy_num_replicas_in_sync(): How many replicas run in sync: gradients are aggregated
 *   over this many.
 * - umbo_strategy_compute_device(): The canonical name of the compute device of `replica`.
 * - umbo_strategy_parameter_device(): The canonical name of the device that holds the variables.
 * - umbo_strategy_thread_binding(): Whether replica threads are bound to the processors of their
 *   devices.
 * - umbo_strategy_thread_stack_bytes(): The size of the stack of each replica's thread, in bytes.
 * - umbo_strategy_same(): Whether two handles are of the same strategy: 1 or 0.
 * - umbo_strategy_created_variable(): Whether the variable was made in the scope of this very
 *   strategy: 1 or 0.
 * - umbo_strategy_late_replicas(): How many replicas have not come back from the callback of a run
 *   that ended without them, by deadline or cancellation.
 * - umbo_strategy_synchronize(): Waits until all work of the strategy is done: late callbacks have
 *   come back, and runs of other threads that were under way have ended.
 * - umbo_strategy_metric(): What the replicas added with umbo_replica_context_add_metric() in the
 *   last run that succeeded.
 * - umbo_strategy_retain(): Another handle to the same object, to be released like the first; also
 *   of what a callback was only lent, which then stays.
 * - umbo_strategy_release(): Releases a reference.
 * - umbo_strategy_scope(): Calls `function` once, on this thread, in the strategy's scope: the
 *   strategy is current and the context is cross-replica context.
 * - umbo_scope_enter(): Makes the strategy current for this thread, in cross-replica context,
 *   until umbo_scope_exit().
 * - umbo_scope_exit(): Leaves a scope, of a strategy or of a variable creator, and releases its
 *   handle.
 * - umbo_set_strategy(): Makes `strategy` current for this thread where no scope is open, until
 *   the next call; NULL clears, and so does the default strategy.
 * - umbo_has_strategy(): Whether this thread is in the scope or a run of a strategy other than the
 *   default one: 1 or 0.
 * - umbo_in_cross_replica_context(): Whether this thread speaks for all replicas: in a scope, in a
 *   merge call, in an update.
 * - umbo_current_strategy(): The current strategy; the default one where no other is current.
 * - umbo_current_replica_context(): The context of the replica whose callback this thread runs; in
 *   the default context that of replica 0 of 1 of the default strategy; NULL in cross-replica
 *   context.
 * - umbo_strategy_run(): Runs `function` once on each replica, concurrently, and waits until all
 *   have returned.
 * - umbo_cancellation_create(): Makes a token with which any thread can stop runs, each of them or
 *   several.
 * - umbo_cancellation_cancel(): Stops the runs that have this token, now and later: they return
 *   CANCELLED.
 * - umbo_cancellation_is_cancelled(): Whether umbo_cancellation_cancel() was called: 1 or 0.
 * - umbo_cancellation_retain(): Another handle to the same object, to be released like the first;
 *   also of what a callback was only lent, which then stays.
 * - umbo_cancellation_release(): Releases a reference.
 * - umbo_strategy_update(): Calls `function` once with the variable, on this thread, in
 *   cross-replica context.
 * - umbo_strategy_values_from_function(): Calls `function` once for each replica, in order, on
 *   this thread and in this thread's context, and makes a per-replica value of the results.
 *
 * Example:
 * ```c
 * // Runs on each replica; `args` is its part of the run's arguments.
 * static umbo_status nothing(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
 *                            umbo_value **result) {
 *   (void)ctx, (void)args, (void)user_data, (void)result;
 *   return UMBO_OK;
 * }
 *
 * static umbo_status run_on_two_replicas(void) {
 *   umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
 *   umbo_strategy *strategy = NULL;
 *   umbo_status status;
 *   options.cpu_replicas = 2;
 *   UMBO_TRY(umbo_strategy_create(&options, &strategy));
 *   status = umbo_strategy_run(strategy, nothing, NULL, NULL, NULL, NULL);
 *   umbo_strategy_release(strategy);
 *   return status;
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif


/** Whether replica threads are bound to the processors of their devices. */
UMBO_ENUM(umbo_thread_binding) {
  /**
   * Each replica's thread runs on the processors of its device, and what it starts (OpenMP, BLAS)
   * inherits them. The thread that calls umbo_strategy_run(), which runs replica 0, is left alone.
   */
  UMBO_THREAD_BINDING_ON = 0,
  /** Threads run where the operating system puts them. */
  UMBO_THREAD_BINDING_OFF = 1
};

/** How a central storage strategy is set up. Start from UMBO_STRATEGY_OPTIONS_INIT. */
typedef struct umbo_strategy_options {
  /** sizeof(umbo_strategy_options). */
  size_t struct_size;
  /**
   * Names of the compute devices, one replica each, all different. NULL: `cpu_replicas`
   * decides; if that is 0 too, CPU:0. (This version computes on CPU devices.)
   */
  const char *const *compute_devices;
  /** How many names there are. */
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
  /** UMBO_THREAD_BINDING_ON or UMBO_THREAD_BINDING_OFF. */
  umbo_thread_binding thread_binding;
  /**
   * What umbo_strategy_cluster_resolver() is to give. NULL: none. The strategy keeps a reference.
   */
  const umbo_cluster_resolver *cluster_resolver;
  /**
   * The size of the stack of each replica's thread, in bytes: 65536 (64 KiB) or more. 0: the size
   * of the stack of the thread that makes the strategy (for the process's first thread what
   * `ulimit -s` says, 8 MiB if that is unlimited), at least 2 MiB. Replica 0 usually runs on the
   * stack of the thread that calls. Below each stack 16 MiB of address space are closed, so that
   * an array that does not fit ends the process with SIGSEGV.
   */
  size_t thread_stack_bytes;
} umbo_strategy_options;

/** The starting value of a umbo_strategy_options. */
#define UMBO_STRATEGY_OPTIONS_INIT \
  { sizeof(umbo_strategy_options), NULL, 0, 0, NULL, UMBO_THREAD_BINDING_ON, NULL, 0 }

/** UMBO_STRATEGY_OPTIONS_INIT, to be assigned. */
static inline umbo_strategy_options umbo_strategy_options_default(void) {
  umbo_strategy_options value = UMBO_STRATEGY_OPTIONS_INIT;
  return value;
}

/**
 * A metric over all replicas. Start from UMBO_METRIC_INIT. Metrics of several steps are merged by
 * adding sums and weights.
 */
typedef struct umbo_metric {
  /** sizeof(umbo_metric). */
  size_t struct_size;
  /** The sum that the replicas added up to, in replica order. */
  double sum;
  /** The sum of the weights. */
  double weight;
  /** sum / weight; NaN if the weight is 0. */
  double mean;
} umbo_metric;

/** The starting value of a umbo_metric. */
#define UMBO_METRIC_INIT { sizeof(umbo_metric), 0.0, 0.0, 0.0 }

/** UMBO_METRIC_INIT, to be assigned. */
static inline umbo_metric umbo_metric_default(void) {
  umbo_metric value = UMBO_METRIC_INIT;
  return value;
}

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
 * The strategy is of use in this process. In the child of a fork its values can be read and it can
 * be released; runs, assignments, making variables and umbo_strategy_synchronize() are
 * FAILED_PRECONDITION there.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_create(
    const umbo_strategy_options *options, umbo_strategy **strategy);

/**
 * The default strategy, which is current where no other one is: one replica on CPU:0. It cannot
 * be copied and never ends; the handle is released like any other.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_default_strategy(umbo_strategy **strategy);

/** How many replicas run in sync: gradients are aggregated over this many. */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_num_replicas_in_sync(
    const umbo_strategy *strategy, int64_t *count);

/** The canonical name of the compute device of `replica`. Lives as long as the process. */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_compute_device(
    const umbo_strategy *strategy, int32_t replica, const char **name);

/** The canonical name of the device that holds the variables. Lives as long as the process. */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_parameter_device(
    const umbo_strategy *strategy, const char **name);

/**
 * Whether replica threads are bound to the processors of their devices.
 *
 * @param strategy The strategy.
 * @param thread_binding Gets what it was made with.
 * @return UMBO_OK.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_thread_binding(
    const umbo_strategy *strategy, umbo_thread_binding *thread_binding);

/**
 * The size of the stack of each replica's thread, in bytes.
 *
 * @param strategy The strategy.
 * @param bytes Gets what it was made with, or where that was 0 the size that was chosen. Threads
 * get whole pages.
 * @return UMBO_OK.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_thread_stack_bytes(
    const umbo_strategy *strategy, size_t *bytes);

/** Whether two handles are of the same strategy: 1 or 0. */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_same(
    const umbo_strategy *a, const umbo_strategy *b, int32_t *same);

/** Whether the variable was made in the scope of this very strategy: 1 or 0. */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_created_variable(
    const umbo_strategy *strategy, const umbo_variable *variable, int32_t *result);

/**
 * How many replicas have not come back from the callback of a run that ended without them, by
 * deadline or cancellation. While there are any the strategy is draining: values can be read;
 * runs, assignments and applies give FAILED_PRECONDITION and name the replicas.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_late_replicas(
    const umbo_strategy *strategy, int64_t *count);

/**
 * Waits until all work of the strategy is done: late callbacks have come back, and runs of other
 * threads that were under way have ended. FAILED_PRECONDITION in a callback of the strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_synchronize(umbo_strategy *strategy);

/**
 * What the replicas added with umbo_replica_context_add_metric() in the last run that succeeded.
 * NOT_FOUND, with the names that there are, if none of them added a metric of this name.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_metric(
    const umbo_strategy *strategy, const char *name, umbo_metric *metric);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_retain(
    const umbo_strategy *strategy, umbo_strategy **retained);

/**
 * Releases a reference. With the last one, and no run under way, the replica threads end before
 * this returns; a thread whose callback is late is left to come back on its own. NULL is fine.
 */
UMBO_API void umbo_strategy_release(const umbo_strategy *strategy);

/** What runs in a scope. `strategy` is the one whose scope it is. */
typedef umbo_status (*umbo_scope_fn)(umbo_strategy *strategy, void *user_data);

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
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_scope(
    umbo_strategy *strategy, umbo_scope_fn function, void *user_data);

/**
 * Makes the strategy current for this thread, in cross-replica context, until
 * umbo_scope_exit(). Errors as for umbo_strategy_scope().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_scope_enter(umbo_strategy *strategy, umbo_scope **scope);

/**
 * Leaves a scope, of a strategy or of a variable creator, and releases its handle.
 *
 * FAILED_PRECONDITION if it is not the innermost scope that this thread has open, or was entered by
 * another thread: then it stays open and its handle valid. NOT_FOUND if the end of the callback
 * that entered it has left it already: then the handle is released.
 *
 * What the scope kept is released last: the `destroy` of a variable creator finds the scope left
 * and its handle stale.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_scope_exit(umbo_scope *scope);

/**
 * Makes `strategy` current for this thread where no scope is open, until the next call; NULL
 * clears, and so does the default strategy. The thread keeps a reference to it. FAILED_PRECONDITION
 * inside of scopes and runs.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_strategy(umbo_strategy *strategy);

/**
 * Whether this thread is in the scope or a run of a strategy other than the default one: 1 or 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_has_strategy(int32_t *result);

/**
 * Whether this thread speaks for all replicas: in a scope, in a merge call, in an update. 1 or 0.
 * Exactly one of this and "there is a replica context" is true.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_in_cross_replica_context(int32_t *result);

/**
 * The current strategy; the default one where no other is current. A new handle, to be released.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_current_strategy(umbo_strategy **strategy);

/**
 * The context of the replica whose callback this thread runs; in the default context that of
 * replica 0 of 1 of the default strategy; NULL in cross-replica context. Borrowed: it is of use
 * on this thread and until the callback returns.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_current_replica_context(umbo_replica_context **context);

/** A timeout that never comes. */
#define UMBO_NO_TIMEOUT (-1.0)

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
typedef umbo_status (*umbo_replica_fn)(
    umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result);

/** How a run is done. Start from UMBO_RUN_OPTIONS_INIT. */
typedef struct umbo_run_options {
  /** sizeof(umbo_run_options). */
  size_t struct_size;
  /**
   * The run returns after this many seconds at the latest, with DEADLINE_EXCEEDED; 0: at once.
   * UMBO_NO_TIMEOUT, the default: it takes as long as it takes.
   */
  double timeout_seconds;
  /** The run returns, with CANCELLED, when this token is cancelled. NULL: no token. */
  const umbo_cancellation *cancellation;
  /**
   * Releases `user_data`, exactly once, when the last callback is back, which may be after the
   * run has returned, on another thread; also if the run could not start. May be NULL.
   */
  umbo_destroy_fn user_data_destroy;
} umbo_run_options;

/** The starting value of a umbo_run_options. */
#define UMBO_RUN_OPTIONS_INIT { sizeof(umbo_run_options), UMBO_NO_TIMEOUT, NULL, NULL }

/** UMBO_RUN_OPTIONS_INIT, to be assigned. */
static inline umbo_run_options umbo_run_options_default(void) {
  umbo_run_options value = UMBO_RUN_OPTIONS_INIT;
  return value;
}

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
 * are late: see umbo_strategy_late_replicas(). They must not use what the caller has released. One
 * that has not begun by then is not called.
 *
 * Runs of one strategy, from whichever thread, are taken in the order of asking, one at a time.
 * Inside of a merge call a run is part of the step around it: it ends with that one's deadline or
 * token, and what it assigns is committed with that step.
 *
 * A callback must not wait for a thread that runs or assigns on the same strategy: that thread
 * waits for the step, and the step for the thread, for ever. The library cannot tell this from a
 * step that takes long, but a thread that has waited 10 seconds for another one's step says so in
 * the log, with the step and its thread.
 *
 * FAILED_PRECONDITION in a replica's callback, in another strategy's scope, and while the
 * strategy is draining.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_run(
    umbo_strategy *strategy, umbo_replica_fn function, void *user_data, const umbo_value *args,
    const umbo_run_options *options, umbo_value **result);

/** Makes a token with which any thread can stop runs, each of them or several. */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_create(umbo_cancellation **cancellation);

/**
 * Stops the runs that have this token, now and later: they return CANCELLED. Does not wait, and
 * cannot be undone. Any thread may call it, a callback too.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_cancel(umbo_cancellation *cancellation);

/** Whether umbo_cancellation_cancel() was called: 1 or 0. */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_is_cancelled(
    const umbo_cancellation *cancellation, int32_t *result);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_retain(
    const umbo_cancellation *cancellation, umbo_cancellation **retained);

/** Releases a reference. Runs that have the token keep it until they end. NULL is fine. */
UMBO_API void umbo_cancellation_release(const umbo_cancellation *cancellation);

/**
 * What runs in an update, once, in cross-replica context. `variable` and `args` are borrowed for
 * the call; of per-replica values in the arguments it gets the first component. `*result` is NULL
 * on entry; a value stored there is taken over by the library.
 */
typedef umbo_status (*umbo_update_fn)(
    umbo_variable *variable, const umbo_value *args, void *user_data, umbo_value **result);

/** How the result of an update comes back. */
UMBO_ENUM(umbo_update_grouping) {
  /** As the function stored it. */
  UMBO_UPDATE_GROUPED = 0,
  /**
   * Each leaf of it as a tuple of one item: one for each device that holds a copy of the variable.
   */
  UMBO_UPDATE_UNGROUPED = 1
};

/** How an update is done. Start from UMBO_UPDATE_OPTIONS_INIT. */
typedef struct umbo_update_options {
  /** sizeof(umbo_update_options). */
  size_t struct_size;
  /** UMBO_UPDATE_GROUPED or UMBO_UPDATE_UNGROUPED. */
  umbo_update_grouping grouping;
} umbo_update_options;

/** The starting value of a umbo_update_options. */
#define UMBO_UPDATE_OPTIONS_INIT { sizeof(umbo_update_options), UMBO_UPDATE_GROUPED }

/** UMBO_UPDATE_OPTIONS_INIT, to be assigned. */
static inline umbo_update_options umbo_update_options_default(void) {
  umbo_update_options value = UMBO_UPDATE_OPTIONS_INIT;
  return value;
}

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
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_update(
    umbo_strategy *strategy, umbo_variable *variable, umbo_update_fn function, void *user_data,
    const umbo_value *args, const umbo_update_options *options, umbo_value **result);

/** For which replica a value is made. */
typedef struct umbo_value_context {
  /** sizeof(umbo_value_context). */
  size_t struct_size;
  /** The replica's id. */
  int32_t replica_id_in_sync_group;
  /** How many replicas run in sync. */
  int64_t num_replicas_in_sync;
} umbo_value_context;

/** The starting value of a umbo_value_context. */
#define UMBO_VALUE_CONTEXT_INIT { sizeof(umbo_value_context), 0, 0 }

/** UMBO_VALUE_CONTEXT_INIT, to be assigned. */
static inline umbo_value_context umbo_value_context_default(void) {
  umbo_value_context value = UMBO_VALUE_CONTEXT_INIT;
  return value;
}

/**
 * Makes the value of one replica. `context` lives as long as the call. `*value` is NULL on entry;
 * the value stored there, which must be one, is taken over by the library.
 */
typedef umbo_status (*umbo_value_fn)(
    const umbo_value_context *context, void *user_data, umbo_value **value);

/**
 * Calls `function` once for each replica, in order, on this thread and in this thread's context,
 * and makes a per-replica value of the results. Structures are merged leaf by leaf
 * (INVALID_ARGUMENT if they differ); shapes and dtypes may differ. Leaves are always wrapped, even
 * the very same tensor, and also with one replica; the default strategy wraps nothing. Components
 * stay on the device they were made on. In every context.
 *
 * If `function` fails, so does this, with its status.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_values_from_function(
    umbo_strategy *strategy, umbo_value_fn function, void *user_data, umbo_value **result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
