/* Generated from src; do not edit. The bodies of inline functions of tensor.h. */
#ifndef UMBO_INLINE_TENSOR_H
#define UMBO_INLINE_TENSOR_H

#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline umbo_view umbo_view_of_memory(umbo_dtype dtype, int32_t ndim, const int64_t *shape,
                                            const void *data) {
  /* From UMBO_DTYPE_FLOAT16 on. */
  static const size_t bytes[13] = {2, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  umbo_view view;
  int64_t stride = 1;
  int32_t axis, number;
  memset(&view, 0, sizeof(view));
  view.ndim = ndim;
  view.device.type = UMBO_DEVICE_CPU;
  if (ndim < 0 || ndim > UMBO_MAX_NDIM || (ndim > 0 && shape == NULL)) return view;
  for (axis = 0; axis < ndim; axis++) view.shape[axis] = shape[axis];
  for (axis = ndim - 1; axis >= 0; axis--) {
    if (shape[axis] < 0) return view;
    if (shape[axis] > 0 && stride > INT64_MAX / shape[axis]) return view;
    stride *= shape[axis] > 0 ? shape[axis] : 1;
  }
  stride = 1;
  view.data = data;
  view.dtype = dtype;
  view.flags = UMBO_ENUM_VALUE(umbo_view_flags, UMBO_VIEW_READ_ONLY | UMBO_VIEW_CONTIGUOUS);
  number = UMBO_ENUM_VALUE(int32_t, dtype) - UMBO_ENUM_VALUE(int32_t, UMBO_DTYPE_FLOAT16);
  view.element_bytes = number >= 0 && number < 13 ? bytes[number] : 0;
  for (axis = ndim - 1; axis >= 0; axis--) {
    view.strides[axis] = stride;
    stride *= shape[axis];
  }
  return view;
}

static inline umbo_view umbo_view_of_mutable_memory(umbo_dtype dtype, int32_t ndim,
                                                    const int64_t *shape, void *data) {
  umbo_view view = umbo_view_of_memory(dtype, ndim, shape, data);
  if (view.flags != 0) {
    view.mutable_data = data;
    view.flags = UMBO_VIEW_CONTIGUOUS;
  }
  return view;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
