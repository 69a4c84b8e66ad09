/* Generated from src/ffi; do not edit. */
#ifndef UMBO_VALUE_H
#define UMBO_VALUE_H

/**
 * @file value.h
 * @brief Values: what is passed to runs and comes back from them.
 *
 * A value is a nest: a tensor, a variable, a per-replica value (one component for each replica),
 * indexed slices (some rows of a tensor), or a tuple or struct of values. It is not changed once it
 * is made. It keeps what it consists of; items that are given to a function stay the caller's to
 * release, and items that a function gives are new handles. What a callback is given is lent:
 * umbo_value_retain() keeps it.
 *
 * Threads: all functions are *concurrent*, also on one value. For the elements of its tensors see
 * tensor.h.
 *
 * Functions:
 * - umbo_value_from_tensor(): A value that is a tensor: the same object, so that the value and the
 *   tensor share memory.
 * - umbo_value_from_variable(): A value that is a variable, passed as itself and not as what it
 *   holds now.
 * - umbo_value_create_tuple(): A tuple of `count` values.
 * - umbo_value_create_struct(): A struct of `count` values with names, which must differ.
 * - umbo_value_create_per_replica(): A per-replica value: one component per replica, each of them
 *   a tensor or indexed slices.
 * - umbo_value_get_kind(): What the value is: one of the `UMBO_VALUE_` constants.
 * - umbo_value_count(): How many items, fields or components there are; 1 for a tensor, indexed
 *   slices or a variable.
 * - umbo_value_item(): The item of a tuple, the field of a struct by position, or the component of
 *   a per-replica value: the same object, a new handle.
 * - umbo_value_field(): The field `name` of a struct; "a.b" is field b of field a, and a number is
 *   the item of a tuple.
 * - umbo_value_field_name(): The name of the field of a struct at `index`.
 * - umbo_value_tensor(): The tensor of a value that is one: the same object, a new handle.
 * - umbo_value_variable(): The variable of a value that is one: the same variable, a new handle.
 * - umbo_value_view(): Where the elements of a tensor in the value lie.
 * - umbo_value_text(): The value in words: dtype, shape, device and elements of each tensor in it,
 *   the middle of long axes left out.
 * - umbo_value_examples(): How many examples of the global batch an element of a distributed
 *   dataset holds: the part of `replica`, or all parts together if `replica` is -1.
 * - umbo_value_retain(): Another handle to the same object, to be released like the first; also of
 *   what a callback was only lent, which then stays.
 * - umbo_value_release(): Releases a reference.
 * - umbo_value_create_indexed_slices(): A value that is indexed slices: some rows of a tensor of
 *   shape `dense_shape`, by number.
 * - umbo_value_slices_values(): The rows of indexed slices: the same tensor, a new handle.
 * - umbo_value_slices_indices(): The row numbers of indexed slices: the same tensor, a new handle.
 * - umbo_value_slices_dense_shape(): The shape of the tensor that indexed slices are slices of.
 *
 * Example:
 * ```c
 * // {"x": x, "y": y}
 * static umbo_status pair(const umbo_tensor *x, const umbo_tensor *y, umbo_value **both) {
 *   const char *const names[] = {"x", "y"};
 *   umbo_value *items[2] = {NULL, NULL};
 *   umbo_status status = umbo_value_from_tensor(x, &items[0]);
 *   if (status == UMBO_OK) status = umbo_value_from_tensor(y, &items[1]);
 *   if (status == UMBO_OK) {
 *     const umbo_value *const fields[] = {items[0], items[1]};
 *     status = umbo_value_create_struct(2, names, fields, both);
 *   }
 *   umbo_value_release(items[0]);
 *   umbo_value_release(items[1]);
 *   return status;
 * }
 * ```
 */

#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The most tuples and structs that may lie in one another, in a value or an element spec: a tuple
 * of tensors has depth 1. A nest also consists of at most 1,048,576 values, each counted as often
 * as it appears. The functions that would build another nest fail with INVALID_ARGUMENT.
 */
#define UMBO_MAX_NEST_DEPTH (64)

/** What a value is. */
UMBO_ENUM(umbo_value_kind) {
  /** A tensor. */
  UMBO_VALUE_TENSOR = 1,
  /** One tensor, or indexed slices, per replica. */
  UMBO_VALUE_PER_REPLICA = 2,
  /** Values in order. */
  UMBO_VALUE_TUPLE = 3,
  /** Values with names, in order. */
  UMBO_VALUE_STRUCT = 4,
  /** A variable. */
  UMBO_VALUE_VARIABLE = 5,
  /** Indexed slices: some rows of a tensor, by number. */
  UMBO_VALUE_INDEXED_SLICES = 6
};

/** A value that is a tensor: the same object, so that the value and the tensor share memory. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_from_tensor(
    const umbo_tensor *tensor, umbo_value **value);

/** A value that is a variable, passed as itself and not as what it holds now. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_from_variable(
    const umbo_variable *variable, umbo_value **value);

/**
 * A tuple of `count` values. The items stay the caller's to release. INVALID_ARGUMENT if it would
 * be deeper than UMBO_MAX_NEST_DEPTH.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_tuple(
    int64_t count, const umbo_value *const *items, umbo_value **value);

/**
 * A struct of `count` values with names, which must differ. Names are copied; the items stay the
 * caller's to release. INVALID_ARGUMENT also if it would be deeper than UMBO_MAX_NEST_DEPTH.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_struct(
    int64_t count, const char *const *names, const umbo_value *const *items, umbo_value **value);

/**
 * A per-replica value: one component per replica, each of them a tensor or indexed slices. The
 * components need not agree in anything. They stay the caller's to release.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_per_replica(
    int64_t count, const umbo_value *const *components, umbo_value **value);

/** What the value is: one of the `UMBO_VALUE_` constants. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_get_kind(
    const umbo_value *value, umbo_value_kind *kind);

/** How many items, fields or components there are; 1 for a tensor, indexed slices or a variable. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_count(const umbo_value *value, int64_t *count);

/**
 * The item of a tuple, the field of a struct by position, or the component of a per-replica
 * value: the same object, a new handle. OUT_OF_RANGE if there is none at `index`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_item(
    const umbo_value *value, int64_t index, umbo_value **item);

/**
 * The field `name` of a struct; "a.b" is field b of field a, and a number is the item of a tuple.
 * The same object, a new handle. NOT_FOUND if there is none.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_field(
    const umbo_value *value, const char *name, umbo_value **field);

/** The name of the field of a struct at `index`. Lives as long as the value. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_field_name(
    const umbo_value *value, int64_t index, const char **name);

/** The tensor of a value that is one: the same object, a new handle. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_tensor(const umbo_value *value, umbo_tensor **tensor);

/** The variable of a value that is one: the same variable, a new handle. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_variable(
    const umbo_value *value, umbo_variable **variable);

/**
 * Where the elements of a tensor in the value lie. `name` is NULL for the value itself, "x" for a
 * field, "a.b" for a field of a field, "0" for the item of a tuple. NOT_FOUND if there is none.
 *
 * The view is valid as long as the tensor's memory; in a callback, as long as the callback.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_view(
    const umbo_value *value, const char *name, umbo_view *view);

/**
 * The value in words: dtype, shape, device and elements of each tensor in it, the middle of long
 * axes left out. Variables are read as by umbo_variable_read().
 *
 * `length` gets the length without the NUL, also if `capacity`, the size of `buffer` in bytes, is
 * not enough: then the result is OUT_OF_RANGE and `buffer`, which may be NULL if `capacity` is 0,
 * is not written.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_text(
    const umbo_value *value, char *buffer, size_t capacity, size_t *length);

/**
 * How many examples of the global batch an element of a distributed dataset holds: the part of
 * `replica`, or all parts together if `replica` is -1. INVALID_ARGUMENT for a value that is not
 * such an element and has no per-replica value in it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_examples(
    const umbo_value *value, int32_t replica, int64_t *count);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_retain(
    const umbo_value *value, umbo_value **retained);

/** Releases a reference. NULL is fine. */
UMBO_API void umbo_value_release(const umbo_value *value);

/**
 * A value that is indexed slices: some rows of a tensor of shape `dense_shape`, by number. Row i
 * of `values` belongs to row `indices[i]`; a row that is named several times stands for the sum.
 *
 * `indices` is int64 of shape [k]; `values` has the shape `dense_shape` but for k rows
 * (INVALID_ARGUMENT if not). Both are kept, not copied, and stay the caller's to release. The
 * range of the indices is checked where they are used.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_indexed_slices(
    const umbo_tensor *values, const umbo_tensor *indices, int32_t rank,
    const int64_t *dense_shape, umbo_value **value);

/** The rows of indexed slices: the same tensor, a new handle. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_slices_values(
    const umbo_value *value, umbo_tensor **tensor);

/** The row numbers of indexed slices: the same tensor, a new handle. */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_slices_indices(
    const umbo_value *value, umbo_tensor **tensor);

/**
 * The shape of the tensor that indexed slices are slices of. `shape` has room for UMBO_MAX_RANK
 * sizes, those past `rank` are set to 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_slices_dense_shape(
    const umbo_value *value, int32_t *rank, int64_t *shape);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
