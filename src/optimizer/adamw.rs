//! Adam with decoupled weight decay.

use crate::error::Result;
use crate::kernels::update::rules::RuleKind;
use crate::optimizer::adam::Adam;
use crate::optimizer::rule::{
    Rates, Running, Scalars, Slot, UpdateRule, WeightDecay, check_not_negative,
};

/// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019, Algorithm 2), with
/// the moments in the slots `m` and `v`:
///
/// - w ← (1 − η·λ)·w
/// - then the step of [`Adam`], whose moments have nothing of the decay
///
/// The decay is multiplied with the learning rate, as in PyTorch and Keras; the paper multiplies
/// it with the schedule alone, so its λ is our η₀·λ for a base rate η₀.
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    adam: Adam,
    weight_decay: f64,
}

impl AdamW {
    /// The rule with the decay `weight_decay`, finite and at least 0; the others as for
    /// [`Adam::new`].
    pub fn new(beta1: f64, beta2: f64, epsilon: f64, weight_decay: f64) -> Result<AdamW> {
        check_not_negative("weight_decay", weight_decay)?;
        Ok(AdamW { adam: Adam::new(beta1, beta2, epsilon)?, weight_decay })
    }

    /// The same with [`Adam::amsgrad`].
    pub fn amsgrad(self, amsgrad: bool) -> AdamW {
        AdamW { adam: self.adam.amsgrad(amsgrad), ..self }
    }
}

impl UpdateRule for AdamW {
    fn name(&self) -> &str {
        "adamw"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        let mut settings = self.adam.settings();
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
        let kind = if self.adam.amsgrad { RuleKind::AmsGradW } else { RuleKind::AdamW };
        let (adam, running) = self.adam.scalars(rates, running);
        let kept = 1.0 - rates.learning_rate * rates.weight_decay;
        Ok(Scalars::of(rates, running, kind, adam.into_iter().chain([kept])))
    }
}
