//! Communicators over MPI. MPI is found at run time by its standard ABI, or the program brings it.

#![expect(unsafe_code, reason = "MPI is a C library, found at run time")]

mod engine;
mod functions;
mod lifetime;
mod link;
mod waiting;

use std::ffi::{CStr, c_void};
use std::time::Duration;

use super::checked::CheckedCommunicator;
use umbo_base::error::{Error, Result};

pub use functions::{MpiObject, VARIABLE};

/// Options of a communicator over MPI.
#[derive(Clone, Debug)]
pub struct MpiOptions {
    /// How long a call waits for other ranks; `None` means without a limit.
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
            max_message_bytes: link::MAX_MESSAGE_BYTES,
        }
    }
}

impl MpiOptions {
    fn check(&self) -> Result<()> {
        let longest = link::MAX_MESSAGE_BYTES;
        if (1..=longest).contains(&self.max_message_bytes) {
            return Ok(());
        }
        let problem = format!("{}; 1 to {longest} are expected", self.max_message_bytes);
        Err(Error::invalid("options.max_message_bytes", problem))
    }
}

/// Opens the library that [`world`] would open, and initialises nothing. Fails with UNAVAILABLE,
/// with the reason, if there is none with the standard ABI.
pub fn find() -> Result<()> {
    functions::of_a_library(None).map(drop)
}

/// Joins all processes that were started together. Initialises MPI if it is not initialised, and
/// then finalises it when the last communicator is dropped.
pub fn world(options: &MpiOptions) -> Result<CheckedCommunicator> {
    // SAFETY: the communicator is a constant of the ABI.
    unsafe { of_communicator(functions::COMM_WORLD, options) }
}

/// Joins the ranks of the program's communicator.
///
/// # Safety
/// `parent` is a communicator of the library with the standard ABI that this process uses.
pub unsafe fn of_communicator(
    parent: MpiObject,
    options: &MpiOptions,
) -> Result<CheckedCommunicator> {
    options.check()?;
    let mpi = functions::of_a_library(options.library.as_deref())?;
    // SAFETY: the caller's promise.
    unsafe { joined(mpi, parent, options) }
}

/// Like [`of_communicator`], with the program's functions, which `find` returns by name.
///
/// # Safety
/// `find` returns functions that behave as those of the standard ABI with the same names. `parent`
/// is a communicator of these functions.
pub unsafe fn of_functions(
    find: &dyn Fn(&CStr) -> *mut c_void,
    parent: MpiObject,
    options: &MpiOptions,
) -> Result<CheckedCommunicator> {
    options.check()?;
    // SAFETY: the caller's promise.
    let mpi = unsafe { functions::Functions::new(find, "the program's MPI") }?;
    // SAFETY: as above.
    unsafe { joined(mpi, parent, options) }
}

/// # Safety
/// `parent` is a communicator of these functions.
unsafe fn joined(
    mpi: functions::Functions,
    parent: MpiObject,
    options: &MpiOptions,
) -> Result<CheckedCommunicator> {
    if parent.is_null() || parent == functions::COMM_NULL {
        return Err(invalid!(
            "communicator",
            "is none; a communicator of MPI's is expected"
        ));
    }
    // SAFETY: the caller's promise.
    let engine = unsafe {
        engine::MpiEngine::join(mpi, parent, options.timeout, options.max_message_bytes)
    }?;
    CheckedCommunicator::new(Box::new(engine))
}
