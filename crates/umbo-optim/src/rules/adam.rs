//! Adam, AdamW and LAMB, which have moments and numbers in common.

use crate::rules::{
    Rates, Running, Scalars, Slot, UpdateRule, VariableProgress, WeightDecay, check_decay,
    check_epsilon, check_not_negative,
};
use umbo_base::error::Result;
use umbo_kernels::update::eight_bit::CodeMap;
use umbo_kernels::update::rules::{RuleKind, RuleStep};

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
/// With [`Adam::amsgrad`] (Reddi, Kale and Kumar, "On the Convergence of Adam and Beyond", 2018)
/// the largest v so far, without the correction as in PyTorch and Keras, takes v's place in the
/// last line. It is the slot `v_max`.
///
/// [`Adam::adamw`] and [`Adam::lamb`] make other rules of the same moments.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    amsgrad: bool,
    uses: Uses,
    /// The weight decay of AdamW and LAMB.
    weight_decay: f64,
}

/// How the rule uses the moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Uses {
    Adam,
    AdamW,
    Lamb,
}

static SLOTS: [Slot; 3] = [
    Slot::new("m", 0.0),
    Slot::new("v", 0.0),
    Slot::new("v_max", 0.0),
];

impl Adam {
    /// The rule with decay factors `beta1` and `beta2`, at least 0 and less than 1, and `epsilon`,
    /// finite and more than 0 also when rounded to float32.
    pub fn new(beta1: f64, beta2: f64, epsilon: f64) -> Result<Adam> {
        check_decay("beta1", beta1)?;
        check_decay("beta2", beta2)?;
        check_epsilon(epsilon)?;
        Ok(Adam {
            beta1,
            beta2,
            epsilon,
            amsgrad: false,
            uses: Uses::Adam,
            weight_decay: 0.0,
        })
    }

    /// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019, Algorithm 2):
    ///
    /// - w ← (1 − η·λ)·w
    /// - then the step of [`Adam`], whose moments have nothing of the decay
    ///
    /// `weight_decay`, λ, is finite and at least 0. It is multiplied by the learning rate, as in
    /// PyTorch and Keras; the paper multiplies it with the schedule alone, so its λ is our η₀·λ
    /// for a base rate η₀.
    pub fn adamw(beta1: f64, beta2: f64, epsilon: f64, weight_decay: f64) -> Result<Adam> {
        Adam::new(beta1, beta2, epsilon)?.decayed(Uses::AdamW, weight_decay)
    }

    /// LAMB (You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
    /// 2020, Algorithm 2, with φ the identity). For each variable, with λ as in
    /// [`Adam::adamw`]:
    ///
    /// - m, v and their corrections as in [`Adam`]; r = m̂ / (√v̂ + ε)
    /// - u = r + λ·w
    /// - w ← w − η · ‖w‖/‖u‖ · u
    ///
    /// The quotient of the norms is 1 where one of them is 0. The norms need a pass over the
    /// variable, its moments and its gradients before the one that updates: 12 + R·g bytes an
    /// element more.
    pub fn lamb(beta1: f64, beta2: f64, epsilon: f64, weight_decay: f64) -> Result<Adam> {
        built_with!("rules-extra", "the rule lamb");
        Adam::new(beta1, beta2, epsilon)?.decayed(Uses::Lamb, weight_decay)
    }

    fn decayed(self, uses: Uses, weight_decay: f64) -> Result<Adam> {
        check_not_negative("weight_decay", weight_decay)?;
        Ok(Adam {
            uses,
            weight_decay,
            ..self
        })
    }

    /// The same, which divides by the root of the largest v so far if `amsgrad` says so; not for
    /// LAMB.
    pub fn amsgrad(self, amsgrad: bool) -> Adam {
        Adam { amsgrad, ..self }
    }
}

impl UpdateRule for Adam {
    fn name(&self) -> &str {
        match self.uses {
            Uses::Adam => "adam",
            Uses::AdamW => "adamw",
            Uses::Lamb => "lamb",
        }
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        let mut settings = vec![
            ("beta1", self.beta1),
            ("beta2", self.beta2),
            ("epsilon", self.epsilon),
        ];
        if self.uses != Uses::Lamb {
            settings.push(("amsgrad", f64::from(self.amsgrad)));
        }
        if self.uses != Uses::Adam {
            settings.push(("weight_decay", self.weight_decay));
        }
        settings
    }

    fn slots(&self) -> &[Slot] {
        if self.amsgrad { &SLOTS } else { &SLOTS[..2] }
    }

    fn code_maps(&self) -> Option<&'static [CodeMap]> {
        let has_moments_only = self.uses != Uses::Lamb && !self.amsgrad;
        has_moments_only.then_some(&[CodeMap::Signed, CodeMap::Unsigned])
    }

    fn initial_running(&self) -> Running {
        [1.0, 1.0]
    }

    fn weight_decay(&self) -> WeightDecay {
        match self.uses {
            Uses::Adam => WeightDecay::L2,
            Uses::AdamW | Uses::Lamb => WeightDecay::Decoupled,
        }
    }

    fn default_weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let Adam {
            beta1,
            beta2,
            epsilon,
            ..
        } = *self;
        let [power1, power2] = progress.running;
        let running = [power1 * beta1, power2 * beta2];
        let rate = rates.learning_rate / (1.0 - running[0]);
        let correction2 = 1.0 / (1.0 - running[1]).sqrt();
        let adam = [
            beta1,
            beta2,
            1.0 - beta1,
            1.0 - beta2,
            rate,
            correction2,
            epsilon,
        ];
        let kept = 1.0 - rates.learning_rate * rates.weight_decay;
        let correction1 = 1.0 / (1.0 - running[0]);
        let of_lamb = [correction1, rates.weight_decay];
        let (kind, further): (_, &[f64]) = match (self.uses, self.amsgrad) {
            (Uses::Adam, false) => (RuleKind::Adam, &[]),
            (Uses::Adam, true) => (RuleKind::AmsGrad, &[]),
            (Uses::AdamW, false) => (RuleKind::AdamW, &[kept]),
            (Uses::AdamW, true) => (RuleKind::AmsGradW, &[kept]),
            (Uses::Lamb, _) => (RuleKind::Lamb, &of_lamb),
        };
        let scalars = adam.into_iter().chain(further.iter().copied());
        let mut step = RuleStep::new(kind, scalars);
        if self.measures() {
            step = step.with_rate(rates.learning_rate, 1.0);
        }
        Ok(Scalars {
            rates: *rates,
            step: Some(step),
            running,
        })
    }

    fn measures(&self) -> bool {
        self.uses == Uses::Lamb
    }
}
