//! Muon.

use crate::rules::{
    MatrixRule, Rates, Scalars, Slot, StepScale, UpdateRule, VariableProgress, WeightDecay,
    check_decay, check_epsilon, check_not_negative,
};
use umbo_base::error::Result;
use umbo_kernels::matrix::orthogonal::NewtonSchulz;
use umbo_kernels::update::matrix_step::{MatrixMomentum, MatrixStep};
use umbo_kernels::update::pass::UpdatePass;

/// Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024), for
/// matrices alone, whose momentum is in the slot `momentum`:
///
/// - a ← μ·a + (1 − μ)·g
/// - u = a, or with Nesterov's momentum μ·a + (1 − μ)·g
/// - o = the orthogonal matrix near u, by five steps of an iteration of Newton and Schulz
/// - w ← (1 − η·λ)·w − η·s·o
///
/// s depends on the shape ([`StepScale`]). The formula is PyTorch's. That iterates in bfloat16, and
/// this in float32, also for variables of float64. A matrix is divided by its norm, or by ε if that
/// is larger, before the iteration.
///
/// The steps of an update take as much memory as the matrices; the iteration takes 2·(r·c + d²)
/// numbers for the largest of them, of r rows, c columns and d the smaller of both.
#[derive(Clone, Copy, Debug)]
pub struct Muon {
    momentum: f64,
    weight_decay: f64,
    epsilon: f64,
    matrices: MatrixRule,
}

impl Muon {
    /// The rule with decay factor `momentum` (μ), at least 0 and less than 1, `weight_decay` (λ),
    /// finite and at least 0, and `epsilon`, finite and more than 0 also when rounded to float32;
    /// with Nesterov's momentum and the original scale.
    pub fn new(momentum: f64, weight_decay: f64, epsilon: f64) -> Result<Muon> {
        built_with!("rules-extra", "the rule muon");
        check_decay("momentum", momentum)?;
        check_not_negative("weight_decay", weight_decay)?;
        check_epsilon(epsilon)?;
        Ok(Muon {
            momentum,
            weight_decay,
            epsilon,
            matrices: MatrixRule {
                momentum: MatrixMomentum {
                    share: 1.0 - momentum,
                    nesterov: true,
                },
                iteration: NewtonSchulz {
                    epsilon: epsilon as f32,
                    ..NewtonSchulz::MUON
                },
                scale: StepScale::Original,
            },
        })
    }

    /// The same, with Nesterov's momentum if `nesterov` says so.
    pub fn nesterov(mut self, nesterov: bool) -> Muon {
        self.matrices.momentum.nesterov = nesterov;
        self
    }

    /// The same, with steps of this scale.
    pub fn scaled(mut self, scale: StepScale) -> Muon {
        self.matrices.scale = scale;
        self
    }
}

impl UpdateRule for Muon {
    fn name(&self) -> &str {
        "muon"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        let MatrixRule {
            momentum, scale, ..
        } = self.matrices;
        let matches_adamw = scale == StepScale::MatchAdamW;
        vec![
            ("momentum", self.momentum),
            ("nesterov", f64::from(momentum.nesterov)),
            ("weight_decay", self.weight_decay),
            ("epsilon", self.epsilon),
            ("match_adamw", f64::from(matches_adamw)),
        ]
    }

    fn slots(&self) -> &[Slot] {
        static SLOTS: [Slot; 1] = [Slot::new("momentum", 0.0)];
        &SLOTS
    }

    fn weight_decay(&self) -> WeightDecay {
        WeightDecay::Decoupled
    }

    fn default_weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        Ok(Scalars {
            rates: *rates,
            step: None,
            running: progress.running,
        })
    }

    fn matrix_rule(&self) -> Option<&MatrixRule> {
        Some(&self.matrices)
    }

    fn update(&self, scalars: &Scalars, pass: &UpdatePass<'_>) {
        let step = MatrixStep {
            share: self.matrices.momentum.share,
            kept: self.weight_decay().kept(&scalars.rates),
            rate: scalars.rates.learning_rate,
        };
        step.run(pass);
    }
}
