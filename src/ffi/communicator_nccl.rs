//! Communicators over NCCL.

use super::prelude::*;
use crate::cluster::communicator::Communicator;
use crate::cluster::nccl;
use crate::device::registry;

/// How a communicator over NCCL is made. Start from UMBO_NCCL_OPTIONS_INIT.
#[c_struct(timeout_seconds = 300.0)]
#[repr(C)]
pub struct umbo_nccl_options {
    /// `sizeof(umbo_nccl_options)`; UMBO_NCCL_OPTIONS_INIT sets it.
    pub struct_size: usize,
    /// How long a call waits for NCCL, in seconds; UMBO_INFINITE: for ever. By default 300. With
    /// less than `base` waits, ranks can still tell each other that they have waited in vain.
    pub timeout_seconds: f64,
    /// The path of NCCL's library, 2.14 or newer. NULL, the default: the one that the environment
    /// variable UMBO_NCCL_LIBRARY names, else libnccl.so.2 where libraries are looked for.
    pub library: *const c_char,
}

/// Joins the ranks of another communicator by NCCL, too, which then moves what lies on GPUs.
///
/// @param[in] base A communicator of any kind. Memory of the host goes over it, and it tells the ranks of
///   each other's failures. The new communicator keeps it; the handle stays the program's, which uses it no
///   more while the new one is used.
/// @param[in] device The GPU of this rank's variables, such as "GPU:0". Each rank has its own physical GPU.
/// @param[in] options The options. `options` may be NULL: all defaults.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_UNAVAILABLE: NCCL was not found (install it, and put its folder into LD_LIBRARY_PATH or its
///   path into UMBO_NCCL_LIBRARY), is older than 2.14, or reports an error, as it does where two ranks are on
///   one physical GPU.
/// - UMBO_STATUS_INVALID_ARGUMENT: `device` is no GPU, an option is out of range, an invalid handle, or a null
///   pointer.
/// - UMBO_STATUS_NOT_FOUND: there is no such device.
/// - UMBO_STATUS_DEADLINE_EXCEEDED: a rank did not come in time.
/// - UMBO_STATUS_FAILED_PRECONDITION: another call of `base` is in progress, or this is not the thread that it
///   is for.
/// - What `base` says.
///
/// Collective: all ranks of `base` call it, with devices of their own. What fails on one rank because of NCCL or
/// its device fails on all, whose message names the rank, and `base` stays of use, such as for training without
/// NCCL. An argument that is refused before, such as an option, is this rank's alone: it calls again, since the
/// others wait for it.
///
/// Gradients of variables on GPUs then go from GPU to GPU where all ranks have theirs on GPUs; they are summed
/// as ever, in the order of the ranks, with the same bits. Both exchanges of a step wait until the ranks have
/// told each other that they went well. After a timeout or an error of NCCL's its communicator is ended, and this one
/// says UMBO_STATUS_UNAVAILABLE to every call. NCCL is called by the threads that call this library. Releasing the
/// last handle ends NCCL's communicator, for which the ranks of a machine may wait for each other.
///
/// This was run over the library's own stand-in for NCCL in tests, never on GPUs.
#[c_call(out(communicator), text(device), options(options))]
pub fn umbo_communicator_create_nccl(
    base: *mut umbo_communicator,
    device: *const c_char,
    options: *const umbo_nccl_options,
    communicator: *mut *mut umbo_communicator,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    let library = unsafe { optional_text(options.library, "options.library") }?;
    let options = nccl::Options {
        timeout: duration(options.timeout_seconds, "options.timeout_seconds", false)?,
        library: library.map(str::to_owned),
    };
    let base = get(base, "base")?;
    // A device that is not there is told to the others.
    let made = nccl::over(base, registry::resolve(device, "device"), &options)?;
    communicator.write(make(Arc::new(made) as Arc<dyn Communicator>)?);
}
