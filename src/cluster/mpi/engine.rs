//! A communicator over MPI.
//!
//! Every call first meets the other ranks in a small reduction that says which call each of them is in:
//! until all have come, no memory of the caller's is MPI's, so that a rank that does not come is a
//! timeout and nothing worse. Then the bytes go from each to each in messages whose counts fit 32 bits.
//! If ranks are lost amid these, requests are taken back; memory that MPI will not let go of cannot be
//! given back to the caller, so that the job is ended.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::functions::{
    BYTE, COMM_NULL, ERRORS_RETURN, Functions, INT64, MIN, MpiObject, REQUEST_NULL,
};
use super::lifetime;
use super::link::{Link, starts_of};
use super::waiting::Pending;
use crate::cluster::communicator::{Communicator, RankPlace, Vote};
use crate::error::{Error, Result};
use crate::observe::log::{self, Level};

/// What the ranks wait for before there is a communicator.
const MADE: &str = "while the communicator was made";

/// A rank of MPI's.
pub struct MpiEngine {
    /// Over a duplicate, whose messages are nobody else's.
    link: Link,
    /// MPI may be called on its main thread alone.
    main_thread_only: bool,
    failed: AtomicBool,
    node_rank: usize,
    node_size: usize,
}

// SAFETY: handles of MPI's are words; the calls are made one at a time, on a thread that MPI allows.
unsafe impl Send for MpiEngine {}
// SAFETY: as above; `CheckedCommunicator` lets one call in at a time.
unsafe impl Sync for MpiEngine {}

/// Which call a rank is in.
#[derive(Clone, Copy)]
enum EngineCall {
    AllToAll = 1,
    AllGather,
    Broadcast,
    Vote,
    Barrier,
}

impl MpiEngine {
    /// Joins the ranks of `parent`, all of which call this. MPI is initialised if it is not.
    ///
    /// # Safety
    /// `parent` is a communicator of the MPI that `mpi` is of.
    pub unsafe fn join(
        mpi: Functions,
        parent: MpiObject,
        timeout: Option<Duration>,
        max_message_bytes: usize,
    ) -> Result<MpiEngine> {
        let main_thread_only = lifetime::enter(&mpi)?;
        let (communicator, rank, size) = (COMM_NULL, 0, 1);
        let mut engine = MpiEngine {
            link: Link { mpi, communicator, rank, size, timeout, max_message_bytes },
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
    /// `parent` is a communicator of MPI's.
    unsafe fn duplicate(&mut self, parent: MpiObject) -> Result<()> {
        self.check_thread()?;
        let mpi = self.link.mpi;
        let (mut between, mut request) = (0, REQUEST_NULL);
        // SAFETY: the caller's promise; the places for the results live until the duplicate is made, or
        // for good.
        unsafe {
            mpi.check((mpi.comm_test_inter)(parent, &raw mut between), "the communicator")?;
            if between != 0 {
                let problem = "is an intercommunicator; one whose ranks are one group is expected";
                return Err(Error::invalid("communicator", problem));
            }
            let place = Box::leak(Box::new(COMM_NULL));
            let code = (mpi.comm_idup)(parent, ptr::from_mut(place), &raw mut request);
            mpi.check(code, "MPI_Comm_idup")?;
            self.link.await_ranks(request, self.link.deadline(), MADE)?;
            let copy = *Box::from_raw(place);
            mpi.check((mpi.comm_set_errhandler)(copy, ERRORS_RETURN), "MPI_Comm_set_errhandler")?;
            self.link.communicator = copy;
        }
        Ok(())
    }

    /// Where this rank stands, also among those of its machine.
    fn find_place(&mut self) -> Result<()> {
        let mpi = self.link.mpi;
        let (mut rank, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: the communicator is one.
        unsafe {
            mpi.check((mpi.comm_rank)(self.link.communicator, &raw mut rank), "MPI_Comm_rank")?;
            mpi.check((mpi.comm_size)(self.link.communicator, &raw mut size), "MPI_Comm_size")?;
        }
        let natural = |number| {
            usize::try_from(number)
                .map_err(|_| Error::Unavailable(format!("MPI gives the rank or size {number}")))
        };
        (self.link.rank, self.link.size) = (natural(rank)?, natural(size)?);
        let machines = self.machines()?;
        let same = |rank: &usize| machines[*rank] == machines[self.link.rank];
        self.node_rank = (0..self.link.rank).filter(same).count();
        self.node_size = (0..self.link.size).filter(same).count();
        Ok(())
    }

    /// The number of each rank's machine.
    fn machines(&self) -> Result<Vec<u64>> {
        let own = Box::leak(Box::new(self.link.mpi.machine()?));
        let all = Box::leak(vec![0_u64; self.link.size].into_boxed_slice());
        let mut request = REQUEST_NULL;
        let bytes = size_of::<u64>() as c_int;
        // SAFETY: there is room for a number of each rank, and all of it stays until the call is done.
        unsafe {
            let code = (self.link.mpi.iallgather)(
                ptr::from_ref(own).cast(),
                bytes,
                BYTE,
                all.as_mut_ptr().cast(),
                bytes,
                BYTE,
                self.link.communicator,
                &raw mut request,
            );
            self.link.mpi.check(code, "MPI_Iallgather")?;
        }
        self.link.await_ranks(request, self.link.deadline(), MADE)?;
        // SAFETY: both were leaked above, and MPI is done with them.
        let all = unsafe {
            drop(Box::from_raw(own));
            Box::from_raw(all)
        };
        Ok(all.into_vec())
    }

    /// Runs a call; after one that has failed MPI is left alone.
    fn call<T>(&self, call: impl FnOnce(Option<Instant>) -> Result<T>) -> Result<T> {
        self.failed.store(true, Ordering::Relaxed);
        let result = call(self.link.deadline())?;
        self.failed.store(false, Ordering::Relaxed);
        Ok(result)
    }

    /// Meets the other ranks in a call, and finds the least and the greatest of their numbers.
    fn synchronize(
        &self,
        call: EngineCall,
        number: i64,
        deadline: Option<Instant>,
    ) -> Result<Vote> {
        // The least of a number with all bits turned is that of the greatest number.
        let call = call as i64;
        let numbers = Box::leak(Box::new([call, !call, number, !number, 0, 0, 0, 0]));
        let mut request = REQUEST_NULL;
        // SAFETY: four numbers are read, and four others written; they stay until the call is done.
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
        self.link.await_ranks(request, deadline, "for all ranks to come")?;
        // SAFETY: it was leaked above, and MPI is done with it.
        let numbers = unsafe { Box::from_raw(numbers) };
        let (least, greatest) = (numbers[4], !numbers[5]);
        if least != greatest {
            let named = |call: i64| match call {
                1 => "an all-to-all",
                2 => "an all-gather",
                3 => "a broadcast",
                4 => "a vote",
                _ => "a barrier",
            };
            return Err(Error::precondition(format!(
                "ranks are in different calls: rank {} in {}, others in {} or {}",
                self.link.rank,
                named(call),
                named(least),
                named(greatest)
            )));
        }
        Ok(Vote { least: numbers[6], greatest: !numbers[7] })
    }

    /// As [`MpiEngine::synchronize`], where the number has to be the same on all ranks.
    fn synchronize_equal(
        &self,
        call: EngineCall,
        number: i64,
        what: &str,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let vote = self.synchronize(call, number, deadline)?;
        if vote.least == vote.greatest {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "ranks disagree about {what}: rank {} has {number}, others have {} to {}",
            self.link.rank, vote.least, vote.greatest
        )))
    }
}

impl Communicator for MpiEngine {
    fn place(&self) -> RankPlace {
        let Link { rank, size, .. } = self.link;
        RankPlace { rank, size, node_rank: self.node_rank, node_size: self.node_size }
    }

    fn check_thread(&self) -> Result<()> {
        let mut main = 0;
        if self.main_thread_only {
            // SAFETY: it may be called on any thread.
            let code = unsafe { (self.link.mpi.is_thread_main)(&raw mut main) };
            self.link.mpi.check(code, "MPI_Is_thread_main")?;
            if main == 0 {
                return Err(Error::precondition(
                    "MPI was initialised for its main thread alone, which this is not; initialise it with \
                     MPI_THREAD_SERIALIZED or more",
                ));
            }
        }
        Ok(())
    }

    fn all_to_all(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<()> {
        self.call(|deadline| {
            let starts = starts_of(send_counts);
            let (receives, own) = self.link.incoming(receive, receive_counts);
            let sent = |rank: usize| &send[starts[rank]..][..send_counts[rank]];
            let sends = self.link.outgoing(sent);
            self.synchronize(EngineCall::AllToAll, 0, deadline)?;
            // SAFETY: the parts lie in the slices, and are apart.
            unsafe { self.link.exchange(&sends, &receives, deadline) }?;
            let from = sent(self.link.rank);
            receive[own..][..from.len()].copy_from_slice(from);
            Ok(())
        })
    }

    fn all_gather(&self, send: &[u8], receive: &mut [u8], counts: &[usize]) -> Result<()> {
        self.call(|deadline| {
            let total = receive.len() as i64;
            let (receives, own) = self.link.incoming(receive, counts);
            let sends = self.link.outgoing(|_| send);
            self.synchronize_equal(
                EngineCall::AllGather,
                total,
                "how many bytes are gathered",
                deadline,
            )?;
            // SAFETY: as above.
            unsafe { self.link.exchange(&sends, &receives, deadline) }?;
            receive[own..][..send.len()].copy_from_slice(send);
            Ok(())
        })
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        self.call(|deadline| {
            let total = bytes.len() as i64;
            self.synchronize_equal(
                EngineCall::Broadcast,
                total,
                "how many bytes are sent to all",
                deadline,
            )?;
            for piece in bytes.chunks_mut(self.link.max_message_bytes) {
                let mut request = REQUEST_NULL;
                // SAFETY: the piece stays until the call is done, or the job is.
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
                self.link.await_bytes(vec![Pending::collective(request)], deadline)?;
            }
            Ok(())
        })
    }

    fn vote(&self, number: i64) -> Result<Vote> {
        self.call(|deadline| self.synchronize(EngineCall::Vote, number, deadline))
    }

    fn barrier(&self) -> Result<()> {
        self.call(|deadline| self.synchronize(EngineCall::Barrier, 0, deadline).map(drop))
    }

    fn abort(&self, error: &Error) {
        log::log(Level::Error, || format!("rank {} ends the job: {error}", self.link.rank));
        self.failed.store(true, Ordering::Relaxed);
        self.link.abort();
    }
}

impl Drop for MpiEngine {
    fn drop(&mut self) {
        let finalise = lifetime::leave();
        // Freeing and finalising are calls of all ranks, which after a failure would not come.
        if *self.failed.get_mut()
            || self.check_thread().is_err()
            || lifetime::is_over(&self.link.mpi)
        {
            return;
        }
        // SAFETY: the communicator is this one's own, and MPI was neither finalised nor called elsewhere.
        unsafe {
            let _ = (self.link.mpi.comm_free)(&raw mut self.link.communicator);
            if finalise {
                let _ = (self.link.mpi.finalize)();
            }
        }
    }
}
