//! Adam.

use std::borrow::Cow;

use crate::error::Result;
use crate::kernels::float::real::{Real, for_real};
use crate::kernels::update::formula::Formula;
use crate::kernels::update::pass::Pass;
use crate::kernels::update::step::{Step, StepKind};
use crate::optimizer::rule::{
    Rates, Running, Scalars, Slot, UpdateRule, check_decay, check_epsilon,
};

/// Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, Algorithm 1), with
/// the moments in the slots `m` and `v`. For the t-th update of a variable:
///
/// - m ← β₁·m + (1 − β₁)·g
/// - v ← β₂·v + (1 − β₂)·g²
/// - w ← w − η/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + ε)
///
/// ε stands outside of the square root and beside the *corrected* second moment, as in Algorithm 1
/// and in PyTorch. (Keras puts its epsilon beside the uncorrected one, the "epsilon hat" of the
/// paper's section 2; the two differ while t is small.) t counts the updates of this variable. The
/// powers of beta are running float64 products and both corrections are float64 scalars, rounded to
/// the variable's dtype when they meet its elements.
///
/// With [`Adam::amsgrad`] (Reddi, Kale and Kumar, "On the Convergence of Adam and Beyond", 2018) the largest v so
/// far, without the correction as in PyTorch and Keras, takes v's place in the last line. It is the slot `v_max`.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    amsgrad: bool,
}

const M: Slot = Slot { name: Cow::Borrowed("m"), initial: 0.0 };
const V: Slot = Slot { name: Cow::Borrowed("v"), initial: 0.0 };
const V_MAX: Slot = Slot { name: Cow::Borrowed("v_max"), initial: 0.0 };

impl Adam {
    /// The rule with decay factors `beta1` and `beta2`, at least 0 and less than 1, and `epsilon`,
    /// finite and more than 0 also when rounded to float32.
    pub fn new(beta1: f64, beta2: f64, epsilon: f64) -> Result<Adam> {
        check_decay("beta1", beta1)?;
        check_decay("beta2", beta2)?;
        check_epsilon(epsilon)?;
        Ok(Adam { beta1, beta2, epsilon, amsgrad: false })
    }

    /// The same, which divides by the root of the largest v so far if `amsgrad` says so.
    pub fn amsgrad(self, amsgrad: bool) -> Adam {
        Adam { amsgrad, ..self }
    }

    /// Whether it divides by the root of the largest v so far.
    pub(super) fn is_amsgrad(&self) -> bool {
        self.amsgrad
    }

    /// The decay factors and epsilon.
    pub(super) fn numbers(&self) -> Vec<(&'static str, f64)> {
        vec![("beta1", self.beta1), ("beta2", self.beta2), ("epsilon", self.epsilon)]
    }

    /// The scalars of a step of Adam's kind.
    pub(super) fn step_scalars(&self, scalars: &Scalars) -> [f64; 7] {
        let Adam { beta1, beta2, epsilon, .. } = *self;
        let [step, correction, ..] = scalars.derived;
        [beta1, beta2, 1.0 - beta1, 1.0 - beta2, step, correction, epsilon]
    }

    /// The step with the scalars that `prepare` made, in the arithmetic of `T`.
    pub(super) fn formula<T: Real>(&self, scalars: &Scalars) -> AdamFormula<T> {
        let [step, correction, ..] = scalars.derived;
        AdamFormula {
            beta1: T::from_f64(self.beta1),
            beta2: T::from_f64(self.beta2),
            rest1: T::from_f64(1.0 - self.beta1),
            rest2: T::from_f64(1.0 - self.beta2),
            step: T::from_f64(step),
            correction: T::from_f64(correction),
            epsilon: T::from_f64(self.epsilon),
        }
    }
}

impl UpdateRule for Adam {
    fn name(&self) -> &str {
        "adam"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        let mut settings = self.numbers();
        settings.push(("amsgrad", f64::from(self.amsgrad)));
        settings
    }

    fn slots(&self) -> &[Slot] {
        if self.amsgrad { &[M, V, V_MAX] } else { &[M, V] }
    }

    fn initial_running(&self) -> Running {
        [1.0, 1.0]
    }

    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars> {
        let running = [running[0] * self.beta1, running[1] * self.beta2];
        let step = rates.learning_rate / (1.0 - running[0]);
        let correction = 1.0 / (1.0 - running[1]).sqrt();
        Ok(Scalars { rates: *rates, derived: [step, correction, 0.0, 0.0], running })
    }

    fn step(&self, scalars: &Scalars) -> Option<Step> {
        let kind = if self.amsgrad { StepKind::AmsGrad } else { StepKind::Adam };
        Some(Step::new(kind, self.step_scalars(scalars)))
    }

    fn update(&self, scalars: &Scalars, pass: &Pass<'_>) {
        for_real!(pass.dtype(), T => {
            let formula = self.formula::<T>(scalars);
            if self.amsgrad { pass.run(AmsGradFormula(formula)) } else { pass.run(formula) }
        });
    }
}

/// What one update does to one element.
#[derive(Clone, Copy)]
pub(super) struct AdamFormula<T> {
    beta1: T,
    beta2: T,
    /// 1 − β₁ and 1 − β₂, rounded once.
    rest1: T,
    rest2: T,
    /// η/(1 − β₁ᵗ).
    step: T,
    /// 1/√(1 − β₂ᵗ).
    correction: T,
    epsilon: T,
}

impl<T: Real> AdamFormula<T> {
    /// The next moments, and m / (√v/√(1 − β₂ᵗ) + ε).
    #[inline(always)]
    pub(super) fn direction(self, [m, v]: [T; 2], gradient: T) -> (T, [T; 2]) {
        let m = self.beta1 * m + self.rest1 * gradient;
        let v = self.beta2 * v + self.rest2 * (gradient * gradient);
        (m / (v.sqrt() * self.correction + self.epsilon), [m, v])
    }
}

impl<T: Real> Formula<2> for AdamFormula<T> {
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, moments: [T; 2], gradient: T) -> (T, [T; 2]) {
        let (direction, moments) = self.direction(moments, gradient);
        (weight - self.step * direction, moments)
    }
}

/// The same with the largest second moment.
#[derive(Clone, Copy)]
pub(super) struct AmsGradFormula<T>(pub(super) AdamFormula<T>);

impl<T: Real> Formula<3> for AmsGradFormula<T> {
    const IS_RARE: bool = true;
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, [m, v, largest]: [T; 3], gradient: T) -> (T, [T; 3]) {
        let adam = self.0;
        let m = adam.beta1 * m + adam.rest1 * gradient;
        let v = adam.beta2 * v + adam.rest2 * (gradient * gradient);
        // What is not a number stays in v, and so gets here.
        let largest = if v <= largest { largest } else { v };
        let direction = m / (largest.sqrt() * adam.correction + adam.epsilon);
        (weight - adam.step * direction, [m, v, largest])
    }
}
