//! LAMB.

use crate::error::Result;
use crate::kernels::update::rules::{RuleKind, SCALARS, SUMS};
use crate::optimizer::adam::Adam;
use crate::optimizer::rule::{
    Rates, Running, Scalars, Slot, UpdateRule, WeightDecay, check_not_negative,
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

impl Lamb {
    /// The rule with the decay `weight_decay`, finite and at least 0; the others as for
    /// [`Adam::new`].
    pub fn new(beta1: f64, beta2: f64, epsilon: f64, weight_decay: f64) -> Result<Lamb> {
        check_not_negative("weight_decay", weight_decay)?;
        Ok(Lamb { adam: Adam::new(beta1, beta2, epsilon)?, weight_decay })
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

    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars> {
        let (adam, running) = self.adam.scalars(rates, running);
        let correction1 = 1.0 / (1.0 - running[0]);
        let scalars =
            adam.into_iter().chain([correction1, rates.weight_decay, rates.learning_rate]);
        Ok(Scalars::of(rates, running, RuleKind::Lamb, scalars))
    }

    fn measures(&self) -> bool {
        true
    }

    fn measured(&self, mut scalars: Scalars, squares: [f64; SUMS]) -> Scalars {
        let [weights, update] = squares.map(f64::sqrt);
        let trust = if weights > 0.0 && update > 0.0 { weights / update } else { 1.0 };
        if let Some(step) = &mut scalars.step {
            step.scalars[SCALARS - 1] = scalars.rates.learning_rate * trust;
        }
        scalars
    }
}
