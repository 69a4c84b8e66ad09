//! Inspection of a step's contributions, after which the step leaves no trace.
//!
//! The inspection happens inside the step: [`Gradients::remember`] and [`Gradients::prefill`] before the replicas'
//! callbacks, [`Gradients::contributed`] after them, [`Gradients::restore`] once the step is abandoned. So no
//! other step sees anything of it.

#![expect(unsafe_code, reason = "replicas' buffers are written when no replica is at them")]

use std::sync::atomic::Ordering;

use crate::collectives::copy_to;
use crate::error::Result;
use crate::optimizer::gradients::Gradients;
use crate::optimizer::guard::Guard;
use crate::optimizer::lent::LentGradient;
use crate::optimizer::replica::{DenseBuffer, GradientBuffer};
use crate::optimizer::rows::{AddedRows, RowPieces};
use crate::tensor::Tensor;

/// The state of gradients before a step that is to leave no trace in them.
pub struct Before {
    state: u64,
    later: u64,
    /// One for each replica, if contributions wait for an apply; if not, the buffers' contents do not count.
    waiting: Vec<WaitingContribution>,
}

/// A replica's contribution to an apply that has not happened yet.
struct WaitingContribution {
    buffers: Vec<SavedBuffer>,
    viewed: Vec<u64>,
    submitted: u64,
    weight: u64,
}

/// The old contents of a buffer.
enum SavedBuffer {
    /// The elements, and the gradient that the replica had lent instead.
    Dense(Tensor, Option<LentGradient>),
    Rows(RowPieces),
}

/// What one replica wrote for one variable.
pub enum WrittenGradient {
    /// All of its elements.
    Dense(Tensor),
    /// Indices and elements of rows, in the order in which they were added. A row that occurs several times counts
    /// as the sum.
    Rows(Vec<AddedRows>),
}

/// The contribution of one replica in one step.
pub struct ReplicaContribution {
    /// The weight with which it submitted, if it did.
    pub weight: Option<f64>,
    /// For each variable what it wrote, if it did.
    pub written: Vec<Option<WrittenGradient>>,
}

impl Gradients {
    /// Saves what [`Gradients::restore`] needs to restore the present state. Call it before any replica uses the
    /// gradients in its step. If it fails, nothing has changed.
    pub fn remember(&self) -> Result<Before> {
        let mut waiting = Vec::new();
        for own in self.replicas.iter().filter(|_| self.has_unapplied()) {
            let copies = own.buffers.iter().map(|buffer| match buffer {
                GradientBuffer::Dense(DenseBuffer { tensor, .. }) => {
                    copy_to(tensor, tensor.device()).map(|copy| SavedBuffer::Dense(copy, None))
                }
                GradientBuffer::Rows(_) => Ok(SavedBuffer::Rows(RowPieces::default())),
            });
            let viewed = (0..own.buffers.len()).map(|index| {
                own.viewed.of(index).map_or(0, |viewed| viewed.load(Ordering::Acquire))
            });
            waiting.push(WaitingContribution {
                buffers: copies.collect::<Result<_>>()?,
                viewed: viewed.collect(),
                submitted: own.submitted.load(Ordering::Acquire),
                weight: own.weight.load(Ordering::Acquire),
            });
        }
        // Rows and lent gradients are moved, so that the next step gets fresh ones. This happens last, when
        // nothing can fail any more: a failure would lose them.
        for (own, kept) in self.replicas.iter().zip(&mut waiting) {
            for (buffer, kept) in own.buffers.iter().zip(&mut kept.buffers) {
                match (buffer, kept) {
                    (GradientBuffer::Rows(rows), SavedBuffer::Rows(kept)) => {
                        *kept = std::mem::take(&mut *rows.pieces());
                    }
                    (GradientBuffer::Dense(dense), SavedBuffer::Dense(_, lent)) => {
                        *lent = dense.lent.take()
                    }
                    _ => {}
                }
            }
        }
        let state = self.state.load(Ordering::Acquire);
        self.set_aside();
        Ok(Before { state, later: self.later.load(Ordering::Relaxed), waiting })
    }

    /// Sets all elements of `replica`'s buffers to `value`, before its callback begins. (Rows have no buffers:
    /// they are made on request.)
    pub fn prefill(&self, replica: usize, value: f64) -> Result<()> {
        let Some(own) = self.replicas.get(replica) else { return Ok(()) };
        own.is_trial.store(true, Ordering::Release);
        for buffer in &own.buffers {
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
        let Some(own) = self.replicas.get(replica) else {
            return ReplicaContribution { weight: None, written: Vec::new() };
        };
        let submitted = own.submitted.load(Ordering::Acquire) == step;
        let buffers = own.buffers.iter().enumerate();
        ReplicaContribution {
            weight: submitted.then(|| own.weight()),
            written: buffers
                .map(|(index, buffer)| {
                    own.viewed.in_step(index, step).then(|| written(buffer, step))
                })
                .collect(),
        }
    }

    /// Restores the state that `before` holds.
    pub fn restore(&self, before: Before) -> Result<()> {
        self.replicas.iter().for_each(|own| own.is_trial.store(false, Ordering::Release));
        for (own, was) in self.replicas.iter().zip(before.waiting) {
            for (index, (buffer, kept)) in own.buffers.iter().zip(was.buffers).enumerate() {
                match (buffer, kept) {
                    (
                        GradientBuffer::Dense(DenseBuffer { tensor, lent, .. }),
                        SavedBuffer::Dense(kept, was),
                    ) => {
                        // SAFETY: the step is abandoned, and no replica is in it.
                        unsafe { tensor.assume_exclusive() }.copy_from(&kept)?;
                        lent.put(was);
                    }
                    (GradientBuffer::Rows(rows), SavedBuffer::Rows(kept)) => *rows.pieces() = kept,
                    _ => unreachable!("what is kept of a buffer is of its kind"),
                }
                if let Some(viewed) = own.viewed.of(index) {
                    viewed.store(was.viewed[index], Ordering::Release);
                }
            }
            own.weight.store(was.weight, Ordering::Release);
            own.submitted.store(was.submitted, Ordering::Release);
        }
        self.later.store(before.later, Ordering::Relaxed);
        self.state.store(before.state, Ordering::Release);
        Ok(())
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
