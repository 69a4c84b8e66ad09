//! Training loops.

use crate::machinery::prelude::*;
use umbo_core::equivalence::{self, OwnedCallback};
use umbo_core::observe::switch::CHECK;
use umbo_core::strategy::step::limits::Limits;
use umbo_core::training::Epoch;

/// How far an epoch is. Later versions may append fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_progress {
    /// sizeof(umbo_progress), as the library knows it.
    pub struct_size: usize,
    /// Steps that were done.
    pub step_count: i64,
    /// The examples of their elements, if the elements know how many they have.
    pub example_count: i64,
    /// Updates that took effect.
    pub update_count: i64,
    /// Updates that were skipped because a gradient was not finite.
    pub skipped_count: i64,
    /// Seconds since the beginning.
    pub seconds: f64,
    /// The outcome of the last step's update; NULL without an optimizer.
    pub last_apply: *const umbo_apply_report,
    /// The metrics of the options, with what all steps so far have added.
    pub metrics: *mut umbo_metrics,
}

/// Called after each step, outside of it, on the thread that called umbo_train_epoch().
///
/// @param[in] progress Valid for the call.
/// @return UMBO_OK, or why the epoch is to end: the step is kept, and umbo_train_epoch() returns
///   this status, also on the other ranks, which do not begin another step.
///
/// It may read variables and metrics, set a learning rate, run and evaluate. Here
/// umbo_strategy_metric_result() has the totals of the last step.
pub type umbo_progress_fn = Option<
    unsafe extern "C-unwind" fn(
        progress: *const umbo_progress,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// Options of an epoch.
#[c_struct(
    timeout_seconds = UMBO_INFINITE as f64, max_steps = UMBO_ALL, flush = 1, reset_iterator = 1
)]
pub struct umbo_train_epoch_options {
    /// Metrics that the step adds to: they are reset before the first step. NULL: none are.
    pub metrics: *mut umbo_metrics,
    /// Called after each step. NULL: no callback.
    pub progress: umbo_progress_fn,
    /// Passed to `progress`.
    pub progress_user_data: *mut c_void,
    /// After this many seconds the epoch ends with UMBO_STATUS_DEADLINE_EXCEEDED; 0: at once. Where
    /// umbo_dataset_skip() or umbo_dataset_shard() makes elements only to leave them out, the epoch
    /// also ends between two of these, and another epoch continues there. The limit does not cut
    /// short the making of an element, or the waiting for other ranks. UMBO_INFINITE: no limit.
    pub timeout_seconds: f64,
    /// Cancelled, it ends the epoch with UMBO_STATUS_CANCELLED, at the same places as
    /// `timeout_seconds`. NULL: none.
    pub cancellation: *const umbo_cancellation,
    /// The epoch ends after this many steps, if the pass has not ended before. If these take the
    /// last element, the pass has ended, too. Where umbo_dataset_cardinality() does not know, the
    /// epoch makes the next element to find out, which the next request gets. With several ranks
    /// none looks ahead: `pass_ended` is 0 then, and the next epoch, in which no rank finds an
    /// element, has `step_count` 0 and `pass_ended` 1, and resets the iterator if `reset_iterator`
    /// says so. UMBO_ALL: no limit.
    pub max_steps: i64,
    /// 1: what `accumulation_steps` have accumulated at the end is applied. 0: it waits.
    pub flush: i32,
    /// 1: when the pass has ended, the iterator begins the next one. An iterator that is at its end
    /// before the epoch (umbo_iterator_has_ended()) does so first. 0: it stays at its end.
    pub reset_iterator: i32,
    /// Releases the step's `user_data`, exactly once, on any thread, when its last callback is
    /// back, which may be after the epoch has returned; even if the epoch cannot start. NULL: none.
    pub user_data_destroy: umbo_destroy_fn,
    /// 1: the metrics are not reset, as when an epoch resumes from a checkpoint.
    pub keep_metrics: i32,
}

/// The outcome of an epoch.
#[c_struct]
pub struct umbo_train_epoch_report {
    /// Steps that took effect.
    pub step_count: i64,
    /// The examples of their elements, if the elements know how many they have.
    pub example_count: i64,
    /// Updates that took effect, with a flush; fewer than steps with `accumulation_steps`.
    pub update_count: i64,
    /// Updates that were skipped because a gradient was not finite.
    pub skipped_count: i64,
    /// How long it took.
    pub seconds: f64,
    /// 1: the pass has ended. 0: `max_steps` came before.
    pub pass_ended: i32,
}

/// Trains, or evaluates, over a pass of an iterator: until there are no more elements it takes one,
/// runs the step on it (umbo_strategy_run()), and applies the gradients (umbo_optimizer_apply()).
///
/// @param[in] iterator Usually of a distributed dataset.
/// @param[in] optimizer May be NULL, together with `gradients`: nothing is updated.
/// @param[in] step Gets the element as `args`. Its result is dropped.
/// @param[out] report May be NULL.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: only one of optimizer and gradients, objects
///   of another strategy, or an option out of range. UMBO_STATUS_FAILED_PRECONDITION: inside a run,
///   in another strategy's scope, or while the strategy is draining; on all ranks, if the pass ends
///   earlier on one than on another. UMBO_STATUS_DEADLINE_EXCEEDED, UMBO_STATUS_CANCELLED: as the
///   options say. What the iterator, the step, the update or `progress` fails with; the message
///   says in which step, counted from 1.
///
/// The update, and what the step adds to metrics, belong to the step: all of it takes effect, or
/// nothing. If something fails, the epoch ends, and all is as after the step before. Afterwards
/// umbo_strategy_metric_result() has the totals and means over all steps that took effect, and
/// nothing else: after an epoch without steps, which is UMBO_OK, it is UMBO_STATUS_NOT_FOUND.
///
/// The element of a step that failed, was cancelled or was late is the first one of the next epoch
/// over the iterator; positions and checkpoints in between are before it. It is dropped by
/// umbo_iterator_next(), by a reset, and if another thread has used the iterator meanwhile. An
/// element that could not be made is passed over, unless there was no memory for it. A step whose
/// update was skipped, or whose `progress` failed, has taken effect; if it was the last one of the
/// pass, the next epoch is what was left of this one: no steps, and the end of the pass. With
/// several ranks, if that step was also the last of `max_steps`, this epoch has ended the pass.
///
/// Collective. What another rank fails with is the status here, too; the message names the rank.
#[c_call(
    owned_by(user_data, options),
    options(options),
    optional_result(report),
    get(strategy),
    get(iterator),
    get_optional(optimizer),
    get_optional(gradients),
    present(step)
)]
pub fn umbo_train_epoch(
    strategy: *mut umbo_strategy,
    iterator: *mut umbo_iterator,
    optimizer: *mut umbo_optimizer,
    gradients: *mut umbo_gradients,
    step: umbo_replica_fn,
    user_data: *mut c_void,
    options: *const umbo_train_epoch_options,
    report: *mut umbo_train_epoch_report,
) {
    let update = match (optimizer, gradients) {
        (Some(optimizer), Some(gradients)) => Some((optimizer, gradients)),
        (None, None) => None,
        (Some(_), None) => return Err(alone("gradients", "an optimizer")),
        (None, Some(_)) => return Err(alone("optimizer", "gradients")),
    };
    let metrics = get_optional(options.metrics, "options.metrics")?;
    let max_steps = least_unless(options.max_steps, 0, UMBO_ALL, "options.max_steps")?;
    let epoch = Epoch {
        strategy: &strategy,
        iterator: &iterator,
        update,
        metrics: metrics.as_deref(),
        limits: limits_from(options.timeout_seconds, options.cancellation)?,
        max_steps: max_steps.map(|steps| steps as u64),
        flush: flag(options.flush, "options.flush")?,
        keep_metrics: flag(options.keep_metrics, "options.keep_metrics")?,
        evaluates: false,
        reset: flag(options.reset_iterator, "options.reset_iterator")?,
    };
    let checked = |callback: &OwnedCallback, limits: &mut Limits, element: &Value| {
        let gradients = epoch.update.as_ref().map(|(_, gradients)| gradients);
        match CHECK.is_on() {
            true => equivalence::check_first(&strategy, callback, limits, element, gradients),
            false => Ok(()),
        }
    };
    let callback = OwnedCallback {
        function: Arc::new(replica_function(step, user_data.pointer())),
        user_data: Some(Arc::new(user_data)),
    };
    let done = epoch.run(&callback, &checked, &mut |done, applied| {
        let Some(progress) = options.progress else {
            return Ok(());
        };
        let applied = applied.map(report_of);
        let state = umbo_progress {
            struct_size: size_of::<umbo_progress>(),
            step_count: done.steps as i64,
            example_count: done.examples as i64,
            update_count: done.applied as i64,
            skipped_count: done.skipped as i64,
            seconds: done.seconds,
            last_apply: applied.as_ref().map_or(ptr::null(), ptr::from_ref),
            metrics: options.metrics,
        };
        // SAFETY: the caller gives a function of this type and its user data.
        callback::run(|| unsafe { progress(&raw const state, options.progress_user_data) })
    });
    let done = done?;
    report.write(umbo_train_epoch_report {
        struct_size: struct_size::<umbo_train_epoch_report>(),
        step_count: done.steps as i64,
        example_count: done.examples as i64,
        update_count: done.applied as i64,
        skipped_count: done.skipped as i64,
        seconds: done.seconds,
        pass_ended: done.pass_ended.into(),
    });
}

fn alone(argument: &'static str, other: &str) -> Error {
    invalid!(
        argument,
        "there is none, but {other}; give both, or neither to evaluate"
    )
}
