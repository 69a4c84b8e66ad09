//! Optimizers: reading back how they are set up.

use std::ffi::c_char;

use super::boundary::{boundary, out};
use super::handle::{borrow, get};
use super::object::{umbo_optimizer, umbo_variable};
use super::optimizer::{
    UMBO_LOSS_SCALING_DYNAMIC, UMBO_LOSS_SCALING_FIXED, UMBO_LOSS_SCALING_NONE, UMBO_NO_CLIPPING,
    umbo_group_options, umbo_optimizer_options, usable,
};
use super::options;
use super::status::umbo_status;
use super::text::text;
use crate::optimizer::{LossScaling, Settings};

/// The name of the optimizer's rule: "sgd", "momentum", "adam", "adamw", "lamb", "adagrad", "rmsprop",
/// "ftrl", or what umbo_custom_rule_options says.
///
/// @param optimizer The optimizer.
/// @param name Gets the name. Lives as long as the optimizer.
/// @return UMBO_OK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_rule(
    optimizer: *const umbo_optimizer,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_optimizer_rule", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        name.write(borrow(optimizer, "optimizer", |optimizer| {
            optimizer.rule_name().as_c_str().as_ptr()
        })?);
        Ok(())
    })
}

/// A number of the options that the optimizer was made with, by the name of its field: "learning_rate",
/// which is what umbo_optimizer_learning_rate() says, or one of the rule's own, such as "beta1". Fields
/// that are 0 or 1 are so here.
///
/// @param optimizer The optimizer.
/// @param name The name of the field.
/// @param value Gets the number.
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND, with the names that there are, for another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_setting(
    optimizer: *const umbo_optimizer,
    name: *const c_char,
    value: *mut f64,
) -> umbo_status {
    boundary("umbo_optimizer_setting", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (value, name) = unsafe { (out(value, "value")?, text(name, "name")?) };
        value.write(usable(optimizer)?.setting(name)?);
        Ok(())
    })
}

/// What the optimizer does around its rule, as it takes effect: `weight_decay` is a number, that of the
/// rule if umbo_optimizer_configure() gave none, and `non_finite` is not UMBO_NON_FINITE_AUTO. What
/// belongs to a loss scale that there is not has its default.
///
/// @param optimizer The optimizer.
/// @param options Start from UMBO_OPTIMIZER_OPTIONS_INIT; gets the settings, and can be given to
/// umbo_optimizer_configure().
/// @return UMBO_OK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_get_options(
    optimizer: *const umbo_optimizer,
    options: *mut umbo_optimizer_options,
) -> umbo_status {
    boundary("umbo_optimizer_get_options", || {
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options = unsafe { options::out(options, "options") }?;
        options.write(options_of(&usable(optimizer)?.effective_settings()));
        Ok(())
    })
}

fn options_of(settings: &Settings) -> umbo_optimizer_options {
    let default = umbo_optimizer_options::default();
    let mut options = umbo_optimizer_options {
        weight_decay: settings.weight_decay.unwrap_or(default.weight_decay),
        global_clip_norm: settings.global_clip_norm.unwrap_or(UMBO_NO_CLIPPING),
        clip_value: settings.clip_value.unwrap_or(UMBO_NO_CLIPPING),
        non_finite: settings.non_finite() as i32,
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

/// How the optimizer treats a variable: as its group says, or as those in no group.
///
/// @param optimizer The optimizer.
/// @param variable A variable of the optimizer's strategy.
/// @param options Start from UMBO_GROUP_OPTIONS_INIT; gets the treatment, with the weight decay that
/// updates take.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT for a variable of another strategy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_get_group_options(
    optimizer: *const umbo_optimizer,
    variable: *const umbo_variable,
    options: *mut umbo_group_options,
) -> umbo_status {
    boundary("umbo_optimizer_get_group_options", || {
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options = unsafe { options::out(options, "options") }?;
        let group = usable(optimizer)?.group(&get(variable, "variable")?)?;
        let default = umbo_group_options::default();
        options.write(umbo_group_options {
            learning_rate_factor: group.learning_rate_factor,
            weight_decay: group.weight_decay.unwrap_or(default.weight_decay),
            frozen: group.frozen.into(),
            ..default
        });
        Ok(())
    })
}
