//! The requirements of a strategy over several processes on the engine that connects them.
//!
//! A communicator moves bytes and never sums. The library's own kernels add contributions in the
//! order of the ranks, so the bits of a result do not depend on the engine, and no engine needs
//! dtypes.

use std::fmt;
use std::ops::{Deref, RangeInclusive};

use umbo_base::error::{Error, Result, memory};
use umbo_device::memory::DeviceMemory;

/// The most ranks of a training. Each rank keeps some words for every other one, and sends them in
/// each collective.
const MAX_RANKS: usize = 65_536;

/// Refuses more ranks than there may be. Until then no list with a word for each rank is made.
pub(crate) fn check_size(size: usize) -> Result<()> {
    match size > MAX_RANKS {
        true => Err(invalid!(
            "rank_count",
            "{size}; at most {MAX_RANKS} ranks are supported"
        )),
        false => Ok(()),
    }
}

/// The least and the greatest of the ranks' numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The least number.
    pub least: i64,
    /// The greatest number.
    pub greatest: i64,
}

/// The place of a rank among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// Its rank, from 0.
    pub rank: usize,
    /// The number of ranks, at least 1.
    pub size: usize,
    /// Its rank among the ranks of its machine, from 0.
    pub node_rank: usize,
    /// The number of ranks that are on its machine, at least 1.
    pub node_size: usize,
}

/// Memory of the host, or of a device whose memory the host cannot address.
#[derive(Clone, Copy)]
pub enum EngineMemory<H, D> {
    /// All of these bytes of the host.
    Host(H),
    /// The first bytes of this memory of a device, as many as the counts say.
    Device(D),
}

/// Bytes to send.
pub type Outgoing<'a> = EngineMemory<&'a [u8], &'a DeviceMemory>;

/// Memory that bytes are received into.
pub type Incoming<'a> = EngineMemory<&'a mut [u8], &'a mut DeviceMemory>;

impl<H: Deref<Target = [u8]>, D: Deref<Target = DeviceMemory>> EngineMemory<H, D> {
    /// The number of bytes that may be moved from it or into it.
    pub fn sizes(&self) -> RangeInclusive<usize> {
        match self {
            EngineMemory::Host(bytes) => bytes.len()..=bytes.len(),
            EngineMemory::Device(memory) => 0..=memory.bytes(),
        }
    }

    /// The memory of the host, for an engine that cannot move memory of devices.
    pub fn on_host(self) -> Result<H> {
        match self {
            EngineMemory::Host(bytes) => Ok(bytes),
            EngineMemory::Device(_) => Err(Error::Internal(
                "an engine that moves no memory of devices".into(),
            )),
        }
    }
}

/// A collective call. Counts are bytes. If a rank sends or receives nothing, that part is empty,
/// never absent. Both sides of an exchange are on the host, or both are on one device. In the
/// second case, work that was queued on the device before is done before the exchange, and work
/// that is queued afterwards sees the received bytes.
pub enum EngineCall<'a> {
    /// Sends a part of `send` to each rank and receives a part from each rank, including itself.
    /// The parts lie one after the other in rank order, and have the lengths `send_counts` and
    /// `receive_counts`.
    AllToAll {
        /// The bytes to send.
        send: Outgoing<'a>,
        /// The length of the part for each rank.
        send_counts: &'a [usize],
        /// The memory for the received bytes.
        receive: Incoming<'a>,
        /// The length of the part from each rank.
        receive_counts: &'a [usize],
    },
    /// Receives what every rank sends, in rank order.
    AllGather {
        /// The bytes that this rank sends.
        send: Outgoing<'a>,
        /// The memory for the bytes of all ranks.
        receive: Incoming<'a>,
        /// The number of bytes each rank sends. All ranks pass the same counts.
        counts: &'a [usize],
    },
    /// Sends `bytes` of rank `root` to all other ranks, where they overwrite as many bytes.
    Broadcast {
        /// The bytes that are sent by the root, or overwritten on other ranks.
        bytes: &'a mut [u8],
        /// The rank that sends.
        root: usize,
    },
    /// Finds the least and the greatest of the ranks' numbers. Before the call both are this rank's
    /// number.
    Vote(&'a mut Vote),
    /// Returns once all ranks have called it.
    Barrier,
}

/// One process among `size` processes. Each is a worker with its own replicas.
///
/// Calls are collective: they return once all ranks have made them, in the same order on each rank.
/// Only one thread calls at a time. A call may fail because of a timeout, the end of another rank,
/// or for another reason. The communicator then cannot be used any more: each later call fails too,
/// and soon.
pub trait Communicator: Send + Sync {
    /// The place of this rank, which does not change.
    fn place(&self) -> RankPlace;

    /// Makes a collective call.
    fn call(&self, call: EngineCall<'_>) -> Result<()>;

    /// Fails if the calling thread must not make collective calls. It is called before each of
    /// them, so that its failure does not make the communicator unusable.
    fn check_thread(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the engine can also move memory of devices that the host cannot address.
    fn moves_device_memory(&self) -> bool {
        false
    }

    /// Reports to the engine that this rank cannot continue, so that the others need not wait. It
    /// may end the process, as engines do whose jobs end as a whole.
    fn abort(&self, error: &Error);

    /// This rank's number, from 0.
    fn rank(&self) -> usize {
        self.place().rank
    }

    /// The number of ranks, at least 1.
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
        let send = Outgoing::Host(send);
        let receive = Incoming::Host(receive);
        self.call(EngineCall::AllToAll {
            send,
            send_counts,
            receive,
            receive_counts,
        })
    }

    /// See [`EngineCall::AllGather`].
    fn all_gather(&self, send: &[u8], receive: &mut [u8], counts: &[usize]) -> Result<()> {
        let send = Outgoing::Host(send);
        let receive = Incoming::Host(receive);
        self.call(EngineCall::AllGather {
            send,
            receive,
            counts,
        })
    }

    /// See [`EngineCall::Broadcast`].
    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        self.call(EngineCall::Broadcast { bytes, root })
    }

    /// The least and the greatest of the ranks' numbers.
    fn vote(&self, number: i64) -> Result<Vote> {
        let mut vote = Vote {
            least: number,
            greatest: number,
        };
        self.call(EngineCall::Vote(&mut vote)).map(|()| vote)
    }

    /// Returns once all ranks have called it.
    fn barrier(&self) -> Result<()> {
        self.call(EngineCall::Barrier)
    }

    /// Makes a broadcast, a vote or a barrier for an engine that has none: out of gathering from
    /// all ranks, which each engine has.
    fn by_all_gather(&self, call: EngineCall<'_>) -> Result<()> {
        let size = self.size();
        match call {
            EngineCall::Broadcast { bytes, root } => {
                let mut counts = vec![0; size];
                counts[root] = bytes.len();
                if self.rank() != root {
                    return self.all_gather(&[], bytes, &counts);
                }
                let mut received = memory::filled(bytes.len(), 0, "bytes of a broadcast")?;
                self.all_gather(bytes, &mut received, &counts)
            }
            EngineCall::Vote(vote) => {
                let mut bytes = vec![0; size * size_of::<i64>()];
                let counts = vec![size_of::<i64>(); size];
                self.all_gather(&vote.least.to_ne_bytes(), &mut bytes, &counts)?;
                for number in bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&bytes| i64::from_ne_bytes(bytes))
                {
                    vote.least = vote.least.min(number);
                    vote.greatest = vote.greatest.max(number);
                }
                Ok(())
            }
            EngineCall::Barrier => self.vote(0).map(drop),
            EngineCall::AllGather { .. } | EngineCall::AllToAll { .. } => Err(Error::Internal(
                "an exchange is not made out of gathering".into(),
            )),
        }
    }
}

/// The communicator of a single process, which moves nothing.
pub struct Alone;

impl Communicator for Alone {
    fn place(&self) -> RankPlace {
        RankPlace {
            rank: 0,
            size: 1,
            node_rank: 0,
            node_size: 1,
        }
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
