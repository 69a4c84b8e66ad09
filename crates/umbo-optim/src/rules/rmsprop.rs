//! RMSprop, also centered and with momentum.

use crate::rules::{
    Rates, Scalars, Slot, UpdateRule, VariableProgress, check_decay, check_epsilon,
};
use umbo_base::error::Result;
use umbo_kernels::update::rules::RuleKind;

/// RMSprop (Tieleman and Hinton, "Lecture 6.5 — RMSProp", 2012; centered as in Graves, "Generating
/// Sequences With Recurrent Neural Networks", 2013):
///
/// - v ← ρ·v + (1 − ρ)·g²
/// - d = √v + ε, or centered: a ← ρ·a + (1 − ρ)·g and d = √(v − a²) + ε
/// - w ← w − η·g/d, or with momentum: b ← μ·b + g/d and w ← w − η·b
///
/// with v, a and b in the slots `v`, `mean` and `momentum`. ε stands outside of the square root and
/// b is free of the learning rate, as in PyTorch. v − a², which rounding can make negative, is at
/// least 0.
#[derive(Clone, Copy, Debug)]
pub struct RmsProp {
    rho: f64,
    momentum: f64,
    centered: bool,
    epsilon: f64,
}

static PLAIN: [Slot; 2] = [Slot::new("v", 0.0), Slot::new("momentum", 0.0)];
static CENTERED: [Slot; 3] = [
    Slot::new("v", 0.0),
    Slot::new("mean", 0.0),
    Slot::new("momentum", 0.0),
];

impl RmsProp {
    /// The rule with rho factor `rho` of the moments (ρ) and `momentum` (μ; 0 for none), both
    /// at least 0 and less than 1, and `epsilon`, finite and more than 0 also when rounded to
    /// float32.
    pub fn new(rho: f64, momentum: f64, centered: bool, epsilon: f64) -> Result<RmsProp> {
        built_with!("rules-extra", "the rule rmsprop");
        check_decay("rho", rho)?;
        check_decay("momentum", momentum)?;
        check_epsilon(epsilon)?;
        Ok(RmsProp {
            rho,
            momentum,
            centered,
            epsilon,
        })
    }
}

impl UpdateRule for RmsProp {
    fn name(&self) -> &str {
        "rmsprop"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("rho", self.rho),
            ("momentum", self.momentum),
            ("epsilon", self.epsilon),
            ("centered", f64::from(self.centered)),
        ]
    }

    fn slots(&self) -> &[Slot] {
        let all = if self.centered { &CENTERED[..] } else { &PLAIN };
        if self.momentum == 0.0 {
            &all[..all.len() - 1]
        } else {
            all
        }
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let kind = match (self.centered, self.momentum != 0.0) {
            (false, false) => RuleKind::RmsProp,
            (false, true) => RuleKind::RmsPropMomentum,
            (true, false) => RuleKind::RmsPropCentered,
            (true, true) => RuleKind::RmsPropCenteredMomentum,
        };
        let scalars = [
            self.rho,
            1.0 - self.rho,
            self.momentum,
            self.epsilon,
            rates.learning_rate,
        ];
        Ok(Scalars::of(rates, progress.running, kind, scalars))
    }
}
