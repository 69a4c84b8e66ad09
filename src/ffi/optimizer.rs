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

/// What an apply does with gradients that are not finite.
pub type umbo_non_finite = i32;

/// UMBO_NON_FINITE_SKIP with a dynamic loss scale, UMBO_NON_FINITE_FAIL with `global_clip_norm`, since
/// one element would spoil all variables, else UMBO_NON_FINITE_IGNORE.
pub const UMBO_NON_FINITE_AUTO: umbo_non_finite = 0;
/// It applies them like any others, so that NaN and infinity get into the weights. The report names
/// the first variable, and the log gets one warning for each optimizer.
pub const UMBO_NON_FINITE_IGNORE: umbo_non_finite = 1;
/// It changes no variable and no state, uses the gradients up and reports `skipped`.
pub const UMBO_NON_FINITE_SKIP: umbo_non_finite = 2;
/// It fails with INVALID_ARGUMENT, naming variable, step, replica and first element; nothing is changed.
pub const UMBO_NON_FINITE_FAIL: umbo_non_finite = 3;

const _: () = assert!(NonFinite::Ignore as i32 == UMBO_NON_FINITE_IGNORE);
const _: () = assert!(NonFinite::Skip as i32 == UMBO_NON_FINITE_SKIP);
const _: () = assert!(NonFinite::Fail as i32 == UMBO_NON_FINITE_FAIL);

/// Whether losses are multiplied with a factor, so that small gradients of 16 bits do not vanish.
pub type umbo_loss_scaling = i32;

/// They are not.
pub const UMBO_LOSS_SCALING_NONE: umbo_loss_scaling = 0;
/// By the same factor in all runs.
pub const UMBO_LOSS_SCALING_FIXED: umbo_loss_scaling = 1;
/// The factor grows after applies that took effect, and backs off when one is skipped.
pub const UMBO_LOSS_SCALING_DYNAMIC: umbo_loss_scaling = 2;

/// The weight decay that the options of the rule say.
pub const UMBO_WEIGHT_DECAY_OF_RULE: f64 = -1.0;
/// The weight decay of all variables that are in no group.
pub const UMBO_WEIGHT_DECAY_OF_OPTIMIZER: f64 = -1.0;
/// A bound that clips nothing.
pub const UMBO_NO_CLIPPING: f64 = -1.0;

/// What an optimizer does around its rule; for umbo_optimizer_configure(). An apply sums what the
/// replicas submitted, takes the loss scale out, clips by the norm, then by the value, adds the
/// weight decay, and updates. UMBO_OPTIMIZER_OPTIONS_INIT sets all to default: everything is off.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_optimizer_options {
    /// sizeof(umbo_optimizer_options).
    pub struct_size: usize,
    /// The weight decay. AdamW and LAMB decay weights beside the gradient (decoupled); for all other
    /// rules weight_decay * w is added to the gradient (L2). UMBO_WEIGHT_DECAY_OF_RULE, the default:
    /// what the options of the rule say, and where they say nothing, none.
    pub weight_decay: f64,
    /// The largest norm of all gradients of an apply together; if it is larger, all of them are
    /// scaled down to it. UMBO_NO_CLIPPING, the default: no bound. The norm is found in a pass of its own, and likewise whether
    /// all gradients are finite where `non_finite` asks for that. With more than two replicas, or
    /// several accumulated runs, that pass keeps the aggregated gradients, which takes as much memory
    /// as the variables, from the first apply on until the gradients are released; where there is no
    /// such memory, it takes time instead.
    pub global_clip_norm: f64,
    /// The largest magnitude of each element of a gradient. UMBO_NO_CLIPPING, the default: no bound.
    pub clip_value: f64,
    /// What an apply does with gradients that are not finite. A dynamic loss scale cannot be had with
    /// another than SKIP. Where runs are accumulated, FAIL looks at each of them before it is added, SKIP at the
    /// sum when it is applied.
    pub non_finite: umbo_non_finite,
    /// Whether there is a loss scale, and whether it adapts. By default there is none.
    pub loss_scaling: umbo_loss_scaling,
    /// What the callbacks multiply their loss with, and an apply divides by, where there is a loss
    /// scale; see umbo_optimizer_loss_scale(). A dynamic one starts there. By default 65536.
    pub loss_scale: f64,
    /// What a dynamic loss scale is multiplied with to grow, more than 1. By default 2.
    pub loss_scale_growth_factor: f64,
    /// What it is multiplied with to back off, less than 1. By default 0.5.
    pub loss_scale_backoff_factor: f64,
    /// The least that it becomes. By default 1.
    pub loss_scale_minimum: f64,
    /// It grows after so many applies in a row that took effect. By default 2000.
    pub loss_scale_growth_interval: i64,
}

/// How the variables of a group are treated. Start from UMBO_GROUP_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_group_options {
    /// sizeof(umbo_group_options).
    pub struct_size: usize,
    /// What the learning rate is multiplied with, 0 or more. By default 1.
    pub learning_rate_factor: f64,
    /// Their weight decay; 0, as is usual for biases and normalisation: none.
    /// UMBO_WEIGHT_DECAY_OF_OPTIMIZER, the default: that of the optimizer.
    pub weight_decay: f64,
    /// 1: they are not updated, and their gradients are neither looked at nor part of the norm.
    pub frozen: i32,
}

/// Options of an apply. UMBO_APPLY_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_apply_options {
    /// sizeof(umbo_apply_options).
    pub struct_size: usize,
    /// 1: update now, also if the gradients have accumulated fewer runs than their
    /// `accumulation_steps`: at the end of an epoch, say. Runs that earlier applies have accumulated are
    /// applied without another run, after the loop.
    pub flush: i32,
    /// 1: report the norm of the gradient also if clipping does not need it; costs a pass over the
    /// gradients, and the memory that it says at `global_clip_norm`.
    pub measure_norm: i32,
}

/// What an apply did. Start from UMBO_APPLY_REPORT_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_apply_report {
    /// sizeof(umbo_apply_report).
    pub struct_size: usize,
    /// 1: the apply took effect, and `variables_updated` variables were updated. 0: not yet (`deferred`,
    /// or `accumulated_runs` is not 0), or not at all (`skipped`, or the total weight was 0), in which
    /// case the gradients are used up.
    pub applied: i32,
    /// 1: the apply was called inside of a run and waits for its commit point; all other fields
    /// are 0. umbo_optimizer_last_report() says later what it did.
    pub deferred: i32,
    /// How many variables were updated: those that a replica of non-zero weight viewed and that are
    /// not frozen. There may be none.
    pub variables_updated: i64,
    /// 1: a gradient was not finite, so nothing was updated.
    pub skipped: i32,
    /// The sum of the replicas' weights, over all accumulated runs.
    pub total_weight: f64,
    /// How many applies of this optimizer have taken effect, with this one.
    pub iterations: i64,
    /// The norm of all gradients together, without the loss scale, before clipping and without
    /// weight decay; -1 if it was not measured.
    pub gradient_norm: f64,
    /// The learning rate of the update; 0 if there was none.
    pub learning_rate: f64,
    /// The loss scale of the next run.
    pub loss_scale: f64,
    /// The name of the first variable whose gradient (or, with global_clip_norm, its norm) was not finite,
    /// also if it was applied; NULL if all are finite. Lives as long as the variable.
    pub non_finite_variable: *const c_char,
    /// 1: the norm was larger than global_clip_norm.
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

/// Tells the learning rate of an update. `step` counts the updates of the optimizer before it;
/// `learning_rate` is to be written, finite and 0 or more. Called by each apply that is to update (also
/// if that then finds a gradient that is not finite and is skipped), on the thread that carries it out.
/// Functions of the strategy that run steps or change its state (runs, applies, assignments,
/// umbo_strategy_synchronize()) fail with UMBO_STATUS_FAILED_PRECONDITION here. A status other than UMBO_OK
/// makes the apply fail, which changes nothing.
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

/// Replaces all settings of the optimizer, from the next apply on. `options` may be NULL: everything
/// is off. The loss scale starts anew if its settings are other ones than before. INVALID_ARGUMENT: settings that are
/// out of range or exclude each other.
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

/// Treats `count` variables, from the next apply on, as `options` (NULL: all defaults) say. A variable is in one group
/// at most; those in none are treated as umbo_optimizer_configure() says.
///
/// INVALID_ARGUMENT: a variable of another strategy or in a group already (none of the variables is
/// then in the group), options that are out of range or exclude each other.
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

/// Takes the learning rate of each update from `schedule`, in place of the one before. NULL keeps
/// the learning rate where it is, as umbo_optimizer_set_learning_rate() does. `destroy` (or NULL)
/// releases `user_data` when the schedule is replaced or the optimizer is gone, and also if this
/// function fails.
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

/// What callbacks multiply their loss (or their gradients) with, in this run and until the next
/// apply. May be called inside of a run. 1 where no loss scale was configured. Several gradients of one
/// run may be applied after it, one by one: each apply divides by the scale that the run had.
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

/// Reduces the gradients that the replicas submitted and updates the variables, in one pass over
/// memory; a norm or a look for values that are not finite is a pass over the gradients before it.
/// Uses the gradients up: apply once for each run. `options` may be NULL; `report` may be NULL.
///
/// With gradients whose `accumulation_steps` is k, every k-th apply updates; the others add what was
/// submitted to a sum, and report `accumulated_runs`.
///
/// After a run it acts at once; it waits for a run that another thread has in progress. Inside of a
/// run it is deferred to the commit point, takes what the replicas have submitted by then, and is
/// reported as `deferred`; called by a replica's callback it synchronises, and all replicas call
/// it. If the run fails, nothing is applied; if a deferred apply fails, so does the run. An apply
/// that fails changes nothing.
///
/// FAILED_PRECONDITION: nothing was submitted since the last apply, a replica did not submit (it is
/// named), the last run failed, the context of another strategy, a strategy that was released.
/// INVALID_ARGUMENT: optimizer and gradients of different strategies, or a gradient that is not finite
/// where that was to fail (umbo_optimizer_options). Also whatever a schedule fails with.
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

fn report_of(done: &ApplyReport) -> umbo_apply_report {
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

/// What the last apply did that was carried out, also if it was deferred; all 0 before the first.
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

/// Sets the learning rate, from the next apply on: finite and 0 or more. Ends a schedule.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_set_learning_rate(
    optimizer: *mut umbo_optimizer,
    learning_rate: f64,
) -> umbo_status {
    boundary("umbo_optimizer_set_learning_rate", || {
        usable(optimizer)?.set_learning_rate(learning_rate)
    })
}

/// The learning rate of the next apply; while there is a schedule, that of the last one.
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

/// How many applies have taken effect.
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

/// A copy of what the optimizer keeps for a variable under `name`, such as "momentum"; the function
/// that makes the optimizer lists the names. It is of the variable's dtype and shape. NOT_FOUND: a name that its rule does not have, or a
/// variable that it has not updated yet.
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

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
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

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_release(optimizer: *const umbo_optimizer) {
    quietly("umbo_optimizer_release", || handle::release(optimizer, "optimizer"));
}
