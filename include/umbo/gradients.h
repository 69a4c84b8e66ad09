/* Generated from src; do not edit. */
#ifndef UMBO_GRADIENTS_H
#define UMBO_GRADIENTS_H

/**
 * @file gradients.h
 * @brief Gradients: a buffer for each variable and replica, which the replica writes and submits.
 *
 * umbo_optimizer_apply() combines and uses them after the run. How a callback reduces over its
 * examples is declared when they are made, so that an update does not depend on the number of
 * replicas. Gradients keep their variables; `index` is a variable's position among them.
 *
 * Threads: functions with a context are *concurrent* and do not wait for other replicas. Each can
 * return UMBO_STATUS_OUT_OF_RANGE: no such index; UMBO_STATUS_FAILED_PRECONDITION: the run is of
 * another strategy, the replica has submitted, or the gradients of an earlier run were not applied;
 * UMBO_STATUS_CANCELLED: the run has returned without this replica.
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

/** How a callback reduces the losses of its examples, which says what its gradients mean. */
typedef enum umbo_loss_reduction UMBO_INT32 {
  /** It sums. An update uses the sum over the replicas, divided by their total weight. */
  UMBO_LOSS_SUM = 801,
  /** It takes the mean. An update uses the mean over the replicas, weighted by their weights. */
  UMBO_LOSS_MEAN = 802,
  /** It divides the sum by the global batch's examples. An update uses the sum over replicas. */
  UMBO_LOSS_GLOBAL_MEAN = 803
} umbo_loss_reduction;

/** How gradients are combined. */
typedef struct umbo_gradients_options {
  size_t struct_size;
  /**
   * How many runs make one update; 1 or more. Apply after each run: the contributions of all of
   * them are added and divided by their total weight. With UMBO_LOSS_GLOBAL_MEAN the callback
   * divides by the examples of all of them. More than 1 takes 8 bytes for each element of the
   * variables; of row-sparse variables only the rows that were named count. With several ranks
   * and replicas_in_sync it must be 1.
   */
  int64_t accumulation_steps;
  /**
   * For each variable 1 if it is row-sparse, such as an embedding table, or 0. NULL: none is.
   * Replicas add rows to it (umbo_gradients_add_rows()), and an apply costs what the rows cost.
   */
  const int32_t *row_sparse;
  /**
   * The type of the gradients; UMBO_DTYPE_NONE: that of each variable. UMBO_DTYPE_FLOAT16 or
   * UMBO_DTYPE_BFLOAT16 is for float32 variables: half as many bytes are written and read. Sums
   * are always float64, and the variables and the optimizer's state keep their type.
   */
  umbo_dtype dtype;
} umbo_gradients_options;

#define umbo_gradients_options_defaults \
  UMBO_STRUCT_SIZE(umbo_gradients_options), 1, NULL, UMBO_DTYPE_NONE
#define UMBO_GRADIENTS_OPTIONS_INIT { umbo_gradients_options_defaults }

/** The properties of gradients, and of the gradient of one variable. */
typedef struct umbo_gradients_info {
  size_t struct_size;
  /** The number of variables. */
  int64_t variable_count;
  /** How many runs make one update. */
  int64_t accumulation_steps;
  /** The reduction of the callback over the losses of its examples. */
  umbo_loss_reduction loss_reduction;
  /** The type in which replicas write this gradient. UMBO_DTYPE_NONE without an index. */
  umbo_dtype dtype;
  /** 1: replicas add rows to this gradient. 0: not, or without an index. */
  int32_t row_sparse;
} umbo_gradients_info;

#define UMBO_GRADIENTS_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_gradients_info), 0, 0, UMBO_ENUM_VALUE(umbo_loss_reduction, 0), \
    UMBO_DTYPE_NONE, 0 }

/**
 * Makes gradient buffers, one for each variable and replica.
 *
 * @param[in] variables At least one; all different, of this strategy, float32, float64 or, in host
 *   memory, bfloat16.
 * @param[in] loss_reduction What the callback does with the losses of its examples.
 * @param[in] options `options` may be NULL.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: variables or options that do not fit, such as
 *   a scalar that is row-sparse. UMBO_STATUS_UNIMPLEMENTED: a variable of another type, or
 *   accumulation_steps with replicas_in_sync over several ranks.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_create(
    const umbo_strategy *strategy, int64_t count, umbo_variable *const *variables,
    umbo_loss_reduction loss_reduction, const umbo_gradients_options *options,
    umbo_gradients **gradients);

/** Makes another handle to the same gradients: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_gradients_retain(
    const umbo_gradients *gradients, umbo_gradients **retained) {
  return umbo_retain(gradients, UMBO_HANDLE_GRADIENTS, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_gradients_release(const umbo_gradients *gradients) {
  umbo_release(gradients, UMBO_HANDLE_GRADIENTS);
}

/** The use that a replica makes of its gradient buffer. */
typedef enum umbo_gradient_mode UMBO_INT32 {
  /** It writes every element. The buffer contains old data before. */
  UMBO_GRADIENT_OVERWRITE = 701,
  /**
   * It adds to the elements, which are zero when it first views the buffer in a step. Each addition
   * is rounded to the buffer's type: in float16 2048 + 1 is 2048. A callback that adds often to
   * 16-bit floats adds in memory of its own and converts the sum (umbo_dtype_convert_from_float()).
   */
  UMBO_GRADIENT_ADD = 702
} umbo_gradient_mode;

/**
 * Gets this replica's buffer for the gradient of a variable, to be written until it submits.
 *
 * @param[out] view Of the variable's shape, on the replica's device; at the same address in every
 *   step. To leave a gradient in memory of the program: umbo_gradients_attach().
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: also if the variable is row-sparse.
 *
 * If a replica does not view a variable in a step, its gradient is zero. If no replica does, the
 * variable is not updated. Allocates nothing.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_view(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, umbo_gradient_mode mode,
    umbo_view *view);

/**
 * Gets this replica's buffers for the gradients of all variables, in their order.
 *
 * @param[in] mode Of all buffers.
 * @param[in] count The number of variables, all of which get a view.
 * @param[out] views A row-sparse variable has no buffer: its view's `mutable_data` is NULL.
 *
 * It does what umbo_gradients_view() does for each variable, or nothing if it fails.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_views(
    umbo_gradients *gradients, umbo_replica_context *ctx, umbo_gradient_mode mode, int64_t count,
    umbo_view *views);

/**
 * Adds rows to this replica's gradient of a row-sparse variable.
 *
 * @param[out] indices Room for the numbers of the rows in the variable: int64, [row_count].
 * @param[out] values Room for their gradients: of the variable's shape, with `row_count` in place
 *   of the first dimension. Both views contain old data; write all of them before submitting.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: also if the variable is not row-sparse.
 *
 * Rows come in any order, in one call or several. The gradient of a row that is named several
 * times is the sum, in replica order and the order of the calls, so that its bits do not depend on
 * timing. Indices are checked by the call that submits. Allocates nothing if an earlier step had
 * as many rows in as many calls.
 *
 * The update is *lazy*: it changes only the rows that were named and the optimizer's state for
 * them, so momentum and weight decay act on these rows only. LAMB, LARS, Muon and Adafactor
 * cannot update rows. 0 rows count as an update of the variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_add_rows(
    umbo_gradients *gradients, umbo_replica_context *ctx, int64_t index, int64_t row_count,
    umbo_view *indices, umbo_view *values);

/**
 * Submits this replica's gradients, weighted by its number of examples: once in a step, when all
 * are written.
 *
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: also if the run's arguments do not contain
 *   the number of examples. UMBO_STATUS_OUT_OF_RANGE: a row that the variable does not have; the
 *   replica has not submitted then.
 *
 * A replica without examples submits too; what it wrote is not read. One that has examples and has
 * written no gradient submits zeros: the log gets a warning, once, and a strict strategy fails.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_submit(
    umbo_gradients *gradients, umbo_replica_context *ctx);

/**
 * Submits this replica's gradients with a weight of its own.
 *
 * @param[in] weight Finite and 0 or more. With 0 nothing that this replica wrote is read.
 * @return As umbo_gradients_submit().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_gradients_submit_weighted(
    umbo_gradients *gradients, umbo_replica_context *ctx, double weight);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
