//! A communicator whose bytes of the host go over another one, and those of GPUs over NCCL.
//!
//! With NCCL alone a rank learns neither that another one has failed nor that it will not come. So the ranks agree
//! twice over the other communicator: once each has queued its part, so that nobody waits for a rank that could
//! not, and once it has come to its end, so that what failed on one rank has failed on all.

use std::sync::Arc;

use super::agreement::agree;
use super::membership::{Membership, RankMembership};
use crate::cluster::communicator::{Communicator, GpuCommunicator, RankPlace, Vote};
use crate::device::cuda::gpu::Gpu;
use crate::device::cuda::memory::DeviceMemory;
use crate::error::{Error, Result};

/// A rank with NCCL.
pub struct NcclEngine {
    base: Arc<dyn Communicator>,
    membership: Membership,
}

impl NcclEngine {
    pub fn new(base: Arc<dyn Communicator>, membership: Membership) -> NcclEngine {
        NcclEngine { base, membership }
    }

    /// Queues parts, and waits until they have arrived on all ranks.
    fn move_parts(
        &self,
        (send, sends): (&DeviceMemory, &[RankMembership]),
        (receive, receives): (&DeviceMemory, &[RankMembership]),
    ) -> Result<()> {
        let moved = agree(&*self.base, self.queue((send, sends), (receive, receives)))
            .and_then(|gpu| agree(&*self.base, self.membership.finish(gpu)));
        moved.inspect_err(|_| self.membership.abort())
    }

    fn queue(
        &self,
        (send, sends): (&DeviceMemory, &[RankMembership]),
        (receive, receives): (&DeviceMemory, &[RankMembership]),
    ) -> Result<&'static Gpu> {
        let (gpu, own) = (send.gpu(), self.membership.gpu());
        if gpu.id() != receive.gpu().id() || gpu.card().ordinal() != own.card().ordinal() {
            return Err(Error::precondition(format!(
                "NCCL's communicator is for {} and what is on its card; memory of {} and {} is to be moved. Make it \
                 for the device of this rank's variables",
                own.id(),
                gpu.id(),
                receive.gpu().id()
            )));
        }
        let rank = self.base.rank();
        let is_own = |part: &&RankMembership| part.peer == rank;
        if let (Some(from), Some(to)) = (sends.iter().find(is_own), receives.iter().find(is_own)) {
            // SAFETY: both are parts of memory of this GPU, which is freed once the stream has come past this.
            unsafe { gpu.copy(from.address, to.address, from.bytes) }?;
        }
        let others = |parts: &[RankMembership]| -> Vec<RankMembership> {
            parts.iter().filter(|part| part.peer != rank && part.bytes > 0).copied().collect()
        };
        // SAFETY: as above; if this fails, the membership ends before the caller goes on.
        unsafe { self.membership.begin(gpu, &others(sends), &others(receives)) }?;
        Ok(gpu)
    }

    /// Runs a call of the other communicator, after whose failure there is no use of this one.
    fn over_base<T>(&self, call: impl FnOnce(&dyn Communicator) -> Result<T>) -> Result<T> {
        call(&*self.base).inspect_err(|_| self.membership.abort())
    }
}

/// The parts of `on`, one behind the other in the order of the ranks.
fn parts(on: &DeviceMemory, counts: &[usize]) -> Vec<RankMembership> {
    let mut address = on.address();
    let part = |(peer, &bytes): (usize, &usize)| {
        let part = RankMembership { peer, address, bytes };
        address += bytes as u64;
        part
    };
    counts.iter().enumerate().map(part).collect()
}

impl Communicator for NcclEngine {
    fn place(&self) -> RankPlace {
        self.base.place()
    }

    fn check_thread(&self) -> Result<()> {
        self.base.check_thread()
    }

    fn all_to_all(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<()> {
        self.over_base(|base| base.all_to_all(send, send_counts, receive, receive_counts))
    }

    fn all_gather(&self, send: &[u8], receive: &mut [u8], counts: &[usize]) -> Result<()> {
        self.over_base(|base| base.all_gather(send, receive, counts))
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        self.over_base(|base| base.broadcast(bytes, root))
    }

    fn vote(&self, number: i64) -> Result<Vote> {
        self.over_base(|base| base.vote(number))
    }

    fn barrier(&self) -> Result<()> {
        self.over_base(|base| base.barrier())
    }

    fn on_gpus(&self) -> Option<&dyn GpuCommunicator> {
        Some(self)
    }

    fn abort(&self, error: &Error) {
        self.membership.abort();
        self.base.abort(error);
    }
}

impl GpuCommunicator for NcclEngine {
    fn all_to_all_on_gpus(
        &self,
        send: &DeviceMemory,
        send_counts: &[usize],
        receive: &mut DeviceMemory,
        receive_counts: &[usize],
    ) -> Result<()> {
        let (sends, receives) = (parts(send, send_counts), parts(receive, receive_counts));
        self.move_parts((send, &sends), (receive, &receives))
    }

    fn all_gather_on_gpus(
        &self,
        send: &DeviceMemory,
        receive: &mut DeviceMemory,
        counts: &[usize],
    ) -> Result<()> {
        let own = counts[self.base.rank()];
        let to = |peer| RankMembership { peer, address: send.address(), bytes: own };
        let sends: Vec<_> = (0..counts.len()).map(to).collect();
        let receives = parts(receive, counts);
        self.move_parts((send, &sends), (receive, &receives))
    }
}
