//! Running callbacks on all replicas, and stopping them.

use std::time::Instant;

use super::first_batch::check_run;
use super::handle::Reserved;
use super::prelude::*;
use crate::strategy::cancellation::Cancellation;
use crate::strategy::run::Limits;
use crate::strategy::{Baggage, ReplicaContext, Strategy};

/// What a run calls on each replica.
///
/// @param[in] ctx The replica's context, lent for the call.
/// @param[in] args This replica's part of the run's arguments, lent for the call: each per-replica
///   value is replaced by this replica's component. NULL if the run has no arguments.
/// @param[in] user_data What the run was given. All replicas get the same pointer.
/// @param[out] result The place for this replica's result; NULL on entry. The library takes over a
///   value that is stored there.
/// @return UMBO_OK, or why the callback fails. Any other status than UMBO_OK fails the run;
///   umbo_set_last_error() says why.
///
/// Each replica runs on its own thread; replica 0 runs on the thread that called, unless the run
/// has a deadline or a token. The replicas run at the same time and may wait for each other. A
/// replica whose part of a batch is empty runs too.
pub type umbo_replica_fn = Option<
    unsafe extern "C-unwind" fn(
        ctx: *mut umbo_replica_context,
        args: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// A [`umbo_replica_fn`] that is there.
pub(super) type ReplicaFn = unsafe extern "C-unwind" fn(
    *mut umbo_replica_context,
    *const umbo_value,
    *mut c_void,
    *mut *mut umbo_value,
) -> umbo_status;

/// The limits of a run. Start from UMBO_RUN_OPTIONS_INIT.
#[c_struct(timeout_seconds = UMBO_INFINITE as f64)]
#[repr(C)]
pub struct umbo_run_options {
    /// sizeof(umbo_run_options).
    pub struct_size: usize,
    /// The time limit in seconds, 0 or more. When it is over, the run returns
    /// UMBO_STATUS_DEADLINE_EXCEEDED; with 0 it does so at once. UMBO_INFINITE, the default: no
    /// limit.
    pub timeout_seconds: f64,
    /// A token. When it is cancelled, the run returns UMBO_STATUS_CANCELLED. NULL: no token.
    pub cancellation: *const umbo_cancellation,
    /// Releases `user_data`, exactly once, when the last callback has returned, or if the run
    /// cannot start. It may be called after the run has returned, and on another thread. NULL:
    /// nothing is released.
    pub user_data_destroy: umbo_destroy_fn,
}

/// Calls a function on all replicas at the same time and waits for them.
///
/// @param[in] function What to call, once on each replica.
/// @param[in] user_data Passed to `function` unchanged; may be anything.
/// @param[in] args The arguments; `args` may be NULL. To pass several, pass a tuple, a list or a struct.
///   Each per-replica value in it has one component for each replica.
/// @param[in] options The limits of the run; `options` may be NULL: none.
/// @param[out] result The merged results, which the caller releases; `result` may be NULL, which
///   discards them. If no replica returned a value, `*result` gets NULL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range, a per-replica value with the wrong number
///   of components, or a result from some replicas only; or limits for a run inside a merge call.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback or from another
///   strategy's scope; the strategy is draining; or the replicas made different synchronising calls.
/// - UMBO_STATUS_DEADLINE_EXCEEDED: the time limit is over.
/// - UMBO_STATUS_CANCELLED: the token is cancelled.
/// - the status of a callback that failed. If several did, it is that of the first in replica order
///   that failed by itself; the last error lists all of them.
///
/// Results are merged leaf by leaf. A leaf for which all replicas returned the very same tensor is
/// that tensor; any other leaf becomes a per-replica value. With one replica nothing is wrapped.
/// Either all replicas return a value or none does.
///
/// The run succeeds if all callbacks do. Only then do the assignments and applies that were made in
/// it change the variables. When a callback fails, replicas that wait in a merge call get
/// UMBO_STATUS_CANCELLED. The others run to their end; they can ask
/// umbo_replica_context_is_cancelled().
///
/// With a time limit or a token each replica has a thread of its own, and the calling thread
/// watches. When the run is stopped it returns, and all variables are as before it. Callbacks that
/// have not returned are late (see `late_replicas` of umbo_strategy_info) and must not use what the caller
/// has released. A callback that has not started by then is not called.
///
/// Runs of one strategy happen one at a time, in the order of asking, from whatever thread. A run
/// inside a merge call is part of the step around it: it ends with the limits of that step, and
/// what it assigns is committed with that step.
///
/// A callback must not wait for a thread that runs or assigns on the same strategy: that thread
/// waits for the step, so both would wait for ever. The library cannot tell this from a long step.
/// A thread that has waited 10 seconds for another thread's step reports in the log which step and
/// thread it waits for.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls or have read other data where all
/// are to read the same (UMBO_SHARDING_DATA), UMBO_STATUS_DEADLINE_EXCEEDED for a rank that was waited for in vain, and
/// UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more. What another rank has failed with is the status here, too, and the
/// message names that rank.
#[c_call]
pub fn umbo_strategy_run(
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    options: *const umbo_run_options,
    result: *mut *mut umbo_value,
) {
    // SAFETY: the caller gives NULL or options.
    let known = unsafe { options::known_part(options, "options") };
    let destroy = known.ok().and_then(|(known, _)| known.user_data_destroy);
    // SAFETY: the options say how the user data is released, also if they say nothing else that
    // makes sense.
    let baggage = unsafe { UserData::new(user_data, destroy) };
    // SAFETY: the caller keeps the header's promise on pointers.
    let (options, result) =
        unsafe { (options::read(options, "options")?, optional_value(result, "result")?) };
    let strategy = get(strategy, "strategy")?;
    let function = present(function, "function")?;
    let args = get_optional(args, "args")?;
    let limits = limits_from(options.timeout_seconds, options.cancellation)?;
    result.write(run(&strategy, function, baggage, args, limits)?);
}

/// Runs a function of the program's on all replicas. The user data is dropped when the last one is back.
pub(super) fn run(
    strategy: &Strategy,
    function: ReplicaFn,
    user_data: UserData,
    args: Option<Value>,
    limits: Limits,
) -> Result<Option<Value>> {
    let call = replica_function(function, user_data.pointer());
    check_run(strategy, &call, args.as_ref())?;
    // A run that may be given up owns what its callbacks use.
    if limits.is_bounded() || strategy.is_in_bounded_step() {
        let baggage: Baggage = Box::new(user_data);
        strategy.run_within(Arc::new(call), args, limits, Some(baggage))
    } else {
        strategy.run(&call, args)
    }
}

/// A function of the program's, with its user data, as the core calls it.
pub(super) fn replica_function(
    function: ReplicaFn,
    user_data: *mut c_void,
) -> impl Fn(&ReplicaContext) -> Result<Option<Value>> + Send + Sync + 'static {
    let user_data = UserData::kept(user_data);
    move |context: &ReplicaContext| {
        call_replica(context, |ctx, args, result| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { function(ctx, args, user_data.pointer(), result) }
        })
    }
}

/// The place for a result, if the caller wants it, and for its handle, so that a call that has changed
/// something cannot fail any more.
pub(crate) struct ValueOut(Option<(Out<*mut umbo_value>, Reserved<umbo_value>)>);

impl ValueOut {
    /// Writes the result, or NULL if there is none.
    pub(crate) fn write(self, value: Option<Value>) {
        if let Some((place, handle)) = self.0 {
            place.write(value.map_or(ptr::null_mut(), |value| handle.make(value)));
        }
    }
}

/// Checks the place for a result; NULL discards it.
///
/// # Safety
/// `pointer` is NULL or may be written until the result is used up.
pub(crate) unsafe fn optional_value(
    pointer: *mut *mut umbo_value,
    argument: &'static str,
) -> Result<ValueOut> {
    if pointer.is_null() {
        return Ok(ValueOut(None));
    }
    // SAFETY: the caller's promise is the same.
    Ok(ValueOut(Some((unsafe { out(pointer, argument) }?, reserve()?))))
}

/// What two options, as of [`umbo_run_options`], allow.
pub(super) fn limits_from(seconds: f64, cancellation: *const umbo_cancellation) -> Result<Limits> {
    let within = duration(seconds, "options.timeout_seconds", true)?;
    // A deadline past what the clock counts never comes.
    let deadline = within.and_then(|duration| Instant::now().checked_add(duration));
    let cancellation = get_optional(cancellation, "options.cancellation")?;
    Ok(Limits { deadline, cancellation })
}

/// Makes a token with which any thread can stop runs.
///
/// A token can serve one run or several; see umbo_run_options.
#[c_call(out(cancellation))]
pub fn umbo_cancellation_create(cancellation: *mut *mut umbo_cancellation) {
    cancellation.write(make(Cancellation::new())?);
}

/// Stops all runs that have a token.
///
/// @param[in] cancellation The token.
///
/// Runs that have the token, and later ones that get it, return UMBO_STATUS_CANCELLED. The call
/// does not wait for them. It cannot be undone. Callbacks may call it too.
#[c_call(get(cancellation))]
pub fn umbo_cancellation_cancel(cancellation: *mut umbo_cancellation) {
    cancellation.cancel();
}

/// Tells whether a token was cancelled.
///
/// @param[in] cancellation The token.
/// @param[out] result 1 if umbo_cancellation_cancel() was called, else 0.
#[c_call(out(result), borrow(cancellation))]
pub fn umbo_cancellation_is_cancelled(cancellation: *const umbo_cancellation, result: *mut i32) {
    result.write(cancellation.is_cancelled().into());
}
