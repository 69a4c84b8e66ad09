/* Generated from src/ffi; do not edit. */
#ifndef UMBO_DATASET_H
#define UMBO_DATASET_H

/**
 * @file dataset.h
 * @brief Datasets: sequences of elements, their transformations, their distribution over replicas,
 * and iterators.
 *
 * A dataset is a description that is not changed once it is made; each transformation makes another
 * one, which keeps those it was made of. An iterator is a pass over a dataset and independent of
 * others. The caller releases datasets, iterators and elements; the memory of an element that was
 * released serves a later one.
 *
 * Threads: functions of datasets and element specs are *concurrent*, also on one object. Those of
 * an iterator are *serialised*: threads may share it, and each element goes to one of them. A
 * mapped function is called by several threads at once if umbo_map_options says so; the functions
 * of one pass of a generator are not.
 *
 * Functions:
 * - umbo_element_spec_create_tensor(): Makes the spec of a tensor.
 * - umbo_element_spec_create_tuple(): Makes the spec of a tuple.
 * - umbo_element_spec_create_struct(): Makes the spec of a struct.
 * - umbo_element_spec_get_kind(): Tells what elements are: tensors, tuples and so on.
 * - umbo_element_spec_count(): Counts the items, fields or components of a spec.
 * - umbo_element_spec_item(): Gives the spec of an item, field or component.
 * - umbo_element_spec_field_name(): Gives the name of the field of a struct at a position.
 * - umbo_element_spec_leaf(): Gives the dtype, rank and shape of a tensor.
 * - umbo_element_spec_retain(): Makes another handle to the same spec.
 * - umbo_element_spec_release(): Releases a handle to a spec.
 * - umbo_dataset_from_tensor_slices(): Makes a dataset of the rows of tensors.
 * - umbo_dataset_from_idx_file(): Makes a dataset of the rows of an array in an IDX file.
 * - umbo_dataset_from_npy_file(): Makes a dataset of the rows of an array in a NumPy `.npy` file.
 * - umbo_dataset_from_npz_file(): Makes a dataset of the rows of arrays in a NumPy `.npz` file.
 * - umbo_dataset_from_tensors(): Makes a dataset of one element.
 * - umbo_dataset_from_elements(): Makes a dataset of which each element is a tensor.
 * - umbo_dataset_from_range(): Makes a dataset of numbers: int64 scalars at equal distances.
 * - umbo_dataset_from_generator(): Makes a dataset of what functions of the program make.
 * - umbo_dataset_map(): Applies a function to each element.
 * - umbo_dataset_zip(): Several datasets side by side: element i consists of element i of each.
 * - umbo_dataset_shuffle(): The elements in random order.
 * - umbo_dataset_batch(): Batches of `size` elements, stacked along a new dimension 0.
 * - umbo_dataset_padded_batch(): Batches as of umbo_dataset_batch(), of elements whose shapes may
 *   differ: each is padded with zeros, at the end of each dimension, to the largest of its batch.
 * - umbo_dataset_rebatch(): The rows of all batches as one stream, cut into batches of the `count`
 *   sizes, over and over again.
 * - umbo_dataset_repeat(): The elements `count` times over, or without end if it is -1.
 * - umbo_dataset_prefetch(): The same elements, up to `depth` (1 to 4096) of them made ahead of
 *   their consumer by a thread of each iterator, which starts with its first element and is
 *   joined when it is released.
 * - umbo_dataset_take(): The first `count` elements, or all if there are fewer or if it is -1.
 * - umbo_dataset_skip(): All but the first `count` elements; none if there are no more or if it is
 *   -1, which is all.
 * - umbo_dataset_shard(): The elements at positions `index`, `index + shards`, `index + 2 *
 *   shards`, ...
 * - umbo_dataset_cache(): The same elements, kept in memory by the first pass that reaches the
 *   end: later passes yield them in the order that they had then and ask the dataset for nothing.
 * - umbo_dataset_concatenate(): The elements of several datasets, one dataset after the other.
 * - umbo_dataset_cardinality(): How many elements a pass yields; -1: it never ends, -2: only
 *   iterating tells.
 * - umbo_dataset_element_spec(): The structure, dtypes and shapes of the elements, which the
 *   caller releases.
 * - umbo_iterator_from_dataset(): An iterator at the beginning of a pass, independent of all
 *   others.
 * - umbo_dataset_retain(): Another handle to the same object, to be released like the first; also
 *   of what a callback was only lent, which then stays.
 * - umbo_dataset_release(): Releases a reference.
 * - umbo_strategy_distribute_dataset(): Splits each element of a dataset, which is a global batch,
 *   along dimension 0 over the replicas of a strategy.
 * - umbo_strategy_distribute_datasets_from_function(): Calls `function` once, before it returns,
 *   on this thread, to make a dataset, and gives each replica whole elements of it: with n
 *   replicas, replica k gets element s * n + k in step s.
 * - umbo_distributed_dataset_element_spec(): The structure of the steps, which the caller
 *   releases: per-replica values where the dataset's elements have tensors, with one replica the
 *   tensors themselves.
 * - umbo_distributed_dataset_cardinality(): How many steps a pass yields; -1: it never ends, -2:
 *   only iterating tells.
 * - umbo_iterator_from_distributed_dataset(): An iterator at the beginning of a pass, independent
 *   of all others.
 * - umbo_distributed_dataset_retain(): Another handle to the same object, to be released like the
 *   first; also of what a callback was only lent, which then stays.
 * - umbo_distributed_dataset_release(): Releases a reference.
 * - umbo_iterator_next(): The next element, which the caller releases; NULL at the end of the pass
 *   and ever after.
 * - umbo_iterator_element_spec(): The structure, dtypes and shapes of the elements, which the
 *   caller releases: those of the dataset.
 * - umbo_iterator_reset(): Starts a new pass from the beginning, in another order if the dataset
 *   is shuffled.
 * - umbo_iterator_retain(): Another handle to the same object, to be released like the first; also
 *   of what a callback was only lent, which then stays.
 * - umbo_iterator_release(): Releases a reference; the last one stops and joins the iterator's
 *   threads, if it has any.
 *
 * Example:
 * ```c
 * // Batches of 32, shuffled anew in each pass, split over the replicas.
 * static umbo_status batches(umbo_strategy *strategy, const umbo_value *examples,
 *                            umbo_distributed_dataset **distributed) {
 *   umbo_dataset *slices = NULL, *shuffled = NULL, *batched = NULL;
 *   umbo_status status = umbo_dataset_from_tensor_slices(examples, &slices);
 *   if (status == UMBO_OK) status = umbo_dataset_shuffle(slices, NULL, &shuffled);
 *   if (status == UMBO_OK) status = umbo_dataset_batch(shuffled, 32, 0, &batched);
 *   if (status == UMBO_OK) {
 *     status = umbo_strategy_distribute_dataset(strategy, batched, NULL, distributed);
 *   }
 *   umbo_dataset_release(batched);
 *   umbo_dataset_release(shuffled);
 *   umbo_dataset_release(slices);
 *   return status;
 * }
 * ```
 */

#include <umbo/value.h>

#ifdef __cplusplus
extern "C" {
#endif


/** The size of a dimension in which elements may differ. */
#define UMBO_SIZE_UNKNOWN (-1)

/**
 * Makes the spec of a tensor.
 *
 * @param[in] dtype The type of the tensor's elements.
 * @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
 * @param[in] shape The size of each dimension; UMBO_SIZE_UNKNOWN where elements may differ.
 *   `shape` may be NULL if `rank` is 0.
 * @param[out] spec The new spec. Release it with umbo_element_spec_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `dtype` is none of the types, or `rank` or a size is out of its limits.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_tensor(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, umbo_element_spec **spec);

/**
 * Makes the spec of a tuple.
 *
 * @param[in] count How many items there are, 0 or more.
 * @param[in] items The specs of the items. The tuple keeps them; the caller still releases its own
 *   handles.
 * @param[out] spec The new spec. Release it with umbo_element_spec_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: the spec would be deeper or larger than UMBO_MAX_NEST_DEPTH allows, `count`
 *   is negative, or an item is no valid handle.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_tuple(
    int64_t count, const umbo_element_spec *const *items, umbo_element_spec **spec);

/**
 * Makes the spec of a struct.
 *
 * @param[in] count How many fields there are, 0 or more.
 * @param[in] names The name of each field, all different. They are copied.
 * @param[in] items The spec of each field. The struct keeps them; the caller still releases its
 *   own handles.
 * @param[out] spec The new spec. Release it with umbo_element_spec_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: two fields have the same name, the spec would be deeper or larger than
 *   UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is no valid handle.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_struct(
    int64_t count, const char *const *names, const umbo_element_spec *const *items,
    umbo_element_spec **spec);

/**
 * Tells what elements are: tensors, tuples and so on.
 *
 * @param[in] spec The spec.
 * @param[out] kind UMBO_VALUE_TENSOR, UMBO_VALUE_PER_REPLICA, UMBO_VALUE_TUPLE or
 *   UMBO_VALUE_STRUCT.
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `spec` is no valid handle, or `kind` is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_get_kind(
    const umbo_element_spec *spec, umbo_value_kind *kind);

/**
 * Counts the items, fields or components of a spec.
 *
 * @param[in] spec The spec.
 * @param[out] count How many there are; 1 for a tensor.
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `spec` is no valid handle, or `count` is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_count(
    const umbo_element_spec *spec, int64_t *count);

/**
 * Gives the spec of an item, field or component.
 *
 * @param[in] spec The spec of a tuple, a struct or a per-replica value.
 * @param[in] index The position, from 0 on.
 * @param[out] item A new handle to the spec of the item. Release it with
 *   umbo_element_spec_release().
 * @return UMBO_OK, or:
 * - OUT_OF_RANGE: there is nothing at `index`.
 * - INVALID_ARGUMENT: `spec` is that of a tensor, or is no valid handle.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_item(
    const umbo_element_spec *spec, int64_t index, umbo_element_spec **item);

/**
 * Gives the name of the field of a struct at a position.
 *
 * @param[in] spec The spec of a struct.
 * @param[in] index The position, from 0 on.
 * @param[out] name The name, a text that lives as long as the process.
 * @return UMBO_OK, or:
 * - OUT_OF_RANGE: there is no field at `index`.
 * - INVALID_ARGUMENT: `spec` is not that of a struct, or is no valid handle, or `name` is a null
 *   pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_field_name(
    const umbo_element_spec *spec, int64_t index, const char **name);

/**
 * Gives the dtype, rank and shape of a tensor.
 *
 * @param[in] spec The spec of a tensor or of a per-replica value. Of a per-replica value it tells
 *   what each component is.
 * @param[out] dtype The type of the tensor's elements.
 * @param[out] rank The number of dimensions.
 * @param[out] shape The size of each dimension; UMBO_SIZE_UNKNOWN where elements may differ. It
 *   has room for UMBO_MAX_RANK sizes; those from `rank` on are set to 0.
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `spec` is that of a tuple or a struct, or is no valid handle, or an output
 *   is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_leaf(
    const umbo_element_spec *spec, umbo_dtype *dtype, int32_t *rank, int64_t *shape);

/**
 * Makes another handle to the same spec.
 *
 * @param[in] spec The spec.
 * @param[out] retained The other handle. Release it with umbo_element_spec_release(), as well as
 *   the first.
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `spec` is no valid handle, or `retained` is a null pointer.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_retain(
    const umbo_element_spec *spec, umbo_element_spec **retained);

/**
 * Releases a handle to a spec.
 *
 * @param[in] spec The handle. NULL does nothing.
 */
UMBO_API void umbo_element_spec_release(const umbo_element_spec *spec);

/**
 * Makes a dataset of the rows of tensors.
 *
 * @param[in] components A tensor, or a tuple or struct of tensors, all with the same size of
 *   dimension 0.
 * @param[out] dataset The new dataset. Release it with umbo_dataset_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `components` contains no tensor, a scalar, a per-replica value or a
 *   variable, the sizes of dimension 0 differ, or it is no valid handle.
 * - UNIMPLEMENTED: a tensor is on a GPU.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 *
 * Element i consists of row i of each tensor and has the structure of `components`. The dataset
 * shares the tensors and does not copy them. Nobody may write them while the dataset or an element
 * of it is in use.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_tensor_slices(
    const umbo_value *components, umbo_dataset **dataset);

/**
 * Makes a dataset of the rows of an array in an IDX file.
 *
 * @param[in] path The file, plain or compressed by gzip. IDX is the format of MNIST.
 * @param[out] dataset The new dataset. Release it with umbo_dataset_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: it is not an IDX file, or holds a scalar; or `path` or `dataset` is a null
 *   pointer.
 * - DATA_LOSS: the file is shorter or longer than its header says, or is damaged.
 * - NOT_FOUND: there is no such file.
 * - PERMISSION_DENIED: the system does not let the process read it.
 * - RESOURCE_EXHAUSTED: there is no memory for the array.
 *
 * The rows are the slices along dimension 0. A plain file of 8-bit elements is mapped into memory:
 * nobody may rewrite or shorten it while the dataset or an element of it is in use. Other files
 * are read by this call.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_idx_file(
    const char *path, umbo_dataset **dataset);

/**
 * Makes a dataset of the rows of an array in a NumPy `.npy` file.
 *
 * @param[in] path The file.
 * @param[out] dataset The new dataset. Release it with umbo_dataset_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: it is not a `.npy` file, or holds a scalar; or `path` or `dataset` is a null
 *   pointer.
 * - UNIMPLEMENTED: it has a dtype that Umbo does not have, such as Python objects.
 * - DATA_LOSS: the file is shorter or longer than its header says, or is damaged.
 * - NOT_FOUND: there is no such file.
 * - PERMISSION_DENIED: the system does not let the process read it.
 * - RESOURCE_EXHAUSTED: there is no memory for the array.
 *
 * The rows are the slices along dimension 0. A file in the machine's byte order and in C order, of
 * any dtype but bool, is mapped into memory: nobody may rewrite or shorten it while the dataset or
 * an element of it is in use. Other files are read and converted by this call.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_npy_file(
    const char *path, umbo_dataset **dataset);

/**
 * Makes a dataset of the rows of arrays in a NumPy `.npz` file.
 *
 * @param[in] path The file.
 * @param[in] count How many names there are.
 * @param[in] names The names of the arrays. `names` may be NULL: all arrays, in the order of the
 *   file.
 * @param[out] dataset The new dataset. Release it with umbo_dataset_release().
 * @return UMBO_OK, a status as of umbo_dataset_from_npy_file(), or:
 * - NOT_FOUND: there is no array of a name.
 * - UNIMPLEMENTED: the file is encrypted, or compressed otherwise than by DEFLATE.
 * - INVALID_ARGUMENT: an entry is not an array of this folder, no array is chosen, an array is a
 *   scalar, or the arrays differ in the size of dimension 0.
 *
 * Element i is a struct. It has a field for each array, with the array's name, which holds the
 * array's row i. The call reads the arrays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_npz_file(
    const char *path, int64_t count, const char *const *names, umbo_dataset **dataset);

/**
 * Makes a dataset of one element.
 *
 * @param[in] element The element: a tensor, or a tuple or struct of tensors.
 * @param[out] dataset The new dataset. Release it with umbo_dataset_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `element` contains no tensor, a per-replica value or a variable, or is no
 *   valid handle.
 * - UNIMPLEMENTED: a tensor is on a GPU.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 *
 * The dataset shares the tensors and does not copy them. Nobody may write them while the dataset
 * or its element is in use.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_tensors(
    const umbo_value *element, umbo_dataset **dataset);

/**
 * Makes a dataset of which each element is a tensor.
 *
 * @param[in] count How many tensors there are, 1 or more.
 * @param[in] tensors The elements. They have the same dtype and rank; their shapes may differ.
 * @param[out] dataset The new dataset. Release it with umbo_dataset_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `count` is less than 1, the tensors differ in dtype or rank, or one of them
 *   is no valid handle.
 * - UNIMPLEMENTED: a tensor is on a GPU.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 *
 * All sizes in the element spec are unknown. The dataset shares the tensors and does not copy
 * them. Nobody may write them while the dataset or an element of it is in use.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_elements(
    int64_t count, const umbo_tensor *const *tensors, umbo_dataset **dataset);

/**
 * Makes a dataset of numbers: int64 scalars at equal distances.
 *
 * @param[in] start The first number.
 * @param[in] stop Where the numbers end; it is not one of them.
 * @param[in] step The distance between numbers. It may be negative, not 0.
 * @param[out] dataset The new dataset. Release it with umbo_dataset_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `step` is 0, or `dataset` is a null pointer.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 *
 * The numbers are `start`, `start + step`, and so on, as long as they are less than `stop`, or
 * greater than `stop` if `step` is negative.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_range(
    int64_t start, int64_t stop, int64_t step, umbo_dataset **dataset);

/**
 * Begins a pass of a generator.
 *
 * @param[in] user_data What was given to umbo_dataset_from_generator().
 * @param[out] pass What the program keeps about the pass. The generator's other functions get it.
 *   It is NULL when the function is called.
 * @return UMBO_OK, or why it fails; umbo_iterator_next() then fails with it.
 */
typedef umbo_status (*umbo_generator_begin_fn)(void *user_data, void **pass);

/**
 * Makes the next element of a pass.
 *
 * @param[in] pass What umbo_generator.begin has stored; NULL if there is no such function.
 * @param[in] user_data What was given to umbo_dataset_from_generator().
 * @param[out] element The element, which the library takes over. It is NULL when the function is
 *   called. If it stays NULL, the pass is at its end.
 * @return UMBO_OK, or why it fails; umbo_iterator_next() then fails with it.
 */
typedef umbo_status (*umbo_generator_next_fn)(void *pass, void *user_data, umbo_value **element);

/**
 * Takes a pass back to its beginning.
 *
 * @param[in] pass What umbo_generator.begin has stored; NULL if there is no such function.
 * @param[in] user_data What was given to umbo_dataset_from_generator().
 * @return UMBO_OK, or why it fails.
 */
typedef umbo_status (*umbo_generator_reset_fn)(void *pass, void *user_data);

/**
 * Ends a pass, also one that has not reached its end.
 *
 * @param[in] pass What umbo_generator.begin has stored; NULL if there is no such function.
 * @param[in] user_data What was given to umbo_dataset_from_generator().
 */
typedef void (*umbo_generator_end_fn)(void *pass, void *user_data);

/**
 * The functions of a generator. Start from UMBO_GENERATOR_INIT.
 *
 * One thread at a time uses a pass. It need not be the caller's thread, nor always the same one.
 * Several passes, of several iterators, may be used at the same time. The functions may use other
 * iterators, but not the one that calls them (FAILED_PRECONDITION).
 */
typedef struct umbo_generator {
  /** `sizeof(umbo_generator)`; UMBO_GENERATOR_INIT sets it. */
  size_t struct_size;
  /** Begins a pass, when its first element is asked for. NULL: there is nothing to do. */
  umbo_generator_begin_fn begin;
  /** Makes the next element. It must be set. After a failure it may be called again. */
  umbo_generator_next_fn next;
  /** Takes a pass back to its beginning. NULL: the pass is ended, and another one is begun. */
  umbo_generator_reset_fn reset;
  /** Ends a pass, exactly once for each that was begun. NULL: there is nothing to do. */
  umbo_generator_end_fn end;
} umbo_generator;

/** The starting value of a umbo_generator. */
#define UMBO_GENERATOR_INIT { sizeof(umbo_generator), NULL, NULL, NULL, NULL }

/** UMBO_GENERATOR_INIT, to be assigned. */
static inline umbo_generator umbo_generator_default(void) {
  umbo_generator value = UMBO_GENERATOR_INIT;
  return value;
}

/**
 * Makes an element from an element.
 *
 * @param[in] element The element, lent for the call.
 * @param[in] user_data What was given to umbo_dataset_map().
 * @param[out] result The value that is made, which the library takes over. It is NULL when the
 *   function is called, and must be set.
 * @return UMBO_OK, or why it fails; umbo_iterator_next() then fails with it.
 *
 * Several calls may run at the same time. The function may wait, and may use other iterators, but
 * not the one that calls it (FAILED_PRECONDITION).
 */
typedef umbo_status (*umbo_map_fn)(const umbo_value *element, void *user_data, umbo_value **result);

/** How a function is applied to elements. Start from UMBO_MAP_OPTIONS_INIT. */
typedef struct umbo_map_options {
  /** `sizeof(umbo_map_options)`; UMBO_MAP_OPTIONS_INIT sets it. */
  size_t struct_size;
  /**
   * The spec of the results. NULL, the default: that of the elements. The caller still releases
   * it.
   */
  const umbo_element_spec *element_spec;
  /**
   * How many calls may run at the same time, 1 to 4096. 1, the default: one after the other, on
   * the thread that asks for the element. With more, each call has a thread of the iterator's.
   * There may be more of them than processors, since calls may wait.
   */
  int64_t parallel_calls;
} umbo_map_options;

/** The starting value of a umbo_map_options. */
#define UMBO_MAP_OPTIONS_INIT { sizeof(umbo_map_options), NULL, 1 }

/** UMBO_MAP_OPTIONS_INIT, to be assigned. */
static inline umbo_map_options umbo_map_options_default(void) {
  umbo_map_options value = UMBO_MAP_OPTIONS_INIT;
  return value;
}

/**
 * Makes a dataset of what functions of the program make.
 *
 * @param[in] element_spec What the elements are. The dataset keeps it; the caller still releases
 *   its own handle.
 * @param[in] generator The functions. The struct is copied.
 * @param[in] user_data What the functions are given.
 * @param[in] destroy Releases `user_data`, exactly once, on any thread, also if this function
 *   fails. NULL: nothing to release.
 * @param[out] dataset The new dataset. Release it with umbo_dataset_release().
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `generator` has no `next`, or `element_spec` has no tensor or has a
 *   per-replica value in it, or is no valid handle.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 *
 * The number of elements is not known before a pass ends. umbo_iterator_next() fails with
 * INVALID_ARGUMENT for an element that is not as `element_spec` says.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_generator(
    const umbo_element_spec *element_spec, const umbo_generator *generator, void *user_data,
    umbo_destroy_fn destroy, umbo_dataset **dataset);

/**
 * Applies a function to each element.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] function Makes a result from an element.
 * @param[in] user_data What `function` is given.
 * @param[in] destroy Releases `user_data`, exactly once, on any thread, also if this function
 *   fails. NULL: nothing to release.
 * @param[in] options How many calls run at the same time, and the spec of the results. `options`
 *   may be NULL: the defaults.
 * @return UMBO_OK, or:
 * - INVALID_ARGUMENT: `parallel_calls` is not in [1, 4096], the spec has no tensor or has a
 *   per-replica value in it, a handle is not valid, or the dataset has 256 transformations
 *   already.
 * - RESOURCE_EXHAUSTED: there is no memory or no handle left.
 *
 * The results come in the order of the elements, however many calls run at the same time.
 * Iterators call the function when an element is asked for. umbo_iterator_next() then also fails:
 * - as the function fails. Its element is left out, and the next call gives the next element.
 * - INVALID_ARGUMENT: a result is not as its spec says.
 * - RESOURCE_EXHAUSTED: the system gives no thread for parallel calls. If it gives fewer threads
 *   than `parallel_calls`, fewer calls run at the same time.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_map(
    umbo_dataset **dataset, umbo_map_fn function, void *user_data, umbo_destroy_fn destroy,
    const umbo_map_options *options);

/** A shuffle buffer for all elements of the dataset. */
#define UMBO_SHUFFLE_WHOLE_DATASET (-1)

/** How a dataset is shuffled. UMBO_SHUFFLE_OPTIONS_INIT sets all to default. */
typedef struct umbo_shuffle_options {
  /** sizeof(umbo_shuffle_options). */
  size_t struct_size;
  /**
   * From how many elements the next one is drawn, 1 or more. UMBO_SHUFFLE_WHOLE_DATASET, the
   * default: from all of them, which makes every order equally likely.
   */
  int64_t buffer_size;
  /** Which orders come: the same seed gives the same orders on every machine. */
  uint64_t seed;
  /** 0: each pass and each repetition has another order. 1: all have the same. */
  int32_t keep_order_each_pass;
} umbo_shuffle_options;

/** The starting value of a umbo_shuffle_options. */
#define UMBO_SHUFFLE_OPTIONS_INIT \
  { sizeof(umbo_shuffle_options), UMBO_SHUFFLE_WHOLE_DATASET, 0, 0 }

/** UMBO_SHUFFLE_OPTIONS_INIT, to be assigned. */
static inline umbo_shuffle_options umbo_shuffle_options_default(void) {
  umbo_shuffle_options value = UMBO_SHUFFLE_OPTIONS_INIT;
  return value;
}

/**
 * Several datasets side by side: element i consists of element i of each. `names` has `count`
 * names, which must differ, and makes elements structs; NULL makes them tuples. Ends with the
 * dataset that ends first; if others have more elements, the log says so once, as a warning. The
 * datasets stay the caller's to release.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_zip(
    int64_t count, const umbo_dataset *const *datasets, const char *const *names,
    umbo_dataset **zipped);

/**
 * The elements in random order. `options` may be NULL. Over tensors and files only row numbers are
 * shuffled; elsewhere the buffer holds elements. Replaces `*dataset`. INVALID_ARGUMENT: a buffer
 * size of 0 or less, or UMBO_SHUFFLE_WHOLE_DATASET for a dataset without end.
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_shuffle(
    umbo_dataset **dataset, const umbo_shuffle_options *options);

/**
 * Batches of `size` elements, stacked along a new dimension 0. The last batch is smaller if
 * elements are left over, or left out if `drop_remainder` is 1. Over tensors in their own order
 * batches are views. INVALID_ARGUMENT: a size less than 1, elements of rank 8; while iterating,
 * elements of one batch that differ in shape.
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_batch(
    umbo_dataset **dataset, int64_t size, int32_t drop_remainder);

/**
 * Batches as of umbo_dataset_batch(), of elements whose shapes may differ: each is padded with
 * zeros, at the end of each dimension, to the largest of its batch. INVALID_ARGUMENT: a size less
 * than 1, elements of rank 8; while iterating, elements of one batch that differ in dtype or rank.
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_padded_batch(
    umbo_dataset **dataset, int64_t size, int32_t drop_remainder);

/**
 * The rows of all batches as one stream, cut into batches of the `count` sizes, over and over
 * again. A size of 0 makes a batch without rows. The last batch is smaller if rows are left over,
 * and nothing follows it, or left out if `drop_remainder` is 1. INVALID_ARGUMENT: no size above 0,
 * a negative one, elements with a scalar; while iterating, batches that do not fit together.
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_rebatch(
    umbo_dataset **dataset, int64_t count, const int64_t *sizes, int32_t drop_remainder);

/**
 * The elements `count` times over, or without end if it is -1. A shuffled dataset has another
 * order each time, unless told to keep one.
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_repeat(umbo_dataset **dataset, int64_t count);

/**
 * The same elements, up to `depth` (1 to 4096) of them made ahead of their consumer by a thread of
 * each iterator, which starts with its first element and is joined when it is released.
 * RESOURCE_EXHAUSTED, while iterating: no thread; the next call tries again.
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_prefetch(umbo_dataset **dataset, int64_t depth);

/**
 * The first `count` elements, or all if there are fewer or if it is -1. INVALID_ARGUMENT: less than
 * -1.
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_take(umbo_dataset **dataset, int64_t count);

/**
 * All but the first `count` elements; none if there are no more or if it is -1, which is all.
 * INVALID_ARGUMENT: less than -1.
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_skip(umbo_dataset **dataset, int64_t count);

/**
 * The elements at positions `index`, `index + shards`, `index + 2 * shards`, ... INVALID_ARGUMENT:
 * less than 1 shard, an index that is not in [0, shards).
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_shard(
    umbo_dataset **dataset, int64_t shards, int64_t index);

/**
 * The same elements, kept in memory by the first pass that reaches the end: later passes yield them
 * in the order that they had then and ask the dataset for nothing. Elements are read-only. While
 * iterating, RESOURCE_EXHAUSTED if there is no memory to keep them in.
 *
 * Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain()
 * keeps what it stood for). If it fails, `*dataset` stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_cache(umbo_dataset **dataset);

/**
 * The elements of several datasets, one dataset after the other. Structure, dtypes and ranks must
 * be the same. The datasets stay the caller's to release. To join many, give them to one call: no
 * more than 256 transformations, of whatever kind, may lie above each other (INVALID_ARGUMENT).
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_concatenate(
    int64_t count, const umbo_dataset *const *datasets, umbo_dataset **concatenated);

/** How many elements a pass yields; -1: it never ends, -2: only iterating tells. */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_cardinality(
    const umbo_dataset *dataset, int64_t *count);

/** The structure, dtypes and shapes of the elements, which the caller releases. */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_element_spec(
    const umbo_dataset *dataset, umbo_element_spec **spec);

/**
 * An iterator at the beginning of a pass, independent of all others. It keeps what it needs of the
 * dataset, which may be released.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_from_dataset(
    const umbo_dataset *dataset, umbo_iterator **iterator);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_retain(
    const umbo_dataset *dataset, umbo_dataset **retained);

/** Releases a reference. NULL is fine. */
UMBO_API void umbo_dataset_release(const umbo_dataset *dataset);

/** As many steps ahead as the compute devices gain from. */
#define UMBO_BUFFER_OF_DEVICE (-1)

/** How the rows of batches are split. */
UMBO_ENUM(umbo_split) {
  /**
   * Each batch by itself: of r rows over n replicas each gets r / n, rounded up, as far as there
   * are any.
   */
  UMBO_SPLIT_CEIL = 0,
  /**
   * All batches as one stream, from which replicas in turn get their share of a full batch: shares
   * of 9 over 4 replicas are 3, 2, 2 and 2. What is left over at the end goes to the first
   * replicas. Where the size of a full batch is not known, as UMBO_SPLIT_CEIL.
   */
  UMBO_SPLIT_BALANCED = 1
};

/** Which replicas an input pipeline serves. */
UMBO_ENUM(umbo_replication_mode) {
  /** All replicas of a worker. */
  UMBO_REPLICATION_PER_WORKER = 0,
  /** One each. Not offered by this strategy. */
  UMBO_REPLICATION_PER_REPLICA = 1
};

/** How a dataset is distributed. Start from UMBO_DISTRIBUTE_OPTIONS_INIT. */
typedef struct umbo_distribute_options {
  /** sizeof(umbo_distribute_options). */
  size_t struct_size;
  /** How the rows of batches are split. */
  umbo_split split;
  /**
   * 1: a last step for which the dataset runs out before every replica has its element or its
   * share is left out. 0: it is completed with components without rows (zero, where elements are
   * scalars). With UMBO_SPLIT_CEIL each batch is a whole step, so there is none to leave out.
   */
  int32_t drop_partial_step;
  /** 1: all components stay on CPU:0. 0: component k is on compute device k. */
  int32_t host_only;
  /**
   * How many steps are made ahead, on a thread of the iterator's that starts with its first
   * element. UMBO_BUFFER_OF_DEVICE, the default: as many as the devices gain from, which on CPUs
   * is none, since components are views there (where making a batch takes time,
   * umbo_dataset_prefetch() makes batches ahead). What is delivered never depends on it.
   */
  int64_t per_replica_buffer_size;
  /** Which replicas a pipeline serves. */
  umbo_replication_mode replication_mode;
  /**
   * 1: the dataset itself is on the compute devices, for which replication must be per replica
   * and `host_only` 1.
   */
  int32_t place_dataset_on_device;
} umbo_distribute_options;

/** The starting value of a umbo_distribute_options. */
#define UMBO_DISTRIBUTE_OPTIONS_INIT \
  { sizeof(umbo_distribute_options), UMBO_SPLIT_CEIL, 0, 0, UMBO_BUFFER_OF_DEVICE, \
    UMBO_REPLICATION_PER_WORKER, 0 }

/** UMBO_DISTRIBUTE_OPTIONS_INIT, to be assigned. */
static inline umbo_distribute_options umbo_distribute_options_default(void) {
  umbo_distribute_options value = UMBO_DISTRIBUTE_OPTIONS_INIT;
  return value;
}

/** What a function that makes a dataset is told about the pipeline it makes it for. */
typedef struct umbo_input_context {
  /** sizeof(umbo_input_context). */
  size_t struct_size;
  /** How many input pipelines there are. */
  int64_t num_input_pipelines;
  /** Which of them this is. */
  int32_t input_pipeline_id;
  /** The replicas of all pipelines together. */
  int64_t num_replicas_in_sync;
} umbo_input_context;

/** The starting value of a umbo_input_context. */
#define UMBO_INPUT_CONTEXT_INIT { sizeof(umbo_input_context), 0, 0, 0 }

/** UMBO_INPUT_CONTEXT_INIT, to be assigned. */
static inline umbo_input_context umbo_input_context_default(void) {
  umbo_input_context value = UMBO_INPUT_CONTEXT_INIT;
  return value;
}

/**
 * Makes the dataset of an input pipeline. `context` is borrowed for the call. `*dataset` is NULL on
 * entry; the dataset that is stored there is taken over by the library.
 */
typedef umbo_status (*umbo_dataset_fn)(
    const umbo_input_context *context, void *user_data, umbo_dataset **dataset);

/**
 * Splits each element of a dataset, which is a global batch, along dimension 0 over the replicas of
 * a strategy. `options` may be NULL.
 *
 * With one replica elements stay as they are. With n, each tensor becomes a per-replica value of
 * which component k has rows [k * c, (k + 1) * c), c being the number of rows over n, rounded up:
 * 9 rows over 4 replicas are 3, 3, 3 and 0. Nothing is copied. The elements know how many examples
 * each replica has, which umbo_gradients_submit() uses.
 *
 * Component k is on compute device k, without a copy: CPUs share their memory.
 *
 * INVALID_ARGUMENT: with several replicas, elements that contain a scalar (batch them first);
 * options that contradict each other. UNIMPLEMENTED: replication per replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_distribute_dataset(
    umbo_strategy *strategy, const umbo_dataset *dataset, const umbo_distribute_options *options,
    umbo_distributed_dataset **distributed);

/**
 * Calls `function` once, before it returns, on this thread, to make a dataset, and gives each
 * replica whole elements of it: with n replicas, replica k gets element s * n + k in step s. There
 * is one pipeline for all replicas. `options` may be NULL.
 *
 * The dataset is batched for one replica (umbo_input_context_per_replica_batch_size()); nothing is
 * split, and elements may be scalars. If the number of elements is not a multiple of n, the last
 * step is completed with components without rows (zero, for scalars), or left out if the options
 * say so. With one replica elements stay as they are.
 *
 * Fails as the function fails. INVALID_ARGUMENT: no dataset stored, options that contradict each
 * other. UNIMPLEMENTED: replication per replica.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_distribute_datasets_from_function(
    umbo_strategy *strategy, umbo_dataset_fn function, void *user_data,
    const umbo_distribute_options *options, umbo_distributed_dataset **distributed);

/**
 * The structure of the steps, which the caller releases: per-replica values where the dataset's
 * elements have tensors, with one replica the tensors themselves. The number of rows is known only
 * if it is the same in all steps.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_distributed_dataset_element_spec(
    const umbo_distributed_dataset *distributed, umbo_element_spec **spec);

/** How many steps a pass yields; -1: it never ends, -2: only iterating tells. */
UMBO_MUST_USE UMBO_API umbo_status umbo_distributed_dataset_cardinality(
    const umbo_distributed_dataset *distributed, int64_t *count);

/**
 * An iterator at the beginning of a pass, independent of all others. It keeps what it needs of the
 * distributed dataset, which may be released.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_from_distributed_dataset(
    const umbo_distributed_dataset *distributed, umbo_iterator **iterator);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_distributed_dataset_retain(
    const umbo_distributed_dataset *distributed, umbo_distributed_dataset **retained);

/** Releases a reference. NULL is fine. */
UMBO_API void umbo_distributed_dataset_release(const umbo_distributed_dataset *distributed);

/**
 * The next element, which the caller releases; NULL at the end of the pass and ever after.
 *
 * Waits until the element is there. Threads may share an iterator; each element goes to one of
 * them, in the order in which they ask. The memory of an element that was released, with all that
 * was made from it, serves a later one. After an error the call may be repeated and goes on behind
 * what failed.
 *
 * FAILED_PRECONDITION: in a function that this iterator has called, on whatever thread (of a
 * generator, a map, the release of an element), since the call would wait for itself; where
 * functions of several iterators would wait for each other; in the child of a fork, if the iterator
 * had threads or another thread was in it; for an iterator over a distributed dataset inside of a
 * replica's callback, since an element is for all replicas, and in the scope of another strategy.
 * RESOURCE_EXHAUSTED: no memory or no thread; nothing is lost, and the next call tries again.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_next(
    umbo_iterator *iterator, umbo_value **element);

/**
 * The structure, dtypes and shapes of the elements, which the caller releases: those of the
 * dataset.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_element_spec(
    const umbo_iterator *iterator, umbo_element_spec **spec);

/**
 * Starts a new pass from the beginning, in another order if the dataset is shuffled. What the
 * iterator has allocated is used again. FAILED_PRECONDITION as for umbo_iterator_next().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_reset(umbo_iterator *iterator);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_retain(
    const umbo_iterator *iterator, umbo_iterator **retained);

/**
 * Releases a reference; the last one stops and joins the iterator's threads, if it has any. In a
 * function that the iterator has called it does not wait for a thread that waits for that function;
 * the thread ends by itself. A call that another thread is in goes on to its end. NULL is fine.
 */
UMBO_API void umbo_iterator_release(const umbo_iterator *iterator);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
