/* Generated from src/ffi; do not edit. */
#ifndef UMBO_VALUE_H
#define UMBO_VALUE_H

/**
 * @file value.h
 * @brief Values: what is passed to runs and comes back from them.
 *
 * A value is one of these: a tensor; a variable; a per-replica value, which has one component for
 * each replica; indexed slices, which are some rows of a tensor; a tuple, a list or a struct of
 * values. A value of values is called a nest. A value is never changed once it is made.
 *
 * A value keeps what it consists of. Who gives items to a function still releases its own handles.
 * What a function gives is a new handle to the same object, which the caller releases. What a
 * callback is given is lent to it; umbo_value_retain() keeps it.
 *
 * Threads: all functions are *concurrent*, also on one value. tensor.h says what holds for the
 * elements of its tensors.
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
 * How many tuples, lists and structs may lie in one another, in a value or an element spec.
 *
 * A tuple of tensors has depth 1. A nest has at most 1,048,576 values, each counted as often as it
 * appears. A function that would build a deeper or larger nest fails with
 * UMBO_STATUS_INVALID_ARGUMENT.
 */
#define UMBO_MAX_NEST_DEPTH (64)

/**
 * Makes a value that is a tensor.
 *
 * @param[in] tensor The tensor. The value keeps it, and shares its memory; the caller still
 *   releases its own handle.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, or `value` is a
 *   null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_from_tensor(
    const umbo_tensor *tensor, umbo_value **value);

/**
 * Makes a value with a copy of elements in host memory.
 *
 * @param[in] dtype The type of the elements.
 * @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK. A number has none.
 * @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
 * @param[in] data As many elements as `shape` has, in row-major order, in host memory. The program
 *   keeps them. `data` may be NULL if there are none.
 * @param[in] device The name of the device that is to hold the copy. `device` may be NULL: in a
 *   replica's callback the replica's device, elsewhere CPU:0.
 * @return UMBO_OK, or a status that umbo_tensor_from_data() can return, for the same causes.
 *
 * It does what umbo_tensor_from_data() and umbo_value_from_tensor() do, in one call.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_from_data(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, const void *data, const char *device,
    umbo_value **value);

/**
 * Makes a value that is a variable.
 *
 * @param[in] variable The variable. The value keeps it; the caller still releases its own handle.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `variable` is not a valid handle, or `value` is
 *   a null pointer.
 *
 * The value is the variable itself. It is not a copy of what the variable holds now.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_from_variable(
    const umbo_variable *variable, umbo_value **value);

/**
 * Makes a tuple of values.
 *
 * @param[in] count How many items there are, 0 or more.
 * @param[in] items The items. The tuple keeps them; the caller still releases its own handles.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the tuple would be deeper or larger than
 *   UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_tuple(
    int64_t count, const umbo_value *const *items, umbo_value **value);

/**
 * Makes a list of values.
 *
 * @param[in] count How many items there are, 0 or more.
 * @param[in] items The items. The list keeps them; the caller still releases its own handles.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the list would be deeper or larger than
 *   UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
 *
 * All that is done with nests treats a list as a tuple, but a list and a tuple of the same items
 * differ in structure. umbo_strategy_make_numpy_dataset() stacks lists of arrays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_list(
    int64_t count, const umbo_value *const *items, umbo_value **value);

/**
 * Makes a struct of values with names.
 *
 * @param[in] count How many fields there are, 0 or more.
 * @param[in] names The name of each field, all different. They are copied.
 * @param[in] items The value of each field. The struct keeps them; the caller still releases its
 *   own handles.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: two fields have the same name, the struct would
 *   be deeper or larger than UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a
 *   valid handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_struct(
    int64_t count, const char *const *names, const umbo_value *const *items, umbo_value **value);

/**
 * Makes a per-replica value: one component for each replica.
 *
 * @param[in] count How many components there are, 1 or more.
 * @param[in] components The components, each a tensor or indexed slices. They may differ in shape
 *   and dtype. The value keeps them; the caller still releases its own handles.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, or a component is not a
 *   valid handle or neither a tensor nor indexed slices.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_per_replica(
    int64_t count, const umbo_value *const *components, umbo_value **value);

/** Makes another handle to the same value: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_value_retain(
    const umbo_value *value, umbo_value **retained) {
  return umbo_retain(value, UMBO_HANDLE_VALUE, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_value_release(const umbo_value *value) {
  umbo_release(value, UMBO_HANDLE_VALUE);
}

/** What a value is. */
UMBO_ENUM(umbo_value_kind) {
  /** A tensor. */
  UMBO_VALUE_TENSOR = 1,
  /** One tensor, or indexed slices, for each replica. */
  UMBO_VALUE_PER_REPLICA = 2,
  /** Values in order. */
  UMBO_VALUE_TUPLE = 3,
  /** Values with names, in order. */
  UMBO_VALUE_STRUCT = 4,
  /** A variable. */
  UMBO_VALUE_VARIABLE = 5,
  /** Indexed slices: some rows of a tensor, by number. */
  UMBO_VALUE_INDEXED_SLICES = 6,
  /**
   * Values in order, as in a tuple, but a nest of another kind: a list and a tuple do not have the
   * same structure.
   */
  UMBO_VALUE_LIST = 7
};

/**
 * Tells what a value is: a tensor, a tuple and so on.
 *
 * @param[out] kind One of the `UMBO_VALUE_` constants.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not a valid handle, or `kind` is a
 *   null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_get_kind(
    const umbo_value *value, umbo_value_kind *kind);

/**
 * Counts the items, fields or components of a value.
 *
 * @param[out] count How many there are; 1 for a tensor, indexed slices or a variable.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not a valid handle, or `count` is a
 *   null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_count(const umbo_value *value, int64_t *count);

/**
 * Gives the item, field or component at a position.
 *
 * @param[in] value A tuple, a list, a struct or a per-replica value.
 * @param[in] index The position, from 0 on.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: there is nothing at `index`.
 * - UMBO_STATUS_INVALID_ARGUMENT: `value` is a tensor, indexed slices or a variable, or is not a
 *   valid handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_item(
    const umbo_value *value, int64_t index, umbo_value **item);

/**
 * Gives the field of a struct by its name.
 *
 * @param[in] name The name. In "a.b", b is a field of field a, unless there is a field "a.b": the
 *   longest name counts. A decimal number without sign and leading zeros is an item of a tuple or a
 *   list.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: there is no such field.
 * - UMBO_STATUS_INVALID_ARGUMENT: `value` is not a valid handle, or `name` or `field` is a null
 *   pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_field(
    const umbo_value *value, const char *name, umbo_value **field);

/**
 * Gives the name of the field of a struct at a position.
 *
 * @param[in] value A struct.
 * @param[in] index The position, from 0 on.
 * @param[out] name The name, a text that lives as long as the value.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: there is no field at `index`.
 * - UMBO_STATUS_INVALID_ARGUMENT: `value` is not a struct, or is not a valid handle, or `name` is
 *   a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_field_name(
    const umbo_value *value, int64_t index, const char **name);

/**
 * Gives the tensor of a value that is a tensor.
 *
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not a tensor, or is not a valid
 *   handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_tensor(const umbo_value *value, umbo_tensor **tensor);

/**
 * Gives the variable of a value that is a variable.
 *
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not a variable, or is not a valid
 *   handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_variable(
    const umbo_value *value, umbo_variable **variable);

/**
 * Gives a view of a tensor in a value, for reading only.
 *
 * @param[in] name Which tensor: "x" is a field, "a.b" a field of a field, "0" the item of a tuple,
 *   as of umbo_value_field(). `name` may be NULL: the value itself.
 * @param[out] view Where the elements are. It is valid as long as the tensor's memory; in a
 *   callback, until the callback returns.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: there is nothing of this name.
 * - UMBO_STATUS_INVALID_ARGUMENT: what has this name is not a tensor, `value` is not a valid
 *   handle, or `view` is a null pointer.
 *
 * The memory of a batch serves a later one once nobody holds the batch. Whoever keeps the view for
 * longer than the callback, such as a tensor of an engine that is made over it, holds the value
 * (umbo_value_retain()) or its tensor (umbo_value_tensor()) for as long.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_view(
    const umbo_value *value, const char *name, umbo_view *view);

/**
 * Writes a value in words: dtype, shape, device and elements.
 *
 * @param[out] buffer The text, ended by a NUL. `buffer` may be NULL if `capacity` is 0.
 * @param[in] capacity The size of `buffer` in bytes.
 * @param[out] length The length of the text in bytes, without the NUL.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: `capacity` is too small. `buffer` is not written, but `length` is.
 * - UMBO_STATUS_INVALID_ARGUMENT: `value` is not a valid handle, or an output is a null pointer.
 * - Any status of umbo_variable_read(), if the value contains a variable.
 *
 * The text describes each tensor in the value. The middle of a long axis is left out.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_text(
    const umbo_value *value, char *buffer, size_t capacity, size_t *length);

/**
 * Tells how many examples of the global batch a value holds.
 *
 * @param[in] value An element of a distributed dataset, or a value that has a per-replica value in
 *   it.
 * @param[in] replica Whose part is counted, from 0 on; -1 counts all parts together.
 * @param[out] count How many examples there are.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: there is no such replica.
 * - UMBO_STATUS_INVALID_ARGUMENT: `value` is not an element of a distributed dataset and has no
 *   per-replica value in it, is not a valid handle, or `count` is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_examples(
    const umbo_value *value, int32_t replica, int64_t *count);

/**
 * Makes indexed slices: some rows of a tensor, by number.
 *
 * @param[in] values The rows: k of them, each with the shape of a row of `dense_shape`.
 * @param[in] indices The row numbers: an int64 tensor of shape [k]. Row i of `values` belongs to
 *   row `indices[i]`.
 * @param[in] rank How many dimensions `dense_shape` has, 1 to UMBO_MAX_RANK.
 * @param[in] dense_shape The shape of the tensor that the rows are a part of.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `indices` is not int64 of one dimension, `rank`
 *   or a size is out of its limits, `values` has another shape than `dense_shape` with k rows, or a
 *   handle is not valid.
 *
 * A row that is named several times stands for the sum. The value keeps both tensors and does not
 * copy them; the caller still releases its own handles. Whether the row numbers are in range is
 * checked where they are used.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_create_indexed_slices(
    const umbo_tensor *values, const umbo_tensor *indices, int32_t rank,
    const int64_t *dense_shape, umbo_value **value);

/**
 * Gives the rows of indexed slices.
 *
 * @param[in] value A value that is indexed slices.
 * @param[out] tensor A new handle to the tensor of the rows. Release it with
 *   umbo_tensor_release().
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not indexed slices, or is not a
 *   valid handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_slices_values(
    const umbo_value *value, umbo_tensor **tensor);

/**
 * Gives the row numbers of indexed slices.
 *
 * @param[in] value A value that is indexed slices.
 * @param[out] tensor A new handle to the tensor of the row numbers. Release it with
 *   umbo_tensor_release().
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not indexed slices, or is not a
 *   valid handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_slices_indices(
    const umbo_value *value, umbo_tensor **tensor);

/**
 * Gives the shape of the tensor that the rows are a part of.
 *
 * @param[in] value A value that is indexed slices.
 * @param[out] rank How many dimensions there are.
 * @param[out] shape The size of each dimension. It has room for UMBO_MAX_RANK sizes; those from
 *   `rank` on are set to 0.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `value` is not indexed slices, or is not a
 *   valid handle, or an output is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_slices_dense_shape(
    const umbo_value *value, int32_t *rank, int64_t *shape);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
