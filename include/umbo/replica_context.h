/* Generated from src/ffi; do not edit. */
#ifndef UMBO_REPLICA_CONTEXT_H
#define UMBO_REPLICA_CONTEXT_H

/**
 * @file replica_context.h
 * @brief Replica contexts: what a replica's callback knows of its place in the step, and the calls
 * by which replicas meet.
 *
 * A context is lent to the callback of a run. It can be neither retained nor released, and is stale
 * when the callback has returned.
 *
 * Threads: each replica uses its own context, on the thread that was given it; all functions are
 * *concurrent* in that sense. Merge calls, all-reduces and all-gathers wait for all replicas, which
 * must make the same ones in the same order; their functions are *serialised*.
 *
 * Functions:
 * - umbo_replica_context_replica_id(): The replica's id: 0 to the number of replicas less one.
 * - umbo_replica_context_num_replicas_in_sync(): How many replicas run in sync.
 * - umbo_replica_context_device(): The canonical name of this replica's compute device.
 * - umbo_replica_context_strategy(): The strategy whose run this is.
 * - umbo_replica_context_stream(): The stream on which this replica's device works: a CUstream on
 *   a GPU, NULL on a CPU, which needs none.
 * - umbo_replica_context_batch_position(): The place of this replica's part in the global batch.
 * - umbo_replica_context_is_cancelled(): Whether the callback should return early, since its
 *   result will not be used: another replica has failed, the run was cancelled, or its deadline
 *   has passed.
 * - umbo_replica_context_scratch(): Memory for the callback's own use, until it returns: `bytes`
 *   bytes at a multiple of 64, of undefined contents.
 * - umbo_replica_context_add_metric(): Adds `sum` to the metric `name` of this step, and `weight`
 *   (usually a number of examples) to its weight.
 * - umbo_replica_context_merge_call(): Waits until all replicas have called this with the same
 *   function, has the function run once, and goes on with this replica's part of its result.
 * - umbo_replica_context_all_reduce(): Reduces a tensor, or a nest of tensors, over the replicas:
 *   SUM or MEAN, element by element.
 * - umbo_replica_context_all_gather(): Concatenates a tensor, or each tensor of a nest, over the
 *   replicas along `axis`, in replica order; negative axes count from the back.
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
 * The place of a replica's part in the global batch, so that what depends on an example (dropout,
 * say) can be keyed by it and come out the same for any number of replicas. Start from
 * UMBO_BATCH_POSITION_INIT.
 */
typedef struct umbo_batch_position {
  /** sizeof(umbo_batch_position). */
  size_t struct_size;
  /** How many examples of the global batch the replicas before this one have. */
  int64_t first_example;
  /**
   * How many this replica has; may be 0. -1 if the run's arguments do not tell: there is no
   * element of a distributed dataset and no per-replica value among them.
   */
  int64_t local_examples;
  /** How many all replicas have together; 0 if the arguments do not tell. */
  int64_t global_examples;
  /**
   * The number of the step, counted from 1 over the strategy's life. The runs of
   * umbo_strategy_check_equivalence() have the number of the step after them and do not count.
   */
  int64_t step;
} umbo_batch_position;

/** The starting value of a umbo_batch_position. */
#define UMBO_BATCH_POSITION_INIT { sizeof(umbo_batch_position), 0, 0, 0, 0 }

/** UMBO_BATCH_POSITION_INIT, to be assigned. */
static inline umbo_batch_position umbo_batch_position_default(void) {
  umbo_batch_position value = UMBO_BATCH_POSITION_INIT;
  return value;
}

/**
 * What runs once for all replicas in a merge call, on the thread that called umbo_strategy_run(),
 * in cross-replica context. `strategy` and `args` are borrowed for the call; `args` is what the
 * replicas passed, merged as the results of a run are, or NULL. `*result` is NULL on entry; a
 * value stored there is taken over by the library, and each replica gets its component of it.
 */
typedef umbo_status (*umbo_merge_fn)(
    umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result);

/** The replica's id: 0 to the number of replicas less one. */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_replica_id(
    const umbo_replica_context *ctx, int32_t *replica);

/** How many replicas run in sync. */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_num_replicas_in_sync(
    const umbo_replica_context *ctx, int64_t *count);

/** The canonical name of this replica's compute device. Lives as long as the process. */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_device(
    const umbo_replica_context *ctx, const char **name);

/** The strategy whose run this is. A new handle, to be released. */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_strategy(
    const umbo_replica_context *ctx, umbo_strategy **strategy);

/**
 * The stream on which this replica's device works: a CUstream on a GPU, NULL on a CPU, which
 * needs none.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_stream(
    const umbo_replica_context *ctx, void **stream);

/** The place of this replica's part in the global batch. */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_batch_position(
    const umbo_replica_context *ctx, umbo_batch_position *position);

/**
 * Whether the callback should return early, since its result will not be used: another replica
 * has failed, the run was cancelled, or its deadline has passed. 1 or 0. Cheap enough for every
 * few thousand operations of a long loop; a callback that returns then returns
 * UMBO_STATUS_CANCELLED.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_is_cancelled(
    const umbo_replica_context *ctx, int32_t *result);

/**
 * Memory for the callback's own use, until it returns: `bytes` bytes at a multiple of 64, of
 * undefined contents. Each call grants another region. The memory is kept for the next step, so
 * a step that asks for the same as the one before allocates nothing. RESOURCE_EXHAUSTED if there
 * is not enough.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_scratch(
    umbo_replica_context *ctx, size_t bytes, void **memory);

/**
 * Adds `sum` to the metric `name` of this step, and `weight` (usually a number of examples) to
 * its weight. umbo_strategy_metric() tells the total over all replicas after the run. Names are
 * copied; up to a few dozen are looked up fast. INVALID_ARGUMENT for a weight that is negative or
 * not finite.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_add_metric(
    umbo_replica_context *ctx, const char *name, double sum, double weight);

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
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_merge_call(
    umbo_replica_context *ctx, umbo_merge_fn function, void *user_data, const umbo_value *args,
    umbo_value **result);

/**
 * Reduces a tensor, or a nest of tensors, over the replicas: SUM or MEAN, element by element.
 * Each replica gets a value of its own, on its device. One synchronising call for the whole nest.
 * The components must agree in shape and dtype (INVALID_ARGUMENT). Indexed slices are
 * concatenated in replica order; MEAN divides their values by the number of replicas. MEAN of
 * integers is a float for any number of replicas, one included. See
 * umbo_replica_context_merge_call() for what synchronising calls have in common.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_all_reduce(
    umbo_replica_context *ctx, umbo_reduce_op op, const umbo_value *value, umbo_value **result);

/**
 * Concatenates a tensor, or each tensor of a nest, over the replicas along `axis`, in replica
 * order; negative axes count from the back. Each replica gets the whole, on its device. One
 * synchronising call. The components must agree in rank, dtype and all other dimensions
 * (INVALID_ARGUMENT); OUT_OF_RANGE for an axis that is not there; UNIMPLEMENTED for indexed
 * slices.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_all_gather(
    umbo_replica_context *ctx, const umbo_value *value, int32_t axis, umbo_value **result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
