//! Running callbacks on all replicas, and stopping them.

use std::time::Instant;

use crate::machinery::first_batch::check_run;
use crate::machinery::handle::ReservedHandle;
use crate::machinery::prelude::*;
use umbo_core::equivalence::OwnedCallback;
use umbo_core::observe::switch::CHECK;
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::{ReplicaContext, Strategy};

/// A training step: called on each replica.
///
/// @param[in] ctx The replica's context, lent for the call.
/// @param[in] args The run's arguments, lent for the call, with this replica's component in place
///   of each per-replica value. NULL if there are none.
/// @param[in] user_data The same on all replicas.
/// @param[out] result NULL on entry. The library takes over a value that is stored there.
/// @return Any status but UMBO_OK fails the run.
///
/// The replicas run at the same time and may wait for each other. Until its call returns, each has
/// a thread to itself; replica 0 runs on the thread that called, unless the run has a deadline or a
/// token. A replica without examples runs, too.
pub type umbo_replica_fn = Option<
    unsafe extern "C-unwind" fn(
        ctx: *mut umbo_replica_context,
        args: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// A [`umbo_replica_fn`] that is there.
pub(crate) type ReplicaFn = unsafe extern "C-unwind" fn(
    *mut umbo_replica_context,
    *const umbo_value,
    *mut c_void,
    *mut *mut umbo_value,
) -> umbo_status;

/// The limits of a run.
#[c_struct(timeout_seconds = UMBO_INFINITE as f64)]
pub struct umbo_run_options {
    /// The time limit, 0 or more. After it the run returns UMBO_STATUS_DEADLINE_EXCEEDED. With
    /// several ranks it limits the callbacks of this rank and not the wait for the others, which
    /// the communicator's own time limit ends.
    pub timeout_seconds: f64,
    /// A token: once it is cancelled, the run returns UMBO_STATUS_CANCELLED. May be NULL.
    pub cancellation: *const umbo_cancellation,
    /// Releases `user_data` once, on any thread, when the last callback has returned (which can be
    /// after the run), or if the run cannot start. May be NULL.
    pub user_data_destroy: umbo_destroy_fn,
}

/// Calls a function on all replicas at the same time and waits for them.
///
/// @param[in] args A value: a tuple or a struct for several arguments. Each per-replica value in it
///   has a component for each replica. May be NULL.
/// @param[in] options May be NULL: no limits.
/// @param[out] result The merged results; NULL if no replica returned a value. `result` may be
///   NULL, which discards them.
/// @return The status of the first replica whose callback failed by itself (the last error lists
///   all), or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an option out of range, a per-replica value with another number
///   of components, a result from some replicas only, or limits inside a merge call.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback or from another
///   strategy's scope, the strategy is draining, the replicas made different synchronising calls,
///   or ranks have read different data (UMBO_SHARDING_DATA).
/// - UMBO_STATUS_DEADLINE_EXCEEDED: the time limit is over, or a rank was waited for too long.
/// - UMBO_STATUS_CANCELLED: the token is cancelled.
///
/// Results are merged leaf by leaf: a tensor that all replicas returned is that tensor; other
/// leaves become per-replica values. With one replica nothing is wrapped.
///
/// If all callbacks succeed, assignments and applies of the step take effect; else none does. If
/// one fails, replicas in a synchronising call get UMBO_STATUS_CANCELLED there, and others run to
/// their end, or until they see umbo_replica_context_is_cancelled().
///
/// With limits each replica has a thread of its own, and the calling thread watches. A run that is
/// stopped returns, and changes no variable. Callbacks that have not returned are late
/// (`late_replica_count` of umbo_strategy_info) and must not use what the caller has released.
///
/// Runs of one strategy happen one at a time, in the order of the calls. A run inside a merge call
/// is a part of the step around it. A callback must not wait for a thread that runs or assigns on
/// the same strategy: they would deadlock. A thread that has waited for 10 seconds logs what it
/// waits for. Collective.
#[c_call(
    owned_by(user_data, options),
    options(options),
    optional_value(result),
    get(strategy),
    present(function),
    get_optional(args)
)]
pub fn umbo_strategy_run(
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    args: *const umbo_value,
    user_data: *mut c_void,
    options: *const umbo_run_options,
    result: *mut *mut umbo_value,
) {
    let limits = limits_from(options.timeout_seconds, options.cancellation)?;
    result.write(run(&strategy, function, user_data, args, limits)?);
}

/// Runs a function of the program's on all replicas. The user data is dropped when the last one is
/// back.
pub(crate) fn run(
    strategy: &Strategy,
    function: ReplicaFn,
    user_data: UserData,
    args: Option<Value>,
    mut limits: Limits,
) -> Result<Option<Value>> {
    let call = replica_function(function, user_data.pointer());
    let is_checked = CHECK.is_on();
    if !(is_checked || limits.is_bounded() || strategy.is_in_bounded_step()) {
        return strategy.run(&call, args);
    }
    // A run that may be given up owns what its callbacks use.
    let callback = OwnedCallback {
        function: Arc::new(call),
        user_data: Some(Arc::new(user_data)),
    };
    if is_checked {
        check_run(
            strategy,
            &callback,
            &mut limits,
            function as usize,
            args.as_ref(),
        )?;
    }
    let user_data = callback.run_user_data();
    strategy.run_within(callback.function, args, limits, user_data)
}

/// A function of the program's, with its user data, as the core calls it.
pub(crate) fn replica_function(
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

/// The place for a result, if the caller wants it, and for its handle, so that a call that has
/// changed something cannot fail any more.
pub(crate) struct ValueOut(Option<(Out<*mut umbo_value>, ReservedHandle<umbo_value>)>);

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
    Ok(ValueOut(Some((
        unsafe { out(pointer, argument) }?,
        reserve()?,
    ))))
}

/// The limits that two options, as of [`umbo_run_options`], set.
pub(crate) fn limits_from(seconds: f64, cancellation: *const umbo_cancellation) -> Result<Limits> {
    let within = duration(seconds, "options.timeout_seconds", true)?;
    // A deadline past what the clock counts never comes.
    let deadline = within.and_then(|duration| Instant::now().checked_add(duration));
    let cancellation = get_optional(cancellation, "options.cancellation")?;
    Ok(Limits {
        deadline,
        cancellation,
    })
}

/// Creates a token with which any thread can stop runs (see umbo_run_options).
#[c_call(out(cancellation))]
pub fn umbo_cancellation_create(cancellation: *mut *mut umbo_cancellation) {
    cancellation.write(make(Cancellation::new())?);
}

/// Stops all runs that have a token, and later ones, with UMBO_STATUS_CANCELLED. It does not wait
/// for them, and callbacks may call it.
#[c_call(get(cancellation))]
pub fn umbo_cancellation_cancel(cancellation: *mut umbo_cancellation) {
    cancellation.cancel();
}

/// Gets whether a token was cancelled: 1 or 0.
#[c_call(out(result), borrow(cancellation))]
pub fn umbo_cancellation_is_cancelled(cancellation: *const umbo_cancellation, result: *mut i32) {
    result.write(cancellation.is_cancelled().into());
}
