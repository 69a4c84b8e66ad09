/* Generated from src; do not edit. */
#ifndef UMBO_DATASET_H
#define UMBO_DATASET_H

/**
 * @file dataset.h
 * @brief Datasets: sequences of elements, their transformations and distribution; iterators.
 *
 * A transformation takes the address of a dataset's handle, puts a new dataset there and releases
 * the handle before (retain that to keep it). If the call fails, the handle stays. A dataset has at
 * most 256 transformations, or 65,536 together with those of all that it joins. It shares its
 * tensors: nobody writes them while it or an element is in use. umbo_iterator_next() also returns
 * what goes wrong with single elements. A function that an iterator calls may use others, not it.
 *
 * Threads: functions of datasets and specs are *concurrent*; those of an iterator are *serialised*,
 * and each element goes to one of the threads that share it.
 *
 * Example:
 * ```c
 * // Batches of 32, in another order in each pass.
 * static umbo_status batches(const umbo_value *examples, umbo_dataset **made) {
 *   umbo_dataset *dataset = NULL;
 *   umbo_status status = umbo_dataset_from_tensor_slices(examples, &dataset);
 *   if (status == UMBO_OK) status = umbo_dataset_shuffle(&dataset, NULL);
 *   if (status == UMBO_OK) status = umbo_dataset_batch(&dataset, 32, 0);
 *   if (status == UMBO_OK) *made = dataset;
 *   else umbo_dataset_release(dataset);
 *   return status;
 * }
 * ```
 */

#include <umbo/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The structure of elements. Start from UMBO_ELEMENT_SPEC_INFO_INIT. */
typedef struct umbo_element_spec_info {
  size_t struct_size;
  /** UMBO_VALUE_TENSOR, _PER_REPLICA, _TUPLE, _LIST or _STRUCT. */
  umbo_value_kind kind;
  /** The type of the elements of a tensor, or of each component; else UMBO_DTYPE_NONE. */
  umbo_dtype dtype;
  /** The number of items, fields or components; 1 for a tensor. */
  int64_t item_count;
  /** The number of dimensions of a tensor, or of each component; else 0. */
  int32_t ndim;
  /** The size of each dimension, or UMBO_SIZE_UNKNOWN; 0 from `ndim` on. */
  int64_t shape[8];
} umbo_element_spec_info;

#define UMBO_ELEMENT_SPEC_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_element_spec_info), UMBO_ENUM_VALUE(umbo_value_kind, 0), \
    UMBO_DTYPE_NONE, 0, 0, { 0, 0, 0, 0, 0, 0, 0, 0 } }

/**
 * Makes the spec of a tensor.
 *
 * @param[in] shape The size of each dimension, or UMBO_SIZE_UNKNOWN. `shape` may be NULL if `ndim`
 *   is 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_tensor(
    umbo_dtype dtype, int32_t ndim, const int64_t *shape, umbo_element_spec **spec);

/** Makes the spec of a tuple. */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_tuple(
    int64_t count, umbo_element_spec *const *items, umbo_element_spec **spec);

/**
 * Makes the spec of a struct.
 *
 * @param[in] names The names of the fields, all different.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_element_spec_create_struct(
    int64_t count, const char *const *names, umbo_element_spec *const *items,
    umbo_element_spec **spec);

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
 * @param[in] components A tensor or a nest of tensors, all with the same size of dimension 0.
 *   Element i has its structure, and row i of each tensor.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_tensor_slices(
    const umbo_value *components, umbo_dataset **dataset);

/**
 * Makes a dataset of the rows of arrays, which are copied.
 *
 * @param[in] count How many arrays there are, 1 or more.
 * @param[in] names A name for each array, all different: elements are structs. `names` may be
 *   NULL: elements are tuples or, of a single array, its rows.
 * @param[in] views The arrays, all with the same size of dimension 0. umbo_view_of_memory() makes
 *   the view of an array.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_arrays(
    int64_t count, const char *const *names, const umbo_view *views, umbo_dataset **dataset);

/**
 * Begins a pass of a generator.
 *
 * @param[out] pass What the other functions get. It is NULL before.
 * @return UMBO_OK, or another status, which umbo_iterator_next() then returns.
 */
typedef umbo_status (*umbo_generator_begin_fn)(void *user_data, void **pass);

/**
 * Makes the next element of a pass.
 *
 * @param[in] pass What umbo_generator.begin has stored, or NULL.
 * @param[out] element The element, which the library takes over. It is NULL before; if it stays
 *   NULL, the pass has ended.
 * @return UMBO_OK, or another status, which umbo_iterator_next() then returns.
 *
 * After UMBO_STATUS_RESOURCE_EXHAUSTED the next call makes the same element. After another failure
 * it makes the next one: a zip passes over the elements of other datasets that belong to the one
 * that failed.
 */
typedef umbo_status (*umbo_generator_next_fn)(void *pass, void *user_data, umbo_value **element);

/**
 * Takes a pass back to its beginning.
 *
 * @param[in] pass What umbo_generator.begin has stored, or NULL.
 * @return UMBO_OK, or why it failed.
 *
 * umbo_iterator_restore_position() calls it on a new pass as often as it was called on the saved
 * one.
 */
typedef umbo_status (*umbo_generator_reset_fn)(void *pass, void *user_data);

/**
 * Ends a pass, also one that has not reached its end.
 *
 * @param[in] pass What umbo_generator.begin has stored, or NULL.
 */
typedef void (*umbo_generator_end_fn)(void *pass, void *user_data);

/**
 * The functions of a generator. Start from UMBO_GENERATOR_INIT. One thread at a time uses a pass,
 * not always the same one. Passes of several iterators may be used at the same time.
 */
typedef struct umbo_generator {
  size_t struct_size;
  /** Begins a pass, when its first element is asked for. NULL: nothing to do. */
  umbo_generator_begin_fn begin;
  /** Makes the next element. Must be set. May be called again after a failure. */
  umbo_generator_next_fn next;
  /** Takes a pass back to its beginning. NULL: the pass is ended, and another one is begun. */
  umbo_generator_reset_fn reset;
  /** Ends a pass, exactly once for each that was begun. NULL: nothing to do. */
  umbo_generator_end_fn end;
} umbo_generator;

#define UMBO_GENERATOR_INIT { UMBO_STRUCT_SIZE(umbo_generator), NULL, NULL, NULL, NULL }

/**
 * Makes an element from an element.
 *
 * @param[in] element The element, lent for the call.
 * @param[out] result The value, which the library takes over. It is NULL before, and must be set.
 * @return UMBO_OK, or another status, which umbo_iterator_next() then returns. The element is left
 *   out; but after UMBO_STATUS_RESOURCE_EXHAUSTED the next call makes it again.
 *
 * Several calls may run at the same time. The function may wait.
 */
typedef umbo_status (*umbo_map_fn)(const umbo_value *element, void *user_data, umbo_value **result);

/** How a function is applied to elements. Start from UMBO_MAP_OPTIONS_INIT. */
typedef struct umbo_map_options {
  size_t struct_size;
  /** The spec of the results. NULL: that of the elements. */
  const umbo_element_spec *element_spec;
  /**
   * How many calls may run at the same time, 1 to 4096, each on a thread of the iterator; 1: on
   * the thread that asks for the element. There may be more than processors, for calls that
   * wait.
   */
  int64_t parallel_call_count;
} umbo_map_options;

#define umbo_map_options_defaults UMBO_STRUCT_SIZE(umbo_map_options), NULL, 1
#define UMBO_MAP_OPTIONS_INIT { umbo_map_options_defaults }

/**
 * Says whether an element is kept.
 *
 * @param[in] element The element, lent for the call.
 * @param[out] keep 1: the element is kept. 0: it is left out. It must be set.
 * @return UMBO_OK, or another status, which umbo_iterator_next() then returns. The element is left
 *   out; but after UMBO_STATUS_RESOURCE_EXHAUSTED the next call has it again.
 *
 * One thread at a time calls it for an iterator, not always the same one.
 */
typedef umbo_status (*umbo_filter_fn)(const umbo_value *element, void *user_data, int32_t *keep);

/**
 * Makes a dataset of elements that functions of the program make.
 *
 * @param[in] element_spec What the elements are; another element is UMBO_STATUS_INVALID_ARGUMENT
 *   of umbo_iterator_next().
 * @param[in] generator The functions, which are copied.
 * @param[in] destroy Releases `user_data`. NULL: nothing to release.
 *
 * The number of elements is unknown.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_generator(
    const umbo_element_spec *element_spec, const umbo_generator *generator, void *user_data,
    umbo_destroy_fn destroy, umbo_dataset **dataset);

/**
 * Applies a function to each element. The results come in the order of the elements.
 *
 * @param[in] destroy Releases `user_data`. NULL: nothing to release.
 * @param[in] options `options` may be NULL.
 *
 * A result that is not as its spec says is UMBO_STATUS_INVALID_ARGUMENT of umbo_iterator_next().
 * If the system gives fewer threads than options ask for, fewer calls run at the same time.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_map(
    umbo_dataset **dataset, umbo_map_fn function, void *user_data, umbo_destroy_fn destroy,
    const umbo_map_options *options);

/**
 * Keeps the elements for which a function says so, in their order.
 *
 * @param[in] destroy Releases `user_data`. NULL: nothing to release.
 *
 * The number of elements is unknown. Elements are made until one is kept, which may take long: a
 * limit of umbo_train_epoch() ends that between two of them, and the next request continues from
 * the next element. A dataset without end of which no element is kept has no first element.
 *
 * An element whose call fails might have been kept or left out, so that in a zip the elements
 * after it do not belong together any more. Filter the zipped elements instead.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_filter(
    umbo_dataset **dataset, umbo_filter_fn function, void *user_data, umbo_destroy_fn destroy);

/**
 * Joins datasets: element i consists of element i of each.
 *
 * @param[in] count How many datasets there are, 1 or more.
 * @param[in] names A name for each dataset, all different: elements are structs. `names` may be
 *   NULL: elements are tuples.
 *
 * A pass ends with the dataset that ends first. If another one is known to have more elements, the
 * log gets a warning.
 *
 * An element that fails is passed over as a whole: where element i of one dataset fails,
 * umbo_iterator_next() does, and all datasets continue with element i + 1. A failure below a
 * batch, a rebatch or a shuffle, or of a file that cannot be opened, shifts the elements after it,
 * so that they do not belong together any more: after the failure comes
 * UMBO_STATUS_FAILED_PRECONDITION, which says so, and then the end. Zip first, and shuffle and
 * batch the pairs.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_zip(
    int64_t count, const char *const *names, umbo_dataset *const *datasets, umbo_dataset **zipped);

/** How a dataset is shuffled. Start from UMBO_SHUFFLE_OPTIONS_INIT. */
typedef struct umbo_shuffle_options {
  size_t struct_size;
  /**
   * From how many elements the next one is drawn, 1 or more. UMBO_ALL, the default: every order
   * is equally likely.
   */
  int64_t buffer_capacity;
  /** The seed of the orders, which are the same on every machine. */
  uint64_t seed;
  /**
   * 1: all passes and repetitions have the same order, as a take and a skip of the dataset need
   * that divide it into training and test. 0: each has another one, also the passes of different
   * iterators.
   */
  int32_t keep_order_each_pass;
} umbo_shuffle_options;

#define umbo_shuffle_options_defaults UMBO_STRUCT_SIZE(umbo_shuffle_options), UMBO_ALL, 0, 0
#define UMBO_SHUFFLE_OPTIONS_INIT { umbo_shuffle_options_defaults }

/** How elements that differ in shape are padded. Start from UMBO_PADDING_OPTIONS_INIT. */
typedef struct umbo_padding_options {
  size_t struct_size;
  /**
   * The number around smaller elements: a scalar of their dtype for all tensors of an element,
   * or a nest like the element with a scalar for each. It is copied. NULL: zero.
   */
  const umbo_value *padding;
  /** 1: each batch comes with a mask, as a tuple of both. 0: batches come alone. */
  int32_t mask;
} umbo_padding_options;

#define umbo_padding_options_defaults UMBO_STRUCT_SIZE(umbo_padding_options), NULL, 0
#define UMBO_PADDING_OPTIONS_INIT { umbo_padding_options_defaults }

/**
 * Puts the elements in random order.
 *
 * @param[in] options The buffer, the seed, and whether passes differ; `options` may be NULL.
 *   UMBO_ALL of a dataset without end is UMBO_STATUS_INVALID_ARGUMENT.
 *
 * Over tensors and files the buffer holds row numbers of 8 bytes, elsewhere elements. A pass
 * allocates it.
 *
 * Shuffle before umbo_dataset_batch(): after it, batches are shuffled, and each has the same
 * elements in every pass. A umbo_dataset_cache() after a shuffle keeps the order of the first
 * pass for all.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_shuffle(
    umbo_dataset **dataset, const umbo_shuffle_options *options);

/**
 * Stacks elements along a new dimension 0. Elements of a batch have the same shape.
 *
 * @param[in] element_count How many elements a batch has, 1 or more.
 * @param[in] drop_remainder 1: elements that do not fill a last batch are left out. 0: it is
 *   smaller.
 *
 * Batches of tensors in their own order are views of the tensors; others are copies, for which the
 * elements are kept until the batch is complete. If an element fails, umbo_iterator_next() does,
 * and the elements before it are in the next batch.
 *
 * If the dataset has elements, but too few for a single batch with `drop_remainder`, the log gets
 * a warning; in strict mode it is UMBO_STATUS_INVALID_ARGUMENT.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_batch(
    umbo_dataset **dataset, int64_t element_count, int32_t drop_remainder);

/**
 * Stacks elements that may differ in shape, not in dtype and number of dimensions. Each is padded,
 * at the end of each dimension, to the largest size in its batch.
 *
 * @param[in] options The padding, and whether there is a mask; `options` may be NULL. A padding of
 *   a dtype other than the elements is UMBO_STATUS_INVALID_ARGUMENT.
 *
 * A mask has the structure of the batch. For each tensor of shape [element_count, longest, ...] it
 * has a tensor of bool of shape [element_count, longest], which is true where an element has a
 * row, and false where that is padding; for scalars it is true and of shape [element_count]. The
 * sum of a row is the length of its element.
 *
 * The other parameters and failures are those of umbo_dataset_batch().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_padded_batch(
    umbo_dataset **dataset, int64_t element_count, int32_t drop_remainder,
    const umbo_padding_options *options);

/**
 * Repeats the elements.
 *
 * @param[in] count How many times they come, 0 or more, or UMBO_INFINITE.
 *
 * A shuffled dataset has another order each time, unless its options say otherwise. Batches that
 * are made before do not mix two repetitions.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_repeat(umbo_dataset **dataset, int64_t count);

/**
 * Makes elements ahead of time, on a thread of each iterator.
 *
 * @param[in] depth How many elements are made ahead, 1 to 4096.
 *
 * The thread starts with the iterator's first element and ends with the iterator.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_prefetch(umbo_dataset **dataset, int64_t depth);

/**
 * Keeps the first elements.
 *
 * @param[in] count How many, 0 or more, or UMBO_ALL.
 *
 * A dataset that is shuffled anew in each pass has other first elements in each, and for each
 * iterator. If a program takes and skips elements of one such dataset, as for training and test,
 * the two have elements in common: the log gets a warning; in strict mode it is
 * UMBO_STATUS_INVALID_ARGUMENT. `keep_order_each_pass` divides it.
 *
 * If a pass over the first elements of a cached dataset begins a second time, and no pass has
 * reached the end of that dataset, the log gets a warning, since nothing is cached; in strict mode
 * this is UMBO_STATUS_FAILED_PRECONDITION of the reset.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_take(umbo_dataset **dataset, int64_t count);

/**
 * Leaves out the first elements.
 *
 * @param[in] count How many, 0 or more, or UMBO_ALL.
 *
 * Elements of ranges and slices are left out at once, as are whole repetitions of them, also
 * shuffled, and of what is cached. Others are made when the first element is asked for; their
 * failures are those of umbo_iterator_next(). A limit of umbo_train_epoch() ends that between two
 * of them. The next request continues from that element. A position that is saved before it is
 * that of this element, or of the one after the last element that a batch or a shuffle has taken.
 *
 * A second pass over what is left of a dataset that is shuffled anew in each pass leaves out other
 * elements than the first: the log gets a warning; in strict mode umbo_iterator_reset() returns
 * UMBO_STATUS_FAILED_PRECONDITION. With umbo_dataset_take() of the same dataset it is as said
 * there.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_skip(umbo_dataset **dataset, int64_t count);

/**
 * Keeps every n-th element: those at `index`, `index` + `shard_count` and so on.
 *
 * @param[in] shard_count 1 or more.
 * @param[in] index 0 to `shard_count` - 1.
 *
 * Elements in between are left out: rows of arrays in their own order are not read, and other
 * elements are made and dropped, as by umbo_dataset_skip(). Two shards of one dataset that is
 * shuffled anew in each pass have elements in common, as with umbo_dataset_take().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_shard(
    umbo_dataset **dataset, int64_t shard_count, int64_t index);

/**
 * Keeps the elements of the first pass that reaches the end in memory, for later passes in that
 * order, even if the dataset is shuffled. If they do not fit, or no pass reaches the end because a
 * umbo_dataset_take() after it stops before, each pass makes its own.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_cache(umbo_dataset **dataset);

/**
 * Counts the elements of a pass.
 *
 * @param[out] count The number, UMBO_INFINITE or UMBO_CARDINALITY_UNKNOWN.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_cardinality(
    const umbo_dataset *dataset, int64_t *count);

/** Makes an iterator at the beginning of a pass. */
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
typedef enum umbo_split UMBO_INT32 {
  /**
   * Each batch by itself: of r rows each of n replicas gets r / n, rounded up, until none are left.
   * 9 rows over 4 replicas are 3, 3, 3 and 0.
   */
  UMBO_SPLIT_CEIL = 0,
  /**
   * Each batch by itself: each replica gets its share of a full batch, of 9 rows over 4 replicas 3,
   * 2, 2 and 2. Of a smaller batch each gets the same rows, as far as they exist: of a last batch
   * of 6 in batches of 8, 2 replicas get 4 and
   * 2. If nobody knows the size of a full batch, each batch is a full one.
   */
  UMBO_SPLIT_BALANCED = 1201
} umbo_split;

/** The rows of batches that each rank gets. */
typedef enum umbo_sharding UMBO_INT32 {
  /**
   * All ranks make the same batches, and each takes its own rows of them. When a run begins the
   * ranks compare what they have read: operations, seeds, iterators, resets, which element it is
   * and how many rows it has; in the first steps of a pass also a sample of the rows
   * (`compared_steps`). What differs is UMBO_STATUS_FAILED_PRECONDITION of umbo_strategy_run() on
   * all ranks, with its values in the message; so is a pass that ends earlier on one rank, of
   * umbo_train_epoch().
   */
  UMBO_SHARDING_DATA = 0,
  /**
   * Each rank's dataset is its own, and nothing is compared. The ranks synchronise for each element
   * and continue until none has any more; one that has none gets parts without rows. With
   * `drop_partial_step` all end with the first.
   */
  UMBO_SHARDING_OFF = 1301,
  /**
   * All ranks have the same dataset of umbo_dataset_from_files(), and each reads its own files:
   * file i is that of rank i mod the number of ranks. The rows of a rank's files are one stream, of
   * which its replicas take in turn what UMBO_SPLIT_BALANCED would give them of a full batch over
   * all ranks. The ranks continue as with UMBO_SHARDING_OFF.
   *
   * umbo_strategy_distribute_dataset() returns UMBO_STATUS_INVALID_ARGUMENT if there are fewer
   * files than ranks, other sources, batches with fewer rows than replicas or an unknown number, or
   * a take, skip, shard or zip after the files.
   */
  UMBO_SHARDING_FILE = 1302,
  /** UMBO_SHARDING_FILE where possible, else UMBO_SHARDING_DATA; the reason is logged at INFO. */
  UMBO_SHARDING_AUTO = 1303
} umbo_sharding;

/** How a dataset is distributed. Start from UMBO_DISTRIBUTE_OPTIONS_INIT. */
typedef struct umbo_distribute_options {
  size_t struct_size;
  /** How batches are split. */
  umbo_split split;
  /**
   * 1: steps without a whole share for every replica are left out; with UMBO_SPLIT_BALANCED
   * these are all batches that are smaller than a full one, for any number of replicas. 0: they
   * come with the rows there are; missing components have no rows, or are 0 where elements are
   * scalars. With UMBO_SPLIT_CEIL, or without a known size of a full batch, each batch is a
   * whole step.
   */
  int32_t drop_partial_step;
  /** 1: all components stay on CPU:0. 0: component k is on compute device k. */
  int32_t host_only;
  /**
   * How many steps a thread of the iterator makes ahead, 0 to 4096. UMBO_AUTO, the default, is 0
   * for CPUs.
   */
  int64_t prefetch_count;
  /**
   * The rows that each rank gets. UMBO_SHARDING_FILE is refused where it is impossible, also
   * without other ranks.
   */
  umbo_sharding sharding;
  /**
   * UMBO_SHARDING_DATA: in how many steps of each pass, from its first on, the ranks also
   * compare the checksum of a sample of the batch: at most 32 rows of each tensor, 256 bytes of
   * each. UMBO_AUTO, the default: 16, but 0 if the dataset has a map or comes from
   * umbo_dataset_from_files(), whose functions may draw random numbers on each rank. 0: never.
   */
  int64_t compared_steps;
} umbo_distribute_options;

#define umbo_distribute_options_defaults \
  UMBO_STRUCT_SIZE(umbo_distribute_options), UMBO_SPLIT_CEIL, 0, 0, UMBO_AUTO, UMBO_SHARDING_DATA, \
    UMBO_AUTO
#define UMBO_DISTRIBUTE_OPTIONS_INIT { umbo_distribute_options_defaults }

/**
 * Splits global batches over the replicas of all ranks.
 *
 * @param[in] dataset Each of its elements is a global batch.
 * @param[in] options `options` may be NULL.
 *
 * With one replica elements stay as they are. With several, each tensor becomes a per-replica
 * value with a component for each replica of this rank; elements must not contain scalars. The
 * elements know how many examples each replica has; umbo_gradients_submit() uses these numbers.
 * Tensors with different numbers of rows, such as labelled and unlabelled examples, are split each
 * by its own number, and the examples are those of the first one.
 * Which batches come, and a position in them, does not depend on the number of replicas. On CPUs
 * components are views of the batch.
 *
 * Slices of arrays that are not batched, elements that are batched twice, and batches that were
 * shuffled where the elements in them were not, are rarely meant: the log gets a warning, once for
 * each dataset; with a strict strategy they are UMBO_STATUS_INVALID_ARGUMENT.
 * umbo_dataset_rebatch() makes batches of another size, or of slices that are batches.
 *
 * All ranks give the same dataset, shuffled with the same seed, unless `sharding` says otherwise.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_distribute_dataset(
    umbo_strategy *strategy, const umbo_dataset *dataset, const umbo_distribute_options *options,
    umbo_distributed_dataset **distributed);

/** Makes an iterator at the beginning of a pass. */
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
 * Gets a new handle to the next element of a pass, and waits until it is there.
 *
 * @param[out] element The element. At the end of the pass it gets NULL, and so it does in all
 *   later calls before umbo_iterator_reset() begins the next pass. A thread that gets NULL twice
 *   in a row is warned: a loop over several epochs that never resets makes only the first.
 * @return UMBO_OK, also at the end of the pass, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: elements are not as a transformation or a spec needs them.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: no element is lost; the next call tries again.
 * - UMBO_STATUS_FAILED_PRECONDITION: a function that this iterator calls; more than 32 iterators
 *   whose functions call each other; over a distributed dataset, a replica's callback or another
 *   strategy's scope; in strict mode, the second NULL in a row.
 * - Any other status of a function of the program or of a source of the dataset.
 *
 * After a failure the next call continues after the element that failed. An element that
 * umbo_train_epoch() would repeat because a step has failed is passed over.
 *
 * *Collective* over a distributed dataset whose ranks have data of their own: UMBO_SHARDING_OFF,
 * UMBO_SHARDING_FILE, or from a function.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_next(
    umbo_iterator *iterator, umbo_value **element);

/**
 * Starts a new pass from the beginning.
 *
 * @return As umbo_iterator_next().
 *
 * A loop over several epochs calls it at the end of each: the iterator stays at its end otherwise.
 * umbo_train_epoch() does it by itself.
 *
 * The iterator keeps its memory and threads. If elements are made ahead, the function waits for
 * the one that is being made, and goes back to the element that was returned last: the new pass
 * does not depend on how many were made ahead. A shuffled dataset has another order, unless its
 * options say otherwise.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_reset(umbo_iterator *iterator);

/** Makes another handle to the same iterator: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_iterator_retain(
    const umbo_iterator *iterator, umbo_iterator **retained) {
  return umbo_retain(iterator, UMBO_HANDLE_ITERATOR, retained);
}

/**
 * Releases a handle: umbo_release().
 *
 * The last release waits for the iterator's threads, except in a function that the iterator calls.
 */
static inline void umbo_iterator_release(const umbo_iterator *iterator) {
  umbo_release(iterator, UMBO_HANDLE_ITERATOR);
}

/**
 * Makes an iterator over a dataset whose batches are split over a strategy's replicas:
 * umbo_strategy_distribute_dataset() and umbo_iterator_from_distributed_dataset().
 *
 * @param[in] options `options` may be NULL.
 */
UMBO_MUST_USE static inline umbo_status umbo_strategy_iterate(
    umbo_strategy *strategy, const umbo_dataset *dataset, const umbo_distribute_options *options,
    umbo_iterator **iterator);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include <umbo/inline/dataset.h>

#endif
