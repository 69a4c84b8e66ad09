//! Optimizers: reading back how they are set up.

use super::prelude::*;
use crate::optimizer::{LossScaling, Settings};

/// Tells the name of an optimizer's update rule.
///
/// @param[out] name "sgd", "momentum", "adam", "adamw", "lamb", "adagrad", "rmsprop" or "ftrl". For
///   a custom rule, what its umbo_custom_rule_options say. Lives as long as the optimizer.
#[c_call(out(name), borrow(optimizer))]
pub fn umbo_optimizer_rule(optimizer: *const umbo_optimizer, name: *mut *const c_char) {
    name.write(optimizer.rule_name().as_c_str().as_ptr());
}

/// Tells one of the numbers that an optimizer was made with.
///
/// @param[in] name The name of a field of the rule's options, such as "beta1".
/// @param[out] value The number. For "learning_rate" it is what umbo_optimizer_learning_rate()
///   tells. Fields that are 0 or 1 give 0 or 1.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: the options have no such field. The message lists the names that there
///   are.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[c_call(out(value), text(name), get(optimizer))]
pub fn umbo_optimizer_setting(
    optimizer: *const umbo_optimizer,
    name: *const c_char,
    value: *mut f64,
) {
    value.write(optimizer.setting(name)?);
}

/// Tells what an optimizer does besides its update rule.
///
/// @param[out] options The settings that are in effect. Start from UMBO_OPTIMIZER_OPTIONS_INIT,
///   which sets the size.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
///
/// They can be passed to umbo_optimizer_configure(). Choices are resolved: `weight_decay` is a
/// number, that of the rule if none was configured, and `non_finite` is never UMBO_NON_FINITE_AUTO.
/// Without a loss scale its fields have their defaults.
#[c_call(result(options), get(optimizer))]
pub fn umbo_optimizer_get_options(
    optimizer: *const umbo_optimizer,
    options: *mut umbo_optimizer_options,
) {
    options.write(options_of(&optimizer.effective_settings()));
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

/// Tells how an optimizer treats a variable.
///
/// @param[in] variable A variable of the optimizer's strategy.
/// @param[out] options The options of the variable's group, or of the variables in no group. Start
///   from UMBO_GROUP_OPTIONS_INIT, which sets the size. `weight_decay` is the number that updates
///   use.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[c_call(result(options), get(optimizer), get(variable))]
pub fn umbo_optimizer_get_group_options(
    optimizer: *const umbo_optimizer,
    variable: *const umbo_variable,
    options: *mut umbo_group_options,
) {
    let group = optimizer.group(&variable)?;
    let default = umbo_group_options::default();
    options.write(umbo_group_options {
        learning_rate_factor: group.learning_rate_factor,
        weight_decay: group.weight_decay.unwrap_or(default.weight_decay),
        frozen: group.frozen.into(),
        ..default
    });
}
