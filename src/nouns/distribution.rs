//! Distribution of datasets over the replicas of a strategy.

use crate::machinery::prelude::*;
use umbo_core::input::{DistributeOptions, Sharding, Splitting, distribute_dataset};

/// How the rows of batches are split over the replicas.
pub type umbo_split = i32;

/// Each batch by itself: of r rows each of n replicas gets r / n, rounded up, until none are left.
/// 9 rows over 4 replicas are 3, 3, 3 and 0.
pub const UMBO_SPLIT_CEIL: umbo_split = 0;
/// Each batch by itself: each replica gets its share of a full batch, of 9 rows over 4 replicas 3,
/// 2, 2 and 2. Of a smaller batch each gets the same rows, as far as they exist: of a last batch of
/// 6 in batches of 8, 2 replicas get 4 and
/// 2. If nobody knows the size of a full batch, each batch is a full one.
pub const UMBO_SPLIT_BALANCED: umbo_split = 1201;

/// The rows of batches that each rank gets.
pub type umbo_sharding = i32;

/// All ranks make the same batches, and each takes its own rows of them. When a run begins the
/// ranks compare what they have read: operations, seeds, iterators, resets, which element it is
/// and how many rows it has; in the first steps of a pass also a sample of the rows
/// (`compared_steps`). What differs is UMBO_STATUS_FAILED_PRECONDITION of umbo_strategy_run() on
/// all ranks, with its values in the message; so is a pass that ends earlier on one rank, of
/// umbo_train_epoch().
pub const UMBO_SHARDING_DATA: umbo_sharding = 0;
/// Each rank's dataset is its own, and nothing is compared. The ranks synchronise for each element
/// and continue until none has any more; one that has none gets parts without rows. With
/// `drop_partial_step` all end with the first.
pub const UMBO_SHARDING_OFF: umbo_sharding = 1301;
/// All ranks have the same dataset of umbo_dataset_from_files(), and each reads its own files: file
/// i is that of rank i mod the number of ranks. The rows of a rank's files are one stream, of which
/// its replicas take in turn what UMBO_SPLIT_BALANCED would give them of a full batch over all
/// ranks. The ranks continue as with UMBO_SHARDING_OFF.
///
/// umbo_strategy_distribute_dataset() returns UMBO_STATUS_INVALID_ARGUMENT if there are fewer files
/// than ranks, other sources, batches with fewer rows than replicas or an unknown number, or a
/// take, skip, shard or zip after the files.
pub const UMBO_SHARDING_FILE: umbo_sharding = 1302;
/// UMBO_SHARDING_FILE where possible, else UMBO_SHARDING_DATA; the reason is logged at INFO.
pub const UMBO_SHARDING_AUTO: umbo_sharding = 1303;

constants! { Splitting { UMBO_SPLIT_CEIL = Ceiling, UMBO_SPLIT_BALANCED = Balanced } }
constants! { Sharding {
    UMBO_SHARDING_DATA = Data, UMBO_SHARDING_OFF = Off, UMBO_SHARDING_FILE = File,
    UMBO_SHARDING_AUTO = Auto,
} }

/// How a dataset is distributed. Start from UMBO_DISTRIBUTE_OPTIONS_INIT.
#[c_struct(prefetch_count = UMBO_AUTO, compared_steps = UMBO_AUTO)]
pub struct umbo_distribute_options {
    /// How batches are split.
    pub split: umbo_split,
    /// 1: steps without a whole share for every replica are left out; with UMBO_SPLIT_BALANCED
    /// these are all batches that are smaller than a full one, for any number of replicas. 0: they
    /// come with the rows there are; missing components have no rows, or are 0 where elements are
    /// scalars. With UMBO_SPLIT_CEIL, or without a known size of a full batch, each batch is a
    /// whole step.
    pub drop_partial_step: i32,
    /// 1: all components stay on CPU:0. 0: component k is on compute device k.
    pub host_only: i32,
    /// How many steps a thread of the iterator makes ahead, 0 to 4096. UMBO_AUTO, the default, is 0
    /// for CPUs.
    pub prefetch_count: i64,
    /// The rows that each rank gets. UMBO_SHARDING_FILE is refused where it is impossible, also
    /// without other ranks.
    pub sharding: umbo_sharding,
    /// UMBO_SHARDING_DATA: in how many steps of each pass, from its first on, the ranks also
    /// compare the checksum of a sample of the batch: at most 32 rows of each tensor, 256 bytes of
    /// each. UMBO_AUTO, the default: 16, but 0 if the dataset has a map or comes from
    /// umbo_dataset_from_files(), whose functions may draw random numbers on each rank. 0: never.
    pub compared_steps: i64,
}

pub(crate) fn distribute_options(options: &umbo_distribute_options) -> Result<DistributeOptions> {
    let read_ahead = least_unless(
        options.prefetch_count,
        0,
        UMBO_AUTO,
        "options.prefetch_count",
    )?;
    let compared_steps = least_unless(
        options.compared_steps,
        0,
        UMBO_AUTO,
        "options.compared_steps",
    )?;
    Ok(DistributeOptions {
        splitting: constant(options.split, "options.split")?,
        drop_partial_step: flag(options.drop_partial_step, "options.drop_partial_step")?,
        keep_on_host: flag(options.host_only, "options.host_only")?,
        read_ahead,
        sharding: constant(options.sharding, "options.sharding")?,
        compared_steps: compared_steps.map(|steps| steps as u64),
    })
}

/// Splits global batches over the replicas of all ranks.
///
/// @param[in] dataset Each of its elements is a global batch.
/// @param[in] options `options` may be NULL.
///
/// With one replica elements stay as they are. With several, each tensor becomes a per-replica
/// value with a component for each replica of this rank; elements must not contain scalars. The
/// elements know how many examples each replica has; umbo_gradients_submit() uses these numbers.
/// Tensors with different numbers of rows, such as labelled and unlabelled examples, are split each
/// by its own number, and the examples are those of the first one.
/// Which batches come, and a position in them, does not depend on the number of replicas. On CPUs
/// components are views of the batch.
///
/// Slices of arrays that are not batched, elements that are batched twice, and batches that were
/// shuffled where the elements in them were not, are rarely meant: the log gets a warning, once for
/// each dataset; with a strict strategy they are UMBO_STATUS_INVALID_ARGUMENT.
/// umbo_dataset_rebatch() makes batches of another size, or of slices that are batches.
///
/// All ranks give the same dataset, shuffled with the same seed, unless `sharding` says otherwise.
#[c_call(out(distributed), options(options), get(strategy), get(dataset))]
pub fn umbo_strategy_distribute_dataset(
    strategy: *mut umbo_strategy,
    dataset: *const umbo_dataset,
    options: *const umbo_distribute_options,
    distributed: *mut *mut umbo_distributed_dataset,
) {
    let object = distribute_dataset(&strategy, &dataset, &distribute_options(&options)?)?;
    distributed.write(make(Arc::new(object))?);
}

/// Gets a new handle to the spec of the elements. With several replicas each tensor is a
/// per-replica value.
#[c_call(out(spec), get(distributed))]
pub fn umbo_distributed_dataset_element_spec(
    distributed: *const umbo_distributed_dataset,
    spec: *mut *mut umbo_element_spec,
) {
    spec.write(make(Arc::new(distributed.element_spec().clone()))?);
}

/// Counts the steps of a pass.
///
/// @param[out] count The number, UMBO_INFINITE or UMBO_CARDINALITY_UNKNOWN.
#[c_call(out(count), borrow(distributed))]
pub fn umbo_distributed_dataset_cardinality(
    distributed: *const umbo_distributed_dataset,
    count: *mut i64,
) {
    count.write(cardinality_for_c(distributed.cardinality()));
}

/// Makes an iterator at the beginning of a pass.
#[c_call(out(iterator), get(distributed))]
pub fn umbo_iterator_from_distributed_dataset(
    distributed: *const umbo_distributed_dataset,
    iterator: *mut *mut umbo_iterator,
) {
    iterator.write(make(Arc::new(distributed.iterator()?))?);
}
