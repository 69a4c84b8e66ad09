//! The facts that the caller's function learns about the pipeline for which it makes a dataset.

use umbo_base::error::{Error, Result};

/// The position of an input pipeline among those of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputContext {
    /// The number of input pipelines.
    pub num_input_pipelines: i64,
    /// The index of this pipeline.
    pub input_pipeline_id: i32,
    /// The number of replicas of all pipelines together.
    pub num_replicas_in_sync: i64,
}

impl InputContext {
    /// The number of elements in a replica's batch if all replicas together have
    /// `global_batch_size`.
    ///
    /// INVALID_ARGUMENT: a negative size, one that the number of replicas does not divide, a
    /// context without replicas.
    pub fn per_replica_batch_size(&self, global_batch_size: i64) -> Result<i64> {
        let replicas = self.num_replicas_in_sync;
        if replicas < 1 {
            let problem = format!("{replicas}; must be 1 or more");
            return Err(Error::invalid("replica_count", problem));
        }
        if global_batch_size < 0 || global_batch_size % replicas != 0 {
            return Err(invalid!(
                "global_batch_size",
                "{global_batch_size} is not a multiple of {replicas}, the number of replicas"
            ));
        }
        Ok(global_batch_size / replicas)
    }
}
