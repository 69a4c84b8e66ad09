//! Stochastic gradient descent.

use crate::rules::{Rates, Scalars, Slot, UpdateRule, VariableProgress};
use umbo_base::error::Result;
use umbo_kernels::update::rules::RuleKind;

/// Gradient descent without state: w ← w − η·g (Robbins and Monro, "A Stochastic Approximation
/// Method", 1951). Learning rate and gradient are rounded to the variable's dtype before they are
/// multiplied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sgd;

impl UpdateRule for Sgd {
    fn name(&self) -> &str {
        "sgd"
    }

    fn slots(&self) -> &[Slot] {
        &[]
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        Ok(Scalars::of(
            rates,
            progress.running,
            RuleKind::Sgd,
            [rates.learning_rate],
        ))
    }
}
