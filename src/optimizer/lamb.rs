//! LAMB.

use crate::error::Result;
use crate::kernels::float::real::{Real, for_real};
use crate::kernels::update::formula::Formula;
use crate::kernels::update::measure::Measure;
use crate::kernels::update::pass::Pass;
use crate::kernels::update::step::{Step, StepKind};
use crate::optimizer::adam::{self, Adam};
use crate::optimizer::rule::{
    Rates, Running, SUMS, Scalars, Slot, UpdateRule, WeightDecay, check_not_negative,
};

/// LAMB (You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
/// 2020, Algorithm 2, with φ the identity), with the moments in the slots `m` and `v`. For each
/// variable:
///
/// - m, v and their corrections as in [`Adam`]; r = m̂ / (√v̂ + ε)
/// - u = r + λ·w
/// - w ← w − η · ‖w‖/‖u‖ · u
///
/// The quotient of the norms is 1 where one of them is 0. The norms need a pass over the variable,
/// its moments and its gradients before the one that updates: 12 + R·g bytes an element more.
#[derive(Clone, Copy, Debug)]
pub struct Lamb {
    adam: Adam,
    weight_decay: f64,
}

/// Where `derived` holds ‖w‖/‖u‖, or 1 before that is measured; Adam's scalars come before it, and
/// 1/(1 − β₁ᵗ) after it.
const TRUST: usize = 2;
const CORRECTION1: usize = 3;

impl Lamb {
    /// The rule with the decay `weight_decay`, finite and at least 0; the others as for
    /// [`Adam::new`].
    pub fn new(beta1: f64, beta2: f64, epsilon: f64, weight_decay: f64) -> Result<Lamb> {
        check_not_negative("weight_decay", weight_decay)?;
        Ok(Lamb { adam: Adam::new(beta1, beta2, epsilon)?, weight_decay })
    }

    fn direction<T: Real>(&self, scalars: &Scalars) -> Direction<T> {
        Direction {
            adam: self.adam.formula(scalars),
            correction1: T::from_f64(scalars.derived[CORRECTION1]),
            weight_decay: T::from_f64(scalars.rates.weight_decay),
        }
    }
}

impl UpdateRule for Lamb {
    fn name(&self) -> &str {
        "lamb"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        let mut settings = self.adam.numbers();
        settings.push(("weight_decay", self.weight_decay));
        settings
    }

    fn slots(&self) -> &[Slot] {
        self.adam.slots()
    }

    fn initial_running(&self) -> Running {
        self.adam.initial_running()
    }

    fn weight_decay(&self) -> WeightDecay {
        WeightDecay::Decoupled
    }

    fn default_weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn is_elementwise(&self) -> bool {
        false
    }

    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars> {
        let mut scalars = self.adam.prepare(rates, running)?;
        scalars.derived[TRUST] = 1.0;
        scalars.derived[CORRECTION1] = 1.0 / (1.0 - scalars.running[0]);
        Ok(scalars)
    }

    fn measures(&self) -> bool {
        true
    }

    fn sums(&self, scalars: &Scalars, pass: &Pass<'_>) -> [f64; SUMS] {
        for_real!(pass.dtype(), T => pass.measure(Norms(self.direction::<T>(scalars))))
    }

    fn measured(&self, mut scalars: Scalars, squares: [f64; SUMS]) -> Scalars {
        let [weights, update] = squares.map(f64::sqrt);
        let trust = if weights > 0.0 && update > 0.0 { weights / update } else { 1.0 };
        scalars.derived[TRUST] = trust;
        scalars
    }

    fn step(&self, scalars: &Scalars) -> Option<Step> {
        let [beta1, beta2, rest1, rest2, step, correction, epsilon] =
            self.adam.step_scalars(scalars);
        let rate = scalars.rates.learning_rate * scalars.derived[TRUST];
        let (correction1, decay) = (scalars.derived[CORRECTION1], scalars.rates.weight_decay);
        let all = [beta1, beta2, rest1, rest2, step, correction, epsilon, correction1, decay, rate];
        Some(Step::new(StepKind::Lamb, all))
    }

    fn update(&self, scalars: &Scalars, pass: &Pass<'_>) {
        let rate = scalars.rates.learning_rate * scalars.derived[TRUST];
        for_real!(pass.dtype(), T => {
            pass.run(LambFormula { rate: T::from_f64(rate), direction: self.direction::<T>(scalars) });
        });
    }
}

/// Makes r + λ·w.
#[derive(Clone, Copy)]
struct Direction<T> {
    adam: adam::AdamFormula<T>,
    /// 1/(1 − β₁ᵗ).
    correction1: T,
    weight_decay: T,
}

impl<T: Real> Direction<T> {
    #[inline(always)]
    fn of(self, weight: T, moments: [T; 2], gradient: T) -> (T, [T; 2]) {
        let (direction, moments) = self.adam.direction(moments, gradient);
        (self.correction1 * direction + self.weight_decay * weight, moments)
    }
}

/// ‖w‖² and ‖u‖².
#[derive(Clone, Copy)]
struct Norms<T>(Direction<T>);

impl<T: Real> Measure<2, 2> for Norms<T> {
    type Element = T;

    #[inline(always)]
    fn of(self, weight: T, moments: [T; 2], gradient: T) -> [f64; 2] {
        let (update, _) = self.0.of(weight, moments, gradient);
        [weight, update].map(|value| value.to_f64() * value.to_f64())
    }
}

#[derive(Clone, Copy)]
struct LambFormula<T> {
    /// η · ‖w‖/‖u‖.
    rate: T,
    direction: Direction<T>,
}

impl<T: Real> Formula<2> for LambFormula<T> {
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, moments: [T; 2], gradient: T) -> (T, [T; 2]) {
        let (update, moments) = self.direction.of(weight, moments, gradient);
        (weight - self.rate * update, moments)
    }
}
