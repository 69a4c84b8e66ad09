/* Generated from src; do not edit. */
#ifndef UMBO_STRATEGY_H
#define UMBO_STRATEGY_H

/**
 * @file strategy.h
 * @brief Strategies, which run a step on several devices; runs, their limits, and batches.
 *
 * A strategy has a replica for each compute device, and one parameter device for its variables.
 * Objects that were made with it keep it. A *step* is a run with all that happens in it. If all
 * replicas return UMBO_OK, what it assigned becomes *central state* at once (the *commit point*);
 * else no variable changes.
 *
 * A thread is in *replica context* in the callback of a run, in *cross-replica context* in a merge
 * call, an update or a scope (expert.h), and in the *default context* elsewhere.
 *
 * Threads: getters and umbo_cancellation_cancel() are *concurrent*; runs, updates and
 * umbo_strategy_synchronize() *serialised*.
 *
 * Example:
 * ```c
 * static umbo_status step(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
 *                         umbo_value **result) {
 *   (void)ctx, (void)args, (void)user_data, (void)result;
 *   return UMBO_OK;
 * }
 * static umbo_status run(umbo_strategy *strategy, const umbo_value *batch) {
 *   return umbo_strategy_run(strategy, step, batch, NULL, NULL, NULL);
 * }
 * ```
 */

#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A thread that serves as a replica. The library fills it; later versions may append fields. */
typedef struct umbo_replica_thread {
  size_t struct_size;
  /** The local id of the replica. */
  int32_t replica_id;
  /** 1: the program's thread, which calls umbo_strategy_run(). 0: a thread of the library. */
  int32_t is_caller;
  /** The number of replicas in this process. */
  int64_t replica_count;
  /** The canonical name of the replica's device. Lives as long as the process. */
  const char *device;
  /** The number of elements of `processors`. */
  int64_t processor_count;
  /**
   * The numbers of the replica's processors, ascending: those of its device if threads are
   * bound; else, and for a GPU, all that this rank may use.
   */
  const int32_t *processors;
  /**
   * How many threads OpenMP, a BLAS and the like should use for this replica, so that all
   * replicas of this rank together use its processors once; 1 or more. Ranks that the launcher
   * has not bound share the machine.
   */
  int32_t computing_thread_count;
} umbo_replica_thread;

/**
 * Called on a thread that begins or ceases to serve as a replica.
 *
 * @param[in] thread The thread; valid until the function returns.
 */
typedef void (*umbo_replica_thread_fn)(const umbo_replica_thread *thread, void *user_data);

/** The options of a strategy. */
typedef struct umbo_strategy_options {
  size_t struct_size;
  /** The number of elements of `compute_devices`, at most 1024. */
  int64_t compute_device_count;
  /**
   * The names of the compute devices, all different. NULL: `cpu_replicas` decides; if that is 0,
   * all GPUs, or CPU:0 if there is none.
   */
  const char *const *compute_devices;
  /**
   * The number of compute devices CPU:0, CPU:1, ..., at most 1024. UMBO_AUTO: one for each
   * processor of this process (umbo_processor_count()); of several ranks on a machine each has
   * its share. 0: not given. Not together with `compute_devices`.
   */
  int64_t cpu_replicas;
  /**
   * The name of the device of the variables. NULL: the compute device if there is one, else
   * CPU:0.
   */
  const char *parameter_device;
  /**
   * The number of replicas of all ranks together, 1 to 1024: results are bit-identical for any
   * number of ranks and devices. At least one for each compute device of each rank; the same on
   * all ranks. Rank r of W has the ids from r * replicas_in_sync / W up to (r + 1) *
   * replicas_in_sync / W, exclusive. Replicas that share a device run one after the other, and
   * the thread of one may run the next; they may wait for each other in synchronising calls
   * only. 0: one replica for each compute device.
   */
  int64_t replicas_in_sync;
  /**
   * 1: each replica's thread runs on the processors of its device, as do threads that it starts
   * (OpenMP, BLAS), except while other programs keep them busy. The thread that calls
   * umbo_strategy_run() is not bound. 0: the operating system places the threads.
   */
  int32_t bind_threads;
  /**
   * The stack of each replica's thread in bytes, 262144 to 64 GiB. 0: what `ulimit -s` says, 2
   * MiB to 1 GiB; 8 MiB if that is unlimited.
   */
  size_t thread_stack_bytes;
  /**
   * Called once per thread before its first callback. Set the thread counts of OpenMP and BLAS
   * here. It must not start runs. It is called on each thread that calls umbo_strategy_run(),
   * too. Replicas call it at the same time. May be NULL.
   */
  umbo_replica_thread_fn replica_thread_start;
  /** Called on each thread of the library when it ends, with the strategy. May be NULL. */
  umbo_replica_thread_fn replica_thread_stop;
  /** Passed to both. */
  void *replica_thread_user_data;
  /**
   * Releases `replica_thread_user_data` once, when the strategy, its copies and their threads
   * have ended, or if the strategy cannot be created. May be NULL.
   */
  umbo_destroy_fn replica_thread_user_data_destroy;
  /**
   * Joins ranks, whose replicas run in sync (cluster.h). The strategy keeps it. NULL: this
   * process is alone.
   */
  const umbo_communicator *communicator;
  /**
   * 1: look for mistakes of callbacks that are not noticed without it (writes outside of buffers
   * or to variables, elements that were not written, views that are used too late). They fail
   * with UMBO_STATUS_FAILED_PRECONDITION and a message that begins with "strict mode", and
   * warnings become errors, except those about the machine. Runs take longer. The environment
   * variable UMBO_STRICT=1 makes all strategies strict.
   */
  int32_t strict;
  /**
   * The steps between two comparisons of the ranks' umbo_strategy_fingerprint(). If these
   * differ, the next run fails on all with UMBO_STATUS_DATA_LOSS. 0: never.
   */
  int64_t fingerprint_interval;
  /**
   * 1: every rank keeps all state of optimizers, so that ranks can die, leave and join: each can
   * call umbo_checkpoint_save_to_memory() for itself, also after a failure of the communicator,
   * and umbo_checkpoint_restore_from_ranks() on other ranks. Updates must be a part of the step
   * whose gradients they take. 0: ranks divide the state. The same on all ranks.
   */
  int32_t elastic;
} umbo_strategy_options;

#define umbo_strategy_options_defaults \
  UMBO_STRUCT_SIZE(umbo_strategy_options), 0, NULL, 0, NULL, 0, 1, 0, NULL, NULL, NULL, NULL, \
    NULL, 0, 0, 0
#define UMBO_STRATEGY_OPTIONS_INIT { umbo_strategy_options_defaults }

/**
 * Creates a strategy.
 *
 * @param[in] options May be NULL: one replica on each GPU, or on CPU:0 if there is none.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: a device named twice, or an option out of range.
 * - UMBO_STATUS_NOT_FOUND: no such device.
 * - UMBO_STATUS_UNAVAILABLE: a GPU that cannot be used.
 * - UMBO_STATUS_FAILED_PRECONDITION: the ranks disagree about `replicas_in_sync` or `elastic`.
 *
 * Device names may be "CPU:1", "/cpu:1", "/device:CPU:1" or
 * "/job:localhost/replica:0/task:0/device:CPU:1". It starts a thread for each replica but the
 * first, which runs on the thread that calls umbo_strategy_run(). Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_create(
    const umbo_strategy_options *options, umbo_strategy **strategy);

/**
 * Gets the name of the compute device of a replica.
 *
 * @param[in] replica_id A local id: 0 to `local_replica_count` of umbo_strategy_info less one.
 * @param[out] name The canonical name. Lives as long as the process.
 * @return UMBO_STATUS_OUT_OF_RANGE: no such replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_compute_device(
    const umbo_strategy *strategy, int32_t replica_id, const char **name);

/**
 * Waits, without limit, until all late callbacks have returned and all runs of other threads have
 * ended.
 *
 * @return UMBO_STATUS_FAILED_PRECONDITION: the call comes from a callback of the strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_synchronize(umbo_strategy *strategy);

/** Makes another handle to the same strategy: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_strategy_retain(
    const umbo_strategy *strategy, umbo_strategy **retained) {
  return umbo_retain(strategy, UMBO_HANDLE_STRATEGY, retained);
}

/**
 * Releases a handle: umbo_release().
 *
 * With the last one, the threads of the replicas end before it returns, except those of late
 * callbacks, which end when these return.
 */
static inline void umbo_strategy_release(const umbo_strategy *strategy) {
  umbo_release(strategy, UMBO_HANDLE_STRATEGY);
}

/**
 * Creates a strategy with this many replicas on the processors: umbo_strategy_create().
 *
 * @param[in] cpu_replicas 1 or more; UMBO_AUTO: one for each processor of this process. 0: as
 *   without options.
 */
UMBO_MUST_USE static inline umbo_status umbo_strategy_create_cpu(
    int64_t cpu_replicas, umbo_strategy **strategy);

/** A strategy's replicas, devices and state. */
typedef struct umbo_strategy_info {
  size_t struct_size;
  /**
   * A number that no other strategy of this process has: two handles with the same are of one
   * strategy. 0 is the default strategy.
   */
  uint64_t id;
  /** The number of replicas of all ranks together, over which gradients are combined; 1 or more. */
  int64_t replica_count;
  /** The number of replicas in this process; 1 or more. */
  int64_t local_replica_count;
  /**
   * The number of different compute devices in this process. With `replicas_in_sync` there may
   * be more replicas, which are dealt out to the devices in turn.
   */
  int64_t compute_device_count;
  /**
   * The number of variables of the strategy that are in use, which umbo_strategy_variable()
   * gets. 0 for the default strategy, which keeps no list.
   */
  int64_t variable_count;
  /**
   * The number of replicas that are still in the callback of a run that was stopped. Meanwhile
   * the strategy is *draining*: values can be read; runs, assignments and applies return
   * UMBO_STATUS_FAILED_PRECONDITION.
   */
  int64_t late_replica_count;
  /** The rank of this process, from 0. */
  int64_t rank;
  /** The number of ranks, 1 or more. */
  int64_t rank_count;
  /** The canonical name of the device of the variables. Lives as long as the process. */
  const char *parameter_device;
  /** The stack of the replicas' threads in bytes, before it is rounded up to whole pages. */
  size_t thread_stack_bytes;
  /** 1 if the replicas' threads are bound to processors. */
  int32_t bind_threads;
  /** 1 if the strategy is strict, by its options or by UMBO_STRICT. */
  int32_t strict;
} umbo_strategy_info;

#define UMBO_STRATEGY_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_strategy_info), 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0 }

/** Gets a strategy's replicas, devices and state. */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_get_info(
    const umbo_strategy *strategy, umbo_strategy_info *info);

/**
 * A training step: called on each replica.
 *
 * @param[in] ctx The replica's context, lent for the call.
 * @param[in] args The run's arguments, lent for the call, with this replica's component in place
 *   of each per-replica value. NULL if there are none.
 * @param[in] user_data The same on all replicas.
 * @param[out] result NULL on entry. The library takes over a value that is stored there.
 * @return Any status but UMBO_OK fails the run.
 *
 * The replicas run at the same time and may wait for each other. Until its call returns, each has
 * a thread to itself; replica 0 runs on the thread that called, unless the run has a deadline or a
 * token. A replica without examples runs, too.
 */
typedef umbo_status (*umbo_replica_fn)(
    umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result);

/** The limits of a run. */
typedef struct umbo_run_options {
  size_t struct_size;
  /**
   * The time limit, 0 or more. After it the run returns UMBO_STATUS_DEADLINE_EXCEEDED. With
   * several ranks it limits the callbacks of this rank and not the wait for the others, which
   * the communicator's own time limit ends.
   */
  double timeout_seconds;
  /** A token: once it is cancelled, the run returns UMBO_STATUS_CANCELLED. May be NULL. */
  const umbo_cancellation *cancellation;
  /**
   * Releases `user_data` once, on any thread, when the last callback has returned (which can be
   * after the run), or if the run cannot start. May be NULL.
   */
  umbo_destroy_fn user_data_destroy;
} umbo_run_options;

#define umbo_run_options_defaults UMBO_STRUCT_SIZE(umbo_run_options), UMBO_INFINITE, NULL, NULL
#define UMBO_RUN_OPTIONS_INIT { umbo_run_options_defaults }

/**
 * Calls a function on all replicas at the same time and waits for them.
 *
 * @param[in] args A value: a tuple or a struct for several arguments. Each per-replica value in it
 *   has a component for each replica. May be NULL.
 * @param[in] options May be NULL: no limits.
 * @param[out] result The merged results; NULL if no replica returned a value. `result` may be
 *   NULL, which discards them.
 * @return The status of the first replica whose callback failed by itself (the last error lists
 *   all), or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an option out of range, a per-replica value with another number
 *   of components, a result from some replicas only, or limits inside a merge call.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback or from another
 *   strategy's scope, the strategy is draining, the replicas made different synchronising calls,
 *   or ranks have read different data (UMBO_SHARDING_DATA).
 * - UMBO_STATUS_DEADLINE_EXCEEDED: the time limit is over, or a rank was waited for too long.
 * - UMBO_STATUS_CANCELLED: the token is cancelled.
 *
 * Results are merged leaf by leaf: a tensor that all replicas returned is that tensor; other
 * leaves become per-replica values. With one replica nothing is wrapped.
 *
 * If all callbacks succeed, assignments and applies of the step take effect; else none does. If
 * one fails, replicas in a synchronising call get UMBO_STATUS_CANCELLED there, and others run to
 * their end, or until they see umbo_replica_context_is_cancelled().
 *
 * With limits each replica has a thread of its own, and the calling thread watches. A run that is
 * stopped returns, and changes no variable. Callbacks that have not returned are late
 * (`late_replica_count` of umbo_strategy_info) and must not use what the caller has released.
 *
 * Runs of one strategy happen one at a time, in the order of the calls. A run inside a merge call
 * is a part of the step around it. A callback must not wait for a thread that runs or assigns on
 * the same strategy: they would deadlock. A thread that has waited for 10 seconds logs what it
 * waits for. Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_run(
    umbo_strategy *strategy, umbo_replica_fn function, const umbo_value *args, void *user_data,
    const umbo_run_options *options, umbo_value **result);

/** Creates a token with which any thread can stop runs (see umbo_run_options). */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_create(umbo_cancellation **cancellation);

/**
 * Stops all runs that have a token, and later ones, with UMBO_STATUS_CANCELLED. It does not wait
 * for them, and callbacks may call it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_cancel(umbo_cancellation *cancellation);

/** Makes another handle to the same cancellation: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_cancellation_retain(
    const umbo_cancellation *cancellation, umbo_cancellation **retained) {
  return umbo_retain(cancellation, UMBO_HANDLE_CANCELLATION, retained);
}

/**
 * Releases a handle: umbo_release().
 *
 * Runs that have the token keep it until they end.
 */
static inline void umbo_cancellation_release(const umbo_cancellation *cancellation) {
  umbo_release(cancellation, UMBO_HANDLE_CANCELLATION);
}

/**
 * Splits a global batch over the replicas.
 *
 * @param[in] value A tensor or a nest of tensors; each is split along dimension 0, by its own
 *   number of rows.
 * @param[out] per_replica The nest with per-replica values; with tensors if this process has one
 *   replica.
 * @return UMBO_STATUS_INVALID_ARGUMENT: a leaf that is not a tensor, or a scalar for several
 *   replicas.
 *
 * Rows are split as umbo_strategy_distribute_dataset() splits them by default (UMBO_SPLIT_CEIL).
 * The parts are views of the batch, which must not be written while they are in use, and know how
 * many examples they hold; those of replicas on GPUs are copies that this call makes. With several
 * ranks the batch is the same on all, and each takes the parts of its replicas; a rank that has a
 * batch of its own uses umbo_strategy_values_from_function().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_split(
    const umbo_strategy *strategy, const umbo_value *value, umbo_value **per_replica);

/**
 * Splits a batch in arrays of the program over the replicas, without a copy on processors.
 *
 * @param[in] count How many arrays there are, 1 or more.
 * @param[in] names A name for each array, all different: the batch is a struct. `names` may be
 *   NULL: the batch is a tuple or, of a single array, a tensor.
 * @param[in] views The arrays, all with the same size of dimension 0. umbo_view_of_memory() makes
 *   the view of an array. They stay where they are until the batch and what was taken out of it
 *   are released.
 * @param[out] per_replica As of umbo_strategy_split().
 *
 * A program that fills the same arrays again for each batch splits them once: between two runs it
 * may write them, and replicas then see the new elements. Replicas on GPUs do not, since their
 * parts are copies: with GPUs it splits each batch.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_split_arrays(
    const umbo_strategy *strategy, int64_t count, const char *const *names, const umbo_view *views,
    umbo_value **per_replica);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include <umbo/inline/strategy.h>

#endif
