//! What a strict strategy looks for around the callback of a replica: writes beside the memory that the
//! callback was given, writes after it has returned, and writes to what is only to be read.
//!
//! Weights that a callback has written are put back, since no failing step does that: they are committed
//! already, and steps see them as they are.

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::observe::log::{self, Level};
use crate::tensor::red_zone::{GuardedMemory, RedZone};
use crate::values::View;

use super::central_storage::Strategy;

/// What is checked when a replica's callback has returned, for the layers above.
pub trait AtReturn: Send {
    /// What distinguishes it from others that are checked.
    fn key(&self) -> usize;

    /// Fails if the callback has made a mistake.
    fn check(&self) -> Result<()>;
}

/// What one replica's callback was given in a step.
#[derive(Default)]
pub(super) struct Guards {
    pub scratch: Vec<GuardedMemory>,
    /// The scratch memory of the last step, full of the pattern.
    poisoned: Vec<GuardedMemory>,
    /// Tensors that the callback has made: what they are, and what is around them.
    pub made: Vec<(String, RedZone)>,
    /// Views of variables.
    pub shown: Vec<View>,
    pub others: Vec<Box<dyn AtReturn>>,
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
        self.late = self.poisoned.iter().enumerate().find_map(|(place, poisoned)| {
            let at = poisoned.region.first_changed().ok()??;
            Some(mistake(format!(
                "scratch memory that this replica's callback got in an earlier step (region {place}, {} \
                 bytes) was written at byte {at} after that callback had returned; ask for scratch memory \
                 in every step",
                poisoned.region.bytes()
            )))
        });
        self.poisoned.clear();
    }

    /// Scratch memory, full of the pattern.
    pub fn grant(&mut self, bytes: usize, device: DeviceId) -> Result<*mut u8> {
        let guarded = GuardedMemory::new(bytes, device)?;
        let address = guarded.address();
        self.scratch.push(guarded);
        Ok(address)
    }

    /// The callback has returned: the first mistake that is found. What it was given is its no more.
    pub fn finish(&mut self, replica: usize) -> Result<()> {
        // All of the views, also if there is another mistake: what was written is put back.
        let views = self.check_views(replica);
        let found = self.check_memory(replica).and(views);
        let found = found.and_then(|()| self.others.iter().try_for_each(|other| other.check()));
        let found = found.and_then(|()| self.late.take().map_or(Ok(()), Err));
        self.made.clear();
        self.shown.drain(..).for_each(end);
        self.others.clear();
        // Of what cannot be filled with the pattern nothing can be said later.
        self.poisoned.extend(self.scratch.drain(..).filter(|scratch| scratch.poison().is_ok()));
        found
    }

    fn check_memory(&self, replica: usize) -> Result<()> {
        for (place, scratch) in self.scratch.iter().enumerate() {
            if let Some(breach) = scratch.red_zone.breach()? {
                return Err(mistake(format!(
                    "replica {replica} has written outside of its scratch memory (region {place}, {} \
                     bytes): {breach}",
                    scratch.region.bytes()
                )));
            }
        }
        for (what, red_zone) in &self.made {
            if let Some(breach) = red_zone.breach()? {
                return Err(mistake(format!(
                    "replica {replica} has written outside of a tensor that it made ({what}): {breach}"
                )));
            }
        }
        Ok(())
    }

    fn check_views(&self, replica: usize) -> Result<()> {
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
