//! The commit point: where what a step changed becomes central state, or none of it does.

pub mod exclusion;
pub(crate) mod point;
pub(crate) mod transaction;

use umbo_base::error::{Error, Result};

/// An object that a step writes, and that keeps its old state until the step's outcome is known. It
/// joins the step before its first write.
pub trait StepParticipant: Send + Sync {
    /// Takes part in step `step` from now on: threads that see it may write. Returns whether it did
    /// not before. Called by several replicas, one at a time, before the outcome of the step: a
    /// thread that sees the object as joined can rely on it.
    fn join(&self, step: u64) -> bool;

    /// All replicas returned OK: what step `step` wrote counts from now on. Cannot fail.
    fn commit(&self, step: u64);

    /// The step's changes are carried out, those that waited for the commit point too. Nobody reads
    /// central state yet. Cannot fail.
    fn finish(&self) {}

    /// The step failed, was late or was cancelled: all is as before step `step`. Cannot fail.
    fn roll_back(&self, step: u64);

    /// Releases resources of the program that are not needed any more. Called when the outcome is
    /// known, while no lock is held except the step lock.
    fn release_resources(&self) {}
}

/// A change of central state that waits for the commit point, such as an optimizer's update.
pub trait CommitAction: Send {
    /// Everything that can fail: schedules, checks, scans, norms. Changes nothing that is visible.
    fn prepare(&mut self) -> Result<()>;

    /// The change itself. Cannot fail, except that a device may be lost together with its memory.
    fn commit(&mut self);

    /// The reason why a device was lost during the change, if it was. Called once, after
    /// [`CommitAction::commit`].
    fn failure(&mut self) -> Option<Error> {
        None
    }
}
