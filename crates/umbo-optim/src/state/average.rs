//! The moving average of weights that an optimizer keeps beside them: which weights it is of, and
//! how much the newest ones count.

use umbo_base::error::Result;

use crate::rules::Slot;

/// The name of the slot that the average is in.
pub const AVERAGE: &str = "average";

/// The slot of the average. The first update makes it a copy of the weights.
pub(crate) const SLOT: Slot = Slot::new(AVERAGE, 0.0);

/// How the averaged weights are weighted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AverageKind {
    /// An exponential moving average: average ← decay·average + (1 − decay)·weights (Polyak and
    /// Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992, in the form of
    /// `get_ema_multi_avg_fn` of torch.optim.swa_utils and of `use_ema` of Keras' optimizers).
    Exponential {
        /// At least 0 and less than 1.
        decay: f64,
        /// Whether the decay of the i-th move is at most (1 + i)/(10 + i), as that of
        /// TensorFlow's `tf.train.ExponentialMovingAverage` with `num_updates`.
        warmup: bool,
    },
    /// The mean of all averaged weights (Izmailov et al., "Averaging Weights Leads to Wider Optima
    /// and Better Generalization", 2018: SWA; `get_swa_multi_avg_fn` of torch.optim.swa_utils).
    Mean,
}

/// The moving average of weights.
///
/// For the t-th update of a variable, t counted from 1: up to update `start` + 1 the average is a
/// copy of the weights, and from then on every `interval`-th update moves it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Averaging {
    /// The weighting.
    pub kind: AverageKind,
    /// The number of updates of a variable that come before those that are averaged.
    pub start: u64,
    /// The average moves after this many updates; at least 1.
    pub interval: u64,
}

impl Averaging {
    /// The weight of the newest weights in the average after an update of a variable that was
    /// updated `updates` times before; `None` if the average stays.
    pub(crate) fn newest(&self, updates: u64) -> Option<f64> {
        let Some(averaged) = updates.checked_sub(self.start).filter(|&past| past > 0) else {
            return Some(1.0);
        };
        if !averaged.is_multiple_of(self.interval) {
            return None;
        }
        let moves = (averaged / self.interval) as f64;
        Some(match self.kind {
            AverageKind::Mean => 1.0 / (moves + 1.0),
            AverageKind::Exponential { decay, warmup } => {
                let largest = (1.0 + moves) / (10.0 + moves);
                1.0 - if warmup { decay.min(largest) } else { decay }
            }
        })
    }

    /// Refuses values that make no sense.
    pub(crate) fn check(&self) -> Result<()> {
        if let AverageKind::Exponential { decay, .. } = self.kind
            && !((0.0..1.0).contains(&decay) && (1.0 - decay) as f32 > 0.0)
        {
            return Err(invalid!(
                "average_decay",
                "{decay}; must be at least 0 and less than 1"
            ));
        }
        if self.interval == 0 {
            return Err(invalid!("average_interval", "0; must be at least 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest(kind: AverageKind, start: u64, interval: u64) -> Vec<Option<f64>> {
        let averaging = Averaging {
            kind,
            start,
            interval,
        };
        (0..6).map(|updates| averaging.newest(updates)).collect()
    }

    #[test]
    fn a_mean_weighs_all_averaged_weights_alike() {
        let mean_of = |moves: &[u32]| moves.iter().map(|&n| Some(1.0 / f64::from(n))).collect();
        let expected: Vec<Option<f64>> = mean_of(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(newest(AverageKind::Mean, 0, 1), expected);
        let expected: Vec<Option<f64>> = mean_of(&[1, 1, 1, 2, 3, 4]);
        assert_eq!(newest(AverageKind::Mean, 2, 1), expected);
        let rarely = [Some(1.0), Some(1.0), None, Some(0.5), None, Some(1.0 / 3.0)];
        assert_eq!(newest(AverageKind::Mean, 1, 2), rarely);
    }

    #[test]
    fn the_decay_grows_with_the_averages() {
        let kind = |warmup| AverageKind::Exponential {
            decay: 0.25,
            warmup,
        };
        let always = [1.0, 0.75, 0.75, 0.75, 0.75, 0.75].map(Some);
        assert_eq!(newest(kind(false), 0, 1), always);
        let warm = [1.0, 1.0 - 2.0 / 11.0, 0.75, 0.75, 0.75, 0.75].map(Some);
        assert_eq!(newest(kind(true), 0, 1), warm);
    }
}
