//! Requests of MPI: waiting for them with a deadline, and giving them up.

use std::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

use super::MpiObject;
use super::functions::{BYTE, Functions, MessageStatus, REQUEST_NULL};
use umbo_base::error::{Error, Result};

/// How long MPI may take to release memory.
const GRACE: Duration = Duration::from_secs(1);

/// A request that is waited for.
pub struct Pending {
    pub request: MpiObject,
    pub kind: WaitKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    Send,
    /// A message of this many bytes.
    Receive(usize),
    Collective,
}

impl Pending {
    /// Whether the request is done.
    fn test(&mut self, mpi: &Functions) -> Result<bool> {
        if self.request == REQUEST_NULL {
            return Ok(true);
        }
        let mut done = 0;
        let mut status = MessageStatus::default();
        // SAFETY: the request is one that MPI has returned, or none.
        let code = unsafe { (mpi.test)(&raw mut self.request, &raw mut done, &raw mut status) };
        mpi.check(code, "moving bytes")?;
        if done == 0 {
            return Ok(false);
        }
        self.request = REQUEST_NULL;
        if let WaitKind::Receive(expected) = self.kind {
            let mut count: c_int = 0;
            // SAFETY: the status is that of a received message.
            let code = unsafe { (mpi.get_count)(&raw const status, BYTE, &raw mut count) };
            mpi.check(code, "MPI_Get_count")?;
            if usize::try_from(count) != Ok(expected) {
                let problem =
                    format!("a rank has sent {count} bytes where {expected} are expected");
                return Err(Error::DataLoss(problem));
            }
        }
        Ok(true)
    }
}

/// The purpose of a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stakes {
    /// A wait for other ranks to come. The processor is left to other threads.
    Arrival,
    /// A wait for bytes that are being moved. They move only while MPI is called.
    Transfer,
}

/// Waits until all requests are done, at most until `deadline`. If they are done, the list is empty
/// afterwards. If not, MPI still holds the requests that are left in it.
pub fn wait(
    mpi: &Functions,
    pending: &mut Vec<Pending>,
    waiting: Stakes,
    deadline: Option<Instant>,
) -> Result<()> {
    let mut idle = 0_u32;
    let mut first = 0;
    loop {
        let before = pending.len();
        // The request that was made first is usually done first.
        while first < pending.len() {
            match pending[first].test(mpi)? {
                true => drop(pending.swap_remove(first)),
                false => first += 1,
            }
        }
        first = 0;
        if pending.is_empty() {
            return Ok(());
        }
        idle = if pending.len() < before {
            0
        } else {
            idle.saturating_add(1)
        };
        match (waiting, idle) {
            (_, 0..100) => std::hint::spin_loop(),
            (Stakes::Transfer, _) | (_, 100..2000) => thread::yield_now(),
            (Stakes::Arrival, 2000..10_000) => thread::sleep(Duration::from_micros(50)),
            (Stakes::Arrival, _) => thread::sleep(Duration::from_micros(500)),
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::DeadlineExceeded(String::new()));
        }
    }
}

/// Cancels requests that use memory of a caller that does not wait any longer. Returns whether MPI
/// has released all of the memory.
pub fn give_up(mpi: &Functions, pending: &mut Vec<Pending>) -> bool {
    // A request that has failed no longer exists.
    pending.retain(|request| request.request != REQUEST_NULL);
    for request in pending
        .iter_mut()
        .filter(|request| request.kind != WaitKind::Collective)
    {
        // SAFETY: the request is one that MPI has returned, and it is not done.
        let _ = unsafe { (mpi.cancel)(&raw mut request.request) };
    }
    let until = Instant::now() + GRACE;
    while !pending.is_empty() && Instant::now() < until {
        pending.retain_mut(|request| {
            let mut done = 0;
            let mut status = MessageStatus::default();
            // SAFETY: as above.
            let code =
                unsafe { (mpi.test)(&raw mut request.request, &raw mut done, &raw mut status) };
            code == super::functions::SUCCESS && done == 0
        });
        thread::yield_now();
    }
    pending.is_empty()
}
