/* Generated from src/ffi; do not edit. */
#ifndef UMBO_STRATEGY_H
#define UMBO_STRATEGY_H

/**
 * @file strategy.h
 * @brief Strategies: how a step runs on several devices; scopes, runs, cancelling, updates.
 *
 * A strategy has one replica for each of its compute devices, or as many as `replicas_in_sync`
 * says, and one device that holds its variables. The caller releases it. Variables, datasets and
 * optimizers that were made with it keep it.
 *
 * A *step* is a run with everything that happens in it. When all replicas have returned UMBO_OK,
 * everything that the step has assigned becomes *central state* at once: from then on all readers
 * see it. This is the *commit point*. If a replica fails, the step changes none of the strategy's
 * variables.
 *
 * A thread is in one of three contexts:
 * - the *default context*: no scope is open, and the default strategy is current;
 * - *cross-replica context*, in scopes, merge calls, updates and after umbo_set_strategy(): it acts
 *   for all replicas;
 * - *replica context*, in the callback of a run: it acts for one replica.
 *
 * Threads: functions that only ask are *concurrent*. Runs, updates and umbo_strategy_synchronize()
 * are *serialised*: one step of a strategy at a time, in the order of asking. The callback of a run
 * is called by several threads at once. A scope belongs to the thread that entered it.
 * umbo_cancellation_cancel() is *concurrent*.
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


/**
 * A thread that serves as a replica. It is filled by the library; later versions may add fields at
 * the end.
 */
typedef struct umbo_replica_thread {
  size_t struct_size;
  /** The replica's id. */
  int32_t replica;
  /**
   * 1: a thread of the program's, from which it calls umbo_strategy_run(). 0: one of the library's.
   */
  int32_t is_callers;
  /** How many replicas the strategy has. */
  int64_t replica_count;
  /** The canonical name of the replica's device. Lives as long as the process. */
  const char *device;
  /**
   * The numbers of the processors that are this replica's, ascending: those of its device if
   * threads are bound, else (and for a GPU, which has none) all that this rank may use.
   */
  const int32_t *processors;
  /** How many there are. */
  int64_t processor_count;
  /**
   * With how many threads to compute for this replica, so that all replicas of this rank together
   * have no more than it may use processors; 1 or more. This is what OpenMP, a BLAS and the like
   * should be set to. A rank that the launcher has bound uses the processors that it is bound to;
   * ranks that may use the whole machine divide it among themselves. Other processes of the machine
   * do not count.
   */
  int32_t computing_threads;
} umbo_replica_thread;

/**
 * A thread begins or ceases to serve as a replica. Called on that thread.
 *
 * @param[in] thread The thread. The struct and what it points to live until the function returns.
 * @param[in] user_data What the options of the strategy give.
 */
typedef void (*umbo_replica_thread_fn)(const umbo_replica_thread *thread, void *user_data);

/** Whether the threads of replicas stay on the processors of their devices. */
UMBO_ENUM(umbo_thread_binding) {
  /**
   * Each replica's thread runs on the processors of its device. Threads that it starts (OpenMP,
   * BLAS) inherit this. The thread that calls umbo_strategy_run(), which runs replica 0, is not
   * bound. While other programs keep its processors busy, a replica's thread runs on any processor
   * of the process.
   */
  UMBO_THREAD_BINDING_ON = 0,
  /** The operating system places the threads. */
  UMBO_THREAD_BINDING_OFF = 1
};

/** The settings of a new strategy. Start from UMBO_STRATEGY_OPTIONS_INIT. */
typedef struct umbo_strategy_options {
  size_t struct_size;
  /**
   * An array of `compute_device_count` device names, all different; at most 1024. There is one
   * replica for each unless `replicas_in_sync` says otherwise. NULL: `cpu_replicas` decides; if
   * that is 0 too, they are all GPUs, or CPU:0 if the process has no GPU.
   */
  const char *const *compute_devices;
  /** The number of names in `compute_devices`. */
  int64_t compute_device_count;
  /**
   * The number of compute devices CPU:0, CPU:1 and so on, and of replicas unless `replicas_in_sync`
   * says otherwise; at most 1024. The CPU is split into at least as many logical devices. 0, the
   * default: not given. Cannot be combined with `compute_devices`.
   */
  int64_t cpu_replicas;
  /**
   * The name of the device that holds the variables. NULL: the compute device if there is
   * exactly one, else CPU:0.
   */
  const char *parameter_device;
  /** UMBO_THREAD_BINDING_ON, the default, or UMBO_THREAD_BINDING_OFF. */
  umbo_thread_binding thread_binding;
  /**
   * What umbo_strategy_cluster_resolver() gives. NULL: nothing. The strategy keeps a reference
   * of its own.
   */
  const umbo_cluster_resolver *cluster_resolver;
  /**
   * The size of the stack of each replica's thread, in bytes: 262144 (256 KiB) to 64 GiB. 0, the
   * default: what `ulimit -s` says, but at least 2 MiB and at most 1 GiB; 8 MiB if it is unlimited.
   * Replica 0 usually runs on the stack of the thread that calls.
   */
  size_t thread_stack_bytes;
  /**
   * Called on each thread when it serves as a replica of this strategy for the first time, just
   * before the callback and as a part of it, so that no run can begin in it: the place to say how
   * many threads OpenMP, a BLAS and the like may use from here. Replica 0 usually runs on whatever
   * thread calls umbo_strategy_run(), so the function is called on each such thread, and a thread
   * that serves several strategies is told by each. Replicas call at the same time. NULL: nothing
   * is called.
   */
  umbo_replica_thread_fn replica_thread_start;
  /**
   * Called on each thread of the library's own that has served as a replica, when it ends, which is
   * when the strategy goes. A thread of the program's goes on, and gets no such call. NULL: nothing
   * is called.
   */
  umbo_replica_thread_fn replica_thread_stop;
  /** Passed to both. */
  void *replica_thread_user_data;
  /**
   * Releases `replica_thread_user_data`, exactly once, when the strategy, its copies and their
   * threads are gone; also if the strategy cannot be made. NULL: nothing is released.
   */
  umbo_destroy_fn replica_thread_user_data_destroy;
  /**
   * Joins this process to others, the ranks, whose replicas run in sync with its own. All ranks
   * make their strategies together, as they do everything: see umbo/communicator.h. The strategy
   * keeps its own reference. NULL: this process is alone.
   */
  const umbo_communicator *communicator;
  /**
   * 1: the strategy is strict. It looks for mistakes of callbacks that otherwise go unnoticed
   * (writes beside gradient buffers, scratch memory and new tensors, elements that were not
   * written, views that are used when they are valid no more, writes to variables), and what the
   * log is otherwise warned of is a failure of the call, but for what tells of the machine and not
   * of the program. Runs take longer. 0, the default: it is not, unless the
   * environment variable UMBO_STRICT is 1, which makes every strategy of the process strict.
   */
  int32_t strict;
  /**
   * After how many steps, again and again, the ranks compare their weights, as
   * umbo_strategy_fingerprint() hashes them. If they differ, the run that would come next fails on
   * all ranks with UMBO_STATUS_DATA_LOSS. 0: never.
   */
  int64_t fingerprint_interval;
  /**
   * How many replicas run in sync, those of all ranks together, whatever the number of ranks and of
   * compute devices, so that results have the same bits for all of these: 1 to 1024, at least one
   * for each compute device of each rank, and the same number on all ranks. Rank r of W has those
   * with the ids from r * replicas_in_sync / W up to, and without, (r + 1) * replicas_in_sync / W.
   * Replicas that share a device run one after the other, each on a thread of its own, and let each
   * other have the device while they are in synchronising calls; they may wait for each other in
   * these calls only. 0, the default: one replica for each compute device.
   */
  int64_t replicas_in_sync;
} umbo_strategy_options;

#define UMBO_STRATEGY_OPTIONS_INIT \
  { sizeof(umbo_strategy_options), NULL, 0, 0, NULL, UMBO_THREAD_BINDING_ON, NULL, 0, NULL, NULL, \
    NULL, NULL, NULL, 0, 0, 0 }
UMBO_DEFAULT(umbo_strategy_options, UMBO_STRATEGY_OPTIONS_INIT)

/** The total of a metric over all replicas. */
typedef struct umbo_metric {
  size_t struct_size;
  /** The sum of what the replicas added, in the order of the steps and then of the replicas. */
  double sum;
  /** The sum of the weights. */
  double weight;
  /** sum / weight; NaN if the weight is 0. */
  double mean;
} umbo_metric;

#define UMBO_METRIC_INIT { sizeof(umbo_metric), 0.0, 0.0, 0.0 }
UMBO_DEFAULT(umbo_metric, UMBO_METRIC_INIT)

/**
 * Makes a strategy.
 *
 * @param[in] options The settings; `options` may be NULL: one replica on each GPU, or on CPU:0 if
 *   there is none.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an empty list of devices, a device named twice, a name that
 *   cannot be read, fewer replicas than devices, or another option that is out of range.
 * - UMBO_STATUS_NOT_FOUND: a device that does not exist.
 * - UMBO_STATUS_UNAVAILABLE: a GPU that cannot be used, or was lost.
 *
 * With a communicator of several ranks all of them make their strategies together: it also returns
 * what another rank has failed with; UMBO_STATUS_FAILED_PRECONDITION: the ranks disagree about
 * `replicas_in_sync`; and UMBO_STATUS_UNAVAILABLE: the ranks cannot be brought together.
 *
 * All variables of the strategy lie on its one parameter device. The function starts a thread for
 * each replica but the first, which runs on the thread that calls umbo_strategy_run().
 *
 * Every form of a device name is accepted: "CPU:1", "/cpu:1", "/device:CPU:1" and the full
 * "/job:localhost/replica:0/task:0/device:CPU:1".
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_create(
    const umbo_strategy_options *options, umbo_strategy **strategy);

/**
 * Gives the default strategy: one replica, on CPU:0.
 *
 * @param[out] strategy A new handle to it. The caller releases it like any other.
 *
 * It is current wherever no other strategy is. It cannot be copied, and it lives as long as the
 * process.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_default_strategy(umbo_strategy **strategy);

/**
 * Tells the name of the compute device of a replica.
 *
 * @param[in] replica The number of the replica among those of this process: 0 to
 *   `num_local_replicas` of umbo_strategy_info less one.
 * @param[out] name The canonical name of the device. Lives as long as the process.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_compute_device(
    const umbo_strategy *strategy, int32_t replica, const char **name);

/**
 * Tells whether two handles are of the same strategy.
 *
 * @param[in] a A strategy.
 * @param[in] b A strategy.
 * @param[out] same 1 if they are the same, else 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_same(
    const umbo_strategy *a, const umbo_strategy *b, int32_t *same);

/**
 * Tells whether a variable was made in a strategy.
 *
 * @param[out] result 1 if the variable belongs to this very strategy, else 0. Always 0 for the
 *   default strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_created_variable(
    const umbo_strategy *strategy, const umbo_variable *variable, int32_t *result);

/**
 * Waits until a strategy has no work left.
 *
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: the call comes from a callback of the
 *   strategy.
 *
 * Blocks until all late callbacks have returned and the runs that other threads had under way have
 * ended. There is no time limit.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_synchronize(umbo_strategy *strategy);

/**
 * Gets the total of a metric, over all replicas of all ranks: of the last run, or of the last
 * umbo_train_epoch() over all steps that took effect, if that has returned since.
 *
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no replica added a metric of this name there. The
 *   message lists the names that there are.
 *
 * Replicas add to it with umbo_replica_context_add_metric(). Runs and epochs in which no replica
 * adds any metric, and runs that fail, leave those of before. For accuracies, confusion matrices,
 * AUCs and longer sums see metrics.h.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_metric(
    const umbo_strategy *strategy, const char *name, umbo_metric *metric);

/** Makes another handle to the same strategy: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_strategy_retain(
    const umbo_strategy *strategy, umbo_strategy **retained) {
  return umbo_retain(strategy, UMBO_HANDLE_STRATEGY, retained);
}

/**
 * Releases a handle: umbo_release().
 *
 * When the last reference goes and no run is under way, the replicas' threads end before this
 * returns. The thread of a late callback is not waited for: it ends when the callback returns.
 * Variables, datasets and optimizers that were made with the strategy keep it.
 */
static inline void umbo_strategy_release(const umbo_strategy *strategy) {
  umbo_release(strategy, UMBO_HANDLE_STRATEGY);
}

/** What a strategy consists of, and its state. Start from UMBO_STRATEGY_INFO_INIT. */
typedef struct umbo_strategy_info {
  size_t struct_size;
  /**
   * The number of replicas, over which a run's gradients are combined; 1 or more. With a
   * communicator it is the number of all ranks' replicas together.
   */
  int64_t num_replicas_in_sync;
  /**
   * The number of replicas in this process; 1 or more. With `replicas_in_sync` several of them may
   * share a compute device. Without other ranks it is `num_replicas_in_sync`.
   */
  int64_t num_local_replicas;
  /**
   * The number of different compute devices in this process; 1 or more. It is `num_local_replicas`
   * unless the strategy was made with `replicas_in_sync`; then there may be more replicas, which
   * are dealt out to the devices in turn.
   */
  int64_t num_compute_devices;
  /**
   * The number of variables that were made with the strategy and are in use: that the program,
   * gradients, an optimizer, a checkpoint or a value still has. umbo_strategy_variable() gives
   * each. 0 for the default strategy, which keeps no list.
   */
  int64_t num_variables;
  /**
   * How many replicas are still in the callback of a run that has ended without them, by its
   * deadline or by cancellation. While there are any, the strategy is *draining*: values can be
   * read; runs, assignments and applies give UMBO_STATUS_FAILED_PRECONDITION, and the message names
   * the replicas.
   */
  int64_t late_replicas;
  /** The number of this process among those that train together: 0 to `num_ranks` less one. */
  int64_t rank;
  /**
   * How many processes train together: those of the communicator that the strategy was made with. 1
   * for a process that is alone.
   */
  int64_t num_ranks;
  /** The canonical name of the device of the variables. Lives as long as the process. */
  const char *parameter_device;
  /**
   * The stack size of the replicas' threads in bytes, as the strategy was made. If that was 0, the
   * size that was chosen. Threads get whole pages, so the stack may be a little larger.
   */
  size_t thread_stack_bytes;
  /**
   * Whether the replicas' threads are bound to processors: UMBO_THREAD_BINDING_ON or
   * UMBO_THREAD_BINDING_OFF.
   */
  umbo_thread_binding thread_binding;
  /**
   * 1 if the strategy is strict, by its options or because the environment variable UMBO_STRICT was
   * 1 when the process began; else 0. A strict strategy looks for mistakes of callbacks. What it
   * finds is UMBO_STATUS_FAILED_PRECONDITION, with a message that begins with "strict mode" and
   * names the replica, the variable and the place: umbo_gradients_submit() gives it for gradients,
   * and the run gives it, as that replica's failure, for what is found when the callback has
   * returned: also that a variable was written through a view, which is then put back.
   */
  int32_t strict;
} umbo_strategy_info;

#define UMBO_STRATEGY_INFO_INIT \
  { sizeof(umbo_strategy_info), 0, 0, 0, 0, 0, 0, 0, NULL, 0, UMBO_THREAD_BINDING_ON, 0 }
UMBO_DEFAULT(umbo_strategy_info, UMBO_STRATEGY_INFO_INIT)

/**
 * Gets what a strategy consists of, and its state.
 *
 * @param[out] info Its description. Start from UMBO_STRATEGY_INFO_INIT, which sets its size.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_get_info(
    const umbo_strategy *strategy, umbo_strategy_info *info);

/**
 * Hashes all variables of a strategy, so that processes can compare their weights.
 *
 * @param[out] fingerprint A hash of the names, types, shapes and committed values of all variables
 *   that were made with the strategy and are in use, in the order in which they were made.
 * @return UMBO_OK, or UMBO_STATUS_UNAVAILABLE: a GPU that was lost.
 *
 * Two processes of one version of the library have the same fingerprint if all of this is the same,
 * and, but for one case in 2^64, only then. Nothing is exchanged; for ranks that compare by
 * themselves see `fingerprint_interval` in umbo_strategy_options. The function reads all weights.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_fingerprint(
    const umbo_strategy *strategy, uint64_t *fingerprint);

/**
 * Gives one of the variables of a strategy.
 *
 * @param[in] index The place of the variable among those in use, in the order in which they were
 *   made.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there are not so many variables.
 *
 * Places move up when a variable before them is released for the last time: take the list while
 * nobody makes or releases variables. Variables that code of others has made, such as an adapter
 * for an engine, are there too, so that a loop over all of them adds everything to a checkpoint.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_variable(
    const umbo_strategy *strategy, int64_t index, umbo_variable **variable);

/**
 * What runs in a scope.
 *
 * @param[in] strategy The strategy whose scope it is.
 * @param[in] user_data What the caller passed.
 * @return UMBO_OK, or why it failed. umbo_strategy_scope() returns the same.
 */
typedef umbo_status (*umbo_scope_fn)(umbo_strategy *strategy, void *user_data);

/**
 * Calls a function in the scope of a strategy.
 *
 * @param[in] function What to call: once, on this thread.
 * @param[in] user_data Passed to `function` unchanged; may be anything.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: this thread is in a callback of a replica, or in the scope or
 *   a run of another strategy.
 * - what `function` returned.
 *
 * In the scope the strategy is current and the thread is in cross-replica context. Scopes that
 * `function` enters and does not leave are left for it.
 *
 * A strategy's scope may be entered again inside itself. The scope of the default strategy changes
 * nothing: the thread stays in the default context, and another strategy's scope may be entered
 * inside it. But no variable of another strategy can be made inside it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_scope(
    umbo_strategy *strategy, umbo_scope_fn function, void *user_data);

/**
 * Enters the scope of a strategy on this thread.
 *
 * @param[out] scope The scope. Leave it with umbo_scope_exit(), which also releases it.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_scope().
 *
 * Until the scope is left, the strategy is current and the thread is in cross-replica context. A
 * scope that a callback enters and does not leave is left when the callback returns.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_scope_enter(umbo_strategy *strategy, umbo_scope **scope);

/**
 * Leaves a scope and releases its handle.
 *
 * @param[in] scope The scope, of a strategy or of a variable creator.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: another thread entered the scope, or it is not the innermost
 *   open scope of this thread. The scope stays open and the handle valid.
 * - UMBO_STATUS_NOT_FOUND: the scope was left when the callback that entered it returned. The
 *   handle is released.
 *
 * The user data of a variable creator is destroyed last: at that time the scope is left and its
 * handle is stale.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_scope_exit(umbo_scope *scope);

/**
 * Makes a strategy current for this thread wherever no scope is open.
 *
 * @param[in] strategy The strategy, of which the thread keeps a reference; `strategy` may be NULL:
 *   then the default strategy is current again.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: this thread is inside a scope or a run.
 *
 * Until the next call, the strategy is current and the thread is in cross-replica context wherever
 * no scope is open.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_strategy(umbo_strategy *strategy);

/**
 * Tells whether a strategy other than the default one is current.
 *
 * @param[out] result 1 if this thread is in the scope or a run of one, or has set one with
 *   umbo_set_strategy(); else 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_has_strategy(int32_t *result);

/**
 * Tells whether this thread is in cross-replica context.
 *
 * @param[out] result 1 in a scope, in a merge call, in an update, and where umbo_set_strategy()
 *   has set a strategy; else 0. In this context the thread acts for all replicas.
 *
 * Where this is 0, umbo_current_replica_context() gives a context.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_in_cross_replica_context(int32_t *result);

/**
 * Gives the strategy that is current on this thread.
 *
 * @param[out] strategy A new handle to it, which the caller releases. The default strategy where
 *   no other one is current.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_current_strategy(umbo_strategy **strategy);

/**
 * Gives the replica context that this thread is in.
 *
 * @param[out] context The context of the replica whose callback this thread runs. In the default
 *   context it is that of replica 0 of 1 of the default strategy. In cross-replica context
 *   `*context` gets NULL.
 *
 * The context is lent: it is valid on this thread until the callback returns, and is not released.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_current_replica_context(umbo_replica_context **context);

/**
 * What a run calls on each replica.
 *
 * @param[in] ctx The replica's context, lent for the call.
 * @param[in] args This replica's part of the run's arguments, lent for the call: each per-replica
 *   value is replaced by this replica's component. NULL if the run has no arguments.
 * @param[in] user_data What the run was given. All replicas get the same pointer.
 * @param[out] result The place for this replica's result; NULL on entry. The library takes over a
 *   value that is stored there.
 * @return UMBO_OK, or why the callback fails. Any other status than UMBO_OK fails the run;
 *   umbo_set_last_error() says why.
 *
 * Each replica runs on its own thread; replica 0 runs on the thread that called, unless the run
 * has a deadline or a token. The replicas run at the same time and may wait for each other. A
 * replica whose part of a batch is empty runs too.
 */
typedef umbo_status (*umbo_replica_fn)(
    umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result);

/** The limits of a run. Start from UMBO_RUN_OPTIONS_INIT. */
typedef struct umbo_run_options {
  size_t struct_size;
  /**
   * The time limit in seconds, 0 or more. When it is over, the run returns
   * UMBO_STATUS_DEADLINE_EXCEEDED; with 0 it does so at once. UMBO_INFINITE, the default: no
   * limit.
   */
  double timeout_seconds;
  /** A token. When it is cancelled, the run returns UMBO_STATUS_CANCELLED. NULL: no token. */
  const umbo_cancellation *cancellation;
  /**
   * Releases `user_data`, exactly once, when the last callback has returned, or if the run
   * cannot start. It may be called after the run has returned, and on another thread. NULL:
   * nothing is released.
   */
  umbo_destroy_fn user_data_destroy;
} umbo_run_options;

#define UMBO_RUN_OPTIONS_INIT { sizeof(umbo_run_options), UMBO_INFINITE, NULL, NULL }
UMBO_DEFAULT(umbo_run_options, UMBO_RUN_OPTIONS_INIT)

/**
 * Calls a function on all replicas at the same time and waits for them.
 *
 * @param[in] function What to call, once on each replica.
 * @param[in] user_data Passed to `function` unchanged; may be anything.
 * @param[in] args The arguments; `args` may be NULL. To pass several, pass a tuple, a list or a
 *   struct. Each per-replica value in it has one component for each replica.
 * @param[in] options The limits of the run; `options` may be NULL: none.
 * @param[out] result The merged results, which the caller releases; `result` may be NULL, which
 *   discards them. If no replica returned a value, `*result` gets NULL.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range, a per-replica value with the
 *   wrong number of components, or a result from some replicas only; or limits for a run inside a
 *   merge call.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback or from another
 *   strategy's scope; the strategy is draining; or the replicas made different synchronising calls.
 * - UMBO_STATUS_DEADLINE_EXCEEDED: the time limit is over.
 * - UMBO_STATUS_CANCELLED: the token is cancelled.
 * - the status of a callback that failed. If several did, it is that of the first in replica order
 *   that failed by itself; the last error lists all of them.
 *
 * Results are merged leaf by leaf. A leaf for which all replicas returned the very same tensor is
 * that tensor; any other leaf becomes a per-replica value. With one replica nothing is wrapped.
 * Either all replicas return a value or none does.
 *
 * The run succeeds if all callbacks do. Only then do the assignments and applies that were made in
 * it change the variables. When a callback fails, replicas that wait in a merge call get
 * UMBO_STATUS_CANCELLED. The others run to their end; they can ask
 * umbo_replica_context_is_cancelled().
 *
 * With a time limit or a token each replica has a thread of its own, and the calling thread
 * watches. When the run is stopped it returns, and all variables are as before it. Callbacks that
 * have not returned are late (see `late_replicas` of umbo_strategy_info) and must not use what the
 * caller has released. A callback that has not started by then is not called.
 *
 * Runs of one strategy happen one at a time, in the order of asking, from whatever thread. A run
 * inside a merge call is part of the step around it: it ends with the limits of that step, and
 * what it assigns is committed with that step.
 *
 * A callback must not wait for a thread that runs or assigns on the same strategy: that thread
 * waits for the step, so both would wait for ever. The library cannot tell this from a long step.
 * A thread that has waited 10 seconds for another thread's step reports in the log which step and
 * thread it waits for.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls or have read other
 * data where all are to read the same (UMBO_SHARDING_DATA), UMBO_STATUS_DEADLINE_EXCEEDED for a
 * rank that was waited for in vain, and UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any
 * more. What another rank has failed with is the status here, too, and the message names that rank.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_run(
    umbo_strategy *strategy, umbo_replica_fn function, void *user_data, const umbo_value *args,
    const umbo_run_options *options, umbo_value **result);

/**
 * Makes a token with which any thread can stop runs.
 *
 * A token can serve one run or several; see umbo_run_options.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_create(umbo_cancellation **cancellation);

/**
 * Stops all runs that have a token.
 *
 * @param[in] cancellation The token.
 *
 * Runs that have the token, and later ones that get it, return UMBO_STATUS_CANCELLED. The call
 * does not wait for them. It cannot be undone. Callbacks may call it too.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_cancel(umbo_cancellation *cancellation);

/**
 * Tells whether a token was cancelled.
 *
 * @param[in] cancellation The token.
 * @param[out] result 1 if umbo_cancellation_cancel() was called, else 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cancellation_is_cancelled(
    const umbo_cancellation *cancellation, int32_t *result);

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
 * Splits a global batch that the program has already over the replicas.
 *
 * @param[in] value A tensor, or a nest of tensors; each of them is split along its own dimension 0.
 * @param[out] per_replica The same nest of per-replica values, or of tensors if this process has
 *   one replica. The caller releases it.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a leaf that is not a tensor, or, with several
 *   replicas, a scalar.
 *
 * Rows are split as umbo_strategy_distribute_dataset() splits the elements of a dataset by default:
 * each replica gets their number over that of the replicas, rounded up, until none are left. The
 * parts are views of the batch, which is not copied and must not be written as long as they are in
 * use. They know how many examples they hold (umbo_value_examples(),
 * umbo_replica_context_batch_position(), umbo_gradients_submit()).
 *
 * With several ranks the batch is the same on all of them, and each takes the parts of its own
 * replicas. Its number of rows is compared when a run begins with the parts (UMBO_SHARDING_DATA
 * says how). A rank that has a batch of its own makes values of its own with
 * umbo_strategy_values_from_function().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_split(
    const umbo_strategy *strategy, const umbo_value *value, umbo_value **per_replica);

/**
 * What runs once in an update, in cross-replica context.
 *
 * @param[in] variable The variable, lent for the call.
 * @param[in] args The arguments, lent for the call: each per-replica value is replaced by its
 *   first component. NULL if there are none.
 * @param[in] user_data What the caller passed.
 * @param[out] result The place for a result; NULL on entry. The library takes over a value that is
 *   stored there.
 * @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the update.
 */
typedef umbo_status (*umbo_update_fn)(
    umbo_variable *variable, const umbo_value *args, void *user_data, umbo_value **result);

/** In which form the result of an update comes back. */
UMBO_ENUM(umbo_update_grouping) {
  /** As the function stored it. */
  UMBO_UPDATE_GROUPED = 0,
  /**
   * Each leaf as a tuple with one item for each device that has a copy of the variable. There is
   * one such device.
   */
  UMBO_UPDATE_UNGROUPED = 1
};

/** How an update is done. Start from UMBO_UPDATE_OPTIONS_INIT. */
typedef struct umbo_update_options {
  size_t struct_size;
  /** UMBO_UPDATE_GROUPED, the default, or UMBO_UPDATE_UNGROUPED. */
  umbo_update_grouping grouping;
} umbo_update_options;

#define UMBO_UPDATE_OPTIONS_INIT { sizeof(umbo_update_options), UMBO_UPDATE_GROUPED }
UMBO_DEFAULT(umbo_update_options, UMBO_UPDATE_OPTIONS_INIT)

/**
 * Calls a function that changes a variable, for all replicas at once.
 *
 * @param[in] variable The variable, which `function` gets.
 * @param[in] function What to call, once.
 * @param[in] user_data Passed to `function` unchanged; may be anything.
 * @param[in] args The arguments; `args` may be NULL.
 * @param[in] options The form of the result; `options` may be NULL: grouped.
 * @param[out] result What `function` stored, which the caller releases; if it stored nothing,
 *   `*result` gets NULL. `result` may be NULL, which discards it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an unknown grouping, or a variable of another strategy.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's scope, or the strategy
 *   is draining.
 * - what `function` returned.
 *
 * `function` runs on this thread, in cross-replica context. What it assigns, to this variable and
 * to others of the strategy, becomes central state if it succeeds and is dropped if it fails.
 *
 * In a replica's callback this is a synchronising call (see umbo_replica_context_merge_call()).
 * `function` then runs on the thread that called umbo_strategy_run(), with the arguments and user
 * data of replica 0, and each replica gets its part of the result.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_update(
    umbo_strategy *strategy, umbo_variable *variable, umbo_update_fn function, void *user_data,
    const umbo_value *args, const umbo_update_options *options, umbo_value **result);

/** For which replica a value is made. */
typedef struct umbo_value_context {
  size_t struct_size;
  /** The id of the replica: 0 to the number of replicas less one. */
  int32_t replica_id_in_sync_group;
  /** The number of replicas. */
  int64_t num_replicas_in_sync;
} umbo_value_context;

#define UMBO_VALUE_CONTEXT_INIT { sizeof(umbo_value_context), 0, 0 }
UMBO_DEFAULT(umbo_value_context, UMBO_VALUE_CONTEXT_INIT)

/**
 * Makes the value of one replica.
 *
 * @param[in] context For which replica; valid for the call.
 * @param[in] user_data What the caller passed.
 * @param[out] value The place for the value; NULL on entry. A value must be stored there, and the
 *   library takes it over.
 * @return UMBO_OK, or why it failed.
 */
typedef umbo_status (*umbo_value_fn)(
    const umbo_value_context *context, void *user_data, umbo_value **value);

/**
 * Makes a per-replica value, replica by replica.
 *
 * @param[in] function What to call: once for each replica, in replica order.
 * @param[in] user_data Passed to `function` unchanged; may be anything.
 * @param[out] result The per-replica value. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a call that stored no value, or values whose structures differ.
 * - what `function` returned.
 *
 * All calls are on this thread and in the context that this thread is in; any context is fine.
 * Structures are merged leaf by leaf. Shapes and dtypes may differ. Each leaf becomes a
 * per-replica value, also with one replica, and also if all replicas give the very same tensor.
 * Only the default strategy, which has one replica, gives its value as it is. Components stay on
 * the devices that they were made on.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_values_from_function(
    umbo_strategy *strategy, umbo_value_fn function, void *user_data, umbo_value **result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
