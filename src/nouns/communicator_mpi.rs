//! Communicators over MPI.

use std::ffi::CStr;

use crate::machinery::prelude::*;
use umbo_core::cluster::communicator::Communicator;
use umbo_core::cluster::mpi;

/// Finds a function of an MPI.
///
/// @param[in] name Its name, such as "MPI_Isend".
/// @return The function, which behaves as that of the standard ABI and stays, cast to `void *`;
///   NULL if there is none.
pub type umbo_mpi_find_fn =
    Option<unsafe extern "C-unwind" fn(name: *const c_char, user_data: *mut c_void) -> *mut c_void>;

/// The options of a communicator over MPI.
#[c_struct(timeout_seconds = 600.0, max_message_bytes = 1 << 30)]
pub struct umbo_mpi_options {
    /// How long a call waits for the other ranks; more than 0, or UMBO_INFINITE.
    pub timeout_seconds: f64,
    /// The path of an MPI library with the standard ABI. NULL: that of the environment variable
    /// UMBO_MPI_LIBRARY, else libmpi_abi.so.1. The first communicator of a process opens it.
    pub library: *const c_char,
    /// The size of the largest message, 1 to 1073741824. More bytes go in several.
    pub max_message_bytes: usize,
    /// Finds the functions of an MPI of the program in place of a library; called before
    /// umbo_communicator_create_mpi() returns. May be NULL.
    pub find: umbo_mpi_find_fn,
    /// Passed to `find`.
    pub find_user_data: *mut c_void,
}

/// # Safety
/// `options` is as the header says.
unsafe fn options_from(given: &umbo_mpi_options) -> Result<mpi::MpiOptions> {
    let timeout = duration(given.timeout_seconds, "options.timeout_seconds", false)?;
    // SAFETY: as above.
    let library = unsafe { optional_text(given.library, "options.library") }?.map(str::to_owned);
    Ok(mpi::MpiOptions {
        timeout,
        library,
        max_message_bytes: given.max_message_bytes,
    })
}

/// Joins all processes that were started together, or the ranks of a communicator of MPI.
///
/// @param[in] mpi_communicator NULL: all processes. Else an MPI_Comm of an MPI with the standard
///   ABI, or as `options->find` takes it, whose ranks are one group; it is duplicated.
/// @param[in] options May be NULL.
/// @return
/// - UMBO_STATUS_UNAVAILABLE: no MPI library with the standard ABI, a function is missing, or MPI
///   reports an error.
/// - UMBO_STATUS_UNIMPLEMENTED: the library was built without the feature "mpi".
/// - UMBO_STATUS_FAILED_PRECONDITION: the program has an MPI without the standard ABI (use
///   umbo_mpi.c), MPI was finalised, or this is not its main thread, if it was initialised for that
///   alone.
/// - UMBO_STATUS_DEADLINE_EXCEEDED: a process did not call this in time.
///
/// All these ranks call it. The library is found at run time, and nothing of MPI is needed to
/// build; for other MPIs umbo_mpi.c, the source of the CMake target `umbo::mpi`, sets `find`. If
/// MPI is not initialised, this function does it, for one thread at a time, and the release of the
/// last communicator finalises it: create the communicator early and keep it. Only threads that
/// call this library call MPI. A rank that cannot continue calls umbo_communicator_abort(), or ends
/// without a release; the launcher then ends the job.
#[c_call(out(communicator), options(options))]
pub fn umbo_communicator_create_mpi(
    mpi_communicator: *mut c_void,
    options: *const umbo_mpi_options,
    communicator: *mut *mut umbo_communicator,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    let how = unsafe { options_from(&options) }?;
    let made = match (mpi_communicator.is_null(), options.find) {
        (true, None) => mpi::world(&how),
        (true, Some(_)) => Err(invalid!(
            "mpi_communicator",
            "is NULL; options.find needs a communicator"
        )),
        // SAFETY: the caller gives a communicator of the library that is found.
        (false, None) => unsafe { mpi::of_communicator(mpi_communicator, &how) },
        (false, Some(find)) => {
            let find = |name: &CStr| {
                // SAFETY: the caller gave the function for this, with its user data.
                callback::run_infallible(|| unsafe { find(name.as_ptr(), options.find_user_data) })
            };
            // SAFETY: the caller gives functions of the standard's types, and a communicator to
            // them.
            unsafe { mpi::of_functions(&find, mpi_communicator, &how) }
        }
    }?;
    communicator.write(make(Arc::new(made) as Arc<dyn Communicator>)?);
}
