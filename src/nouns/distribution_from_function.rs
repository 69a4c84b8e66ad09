//! Datasets that a function makes for each rank.

use super::distribution::{distribute_options, umbo_distribute_options};
use crate::machinery::prelude::*;
use umbo_core::input::{Dataset, InputContext, distribute_datasets_from_function};

/// The input pipeline for which a function makes a dataset.
#[c_struct]
pub struct umbo_input_context {
    /// The number of pipelines: one for each rank.
    pub pipeline_count: i64,
    /// The number of this one, from 0.
    pub pipeline_index: i32,
    /// The number of replicas that all pipelines serve together.
    pub replica_count: i64,
}

/// Makes the dataset of an input pipeline.
///
/// @param[in] context Valid for the call.
/// @param[out] dataset The dataset, which the library takes over. It is NULL before, and must be
///   set.
/// @return UMBO_OK, or why it failed.
pub type umbo_dataset_fn = Option<
    unsafe extern "C-unwind" fn(
        context: *const umbo_input_context,
        user_data: *mut c_void,
        dataset: *mut *mut umbo_dataset,
    ) -> umbo_status,
>;

/// Gives each replica whole elements.
///
/// @param[in] function Makes the dataset of this rank. It is called once, before this function
///   returns.
/// @param[in] options `options` may be NULL. `sharding` is UMBO_SHARDING_OFF, whatever they say.
/// @return UMBO_OK, or the status of `function`.
///
/// With n replicas, replica k gets element s * n + k in step s: the batch of one replica, or a
/// scalar. With one replica, elements stay as they are. A last step that is not whole is as
/// `drop_partial_step` says.
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
            struct_size: struct_size::<umbo_input_context>(),
            pipeline_count: context.num_input_pipelines,
            pipeline_index: context.input_pipeline_id,
            replica_count: context.num_replicas_in_sync,
        };
        let missing = "the function has stored none; it stores a dataset for each pipeline";
        must_store("dataset", missing, |dataset| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { function(&raw const context, user_data, dataset) }
        })
    };
    let object = distribute_datasets_from_function(&strategy, call, &options)?;
    distributed.write(make(Arc::new(object))?);
}
