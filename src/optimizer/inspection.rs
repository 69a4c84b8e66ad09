//! Looking at what a step contributes, and leaving no trace of that step.
//!
//! Whoever inspects does so inside of the step: [`Gradients::remember`] and [`Gradients::prefill`]
//! before the replicas' callbacks, [`Gradients::contributed`] after them, [`Gradients::restore`] once
//! the step is given up. So a step of somebody else's never sees anything of it.

use std::sync::atomic::Ordering;

use crate::cross_device::copy_to;
use crate::error::Result;
use crate::kernels::update;
use crate::optimizer::gradients::Gradients;
use crate::tensor::Tensor;

/// What gradients were before a step that is to leave no trace in them.
pub struct Before {
    state: u64,
    /// One for each replica, if contributions wait for an apply; else the buffers hold nothing that
    /// counts.
    waiting: Vec<Waiting>,
}

/// What a replica has contributed to an apply that is still to come.
struct Waiting {
    buffers: Vec<Tensor>,
    viewed: Vec<u64>,
    submitted: u64,
    weight: u64,
}

/// What one replica has contributed in one step.
pub struct Contributed<'a> {
    /// The weight with which it submitted, if it did.
    pub weight: Option<f64>,
    /// Its buffer for each variable that it viewed.
    pub buffers: Vec<Option<&'a Tensor>>,
}

impl Gradients {
    /// What [`Gradients::restore`] needs to make all as it is now. To be called before any replica
    /// touches the gradients in its step.
    pub fn remember(&self) -> Result<Before> {
        let mut waiting = Vec::new();
        for own in self.replicas.iter().filter(|_| self.has_unapplied()) {
            let copies = own.buffers.iter().map(|buffer| copy_to(buffer, buffer.device()));
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
        Ok(Before { state: self.state.load(Ordering::Acquire), waiting })
    }

    /// Sets all elements of `replica`'s buffers to `value`, before its callback begins.
    pub fn prefill(&self, replica: usize, value: f64) -> Result<()> {
        for buffer in self.replicas.get(replica).map_or(&[][..], |own| &own.buffers) {
            update::fill(&mut buffer.writing()?, value);
        }
        Ok(())
    }

    /// What `replica` has contributed in `step`.
    pub fn contributed(&self, step: u64, replica: usize) -> Contributed<'_> {
        let Some(own) = self.replicas.get(replica) else {
            return Contributed { weight: None, buffers: Vec::new() };
        };
        let submitted = own.submitted.load(Ordering::Acquire) == step;
        let buffers = own.buffers.iter().enumerate();
        Contributed {
            weight: submitted.then(|| own.weight()),
            buffers: buffers
                .map(|(index, buffer)| own.viewed.in_step(index, step).then_some(buffer))
                .collect(),
        }
    }

    /// Makes all as it was when `before` was made.
    pub fn restore(&self, before: &Before) -> Result<()> {
        for (own, was) in self.replicas.iter().zip(&before.waiting) {
            for (index, (buffer, kept)) in own.buffers.iter().zip(&was.buffers).enumerate() {
                buffer.copy_from(kept)?;
                if let Some(viewed) = own.viewed.of(index) {
                    viewed.store(was.viewed[index], Ordering::Release);
                }
            }
            own.weight.store(was.weight, Ordering::Release);
            own.submitted.store(was.submitted, Ordering::Release);
        }
        self.state.store(before.state, Ordering::Release);
        Ok(())
    }
}
