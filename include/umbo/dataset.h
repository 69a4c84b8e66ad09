/* Generated from src/ffi; do not edit. */
#ifndef UMBO_DATASET_H
#define UMBO_DATASET_H

/**
 * @file dataset.h
 * @brief Datasets: sequences of elements, their transformations, their distribution over replicas,
 * and iterators.
 *
 * A dataset describes a sequence of elements. A transformation, such as umbo_dataset_batch(), makes
 * another dataset and puts it in the place of the one it was given; a pipeline has at most 256
 * transformations. An element spec says what elements are: structure, dtypes and shapes. An
 * iterator is a pass over a dataset, independent of other iterators. umbo_iterator_next() reports
 * what goes wrong with single elements: a wrong shape, a function that fails.
 *
 * The caller releases datasets, specs, iterators and elements. The library uses the memory of an
 * element again for a later one after the element has been released.
 *
 * Threads: functions of datasets and element specs are *concurrent*, also on one object. Those of
 * an iterator are *serialised*: threads may share it, and each element goes to one of them. If
 * umbo_map_options says so, several threads call a mapped function at the same time. The functions
 * of one pass of a generator are called by one thread at a time, and so is the function that opens
 * the files of one pass.
 *
 * Example:
 * ```c
 * // Batches of 32, in another order in each pass, split over the replicas.
 * static umbo_status batches(umbo_strategy *strategy, const umbo_value *examples,
 *                            umbo_distributed_dataset **distributed) {
 *   umbo_dataset *dataset = NULL;
 *   umbo_status status = umbo_dataset_from_tensor_slices(examples, &dataset);
 *   if (status == UMBO_OK) status = umbo_dataset_shuffle(&dataset, NULL);
 *   if (status == UMBO_OK) status = umbo_dataset_batch(&dataset, 32, 0);
 *   if (status == UMBO_OK) {
 *     status = umbo_strategy_distribute_dataset(strategy, dataset, NULL, distributed);
 *   }
 *   umbo_dataset_release(dataset);
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
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `dtype` is none of the types, or `rank` or a
 *   size is out of its limits.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_tensor(
    umbo_dtype dtype, int32_t rank, const int64_t *shape, umbo_element_spec **spec);

/**
 * Makes the spec of a tuple.
 *
 * @param[in] count How many items there are, 0 or more.
 * @param[in] items The specs of the items. The tuple keeps them; the caller still releases its own
 *   handles.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the spec would be deeper or larger than
 *   UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_tuple(
    int64_t count, const umbo_element_spec *const *items, umbo_element_spec **spec);

/**
 * Makes the spec of a list.
 *
 * @param[in] count How many items there are, 0 or more.
 * @param[in] items The specs of the items. The list keeps them; the caller still releases its own
 *   handles.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the spec would be deeper or larger than
 *   UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a valid handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_list(
    int64_t count, const umbo_element_spec *const *items, umbo_element_spec **spec);

/**
 * Makes the spec of a struct.
 *
 * @param[in] count How many fields there are, 0 or more.
 * @param[in] names The name of each field, all different. They are copied.
 * @param[in] items The spec of each field. The struct keeps them; the caller still releases its
 *   own handles.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: two fields have the same name, the spec would
 *   be deeper or larger than UMBO_MAX_NEST_DEPTH allows, `count` is negative, or an item is not a
 *   valid handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_struct(
    int64_t count, const char *const *names, const umbo_element_spec *const *items,
    umbo_element_spec **spec);

/**
 * Tells what elements are: tensors, tuples and so on.
 *
 * @param[out] kind UMBO_VALUE_TENSOR, UMBO_VALUE_PER_REPLICA, UMBO_VALUE_TUPLE,
 *   UMBO_VALUE_LIST or UMBO_VALUE_STRUCT.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `spec` is not a valid handle, or `kind` is a
 *   null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_get_kind(
    const umbo_element_spec *spec, umbo_value_kind *kind);

/**
 * Counts the items, fields or components of a spec.
 *
 * @param[out] count How many there are; 1 for a tensor.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `spec` is not a valid handle, or `count` is a
 *   null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_count(
    const umbo_element_spec *spec, int64_t *count);

/**
 * Gives the spec of an item, field or component.
 *
 * @param[in] spec The spec of a tuple, a list, a struct or a per-replica value.
 * @param[in] index The position, from 0 on.
 * @param[out] item A new handle to the spec of the item. Release it with
 *   umbo_element_spec_release().
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: there is nothing at `index`.
 * - UMBO_STATUS_INVALID_ARGUMENT: `spec` is that of a tensor, or is not a valid handle.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_item(
    const umbo_element_spec *spec, int64_t index, umbo_element_spec **item);

/**
 * Gives the name of the field of a struct at a position.
 *
 * @param[in] spec The spec of a struct.
 * @param[in] index The position, from 0 on.
 * @param[out] name The name, a text that lives as long as the spec.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: there is no field at `index`.
 * - UMBO_STATUS_INVALID_ARGUMENT: `spec` is not that of a struct, or is not a valid handle, or
 *   `name` is a null pointer.
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
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `spec` is that of a tuple, a list or a struct,
 *   or is not a valid handle, or an output is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_leaf(
    const umbo_element_spec *spec, umbo_dtype *dtype, int32_t *rank, int64_t *shape);

/** Makes another handle to the same element spec: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_element_spec_retain(
    const umbo_element_spec *element_spec, umbo_element_spec **retained) {
  return umbo_retain(element_spec, UMBO_HANDLE_ELEMENT_SPEC, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_element_spec_release(const umbo_element_spec *element_spec) {
  umbo_release(element_spec, UMBO_HANDLE_ELEMENT_SPEC);
}

/**
 * Makes a dataset of the rows of tensors.
 *
 * @param[in] components A tensor, or a tuple, list or struct of tensors, all with the same size of
 *   dimension 0.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `components` contains a scalar, anything but tensors, or no
 *   tensor at all, the sizes of dimension 0 differ, or it is not a valid handle.
 * - UMBO_STATUS_UNAVAILABLE: a tensor is on a GPU that is lost.
 *
 * Element i consists of row i of each tensor and has the structure of `components`. The dataset
 * shares the tensors and does not copy them. Nobody may write them while the dataset or an element
 * of it is in use.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_tensor_slices(
    const umbo_value *components, umbo_dataset **dataset);

/**
 * Makes a dataset of the rows of an array in a NumPy `.npy` file.
 *
 * @param[in] path The file.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: it is not a `.npy` file, or holds a scalar; or `path` or
 *   `dataset` is a null pointer.
 * - UMBO_STATUS_UNIMPLEMENTED: it has a dtype that Umbo does not have, such as Python objects.
 * - UMBO_STATUS_DATA_LOSS: the file is shorter or longer than its header says, or is damaged.
 * - UMBO_STATUS_NOT_FOUND: there is no such file.
 * - UMBO_STATUS_PERMISSION_DENIED: the system does not let the process read it.
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
 * @return UMBO_OK, or a status that umbo_dataset_from_npy_file() can return, for the same causes;
 *   also:
 * - UMBO_STATUS_NOT_FOUND: there is no array of a name.
 * - UMBO_STATUS_UNIMPLEMENTED: the file is encrypted, or compressed otherwise than by DEFLATE.
 * - UMBO_STATUS_INVALID_ARGUMENT: an entry is not an array or lies in a folder, no array is
 *   chosen, an array is a scalar, or the arrays differ in the size of dimension 0.
 *
 * Element i is a struct. It has a field for each array, with the array's name, which holds the
 * array's row i. The call reads the arrays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_npz_file(
    const char *path, int64_t count, const char *const *names, umbo_dataset **dataset);

/**
 * Makes a dataset of one element.
 *
 * @param[in] element The element: a tensor, or a tuple, list or struct of tensors.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `element` contains anything but tensors, or no tensor at all, or
 *   is not a valid handle.
 * - UMBO_STATUS_UNAVAILABLE: a tensor is on a GPU that is lost.
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
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, the tensors differ in dtype or rank, or
 *   one of them is not a valid handle.
 * - UMBO_STATUS_UNAVAILABLE: a tensor is on a GPU that is lost.
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
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `step` is 0, or `dataset` is a null pointer.
 *
 * The numbers are `start`, `start + step`, and so on, as long as they are less than `stop`, or
 * greater than `stop` if `step` is negative.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_range(
    int64_t start, int64_t stop, int64_t step, umbo_dataset **dataset);

/**
 * Makes a dataset of the rows of arrays in memory of the program's.
 *
 * @param[in] count How many arrays there are, 1 or more.
 * @param[in] names A name for each array, all different: elements are structs with these fields.
 *   `names` may be NULL: elements are tuples or, of a single array, its rows themselves.
 * @param[in] views Where the arrays are, all with the same size of dimension 0.
 *   umbo_view_of_memory() makes the view of an array.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, an array is a scalar, the sizes of
 *   dimension 0 differ, two names are the same, a view shows no elements, or a null pointer.
 * - UMBO_STATUS_NOT_FOUND: an array is on a device that does not exist.
 *
 * Element i consists of row i of each array. The arrays are copied before the call returns.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_arrays(
    int64_t count, const char *const *names, const umbo_view *views, umbo_dataset **dataset);

/**
 * Makes a dataset of the rows of the arrays in IDX files, such as images and labels.
 *
 * @param[in] count How many files there are, 1 or more.
 * @param[in] paths The files, plain or compressed by gzip. IDX is the format of MNIST. The arrays
 *   have the same size of dimension 0.
 * @param[in] names A name for each array, all different: elements are structs with these fields.
 *   `names` may be NULL: elements are tuples or, of a single file, its rows themselves.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a file is not an IDX file, or holds a scalar; `count` is less
 *   than 1, the sizes of dimension 0 differ, two names are the same, or a null pointer.
 * - UMBO_STATUS_DATA_LOSS: a file is shorter or longer than its header says, or is damaged.
 * - UMBO_STATUS_NOT_FOUND: there is no such file.
 * - UMBO_STATUS_PERMISSION_DENIED: the system does not let the process read it.
 *
 * Element i consists of row i of each array. The rows are the slices along dimension 0. A plain
 * file of 8-bit elements is mapped into memory: nobody may rewrite or shorten it while the dataset
 * or an element of it is in use. Other files are read by this call.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_idx_files(
    int64_t count, const char *const *paths, const char *const *names, umbo_dataset **dataset);

/**
 * Opens a file: makes the dataset of its elements.
 *
 * @param[in] path The file, as it was given to umbo_dataset_from_files(). It is valid until the
 *   function returns.
 * @param[in] index The file's place in the list, from 0 on.
 * @param[in] user_data What was given to umbo_dataset_from_files().
 * @param[out] dataset The dataset, which the library takes over. It is NULL when the function is
 *   called, and must be set.
 * @return UMBO_OK, or why it fails; umbo_iterator_next() then fails with it, and the file is left
 *   out, but for UMBO_STATUS_RESOURCE_EXHAUSTED, after which the next call opens it again.
 *
 * It is called on the thread that asks for an element, or on one of the library's. Calls for
 * several iterators may run at the same time. The function may use other iterators, but not the one
 * that calls it (UMBO_STATUS_FAILED_PRECONDITION).
 */
typedef umbo_status (*umbo_open_file_fn)(
    const char *path, int64_t index, void *user_data, umbo_dataset **dataset);

/** How a dataset reads files. Start from UMBO_FILES_OPTIONS_INIT. */
typedef struct umbo_files_options {
  size_t struct_size;
  /**
   * The spec of the elements of all files. NULL, the default: that of the first file, which
   * umbo_dataset_from_files() then opens to see it. The caller still releases it.
   */
  const umbo_element_spec *element_spec;
  /** How many files are read at once, by turns, 1 to 4096. 1, the default: one after the other. */
  int64_t files_at_once;
  /**
   * With several files at once: how many elements come from one before it is the next one's turn, 1
   * or more. The default is 1. The place of a file that has ended is the next file's, whose turn it
   * is then.
   */
  int64_t elements_in_turn;
  /** The seed of the order of the files, if it is random. */
  uint64_t seed;
  /**
   * 1: the order of the files is random, another one in each pass and each repetition. 0, the
   * default: they come in the order in which they are given.
   */
  int32_t shuffle_files;
} umbo_files_options;

#define UMBO_FILES_OPTIONS_INIT { sizeof(umbo_files_options), NULL, 1, 1, 0, 0 }
UMBO_DEFAULT(umbo_files_options, UMBO_FILES_OPTIONS_INIT)

/**
 * Makes a dataset of the elements of files.
 *
 * @param[in] count How many files there are, 1 or more.
 * @param[in] paths The names of the files. The library gives them to `function` and does not look
 *   at the files itself.
 * @param[in] function Makes the dataset of the elements of one file.
 * @param[in] user_data What `function` is given.
 * @param[in] destroy Releases `user_data`, exactly once, on any thread, also if this function
 *   fails. NULL: nothing to release.
 * @param[in] options The spec of the elements, and in which order files and their elements come.
 *   `options` may be NULL: the defaults.
 * @return UMBO_OK, the status with which `function` fails for the first file, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, a path is a null pointer, an option is
 *   not what its description says, the spec has no tensor or has a per-replica value in it, or a
 *   handle is not valid.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory or no handle left.
 *
 * A file is opened when its first element is asked for, again in each pass, and closed when its
 * dataset has ended: its dataset is made and released then. So what a file's dataset shuffles, has
 * the same order in each repetition; umbo_dataset_shuffle() of the dataset of all files gives
 * another one each time. The number of elements is not known before a pass ends.
 * umbo_iterator_next() then also returns:
 * - The status with which `function` fails. The file is left out, and the next call gives the next
 *   file's first element. If the status is UMBO_STATUS_RESOURCE_EXHAUSTED, the next call opens the
 *   file again.
 * - UMBO_STATUS_INVALID_ARGUMENT: elements are not as the spec says, or a file's dataset has more
 *   than 127 transformations. A dataset of files itself counts as 128.
 *
 * UMBO_SHARDING_FILE has each rank read its own files. All ranks give the same names in the same
 * order then.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_files(
    int64_t count, const char *const *paths, umbo_open_file_fn function, void *user_data,
    umbo_destroy_fn destroy, const umbo_files_options *options, umbo_dataset **dataset);

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
 *
 * umbo_iterator_restore_position() calls it on a pass that was just begun, as often as it was
 * called on the pass whose place is to be found again.
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
 * iterators, but not the one that calls them (UMBO_STATUS_FAILED_PRECONDITION).
 */
typedef struct umbo_generator {
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

#define UMBO_GENERATOR_INIT { sizeof(umbo_generator), NULL, NULL, NULL, NULL }
UMBO_DEFAULT(umbo_generator, UMBO_GENERATOR_INIT)

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
 * not the one that calls it (UMBO_STATUS_FAILED_PRECONDITION).
 */
typedef umbo_status (*umbo_map_fn)(const umbo_value *element, void *user_data, umbo_value **result);

/** How a function is applied to elements. Start from UMBO_MAP_OPTIONS_INIT. */
typedef struct umbo_map_options {
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

#define UMBO_MAP_OPTIONS_INIT { sizeof(umbo_map_options), NULL, 1 }
UMBO_DEFAULT(umbo_map_options, UMBO_MAP_OPTIONS_INIT)

/**
 * Makes a dataset of what functions of the program make.
 *
 * @param[in] element_spec What the elements are. The dataset keeps it; the caller still releases
 *   its own handle.
 * @param[in] generator The functions. The struct is copied.
 * @param[in] user_data What the functions are given.
 * @param[in] destroy Releases `user_data`, exactly once, on any thread, also if this function
 *   fails. NULL: nothing to release.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `generator` has no `next`, or `element_spec`
 *   has no tensor or has a per-replica value in it, or is not a valid handle.
 *
 * The number of elements is not known before a pass ends. umbo_iterator_next() fails with
 * UMBO_STATUS_INVALID_ARGUMENT for an element that is not as `element_spec` says.
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
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `parallel_calls` is not in [1, 4096], the spec
 *   has no tensor or has a per-replica value in it, a handle is not valid, or the dataset has 256
 *   transformations already.
 *
 * The results come in the order of the elements, however many calls run at the same time.
 * Iterators call the function when an element is asked for. umbo_iterator_next() then also
 * returns:
 * - The status with which the function fails. Its element is left out, and the next call gives the
 *   next one. But if the status is UMBO_STATUS_RESOURCE_EXHAUSTED, nothing is left out: the next
 *   call calls the function with the same element again.
 * - UMBO_STATUS_INVALID_ARGUMENT: a result is not as its spec says.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: the system gives no thread for parallel calls. If it gives
 *   fewer threads than `parallel_calls`, fewer calls run at the same time.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_map(
    umbo_dataset **dataset, umbo_map_fn function, void *user_data, umbo_destroy_fn destroy,
    const umbo_map_options *options);

/** The number of elements or steps that is not known before a pass has ended. */
#define UMBO_CARDINALITY_UNKNOWN (-2)

/** How a dataset is shuffled. Start from UMBO_SHUFFLE_OPTIONS_INIT. */
typedef struct umbo_shuffle_options {
  size_t struct_size;
  /**
   * From how many elements the next one is drawn, 1 or more. UMBO_ALL, the
   * default: from all of them, so that every order is equally likely.
   */
  int64_t buffer_size;
  /** The seed of the random orders. The same seed gives the same orders on every machine. */
  uint64_t seed;
  /** 0: each pass and each repetition has another order. 1: all have the same order. */
  int32_t keep_order_each_pass;
} umbo_shuffle_options;

#define UMBO_SHUFFLE_OPTIONS_INIT { sizeof(umbo_shuffle_options), UMBO_ALL, 0, 0 }
UMBO_DEFAULT(umbo_shuffle_options, UMBO_SHUFFLE_OPTIONS_INIT)

/**
 * Joins datasets: element i consists of element i of each.
 *
 * @param[in] count How many datasets there are, 1 or more.
 * @param[in] datasets The datasets. The caller still releases its own handles.
 * @param[in] names A name for each dataset, all different: elements are structs with these fields.
 *   `names` may be NULL: elements are tuples.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, two names are the same,
 *   the elements would be deeper or larger than UMBO_MAX_NEST_DEPTH allows, a handle is not valid,
 *   a dataset has 256 transformations already, or all of them together have 65,536.
 *
 * A pass ends with the dataset that ends first. If another one has more elements, the log gets a
 * warning, once.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_zip(
    int64_t count, const umbo_dataset *const *datasets, const char *const *names,
    umbo_dataset **zipped);

/**
 * Puts the elements in random order.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] options The size of the buffer, the seed, and whether all passes have the same order.
 *   `options` may be NULL: the defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the buffer size is 0 or less than
 *   UMBO_ALL (-1), or UMBO_ALL for a dataset without end,
 *   `keep_order_each_pass` is neither 0 nor 1, `*dataset` is not a valid handle, or it has 256
 *   transformations already.
 *
 * Over tensors and files the buffer holds row numbers, 8 bytes for each. Elsewhere it holds
 * elements. A pass allocates it when it needs it; if there is no memory for it,
 * umbo_iterator_next() returns UMBO_STATUS_RESOURCE_EXHAUSTED.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_shuffle(
    umbo_dataset **dataset, const umbo_shuffle_options *options);

/**
 * Makes batches, with the elements stacked along a new dimension 0.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] size How many elements a batch has, 1 or more.
 * @param[in] drop_remainder 1: elements that do not fill a last batch are left out. 0: the last
 *   batch is smaller.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `size` is less than 1, `drop_remainder` is
 *   neither 0 nor 1, an element has rank UMBO_MAX_RANK, `*dataset` is not a valid handle, or it has
 *   256 transformations already.
 *
 * Batches of tensors in their own order are views of the tensors; others are copies.
 * umbo_iterator_next() fails with UMBO_STATUS_INVALID_ARGUMENT if elements of one batch differ in
 * shape. If making an element fails, so does umbo_iterator_next(), and the elements before it are
 * in the next batch.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_batch(
    umbo_dataset **dataset, int64_t size, int32_t drop_remainder);

/**
 * Makes batches of elements that may differ in shape.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] size How many elements a batch has, 1 or more.
 * @param[in] drop_remainder 1: elements that do not fill a last batch are left out. 0: the last
 *   batch is smaller.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `size` is less than 1, `drop_remainder` is
 *   neither 0 nor 1, an element has rank UMBO_MAX_RANK, `*dataset` is not a valid handle, or it has
 *   256 transformations already.
 *
 * Elements are stacked along a new dimension 0. Each is padded with zeros, at the end of each
 * dimension, to the largest size in its batch. umbo_iterator_next() fails with
 * UMBO_STATUS_INVALID_ARGUMENT if elements of one batch differ in dtype or rank. If making an
 * element fails, so does umbo_iterator_next(), and the elements before it are in the next batch.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_padded_batch(
    umbo_dataset **dataset, int64_t size, int32_t drop_remainder);

/**
 * Cuts the rows of all batches into batches of other sizes.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] count How many sizes there are, 1 or more.
 * @param[in] sizes The sizes of the new batches, 0 or more. After the last size comes the first
 *   again. A size of 0 makes a batch without rows.
 * @param[in] drop_remainder 1: rows that do not fill a last batch are left out. 0: the last batch
 *   is smaller, and no batch follows it.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: no size is above 0, a size is negative,
 *   elements contain a scalar, `drop_remainder` is neither 0 nor 1, `*dataset` is not a valid
 *   handle, or it has 256 transformations already.
 *
 * New batches that lie within one old batch are views of it; others are copies.
 * umbo_iterator_next() fails with UMBO_STATUS_INVALID_ARGUMENT if the tensors of an element differ
 * in their number of rows, or if batches that are to be joined differ in anything else. If making a
 * batch fails, so does umbo_iterator_next(), and rows before it are in the next batch.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_rebatch(
    umbo_dataset **dataset, int64_t count, const int64_t *sizes, int32_t drop_remainder);

/**
 * Repeats the elements.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] count How many times the elements come, 0 or more;
 *   UMBO_INFINITE: without end.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than -1, `*dataset` is not a
 *   valid handle, or it has 256 transformations already.
 *
 * A shuffled dataset has another order each time, unless its options say otherwise. Batches that
 * were made before do not mix two repetitions; batches that are made afterwards do.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_repeat(umbo_dataset **dataset, int64_t count);

/**
 * Makes elements ahead of time, on a thread of each iterator.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] depth How many elements are made ahead at most, 1 to 4096.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `depth` is not in [1, 4096], `*dataset` is not
 *   a valid handle, or it has 256 transformations already.
 *
 * The elements stay the same. The thread starts when the iterator's first element is asked for and
 * ends when the iterator is released. If the system gives no thread, umbo_iterator_next() returns
 * UMBO_STATUS_RESOURCE_EXHAUSTED; the next call tries again.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_prefetch(umbo_dataset **dataset, int64_t depth);

/**
 * Keeps the first elements and leaves out the others.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] count How many elements are kept, 0 or more. UMBO_ALL, or more than there
 *   are: all.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than -1, `*dataset` is not a
 *   valid handle, or it has 256 transformations already.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_take(umbo_dataset **dataset, int64_t count);

/**
 * Leaves out the first elements and keeps the others.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] count How many elements are left out, 0 or more. UMBO_ALL, or more than
 *   there are: all.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than -1, `*dataset` is not a
 *   valid handle, or it has 256 transformations already.
 *
 * Numbers of a range, slices of tensors and files, given elements and batches of these are passed
 * over at once, however many they are, also where they were repeated, concatenated, zipped, taken
 * or left out in part. All others are made when the first element is asked for: functions of maps
 * and generators are called, shuffles draw. One that fails is a failure of umbo_iterator_next() and
 * does not count.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_skip(umbo_dataset **dataset, int64_t count);

/**
 * Keeps every n-th element.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @param[in] shards How many shards there are, 1 or more.
 * @param[in] index Which of them is kept, from 0 on.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `shards` is less than 1, `index` is not in [0,
 *   shards), `*dataset` is not a valid handle, or it has 256 transformations already.
 *
 * The elements at positions `index`, `index + shards`, `index + 2 * shards` and so on are kept.
 * Those in between are passed over as umbo_dataset_skip() does.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_shard(
    umbo_dataset **dataset, int64_t shards, int64_t index);

/**
 * Keeps the elements in memory for later passes.
 *
 * @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
 *   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `*dataset` is not a valid handle, or it has 256
 *   transformations already.
 *
 * The first pass that reaches the end keeps the elements. Later passes yield them in the order of
 * that pass and do not use the dataset that was given. Elements are read-only. If there is no
 * memory to keep them in, umbo_iterator_next() returns UMBO_STATUS_RESOURCE_EXHAUSTED.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_cache(umbo_dataset **dataset);

/**
 * Puts datasets one after the other.
 *
 * @param[in] count How many datasets there are, 1 or more.
 * @param[in] datasets The datasets. Their elements have the same structure, dtypes and ranks. The
 *   caller still releases its own handles.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, elements differ in
 *   structure, dtype or rank, a handle is not valid, a dataset has 256 transformations already, or
 *   all of them together have 65,536.
 *
 * Sizes in which the datasets differ are unknown in the element spec. A program with many datasets
 * gives them to one call: each call counts as a transformation. A dataset that is given twice
 * counts twice; umbo_dataset_repeat() is for more rounds of one.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_concatenate(
    int64_t count, const umbo_dataset *const *datasets, umbo_dataset **concatenated);

/**
 * Tells how many elements a pass yields.
 *
 * @param[out] count The number of elements, UMBO_INFINITE (-1) or
 *   UMBO_CARDINALITY_UNKNOWN (-2).
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `dataset` is not a valid handle, or `count` is
 *   a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_cardinality(
    const umbo_dataset *dataset, int64_t *count);

/**
 * Gives the structure, dtypes and shapes of the elements.
 *
 * @param[out] spec The spec. Release it with umbo_element_spec_release().
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `dataset` is not a valid handle, or `spec` is a
 *   null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_element_spec(
    const umbo_dataset *dataset, umbo_element_spec **spec);

/**
 * Makes an iterator at the beginning of a pass.
 *
 * @param[in] dataset The dataset. The iterator keeps what it needs of it; the caller may release
 *   the dataset.
 * @param[out] iterator The new iterator, independent of all others. Release it with
 *   umbo_iterator_release().
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `dataset` is not a valid handle, or `iterator`
 *   is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_from_dataset(
    const umbo_dataset *dataset, umbo_iterator **iterator);

/** Makes another handle to the same dataset: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_dataset_retain(
    const umbo_dataset *dataset, umbo_dataset **retained) {
  return umbo_retain(dataset, UMBO_HANDLE_DATASET, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_dataset_release(const umbo_dataset *dataset) {
  umbo_release(dataset, UMBO_HANDLE_DATASET);
}

/** How the rows of batches are split over the replicas. */
UMBO_ENUM(umbo_split) {
  /**
   * Each batch is split by itself. With r rows and n replicas, each replica gets r / n rows,
   * rounded up, until none are left: 9 rows over 4 replicas are 3, 3, 3 and 0.
   */
  UMBO_SPLIT_CEIL = 0,
  /**
   * The rows of all batches are one stream. In turn each replica takes its share of a full batch
   * from it: the shares of 9 rows over 4 replicas are 3, 2, 2 and 2. At the end the first replicas
   * get what is left. If the size of a full batch is not known, this is UMBO_SPLIT_CEIL.
   */
  UMBO_SPLIT_BALANCED = 1
};

/** Which replicas an input pipeline serves. */
UMBO_ENUM(umbo_replication_mode) {
  /** One pipeline serves all replicas of a worker. */
  UMBO_REPLICATION_PER_WORKER = 0,
  /** Each replica has a pipeline. This strategy does not offer it. */
  UMBO_REPLICATION_PER_REPLICA = 1
};

/** Which rows of batches each rank gets, where a strategy is spread over several. */
UMBO_ENUM(umbo_sharding) {
  /**
   * The datasets of all ranks are the same, and each batch is split over the replicas of all ranks.
   * Each rank makes all batches and takes its own rows: no example is lost or comes twice, and all
   * ranks make the same number of steps. The ranks compare what they read when a run begins:
   * operations with their counts and seeds, iterators and resets before, the number of the element
   * in its pass, and the rows of its batch. What differs is UMBO_STATUS_FAILED_PRECONDITION of
   * umbo_strategy_run(), on all ranks, and the message names the rank, the quantity and its values.
   */
  UMBO_SHARDING_DATA = 0,
  /**
   * Each rank's dataset is its own, and its batches are split over the rank's replicas. The ranks
   * meet for each element. All go on until none has any more; one that has none meanwhile gets
   * parts without rows. With `drop_partial_step` all end when one has none. Nothing that the ranks
   * read is compared.
   */
  UMBO_SHARDING_OFF = 1,
  /**
   * The datasets of all ranks are the same, made by umbo_dataset_from_files(), and each rank reads
   * files of its own: file i belongs to rank i mod the number of ranks. A rank's replicas get their
   * shares of a batch from the rows of its own files, the shares of UMBO_SPLIT_BALANCED over the
   * replicas of all ranks. No example is lost or comes twice. The ranks go on as with
   * UMBO_SHARDING_OFF.
   *
   * umbo_strategy_distribute_dataset() returns UMBO_STATUS_INVALID_ARGUMENT where that cannot be:
   * there are fewer files than ranks, or other sources than files; batches have fewer rows than
   * there are replicas, or nobody knows how many; behind the files comes a transformation that
   * needs all elements: umbo_dataset_take(), umbo_dataset_skip(), umbo_dataset_shard(),
   * umbo_dataset_zip(). All others work on what the rank reads: a remainder that is dropped is one
   * of each rank.
   */
  UMBO_SHARDING_FILE = 2,
  /**
   * UMBO_SHARDING_FILE where that can be, else UMBO_SHARDING_DATA. If a dataset of files is split
   * by data, the log says why, as information.
   */
  UMBO_SHARDING_AUTO = 3
};

/** How a dataset is distributed. Start from UMBO_DISTRIBUTE_OPTIONS_INIT. */
typedef struct umbo_distribute_options {
  size_t struct_size;
  /** How the rows of batches are split. */
  umbo_split split;
  /**
   * What happens if the dataset ends before every replica has its element, or its whole share of a
   * full batch, of the last step. 1: the step is left out, with the rows that it has. 0: it is
   * delivered: replicas get the rows that there are, and missing components have no rows, or are
   * zero where elements are scalars. With UMBO_SPLIT_CEIL each batch is a whole step, and none is
   * left out.
   */
  int32_t drop_partial_step;
  /** 1: all components stay on CPU:0. 0: component k is on compute device k. */
  int32_t host_only;
  /**
   * How many steps are made ahead, 0 to 4096. A thread of the iterator's makes them; it starts
   * when the first element is asked for. UMBO_AUTO, the default, is 0 for CPUs,
   * where components are views. If making a batch takes time, umbo_dataset_prefetch() makes
   * batches ahead. The elements do not depend on this number.
   */
  int64_t per_replica_buffer_size;
  /** Which replicas a pipeline serves. */
  umbo_replication_mode replication_mode;
  /**
   * 1: the dataset itself is on the compute devices. This needs UMBO_REPLICATION_PER_REPLICA and
   * `host_only` 1. 0: it is not.
   */
  int32_t place_dataset_on_device;
  /**
   * Which rows each rank gets. Without other ranks it makes no difference, except that
   * UMBO_SHARDING_FILE is refused where it could not be with any number of ranks.
   */
  umbo_sharding sharding;
} umbo_distribute_options;

#define UMBO_DISTRIBUTE_OPTIONS_INIT \
  { sizeof(umbo_distribute_options), UMBO_SPLIT_CEIL, 0, 0, UMBO_AUTO, \
    UMBO_REPLICATION_PER_WORKER, 0, UMBO_SHARDING_DATA }
UMBO_DEFAULT(umbo_distribute_options, UMBO_DISTRIBUTE_OPTIONS_INIT)

/** What a function that makes a dataset is told about its input pipeline. */
typedef struct umbo_input_context {
  size_t struct_size;
  /** How many input pipelines there are. */
  int64_t num_input_pipelines;
  /** Which of them this is, from 0 on. */
  int32_t input_pipeline_id;
  /** How many replicas all pipelines serve together. */
  int64_t num_replicas_in_sync;
} umbo_input_context;

#define UMBO_INPUT_CONTEXT_INIT { sizeof(umbo_input_context), 0, 0, 0 }
UMBO_DEFAULT(umbo_input_context, UMBO_INPUT_CONTEXT_INIT)

/**
 * Makes the dataset of an input pipeline.
 *
 * @param[in] context What the pipeline is for. It is valid until the function returns.
 * @param[in] user_data What was given to umbo_strategy_distribute_datasets_from_function().
 * @param[out] dataset The dataset, which the library takes over. It is NULL when the function is
 *   called, and must be set.
 * @return UMBO_OK, or why it fails.
 */
typedef umbo_status (*umbo_dataset_fn)(
    const umbo_input_context *context, void *user_data, umbo_dataset **dataset);

/**
 * Splits global batches over the replicas.
 *
 * @param[in] strategy The strategy whose replicas get the parts.
 * @param[in] dataset The dataset. Each of its elements is a global batch. The caller may release
 *   it.
 * @param[in] options How batches are split, and where the parts are. `options` may be NULL: the
 *   defaults.
 * @param[out] distributed The new distributed dataset. Release it with
 *   umbo_distributed_dataset_release().
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: elements contain a scalar and there are several replicas (batch
 *   them first), options are wrong or contradict each other, the files cannot be dealt out to the
 *   ranks (UMBO_SHARDING_FILE), or a handle is not valid.
 * - UMBO_STATUS_UNIMPLEMENTED: the options ask for UMBO_REPLICATION_PER_REPLICA.
 *
 * With one replica, elements stay as they are; but where UMBO_SPLIT_BALANCED is to leave out a last
 * step, the rows are cut into full batches. With n replicas, each tensor becomes a per-replica
 * value. By default its component k has rows [k * c, (k + 1) * c), where c is the number of rows
 * over n, rounded up: 9 rows over 4 replicas are 3, 3, 3 and 0. The elements know how many examples
 * each replica has; umbo_gradients_submit() uses these numbers.
 *
 * Component k is on compute device k. By default nothing is copied: components are views of the
 * batch, since CPUs share their memory. UMBO_SPLIT_BALANCED copies where a share has rows of
 * several batches.
 *
 * If the elements are slices of arrays, and no transformation batches them, each slice is split as
 * if its rows were examples. That is rarely meant, so the log gets a warning, once for each
 * dataset: batch the dataset before distributing it, or, if the slices are batches,
 * umbo_dataset_rebatch() it to their size. It also gets one of elements that were batched twice;
 * umbo_dataset_rebatch() makes batches of another size. To a strict strategy both are
 * UMBO_STATUS_INVALID_ARGUMENT. What a mapped function or a generator gives is taken for what it
 * is.
 *
 * With several ranks n is the number of all their replicas, and the elements have the components of
 * this rank's, which may be one: then they are plain tensors. All ranks give the same dataset,
 * shuffled with the same seed; `sharding` can say otherwise.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_distribute_dataset(
    umbo_strategy *strategy, const umbo_dataset *dataset, const umbo_distribute_options *options,
    umbo_distributed_dataset **distributed);

/**
 * Gives each replica whole elements.
 *
 * @param[in] strategy The strategy whose replicas get the elements.
 * @param[in] function Makes the dataset. It is called once, on this thread, before this function
 *   returns. There is one pipeline for all replicas of a rank.
 * @param[in] user_data What `function` is given. The library does not use it afterwards.
 * @param[in] options What happens in a last step that is not complete, and where elements are.
 *   `options` may be NULL: the defaults.
 * @param[out] distributed The new distributed dataset. Release it with
 *   umbo_distributed_dataset_release().
 * @return UMBO_OK, the status with which `function` fails, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `function` has stored no dataset or is a null pointer, options
 *   are wrong or contradict each other, or a handle is not valid.
 * - UMBO_STATUS_UNIMPLEMENTED: the options ask for UMBO_REPLICATION_PER_REPLICA.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory or no handle left.
 *
 * With n replicas, replica k gets element s * n + k in step s. Nothing is split. An element is the
 * batch of one replica (umbo_input_context_per_replica_batch_size() gives its size), or a scalar.
 * If the number of elements is not a multiple of n, the missing components of the last step have
 * no rows, or are zero where elements are scalars; or the options leave the step out. With one
 * replica, elements stay as they are.
 *
 * With several ranks each makes a dataset of its own, for its own replicas: the context says which
 * pipeline of how many it is, so that `function` can choose files. The ranks meet for each element
 * and go on as UMBO_SHARDING_OFF says, whatever the options say about sharding.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_distribute_datasets_from_function(
    umbo_strategy *strategy, umbo_dataset_fn function, void *user_data,
    const umbo_distribute_options *options, umbo_distributed_dataset **distributed);

/**
 * Gives the structure, dtypes and shapes of the steps.
 *
 * @param[out] spec The spec: a per-replica value where the dataset's elements have a tensor; with
 *   one replica a tensor. Release it with umbo_element_spec_release().
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `distributed` is not a valid handle, or `spec`
 *   is a null pointer.
 *
 * The number of rows is known only if it is the same in all steps.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_distributed_dataset_element_spec(
    const umbo_distributed_dataset *distributed, umbo_element_spec **spec);

/**
 * Tells how many steps a pass yields.
 *
 * @param[out] count The number of steps, UMBO_INFINITE (-1) or
 *   UMBO_CARDINALITY_UNKNOWN (-2).
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `distributed` is not a valid handle, or `count`
 *   is a null pointer.
 *
 * With UMBO_SPLIT_BALANCED it follows from the number of rows. Where that is not known, as behind
 * umbo_dataset_repeat() or umbo_dataset_skip(), the number of steps may be unknown.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_distributed_dataset_cardinality(
    const umbo_distributed_dataset *distributed, int64_t *count);

/**
 * Makes an iterator at the beginning of a pass.
 *
 * @param[in] distributed The distributed dataset. The iterator keeps what it needs of it; the
 *   caller may release it.
 * @param[out] iterator The new iterator, independent of all others. Release it with
 *   umbo_iterator_release().
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `distributed` is not a valid handle, or
 *   `iterator` is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_from_distributed_dataset(
    const umbo_distributed_dataset *distributed, umbo_iterator **iterator);

/** Makes another handle to the same distributed dataset: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_distributed_dataset_retain(
    const umbo_distributed_dataset *distributed_dataset, umbo_distributed_dataset **retained) {
  return umbo_retain(distributed_dataset, UMBO_HANDLE_DISTRIBUTED_DATASET, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_distributed_dataset_release(
    const umbo_distributed_dataset *distributed_dataset) {
  umbo_release(distributed_dataset, UMBO_HANDLE_DISTRIBUTED_DATASET);
}

/**
 * Gives the next element of a pass.
 *
 * @param[out] element The element. Release it with umbo_value_release(). At the end of the pass it
 *   gets NULL, and so it does in all later calls.
 * @return UMBO_OK, also at the end of the pass, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: the call would wait for itself: it is made in a function that
 *   this iterator calls, on whatever thread (of a generator, a map, the release of an element).
 * - UMBO_STATUS_FAILED_PRECONDITION: such calls of functions of iterators lie in one another over
 *   more than 32 iterators.
 * - UMBO_STATUS_FAILED_PRECONDITION: the iterator is over a distributed dataset, and the call is
 *   made in a replica's callback (an element is for all replicas) or in the scope of another
 *   strategy.
 * - UMBO_STATUS_INVALID_ARGUMENT: elements are not as a transformation or a spec needs them, or
 *   `iterator` is not a valid handle.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory, thread or handle left. No element is lost;
 *   the next call tries again, also where a function of a map or of files returned it.
 * - Any other status with which a function of the program fails, or a source of the dataset.
 *
 * The call waits until the element is there. Threads may share an iterator: each element goes to
 * one of them, in the order in which they ask. The library uses the memory of an element again
 * after the element, and all that was made from it, has been released. After a failure the program
 * may call again: the next call continues after the element that failed. An element that
 * umbo_train_epoch() would give to its next step again, because a step has failed, is passed over.
 *
 * Over a distributed dataset whose ranks have data of their own (UMBO_SHARDING_OFF,
 * UMBO_SHARDING_FILE, or from a function) it is a call that all ranks make: it fails on all if it
 * fails on one. Then UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls,
 * and UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_next(
    umbo_iterator *iterator, umbo_value **element);

/**
 * Gives the structure, dtypes and shapes of the elements.
 *
 * @param[out] spec The spec, which is that of the dataset. Release it with
 *   umbo_element_spec_release().
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle, or `spec` is
 *   a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_element_spec(
    const umbo_iterator *iterator, umbo_element_spec **spec);

/**
 * Starts a new pass from the beginning.
 *
 * @return UMBO_OK, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: for the causes that umbo_iterator_next() has.
 * - UMBO_STATUS_FAILED_PRECONDITION: the elements are made ahead, and the iterator was reset
 *   1,048,576 times without being asked for an element.
 * - UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle.
 * - Any status with which a generator's function fails.
 *
 * If the dataset is shuffled, the new pass has another order, unless the options of
 * umbo_dataset_shuffle() say otherwise. The iterator keeps its memory and its threads.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_reset(umbo_iterator *iterator);

/**
 * Writes down the place of an iterator in its data.
 *
 * @param[out] buffer The position, a text ended by a NUL. `buffer` may be NULL if `capacity` is 0.
 * @param[in] capacity The size of `buffer` in bytes.
 * @param[out] length The length of the text in bytes, without the NUL.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: `capacity` is too small. `buffer` is not written, but `length` is.
 * - UMBO_STATUS_FAILED_PRECONDITION: for the causes that umbo_iterator_next() has.
 * - UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle, or an output is a null pointer.
 *
 * The place is behind the element that umbo_iterator_next() gave last, or behind its failure; but
 * before an element that umbo_train_epoch() gives again. What
 * the library has made ahead does not count. The text is JSON and can be kept in a file. It says of
 * which stages the pipeline consists and where each of them is. It does not contain the data. It is
 * short, unless many elements have failed.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_save_position(
    umbo_iterator *iterator, char *buffer, size_t capacity, size_t *length);

/**
 * Takes an iterator to a place in its data.
 *
 * @param[in] iterator The iterator. It may be new or in use, and at any place.
 * @param[in] position The text that umbo_iterator_save_position() has written, for this iterator or
 *   another one of the same pipeline, in this process or another.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: the position is of another pipeline; the message names the first
 *   stage that differs. What does not matter: the seed of a shuffle, how many elements are made
 *   ahead, how many calls of a map run at the same time, over how many replicas batches are split.
 * - UMBO_STATUS_INVALID_ARGUMENT: `position` is not the text of a position, is of another version,
 *   was changed or damaged, or the data have become fewer.
 * - UMBO_STATUS_INVALID_ARGUMENT: `iterator` is not a valid handle, or `position` is a null
 *   pointer.
 * - UMBO_STATUS_FAILED_PRECONDITION: for the causes that umbo_iterator_next() has.
 * - Any status with which a function of the program fails, or a source of the dataset, where
 *   elements are made again.
 *
 * The elements that follow are those that followed where the position was saved, also in later
 * passes that umbo_iterator_reset() starts. A shuffle goes on with the seed of the position. Where
 * a failure is returned, the iterator stays where it was.
 *
 * The library makes again what stages hold: the elements in the buffer of a shuffle, the batch that
 * is being cut anew, the elements of a cache. It calls the functions of maps for these, and for no
 * other elements. The functions of a generator are called for all elements of its present pass,
 * since only they know the way: `begin` first, then `reset` as often as before, then `next`. The
 * library does not compare the data themselves.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_restore_position(
    umbo_iterator *iterator, const char *position);

/** Makes another handle to the same iterator: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_iterator_retain(
    const umbo_iterator *iterator, umbo_iterator **retained) {
  return umbo_retain(iterator, UMBO_HANDLE_ITERATOR, retained);
}

/**
 * Releases a handle: umbo_release().
 *
 * The release of the last handle stops the iterator's threads and waits for their end. There is one
 * exception: in a function that the iterator calls, it does not wait for a thread that waits for
 * this function; that thread ends by itself. A call that another thread makes at the same time
 * continues to its end.
 */
static inline void umbo_iterator_release(const umbo_iterator *iterator) {
  umbo_release(iterator, UMBO_HANDLE_ITERATOR);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
