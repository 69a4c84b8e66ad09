//! Adagrad.

use crate::rules::{
    Rates, Scalars, Slot, UpdateRule, VariableProgress, check_epsilon, check_not_negative,
};
use umbo_base::error::Result;
use umbo_kernels::update::rules::RuleKind;

/// Adagrad (Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and
/// Stochastic Optimization", 2011, with diagonal matrices), with the sum of squares in the slot
/// `accumulator`:
///
/// - n ← n + g²
/// - w ← w − η·g / (√n + ε)
///
/// ε stands outside of the square root, as in PyTorch. With [`Adagrad::decaying`] by δ, as in
/// PyTorch, the t-th update of a variable has η/(1 + (t − 1)·δ) in the place of η. The running
/// scalar is the number of updates, which stays 0 without such a decay.
#[derive(Clone, Debug)]
pub struct Adagrad {
    epsilon: f64,
    learning_rate_decay: f64,
    slots: [Slot; 1],
}

impl Adagrad {
    /// The rule whose sums of squares start at `initial_accumulator`, finite and at least 0;
    /// `epsilon` is finite and more than 0 also when rounded to float32.
    pub fn new(initial_accumulator: f64, epsilon: f64) -> Result<Adagrad> {
        built_with!("rules-extra", "the rule adagrad");
        check_not_negative("initial_accumulator", initial_accumulator)?;
        check_epsilon(epsilon)?;
        Ok(Adagrad {
            epsilon,
            learning_rate_decay: 0.0,
            slots: [Slot::new("accumulator", initial_accumulator)],
        })
    }

    /// The same with a decay of the learning rate, finite and at least 0.
    pub fn decaying(self, learning_rate_decay: f64) -> Result<Adagrad> {
        check_not_negative("learning_rate_decay", learning_rate_decay)?;
        Ok(Adagrad {
            learning_rate_decay,
            ..self
        })
    }
}

impl UpdateRule for Adagrad {
    fn name(&self) -> &str {
        "adagrad"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("initial_accumulator", self.slots[0].initial),
            ("epsilon", self.epsilon),
            ("learning_rate_decay", self.learning_rate_decay),
        ]
    }

    fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let mut rate = rates.learning_rate;
        let mut running = progress.running;
        if self.learning_rate_decay != 0.0 {
            rate /= 1.0 + running[0] * self.learning_rate_decay;
            running[0] += 1.0;
        }
        Ok(Scalars::of(
            rates,
            running,
            RuleKind::Adagrad,
            [rate, self.epsilon],
        ))
    }
}
