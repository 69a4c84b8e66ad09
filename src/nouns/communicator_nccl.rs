//! Communicators over NCCL.

use crate::machinery::prelude::*;
use umbo_core::cluster::communicator::Communicator;
use umbo_core::cluster::nccl;
use umbo_core::device::registry;

/// The options of a communicator over NCCL.
#[c_struct(timeout_seconds = 300.0)]
pub struct umbo_nccl_options {
    /// How long a call waits for NCCL; more than 0, or UMBO_INFINITE. Keep it below the timeout of
    /// `base`, so that a timeout here can still be reported to all ranks.
    pub timeout_seconds: f64,
    /// The path of NCCL's library, 2.14 or newer. NULL: that of the environment variable
    /// UMBO_NCCL_LIBRARY, else libnccl.so.2.
    pub library: *const c_char,
}

/// Joins the ranks of another communicator by NCCL, too, which then moves what lies on GPUs.
///
/// @param[in] base Moves memory of the host and reports failures. The new communicator keeps it; do
///   not use it while the new one is used.
/// @param[in] device The GPU of this rank's variables, such as "GPU:0". Each rank has its own
///   physical GPU.
/// @param[in] options May be NULL.
/// @return
/// - UMBO_STATUS_UNAVAILABLE: NCCL was not found, is older than 2.14, or reports an error (two
///   ranks on one GPU).
/// - UMBO_STATUS_UNIMPLEMENTED: the library was built without the feature "nccl".
/// - UMBO_STATUS_INVALID_ARGUMENT: `device` is not a GPU, or an option out of range.
/// - UMBO_STATUS_NOT_FOUND: no such device.
/// - UMBO_STATUS_DEADLINE_EXCEEDED: a rank did not call this in time.
/// - The others of umbo_communicator_all_to_all() for `base`.
///
/// Collective over `base`, which stays usable if NCCL or a device fails. Invalid arguments fail on
/// this rank only, before anything is exchanged. Call again: the other ranks are waiting.
///
/// Gradients of variables on GPUs then go from GPU to GPU if all ranks have theirs there, and are
/// summed in rank order: all ranks have bit-identical results. After a timeout or an error of NCCL
/// every call is UMBO_STATUS_UNAVAILABLE. Only threads that call this library call NCCL. The
/// release of the last handle may wait for the ranks of this machine. This was run with a stand-in
/// for NCCL, never on GPUs.
#[c_call(out(communicator), text(device), options(options))]
pub fn umbo_communicator_create_nccl(
    base: *mut umbo_communicator,
    device: *const c_char,
    options: *const umbo_nccl_options,
    communicator: *mut *mut umbo_communicator,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    let library = unsafe { optional_text(options.library, "options.library") }?;
    let options = nccl::NcclOptions {
        timeout: duration(options.timeout_seconds, "options.timeout_seconds", false)?,
        library: library.map(str::to_owned),
    };
    let base = get(base, "base")?;
    // The others get to know of a device that is not there.
    let made = nccl::over(base, registry::REGISTRY.resolve(device, "device"), &options)?;
    communicator.write(make(Arc::new(made) as Arc<dyn Communicator>)?);
}
