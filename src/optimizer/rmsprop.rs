//! RMSprop, also centered and with momentum.

use std::borrow::Cow;

use crate::error::Result;
use crate::kernels::float::real::{Real, for_real};
use crate::kernels::update::formula::Formula;
use crate::kernels::update::pass::Pass;
use crate::kernels::update::step::{Step, StepKind};
use crate::optimizer::rule::{
    Rates, Running, Scalars, Slot, UpdateRule, check_decay, check_epsilon,
};

/// RMSprop (Tieleman and Hinton, "Lecture 6.5 — RMSProp", 2012; centered as in Graves, "Generating
/// Sequences With Recurrent Neural Networks", 2013):
///
/// - v ← ρ·v + (1 − ρ)·g²
/// - d = √v + ε, or centered: a ← ρ·a + (1 − ρ)·g and d = √(v − a²) + ε
/// - w ← w − η·g/d, or with momentum: b ← μ·b + g/d and w ← w − η·b
///
/// with v, a and b in the slots `v`, `mean` and `momentum`. ε stands outside of the square root and
/// b is free of the learning rate, as in PyTorch. v − a², which rounding can make negative, is at
/// least 0.
#[derive(Clone, Copy, Debug)]
pub struct RmsProp {
    rho: f64,
    momentum: f64,
    centered: bool,
    epsilon: f64,
}

const V: Slot = Slot { name: Cow::Borrowed("v"), initial: 0.0 };
const MEAN: Slot = Slot { name: Cow::Borrowed("mean"), initial: 0.0 };
const MOMENTUM: Slot = Slot { name: Cow::Borrowed("momentum"), initial: 0.0 };

impl RmsProp {
    /// The rule with rho factor `rho` of the moments (ρ) and `momentum` (μ; 0 for none), both
    /// at least 0 and less than 1, and `epsilon`, finite and more than 0 also when rounded to
    /// float32.
    pub fn new(rho: f64, momentum: f64, centered: bool, epsilon: f64) -> Result<RmsProp> {
        check_decay("rho", rho)?;
        check_decay("momentum", momentum)?;
        check_epsilon(epsilon)?;
        Ok(RmsProp { rho, momentum, centered, epsilon })
    }
}

impl UpdateRule for RmsProp {
    fn name(&self) -> &str {
        "rmsprop"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("rho", self.rho),
            ("momentum", self.momentum),
            ("epsilon", self.epsilon),
            ("centered", f64::from(self.centered)),
        ]
    }

    fn slots(&self) -> &[Slot] {
        match (self.centered, self.momentum != 0.0) {
            (false, false) => &[V],
            (false, true) => &[V, MOMENTUM],
            (true, false) => &[V, MEAN],
            (true, true) => &[V, MEAN, MOMENTUM],
        }
    }

    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars> {
        Ok(Scalars::of(rates, running))
    }

    fn step(&self, scalars: &Scalars) -> Option<Step> {
        let kind = match (self.centered, self.momentum != 0.0) {
            (false, false) => StepKind::RmsProp,
            (false, true) => StepKind::RmsPropMomentum,
            (true, false) => StepKind::RmsPropCentered,
            (true, true) => StepKind::RmsPropCenteredMomentum,
        };
        let learning_rate = scalars.rates.learning_rate;
        let all = [self.rho, 1.0 - self.rho, self.momentum, self.epsilon, learning_rate];
        Some(Step::new(kind, all))
    }

    fn update(&self, scalars: &Scalars, pass: &Pass<'_>) {
        for_real!(pass.dtype(), T => {
            let step = RmsPropFormula {
                rho: T::from_f64(self.rho),
                rest: T::from_f64(1.0 - self.rho),
                momentum: T::from_f64(self.momentum),
                epsilon: T::from_f64(self.epsilon),
                learning_rate: T::from_f64(scalars.rates.learning_rate),
            };
            match (self.centered, self.momentum != 0.0) {
                (false, false) => pass.run(Plain(step)),
                (false, true) => pass.run(WithMomentum(step)),
                (true, false) => pass.run(Centered(step)),
                (true, true) => pass.run(CenteredWithMomentum(step)),
            }
        });
    }
}

#[derive(Clone, Copy)]
struct RmsPropFormula<T> {
    rho: T,
    /// 1 − ρ, rounded once.
    rest: T,
    momentum: T,
    epsilon: T,
    learning_rate: T,
}

impl<T: Real> RmsPropFormula<T> {
    /// The next moment, of g or of g².
    #[inline(always)]
    fn moment(self, moment: T, value: T) -> T {
        self.rho * moment + self.rest * value
    }

    /// The next v, and g/d.
    #[inline(always)]
    fn plain(self, v: T, gradient: T) -> (T, T) {
        let v = self.moment(v, gradient * gradient);
        (v, gradient / (v.sqrt() + self.epsilon))
    }

    /// The next v and a, and g/d.
    #[inline(always)]
    fn centered(self, v: T, mean: T, gradient: T) -> (T, T, T) {
        let (v, mean) = (self.moment(v, gradient * gradient), self.moment(mean, gradient));
        let (zero, variance) = (T::from_f64(0.0), v - mean * mean);
        let variance = if variance < zero { zero } else { variance };
        (v, mean, gradient / (variance.sqrt() + self.epsilon))
    }
}

#[derive(Clone, Copy)]
struct Plain<T>(RmsPropFormula<T>);

impl<T: Real> Formula<1> for Plain<T> {
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, [v]: [T; 1], gradient: T) -> (T, [T; 1]) {
        let (v, step) = self.0.plain(v, gradient);
        (weight - self.0.learning_rate * step, [v])
    }
}

#[derive(Clone, Copy)]
struct WithMomentum<T>(RmsPropFormula<T>);

impl<T: Real> Formula<2> for WithMomentum<T> {
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, [v, sum]: [T; 2], gradient: T) -> (T, [T; 2]) {
        let (v, step) = self.0.plain(v, gradient);
        let sum = self.0.momentum * sum + step;
        (weight - self.0.learning_rate * sum, [v, sum])
    }
}

#[derive(Clone, Copy)]
struct Centered<T>(RmsPropFormula<T>);

impl<T: Real> Formula<2> for Centered<T> {
    const IS_RARE: bool = true;
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, [v, mean]: [T; 2], gradient: T) -> (T, [T; 2]) {
        let (v, mean, step) = self.0.centered(v, mean, gradient);
        (weight - self.0.learning_rate * step, [v, mean])
    }
}

#[derive(Clone, Copy)]
struct CenteredWithMomentum<T>(RmsPropFormula<T>);

impl<T: Real> Formula<3> for CenteredWithMomentum<T> {
    const IS_RARE: bool = true;
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, [v, mean, sum]: [T; 3], gradient: T) -> (T, [T; 3]) {
        let (v, mean, step) = self.0.centered(v, mean, gradient);
        let sum = self.0.momentum * sum + step;
        (weight - self.0.learning_rate * sum, [v, mean, sum])
    }
}
