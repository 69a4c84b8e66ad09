/* Generated from src/ffi; do not edit. */
#ifndef UMBO_COLLECTIVE_H
#define UMBO_COLLECTIVE_H

/**
 * @file collective.h
 * @brief Reducing and gathering values over the replicas, outside of their callbacks.
 *
 * The results are new values, which the caller releases; what is reduced stays as it is. Within a
 * replica's callback use the all-reduce and all-gather of replica_context.h.
 *
 * Threads: all functions are *concurrent*. They read the components of the value: nobody may write
 * them meanwhile.
 *
 * Functions:
 * - umbo_strategy_reduce(): Reduces a value over the replicas and, if `options` names axes, within
 *   each replica along them.
 * - umbo_strategy_gather(): Concatenates the components of a per-replica value along `axis`, in
 *   replica order; a negative axis counts from the back.
 * - umbo_strategy_local_results(): The local results of a value, as a tuple: the components of a
 *   per-replica value; for a nest one nest for each replica; anything else alone.
 * - umbo_strategy_reduce_to(): Reduces a value over the replicas onto a destination: a plain value
 *   on one device, or a per-replica value with one copy for each component of a per-replica
 *   destination.
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
   * The sum. Integers wrap; 16-bit floats add up in 32 bits and 32-bit ones in 64, in replica
   * order, rounded once.
   */
  UMBO_REDUCE_SUM = 1,
  /** The sum divided by the count. Integers of 8 and 16 bits give float32, wider ones float64. */
  UMBO_REDUCE_MEAN = 2
};

/** How a reduction or a gathering is done. Start from UMBO_REDUCE_OPTIONS_INIT. */
typedef struct umbo_reduce_options {
  /** sizeof(umbo_reduce_options). */
  size_t struct_size;
  /**
   * Axes that are reduced within each replica too; negative ones count from the back. NULL:
   * reduce over the replicas only.
   */
  const int32_t *axes;
  /** How many axes there are. With `axes` not NULL, 0 reduces over the replicas only. */
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
  umbo_tensor *output;
} umbo_reduce_options;

/** The starting value of a umbo_reduce_options. */
#define UMBO_REDUCE_OPTIONS_INIT { sizeof(umbo_reduce_options), NULL, 0, NULL, NULL }

/** UMBO_REDUCE_OPTIONS_INIT, to be assigned. */
static inline umbo_reduce_options umbo_reduce_options_default(void) {
  umbo_reduce_options value = UMBO_REDUCE_OPTIONS_INIT;
  return value;
}

/** Where a reduction goes: exactly one of the fields is set. Start from UMBO_DESTINATION_INIT. */
typedef struct umbo_destination {
  /** sizeof(umbo_destination). */
  size_t struct_size;
  /** A device. */
  const char *device;
  /**
   * The device of a tensor or of indexed slices; of a per-replica value the devices of all
   * components, each of which gets a copy.
   */
  const umbo_value *like;
  /** The device of a variable. */
  const umbo_variable *variable;
} umbo_destination;

/** The starting value of a umbo_destination. */
#define UMBO_DESTINATION_INIT { sizeof(umbo_destination), NULL, NULL, NULL }

/** UMBO_DESTINATION_INIT, to be assigned. */
static inline umbo_destination umbo_destination_default(void) {
  umbo_destination value = UMBO_DESTINATION_INIT;
  return value;
}

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
 * A plain tensor or variable without axes is its own mean (of integers a float all the same, so
 * that the dtype does not depend on the number of replicas); its SUM over several replicas is
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
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_reduce(
    umbo_strategy *strategy, umbo_reduce_op op, const umbo_value *value,
    const umbo_reduce_options *options, umbo_value **result);

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
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_gather(
    umbo_strategy *strategy, const umbo_value *value, int32_t axis,
    const umbo_reduce_options *options, umbo_value **result);

/**
 * The local results of a value, as a tuple: the components of a per-replica value; for a nest one
 * nest for each replica; anything else alone. In every context.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_local_results(
    const umbo_strategy *strategy, const umbo_value *value, umbo_value **results);

/**
 * Reduces a value over the replicas onto a destination: a plain value on one device, or a
 * per-replica value with one copy for each component of a per-replica destination. Otherwise as
 * umbo_strategy_reduce() without axes.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_reduce_to(
    umbo_strategy *strategy, umbo_reduce_op op, const umbo_value *value,
    const umbo_destination *destination, umbo_value **result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
