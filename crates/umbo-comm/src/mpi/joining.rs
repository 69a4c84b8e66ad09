//! Joining the ranks of an MPI.

use std::ffi::{CStr, c_void};

use super::{MAX_MESSAGE_BYTES, MpiObject, MpiOptions, engine, functions};
use crate::checked::CheckedCommunicator;
use umbo_base::error::{Error, Result};

impl MpiOptions {
    fn check(&self) -> Result<()> {
        let longest = MAX_MESSAGE_BYTES;
        if (1..=longest).contains(&self.max_message_bytes) {
            return Ok(());
        }
        let problem = format!("{}; 1 to {longest} are expected", self.max_message_bytes);
        Err(Error::invalid("max_message_bytes", problem))
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
