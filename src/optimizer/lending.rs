//! How a replica lends a gradient, and takes back what it has contributed.
//!
//! [`Gradients::release_lent`] lets go of what was lent, wherever that may have come to its end; it costs one load where
//! nothing is lent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::optimizer::gradients::Gradients;
use crate::optimizer::lent::Lent;
use crate::optimizer::replica::Buffer;
use crate::strategy::ReplicaContext;
use crate::tensor::Tensor;
use crate::values::device_copies::memory_of;

impl Gradients {
    /// Lets `gradient`, memory of the program's that holds all elements of the gradient of variable
    /// `index`, be what the context's replica contributes to it in its step. It is read where it lies,
    /// and so must not be written until the last clone of `gradient` is dropped: when an apply has used
    /// it up, when the step is rolled back or replaced, or when it is taken back.
    ///
    /// Fails as [`Gradients::view_in`], and if the replica has viewed or lent the variable in this step
    /// already, and with INVALID_ARGUMENT if `gradient` has another dtype, shape or order of elements, or
    /// lies in memory that is not that of the replica's device.
    pub fn attach_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        index: usize,
        gradient: Tensor,
    ) -> Result<()> {
        self.take_part(context)?;
        let (replica, step) = (context.replica(), context.step_id());
        let (buffer, viewed) = self.writable(replica, step, index)?;
        let variable = &self.variables()[index];
        let Buffer::Dense(dense) = buffer else {
            return Err(Error::precondition(format!(
                "the gradients of {variable:?} were made for rows (row_sparse); write them with add_rows"
            )));
        };
        if viewed.load(Ordering::Acquire) == step {
            return Err(Error::precondition(format!(
                "replica {replica} has viewed or attached the gradient of {variable:?} in this step \
                 already; discard that before another one takes its place"
            )));
        }
        self.check_lent(index, &gradient, context)?;
        let lent = Lent::new(step, gradient)?;
        // Under the lock that giving back takes: what is put in after the step's end is never missed.
        let refused = {
            let mut held = dense.lent.held.lock();
            match self.is_in_flight(step) {
                false => Some(lent),
                true => {
                    dense.lent.step.store(step, Ordering::Release);
                    // What an earlier step has left is replaced with that step's contributions.
                    let before = held.replace(lent);
                    self.lends.store(true, Ordering::Release);
                    viewed.store(step, Ordering::Release);
                    drop(held);
                    drop(before);
                    return Ok(());
                }
            }
        };
        drop(refused);
        Err(Error::Cancelled("the step has ended without this replica".into()))
    }

    fn check_lent(&self, index: usize, gradient: &Tensor, context: &ReplicaContext) -> Result<()> {
        let (variable, dtype) = (&self.variables()[index], self.dtype(index));
        if (gradient.dtype(), gradient.shape()) != (dtype, variable.shape()) {
            return Err(Error::invalid(
                "view",
                format!(
                    "{} of shape {}, but the gradient of {variable:?} is {dtype} of shape {}",
                    gradient.dtype(),
                    gradient.shape(),
                    variable.shape()
                ),
            ));
        }
        if !gradient.layout().is_contiguous() {
            return Err(Error::invalid(
                "view",
                format!(
                    "its strides {:?} are not those of row-major order, in which the gradient of \
                     {variable:?} is read; attach a contiguous copy",
                    gradient.layout().strides()
                ),
            ));
        }
        let own = self.devices[context.replica()];
        if memory_of(gradient.device()) != memory_of(own) {
            return Err(Error::invalid(
                "view",
                format!(
                    "its memory is {}'s, but this replica is on {own}; attach memory of that device",
                    gradient.device()
                ),
            ));
        }
        Ok(())
    }

    /// Discards what the context's replica has contributed to variable `index` in its step: as if it
    /// had not touched the variable. What it had lent is let go of. Does nothing if there is nothing.
    ///
    /// A variable to which no replica contributes is left alone by an apply. Fails as
    /// [`Gradients::view_in`] does.
    pub fn discard_in(self: &Arc<Self>, context: &ReplicaContext, index: usize) -> Result<()> {
        self.take_part(context)?;
        let step = context.step_id();
        let (buffer, viewed) = self.writable(context.replica(), step, index)?;
        if viewed.load(Ordering::Acquire) != step {
            return Ok(());
        }
        viewed.store(0, Ordering::Release);
        self.replicas[context.replica()].withdrew.store(step, Ordering::Release);
        match buffer {
            Buffer::Dense(dense) => drop(dense.lent.take()),
            Buffer::Rows(rows) => rows.pieces().forget(),
        }
        Ok(())
    }

    /// Lets go of what was lent to steps whose contributions count no more. To be called where they may
    /// have come to their end, with no lock held but that of the strategy's steps.
    pub(super) fn release_lent(&self) {
        if !self.lends.load(Ordering::Acquire) {
            return;
        }
        for buffer in self.replicas.iter().flat_map(|own| &own.buffers) {
            if let Buffer::Dense(dense) = buffer {
                drop(dense.lent.take_unless(|step| self.counts(step)));
            }
        }
    }
}
