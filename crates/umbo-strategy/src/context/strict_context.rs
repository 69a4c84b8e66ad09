//! How a strict strategy guards the memory that a callback gets through its context.

use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_tensor::red_zone::GuardedMemory;
use umbo_tensor::values::VariableView;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Shape, Tensor};

use super::strict_callbacks::{AtReturn, Guards};
use crate::step::ReplicaContext;

impl ReplicaContext {
    /// Whether the strategy is strict and this is a run of it.
    fn with_guards<R>(&self, change: impl FnOnce(&mut Guards) -> Result<R>) -> Result<Option<R>> {
        if !self.strategy().is_strict() {
            return Ok(None);
        }
        let Some(step) = &self.step else {
            return Ok(None);
        };
        self.with_local(step, |local| {
            local.guards.as_deref_mut().map(change).transpose()
        })
    }

    /// Registers the check that `make` returns, for when the callback has returned, unless there is
    /// a check with this key already. Does nothing unless the strategy is strict.
    pub fn at_return(&self, key: usize, make: impl FnOnce() -> AtReturn) -> Result<()> {
        self.with_guards(|guards| {
            if guards.others.iter().all(|other| other.0 != key) {
                guards.others.push((key, make()));
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Notes what the parts of a batch are that the callback gets, if the strategy is strict.
    pub(crate) fn guard_batch(&self) -> Result<()> {
        self.with_guards(|guards| match self.arguments()? {
            Some(arguments) => guards.guard_batch(&arguments),
            None => Ok(()),
        })?;
        Ok(())
    }

    /// Scratch memory with a red zone around it, if the strategy is strict.
    pub(crate) fn guarded_scratch(&self, bytes: usize) -> Result<Option<*mut u8>> {
        let device = self.device();
        self.with_guards(|guards| guards.grant(bytes, device))
    }

    /// A new tensor for the callback, with anything in it and a red zone around it, if the strategy
    /// is strict.
    pub fn guarded_tensor(
        &self,
        dtype: DType,
        shape: Shape,
        device: DeviceId,
    ) -> Result<Option<Tensor>> {
        self.with_guards(|guards| {
            let (tensor, guarded) = GuardedMemory::tensor(dtype, shape, device)?;
            guards
                .made
                .push((format!("{dtype} of shape {shape}"), guarded));
            Ok(tensor)
        })
    }

    /// Notes that the callback was shown `value`, which is a buffer of `variable` or a copy of it.
    /// A trial finds by itself what was written.
    pub(crate) fn guard_view(
        &self,
        variable: &Variable,
        buffer: usize,
        value: &Tensor,
    ) -> Result<()> {
        if self.watcher.is_some() {
            return Ok(());
        }
        self.with_guards(|guards| {
            if !guards
                .shown
                .iter()
                .any(|view| view.is_of(variable, buffer, value))
            {
                guards
                    .shown
                    .push(VariableView::new(variable, buffer, value)?);
            }
            Ok(())
        })?;
        Ok(())
    }
}
