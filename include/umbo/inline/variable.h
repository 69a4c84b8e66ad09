/* Generated from src; do not edit. The bodies of inline functions of variable.h. */
#ifndef UMBO_INLINE_VARIABLE_H
#define UMBO_INLINE_VARIABLE_H

#include <umbo/variable.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline umbo_status umbo_variable_create_drawn(
    umbo_strategy *strategy, const char *name, umbo_dtype dtype, int32_t ndim,
    const int64_t *shape, umbo_initial initial, uint64_t seed, umbo_variable **variable) {
  umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
  options.dtype = dtype;
  options.ndim = ndim;
  options.shape = shape;
  options.initial = initial;
  options.initial_seed = seed;
  return umbo_variable_create(strategy, name, NULL, &options, variable);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
