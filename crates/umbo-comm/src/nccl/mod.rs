//! Communicators that move memory of GPUs over NCCL, which is found at run time, and everything
//! else over another communicator. Without the feature `nccl` every function fails with
//! UNIMPLEMENTED.

#![cfg_attr(
    feature = "nccl",
    expect(unsafe_code, reason = "NCCL is a C library, found at run time")
)]

#[cfg(not(feature = "nccl"))]
mod absent;
#[cfg(feature = "nccl")]
mod agreement;
#[cfg(feature = "nccl")]
mod engine;
#[cfg(feature = "nccl")]
mod functions;
#[cfg(feature = "nccl")]
mod joining;
#[cfg(feature = "nccl")]
mod membership;

use std::time::Duration;

#[cfg(not(feature = "nccl"))]
pub use absent::{find, over};
#[cfg(feature = "nccl")]
pub use joining::{find, over};

/// The environment variable with the name of the library.
pub const VARIABLE: &str = "UMBO_NCCL_LIBRARY";

/// Options of a communicator over NCCL.
#[derive(Clone, Debug)]
pub struct NcclOptions {
    /// The time for which a call waits for NCCL; `None` means without a limit.
    pub timeout: Option<Duration>,
    /// The library to open; `None` means that it is found.
    pub library: Option<String>,
}

impl Default for NcclOptions {
    fn default() -> NcclOptions {
        // This is shorter than the timeouts of other communicators, such as MPI's, which wait for
        // the message that this wait has failed.
        NcclOptions {
            timeout: Some(Duration::from_secs(300)),
            library: None,
        }
    }
}
