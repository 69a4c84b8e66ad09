//! Training loops.

use std::any::Any;

use super::prelude::*;
use crate::equivalence::{self, Written};
use crate::observe::switch::CHECK;
use crate::strategy::FunctionFor;
use crate::training::Epoch;

/// How far an epoch is. More fields may follow in later versions.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_progress {
    /// sizeof(umbo_progress) of the library.
    pub struct_size: usize,
    /// Steps that were done.
    pub steps: i64,
    /// The examples of their elements, as far as these tell how many they have.
    pub examples: i64,
    /// Updates that took effect.
    pub applied: i64,
    /// Updates that were skipped because a gradient was not finite.
    pub skipped: i64,
    /// Seconds since the beginning.
    pub seconds: f64,
    /// What the last step's update did; NULL without an optimizer.
    pub last_apply: *const umbo_apply_report,
    /// The metrics of the options, with what all steps so far have added.
    pub metrics: *mut umbo_metrics,
}

/// Is told after each step how far the epoch is.
///
/// @param[in] progress How far it is; valid for the call.
/// @param[in] user_data `progress_user_data` of the options.
/// @return UMBO_OK, or why the epoch is to end. Any other status than UMBO_OK ends it, and umbo_train_epoch()
///   returns that status. The step counts, and the next epoch begins with the element behind it. With
///   several ranks the functions of all of them decide alike.
///
/// It is called on the thread that called umbo_train_epoch(), outside of the step: it may read variables and
/// metrics, set a learning rate, run and evaluate.
pub type umbo_progress_fn = Option<
    unsafe extern "C-unwind" fn(
        progress: *const umbo_progress,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// How an epoch is done. Start from UMBO_TRAIN_EPOCH_OPTIONS_INIT.
#[c_struct(
    timeout_seconds = UMBO_INFINITE as f64, most_steps = UMBO_ALL, flush = 1, reset_iterator = 1
)]
#[repr(C)]
pub struct umbo_train_epoch_options {
    /// sizeof(umbo_train_epoch_options).
    pub struct_size: usize,
    /// Metrics that the step adds to: they are reset before the first step, so that they are the
    /// epoch's, unless `keep_metrics` says otherwise. NULL: none are reset.
    pub metrics: *mut umbo_metrics,
    /// Is told after each step how far the epoch is. NULL: nobody is.
    pub progress: umbo_progress_fn,
    /// Passed to `progress`.
    pub progress_user_data: *mut c_void,
    /// The epoch ends after this many seconds at the latest, with UMBO_STATUS_DEADLINE_EXCEEDED; 0: at once.
    /// UMBO_INFINITE, the default: it takes as long as it takes. Waiting for an element is not cut
    /// short.
    pub timeout_seconds: f64,
    /// The epoch ends, with UMBO_STATUS_CANCELLED, when this token is cancelled. NULL: no token.
    pub cancellation: *const umbo_cancellation,
    /// The epoch ends after this many steps, if the pass has not ended before. By default
    /// UMBO_ALL.
    pub most_steps: i64,
    /// 1, the default: what gradients with `accumulation_steps` have accumulated when the epoch ends
    /// is applied. 0: it waits for the next one.
    pub flush: i32,
    /// 1, the default: when the pass has ended the iterator begins the next one. 0: it stays at its
    /// end. After `most_steps` steps it stays where it is in any case.
    pub reset_iterator: i32,
    /// Releases the step's `user_data`, exactly once, when its last callback is back, which may be after
    /// the epoch has returned, on another thread; also if the epoch could not start. May be NULL.
    pub user_data_destroy: umbo_destroy_fn,
    /// 0, the default: the metrics of the options are reset before the first step. 1: they go on, as for
    /// the rest of an epoch whose first part a checkpoint has brought back.
    pub keep_metrics: i32,
}

/// What an epoch did. Start from UMBO_TRAIN_EPOCH_REPORT_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_train_epoch_report {
    /// sizeof(umbo_train_epoch_report).
    pub struct_size: usize,
    /// How many steps.
    pub steps: i64,
    /// The examples of their elements, as far as these tell how many they have.
    pub examples: i64,
    /// Updates that took effect, a flush included. With `accumulation_steps` there are fewer than steps.
    pub applied: i64,
    /// Updates that were skipped because a gradient was not finite.
    pub skipped: i64,
    /// How long it took.
    pub seconds: f64,
    /// 1: the pass has ended. 0: `most_steps` came before.
    pub pass_ended: i32,
}

/// Trains, or evaluates, over a pass of an iterator: takes the next element, runs the step on it as
/// umbo_strategy_run(), and applies the gradients that the replicas submitted as umbo_optimizer_apply(),
/// until there are no more elements.
///
/// The update belongs to its step: both take effect, with what the step added to metrics, or none does.
/// If something fails the epoch ends, and variables, optimizer, metrics and the iterator's place are as
/// after the step before. The message says which step it was, counted from 1, and what in it failed; if
/// replicas failed, a line for each of them follows. Called once more, it goes on with the pass.
///
/// So the element of a step that failed, was cancelled or came too late comes again: it is the first one of
/// the next epoch over the iterator, as the step has left it if that wrote to it. A position or a checkpoint
/// that is saved in between is before it. umbo_iterator_next() passes over it; umbo_iterator_reset() and
/// umbo_iterator_restore_position() drop it. An element that could not be made is passed over, on all ranks;
/// one that there was no memory for comes again. A step whose update was skipped because a gradient was not
/// finite, and one whose `progress` function failed, have taken effect: their elements do not come again.
/// Nor does an element if another thread has asked something of the iterator since the step took it.
///
/// @param[in] strategy The strategy whose replicas run the step.
/// @param[in] iterator Where elements come from, usually of a distributed dataset.
/// @param[in] optimizer Updates the variables; `optimizer` may be NULL, together with the
///   gradients: then nothing is updated.
/// @param[in] gradients What the step submits; `gradients` may be NULL, together with the
///   optimizer.
/// @param[in] step The step; it gets the element as `args`. What it returns as a result is
///   dropped.
/// @param[in] user_data Passed to the step.
/// @param[in] options Limits, metrics, progress; `options` may be NULL: all defaults.
/// @param[out] report Gets what was done; `report` may be NULL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range, only one of optimizer and gradients, or an
///   iterator, an optimizer, gradients or metrics of another strategy.
/// - UMBO_STATUS_FAILED_PRECONDITION: inside of a run, in another strategy's scope, while the
///   strategy is draining.
/// - UMBO_STATUS_DEADLINE_EXCEEDED and UMBO_STATUS_CANCELLED: as the options say.
/// - What the iterator, the step, the update or the progress function fails with.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more. What another rank has failed with is the status here, too, and the
/// message names that rank.
#[c_call]
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
    // SAFETY: the caller gives NULL or options.
    let known = unsafe { options::known_part(options, "options") };
    let destroy = known.ok().and_then(|(known, _)| known.user_data_destroy);
    // SAFETY: as for umbo_strategy_run().
    let baggage = unsafe { UserData::new(user_data, destroy) };
    // SAFETY: the caller keeps the header's promise on pointers.
    let (options, report) =
        unsafe { (options::read(options, "options")?, optional_result(report, "report")?) };
    let (strategy, iterator) = (get(strategy, "strategy")?, get(iterator, "iterator")?);
    let optimizer = get_optional(optimizer, "optimizer")?;
    let update = match (optimizer, get_optional(gradients, "gradients")?) {
        (Some(optimizer), Some(gradients)) => Some((optimizer, gradients)),
        (None, None) => None,
        (Some(_), None) => return Err(alone("gradients", "an optimizer")),
        (None, Some(_)) => return Err(alone("optimizer", "gradients")),
    };
    let step = present(step, "step")?;
    let metrics = get_optional(options.metrics, "options.metrics")?;
    let epoch = Epoch {
        strategy: &strategy,
        iterator: &iterator,
        update,
        metrics: metrics.as_deref(),
        limits: limits_from(options.timeout_seconds, options.cancellation)?,
        most_steps: most_steps(options.most_steps)?,
        flush: flag(options.flush, "options.flush")?,
        keep_metrics: flag(options.keep_metrics, "options.keep_metrics")?,
        reset: flag(options.reset_iterator, "options.reset_iterator")?,
    };
    let checked = |function: &FunctionFor<'_>, element: &Value| {
        let written =
            epoch.update.as_ref().map_or(Written::None, |(_, gradients)| Written::By(gradients));
        match CHECK.is_on() {
            true => equivalence::check_first(&strategy, function, element, written),
            false => Ok(()),
        }
    };
    let function = replica_function(step, user_data);
    let baggage: Arc<dyn Any + Send + Sync> = Arc::new(baggage);
    let done =
        epoch.run_from(Arc::new(function), Some(baggage), &checked, &mut |done, applied| {
            let Some(progress) = options.progress else { return Ok(()) };
            let applied = applied.map(report_of);
            let told = umbo_progress {
                struct_size: size_of::<umbo_progress>(),
                steps: done.steps as i64,
                examples: done.examples as i64,
                applied: done.applied as i64,
                skipped: done.skipped as i64,
                seconds: done.seconds,
                last_apply: applied.as_ref().map_or(ptr::null(), ptr::from_ref),
                metrics: options.metrics,
            };
            // SAFETY: the caller gives a function of this type and its user data.
            callback::run(|| unsafe { progress(&raw const told, options.progress_user_data) })
        })?;
    report.write(umbo_train_epoch_report {
        struct_size: size_of::<umbo_train_epoch_report>(),
        steps: done.steps as i64,
        examples: done.examples as i64,
        applied: done.applied as i64,
        skipped: done.skipped as i64,
        seconds: done.seconds,
        pass_ended: done.pass_ended.into(),
    });
}

fn alone(argument: &'static str, other: &str) -> Error {
    Error::invalid(
        argument,
        format!("there is none, but {other}; give both, or neither to evaluate"),
    )
}

fn most_steps(steps: i64) -> Result<Option<u64>> {
    match steps {
        UMBO_ALL => Ok(None),
        0.. => Ok(Some(steps as u64)),
        _ => {
            let problem = format!("{steps}; must be 0 or more, or UMBO_ALL (-1)");
            Err(Error::invalid("options.most_steps", problem))
        }
    }
}
