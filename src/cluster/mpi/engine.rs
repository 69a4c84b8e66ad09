//! A communicator over MPI.
//!
//! Every call first meets the other ranks in a small reduction that says which call each of them is in:
//! until all have come, no memory of the caller's is MPI's, so that a rank that does not come is a
//! timeout and nothing worse. Then the bytes go from each to each in messages whose counts fit 32 bits.
//! If ranks are lost amid these, requests are taken back; memory that MPI will not let go of cannot be
//! given back to the caller, so that the job is ended.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::functions::{
    BYTE, COMM_NULL, ERRORS_RETURN, Functions, INT64, MIN, Object, REQUEST_NULL, THREAD_SERIALIZED,
};
use super::waiting::{Pending, Waiting, give_up, wait};
use crate::cluster::communicator::{Communicator, Vote};
use crate::error::{Error, Result};
use crate::executor::fork::Origin;
use crate::observe::log::{self, Level};

/// The most bytes of one message. Tests set less.
pub const LONGEST_MESSAGE: usize = 1 << 30;

/// With how many ranks messages are exchanged at a time.
const PEERS: usize = 32;

/// All messages; those between two ranks keep their order.
const TAG: c_int = 0;

/// How many communicators there are over an MPI that this library has initialised.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// This library has initialised MPI.
static INITIALISED: AtomicBool = AtomicBool::new(false);

/// A rank of MPI's.
pub struct Engine {
    mpi: Functions,
    /// A duplicate, whose messages are nobody else's.
    communicator: Object,
    origin: Origin,
    /// MPI may be called on its main thread alone.
    main_thread_only: bool,
    timeout: Option<Duration>,
    longest_message: usize,
    failed: AtomicBool,
    rank: usize,
    size: usize,
    node_rank: usize,
    node_size: usize,
}

// SAFETY: handles of MPI's are words; the calls are made one at a time, on a thread that MPI allows.
unsafe impl Send for Engine {}
// SAFETY: as above; `CheckedCommunicator` lets one call in at a time.
unsafe impl Sync for Engine {}

/// Which call a rank is in.
#[derive(Clone, Copy)]
enum Call {
    AllToAll = 1,
    AllGather,
    Broadcast,
    Vote,
    Barrier,
}

/// A range of bytes that goes to or comes from a rank.
struct Part<P> {
    peer: usize,
    at: P,
    bytes: usize,
}

impl Engine {
    /// Joins the ranks of `parent`, all of which call this. MPI is initialised if it is not.
    ///
    /// # Safety
    /// `parent` is a communicator of the MPI that `mpi` is of.
    pub unsafe fn join(
        mpi: Functions,
        parent: Object,
        timeout: Option<Duration>,
        longest_message: usize,
    ) -> Result<Engine> {
        initialise(&mpi)?;
        let main_thread_only = main_thread_only(&mpi)?;
        LIVE.fetch_add(1, Ordering::SeqCst);
        let mut engine = Engine {
            mpi,
            communicator: COMM_NULL,
            origin: Origin::here(),
            main_thread_only,
            timeout,
            longest_message,
            failed: AtomicBool::new(true),
            rank: 0,
            size: 1,
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
    unsafe fn duplicate(&mut self, parent: Object) -> Result<()> {
        self.check_thread()?;
        let mpi = self.mpi;
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
            self.wait_for(vec![Pending::collective(request)], Waiting::Arrival, self.deadline())
                .map_err(|failure| failure.explain(self, "while the communicator was made"))?;
            let copy = *Box::from_raw(place);
            mpi.check((mpi.comm_set_errhandler)(copy, ERRORS_RETURN), "MPI_Comm_set_errhandler")?;
            self.communicator = copy;
        }
        Ok(())
    }

    /// Where this rank stands, also among those of its machine.
    fn find_place(&mut self) -> Result<()> {
        let mpi = self.mpi;
        let (mut rank, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: the communicator is one.
        unsafe {
            mpi.check((mpi.comm_rank)(self.communicator, &raw mut rank), "MPI_Comm_rank")?;
            mpi.check((mpi.comm_size)(self.communicator, &raw mut size), "MPI_Comm_size")?;
        }
        let natural = |number| {
            usize::try_from(number)
                .map_err(|_| Error::Unavailable(format!("MPI gives the rank or size {number}")))
        };
        (self.rank, self.size) = (natural(rank)?, natural(size)?);
        let machines = self.machines()?;
        let same = |rank: &usize| machines[*rank] == machines[self.rank];
        self.node_rank = (0..self.rank).filter(same).count();
        self.node_size = (0..self.size).filter(same).count();
        Ok(())
    }

    /// The number of each rank's machine.
    fn machines(&self) -> Result<Vec<u64>> {
        let own = Box::leak(Box::new(self.mpi.machine()?));
        let all = Box::leak(vec![0_u64; self.size].into_boxed_slice());
        let mut request = REQUEST_NULL;
        let bytes = size_of::<u64>() as c_int;
        // SAFETY: there is room for a number of each rank, and all of it stays until the call is done.
        unsafe {
            let code = (self.mpi.iallgather)(
                ptr::from_ref(own).cast(),
                bytes,
                BYTE,
                all.as_mut_ptr().cast(),
                bytes,
                BYTE,
                self.communicator,
                &raw mut request,
            );
            self.mpi.check(code, "MPI_Iallgather")?;
        }
        self.wait_for(vec![Pending::collective(request)], Waiting::Arrival, self.deadline())
            .map_err(|failure| failure.explain(self, "while the communicator was made"))?;
        // SAFETY: both were leaked above, and MPI is done with them.
        let all = unsafe {
            drop(Box::from_raw(own));
            Box::from_raw(all)
        };
        Ok(all.into_vec())
    }

    fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    fn wait_for(
        &self,
        mut pending: Vec<Pending>,
        waiting: Waiting,
        deadline: Option<Instant>,
    ) -> Result<(), Failure> {
        wait(&self.mpi, &mut pending, waiting, deadline).map_err(|error| Failure { error, pending })
    }

    /// Runs a call; after one that has failed MPI is left alone.
    fn call<T>(&self, call: impl FnOnce(Option<Instant>) -> Result<T>) -> Result<T> {
        self.failed.store(true, Ordering::Relaxed);
        let result = call(self.deadline())?;
        self.failed.store(false, Ordering::Relaxed);
        Ok(result)
    }

    /// Meets the other ranks in a call, and finds the least and the greatest of their numbers.
    fn meet(&self, call: Call, number: i64, deadline: Option<Instant>) -> Result<Vote> {
        // The least of a number with all bits turned is that of the greatest number.
        let call = call as i64;
        let numbers = Box::leak(Box::new([call, !call, number, !number, 0, 0, 0, 0]));
        let mut request = REQUEST_NULL;
        // SAFETY: four numbers are read, and four others written; they stay until the call is done.
        unsafe {
            let send = numbers.as_ptr();
            let receive = numbers.as_mut_ptr().add(4);
            let code = (self.mpi.iallreduce)(
                send.cast(),
                receive.cast(),
                4,
                INT64,
                MIN,
                self.communicator,
                &raw mut request,
            );
            self.mpi.check(code, "MPI_Iallreduce")?;
        }
        self.wait_for(vec![Pending::collective(request)], Waiting::Arrival, deadline)
            .map_err(|failure| failure.explain(self, "for all ranks to come"))?;
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
                self.rank,
                named(call),
                named(least),
                named(greatest)
            )));
        }
        Ok(Vote { least: numbers[6], greatest: !numbers[7] })
    }

    /// As [`Engine::meet`], where the number has to be the same on all ranks.
    fn meet_over(
        &self,
        call: Call,
        number: i64,
        what: &str,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let vote = self.meet(call, number, deadline)?;
        if vote.least == vote.greatest {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "ranks disagree about {what}: rank {} has {number}, others have {} to {}",
            self.rank, vote.least, vote.greatest
        )))
    }

    /// Moves parts to and from other ranks, those of `PEERS` ranks at a time. `sends` and `receives` are
    /// in such an order that what one rank sends in a round another receives in the same.
    ///
    /// # Safety
    /// The parts lie in memory that may be read, and written, until this returns.
    unsafe fn exchange(
        &self,
        sends: &[Part<*const u8>],
        receives: &[Part<*mut u8>],
        deadline: Option<Instant>,
    ) -> Result<()> {
        for round in 0..sends.len().max(receives.len()).div_ceil(PEERS) {
            let of = |length: usize| (round * PEERS).min(length)..((round + 1) * PEERS).min(length);
            let mut pending = Vec::new();
            let begun = receives[of(receives.len())]
                .iter()
                // SAFETY: the caller's promise.
                .try_for_each(|part| unsafe { self.begin_receive(part, &mut pending) })
                .and_then(|()| {
                    sends[of(sends.len())]
                        .iter()
                        // SAFETY: as above.
                        .try_for_each(|part| unsafe { self.begin_send(part, &mut pending) })
                });
            match begun {
                Ok(()) => self.wait_for(pending, Waiting::Transfer, deadline),
                Err(error) => Err(Failure { error, pending }),
            }
            .map_err(|failure| failure.let_go(self))?;
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Engine::exchange`].
    unsafe fn begin_receive(&self, part: &Part<*mut u8>, pending: &mut Vec<Pending>) -> Result<()> {
        let mut done = 0;
        while done < part.bytes {
            let bytes = (part.bytes - done).min(self.longest_message);
            let mut request = REQUEST_NULL;
            // SAFETY: the caller's promise.
            let code = unsafe {
                (self.mpi.irecv)(
                    part.at.add(done).cast::<c_void>(),
                    bytes as c_int,
                    BYTE,
                    part.peer as c_int,
                    TAG,
                    self.communicator,
                    &raw mut request,
                )
            };
            self.mpi.check(code, format_args!("receiving from rank {}", part.peer))?;
            pending.push(Pending::receive(request, bytes));
            done += bytes;
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Engine::exchange`].
    unsafe fn begin_send(&self, part: &Part<*const u8>, pending: &mut Vec<Pending>) -> Result<()> {
        let mut done = 0;
        while done < part.bytes {
            let bytes = (part.bytes - done).min(self.longest_message);
            let mut request = REQUEST_NULL;
            // SAFETY: the caller's promise.
            let code = unsafe {
                (self.mpi.isend)(
                    part.at.add(done).cast::<c_void>(),
                    bytes as c_int,
                    BYTE,
                    part.peer as c_int,
                    TAG,
                    self.communicator,
                    &raw mut request,
                )
            };
            self.mpi.check(code, format_args!("sending to rank {}", part.peer))?;
            pending.push(Pending::send(request));
            done += bytes;
        }
        Ok(())
    }

    /// The other ranks in the order in which this one sends to them; it receives in the opposite one.
    fn others(&self) -> impl Iterator<Item = usize> {
        let (rank, size) = (self.rank, self.size);
        (1..size).map(move |step| (rank + step) % size)
    }

    fn others_before(&self) -> impl Iterator<Item = usize> {
        let (rank, size) = (self.rank, self.size);
        (1..size).map(move |step| (rank + size - step) % size)
    }

    /// Parts of `receive` for the ranks to receive from, and the place of this rank's own.
    fn incoming(
        &self,
        receive: &mut [u8],
        counts: &[usize],
    ) -> Result<(Vec<Part<*mut u8>>, usize)> {
        let starts = starts_of(counts)?;
        let base = receive.as_mut_ptr();
        let part = |peer: usize| Part {
            peer,
            // Within the slice: the counts add up to its length.
            at: base.wrapping_add(starts[peer]),
            bytes: counts[peer],
        };
        let mut parts = Vec::new();
        reserve(&mut parts, self.size)?;
        parts.extend(self.others_before().map(part));
        Ok((parts, starts[self.rank]))
    }
}

/// Where each part begins.
fn starts_of(counts: &[usize]) -> Result<Vec<usize>> {
    let mut starts = Vec::new();
    reserve(&mut starts, counts.len())?;
    starts.extend(counts.iter().scan(0, |at, &count| {
        let start = *at;
        *at += count;
        Some(start)
    }));
    Ok(starts)
}

fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result<()> {
    list.try_reserve_exact(count)
        .map_err(|error| Error::ResourceExhausted(format!("a list of {count} ranks: {error}")))
}

/// Why a wait has failed, and what MPI still has.
struct Failure {
    error: Error,
    pending: Vec<Pending>,
}

impl Failure {
    /// Where all memory that MPI still has is this library's, which leaves it to MPI.
    fn explain(self, engine: &Engine, when: &str) -> Error {
        match self.error {
            Error::DeadlineExceeded(_) => Error::DeadlineExceeded(format!(
                "rank {} has waited {:?} {when}",
                engine.rank,
                engine.timeout.unwrap_or_default()
            )),
            error => error,
        }
    }

    /// Where it is the caller's, which goes on with it.
    fn let_go(mut self, engine: &Engine) -> Error {
        let free = give_up(&engine.mpi, &mut self.pending);
        let error =
            self.explain(engine, "for bytes of other ranks, all of which had come to the call");
        if !free {
            log::log(Level::Error, || {
                format!(
                    "{error}; MPI does not let go of the memory that was to be moved: the job is ended"
                )
            });
            // SAFETY: the communicator is one. MPI ends the process.
            unsafe { (engine.mpi.abort)(engine.communicator, 1) };
        }
        error
    }
}

impl Communicator for Engine {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn node_rank(&self) -> usize {
        self.node_rank
    }

    fn node_size(&self) -> usize {
        self.node_size
    }

    fn check_thread(&self) -> Result<()> {
        let mut main = 0;
        if self.main_thread_only {
            // SAFETY: it may be called on any thread.
            let code = unsafe { (self.mpi.is_thread_main)(&raw mut main) };
            self.mpi.check(code, "MPI_Is_thread_main")?;
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
            let starts = starts_of(send_counts)?;
            let (receives, own) = self.incoming(receive, receive_counts)?;
            let mut sends = Vec::new();
            reserve(&mut sends, self.size)?;
            sends.extend(self.others().map(|peer| Part {
                peer,
                at: send[starts[peer]..].as_ptr(),
                bytes: send_counts[peer],
            }));
            self.meet(Call::AllToAll, 0, deadline)?;
            // SAFETY: the parts lie in the slices, and are apart.
            unsafe { self.exchange(&sends, &receives, deadline) }?;
            let count = send_counts[self.rank];
            let from = &send[starts[self.rank]..][..count];
            receive[own..][..count].copy_from_slice(from);
            Ok(())
        })
    }

    fn all_gather(&self, send: &[u8], receive: &mut [u8], counts: &[usize]) -> Result<()> {
        self.call(|deadline| {
            let total = receive.len() as i64;
            let (receives, own) = self.incoming(receive, counts)?;
            let mut sends = Vec::new();
            reserve(&mut sends, self.size)?;
            sends.extend(self.others().map(|peer| Part {
                peer,
                at: send.as_ptr(),
                bytes: send.len(),
            }));
            self.meet_over(Call::AllGather, total, "how many bytes are gathered", deadline)?;
            // SAFETY: as above.
            unsafe { self.exchange(&sends, &receives, deadline) }?;
            receive[own..][..send.len()].copy_from_slice(send);
            Ok(())
        })
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        self.call(|deadline| {
            let total = bytes.len() as i64;
            self.meet_over(Call::Broadcast, total, "how many bytes are sent to all", deadline)?;
            for piece in bytes.chunks_mut(self.longest_message) {
                let mut request = REQUEST_NULL;
                // SAFETY: the piece stays until the call is done, or the job is.
                let code = unsafe {
                    (self.mpi.ibcast)(
                        piece.as_mut_ptr().cast(),
                        piece.len() as c_int,
                        BYTE,
                        root as c_int,
                        self.communicator,
                        &raw mut request,
                    )
                };
                self.mpi.check(code, "MPI_Ibcast")?;
                self.wait_for(vec![Pending::collective(request)], Waiting::Transfer, deadline)
                    .map_err(|failure| failure.let_go(self))?;
            }
            Ok(())
        })
    }

    fn vote(&self, number: i64) -> Result<Vote> {
        self.call(|deadline| self.meet(Call::Vote, number, deadline))
    }

    fn barrier(&self) -> Result<()> {
        self.call(|deadline| self.meet(Call::Barrier, 0, deadline).map(drop))
    }

    fn abort(&self, error: &Error) {
        log::log(Level::Error, || format!("rank {} ends the job: {error}", self.rank));
        self.failed.store(true, Ordering::Relaxed);
        // SAFETY: the communicator is one. MPI ends the process.
        unsafe { (self.mpi.abort)(self.communicator, 1) };
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            return;
        }
        let last = LIVE.fetch_sub(1, Ordering::SeqCst) == 1;
        // Freeing and finalising are calls of all ranks, which after a failure would not come.
        if *self.failed.get_mut() || self.check_thread().is_err() || is_over(&self.mpi) {
            return;
        }
        // SAFETY: the communicator is this one's own, and MPI was neither finalised nor called elsewhere.
        unsafe {
            let _ = (self.mpi.comm_free)(&raw mut self.communicator);
            if last && INITIALISED.load(Ordering::SeqCst) {
                let _ = (self.mpi.finalize)();
            }
        }
    }
}

fn is_over(mpi: &Functions) -> bool {
    let mut finalised = 0;
    // SAFETY: it may be called at any time.
    unsafe { (mpi.finalized)(&raw mut finalised) != 0 || finalised != 0 }
}

fn initialise(mpi: &Functions) -> Result<()> {
    let (mut initialised, mut provided) = (0, 0);
    // SAFETY: these may be called at any time; MPI is initialised once.
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
            "MPI was finalised already, which happens once in a process; make the communicator once and \
             keep it",
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
