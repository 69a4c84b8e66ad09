//! Learning rates that depend on the number of updates, by name: warm-up, then a shape that the
//! field uses. A program can save them, which it cannot with a function.
//!
//! The formulas are those of `torch.optim.lr_scheduler`, with n for the updates before this one, W
//! for those of the warm-up, T for all updates, and r for the full rate. In the warm-up the rate is
//! r·(n + 1)/W (`LinearLR` with `start_factor` 1/W and `total_iters` W − 1). After it, with
//! p = (n − W)/(T − W), at most 1, and the final rate f·r:
//!
//! - constant: r
//! - linear (`LinearLR`): r·(1 − (1 − f)·p)
//! - cosine (`CosineAnnealingLR`; Loshchilov and Hutter, "SGDR", 2017):
//!   r·(f + (1 − f)·(1 + cos πp)/2)
//! - step (`StepLR`): r·factor^⌊(n − W)/interval⌋
//! - one cycle (`OneCycleLR`; Smith and Topin, "Super-Convergence", 2018): half a cosine from the
//!   initial rate to r in the first W updates, and another down to f·r
//! - plateau (`ReduceLROnPlateau`): r times `factor` for each time that the observed values did not
//!   become better, at least f·r

use std::f64::consts::PI;
use std::fmt;

use umbo_base::error::Result;

use crate::rules::check_not_negative;

/// The shape of a schedule after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScheduleKind {
    /// The rate stays.
    Constant,
    /// A straight line to the final rate.
    Linear,
    /// Half a cosine to the final rate.
    Cosine,
    /// The rate is multiplied by a factor after every so many updates.
    Step {
        /// More than 0, at most 1.
        factor: f64,
        /// At least 1.
        interval: u64,
    },
    /// Up from an initial rate in the warm-up, and down to the final rate, each as half a cosine.
    OneCycle {
        /// The factor of the initial rate; at least 0, at most 1.
        initial: f64,
    },
    /// The rate is multiplied by a factor when the observed values have not become better.
    Plateau(Plateau),
}

/// The conditions under which a plateau is found, and what follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// The factor of the rate; more than 0, less than 1.
    pub factor: f64,
    /// The number of observations in a row that may be no better than the best one.
    pub patience: u64,
    /// An observation is better than the best one by more than this part of it.
    pub threshold: f64,
    /// The number of observations after a reduction that are not counted.
    pub cooldown: u64,
    /// Whether larger values are better.
    pub maximize: bool,
}

/// A schedule with a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedSchedule {
    /// The shape after the warm-up.
    pub kind: ScheduleKind,
    /// The full rate.
    pub learning_rate: f64,
    /// The updates in which the rate rises to the full rate.
    pub warmup: u64,
    /// All updates, those of the warm-up included, for a schedule that has an end; else 0.
    pub updates: u64,
    /// The factor of the final rate; at least 0, at most 1.
    pub final_factor: f64,
}

/// The observations so far of a schedule that reduces the rate on a plateau.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlateauState {
    /// The factor that the reductions have come to.
    pub factor: f64,
    /// The best observation, if there was one.
    pub best: Option<f64>,
    /// The observations in a row that were not better.
    pub bad: u64,
    /// The observations to come that do not count.
    pub cooldown: u64,
}

impl Default for PlateauState {
    fn default() -> PlateauState {
        PlateauState {
            factor: 1.0,
            best: None,
            bad: 0,
            cooldown: 0,
        }
    }
}

impl fmt::Display for NamedSchedule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ScheduleKind::Constant => write!(to, "the schedule constant")?,
            ScheduleKind::Linear => write!(to, "the schedule linear")?,
            ScheduleKind::Cosine => write!(to, "the schedule cosine")?,
            ScheduleKind::Step { factor, interval } => {
                write!(to, "the schedule step by {factor} in {interval} updates")?;
            }
            ScheduleKind::OneCycle { initial } => {
                write!(to, "the schedule one cycle from {initial} of its rate")?;
            }
            ScheduleKind::Plateau(Plateau {
                factor,
                patience,
                threshold,
                cooldown,
                maximize,
            }) => {
                let better = if maximize { "larger" } else { "smaller" };
                write!(
                    to,
                    "the schedule plateau by {factor} (patience {patience}, cooldown {cooldown}, \
                     threshold {threshold}, {better} is better)"
                )?;
            }
        }
        if self.updates > 0 {
            write!(to, " over {} updates", self.updates)?;
        }
        if self.warmup > 0 {
            write!(to, " with {} of warm-up", self.warmup)?;
        }
        write!(to, " at a rate of {}", self.learning_rate)?;
        match self.final_factor == 0.0 {
            true => Ok(()),
            false => write!(to, " down to {} of it", self.final_factor),
        }
    }
}

impl NamedSchedule {
    /// Refuses numbers that make no sense, alone or together.
    pub fn check(&self) -> Result<()> {
        check_not_negative("learning_rate", self.learning_rate)?;
        check_part("final_factor", self.final_factor)?;
        let has_end = matches!(
            self.kind,
            ScheduleKind::Linear | ScheduleKind::Cosine | ScheduleKind::OneCycle { .. }
        );
        if has_end && self.updates <= self.warmup {
            return Err(invalid!(
                "updates",
                "{}; must be more than the {} of the warm-up: all updates of the training",
                self.updates,
                self.warmup
            ));
        }
        if !has_end && self.updates > 0 {
            return Err(invalid!(
                "updates",
                "{}; this schedule has no end, so give 0, or a schedule that has one",
                self.updates
            ));
        }
        match self.kind {
            ScheduleKind::Constant | ScheduleKind::Linear | ScheduleKind::Cosine => Ok(()),
            ScheduleKind::Step { factor, interval } => {
                check_factor("factor", factor)?;
                match interval {
                    0 => Err(invalid!("interval", "0; must be at least 1")),
                    _ => Ok(()),
                }
            }
            ScheduleKind::OneCycle { initial } => {
                check_part("initial_factor", initial)?;
                match self.warmup {
                    0 | 1 => Err(invalid!(
                        "warmup_updates",
                        "{}; a cycle rises in at least 2 updates",
                        self.warmup
                    )),
                    _ => Ok(()),
                }
            }
            ScheduleKind::Plateau(plateau) => {
                check_factor("factor", plateau.factor)?;
                check_not_negative("threshold", plateau.threshold)
            }
        }
    }

    /// The learning rate of the update after `before` others.
    pub fn rate(&self, before: u64, plateau: &PlateauState) -> f64 {
        self.learning_rate * self.factor(before, plateau)
    }

    fn factor(&self, before: u64, plateau: &PlateauState) -> f64 {
        let &NamedSchedule {
            warmup,
            updates,
            final_factor,
            ..
        } = self;
        if let ScheduleKind::OneCycle { initial } = self.kind {
            // As PyTorch has it: the peak is update W − 1, and the end is update T − 1.
            let peak = (warmup - 1) as f64;
            let end = (updates - 1) as f64;
            let now = (before as f64).min(end);
            return match now <= peak {
                true => half_wave(initial, 1.0, now / peak),
                false => half_wave(1.0, final_factor, (now - peak) / (end - peak)),
            };
        }
        if before < warmup {
            return (before + 1) as f64 / warmup as f64 * plateau.factor;
        }
        let past = before - warmup;
        let part = || (past as f64 / (updates - warmup) as f64).min(1.0);
        match self.kind {
            ScheduleKind::Constant => 1.0,
            ScheduleKind::Linear => 1.0 - (1.0 - final_factor) * part(),
            ScheduleKind::Cosine => half_wave(1.0, final_factor, part()),
            ScheduleKind::Step { factor, interval } => libm::pow(factor, (past / interval) as f64),
            ScheduleKind::Plateau(_) | ScheduleKind::OneCycle { .. } => plateau.factor,
        }
    }

    /// Takes an observation into account. Returns whether this schedule takes any.
    pub fn observe(&self, state: &mut PlateauState, value: f64) -> bool {
        let ScheduleKind::Plateau(plateau) = self.kind else {
            return false;
        };
        let is_better = state.best.is_none_or(|best| match plateau.maximize {
            false => value < best * (1.0 - plateau.threshold),
            true => value > best * (1.0 + plateau.threshold),
        });
        if is_better && !value.is_nan() {
            (state.best, state.bad) = (Some(value), 0);
        } else {
            state.bad += 1;
        }
        if state.cooldown > 0 {
            state.cooldown -= 1;
            state.bad = 0;
        }
        if state.bad > plateau.patience {
            state.factor = (state.factor * plateau.factor).max(self.final_factor);
            (state.bad, state.cooldown) = (0, plateau.cooldown);
        }
        true
    }
}

/// Half a wave of the cosine from one number to another, of which `part` is past. The cosine is not
/// the system's, which differs between systems.
fn half_wave(from: f64, to: f64, part: f64) -> f64 {
    to + (from - to) * (1.0 + libm::cos(PI * part)) / 2.0
}

fn check_part(argument: &'static str, part: f64) -> Result<()> {
    if (0.0..=1.0).contains(&part) {
        return Ok(());
    }
    Err(invalid!(
        argument,
        "{part}; must be at least 0 and at most 1"
    ))
}

fn check_factor(argument: &'static str, factor: f64) -> Result<()> {
    if factor > 0.0 && factor < 1.0 {
        return Ok(());
    }
    Err(invalid!(
        argument,
        "{factor}; must be more than 0 and less than 1"
    ))
}
