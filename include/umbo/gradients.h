/* Generated from src/ffi; do not edit. */
#ifndef UMBO_GRADIENTS_H
#define UMBO_GRADIENTS_H

/**
 * @file gradients.h
 * @brief Gradients: buffers that replicas write, one for each variable and replica.
 *
 * What a replica's gradients mean (sums, means) is declared when they are made; the library
 * combines them so that an update does not depend on the number of replicas. The caller releases
 * gradients, which keep their variables. A view is valid until its replica's callback returns.
 *
 * Threads: each replica uses the gradients with its own context; functions with a context are
 * *concurrent*, and nobody waits.
 *
 * Functions:
 * - umbo_gradients_create(): Gradient buffers for `count` variables, one for each variable and
 *   replica of a strategy.
 * - umbo_gradients_view(): This replica's own buffer for variable `index`, of the variable's
 *   shape, and of its dtype unless the options say another, on the replica's device; to be
 *   written until the replica submits.
 * - umbo_gradients_add_rows(): Adds `rows` rows (0 or more) to what this replica contributes to
 *   row-sparse variable `index` in this step, and gives room to write them, on the replica's
 *   device, until the replica submits: `indices`, int64 of shape [rows], takes which rows of the
 *   variable they are, and `values`, of the gradients' dtype and the variable's shape but for the
 *   number of rows, their gradients.
 * - umbo_gradients_add_indexed_slices(): Adds copies of the rows of `slices` to what this replica
 *   contributes to row-sparse variable `index` in this step: indexed slices of the gradients'
 *   dtype and the variable's shape (INVALID_ARGUMENT if they differ).
 * - umbo_gradients_count(): How many variables the gradients are of.
 * - umbo_gradients_variable(): One of the variables that the gradients are of.
 * - umbo_gradients_loss_reduction(): What the callback's gradients stand for.
 * - umbo_gradients_accumulation_steps(): How many runs make one update.
 * - umbo_gradients_row_sparse(): Whether replicas contribute rows of a variable.
 * - umbo_gradients_dtype(): The element type in which replicas write the gradients of a variable:
 *   that of the options, or the variable's.
 * - umbo_gradients_submit(): Submits what this replica wrote into its buffers in this step, once,
 *   weighted by the examples of its part of the run's arguments.
 * - umbo_gradients_submit_weighted(): As umbo_gradients_submit(), with a weight of the caller's,
 *   which is finite and 0 or more.
 * - umbo_gradients_retain(): Another handle to the same object, to be released like the first;
 *   also of what a callback was only lent, which then stays.
 * - umbo_gradients_release(): Releases a reference.
 *
 * Example:
 * ```c
 * // A replica writes its gradient of variable 0, a sum over its examples.
 * static umbo_status write_gradient(umbo_replica_context *ctx, umbo_gradients *gradients) {
 *   umbo_view view;
 *   UMBO_TRY(umbo_gradients_view(gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &view));
 *   *(float *)view.mutable_data = 1.0f;
 *   return umbo_gradients_submit(gradients, ctx);
 * }
 * ```
 */

#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif


/** How the callback reduces the losses of its examples, and so what its gradients stand for. */
UMBO_ENUM(umbo_loss_reduction) {
  /** Not said yet; no function takes it. */
  UMBO_LOSS_UNSET = 0,
  /**
   * The callback sums over its examples. The update takes the sum over replicas, divided by the
   * total weight.
   */
  UMBO_LOSS_SUM = 1,
  /**
   * The callback takes the mean over its examples. The update takes the mean over replicas,
   * weighted by their weights.
   */
  UMBO_LOSS_MEAN = 2,
  /**
   * The callback divides by the examples of the global batch itself. The update takes the sum over
   * replicas.
   */
  UMBO_LOSS_GLOBAL_MEAN = 3
};

/** How gradients are combined. Start from UMBO_GRADIENTS_OPTIONS_INIT. */
typedef struct umbo_gradients_options {
  /** sizeof(umbo_gradients_options). */
  size_t struct_size;
  /** UMBO_LOSS_SUM, UMBO_LOSS_MEAN or UMBO_LOSS_GLOBAL_MEAN. Must be given: there is no default. */
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
   * The element type of the gradients: UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16 for float32
   * variables, so that replicas write, and an update reads, half as much. Sums over replicas are
   * float64 all the same, and weights and state stay what they are. UMBO_DTYPE_NONE, the default:
   * the type of each variable.
   */
  umbo_dtype dtype;
} umbo_gradients_options;

/** The starting value of a umbo_gradients_options. */
#define UMBO_GRADIENTS_OPTIONS_INIT \
  { sizeof(umbo_gradients_options), UMBO_LOSS_UNSET, 1, NULL, UMBO_DTYPE_NONE }

/** UMBO_GRADIENTS_OPTIONS_INIT, to be assigned. */
static inline umbo_gradients_options umbo_gradients_options_default(void) {
  umbo_gradients_options value = UMBO_GRADIENTS_OPTIONS_INIT;
  return value;
}

/** What a replica does with its gradient buffer. */
UMBO_ENUM(umbo_gradient_mode) {
  /** It writes every element; the buffer holds whatever it held before. */
  UMBO_GRADIENT_OVERWRITE = 1,
  /** It adds to the elements, which are zero at its first view in a step. */
  UMBO_GRADIENT_ADD = 2
};

/**
 * Gradient buffers for `count` variables, one for each variable and replica of a strategy.
 *
 * The variables must differ, have been made by the strategy, and be float32 or float64; they stay
 * the caller's to release. `options` must say what the callback's gradients stand for.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_create(
    umbo_strategy *strategy, int64_t count, umbo_variable *const *variables,
    const umbo_gradients_options *options, umbo_gradients **gradients);

/**
 * This replica's own buffer for variable `index`, of the variable's shape, and of its dtype unless
 * the options say another, on the replica's device; to be written until the replica submits. `mode`
 * is UMBO_GRADIENT_OVERWRITE or UMBO_GRADIENT_ADD. A variable that a replica does not view in a
 * step counts as zero from it; one that no replica views is not updated.
 *
 * Replicas call this at the same time; nothing is allocated and nobody waits. OUT_OF_RANGE: no
 * such variable. FAILED_PRECONDITION: a row-sparse variable, not in a run of the strategy that the
 * gradients were made for, or submitted already. CANCELLED: the run has returned without this
 * replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_view(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, umbo_gradient_mode mode,
    umbo_view *view);

/**
 * Adds `rows` rows (0 or more) to what this replica contributes to row-sparse variable `index` in
 * this step, and gives room to write them, on the replica's device, until the replica submits:
 * `indices`, int64 of shape [rows], takes which rows of the variable they are, and `values`, of the
 * gradients' dtype and the variable's shape but for the number of rows, their gradients. Both hold
 * whatever they held before. A further call in the step adds further rows; the first views stay
 * valid.
 *
 * Rows may come in any order. One that is named several times, in a call, in several or by several
 * replicas, stands for the sum of what is given for it; what is done with sums is the same as for
 * other variables. But the update is lazy: rows that nobody named, and what the optimizer keeps for
 * them, stay as they are, so that momentum and weight decay act on the rows that were named alone.
 * Adam's t counts the updates of the variable. An apply with LAMB is INVALID_ARGUMENT. A variable
 * to which replicas add 0 rows counts as updated; one to which none adds any, not even 0, does not.
 *
 * Sums are in replica order, then in the order in which rows were added, so the bits depend neither
 * on threads nor on who comes first.
 *
 * Replicas call this at the same time, and nobody waits; nothing is allocated once a step had as
 * many rows in as many calls. An index that is no row of the variable is OUT_OF_RANGE from the call
 * that submits with a weight other than 0. FAILED_PRECONDITION: not declared row-sparse; else as
 * for umbo_gradients_view(). RESOURCE_EXHAUSTED: no memory for as many rows.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_add_rows(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, int64_t rows,
    umbo_view *indices, umbo_view *values);

/**
 * Adds copies of the rows of `slices` to what this replica contributes to row-sparse variable
 * `index` in this step: indexed slices of the gradients' dtype and the variable's shape
 * (INVALID_ARGUMENT if they differ). Otherwise as umbo_gradients_add_rows().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_add_indexed_slices(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, const umbo_value *slices);

/**
 * How many variables the gradients are of.
 *
 * @param gradients The gradients.
 * @param count Gets the number.
 * @return UMBO_OK.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_count(
    const umbo_gradients *gradients, int64_t *count);

/**
 * One of the variables that the gradients are of.
 *
 * @param gradients The gradients.
 * @param index Its number among them.
 * @param variable Gets a new handle to the variable.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE if there is no such variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_variable(
    const umbo_gradients *gradients, int64_t index, umbo_variable **variable);

/**
 * What the callback's gradients stand for.
 *
 * @param gradients The gradients.
 * @param loss_reduction Gets what they were made with.
 * @return UMBO_OK.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_loss_reduction(
    const umbo_gradients *gradients, umbo_loss_reduction *loss_reduction);

/**
 * How many runs make one update.
 *
 * @param gradients The gradients.
 * @param steps Gets what they were made with.
 * @return UMBO_OK.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_accumulation_steps(
    const umbo_gradients *gradients, int64_t *steps);

/**
 * Whether replicas contribute rows of a variable.
 *
 * @param gradients The gradients.
 * @param index The number of the variable among those of the gradients.
 * @param row_sparse Gets 1 or 0.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE if there is no such variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_row_sparse(
    const umbo_gradients *gradients, int64_t index, int32_t *row_sparse);

/**
 * The element type in which replicas write the gradients of a variable: that of the options, or the
 * variable's.
 *
 * @param gradients The gradients.
 * @param index The number of the variable among those of the gradients.
 * @param dtype Gets the type.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE if there is no such variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_dtype(
    const umbo_gradients *gradients, int64_t index, umbo_dtype *dtype);

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
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_submit(
    umbo_gradients *gradients, umbo_replica_context *ctx);

/**
 * As umbo_gradients_submit(), with a weight of the caller's, which is finite and 0 or more. With
 * weight 0 nothing of what this replica wrote is read.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_submit_weighted(
    umbo_gradients *gradients, umbo_replica_context *ctx, double weight);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_retain(
    const umbo_gradients *gradients, umbo_gradients **retained);

/** Releases a reference. NULL is fine. */
UMBO_API void umbo_gradients_release(const umbo_gradients *gradients);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
