//! Checks of a strict strategy around a replica's callback: writes beside the memory that the
//! callback was given, writes after it has returned, and writes to read-only memory.
//!
//! Weights that a callback has overwritten are restored here, since a rollback does not do that:
//! they are committed values.

use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_device::DeviceId;
use umbo_tensor::Tensor;
use umbo_tensor::red_zone::{GuardedMemory, Region};
use umbo_tensor::values::{Value, VariableView};

use crate::setup::central_storage::Strategy;

/// A check that a layer above registers, for when a replica's callback has returned. It fails if
/// the callback has made a mistake.
pub type AtReturn = Box<dyn Fn() -> Result<()> + Send>;

/// The memory that one replica's callback was given in a step.
#[derive(Default)]
pub(crate) struct Guards {
    pub scratch: Vec<GuardedMemory>,
    /// The scratch memory of the last step, full of the pattern.
    poisoned: Vec<GuardedMemory>,
    /// Tensors that the callback has made: their names, and their memory.
    pub made: Vec<(String, GuardedMemory)>,
    /// Views of variables.
    pub shown: Vec<VariableView>,
    /// The replica's parts of a batch, and their fingerprints before the callback.
    batch: Vec<(Tensor, u64)>,
    /// The checks of layers above, by their keys.
    pub others: Vec<(usize, AtReturn)>,
    /// A late mistake that was found after the last step.
    late: Option<Error>,
}

/// The error for a mistake that only strict mode finds.
pub fn mistake(problem: impl std::fmt::Display) -> Error {
    Error::precondition(format!("strict mode: {problem}"))
}

impl Guards {
    /// A step begins. Checks that nobody has written the memory of the step before since its end.
    pub fn begin(&mut self) {
        self.late = self
            .poisoned
            .iter()
            .enumerate()
            .find_map(|(place, poisoned)| {
                let at = poisoned.region.first_changed().ok()??;
                Some(mistake(format!(
                    "scratch memory that this replica's callback got in an earlier step (region \
                     {place}, {} bytes) was written at byte {at} after that callback had \
                     returned; ask for scratch memory in every step",
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

    /// The callback gets these arguments, of which it may not write the parts of a batch.
    pub fn guard_batch(&mut self, arguments: &Value) -> Result<()> {
        self.batch.clear();
        let failed = arguments.find_leaf(&mut |leaf| {
            let Value::Tensor(part) = leaf else {
                return None;
            };
            if part.examples().is_none() || !part.device().is_host_memory() {
                return None;
            }
            match fingerprint(part) {
                Ok(before) => self.batch.push((part.clone(), before)),
                Err(error) => return Some(error),
            }
            None
        });
        failed.map_or(Ok(()), Err)
    }

    /// The callback has returned: the first mistake that is found. Its memory is taken back.
    pub fn finish(&mut self, replica: usize) -> Result<()> {
        // All views are checked, even if there is another mistake, so that all overwritten weights
        // are restored.
        let views = self.check_views(replica);
        let batch = self.check_batch(replica);
        let found = self.check_memory(replica).and(views).and(batch);
        let found = found.and_then(|()| self.others.iter().try_for_each(|(_, check)| check()));
        let found = found.and_then(|()| self.late.take().map_or(Ok(()), Err));
        self.made.clear();
        self.shown.drain(..).for_each(end);
        self.others.clear();
        // Memory that could not be filled with the pattern is not checked later.
        self.poisoned.extend(
            self.scratch
                .drain(..)
                .filter(|scratch| scratch.poison().is_ok()),
        );
        found
    }

    fn check_memory(&self, replica: usize) -> Result<()> {
        let scratch = self.scratch.iter().enumerate().map(|(place, scratch)| {
            let bytes = scratch.region.bytes();
            (
                format!("its scratch memory (region {place}, {bytes} bytes)"),
                scratch,
            )
        });
        let made = self.made.iter();
        let made = made.map(|(memory, made)| (format!("a tensor that it made ({memory})"), made));
        for (memory, guarded) in scratch.chain(made) {
            if let Some(breach) = guarded.breach()? {
                return Err(mistake(format!(
                    "replica {replica} has written outside of {memory}: {breach}"
                )));
            }
        }
        Ok(())
    }

    fn check_batch(&mut self, replica: usize) -> Result<()> {
        self.batch.drain(..).try_for_each(|(part, before)| {
            if fingerprint(&part)? == before {
                return Ok(());
            }
            Err(mistake(format!(
                "the replica's part of the batch ({} of shape {}) was written while the callback \
                 of replica {replica} ran (by it, or by other code at that time); it is for \
                 reading, so copy what is to be changed",
                part.dtype(),
                part.shape()
            )))
        })
    }

    fn check_views(&self, replica: usize) -> Result<()> {
        let mut found = Ok(());
        for view in &self.shown {
            let looked = match view.is_written() {
                Ok(false) => continue,
                Ok(true) => Err(mistake(format!(
                    "{:?} was written through a view of it, which is for reading, while the \
                     callback of replica {replica} ran (by it, or by another at that time); \
                     submit gradients, or assign",
                    view.variable()
                ))),
                Err(error) => Err(error),
            };
            found = found.and(looked);
        }
        found
    }
}

fn fingerprint(part: &Tensor) -> Result<u64> {
    Region::of(&part.copied_to(DeviceId::HOST)?).fingerprint()
}

/// The callback that had the view has returned.
fn end(view: VariableView) {
    let variable = view.variable().clone();
    let Some(strategy) = Strategy::with_id(variable.spec().strategy) else {
        return;
    };
    let ended = view.end(|restore| {
        let _changing = strategy.inner().steps.central.write();
        restore()
    });
    if let Err(error) = ended {
        log::log(Level::Error, || {
            format!("{variable:?} is not as it was: {error}")
        });
    }
}
