/* Generated from src/ffi; do not edit. */
#ifndef UMBO_VARIABLE_H
#define UMBO_VARIABLE_H

/**
 * @file variable.h
 * @brief Variables: values on the parameter device of a strategy, which steps read and change.
 *
 * A variable is stored once. The caller releases it. Gradients and values that contain it keep it.
 * Replicas read it in place, through a view. The values that they assign are combined by the
 * variable's aggregation. What a step assigns becomes central state when all replicas have returned
 * UMBO_OK.
 *
 * Threads: functions that only ask are *concurrent*. Assignments outside of a step are *serialised*
 * with the strategy's steps. Assignments in a step are synchronising calls that all replicas make.
 * A view may be read until the variable is assigned; here the *caller locks*.
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


/**
 * What the elements of a new variable are. The same seed and name give the same elements on every
 * machine. Fan in and fan out follow from the shape, as in Keras: of a matrix they are its rows and
 * its columns; of a kernel of a convolution, whose last two dimensions are the channels in and out,
 * these times the product of the other dimensions; of a vector both are its size.
 */
UMBO_ENUM(umbo_initial) {
  /** No distribution: an initial value or an initializer says it. */
  UMBO_INITIAL_NONE = 0,
  /** Zeros, of any dtype. All other distributions are for floats. */
  UMBO_INITIAL_ZEROS = 1,
  /** `initial_mean`. */
  UMBO_INITIAL_CONSTANT = 2,
  /** Uniform from `initial_mean` - `initial_spread` to `initial_mean` + `initial_spread`. */
  UMBO_INITIAL_UNIFORM = 3,
  /** Normal, with the mean `initial_mean` and the standard deviation `initial_spread`. */
  UMBO_INITIAL_NORMAL = 4,
  /** Uniform within the square root of 6 / (fan in + fan out). */
  UMBO_INITIAL_GLOROT_UNIFORM = 5,
  /** Normal of variance 2 / (fan in + fan out), nothing beyond two standard deviations. */
  UMBO_INITIAL_GLOROT_NORMAL = 6,
  /** Uniform within the square root of 6 / fan in. */
  UMBO_INITIAL_HE_UNIFORM = 7,
  /** Normal of variance 2 / fan in, nothing beyond two standard deviations. */
  UMBO_INITIAL_HE_NORMAL = 8
};

/** How values that replicas assign to a variable are combined. */
UMBO_ENUM(umbo_aggregation) {
  /**
   * Not at all: with several replicas an assignment in a replica's callback is
   * UMBO_STATUS_INVALID_ARGUMENT.
   */
  UMBO_AGGREGATION_NONE = 0,
  /** The values are added. */
  UMBO_AGGREGATION_SUM = 1,
  /**
   * The values are added, and the sum is divided by the number of replicas. Not for integer
   * variables.
   */
  UMBO_AGGREGATION_MEAN = 2,
  /** Replica 0's value is taken. */
  UMBO_AGGREGATION_ONLY_FIRST_REPLICA = 3
};

/**
 * When copies of a variable are to be synchronised.
 *
 * A variable has one copy, so its value does not depend on this. It is recorded, and with ON_READ
 * the default of `trainable` is no.
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

/** Whether an optimizer should change a variable. */
UMBO_ENUM(umbo_trainable) {
  /** Yes, except with UMBO_SYNCHRONIZATION_ON_READ. */
  UMBO_TRAINABLE_DEFAULT = 0,
  /** Yes. */
  UMBO_TRAINABLE_YES = 1,
  /** No. */
  UMBO_TRAINABLE_NO = 2
};

/**
 * Writes the initial value of a variable.
 *
 * @param[in] memory The variable's elements, for writing: contiguous, and zero at first. Valid for
 *   the call.
 * @param[in] user_data `initializer_user_data` of the options.
 * @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the creation.
 */
typedef umbo_status (*umbo_initializer_fn)(const umbo_view *memory, void *user_data);

/** The properties of a new variable. Start from UMBO_VARIABLE_OPTIONS_INIT. */
typedef struct umbo_variable_options {
  size_t struct_size;
  /**
   * Writes the initial value, in place of a tensor. It is called once, before
   * umbo_variable_create() returns. NULL: none.
   */
  umbo_initializer_fn initializer;
  /** Passed to `initializer` unchanged. */
  void *initializer_user_data;
  /**
   * The type of the elements. Only with `initializer` or `initial`: a tensor brings
   * its own.
   */
  umbo_dtype dtype;
  /** The number of dimensions. Only with `initializer` or `initial`. */
  int32_t rank;
  /** The sizes of the dimensions, `rank` of them. Only with `initializer` or `initial`. */
  const int64_t *shape;
  /** Whether an optimizer should change the variable. By default UMBO_TRAINABLE_DEFAULT. */
  umbo_trainable trainable;
  /** Recorded only; see umbo_synchronization. By default UMBO_SYNCHRONIZATION_AUTO. */
  umbo_synchronization synchronization;
  /** How values that replicas assign are combined. By default UMBO_AGGREGATION_NONE. */
  umbo_aggregation aggregation;
  /**
   * What the elements are drawn from, in place of an initial value. One of the UMBO_INITIAL_
   * constants.
   */
  umbo_initial initial;
  /**
   * The mean of UMBO_INITIAL_UNIFORM and UMBO_INITIAL_NORMAL, the number of UMBO_INITIAL_CONSTANT.
   * Finite; by default 0.
   */
  double initial_mean;
  /**
   * How far UMBO_INITIAL_UNIFORM and UMBO_INITIAL_NORMAL spread. Finite and 0 or more; by default
   * 0.05.
   */
  double initial_spread;
  /**
   * Which elements are drawn, together with the variable's name: variables of different names
   * differ under one seed, those without a name do not.
   */
  uint64_t initial_seed;
} umbo_variable_options;

#define UMBO_VARIABLE_OPTIONS_INIT \
  { sizeof(umbo_variable_options), NULL, NULL, UMBO_DTYPE_NONE, 0, NULL, UMBO_TRAINABLE_DEFAULT, \
    UMBO_SYNCHRONIZATION_AUTO, UMBO_AGGREGATION_NONE, UMBO_INITIAL_NONE, 0.0, 0.05, 0 }
UMBO_DEFAULT(umbo_variable_options, UMBO_VARIABLE_OPTIONS_INIT)

/** What a variable is. Start from UMBO_VARIABLE_INFO_INIT. */
typedef struct umbo_variable_info {
  size_t struct_size;
  /** The name. Lives as long as the variable. */
  const char *name;
  /** The canonical name of the device that holds the variable. Lives as long as the process. */
  const char *device;
  /** The type of the elements. */
  umbo_dtype dtype;
  /** The number of dimensions. */
  int32_t rank;
  /** The sizes of the dimensions, `rank` of them; the rest is 0. */
  int64_t shape[8];
  /** 1 if an optimizer should change the variable, else 0. */
  int32_t trainable;
  /** How values that replicas assign are combined. */
  umbo_aggregation aggregation;
  /** The synchronisation that the variable was made with; see umbo_synchronization. */
  umbo_synchronization synchronization;
} umbo_variable_info;

#define UMBO_VARIABLE_INFO_INIT \
  { sizeof(umbo_variable_info), NULL, NULL, UMBO_DTYPE_NONE, 0, { 0, 0, 0, 0, 0, 0, 0, 0 }, 0, \
    UMBO_AGGREGATION_NONE, UMBO_SYNCHRONIZATION_AUTO }
UMBO_DEFAULT(umbo_variable_info, UMBO_VARIABLE_INFO_INIT)

/**
 * Makes a variable on a strategy's parameter device.
 *
 * @param[in] strategy The strategy; `strategy` may be NULL: the current one. So a function that
 *   makes variables can be called in a scope.
 * @param[in] name The name; `name` may be NULL: "Variable". Several variables may have the same
 *   name.
 * @param[in] initial_value The initial value, which is copied; its dtype and shape become the
 *   variable's. NULL if the options say it, by `initializer` or by `initial`: exactly one of the
 *   three is given.
 * @param[in] options The properties; `options` may be NULL: all defaults.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an unknown constant in the options, none or more than one of
 *   initial value, `initializer` and `initial`, or an `initial` other than UMBO_INITIAL_ZEROS of
 *   elements that are not floats.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call names a strategy and comes from a replica's
 *   callback; or it comes from another strategy's scope, or from inside a scope of the default
 *   strategy and is for another one.
 * - UMBO_STATUS_FAILED_PRECONDITION: in a replica's callback, replica 0 has not made this variable
 *   (see below).
 * - what the initializer or a variable creator returned.
 *
 * In a replica's callback `strategy` is left out. With several replicas, replica 0 makes the
 * variable. The call of each other replica waits for it and gives the same variable. It is found
 * by its name and by its position among the variables of that name; the other replicas' initial
 * values are not used. A name that ends in an underscore and one digit counts as the name without
 * them. If replica 0 returns, or waits in a synchronising call, without having made the variable,
 * the others get UMBO_STATUS_FAILED_PRECONDITION, and the message names the device. Replica 0 may
 * make variables that the others do not ask for.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more. The value is that of rank 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_create(
    umbo_strategy *strategy, const char *name, const umbo_tensor *initial_value,
    const umbo_variable_options *options, umbo_variable **variable);

/**
 * Gets what a variable is.
 *
 * @param[out] info Its description. Start from UMBO_VARIABLE_INFO_INIT, which sets its size.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_get_info(
    const umbo_variable *variable, umbo_variable_info *info);

/** Makes another handle to the same variable: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_variable_retain(
    const umbo_variable *variable, umbo_variable **retained) {
  return umbo_retain(variable, UMBO_HANDLE_VARIABLE, retained);
}

/**
 * Releases a handle: umbo_release().
 *
 * Gradients and values that have the variable keep it.
 */
static inline void umbo_variable_release(const umbo_variable *variable) {
  umbo_release(variable, UMBO_HANDLE_VARIABLE);
}

/**
 * Shows where the value of a variable lies, for reading.
 *
 * @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
 * @param[in] dtype The variable's type, as a check, or UMBO_DTYPE_NONE for whatever it is. For a
 *   float32 variable also UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16, which show a copy in that
 *   type.
 * @param[out] view The value. Never write through it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another type.
 * - UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in.
 *
 * In a replica's callback the view is on the replica's device and shows what this step has written
 * so far. It is valid until the callback returns or the variable is written.
 *
 * Outside of runs it is valid until the variable is written or released. No other thread may write
 * the variable meanwhile.
 *
 * The memory stays where it is as long as no run assigns to the variable: updates, and assignments
 * outside of runs, write it in place, so that the view has the same address after them. A run that
 * assigns may change the address. Get the view again in each run. A variable that was made
 * with umbo_variable_create_in_memory() is always where the program put it when a run is over.
 *
 * A copy in 16 bits is contiguous. Each element is rounded to the nearest one, ties to even. The
 * variable itself stays float32; updates and assignments act on that. The first call for a type
 * makes the copy, which stays as long as the variable. From then on each apply of an optimizer
 * writes the copy along with the variable, which costs as much memory traffic as the copy has
 * bytes. After any other write the next call converts the whole variable. Replicas may call at the
 * same time. If the copy has to be made or converted, one thread does it and the others wait.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_view(
    const umbo_variable *variable, const umbo_replica_context *ctx, umbo_dtype dtype,
    umbo_view *view);

/**
 * Copies the value of a variable.
 *
 * @param[out] value A new tensor on the variable's device. The caller releases it.
 *
 * In a run and in a merge call the copy contains what the step has written so far. Elsewhere it is
 * the value of the last step that succeeded.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_read(
    const umbo_variable *variable, umbo_tensor **value);

/**
 * Gives a variable a new value.
 *
 * @param[in] value A value of the variable's dtype and shape.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another dtype or shape, or values that the variable's aggregation
 *   cannot combine.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from the scope or a run of another strategy,
 *   the variable's strategy is draining, or the replicas made different synchronising calls.
 * - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
 *
 * In cross-replica and default context the value is assigned once. Of a per-replica value the
 * first component is taken; the first time for each variable, the log gets a warning.
 *
 * In a replica's callback this is a synchronising call (see umbo_replica_context_merge_call()).
 * The replicas' values are combined by the variable's aggregation, and the result is assigned
 * once. With SUM it is UMBO_STATUS_INVALID_ARGUMENT to pass the very same tensor on all replicas.
 * Later reads in the step see the new value. It becomes central state if the run succeeds and is
 * dropped if not.
 *
 * A variable of the default strategy is not part of the step: the call of each replica writes it
 * at once, one call after the other.
 *
 * With several ranks an assignment in a replica's callback is one of the replicas of all ranks.
 * Then UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more. Outside of callbacks each rank
 * assigns for itself, and all must assign the same.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign(
    umbo_variable *variable, const umbo_value *value);

/**
 * Adds to a variable.
 *
 * @param[in] value A value of the variable's dtype and shape, which is added.
 * @return UMBO_OK, or the statuses of umbo_variable_assign().
 *
 * Contexts, aggregation and commit are those of umbo_variable_assign().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign_add(
    umbo_variable *variable, const umbo_value *value);

/**
 * Subtracts from a variable.
 *
 * @param[in] value A value of the variable's dtype and shape, which is subtracted.
 * @return UMBO_OK, or the statuses of umbo_variable_assign().
 *
 * Contexts, aggregation and commit are those of umbo_variable_assign().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign_sub(
    umbo_variable *variable, const umbo_value *value);

/**
 * Gives a variable a new value from host memory.
 *
 * @param[in] data All elements, in the variable's dtype and in row-major order, in host memory.
 *   They are copied before the call returns. `data` may be NULL if there are none.
 * @param[in] bytes The size of `data` in bytes, which must be that of all elements.
 * @return UMBO_OK, or the statuses of umbo_variable_assign(), and UMBO_STATUS_INVALID_ARGUMENT:
 *   `bytes` is not the size of all elements.
 *
 * It does what umbo_variable_assign() does with a value of these elements, in every context. In a
 * replica's callback it is a synchronising call, and each replica writes its own memory: the
 * replicas' elements are combined by the variable's aggregation.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_write(
    umbo_variable *variable, const void *data, size_t bytes);

/**
 * Copies the value of a variable to host memory, in row-major order.
 *
 * @param[out] data Where the elements are written, at an address that is a multiple of the size of
 *   an element. It belongs to the program. `data` may be NULL if there are none.
 * @param[in] bytes The size of `data` in bytes, which must be that of all elements.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `bytes` is not the size of all elements, the address of `data` is
 *   not a multiple of an element's size.
 * - UMBO_STATUS_UNAVAILABLE: a GPU that is needed for it cannot be used, or is lost.
 *
 * It is the value that umbo_variable_read() gives.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_copy_to_host(
    const umbo_variable *variable, void *data, size_t bytes);

/**
 * Shows where the values of several variables lie, for reading.
 *
 * @param[in] count How many variables there are.
 * @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
 * @param[out] views The values, one view for each variable, in the order of the variables. Never
 *   write through them.
 * @return UMBO_OK, or the statuses of umbo_variable_view().
 *
 * It does what umbo_variable_view() does for each variable, in one call.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_views(
    int64_t count, umbo_variable *const *variables, const umbo_replica_context *ctx,
    umbo_view *views);

/**
 * Gives several variables new values at once, from replicas that count by their examples or by a
 * weight.
 *
 * @param[in] count How many variables there are; on all replicas the same, in the same order.
 * @param[in] variables The variables, of the strategy that runs.
 * @param[in] ctx The replica's context.
 * @param[in] views Each variable's new value on this replica: of the variable's dtype and shape,
 *   with any strides, in host memory or on a GPU. Copied before the call returns.
 * @param[in] weight The weight of this replica, finite and 0 or more. UMBO_AUTO: the number of
 *   examples in its part of the run's arguments.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another dtype or shape, a variable with UMBO_AGGREGATION_NONE
 *   among several replicas, one with UMBO_AGGREGATION_MEAN that is neither float32 nor float64, or
 *   a weight that is out of range.
 * - UMBO_STATUS_FAILED_PRECONDITION: with UMBO_AUTO the run's arguments contain no per-replica
 *   value that has the number of examples, a variable is of another strategy, or the replicas made
 *   different synchronising calls.
 * - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
 *
 * It is one synchronising call (see umbo_replica_context_merge_call()). This is what statistics of
 * a batch need: running means and variances of a batch normalisation are made with
 * UMBO_AGGREGATION_MEAN and assigned at the end of the callback.
 *
 * UMBO_AGGREGATION_MEAN gives the sum of weight * value, in float64 and in replica order, divided
 * by the sum of the weights; UMBO_AGGREGATION_SUM the sum of the values;
 * UMBO_AGGREGATION_ONLY_FIRST_REPLICA the first of them. Replicas of weight 0, those without
 * examples, make the call too, and their values count nowhere. If all weights are 0 nothing is
 * assigned. All of the variables change with the run, or none does.
 *
 * With several ranks a call of the replicas of all of them. Then UMBO_STATUS_FAILED_PRECONDITION is
 * also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE for ranks that cannot meet
 * any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign_all(
    int64_t count, umbo_variable *const *variables, umbo_replica_context *ctx,
    const umbo_view *views, double weight);

/**
 * Makes variables over the program's own memory, such as the weights of an engine, or parts of one
 * flat block of them.
 *
 * @param[in] strategy The strategy; its parameter device has host memory.
 * @param[in] count How many variables there are.
 * @param[in] names Their names. `names` may be NULL: all are called "Variable".
 * @param[in] views Where each of them lies: row-major host memory that may be written
 *   (`mutable_data`), whose elements are the initial value. No two have elements in common; they
 *   may lie next to each other.
 * @param[in] user_data What `destroy` is given.
 * @param[in] destroy Releases the memory of all of them, exactly once, on any thread: when the last
 *   of the variables is gone, and also if this function fails. NULL: nothing to release.
 * @param[in] options The properties of all of them; `options` may be NULL: all defaults.
 *   `initializer` and `initial` stay unset.
 * @param[out] variables Gets `count` new variables. The caller releases each.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a view that is read-only, not row-major, or not in host memory,
 *   two views with elements in common, or an option that is out of range.
 * - UMBO_STATUS_UNIMPLEMENTED: the strategy's parameter device is a GPU.
 * - UMBO_STATUS_FAILED_PRECONDITION: a replica's callback, or another strategy's scope.
 *
 * The value of such a variable is in this memory whenever no run or assignment is in progress:
 * updates and assignments outside of runs write it in place, and what a run assigns is copied there
 * at its end. So an engine may read its weights there between steps. It never writes them:
 * umbo_variable_assign() does. Variable creators are not asked.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more. The values are those of rank 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_create_in_memory(
    umbo_strategy *strategy, int64_t count, const char *const *names, const umbo_view *views,
    void *user_data, umbo_destroy_fn destroy, const umbo_variable_options *options,
    umbo_variable **variables);

/** What a scatter update does with a row of a variable. */
UMBO_ENUM(umbo_scatter_op) {
  /** Adds the values to the row. Integers wrap. */
  UMBO_SCATTER_ADD = 1,
  /** Subtracts the values from the row. Integers wrap. */
  UMBO_SCATTER_SUB = 2,
  /** Multiplies the row by the values. Integers wrap. */
  UMBO_SCATTER_MUL = 3,
  /** Divides the row by the values. Quotients of integers are rounded towards zero. */
  UMBO_SCATTER_DIV = 4,
  /** Takes the smaller one of each pair of elements. If one of the two is NaN, so is the result. */
  UMBO_SCATTER_MIN = 5,
  /** Takes the larger one of each pair of elements. If one of the two is NaN, so is the result. */
  UMBO_SCATTER_MAX = 6,
  /** Replaces the row. Bool is allowed here. */
  UMBO_SCATTER_UPDATE = 7
};

/**
 * Changes rows of a variable by number.
 *
 * @param[in] op What is done with each row.
 * @param[in] slices Indexed slices of the variable's dtype and shape: the row numbers, and a row of
 *   values for each.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, another dtype or shape, bool with another
 *   operation than UMBO_SCATTER_UPDATE, an integer that is divided by 0, a per-replica value
 *   outside of a replica's callback, or slices that the variable's aggregation cannot combine.
 * - UMBO_STATUS_OUT_OF_RANGE: an index that is no row of the variable.
 * - UMBO_STATUS_FAILED_PRECONDITION, UMBO_STATUS_CANCELLED, UMBO_STATUS_RESOURCE_EXHAUSTED: as for
 *   umbo_variable_assign().
 *
 * Rows are processed in the order of the slices. A row that is named several times is changed
 * several times. If the call fails, no row is changed.
 *
 * In cross-replica and default context the slices are applied once.
 *
 * In a replica's callback this is a synchronising call (see umbo_replica_context_merge_call()).
 * The variable's aggregation says which slices are applied:
 * - UMBO_AGGREGATION_SUM: those of all replicas, in replica order. It is
 *   UMBO_STATUS_INVALID_ARGUMENT to pass the very same value on all replicas.
 * - UMBO_AGGREGATION_MEAN: the same, with the values divided by the number of replicas. The very
 *   same value on all replicas is applied once, as it is.
 * - UMBO_AGGREGATION_ONLY_FIRST_REPLICA: those of replica 0.
 * - UMBO_AGGREGATION_NONE: with several replicas UMBO_STATUS_INVALID_ARGUMENT.
 *
 * Later reads in the step see the result. It becomes central state if the run succeeds and is
 * dropped if not.
 *
 * With several ranks an assignment in a replica's callback is one of the replicas of all ranks.
 * Then UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more. Outside of callbacks each rank
 * assigns for itself, and all must assign the same.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_scatter(
    umbo_variable *variable, umbo_scatter_op op, const umbo_value *slices);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
