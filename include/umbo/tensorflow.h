/* Generated from src/ffi; do not edit. */
#ifndef UMBO_TENSORFLOW_H
#define UMBO_TENSORFLOW_H

/**
 * @file tensorflow.h
 * @brief For programs that follow TensorFlow's strategy call by call; umbo.h does not include it.
 *
 * It has other names for functions of other headers, deep copies, variable creators, and functions
 * that give UMBO_STATUS_UNIMPLEMENTED with a central storage strategy, as in TensorFlow.
 *
 * Ownership is as in the other headers: the caller releases what a function gives. A variable
 * request is lent to the creator for the call.
 *
 * Threads: functions that only ask are *concurrent*. Functions that run or change something are
 * *serialised* with the strategy's steps. A variable creator belongs to the thread that entered its
 * scope. It is called on that thread or on that of replica 0.
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

#include <umbo/umbo.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes an independent strategy with the same devices.
 *
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: the default strategy, which cannot be
 *   copied.
 *
 * Variables stay those of the strategy that they were made in.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_copy(
    const umbo_strategy *strategy, umbo_strategy **copy);

/**
 * Calls umbo_strategy_run() without options.
 *
 * @param[in] function What to call, once on each replica.
 * @param[in] user_data Passed to `function` unchanged; may be anything.
 * @param[in] args The arguments; `args` may be NULL.
 * @param[out] result The merged results, which the caller releases; `result` may be NULL, which
 *   discards them.
 * @return UMBO_OK, or the statuses of umbo_strategy_run().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_call_for_each_replica(
    umbo_strategy *strategy, umbo_replica_fn function, void *user_data, const umbo_value *args,
    umbo_value **result);

/**
 * Not available: use umbo_strategy_run().
 *
 * @param[in] function A function.
 * @param[in] user_data Not used.
 * @param[in] iterator An iterator.
 * @param[in] steps Not used.
 * @param[out] result Never written.
 * @return Why it fails, in every case:
 * - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
 * - UMBO_STATUS_UNIMPLEMENTED: in all other cases. Call umbo_strategy_run() for each element of
 *   the iterator.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_run_steps_on_iterator(
    umbo_strategy *strategy, umbo_replica_fn function, void *user_data, umbo_iterator *iterator,
    int64_t steps, umbo_value **result);

/**
 * Copies the value of a variable, as umbo_variable_read() does.
 *
 * @param[in] strategy A strategy; any one.
 * @param[out] value A new tensor on the variable's device. The caller releases it.
 *
 * It may be called in every context.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_read_var(
    const umbo_strategy *strategy, const umbo_variable *variable, umbo_tensor **value);

/**
 * Gives the value that contains a value: itself.
 *
 * A variable has one copy only, and that copy is the variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_value_container(
    const umbo_strategy *strategy, const umbo_value *value, umbo_value **container);

/**
 * Lists the names of the compute devices in replica order.
 *
 * @param[in] capacity How many names there is room for; 0 or more.
 * @param[out] names An array with room for `capacity` pointers, which gets the canonical names, as
 *   many as fit; NULL if `capacity` is 0. The names live as long as the process.
 * @param[out] count The number of compute devices, which may be more than `capacity`.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a negative capacity.
 * - UMBO_STATUS_FAILED_PRECONDITION: the default strategy, which was given no devices.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_worker_devices(
    const umbo_strategy *strategy, int64_t capacity, const char **names, int64_t *count);

/**
 * Lists the name of the device of the variables.
 *
 * @param[in] capacity How many names there is room for; 0 or more.
 * @param[out] names An array with room for `capacity` pointers, which gets the canonical names, as
 *   many as fit; NULL if `capacity` is 0. The names live as long as the process.
 * @param[out] count The number of devices: 1.
 * @return UMBO_OK, or the statuses of umbo_strategy_worker_devices().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_parameter_devices(
    const umbo_strategy *strategy, int64_t capacity, const char **names, int64_t *count);

/**
 * Makes an independent variable with the value of another one.
 *
 * @param[out] copy The new variable, of the same strategy and with the same name, aggregation,
 *   synchronisation and trainable flag. It starts with the value that `variable` has now. The
 *   caller releases it.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: the call comes from another strategy's scope
 *   or run.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_copy(
    const umbo_variable *variable, umbo_variable **copy);

/**
 * Is called for a variable that is about to be made.
 *
 * @param[in] request What the variable is to be, lent for the call.
 * @param[in] user_data What umbo_variable_creator_scope_enter() was given.
 * @param[out] variable The place for a variable; NULL on entry. The library takes over a variable
 *   that is stored there.
 * @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the creation.
 *
 * The creator can read and change the request. It can then do one of three things: store the
 * variable that umbo_variable_request_next() makes; store another variable; or store nothing, and
 * the variable is made from the request. If a creator makes variables of its own, it is called for
 * them too.
 */
typedef umbo_status (*umbo_variable_creator_fn)(
    umbo_variable_request *request, void *user_data, umbo_variable **variable);

/**
 * Has a creator called for each new variable of this thread.
 *
 * @param[in] user_data Passed to `creator` unchanged; may be anything.
 * @param[in] destroy Releases the user data when the scope is left and its last variable is made,
 *   and if this call fails; may be left out.
 * @param[out] scope The scope. Leave it with umbo_scope_exit(), which also releases it.
 *
 * Creators are called from the innermost scope outwards. A strategy has a creator of its own,
 * which places variables on the parameter device. Its turn is where the strategy's scope was
 * entered: creators entered inside that scope run before it, creators entered around the scope run
 * after it.
 *
 * Runs that this thread starts meanwhile are inside the scope too. With several replicas only
 * replica 0 makes variables, so `creator` is called on replica 0's thread only. An initializer is
 * called before the creators, which see the initial value.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_creator_scope_enter(
    umbo_variable_creator_fn creator, void *user_data, umbo_destroy_fn destroy,
    umbo_scope **scope);

/**
 * Makes the variable of a request.
 *
 * @param[in] request The request, as it is now.
 * @param[out] variable The variable. The caller releases it or stores it as the creator's result.
 * @return UMBO_OK, or:
 * - what another creator returned.
 *
 * It calls the next creator; after the last one the variable itself is made. Each call makes a
 * variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_next(
    umbo_variable_request *request, umbo_variable **variable);

/**
 * Tells the name that the variable is to have.
 *
 * @param[out] name The name. Lives as long as the call of the creator, or until
 *   umbo_variable_request_set_name().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_name(
    const umbo_variable_request *request, const char **name);

/**
 * Gives the variable another name.
 *
 * @param[in] name The name, which is copied.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_name(
    umbo_variable_request *request, const char *name);

/**
 * Gives the initial value that the variable is to have.
 *
 * @param[out] tensor A new handle to the initial value, whose dtype and shape become the
 *   variable's. Do not write it. The caller releases it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_initial_value(
    const umbo_variable_request *request, umbo_tensor **tensor);

/**
 * Gives the variable another initial value.
 *
 * @param[in] tensor The initial value, of any dtype and shape. It stays the caller's to release.
 *   It is copied when the variable is made.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_initial_value(
    umbo_variable_request *request, const umbo_tensor *tensor);

/**
 * Tells whether an optimizer should change the variable.
 *
 * @param[out] trainable One of the UMBO_TRAINABLE_ constants.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_trainable(
    const umbo_variable_request *request, umbo_trainable *trainable);

/**
 * Says whether an optimizer should change the variable.
 *
 * @param[in] trainable One of the UMBO_TRAINABLE_ constants.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an unknown constant.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_trainable(
    umbo_variable_request *request, umbo_trainable trainable);

/**
 * Tells how values that replicas assign are to be combined.
 *
 * @param[out] aggregation One of the UMBO_AGGREGATION_ constants.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_aggregation(
    const umbo_variable_request *request, umbo_aggregation *aggregation);

/**
 * Says how values that replicas assign are combined.
 *
 * @param[in] aggregation One of the UMBO_AGGREGATION_ constants.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an unknown constant.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_aggregation(
    umbo_variable_request *request, umbo_aggregation aggregation);

/**
 * Tells the synchronisation that was asked for.
 *
 * @param[out] synchronization One of the UMBO_SYNCHRONIZATION_ constants.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_synchronization(
    const umbo_variable_request *request, umbo_synchronization *synchronization);

/**
 * Gives the variable another synchronisation.
 *
 * @param[in] synchronization One of the UMBO_SYNCHRONIZATION_ constants.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an unknown constant.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_synchronization(
    umbo_variable_request *request, umbo_synchronization synchronization);

/**
 * Tells the device that the variable will lie on.
 *
 * @param[out] name The canonical name of the device, which lives as long as the process. Before
 *   the strategy's own creator has run, `*name` gets NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_device(
    const umbo_variable_request *request, const char **name);

/**
 * Calls a function that changes state beside a variable.
 *
 * @param[in] colocate_with The variable beside which the state lies; `function` gets it.
 * @param[in] function What to call, once.
 * @param[in] user_data Passed to `function` unchanged; may be anything.
 * @param[in] args The arguments; `args` may be NULL.
 * @param[in] options The form of the result; `options` may be NULL: grouped.
 * @param[out] result What `function` stored, which the caller releases; if it stored nothing,
 *   `*result` gets NULL. `result` may be NULL, which discards it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback.
 * - the others of umbo_strategy_update().
 *
 * It is for state that lies where a variable does but is not the variable itself, such as the step
 * count of an optimizer. Otherwise it does what umbo_strategy_update() does outside of a replica's
 * callback.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_update_non_slot(
    umbo_strategy *strategy, umbo_variable *colocate_with, umbo_update_fn function,
    void *user_data, const umbo_value *args, const umbo_update_options *options,
    umbo_value **result);

/**
 * Gives the variable beside which shared state lies.
 *
 * @param[in] count The number of variables.
 * @param[out] variable A new handle to the variable whose name is the first in byte order. The
 *   caller releases it.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: no variables, or one of another strategy.
 *
 * Shared state is what belongs to all of the variables together, such as a step count. See
 * umbo_strategy_update_non_slot().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_non_slot_devices(
    const umbo_strategy *strategy, int64_t count, umbo_variable *const *variables,
    umbo_variable **variable);

/**
 * Calls a function that makes variables beside another.
 *
 * @param[in] variable The variable, made in `strategy`.
 * @param[in] function What to call: once, on this thread.
 * @param[in] user_data Passed to `function` unchanged; may be anything.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a variable that was not made in this strategy.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from outside the strategy's scope and its
 *   callbacks.
 * - what `function` returned.
 *
 * All variables of a strategy lie on its parameter device anyway, so this changes nothing for
 * `function`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_colocate_vars_with(
    umbo_strategy *strategy, const umbo_variable *variable, umbo_scope_fn function,
    void *user_data);

/**
 * Reduces several values, each onto its own destination.
 *
 * @param[in] op UMBO_REDUCE_SUM or UMBO_REDUCE_MEAN, for all of them.
 * @param[in] count The number of values, 1 or more.
 * @param[in] values The values. They stay as they are.
 * @param[in] destinations As many destinations: where the result of each value goes.
 * @param[out] results A tuple of the results. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, or as for umbo_strategy_reduce_to().
 * - the others of umbo_strategy_reduce_to().
 *
 * Each value is reduced as by umbo_strategy_reduce_to(), with one difference: a plain value counts
 * as one component, so its SUM is the value itself.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_batch_reduce_to(
    umbo_strategy *strategy, umbo_reduce_op op, int64_t count, const umbo_value *const *values,
    const umbo_destination *const *destinations, umbo_value **results);

/**
 * Copies a value to a destination.
 *
 * @param[in] value A tensor, indexed slices or a variable.
 * @param[in] destination Where the copy goes.
 * @param[out] result A plain value on one device; with a per-replica destination, a per-replica
 *   value with one copy for each of its components. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: another kind of value, or a destination with no field or several
 *   fields set.
 * - UMBO_STATUS_NOT_FOUND: a device that does not exist.
 * - UMBO_STATUS_UNIMPLEMENTED: the default strategy, which has no devices of its own.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_reduce().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_broadcast_to(
    umbo_strategy *strategy, const umbo_value *value, const umbo_destination *destination,
    umbo_value **result);

/**
 * Not available: choosing a tensor's logical device.
 *
 * @param[in] logical_device_id The logical device. A replica of a central storage strategy has
 *   one, with id 0.
 * @param[out] annotated Never written.
 * @return Why it fails, in every case:
 * - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
 * - UMBO_STATUS_OUT_OF_RANGE: an id other than 0.
 * - UMBO_STATUS_UNIMPLEMENTED: in all other cases. With one logical device there is nothing to
 *   mark; leave the call out.
 *
 * In other strategies such a call marks a tensor as lying on one of the logical devices of its
 * replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_assign_to_logical_device(
    const umbo_strategy *strategy, const umbo_tensor *tensor, int32_t logical_device_id,
    umbo_tensor **annotated);

/**
 * Not available: copying to all logical devices.
 *
 * @param[out] annotated Never written.
 * @return Why it fails, in every case:
 * - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
 * - UMBO_STATUS_UNIMPLEMENTED: in all other cases. With one logical device there is nothing to
 *   mark; leave the call out.
 *
 * In other strategies such a call marks a tensor as copied to all logical devices of its replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_replicate_to_logical_devices(
    const umbo_strategy *strategy, const umbo_tensor *tensor, umbo_tensor **annotated);

/**
 * Not available: splitting over logical devices.
 *
 * @param[in] count The number of elements of `partition_dimensions`.
 * @param[in] partition_dimensions Into how many parts each dimension is split: a number of 1 or
 *   more for each.
 * @param[out] annotated Never written.
 * @return Why it fails, in every case:
 * - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, not one number of 1 or more for
 *   each dimension, a dimension that its number does not divide, or a product of all numbers other
 *   than 1, the number of logical devices of a replica.
 * - UMBO_STATUS_UNIMPLEMENTED: in all other cases. With one logical device there is nothing to
 *   mark; leave the call out.
 *
 * In other strategies such a call marks a tensor as split over the logical devices of its replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_split_to_logical_devices(
    const umbo_strategy *strategy, const umbo_tensor *tensor, int64_t count,
    const int64_t *partition_dimensions, umbo_tensor **annotated);

/**
 * Computes the batch size of one replica.
 *
 * @param[in] context The input context that a dataset function was given.
 * @param[in] global_batch_size The number of examples of all replicas together.
 * @param[out] size The number of examples of one replica.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the number of replicas does not divide
 *   `global_batch_size`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_input_context_per_replica_batch_size(
    const umbo_input_context *context, int64_t global_batch_size, int64_t *size);

/**
 * Makes a dataset of the slices of arrays along dimension 0.
 *
 * @param[in] arrays A tensor or a nest of tensors, which are copied. They may be changed after the
 *   call.
 * @param[out] dataset The new dataset, to be batched and then distributed. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a scalar, arrays that differ in dimension 0, a per-replica value,
 *   or a variable.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback or from another
 *   strategy's scope.
 *
 * Its elements are those of umbo_dataset_from_tensor_slices().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_make_numpy_dataset(
    umbo_strategy *strategy, const umbo_value *arrays, umbo_dataset **dataset);

/**
 * Gives the next element and tells whether there was one.
 *
 * @param[out] has_value 1 if there is an element; 0 at the end of the pass and in each later call.
 * @param[out] element The element, which the caller releases. Without one `*element` gets NULL.
 * @return UMBO_OK, or the statuses of umbo_iterator_next().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_next_as_optional(
    umbo_iterator *iterator, int32_t *has_value, umbo_value **element);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
