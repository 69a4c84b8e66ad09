//! Measurements of the time that the steps of a strategy take.

use crate::setup::central_storage::Strategy;
use umbo_base::error::{Error, Result};
use umbo_diagnose::advice::{self, Advice};
use umbo_diagnose::summary::Summary;

/// The measurements of a strategy's steps, and advice.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// The figures.
    pub summary: Summary,
    /// Advice about the causes that keep the steps from being faster; empty if nothing stands out.
    pub advice: Vec<Advice>,
}

impl StepReport {
    /// Figures and advice as a text of several lines.
    pub fn text(&self) -> String {
        advice::report(&self.summary, &self.advice)
    }
}

impl Strategy {
    /// Measures steps from now on and forgets what was measured before, or measures no more and
    /// keeps it. Measuring takes about a microsecond of a step. In the default context too;
    /// does not wait for steps.
    pub fn measure_steps(&self, measure: bool) -> Result<()> {
        match measure {
            true => self.inner().steps.recorder.start(),
            false => self.inner().steps.recorder.stop(),
        }
        Ok(())
    }

    /// The measurements since [`Strategy::measure_steps`]. FAILED_PRECONDITION if no step was.
    pub fn step_report(&self) -> Result<StepReport> {
        let summary = self.inner().steps.recorder.summary().ok_or_else(|| {
            Error::precondition(
                "strategy: no step was measured; have steps measured first, and run some that are \
                 committed",
            )
        })?;
        let advice = advice::of(&summary);
        Ok(StepReport { summary, advice })
    }
}
