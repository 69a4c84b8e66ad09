/* Generated from src/ffi; do not edit. */
#ifndef UMBO_GRADIENTS_H
#define UMBO_GRADIENTS_H

/**
 * @file gradients.h
 * @brief Gradients: buffers that replicas write, one for each variable and replica.
 *
 * In each step a replica writes its gradients into its own buffers and submits them. After the run
 * umbo_optimizer_apply() combines and uses them. What they are (sums or means over a replica's
 * examples) is declared when the buffers are made. So an update does not depend on the number of
 * replicas. The caller releases gradients, which keep their variables. A view is written until its
 * replica submits, and is valid until the replica's callback returns.
 *
 * Threads: each replica uses the gradients with its own context. Functions that take a context are
 * *concurrent* and do not wait for other replicas.
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


/** How the callback reduces the losses of its examples, which says what its gradients mean. */
UMBO_ENUM(umbo_loss_reduction) {
  /** Not chosen; no function accepts it. */
  UMBO_LOSS_UNSET = 0,
  /**
   * The callback sums over its examples. The update uses the sum over the replicas, divided by the
   * total weight.
   */
  UMBO_LOSS_SUM = 1,
  /**
   * The callback takes the mean over its examples. The update uses the mean over the replicas,
   * weighted by their weights.
   */
  UMBO_LOSS_MEAN = 2,
  /**
   * The callback sums over its examples and divides by the number of examples of the global batch.
   * The update uses the sum over the replicas.
   */
  UMBO_LOSS_GLOBAL_MEAN = 3
};

/** How gradients are combined. Start from UMBO_GRADIENTS_OPTIONS_INIT. */
typedef struct umbo_gradients_options {
  size_t struct_size;
  /**
   * UMBO_LOSS_SUM, UMBO_LOSS_MEAN or UMBO_LOSS_GLOBAL_MEAN. There is no default: it must be set.
   */
  umbo_loss_reduction loss_reduction;
  /**
   * How many runs make one update; 1 or more, by default 1. Call umbo_optimizer_apply() after
   * each run. The contributions of all these runs are added and divided by their total weight,
   * as if one run had submitted them. With UMBO_LOSS_GLOBAL_MEAN the callback divides by the
   * examples of all of these runs. More than 1 costs 8 bytes for each element of the variables,
   * on their device; for row-sparse variables only the rows that were named count.
   */
  int64_t accumulation_steps;
  /**
   * An array with a number for each variable: 1 for a row-sparse variable, 0 for any other.
   * NULL: none is row-sparse. A row-sparse variable, such as an embedding table, has one
   * dimension or more, and a step contributes to some of its rows only. Replicas do so with
   * umbo_gradients_add_rows() and umbo_gradients_add_indexed_slices() and do not call
   * umbo_gradients_view(). There are no buffers of the variable's size, and the costs of an
   * apply are those of the rows.
   */
  const int32_t *row_sparse;
  /**
   * The element type of the gradients. UMBO_DTYPE_NONE, the default: that of each variable.
   * UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16, for float32 variables: replicas write half as
   * many bytes, and an apply reads half as many. Sums over replicas are float64 in every case,
   * and the variables and the optimizer's state keep their type.
   */
  umbo_dtype dtype;
} umbo_gradients_options;

#define UMBO_GRADIENTS_OPTIONS_INIT \
  { sizeof(umbo_gradients_options), UMBO_LOSS_UNSET, 1, NULL, UMBO_DTYPE_NONE }
UMBO_DEFAULT(umbo_gradients_options, UMBO_GRADIENTS_OPTIONS_INIT)

/** What gradients were made for, and how. Start from UMBO_GRADIENTS_INFO_INIT. */
typedef struct umbo_gradients_info {
  size_t struct_size;
  /** The number of variables that the gradients are for. */
  int64_t num_variables;
  /** How many runs make one update. */
  int64_t accumulation_steps;
  /** The loss reduction that the gradients were made with. */
  umbo_loss_reduction loss_reduction;
} umbo_gradients_info;

#define UMBO_GRADIENTS_INFO_INIT { sizeof(umbo_gradients_info), 0, 0, UMBO_LOSS_UNSET }
UMBO_DEFAULT(umbo_gradients_info, UMBO_GRADIENTS_INFO_INIT)

/** What the gradients of one variable are. Start from UMBO_GRADIENT_INFO_INIT. */
typedef struct umbo_gradient_info {
  size_t struct_size;
  /**
   * The type in which replicas write them: that of the options, or the variable's if the options
   * give none.
   */
  umbo_dtype dtype;
  /** 1 if replicas contribute rows, else 0. */
  int32_t row_sparse;
} umbo_gradient_info;

#define UMBO_GRADIENT_INFO_INIT { sizeof(umbo_gradient_info), UMBO_DTYPE_NONE, 0 }
UMBO_DEFAULT(umbo_gradient_info, UMBO_GRADIENT_INFO_INIT)

/**
 * Makes gradient buffers, one for each variable and replica.
 *
 * @param[in] strategy The strategy whose replicas write them.
 * @param[in] count The number of variables, 1 or more.
 * @param[in] variables The variables: all different, made by `strategy`, and of float32 or
 *   float64. Gradients keep a reference of their own.
 * @param[in] options What the gradients mean, and their type; must be given, since
 *   `loss_reduction` has no default.
 * @param[out] gradients The new gradients. The caller releases them.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: no variables, a variable named twice or made by another strategy,
 *   a scalar that is row-sparse, `loss_reduction` unset, or another option that is out of range or
 *   does not fit.
 * - UMBO_STATUS_UNIMPLEMENTED: a variable that is neither float32 nor float64.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_create(
    umbo_strategy *strategy, int64_t count, umbo_variable *const *variables,
    const umbo_gradients_options *options, umbo_gradients **gradients);

/**
 * Gets what gradients were made for, and how.
 *
 * @param[out] info Their description. Start from UMBO_GRADIENTS_INFO_INIT, which sets its size.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_get_info(
    const umbo_gradients *gradients, umbo_gradients_info *info);

/**
 * Gets what the gradients of one variable are.
 *
 * @param[in] index The place of the variable among those that the gradients were made for.
 * @param[out] info Their description. Start from UMBO_GRADIENT_INFO_INIT, which sets its size.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_get_gradient_info(
    const umbo_gradients *gradients, int64_t index, umbo_gradient_info *info);

/**
 * Gives one of the variables that the gradients are for.
 *
 * @param[in] index The place of the variable among those that the gradients were made for.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_variable(
    const umbo_gradients *gradients, int64_t index, umbo_variable **variable);

/**
 * Gives the gradient of a variable that the next apply would take.
 *
 * @param[in] index The place of the variable among those that the gradients were made for.
 * @param[in] optimizer The optimizer whose loss scale is taken out of the last run (of accumulated
 *   ones it is out already). `optimizer` may be NULL: there is no loss scale.
 * @param[out] value A new value: a tensor, or for a row-sparse variable indexed slices of the rows
 *   that were named, ascending, each once. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an optimizer of another strategy.
 * - UMBO_STATUS_OUT_OF_RANGE: no such variable.
 * - UMBO_STATUS_NOT_FOUND: no replica contributed to the variable.
 * - UMBO_STATUS_FAILED_PRECONDITION: inside of a run, where umbo_optimizer_apply() would find
 *   nothing to apply, or if all weights are 0.
 *
 * It is summed over replicas and accumulated runs and divided as `loss_reduction` says, without the
 * loss scale, before clipping and weight decay, in the variable's type. With accumulated runs it is
 * divided by the weight of those that there are. Nothing is used up. The call waits for a run that
 * another thread has in progress.
 *
 * With several ranks all of them call this, and each gets the gradient over all ranks' replicas.
 * The ranks tell each other all that their replicas have contributed to the variable, which is more
 * than an apply does.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_reduced(
    const umbo_gradients *gradients, int64_t index, const umbo_optimizer *optimizer,
    umbo_value **value);

/** Makes another handle to the same gradients: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_gradients_retain(
    const umbo_gradients *gradients, umbo_gradients **retained) {
  return umbo_retain(gradients, UMBO_HANDLE_GRADIENTS, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_gradients_release(const umbo_gradients *gradients) {
  umbo_release(gradients, UMBO_HANDLE_GRADIENTS);
}

/** What a replica does with its gradient buffer. */
UMBO_ENUM(umbo_gradient_mode) {
  /** It writes every element. The buffer contains old data before. */
  UMBO_GRADIENT_OVERWRITE = 1,
  /**
   * It adds to the elements. They are zero when the replica first views the buffer in a step. Its
   * own additions are rounded to the type of the buffer each time: in float16 2048 + 1 is 2048. A
   * callback that adds often to a buffer of 16-bit floats adds in memory of its own and converts
   * the sum (umbo_convert_from_float()). The sums of the library, over rows, replicas and runs, are
   * float64.
   */
  UMBO_GRADIENT_ADD = 2
};

/**
 * Gives this replica's buffer for the gradient of a variable.
 *
 * @param[in] ctx The replica's context.
 * @param[in] index The place of the variable among those that the gradients were made for.
 * @param[in] mode UMBO_GRADIENT_OVERWRITE or UMBO_GRADIENT_ADD.
 * @param[out] view The buffer, to be written until the replica submits. It has the variable's
 *   shape, and its dtype unless the options give another one. It is on the replica's device.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an unknown `mode`.
 * - UMBO_STATUS_OUT_OF_RANGE: no such variable.
 * - UMBO_STATUS_FAILED_PRECONDITION: the variable is row-sparse, this is not a run of the strategy
 *   that the gradients were made for, the replica has submitted already, or what an earlier run
 *   submitted was not applied.
 * - UMBO_STATUS_CANCELLED: the run has returned without this replica.
 *
 * If a replica does not view a variable in a step, its gradient counts as zero. If no replica
 * views it, the variable is not updated. Replicas call at the same time; the call allocates
 * nothing and does not wait.
 *
 * The buffer stays where it is: the view has the same address in every step as long as the
 * gradients live. umbo_gradients_attach() lets a gradient stay in the program's memory instead.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_view(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, umbo_gradient_mode mode,
    umbo_view *view);

/**
 * Gives this replica's buffers for the gradients of all variables.
 *
 * @param[in] ctx The replica's context.
 * @param[in] mode UMBO_GRADIENT_OVERWRITE or UMBO_GRADIENT_ADD, for all buffers.
 * @param[in] capacity How many views there is room for.
 * @param[out] views The buffers, one for each variable, in the order of the variables; NULL if
 *   `capacity` is 0.
 * @param[out] count The number of variables, also if `capacity` is less.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: `capacity` is less than the number of variables.
 * - the others of umbo_gradients_view().
 *
 * It does what umbo_gradients_view() does for each variable, in one call. A row-sparse variable has
 * no buffer, and gets a view of zeros, whose `mutable_data` is NULL. All others count as viewed, so
 * with UMBO_GRADIENT_OVERWRITE all of them are written in full. If the call fails, none of them
 * counts as viewed because of it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_views(
    umbo_gradients *gradients, umbo_replica_context *ctx, umbo_gradient_mode mode,
    int64_t capacity, umbo_view *views, int64_t *count);

/**
 * Adds rows to this replica's gradient of a row-sparse variable.
 *
 * @param[in] ctx The replica's context.
 * @param[in] index The place of the variable among those that the gradients were made for.
 * @param[in] rows How many rows to add; 0 or more.
 * @param[out] indices Room for the numbers of the rows in the variable: int64, of shape [rows].
 * @param[out] values Room for their gradients: of the gradients' dtype, and of the variable's
 *   shape with `rows` in place of the first dimension.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a negative number of rows.
 * - UMBO_STATUS_OUT_OF_RANGE: no such variable.
 * - UMBO_STATUS_FAILED_PRECONDITION: the variable is not row-sparse, or as for
 *   umbo_gradients_view().
 * - UMBO_STATUS_CANCELLED: the run has returned without this replica.
 *
 * Write all of both views before the replica submits; they contain old data before. They are on
 * the replica's device. A further call in the step adds further rows, and the earlier views stay
 * valid.
 *
 * Rows may come in any order. A row may be named several times, in one call, in several calls or
 * by several replicas: its gradient is then the sum. Sums are in replica order, and for each
 * replica in the order in which it added the rows. So their bits do not depend on threads or
 * timing. Sums are then treated as the gradients of other variables are.
 *
 * The update is *lazy*: it changes only the rows that were named and the optimizer's state for
 * them. So momentum and weight decay act on these rows only. Adam's t counts the updates of the
 * variable. An apply with LAMB is UMBO_STATUS_INVALID_ARGUMENT. A variable to which a replica adds
 * 0 rows counts as updated; one for which no replica makes this call does not.
 *
 * Indices are checked by the call that submits, unless its weight is 0. An index that is no row of
 * the variable is UMBO_STATUS_OUT_OF_RANGE there.
 *
 * Replicas call at the same time, and the call does not wait. It allocates nothing if an earlier
 * step had as many rows in as many calls.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_add_rows(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, int64_t rows,
    umbo_view *indices, umbo_view *values);

/**
 * Adds copies of indexed slices to a gradient.
 *
 * @param[in] ctx The replica's context.
 * @param[in] index The place of the variable among those that the gradients were made for.
 * @param[in] slices Indexed slices of the gradients' dtype and the variable's shape. They stay the
 *   caller's.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or another dtype or shape.
 * - the others of umbo_gradients_add_rows().
 *
 * The rows count as those of umbo_gradients_add_rows().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_add_indexed_slices(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, const umbo_value *slices);

/**
 * Submits this replica's gradients, weighted by its number of examples.
 *
 * @param[in] ctx The replica's context.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: the run's arguments contain no per-replica value that tells
 *   the number of examples (umbo_gradients_submit_weighted() takes a weight), the replica has
 *   submitted already, or as for umbo_gradients_view().
 * - UMBO_STATUS_OUT_OF_RANGE: an index among the rows that this replica added is no row of its
 *   variable. The replica has not submitted then.
 * - UMBO_STATUS_CANCELLED: the run has returned without this replica.
 *
 * Each replica submits once in a step, after all of its gradients are written. The number of
 * examples is that of its part of the run's arguments. A replica without examples submits too;
 * what it wrote is not read. One that has examples, and has viewed, attached or added none of the
 * gradients in this step, submits zeros: the log gets a warning, once, and a strict strategy fails
 * with UMBO_STATUS_FAILED_PRECONDITION.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_submit(
    umbo_gradients *gradients, umbo_replica_context *ctx);

/**
 * Submits this replica's gradients with a given weight.
 *
 * @param[in] ctx The replica's context.
 * @param[in] weight The weight of this replica; finite and 0 or more. With 0 nothing that this
 *   replica wrote is read.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a weight that is negative or not finite.
 * - UMBO_STATUS_FAILED_PRECONDITION: the replica has submitted already, or as for
 *   umbo_gradients_view().
 * - UMBO_STATUS_OUT_OF_RANGE: as for umbo_gradients_submit().
 * - UMBO_STATUS_CANCELLED: the run has returned without this replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_submit_weighted(
    umbo_gradients *gradients, umbo_replica_context *ctx, double weight);

/**
 * Lets a gradient stay where the program has it: this replica's gradient of a variable is read from
 * the memory of `view`, without a copy, instead of from the buffer that umbo_gradients_view()
 * gives.
 *
 * @param[in] ctx The replica's context.
 * @param[in] index The place of the variable among those that the gradients were made for.
 * @param[in] view All elements of the gradient: of the variable's shape, of the gradients' dtype
 *   (`dtype` of umbo_gradient_info), in row-major order, in the memory of the replica's device.
 * @param[in] user_data What `destroy` is given.
 * @param[in] destroy Releases the memory, exactly once, on any thread, also if this function fails.
 *   NULL: nothing to release.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a view of another dtype, shape, order of elements or device; the
 *   message says which.
 * - UMBO_STATUS_OUT_OF_RANGE: no such variable.
 * - UMBO_STATUS_NOT_FOUND: the view's device does not exist.
 * - UMBO_STATUS_FAILED_PRECONDITION: the replica has viewed or attached this gradient in this step
 *   already (umbo_gradients_withdraw() takes that back), or as for umbo_gradients_view().
 * - UMBO_STATUS_CANCELLED: the run has returned without this replica.
 *
 * The replica may write the elements until it submits. From then on nobody writes them until the
 * library calls `destroy`. It does so when nothing reads them any more: after the apply that uses
 * the gradient up (or adds it to those of earlier runs), after a run that fails, when the replica
 * withdraws it, at the latest when a later step replaces it or the gradients are released.
 * `destroy` may then be called by the thread that runs or applies, in the middle of that call: it
 * can use the library, but can't run or change anything of this strategy.
 *
 * On a GPU replica the memory is that of its GPU; what the callback has queued there when it
 * returns is waited for, as always.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_attach(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, const umbo_view *view,
    void *user_data, umbo_destroy_fn destroy);

/**
 * Takes back what this replica has contributed to a variable in this step: the buffer that it
 * viewed, the rows that it added or the memory that it attached count no more, as if it had not
 * touched them.
 *
 * @param[in] ctx The replica's context.
 * @param[in] index The place of the variable among those that the gradients were made for.
 * @return UMBO_OK, also if there is nothing to take back, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
 * - UMBO_STATUS_OUT_OF_RANGE: no such variable.
 * - UMBO_STATUS_FAILED_PRECONDITION, UMBO_STATUS_CANCELLED: as for umbo_gradients_view().
 *
 * This is how a replica says that the step does not use a parameter. If no replica contributes to a
 * variable, an apply leaves it alone: no weight decay, no momentum, and the optimizer's state for
 * it stays. If others do contribute, this replica counts as zero. What was attached is given to its
 * `destroy`. The replica may view, add or attach again before it submits.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_withdraw(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
