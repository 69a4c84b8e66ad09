//! Tensors from and for other libraries, as DLPack describes them.

use std::ptr::NonNull;

use super::prelude::*;
use crate::tensor::dlpack::{
    self, Form, Legacy as DLManagedTensor, Versioned as DLManagedTensorVersioned,
};

/// Gives a tensor to another library, without a copy.
///
/// @param[out] managed The tensor as DLPack 1 describes it. Its deleter has to be called exactly once,
///   on any thread; until then it keeps the memory, also if all handles to the tensor are released.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, or `managed` is a null pointer.
/// - UMBO_STATUS_UNAVAILABLE: the tensor is on a GPU that cannot be used.
///
/// Elements on a GPU are complete when the call returns: it waits for what the library has queued.
///
/// The struct is defined in `umbo/dlpack.h`, and in the header of DLPack itself. Elements that may only
/// be read have the flag that says so. The rule for elements holds for the other library too: while it
/// writes them, nobody else may read or write them.
#[c_call(out(managed), get(tensor))]
pub fn umbo_tensor_to_dlpack(
    tensor: *const umbo_tensor,
    managed: *mut *mut DLManagedTensorVersioned,
) {
    managed.write(dlpack::export(&tensor)?.as_ptr());
}

/// Gives a tensor to a library that knows DLPack before version 1 only, without a copy.
///
/// @param[out] managed The tensor. Its deleter has to be called exactly once, as for umbo_tensor_to_dlpack().
/// @return UMBO_OK, a status that umbo_tensor_to_dlpack() can return, for the same causes, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: the elements may only be read, which this form cannot say.
#[c_call(out(managed), get(tensor))]
pub fn umbo_tensor_to_dlpack_legacy(
    tensor: *const umbo_tensor,
    managed: *mut *mut DLManagedTensor,
) {
    managed.write(dlpack::export(&tensor)?.as_ptr());
}

/// Makes a tensor over memory of another library, without a copy.
///
/// @param[in] managed The tensor as DLPack 1 describes it. If the call succeeds, the library takes it
///   over. If the call fails, it is still the caller's, who has to call its deleter.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a dimension is negative or there are more than UMBO_MAX_RANK, `shape`
///   or `data` is missing, an element does not lie at a multiple of its size, or the tensor is larger
///   than memory can address.
/// - UMBO_STATUS_INVALID_ARGUMENT: `managed` or `tensor` is a null pointer.
/// - UMBO_STATUS_UNIMPLEMENTED: another major version of DLPack, memory of another device than a CPU or
///   CUDA's GPUs, elements of a type that umbo_dtype does not have, or a negative stride.
/// - UMBO_STATUS_NOT_FOUND: there is no such GPU.
///
/// The library calls the deleter exactly once, when the last tensor over the memory is gone, on any
/// thread. A library whose deleter needs a lock, such as that of an interpreter, gets it in the deleter.
/// If the flags say that the elements may only be read, that holds for the tensor too. All elements must
/// be initialised. The type code knows no byte order: it is that of the machine.
///
/// Memory of a GPU becomes a tensor on the first logical GPU of the card. The other library has to be done
/// with what it has queued for the elements. Before the library calls the deleter, it waits for its own
/// work.
#[c_call(out(tensor))]
pub fn umbo_tensor_from_dlpack(
    managed: *mut DLManagedTensorVersioned,
    tensor: *mut *mut umbo_tensor,
) {
    // SAFETY: the caller's promise is the same.
    unsafe { import(managed, tensor) }
}

/// Makes a tensor over memory of a library that knows DLPack before version 1 only, without a copy.
///
/// @param[in] managed The tensor. As for umbo_tensor_from_dlpack(), it is taken over only if
///   the call succeeds.
/// @return UMBO_OK, or a status that umbo_tensor_from_dlpack() can return, for the same causes.
///
/// This form cannot say that elements may only be read, so they count as writable.
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
unsafe fn import<F: Form>(managed: *mut F, tensor: Out<*mut umbo_tensor>) -> Result<()> {
    check(managed.cast_const(), "managed", "a managed tensor is expected")?;
    let managed = NonNull::new(managed).ok_or_else(|| Error::Internal("NULL".into()))?;
    let handle = reserve()?;
    // SAFETY: checked, and the caller promises the rest.
    let imported = unsafe { dlpack::import(managed) }?;
    tensor.write(handle.make(imported.take_over()));
    Ok(())
}

/// Gives memory that a view shows to another library, without a copy.
///
/// @param[in] view The view: of a variable, a replica's gradient buffer, a part of a value, or an array.
/// @param[in] user_data What `destroy` is given.
/// @param[in] destroy Called exactly once, on any thread, when the other library no longer uses the
///   memory, also if this function fails. NULL: nothing to call.
/// @param[out] managed The memory as a tensor of DLPack 1. Its deleter has to be called exactly once, on
///   any thread.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `view` is not the view of elements, or `view` or `managed` is a null
///   pointer.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_UNAVAILABLE: it is of a GPU that is not there or cannot be used.
///
/// The library does not keep the memory of a view. The program sees to it that the other library does
/// not use the memory when the view is no longer valid: after the callback in which a gradient was
/// viewed, or when a variable is written. A view that may only be read gives a tensor that says so.
/// umbo_variable_read() and umbo_tensor_to_dlpack() give a copy that stays.
#[c_call(gives(user_data, destroy), out(managed))]
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
