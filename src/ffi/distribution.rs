//! Distribution of datasets over the replicas of a strategy.

use super::prelude::*;
use crate::input::{
    Dataset, DistributeOptions, InputContext, Replication, Sharding, Splitting, distribute_dataset,
    distribute_datasets_from_function,
};

/// How the rows of batches are split over the replicas.
pub type umbo_split = i32;

/// Each batch is split by itself. With r rows and n replicas, each replica gets r / n rows, rounded
/// up, until none are left: 9 rows over 4 replicas are 3, 3, 3 and 0.
pub const UMBO_SPLIT_CEIL: umbo_split = 0;
/// The rows of all batches are one stream. In turn each replica takes its share of a full batch
/// from it: the shares of 9 rows over 4 replicas are 3, 2, 2 and 2. At the end the first replicas
/// get what is left. If the size of a full batch is not known, this is UMBO_SPLIT_CEIL.
pub const UMBO_SPLIT_BALANCED: umbo_split = 1;

/// Which replicas an input pipeline serves.
pub type umbo_replication_mode = i32;

/// One pipeline serves all replicas of a worker.
pub const UMBO_REPLICATION_PER_WORKER: umbo_replication_mode = 0;
/// Each replica has a pipeline. This strategy does not offer it.
pub const UMBO_REPLICATION_PER_REPLICA: umbo_replication_mode = 1;

/// Which rows of batches each rank gets, where a strategy is spread over several.
pub type umbo_sharding = i32;

/// The datasets of all ranks are the same, and each batch is split over the replicas of all ranks. Each
/// rank makes all batches and takes its own rows: no example is lost or comes twice, and all ranks make
/// the same number of steps. The ranks compare what they read when a run begins: operations with their counts
/// and seeds, iterators and resets before, the number of the element in its pass, and the rows of its batch.
/// What differs is UMBO_STATUS_FAILED_PRECONDITION of umbo_strategy_run(), on all ranks, and the message names the rank,
/// the quantity and its values.
pub const UMBO_SHARDING_DATA: umbo_sharding = 0;
/// Each rank's dataset is its own, and its batches are split over the rank's replicas. The ranks meet
/// for each element. All go on until none has any more; one that has none meanwhile gets parts without
/// rows. With `drop_partial_step` all end when one has none. Nothing that the ranks read is compared.
pub const UMBO_SHARDING_OFF: umbo_sharding = 1;
/// The datasets of all ranks are the same, made by umbo_dataset_from_files(), and each rank reads files of its
/// own: file i belongs to rank i mod the number of ranks. A rank's replicas get their shares of a
/// batch from the rows of its own files, the shares of UMBO_SPLIT_BALANCED over the replicas of all ranks. No
/// example is lost or comes twice. The ranks go on as with UMBO_SHARDING_OFF.
///
/// umbo_strategy_distribute_dataset() returns UMBO_STATUS_INVALID_ARGUMENT where that cannot be: there are
/// fewer files than ranks, or other sources than files; batches have fewer rows than there are replicas, or
/// nobody knows how many; behind the files comes a transformation that needs all elements:
/// umbo_dataset_take(), umbo_dataset_skip(), umbo_dataset_shard(), umbo_dataset_zip(). All others work on what
/// the rank reads: a remainder that is dropped is one of each rank.
pub const UMBO_SHARDING_FILE: umbo_sharding = 2;
/// UMBO_SHARDING_FILE where that can be, else UMBO_SHARDING_DATA. If a dataset of files is split by
/// data, the log says why, as information.
pub const UMBO_SHARDING_AUTO: umbo_sharding = 3;

/// How a dataset is distributed. Start from UMBO_DISTRIBUTE_OPTIONS_INIT.
#[c_struct(per_replica_buffer_size = UMBO_AUTO)]
#[repr(C)]
pub struct umbo_distribute_options {
    /// `sizeof(umbo_distribute_options)`; UMBO_DISTRIBUTE_OPTIONS_INIT sets it.
    pub struct_size: usize,
    /// How the rows of batches are split.
    pub split: umbo_split,
    /// What happens if the dataset ends before every replica has its element, or its whole share of a
    /// full batch, of the last step. 1: the step is left out, with the rows that it has. 0: it is
    /// delivered: replicas get the rows that there are, and missing components have no rows, or are zero
    /// where elements are scalars. With UMBO_SPLIT_CEIL each batch is a whole step, and none is left out.
    pub drop_partial_step: i32,
    /// 1: all components stay on CPU:0. 0: component k is on compute device k.
    pub host_only: i32,
    /// How many steps are made ahead, 0 to 4096. A thread of the iterator's makes them; it starts
    /// when the first element is asked for. UMBO_AUTO, the default, is 0 for CPUs,
    /// where components are views. If making a batch takes time, umbo_dataset_prefetch() makes
    /// batches ahead. The elements do not depend on this number.
    pub per_replica_buffer_size: i64,
    /// Which replicas a pipeline serves.
    pub replication_mode: umbo_replication_mode,
    /// 1: the dataset itself is on the compute devices. This needs UMBO_REPLICATION_PER_REPLICA and
    /// `host_only` 1. 0: it is not.
    pub place_dataset_on_device: i32,
    /// Which rows each rank gets. Without other ranks it makes no difference, except that
    /// UMBO_SHARDING_FILE is refused where it could not be with any number of ranks.
    pub sharding: umbo_sharding,
}

fn distribute_options(options: &umbo_distribute_options) -> Result<DistributeOptions> {
    let splitting = one_of!(options.split, "options.split", {
        UMBO_SPLIT_CEIL => Splitting::Ceiling,
        UMBO_SPLIT_BALANCED => Splitting::Balanced,
    })?;
    let replication = one_of!(options.replication_mode, "options.replication_mode", {
        UMBO_REPLICATION_PER_WORKER => Replication::PerWorker,
        UMBO_REPLICATION_PER_REPLICA => Replication::PerReplica,
    })?;
    let sharding = one_of!(options.sharding, "options.sharding", {
        UMBO_SHARDING_DATA => Sharding::Data,
        UMBO_SHARDING_OFF => Sharding::Off,
        UMBO_SHARDING_FILE => Sharding::File,
        UMBO_SHARDING_AUTO => Sharding::Auto,
    })?;
    let read_ahead = match options.per_replica_buffer_size {
        UMBO_AUTO => None,
        size => Some(size),
    };
    Ok(DistributeOptions {
        splitting,
        drop_partial_step: flag(options.drop_partial_step, "options.drop_partial_step")?,
        keep_on_host: flag(options.host_only, "options.host_only")?,
        read_ahead,
        replication,
        sharding,
        place_dataset_on_device: flag(
            options.place_dataset_on_device,
            "options.place_dataset_on_device",
        )?,
    })
}

/// Splits global batches over the replicas.
///
/// @param[in] strategy The strategy whose replicas get the parts.
/// @param[in] dataset The dataset. Each of its elements is a global batch. The caller may release
///   it.
/// @param[in] options How batches are split, and where the parts are. `options` may be NULL: the
///   defaults.
/// @param[out] distributed The new distributed dataset. Release it with
///   umbo_distributed_dataset_release().
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: elements contain a scalar and there are several replicas (batch
///   them first), options are wrong or contradict each other, the files cannot be dealt out to the ranks
///   (UMBO_SHARDING_FILE), or a handle is not valid.
/// - UMBO_STATUS_UNIMPLEMENTED: the options ask for UMBO_REPLICATION_PER_REPLICA.
///
/// With one replica, elements stay as they are; but where UMBO_SPLIT_BALANCED is to leave out a last step,
/// the rows are cut into full batches. With n replicas, each tensor becomes a per-replica value. By default its component k has rows [k * c, (k + 1) * c), where c is the number of rows
/// over n, rounded up: 9 rows over 4 replicas are 3, 3, 3 and 0. The elements know how many
/// examples each replica has; umbo_gradients_submit() uses these numbers.
///
/// Component k is on compute device k. By default nothing is copied: components are views of the
/// batch, since CPUs share their memory. UMBO_SPLIT_BALANCED copies where a share has rows of
/// several batches.
///
/// If the elements are slices of arrays, and no transformation batches them, each slice is split as if
/// its rows were examples. That is rarely meant, so the log gets a warning, once for each dataset: batch
/// the dataset before distributing it, or, if the slices are batches, umbo_dataset_rebatch() it to their
/// size. It also gets one of elements that were batched twice; umbo_dataset_rebatch() makes batches of
/// another size. To a strict strategy both are UMBO_STATUS_INVALID_ARGUMENT. What a mapped function or a
/// generator gives is taken for what it is.
///
/// With several ranks n is the number of all their replicas, and the elements have the components of this
/// rank's, which may be one: then they are plain tensors. All ranks give the same dataset, shuffled with
/// the same seed; `sharding` can say otherwise.
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

/// What a function that makes a dataset is told about its input pipeline.
#[c_struct]
#[repr(C)]
pub struct umbo_input_context {
    /// `sizeof(umbo_input_context)`.
    pub struct_size: usize,
    /// How many input pipelines there are.
    pub num_input_pipelines: i64,
    /// Which of them this is, from 0 on.
    pub input_pipeline_id: i32,
    /// How many replicas all pipelines serve together.
    pub num_replicas_in_sync: i64,
}

/// Makes the dataset of an input pipeline.
///
/// @param[in] context What the pipeline is for. It is valid until the function returns.
/// @param[in] user_data What was given to umbo_strategy_distribute_datasets_from_function().
/// @param[out] dataset The dataset, which the library takes over. It is NULL when the function is
///   called, and must be set.
/// @return UMBO_OK, or why it fails.
pub type umbo_dataset_fn = Option<
    unsafe extern "C-unwind" fn(
        context: *const umbo_input_context,
        user_data: *mut c_void,
        dataset: *mut *mut umbo_dataset,
    ) -> umbo_status,
>;

/// Gives each replica whole elements.
///
/// @param[in] strategy The strategy whose replicas get the elements.
/// @param[in] function Makes the dataset. It is called once, on this thread, before this function
///   returns. There is one pipeline for all replicas of a rank.
/// @param[in] user_data What `function` is given. The library does not use it afterwards.
/// @param[in] options What happens in a last step that is not complete, and where elements are.
///   `options` may be NULL: the defaults.
/// @param[out] distributed The new distributed dataset. Release it with
///   umbo_distributed_dataset_release().
/// @return UMBO_OK, the status with which `function` fails, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `function` has stored no dataset or is a null pointer, options
///   are wrong or contradict each other, or a handle is not valid.
/// - UMBO_STATUS_UNIMPLEMENTED: the options ask for UMBO_REPLICATION_PER_REPLICA.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is no memory or no handle left.
///
/// With n replicas, replica k gets element s * n + k in step s. Nothing is split. An element is the
/// batch of one replica (umbo_input_context_per_replica_batch_size() gives its size), or a scalar.
/// If the number of elements is not a multiple of n, the missing components of the last step have
/// no rows, or are zero where elements are scalars; or the options leave the step out. With one
/// replica, elements stay as they are.
///
/// With several ranks each makes a dataset of its own, for its own replicas: the context says which
/// pipeline of how many it is, so that `function` can choose files. The ranks meet for each element and go
/// on as UMBO_SHARDING_OFF says, whatever the options say about sharding.
#[c_call(out(distributed), options(options), get(strategy), present(function))]
pub fn umbo_strategy_distribute_datasets_from_function(
    strategy: *mut umbo_strategy,
    function: umbo_dataset_fn,
    user_data: *mut c_void,
    options: *const umbo_distribute_options,
    distributed: *mut *mut umbo_distributed_dataset,
) {
    let options = distribute_options(&options)?;
    let call = |context: &InputContext| -> Result<Dataset> {
        let context = umbo_input_context {
            struct_size: size_of::<umbo_input_context>(),
            num_input_pipelines: context.num_input_pipelines,
            input_pipeline_id: context.input_pipeline_id,
            num_replicas_in_sync: context.num_replicas_in_sync,
        };
        let dataset = stored("dataset", |dataset| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { function(&raw const context, user_data, dataset) }
        })?;
        dataset.ok_or_else(|| {
            let problem = "the function has stored none; it stores a dataset for each pipeline";
            Error::invalid("dataset", problem)
        })
    };
    let object = distribute_datasets_from_function(&strategy, call, &options)?;
    distributed.write(make(Arc::new(object))?);
}

/// Gives the structure, dtypes and shapes of the steps.
///
/// @param[out] spec The spec: a per-replica value where the dataset's elements have a tensor; with
///   one replica a tensor. Release it with umbo_element_spec_release().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `distributed` is not a valid handle, or `spec` is a null
///   pointer.
///
/// The number of rows is known only if it is the same in all steps.
#[c_call(out(spec), get(distributed))]
pub fn umbo_distributed_dataset_element_spec(
    distributed: *const umbo_distributed_dataset,
    spec: *mut *mut umbo_element_spec,
) {
    spec.write(make(Arc::new(distributed.element_spec().clone()))?);
}

/// Tells how many steps a pass yields.
///
/// @param[out] count The number of steps, UMBO_INFINITE (-1) or
///   UMBO_CARDINALITY_UNKNOWN (-2).
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `distributed` is not a valid handle, or `count` is a
///   null pointer.
///
/// With UMBO_SPLIT_BALANCED it follows from the number of rows. Where that is not known, as behind
/// umbo_dataset_repeat() or umbo_dataset_skip(), the number of steps may be unknown.
#[c_call(out(count), borrow(distributed))]
pub fn umbo_distributed_dataset_cardinality(
    distributed: *const umbo_distributed_dataset,
    count: *mut i64,
) {
    count.write(distributed.cardinality().code());
}

/// Makes an iterator at the beginning of a pass.
///
/// @param[in] distributed The distributed dataset. The iterator keeps what it needs of it; the
///   caller may release it.
/// @param[out] iterator The new iterator, independent of all others. Release it with
///   umbo_iterator_release().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `distributed` is not a valid handle, or `iterator` is a
///   null pointer.
#[c_call(out(iterator), get(distributed))]
pub fn umbo_iterator_from_distributed_dataset(
    distributed: *const umbo_distributed_dataset,
    iterator: *mut *mut umbo_iterator,
) {
    iterator.write(make(Arc::new(distributed.iterator()?))?);
}
