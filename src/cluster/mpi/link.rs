//! A rank's link to the others: bytes go in messages whose counts fit 32 bits, and are waited for. When
//! that fails, memory of the caller's is taken back from MPI, or the job is ended.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::functions::{BYTE, Functions, MpiObject, REQUEST_NULL};
use super::waiting::{Pending, Stakes, give_up, wait};
use crate::error::{Error, Result};
use crate::observe::log::{self, Level};

/// The most bytes of one message. Tests set less.
pub const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// With how many ranks messages are exchanged at a time.
const PEERS: usize = 32;

/// All messages; those between two ranks keep their order.
const TAG: c_int = 0;

/// A communicator of MPI's, and this rank's place in it.
pub struct Link {
    pub mpi: Functions,
    pub communicator: MpiObject,
    pub rank: usize,
    pub size: usize,
    /// How long a call waits; for ever without one.
    pub timeout: Option<Duration>,
    pub max_message_bytes: usize,
}

/// A range of bytes that goes to or comes from a rank.
pub struct MessagePart {
    peer: usize,
    memory: LinkMemory,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum LinkMemory {
    Sent(*const u8),
    Received(*mut u8),
}

impl Link {
    /// When a call that begins now is to be given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// Waits for other ranks to come to a collective request, all of whose memory is this library's. After
    /// a failure that memory is MPI's for good.
    pub fn await_ranks(
        &self,
        request: MpiObject,
        deadline: Option<Instant>,
        what_for: &str,
    ) -> Result<()> {
        let mut pending = vec![Pending::collective(request)];
        wait(&self.mpi, &mut pending, Stakes::Arrival, deadline)
            .map_err(|error| self.explain(error, what_for))
    }

    /// Waits for requests that move the caller's bytes. When this returns, MPI has let go of them, also after
    /// a failure, or the job was ended.
    pub fn await_bytes(&self, mut pending: Vec<Pending>, deadline: Option<Instant>) -> Result<()> {
        wait(&self.mpi, &mut pending, Stakes::Transfer, deadline)
            .map_err(|error| self.let_go(error, pending))
    }

    /// Parts for the ranks to send to, each of the bytes that `of` has for the rank.
    pub fn outgoing<'a>(&self, of: impl Fn(usize) -> &'a [u8]) -> Vec<MessagePart> {
        let (rank, size) = (self.rank, self.size);
        let parts = (1..size).map(|step| {
            let peer = (rank + step) % size;
            let bytes = of(peer);
            MessagePart { peer, memory: LinkMemory::Sent(bytes.as_ptr()), bytes: bytes.len() }
        });
        parts.collect()
    }

    /// Parts of `receive` for the ranks to receive from, in the order in which [`Link::outgoing`] of the
    /// others comes to this rank, and the place of this rank's own.
    pub fn incoming(&self, receive: &mut [u8], counts: &[usize]) -> (Vec<MessagePart>, usize) {
        let (rank, size) = (self.rank, self.size);
        let starts = starts_of(counts);
        let base = receive.as_mut_ptr();
        let parts = (1..size).map(|step| {
            let peer = (rank + size - step) % size;
            // Within the slice: the counts add up to its length.
            let at = base.wrapping_add(starts[peer]);
            MessagePart { peer, memory: LinkMemory::Received(at), bytes: counts[peer] }
        });
        (parts.collect(), starts[rank])
    }

    /// Moves parts to and from other ranks, those of `PEERS` ranks at a time. `sends` and `receives` are
    /// in such an order that what one rank sends in a round another receives in the same.
    ///
    /// # Safety
    /// The parts lie in memory that may be read, and written, until this returns.
    pub unsafe fn exchange(
        &self,
        sends: &[MessagePart],
        receives: &[MessagePart],
        deadline: Option<Instant>,
    ) -> Result<()> {
        for round in 0..sends.len().max(receives.len()).div_ceil(PEERS) {
            let of = |length: usize| (round * PEERS).min(length)..((round + 1) * PEERS).min(length);
            let mut pending = Vec::new();
            let begun = receives[of(receives.len())]
                .iter()
                .chain(&sends[of(sends.len())])
                // SAFETY: the caller's promise; nothing is returned before MPI has let go of the parts.
                .try_for_each(|part| unsafe { self.begin(part, &mut pending) });
            match begun {
                Ok(()) => self.await_bytes(pending, deadline),
                Err(error) => Err(self.let_go(error, pending)),
            }?;
        }
        Ok(())
    }

    /// Begins to move a part, in as many messages as it takes.
    ///
    /// # Safety
    /// The part lies in memory that may be read, or written, until all that is pending is done or was let
    /// go of.
    unsafe fn begin(&self, part: &MessagePart, pending: &mut Vec<Pending>) -> Result<()> {
        let Link { mpi, communicator, .. } = *self;
        let peer = part.peer as c_int;
        let mut done = 0;
        while done < part.bytes {
            let bytes = (part.bytes - done).min(self.max_message_bytes);
            let count = bytes as c_int;
            let mut request = REQUEST_NULL;
            let to = &raw mut request;
            // SAFETY: the caller's promise; `done` and the bytes behind it are within the part.
            let (code, moving) = unsafe {
                match part.memory {
                    LinkMemory::Sent(at) => {
                        let at = at.add(done).cast();
                        ((mpi.isend)(at, count, BYTE, peer, TAG, communicator, to), "sending to")
                    }
                    LinkMemory::Received(at) => {
                        let at = at.add(done).cast();
                        let code = (mpi.irecv)(at, count, BYTE, peer, TAG, communicator, to);
                        (code, "receiving from")
                    }
                }
            };
            mpi.check(code, format_args!("{moving} rank {peer}"))?;
            pending.push(match part.memory {
                LinkMemory::Sent(_) => Pending::send(request),
                LinkMemory::Received(_) => Pending::receive(request, bytes),
            });
            done += bytes;
        }
        Ok(())
    }

    /// Takes the caller's memory back from MPI, with which the caller goes on.
    fn let_go(&self, error: Error, mut pending: Vec<Pending>) -> Error {
        let free = give_up(&self.mpi, &mut pending);
        let error =
            self.explain(error, "for bytes of other ranks, all of which had come to the call");
        if !free {
            log::log(Level::Error, || {
                format!(
                    "{error}; MPI does not let go of the memory that was to be moved: the job is ended"
                )
            });
            self.abort();
        }
        error
    }

    /// A wait knows neither whose it was nor what for.
    fn explain(&self, error: Error, what_for: &str) -> Error {
        match error {
            Error::DeadlineExceeded(_) => Error::DeadlineExceeded(format!(
                "rank {} has waited {:?} {what_for}",
                self.rank,
                self.timeout.unwrap_or_default()
            )),
            error => error,
        }
    }

    /// Ends the job.
    pub fn abort(&self) {
        // SAFETY: the communicator is one. MPI ends the process.
        unsafe { (self.mpi.abort)(self.communicator, 1) };
    }
}

/// Where each part begins.
pub fn starts_of(counts: &[usize]) -> Vec<usize> {
    let starts = counts.iter().scan(0, |at, &count| {
        let start = *at;
        *at += count;
        Some(start)
    });
    starts.collect()
}
