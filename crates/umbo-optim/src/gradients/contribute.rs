//! How a replica's callback contributes: through its context, which knows the replica and the step.

use std::sync::Arc;

use crate::gradients::rows::AddedRows;
use crate::gradients::{GradientMode, Gradients};
use umbo_base::error::{Error, Result};
use umbo_strategy::ReplicaContext;
use umbo_tensor::Tensor;

impl Gradients {
    /// [`Gradients::view`] of the buffer of the context's replica, in its step.
    ///
    /// Fails also if the context is of another strategy, or of no run, and with CANCELLED if the
    /// run has returned without this replica. Allocates nothing and writes no memory that
    /// replicas share, except for the first call of a step.
    pub fn view_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        index: usize,
        mode: GradientMode,
    ) -> Result<&Tensor> {
        let (replica, step) = self.join_current_step(context)?;
        self.view(replica, step, index, mode)
    }

    /// [`Gradients::add_rows`] for the context's replica, in its step. Fails also as
    /// [`Gradients::view_in`] does.
    pub fn add_rows_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        index: usize,
        rows: usize,
    ) -> Result<AddedRows> {
        let (replica, step) = self.join_current_step(context)?;
        self.add_rows(replica, step, index, rows)
    }

    /// [`Gradients::submit`] for the context's replica, in its step. With no weight it is the
    /// number of examples that the replica's part of the run's arguments holds; a failed
    /// precondition if they do not say. Fails also as [`Gradients::view_in`] does.
    pub fn submit_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        weight: Option<f64>,
    ) -> Result<()> {
        let (replica, step) = self.join_current_step(context)?;
        let weight = match weight {
            Some(weight) => weight,
            None => context.local_examples("submit with a weight")? as f64,
        };
        self.submit(replica, step, weight)
    }

    /// Makes the gradients take part in the outcome of the context's step. Returns the replica and
    /// the step, for functions that write.
    pub fn join_current_step(self: &Arc<Self>, context: &ReplicaContext) -> Result<(usize, u64)> {
        context.check_live()?;
        if context.strategy().id() != self.strategy() {
            return Err(Error::precondition(format!(
                "gradients: mixing different strategies: the gradients were made for a different \
                 one than the one that runs here (of {} replicas); make gradients for each \
                 strategy",
                context.strategy().num_replicas()
            )));
        }
        let step = context.step_id();
        if step == 0 {
            return Err(Error::precondition(
                "ctx: the default context is in no run; replicas write gradients inside of a run",
            ));
        }
        self.step.record_shown(step, context.step_number());
        // A thread that sees that the gradients take part may write, since the step's outcome
        // includes them.
        if !self.takes_part_in(step) {
            self.check_applied()?;
            context.strategy().join_step(step, self)?;
            // Gradients that were lent to earlier steps are replaced.
            self.release_lent();
        }
        self.watch_strictly(context)?;
        Ok((context.replica(), step))
    }
}
