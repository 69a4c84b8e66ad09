//! The commit point: where what a step changed becomes central state, or none of it does.

use crate::error::{Error, Result};

/// Something that a step writes and that keeps what was there before until the step's outcome is
/// known. It joins the step before its first write.
pub trait StepParticipant: Send + Sync {
    /// Takes part in step `step` from now on: threads that see it may write. Returns whether it did
    /// not before. Called by several replicas, one at a time, before the outcome of the step: joining
    /// and being seen to have joined are one act.
    fn join(&self, step: u64) -> bool;

    /// All replicas returned OK: what step `step` wrote counts from now on. Cannot fail.
    fn commit(&self, step: u64);

    /// The step's changes are carried out, those that waited for the commit point too. Nobody looks at
    /// central state yet. Cannot fail.
    fn finish(&self) {}

    /// The step failed, was late or was cancelled: all is as before step `step`. Cannot fail.
    fn roll_back(&self, step: u64);

    /// Lets go of what is the program's and is not needed any more. Called when the outcome is known, and
    /// no lock is held but that of the strategy's steps.
    fn release_resources(&self) {}
}

/// A change of central state that waits for the commit point, such as an optimizer's update.
pub trait CommitAction: Send {
    /// Everything that can fail: schedules, checks, scans, norms. Changes nothing that can be
    /// seen.
    fn prepare(&mut self) -> Result<()>;

    /// The change itself. Cannot fail, but for a device that is lost over it, and what it held.
    fn commit(&mut self);

    /// Why a device was lost over the change, if one was. Asked once, after [`CommitAction::commit`].
    fn failure(&mut self) -> Option<Error> {
        None
    }
}
