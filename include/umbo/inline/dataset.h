/* Generated from src; do not edit. The bodies of inline functions of dataset.h. */
#ifndef UMBO_INLINE_DATASET_H
#define UMBO_INLINE_DATASET_H

#include <umbo/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline umbo_status umbo_strategy_iterate(
    umbo_strategy *strategy, const umbo_dataset *dataset, const umbo_distribute_options *options,
    umbo_iterator **iterator) {
  umbo_distributed_dataset *distributed = NULL;
  umbo_status status = umbo_strategy_distribute_dataset(strategy, dataset, options, &distributed);
  if (status != UMBO_OK) return status;
  status = umbo_iterator_from_distributed_dataset(distributed, iterator);
  umbo_distributed_dataset_release(distributed);
  return status;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
