//! LARS.

use crate::rules::{
    Rates, Scalars, Slot, UpdateRule, VariableProgress, WeightDecay, check_decay,
    check_not_negative,
};
use umbo_base::error::Result;
use umbo_kernels::update::rules::{RuleKind, RuleStep};

/// LARS (You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017), whose
/// momentum is in the slot `momentum`. For each variable:
///
/// - u = g + λ·w
/// - r = η·c·‖w‖/‖u‖, or η where one of the norms is 0
/// - a ← μ·a + r·u
/// - w ← w − a
///
/// as in optax. The paper divides by ‖g‖ + λ·‖w‖, which is at least ‖u‖, and ‖u‖ for λ = 0.
/// The sum holds steps, not gradients: a new learning rate does not act on earlier ones.
///
/// The norms need a pass over the variable and its gradients before the one that updates: 4 + R·g
/// bytes an element more.
#[derive(Clone, Copy, Debug)]
pub struct Lars {
    momentum: f64,
    trust_coefficient: f64,
    weight_decay: f64,
}

impl Lars {
    /// The rule with decay factor `momentum` (μ), at least 0 and less than 1, `trust_coefficient`
    /// (c) and `weight_decay` (λ), both finite and at least 0.
    pub fn new(momentum: f64, trust_coefficient: f64, weight_decay: f64) -> Result<Lars> {
        built_with!("rules-extra", "the rule lars");
        check_decay("momentum", momentum)?;
        check_not_negative("trust_coefficient", trust_coefficient)?;
        check_not_negative("weight_decay", weight_decay)?;
        Ok(Lars {
            momentum,
            trust_coefficient,
            weight_decay,
        })
    }
}

impl UpdateRule for Lars {
    fn name(&self) -> &str {
        "lars"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("momentum", self.momentum),
            ("trust_coefficient", self.trust_coefficient),
            ("weight_decay", self.weight_decay),
        ]
    }

    fn slots(&self) -> &[Slot] {
        static SLOTS: [Slot; 1] = [Slot::new("momentum", 0.0)];
        &SLOTS
    }

    /// The rule adds it to the gradient itself, since the norms are of that sum.
    fn weight_decay(&self) -> WeightDecay {
        WeightDecay::Decoupled
    }

    fn default_weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let step = RuleStep::new(RuleKind::Lars, [self.momentum, rates.weight_decay]);
        Ok(Scalars {
            rates: *rates,
            step: Some(step.with_rate(rates.learning_rate, self.trust_coefficient)),
            running: progress.running,
        })
    }

    fn measures(&self) -> bool {
        true
    }
}
