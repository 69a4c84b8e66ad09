//! The parts of a GPU that programs use: its stream, its memory.

use crate::machinery::prelude::*;
use umbo_core::device::registry;

/// Makes a GPU work on a stream of the program.
///
/// @param[in] device A GPU that was not used yet.
/// @param[in] stream A CUstream of the GPU's primary context, not the default stream of each
///   thread. It lives as long as the process. `stream` may be NULL: a stream of the library, the
///   default.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: the device was used already.
/// - UMBO_STATUS_UNAVAILABLE: the driver does not say whose stream it is.
///
/// All that the library does with the GPU's memory goes through this stream. It stays with this
/// part of the physical GPU if umbo_device_set_logical_count() gives that another ordinal.
#[c_call(text(device))]
pub fn umbo_device_set_stream(device: *const c_char, stream: *mut c_void) {
    let device = registry::REGISTRY.resolve(device, "device")?;
    registry::set_stream(
        device,
        (!stream.is_null()).then(|| stream.expose_provenance()),
    )
}

/// Makes a GPU allocate from a memory pool of the program.
///
/// @param[in] device A GPU that was not used yet.
/// @param[in] pool A CUmemoryPool of the GPU, or of one whose memory this GPU may use
///   (cuMemPoolSetAccess). It lives as long as the process. `pool` may be NULL: the GPU's own pool,
///   the default.
/// @return As umbo_device_set_stream().
///
/// The library allocates and frees in the order of the GPU's stream. A GPU that has no memory pools
/// is UMBO_STATUS_UNIMPLEMENTED at its first use. The pool stays with this part of the physical
/// GPU, as streams do.
#[c_call(text(device))]
pub fn umbo_device_set_memory_pool(device: *const c_char, pool: *mut c_void) {
    let device = registry::REGISTRY.resolve(device, "device")?;
    registry::set_memory_pool(device, (!pool.is_null()).then(|| pool.expose_provenance()))
}
