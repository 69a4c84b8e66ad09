/* Generated from src/ffi; do not edit. */
#ifndef UMBO_TENSORFLOW_H
#define UMBO_TENSORFLOW_H

/**
 * @file tensorflow.h
 * @brief What only programs need that follow TensorFlow's strategy call by call; umbo.h does not
 * include it.
 *
 * Here are other names for what other headers offer, deep copies, variable creators, and functions
 * that a central storage strategy answers with UMBO_STATUS_UNIMPLEMENTED, as the reference does.
 *
 * Ownership is as in the headers of the nouns: what a function gives is released by the caller. A
 * variable request is lent to the creator for the call.
 *
 * Threads: functions that only ask are *concurrent*. What runs or changes something is *serialised*
 * with the strategy's steps. A variable creator belongs to the thread that entered its scope; it is
 * called on that thread, or on replica 0's.
 *
 * Functions:
 * - umbo_strategy_copy(): An independent strategy with the same devices.
 * - umbo_strategy_call_for_each_replica(): umbo_strategy_run() without options.
 * - umbo_strategy_run_steps_on_iterator(): Not offered by this strategy: UNIMPLEMENTED.
 * - umbo_strategy_read_var(): The value that the variable has now; see umbo_variable_read().
 * - umbo_strategy_value_container(): The value that contains `value`: itself, since a variable has
 *   one copy, which is it.
 * - umbo_strategy_worker_devices(): The canonical names of the compute devices, in replica order:
 *   as many of them as `names`, which is an array of `capacity` pointers, has room for (NULL if
 *   it has none).
 * - umbo_strategy_parameter_devices(): The canonical names of the devices that hold variables, of
 *   which there is one; otherwise as umbo_strategy_worker_devices().
 * - umbo_variable_copy(): An independent variable of the same strategy, with the same name and
 *   modes and the value that this one has now.
 * - umbo_variable_creator_scope_enter(): Has `creator` called for each variable that this thread
 *   makes, until the scope is left with umbo_scope_exit().
 * - umbo_variable_request_next(): Goes on with the request as it now is: to the next creator, in
 *   the end to the variable itself.
 * - umbo_variable_request_name(): The name that the variable is to have.
 * - umbo_variable_request_set_name(): Gives the variable another name, which is copied.
 * - umbo_variable_request_initial_value(): The initial value: its dtype and shape become the
 *   variable's.
 * - umbo_variable_request_set_initial_value(): Gives the variable another initial value, of any
 *   dtype and shape.
 * - umbo_variable_request_trainable(): Whether an optimizer should change the variable: one of the
 *   UMBO_TRAINABLE_ constants.
 * - umbo_variable_request_set_trainable(): Says whether an optimizer should change the variable.
 * - umbo_variable_request_aggregation(): How values that replicas assign are to be combined.
 * - umbo_variable_request_set_aggregation(): Says how values that replicas assign are to be
 *   combined.
 * - umbo_variable_request_synchronization(): The synchronisation that is asked for.
 * - umbo_variable_request_set_synchronization(): Asks for another synchronisation.
 * - umbo_variable_request_device(): The canonical name of the device that the variable will lie
 *   on; NULL for creators that run before the strategy's own has chosen it.
 * - umbo_strategy_update_non_slot(): As umbo_strategy_update(), for state that is kept where the
 *   variable is but is not the variable itself, such as an optimizer's step count.
 * - umbo_strategy_non_slot_devices(): The variable beside which state of all of `variables`
 *   together is kept: the one whose name comes first.
 * - umbo_strategy_colocate_vars_with(): Calls `function` once, on this thread; variables that it
 *   makes lie on the device of `variable`.
 * - umbo_strategy_batch_reduce_to(): Reduces each of `count` values onto its destination, as
 *   umbo_strategy_reduce_to() does; `results` gets a tuple.
 * - umbo_strategy_broadcast_to(): Copies a tensor, indexed slices or a variable's value to a
 *   destination: a plain value on one device, or a per-replica value with one copy for each
 *   component of a per-replica destination.
 * - umbo_strategy_assign_to_logical_device(): Annotates a tensor with the logical device, of those
 *   of its replica, that it is to lie on.
 * - umbo_strategy_replicate_to_logical_devices(): Annotates a tensor as replicated to all logical
 *   devices of its replica.
 * - umbo_strategy_split_to_logical_devices(): Annotates a tensor as split over the logical devices
 *   of its replica, dimension i in `partition_dimensions[i]` parts.
 * - umbo_input_context_per_replica_batch_size(): The elements of a batch of one replica, if all
 *   replicas together have `global_batch_size`.
 * - umbo_strategy_make_numpy_dataset(): A dataset of the slices of arrays along dimension 0, as of
 *   umbo_dataset_from_tensor_slices(), of copies that are made at this call: the arrays may be
 *   changed afterwards.
 * - umbo_iterator_next_as_optional(): As umbo_iterator_next(), with a word on whether there was an
 *   element: `*has_value` is 1, or 0 at the end of the pass and ever after; then `*element` is
 *   NULL.
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
 * An independent strategy with the same devices. Variables stay those of the strategy they were
 * made in. FAILED_PRECONDITION for the default strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_copy(
    const umbo_strategy *strategy, umbo_strategy **copy);

/**
 * umbo_strategy_run() without options. `args` may be NULL. `result` may be NULL, which discards the
 * results.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_call_for_each_replica(
    umbo_strategy *strategy, umbo_replica_fn function, void *user_data, const umbo_value *args,
    umbo_value **result);

/**
 * Not offered by this strategy: UNIMPLEMENTED. Call umbo_strategy_run() for each element of the
 * iterator.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_run_steps_on_iterator(
    umbo_strategy *strategy, umbo_replica_fn function, void *user_data, umbo_iterator *iterator,
    int64_t steps, umbo_value **result);

/** The value that the variable has now; see umbo_variable_read(). In every context. */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_read_var(
    const umbo_strategy *strategy, const umbo_variable *variable, umbo_tensor **value);

/**
 * The value that contains `value`: itself, since a variable has one copy, which is it. A new
 * handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_value_container(
    const umbo_strategy *strategy, const umbo_value *value, umbo_value **container);

/**
 * The canonical names of the compute devices, in replica order: as many of them as `names`, which
 * is an array of `capacity` pointers, has room for (NULL if it has none). `count` gets how many
 * there are. Names live as long as the process. FAILED_PRECONDITION for the default strategy, which
 * was given none.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_worker_devices(
    const umbo_strategy *strategy, int64_t capacity, const char **names, int64_t *count);

/**
 * The canonical names of the devices that hold variables, of which there is one; otherwise as
 * umbo_strategy_worker_devices().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_parameter_devices(
    const umbo_strategy *strategy, int64_t capacity, const char **names, int64_t *count);

/**
 * An independent variable of the same strategy, with the same name and modes and the value that
 * this one has now. FAILED_PRECONDITION in another strategy's scope or run.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_copy(
    const umbo_variable *variable, umbo_variable **copy);

/**
 * Sees a variable that is about to be made. It may look at the request and change it; make the
 * variable with umbo_variable_request_next() and store it in `*variable`; or store another variable
 * there. `*variable` is NULL on entry; what is stored there is taken over by the library. If it
 * stays NULL, the variable is made from the request as it now is. A status other than UMBO_OK
 * makes the creation fail with it.
 *
 * `request` is borrowed for the call. A creator that makes variables of its own is called for them
 * too.
 */
typedef umbo_status (*umbo_variable_creator_fn)(
    umbo_variable_request *request, void *user_data, umbo_variable **variable);

/**
 * Has `creator` called for each variable that this thread makes, until the scope is left with
 * umbo_scope_exit(). Creators are called from the innermost scope outwards. A strategy's own
 * creator, which places variables on the parameter device, stands where the strategy's scope was
 * entered: creators entered inside of it run before, creators entered around it run after.
 *
 * Runs that this thread starts meanwhile are inside of the scope too; with several replicas only
 * replica 0 makes variables, so `creator` is called on replica 0's thread only. An initializer is
 * called before the creators, which see the initial value.
 *
 * `destroy` (or NULL) releases `user_data` when the scope is left and the last variable of it is
 * made, and also if this function fails.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_creator_scope_enter(
    umbo_variable_creator_fn creator, void *user_data, umbo_destroy_fn destroy,
    umbo_scope **scope);

/**
 * Goes on with the request as it now is: to the next creator, in the end to the variable itself.
 * Each call makes a variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_next(
    umbo_variable_request *request, umbo_variable **variable);

/**
 * The name that the variable is to have. Lives as long as the call of the creator, or until
 * umbo_variable_request_set_name().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_name(
    const umbo_variable_request *request, const char **name);

/** Gives the variable another name, which is copied. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_name(
    umbo_variable_request *request, const char *name);

/** The initial value: its dtype and shape become the variable's. A new handle; do not write it. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_initial_value(
    const umbo_variable_request *request, umbo_tensor **tensor);

/**
 * Gives the variable another initial value, of any dtype and shape. The variable gets a copy, made
 * when it is made; the tensor stays the caller's to release.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_initial_value(
    umbo_variable_request *request, const umbo_tensor *tensor);

/** Whether an optimizer should change the variable: one of the UMBO_TRAINABLE_ constants. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_trainable(
    const umbo_variable_request *request, umbo_trainable *trainable);

/** Says whether an optimizer should change the variable. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_trainable(
    umbo_variable_request *request, umbo_trainable trainable);

/** How values that replicas assign are to be combined. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_aggregation(
    const umbo_variable_request *request, umbo_aggregation *aggregation);

/** Says how values that replicas assign are to be combined. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_aggregation(
    umbo_variable_request *request, umbo_aggregation aggregation);

/** The synchronisation that is asked for. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_synchronization(
    const umbo_variable_request *request, umbo_synchronization *synchronization);

/** Asks for another synchronisation. */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_set_synchronization(
    umbo_variable_request *request, umbo_synchronization synchronization);

/**
 * The canonical name of the device that the variable will lie on; NULL for creators that run before
 * the strategy's own has chosen it. Lives as long as the process.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_variable_request_device(
    const umbo_variable_request *request, const char **name);

/**
 * As umbo_strategy_update(), for state that is kept where the variable is but is not the variable
 * itself, such as an optimizer's step count. `args` may be NULL. `options` may be NULL. `result`
 * may be NULL, which discards the result. FAILED_PRECONDITION in a replica's callback.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_update_non_slot(
    umbo_strategy *strategy, umbo_variable *colocate_with, umbo_update_fn function,
    void *user_data, const umbo_value *args, const umbo_update_options *options,
    umbo_value **result);

/**
 * The variable beside which state of all of `variables` together is kept: the one whose name comes
 * first. A new handle. INVALID_ARGUMENT if there are none.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_non_slot_devices(
    const umbo_strategy *strategy, int64_t count, umbo_variable *const *variables,
    umbo_variable **variable);

/**
 * Calls `function` once, on this thread; variables that it makes lie on the device of `variable`.
 * (All variables of a strategy lie on its parameter device, so they would do so anyway.) Returns
 * what `function` returned.
 *
 * FAILED_PRECONDITION outside of the strategy's scope and its callbacks; INVALID_ARGUMENT for a
 * variable that was not made in this strategy's scope.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_colocate_vars_with(
    umbo_strategy *strategy, const umbo_variable *variable, umbo_scope_fn function,
    void *user_data);

/**
 * Reduces each of `count` values onto its destination, as umbo_strategy_reduce_to() does; `results`
 * gets a tuple. A plain value counts as one component, so that its SUM is itself.
 * INVALID_ARGUMENT if `count` is less than 1.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_batch_reduce_to(
    umbo_strategy *strategy, umbo_reduce_op op, int64_t count, const umbo_value *const *values,
    const umbo_destination *const *destinations, umbo_value **results);

/**
 * Copies a tensor, indexed slices or a variable's value to a destination: a plain value on one
 * device, or a per-replica value with one copy for each component of a per-replica destination.
 * INVALID_ARGUMENT for other values; UNIMPLEMENTED for the default strategy. Contexts as for
 * umbo_strategy_reduce().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_broadcast_to(
    umbo_strategy *strategy, const umbo_value *value, const umbo_destination *destination,
    umbo_value **result);

/**
 * Annotates a tensor with the logical device, of those of its replica, that it is to lie on. A
 * central storage strategy has one logical device per replica: OUT_OF_RANGE for an id other than
 * 0, else UNIMPLEMENTED.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_assign_to_logical_device(
    const umbo_strategy *strategy, const umbo_tensor *tensor, int32_t logical_device_id,
    umbo_tensor **annotated);

/** Annotates a tensor as replicated to all logical devices of its replica. UNIMPLEMENTED. */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_replicate_to_logical_devices(
    const umbo_strategy *strategy, const umbo_tensor *tensor, umbo_tensor **annotated);

/**
 * Annotates a tensor as split over the logical devices of its replica, dimension i in
 * `partition_dimensions[i]` parts. INVALID_ARGUMENT if there is not one number, of 1 or more, for
 * each dimension, if a dimension is not divisible by its number, or if the product is not 1, the
 * number of logical devices of a replica; else UNIMPLEMENTED.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_split_to_logical_devices(
    const umbo_strategy *strategy, const umbo_tensor *tensor, int64_t count,
    const int64_t *partition_dimensions, umbo_tensor **annotated);

/**
 * The elements of a batch of one replica, if all replicas together have `global_batch_size`.
 * INVALID_ARGUMENT if the number of replicas does not divide it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_input_context_per_replica_batch_size(
    const umbo_input_context *context, int64_t global_batch_size, int64_t *size);

/**
 * A dataset of the slices of arrays along dimension 0, as of umbo_dataset_from_tensor_slices(), of
 * copies that are made at this call: the arrays may be changed afterwards. It is an ordinary
 * dataset, to be batched and then distributed.
 *
 * FAILED_PRECONDITION in a replica's callback and in another strategy's scope. INVALID_ARGUMENT: a
 * scalar, dimensions 0 that differ, a per-replica value, a variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_make_numpy_dataset(
    umbo_strategy *strategy, const umbo_value *arrays, umbo_dataset **dataset);

/**
 * As umbo_iterator_next(), with a word on whether there was an element: `*has_value` is 1, or 0 at
 * the end of the pass and ever after; then `*element` is NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_next_as_optional(
    umbo_iterator *iterator, int32_t *has_value, umbo_value **element);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
