//! Applying gradients, and what an apply did.

use crate::machinery::prelude::*;
use umbo_core::optimizer::{Applied, ApplyOptions, ApplyReport, apply_with};

/// Options of one apply.
#[c_struct]
pub struct umbo_apply_options {
    /// 1: update now, as at the end of an epoch, also with fewer runs than `accumulation_steps`;
    /// with runs that earlier applies have accumulated, even without another run.
    pub flush: i32,
    /// 1: report the norm even without clipping; it costs what `global_clip_norm` does.
    pub measure_norm: i32,
}

/// The outcome of an apply.
#[c_struct]
pub struct umbo_apply_report {
    /// 1: it took effect. 0: it has not done so yet (`deferred`, or `accumulated_count`), or it
    /// will not (`skipped`, or the total weight was 0) and the gradients are used up.
    pub applied: i32,
    /// 1: it was called inside a run and happens at the run's commit point. The other fields are 0
    /// then; umbo_optimizer_last_report() has them later.
    pub deferred: i32,
    /// How many variables were updated: those that are not frozen and that a replica wrote whose
    /// weight is not 0.
    pub updated_count: i64,
    /// 1: a gradient was not finite, so nothing was updated.
    pub skipped: i32,
    /// The sum of the replicas' weights, over all accumulated runs.
    pub total_weight: f64,
    /// How many applies of this optimizer have taken effect, with this one.
    pub iterations: i64,
    /// The norm of all gradients together, without the loss scale, before clipping and weight
    /// decay. UMBO_NONE: it was not measured.
    pub gradient_norm: f64,
    /// The learning rate of the update; 0 if there was none.
    pub learning_rate: f64,
    /// The loss scale of the next run.
    pub loss_scale: f64,
    /// The name of the first variable whose gradient was not finite, even if it was applied; with
    /// `global_clip_norm` also if its norm was not. NULL: none. Lives as long as the variable.
    pub non_finite_variable: *const c_char,
    /// 1: the norm was larger than `global_clip_norm`.
    pub clipped: i32,
    /// How many runs are accumulated and wait for an update.
    pub accumulated_count: i64,
}

/// Combines the submitted gradients and updates the variables. Call it once for each run.
///
/// @param[in] gradients Of the optimizer's strategy. They are used up.
/// @param[out] report May be NULL.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: objects of different strategies, row-sparse
///   gradients with LAMB, LARS, Muon or Adafactor, a variable that is not a matrix with Muon,
///   weights whose sum is not finite, or what UMBO_NON_FINITE_FAIL finds.
///   UMBO_STATUS_FAILED_PRECONDITION: nothing was submitted since the last apply, a replica has not
///   submitted, the last run failed, or the strategy is draining. What the schedule returned.
///
/// If it fails, nothing changes, except that ranks that have exchanged the gradients have used them
/// up. Outside of a run it waits for the run of another thread and acts at once. Inside a run it is
/// deferred to the run's commit point, and fails with the run, or makes the run fail; in a
/// replica's callback all replicas make the call (umbo_replica_context_merge_call()). With k
/// `accumulation_steps` every k-th apply updates; the others add to a sum.
///
/// Collective. Ranks with different settings or progress are UMBO_STATUS_FAILED_PRECONDITION.
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
    let optimizer = get(optimizer, "optimizer")?;
    let gradients = get(gradients, "gradients")?;
    report.write(match apply_with(&optimizer, &gradients, options)? {
        Applied::Done(done) => report_of(&done),
        Applied::Deferred => umbo_apply_report {
            deferred: 1,
            ..Default::default()
        },
    });
}

pub(crate) fn report_of(done: &ApplyReport) -> umbo_apply_report {
    let name = done
        .non_finite
        .as_ref()
        .map(|variable| variable.name().as_c_str().as_ptr());
    umbo_apply_report {
        applied: done.applied.into(),
        updated_count: done.variables_updated as i64,
        accumulated_count: done.accumulated_runs as i64,
        skipped: done.skipped.into(),
        clipped: done.clipped.into(),
        total_weight: done.total_weight,
        iterations: done.iterations as i64,
        gradient_norm: done.gradient_norm.unwrap_or(UMBO_NONE as f64),
        learning_rate: done.learning_rate,
        loss_scale: done.loss_scale,
        non_finite_variable: name.unwrap_or(ptr::null()),
        ..Default::default()
    }
}

/// Gets the report of the last apply that was carried out, deferred ones included. All fields are 0
/// before the first.
#[c_call(result(report), get(optimizer))]
pub fn umbo_optimizer_last_report(
    optimizer: *const umbo_optimizer,
    report: *mut umbo_apply_report,
) {
    report.write(
        optimizer
            .last_report()
            .as_ref()
            .map(report_of)
            .unwrap_or_default(),
    );
}
