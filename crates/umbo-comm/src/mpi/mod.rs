//! Communicators over MPI. MPI is found at run time by its standard ABI, or the program brings it.
//! Without the feature `mpi` every function fails with UNIMPLEMENTED.

#![expect(unsafe_code, reason = "MPI is a C library, found at run time")]

#[cfg(not(feature = "mpi"))]
mod absent;
#[cfg(feature = "mpi")]
mod engine;
#[cfg(feature = "mpi")]
mod functions;
#[cfg(feature = "mpi")]
mod joining;
#[cfg(feature = "mpi")]
mod lifetime;
#[cfg(feature = "mpi")]
mod link;
#[cfg(feature = "mpi")]
mod waiting;

use std::ffi::c_void;
use std::time::Duration;

#[cfg(not(feature = "mpi"))]
pub use absent::{find, of_communicator, of_functions, world};
#[cfg(feature = "mpi")]
pub use joining::{find, of_communicator, of_functions, world};

/// The environment variable with the name of the library.
pub const VARIABLE: &str = "UMBO_MPI_LIBRARY";

/// The most bytes of one message. Tests use less.
const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// A communicator, datatype or other object of MPI: a word in the standard ABI.
pub type MpiObject = *mut c_void;

/// Options of a communicator over MPI.
#[derive(Clone, Debug)]
pub struct MpiOptions {
    /// The time for which a call waits for other ranks; `None` means without a limit.
    pub timeout: Option<Duration>,
    /// The library to open; `None` means that it is found.
    pub library: Option<String>,
    /// The most bytes of one message. More bytes go in several messages.
    pub max_message_bytes: usize,
}

impl Default for MpiOptions {
    fn default() -> MpiOptions {
        MpiOptions {
            timeout: Some(Duration::from_secs(600)),
            library: None,
            max_message_bytes: MAX_MESSAGE_BYTES,
        }
    }
}
