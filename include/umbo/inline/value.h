/* Generated from src; do not edit. The bodies of inline functions of value.h. */
#ifndef UMBO_INLINE_VALUE_H
#define UMBO_INLINE_VALUE_H

#include <umbo/value.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline umbo_status umbo_value_from_data(
    umbo_dtype dtype, int32_t ndim, const int64_t *shape, const void *data, const char *device,
    umbo_value **value) {
  umbo_tensor *tensor = NULL;
  umbo_status status = umbo_tensor_from_data(dtype, ndim, shape, data, device, &tensor);
  if (status == UMBO_OK) status = umbo_value_from_tensor(tensor, value);
  umbo_tensor_release(tensor);
  return status;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
