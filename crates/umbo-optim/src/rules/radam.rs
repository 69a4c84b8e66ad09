//! RAdam.

use crate::rules::{
    Rates, Running, Scalars, Slot, UpdateRule, VariableProgress, WeightDecay, check_decay,
    check_epsilon,
};
use umbo_base::error::Result;
use umbo_kernels::update::rules::RuleKind;

/// RAdam (Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2020), Adam whose
/// first steps are rectified, with the moments in the slots `m` and `v`. For the t-th update of a
/// variable:
///
/// - ρ∞ = 2/(1 − β₂) − 1, and ρ = ρ∞ − 2·t·β₂ᵗ/(1 − β₂ᵗ)
/// - m ← β₁·m + (1 − β₁)·g
/// - v ← β₂·v + (1 − β₂)·g²
/// - r = √((ρ − 4)·(ρ − 2)·ρ∞ / ((ρ∞ − 4)·(ρ∞ − 2)·ρ))
/// - w ← w − η/(1 − β₁ᵗ) · m · r·√(1 − β₂ᵗ)/(√v + ε) if ρ > 5, else w ← w − η/(1 − β₁ᵗ) · m
///
/// ε stands outside of the square root of the *uncorrected* moment, as in PyTorch.
#[derive(Clone, Copy, Debug)]
pub struct RAdam {
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    weight_decay: WeightDecay,
}

static SLOTS: [Slot; 2] = [Slot::new("m", 0.0), Slot::new("v", 0.0)];

impl RAdam {
    /// The rule with decay factors `beta1` and `beta2`, at least 0 and less than 1, and `epsilon`,
    /// finite and more than 0 also when rounded to float32.
    pub fn new(beta1: f64, beta2: f64, epsilon: f64) -> Result<RAdam> {
        built_with!("rules-extra", "the rule radam");
        check_decay("beta1", beta1)?;
        check_decay("beta2", beta2)?;
        check_epsilon(epsilon)?;
        Ok(RAdam {
            beta1,
            beta2,
            epsilon,
            weight_decay: WeightDecay::L2,
        })
    }

    /// The same, with this kind of weight decay.
    pub fn with_weight_decay(self, weight_decay: WeightDecay) -> RAdam {
        RAdam {
            weight_decay,
            ..self
        }
    }

    /// r in update t; `None` where the variance of the step has no bound yet.
    fn rectification(&self, t: f64, power2: f64) -> Option<f64> {
        let most = 2.0 / (1.0 - self.beta2) - 1.0;
        let length = most - 2.0 * t * power2 / (1.0 - power2);
        let square =
            ((length - 4.0) * (length - 2.0) * most) / ((most - 4.0) * (most - 2.0) * length);
        (length > 5.0).then(|| square.sqrt())
    }
}

impl UpdateRule for RAdam {
    fn name(&self) -> &str {
        "radam"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("beta1", self.beta1),
            ("beta2", self.beta2),
            ("epsilon", self.epsilon),
            self.weight_decay.setting(),
        ]
    }

    fn slots(&self) -> &[Slot] {
        &SLOTS
    }

    fn initial_running(&self) -> Running {
        [1.0, 1.0]
    }

    fn weight_decay(&self) -> WeightDecay {
        self.weight_decay
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let [power1, power2] = progress.running;
        let running = [power1 * self.beta1, power2 * self.beta2];
        let corrected = rates.learning_rate / (1.0 - running[0]);
        let t = progress.updates as f64 + 1.0;
        let (rate, plain_rate) = match self.rectification(t, running[1]) {
            Some(factor) => (corrected * factor * (1.0 - running[1]).sqrt(), 0.0),
            None => (0.0, corrected),
        };
        let scalars = [
            self.beta1,
            self.beta2,
            1.0 - self.beta1,
            1.0 - self.beta2,
            rate,
            plain_rate,
            self.epsilon,
            self.weight_decay.kept(rates),
        ];
        Ok(Scalars::of(rates, running, RuleKind::RAdam, scalars))
    }
}
