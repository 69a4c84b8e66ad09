/* Generated from src; do not edit. */
#ifndef UMBO_VARIABLE_H
#define UMBO_VARIABLE_H

/**
 * @file variable.h
 * @brief Variables: values on a strategy's parameter device, which steps read and change.
 *
 * A variable is stored once, and replicas read it in place. Outside of runs a value is assigned at
 * once; with several ranks all must assign the same. In a replica's callback an assignment is a
 * *synchronising* call of all replicas of all ranks (umbo_replica_context_merge_call()): the
 * variable's aggregation combines the replicas' values, later reads in the step see the result, and
 * it becomes central state if the run succeeds. Variables of the default strategy are not part of a
 * run: each replica's call writes them at once.
 *
 * Threads: functions that read are *concurrent*; assignments outside of runs are *serialised* with
 * runs. A view may be read until its variable is assigned: here the *caller locks*.
 *
 * Example:
 * ```c
 * // A variable of zeros that optimizers leave alone.
 * static umbo_status counts(umbo_strategy *s, const umbo_tensor *zeros, umbo_variable **made) {
 *   return umbo_variable_create(
 *       s, "counts", zeros,
 *       &UMBO_OPTIONS(umbo_variable, .trainable = 0, .aggregation = UMBO_AGGREGATION_SUM), made);
 * }
 * ```
 */

#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The elements of a new variable: the same on every machine (see `initial_seed`). */
typedef enum umbo_initial UMBO_INT32 {
  /** No distribution: a tensor or an initializer says it. */
  UMBO_INITIAL_NONE = 0,
  /** Zeros, of any dtype. All other distributions are for floats. */
  UMBO_INITIAL_ZEROS = 1001,
  /** `initial_mean`. */
  UMBO_INITIAL_CONSTANT = 1002,
  /** Uniform from `initial_mean` - `initial_spread` to `initial_mean` + `initial_spread`. */
  UMBO_INITIAL_UNIFORM = 1003,
  /** Normal, with the mean `initial_mean` and the standard deviation `initial_spread`. */
  UMBO_INITIAL_NORMAL = 1004,
  /**
   * Uniform within the square root of 6 / (fan in + fan out). Of a matrix these are the rows and
   * the columns; of a convolution's kernel its last two sizes, each times the product of the
   * others; of a vector its size.
   */
  UMBO_INITIAL_GLOROT_UNIFORM = 1005,
  /** Normal of variance 2 / (fan in + fan out), nothing beyond two standard deviations. */
  UMBO_INITIAL_GLOROT_NORMAL = 1006,
  /** Uniform within the square root of 6 / fan in. */
  UMBO_INITIAL_HE_UNIFORM = 1007,
  /** Normal of variance 2 / fan in, nothing beyond two standard deviations. */
  UMBO_INITIAL_HE_NORMAL = 1008
} umbo_initial;

/** How values that replicas assign to a variable are combined. */
typedef enum umbo_aggregation UMBO_INT32 {
  /**
   * Not at all: an assignment in a callback of several replicas is UMBO_STATUS_INVALID_ARGUMENT.
   */
  UMBO_AGGREGATION_NONE = 0,
  /** The values are added. */
  UMBO_AGGREGATION_SUM = 901,
  /** The sum of the values is divided by the number of replicas. Not for integers. */
  UMBO_AGGREGATION_MEAN = 902,
  /** Replica 0's value is taken. */
  UMBO_AGGREGATION_ONLY_FIRST_REPLICA = 903
} umbo_aggregation;

/**
 * Writes the initial value of a variable.
 *
 * @param[in] memory The elements, for writing: contiguous, and zero at first. Valid for the call.
 * @return UMBO_OK, or another status, which fails the creation.
 */
typedef umbo_status (*umbo_initializer_fn)(const umbo_view *memory, void *user_data);

/** The properties of a new variable. Start from UMBO_VARIABLE_OPTIONS_INIT. */
typedef struct umbo_variable_options {
  size_t struct_size;
  /** Writes the initial value, once, before umbo_variable_create() returns. NULL: none. */
  umbo_initializer_fn initializer;
  /** Passed to `initializer`. */
  void *initializer_user_data;
  /** The type of the elements. It and the shape are only for `initializer` and `initial`. */
  umbo_dtype dtype;
  /** The number of dimensions. */
  int32_t ndim;
  /** The size of each dimension. */
  const int64_t *shape;
  /**
   * 1: optimizers change the variable. 0: they do not. UMBO_AUTO, the default, is 1, with one
   * exception in tensorflow.h.
   */
  int32_t trainable;
  /** How values that replicas assign are combined. */
  umbo_aggregation aggregation;
  /** The distribution of the elements. */
  umbo_initial initial;
  /** The mean of UMBO_INITIAL_UNIFORM and _NORMAL, the number of UMBO_INITIAL_CONSTANT. Finite. */
  double initial_mean;
  /** The spread of UMBO_INITIAL_UNIFORM and _NORMAL. Finite, 0 or more. */
  double initial_spread;
  /**
   * The seed of the elements that are drawn. They also depend on the variable's name, and on how
   * many variables of that name the strategy has drawn before, so that variables of one name
   * differ.
   */
  uint64_t initial_seed;
} umbo_variable_options;

#define umbo_variable_options_defaults \
  UMBO_STRUCT_SIZE(umbo_variable_options), NULL, NULL, UMBO_DTYPE_NONE, 0, NULL, UMBO_AUTO, \
    UMBO_AGGREGATION_NONE, UMBO_INITIAL_NONE, 0.0, 0.05, 0
#define UMBO_VARIABLE_OPTIONS_INIT { umbo_variable_options_defaults }

/** The properties of a variable. Start from UMBO_VARIABLE_INFO_INIT. */
typedef struct umbo_variable_info {
  size_t struct_size;
  /** The name. Lives as long as the variable. */
  const char *name;
  /** The canonical name of the device that holds the variable. Lives as long as the process. */
  const char *device;
  /** The type of the elements. */
  umbo_dtype dtype;
  /** The number of dimensions. */
  int32_t ndim;
  /** The size of each dimension; 0 from `ndim` on. */
  int64_t shape[8];
  /** 1 if optimizers change the variable, else 0. */
  int32_t trainable;
  /** How values that replicas assign are combined. */
  umbo_aggregation aggregation;
  /** The `id` of the strategy that made it (umbo_strategy_info); 0: the default one. */
  uint64_t strategy_id;
} umbo_variable_info;

#define UMBO_VARIABLE_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_variable_info), NULL, NULL, UMBO_DTYPE_NONE, 0, { 0, 0, 0, 0, 0, 0, 0, 0 \
    }, 0, UMBO_AGGREGATION_NONE, 0 }

/**
 * Makes a variable on a strategy's parameter device. Collective; the value is that of rank 0.
 *
 * @param[in] strategy The strategy. `strategy` may be NULL: the current one. In a replica's
 *   callback it is NULL.
 * @param[in] name The name, not empty, which other variables may have too. `name` may be NULL:
 *   "Variable".
 * @param[in] initial_value The initial value, which is copied; NULL if `initializer` or
 *   `initial` of the options says it. Exactly one of the three is given.
 * @param[in] options The properties; `options` may be NULL.
 * @return UMBO_OK, the status of the initializer or of a variable creator, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: the scope of another strategy; or a replica's callback, with
 *   a strategy or for a variable that replica 0 has not made.
 *
 * In a replica's callback, replica 0 makes the variable. The other replicas' calls wait and get
 * the same one. They find it by its name and its position among the variables of that name, where
 * a name such as "w_1" counts as "w". If replica 0 returns, or waits in a synchronising call,
 * without having made it, their calls fail.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_create(
    umbo_strategy *strategy, const char *name, const umbo_tensor *initial_value,
    const umbo_variable_options *options, umbo_variable **variable);

/** Gets what a variable is. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_get_info(
    const umbo_variable *variable, umbo_variable_info *info);

/** Makes another handle to the same variable: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_variable_retain(
    const umbo_variable *variable, umbo_variable **retained) {
  return umbo_retain(variable, UMBO_HANDLE_VARIABLE, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_variable_release(const umbo_variable *variable) {
  umbo_release(variable, UMBO_HANDLE_VARIABLE);
}

/**
 * Makes a variable whose first elements are drawn: umbo_variable_create() with `initial` and
 * `initial_seed`. UMBO_INITIAL_CONSTANT needs the options.
 */
UMBO_MUST_USE static inline umbo_status umbo_variable_create_drawn(
    umbo_strategy *strategy, const char *name, umbo_dtype dtype, int32_t ndim,
    const int64_t *shape, umbo_initial initial, uint64_t seed, umbo_variable **variable);

/**
 * Gets a view of a variable's value, for reading.
 *
 * @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
 * @param[in] dtype The variable's type, as a check, or UMBO_DTYPE_NONE. For a float32 variable
 *   also UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16: a copy in that type.
 * @param[out] view In a callback valid until it returns or the variable is written; outside of
 *   runs until the variable is written or released.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `dtype` is none of these.
 * - UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context of this thread.
 *
 * In a callback the view is on the replica's device and shows what the step has written so far. A
 * run that assigns may change the address: get the view again in each run. Updates, and
 * assignments outside of runs, keep the address.
 *
 * A 16-bit copy is contiguous and rounded to the nearest, ties to even. The first call for a type
 * makes the copy, which stays. From then on optimizers write it along with the variable; after any
 * other write, the next call converts the whole variable. Replicas may call at the same time.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_view(
    const umbo_variable *variable, const umbo_replica_context *ctx, umbo_dtype dtype,
    umbo_view *view);

/**
 * Copies the value of a variable to a new tensor on the variable's device.
 *
 * In a run and in a merge call, the copy has what the step has written so far.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_read(
    const umbo_variable *variable, umbo_tensor **value);

/**
 * Gives a variable a new value.
 *
 * @param[in] value A value of the variable's dtype and shape. Outside of callbacks a per-replica
 *   value stands for its first component, with a warning.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another dtype or shape, or values that the aggregation cannot
 *   combine, such as the very same tensor on all replicas for UMBO_AGGREGATION_SUM.
 * - UMBO_STATUS_FAILED_PRECONDITION: the scope or a run of another strategy, a strategy that is
 *   draining, or replicas that made different synchronising calls.
 * - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign(
    umbo_variable *variable, const umbo_value *value);

/**
 * Adds to a variable.
 *
 * @param[in] value As for umbo_variable_assign().
 * @return As umbo_variable_assign().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign_add(
    umbo_variable *variable, const umbo_value *value);

/**
 * Subtracts from a variable.
 *
 * @param[in] value As for umbo_variable_assign().
 * @return As umbo_variable_assign().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign_sub(
    umbo_variable *variable, const umbo_value *value);

/**
 * Gives a variable a new value from host memory, as umbo_variable_assign() does.
 *
 * @param[in] data All elements, in row-major order. `data` may be NULL if there are none.
 * @param[in] bytes The size of `data`, which must be that of all elements.
 * @return As umbo_variable_assign().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_upload(
    umbo_variable *variable, const void *data, size_t bytes);

/**
 * Copies the value that umbo_variable_read() gives to host memory, in row-major order.
 *
 * @param[out] data Memory at a multiple of an element's size. `data` may be NULL if there are no
 *   elements.
 * @param[in] bytes The size of `data`, which must be that of all elements.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_download(
    const umbo_variable *variable, void *data, size_t bytes);

/**
 * Gets views of several variables, as umbo_variable_view() does without a dtype.
 *
 * @param[in] ctx The replica's context in a replica's callback. `ctx` may be NULL outside of runs.
 * @param[out] views One for each variable.
 * @return As umbo_variable_view().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_views(
    int64_t count, umbo_variable *const *variables, const umbo_replica_context *ctx,
    umbo_view *views);

/**
 * Gives several variables new values, from replicas that count by their examples or by a weight.
 *
 * @param[in] count How many variables there are. All replicas give the same, in the same order.
 * @param[in] views Each variable's new value on this replica, of its dtype and shape. They are
 *   copied.
 * @param[in] weight Finite and 0 or more. UMBO_AUTO: the number of this replica's examples in the
 *   run's arguments.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another dtype or shape, UMBO_AGGREGATION_NONE with several
 *   replicas, or UMBO_AGGREGATION_MEAN of other elements than float32 and float64.
 * - UMBO_STATUS_FAILED_PRECONDITION: UMBO_AUTO, and the run's arguments have no number of
 *   examples; a variable of another strategy; or replicas that made different synchronising calls.
 * - UMBO_STATUS_CANCELLED: another replica has failed, or the run has ended.
 *
 * This is for the statistics of a batch, such as running means of a batch normalisation: a
 * synchronising call at the end of the callback. UMBO_AGGREGATION_MEAN gives the sum of weight *
 * value, in float64 and in replica order, divided by the sum of the weights; UMBO_AGGREGATION_SUM
 * the sum of the values; UMBO_AGGREGATION_ONLY_FIRST_REPLICA the first of them. Replicas of weight
 * 0 make the call, and their values do not count. If all weights are 0, nothing is assigned. All
 * variables change with the run, or none.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_assign_all(
    int64_t count, umbo_variable *const *variables, umbo_replica_context *ctx,
    const umbo_view *views, double weight);

/**
 * Makes variables over memory of the program, such as the weights of an engine. Collective; the
 * values are those of rank 0.
 *
 * @param[in] count How many variables there are.
 * @param[in] names `names` may be NULL: all are called "Variable".
 * @param[in] views Where each of them lies: host memory for writing, row-major, without common
 *   elements. The elements are the initial values.
 * @param[in] destroy Releases the memory of all, when the last of the variables is gone. NULL:
 *   nothing to release.
 * @param[in] options The properties of all, without `initializer` and `initial`; `options` may be
 *   NULL.
 * @param[out] variables Gets `count` variables. The caller releases each.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: memory that is not as it must be.
 * - UMBO_STATUS_UNIMPLEMENTED: the parameter device is a GPU.
 * - UMBO_STATUS_FAILED_PRECONDITION: a replica's callback, or another strategy's scope.
 *
 * The value is in this memory whenever no run or assignment is in progress: updates and
 * assignments outside of runs write it in place, and what a run assigns is copied there at its
 * end. So an engine may read its weights there between steps; only assignments write them.
 * Variable creators are not called.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_create_in_memory(
    umbo_strategy *strategy, int64_t count, const char *const *names, const umbo_view *views,
    void *user_data, umbo_destroy_fn destroy, const umbo_variable_options *options,
    umbo_variable **variables);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include <umbo/inline/variable.h>

#endif
