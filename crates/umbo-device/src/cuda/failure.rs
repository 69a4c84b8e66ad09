//! The meaning of the driver's errors, and which of them end a card's use.

use std::panic::{UnwindSafe, catch_unwind};

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

use umbo_base::error::{Error, Result};

/// Every function of the driver that this library calls once a card is open.
pub const FUNCTIONS: [&str; 40] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemPoolGetAccess",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamGetCtx",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Fails with UNAVAILABLE, naming the function, if the driver lacks a function that is needed. The
/// driver exists.
pub(super) fn require_functions() -> Result<()> {
    let missing = guarded(|| {
        // SAFETY: the driver's library was opened before. It is only searched for names here.
        let library = unsafe { sys::culib() };
        let has = |name: &str| {
            // SAFETY: the address is compared and not called.
            unsafe { library.get::<*const ()>(name.as_bytes()) }.is_ok()
        };
        FUNCTIONS.into_iter().find(|name| !has(name))
    });
    let lacking = |function: &str| {
        Error::Unavailable(format!(
            "the CUDA driver lacks {function}, which this library calls; install a newer driver"
        ))
    };
    match missing {
        Some(None) => Ok(()),
        Some(Some(name)) => Err(lacking(name)),
        None => Err(lacking("a function")),
    }
}

/// Calls the bindings; `None` if they panicked.
pub(super) fn guarded<T>(call: impl FnOnce() -> T + UnwindSafe) -> Option<T> {
    catch_unwind(call).ok()
}

/// Whether this error destroys everything that the process has on the card: from then on, every
/// call on the card returns the same error.
pub(super) fn is_sticky(error: DriverError) -> bool {
    // These are faults of kernels (700 to 720, except the codes for refused launches), faults of
    // memory (214, 215, 220, 226), a card that no longer exists (46, 101, 201 after it was
    // there, 709), and unknown faults (999).
    matches!(
        error.0 as u32,
        46 | 101 | 201 | 214 | 215 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 999
    )
}

/// Whether the error says that there is no memory.
pub(super) fn is_out_of_memory(error: DriverError) -> bool {
    error.0 as u32 == 2
}

/// The meaning of a driver error. The bindings get their texts from the driver, which may itself be
/// broken, so the common codes are explained here.
pub(super) fn explain(error: DriverError) -> String {
    let code = error.0 as u32;
    let meaning = match code {
        1 => "the driver took a value for wrong",
        2 => "out of device memory",
        3 => "not initialised; was this process forked after CUDA was started?",
        34 => "the library found is a stub for linking, not a driver",
        35 => "the driver is older than the program needs",
        46 => "the device is busy or used exclusively by another process",
        100 => "no CUDA device is visible; see CUDA_VISIBLE_DEVICES",
        101 => "the device number is wrong",
        201 => "the context is not valid any more; was the device reset?",
        209 => "the kernels do not fit this device",
        214 => "the device's memory has an error that could not be corrected",
        218 => "the driver does not take the kernels",
        222 => "the driver is too old for the kernels",
        400 => "the driver does not know the handle, or it is of another context",
        700 => "a kernel used an address that is not its own",
        702 => "a kernel ran for too long",
        709 => "the context was destroyed",
        715 => "a kernel has an illegal instruction",
        716 => "a kernel used an address that is not aligned",
        719 => "a kernel failed",
        802 => "the system is not ready; is the fabric manager running?",
        803 => "the driver's library and its kernel module are of different versions",
        804 => "the compatibility library does not support this device",
        _ => return format!("CUDA error {code}"),
    };
    format!("{meaning} (CUDA error {code})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_bindings_stays_inside() {
        let missing_symbol: Option<()> =
            guarded(|| std::panic::resume_unwind(Box::new("missing symbol")));
        assert_eq!(missing_symbol, None);
    }

    #[test]
    fn known_codes_are_explained() {
        let no_device = DriverError(sys::cudaError_enum::CUDA_ERROR_NO_DEVICE);
        assert!(explain(no_device).contains("CUDA_VISIBLE_DEVICES"));
        let other = DriverError(sys::cudaError_enum::CUDA_ERROR_UNKNOWN);
        assert_eq!(explain(other), "CUDA error 999");
        assert!(is_sticky(other) && !is_sticky(no_device) && !is_out_of_memory(no_device));
    }
}
