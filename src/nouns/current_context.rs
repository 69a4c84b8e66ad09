//! The context that a thread is in.

use std::cell::RefCell;

use crate::machinery::prelude::*;
use umbo_core::executor::thread;
use umbo_core::strategy::context::{Current, current};

/// A handle to a thread's default context, and what lends it.
type DefaultContext = RefCell<Option<(LentHandle<umbo_replica_context>, usize)>>;

thread_local! {
    /// That of this thread, once it was asked for.
    static DEFAULT_CONTEXT: DefaultContext = const { RefCell::new(None) };
}

fn default_context() -> Result<*mut umbo_replica_context> {
    let inspect = |kept: &DefaultContext| {
        let mut kept = kept.borrow_mut();
        if let Some((_, handle)) = &*kept {
            return Ok(ptr::without_provenance_mut(*handle));
        }
        let mut lent = LentHandle::new()?;
        let handle = lent.lend(ReplicaContext::default_context())?;
        *kept = Some((lent, handle.addr()));
        Ok(handle)
    };
    DEFAULT_CONTEXT
        .try_with(inspect)
        .unwrap_or_else(|_| Err(thread::ending()))
}

/// Gets the replica context that this thread is in.
///
/// @param[out] context Lent until the replica's callback returns, for this thread. NULL in
///   cross-replica context. In the default context it is replica 0 of 1 of the default strategy.
#[c_call(out(context))]
pub fn umbo_replica_context_current(context: *mut *mut umbo_replica_context) {
    context.write(match current() {
        Current::Default => default_context()?,
        Current::CrossReplica(_) => ptr::null_mut(),
        Current::Replica(context) => handle_of(&context)?,
    });
}
