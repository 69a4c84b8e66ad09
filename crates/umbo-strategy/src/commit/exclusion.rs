//! A strategy between two steps: nobody runs, assigns or applies, so that all central state can be
//! read or replaced as a whole.

#![expect(
    unsafe_code,
    reason = "who has the step lock may replace what variables hold"
)]

use crate::context::require_cross_replica;
use crate::setup::central_storage::Strategy;
use crate::step::limits::Limits;
use crate::step::lock::StepGuard;
use umbo_base::error::{Error, Result};
use umbo_tensor::Tensor;
use umbo_tensor::collectives;
use umbo_tensor::values::variable::Variable;

/// No step of a strategy is in progress, and none begins as long as this lives.
pub struct StepExclusion<'a> {
    strategy: &'a Strategy,
    lock: StepGuard<'a>,
}

impl Strategy {
    /// Waits until the step in progress, and those that wait for it, are over.
    ///
    /// FAILED_PRECONDITION inside of a step of this strategy (it would wait for itself), in another
    /// strategy's context, and while the strategy drains.
    pub fn lock_between_steps(&self) -> Result<StepExclusion<'_>> {
        self.check_outside()?;
        Ok(StepExclusion {
            strategy: self,
            lock: self.enter(&Limits::default())?,
        })
    }

    /// As [`Strategy::quiet`], but fails with FAILED_PRECONDITION, which names the step, if a step
    /// is in progress on any thread.
    pub fn try_lock_between_steps(&self) -> Result<StepExclusion<'_>> {
        self.check_outside()?;
        Ok(StepExclusion {
            strategy: self,
            lock: self.enter_now()?,
        })
    }

    fn check_outside(&self) -> Result<()> {
        if let Some(step) = self.step_around() {
            return Err(Error::precondition(format!(
                "strategy: inside of step {step}, whose outcome is not known; call this after the \
                 run"
            )));
        }
        require_cross_replica(self.id())
    }
}

impl StepExclusion<'_> {
    /// The strategy.
    pub(crate) fn strategy(&self) -> &Strategy {
        self.strategy
    }

    /// The number of steps the strategy has begun: the number of the last one.
    pub fn steps(&self) -> u64 {
        self.lock.steps()
    }

    /// Makes the next step the one after `steps`.
    pub fn set_steps(&mut self, steps: u64) {
        self.lock.set_steps(steps);
    }

    /// Does `change`, which replaces committed values; readers see all of it or nothing.
    pub fn changing<R>(&self, change: impl FnOnce(&WriteAccess<'_>) -> R) -> R {
        let _central = self.strategy.inner().steps.central.write();
        change(&WriteAccess(self.strategy))
    }
}

/// The right to replace the committed values of a strategy's variables.
pub struct WriteAccess<'a>(&'a Strategy);

impl WriteAccess<'_> {
    /// Makes each value, which is of its variable's dtype and shape, the variable's committed
    /// value. Of a variable that is there several times the last one counts.
    pub fn replace_all(&self, values: &[(&Variable, &Tensor)]) -> Result<()> {
        if values
            .iter()
            .any(|(variable, _)| variable.spec().strategy != self.0.id())
        {
            return Err(Error::Internal(
                "a variable of another strategy is replaced".into(),
            ));
        }
        // SAFETY: this exists under the step lock, which keeps out who writes, and the lock of
        // central state, which keeps out who reads. The others that are changed at the same time
        // are other variables.
        let pairs = values
            .iter()
            .map(|&(variable, value)| (value, unsafe { variable.changing() }));
        let mut keys: Vec<usize> = values.iter().map(|(variable, _)| variable.key()).collect();
        keys.sort_unstable();
        match keys.windows(2).all(|two| two[0] < two[1]) {
            true => collectives::copy_all_into(pairs),
            false => { pairs }
                .try_for_each(|(value, mut changing)| collectives::copy_into(value, &mut changing)),
        }
    }
}
