//! NAdam.

use crate::rules::{
    Rates, Running, Scalars, Slot, UpdateRule, VariableProgress, WeightDecay, check_decay,
    check_epsilon, check_not_negative,
};
use umbo_base::error::Result;
use umbo_kernels::update::rules::RuleKind;

/// NAdam (Dozat, "Incorporating Nesterov Momentum into Adam", 2016), Adam with Nesterov's momentum,
/// whose moments are in the slots `m` and `v`. For the t-th update of a variable:
///
/// - μₜ = β₁·(1 − 0.96^(t·ψ)/2), and Πₜ = μ₁·…·μₜ
/// - m ← β₁·m + (1 − β₁)·g
/// - v ← β₂·v + (1 − β₂)·g²
/// - d = √v/√(1 − β₂ᵗ) + ε
/// - w ← w − η·((1 − μₜ)/(1 − Πₜ)·g + μₜ₊₁/(1 − Πₜ₊₁)·m) / d
///
/// as in PyTorch. ψ is the momentum's decay, with which μ rises from about β₁/2 to β₁.
#[derive(Clone, Copy, Debug)]
pub struct NAdam {
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    momentum_decay: f64,
    weight_decay: WeightDecay,
}

static SLOTS: [Slot; 2] = [Slot::new("m", 0.0), Slot::new("v", 0.0)];

impl NAdam {
    /// The rule with decay factors `beta1` and `beta2`, at least 0 and less than 1, `epsilon`,
    /// finite and more than 0 also when rounded to float32, and `momentum_decay` (ψ), finite and at
    /// least 0.
    pub fn new(beta1: f64, beta2: f64, epsilon: f64, momentum_decay: f64) -> Result<NAdam> {
        built_with!("rules-extra", "the rule nadam");
        check_decay("beta1", beta1)?;
        check_decay("beta2", beta2)?;
        check_epsilon(epsilon)?;
        check_not_negative("momentum_decay", momentum_decay)?;
        Ok(NAdam {
            beta1,
            beta2,
            epsilon,
            momentum_decay,
            weight_decay: WeightDecay::L2,
        })
    }

    /// The same, with this kind of weight decay.
    pub fn with_weight_decay(self, weight_decay: WeightDecay) -> NAdam {
        NAdam {
            weight_decay,
            ..self
        }
    }

    /// μ in update t. The power is that of `libm` and not of the system's library, whose results
    /// differ between machines.
    fn momentum(&self, t: f64) -> f64 {
        self.beta1 * (1.0 - 0.5 * libm::pow(0.96, t * self.momentum_decay))
    }
}

impl UpdateRule for NAdam {
    fn name(&self) -> &str {
        "nadam"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("beta1", self.beta1),
            ("beta2", self.beta2),
            ("epsilon", self.epsilon),
            ("momentum_decay", self.momentum_decay),
            self.weight_decay.setting(),
        ]
    }

    fn slots(&self) -> &[Slot] {
        &SLOTS
    }

    /// Πₜ and β₂ᵗ.
    fn initial_running(&self) -> Running {
        [1.0, 1.0]
    }

    fn weight_decay(&self) -> WeightDecay {
        self.weight_decay
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let [product, power2] = progress.running;
        let t = progress.updates as f64 + 1.0;
        let momentum = self.momentum(t);
        let next = self.momentum(t + 1.0);
        let running = [product * momentum, power2 * self.beta2];
        let of_gradient = rates.learning_rate * (1.0 - momentum) / (1.0 - running[0]);
        let of_moment = rates.learning_rate * next / (1.0 - running[0] * next);
        let scalars = [
            self.beta1,
            self.beta2,
            1.0 - self.beta1,
            1.0 - self.beta2,
            of_moment,
            of_gradient,
            1.0 / (1.0 - running[1]).sqrt(),
            self.epsilon,
            self.weight_decay.kept(rates),
        ];
        Ok(Scalars::of(rates, running, RuleKind::NAdam, scalars))
    }
}
