//! Making and giving back handles of every type.

use crate::machinery::made_handles;
use crate::machinery::object::owned_kind;
use crate::machinery::prelude::*;

/// Makes another handle to the same object, also of a borrowed one. The typed umbo_X_retain() call
/// it.
///
/// @param[out] retained The address of a pointer to the handle's type.
/// @return UMBO_STATUS_INVALID_ARGUMENT also for UMBO_HANDLE_SCOPE, UMBO_HANDLE_REPLICA_CONTEXT and
///   UMBO_HANDLE_VARIABLE_REQUEST, which are not retained.
#[c_call]
pub fn umbo_retain(handle: *const c_void, r#type: umbo_handle_type, retained: *mut c_void) {
    let kind = owned_kind(r#type)?;
    // SAFETY: the caller gives NULL or the address of a pointer, which is as large for every type.
    let retained = unsafe { out(retained.cast::<*mut c_void>(), "retained") }?;
    retained.write(handle::retain(handle, kind.parameter(), kind)?);
}

/// Releases a handle; NULL does nothing. The typed umbo_X_release() call it.
///
/// An invalid handle, or one of a type that is not retained, changes nothing, and the log gets an
/// error.
#[c_call(quietly)]
pub fn umbo_release(handle: *const c_void, r#type: umbo_handle_type) {
    let kind = owned_kind(r#type)?;
    handle::release_kind(handle, kind.parameter(), kind)
}

/// Keeps the tensors and values that the running callback makes, and those that it has made: they
/// are not released when it returns.
///
/// For bindings whose objects own handles and release them, as those of umbo.hpp do: they call it
/// first in each callback. Outside of a callback it does nothing.
#[c_call]
pub fn umbo_callback_keep_handles() {
    made_handles::keep_all();
    Ok(())
}
