//! What an optimizer does around its rule, all of it at once, and what plain float64 code makes of
//! a gradient in its place. For dense gradients and for rows.

use std::sync::Arc;

use umbo_core::error::Status;
use umbo_core::optimizer::LossReduction::{self, GlobalMean, Mean, Sum};
use umbo_core::optimizer::{
    ApplyReport, AverageKind, Averaging, LossScaling, NonFinite, Optimizer, Settings, VariableGroup,
};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::values::variable::Variable;

use crate::setup::*;

/// The examples of each run's global batch: partial and empty ones among them. The windows of two
/// runs have fewer than two runs' worth in all ways.
pub const BATCHES: [usize; 12] = [5, 1, 0, 4, 2, 7, 0, 0, 3, 6, 1, 2];

/// In this run's batch (which is not empty) a gradient is infinite, if that is tried.
pub const OVERFLOWING: usize = 4;

/// The variable with a group of its own, if groups are tried.
pub const BIAS: usize = 1;

/// The bounds that are tried, of the norm and of elements.
pub const CLIPPING: [(Option<f64>, Option<f64>); 4] = [
    (None, None),
    (Some(0.9), None),
    (None, Some(0.2)),
    (Some(0.9), Some(0.2)),
];

/// A loss scale that grows soon, and comes down to its minimum at once.
pub const DYNAMIC: LossScaling = LossScaling::Dynamic {
    initial: 8.0,
    growth_factor: 4.0,
    growth_interval: 2,
    backoff_factor: 0.25,
    minimum: 4.0,
};

/// The averages that are tried.
pub const AVERAGES: [Option<Averaging>; 4] = [
    None,
    Some(Averaging {
        kind: AverageKind::Exponential {
            decay: 0.75,
            warmup: false,
        },
        start: 0,
        interval: 1,
    }),
    Some(Averaging {
        kind: AverageKind::Exponential {
            decay: 0.3,
            warmup: true,
        },
        start: 1,
        interval: 1,
    }),
    Some(Averaging {
        kind: AverageKind::Mean,
        start: 1,
        interval: 2,
    }),
];

const LEARNING_RATE: f64 = 0.125;
const DECAY: f64 = 0.0625;

/// A rule, and what is done around it.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    pub rule: &'static str,
    pub replicas: usize,
    pub reduction: LossReduction,
    pub global_clip_norm: Option<f64>,
    pub clip_value: Option<f64>,
    pub accumulation: usize,
    pub scaling: Option<LossScaling>,
    pub overflow: bool,
    /// A weight decay, a group for the bias, and a schedule.
    pub groups: bool,
    /// The moving average of weights.
    pub averaging: Option<Averaging>,
    /// Whether gradients of tables are of rows.
    pub rows: bool,
}

/// Sizes of the replicas' parts of a batch: the last ones are partial or empty.
pub fn split(batch: usize, replicas: usize) -> Vec<usize> {
    let largest = batch.div_ceil(replicas);
    (0..replicas)
        .map(|replica| batch.saturating_sub(replica * largest).min(largest))
        .collect()
}

fn scheduled(iterations: u64) -> f64 {
    LEARNING_RATE / (1.0 + iterations as f64)
}

impl Features {
    /// Whether weights go up the gradient.
    fn maximizes(&self) -> bool {
        self.groups && self.accumulation == 1
    }

    /// An optimizer that does all of it to variables, of which the [`BIAS`] is one and of which it
    /// leaves the `frozen` ones alone.
    pub fn optimizer(&self, variables: &[Variable], frozen: &[Variable]) -> Arc<Optimizer> {
        let optimizer = optimizer(self.rule, LEARNING_RATE);
        let settings = Settings {
            weight_decay: self.groups.then_some(DECAY),
            global_clip_norm: self.global_clip_norm,
            clip_value: self.clip_value,
            non_finite: self.overflow.then_some(NonFinite::Skip),
            loss_scaling: self.scaling,
            maximize: self.maximizes(),
            averaging: self.averaging,
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        if self.groups {
            let bias = VariableGroup {
                learning_rate_factor: 0.5,
                weight_decay: Some(0.0),
                frozen: false,
            };
            optimizer.add_group(&variables[BIAS..=BIAS], bias).unwrap();
            optimizer.set_schedule(Arc::new(|iterations| Ok(scheduled(iterations))));
        }
        let group = VariableGroup {
            frozen: true,
            ..VariableGroup::default()
        };
        optimizer.add_group(frozen, group).unwrap();
        optimizer
    }

    /// What the gradient of a replica with `size` examples, in a window of `window`, is divided by.
    pub fn divisor(&self, size: usize, window: usize) -> f64 {
        match self.reduction {
            Sum => 1.0,
            Mean => size as f64,
            GlobalMean => window as f64,
        }
    }

    /// The examples of the window of accumulated runs in which run `number` is.
    pub fn window(&self, number: usize) -> usize {
        let first = number - number % self.accumulation;
        BATCHES[first..first + self.accumulation].iter().sum()
    }

    /// What clipping multiplies gradients with, all elements of which are `gradients`. The report
    /// of the update says the same.
    pub fn clip_factor(&self, gradients: impl Iterator<Item = f64>, report: &ApplyReport) -> f64 {
        let norm = gradients.map(|value| value * value).sum::<f64>().sqrt();
        if let Some(reported) = report.gradient_norm {
            assert!(
                (reported - norm).abs() <= 1e-6 * norm,
                "norm {reported} for {norm}"
            );
        }
        assert_eq!(
            report.gradient_norm.is_some(),
            self.global_clip_norm.is_some()
        );
        let factor = self
            .global_clip_norm
            .map_or(1.0, |largest| (largest / norm).min(1.0));
        assert_eq!((report.applied, report.clipped), (true, factor < 1.0));
        factor
    }

    /// The gradient, clipped, and with its sign changed where weights go up it.
    pub fn clipped(&self, gradient: impl Iterator<Item = f64>, factor: f64) -> Vec<f64> {
        let limit = self.clip_value.unwrap_or(f64::MAX);
        let sign = if self.maximizes() { -1.0 } else { 1.0 };
        gradient
            .map(|value| sign * (value * factor).clamp(-limit, limit))
            .collect()
    }

    /// The learning rate and the weight decay of variable `index` after so many updates. The report
    /// of the update says the same rate, before the group's factor.
    pub fn rates(&self, index: usize, iterations: u64, report: &ApplyReport) -> (f64, f64) {
        let rate = if self.groups {
            scheduled(iterations)
        } else {
            LEARNING_RATE
        };
        assert_eq!(report.learning_rate, rate);
        match (self.groups, index) {
            (false, _) => (rate, rule_decay(self.rule)),
            (true, BIAS) => (rate * 0.5, 0.0),
            (true, _) => (rate, DECAY),
        }
    }
}

/// Nobody asked for it to be looked for, and it is found on the way.
#[test]
fn what_is_applied_and_not_finite_is_in_the_report() {
    for rule in RULES {
        for (elements, place) in [(1, 0), (40, 17), (40, 39), (70_000, 69_000)] {
            if elements > 40 && !matches!(rule, "sgd" | "adam" | "lamb") {
                continue;
            }
            for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let fine = variable("fine", &vec![1.0f32; elements]);
                let other = variable("other", &vec![1.0f32; elements]);
                let gradients = gradients(2, &[&fine, &other], Sum);
                let optimizer = optimizer(rule, 0.5);
                for number in 1..=2 {
                    let mut data = vec![0.25f32; elements];
                    overwrite(&gradients, number, 0, 0, &data);
                    overwrite(&gradients, number, 1, 1, &data);
                    data[place] = if number == 2 { wrong } else { 0.25 };
                    overwrite(&gradients, number, 0, 1, &data);
                    submit(&gradients, number, &[1.0, 1.0]);
                    gradients.commit(number);
                    let report = apply(&optimizer, &gradients).unwrap();
                    let named = report.non_finite.map(|variable| variable.name().to_owned());
                    let expected = (number == 2).then(|| "other".to_owned());
                    assert_eq!(
                        named.as_deref(),
                        expected.as_deref(),
                        "{rule}, {elements} elements, {wrong}"
                    );
                    assert!(report.applied && !report.skipped);
                }
            }
        }
    }
}

#[test]
fn what_fails_for_not_being_finite_names_step_replica_and_element() {
    let matrix = table("m", &[0.0f32; 6], 2);
    let rows = table("t", &[0.0f32; 8], 2);
    let gradients = row_gradients(2, &[&matrix, &rows], Sum, &[false, true], 1);
    let optimizer = optimizer("sgd", 1.0);
    let settings = Settings {
        non_finite: Some(NonFinite::Fail),
        ..Settings::default()
    };
    optimizer.configure(settings).unwrap();
    overwrite(&gradients, 5, 0, 0, &[0.0f32; 6]);
    overwrite(
        &gradients,
        5,
        1,
        0,
        &[0.0, 0.0, 0.0, f32::NEG_INFINITY, f32::NAN, 0.0],
    );
    submit(&gradients, 5, &[1.0, 1.0]);
    gradients.commit(5);
    let message = refusal(apply(&optimizer, &gradients), Status::InvalidArgument);
    for part in [
        "'m'",
        "step 5",
        "replica 1",
        "element [1, 1] is -inf",
        "nothing was changed",
    ] {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
    add_rows(&gradients, 6, 0, 1, &[3, 2], &[0.0f32, 0.0, f32::NAN, 0.0]);
    submit(&gradients, 6, &[1.0, 1.0]);
    gradients.commit(6);
    let message = refusal(apply(&optimizer, &gradients), Status::InvalidArgument);
    for part in ["'t'", "step 6", "replica 0", "element [2, 0] is NaN"] {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}
