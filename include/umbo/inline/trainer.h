/* Generated from src; do not edit. The bodies of inline functions of trainer.h. */
#ifndef UMBO_INLINE_TRAINER_H
#define UMBO_INLINE_TRAINER_H

#include <umbo/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline umbo_status umbo_rows_gradient_row(
    const umbo_rows *rows, int64_t array, int64_t row, float **gradient) {
  const umbo_row_places *all;
  const umbo_row_place *place;
  uint64_t at;
  if (rows == NULL || gradient == NULL || rows->places == NULL || array < 0 ||
      array >= rows->array_count || rows->places[array].call != rows->call) {
    return umbo_rows_new_gradient_row(rows, array, row, gradient);
  }
  all = &rows->places[array];
  at = (UMBO_ENUM_VALUE(uint64_t, row) * all->multiplier) >> all->shift;
  for (;; at = (at + 1) & all->mask) {
    place = &all->places[at];
    if (place->gradient == NULL) {
      return umbo_rows_new_gradient_row(rows, array, row, gradient);
    }
    if (place->row == row) break;
  }
  *gradient = place->gradient;
  return UMBO_OK;
}

static inline umbo_status umbo_trainer_create(
    float *weights, int64_t count, const umbo_trainer_options *options, umbo_trainer **trainer) {
  umbo_parameters parameters;
  memset(&parameters, 0, sizeof(parameters));
  parameters.weights = weights;
  parameters.count = count;
  return umbo_trainer_create_with_arrays(1, &parameters, options, trainer);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
