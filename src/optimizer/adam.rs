//! Adam.

use crate::error::Result;
use crate::kernels::update::rules::RuleKind;
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
    pub(super) amsgrad: bool,
}

static SLOTS: [Slot; 3] = [Slot::new("m", 0.0), Slot::new("v", 0.0), Slot::new("v_max", 0.0)];

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

    /// The decay factors and epsilon.
    pub(super) fn numbers(&self) -> Vec<(&'static str, f64)> {
        vec![("beta1", self.beta1), ("beta2", self.beta2), ("epsilon", self.epsilon)]
    }

    /// Its scalars in the order of the table of rules, and the running scalars after the update.
    pub(super) fn scalars(&self, rates: &Rates, running: &Running) -> ([f64; 7], Running) {
        let Adam { beta1, beta2, epsilon, .. } = *self;
        let running = [running[0] * beta1, running[1] * beta2];
        let rate = rates.learning_rate / (1.0 - running[0]);
        let correction2 = 1.0 / (1.0 - running[1]).sqrt();
        ([beta1, beta2, 1.0 - beta1, 1.0 - beta2, rate, correction2, epsilon], running)
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
        if self.amsgrad { &SLOTS } else { &SLOTS[..2] }
    }

    fn initial_running(&self) -> Running {
        [1.0, 1.0]
    }

    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars> {
        let kind = if self.amsgrad { RuleKind::AmsGrad } else { RuleKind::Adam };
        let (scalars, running) = self.scalars(rates, running);
        Ok(Scalars::of(rates, running, kind, scalars))
    }
}
