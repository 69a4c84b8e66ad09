/* Generated from src/ffi; do not edit. */
#ifndef UMBO_REPLICA_CONTEXT_H
#define UMBO_REPLICA_CONTEXT_H

/**
 * @file replica_context.h
 * @brief Replica contexts: what a replica's callback can ask about its step, and the calls in
 * which replicas exchange values.
 *
 * A context is lent to the callback of a run. It is not retained or released, and is stale once the
 * callback has returned.
 *
 * Threads: each replica uses its own context, on the thread of its callback. Different replicas may
 * call at the same time: all functions are *concurrent* in that sense. Merge calls, all-reduces and
 * all-gathers wait for all replicas, which must make the same calls in the same order. The function
 * of a merge call runs once, on one thread.
 *
 * Example:
 * ```c
 * // Adds this replica's examples to a metric, and gives up early if the run has ended.
 * static umbo_status step(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
 *                         umbo_value **result) {
 *   umbo_batch_position position = UMBO_BATCH_POSITION_INIT;
 *   int32_t is_cancelled = 0;
 *   (void)args, (void)user_data, (void)result;
 *   UMBO_TRY(umbo_replica_context_is_cancelled(ctx, &is_cancelled));
 *   if (is_cancelled) return UMBO_STATUS_CANCELLED;
 *   UMBO_TRY(umbo_replica_context_batch_position(ctx, &position));
 *   return umbo_replica_context_add_metric(ctx, "examples", (double)position.local_examples, 1.0);
 * }
 * ```
 */

#include <umbo/strategy.h>
#include <umbo/collective.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Where a replica's part lies in the global batch. Start from UMBO_BATCH_POSITION_INIT.
 *
 * What depends on an example (dropout, say) can use the example's number as its key. It then comes
 * out the same for any number of replicas.
 */
typedef struct umbo_batch_position {
  size_t struct_size;
  /**
   * The number of examples that the replicas before this one have; 0 if the run's arguments do not
   * tell it.
   */
  int64_t first_example;
  /**
   * The number of examples of this replica; 0 is possible. -1 if the run's arguments do not tell
   * it: they contain neither an element of a distributed dataset nor a per-replica value.
   */
  int64_t local_examples;
  /**
   * The number of examples of all replicas together; -1 if the run's arguments do not tell it. Of
   * several ranks those count whose arguments tell it.
   */
  int64_t global_examples;
  /**
   * The number of the step; the first step of the strategy is 1. A step that takes no effect is not
   * counted, and the next one has its number. So have the runs of
   * umbo_strategy_check_equivalence().
   */
  int64_t step;
} umbo_batch_position;

#define UMBO_BATCH_POSITION_INIT { sizeof(umbo_batch_position), 0, 0, 0, 0 }
UMBO_DEFAULT(umbo_batch_position, UMBO_BATCH_POSITION_INIT)

/**
 * Tells the id of the replica.
 *
 * @param[in] ctx The replica's context.
 * @param[out] replica The id: 0 to the number of replicas less one, those of all ranks included.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_replica_id(
    const umbo_replica_context *ctx, int32_t *replica);

/**
 * Tells the id of the replica among those of this process.
 *
 * @param[in] ctx The replica's context.
 * @param[out] replica The id: 0 to the number of this process's replicas less one.
 *   umbo_strategy_compute_device() tells the device of the replica with this number.
 *
 * Without other ranks it is umbo_replica_context_replica_id().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_local_replica_id(
    const umbo_replica_context *ctx, int32_t *replica);

/**
 * Tells how many replicas take part.
 *
 * @param[in] ctx The replica's context.
 * @param[out] count The number of replicas, this one included.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_num_replicas_in_sync(
    const umbo_replica_context *ctx, int64_t *count);

/**
 * Tells the name of the replica's compute device.
 *
 * @param[in] ctx The replica's context.
 * @param[out] name The canonical name of the device. Lives as long as the process.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_device(
    const umbo_replica_context *ctx, const char **name);

/**
 * Gives the strategy whose run this is.
 *
 * @param[in] ctx The replica's context.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_strategy(
    const umbo_replica_context *ctx, umbo_strategy **strategy);

/**
 * Gives the stream on which the replica's device works.
 *
 * @param[in] ctx The replica's context.
 * @param[out] stream A CUstream on a GPU. On a CPU, which has no streams, `*stream` gets NULL.
 *
 * The GPU's primary context is current in the callback. All that the library does with the GPU's
 * memory goes through this stream, in the order of the calls: what the callback queues on it sees
 * the arguments, and what is called after it sees its results. A callback returns when its work is
 * queued; the run waits for it. Work on another stream is ordered against this one by the program,
 * by events. The stream belongs to the library and lives as long as the process; never destroy it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_stream(
    const umbo_replica_context *ctx, void **stream);

/**
 * Tells where the replica's part lies in the global batch.
 *
 * @param[in] ctx The replica's context.
 * @param[out] position The place of the part. Start from UMBO_BATCH_POSITION_INIT, which sets its
 *   size.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is
 *   in.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_batch_position(
    const umbo_replica_context *ctx, umbo_batch_position *position);

/**
 * Tells whether the callback should return early.
 *
 * @param[in] ctx The replica's context.
 * @param[out] result 1 if its result will not be used, else 0.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is
 *   in.
 *
 * The result is not used if another replica has failed, if the run was cancelled, or if its time
 * limit is over. A callback that returns for this reason returns UMBO_STATUS_CANCELLED. The call
 * is cheap: a long loop can make it every few thousand operations.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_is_cancelled(
    const umbo_replica_context *ctx, int32_t *result);

/**
 * Lends memory to the callback until it returns. Where the replica is on a GPU, it is memory of
 * that GPU.
 *
 * @param[in] ctx The replica's context.
 * @param[in] bytes The size in bytes.
 * @param[out] memory The memory, at a multiple of 64. Its contents are undefined. The library
 *   keeps it; do not free it.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is
 *   in, or is the default one, which is in no run.
 *
 * Each call lends another region. The library keeps the memory for the next step, so a step that
 * asks for the same sizes as the one before allocates nothing.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_scratch(
    umbo_replica_context *ctx, size_t bytes, void **memory);

/**
 * Adds to a metric of this step.
 *
 * @param[in] ctx The replica's context.
 * @param[in] name The metric's name, which is copied.
 * @param[in] sum What is added to the metric's sum.
 * @param[in] weight What is added to the metric's weight, usually a number of examples; finite and
 *   0 or more.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a weight that is negative or not finite.
 * - UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in, or is the
 *   default one, which is in no run.
 *
 * After the run umbo_strategy_metric() tells the total over all replicas. A few dozen different
 * names are looked up fast.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_add_metric(
    umbo_replica_context *ctx, const char *name, double sum, double weight);

/**
 * What runs once for all replicas in a merge call.
 *
 * @param[in] strategy The strategy, lent for the call.
 * @param[in] args What the replicas passed, lent for the call and merged as the results of a run
 *   are. NULL if they passed nothing.
 * @param[in] user_data The user data of replica 0.
 * @param[out] result The place for a value; NULL on entry. The library takes over a value that is
 *   stored there, and each replica gets its component of it.
 * @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the run.
 *
 * It runs on the thread that called umbo_strategy_run(), in cross-replica context.
 */
typedef umbo_status (*umbo_merge_fn)(
    umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result);

/**
 * Waits for all replicas and calls a function once.
 *
 * @param[in] ctx The replica's context.
 * @param[in] function What to call; the same on all replicas.
 * @param[in] user_data Passed to `function`, which gets that of replica 0; may be anything.
 * @param[in] args This replica's arguments; `args` may be NULL, on all replicas or on none.
 * @param[out] result This replica's part of what `function` stored: a new handle, which the caller
 *   releases. If it stored nothing, `*result` gets NULL. `result` may be NULL, which discards the
 *   part.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: arguments from some replicas only.
 * - UMBO_STATUS_FAILED_PRECONDITION: the replicas made different synchronising calls (the message
 *   says which one each of them made), or `ctx` is not the context that this thread is in.
 * - UMBO_STATUS_CANCELLED: another replica has failed, `function` has failed, or the run has
 *   ended.
 *
 * It is a *synchronising call*: it blocks until every replica has made it. Synchronising calls are
 * merge calls, all-reduces, all-gathers, assignments to variables, scatter updates, updates and
 * applies. All replicas make the same ones in the same order. If they do not, all of them get
 * UMBO_STATUS_FAILED_PRECONDITION, and so does the run.
 *
 * If `function` fails, the run fails with its status. In the default context `function` runs at
 * once.
 *
 * With several ranks each of them calls `function` once, with the values of its own replicas.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_merge_call(
    umbo_replica_context *ctx, umbo_merge_fn function, void *user_data, const umbo_value *args,
    umbo_value **result);

/**
 * Reduces a tensor or a nest of tensors over the replicas.
 *
 * @param[in] ctx The replica's context.
 * @param[in] op UMBO_REDUCE_SUM or UMBO_REDUCE_MEAN.
 * @param[in] value This replica's tensor or indexed slices, or a nest of them.
 * @param[out] result The reduced value, on this replica's device. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an unknown `op`, another kind of value, or components that differ
 *   in shape or dtype.
 * - UMBO_STATUS_FAILED_PRECONDITION or UMBO_STATUS_CANCELLED: as for
 *   umbo_replica_context_merge_call().
 *
 * Each replica gets a value of its own. The whole nest is one synchronising call. Tensors are
 * reduced element by element. Indexed slices are concatenated in replica order; MEAN divides their
 * values by the number of replicas. MEAN of integers is a float, also with one replica.
 *
 * With several ranks a call of the replicas of all of them. Then UMBO_STATUS_FAILED_PRECONDITION is
 * also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE for ranks that cannot meet
 * any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_all_reduce(
    umbo_replica_context *ctx, umbo_reduce_op op, const umbo_value *value, umbo_value **result);

/**
 * Concatenates a tensor or nest of tensors over the replicas.
 *
 * @param[in] ctx The replica's context.
 * @param[in] value This replica's tensor, or a nest of tensors.
 * @param[in] axis The axis to concatenate along; negative ones count from the back.
 * @param[out] result The concatenation in replica order, on this replica's device. The caller
 *   releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or components that differ in rank, dtype
 *   or another dimension.
 * - UMBO_STATUS_OUT_OF_RANGE: no such axis.
 * - UMBO_STATUS_UNIMPLEMENTED: indexed slices.
 * - UMBO_STATUS_FAILED_PRECONDITION or UMBO_STATUS_CANCELLED: as for
 *   umbo_replica_context_merge_call().
 *
 * Each replica gets a value of its own. The whole nest is one synchronising call.
 *
 * With several ranks a call of the replicas of all of them. Then UMBO_STATUS_FAILED_PRECONDITION is
 * also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE for ranks that cannot meet
 * any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_all_gather(
    umbo_replica_context *ctx, const umbo_value *value, int32_t axis, umbo_value **result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
