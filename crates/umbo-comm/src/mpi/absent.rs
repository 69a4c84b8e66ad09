//! The stand-in for communicators over MPI in a library without the feature `mpi`: functions that
//! fail with UNIMPLEMENTED.

use std::ffi::{CStr, c_void};

use super::{MpiObject, MpiOptions};
use crate::checked::CheckedCommunicator;
use umbo_base::error::{Error, Result};

fn refused<T>() -> Result<T> {
    Err(Error::left_out("communicators over MPI", "mpi"))
}

/// Fails: there is nothing that would open a library.
pub fn find() -> Result<()> {
    refused()
}

/// Fails: there is nothing that would join the processes.
pub fn world(_options: &MpiOptions) -> Result<CheckedCommunicator> {
    refused()
}

/// Fails: there is nothing that would join the ranks.
///
/// # Safety
/// Nothing is used.
pub unsafe fn of_communicator(
    _parent: MpiObject,
    _options: &MpiOptions,
) -> Result<CheckedCommunicator> {
    refused()
}

/// Fails: there is nothing that would join the ranks.
///
/// # Safety
/// Nothing is used.
pub unsafe fn of_functions(
    _find: &dyn Fn(&CStr) -> *mut c_void,
    _parent: MpiObject,
    _options: &MpiOptions,
) -> Result<CheckedCommunicator> {
    refused()
}
