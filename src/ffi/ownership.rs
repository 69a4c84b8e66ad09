//! Making and giving back handles of every type.

use super::object::owned_kind;
use super::prelude::*;

/// Makes another handle to the same object.
///
/// @param[in] handle The handle. One that was lent to a callback is accepted, too.
/// @param[in] type The type of the handle.
/// @param[out] retained The address of a pointer to the handle's type. It gets the new handle; the first
///   handle stays as it is.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `handle` is not a valid handle of this type, `retained`
///   is a null pointer, or handles of this type cannot be retained: UMBO_HANDLE_SCOPE,
///   UMBO_HANDLE_REPLICA_CONTEXT and UMBO_HANDLE_VARIABLE_REQUEST.
///
/// The functions umbo_X_retain() call it, so that compilers check the types. Each handle is released once.
/// A callback retains what it was lent to keep it.
#[c_call]
pub fn umbo_retain(handle: *const c_void, r#type: umbo_handle_type, retained: *mut c_void) {
    let kind = owned_kind(r#type)?;
    // SAFETY: the caller gives NULL or the address of a pointer, which is as large for every type.
    let retained = unsafe { out(retained.cast::<*mut c_void>(), "retained") }?;
    retained.write(handle::retain(handle, kind.parameter(), kind)?);
}

/// Releases a handle.
///
/// @param[in] handle The handle. NULL does nothing.
/// @param[in] type The type of the handle. Handles of UMBO_HANDLE_SCOPE, UMBO_HANDLE_REPLICA_CONTEXT and
///   UMBO_HANDLE_VARIABLE_REQUEST are not released.
///
/// The functions umbo_X_release() call it, so that compilers check the types. The object ends with its last
/// handle, unless another object needs it. A handle that is not valid changes nothing, and the log gets an
/// error.
#[c_call(quietly)]
pub fn umbo_release(handle: *const c_void, r#type: umbo_handle_type) {
    let kind = owned_kind(r#type)?;
    handle::release_kind(handle, kind.parameter(), kind)
}
