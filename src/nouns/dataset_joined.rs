//! Datasets of several datasets.

use crate::machinery::prelude::*;
use umbo_core::input::SampleOptions;

/// Joins datasets: element i consists of element i of each.
///
/// @param[in] count How many datasets there are, 1 or more.
/// @param[in] names A name for each dataset, all different: elements are structs. `names` may be
///   NULL: elements are tuples.
///
/// A pass ends with the dataset that ends first. If another one is known to have more elements, the
/// log gets a warning.
///
/// An element that fails is passed over as a whole: where element i of one dataset fails,
/// umbo_iterator_next() does, and all datasets continue with element i + 1. A failure below a
/// batch, a rebatch or a shuffle, or of a file that cannot be opened, shifts the elements after it,
/// so that they do not belong together any more: after the failure comes
/// UMBO_STATUS_FAILED_PRECONDITION, which says so, and then the end. Zip first, and shuffle and
/// batch the pairs.
#[c_call(out(zipped), optional_texts(names, count), handles(datasets, count))]
pub fn umbo_dataset_zip(
    count: i64,
    names: *const *const c_char,
    datasets: *const *mut umbo_dataset,
    zipped: *mut *mut umbo_dataset,
) {
    zipped.write(make(Dataset::zip(&datasets, names.as_deref())?)?);
}

/// Puts datasets one after the other.
///
/// @param[in] count How many datasets there are, 1 or more.
/// @param[in] datasets Their elements have the same structure, dtypes and numbers of dimensions.
///   Sizes that differ are unknown in the element spec.
#[c_call(out(concatenated), handles(datasets, count))]
pub fn umbo_dataset_concatenate(
    count: i64,
    datasets: *const *mut umbo_dataset,
    concatenated: *mut *mut umbo_dataset,
) {
    concatenated.write(make(Dataset::concatenate(&datasets)?)?);
}

/// How elements are drawn from several datasets. Start from UMBO_SAMPLE_OPTIONS_INIT.
#[c_struct]
pub struct umbo_sample_options {
    /// The seed of the draws, which are the same on every machine.
    pub seed: u64,
    /// 1: all passes and repetitions draw alike. 0: each draws anew, also the passes of different
    /// iterators.
    pub keep_order_each_pass: i32,
    /// 1: a pass ends when a dataset is drawn that has ended, so that the weights hold to its end.
    /// 0: the other datasets continue, and the pass ends when all have ended.
    pub stop_on_empty: i32,
}

/// Mixes datasets: each element comes from one that is drawn at random.
///
/// @param[in] count How many datasets there are, 1 or more.
/// @param[in] datasets Each keeps its own order. Their elements have the same structure, dtypes and
///   numbers of dimensions. Sizes that differ are unknown in the element spec.
/// @param[in] weights A weight for each dataset, which is drawn in proportion to it: finite, 0 or
///   more, not all 0. A dataset of weight 0 is never drawn. `weights` may be NULL: all have the
///   same.
/// @param[in] options The seed, whether passes differ, and the end; `options` may be NULL.
///
/// A failure of the dataset that is drawn takes the place of its element. A saved position has the
/// draws of the pass, so that the same elements follow.
#[c_call(
    out(sampled),
    handles(datasets, count),
    optional_array(weights, count),
    options(options)
)]
pub fn umbo_dataset_sample(
    count: i64,
    datasets: *const *mut umbo_dataset,
    weights: *const f64,
    options: *const umbo_sample_options,
    sampled: *mut *mut umbo_dataset,
) {
    let options = SampleOptions {
        seed: options.seed,
        keep_order_each_pass: flag(options.keep_order_each_pass, "options.keep_order_each_pass")?,
        stop_on_empty: flag(options.stop_on_empty, "options.stop_on_empty")?,
    };
    sampled.write(make(Dataset::sample(&datasets, weights, &options)?)?);
}
