/* Generated from src/ffi; do not edit. */
#ifndef UMBO_COLLECTIVE_H
#define UMBO_COLLECTIVE_H

/**
 * @file collective.h
 * @brief Reducing and gathering values over the replicas, outside of their callbacks.
 *
 * The results are new values, which the caller releases. The values that are reduced do not change.
 * In a replica's callback use the all-reduce and all-gather of replica_context.h.
 *
 * Threads: all functions are *concurrent*. They read the value, so nobody may write it meanwhile.
 *
 * Example:
 * ```c
 * // The sum over the replicas of what a run returned.
 * static umbo_status total(umbo_strategy *strategy, const umbo_value *results, umbo_value **sum) {
 *   umbo_reduce_options options = UMBO_REDUCE_OPTIONS_INIT;
 *   options.destination = "CPU:0";
 *   return umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, results, &options, sum);
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How values are reduced. */
UMBO_ENUM(umbo_reduce_op) {
  /**
   * The sum. Integers wrap. Floats are added in replica order and rounded once: 16-bit ones in 32
   * bits, 32-bit ones in 64.
   */
  UMBO_REDUCE_SUM = 1,
  /**
   * The sum divided by the count. The mean of integers is a float: float32 for 8 and 16 bits,
   * float64 for wider ones.
   */
  UMBO_REDUCE_MEAN = 2
};

/** How a value is reduced or gathered. Start from UMBO_REDUCE_OPTIONS_INIT. */
typedef struct umbo_reduce_options {
  size_t struct_size;
  /**
   * An array of `axis_count` axes to reduce along within each replica; negative ones count from
   * the back. NULL: reduce over the replicas only.
   */
  const int32_t *axes;
  /** The number of axes. If it is 0 and `axes` is not NULL, only the replicas are reduced over. */
  int64_t axis_count;
  /**
   * The name of the result's device. NULL: CPU:0, but a plain value that needs no reduction
   * stays where it is. Where a device is named, such a value is copied to it.
   */
  const char *destination;
  /**
   * A tensor of the result's dtype and shape, into which the result is written. It must not
   * share memory with the value, and nobody else may use it during the call. NULL: a new tensor.
   * Not possible for nests and indexed slices.
   */
  umbo_tensor *output;
} umbo_reduce_options;

#define UMBO_REDUCE_OPTIONS_INIT { sizeof(umbo_reduce_options), NULL, 0, NULL, NULL }
UMBO_DEFAULT(umbo_reduce_options, UMBO_REDUCE_OPTIONS_INIT)

/** Where a reduced value goes. Start from UMBO_DESTINATION_INIT and set exactly one field. */
typedef struct umbo_destination {
  size_t struct_size;
  /** The name of a device. */
  const char *device;
  /**
   * A value on whose device the result shall lie: a tensor or indexed slices. With a per-replica
   * value the devices of all its components count, and each gets a copy.
   */
  const umbo_value *like;
  /** A variable on whose device the result shall lie. */
  const umbo_variable *variable;
} umbo_destination;

#define UMBO_DESTINATION_INIT { sizeof(umbo_destination), NULL, NULL, NULL }
UMBO_DEFAULT(umbo_destination, UMBO_DESTINATION_INIT)

/**
 * Adds up or averages a value over the replicas.
 *
 * @param[in] op UMBO_REDUCE_SUM or UMBO_REDUCE_MEAN.
 * @param[in] value The value, of which each leaf is reduced by itself. It stays as it is.
 * @param[in] options Axes, device and output; `options` may be NULL: all defaults.
 * @param[out] result The reduced value. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an unknown `op`, shapes that differ (the message lists all of
 *   them), bool, the SUM of a plain value over several replicas without axes, or an output that
 *   does not fit.
 * - UMBO_STATUS_OUT_OF_RANGE: no such axis, or an index outside of the dense shape of indexed
 *   slices.
 * - UMBO_STATUS_NOT_FOUND: a destination that does not exist.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback, which uses
 *   umbo_replica_context_all_reduce(), or from another strategy's scope.
 *
 * Without axes, the components of a per-replica value are added element by element. They must
 * agree in shape and dtype. MEAN divides by the number of components.
 *
 * With axes, each component is summed along them, and then the sums are added. So components may
 * differ in those dimensions: axis 0 is right for a last, partial batch. MEAN divides by the
 * number of elements that were added, over all replicas. An empty component adds nothing. The mean
 * of no elements is NaN.
 *
 * A plain tensor or variable counts once for each replica if there are axes. Without axes it is
 * its own mean; the mean of integers is a float here too, so that the dtype does not depend on the
 * number of replicas.
 *
 * Indexed slices without axes are concatenated in replica order. Their dense shapes must agree. An
 * index may occur several times; its row is then the sum of these slices. MEAN divides the values
 * by the number of components. With axes, or if some components are tensors, indexed slices are
 * reduced as the dense tensors that they stand for, and the result is dense.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_reduce(
    umbo_strategy *strategy, umbo_reduce_op op, const umbo_value *value,
    const umbo_reduce_options *options, umbo_value **result);

/**
 * Concatenates the components of a per-replica value.
 *
 * @param[in] value The value, of which each leaf is gathered by itself. It stays as it is.
 * @param[in] axis The axis to concatenate along; negative ones count from the back.
 * @param[in] options Device and output; its axes must not be set. `options` may be NULL: all
 *   defaults.
 * @param[out] result The concatenation in replica order. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: scalars, axes in the options, an output that does not fit, or
 *   components that differ in rank, dtype or another dimension (the message names the replicas).
 * - UMBO_STATUS_OUT_OF_RANGE: no such axis.
 * - UMBO_STATUS_NOT_FOUND: a destination that does not exist.
 * - UMBO_STATUS_UNIMPLEMENTED: indexed slices outside of a per-replica value.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_reduce().
 *
 * Components may be empty. Plain values and values of one component come back as they are. Indexed
 * slices in a per-replica value are made dense first.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_gather(
    umbo_strategy *strategy, const umbo_value *value, int32_t axis,
    const umbo_reduce_options *options, umbo_value **result);

/**
 * Gives the components of a value as a tuple.
 *
 * @param[out] results A tuple: of the components of a per-replica value, of one nest for each
 *   replica of a nest, or of the value alone. The caller releases it.
 *
 * It may be called in every context.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_local_results(
    const umbo_strategy *strategy, const umbo_value *value, umbo_value **results);

/**
 * Reduces a value over the replicas onto a destination.
 *
 * @param[in] op UMBO_REDUCE_SUM or UMBO_REDUCE_MEAN.
 * @param[in] value The value. It stays as it is.
 * @param[in] destination Where the result goes.
 * @param[out] result A plain value on one device; with a per-replica destination, a per-replica
 *   value with one copy for each of its components. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: as for umbo_strategy_reduce(), or a destination with no field or
 *   several fields set.
 * - UMBO_STATUS_NOT_FOUND: a device that does not exist.
 * - the others of umbo_strategy_reduce().
 *
 * The numbers are those of umbo_strategy_reduce() without axes.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_reduce_to(
    umbo_strategy *strategy, umbo_reduce_op op, const umbo_value *value,
    const umbo_destination *destination, umbo_value **result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
