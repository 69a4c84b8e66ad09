//! Optimizers: what they do around their rule, and applying gradients.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;

use super::boundary::{array, boundary, collect, constant, flag, out, quietly};
use super::callback::{self, UserData, umbo_destroy_fn};
use super::handle::{self, get, make};
use super::object::{umbo_gradients, umbo_optimizer, umbo_tensor, umbo_variable};
use super::options::{self, Extensible};
use super::status::umbo_status;
use super::text::text;
use crate::error::{Error, Result};
use crate::optimizer::{
    ApplyOptions, ApplyReport, Group, LossScaling, NonFinite, Outcome, Settings, apply_with,
};

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

const _: () = assert!(NonFinite::Ignore as i32 == UMBO_NON_FINITE_IGNORE);
const _: () = assert!(NonFinite::Skip as i32 == UMBO_NON_FINITE_SKIP);
const _: () = assert!(NonFinite::Fail as i32 == UMBO_NON_FINITE_FAIL);

/// Whether losses are multiplied by a factor, which keeps small 16-bit gradients from becoming
/// zero.
pub type umbo_loss_scaling = i32;

/// There is no factor.
pub const UMBO_LOSS_SCALING_NONE: umbo_loss_scaling = 0;
/// The factor is the same in all runs.
pub const UMBO_LOSS_SCALING_FIXED: umbo_loss_scaling = 1;
/// The factor grows after a number of applies that took effect, and shrinks when one is skipped.
pub const UMBO_LOSS_SCALING_DYNAMIC: umbo_loss_scaling = 2;

/// Use the weight decay in the options of the update rule.
pub const UMBO_WEIGHT_DECAY_OF_RULE: f64 = -1.0;
/// Use the weight decay of the variables that are in no group.
pub const UMBO_WEIGHT_DECAY_OF_OPTIMIZER: f64 = -1.0;
/// No bound: nothing is clipped.
pub const UMBO_NO_CLIPPING: f64 = -1.0;

/// What an optimizer does besides its update rule. Start from UMBO_OPTIMIZER_OPTIONS_INIT.
///
/// An apply does this in order: it combines what the replicas submitted, divides by the loss scale,
/// clips by norm, clips by value, adds the weight decay, and updates. By default all of it but the
/// first and the last is off.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_optimizer_options {
    /// sizeof(umbo_optimizer_options).
    pub struct_size: usize,
    /// The weight decay; finite and 0 or more. AdamW and LAMB apply it beside the gradient
    /// (decoupled); all other rules add weight_decay * w to the gradient (L2).
    /// UMBO_WEIGHT_DECAY_OF_RULE, the default: that in the options of the rule; none if the rule
    /// has no such option.
    pub weight_decay: f64,
    /// The largest allowed norm of all gradients of an apply together. If the norm is larger, all
    /// gradients are scaled down to it. More than 0; UMBO_NO_CLIPPING, the default: no bound.
    ///
    /// The norm costs a pass over the gradients. With more than two replicas, or several
    /// accumulated runs, this pass keeps the combined gradients: as much memory as the variables,
    /// from the first apply until the gradients are released. If that memory is not available, an
    /// apply takes more time instead. The same holds for the search for values that are not finite,
    /// where `non_finite` asks for it.
    pub global_clip_norm: f64,
    /// The largest allowed magnitude of each element of a gradient. More than 0; UMBO_NO_CLIPPING,
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
}

/// How the variables of a group are treated. Start from UMBO_GROUP_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_group_options {
    /// sizeof(umbo_group_options).
    pub struct_size: usize,
    /// The factor that the learning rate is multiplied by; finite and 0 or more. By default 1.
    pub learning_rate_factor: f64,
    /// The weight decay of these variables; finite and 0 or more. 0: none, as is usual for biases
    /// and normalisation. UMBO_WEIGHT_DECAY_OF_OPTIMIZER, the default: that of the optimizer.
    pub weight_decay: f64,
    /// 1: these variables are not updated, and their gradients are not read: they are not part of
    /// the norm either. 0, the default: they are updated.
    pub frozen: i32,
}

/// The options of one apply. UMBO_APPLY_OPTIONS_INIT gives the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_apply_options {
    /// sizeof(umbo_apply_options).
    pub struct_size: usize,
    /// 1: update now, even if fewer runs than `accumulation_steps` are accumulated, as at the end
    /// of an epoch. Runs that earlier applies have accumulated are then applied without another
    /// run. 0, the default: update after every `accumulation_steps` runs.
    pub flush: i32,
    /// 1: report the norm of the gradients even if clipping does not need it. That costs time and
    /// memory as `global_clip_norm` does. 0, the default: report it only if it is needed.
    pub measure_norm: i32,
}

/// What an apply did. Start from UMBO_APPLY_REPORT_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_apply_report {
    /// sizeof(umbo_apply_report).
    pub struct_size: usize,
    /// 1: the apply took effect and updated `variables_updated` variables. 0: it has not done so
    /// yet (`deferred` is 1, or `accumulated_runs` is not 0), or it will not (`skipped` is 1, or
    /// the total weight was 0) and the gradients are used up.
    pub applied: i32,
    /// 1: the apply was called inside a run and happens at the run's commit point. All other fields
    /// are 0 then; umbo_optimizer_last_report() tells later what it did.
    pub deferred: i32,
    /// How many variables were updated: those that are not frozen and that a replica viewed whose
    /// weight is not 0. 0 is possible.
    pub variables_updated: i64,
    /// 1: a gradient was not finite, so nothing was updated.
    pub skipped: i32,
    /// The sum of the replicas' weights, over all accumulated runs.
    pub total_weight: f64,
    /// How many applies of this optimizer have taken effect, this one included.
    pub iterations: i64,
    /// The norm of all gradients together: without the loss scale, before clipping and without
    /// weight decay. -1 if it was not measured.
    pub gradient_norm: f64,
    /// The learning rate of the update; 0 if there was none.
    pub learning_rate: f64,
    /// The loss scale of the next run.
    pub loss_scale: f64,
    /// The name of the first variable whose gradient was not finite, even if it was applied; NULL
    /// if all were finite. With `global_clip_norm` a norm that is not finite counts too. Lives as
    /// long as the variable.
    pub non_finite_variable: *const c_char,
    /// 1: the norm was larger than `global_clip_norm`.
    pub clipped: i32,
    /// How many runs are accumulated and wait for an update.
    pub accumulated_runs: i64,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_optimizer_options {}

impl Default for umbo_optimizer_options {
    fn default() -> Self {
        umbo_optimizer_options {
            struct_size: size_of::<Self>(),
            weight_decay: UMBO_WEIGHT_DECAY_OF_RULE,
            global_clip_norm: UMBO_NO_CLIPPING,
            clip_value: UMBO_NO_CLIPPING,
            non_finite: UMBO_NON_FINITE_AUTO,
            loss_scaling: UMBO_LOSS_SCALING_NONE,
            loss_scale: 65536.0,
            loss_scale_growth_factor: 2.0,
            loss_scale_backoff_factor: 0.5,
            loss_scale_minimum: 1.0,
            loss_scale_growth_interval: 2000,
        }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_group_options {}

impl Default for umbo_group_options {
    fn default() -> Self {
        umbo_group_options {
            struct_size: size_of::<Self>(),
            learning_rate_factor: 1.0,
            weight_decay: UMBO_WEIGHT_DECAY_OF_OPTIMIZER,
            frozen: 0,
        }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_apply_options {}

impl Default for umbo_apply_options {
    fn default() -> Self {
        umbo_apply_options { struct_size: size_of::<Self>(), flush: 0, measure_norm: 0 }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_apply_report {}

/// Computes the learning rate of an update.
///
/// @param[in] step How many updates the optimizer has made before this one.
/// @param[in] user_data What umbo_optimizer_set_schedule() was given.
/// @param[out] learning_rate The learning rate, which must be written; finite and 0 or more.
/// @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the apply, which then
///   changes nothing.
///
/// Each apply that is to update calls it, on the thread that carries out the apply; an apply that
/// is then skipped because of a gradient that is not finite has called it too. Inside it, functions
/// that run steps of the strategy or change its state (runs, applies, assignments,
/// umbo_strategy_synchronize()) give UMBO_STATUS_FAILED_PRECONDITION.
pub type umbo_schedule_fn = Option<
    unsafe extern "C-unwind" fn(
        step: i64,
        user_data: *mut c_void,
        learning_rate: *mut f64,
    ) -> umbo_status,
>;

/// An option, unless it has the value that says that there is none.
fn unless(value: f64, none: f64) -> Option<f64> {
    (value != none).then_some(value)
}

fn settings(options: &umbo_optimizer_options) -> Result<Settings> {
    let non_finite = match options.non_finite {
        UMBO_NON_FINITE_AUTO => None,
        code => Some(constant(
            code,
            NonFinite::from_code(code),
            "options.non_finite",
            "UMBO_NON_FINITE_AUTO (0) to UMBO_NON_FINITE_FAIL (3)",
        )?),
    };
    let loss_scaling = match options.loss_scaling {
        UMBO_LOSS_SCALING_NONE => Some(None),
        UMBO_LOSS_SCALING_FIXED => Some(Some(LossScaling::Fixed(options.loss_scale))),
        UMBO_LOSS_SCALING_DYNAMIC => Some(Some(LossScaling::Dynamic {
            initial: options.loss_scale,
            growth_factor: options.loss_scale_growth_factor,
            growth_interval: match options.loss_scale_growth_interval {
                interval @ 1.. => interval as u64,
                interval => {
                    let problem = format!("{interval}; must be 1 or more");
                    return Err(Error::invalid("options.loss_scale_growth_interval", problem));
                }
            },
            backoff_factor: options.loss_scale_backoff_factor,
            minimum: options.loss_scale_minimum,
        })),
        _ => None,
    };
    let loss_scaling = constant(
        options.loss_scaling,
        loss_scaling,
        "options.loss_scaling",
        "UMBO_LOSS_SCALING_NONE (0) to UMBO_LOSS_SCALING_DYNAMIC (2)",
    )?;
    Ok(Settings {
        weight_decay: unless(options.weight_decay, UMBO_WEIGHT_DECAY_OF_RULE),
        global_clip_norm: unless(options.global_clip_norm, UMBO_NO_CLIPPING),
        clip_value: unless(options.clip_value, UMBO_NO_CLIPPING),
        non_finite,
        loss_scaling,
    })
}

/// The optimizer behind a handle, unless the child of a fork must not touch it.
pub(super) fn usable(optimizer: *const umbo_optimizer) -> Result<Arc<crate::optimizer::Optimizer>> {
    let optimizer = get(optimizer, "optimizer")?;
    optimizer.check_process()?;
    Ok(optimizer)
}

/// Replaces all settings of an optimizer.
///
/// @param[in] optimizer The optimizer.
/// @param[in] options The new settings; `options` may be NULL: all defaults, so everything is off.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, or settings that are out of range
///   or exclude each other.
/// - UMBO_STATUS_FAILED_PRECONDITION: this process was forked while another thread was changing the
///   optimizer.
///
/// The settings are used from the next apply on. If a setting of the loss scale changes, the loss
/// scale starts again at `loss_scale`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_configure(
    optimizer: *mut umbo_optimizer,
    options: *const umbo_optimizer_options,
) -> umbo_status {
    boundary("umbo_optimizer_configure", || {
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options = unsafe { options::read(options, "options") }?;
        usable(optimizer)?.configure(settings(&options)?)
    })
}

/// Treats some variables differently from the others.
///
/// @param[in] optimizer The optimizer.
/// @param[in] count The number of variables.
/// @param[in] variables The variables, made by the optimizer's strategy. Each is in one group at
///   most.
/// @param[in] options The learning rate factor, the weight decay and whether they are frozen, from
///   the next apply on; `options` may be NULL: all defaults.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, a variable of another strategy,
///   one that is in a group already, or an option that is out of range. None of the variables is in
///   the group then.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
///
/// Variables in no group are treated as umbo_optimizer_configure() says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_add_group(
    optimizer: *mut umbo_optimizer,
    count: i64,
    variables: *const *mut umbo_variable,
    options: *const umbo_group_options,
) -> umbo_status {
    boundary("umbo_optimizer_add_group", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (variables, options) =
            unsafe { (array(variables, count, "variables")?, options::read(options, "options")?) };
        let variables = collect(variables.iter().map(|&variable| get(variable, "variables")))?;
        let group = Group {
            learning_rate_factor: options.learning_rate_factor,
            weight_decay: unless(options.weight_decay, UMBO_WEIGHT_DECAY_OF_OPTIMIZER),
            frozen: flag(options.frozen, "options.frozen")?,
        };
        usable(optimizer)?.add_group(&variables, group)
    })
}

/// Sets a function that computes the learning rate of each update.
///
/// @param[in] optimizer The optimizer.
/// @param[in] schedule The function, which replaces an earlier one. `schedule` may be NULL: the
///   learning rate stays what it is now, as with umbo_optimizer_set_learning_rate().
/// @param[in] user_data Passed to the function unchanged; may be anything.
/// @param[in] destroy Releases the user data when the function is replaced or the optimizer ends,
///   and if this call fails; may be left out.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_set_schedule(
    optimizer: *mut umbo_optimizer,
    schedule: umbo_schedule_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
) -> umbo_status {
    // SAFETY: the caller gives the user data and its function away.
    let user_data = unsafe { UserData::new(user_data, destroy) };
    boundary("umbo_optimizer_set_schedule", move || {
        let optimizer = usable(optimizer)?;
        let Some(schedule) = schedule else {
            return optimizer.set_learning_rate(optimizer.learning_rate());
        };
        optimizer.set_schedule(Arc::new(move |step: u64| {
            let mut learning_rate = f64::NAN;
            // SAFETY: the caller gave the function for this, with the user data that lives as long
            // as this closure; the output is a variable.
            callback::run(|| unsafe {
                schedule(step as i64, user_data.pointer(), &raw mut learning_rate)
            })?;
            Ok(learning_rate)
        }));
        Ok(())
    })
}

/// Tells the factor that callbacks multiply their loss by.
///
/// @param[in] optimizer The optimizer.
/// @param[out] loss_scale The factor of this run, valid until the next apply; 1 if there is no loss
///   scale.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
///
/// It may be called inside a run. A callback may multiply its gradients instead of its loss.
/// Several gradients of one run may be applied one after the other: each apply divides by the scale
/// that the run had.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_loss_scale(
    optimizer: *const umbo_optimizer,
    loss_scale: *mut f64,
) -> umbo_status {
    boundary("umbo_optimizer_loss_scale", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let loss_scale = unsafe { out(loss_scale, "loss_scale") }?;
        loss_scale.write(usable(optimizer)?.loss_scale());
        Ok(())
    })
}

/// Combines the submitted gradients and updates the variables.
///
/// @param[in] optimizer The optimizer.
/// @param[in] gradients The gradients, of the optimizer's strategy. They are used up: apply once
///   for each run.
/// @param[in] options How; `options` may be NULL: all defaults.
/// @param[out] report What the apply did. Start from UMBO_APPLY_REPORT_INIT, which sets its size.
///   `report` may be NULL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, an optimizer and gradients of
///   different strategies, row-sparse gradients with LAMB, weights whose sum is not finite, or a
///   gradient that is not finite with UMBO_NON_FINITE_FAIL.
/// - UMBO_STATUS_FAILED_PRECONDITION: nothing was submitted since the last apply, a replica has not
///   submitted (the message names it), the last run failed, the call comes from the context of
///   another strategy, the strategy was released or is draining, or the strategy was made before
///   this process was forked.
/// - UMBO_STATUS_CANCELLED: in a replica's callback, another replica has failed or the run has
///   ended.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
/// - what the schedule returned.
///
/// An apply that fails changes nothing. It takes one pass over memory; a norm, or a search for
/// values that are not finite, is a pass over the gradients before that. With k
/// `accumulation_steps`, every k-th apply updates. The others add what was submitted to a sum, and
/// report `accumulated_runs`.
///
/// Outside of a run it acts at once, after waiting for a run that another thread has under way.
///
/// Inside a run it is deferred to the run's commit point, uses what the replicas have submitted by
/// then, and reports `deferred`. In a replica's callback it is a synchronising call that all
/// replicas make (see umbo_replica_context_merge_call()). If the run fails, nothing is applied. If
/// a deferred apply fails, the run fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_apply(
    optimizer: *mut umbo_optimizer,
    gradients: *mut umbo_gradients,
    options: *const umbo_apply_options,
    report: *mut umbo_apply_report,
) -> umbo_status {
    boundary("umbo_optimizer_apply", || {
        let report = if report.is_null() {
            None
        } else {
            // SAFETY: not NULL, so the caller gives a struct of the size that it states.
            Some(unsafe { options::out(report, "report") }?)
        };
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options: umbo_apply_options = unsafe { options::read(options, "options") }?;
        let options = ApplyOptions {
            flush: flag(options.flush, "options.flush")?,
            measure_norm: flag(options.measure_norm, "options.measure_norm")?,
        };
        let (optimizer, gradients) = (usable(optimizer)?, get(gradients, "gradients")?);
        let outcome = apply_with(&optimizer, &gradients, options)?;
        if let Some(report) = report {
            report.write(match outcome {
                Outcome::Done(done) => report_of(&done),
                Outcome::Deferred => umbo_apply_report { deferred: 1, ..EMPTY_REPORT },
            });
        }
        Ok(())
    })
}

const EMPTY_REPORT: umbo_apply_report = umbo_apply_report {
    struct_size: size_of::<umbo_apply_report>(),
    applied: 0,
    deferred: 0,
    variables_updated: 0,
    skipped: 0,
    total_weight: 0.0,
    iterations: 0,
    gradient_norm: 0.0,
    learning_rate: 0.0,
    loss_scale: 0.0,
    non_finite_variable: ptr::null(),
    clipped: 0,
    accumulated_runs: 0,
};

pub(super) fn report_of(done: &ApplyReport) -> umbo_apply_report {
    let name = done.non_finite.as_ref().map(|variable| variable.name().as_c_str().as_ptr());
    umbo_apply_report {
        applied: done.applied.into(),
        variables_updated: done.variables_updated as i64,
        accumulated_runs: done.accumulated_runs as i64,
        skipped: done.skipped.into(),
        clipped: done.clipped.into(),
        total_weight: done.total_weight,
        iterations: done.iterations as i64,
        gradient_norm: done.gradient_norm.unwrap_or(-1.0),
        learning_rate: done.learning_rate,
        loss_scale: done.loss_scale,
        non_finite_variable: name.unwrap_or(ptr::null()),
        ..EMPTY_REPORT
    }
}

/// Tells what the last apply did.
///
/// @param[in] optimizer The optimizer.
/// @param[out] report The report of the last apply that was carried out, deferred ones included;
///   all fields are 0 before the first. Start from UMBO_APPLY_REPORT_INIT, which sets its size.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_last_report(
    optimizer: *const umbo_optimizer,
    report: *mut umbo_apply_report,
) -> umbo_status {
    boundary("umbo_optimizer_last_report", || {
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let report = unsafe { options::out(report, "report") }?;
        report.write(match usable(optimizer)?.last_report() {
            Some(done) => report_of(&done),
            None => EMPTY_REPORT,
        });
        Ok(())
    })
}

/// Sets the learning rate and ends a schedule.
///
/// @param[in] optimizer The optimizer.
/// @param[in] learning_rate The learning rate from the next apply on; finite and 0 or more.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, or a learning rate that is out of
///   range.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_set_learning_rate(
    optimizer: *mut umbo_optimizer,
    learning_rate: f64,
) -> umbo_status {
    boundary("umbo_optimizer_set_learning_rate", || {
        usable(optimizer)?.set_learning_rate(learning_rate)
    })
}

/// Tells the learning rate.
///
/// @param[in] optimizer The optimizer.
/// @param[out] learning_rate That of the next apply; with a schedule that of the last one.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_learning_rate(
    optimizer: *const umbo_optimizer,
    learning_rate: *mut f64,
) -> umbo_status {
    boundary("umbo_optimizer_learning_rate", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let learning_rate = unsafe { out(learning_rate, "learning_rate") }?;
        learning_rate.write(usable(optimizer)?.learning_rate());
        Ok(())
    })
}

/// Tells how many applies have taken effect.
///
/// @param[in] optimizer The optimizer.
/// @param[out] iterations Their number.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_iterations(
    optimizer: *const umbo_optimizer,
    iterations: *mut i64,
) -> umbo_status {
    boundary("umbo_optimizer_iterations", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let iterations = unsafe { out(iterations, "iterations") }?;
        iterations.write(usable(optimizer)?.iterations() as i64);
        Ok(())
    })
}

/// Copies what an optimizer keeps for a variable.
///
/// @param[in] optimizer The optimizer.
/// @param[in] variable The variable.
/// @param[in] name The name of the state, such as "momentum". The function that made the optimizer
///   lists the names.
/// @param[out] state A new tensor of the variable's dtype and shape. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_NOT_FOUND: the update rule has no state of this name, or the optimizer has not
///   updated the variable yet.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_state(
    optimizer: *const umbo_optimizer,
    variable: *const umbo_variable,
    name: *const c_char,
    state: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_optimizer_state", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (state, name) = unsafe { (out(state, "state")?, text(name, "name")?) };
        let variable = get(variable, "variable")?;
        state.write(make(usable(optimizer)?.state(&variable, name)?)?);
        Ok(())
    })
}

/// Makes another handle to the same optimizer.
///
/// @param[in] optimizer The optimizer. A handle that was lent to a callback is accepted too.
/// @param[out] retained The new handle. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
///
/// Each handle is released once, by itself. Retain a lent handle to keep the object after the
/// callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_retain(
    optimizer: *const umbo_optimizer,
    retained: *mut *mut umbo_optimizer,
) -> umbo_status {
    boundary("umbo_optimizer_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(optimizer, "optimizer", retained) }
    })
}

/// Releases a handle.
///
/// @param[in] optimizer The handle. NULL is fine: then nothing happens.
///
/// The object ends when its last handle is released and nothing else keeps it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_release(optimizer: *const umbo_optimizer) {
    quietly("umbo_optimizer_release", || handle::release(optimizer, "optimizer"));
}
