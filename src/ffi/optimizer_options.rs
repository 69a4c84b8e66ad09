//! Optimizers: what they do besides their rule, for all variables and for groups of them.

use super::prelude::*;
use crate::optimizer::{Group, LossScaling, NonFinite, Settings};

/// What an apply does with a gradient that is not finite (infinite or NaN).
pub type umbo_non_finite = i32;

/// SKIP with a dynamic loss scale. FAIL with `global_clip_norm`, where one such element would spoil
/// all variables. Otherwise IGNORE.
pub const UMBO_NON_FINITE_AUTO: umbo_non_finite = 0;
/// It uses the gradient like any other, so infinity and NaN get into the variables. The report
/// names the first such variable, and the log gets one warning for each optimizer.
pub const UMBO_NON_FINITE_IGNORE: umbo_non_finite = 1;
/// It changes no variable and no state, uses the gradients up, and reports `skipped`.
pub const UMBO_NON_FINITE_SKIP: umbo_non_finite = 2;
/// It fails with UMBO_STATUS_INVALID_ARGUMENT and changes nothing. The message names the variable,
/// the step, the replica and the first such element.
pub const UMBO_NON_FINITE_FAIL: umbo_non_finite = 3;

constants! { NonFinite {
    UMBO_NON_FINITE_IGNORE = NonFinite::Ignore, UMBO_NON_FINITE_SKIP = NonFinite::Skip,
    UMBO_NON_FINITE_FAIL = NonFinite::Fail,
} }

/// Whether losses are multiplied by a factor, which keeps small 16-bit gradients from becoming
/// zero.
pub type umbo_loss_scaling = i32;

/// There is no factor.
pub const UMBO_LOSS_SCALING_NONE: umbo_loss_scaling = 0;
/// The factor is the same in all runs.
pub const UMBO_LOSS_SCALING_FIXED: umbo_loss_scaling = 1;
/// The factor grows after a number of applies that took effect, and shrinks when one is skipped.
pub const UMBO_LOSS_SCALING_DYNAMIC: umbo_loss_scaling = 2;

/// What an optimizer does besides its update rule. Start from UMBO_OPTIMIZER_OPTIONS_INIT.
///
/// An apply does this in order: it combines what the replicas submitted, divides by the loss scale,
/// clips by norm, clips by value, adds the weight decay, and updates. By default all of it but the
/// first and the last is off.
#[c_struct(
    weight_decay = UMBO_AUTO as f64, global_clip_norm = UMBO_INFINITE as f64,
    clip_value = UMBO_INFINITE as f64, loss_scale = 65536.0, loss_scale_growth_factor = 2.0,
    loss_scale_backoff_factor = 0.5, loss_scale_minimum = 1.0, loss_scale_growth_interval = 2000
)]
#[repr(C)]
pub struct umbo_optimizer_options {
    /// sizeof(umbo_optimizer_options).
    pub struct_size: usize,
    /// The weight decay; finite and 0 or more. AdamW and LAMB apply it beside the gradient
    /// (decoupled); all other rules add weight_decay * w to the gradient (L2).
    /// UMBO_AUTO, the default: that in the options of the rule; none if the rule
    /// has no such option.
    pub weight_decay: f64,
    /// The largest allowed norm of all gradients of an apply together. If the norm is larger, all
    /// gradients are scaled down to it. More than 0; UMBO_INFINITE, the default: no bound.
    ///
    /// The norm costs a pass over the gradients. With more than two replicas, or several
    /// accumulated runs, this pass keeps the combined gradients: as much memory as the variables,
    /// from the first apply until the gradients are released. If that memory is not available, an
    /// apply takes more time instead. The same holds for the search for values that are not finite,
    /// where `non_finite` asks for it.
    pub global_clip_norm: f64,
    /// The largest allowed magnitude of each element of a gradient. More than 0; UMBO_INFINITE,
    /// the default: no bound.
    pub clip_value: f64,
    /// What an apply does with gradients that are not finite. By default UMBO_NON_FINITE_AUTO. A
    /// dynamic loss scale needs AUTO or SKIP. If runs are accumulated, FAIL checks each run before
    /// it is added, and SKIP checks the sum when it is applied.
    pub non_finite: umbo_non_finite,
    /// Whether there is a loss scale, and whether it adapts. By default UMBO_LOSS_SCALING_NONE.
    pub loss_scaling: umbo_loss_scaling,
    /// The factor that callbacks multiply their loss by and an apply divides by, if there is a loss
    /// scale; see umbo_optimizer_loss_scale(). A dynamic loss scale starts with it. More than 0; by
    /// default 65536.
    pub loss_scale: f64,
    /// The factor by which a dynamic loss scale grows; more than 1. By default 2.
    pub loss_scale_growth_factor: f64,
    /// The factor by which a dynamic loss scale shrinks; more than 0 and less than 1. By default
    /// 0.5.
    pub loss_scale_backoff_factor: f64,
    /// The smallest value of a dynamic loss scale; more than 0, and at most `loss_scale`. By
    /// default 1.
    pub loss_scale_minimum: f64,
    /// A dynamic loss scale grows after so many applies in a row that took effect; 1 or more. By
    /// default 2000.
    pub loss_scale_growth_interval: i64,
    /// 1: the loss is maximised: the gradient changes its sign, after clipping and before the weight
    /// decay is added. 0, the default: the loss is minimised.
    pub maximize: i32,
}

/// How the variables of a group are treated. Start from UMBO_GROUP_OPTIONS_INIT.
#[c_struct(learning_rate_factor = 1.0, weight_decay = UMBO_AUTO as f64)]
#[repr(C)]
pub struct umbo_group_options {
    /// sizeof(umbo_group_options).
    pub struct_size: usize,
    /// The factor that the learning rate is multiplied by; finite and 0 or more. By default 1.
    pub learning_rate_factor: f64,
    /// The weight decay of these variables; finite and 0 or more. 0: none, as is usual for biases
    /// and normalisation. UMBO_AUTO, the default: that of the optimizer.
    pub weight_decay: f64,
    /// 1: these variables are not updated, and their gradients are not read: they are not part of
    /// the norm either. 0, the default: they are updated.
    pub frozen: i32,
}

fn settings(options: &umbo_optimizer_options) -> Result<Settings> {
    let non_finite = match options.non_finite {
        UMBO_NON_FINITE_AUTO => None,
        code => Some(constant(code, "options.non_finite")?),
    };
    let loss_scaling = one_of!(options.loss_scaling, "options.loss_scaling", {
        UMBO_LOSS_SCALING_NONE => None,
        UMBO_LOSS_SCALING_FIXED => Some(LossScaling::Fixed(options.loss_scale)),
        UMBO_LOSS_SCALING_DYNAMIC => Some(LossScaling::Dynamic {
            initial: options.loss_scale,
            growth_factor: options.loss_scale_growth_factor,
            growth_interval: positive(
                options.loss_scale_growth_interval,
                "options.loss_scale_growth_interval",
            )?,
            backoff_factor: options.loss_scale_backoff_factor,
            minimum: options.loss_scale_minimum,
        }),
    })?;
    Ok(Settings {
        weight_decay: unless(options.weight_decay, UMBO_AUTO),
        global_clip_norm: unless(options.global_clip_norm, UMBO_INFINITE),
        clip_value: unless(options.clip_value, UMBO_INFINITE),
        non_finite,
        loss_scaling,
        maximize: flag(options.maximize, "options.maximize")?,
    })
}

/// Replaces all settings of an optimizer.
///
/// @param[in] options The new settings; `options` may be NULL: all defaults, so everything is off.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: settings that are out of range or exclude each other.
///
/// The settings are used from the next apply on. If a setting of the loss scale changes, the loss
/// scale starts again at `loss_scale`.
#[c_call(options(options), get(optimizer))]
pub fn umbo_optimizer_configure(
    optimizer: *mut umbo_optimizer,
    options: *const umbo_optimizer_options,
) {
    optimizer.configure(settings(&options)?)
}

/// Treats some variables differently from the others.
///
/// @param[in] count The number of variables.
/// @param[in] variables The variables, made by the optimizer's strategy. Each is in one group at
///   most.
/// @param[in] options The learning rate factor, the weight decay and whether they are frozen, from
///   the next apply on; `options` may be NULL: all defaults.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy, one that is in a group already, or an
///   option that is out of range. None of the variables is in the group then.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
///
/// Variables in no group are treated as umbo_optimizer_configure() says.
#[c_call(handles(variables, count), options(options))]
pub fn umbo_optimizer_add_group(
    optimizer: *mut umbo_optimizer,
    count: i64,
    variables: *const *mut umbo_variable,
    options: *const umbo_group_options,
) {
    let group = Group {
        learning_rate_factor: options.learning_rate_factor,
        weight_decay: unless(options.weight_decay, UMBO_AUTO),
        frozen: flag(options.frozen, "options.frozen")?,
    };
    get(optimizer, "optimizer")?.add_group(&variables, group)
}
