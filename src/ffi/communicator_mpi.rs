//! Communicators over MPI.

use std::ffi::CStr;

use super::prelude::*;
use crate::cluster::checked::CheckedCommunicator;
use crate::cluster::communicator::Communicator;
use crate::cluster::mpi;

/// How a communicator over MPI is made. Start from UMBO_MPI_OPTIONS_INIT.
#[c_struct(timeout_seconds = 600.0, longest_message = 1 << 30)]
#[repr(C)]
pub struct umbo_mpi_options {
    /// `sizeof(umbo_mpi_options)`; UMBO_MPI_OPTIONS_INIT sets it.
    pub struct_size: usize,
    /// How long a call waits for the other ranks, in seconds; UMBO_INFINITE: for
    /// ever. By default 600.
    pub timeout_seconds: f64,
    /// The path of an MPI library with the standard ABI. NULL, the default: the one that the
    /// environment variable UMBO_MPI_LIBRARY names, else libmpi_abi.so.1 where libraries are looked
    /// for. Only the first communicator of a process opens it.
    pub library: *const c_char,
    /// The most bytes of a message, 1 to 1073741824, which is the default; more go in several.
    pub longest_message: i64,
}

/// Gives a function of the program's MPI, for umbo_communicator_create_mpi_of().
///
/// @param[in] name The function's name, such as "MPI_Isend".
/// @param[in] user_data What was given to umbo_communicator_create_mpi_of().
/// @return The function, cast to `void *`, which behaves as that of MPI's standard ABI of this name
///   and stays; NULL if there is none.
pub type umbo_mpi_find_fn =
    Option<unsafe extern "C-unwind" fn(name: *const c_char, user_data: *mut c_void) -> *mut c_void>;

/// # Safety
/// `options` is as the header says.
unsafe fn options_from(given: &umbo_mpi_options) -> Result<mpi::Options> {
    let timeout = duration(given.timeout_seconds, "options.timeout_seconds", false)?;
    let longest_message = usize::try_from(given.longest_message).unwrap_or(0);
    if !(1..=1 << 30).contains(&longest_message) {
        let problem = format!("{}; 1 to 1073741824 are expected", given.longest_message);
        return Err(Error::invalid("options.longest_message", problem));
    }
    // SAFETY: as above.
    let library = unsafe { optional_text(given.library, "options.library") }?.map(str::to_owned);
    Ok(mpi::Options { timeout, library, longest_message })
}

fn handle_of(made: CheckedCommunicator) -> Result<*mut umbo_communicator> {
    make(Arc::new(made) as Arc<dyn Communicator>)
}

/// Joins all processes that were started together, over MPI.
///
/// @param[in] options The options. `options` may be NULL: all defaults.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_UNAVAILABLE: there is no MPI library with the standard ABI, or MPI reports an error.
/// - UMBO_STATUS_FAILED_PRECONDITION: the program has an MPI library without the standard ABI, for
///   which there is umbo_mpi.c; or MPI was finalised; or this is not its main thread, if it was
///   initialised for that alone.
/// - UMBO_STATUS_DEADLINE_EXCEEDED: a process did not call this in time.
/// - UMBO_STATUS_INVALID_ARGUMENT: an option is out of range, or `communicator` is a null pointer.
///
/// Collective: all processes call it. The library is found at run time; MPI 5.0 says how its functions
/// look in memory, so that nothing of MPI is needed to build. If the program has not initialised MPI,
/// this function does, for one thread at a time, and the release of the last communicator finalises
/// it. A process can do that once: make the communicator early and keep it. MPI is called by the
/// threads that call this library and by no other.
///
/// A rank that cannot go on calls umbo_communicator_abort() or ends without releasing its communicator;
/// the launcher then ends the job.
#[c_call(out(communicator), options(options))]
pub fn umbo_communicator_create_mpi_world(
    options: *const umbo_mpi_options,
    communicator: *mut *mut umbo_communicator,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    let options = unsafe { options_from(&options) }?;
    communicator.write(handle_of(mpi::world(&options)?)?);
}

/// Joins the ranks of a communicator of MPI's.
///
/// @param[in] mpi_communicator An MPI_Comm of a library with MPI's standard ABI, whose ranks are one
///   group. It is duplicated, and stays the program's.
/// @param[in] options The options. `options` may be NULL: all defaults.
/// @return UMBO_OK, or an error as of umbo_communicator_create_mpi_world().
///
/// Collective over the ranks of `mpi_communicator`. A program that was built with an mpi.h of another
/// ABI uses umbo_mpi.c: it links `umbo::mpi`, of find_package(umbo COMPONENTS mpi).
#[c_call(out(communicator), options(options))]
pub fn umbo_communicator_create_mpi(
    mpi_communicator: *mut c_void,
    options: *const umbo_mpi_options,
    communicator: *mut *mut umbo_communicator,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    let options = unsafe { options_from(&options) }?;
    check_some(mpi_communicator)?;
    // SAFETY: the caller gives a communicator of the library that is found.
    let made = unsafe { mpi::of_communicator(mpi_communicator, &options) }?;
    communicator.write(handle_of(made)?);
}

/// Joins the ranks of a communicator of an MPI of the program's own, whose functions it brings.
///
/// @param[in] mpi_communicator A communicator as the functions take it, whose ranks are one group. It
///   is duplicated, and stays the program's.
/// @param[in] find Gives the functions, which take the constants of the standard ABI. It is called
///   before this function returns.
/// @param[in] user_data What `find` is given.
/// @param[in] options The options. `options` may be NULL: all defaults.
/// @return UMBO_OK, or an error as of umbo_communicator_create_mpi_world(); UMBO_STATUS_UNAVAILABLE
///   also if a function is missing.
///
/// umbo_mpi.c, the source of the CMake target `umbo::mpi`, calls this for every MPI that has an mpi.h.
#[c_call(out(communicator), options(options))]
pub fn umbo_communicator_create_mpi_of(
    mpi_communicator: *mut c_void,
    find: umbo_mpi_find_fn,
    user_data: *mut c_void,
    options: *const umbo_mpi_options,
    communicator: *mut *mut umbo_communicator,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    let options = unsafe { options_from(&options) }?;
    check_some(mpi_communicator)?;
    let find = present(find, "find")?;
    // SAFETY: the caller gave the function for this, with its user data.
    let find = |name: &CStr| unsafe { find(name.as_ptr(), user_data) };
    // SAFETY: the caller gives functions of the standard's types, and a communicator to them.
    let made = unsafe { mpi::of_functions(&find, mpi_communicator, &options) }?;
    communicator.write(handle_of(made)?);
}

fn check_some(mpi_communicator: *mut c_void) -> Result<()> {
    if mpi_communicator.is_null() {
        return Err(Error::invalid("mpi_communicator", "is NULL; an MPI_Comm is expected"));
    }
    Ok(())
}
