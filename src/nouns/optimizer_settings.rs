//! Optimizers: what they are, and how they are set up.

use crate::machinery::prelude::*;
use umbo_core::optimizer::{AverageKind, Averaging, LossScaling, Optimizer, Settings, StateBits};

/// The properties and the progress of an optimizer.
#[c_struct]
pub struct umbo_optimizer_info {
    /// The name of the rule: "sgd", "adamw" and so on, or that of a custom rule. Lives as long as
    /// the optimizer.
    pub rule: *const c_char,
    /// How many applies have taken effect.
    pub iterations: i64,
    /// The learning rate of the next apply; with a schedule, that of the last one.
    pub learning_rate: f64,
    /// The factor that callbacks multiply their loss (or their gradients) by, valid until the next
    /// apply; 1 if there is no loss scale. An apply divides by the factor that its run had.
    pub loss_scale: f64,
}

/// Gets what an optimizer is. It may be called inside a run.
#[c_call(result(info), get(optimizer))]
pub fn umbo_optimizer_get_info(optimizer: *const umbo_optimizer, info: *mut umbo_optimizer_info) {
    info.write(umbo_optimizer_info {
        rule: optimizer.rule_name().as_c_str().as_ptr(),
        iterations: optimizer.iterations() as i64,
        learning_rate: optimizer.learning_rate(),
        loss_scale: optimizer.loss_scale(),
        ..Default::default()
    });
}

/// Gets a number that an optimizer is set up with, as it takes effect.
///
/// @param[in] variable NULL: of the optimizer. Otherwise of how it treats this variable.
/// @param[in] name A field of the rule's options, such as "beta1", or of umbo_optimizer_options;
///   with a variable a field of umbo_group_options. A weight decay is the number that updates use,
///   and "non_finite" is never UMBO_NON_FINITE_AUTO.
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no such field. The message lists those that there
///   are.
#[c_call(out(value), text(name), get_optional(variable), get(optimizer))]
pub fn umbo_optimizer_setting(
    optimizer: *const umbo_optimizer,
    variable: *const umbo_variable,
    name: *const c_char,
    value: *mut f64,
) {
    let settings = match &variable {
        Some(variable) => group_settings(&optimizer, variable)?,
        None => all_settings(&optimizer),
    };
    let found = settings.iter().find(|(known, _)| *known == name);
    let found = found.ok_or_else(|| {
        let known: Vec<_> = settings.iter().map(|(known, _)| *known).collect();
        Error::NotFound(format!(
            "name: '{name}'; the settings are {}",
            known.join(", ")
        ))
    })?;
    value.write(found.1);
}

/// The settings of an optimizer that have names. The weight decay is the one that is in effect.
fn all_settings(optimizer: &Optimizer) -> Vec<(&'static str, f64)> {
    let settings = optimizer.effective_settings();
    let default = umbo_optimizer_options::default();
    let limit = |limit: Option<f64>| limit.unwrap_or(UMBO_INFINITE as f64);
    let mut scale = [
        default.loss_scale,
        default.loss_scale_growth_factor,
        default.loss_scale_backoff_factor,
        default.loss_scale_minimum,
        default.loss_scale_growth_interval as f64,
    ];
    let scaling = match settings.loss_scaling {
        None => UMBO_LOSS_SCALING_NONE,
        Some(LossScaling::Fixed(fixed)) => {
            scale[0] = fixed;
            UMBO_LOSS_SCALING_FIXED
        }
        Some(LossScaling::Dynamic {
            initial,
            growth_factor: growth,
            growth_interval: interval,
            backoff_factor: backoff,
            minimum,
        }) => {
            scale = [initial, growth, backoff, minimum, interval as f64];
            UMBO_LOSS_SCALING_DYNAMIC
        }
    };
    let mut all = vec![("learning_rate", optimizer.learning_rate())];
    all.extend(
        optimizer
            .rule()
            .settings()
            .into_iter()
            .filter(|(name, _)| *name != "weight_decay"),
    );
    all.extend([
        (
            "weight_decay",
            settings.weight_decay.unwrap_or(default.weight_decay),
        ),
        ("global_clip_norm", limit(settings.global_clip_norm)),
        ("clip_value", limit(settings.clip_value)),
        ("non_finite", settings.non_finite().to_c().into()),
        ("loss_scaling", scaling.into()),
        ("loss_scale", scale[0]),
        ("loss_scale_growth_factor", scale[1]),
        ("loss_scale_backoff_factor", scale[2]),
        ("loss_scale_minimum", scale[3]),
        ("loss_scale_growth_interval", scale[4]),
        ("maximize", f64::from(u8::from(settings.maximize))),
    ]);
    all.extend(average_settings(settings.averaging));
    all.extend(narrow_settings(&settings));
    all
}

/// The settings of states and weights of fewer bits.
fn narrow_settings(settings: &Settings) -> [(&'static str, f64); 3] {
    let bits = match settings.state_bits {
        StateBits::Full => 0.0,
        StateBits::Eight => 8.0,
    };
    let seed = settings.stochastic_rounding;
    [
        ("state_bits", bits),
        ("stochastic_rounding", f64::from(u8::from(seed.is_some()))),
        ("rounding_seed", seed.unwrap_or(0) as f64),
    ]
}

/// The settings of a moving average of weights.
fn average_settings(averaging: Option<Averaging>) -> [(&'static str, f64); 5] {
    let default = umbo_optimizer_options::default();
    let (kind, decay, warmup) = match averaging.map(|averaging| averaging.kind) {
        None => (UMBO_AVERAGE_NONE, default.average_decay, false),
        Some(AverageKind::Mean) => (UMBO_AVERAGE_MEAN, default.average_decay, false),
        Some(AverageKind::Exponential { decay, warmup }) => {
            (UMBO_AVERAGE_EXPONENTIAL, decay, warmup)
        }
    };
    let [start, interval] = averaging.map_or([0, 1], |it| [it.start, it.interval]);
    [
        ("average", kind.into()),
        ("average_decay", decay),
        ("average_start", start as f64),
        ("average_interval", interval as f64),
        ("average_warmup", f64::from(u8::from(warmup))),
    ]
}

fn group_settings(optimizer: &Optimizer, variable: &Variable) -> Result<Vec<(&'static str, f64)>> {
    let group = optimizer.group(variable)?;
    Ok(vec![
        ("learning_rate_factor", group.learning_rate_factor),
        ("weight_decay", group.weight_decay.unwrap_or(0.0)),
        ("frozen", f64::from(u8::from(group.frozen))),
    ])
}
