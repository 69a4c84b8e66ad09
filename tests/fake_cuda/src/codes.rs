//! Result codes of the driver, with their names.

use std::ffi::CStr;

/// A result code other than success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(pub i32);

/// What an entry point of the driver comes to.
pub type Outcome<T = ()> = Result<T, Code>;

macro_rules! codes {
    ($($name:ident = $value:literal, $symbol:literal, $text:literal;)*) => {
        impl Code {
            $(
                #[allow(dead_code, reason = "some are only given as faults")]
                pub const $name: Code = Code($value);
            )*
        }

        /// The symbol and the description of a code; `None` for one that this driver never gives.
        pub fn describe(code: i32) -> Option<(&'static CStr, &'static CStr)> {
            match code {
                $($value => Some(($symbol, $text)),)*
                _ => None,
            }
        }
    };
}

codes! {
    SUCCESS = 0, c"CUDA_SUCCESS", c"no error";
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    DEINITIALIZED = 4, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down";
    DEVICE_UNAVAILABLE = 46, c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"device is busy or unavailable";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    INVALID_IMAGE = 200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    NO_BINARY_FOR_GPU = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"no kernel image is available for execution on the device";
    ECC_UNCORRECTABLE = 214, c"CUDA_ERROR_ECC_UNCORRECTABLE",
        c"uncorrectable ECC error encountered";
    PEER_ACCESS_UNSUPPORTED = 217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        c"peer access is not supported between these two devices";
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        c"the provided PTX was compiled with an unsupported toolchain.";
    FILE_NOT_FOUND = 301, c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        c"too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
        c"peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
        c"peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
        c"cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed";
    ASSERT = 710, c"CUDA_ERROR_ASSERT", c"device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        c"part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        c"pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = 714, c"CUDA_ERROR_HARDWARE_STACK_ERROR", c"hardware stack error";
    ILLEGAL_INSTRUCTION = 715, c"CUDA_ERROR_ILLEGAL_INSTRUCTION",
        c"an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    NOT_PERMITTED = 800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

impl Code {
    /// Whether a context that met this error is of no more use until the process ends.
    pub fn is_sticky(self) -> bool {
        matches!(
            self,
            Code::ECC_UNCORRECTABLE
                | Code::ILLEGAL_ADDRESS
                | Code::LAUNCH_TIMEOUT
                | Code::ASSERT
                | Code::HARDWARE_STACK_ERROR
                | Code::ILLEGAL_INSTRUCTION
                | Code::MISALIGNED_ADDRESS
                | Code::LAUNCH_FAILED
                | Code::DEVICE_UNAVAILABLE
        )
    }
}
