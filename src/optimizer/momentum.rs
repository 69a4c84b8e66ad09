//! Gradient descent with momentum, also Nesterov's.

use std::borrow::Cow;

use crate::error::Result;
use crate::kernels::float::real::{Real, for_real};
use crate::kernels::update::formula::Formula;
use crate::kernels::update::pass::Pass;
use crate::kernels::update::step::{Step, StepKind};
use crate::optimizer::rule::{Rates, Running, Scalars, Slot, UpdateRule, check_decay};

/// Gradient descent with a decaying sum of gradients in the slot `momentum`:
///
/// - a ← μ·a + g
/// - w ← w − η·a, or with Nesterov's look-ahead w ← w − η·(g + μ·a)
///
/// (Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; Nesterov
/// 1983 in the form of Sutskever et al., "On the importance of initialization and momentum in deep
/// learning", 2013.) The sum holds gradients and not steps, as in TensorFlow's `ApplyMomentum` and
/// in PyTorch, so a new learning rate acts at once on all of it. Keras keeps the steps; the two
/// agree while the learning rate stays the same.
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    momentum: f64,
    nesterov: bool,
}

impl Momentum {
    /// The rule with decay factor `momentum`, at least 0 and less than 1.
    pub fn new(momentum: f64, nesterov: bool) -> Result<Momentum> {
        check_decay("momentum", momentum)?;
        Ok(Momentum { momentum, nesterov })
    }
}

impl UpdateRule for Momentum {
    fn name(&self) -> &str {
        "momentum"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![("momentum", self.momentum), ("nesterov", f64::from(self.nesterov))]
    }

    fn slots(&self) -> &[Slot] {
        &[Slot { name: Cow::Borrowed("momentum"), initial: 0.0 }]
    }

    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars> {
        Ok(Scalars::of(rates, running))
    }

    fn step(&self, scalars: &Scalars) -> Option<Step> {
        let kind = if self.nesterov { StepKind::Nesterov } else { StepKind::Momentum };
        Some(Step::new(kind, [scalars.rates.learning_rate, self.momentum]))
    }

    fn update(&self, scalars: &Scalars, pass: &Pass<'_>) {
        for_real!(pass.dtype(), T => {
            let learning_rate = T::from_f64(scalars.rates.learning_rate);
            let momentum = T::from_f64(self.momentum);
            if self.nesterov {
                pass.run(Nesterov { learning_rate, momentum });
            } else {
                pass.run(Plain { learning_rate, momentum });
            }
        });
    }
}

#[derive(Clone, Copy)]
struct Plain<T> {
    learning_rate: T,
    momentum: T,
}

impl<T: Real> Formula<1> for Plain<T> {
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, [sum]: [T; 1], gradient: T) -> (T, [T; 1]) {
        let sum = self.momentum * sum + gradient;
        (weight - self.learning_rate * sum, [sum])
    }
}

#[derive(Clone, Copy)]
struct Nesterov<T> {
    learning_rate: T,
    momentum: T,
}

impl<T: Real> Formula<1> for Nesterov<T> {
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, [sum]: [T; 1], gradient: T) -> (T, [T; 1]) {
        let sum = self.momentum * sum + gradient;
        (weight - self.learning_rate * (gradient + self.momentum * sum), [sum])
    }
}
