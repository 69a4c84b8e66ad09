//! FTRL-Proximal.

use crate::rules::{Rates, Scalars, Slot, UpdateRule, VariableProgress, check_not_negative};
use umbo_base::error::{Error, Result};
use umbo_kernels::update::rules::RuleKind;

/// Follow the regularised leader, proximal (McMahan et al., "Ad Click Prediction: a View from the
/// Trenches", 2013, Algorithm 1), with the slots `z` (`linear` in TensorFlow) and `n`
/// (`accumulator` there); α is the learning rate:
///
/// - σ = (√(n + g²) − √n) / α
/// - z ← z + g − σ·w, n ← n + g²
/// - w ← 0 where |z| ≤ λ₁, else −(z − sgn(z)·λ₁) / ((β + √n)/α + λ₂)
///
/// The weights follow from z and n alone, so those that are not zero at the start are forgotten, in
/// part at the first update. σ is meant for a learning rate that stays as it is.
#[derive(Clone, Debug)]
pub struct Ftrl {
    beta: f64,
    l1: f64,
    l2: f64,
    slots: [Slot; 2],
}

impl Ftrl {
    /// The rule with `beta`, L1 and L2 strengths, and the start of the sum of squares n: all
    /// finite and at least 0, and `beta` and `initial_accumulator` not both 0.
    pub fn new(beta: f64, l1: f64, l2: f64, initial_accumulator: f64) -> Result<Ftrl> {
        built_with!("rules-extra", "the rule ftrl");
        let arguments = [
            ("beta", beta),
            ("l1", l1),
            ("l2", l2),
            ("initial_accumulator", initial_accumulator),
        ];
        for (argument, value) in arguments {
            check_not_negative(argument, value)?;
        }
        // Without this check a weight whose gradients are all zero becomes 0/0.
        if (beta + l2 + initial_accumulator) as f32 == 0.0 {
            let problem = "0 together with l2 and initial_accumulator; one must be more than 0";
            return Err(Error::invalid("beta", problem));
        }
        let slots = [Slot::new("z", 0.0), Slot::new("n", initial_accumulator)];
        Ok(Ftrl {
            beta,
            l1,
            l2,
            slots,
        })
    }
}

impl UpdateRule for Ftrl {
    fn name(&self) -> &str {
        "ftrl"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("beta", self.beta),
            ("l1", self.l1),
            ("l2", self.l2),
            ("initial_accumulator", self.slots[1].initial),
        ]
    }

    fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn check_learning_rate(&self, learning_rate: f64) -> Result<()> {
        if learning_rate.recip().is_finite() {
            return Ok(());
        }
        let problem = format!("{learning_rate:?}; FTRL divides by it: it must be more than 0");
        Err(Error::invalid("learning_rate", problem))
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let per_rate = rates.learning_rate.recip();
        if !per_rate.is_finite() {
            let problem = format!(
                "{:?}; FTRL divides by it: begin a warm-up above 0, and freeze the variables of a \
                 group instead of giving it a factor of 0",
                rates.learning_rate
            );
            return Err(Error::invalid("learning_rate", problem));
        }
        let scalars = [per_rate, self.beta, self.l1, self.l2];
        Ok(Scalars::of(
            rates,
            progress.running,
            RuleKind::Ftrl,
            scalars,
        ))
    }
}
