//! Stochastic gradient descent.

use crate::error::Result;
use crate::kernels::float::real::{Real, for_real};
use crate::kernels::update::formula::Formula;
use crate::kernels::update::pass::Pass;
use crate::kernels::update::step::{Step, StepKind};
use crate::optimizer::rule::{Rates, Running, Scalars, Slot, UpdateRule};

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

    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars> {
        Ok(Scalars::of(rates, running))
    }

    fn step(&self, scalars: &Scalars) -> Option<Step> {
        Some(Step::new(StepKind::Sgd, [scalars.rates.learning_rate]))
    }

    fn update(&self, scalars: &Scalars, pass: &Pass<'_>) {
        for_real!(pass.dtype(), T => {
            pass.run(SgdFormula { learning_rate: T::from_f64(scalars.rates.learning_rate) });
        });
    }
}

#[derive(Clone, Copy)]
struct SgdFormula<T> {
    learning_rate: T,
}

impl<T: Real> Formula<0> for SgdFormula<T> {
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, _: [T; 0], gradient: T) -> (T, [T; 0]) {
        (weight - self.learning_rate * gradient, [])
    }
}
