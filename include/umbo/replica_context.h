/* Generated from src; do not edit. */
#ifndef UMBO_REPLICA_CONTEXT_H
#define UMBO_REPLICA_CONTEXT_H

/**
 * @file replica_context.h
 * @brief Replica contexts: what a replica's callback can get and do in its step.
 *
 * A context is lent to the callback of a run. Threads: each replica uses its own context, on the
 * thread of its callback; umbo_replica_context_get_info() works on every thread. Different replicas
 * may call at the same time.
 *
 * Example:
 * ```c
 * // Counts the examples of this replica.
 * static umbo_status count(umbo_replica_context *ctx) {
 *   umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
 *   UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
 *   return umbo_replica_context_add_metric(ctx, "examples", (double)here.local_example_count, 1.0);
 * }
 * ```
 */

#include <umbo/collective.h>
#include <umbo/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A replica, its device, and its part of the global batch. */
typedef struct umbo_replica_context_info {
  size_t struct_size;
  /** The id of the replica: 0 to `replica_count` less one. */
  int32_t replica_id;
  /** Its id among the replicas of this process, as umbo_strategy_compute_device() takes it. */
  int32_t local_replica_id;
  /** The number of replicas of all ranks. */
  int64_t replica_count;
  /** The canonical name of its compute device. Lives as long as the process. */
  const char *device;
  /**
   * The CUstream of its GPU, whose primary context is current in the callback; NULL on a CPU.
   * The library uses the GPU's memory through this stream only: what a callback queues on it
   * sees the arguments, and the run waits for it. Order other streams against it by events. It
   * lives as long as the process; never destroy it.
   */
  void *stream;
  /**
   * The number of examples of the replicas before this one, 0 if it is not known.
   * `first_example` plus a row is the number of an example, a key for dropout that does not
   * depend on the number of replicas.
   */
  int64_t first_example;
  /**
   * The number of examples of this replica, 0 or more. UMBO_NONE if it is not known: the
   * arguments have no per-replica value, as elements of distributed datasets are.
   */
  int64_t local_example_count;
  /**
   * The number of examples of all replicas, UMBO_NONE if it is not known. With several ranks it
   * is the sum over those that know theirs.
   */
  int64_t global_example_count;
  /**
   * The number of the step, from 1; 0 outside of runs. A step that takes no effect and those of
   * umbo_strategy_check_equivalence() leave their number to the next.
   */
  int64_t step;
} umbo_replica_context_info;

#define UMBO_REPLICA_CONTEXT_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_replica_context_info), 0, 0, 0, NULL, NULL, 0, 0, 0, 0 }

/** Gets a replica, its device, and its part of the global batch. Cheap: it allocates nothing. */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_get_info(
    const umbo_replica_context *ctx, umbo_replica_context_info *info);

/**
 * Gets whether the callback should return early with UMBO_STATUS_CANCELLED: 1 or 0.
 *
 * @return UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in.
 *
 * It is 1 if another replica has failed, the run was cancelled, or its time is over. It is cheap:
 * a long loop can call it every few thousand operations.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_is_cancelled(
    const umbo_replica_context *ctx, int32_t *result);

/**
 * Lends memory of the replica's device until the callback returns.
 *
 * @param[out] memory The memory, at a multiple of 64, with undefined contents. Do not free it.
 * @return UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in, or the
 *   default one.
 *
 * Each call lends another region. A step that asks for the same sizes as the one before allocates
 * nothing.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_scratch(
    umbo_replica_context *ctx, size_t bytes, void **memory);

/**
 * Adds to a metric of this step, which umbo_strategy_metric_result() gets after the run.
 *
 * @param[in] weight Usually a number of examples; finite and 0 or more.
 * @return UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in, or the
 *   default one.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_add_metric(
    umbo_replica_context *ctx, const char *name, double sum, double weight);

/**
 * Runs once for all replicas, in cross-replica context, on the thread that called
 * umbo_strategy_run().
 *
 * @param[in] strategy The strategy, lent for the call.
 * @param[in] args What the replicas passed, lent for the call and merged as results of a run are.
 *   NULL if they passed nothing.
 * @param[in] user_data That of replica 0.
 * @param[out] result NULL on entry. The library takes over a value that is stored there, and each
 *   replica gets its component.
 * @return Any status but UMBO_OK fails the run with it.
 */
typedef umbo_status (*umbo_merge_fn)(
    umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result);

/**
 * Waits for all replicas and calls a function once.
 *
 * @param[in] function The same on all replicas.
 * @param[in] args This replica's arguments. May be NULL, on all replicas or on none.
 * @param[out] result This replica's component of what was stored, or NULL. `result` may be NULL,
 *   which discards it.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: arguments from some replicas only.
 * - UMBO_STATUS_FAILED_PRECONDITION: the replicas made different synchronising calls, or `ctx` is
 *   not the context that this thread is in.
 * - UMBO_STATUS_CANCELLED: another replica or `function` has failed, or the run has ended.
 *
 * It is a *synchronising call*, which blocks until every replica has made it. So are all-reduces,
 * all-gathers, assignments, scatters, updates and applies in a callback. All replicas make
 * the same ones in the same order; else they and the run get UMBO_STATUS_FAILED_PRECONDITION, with
 * who was where.
 *
 * With several ranks each calls `function` once, with the values of its own replicas. In the
 * default context it runs at once.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_merge_call(
    umbo_replica_context *ctx, umbo_merge_fn function, const umbo_value *args, void *user_data,
    umbo_value **result);

/**
 * Reduces a tensor, indexed slices, or a nest of them over the replicas of all ranks.
 *
 * @param[out] result A value on this replica's device.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or components that differ in shape or
 *   dtype.
 * - The others of umbo_replica_context_merge_call().
 *
 * The nest is one synchronising call. Tensors are reduced element by element. Indexed slices are
 * concatenated in replica order; MEAN divides their values by the number of replicas; MIN and MAX
 * reduce them as dense tensors. The mean of integers is a float, with one replica too.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_all_reduce(
    umbo_replica_context *ctx, const umbo_value *value, umbo_reduce_op op, umbo_value **result);

/**
 * Concatenates a tensor or a nest of tensors over the replicas of all ranks, in replica order.
 *
 * @param[in] axis Negative ones count from the back.
 * @param[out] result A value on this replica's device.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or components that differ in number of
 *   dimensions, dtype or another dimension.
 * - UMBO_STATUS_OUT_OF_RANGE: no such axis.
 * - UMBO_STATUS_UNIMPLEMENTED: indexed slices.
 * - The others of umbo_replica_context_merge_call().
 *
 * The nest is one synchronising call.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_all_gather(
    umbo_replica_context *ctx, const umbo_value *value, int32_t axis, umbo_value **result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
