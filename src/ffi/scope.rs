//! Scopes and contexts: which strategy a thread is in, and as what.

use std::cell::RefCell;

use super::prelude::*;
use crate::executor::thread;
use crate::strategy::context::{Current, Scope, current, set_strategy};

/// What runs in a scope.
///
/// @param[in] strategy The strategy whose scope it is.
/// @param[in] user_data What the caller passed.
/// @return UMBO_OK, or why it failed. umbo_strategy_scope() returns the same.
pub type umbo_scope_fn = Option<
    unsafe extern "C-unwind" fn(
        strategy: *mut umbo_strategy,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// Calls a function in the scope of a strategy.
///
/// @param[in] function What to call: once, on this thread.
/// @param[in] user_data Passed to `function` unchanged; may be anything.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: this thread is in a callback of a replica, or in the scope or
///   a run of another strategy.
/// - what `function` returned.
///
/// In the scope the strategy is current and the thread is in cross-replica context. Scopes that
/// `function` enters and does not leave are left for it.
///
/// A strategy's scope may be entered again inside itself. The scope of the default strategy changes
/// nothing: the thread stays in the default context, and another strategy's scope may be entered
/// inside it. But no variable of another strategy can be made inside it.
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

/// A callback argument, which must be there.
/// A handle to a scope that this thread has just entered. Without one the thread is outside again.
pub(super) fn handle_to(entered: Scope) -> Result<*mut umbo_scope> {
    make(entered.clone()).or_else(|error| {
        drop(entered.exit()?);
        Err(error)
    })
}

/// Enters the scope of a strategy on this thread.
///
/// @param[out] scope The scope. Leave it with umbo_scope_exit(), which also releases it.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_scope().
///
/// Until the scope is left, the strategy is current and the thread is in cross-replica context. A
/// scope that a callback enters and does not leave is left when the callback returns.
#[c_call(out(scope), get(strategy))]
pub fn umbo_scope_enter(strategy: *mut umbo_strategy, scope: *mut *mut umbo_scope) {
    scope.write(handle_to(strategy.enter_scope()?)?);
}

/// Leaves a scope and releases its handle.
///
/// @param[in] scope The scope, of a strategy or of a variable creator.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: another thread entered the scope, or it is not the innermost
///   open scope of this thread. The scope stays open and the handle valid.
/// - UMBO_STATUS_NOT_FOUND: the scope was left when the callback that entered it returned. The
///   handle is released.
///
/// The user data of a variable creator is destroyed last: at that time the scope is left and its
/// handle is stale.
#[c_call]
pub fn umbo_scope_exit(scope: *mut umbo_scope) {
    let open = get(scope, "scope")?;
    let left = open.exit();
    // Before what the scope held is dropped, which may run the caller's code: for that the handle
    // is used up.
    if left.is_ok() || !open.may_be_open() {
        handle::release(scope, "scope")?;
    }
    left.map(drop)
}

/// Makes a strategy current for this thread wherever no scope is open.
///
/// @param[in] strategy The strategy, of which the thread keeps a reference; `strategy` may be NULL:
///   then the default strategy is current again.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: this thread is inside a scope or a run.
///
/// Until the next call, the strategy is current and the thread is in cross-replica context wherever
/// no scope is open.
#[c_call(get_optional(strategy))]
pub fn umbo_set_strategy(strategy: *mut umbo_strategy) {
    set_strategy(strategy)
}

/// Tells whether a strategy other than the default one is current.
///
/// @param[out] result 1 if this thread is in the scope or a run of one, or has set one with
///   umbo_set_strategy(); else 0.
#[c_call(out(result))]
pub fn umbo_has_strategy(result: *mut i32) {
    result.write(i32::from(!current_strategy().is_default()));
}

fn current_strategy() -> Strategy {
    match current() {
        Current::Default => Strategy::default_strategy(),
        Current::CrossReplica(strategy) => strategy,
        Current::Replica(context) => context.strategy().clone(),
    }
}

/// Tells whether this thread is in cross-replica context.
///
/// @param[out] result 1 in a scope, in a merge call, in an update, and where umbo_set_strategy()
///   has set a strategy; else 0. In this context the thread acts for all replicas.
///
/// Where this is 0, umbo_current_replica_context() gives a context.
#[c_call(out(result))]
pub fn umbo_in_cross_replica_context(result: *mut i32) {
    result.write(i32::from(matches!(current(), Current::CrossReplica(_))));
}

/// Gives the strategy that is current on this thread.
///
/// @param[out] strategy A new handle to it, which the caller releases. The default strategy where
///   no other one is current.
#[c_call(out(strategy))]
pub fn umbo_current_strategy(strategy: *mut *mut umbo_strategy) {
    strategy.write(make(current_strategy())?);
}

/// A handle to a thread's default context, and what lends it.
type DefaultContext = RefCell<Option<(Lent<umbo_replica_context>, usize)>>;

thread_local! {
    /// That of this thread, once it was asked for.
    static DEFAULT_CONTEXT: DefaultContext = const { RefCell::new(None) };
}

fn default_context() -> Result<*mut umbo_replica_context> {
    let look = |kept: &DefaultContext| {
        let mut kept = kept.borrow_mut();
        if let Some((_, handle)) = &*kept {
            return Ok(ptr::without_provenance_mut(*handle));
        }
        let mut lent = Lent::new()?;
        let handle = lent.lend(ReplicaContext::default_context())?;
        *kept = Some((lent, handle.addr()));
        Ok(handle)
    };
    DEFAULT_CONTEXT.try_with(look).unwrap_or_else(|_| Err(thread::ending()))
}

/// Gives the replica context that this thread is in.
///
/// @param[out] context The context of the replica whose callback this thread runs. In the default
///   context it is that of replica 0 of 1 of the default strategy. In cross-replica context
///   `*context` gets NULL.
///
/// The context is lent: it is valid on this thread until the callback returns, and is not released.
#[c_call(out(context))]
pub fn umbo_current_replica_context(context: *mut *mut umbo_replica_context) {
    context.write(match current() {
        Current::Default => default_context()?,
        Current::CrossReplica(_) => ptr::null_mut(),
        Current::Replica(own) => handle_of(&own)?,
    });
}
