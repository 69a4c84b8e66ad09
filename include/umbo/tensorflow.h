/* Generated from src; do not edit. */
#ifndef UMBO_TENSORFLOW_H
#define UMBO_TENSORFLOW_H

/**
 * @file tensorflow.h
 * @brief For programs that follow TensorFlow's strategy call by call; umbo.h does not include it.
 *
 * It has the default strategy, copies, variable creators, reductions to destinations, and other
 * names, which are inline. What a central storage strategy does not offer is
 * UMBO_STATUS_UNIMPLEMENTED, as in TensorFlow.
 *
 * Threads: getters are *concurrent*; what runs or changes something is *serialised* with the steps
 * of the strategy. A variable creator belongs to the thread that entered its scope.
 *
 * Example:
 * ```c
 * // The next element, or UMBO_STATUS_NOT_FOUND at the end.
 * static umbo_status take(umbo_iterator *iterator, umbo_value **element) {
 *   int32_t has_value = 0;
 *   UMBO_TRY(umbo_iterator_next_as_optional(iterator, &has_value, element));
 *   return has_value ? UMBO_OK : UMBO_STATUS_NOT_FOUND;
 * }
 * ```
 */

#include <string.h>

#include <umbo/expert.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Gets a new handle to the default strategy, with one replica on CPU:0.
 *
 * It is current wherever no other strategy is, cannot be copied, and lives as long as the process.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_default(umbo_strategy **strategy);

/**
 * Makes a strategy current for this thread, which is then in cross-replica context wherever no
 * scope is open.
 *
 * @param[in] strategy The thread keeps it. NULL: the default strategy again.
 * @return UMBO_STATUS_FAILED_PRECONDITION: this thread is inside a scope or a run.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_set_current(umbo_strategy *strategy);

/**
 * Creates an independent strategy with the same devices. Variables stay with the first.
 * Collective.
 *
 * @return UMBO_STATUS_FAILED_PRECONDITION: the default strategy, which cannot be copied.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_copy(
    const umbo_strategy *strategy, umbo_strategy **copy);

/** Gets whether a variable was made in this strategy, not the default one: 1 or 0. */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_created_variable(
    const umbo_strategy *strategy, const umbo_variable *variable, int32_t *result);

/**
 * Creates an independent variable of the same strategy, with the name, options and present value
 * of another.
 *
 * @return UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's scope or run.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_copy(
    const umbo_variable *variable, umbo_variable **copy);

/**
 * The moments at which copies of a variable are synchronised. There is one copy, so only the
 * default of `trainable` follows.
 */
typedef enum umbo_synchronization UMBO_INT32 {
  /** The strategy decides. */
  UMBO_SYNCHRONIZATION_AUTO = 0,
  /** Never. */
  UMBO_SYNCHRONIZATION_NONE = 1901,
  /** On every write. */
  UMBO_SYNCHRONIZATION_ON_WRITE = 1902,
  /** On every read. By default optimizers do not change the variable. */
  UMBO_SYNCHRONIZATION_ON_READ = 1903
} umbo_synchronization;

/**
 * Called for a variable that is about to be made.
 *
 * @param[in] request What the variable will be, lent for the call. The creator can change it.
 * @param[out] variable NULL on entry. The library takes over a variable that is stored there: what
 *   umbo_variable_request_next() made, or another. If none is stored, the variable is made from
 *   the request.
 * @return Any status but UMBO_OK fails the creation.
 *
 * If a creator makes variables of its own, it is called for them, too.
 */
typedef umbo_status (*umbo_variable_creator_fn)(
    umbo_variable_request *request, void *user_data, umbo_variable **variable);

/** The properties of a variable that is about to be made. */
typedef struct umbo_variable_request_info {
  size_t struct_size;
  /** Its name. Lives until the creator returns or the name is set. */
  const char *name;
  /** The canonical name of its device; NULL until the strategy's own creator has run. */
  const char *device;
  /** Whether optimizers change it: 1, 0, or UMBO_AUTO before the strategy's own creator has run. */
  int32_t trainable;
  /** How values that replicas assign are combined. */
  umbo_aggregation aggregation;
  /** The synchronisation that was asked for. */
  umbo_synchronization synchronization;
} umbo_variable_request_info;

#define UMBO_VARIABLE_REQUEST_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_variable_request_info), NULL, NULL, 0, UMBO_AGGREGATION_NONE, \
    UMBO_SYNCHRONIZATION_AUTO }

/**
 * Enters a scope in which a creator is called for each new variable of this thread.
 *
 * @param[in] destroy Releases the user data when the scope is left and its last variable is made.
 *   May be NULL.
 * @param[out] scope Leave it with umbo_scope_exit().
 *
 * Creators are called from the innermost scope outwards. A strategy's own creator, which chooses
 * the parameter device, has its turn where the strategy's scope was entered. Runs of this thread
 * are inside the scope; with several replicas only replica 0 makes variables, and `creator` is
 * called on its thread. An initializer runs before the creators, which see the initial value.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_creator_scope_enter(
    umbo_variable_creator_fn creator, void *user_data, umbo_destroy_fn destroy,
    umbo_scope **scope);

/**
 * Calls the next creator; after the last one it makes the variable. Each call makes another.
 *
 * @return What another creator returned.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_next(
    umbo_variable_request *request, umbo_variable **variable);

/** Gets what a new variable will be. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_get_info(
    const umbo_variable_request *request, umbo_variable_request_info *info);

/**
 * Sets what a new variable will be: all that umbo_variable_request_get_info() gets but the device.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_info(
    umbo_variable_request *request, const umbo_variable_request_info *info);

/** Gets a new handle to the initial value, with its dtype and shape. Do not write it. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_initial_value(
    const umbo_variable_request *request, umbo_tensor **tensor);

/** Sets the initial value, of any dtype and shape. It is copied when the variable is made. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_initial_value(
    umbo_variable_request *request, const umbo_tensor *tensor);

/** The destination of a value. Set exactly one field. */
typedef struct umbo_destination {
  size_t struct_size;
  /** The name of a device. */
  const char *device;
  /**
   * A value, whose device gets the result. With a per-replica value the device of each component
   * gets a copy.
   */
  const umbo_value *like;
  /** A variable, whose device gets the result. */
  const umbo_variable *variable;
} umbo_destination;

#define UMBO_DESTINATION_INIT { UMBO_STRUCT_SIZE(umbo_destination), NULL, NULL, NULL }

/**
 * Reduces a value over the replicas onto a destination, as umbo_strategy_reduce() does without
 * axes.
 *
 * @param[out] result A plain value; with a per-replica destination, a per-replica value.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: not exactly one field of the destination is set.
 * - The others of umbo_strategy_reduce().
 *
 * Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_reduce_to(
    umbo_strategy *strategy, const umbo_value *value, umbo_reduce_op op,
    const umbo_destination *destination, umbo_value **result);

/**
 * Reduces several values, each onto its own destination, as umbo_strategy_reduce_to() does, but a
 * plain value counts as one component: its SUM is the value itself.
 *
 * @param[in] count 1 or more.
 * @param[out] results A tuple of the results.
 * @return That of umbo_strategy_reduce_to().
 *
 * Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_batch_reduce_to(
    umbo_strategy *strategy, int64_t count, umbo_value *const *values, umbo_reduce_op op,
    const umbo_destination *const *destinations, umbo_value **results);

/**
 * Copies a tensor, indexed slices or a variable to a destination.
 *
 * @param[out] result A plain value; with a per-replica destination, a per-replica value.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or not exactly one field of the
 *   destination is set.
 * - UMBO_STATUS_NOT_FOUND: no such device.
 * - UMBO_STATUS_UNIMPLEMENTED: the default strategy, which has no devices of its own.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_reduce().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_broadcast_to(
    umbo_strategy *strategy, const umbo_value *value, const umbo_destination *destination,
    umbo_value **result);

/** Creates a list of values, which is used like a tuple but has another structure. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_list(
    int64_t count, umbo_value *const *items, umbo_value **value);

/** Creates the spec of a list. */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_list(
    int64_t count, umbo_element_spec *const *items, umbo_element_spec **spec);

/**
 * Computes the batch size of one replica.
 *
 * @param[in] context What a dataset function was given.
 * @return UMBO_STATUS_INVALID_ARGUMENT: the number of replicas does not divide
 *   `global_batch_size`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_input_context_per_replica_batch_size(
    const umbo_input_context *context, int64_t global_batch_size, int64_t *batch_size);

/**
 * Makes a dataset of the slices of copies of arrays along dimension 0, as
 * umbo_dataset_from_tensor_slices() does.
 *
 * @param[in] arrays A tensor or a nest of tensors. Lists of arrays are stacked.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: a scalar, arrays that differ in dimension 0, a per-replica
 *   value, or a variable.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback or from another
 *   strategy's scope.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_make_numpy_dataset(
    umbo_strategy *strategy, const umbo_value *arrays, umbo_dataset **dataset);

/** Gets whether a strategy other than the default one is current: 1 or 0. */
UMBO_MUST_USE static inline umbo_status umbo_strategy_has_current(int32_t *result);

/** Gets whether this thread is in cross-replica context, which has no replica context: 1 or 0. */
UMBO_MUST_USE static inline umbo_status umbo_in_cross_replica_context(int32_t *result);

/** Calls umbo_strategy_run() without options. */
UMBO_MUST_USE static inline umbo_status umbo_strategy_call_for_each_replica(
    umbo_strategy *strategy, umbo_replica_fn function, const umbo_value *args, void *user_data,
    umbo_value **result) {
  return umbo_strategy_run(strategy, function, args, user_data, NULL, result);
}

/** Not offered: call umbo_strategy_run() for each element of the iterator. */
UMBO_MUST_USE static inline umbo_status umbo_strategy_run_steps_on_iterator(
    umbo_strategy *strategy, umbo_replica_fn function, umbo_iterator *iterator, int64_t steps,
    void *user_data, umbo_value **result);

/** Copies the value of a variable, as umbo_variable_read() does. */
UMBO_MUST_USE static inline umbo_status umbo_strategy_read_var(
    const umbo_strategy *strategy, const umbo_variable *variable, umbo_tensor **value);

/** Gets a new handle to the value that contains a value: itself. */
UMBO_MUST_USE static inline umbo_status umbo_strategy_value_container(
    const umbo_strategy *strategy, const umbo_value *value, umbo_value **container);

/** Gets the names of the compute devices in this process, in replica order. */
UMBO_MUST_USE static inline umbo_status umbo_strategy_worker_devices(
    const umbo_strategy *strategy, const char **names, int64_t capacity, int64_t *length);

/** Gets the name of the one device of the variables, as umbo_strategy_worker_devices() does. */
UMBO_MUST_USE static inline umbo_status umbo_strategy_parameter_devices(
    const umbo_strategy *strategy, const char **names, int64_t capacity, int64_t *length);

/** Calls umbo_strategy_update() for state of a variable, outside the callbacks of replicas. */
UMBO_MUST_USE static inline umbo_status umbo_strategy_update_non_slot(
    umbo_strategy *strategy, umbo_variable *colocate_with, umbo_update_fn function,
    const umbo_value *args, void *user_data, umbo_value **result);

/**
 * Gets a new handle to the variable with the first name, next to which shared state lies.
 *
 * @return UMBO_STATUS_INVALID_ARGUMENT: no variable, or one of another strategy.
 */
UMBO_MUST_USE static inline umbo_status umbo_strategy_non_slot_devices(
    const umbo_strategy *strategy, int64_t count, umbo_variable *const *variables,
    umbo_variable **variable);

/**
 * Calls a function that makes variables next to another. All variables of a strategy lie on its
 * parameter device anyway.
 *
 * @return What `function` returned, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a variable that was not made in this strategy.
 * - UMBO_STATUS_FAILED_PRECONDITION: the strategy is not current.
 */
UMBO_MUST_USE static inline umbo_status umbo_strategy_colocate_vars_with(
    umbo_strategy *strategy, const umbo_variable *variable, umbo_scope_fn function,
    void *user_data);

/** Not offered: a replica has one logical device, so there is nothing to annotate. */
UMBO_MUST_USE static inline umbo_status umbo_strategy_assign_to_logical_device(
    const umbo_strategy *strategy, const umbo_tensor *tensor, int32_t logical_device_id,
    umbo_tensor **annotated);

/** Not offered; see umbo_strategy_assign_to_logical_device(). */
UMBO_MUST_USE static inline umbo_status umbo_strategy_replicate_to_logical_devices(
    const umbo_strategy *strategy, const umbo_tensor *tensor, umbo_tensor **annotated) {
  return umbo_strategy_assign_to_logical_device(strategy, tensor, 0, annotated);
}

/** Not offered; see umbo_strategy_assign_to_logical_device(). */
UMBO_MUST_USE static inline umbo_status umbo_strategy_split_to_logical_devices(
    const umbo_strategy *strategy, const umbo_tensor *tensor, int64_t count,
    const int64_t *partition_dimensions, umbo_tensor **annotated);

/**
 * Gets a new handle to the next element, or NULL, and whether there is one: 1 or 0. See
 * umbo_iterator_next().
 */
UMBO_MUST_USE static inline umbo_status umbo_iterator_next_as_optional(
    umbo_iterator *iterator, int32_t *has_value, umbo_value **element);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include <umbo/inline/tensorflow.h>

#endif
