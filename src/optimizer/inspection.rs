//! Looking at what a step contributes, and leaving no trace of that step.
//!
//! Whoever inspects does so inside of the step: [`Gradients::remember`] and [`Gradients::prefill`]
//! before the replicas' callbacks, [`Gradients::contributed`] after them, [`Gradients::restore`]
//! once the step is given up. So a step of somebody else's never sees anything of it.

#![expect(unsafe_code, reason = "replicas' buffers are written when no replica is at them")]

use std::sync::atomic::Ordering;

use crate::collectives::copy_to;
use crate::error::Result;
use crate::optimizer::gradients::Gradients;
use crate::optimizer::guard::Guard;
use crate::optimizer::lent::Lent;
use crate::optimizer::replica::{Buffer, DenseBuffer};
use crate::optimizer::rows::{AddedRows, Pieces};
use crate::tensor::Tensor;

/// What gradients were before a step that is to leave no trace in them.
pub struct Before {
    state: u64,
    later: u64,
    /// One for each replica, if contributions wait for an apply; else the buffers hold nothing that
    /// counts.
    waiting: Vec<Waiting>,
}

/// What a replica has contributed to an apply that is still to come.
struct Waiting {
    buffers: Vec<Kept>,
    viewed: Vec<u64>,
    submitted: u64,
    weight: u64,
}

/// What a buffer held.
enum Kept {
    /// And what the replica had lent in its place.
    Dense(Tensor, Option<Lent>),
    Rows(Pieces),
}

/// What one replica has written for one variable.
pub enum Written {
    /// All of its elements.
    Dense(Tensor),
    /// Rows: which, and their elements, in the order in which they were added. A row that is named
    /// several times stands for the sum.
    Rows(Vec<AddedRows>),
}

/// What one replica has contributed in one step.
pub struct Contributed {
    /// The weight with which it submitted, if it did.
    pub weight: Option<f64>,
    /// For each variable what it wrote, if it did.
    pub written: Vec<Option<Written>>,
}

impl Gradients {
    /// What [`Gradients::restore`] needs to make all as it is now. To be called before any replica
    /// touches the gradients in its step. If it fails, nothing has changed.
    pub fn remember(&self) -> Result<Before> {
        let mut waiting = Vec::new();
        for own in self.replicas.iter().filter(|_| self.has_unapplied()) {
            let copies = own.buffers.iter().map(|buffer| match buffer {
                Buffer::Dense(DenseBuffer { tensor, .. }) => {
                    copy_to(tensor, tensor.device()).map(|copy| Kept::Dense(copy, None))
                }
                Buffer::Rows(_) => Ok(Kept::Rows(Pieces::default())),
            });
            let viewed = (0..own.buffers.len()).map(|index| {
                own.viewed.of(index).map_or(0, |viewed| viewed.load(Ordering::Acquire))
            });
            waiting.push(Waiting {
                buffers: copies.collect::<Result<_>>()?,
                viewed: viewed.collect(),
                submitted: own.submitted.load(Ordering::Acquire),
                weight: own.weight.load(Ordering::Acquire),
            });
        }
        // Rows, and what was lent, are moved, so that the step that comes gets fresh ones. Only now, when
        // nothing can fail any more: they would be lost with what has been kept so far.
        for (own, kept) in self.replicas.iter().zip(&mut waiting) {
            for (buffer, kept) in own.buffers.iter().zip(&mut kept.buffers) {
                match (buffer, kept) {
                    (Buffer::Rows(rows), Kept::Rows(kept)) => {
                        *kept = std::mem::take(&mut *rows.pieces());
                    }
                    (Buffer::Dense(dense), Kept::Dense(_, lent)) => *lent = dense.lent.take(),
                    _ => {}
                }
            }
        }
        let state = self.state.load(Ordering::Acquire);
        self.set_aside();
        Ok(Before { state, later: self.later.load(Ordering::Relaxed), waiting })
    }

    /// Sets all elements of `replica`'s buffers to `value`, before its callback begins. (Rows are
    /// no buffers: they come into being when they are asked for.)
    pub fn prefill(&self, replica: usize, value: f64) -> Result<()> {
        let Some(own) = self.replicas.get(replica) else { return Ok(()) };
        own.is_trial.store(true, Ordering::Release);
        for buffer in &own.buffers {
            if let Buffer::Dense(DenseBuffer { tensor, guard, .. }) = buffer {
                // SAFETY: the replica, whose buffer it is, has not begun.
                unsafe { tensor.assume_exclusive() }.fill(value)?;
                guard.iter().for_each(Guard::is_in_use);
            }
        }
        Ok(())
    }

    /// What `replica` has contributed in `step`.
    pub fn contributed(&self, step: u64, replica: usize) -> Contributed {
        let Some(own) = self.replicas.get(replica) else {
            return Contributed { weight: None, written: Vec::new() };
        };
        let submitted = own.submitted.load(Ordering::Acquire) == step;
        let buffers = own.buffers.iter().enumerate();
        Contributed {
            weight: submitted.then(|| own.weight()),
            written: buffers
                .map(|(index, buffer)| {
                    own.viewed.in_step(index, step).then(|| written(buffer, step))
                })
                .collect(),
        }
    }

    /// Makes all as it was when `before` was made.
    pub fn restore(&self, before: Before) -> Result<()> {
        self.replicas.iter().for_each(|own| own.is_trial.store(false, Ordering::Release));
        for (own, was) in self.replicas.iter().zip(before.waiting) {
            for (index, (buffer, kept)) in own.buffers.iter().zip(was.buffers).enumerate() {
                match (buffer, kept) {
                    (Buffer::Dense(DenseBuffer { tensor, lent, .. }), Kept::Dense(kept, was)) => {
                        // SAFETY: the step is given up, and no replica is in it.
                        unsafe { tensor.assume_exclusive() }.copy_from(&kept)?;
                        lent.put(was);
                    }
                    (Buffer::Rows(rows), Kept::Rows(kept)) => *rows.pieces() = kept,
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

fn written(buffer: &Buffer, step: u64) -> Written {
    match buffer {
        Buffer::Dense(dense) => Written::Dense(dense.written(step)),
        Buffer::Rows(rows) => {
            let added = |(indices, values): (&Tensor, &Tensor)| AddedRows {
                indices: indices.clone(),
                values: values.clone(),
            };
            Written::Rows(rows.pieces().iter().map(added).collect())
        }
    }
}
