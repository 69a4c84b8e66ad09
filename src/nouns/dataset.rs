//! Transformations of a dataset.

use crate::machinery::prelude::*;
use umbo_core::input::{PaddingOptions, ShuffleOptions};

/// How a dataset is shuffled. Start from UMBO_SHUFFLE_OPTIONS_INIT.
#[c_struct(buffer_capacity = UMBO_ALL)]
pub struct umbo_shuffle_options {
    /// From how many elements the next one is drawn, 1 or more. UMBO_ALL, the default: every order
    /// is equally likely.
    pub buffer_capacity: i64,
    /// The seed of the orders, which are the same on every machine.
    pub seed: u64,
    /// 1: all passes and repetitions have the same order, as a take and a skip of the dataset need
    /// that divide it into training and test. 0: each has another one, also the passes of different
    /// iterators.
    pub keep_order_each_pass: i32,
}

/// Puts the elements in random order.
///
/// @param[in] options The buffer, the seed, and whether passes differ; `options` may be NULL.
///   UMBO_ALL of a dataset without end is UMBO_STATUS_INVALID_ARGUMENT.
///
/// Over tensors and files the buffer holds row numbers of 8 bytes, elsewhere elements. A pass
/// allocates it.
///
/// Shuffle before umbo_dataset_batch(): after it, batches are shuffled, and each has the same
/// elements in every pass. A umbo_dataset_cache() after a shuffle keeps the order of the first
/// pass for all.
#[c_call(transforms(dataset), options(options))]
pub fn umbo_dataset_shuffle(dataset: *mut *mut umbo_dataset, options: *const umbo_shuffle_options) {
    let capacity = least_unless(
        options.buffer_capacity,
        1,
        UMBO_ALL,
        "options.buffer_capacity",
    )?;
    dataset.shuffle(&ShuffleOptions {
        // In the core 0 is the whole dataset.
        buffer_size: capacity.unwrap_or(0),
        seed: options.seed,
        keep_order_each_pass: flag(options.keep_order_each_pass, "options.keep_order_each_pass")?,
    })
}

/// Stacks elements along a new dimension 0. Elements of a batch have the same shape.
///
/// @param[in] element_count How many elements a batch has, 1 or more.
/// @param[in] drop_remainder 1: elements that do not fill a last batch are left out. 0: it is
///   smaller.
///
/// Batches of tensors in their own order are views of the tensors; others are copies, for which the
/// elements are kept until the batch is complete. If an element fails, umbo_iterator_next() does,
/// and the elements before it are in the next batch.
///
/// If the dataset has elements, but too few for a single batch with `drop_remainder`, the log gets
/// a warning; in strict mode it is UMBO_STATUS_INVALID_ARGUMENT.
#[c_call(transforms(dataset), flag(drop_remainder))]
pub fn umbo_dataset_batch(
    dataset: *mut *mut umbo_dataset,
    element_count: i64,
    drop_remainder: i32,
) {
    dataset.batch(element_count, drop_remainder)
}

/// How elements that differ in shape are padded. Start from UMBO_PADDING_OPTIONS_INIT.
#[c_struct]
pub struct umbo_padding_options {
    /// The number around smaller elements: a scalar of their dtype for all tensors of an element,
    /// or a nest like the element with a scalar for each. It is copied. NULL: zero.
    pub padding: *const umbo_value,
    /// 1: each batch comes with a mask, as a tuple of both. 0: batches come alone.
    pub mask: i32,
}

/// Stacks elements that may differ in shape, not in dtype and number of dimensions. Each is padded,
/// at the end of each dimension, to the largest size in its batch.
///
/// @param[in] options The padding, and whether there is a mask; `options` may be NULL. A padding of
///   a dtype other than the elements is UMBO_STATUS_INVALID_ARGUMENT.
///
/// A mask has the structure of the batch. For each tensor of shape [element_count, longest, ...] it
/// has a tensor of bool of shape [element_count, longest], which is true where an element has a
/// row, and false where that is padding; for scalars it is true and of shape [element_count]. The
/// sum of a row is the length of its element.
///
/// The other parameters and failures are those of umbo_dataset_batch().
#[c_call(transforms(dataset), flag(drop_remainder), options(options))]
pub fn umbo_dataset_padded_batch(
    dataset: *mut *mut umbo_dataset,
    element_count: i64,
    drop_remainder: i32,
    options: *const umbo_padding_options,
) {
    let padding = match options.padding.is_null() {
        true => None,
        false => Some(get(options.padding, "options.padding")?),
    };
    let padding = PaddingOptions {
        value: padding,
        mask: flag(options.mask, "options.mask")?,
    };
    dataset.padded_batch_with(element_count, drop_remainder, &padding)
}

/// Re-splits the rows of all batches into batches of the given numbers of rows.
///
/// @param[in] row_counts The numbers of rows, 0 or more, not all 0. After the last comes the first
///   again.
/// @param[in] drop_remainder 1: rows that do not fill a last batch are left out. 0: it is smaller.
///
/// New batches within one old batch are views of it; others are copies. Old batches that are joined
/// may differ in nothing but their number of rows, which is the same for all tensors of an element.
#[c_call(transforms(dataset), array(row_counts, count), flag(drop_remainder))]
pub fn umbo_dataset_rebatch(
    dataset: *mut *mut umbo_dataset,
    count: i64,
    row_counts: *const i64,
    drop_remainder: i32,
) {
    dataset.rebatch(row_counts, drop_remainder)
}

/// Takes elements apart: each row of their tensors, along dimension 0, becomes an element.
///
/// The elements are nests of tensors with at least one dimension, and all tensors of an element
/// have the same number of rows. What this makes are views of them. An element without rows makes
/// none.
///
/// umbo_dataset_cardinality() knows the number if it knows that of the elements and their spec has
/// the number of their rows, as after a umbo_dataset_batch() that drops a remainder.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_unbatch(dataset: *mut *mut umbo_dataset) {
    dataset.unbatch()
}

/// How the core says "all" and "without end".
const WITHOUT_BOUND: i64 = -1;

/// Repeats the elements.
///
/// @param[in] count How many times they come, 0 or more, or UMBO_INFINITE.
///
/// A shuffled dataset has another order each time, unless its options say otherwise. Batches that
/// are made before do not mix two repetitions.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_repeat(dataset: *mut *mut umbo_dataset, count: i64) {
    let count = least_unless(count, 0, UMBO_INFINITE, "count")?;
    dataset.repeat(count.unwrap_or(WITHOUT_BOUND))
}

/// Makes elements ahead of time, on a thread of each iterator.
///
/// @param[in] depth How many elements are made ahead, 1 to 4096.
///
/// The thread starts with the iterator's first element and ends with the iterator.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_prefetch(dataset: *mut *mut umbo_dataset, depth: i64) {
    dataset.prefetch(depth)
}

/// Keeps the first elements.
///
/// @param[in] count How many, 0 or more, or UMBO_ALL.
///
/// A dataset that is shuffled anew in each pass has other first elements in each, and for each
/// iterator. If a program takes and skips elements of one such dataset, as for training and test,
/// the two have elements in common: the log gets a warning; in strict mode it is
/// UMBO_STATUS_INVALID_ARGUMENT. `keep_order_each_pass` divides it.
///
/// If a pass over the first elements of a cached dataset begins a second time, and no pass has
/// reached the end of that dataset, the log gets a warning, since nothing is cached; in strict mode
/// this is UMBO_STATUS_FAILED_PRECONDITION of the reset.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_take(dataset: *mut *mut umbo_dataset, count: i64) {
    dataset.take(least_unless(count, 0, UMBO_ALL, "count")?.unwrap_or(WITHOUT_BOUND))
}

/// Leaves out the first elements.
///
/// @param[in] count How many, 0 or more, or UMBO_ALL.
///
/// Elements of ranges and slices are left out at once, as are whole repetitions of them, also
/// shuffled, and of what is cached. Others are made when the first element is asked for; their
/// failures are those of umbo_iterator_next(). A limit of umbo_train_epoch() ends that between two
/// of them. The next request continues from that element. A position that is saved before it is
/// that of this element, or of the one after the last element that a batch or a shuffle has taken.
///
/// A second pass over what is left of a dataset that is shuffled anew in each pass leaves out other
/// elements than the first: the log gets a warning; in strict mode umbo_iterator_reset() returns
/// UMBO_STATUS_FAILED_PRECONDITION. With umbo_dataset_take() of the same dataset it is as said
/// there.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_skip(dataset: *mut *mut umbo_dataset, count: i64) {
    dataset.skip(least_unless(count, 0, UMBO_ALL, "count")?.unwrap_or(WITHOUT_BOUND))
}

/// Keeps every n-th element: those at `index`, `index` + `shard_count` and so on.
///
/// @param[in] shard_count 1 or more.
/// @param[in] index 0 to `shard_count` - 1.
///
/// Elements in between are left out: rows of arrays in their own order are not read, and other
/// elements are made and dropped, as by umbo_dataset_skip(). Two shards of one dataset that is
/// shuffled anew in each pass have elements in common, as with umbo_dataset_take().
#[c_call(transforms(dataset))]
pub fn umbo_dataset_shard(dataset: *mut *mut umbo_dataset, shard_count: i64, index: i64) {
    dataset.shard(shard_count, index)
}

/// Keeps the elements of the first pass that reaches the end in memory, for later passes in that
/// order, even if the dataset is shuffled. If they do not fit, or no pass reaches the end because a
/// umbo_dataset_take() after it stops before, each pass makes its own.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_cache(dataset: *mut *mut umbo_dataset) {
    dataset.cache()
}

/// Counts the elements of a pass.
///
/// @param[out] count The number, UMBO_INFINITE or UMBO_CARDINALITY_UNKNOWN.
#[c_call(out(count), borrow(dataset))]
pub fn umbo_dataset_cardinality(dataset: *const umbo_dataset, count: *mut i64) {
    count.write(cardinality_for_c(dataset.cardinality()));
}

/// Gets a new handle to the spec of the elements.
#[c_call(out(spec), get(dataset))]
pub fn umbo_dataset_element_spec(dataset: *const umbo_dataset, spec: *mut *mut umbo_element_spec) {
    spec.write(make(Arc::new(dataset.element_spec().clone()))?);
}

/// Makes an iterator at the beginning of a pass.
#[c_call(out(iterator), get(dataset))]
pub fn umbo_iterator_from_dataset(dataset: *const umbo_dataset, iterator: *mut *mut umbo_iterator) {
    iterator.write(make(Arc::new(dataset.iterator()?))?);
}
