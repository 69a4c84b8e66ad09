/* Generated from src; do not edit. The bodies of inline functions of strategy.h. */
#ifndef UMBO_INLINE_STRATEGY_H
#define UMBO_INLINE_STRATEGY_H

#include <umbo/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline umbo_status umbo_strategy_create_cpu(
    int64_t cpu_replicas, umbo_strategy **strategy) {
  umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
  options.cpu_replicas = cpu_replicas;
  return umbo_strategy_create(&options, strategy);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
