//! Adam with decoupled weight decay.

use crate::error::Result;
use crate::kernels::float::real::{Real, for_real};
use crate::kernels::update::formula::Formula;
use crate::kernels::update::pass::Pass;
use crate::kernels::update::step::{Step, StepKind};
use crate::optimizer::adam::{self, Adam};
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
        self.adam.prepare(rates, running)
    }

    fn step(&self, scalars: &Scalars) -> Option<Step> {
        let [beta1, beta2, rest1, rest2, step, correction, epsilon] =
            self.adam.step_scalars(scalars);
        let kept = 1.0 - scalars.rates.learning_rate * scalars.rates.weight_decay;
        let all = [beta1, beta2, rest1, rest2, step, correction, epsilon, kept];
        let kind = if self.adam.is_amsgrad() { StepKind::AmsGradW } else { StepKind::AdamW };
        Some(Step::new(kind, all))
    }

    fn update(&self, scalars: &Scalars, pass: &Pass<'_>) {
        let Rates { learning_rate, weight_decay } = scalars.rates;
        for_real!(pass.dtype(), T => {
            let kept = T::from_f64(1.0 - learning_rate * weight_decay);
            let adam = self.adam.formula::<T>(scalars);
            if self.adam.is_amsgrad() {
                pass.run(AdamWFormula { kept, adam: adam::AmsGradFormula(adam) });
            } else {
                pass.run(AdamWFormula { kept, adam });
            }
        });
    }
}

#[derive(Clone, Copy)]
struct AdamWFormula<T, A> {
    /// 1 − η·λ.
    kept: T,
    adam: A,
}

impl<T: Real, A: Formula<N, Element = T>, const N: usize> Formula<N> for AdamWFormula<T, A> {
    const IS_RARE: bool = A::IS_RARE;
    type Element = T;

    #[inline(always)]
    fn apply(self, weight: T, moments: [T; N], gradient: T) -> (T, [T; N]) {
        self.adam.apply(self.kept * weight, moments, gradient)
    }
}
