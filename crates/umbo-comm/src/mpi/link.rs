//! A rank's link to the other ranks. Bytes go in messages whose counts fit in 32 bits, and the link
//! waits for them. If this fails, the link takes the caller's memory back from MPI, or ends the
//! job.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::MpiObject;
use super::functions::{BYTE, Functions, REQUEST_NULL};
use super::waiting::{Pending, Stakes, WaitKind, give_up, wait};
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};

/// The number of ranks with which messages are exchanged at a time.
const PEERS: usize = 32;

/// The tag of all messages. Messages between two ranks keep their order.
const TAG: c_int = 0;

/// A communicator of MPI, and this rank's place in it.
pub struct Link {
    pub mpi: Functions,
    pub communicator: MpiObject,
    pub rank: usize,
    pub size: usize,
    /// The time for which a call waits; `None` means without a limit.
    pub timeout: Option<Duration>,
    pub max_message_bytes: usize,
}

/// A range of bytes that goes to a rank or comes from it.
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
    /// The time at which a call that begins now is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.timeout
            .and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// Waits for other ranks to come to a collective request. All of its memory is this library's.
    /// After a failure that memory belongs to MPI forever.
    pub fn await_ranks(
        &self,
        request: MpiObject,
        deadline: Option<Instant>,
        what_for: &str,
    ) -> Result<()> {
        let mut pending = vec![Pending {
            request,
            kind: WaitKind::Collective,
        }];
        wait(&self.mpi, &mut pending, Stakes::Arrival, deadline)
            .map_err(|error| self.explain(error, what_for))
    }

    /// Waits for requests that move the caller's bytes. When this returns, MPI has released them,
    /// also after a failure, or the job was ended.
    pub fn await_bytes(&self, mut pending: Vec<Pending>, deadline: Option<Instant>) -> Result<()> {
        wait(&self.mpi, &mut pending, Stakes::Transfer, deadline)
            .map_err(|error| self.cancel(error, pending))
    }

    /// The parts to send to the ranks. `bytes_for` returns the bytes for each rank.
    pub fn outgoing<'a>(&self, bytes_for: impl Fn(usize) -> &'a [u8]) -> Vec<MessagePart> {
        let rank = self.rank;
        let size = self.size;
        let parts = (1..size).map(|step| {
            let peer = (rank + step) % size;
            let bytes = bytes_for(peer);
            MessagePart {
                peer,
                memory: LinkMemory::Sent(bytes.as_ptr()),
                bytes: bytes.len(),
            }
        });
        parts.collect()
    }

    /// The parts of `receive` to receive from the ranks, and where this rank's own part begins.
    /// Their order is that in which the parts of [`Link::outgoing`] on the other ranks reach
    /// this rank.
    pub fn incoming(&self, receive: &mut [u8], counts: &[usize]) -> (Vec<MessagePart>, usize) {
        let rank = self.rank;
        let size = self.size;
        let starts = starts_of(counts);
        let base = receive.as_mut_ptr();
        let parts = (1..size).map(|step| {
            let peer = (rank + size - step) % size;
            // This is within the slice, since the counts add up to its length.
            let at = base.wrapping_add(starts[peer]);
            MessagePart {
                peer,
                memory: LinkMemory::Received(at),
                bytes: counts[peer],
            }
        });
        (parts.collect(), starts[rank])
    }

    /// Moves parts to and from other ranks, those of `PEERS` ranks at a time. `sends` and
    /// `receives` have such an order that what one rank sends in a round is received by the
    /// other in the same round.
    ///
    /// # Safety
    /// The parts lie in memory that may be read, or written, until this returns.
    pub unsafe fn exchange(
        &self,
        sends: &[MessagePart],
        receives: &[MessagePart],
        deadline: Option<Instant>,
    ) -> Result<()> {
        for round in 0..sends.len().max(receives.len()).div_ceil(PEERS) {
            let batch_of =
                |length: usize| (round * PEERS).min(length)..((round + 1) * PEERS).min(length);
            let mut pending = Vec::new();
            let begun = receives[batch_of(receives.len())]
                .iter()
                .chain(&sends[batch_of(sends.len())])
                // SAFETY: the caller's promise. This returns only after MPI has released the parts.
                .try_for_each(|part| unsafe { self.begin(part, &mut pending) });
            match begun {
                Ok(()) => self.await_bytes(pending, deadline),
                Err(error) => Err(self.cancel(error, pending)),
            }?;
        }
        Ok(())
    }

    /// Begins to move a part, in as many messages as necessary.
    ///
    /// # Safety
    /// The part lies in memory that may be read, or written, until all that is pending is done or
    /// was released.
    unsafe fn begin(&self, part: &MessagePart, pending: &mut Vec<Pending>) -> Result<()> {
        let Link {
            mpi, communicator, ..
        } = *self;
        let peer = part.peer as c_int;
        let mut done = 0;
        while done < part.bytes {
            let bytes = (part.bytes - done).min(self.max_message_bytes);
            let count = bytes as c_int;
            let mut request = REQUEST_NULL;
            let to = &raw mut request;
            // SAFETY: the caller's promise; `done` and the bytes after it are within the part.
            let (code, moving, kind) = unsafe {
                match part.memory {
                    LinkMemory::Sent(at) => {
                        let at = at.add(done).cast();
                        let code = (mpi.isend)(at, count, BYTE, peer, TAG, communicator, to);
                        (code, "sending to", WaitKind::Send)
                    }
                    LinkMemory::Received(at) => {
                        let at = at.add(done).cast();
                        let code = (mpi.irecv)(at, count, BYTE, peer, TAG, communicator, to);
                        (code, "receiving from", WaitKind::Receive(bytes))
                    }
                }
            };
            mpi.check(code, format_args!("{moving} rank {peer}"))?;
            pending.push(Pending { request, kind });
            done += bytes;
        }
        Ok(())
    }

    /// Takes the memory with which the caller continues back from MPI, or ends the job.
    fn cancel(&self, error: Error, mut pending: Vec<Pending>) -> Error {
        let free = give_up(&self.mpi, &mut pending);
        let error = self.explain(
            error,
            "for bytes of other ranks, all of which had come to the call",
        );
        if !free {
            log::log(Level::Error, || {
                format!(
                    "{error}; MPI does not let go of the memory that was to be moved: the job is \
                     ended"
                )
            });
            self.abort();
        }
        error
    }

    /// Completes the message of a timeout: the wait itself has neither the rank nor the reason.
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
        // SAFETY: the communicator is valid. MPI ends the process.
        unsafe { (self.mpi.abort)(self.communicator, 1) };
    }
}

/// The place where each part begins.
pub fn starts_of(counts: &[usize]) -> Vec<usize> {
    let starts = counts.iter().scan(0, |at, &count| {
        let start = *at;
        *at += count;
        Some(start)
    });
    starts.collect()
}
