//! The optimizer's settings around its rule: weight decay, clipping, gradients that are not finite,
//! loss scaling, groups of variables.

use crate::rules::check_not_negative;
use crate::state::average::Averaging;
use umbo_base::error::{Error, Result};

/// How an apply treats a gradient that is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonFinite {
    /// It applies it, and weights may become infinite or NaN. The report names the variable, and
    /// one warning for each optimizer is logged.
    Ignore,
    /// It changes no variable and no state, consumes the gradients, and reports that it was
    /// skipped.
    Skip,
    /// The apply fails, naming the variable.
    Fail,
}

/// The loss scale: callbacks multiply their loss with it, so that small gradients survive 16-bit
/// arithmetic (Micikevicius et al., "Mixed Precision Training", 2018).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossScaling {
    /// The scale stays.
    Fixed(f64),
    /// The scale grows until a gradient overflows.
    Dynamic {
        /// Its value at the start.
        initial: f64,
        /// The factor, more than 1, by which it grows once enough applies in a row took effect.
        growth_factor: f64,
        /// How many are enough.
        growth_interval: u64,
        /// The factor, less than 1, by which it shrinks when an apply was skipped.
        backoff_factor: f64,
        /// Its lower limit.
        minimum: f64,
    },
}

impl LossScaling {
    /// The scale at the start.
    pub fn initial(self) -> f64 {
        match self {
            LossScaling::Fixed(scale) | LossScaling::Dynamic { initial: scale, .. } => scale,
        }
    }

    /// The scale after an apply that took effect, when `applies` in a row have with `scale`, this
    /// one included; and how many of them count from now on. It grows as long as a float32 holds
    /// it.
    pub(crate) fn grown(self, scale: f64, applies: u64) -> (f64, u64) {
        match self {
            LossScaling::Dynamic {
                growth_factor,
                growth_interval,
                ..
            } if applies >= growth_interval => {
                let larger = scale * growth_factor;
                (
                    if larger <= f64::from(f32::MAX) {
                        larger
                    } else {
                        scale
                    },
                    0,
                )
            }
            LossScaling::Dynamic { .. } | LossScaling::Fixed(_) => (scale, applies),
        }
    }

    /// The scale after an apply that was skipped.
    pub(crate) fn backed_off(self, scale: f64) -> f64 {
        match self {
            LossScaling::Fixed(_) => scale,
            LossScaling::Dynamic {
                backoff_factor,
                minimum,
                ..
            } => (scale * backoff_factor).max(minimum),
        }
    }

    pub(crate) fn check(self) -> Result<()> {
        let positive = |argument: &'static str, value: f64| {
            if value.is_finite() && value as f32 > 0.0 && (value as f32).is_finite() {
                return Ok(());
            }
            Err(invalid!(
                argument,
                "{value}; must be more than 0 and finite as a float32"
            ))
        };
        positive("loss_scale", self.initial())?;
        let LossScaling::Dynamic {
            initial,
            growth_factor,
            growth_interval,
            backoff_factor,
            minimum,
        } = self
        else {
            return Ok(());
        };
        positive("loss_scale_minimum", minimum)?;
        if minimum > initial {
            let problem = format!("{minimum}; must be at most the initial scale, {initial}");
            return Err(Error::invalid("loss_scale_minimum", problem));
        }
        if !(growth_factor.is_finite() && growth_factor > 1.0) {
            let problem = format!("{growth_factor}; must be finite and more than 1");
            return Err(Error::invalid("loss_scale_growth_factor", problem));
        }
        if growth_interval == 0 {
            return Err(invalid!(
                "loss_scale_growth_interval",
                "0; must be at least 1"
            ));
        }
        if !(backoff_factor > 0.0 && backoff_factor < 1.0) {
            let problem = format!("{backoff_factor}; must be more than 0 and less than 1");
            return Err(Error::invalid("loss_scale_backoff_factor", problem));
        }
        Ok(())
    }
}

/// The settings of an optimizer. A setting that is `None` is off.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// The weight decay, in place of the rule's own.
    pub weight_decay: Option<f64>,
    /// The largest norm of all gradients together: gradients with a larger norm are scaled down to
    /// it.
    pub global_clip_norm: Option<f64>,
    /// The largest magnitude of each element, after `global_clip_norm`.
    pub clip_value: Option<f64>,
    /// The treatment of gradients that are not finite. The default: skip with a dynamic loss scale,
    /// fail with `global_clip_norm` (one element would spoil all variables), else ignore.
    pub non_finite: Option<NonFinite>,
    /// The loss scale; 1 if there is none.
    pub loss_scaling: Option<LossScaling>,
    /// Whether weights move along the gradient (gradient ascent).
    pub maximize: bool,
    /// The moving average of weights. Whether there is one does not change after the first update.
    pub averaging: Option<Averaging>,
    /// The bits of the rule's states. They do not change after the first update.
    pub state_bits: StateBits,
    /// The seed of the stochastic rounding of bfloat16 weights; `None` if there are none.
    pub stochastic_rounding: Option<u64>,
}

/// The bits of an element of the states that a rule keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateBits {
    /// The bits of the variable's dtype.
    #[default]
    Full,
    /// 8, in blocks with a scale, for float32 variables that are large enough and in host memory.
    Eight,
}

impl Settings {
    /// The treatment of gradients that are not finite.
    pub fn non_finite(&self) -> NonFinite {
        self.non_finite.unwrap_or(match self.loss_scaling {
            Some(LossScaling::Dynamic { .. }) => NonFinite::Skip,
            _ if self.global_clip_norm.is_some() => NonFinite::Fail,
            _ => NonFinite::Ignore,
        })
    }

    /// The loss scale at the start.
    pub(crate) fn initial_loss_scale(&self) -> f64 {
        self.loss_scaling.map_or(1.0, LossScaling::initial)
    }

    /// Refuses values that make no sense, alone or together.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(decay) = self.weight_decay {
            check_not_negative("weight_decay", decay)?;
        }
        for (argument, bound) in [
            ("global_clip_norm", self.global_clip_norm),
            ("clip_value", self.clip_value),
        ] {
            if let Some(bound) = bound.filter(|bound| !(bound.is_finite() && *bound > 0.0)) {
                let problem = format!(
                    "{bound}; must be finite and more than 0; by default there is no bound"
                );
                return Err(Error::invalid(argument, problem));
            }
        }
        if let Some(averaging) = self.averaging {
            averaging.check()?;
            if self.stochastic_rounding.is_some() {
                return Err(invalid!(
                    "average",
                    "with stochastic_rounding; averages are of float32 and float64 weights. Leave \
                     one of both unset, or give bfloat16 variables an optimizer of their own"
                ));
            }
        }
        if let Some(scaling) = self.loss_scaling {
            scaling.check()?;
            let dynamic = matches!(scaling, LossScaling::Dynamic { .. });
            if dynamic && self.non_finite() != NonFinite::Skip {
                return Err(invalid!(
                    "non_finite",
                    "a dynamic loss scale skips gradients that are not finite; leave it unset"
                ));
            }
        }
        Ok(())
    }
}

/// Settings for a group of variables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VariableGroup {
    /// The factor of the learning rate.
    pub learning_rate_factor: f64,
    /// Their weight decay, if it is not that of the optimizer.
    pub weight_decay: Option<f64>,
    /// They are not updated, and their gradients are neither read nor counted in a norm.
    pub frozen: bool,
}

impl Default for VariableGroup {
    /// The settings of a variable that is in no group.
    fn default() -> VariableGroup {
        VariableGroup {
            learning_rate_factor: 1.0,
            weight_decay: None,
            frozen: false,
        }
    }
}

impl VariableGroup {
    pub(crate) fn check(&self) -> Result<()> {
        check_not_negative("learning_rate_factor", self.learning_rate_factor)?;
        self.weight_decay
            .map_or(Ok(()), |decay| check_not_negative("weight_decay", decay))
    }
}
