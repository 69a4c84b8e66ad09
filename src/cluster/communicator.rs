//! What a strategy over several processes asks of the engine that joins them.
//!
//! A communicator moves bytes and never sums: contributions are added by the library's own kernels in
//! the order of the ranks, so the bits of a result do not depend on the engine, and no engine needs to
//! know a dtype.

use std::fmt;
use std::ops::RangeInclusive;

use crate::device::cuda::memory::DeviceMemory;
use crate::error::{Error, Result};

/// The least and the greatest of what the ranks said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The least number.
    pub least: i64,
    /// The greatest number.
    pub greatest: i64,
}

/// Where a rank stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// Its number, from 0.
    pub rank: usize,
    /// How many ranks there are, at least 1.
    pub size: usize,
    /// Its number among those of its machine, from 0.
    pub node_rank: usize,
    /// How many ranks are on its machine, at least 1.
    pub node_size: usize,
}

/// Bytes that are sent: of the host, or those at the beginning of a GPU's memory.
#[derive(Clone, Copy)]
pub enum Outgoing<'a> {
    /// All of these.
    Host(&'a [u8]),
    /// As many as the counts say.
    Gpu(&'a DeviceMemory),
}

/// Memory that bytes are received into.
pub enum Incoming<'a> {
    /// All of this.
    Host(&'a mut [u8]),
    /// As much of it as the counts say.
    Gpu(&'a mut DeviceMemory),
}

impl<'a> Outgoing<'a> {
    /// How many bytes may be sent from it.
    pub fn sizes(&self) -> RangeInclusive<usize> {
        match self {
            Outgoing::Host(bytes) => bytes.len()..=bytes.len(),
            Outgoing::Gpu(memory) => 0..=memory.bytes(),
        }
    }

    /// The bytes, for an engine that moves no GPU memory.
    pub fn on_host(self) -> Result<&'a [u8]> {
        match self {
            Outgoing::Host(bytes) => Ok(bytes),
            Outgoing::Gpu(_) => Err(moves_no_gpu_memory()),
        }
    }
}

impl<'a> Incoming<'a> {
    /// How many bytes may be received into it.
    pub fn sizes(&self) -> RangeInclusive<usize> {
        match self {
            Incoming::Host(bytes) => bytes.len()..=bytes.len(),
            Incoming::Gpu(memory) => 0..=memory.bytes(),
        }
    }

    /// The memory, for an engine that moves no GPU memory.
    pub fn on_host(self) -> Result<&'a mut [u8]> {
        match self {
            Incoming::Host(bytes) => Ok(bytes),
            Incoming::Gpu(_) => Err(moves_no_gpu_memory()),
        }
    }
}

fn moves_no_gpu_memory() -> Error {
    Error::Internal("an engine that moves no memory of GPUs".into())
}

/// A collective call. Counts are bytes. What a rank does not send or receive is empty, never absent. Both sides of
/// an exchange are on the host, or both on one GPU: then what was queued on the GPU is done before, and what is
/// queued afterwards finds what was received.
pub enum EngineCall<'a> {
    /// Sends a part of `send` to each rank and receives one from each, its own included. The parts lie one behind
    /// the other in rank order, and have the lengths `send_counts` and `receive_counts`.
    AllToAll {
        /// What is sent.
        send: Outgoing<'a>,
        /// The length of the part for each rank.
        send_counts: &'a [usize],
        /// Gets what is received.
        receive: Incoming<'a>,
        /// The length of the part from each rank.
        receive_counts: &'a [usize],
    },
    /// Receives what every rank sends, in rank order.
    AllGather {
        /// What this rank sends.
        send: Outgoing<'a>,
        /// Gets what all ranks send.
        receive: Incoming<'a>,
        /// How much each rank sends, the same on all ranks.
        counts: &'a [usize],
    },
    /// Sends `bytes` of rank `root` to all others, where as many bytes are overwritten.
    Broadcast {
        /// What is sent, or overwritten.
        bytes: &'a mut [u8],
        /// The rank that sends.
        root: usize,
    },
    /// Finds the least and the greatest of the ranks' numbers. Before the call both are this rank's number.
    Vote(&'a mut Vote),
    /// Returns once all ranks have called it.
    Barrier,
}

/// One process among `size`, each of which is a worker with replicas of its own.
///
/// Calls are collective: they return once all ranks have made them, in the same order on each. They are made by one
/// thread at a time. A call that fails, by a timeout, the end of another rank or anything else, leaves the
/// communicator without further use: each later call fails too, and soon.
pub trait Communicator: Send + Sync {
    /// Where this rank stands, which stays the same.
    fn place(&self) -> RankPlace;

    /// Makes a collective call.
    fn call(&self, call: EngineCall<'_>) -> Result<()>;

    /// Fails where the calling thread must not make collective calls. It is asked before each of them,
    /// so that the failure breaks nothing.
    fn check_thread(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the engine moves memory of GPUs, too.
    fn moves_gpu_memory(&self) -> bool {
        false
    }

    /// This rank cannot go on. The engine learns it, so that the others need not wait. It
    /// may end the process, as engines do whose jobs end as one.
    fn abort(&self, error: &Error);

    /// The number of this rank, from 0.
    fn rank(&self) -> usize {
        self.place().rank
    }

    /// How many ranks there are, at least 1.
    fn size(&self) -> usize {
        self.place().size
    }

    /// See [`EngineCall::AllToAll`].
    fn all_to_all(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<()> {
        let (send, receive) = (Outgoing::Host(send), Incoming::Host(receive));
        self.call(EngineCall::AllToAll { send, send_counts, receive, receive_counts })
    }

    /// See [`EngineCall::AllGather`].
    fn all_gather(&self, send: &[u8], receive: &mut [u8], counts: &[usize]) -> Result<()> {
        let (send, receive) = (Outgoing::Host(send), Incoming::Host(receive));
        self.call(EngineCall::AllGather { send, receive, counts })
    }

    /// See [`EngineCall::Broadcast`].
    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        self.call(EngineCall::Broadcast { bytes, root })
    }

    /// The least and the greatest of the ranks' numbers.
    fn vote(&self, number: i64) -> Result<Vote> {
        let mut vote = Vote { least: number, greatest: number };
        self.call(EngineCall::Vote(&mut vote)).map(|()| vote)
    }

    /// Returns once all ranks have called it.
    fn barrier(&self) -> Result<()> {
        self.call(EngineCall::Barrier)
    }
}

/// A process alone, which moves nothing.
pub struct Alone;

impl Communicator for Alone {
    fn place(&self) -> RankPlace {
        RankPlace { rank: 0, size: 1, node_rank: 0, node_size: 1 }
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        if let EngineCall::AllToAll { send, receive, .. }
        | EngineCall::AllGather { send, receive, .. } = call
        {
            receive.on_host()?.copy_from_slice(send.on_host()?);
        }
        Ok(())
    }

    fn abort(&self, _: &Error) {}
}

impl fmt::Debug for dyn Communicator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rank {} of {}", self.rank(), self.size())
    }
}
