//! Optimizers: what they do around their rule, and applying gradients.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;

use super::boundary::{array, boundary, collect, constant, flag, out, quietly};
use super::callback::{self, UserData, umbo_destroy};
use super::handle::{self, get, make};
use super::object::{umbo_gradients, umbo_optimizer, umbo_tensor, umbo_variable};
use super::options::{self, Extensible};
use super::status::umbo_status;
use super::text::{lasting, text};
use crate::error::{Error, Result};
use crate::optimizer::{
    ApplyOptions, ApplyReport, Group, LossScaling, NonFinite, Outcome, Settings, apply_with,
};

/// What an apply does with gradients that are not finite.
pub type umbo_non_finite = i32;

/// It applies them, and the weights become what they become. The report names the first variable, and
/// the log gets one warning for each optimizer.
pub const UMBO_NON_FINITE_IGNORE: umbo_non_finite = 1;
/// It changes no variable and no state, uses the gradients up and reports `skipped`.
pub const UMBO_NON_FINITE_SKIP: umbo_non_finite = 2;
/// It fails with INVALID_ARGUMENT, naming variable, step, replica and first element; nothing is changed.
pub const UMBO_NON_FINITE_FAIL: umbo_non_finite = 3;

const _: () = assert!(NonFinite::Ignore as i32 == UMBO_NON_FINITE_IGNORE);
const _: () = assert!(NonFinite::Skip as i32 == UMBO_NON_FINITE_SKIP);
const _: () = assert!(NonFinite::Fail as i32 == UMBO_NON_FINITE_FAIL);

/// What an optimizer does around its rule; for umbo_optimizer_configure(). An apply sums what the
/// replicas submitted, takes the loss scale out, clips by the norm, then by the value, adds the
/// weight decay, and updates. UMBO_OPTIMIZER_OPTIONS_INIT sets all to default: everything is off.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_optimizer_options {
    /// sizeof(umbo_optimizer_options).
    pub struct_size: usize,
    /// The weight decay. AdamW and LAMB decay weights beside the gradient (decoupled); for all other
    /// rules weight_decay * w is added to the gradient (L2). 0 stands for the rule's own option, and
    /// where it has none, for no decay.
    pub weight_decay: f64,
    /// The largest norm of all gradients of an apply together; if it is larger, all of them are
    /// scaled down to it. 0: no bound. The norm is found in a pass of its own, and likewise whether
    /// all gradients are finite where `non_finite` asks for that. With more than two replicas, or
    /// several accumulated runs, that pass keeps the aggregated gradients, which takes as much memory
    /// as the variables, from the first apply on until the gradients are released; where there is no
    /// such memory, it takes time instead.
    pub clip_norm: f64,
    /// The largest magnitude of each element of a gradient. 0: no bound.
    pub clip_value: f64,
    /// UMBO_NON_FINITE_IGNORE, UMBO_NON_FINITE_SKIP or UMBO_NON_FINITE_FAIL. 0 stands for SKIP with a
    /// dynamic loss scale, which cannot be had with another, for FAIL with clip_norm, else for
    /// IGNORE. Where runs are accumulated, FAIL looks at each of them before it is added, SKIP at the
    /// sum when it is applied.
    pub non_finite: umbo_non_finite,
    /// 1: the loss scale grows after applies that took effect, and backs off when one is skipped.
    pub dynamic_loss_scale: i32,
    /// What the callbacks multiply their loss with, and an apply divides by; see
    /// umbo_optimizer_loss_scale(). 0 stands for 65536 if it is dynamic, else for 1.
    pub loss_scale: f64,
    /// What a dynamic loss scale is multiplied with to grow, more than 1; 0 stands for 2.
    pub loss_scale_growth_factor: f64,
    /// What it is multiplied with to back off, less than 1; 0 stands for 0.5.
    pub loss_scale_backoff_factor: f64,
    /// The least that it becomes; 0 stands for 1.
    pub loss_scale_floor: f64,
    /// It grows after so many applies in a row that took effect; 0 stands for 2000.
    pub loss_scale_growth_interval: i64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// How the variables of a group are treated. Start from UMBO_GROUP_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_group_options {
    /// sizeof(umbo_group_options).
    pub struct_size: usize,
    /// What the learning rate is multiplied with; 0 stands for 1.
    pub learning_rate_factor: f64,
    /// Their weight decay; 0 stands for the optimizer's.
    pub weight_decay: f64,
    /// 1: no weight decay, as is usual for biases and normalisation.
    pub no_weight_decay: i32,
    /// 1: they are not updated, and their gradients are neither looked at nor part of the norm.
    pub frozen: i32,
    /// Zero.
    pub reserved: [u64; 4],
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
    /// gradients, and the memory that it says at `clip_norm`.
    pub measure_norm: i32,
    /// Zero.
    pub reserved: [u64; 3],
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
    pub variables_updated: i32,
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
    /// The name of the first variable whose gradient (or, with clip_norm, its norm) was not finite,
    /// also if it was applied; NULL if all are finite. Lives as long as the process.
    pub non_finite_variable: *const c_char,
    /// 1: the norm was larger than clip_norm.
    pub clipped: i32,
    /// How many runs are accumulated and wait for an update.
    pub accumulated_runs: i32,
}

// SAFETY: `repr(C)`, `struct_size` first, no padding, zero is valid for all fields.
unsafe impl Extensible for umbo_optimizer_options {
    fn reserved_is_zero(&self) -> bool {
        self.reserved == [0; 4]
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_group_options {
    fn reserved_is_zero(&self) -> bool {
        self.reserved == [0; 4]
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_apply_options {
    fn reserved_is_zero(&self) -> bool {
        self.reserved == [0; 3]
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_apply_report {}

/// Tells the learning rate of an update. `step` counts the updates of the optimizer before it;
/// `learning_rate` is to be written, finite and 0 or more. Called by each apply that is to update (also
/// if that then finds a gradient that is not finite and is skipped), on the thread that carries it out.
/// Functions of the strategy that run steps or change its state (runs, applies, assignments,
/// umbo_strategy_synchronize()) fail with UMBO_FAILED_PRECONDITION here. A status other than UMBO_OK
/// makes the apply fail, which changes nothing.
pub type umbo_schedule_fn = Option<
    unsafe extern "C-unwind" fn(
        step: i64,
        user_data: *mut c_void,
        learning_rate: *mut f64,
    ) -> umbo_status,
>;

/// An option of which zero means that there is none.
fn if_set(value: f64) -> Option<f64> {
    (value != 0.0).then_some(value)
}

fn settings(options: &umbo_optimizer_options) -> Result<Settings> {
    let non_finite = match options.non_finite {
        0 => None,
        code => Some(constant(
            code,
            NonFinite::from_code(code),
            "options.non_finite",
            "0, UMBO_NON_FINITE_IGNORE (1), UMBO_NON_FINITE_SKIP (2) and UMBO_NON_FINITE_FAIL (3)",
        )?),
    };
    let growth_interval = match options.loss_scale_growth_interval {
        0 => 2000,
        interval => u64::try_from(interval).map_err(|_| {
            let problem = format!("{interval}; must be 1 or more, or 0 for 2000");
            Error::invalid("options.loss_scale_growth_interval", problem)
        })?,
    };
    let loss_scaling = match flag(options.dynamic_loss_scale, "options.dynamic_loss_scale")? {
        false => if_set(options.loss_scale).map(LossScaling::Fixed),
        true => Some(LossScaling::Dynamic {
            initial: if_set(options.loss_scale).unwrap_or(65536.0),
            growth_factor: if_set(options.loss_scale_growth_factor).unwrap_or(2.0),
            growth_interval,
            backoff_factor: if_set(options.loss_scale_backoff_factor).unwrap_or(0.5),
            floor: if_set(options.loss_scale_floor).unwrap_or(1.0),
        }),
    };
    Ok(Settings {
        weight_decay: if_set(options.weight_decay),
        clip_norm: if_set(options.clip_norm),
        clip_value: if_set(options.clip_value),
        non_finite,
        loss_scaling,
    })
}

/// The optimizer behind a handle, unless the child of a fork must not touch it.
fn usable(optimizer: *const umbo_optimizer) -> Result<Arc<crate::optimizer::Optimizer>> {
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
    count: i32,
    variables: *const *const umbo_variable,
    options: *const umbo_group_options,
) -> umbo_status {
    boundary("umbo_optimizer_add_group", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (variables, options) =
            unsafe { (array(variables, count, "variables")?, options::read(options, "options")?) };
        let variables = collect(variables.iter().map(|&variable| get(variable, "variables")))?;
        let weight_decay = if_set(options.weight_decay);
        let without = flag(options.no_weight_decay, "options.no_weight_decay")?;
        if without && weight_decay.is_some() {
            return Err(Error::invalid(
                "options.no_weight_decay",
                "1 together with a weight_decay; give one of them",
            ));
        }
        let group = Group {
            learning_rate_factor: if_set(options.learning_rate_factor).unwrap_or(1.0),
            weight_decay: if without { Some(0.0) } else { weight_decay },
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
    destroy: umbo_destroy,
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
    let name = done.non_finite.as_ref().map(|variable| lasting(variable.name()));
    umbo_apply_report {
        applied: done.applied.into(),
        // Gradients list their variables by an `i32`, and count runs up to one.
        variables_updated: done.variables_updated as i32,
        accumulated_runs: done.accumulated_runs as i32,
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

/// One more reference to the handle, to be released like the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_retain(optimizer: *const umbo_optimizer) -> umbo_status {
    boundary("umbo_optimizer_retain", || handle::retain(optimizer, "optimizer"))
}

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_release(optimizer: *const umbo_optimizer) {
    quietly("umbo_optimizer_release", || handle::release(optimizer, "optimizer"));
}
