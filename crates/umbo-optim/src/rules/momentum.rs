//! Gradient descent with momentum, also Nesterov's.

use crate::rules::{Rates, Scalars, Slot, UpdateRule, VariableProgress, check_decay};
use umbo_base::error::Result;
use umbo_kernels::update::eight_bit::CodeMap;
use umbo_kernels::update::rules::RuleKind;

/// Gradient descent with a decaying sum of gradients in the slot `momentum`:
///
/// - a ← μ·a + g
/// - w ← w − η·a, or with Nesterov's look-ahead w ← w − η·(g + μ·a)
///
/// (Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; Nesterov
/// 1983 in the form of Sutskever et al., "On the importance of initialization and momentum in deep
/// learning", 2013.) The sum holds gradients and not steps, as in TensorFlow's `ApplyMomentum` and
/// in PyTorch, so a new learning rate acts at once on all of it. Keras keeps the steps; the two
/// agree while the learning rate stays the same.
///
/// With [`Momentum::dampened`] by δ, as in PyTorch, a ← μ·a + (1 − δ)·g; in a variable's first
/// update, and where μ is 0, a ← g. Whether there was an update is the running scalar, which stays
/// 0 without dampening.
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    momentum: f64,
    nesterov: bool,
    dampening: f64,
}

impl Momentum {
    /// The rule with decay factor `momentum`, at least 0 and less than 1.
    pub fn new(momentum: f64, nesterov: bool) -> Result<Momentum> {
        check_decay("momentum", momentum)?;
        Ok(Momentum {
            momentum,
            nesterov,
            dampening: 0.0,
        })
    }

    /// The same with a `dampening` of gradients, at least 0 and at most 1. Nesterov's momentum has
    /// none.
    pub fn dampened(self, dampening: f64) -> Result<Momentum> {
        if !(0.0..=1.0).contains(&dampening) {
            return Err(invalid!(
                "dampening",
                "{dampening}; must be at least 0 and at most 1"
            ));
        }
        if self.nesterov && dampening != 0.0 {
            return Err(invalid!(
                "dampening",
                "{dampening}; must be 0 with Nesterov's momentum"
            ));
        }
        Ok(Momentum { dampening, ..self })
    }
}

impl UpdateRule for Momentum {
    fn name(&self) -> &str {
        "momentum"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("momentum", self.momentum),
            ("nesterov", f64::from(self.nesterov)),
            ("dampening", self.dampening),
        ]
    }

    fn slots(&self) -> &[Slot] {
        static SLOTS: [Slot; 1] = [Slot::new("momentum", 0.0)];
        &SLOTS
    }

    fn code_maps(&self) -> Option<&'static [CodeMap]> {
        Some(&[CodeMap::Signed])
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let [has_sum, unused] = progress.running;
        let is_dampened = self.dampening != 0.0 && self.momentum != 0.0;
        let kind = match (self.nesterov, is_dampened) {
            (true, _) => RuleKind::Nesterov,
            (false, true) => RuleKind::MomentumDampened,
            (false, false) => RuleKind::Momentum,
        };
        let rest = if has_sum != 0.0 {
            1.0 - self.dampening
        } else {
            1.0
        };
        let has_sum = if is_dampened { 1.0 } else { has_sum };
        let scalars = [rates.learning_rate, self.momentum, rest];
        Ok(Scalars::of(rates, [has_sum, unused], kind, scalars))
    }
}
