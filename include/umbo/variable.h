/* Generated from src/ffi; do not edit. */
#ifndef UMBO_VARIABLE_H
#define UMBO_VARIABLE_H

/**
 * @file variable.h
 * @brief Variables: values on the parameter device of a strategy, which steps read and change.
 *
 * A variable is stored once. The caller releases it; gradients and values that have it keep it.
 * Replicas read it in place, through a view. What they assign is combined as the variable's
 * aggregation says, and what a step assigns becomes central state when all replicas have returned
 * UMBO_OK.
 *
 * Threads: functions that only ask are *concurrent*. Assignments outside of a step are *serialised*
 * with the strategy's steps; within a step they are synchronising calls that all replicas make. A
 * view may be read until the variable is assigned: there the *caller locks*.
 *
 * Functions:
 * - umbo_variable_create(): Makes a variable on the strategy's parameter device.
 * - umbo_variable_view(): Where the variable's value lies right now, for reading: never write
 *   through it.
 * - umbo_variable_view_as(): As umbo_variable_view(), with the variable's current value in another
 *   type: UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16 for a float32 variable.
 * - umbo_variable_read(): A copy of the value that the variable has now: in a run or a merge call
 *   with what the step has written so far, elsewhere the value of the last step that succeeded.
 * - umbo_variable_assign(): Assigns a value of the variable's dtype and shape (INVALID_ARGUMENT if
 *   they differ).
 * - umbo_variable_assign_add(): Adds a value; otherwise as umbo_variable_assign().
 * - umbo_variable_assign_sub(): Subtracts a value; otherwise as umbo_variable_assign().
 * - umbo_variable_name(): The variable's name.
 * - umbo_variable_dtype(): The type of the variable's elements.
 * - umbo_variable_trainable(): Whether an optimizer should change the variable: 1 or 0.
 * - umbo_variable_aggregation(): How values that replicas assign are combined.
 * - umbo_variable_synchronization(): The synchronisation that the variable was made with.
 * - umbo_variable_device(): The canonical name of the device that holds the variable.
 * - umbo_variable_retain(): Another handle to the same object, to be released like the first; also
 *   of what a callback was only lent, which then stays.
 * - umbo_variable_release(): Releases a reference.
 * - umbo_variable_scatter_add(): Adds each row of the slices to the row of the variable that it
 *   belongs to.
 * - umbo_variable_scatter_sub(): Subtracts each row of the slices; otherwise as
 *   umbo_variable_scatter_add().
 * - umbo_variable_scatter_mul(): Multiplies by each row of the slices; otherwise as
 *   umbo_variable_scatter_add().
 * - umbo_variable_scatter_div(): Divides by each row of the slices; otherwise as
 *   umbo_variable_scatter_add().
 * - umbo_variable_scatter_min(): Takes the smaller of each pair of elements, NaN if either is;
 *   otherwise as umbo_variable_scatter_add().
 * - umbo_variable_scatter_max(): Takes the larger of each pair of elements, NaN if either is;
 *   otherwise as umbo_variable_scatter_add().
 * - umbo_variable_scatter_update(): Replaces the rows of the variable by those of the slices;
 *   otherwise as umbo_variable_scatter_add().
 *
 * Example:
 * ```c
 * // A variable of zeros that optimizers leave alone.
 * static umbo_status counts(umbo_strategy *strategy, const umbo_tensor *zeros,
 *                           umbo_variable **made) {
 *   umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
 *   options.trainable = UMBO_TRAINABLE_NO;
 *   options.aggregation = UMBO_AGGREGATION_SUM;
 *   return umbo_variable_create(strategy, "counts", zeros, &options, made);
 * }
 * ```
 */

#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Writes a variable's initial value: all elements of `memory`, which is contiguous and zero. */
typedef umbo_status (*umbo_initializer_fn)(const umbo_view *memory, void *user_data);

/** Whether an optimizer should change a variable. */
UMBO_ENUM(umbo_trainable) {
  /** Yes, unless the variable is synchronised on reading. */
  UMBO_TRAINABLE_DEFAULT = 0,
  /** Yes. */
  UMBO_TRAINABLE_YES = 1,
  /** No. */
  UMBO_TRAINABLE_NO = 2
};

/**
 * When copies of a variable would be synchronised. There is one copy, so this has no effect on
 * its value; it is recorded, and ON_READ makes `trainable` default to no.
 */
UMBO_ENUM(umbo_synchronization) {
  /** The strategy decides. */
  UMBO_SYNCHRONIZATION_AUTO = 0,
  /** Never. */
  UMBO_SYNCHRONIZATION_NONE = 1,
  /** On every write. */
  UMBO_SYNCHRONIZATION_ON_WRITE = 2,
  /** On every read. */
  UMBO_SYNCHRONIZATION_ON_READ = 3
};

/** How values that replicas assign to a variable are combined. */
UMBO_ENUM(umbo_aggregation) {
  /** Assigning in replica context is INVALID_ARGUMENT. */
  UMBO_AGGREGATION_NONE = 0,
  /** The replicas' values are added. */
  UMBO_AGGREGATION_SUM = 1,
  /** The sum is divided by the number of replicas. Not for integer variables. */
  UMBO_AGGREGATION_MEAN = 2,
  /** Replica 0's value counts. */
  UMBO_AGGREGATION_ONLY_FIRST_REPLICA = 3
};

/** What a new variable is to be. Start from UMBO_VARIABLE_OPTIONS_INIT. */
typedef struct umbo_variable_options {
  /** sizeof(umbo_variable_options). */
  size_t struct_size;
  /** Called once, during the call, in place of an initial value. */
  umbo_initializer_fn initializer;
  /** Given to `initializer`. */
  void *initializer_user_data;
  /** The element type; with an initializer. */
  umbo_dtype dtype;
  /** The rank; with an initializer. */
  int32_t rank;
  /** The sizes of the dimensions; with an initializer. */
  const int64_t *shape;
  /** One of the UMBO_TRAINABLE_ constants. */
  umbo_trainable trainable;
  /** One of the UMBO_SYNCHRONIZATION_ constants. */
  umbo_synchronization synchronization;
  /** One of the UMBO_AGGREGATION_ constants. */
  umbo_aggregation aggregation;
} umbo_variable_options;

/** The starting value of a umbo_variable_options. */
#define UMBO_VARIABLE_OPTIONS_INIT \
  { sizeof(umbo_variable_options), NULL, NULL, UMBO_DTYPE_NONE, 0, NULL, UMBO_TRAINABLE_DEFAULT, \
  UMBO_SYNCHRONIZATION_AUTO, UMBO_AGGREGATION_NONE }

/** UMBO_VARIABLE_OPTIONS_INIT, to be assigned. */
static inline umbo_variable_options umbo_variable_options_default(void) {
  umbo_variable_options value = UMBO_VARIABLE_OPTIONS_INIT;
  return value;
}

/**
 * Makes a variable on the strategy's parameter device. `strategy` may be NULL: then it is made in
 * the current strategy, so that a function which makes variables can be called in a scope.
 * `name` may be NULL; names need not differ. `initial_value`, of which the variable gets a copy,
 * is NULL if the options have an initializer; exactly one of the two is given. `options` may be
 * NULL.
 *
 * In the callback of several replicas, with `strategy` NULL, replica 0 makes the variable, and each
 * other replica's call waits for it and gives the same variable: by name and by position among the
 * variables of that name, whatever its own initial value. A name that ends in an underscore and one
 * digit counts as the name without them. FAILED_PRECONDITION, naming the device, if replica 0 makes
 * no such variable before it returns or waits in a synchronising call. A variable that replica 0
 * alone makes is fine.
 *
 * FAILED_PRECONDITION in a replica's callback if `strategy` is given, in another strategy's scope,
 * and, unless for the default strategy, in a scope of the default strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_create(
    umbo_strategy *strategy, const char *name, const umbo_tensor *initial_value,
    const umbo_variable_options *options, umbo_variable **variable);

/**
 * Where the variable's value lies right now, for reading: never write through it. In a replica's
 * callback `ctx` is its context: the view is on the replica's device, shows what this step has
 * written so far, and is valid until the callback returns or the variable is written. Outside of
 * runs `ctx` is NULL, and the view is valid until the variable is written next or released; no
 * other thread may write it meanwhile.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_view(
    const umbo_variable *variable, const umbo_replica_context *ctx, umbo_view *view);

/**
 * As umbo_variable_view(), with the variable's current value in another type: UMBO_DTYPE_FLOAT16 or
 * UMBO_DTYPE_BFLOAT16 for a float32 variable. (The variable's own type gives what
 * umbo_variable_view() gives; all others are INVALID_ARGUMENT.) `ctx` is the replica's context, or
 * NULL outside of runs.
 *
 * The variable stays float32: it is what updates and assignments act on. Beside it lies a
 * contiguous copy, each element rounded to the nearest value, ties to even. The first call for a
 * type makes the copy (RESOURCE_EXHAUSTED if there is no memory) and it stays as long as the
 * variable; from then on an apply of an optimizer writes it along with the variable, at the cost of
 * its own bytes. After other writes the next call converts the variable anew. Replicas may call at
 * the same time: one converts, the others wait for it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_view_as(
    const umbo_variable *variable, const umbo_replica_context *ctx, umbo_dtype dtype,
    umbo_view *view);

/**
 * A copy of the value that the variable has now: in a run or a merge call with what the step has
 * written so far, elsewhere the value of the last step that succeeded. A new tensor on the
 * variable's device.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_read(
    const umbo_variable *variable, umbo_tensor **value);

/**
 * Assigns a value of the variable's dtype and shape (INVALID_ARGUMENT if they differ).
 *
 * In cross-replica and default context it acts once; of a per-replica value the first component
 * counts, and the log gets one warning for each variable. In a replica's callback it is a
 * synchronising call that all replicas make (see umbo_replica_context_merge_call()): their values
 * are combined as the variable's aggregation says and the result is assigned once. Later reads in
 * the step see it; it becomes central state when the run succeeds, and is dropped when it fails.
 * With SUM the very same tensor on all replicas is INVALID_ARGUMENT. A variable of the default
 * strategy is written by each replica in turn, at once.
 *
 * FAILED_PRECONDITION in the scope or a run of another strategy than the variable's, and while
 * its strategy is draining.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign(
    umbo_variable *variable, const umbo_value *value);

/** Adds a value; otherwise as umbo_variable_assign(). */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign_add(
    umbo_variable *variable, const umbo_value *value);

/** Subtracts a value; otherwise as umbo_variable_assign(). */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign_sub(
    umbo_variable *variable, const umbo_value *value);

/**
 * The variable's name. Lives as long as the variable.
 *
 * @param variable The variable.
 * @param name Gets the name.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT for what is no variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_name(
    const umbo_variable *variable, const char **name);

/** The type of the variable's elements. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_dtype(
    const umbo_variable *variable, umbo_dtype *dtype);

/** Whether an optimizer should change the variable: 1 or 0. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_trainable(
    const umbo_variable *variable, int32_t *trainable);

/** How values that replicas assign are combined. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_aggregation(
    const umbo_variable *variable, umbo_aggregation *aggregation);

/** The synchronisation that the variable was made with. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_synchronization(
    const umbo_variable *variable, umbo_synchronization *synchronization);

/** The canonical name of the device that holds the variable. Lives as long as the process. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_device(
    const umbo_variable *variable, const char **name);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_retain(
    const umbo_variable *variable, umbo_variable **retained);

/** Releases a reference. NULL is fine. */
UMBO_API void umbo_variable_release(const umbo_variable *variable);

/**
 * Adds each row of the slices to the row of the variable that it belongs to.
 *
 * `slices` is indexed slices of the variable's dtype and shape (INVALID_ARGUMENT if they differ).
 * Rows are taken in order; one that is named several times is changed several times. An index
 * that is no row of the variable is OUT_OF_RANGE. Whatever is wrong, nothing is changed then.
 * Integers wrap; bool is INVALID_ARGUMENT.
 *
 * In cross-replica and default context it acts once, and a per-replica value is INVALID_ARGUMENT.
 * In a replica's callback it is a synchronising call that all replicas make (see
 * umbo_replica_context_merge_call()), and the variable's aggregation says which slices count: with
 * SUM all replicas' in replica order, with MEAN the same with the values divided by the number of
 * replicas, with ONLY_FIRST_REPLICA replica 0's; NONE is INVALID_ARGUMENT with several replicas.
 * The very same value on all replicas is INVALID_ARGUMENT with SUM and counts once with MEAN.
 * Later reads in the step see the result; it becomes central state when the run succeeds, and is
 * dropped when it fails. Other errors as for umbo_variable_assign().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_scatter_add(
    umbo_variable *variable, const umbo_value *slices);

/** Subtracts each row of the slices; otherwise as umbo_variable_scatter_add(). */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_scatter_sub(
    umbo_variable *variable, const umbo_value *slices);

/** Multiplies by each row of the slices; otherwise as umbo_variable_scatter_add(). */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_scatter_mul(
    umbo_variable *variable, const umbo_value *slices);

/**
 * Divides by each row of the slices; otherwise as umbo_variable_scatter_add(). Integers are
 * truncated towards zero; a divisor of 0 is INVALID_ARGUMENT for them.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_scatter_div(
    umbo_variable *variable, const umbo_value *slices);

/**
 * Takes the smaller of each pair of elements, NaN if either is; otherwise as
 * umbo_variable_scatter_add().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_scatter_min(
    umbo_variable *variable, const umbo_value *slices);

/**
 * Takes the larger of each pair of elements, NaN if either is; otherwise as
 * umbo_variable_scatter_add().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_scatter_max(
    umbo_variable *variable, const umbo_value *slices);

/**
 * Replaces the rows of the variable by those of the slices; otherwise as
 * umbo_variable_scatter_add(). Takes bool as well.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_scatter_update(
    umbo_variable *variable, const umbo_value *slices);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
