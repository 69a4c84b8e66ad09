/* Generated from src; do not edit. */
#ifndef UMBO_COLLECTIVE_H
#define UMBO_COLLECTIVE_H

/**
 * @file collective.h
 * @brief Reducing and gathering values over the replicas, outside their callbacks.
 *
 * The results are new values. In a replica's callback use the all-reduce and all-gather of
 * replica_context.h. Threads: all functions are *concurrent* in a process without other ranks.
 *
 * Example:
 * ```c
 * // The sum over the replicas of what a run returned.
 * static umbo_status total(umbo_strategy *strategy, const umbo_value *results, umbo_value **sum) {
 *   return umbo_strategy_reduce(strategy, results, UMBO_REDUCE_SUM, NULL, sum);
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How values are reduced. */
typedef enum umbo_reduce_op UMBO_INT32 {
  /**
   * The sum. Integers wrap. Floats are added in replica order, 16-bit ones in 32 bits and 32-bit
   * ones in 64, and rounded once.
   */
  UMBO_REDUCE_SUM = 601,
  /**
   * The sum divided by the count. The mean of integers is a float: float32 for 8 and 16 bits,
   * float64 for wider ones.
   */
  UMBO_REDUCE_MEAN = 602,
  /**
   * The smallest element, of the same dtype. If any element is NaN, the result is the quiet NaN; -0
   * is less than +0. The MIN of bool is true if all are.
   */
  UMBO_REDUCE_MIN = 603,
  /** The largest element, by the rules of UMBO_REDUCE_MIN. The MAX of bool is true if any is. */
  UMBO_REDUCE_MAX = 604
} umbo_reduce_op;

/** How a value is reduced or gathered. */
typedef struct umbo_reduce_options {
  size_t struct_size;
  /** The number of elements of `axes`. */
  int64_t axis_count;
  /**
   * Axes to reduce along within each replica; negative ones count from the back. NULL: over the
   * replicas only.
   */
  const int32_t *axes;
  /**
   * The name of the device of the result. NULL: CPU:0, but a plain value that needs no reduction
   * stays where it is.
   */
  const char *destination;
  /**
   * A tensor of the dtype and shape of the result, which gets it. It shares no memory with the
   * value. NULL: a new tensor. Not for nests and indexed slices.
   */
  umbo_tensor *output;
} umbo_reduce_options;

#define umbo_reduce_options_defaults UMBO_STRUCT_SIZE(umbo_reduce_options), 0, NULL, NULL, NULL
#define UMBO_REDUCE_OPTIONS_INIT { umbo_reduce_options_defaults }

/**
 * Reduces a value over the replicas, leaf by leaf.
 *
 * @param[in] options May be NULL.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: shapes that differ (the message lists all), the SUM or MEAN of
 *   bool, the MIN or MAX of no elements, the SUM of a plain value over several replicas without
 *   axes, or an output that does not fit.
 * - UMBO_STATUS_OUT_OF_RANGE: no such axis, or an index outside the shape of indexed slices.
 * - UMBO_STATUS_NOT_FOUND: no such destination.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback, which uses
 *   umbo_replica_context_all_reduce(), or from another strategy's scope.
 *
 * Without axes, components of one shape and dtype are added element by element. MEAN divides by
 * the number of components.
 *
 * With axes, each component is summed along them, then the sums are added. Components may differ
 * in these dimensions: axis 0 is right for a last, partial batch. MEAN divides by the number of
 * elements that were added; the mean of none is NaN. MIN and MAX ignore components that are empty,
 * and fail if all are.
 *
 * A plain tensor or variable counts once for each replica if there are axes, else it is its own
 * MEAN, MIN and MAX. The mean of integers is a float, with one replica too.
 *
 * Indexed slices without axes are concatenated in replica order; an index may occur several times,
 * and MEAN divides the values by the number of components. With axes, by MIN and MAX, and where
 * other components are tensors, they are reduced as dense tensors. Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_reduce(
    umbo_strategy *strategy, const umbo_value *value, umbo_reduce_op op,
    const umbo_reduce_options *options, umbo_value **result);

/**
 * Concatenates the components of a per-replica value in replica order, leaf by leaf.
 *
 * @param[in] axis Negative ones count from the back.
 * @param[in] options Without axes. May be NULL.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: scalars, axes in the options, an output that does not fit, or
 *   components that differ in number of dimensions, dtype or another dimension.
 * - UMBO_STATUS_OUT_OF_RANGE: no such axis.
 * - UMBO_STATUS_NOT_FOUND: no such destination.
 * - UMBO_STATUS_UNIMPLEMENTED: indexed slices outside a per-replica value, where they are made
 *   dense.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_reduce().
 *
 * Components may be empty. Plain values and values of one component come back as they are.
 * Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_gather(
    umbo_strategy *strategy, const umbo_value *value, int32_t axis,
    const umbo_reduce_options *options, umbo_value **result);

/**
 * Makes a tuple of the components of a value in this process, in every context.
 *
 * @param[out] results A tuple of the components of a per-replica value, of a nest for each
 *   replica, or of the plain value alone.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_local_results(
    const umbo_strategy *strategy, const umbo_value *value, umbo_value **results);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
