//! A communicator over MPI.
//!
//! Every call first synchronises the ranks by a small reduction, which also compares which call
//! each of them is in. Until all ranks have come, MPI holds no memory of the caller's, so that a
//! rank that does not come only causes a timeout. Then the bytes go from each rank to each rank, in
//! messages whose counts fit in 32 bits. If ranks are lost during this, requests are cancelled.
//! Memory that MPI does not release cannot be given back to the caller, so the job is ended then.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::functions::{BYTE, COMM_NULL, ERRORS_RETURN, Functions, INT64, MIN, REQUEST_NULL};
use super::link::{Link, starts_of};
use super::waiting::{Pending, WaitKind};
use super::{MpiObject, lifetime};
use crate::communicator::{Communicator, EngineCall, RankPlace, Vote, check_size};
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};

/// A rank that uses MPI.
pub struct MpiEngine {
    /// The link over a duplicate of the communicator. No other code uses its messages.
    link: Link,
    /// Whether only MPI's main thread may call MPI.
    main_thread_only: bool,
    failed: AtomicBool,
    node_rank: usize,
    node_size: usize,
}

// SAFETY: handles of MPI are words. Only one call is made at a time, on a thread that MPI allows.
unsafe impl Send for MpiEngine {}
// SAFETY: as for `Send`; `CheckedCommunicator` allows only one call at a time.
unsafe impl Sync for MpiEngine {}

/// The names of the calls. Ranks compare the positions in this list.
const CALLS: [&str; 5] = [
    "an all-to-all",
    "an all-gather",
    "a broadcast",
    "a vote",
    "a barrier",
];

impl MpiEngine {
    /// Joins the ranks of `parent`, which all call this. Initialises MPI if it is not initialised.
    ///
    /// # Safety
    /// `parent` is a communicator of the MPI to which `mpi` belongs.
    pub unsafe fn join(
        mpi: Functions,
        parent: MpiObject,
        timeout: Option<Duration>,
        max_message_bytes: usize,
    ) -> Result<MpiEngine> {
        let main_thread_only = lifetime::enter(&mpi)?;
        let mut engine = MpiEngine {
            link: Link {
                mpi,
                communicator: COMM_NULL,
                rank: 0,
                size: 1,
                timeout,
                max_message_bytes,
            },
            main_thread_only,
            failed: AtomicBool::new(true),
            node_rank: 0,
            node_size: 1,
        };
        // SAFETY: the caller's promise.
        unsafe { engine.duplicate(parent) }?;
        engine.find_place()?;
        engine.failed.store(false, Ordering::Relaxed);
        Ok(engine)
    }

    /// # Safety
    /// `parent` is a communicator of MPI.
    unsafe fn duplicate(&mut self, parent: MpiObject) -> Result<()> {
        self.check_thread()?;
        let mpi = self.link.mpi;
        let mut between = 0;
        let mut request = REQUEST_NULL;
        // SAFETY: the caller's promise. The memory for the results lives until the duplicate is
        // made, or until the process ends.
        unsafe {
            mpi.check(
                (mpi.comm_test_inter)(parent, &raw mut between),
                "the communicator",
            )?;
            if between != 0 {
                let problem = "is an intercommunicator; one whose ranks are one group is expected";
                return Err(Error::invalid("communicator", problem));
            }
            let place = Box::leak(Box::new(COMM_NULL));
            let code = (mpi.comm_idup)(parent, ptr::from_mut(place), &raw mut request);
            mpi.check(code, "MPI_Comm_idup")?;
            let made = "while the communicator was made";
            self.link.await_ranks(request, self.link.deadline(), made)?;
            let copy = *Box::from_raw(place);
            mpi.check(
                (mpi.comm_set_errhandler)(copy, ERRORS_RETURN),
                "MPI_Comm_set_errhandler",
            )?;
            self.link.communicator = copy;
        }
        Ok(())
    }

    /// Finds the place of this rank, also among the ranks of its machine.
    fn find_place(&mut self) -> Result<()> {
        let mpi = self.link.mpi;
        let mut rank: c_int = 0;
        let mut size: c_int = 0;
        // SAFETY: the communicator is valid.
        unsafe {
            mpi.check(
                (mpi.comm_rank)(self.link.communicator, &raw mut rank),
                "MPI_Comm_rank",
            )?;
            mpi.check(
                (mpi.comm_size)(self.link.communicator, &raw mut size),
                "MPI_Comm_size",
            )?;
        }
        let natural = |number| {
            usize::try_from(number)
                .map_err(|_| Error::Unavailable(format!("MPI gives the rank or size {number}")))
        };
        (self.link.rank, self.link.size) = (natural(rank)?, natural(size)?);
        check_size(self.link.size)?;
        let machine = mpi.machine()?.to_ne_bytes();
        let mut machines = vec![0; machine.len() * self.link.size];
        self.all_gather(
            &machine,
            &mut machines,
            &vec![machine.len(); self.link.size],
        )?;
        let (machines, _) = machines.as_chunks();
        let same = |rank: &usize| machines[*rank] == machine;
        self.node_rank = (0..self.link.rank).filter(same).count();
        self.node_size = (0..self.link.size).filter(same).count();
        Ok(())
    }

    /// Synchronises the ranks in a call, and finds the least and the greatest of their numbers.
    fn synchronize(&self, call: &str, number: i64, deadline: Option<Instant>) -> Result<Vote> {
        // The least of the inverted numbers is the inverted greatest number.
        let position = CALLS.iter().position(|known| *known == call);
        let of_call = position.unwrap_or(CALLS.len()) as i64;
        let numbers = Box::leak(Box::new([of_call, !of_call, number, !number, 0, 0, 0, 0]));
        let mut request = REQUEST_NULL;
        // SAFETY: four numbers are read, and four others are written. They stay until the call is
        // done.
        unsafe {
            let send = numbers.as_ptr();
            let receive = numbers.as_mut_ptr().add(4);
            let code = (self.link.mpi.iallreduce)(
                send.cast(),
                receive.cast(),
                4,
                INT64,
                MIN,
                self.link.communicator,
                &raw mut request,
            );
            self.link.mpi.check(code, "MPI_Iallreduce")?;
        }
        self.link
            .await_ranks(request, deadline, "for all ranks to come")?;
        // SAFETY: it was leaked in this function, and MPI no longer uses it.
        let numbers = unsafe { Box::from_raw(numbers) };
        let least = numbers[4];
        let greatest = !numbers[5];
        if least != greatest {
            let named = |call: i64| CALLS.get(call as usize).unwrap_or(&"another call");
            return Err(Error::precondition(format!(
                "ranks are in different calls: rank {} in {}, others in {} or {}",
                self.link.rank,
                call,
                named(least),
                named(greatest)
            )));
        }
        Ok(Vote {
            least: numbers[6],
            greatest: !numbers[7],
        })
    }

    /// Like [`MpiEngine::synchronize`], for a number of bytes that must be the same on all ranks.
    fn synchronize_bytes(
        &self,
        call: &str,
        bytes: usize,
        described: &str,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let vote = self.synchronize(call, bytes as i64, deadline)?;
        if vote.least == vote.greatest {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "ranks disagree about how many bytes are {described}: rank {} has {bytes}, others have \
             {} to {}",
            self.link.rank, vote.least, vote.greatest
        )))
    }

    /// Receives a part from each rank, including itself. `sent` returns the bytes that go to a
    /// rank. `synchronize` waits for the other ranks.
    fn exchange<'a>(
        &self,
        sent: impl Fn(usize) -> &'a [u8],
        receive: &mut [u8],
        counts: &[usize],
        deadline: Option<Instant>,
        synchronize: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (receives, own_offset) = self.link.incoming(receive, counts);
        let sends = self.link.outgoing(&sent);
        let from = sent(self.link.rank);
        synchronize()?;
        // SAFETY: the parts lie in the slices, and do not overlap.
        unsafe { self.link.exchange(&sends, &receives, deadline) }?;
        receive[own_offset..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    /// Sends `bytes` of rank `root` to all ranks, in as many messages as their size takes.
    fn broadcast(&self, bytes: &mut [u8], root: usize, deadline: Option<Instant>) -> Result<()> {
        self.synchronize_bytes("a broadcast", bytes.len(), "sent to all", deadline)?;
        for piece in bytes.chunks_mut(self.link.max_message_bytes) {
            let mut request = REQUEST_NULL;
            // SAFETY: the piece stays until the call is done, or the job has ended.
            let code = unsafe {
                (self.link.mpi.ibcast)(
                    piece.as_mut_ptr().cast(),
                    piece.len() as c_int,
                    BYTE,
                    root as c_int,
                    self.link.communicator,
                    &raw mut request,
                )
            };
            self.link.mpi.check(code, "MPI_Ibcast")?;
            self.link.await_bytes(
                vec![Pending {
                    request,
                    kind: WaitKind::Collective,
                }],
                deadline,
            )?;
        }
        Ok(())
    }

    fn carry_out(&self, call: EngineCall<'_>, deadline: Option<Instant>) -> Result<()> {
        match call {
            EngineCall::AllToAll {
                send,
                send_counts,
                receive,
                receive_counts,
            } => {
                let send = send.on_host()?;
                let starts = starts_of(send_counts);
                let sent = |rank: usize| &send[starts[rank]..][..send_counts[rank]];
                self.exchange(sent, receive.on_host()?, receive_counts, deadline, || {
                    self.synchronize("an all-to-all", 0, deadline).map(drop)
                })
            }
            EngineCall::AllGather {
                send,
                receive,
                counts,
            } => {
                let send = send.on_host()?;
                let receive = receive.on_host()?;
                let bytes = receive.len();
                self.exchange(
                    |_| send,
                    receive,
                    counts,
                    deadline,
                    || self.synchronize_bytes("an all-gather", bytes, "gathered", deadline),
                )
            }
            EngineCall::Broadcast { bytes, root } => self.broadcast(bytes, root, deadline),
            EngineCall::Vote(vote) => {
                *vote = self.synchronize("a vote", vote.least, deadline)?;
                Ok(())
            }
            EngineCall::Barrier => self.synchronize("a barrier", 0, deadline).map(drop),
        }
    }
}

impl Communicator for MpiEngine {
    fn place(&self) -> RankPlace {
        let Link { rank, size, .. } = self.link;
        RankPlace {
            rank,
            size,
            node_rank: self.node_rank,
            node_size: self.node_size,
        }
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        // MPI is not called any more after a call has failed.
        self.failed.store(true, Ordering::Relaxed);
        self.carry_out(call, self.link.deadline())?;
        self.failed.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn check_thread(&self) -> Result<()> {
        let mut main = 0;
        if self.main_thread_only {
            // SAFETY: this function may be called on any thread.
            let code = unsafe { (self.link.mpi.is_thread_main)(&raw mut main) };
            self.link.mpi.check(code, "MPI_Is_thread_main")?;
            if main == 0 {
                return Err(Error::precondition(
                    "MPI was initialised for its main thread alone, which this is not; initialise \
                     it with MPI_THREAD_SERIALIZED or more",
                ));
            }
        }
        Ok(())
    }

    fn abort(&self, error: &Error) {
        log::log(Level::Error, || {
            format!("rank {} ends the job: {error}", self.link.rank)
        });
        self.failed.store(true, Ordering::Relaxed);
        self.link.abort();
    }
}

impl Drop for MpiEngine {
    fn drop(&mut self) {
        let finalise = lifetime::leave();
        // Freeing and finalising are collective calls. After a failure the other ranks would not
        // make them.
        if *self.failed.get_mut()
            || self.check_thread().is_err()
            || lifetime::is_over(&self.link.mpi)
        {
            return;
        }
        // SAFETY: the communicator is this engine's own. MPI was not finalised, and no other thread
        // calls it.
        unsafe {
            let _ = (self.link.mpi.comm_free)(&raw mut self.link.communicator);
            if finalise {
                let _ = (self.link.mpi.finalize)();
            }
        }
    }
}
