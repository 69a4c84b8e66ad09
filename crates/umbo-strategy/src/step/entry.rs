//! Entering a step: the step lock, and the callbacks of an earlier run that have not returned yet.

use super::draining::Draining;
use super::limits::Limits;
use super::lock::StepGuard;
use crate::context::{releases_step_of, require_cross_replica};
use crate::setup::central_storage::Strategy;
use umbo_base::error::{Error, Result};

impl Strategy {
    /// Waits for the step lock. Fails while the strategy drains.
    pub(crate) fn enter(&self, limits: &Limits) -> Result<StepGuard<'_>> {
        self.not_draining(self.inner().steps.lock.enter(limits)?, Draining::check)
    }

    /// As [`Strategy::enter`], and opens a step for [`Draining`].
    pub(crate) fn enter_step(&self, limits: &Limits) -> Result<StepGuard<'_>> {
        self.not_draining(self.inner().steps.lock.enter(limits)?, Draining::open_step)
    }

    /// As [`Strategy::enter`], and fails where that waits.
    pub(crate) fn enter_now(&self) -> Result<StepGuard<'_>> {
        self.not_draining(self.inner().steps.lock.enter_now()?, Draining::check)
    }

    fn not_draining<'a>(
        &self,
        lock: StepGuard<'a>,
        check: impl FnOnce(&Draining) -> Result<(), Vec<usize>>,
    ) -> Result<StepGuard<'a>> {
        let checked = check(&self.inner().steps.draining);
        checked.map(|()| lock).map_err(|late| self.draining(&late))
    }

    fn draining(&self, late: &[usize]) -> Error {
        let names: Vec<String> = late
            .iter()
            .map(|&replica| format!("replica {replica} ({})", self.replica_devices()[replica]))
            .collect();
        let late = match names.as_slice() {
            // The coordinator itself is releasing what the run held.
            [] => "an earlier run, which ended by deadline or cancellation, is being cleared away"
                .to_owned(),
            _ => format!(
                "{} of an earlier run, which ended by deadline or cancellation, {} not come back \
                 from the callback",
                names.join(", "),
                if names.len() == 1 { "has" } else { "have" }
            ),
        };
        Error::precondition(format!(
            "strategy: draining: {late}; synchronise the strategy first"
        ))
    }

    /// The replicas whose callbacks have not returned from abandoned runs.
    pub fn late_replicas(&self) -> Vec<usize> {
        self.inner().steps.draining.late_replicas()
    }

    /// Waits until late callbacks have come back and all work is done, that of devices too.
    pub fn synchronize(&self) -> Result<()> {
        if self.step_around().is_some() {
            return Err(Error::precondition(
                "inside of a run the step is not done; synchronise outside of runs",
            ));
        }
        require_cross_replica(self.id())?;
        if releases_step_of(self) {
            return Err(Error::precondition(
                "called from a function that releases what an abandoned run was given, which is \
                 what synchronising waits for",
            ));
        }
        loop {
            self.inner().steps.draining.wait();
            let lock = self.inner().steps.lock.enter(&Limits::default())?;
            // Another thread's run may have been abandoned in between.
            if self.inner().steps.draining.check().is_ok() {
                drop(lock);
                return self.inner().devices.synchronize();
            }
        }
    }
}
