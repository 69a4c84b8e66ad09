//! Inspection of a step's contributions, after which the step leaves no trace.
//!
//! The inspection happens inside the step: [`Gradients::remember`] and [`Gradients::prefill`]
//! before the replicas' callbacks, [`Gradients::contributed`] after them, [`Gradients::restore`]
//! once the step is abandoned. So no other step sees anything of it.

#![expect(
    unsafe_code,
    reason = "replicas' buffers are written when no replica is at them"
)]

use std::sync::atomic::Ordering;

use crate::gradients::Gradients;
use crate::gradients::guard::Guard;
use crate::gradients::replica::{DenseBuffer, GradientBuffer};
use crate::gradients::rows::AddedRows;
use crate::gradients::step_state::StepBefore;
use umbo_base::error::Result;
use umbo_tensor::Tensor;

/// The state of gradients before a step that is to leave no trace in them.
pub struct Before(StepBefore);

/// The gradient that one replica wrote for one variable.
pub enum WrittenGradient {
    /// All of its elements.
    Dense(Tensor),
    /// Indices and elements of rows, in the order in which they were added. A row that occurs
    /// several times counts as the sum.
    Rows(Vec<AddedRows>),
}

/// The contribution of one replica in one step.
pub struct ReplicaContribution {
    /// The weight with which it submitted, if it did.
    pub weight: Option<f64>,
    /// The gradient that it wrote for each variable, if it did.
    pub written: Vec<Option<WrittenGradient>>,
}

impl Gradients {
    /// Notes what [`Gradients::restore`] needs to restore the present state. Call it before any
    /// replica uses the gradients in its step. FAILED_PRECONDITION if contributions wait for an
    /// apply: replicas would overwrite them. Those that an apply has refused, and those of
    /// weight 0, are dropped.
    pub fn remember(&self) -> Result<Before> {
        self.check_applied()?;
        Ok(Before(self.step.set_aside()))
    }

    /// Sets all elements of `replica`'s buffers to `value`, before its callback begins. (Rows have
    /// no buffers: they are made on request.)
    pub fn prefill(&self, replica: usize, value: f64) -> Result<()> {
        let Some(state) = self.replicas.get(replica) else {
            return Ok(());
        };
        state.is_trial.store(true, Ordering::Release);
        for buffer in &state.buffers {
            if let GradientBuffer::Dense(DenseBuffer { tensor, guard, .. }) = buffer {
                // SAFETY: the replica, whose buffer it is, has not begun.
                unsafe { tensor.assume_exclusive() }.fill(value)?;
                guard.iter().for_each(Guard::is_in_use);
            }
        }
        Ok(())
    }

    /// The contribution of `replica` in `step`.
    pub fn contributed(&self, step: u64, replica: usize) -> ReplicaContribution {
        let Some(state) = self.replicas.get(replica) else {
            return ReplicaContribution {
                weight: None,
                written: Vec::new(),
            };
        };
        let submitted = state.submitted.load(Ordering::Acquire) == step;
        let buffers = state.buffers.iter().enumerate();
        ReplicaContribution {
            weight: submitted.then(|| state.weight()),
            written: buffers
                .map(|(index, buffer)| {
                    state
                        .viewed
                        .in_step(index, step)
                        .then(|| written(buffer, step))
                })
                .collect(),
        }
    }

    /// Restores the state that `before` holds.
    pub fn restore(&self, before: Before) {
        self.replicas
            .iter()
            .for_each(|replica| replica.is_trial.store(false, Ordering::Release));
        self.step.restore(&before.0);
    }
}

fn written(buffer: &GradientBuffer, step: u64) -> WrittenGradient {
    match buffer {
        GradientBuffer::Dense(dense) => WrittenGradient::Dense(dense.written(step)),
        GradientBuffer::Rows(rows) => {
            let added = |(indices, values): (&Tensor, &Tensor)| AddedRows {
                indices: indices.clone(),
                values: values.clone(),
            };
            WrittenGradient::Rows(rows.pieces().iter().map(added).collect())
        }
    }
}
