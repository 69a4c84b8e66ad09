//! Options and report of an apply.

use umbo_tensor::values::variable::Variable;

/// Options of one apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Update now, even if the gradients have accumulated fewer runs than their accumulation
    /// steps; for example at the end of an epoch.
    pub flush: bool,
    /// Report the norm of the gradient, even if nothing else needs it.
    pub measure_norm: bool,
}

impl ApplyOptions {
    /// The names of the options that are on. Replicas compare them, and messages show them.
    pub(crate) fn words(self) -> &'static str {
        match (self.flush, self.measure_norm) {
            (false, false) => "",
            (true, false) => "flush",
            (false, true) => "measure_norm",
            (true, true) => "flush and measure_norm",
        }
    }
}

/// The report of an apply.
#[derive(Clone, Debug, Default)]
pub struct ApplyReport {
    /// False if the total weight was 0 (nothing was updated, and the contributions are consumed),
    /// if the apply was skipped, and if the contributions were added to those of earlier runs.
    pub applied: bool,
    /// Whether a gradient was not finite, and so nothing was updated.
    pub skipped: bool,
    /// The first variable whose gradient was not finite: where the apply was skipped, and where it
    /// was applied as it is.
    pub non_finite: Option<Variable>,
    /// Whether the gradients were scaled down to the largest norm.
    pub clipped: bool,
    /// The norm of all gradients together, before clipping and without weight decay, if it was
    /// measured.
    pub gradient_norm: Option<f64>,
    /// Runs that are accumulated and wait for an update.
    pub accumulated_runs: u64,
    /// Variables that were updated: those that a replica of non-zero weight wrote.
    pub variables_updated: usize,
    /// The sum of the replicas' weights, over all accumulated runs.
    pub total_weight: f64,
    /// The learning rate of the update; 0 if there was none.
    pub learning_rate: f64,
    /// The loss scale of the next run.
    pub loss_scale: f64,
    /// Applies of the optimizer that have taken effect, this one included.
    pub iterations: u64,
}
