//! Optimizers: what they are, and how they are set up.

use super::prelude::*;
use crate::optimizer::{LossScaling, Optimizer, Settings};

/// What an optimizer is, and how far it has come.
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
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no such field. The message lists those that there are.
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
        Error::NotFound(format!("name: '{name}'; the settings are {}", known.join(", ")))
    })?;
    value.write(found.1);
}

/// What an optimizer has by name. The weight decay is the one that is in effect.
fn all_settings(optimizer: &Optimizer) -> Vec<(&'static str, f64)> {
    let options = options_of(&optimizer.effective_settings());
    let mut all = vec![("learning_rate", optimizer.learning_rate())];
    all.extend(optimizer.rule().settings().into_iter().filter(|(name, _)| *name != "weight_decay"));
    all.extend([
        ("weight_decay", options.weight_decay),
        ("global_clip_norm", options.global_clip_norm),
        ("clip_value", options.clip_value),
        ("non_finite", options.non_finite.into()),
        ("loss_scaling", options.loss_scaling.into()),
        ("loss_scale", options.loss_scale),
        ("loss_scale_growth_factor", options.loss_scale_growth_factor),
        ("loss_scale_backoff_factor", options.loss_scale_backoff_factor),
        ("loss_scale_minimum", options.loss_scale_minimum),
        ("loss_scale_growth_interval", options.loss_scale_growth_interval as f64),
        ("maximize", options.maximize.into()),
    ]);
    all
}

fn group_settings(optimizer: &Optimizer, variable: &Variable) -> Result<Vec<(&'static str, f64)>> {
    let group = optimizer.group(variable)?;
    Ok(vec![
        ("learning_rate_factor", group.learning_rate_factor),
        ("weight_decay", group.weight_decay.unwrap_or(0.0)),
        ("frozen", f64::from(u8::from(group.frozen))),
    ])
}

fn options_of(settings: &Settings) -> umbo_optimizer_options {
    let default = umbo_optimizer_options::default();
    let mut options = umbo_optimizer_options {
        weight_decay: settings.weight_decay.unwrap_or(default.weight_decay),
        global_clip_norm: settings.global_clip_norm.unwrap_or(UMBO_INFINITE as f64),
        clip_value: settings.clip_value.unwrap_or(UMBO_INFINITE as f64),
        non_finite: settings.non_finite().to_c(),
        maximize: i32::from(settings.maximize),
        ..default
    };
    match settings.loss_scaling {
        None => options.loss_scaling = UMBO_LOSS_SCALING_NONE,
        Some(LossScaling::Fixed(scale)) => {
            options.loss_scaling = UMBO_LOSS_SCALING_FIXED;
            options.loss_scale = scale;
        }
        Some(LossScaling::Dynamic {
            initial,
            growth_factor,
            growth_interval,
            backoff_factor,
            minimum,
        }) => {
            options.loss_scaling = UMBO_LOSS_SCALING_DYNAMIC;
            options.loss_scale = initial;
            options.loss_scale_growth_factor = growth_factor;
            options.loss_scale_backoff_factor = backoff_factor;
            options.loss_scale_minimum = minimum;
            options.loss_scale_growth_interval = growth_interval as i64;
        }
    }
    options
}
