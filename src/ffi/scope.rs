//! Scopes and contexts: which strategy a thread is in, and as what.

use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;

use super::boundary::{boundary, boundary_in_need, check, out};
use super::callback;
use super::handle::{self, Lent, get, get_optional, make};
use super::object::{umbo_replica_context, umbo_scope, umbo_strategy};
use super::replica_context::handle_of;
use super::status::umbo_status;
use crate::error::{Error, Result};
use crate::executor::thread_end::AtThreadEnd;
use crate::strategy::context::{Current, current, set_strategy};
use crate::strategy::{ReplicaContext, Strategy};

/// What runs in a scope. `strategy` is the one whose scope it is.
pub type umbo_scope_fn = Option<
    unsafe extern "C-unwind" fn(
        strategy: *mut umbo_strategy,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// Calls `function` once, on this thread, in the strategy's scope: the strategy is current and the
/// context is cross-replica context. Scopes that `function` entered and did not leave are left.
/// Returns what `function` returned.
///
/// The own scope nests. FAILED_PRECONDITION in a replica's callback of this strategy, and in the
/// scope or a run of another one. The scope of the default strategy is like no scope: the context
/// stays the default one, and another strategy's scope may be entered inside of it; but variables
/// of that one cannot be made there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_scope(
    strategy: *mut umbo_strategy,
    function: umbo_scope_fn,
    user_data: *mut c_void,
) -> umbo_status {
    boundary("umbo_strategy_scope", || {
        let function = present(function, "function")?;
        let object = get(strategy, "strategy")?;
        object.scope(|| {
            // SAFETY: the caller gives a function of this type and its user data.
            callback::run(|| unsafe { function(strategy, user_data) })
        })?
    })
}

/// A callback argument, which must be there.
pub(super) fn present<F>(function: Option<F>, argument: &'static str) -> Result<F> {
    function.ok_or_else(|| Error::invalid(argument, "is NULL; a function is expected"))
}

/// Makes the strategy current for this thread, in cross-replica context, until
/// umbo_scope_exit(). Errors as for umbo_strategy_scope().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_scope_enter(
    strategy: *mut umbo_strategy,
    scope: *mut *mut umbo_scope,
) -> umbo_status {
    boundary("umbo_scope_enter", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let scope = unsafe { out(scope, "scope") }?;
        let entered = get(strategy, "strategy")?.enter_scope()?;
        match make(entered.clone()) {
            Ok(handle) => {
                scope.write(handle);
                Ok(())
            }
            Err(error) => {
                drop(entered.exit()?);
                Err(error)
            }
        }
    })
}

/// Leaves a scope, of a strategy or of a variable creator, and releases its handle.
///
/// FAILED_PRECONDITION if it is not the innermost scope that this thread has open, or was entered by
/// another thread: then it stays open and its handle valid. NOT_FOUND if the end of the callback that
/// entered it has left it already: then the handle is released.
///
/// What the scope kept is released last: the `destroy` of a variable creator finds the scope left and
/// its handle stale.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_scope_exit(scope: *mut umbo_scope) -> umbo_status {
    boundary_in_need("umbo_scope_exit", || {
        let open = get(scope, "scope")?;
        let left = open.exit();
        // Before what the scope held is dropped, which may run the caller's code: for that the handle
        // is used up.
        if left.is_ok() || !open.may_be_open() {
            handle::release(scope, "scope")?;
        }
        left.map(drop)
    })
}

/// Makes `strategy` current for this thread where no scope is open, until the next call; NULL
/// clears, and so does the default strategy. The thread keeps a reference to it. FAILED_PRECONDITION inside of scopes and runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_set_strategy(strategy: *mut umbo_strategy) -> umbo_status {
    boundary_in_need("umbo_set_strategy", || set_strategy(get_optional(strategy, "strategy")?))
}

/// Whether this thread is in the scope or a run of a strategy other than the default one: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_has_strategy(result: *mut i32) -> umbo_status {
    boundary_in_need("umbo_has_strategy", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        result.write(i32::from(!current_strategy().is_default()));
        Ok(())
    })
}

fn current_strategy() -> Strategy {
    match current() {
        Current::Default => Strategy::default_strategy(),
        Current::CrossReplica(strategy) => strategy,
        Current::Replica(context) => context.strategy().clone(),
    }
}

/// Whether this thread speaks for all replicas: in a scope, in a merge call, in an update. 1 or 0.
/// Exactly one of this and "there is a replica context" is true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_in_cross_replica_context(result: *mut i32) -> umbo_status {
    boundary_in_need("umbo_in_cross_replica_context", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        result.write(i32::from(matches!(current(), Current::CrossReplica(_))));
        Ok(())
    })
}

/// The current strategy; the default one where no other is current. A new handle, to be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_current_strategy(strategy: *mut *mut umbo_strategy) -> umbo_status {
    boundary("umbo_current_strategy", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let strategy = unsafe { out(strategy, "strategy") }?;
        strategy.write(make(current_strategy())?);
        Ok(())
    })
}

/// A handle to a thread's default context, and what lends it.
type DefaultContext = RefCell<Option<(Lent<umbo_replica_context>, usize)>>;

thread_local! {
    /// That of this thread, once it was asked for. Let go of by [`LET_GO`].
    static DEFAULT_CONTEXT: ManuallyDrop<DefaultContext> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

static LET_GO: AtThreadEnd = AtThreadEnd::new(let_go_of_default_context);

extern "C" fn let_go_of_default_context(_: *mut c_void) {
    drop(DEFAULT_CONTEXT.with(|kept| kept.take()));
}

fn default_context() -> Result<*mut umbo_replica_context> {
    DEFAULT_CONTEXT.with(|kept| {
        let mut kept = kept.borrow_mut();
        if let Some((_, handle)) = &*kept {
            return Ok(ptr::without_provenance_mut(*handle));
        }
        let mut lent = Lent::new()?;
        let handle = lent.lend(ReplicaContext::default_context())?;
        *kept = Some((lent, handle.addr()));
        LET_GO.arm();
        Ok(handle)
    })
}

/// The context of the replica whose callback this thread runs; in the default context that of
/// replica 0 of 1 of the default strategy; NULL in cross-replica context. Borrowed: it is of use
/// on this thread and until the callback returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_current_replica_context(
    context: *mut *mut umbo_replica_context,
) -> umbo_status {
    boundary("umbo_current_replica_context", || {
        check(context, "context", "a place for the output is expected")?;
        // SAFETY: the caller gives a place for the output, which was just checked.
        let context = unsafe { out(context, "context") }?;
        context.write(match current() {
            Current::Default => default_context()?,
            Current::CrossReplica(_) => ptr::null_mut(),
            Current::Replica(own) => handle_of(&own)?,
        });
        Ok(())
    })
}
