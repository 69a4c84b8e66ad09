//! Applying gradients, and what an apply did.

use super::prelude::*;
use crate::optimizer::{ApplyOptions, ApplyReport, Outcome, apply_with};

/// The options of one apply. UMBO_APPLY_OPTIONS_INIT gives the defaults.
#[c_struct]
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
#[c_struct]
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

/// Combines the submitted gradients and updates the variables.
///
/// @param[in] gradients The gradients, of the optimizer's strategy. They are used up: apply once
///   for each run.
/// @param[in] options How; `options` may be NULL: all defaults.
/// @param[out] report What the apply did. Start from UMBO_APPLY_REPORT_INIT, which sets its size.
///   `report` may be NULL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an optimizer and gradients of different strategies, row-sparse gradients
///   with LAMB, weights whose sum is not finite, or a gradient that is not finite with UMBO_NON_FINITE_FAIL.
/// - UMBO_STATUS_FAILED_PRECONDITION: nothing was submitted since the last apply, a replica has not
///   submitted (the message names it), the last run failed, the call comes from the context of
///   another strategy, or the strategy was released or is draining.
/// - UMBO_STATUS_CANCELLED: in a replica's callback, another replica has failed or the run has
///   ended.
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
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more. Ranks whose settings, progress or learning rates differ are
/// UMBO_STATUS_FAILED_PRECONDITION, too.
#[c_call(optional_result(report), options(options))]
pub fn umbo_optimizer_apply(
    optimizer: *mut umbo_optimizer,
    gradients: *mut umbo_gradients,
    options: *const umbo_apply_options,
    report: *mut umbo_apply_report,
) {
    let options = ApplyOptions {
        flush: flag(options.flush, "options.flush")?,
        measure_norm: flag(options.measure_norm, "options.measure_norm")?,
    };
    let (optimizer, gradients) = (get(optimizer, "optimizer")?, get(gradients, "gradients")?);
    report.write(match apply_with(&optimizer, &gradients, options)? {
        Outcome::Done(done) => report_of(&done),
        Outcome::Deferred => umbo_apply_report { deferred: 1, ..Default::default() },
    });
}

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
        ..Default::default()
    }
}

/// Tells what the last apply did.
///
/// @param[out] report The report of the last apply that was carried out, deferred ones included;
///   all fields are 0 before the first. Start from UMBO_APPLY_REPORT_INIT, which sets its size.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
#[c_call(result(report), get(optimizer))]
pub fn umbo_optimizer_last_report(
    optimizer: *const umbo_optimizer,
    report: *mut umbo_apply_report,
) {
    report.write(optimizer.last_report().as_ref().map(report_of).unwrap_or_default());
}
