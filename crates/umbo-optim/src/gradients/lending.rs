//! How a replica lends a gradient, and withdraws its contribution.
//!
//! [`Gradients::release_lent`] releases lent gradients that are not needed any more; it costs one
//! load if nothing is lent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::gradients::Gradients;
use crate::gradients::replica::GradientBuffer;
use umbo_base::error::{Error, Result};
use umbo_strategy::ReplicaContext;
use umbo_tensor::Tensor;
use umbo_tensor::values::copies::memory_of;

impl Gradients {
    /// Makes `gradient` the contribution of the context's replica to variable `index` in its step.
    /// It is memory of the program, with all elements of the gradient. The library reads it in
    /// place, so it must not be written until the last clone of `gradient` is dropped: when an
    /// apply has consumed it, when the step is rolled back or replaced, or when the replica
    /// withdraws it.
    ///
    /// Fails as [`Gradients::view_in`], and if the replica has viewed or lent the variable in this
    /// step already, and with INVALID_ARGUMENT if `gradient` has another dtype, shape or order
    /// of elements, or lies in memory that is not that of the replica's device.
    pub fn attach_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        index: usize,
        gradient: Tensor,
    ) -> Result<()> {
        let (replica, step) = self.join_current_step(context)?;
        let (buffer, viewed) = self.writable(replica, step, index)?;
        let variable = &self.variables()[index];
        let GradientBuffer::Dense(dense) = buffer else {
            return Err(Error::precondition(format!(
                "the gradients of {variable:?} were made for rows (row_sparse); write them with \
                 add_rows"
            )));
        };
        if viewed.in_step(index, step) {
            return Err(Error::precondition(format!(
                "replica {replica} has viewed or attached the gradient of {variable:?} in this \
                 step already; discard that before another one takes its place"
            )));
        }
        self.check_lent(index, &gradient, context)?;
        let lent = (gradient, step);
        // Under the lock that releasing takes: so a gradient that is lent after the step's end is
        // released, too.
        let refused = {
            let mut held = dense.lent.held.lock();
            match self.step.is_in_flight(step) {
                false => Some(lent),
                true => {
                    dense.lent.step.store(step, Ordering::Release);
                    // A gradient of an earlier step is replaced together with that step's
                    // contributions.
                    let before = held.replace(lent);
                    self.lends.store(true, Ordering::Release);
                    viewed.note(index, step);
                    drop(held);
                    drop(before);
                    return Ok(());
                }
            }
        };
        drop(refused);
        Err(Error::Cancelled(
            "the step has ended without this replica".into(),
        ))
    }

    fn check_lent(&self, index: usize, gradient: &Tensor, context: &ReplicaContext) -> Result<()> {
        let variable = &self.variables()[index];
        let dtype = self.dtype(index);
        if (gradient.dtype(), gradient.shape()) != (dtype, variable.shape()) {
            return Err(invalid!(
                "view",
                "{} of shape {}, but the gradient of {variable:?} is {dtype} of shape {}",
                gradient.dtype(),
                gradient.shape(),
                variable.shape()
            ));
        }
        if !gradient.layout().is_contiguous() {
            return Err(invalid!(
                "view",
                "its strides {:?} are not those of row-major order, in which the gradient of \
                 {variable:?} is read; attach a contiguous copy",
                gradient.layout().strides()
            ));
        }
        let own_device = self.devices[context.replica()];
        if memory_of(gradient.device()) != memory_of(own_device) {
            return Err(invalid!(
                "view",
                "its memory is {}'s, but this replica is on {own_device}; attach memory of that \
                 device",
                gradient.device()
            ));
        }
        Ok(())
    }

    /// Discards what the context's replica has contributed to variable `index` in its step: as if
    /// it had not used the variable. A lent gradient is released. Does nothing if there is no
    /// contribution.
    ///
    /// An apply does not change a variable to which no replica contributes. Fails as
    /// [`Gradients::view_in`] does.
    pub fn discard_in(self: &Arc<Self>, context: &ReplicaContext, index: usize) -> Result<()> {
        let (replica, step) = self.join_current_step(context)?;
        let (buffer, viewed) = self.writable(replica, step, index)?;
        if !viewed.in_step(index, step) {
            return Ok(());
        }
        viewed.forget(index);
        self.replicas[replica]
            .discarded_in
            .store(step, Ordering::Release);
        match buffer {
            GradientBuffer::Dense(dense) => drop(dense.lent.take()),
            GradientBuffer::Rows(rows) => rows.pieces().forget(),
        }
        Ok(())
    }

    /// Releases gradients that were lent to steps whose contributions count no more. Called where
    /// such a step may have ended, while no lock is held except the step lock.
    pub(crate) fn release_lent(&self) {
        if !self.lends.load(Ordering::Acquire) {
            return;
        }
        for buffer in self.replicas.iter().flat_map(|replica| &replica.buffers) {
            if let GradientBuffer::Dense(dense) = buffer {
                drop(dense.lent.take_unless(|step| self.counts(step)));
            }
        }
    }
}
