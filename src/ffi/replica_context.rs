//! What a callback knows of its replica, and the calls that only it can make.

use super::handle::borrow;
use super::object::umbo_replica_context;
use crate::error::Result;
use crate::strategy::ReplicaContext;
use crate::strategy::context::with_current_replica;

/// Lets `body` use a replica context, which must be the one that this thread is in. Takes no
/// reference, so that replicas write no cache line that they share; `body` must be short, as for
/// [`borrow`], and must not enter or leave a context.
pub(crate) fn in_context<R>(
    handle: *const umbo_replica_context,
    what: &'static str,
    body: impl FnOnce(&ReplicaContext) -> Result<R>,
) -> Result<R> {
    borrow(handle, "ctx", |context| {
        with_current_replica(|own| match own {
            Some(own) if own.is_same(context) => body(own),
            _ => {
                context.check_current(&what)?;
                body(context)
            }
        })
    })?
}
