//! What a strategy over several processes asks of the engine that joins them.
//!
//! A communicator moves bytes and never sums: contributions are added by the library's own kernels in
//! the order of the ranks, so the bits of a result do not depend on the engine, and no engine needs to
//! know a dtype.

use std::fmt;

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

/// One process among `size`, each of which is a worker with replicas of its own.
///
/// Every function but the getters and [`Communicator::abort`] is collective: it returns once all
/// ranks have called it, in the same order on each. They are called by one thread at a time. A call
/// that fails, by a timeout, the end of another rank or anything else, leaves the communicator without
/// further use: each later call fails too, and soon.
///
/// Counts are bytes. What a rank does not send or receive is empty, never absent.
pub trait Communicator: Send + Sync {
    /// Where this rank stands, which stays the same.
    fn place(&self) -> RankPlace;

    /// The number of this rank, from 0.
    fn rank(&self) -> usize {
        self.place().rank
    }

    /// How many ranks there are, at least 1.
    fn size(&self) -> usize {
        self.place().size
    }

    /// Fails where the calling thread must not make collective calls. It is asked before each of them,
    /// so that the failure breaks nothing.
    fn check_thread(&self) -> Result<()> {
        Ok(())
    }

    /// Sends a part of `send` to each rank and receives one from each, its own included. The parts
    /// lie one behind the other in the order of the ranks and are `send_counts` and
    /// `receive_counts` long, which add up to the slices' lengths.
    fn all_to_all(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<()>;

    /// Receives what every rank sends, in the order of the ranks; that of rank r is `counts[r]` long,
    /// which is known to all of them. `counts` adds up to the length of `receive`.
    fn all_gather(&self, send: &[u8], receive: &mut [u8], counts: &[usize]) -> Result<()>;

    /// Sends `bytes` of rank `root` to all others, where as many bytes are overwritten.
    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()>;

    /// The least and the greatest of the ranks' numbers.
    fn vote(&self, number: i64) -> Result<Vote>;

    /// Returns once all ranks have called it.
    fn barrier(&self) -> Result<()>;

    /// What moves memory of GPUs, if the engine does that, too.
    fn on_gpus(&self) -> Option<&dyn GpuCommunicator> {
        None
    }

    /// This rank cannot go on. The engine learns it, so that the others need not wait. It
    /// may end the process, as engines do whose jobs end as one.
    fn abort(&self, error: &Error);
}

/// Moves memory of GPUs as [`Communicator`] does that of the host. What is sent and received lies at the
/// beginning of the memory. What was queued on its GPU is done before, and what is queued afterwards finds
/// what was received.
pub trait GpuCommunicator {
    /// As [`Communicator::all_to_all`].
    fn all_to_all_on_gpus(
        &self,
        send: &DeviceMemory,
        send_counts: &[usize],
        receive: &mut DeviceMemory,
        receive_counts: &[usize],
    ) -> Result<()>;

    /// As [`Communicator::all_gather`].
    fn all_gather_on_gpus(
        &self,
        send: &DeviceMemory,
        receive: &mut DeviceMemory,
        counts: &[usize],
    ) -> Result<()>;
}

impl fmt::Debug for dyn Communicator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rank {} of {}", self.rank(), self.size())
    }
}
