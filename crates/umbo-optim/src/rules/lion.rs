//! Lion.

use crate::rules::{
    Rates, Scalars, Slot, UpdateRule, VariableProgress, WeightDecay, check_decay,
    check_not_negative,
};
use umbo_base::error::Result;
use umbo_kernels::update::rules::RuleKind;

/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, Algorithm 2), whose
/// momentum is in the slot `m`:
///
/// - u = sign(β₁·m + (1 − β₁)·g)
/// - w ← w − η·(u + λ·w)
/// - m ← β₂·m + (1 − β₂)·g
///
/// sign(0) is 0. Each step of a weight is as large as the learning rate.
#[derive(Clone, Copy, Debug)]
pub struct Lion {
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
}

impl Lion {
    /// The rule with decay factors `beta1` and `beta2`, at least 0 and less than 1, and
    /// `weight_decay` (λ), finite and at least 0.
    pub fn new(beta1: f64, beta2: f64, weight_decay: f64) -> Result<Lion> {
        built_with!("rules-extra", "the rule lion");
        check_decay("beta1", beta1)?;
        check_decay("beta2", beta2)?;
        check_not_negative("weight_decay", weight_decay)?;
        Ok(Lion {
            beta1,
            beta2,
            weight_decay,
        })
    }
}

impl UpdateRule for Lion {
    fn name(&self) -> &str {
        "lion"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("beta1", self.beta1),
            ("beta2", self.beta2),
            ("weight_decay", self.weight_decay),
        ]
    }

    fn slots(&self) -> &[Slot] {
        static SLOTS: [Slot; 1] = [Slot::new("m", 0.0)];
        &SLOTS
    }

    fn weight_decay(&self) -> WeightDecay {
        WeightDecay::Decoupled
    }

    fn default_weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let scalars = [
            self.beta1,
            self.beta2,
            1.0 - self.beta1,
            1.0 - self.beta2,
            rates.learning_rate,
            self.weight_decay().kept(rates),
        ];
        Ok(Scalars::of(
            rates,
            progress.running,
            RuleKind::Lion,
            scalars,
        ))
    }
}
