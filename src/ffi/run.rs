//! Running callbacks on all replicas, and stopping them.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::boundary::{Out, boundary, boundary_in_need, out, quietly};
use super::callback::{UserData, umbo_destroy_fn};
use super::handle::{self, Reserved, borrow, get, get_optional, make, reserve};
use super::object::{umbo_cancellation, umbo_replica_context, umbo_strategy, umbo_value};
use super::options::{self, Extensible};
use super::replica_context::call_replica;
use super::scope::present;
use super::status::umbo_status;
use crate::error::{Error, Result};
use crate::memory;
use crate::strategy::cancellation::Cancellation;
use crate::strategy::run::Limits;
use crate::strategy::{Baggage, ReplicaContext};
use crate::values::Value;

/// What runs on each replica, on a thread of its own (replica 0: on the calling thread, unless the
/// run has a deadline or a token). `ctx` and `args` are borrowed for the call; `args` is this
/// replica's part of the run's arguments (each per-replica value is replaced by this replica's
/// component), NULL if the run was given none. `*result` is NULL on entry; a value that is stored
/// there is taken over by the library. A status other than UMBO_OK fails the run; say why with
/// umbo_set_last_error().
///
/// Replicas run concurrently; they may wait for each other. A replica whose part of a batch is
/// empty runs too.
pub type umbo_replica_fn = Option<
    unsafe extern "C-unwind" fn(
        ctx: *mut umbo_replica_context,
        args: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// A timeout that never comes.
pub const UMBO_NO_TIMEOUT: f64 = -1.0;

/// How a run is done. Start from UMBO_RUN_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_run_options {
    /// sizeof(umbo_run_options).
    pub struct_size: usize,
    /// The run returns after this many seconds at the latest, with DEADLINE_EXCEEDED; 0: at once.
    /// UMBO_NO_TIMEOUT, the default: it takes as long as it takes.
    pub timeout_seconds: f64,
    /// The run returns, with CANCELLED, when this token is cancelled. NULL: no token.
    pub cancellation: *const umbo_cancellation,
    /// Releases `user_data`, exactly once, when the last callback is back, which may be after the
    /// run has returned, on another thread; also if the run could not start. May be NULL.
    pub user_data_destroy: umbo_destroy_fn,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_run_options {}

impl Default for umbo_run_options {
    fn default() -> Self {
        umbo_run_options {
            struct_size: size_of::<Self>(),
            timeout_seconds: UMBO_NO_TIMEOUT,
            cancellation: std::ptr::null(),
            user_data_destroy: None,
        }
    }
}

/// A caller's pointer that is handed to callbacks on any thread.
#[derive(Clone, Copy)]
pub(super) struct Passed(*mut c_void);

// SAFETY: the library only hands the pointer back to the caller's functions; the header says that
// those run on other threads, several at once.
unsafe impl Send for Passed {}
// SAFETY: as above.
unsafe impl Sync for Passed {}

impl Passed {
    pub(super) fn new(user_data: *mut c_void) -> Passed {
        Passed(user_data)
    }

    pub(super) fn get(self) -> *mut c_void {
        self.0
    }
}

/// Runs `function` once on each replica, concurrently, and waits until all have returned.
///
/// `args` may be NULL; to pass several arguments, or named ones, pass a tuple or a struct. Per
/// replica values in it must have a component for each replica. `options` may be NULL.
///
/// The replicas' results are merged into `*result`: structures leaf by leaf; a leaf for which all
/// replicas returned the very same tensor stays a tensor, others become per-replica values; with
/// one replica nothing is wrapped. All replicas return a value, or none does: then `*result` is
/// NULL. `result` may be NULL, which discards the results.
///
/// The run succeeds if all callbacks do, and only then do assignments and applies that were made
/// in it change central state. If callbacks fail, the status is that of the first replica in
/// replica order that failed by itself, and the last error lists all of them. When one fails,
/// replicas that wait in a merge call are woken with CANCELLED; others run to their end, and
/// umbo_replica_context_is_cancelled() tells them.
///
/// With a deadline or a token every replica has a thread of its own and this thread watches. When
/// the time is up the run returns, with all as it was before, and callbacks that have not returned
/// are late: see umbo_strategy_late_replicas(). They must not use what the caller has released. One that
/// has not begun by then is not called.
///
/// Runs of one strategy, from whichever thread, are taken in the order of asking, one at a time.
/// Inside of a merge call a run is part of the step around it: it ends with that one's deadline or
/// token, and what it assigns is committed with that step.
///
/// A callback must not wait for a thread that runs or assigns on the same strategy: that thread waits
/// for the step, and the step for the thread, for ever. The library cannot tell this from a step that
/// takes long, but a thread that has waited 10 seconds for another one's step says so in the log, with
/// the step and its thread.
///
/// FAILED_PRECONDITION in a replica's callback, in another strategy's scope, and while the
/// strategy is draining.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_run(
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    options: *const umbo_run_options,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { run("umbo_strategy_run", strategy, function, user_data, args, options, result) }
}

/// # Safety
/// As the header says of umbo_strategy_run().
pub(super) unsafe fn run(
    name: &'static str,
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    options: *const umbo_run_options,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary_in_need(name, || {
        // SAFETY: the caller gives NULL or options.
        let known = unsafe { options::known_part(options, "options") };
        let destroy = known.ok().and_then(|(known, _)| known.user_data_destroy);
        // SAFETY: the options say how the user data is released, also if they say nothing else that
        // makes sense.
        let baggage = unsafe { UserData::new(user_data, destroy) };
        // SAFETY: as above.
        let options = unsafe { options::read(options, "options") }?;
        memory::check()?;
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { optional_result(result, "result") }?;
        let strategy = get(strategy, "strategy")?;
        let function = present(function, "function")?;
        let args = get_optional(args, "args")?;
        let limits = limits_from(&options)?;
        let passed = Passed::new(user_data);
        let call = move |context: &ReplicaContext| {
            call_replica(context, |ctx, args, result| {
                // SAFETY: the caller gives a function of this type and its user data.
                unsafe { function(ctx, args, passed.get(), result) }
            })
        };
        // A run that may be given up owns what its callbacks use.
        let value = if limits.is_bounded() || strategy.is_in_bounded_step() {
            let baggage: Baggage = Box::new(baggage);
            strategy.run_within(Arc::new(call), args, limits, Some(baggage))?
        } else {
            let value = strategy.run(&call, args)?;
            drop(baggage);
            value
        };
        if let Some(result) = result {
            result.write(value);
        }
        Ok(())
    })
}

/// A place for a value that may not be wanted, and the handle that it will get: once the work is
/// done nothing can fail any more.
pub(super) struct ValueOut {
    place: Out<*mut umbo_value>,
    handle: Reserved<umbo_value>,
}

impl ValueOut {
    /// Writes a handle to the value; NULL for none.
    pub(super) fn write(self, value: Option<Value>) {
        self.place.write(value.map_or(ptr::null_mut(), |value| self.handle.make(value)));
    }
}

/// Checks and prepares the place for a value; none for NULL.
///
/// # Safety
/// `pointer` is NULL or may be written until the output is used up.
pub(super) unsafe fn optional_result(
    pointer: *mut *mut umbo_value,
    argument: &'static str,
) -> Result<Option<ValueOut>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise is the same.
    let place = unsafe { out(pointer, argument) }?;
    Ok(Some(ValueOut { place, handle: reserve()? }))
}

fn limits_from(options: &umbo_run_options) -> Result<Limits> {
    let seconds = options.timeout_seconds;
    let unlimited = seconds == UMBO_NO_TIMEOUT;
    if !(unlimited || seconds.is_finite() && seconds >= 0.0) {
        let problem = format!("{seconds}; give seconds, 0 or more, or UMBO_NO_TIMEOUT (-1)");
        return Err(Error::invalid("options.timeout_seconds", problem));
    }
    // A deadline past what the clock can tell never comes.
    let deadline = match !unlimited {
        true => Duration::try_from_secs_f64(seconds)
            .ok()
            .and_then(|duration| Instant::now().checked_add(duration)),
        false => None,
    };
    let cancellation = get_optional(options.cancellation, "options.cancellation")?;
    Ok(Limits { deadline, cancellation })
}

/// Makes a token with which any thread can stop runs, each of them or several.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cancellation_create(
    cancellation: *mut *mut umbo_cancellation,
) -> umbo_status {
    boundary("umbo_cancellation_create", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let cancellation = unsafe { out(cancellation, "cancellation") }?;
        cancellation.write(make(Cancellation::new())?);
        Ok(())
    })
}

/// Stops the runs that have this token, now and later: they return CANCELLED. Does not wait, and
/// cannot be undone. Any thread may call it, a callback too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cancellation_cancel(
    cancellation: *mut umbo_cancellation,
) -> umbo_status {
    boundary_in_need("umbo_cancellation_cancel", || {
        get(cancellation, "cancellation")?.cancel();
        Ok(())
    })
}

/// Whether umbo_cancellation_cancel() was called: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cancellation_is_cancelled(
    cancellation: *const umbo_cancellation,
    result: *mut i32,
) -> umbo_status {
    boundary_in_need("umbo_cancellation_is_cancelled", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        let cancelled = borrow(cancellation, "cancellation", Cancellation::is_cancelled)?;
        result.write(i32::from(cancelled));
        Ok(())
    })
}

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cancellation_retain(
    cancellation: *const umbo_cancellation,
    retained: *mut *mut umbo_cancellation,
) -> umbo_status {
    boundary("umbo_cancellation_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(cancellation, "cancellation", retained) }
    })
}

/// Releases a reference. Runs that have the token keep it until they end. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cancellation_release(cancellation: *const umbo_cancellation) {
    quietly("umbo_cancellation_release", || handle::release(cancellation, "cancellation"));
}
