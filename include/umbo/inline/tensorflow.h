/* Generated from src; do not edit. The bodies of inline functions of tensorflow.h. */
#ifndef UMBO_INLINE_TENSORFLOW_H
#define UMBO_INLINE_TENSORFLOW_H

#include <umbo/tensorflow.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What an inline function of this header fails with. */
static inline umbo_status umbo_tensorflow_refuse(umbo_status status, const char *message) {
  return umbo_set_last_error(status, message, NULL, NULL);
}

/** Refuses a NULL in the place of an output. */
UMBO_MUST_USE static inline umbo_status umbo_tensorflow_check_output(const void *output) {
  if (output != NULL) return UMBO_OK;
  return umbo_tensorflow_refuse(UMBO_STATUS_INVALID_ARGUMENT, "an output is NULL");
}

/** Gets the `id` of the strategy that is current; see umbo_strategy_info. */
UMBO_MUST_USE static inline umbo_status umbo_tensorflow_current_id(uint64_t *id) {
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  umbo_strategy *current = NULL;
  umbo_status status;
  UMBO_TRY(umbo_strategy_current(&current));
  status = umbo_strategy_get_info(current, &info);
  umbo_strategy_release(current);
  *id = info.id;
  return status;
}

static inline umbo_status umbo_strategy_has_current(int32_t *result) {
  uint64_t id = 0;
  UMBO_TRY(umbo_tensorflow_check_output(result));
  UMBO_TRY(umbo_tensorflow_current_id(&id));
  *result = id != 0;
  return UMBO_OK;
}

static inline umbo_status umbo_in_cross_replica_context(int32_t *result) {
  umbo_replica_context *context = NULL;
  UMBO_TRY(umbo_tensorflow_check_output(result));
  UMBO_TRY(umbo_replica_context_current(&context));
  *result = context == NULL;
  return UMBO_OK;
}

static inline umbo_status umbo_strategy_run_steps_on_iterator(
    umbo_strategy *strategy, umbo_replica_fn function, umbo_iterator *iterator, int64_t steps,
    void *user_data, umbo_value **result) {
  (void)strategy, (void)function, (void)user_data, (void)iterator, (void)steps, (void)result;
  return umbo_tensorflow_refuse(UMBO_STATUS_UNIMPLEMENTED,
                                "umbo_strategy_run_steps_on_iterator: not offered by this "
                                "strategy; call umbo_strategy_run for each element");
}

static inline umbo_status umbo_strategy_read_var(
    const umbo_strategy *strategy, const umbo_variable *variable, umbo_tensor **value) {
  (void)strategy;
  return umbo_variable_read(variable, value);
}

static inline umbo_status umbo_strategy_value_container(
    const umbo_strategy *strategy, const umbo_value *value, umbo_value **container) {
  (void)strategy;
  return umbo_value_retain(value, container);
}

/** Checks the room for the names of devices, of which the default strategy has none. */
UMBO_MUST_USE static inline umbo_status umbo_tensorflow_check_names(
    uint64_t strategy_id, int64_t count, const char **names, int64_t capacity, int64_t *length) {
  UMBO_TRY(umbo_tensorflow_check_output(length));
  if (strategy_id == 0) {
    return umbo_tensorflow_refuse(UMBO_STATUS_FAILED_PRECONDITION,
                                  "strategy: the default strategy was given no devices");
  }
  *length = count;
  if (capacity >= count) return umbo_tensorflow_check_output(names);
  return umbo_tensorflow_refuse(UMBO_STATUS_OUT_OF_RANGE, "capacity: fewer than the devices");
}

static inline umbo_status umbo_strategy_worker_devices(
    const umbo_strategy *strategy, const char **names, int64_t capacity, int64_t *length) {
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  int32_t at = 0;
  UMBO_TRY(umbo_strategy_get_info(strategy, &info));
  UMBO_TRY(umbo_tensorflow_check_names(info.id, info.compute_device_count, names, capacity,
                                       length));
  for (; at < *length; at++) UMBO_TRY(umbo_strategy_compute_device(strategy, at, &names[at]));
  return UMBO_OK;
}

static inline umbo_status umbo_strategy_parameter_devices(
    const umbo_strategy *strategy, const char **names, int64_t capacity, int64_t *length) {
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  UMBO_TRY(umbo_strategy_get_info(strategy, &info));
  UMBO_TRY(umbo_tensorflow_check_names(info.id, 1, names, capacity, length));
  names[0] = info.parameter_device;
  return UMBO_OK;
}

static inline umbo_status umbo_strategy_update_non_slot(
    umbo_strategy *strategy, umbo_variable *colocate_with, umbo_update_fn function,
    const umbo_value *args, void *user_data, umbo_value **result) {
  umbo_scope *scope = NULL;
  umbo_status status, left;
  UMBO_TRY(umbo_scope_enter(strategy, &scope));
  status = umbo_strategy_update(strategy, colocate_with, function, args, user_data, result);
  left = umbo_scope_exit(scope);
  return status == UMBO_OK ? left : status;
}

static inline umbo_status umbo_strategy_non_slot_devices(
    const umbo_strategy *strategy, int64_t count, umbo_variable *const *variables,
    umbo_variable **variable) {
  umbo_strategy_info own = UMBO_STRATEGY_INFO_INIT;
  umbo_variable_info info = UMBO_VARIABLE_INFO_INIT;
  const char *name = NULL;
  int64_t index, first = 0;
  UMBO_TRY(umbo_strategy_get_info(strategy, &own));
  if (count < 1 || variables == NULL) {
    return umbo_tensorflow_refuse(UMBO_STATUS_INVALID_ARGUMENT,
                                  "umbo_strategy_non_slot_devices: variables: none");
  }
  for (index = 0; index < count; index++) {
    UMBO_TRY(umbo_variable_get_info(variables[index], &info));
    if (info.strategy_id != 0 && info.strategy_id != own.id) {
      return umbo_tensorflow_refuse(UMBO_STATUS_INVALID_ARGUMENT,
                                    "umbo_strategy_non_slot_devices: variables: one was made by "
                                    "another strategy");
    }
    if (name != NULL && strcmp(info.name, name) >= 0) continue;
    name = info.name;
    first = index;
  }
  return umbo_variable_retain(variables[first], variable);
}

static inline umbo_status umbo_strategy_colocate_vars_with(
    umbo_strategy *strategy, const umbo_variable *variable, umbo_scope_fn function,
    void *user_data) {
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  uint64_t current = 0;
  int32_t is_own = 0;
  UMBO_TRY(umbo_strategy_get_info(strategy, &info));
  UMBO_TRY(umbo_tensorflow_current_id(&current));
  if (info.id == 0 || current != info.id) {
    return umbo_tensorflow_refuse(UMBO_STATUS_FAILED_PRECONDITION,
                                  "umbo_strategy_colocate_vars_with: needs to be inside "
                                  "the strategy's scope");
  }
  UMBO_TRY(umbo_strategy_created_variable(strategy, variable, &is_own));
  if (!is_own || function == NULL) {
    return umbo_tensorflow_refuse(UMBO_STATUS_INVALID_ARGUMENT,
                                  "umbo_strategy_colocate_vars_with: a variable that was not "
                                  "made in this strategy, or no function");
  }
  return umbo_strategy_scope(strategy, function, user_data);
}

static inline umbo_status umbo_strategy_assign_to_logical_device(
    const umbo_strategy *strategy, const umbo_tensor *tensor, int32_t logical_device_id,
    umbo_tensor **annotated) {
  (void)strategy, (void)tensor, (void)logical_device_id, (void)annotated;
  return umbo_tensorflow_refuse(UMBO_STATUS_UNIMPLEMENTED,
                                "a replica has one logical device; leave the annotation out");
}

static inline umbo_status umbo_strategy_split_to_logical_devices(
    const umbo_strategy *strategy, const umbo_tensor *tensor, int64_t count,
    const int64_t *partition_dimensions, umbo_tensor **annotated) {
  (void)count, (void)partition_dimensions;
  return umbo_strategy_assign_to_logical_device(strategy, tensor, 0, annotated);
}

static inline umbo_status umbo_iterator_next_as_optional(
    umbo_iterator *iterator, int32_t *has_value, umbo_value **element) {
  UMBO_TRY(umbo_tensorflow_check_output(has_value));
  UMBO_TRY(umbo_iterator_next(iterator, element));
  *has_value = *element != NULL;
  return UMBO_OK;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
