//! What a strict strategy looks for around the callback of a replica: writes beside the memory that the
//! callback was given, writes after it has returned, and writes to what is only to be read.
//!
//! Weights that a callback has written are put back, since no failing step does that: they are committed
//! already, and steps see them as they are.

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::observe::log::{self, Level};
use crate::tensor::fence::{Fence, Fenced};
use crate::tensor::{DType, Shape, Tensor};
use crate::values::View;
use crate::values::variable::Variable;

use super::central_storage::Strategy;
use super::step::ReplicaContext;

/// What is looked at when a replica's callback has returned, for the layers above.
pub trait AtReturn: Send {
    /// What tells it from others that are to be looked at.
    fn key(&self) -> usize;

    /// Fails if the callback has made a mistake.
    fn check(&self) -> Result<()>;
}

/// What one replica's callback was given in a step.
#[derive(Default)]
pub(super) struct Guards {
    scratch: Vec<Fenced>,
    /// The scratch memory of the last step, full of the pattern.
    spent: Vec<Fenced>,
    /// Tensors that the callback has made: what they are, and what is around them.
    made: Vec<(String, Fence)>,
    /// Views of variables.
    shown: Vec<View>,
    others: Vec<Box<dyn AtReturn>>,
    /// What was found of the last step.
    late: Option<Error>,
}

/// The error of a mistake that only strict mode finds.
pub fn mistake(what: impl std::fmt::Display) -> Error {
    Error::precondition(format!("strict mode: {what}"))
}

impl Guards {
    /// A step begins. Memory of an earlier one was nobody's to write since.
    pub fn begin(&mut self) {
        self.late = self.spent.iter().enumerate().find_map(|(place, spent)| {
            let at = spent.region.first_changed().ok()??;
            Some(mistake(format!(
                "scratch memory that this replica's callback got in an earlier step (region {place}, {} \
                 bytes) was written at byte {at} after that callback had returned; ask for scratch memory \
                 in every step",
                spent.region.bytes()
            )))
        });
        self.spent.clear();
    }

    /// Scratch memory, full of the pattern.
    pub fn grant(&mut self, bytes: usize, device: DeviceId) -> Result<*mut u8> {
        let fenced = Fenced::new(bytes, device)?;
        let address = fenced.address();
        self.scratch.push(fenced);
        Ok(address)
    }

    /// The callback has returned: the first mistake that is found. What it was given is its no more.
    pub fn finish(&mut self, replica: usize) -> Result<()> {
        // All of the views, also if there is another mistake: what was written is put back.
        let views = self.look_at_views(replica);
        let found = self.look_at_memory(replica).and(views);
        let found = found.and_then(|()| self.others.iter().try_for_each(|other| other.check()));
        let found = found.and_then(|()| self.late.take().map_or(Ok(()), Err));
        self.made.clear();
        self.shown.drain(..).for_each(end);
        self.others.clear();
        // Of what cannot be filled with the pattern nothing can be said later.
        self.spent.extend(self.scratch.drain(..).filter(|scratch| scratch.spend().is_ok()));
        found
    }

    fn look_at_memory(&self, replica: usize) -> Result<()> {
        for (place, scratch) in self.scratch.iter().enumerate() {
            if let Some(breach) = scratch.fence.breach()? {
                return Err(mistake(format!(
                    "replica {replica} has written outside of its scratch memory (region {place}, {} \
                     bytes): {breach}",
                    scratch.region.bytes()
                )));
            }
        }
        for (what, fence) in &self.made {
            if let Some(breach) = fence.breach()? {
                return Err(mistake(format!(
                    "replica {replica} has written outside of a tensor that it made ({what}): {breach}"
                )));
            }
        }
        Ok(())
    }

    fn look_at_views(&self, replica: usize) -> Result<()> {
        let mut found = Ok(());
        for view in &self.shown {
            let looked = match view.is_written() {
                Ok(false) => continue,
                Ok(true) => Err(mistake(format!(
                    "{:?} was written through a view of it, which is for reading, while the callback of \
                     replica {replica} ran (by it, or by another one beside it); submit gradients, or assign",
                    view.variable()
                ))),
                Err(error) => Err(error),
            };
            found = found.and(looked);
        }
        found
    }
}

/// The callback that had the view has returned.
fn end(view: View) {
    let variable = view.variable().clone();
    let Some(strategy) = Strategy::with_id(variable.spec().strategy) else { return };
    let ended = view.end(|restore| {
        let _changing = strategy.inner().steps.central.write();
        restore()
    });
    if let Err(error) = ended {
        log::log(Level::Error, || format!("{variable:?} is not as it was: {error}"));
    }
}

impl ReplicaContext {
    /// Whether the strategy is strict and this is a run of it.
    fn with_guards<R>(&self, change: impl FnOnce(&mut Guards) -> Result<R>) -> Result<Option<R>> {
        if !self.strategy().is_strict() {
            return Ok(None);
        }
        let Some(step) = &self.step else { return Ok(None) };
        let mut desk = step.slots[self.replica()].desk();
        desk.guards.as_deref_mut().map(change).transpose()
    }

    /// Has `make` made and looked at when the callback has returned, unless there is something with
    /// this key already. Nothing happens unless the strategy is strict.
    pub fn at_return(&self, key: usize, make: impl FnOnce() -> Box<dyn AtReturn>) -> Result<()> {
        self.with_guards(|guards| {
            if guards.others.iter().all(|other| other.key() != key) {
                guards.others.push(make());
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Scratch memory with a fence around it, if the strategy is strict.
    pub(super) fn guarded_scratch(&self, bytes: usize) -> Result<Option<*mut u8>> {
        let device = self.device();
        self.with_guards(|guards| guards.grant(bytes, device))
    }

    /// A new tensor for the callback, with anything in it and a fence around it, if the strategy is
    /// strict.
    pub fn guarded_tensor(
        &self,
        dtype: DType,
        shape: Shape,
        device: DeviceId,
    ) -> Result<Option<Tensor>> {
        self.with_guards(|guards| {
            let (tensor, fenced) = Fenced::tensor(dtype, shape, device)?;
            guards.made.push((format!("{dtype} of shape {shape}"), fenced.fence));
            Ok(tensor)
        })
    }

    /// Notes that the callback was shown `value`, which is a buffer of `variable` or a copy of it. A trial
    /// finds by itself what was written.
    pub(super) fn guard_view(
        &self,
        variable: &Variable,
        buffer: usize,
        value: &Tensor,
    ) -> Result<()> {
        if self.watcher.is_some() {
            return Ok(());
        }
        self.with_guards(|guards| {
            if !guards.shown.iter().any(|view| view.is_of(variable, buffer, value)) {
                guards.shown.push(View::new(variable, buffer, value)?);
            }
            Ok(())
        })?;
        Ok(())
    }
}
