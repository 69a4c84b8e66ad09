//! Distribution of datasets over the replicas of a strategy.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use super::boundary::{boundary, constant, flag, out, quietly};
use super::callback;
use super::handle::{self, borrow, consume, get, make};
use super::object::{
    umbo_dataset, umbo_distributed_dataset, umbo_element_spec, umbo_iterator, umbo_strategy,
};
use super::options::{self, Extensible};
use super::scope::present;
use super::status::umbo_status;
use crate::error::{Error, Result};
use crate::input::{
    Dataset, DistributeOptions, InputContext, Replication, Splitting, distribute_dataset,
    distribute_datasets_from_function,
};

/// How the rows of batches are split.
pub type umbo_split = i32;

/// Each batch by itself: of r rows over n replicas each gets r / n, rounded up, as far as there are
/// any.
pub const UMBO_SPLIT_CEIL: umbo_split = 0;
/// All batches as one stream, from which replicas in turn get their share of a full batch: shares
/// of 9 over 4 replicas are 3, 2, 2 and 2. What is left over at the end goes to the first replicas.
/// Where the size of a full batch is not known, as UMBO_SPLIT_CEIL.
pub const UMBO_SPLIT_BALANCED: umbo_split = 1;

/// Which replicas an input pipeline serves.
pub type umbo_replication_mode = i32;

/// All replicas of a worker.
pub const UMBO_REPLICATION_PER_WORKER: umbo_replication_mode = 0;
/// One each. Not offered by this strategy.
pub const UMBO_REPLICATION_PER_REPLICA: umbo_replication_mode = 1;

/// As many steps ahead as the compute devices gain from.
pub const UMBO_BUFFER_OF_DEVICE: i64 = -1;

/// How a dataset is distributed. Start from UMBO_DISTRIBUTE_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_distribute_options {
    /// sizeof(umbo_distribute_options).
    pub struct_size: usize,
    /// How the rows of batches are split.
    pub split: umbo_split,
    /// 1: a last step for which the dataset runs out before every replica has its element or its
    /// share is left out. 0: it is completed with components without rows (zero, where elements are
    /// scalars). With UMBO_SPLIT_CEIL each batch is a whole step, so there is none to leave out.
    pub drop_partial_step: i32,
    /// 1: all components stay on CPU:0. 0: component k is on compute device k.
    pub host_only: i32,
    /// How many steps are made ahead, on a thread of the iterator's that starts with its first
    /// element. UMBO_BUFFER_OF_DEVICE, the default: as many as the devices gain from, which on CPUs
    /// is none, since components are views there (where making a batch takes time,
    /// umbo_dataset_prefetch() makes batches ahead). What is delivered never depends on it.
    pub per_replica_buffer_size: i64,
    /// Which replicas a pipeline serves.
    pub replication_mode: umbo_replication_mode,
    /// 1: the dataset itself is on the compute devices, for which replication must be per replica
    /// and `host_only` 1.
    pub place_dataset_on_device: i32,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_distribute_options {}

impl Default for umbo_distribute_options {
    fn default() -> Self {
        umbo_distribute_options {
            struct_size: size_of::<Self>(),
            split: UMBO_SPLIT_CEIL,
            drop_partial_step: 0,
            host_only: 0,
            per_replica_buffer_size: UMBO_BUFFER_OF_DEVICE,
            replication_mode: UMBO_REPLICATION_PER_WORKER,
            place_dataset_on_device: 0,
        }
    }
}

fn distribute_options(options: &umbo_distribute_options) -> Result<DistributeOptions> {
    let splitting = match options.split {
        UMBO_SPLIT_CEIL => Some(Splitting::Ceiling),
        UMBO_SPLIT_BALANCED => Some(Splitting::Balanced),
        _ => None,
    };
    let splitting = constant(
        options.split,
        splitting,
        "options.split",
        "UMBO_SPLIT_CEIL (0) and UMBO_SPLIT_BALANCED (1)",
    )?;
    let replication = match options.replication_mode {
        UMBO_REPLICATION_PER_WORKER => Some(Replication::PerWorker),
        UMBO_REPLICATION_PER_REPLICA => Some(Replication::PerReplica),
        _ => None,
    };
    let replication = constant(
        options.replication_mode,
        replication,
        "options.replication_mode",
        "UMBO_REPLICATION_PER_WORKER (0) and UMBO_REPLICATION_PER_REPLICA (1)",
    )?;
    let read_ahead = match options.per_replica_buffer_size {
        UMBO_BUFFER_OF_DEVICE => DistributeOptions::default().read_ahead,
        size => size,
    };
    Ok(DistributeOptions {
        splitting,
        drop_partial_step: flag(options.drop_partial_step, "options.drop_partial_step")?,
        keep_on_host: flag(options.host_only, "options.host_only")?,
        read_ahead,
        replication,
        place_dataset_on_device: flag(
            options.place_dataset_on_device,
            "options.place_dataset_on_device",
        )?,
    })
}

/// Splits each element of a dataset, which is a global batch, along dimension 0 over the replicas of
/// a strategy. `options` may be NULL.
///
/// With one replica elements stay as they are. With n, each tensor becomes a per-replica value of
/// which component k has rows [k * c, (k + 1) * c), c being the number of rows over n, rounded up:
/// 9 rows over 4 replicas are 3, 3, 3 and 0. Nothing is copied. The elements know how many examples
/// each replica has, which umbo_gradients_submit() uses.
///
/// Component k is on compute device k, without a copy: CPUs share their memory.
///
/// INVALID_ARGUMENT: with several replicas, elements that contain a scalar (batch them first);
/// options that contradict each other. UNIMPLEMENTED: replication per replica.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_distribute_dataset(
    strategy: *mut umbo_strategy,
    dataset: *const umbo_dataset,
    options: *const umbo_distribute_options,
    distributed: *mut *mut umbo_distributed_dataset,
) -> umbo_status {
    boundary("umbo_strategy_distribute_dataset", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let distributed = unsafe { out(distributed, "distributed") }?;
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options = distribute_options(&unsafe { options::read(options, "options") }?)?;
        let (strategy, dataset) = (get(strategy, "strategy")?, get(dataset, "dataset")?);
        let object = distribute_dataset(&strategy, &dataset, &options)?;
        distributed.write(make(Arc::new(object))?);
        Ok(())
    })
}

/// What a function that makes a dataset is told about the pipeline it makes it for.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_input_context {
    /// sizeof(umbo_input_context).
    pub struct_size: usize,
    /// How many input pipelines there are.
    pub num_input_pipelines: i64,
    /// Which of them this is.
    pub input_pipeline_id: i32,
    /// The replicas of all pipelines together.
    pub num_replicas_in_sync: i64,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_input_context {}

impl Default for umbo_input_context {
    fn default() -> Self {
        umbo_input_context {
            struct_size: size_of::<Self>(),
            num_input_pipelines: 0,
            input_pipeline_id: 0,
            num_replicas_in_sync: 0,
        }
    }
}

/// Makes the dataset of an input pipeline. `context` is borrowed for the call. `*dataset` is NULL on
/// entry; the dataset that is stored there is taken over by the library.
pub type umbo_dataset_fn = Option<
    unsafe extern "C-unwind" fn(
        context: *const umbo_input_context,
        user_data: *mut c_void,
        dataset: *mut *mut umbo_dataset,
    ) -> umbo_status,
>;

/// Calls `function` once, before it returns, on this thread, to make a dataset, and gives each
/// replica whole elements of it: with n replicas, replica k gets element s * n + k in step s. There
/// is one pipeline for all replicas. `options` may be NULL.
///
/// The dataset is batched for one replica (umbo_input_context_per_replica_batch_size()); nothing is
/// split, and elements may be scalars. If the number of elements is not a multiple of n, the last
/// step is completed with components without rows (zero, for scalars), or left out if the options
/// say so. With one replica elements stay as they are.
///
/// Fails as the function fails. INVALID_ARGUMENT: no dataset stored, options that contradict each
/// other. UNIMPLEMENTED: replication per replica.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_distribute_datasets_from_function(
    strategy: *mut umbo_strategy,
    function: umbo_dataset_fn,
    user_data: *mut c_void,
    options: *const umbo_distribute_options,
    distributed: *mut *mut umbo_distributed_dataset,
) -> umbo_status {
    boundary("umbo_strategy_distribute_datasets_from_function", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let distributed = unsafe { out(distributed, "distributed") }?;
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options = distribute_options(&unsafe { options::read(options, "options") }?)?;
        let (strategy, function) = (get(strategy, "strategy")?, present(function, "function")?);
        let call = |context: &InputContext| -> Result<Dataset> {
            let context = umbo_input_context {
                struct_size: size_of::<umbo_input_context>(),
                num_input_pipelines: context.num_input_pipelines,
                input_pipeline_id: context.input_pipeline_id,
                num_replicas_in_sync: context.num_replicas_in_sync,
            };
            let mut dataset = ptr::null_mut();
            let ran = callback::run(|| {
                // SAFETY: the caller gives a function of this type and its user data.
                unsafe { function(&raw const context, user_data, &raw mut dataset) }
            });
            // Taken over whatever the status.
            let dataset = match dataset.is_null() {
                true => Err(Error::invalid(
                    "dataset",
                    "the function has stored none; it stores a dataset for each pipeline",
                )),
                false => consume(dataset, "dataset"),
            };
            ran?;
            dataset
        };
        let object = distribute_datasets_from_function(&strategy, call, &options)?;
        distributed.write(make(Arc::new(object))?);
        Ok(())
    })
}

/// The structure of the steps, which the caller releases: per-replica values where the dataset's
/// elements have tensors, with one replica the tensors themselves. The number of rows is known only
/// if it is the same in all steps.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_distributed_dataset_element_spec(
    distributed: *const umbo_distributed_dataset,
    spec: *mut *mut umbo_element_spec,
) -> umbo_status {
    boundary("umbo_distributed_dataset_element_spec", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let spec = unsafe { out(spec, "spec") }?;
        spec.write(make(Arc::new(get(distributed, "distributed")?.element_spec().clone()))?);
        Ok(())
    })
}

/// How many steps a pass yields; -1: it never ends, -2: only iterating tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_distributed_dataset_cardinality(
    distributed: *const umbo_distributed_dataset,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_distributed_dataset_cardinality", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        let cardinality = borrow(distributed, "distributed", |dataset| dataset.cardinality())?;
        count.write(cardinality.code());
        Ok(())
    })
}

/// An iterator at the beginning of a pass, independent of all others. It keeps what it needs of the
/// distributed dataset, which may be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_iterator_from_distributed_dataset(
    distributed: *const umbo_distributed_dataset,
    iterator: *mut *mut umbo_iterator,
) -> umbo_status {
    boundary("umbo_iterator_from_distributed_dataset", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let iterator = unsafe { out(iterator, "iterator") }?;
        let object = Arc::new(get(distributed, "distributed")?.unannounced_iterator()?);
        iterator.write(make(Arc::clone(&object))?);
        object.announce();
        Ok(())
    })
}

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_distributed_dataset_retain(
    distributed: *const umbo_distributed_dataset,
    retained: *mut *mut umbo_distributed_dataset,
) -> umbo_status {
    boundary("umbo_distributed_dataset_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(distributed, "distributed", retained) }
    })
}

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_distributed_dataset_release(
    distributed: *const umbo_distributed_dataset,
) {
    quietly("umbo_distributed_dataset_release", || handle::release(distributed, "distributed"));
}
