/* Generated from src; do not edit. */
#ifndef UMBO_VALUE_H
#define UMBO_VALUE_H

/**
 * @file value.h
 * @brief Values: what is passed to runs and comes back from them.
 *
 * A value is a tensor, a variable, a per-replica value (one component for each replica), indexed
 * slices (some rows of a tensor; a row-sparse value), or a tuple, list or struct of values, which
 * is a nest. A value is never changed, and keeps what it is made of.
 *
 * Threads: all functions are *concurrent*, also on one value.
 *
 * Example:
 * ```c
 * // The sum of the float32 vector "x" of a batch.
 * static umbo_status sum_of_x(const umbo_value *batch, double *sum) {
 *   umbo_view x;
 *   int64_t i;
 *   UMBO_TRY(umbo_value_view(batch, "x", UMBO_DTYPE_FLOAT32, &x));
 *   for (*sum = 0, i = 0; i < x.shape[0]; i++) *sum += ((const float *)x.data)[i * x.strides[0]];
 *   return UMBO_OK;
 * }
 * ```
 */

#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * How deep tuples and structs may be nested, in a value or an element spec. A tuple of tensors has
 * depth 1. A nest also has at most 1,048,576 values, each counted as often as it appears. Deeper
 * or larger nests are UMBO_STATUS_INVALID_ARGUMENT.
 */
#define UMBO_MAX_NEST_DEPTH (64)

/** Makes a value of a tensor, with which it shares memory. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_from_tensor(
    const umbo_tensor *tensor, umbo_value **value);

/** Makes a tuple of values. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_tuple(
    int64_t count, umbo_value *const *items, umbo_value **value);

/**
 * Makes a struct of values.
 *
 * @param[in] names The names of the fields, all different.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_struct(
    int64_t count, const char *const *names, umbo_value *const *items, umbo_value **value);

/** Makes another handle to the same value: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_value_retain(
    const umbo_value *value, umbo_value **retained) {
  return umbo_retain(value, UMBO_HANDLE_VALUE, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_value_release(const umbo_value *value) {
  umbo_release(value, UMBO_HANDLE_VALUE);
}

/**
 * Makes a value of a tensor with a copy of elements in host memory: umbo_tensor_from_data() and
 * umbo_value_from_tensor().
 */
UMBO_MUST_USE static inline umbo_status umbo_value_from_data(
    umbo_dtype dtype, int32_t ndim, const int64_t *shape, const void *data, const char *device,
    umbo_value **value);

/** The kinds of values. */
typedef enum umbo_value_kind UMBO_INT32 {
  /** A tensor. */
  UMBO_VALUE_TENSOR = 501,
  /** One tensor, or indexed slices, for each replica. */
  UMBO_VALUE_PER_REPLICA = 502,
  /** Values in order. */
  UMBO_VALUE_TUPLE = 503,
  /** Values with names, in order. */
  UMBO_VALUE_STRUCT = 504,
  /** A variable. */
  UMBO_VALUE_VARIABLE = 505,
  /** Indexed slices: some rows of a tensor, by number. */
  UMBO_VALUE_INDEXED_SLICES = 506,
  /** Values in order. A list is used like a tuple, but does not have the same structure. */
  UMBO_VALUE_LIST = 507
} umbo_value_kind;

/** The kind and the components of a value. Start from UMBO_VALUE_INFO_INIT. */
typedef struct umbo_value_info {
  size_t struct_size;
  /** Its kind. */
  umbo_value_kind kind;
  /** The type of the elements of a tensor, a variable or indexed slices; else UMBO_DTYPE_NONE. */
  umbo_dtype dtype;
  /** The number of items, fields or components; 1 for a tensor, a variable or indexed slices. */
  int64_t item_count;
  /**
   * The number of dimensions of a tensor or a variable, or of the tensor that indexed slices are
   * rows of; else 0.
   */
  int32_t ndim;
  /** The size of each dimension; 0 from `ndim` on. */
  int64_t shape[8];
} umbo_value_info;

#define UMBO_VALUE_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_value_info), UMBO_ENUM_VALUE(umbo_value_kind, 0), UMBO_DTYPE_NONE, 0, 0, \
    { 0, 0, 0, 0, 0, 0, 0, 0 } }

/** Gets what a value is. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_get_info(
    const umbo_value *value, umbo_value_info *info);

/**
 * Gets a new handle to the item, field or component at a position.
 *
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: there is nothing at `index`. A tensor, a variable
 *   and indexed slices have no items: UMBO_STATUS_INVALID_ARGUMENT.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_item(
    const umbo_value *value, int64_t index, umbo_value **item);

/**
 * Gets a new handle to a field, by its name.
 *
 * @param[in] name A name, a path such as "a.b", the field b of field a, or the decimal number of
 *   an item of a tuple or a list. A field whose own name is "a.b" comes first.
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no such field.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_field(
    const umbo_value *value, const char *name, umbo_value **field);

/** Gets a new handle to the tensor of a value that is a tensor. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_tensor(const umbo_value *value, umbo_tensor **tensor);

/**
 * Gets a view of a tensor in a value, for reading.
 *
 * @param[in] name Which tensor, as for umbo_value_field(). `name` may be NULL: the value itself.
 * @param[in] dtype The type of its elements, as a check, or UMBO_DTYPE_NONE.
 * @param[out] view Valid as long as the tensor's memory; in a callback, until the callback
 *   returns.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: no such field.
 * - UMBO_STATUS_INVALID_ARGUMENT: it is not a tensor, or one of another dtype.
 *
 * The memory of a batch is used again once nobody holds the batch. To use the view for longer than
 * the callback, retain the value, or its tensor (umbo_value_tensor()).
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_view(
    const umbo_value *value, const char *name, umbo_dtype dtype, umbo_view *view);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include <umbo/inline/value.h>

#endif
