//! Tensors from and for other libraries, as DLPack describes them.

use std::ptr::NonNull;

use crate::machinery::prelude::*;
use umbo_core::tensor::dlpack::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use umbo_core::tensor::dlpack::{self, ManagedForm};

/// Shares a tensor with another library, as DLPack 1 describes it, without a copy.
///
/// @param[out] managed The tensor. Its deleter is called exactly once, on any thread; until then it
///   keeps the memory.
///
/// The call waits for what the library has queued on a GPU. Elements that may only be read have the
/// flag for it.
#[c_call(out(managed), get(tensor))]
pub fn umbo_tensor_to_dlpack(
    tensor: *const umbo_tensor,
    managed: *mut *mut DLManagedTensorVersioned,
) {
    managed.write(dlpack::export(&tensor)?.as_ptr());
}

/// Shares a tensor with a library that knows only DLPack before version 1.
///
/// @param[out] managed As for umbo_tensor_to_dlpack().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the elements may only be read, which this form
///   cannot say.
#[c_call(out(managed), get(tensor))]
pub fn umbo_tensor_to_dlpack_legacy(
    tensor: *const umbo_tensor,
    managed: *mut *mut DLManagedTensor,
) {
    managed.write(dlpack::export(&tensor)?.as_ptr());
}

/// Makes a tensor over memory of another library, without a copy.
///
/// @param[in] managed The tensor as DLPack 1 describes it. If the call fails, it stays the
///   caller's.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: more than UMBO_MAX_NDIM dimensions, or not a valid tensor.
/// - UMBO_STATUS_UNIMPLEMENTED: another major version of DLPack, a device other than a CPU or a GPU
///   of CUDA, a dtype that Umbo does not have, or a negative stride.
///
/// The library calls the deleter exactly once, on any thread, when the last tensor over the memory
/// is gone and its own work is done. All elements must be initialised, in the byte order of the
/// machine. If they may only be read, that holds for the tensor too.
///
/// Memory of a GPU becomes a tensor on the first logical GPU of the card. The other library must
/// have finished what it has queued for the elements.
#[c_call(out(tensor))]
pub fn umbo_tensor_from_dlpack(
    managed: *mut DLManagedTensorVersioned,
    tensor: *mut *mut umbo_tensor,
) {
    // SAFETY: the caller's promise is the same.
    unsafe { import(managed, tensor) }
}

/// Makes a tensor over memory of a library that knows only DLPack before version 1.
///
/// @param[in] managed As for umbo_tensor_from_dlpack(). The elements count as writable.
/// @return As umbo_tensor_from_dlpack().
#[c_call(out(tensor))]
pub fn umbo_tensor_from_dlpack_legacy(
    managed: *mut DLManagedTensor,
    tensor: *mut *mut umbo_tensor,
) {
    // SAFETY: the caller's promise is the same.
    unsafe { import(managed, tensor) }
}

/// # Safety
/// `managed` is NULL or what a producer gave, `tensor` is NULL or a place for the output.
unsafe fn import<F: ManagedForm>(managed: *mut F, tensor: Out<*mut umbo_tensor>) -> Result<()> {
    check(
        managed.cast_const(),
        "managed",
        "a managed tensor is expected",
    )?;
    let managed = NonNull::new(managed).ok_or_else(|| Error::Internal("NULL".into()))?;
    let handle = reserve()?;
    // SAFETY: checked, and the caller promises the rest.
    let imported = unsafe { dlpack::import(managed) }?;
    tensor.write(handle.make(imported));
    Ok(())
}

/// Shares the memory of a view with another library, without a copy.
///
/// @param[in] destroy Called when the other library no longer uses the memory. NULL: nothing to
///   call.
/// @param[out] managed As for umbo_tensor_to_dlpack().
///
/// The view must stay valid until then: the library does not keep its memory. umbo_variable_read()
/// and umbo_tensor_to_dlpack() give tensors that stay.
#[c_call(owned(user_data, destroy), out(managed))]
pub fn umbo_view_to_dlpack(
    view: *const umbo_view,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    managed: *mut *mut DLManagedTensorVersioned,
) {
    // SAFETY: the caller gives NULL or a view whose elements are there.
    let tensor = unsafe { tensor_over_view(view, "view", Box::new(user_data)) }?;
    managed.write(dlpack::export::<DLManagedTensorVersioned>(&tensor)?.as_ptr());
}
