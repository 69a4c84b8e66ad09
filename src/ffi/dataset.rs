//! Datasets and their transformations.

use super::prelude::*;
use crate::input::ShuffleOptions;

/// How a dataset is shuffled. Start from UMBO_SHUFFLE_OPTIONS_INIT.
#[c_struct(buffer_size = UMBO_ALL)]
#[repr(C)]
pub struct umbo_shuffle_options {
    /// `sizeof(umbo_shuffle_options)`; UMBO_SHUFFLE_OPTIONS_INIT sets it.
    pub struct_size: usize,
    /// From how many elements the next one is drawn, 1 or more. UMBO_ALL, the
    /// default: from all of them, so that every order is equally likely.
    pub buffer_size: i64,
    /// The seed of the random orders. The same seed gives the same orders on every machine.
    pub seed: u64,
    /// 0: each pass and each repetition has another order. 1: all have the same order.
    pub keep_order_each_pass: i32,
}

/// Joins datasets: element i consists of element i of each.
///
/// @param[in] count How many datasets there are, 1 or more.
/// @param[in] datasets The datasets. The caller still releases its own handles.
/// @param[in] names A name for each dataset, all different: elements are structs with these fields.
///   `names` may be NULL: elements are tuples.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, two names are the same, the
///   elements would be deeper or larger than UMBO_MAX_NEST_DEPTH allows, a handle is not valid, a dataset has
///   256 transformations already, or all of them together have 65,536.
///
/// A pass ends with the dataset that ends first. If another one has more elements, the log gets a
/// warning, once.
#[c_call(out(zipped), handles(datasets, count), optional_texts(names, count))]
pub fn umbo_dataset_zip(
    count: i64,
    datasets: *const *const umbo_dataset,
    names: *const *const c_char,
    zipped: *mut *mut umbo_dataset,
) {
    zipped.write(make(Dataset::zip(&datasets, names.as_deref())?)?);
}

/// The core's buffer size, where 0 is the whole dataset.
fn shuffle_buffer(size: i64) -> Result<i64> {
    match size {
        UMBO_ALL => Ok(0),
        1.. => Ok(size),
        _ => Err(Error::invalid(
            "options.buffer_size",
            format!("{size}; must be 1 or more, or UMBO_ALL (-1)"),
        )),
    }
}

/// Puts the elements in random order.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] options The size of the buffer, the seed, and whether all passes have the same order.
///   `options` may be NULL: the defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the buffer size is 0 or less than
///   UMBO_ALL (-1), or UMBO_ALL for a dataset without end,
///   `keep_order_each_pass` is neither 0 nor 1, `*dataset` is not a valid handle, or it has 256
///   transformations already.
///
/// Over tensors and files the buffer holds row numbers, 8 bytes for each. Elsewhere it holds
/// elements. A pass allocates it when it needs it; if there is no memory for it,
/// umbo_iterator_next() returns UMBO_STATUS_RESOURCE_EXHAUSTED.
#[c_call(transforms(dataset), options(options))]
pub fn umbo_dataset_shuffle(dataset: *mut *mut umbo_dataset, options: *const umbo_shuffle_options) {
    dataset.shuffle(&ShuffleOptions {
        buffer_size: shuffle_buffer(options.buffer_size)?,
        seed: options.seed,
        keep_order_each_pass: flag(options.keep_order_each_pass, "options.keep_order_each_pass")?,
    })
}

/// Makes batches, with the elements stacked along a new dimension 0.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] size How many elements a batch has, 1 or more.
/// @param[in] drop_remainder 1: elements that do not fill a last batch are left out. 0: the last
///   batch is smaller.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `size` is less than 1, `drop_remainder` is neither 0 nor
///   1, an element has rank UMBO_MAX_RANK, `*dataset` is not a valid handle, or it has 256 transformations
///   already.
///
/// Batches of tensors in their own order are views of the tensors; others are copies.
/// umbo_iterator_next() fails with UMBO_STATUS_INVALID_ARGUMENT if elements of one batch differ in
/// shape. If making an element fails, so does umbo_iterator_next(), and the elements before it are in
/// the next batch.
#[c_call(transforms(dataset), flag(drop_remainder))]
pub fn umbo_dataset_batch(dataset: *mut *mut umbo_dataset, size: i64, drop_remainder: i32) {
    dataset.batch(size, drop_remainder)
}

/// Makes batches of elements that may differ in shape.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] size How many elements a batch has, 1 or more.
/// @param[in] drop_remainder 1: elements that do not fill a last batch are left out. 0: the last
///   batch is smaller.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `size` is less than 1, `drop_remainder` is neither 0 nor
///   1, an element has rank UMBO_MAX_RANK, `*dataset` is not a valid handle, or it has 256 transformations
///   already.
///
/// Elements are stacked along a new dimension 0. Each is padded with zeros, at the end of each
/// dimension, to the largest size in its batch. umbo_iterator_next() fails with
/// UMBO_STATUS_INVALID_ARGUMENT if elements of one batch differ in dtype or rank. If making an element
/// fails, so does umbo_iterator_next(), and the elements before it are in the next batch.
#[c_call(transforms(dataset), flag(drop_remainder))]
pub fn umbo_dataset_padded_batch(dataset: *mut *mut umbo_dataset, size: i64, drop_remainder: i32) {
    dataset.padded_batch(size, drop_remainder)
}

/// Cuts the rows of all batches into batches of other sizes.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] count How many sizes there are, 1 or more.
/// @param[in] sizes The sizes of the new batches, 0 or more. After the last size comes the first
///   again. A size of 0 makes a batch without rows.
/// @param[in] drop_remainder 1: rows that do not fill a last batch are left out. 0: the last batch
///   is smaller, and no batch follows it.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: no size is above 0, a size is negative, elements contain
///   a scalar, `drop_remainder` is neither 0 nor 1, `*dataset` is not a valid handle, or it has 256
///   transformations already.
///
/// New batches that lie within one old batch are views of it; others are copies.
/// umbo_iterator_next() fails with UMBO_STATUS_INVALID_ARGUMENT if the tensors of an element differ
/// in their number of rows, or if batches that are to be joined differ in anything else. If making a
/// batch fails, so does umbo_iterator_next(), and rows before it are in the next batch.
#[c_call(transforms(dataset), array(sizes, count), flag(drop_remainder))]
pub fn umbo_dataset_rebatch(
    dataset: *mut *mut umbo_dataset,
    count: i64,
    sizes: *const i64,
    drop_remainder: i32,
) {
    dataset.rebatch(sizes, drop_remainder)
}

/// Repeats the elements.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] count How many times the elements come, 0 or more;
///   UMBO_INFINITE: without end.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than -1, `*dataset` is not a valid
///   handle, or it has 256 transformations already.
///
/// A shuffled dataset has another order each time, unless its options say otherwise. Batches that
/// were made before do not mix two repetitions; batches that are made afterwards do.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_repeat(dataset: *mut *mut umbo_dataset, count: i64) {
    dataset.repeat(count)
}

/// Makes elements ahead of time, on a thread of each iterator.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] depth How many elements are made ahead at most, 1 to 4096.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `depth` is not in [1, 4096], `*dataset` is not a valid
///   handle, or it has 256 transformations already.
///
/// The elements stay the same. The thread starts when the iterator's first element is asked for and
/// ends when the iterator is released. If the system gives no thread, umbo_iterator_next() returns
/// UMBO_STATUS_RESOURCE_EXHAUSTED; the next call tries again.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_prefetch(dataset: *mut *mut umbo_dataset, depth: i64) {
    dataset.prefetch(depth)
}

/// Keeps the first elements and leaves out the others.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] count How many elements are kept, 0 or more. UMBO_ALL, or more than there
///   are: all.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than -1, `*dataset` is not a valid
///   handle, or it has 256 transformations already.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_take(dataset: *mut *mut umbo_dataset, count: i64) {
    dataset.take(count)
}

/// Leaves out the first elements and keeps the others.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] count How many elements are left out, 0 or more. UMBO_ALL, or more than
///   there are: all.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than -1, `*dataset` is not a valid
///   handle, or it has 256 transformations already.
///
/// Numbers of a range, slices of tensors and files, given elements and batches of these are passed over at
/// once, however many they are, also where they were repeated, concatenated, zipped, taken or left out in
/// part. All others are made when the first element is asked for: functions of maps and generators are
/// called, shuffles draw. One that fails is a failure of umbo_iterator_next() and does not count.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_skip(dataset: *mut *mut umbo_dataset, count: i64) {
    dataset.skip(count)
}

/// Keeps every n-th element.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] shards How many shards there are, 1 or more.
/// @param[in] index Which of them is kept, from 0 on.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `shards` is less than 1, `index` is not in [0, shards),
///   `*dataset` is not a valid handle, or it has 256 transformations already.
///
/// The elements at positions `index`, `index + shards`, `index + 2 * shards` and so on are kept. Those in
/// between are passed over as umbo_dataset_skip() does.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_shard(dataset: *mut *mut umbo_dataset, shards: i64, index: i64) {
    dataset.shard(shards, index)
}

/// Keeps the elements in memory for later passes.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `*dataset` is not a valid handle, or it has 256
///   transformations already.
///
/// The first pass that reaches the end keeps the elements. Later passes yield them in the order of
/// that pass and do not use the dataset that was given. Elements are read-only. If there is no
/// memory to keep them in, umbo_iterator_next() returns UMBO_STATUS_RESOURCE_EXHAUSTED.
#[c_call(transforms(dataset))]
pub fn umbo_dataset_cache(dataset: *mut *mut umbo_dataset) {
    dataset.cache()
}

/// Puts datasets one after the other.
///
/// @param[in] count How many datasets there are, 1 or more.
/// @param[in] datasets The datasets. Their elements have the same structure, dtypes and ranks. The
///   caller still releases its own handles.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1, elements differ in structure,
///   dtype or rank, a handle is not valid, a dataset has 256 transformations already, or all of them together
///   have 65,536.
///
/// Sizes in which the datasets differ are unknown in the element spec. A program with many datasets
/// gives them to one call: each call counts as a transformation. A dataset that is given twice counts
/// twice; umbo_dataset_repeat() is for more rounds of one.
#[c_call(out(concatenated), handles(datasets, count))]
pub fn umbo_dataset_concatenate(
    count: i64,
    datasets: *const *const umbo_dataset,
    concatenated: *mut *mut umbo_dataset,
) {
    concatenated.write(make(Dataset::concatenate(&datasets)?)?);
}

/// The number of elements or steps that is not known before a pass has ended.
pub const UMBO_CARDINALITY_UNKNOWN: i64 = -2;

/// Tells how many elements a pass yields.
///
/// @param[out] count The number of elements, UMBO_INFINITE (-1) or
///   UMBO_CARDINALITY_UNKNOWN (-2).
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `dataset` is not a valid handle, or `count` is a null
///   pointer.
#[c_call(out(count), borrow(dataset))]
pub fn umbo_dataset_cardinality(dataset: *const umbo_dataset, count: *mut i64) {
    count.write(dataset.cardinality().code());
}

/// Gives the structure, dtypes and shapes of the elements.
///
/// @param[out] spec The spec. Release it with umbo_element_spec_release().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `dataset` is not a valid handle, or `spec` is a null
///   pointer.
#[c_call(out(spec), get(dataset))]
pub fn umbo_dataset_element_spec(dataset: *const umbo_dataset, spec: *mut *mut umbo_element_spec) {
    spec.write(make(Arc::new(dataset.element_spec().clone()))?);
}

/// Makes an iterator at the beginning of a pass.
///
/// @param[in] dataset The dataset. The iterator keeps what it needs of it; the caller may release
///   the dataset.
/// @param[out] iterator The new iterator, independent of all others. Release it with
///   umbo_iterator_release().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `dataset` is not a valid handle, or `iterator` is a null
///   pointer.
#[c_call(out(iterator), get(dataset))]
pub fn umbo_iterator_from_dataset(dataset: *const umbo_dataset, iterator: *mut *mut umbo_iterator) {
    iterator.write(make(Arc::new(dataset.iterator()?))?);
}
