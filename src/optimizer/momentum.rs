//! Gradient descent with momentum, also Nesterov's.

use std::borrow::Cow;

use crate::error::{Error, Result};
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
///
/// With [`Momentum::dampened`] by δ, as in PyTorch, a ← μ·a + (1 − δ)·g; in a variable's first update a ← g. Whether
/// there was one is the running scalar, which stays 0 without dampening.
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    momentum: f64,
    nesterov: bool,
    dampening: f64,
}

impl Momentum {
    /// The rule with decay factor `momentum`, at least 0 and less than 1.
    pub fn new(momentum: f64, nesterov: bool) -> Result<Momentum> {
        check_decay("momentum", momentum)?;
        Ok(Momentum { momentum, nesterov, dampening: 0.0 })
    }

    /// The same with a `dampening` of gradients, at least 0 and at most 1. Nesterov's momentum has none.
    pub fn dampened(self, dampening: f64) -> Result<Momentum> {
        if !(0.0..=1.0).contains(&dampening) {
            let problem = format!("{dampening}; must be at least 0 and at most 1");
            return Err(Error::invalid("dampening", problem));
        }
        if self.nesterov && dampening != 0.0 {
            let problem = format!("{dampening}; must be 0 with Nesterov's momentum");
            return Err(Error::invalid("dampening", problem));
        }
        Ok(Momentum { dampening, ..self })
    }
}

impl UpdateRule for Momentum {
    fn name(&self) -> &str {
        "momentum"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("momentum", self.momentum),
            ("nesterov", f64::from(self.nesterov)),
            ("dampening", self.dampening),
        ]
    }

    fn slots(&self) -> &[Slot] {
        &[Slot { name: Cow::Borrowed("momentum"), initial: 0.0 }]
    }

    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars> {
        let mut scalars = Scalars::of(rates, running);
        if self.dampening != 0.0 {
            scalars.running[0] = 1.0;
        }
        let dampens = running[0] != 0.0;
        scalars.derived[0] = if dampens { 1.0 - self.dampening } else { 1.0 };
        Ok(scalars)
    }

    fn step(&self, scalars: &Scalars) -> Option<Step> {
        let kind = if self.nesterov { StepKind::Nesterov } else { StepKind::Momentum };
        let [rest, ..] = scalars.derived;
        Some(Step::new(kind, [scalars.rates.learning_rate, self.momentum, rest]))
    }

    fn update(&self, scalars: &Scalars, pass: &Pass<'_>) {
        for_real!(pass.dtype(), T => {
            let learning_rate = T::from_f64(scalars.rates.learning_rate);
            let momentum = T::from_f64(self.momentum);
            if self.nesterov {
                pass.run(Nesterov { learning_rate, momentum });
            } else if self.dampening != 0.0 {
                let rest = T::from_f64(scalars.derived[0]);
                pass.run(Dampened { learning_rate, momentum, rest });
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
struct Dampened<T> {
    learning_rate: T,
    momentum: T,
    /// 1 − δ, or 1 in the first update.
    rest: T,
}

impl<T: Real> Formula<1> for Dampened<T> {
    const IS_RARE: bool = true;
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, [sum]: [T; 1], gradient: T) -> (T, [T; 1]) {
        let sum = self.momentum * sum + self.rest * gradient;
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
