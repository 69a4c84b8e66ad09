//! The beginning and the end of MPI. It is initialised once in a process and finalised once. This
//! library finalises it only if the program has not initialised it.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::functions::{Functions, THREAD_SERIALIZED};
use umbo_base::error::{Error, Result};

/// The number of communicators.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Whether this library has initialised MPI.
static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Begins the life of a communicator, which [`leave`] ends. Initialises MPI if it is not
/// initialised. Returns whether only MPI's main thread may call MPI.
pub fn enter(mpi: &Functions) -> Result<bool> {
    initialise(mpi)?;
    let main_thread_only = main_thread_only(mpi)?;
    LIVE.fetch_add(1, Ordering::SeqCst);
    Ok(main_thread_only)
}

/// Ends the life of a communicator. Returns whether the caller must finalise MPI: if this was the
/// last communicator and this library has initialised MPI.
pub fn leave() -> bool {
    LIVE.fetch_sub(1, Ordering::SeqCst) == 1 && INITIALISED.load(Ordering::SeqCst)
}

/// Whether MPI was finalised.
pub fn is_over(mpi: &Functions) -> bool {
    let mut finalised = 0;
    // SAFETY: it may be called at any time.
    unsafe { (mpi.finalized)(&raw mut finalised) != 0 || finalised != 0 }
}

fn initialise(mpi: &Functions) -> Result<()> {
    let mut initialised = 0;
    let mut provided = 0;
    // SAFETY: these may be called at any time. MPI is initialised once.
    unsafe {
        mpi.check((mpi.initialized)(&raw mut initialised), "MPI_Initialized")?;
        if initialised == 0 {
            let none = ptr::null_mut();
            let code =
                (mpi.init_thread)(none, ptr::null_mut(), THREAD_SERIALIZED, &raw mut provided);
            mpi.check(code, "MPI_Init_thread")?;
            INITIALISED.store(true, Ordering::SeqCst);
        }
    }
    if is_over(mpi) {
        return Err(Error::precondition(
            "MPI was finalised already, which happens once in a process; make the communicator \
             once and keep it",
        ));
    }
    Ok(())
}

fn main_thread_only(mpi: &Functions) -> Result<bool> {
    let mut level = 0;
    // SAFETY: MPI is initialised.
    let code = unsafe { (mpi.query_thread)(&raw mut level) };
    mpi.check(code, "MPI_Query_thread")?;
    Ok(level < THREAD_SERIALIZED)
}
