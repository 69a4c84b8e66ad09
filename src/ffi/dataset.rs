//! Datasets and their transformations.

use std::ffi::c_char;
use std::sync::Arc;

use super::boundary::{array, boundary, collect, flag, out, quietly};
use super::handle::{self, borrow, get, make, reserve};
use super::object::{umbo_dataset, umbo_element_spec, umbo_iterator};
use super::options::{self, Extensible};
use super::status::umbo_status;
use super::text::text;
use crate::error::{Error, Result};
use crate::input::{Dataset, ShuffleOptions};

/// A shuffle buffer for all elements of the dataset.
pub const UMBO_SHUFFLE_WHOLE_DATASET: i64 = -1;

/// How a dataset is shuffled. UMBO_SHUFFLE_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_shuffle_options {
    /// sizeof(umbo_shuffle_options).
    pub struct_size: usize,
    /// From how many elements the next one is drawn, 1 or more. UMBO_SHUFFLE_WHOLE_DATASET, the
    /// default: from all of them, which makes every order equally likely.
    pub buffer_size: i64,
    /// Which orders come: the same seed gives the same orders on every machine.
    pub seed: u64,
    /// 0: each pass and each repetition has another order. 1: all have the same.
    pub keep_order_each_pass: i32,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_shuffle_options {}

impl Default for umbo_shuffle_options {
    fn default() -> Self {
        umbo_shuffle_options {
            struct_size: size_of::<Self>(),
            buffer_size: UMBO_SHUFFLE_WHOLE_DATASET,
            seed: 0,
            keep_order_each_pass: 0,
        }
    }
}

/// Puts a transformed dataset in the place of the one that is there, whose handle is released.
///
/// # Safety
/// `dataset` is NULL or leads to a handle that may be written.
pub(super) unsafe fn transformed(
    function: &'static str,
    dataset: *mut *mut umbo_dataset,
    transformation: impl FnOnce(Dataset) -> Result<Dataset>,
) -> umbo_status {
    boundary(function, || {
        // SAFETY: the caller's promise is the same.
        let output = unsafe { out(dataset, "dataset") }?;
        // SAFETY: it is not NULL, so it leads to a handle.
        let before = unsafe { dataset.read() };
        let object = get(before, "dataset")?;
        let handle = reserve()?;
        let changed = transformation(object)?;
        handle::release(before, "dataset")?;
        output.write(handle.make(changed));
        Ok(())
    })
}

/// Several datasets side by side: element i consists of element i of each. `names` has `count`
/// names, which must differ, and makes elements structs; NULL makes them tuples. Ends with the
/// dataset that ends first; if others have more elements, the log says so once, as a warning. The
/// datasets stay the caller's to release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_zip(
    count: i64,
    datasets: *const *const umbo_dataset,
    names: *const *const c_char,
    zipped: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_zip", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (zipped, datasets) =
            unsafe { (out(zipped, "zipped")?, array(datasets, count, "datasets")?) };
        let datasets = collect(datasets.iter().map(|&dataset| get(dataset, "datasets")))?;
        let names = if names.is_null() {
            None
        } else {
            // SAFETY: not NULL, so the caller promises as many names as there are datasets.
            let names = unsafe { array(names, count, "names") }?;
            // SAFETY: the caller promises that each name is NULL or a text.
            Some(collect(names.iter().map(|&name| unsafe { text(name, "names") }))?)
        };
        zipped.write(make(Dataset::zip(&datasets, names.as_deref())?)?);
        Ok(())
    })
}

/// The core's buffer size, where 0 is the whole dataset.
fn shuffle_buffer(size: i64) -> Result<i64> {
    match size {
        UMBO_SHUFFLE_WHOLE_DATASET => Ok(0),
        1.. => Ok(size),
        _ => Err(Error::invalid(
            "options.buffer_size",
            format!("{size}; must be 1 or more, or UMBO_SHUFFLE_WHOLE_DATASET (-1)"),
        )),
    }
}

/// The elements in random order. `options` may be NULL. Over tensors and files only row numbers are
/// shuffled; elsewhere the buffer holds elements. Replaces `*dataset`. INVALID_ARGUMENT: a buffer size of 0 or
/// less, or UMBO_SHUFFLE_WHOLE_DATASET for a dataset without end.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_shuffle(
    dataset: *mut *mut umbo_dataset,
    options: *const umbo_shuffle_options,
) -> umbo_status {
    let shuffle = |dataset: Dataset| {
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options = unsafe { options::read(options, "options") }?;
        dataset.shuffle(&ShuffleOptions {
            buffer_size: shuffle_buffer(options.buffer_size)?,
            seed: options.seed,
            keep_order_each_pass: flag(
                options.keep_order_each_pass,
                "options.keep_order_each_pass",
            )?,
        })
    };
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_shuffle", dataset, shuffle) }
}

/// Batches of `size` elements, stacked along a new dimension 0. The last batch is smaller if
/// elements are left over, or left out if `drop_remainder` is 1. Over tensors in their own order
/// batches are views. INVALID_ARGUMENT: a size less than 1, elements of rank 8; while iterating,
/// elements of one batch that differ in shape.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_batch(
    dataset: *mut *mut umbo_dataset,
    size: i64,
    drop_remainder: i32,
) -> umbo_status {
    let batch = |dataset: Dataset| dataset.batch(size, flag(drop_remainder, "drop_remainder")?);
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_batch", dataset, batch) }
}

/// Batches as of umbo_dataset_batch(), of elements whose shapes may differ: each is padded with
/// zeros, at the end of each dimension, to the largest of its batch. INVALID_ARGUMENT: a size less
/// than 1, elements of rank 8; while iterating, elements of one batch that differ in dtype or rank.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_padded_batch(
    dataset: *mut *mut umbo_dataset,
    size: i64,
    drop_remainder: i32,
) -> umbo_status {
    let transformation =
        |dataset: Dataset| dataset.padded_batch(size, flag(drop_remainder, "drop_remainder")?);
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_padded_batch", dataset, transformation) }
}

/// The rows of all batches as one stream, cut into batches of the `count` sizes, over and over
/// again. A size of 0 makes a batch without rows. The last batch is smaller if rows are left over,
/// and nothing follows it, or left out if `drop_remainder` is 1. INVALID_ARGUMENT: no size above 0, a negative one,
/// elements with a scalar; while iterating, batches that do not fit together.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_rebatch(
    dataset: *mut *mut umbo_dataset,
    count: i64,
    sizes: *const i64,
    drop_remainder: i32,
) -> umbo_status {
    let rebatch = |dataset: Dataset| {
        // SAFETY: the caller gives NULL or as many sizes as it says.
        let sizes = unsafe { array(sizes, count, "sizes") }?;
        dataset.rebatch(sizes, flag(drop_remainder, "drop_remainder")?)
    };
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_rebatch", dataset, rebatch) }
}

/// The elements `count` times over, or without end if it is -1. A shuffled dataset has another
/// order each time, unless told to keep one.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_repeat(
    dataset: *mut *mut umbo_dataset,
    count: i64,
) -> umbo_status {
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_repeat", dataset, |dataset| dataset.repeat(count)) }
}

/// The same elements, up to `depth` (1 to 4096) of them made ahead of their consumer by a thread of
/// each iterator, which starts with its first element and is joined when it is released.
/// RESOURCE_EXHAUSTED, while iterating: no thread; the next call tries again.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_prefetch(
    dataset: *mut *mut umbo_dataset,
    depth: i64,
) -> umbo_status {
    let prefetch = |dataset: Dataset| dataset.prefetch(depth);
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_prefetch", dataset, prefetch) }
}

/// The first `count` elements, or all if there are fewer or if it is -1. INVALID_ARGUMENT: less than
/// -1.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_take(
    dataset: *mut *mut umbo_dataset,
    count: i64,
) -> umbo_status {
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_take", dataset, |dataset| dataset.take(count)) }
}

/// All but the first `count` elements; none if there are no more or if it is -1, which is all.
/// INVALID_ARGUMENT: less than -1.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_skip(
    dataset: *mut *mut umbo_dataset,
    count: i64,
) -> umbo_status {
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_skip", dataset, |dataset| dataset.skip(count)) }
}

/// The elements at positions `index`, `index + shards`, `index + 2 * shards`, ... INVALID_ARGUMENT:
/// less than 1 shard, an index that is not in [0, shards).
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_shard(
    dataset: *mut *mut umbo_dataset,
    shards: i64,
    index: i64,
) -> umbo_status {
    let transformation = |dataset: Dataset| dataset.shard(shards, index);
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_shard", dataset, transformation) }
}

/// The same elements, kept in memory by the first pass that reaches the end: later passes yield them
/// in the order that they had then and ask the dataset for nothing. Elements are read-only. While
/// iterating, RESOURCE_EXHAUSTED if there is no memory to keep them in.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_cache(dataset: *mut *mut umbo_dataset) -> umbo_status {
    let transformation = |dataset: Dataset| dataset.cache();
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_cache", dataset, transformation) }
}

/// The elements of several datasets, one dataset after the other. Structure, dtypes and ranks must
/// be the same. The datasets stay the caller's to release. To join many, give them to one call: no
/// more than 256 transformations, of whatever kind, may lie above each other (INVALID_ARGUMENT).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_concatenate(
    count: i64,
    datasets: *const *const umbo_dataset,
    concatenated: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_concatenate", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (concatenated, datasets) =
            unsafe { (out(concatenated, "concatenated")?, array(datasets, count, "datasets")?) };
        let datasets = collect(datasets.iter().map(|&dataset| get(dataset, "datasets")))?;
        concatenated.write(make(Dataset::concatenate(&datasets)?)?);
        Ok(())
    })
}

/// How many elements a pass yields; -1: it never ends, -2: only iterating tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_cardinality(
    dataset: *const umbo_dataset,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_dataset_cardinality", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(borrow(dataset, "dataset", |dataset| dataset.cardinality().code())?);
        Ok(())
    })
}

/// The structure, dtypes and shapes of the elements, which the caller releases.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_element_spec(
    dataset: *const umbo_dataset,
    spec: *mut *mut umbo_element_spec,
) -> umbo_status {
    boundary("umbo_dataset_element_spec", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let spec = unsafe { out(spec, "spec") }?;
        spec.write(make(Arc::new(get(dataset, "dataset")?.element_spec().clone()))?);
        Ok(())
    })
}

/// An iterator at the beginning of a pass, independent of all others. It keeps what it needs of the
/// dataset, which may be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_from_dataset(
    dataset: *const umbo_dataset,
    iterator: *mut *mut umbo_iterator,
) -> umbo_status {
    boundary("umbo_iterator_from_dataset", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let iterator = unsafe { out(iterator, "iterator") }?;
        let object = Arc::new(get(dataset, "dataset")?.unannounced_iterator()?);
        iterator.write(make(Arc::clone(&object))?);
        object.announce();
        Ok(())
    })
}

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_retain(
    dataset: *const umbo_dataset,
    retained: *mut *mut umbo_dataset,
) -> umbo_status {
    boundary("umbo_dataset_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(dataset, "dataset", retained) }
    })
}

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_release(dataset: *const umbo_dataset) {
    quietly("umbo_dataset_release", || handle::release(dataset, "dataset"));
}
