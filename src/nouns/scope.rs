//! Scopes: the strategy that a thread is in.

use crate::machinery::prelude::*;
use umbo_core::strategy::context::{Current, Scope, current};

/// Runs in the scope of a strategy, which is lent.
pub type umbo_scope_fn = Option<
    unsafe extern "C-unwind" fn(
        strategy: *mut umbo_strategy,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// Calls a function in the scope of a strategy.
///
/// @return What `function` returned, or UMBO_STATUS_FAILED_PRECONDITION: this thread is in a
///   replica's callback, or in the scope or a run of another strategy.
///
/// In the scope the strategy is current and the thread is in cross-replica context. Scopes that
/// `function` enters and does not leave are left for it. A strategy's scope may be entered again
/// inside itself. The default strategy's scope changes nothing, but no variable of another strategy
/// can be made inside it.
#[c_call(present(function))]
pub fn umbo_strategy_scope(
    strategy: *mut umbo_strategy,
    function: umbo_scope_fn,
    user_data: *mut c_void,
) {
    let object = get(strategy, "strategy")?;
    object.scope(|| {
        // SAFETY: the caller gives a function of this type and its user data.
        callback::run(|| unsafe { function(strategy, user_data) })
    })?
}

/// A handle to a scope that this thread has just entered. Without one the thread is outside again.
pub(crate) fn handle_to(entered: Scope) -> Result<*mut umbo_scope> {
    make(entered.clone()).or_else(|error| {
        drop(entered.exit()?);
        Err(error)
    })
}

/// Enters the scope of a strategy on this thread, as umbo_strategy_scope() does.
///
/// @param[out] scope Leave it with umbo_scope_exit(), which also releases it.
/// @return UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_scope().
///
/// A scope that a callback enters and does not leave is left when the callback returns.
#[c_call(out(scope), get(strategy))]
pub fn umbo_scope_enter(strategy: *mut umbo_strategy, scope: *mut *mut umbo_scope) {
    scope.write(handle_to(strategy.enter_scope()?)?);
}

/// Leaves a scope, of a strategy or of a variable creator, and releases its handle.
///
/// @return
/// - UMBO_STATUS_FAILED_PRECONDITION: another thread entered the scope, or it is not the innermost
///   one of this thread. It stays open and the handle valid.
/// - UMBO_STATUS_NOT_FOUND: it was left when the callback that entered it returned, or when the
///   thread ended. The handle is released, on whatever thread.
#[c_call]
pub fn umbo_scope_exit(scope: *mut umbo_scope) {
    let open = get(scope, "scope")?;
    let left = open.exit();
    // Before what the scope held is dropped, which may run the caller's code: for that the handle
    // is used up.
    if left.is_ok() || !open.is_open() {
        handle::release(scope, "scope")?;
        drop(open.left_behind());
    }
    left.map(drop)
}

fn current_strategy() -> Strategy {
    match current() {
        Current::Default => Strategy::default_strategy(),
        Current::CrossReplica(strategy) => strategy,
        Current::Replica(context) => context.strategy().clone(),
    }
}

/// Gets a new handle to the strategy that is current on this thread: that of its scope or run, else
/// the default strategy.
#[c_call(out(strategy))]
pub fn umbo_strategy_current(strategy: *mut *mut umbo_strategy) {
    strategy.write(make(current_strategy())?);
}
