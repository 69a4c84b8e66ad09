//! A communicator that moves bytes of the host over another communicator, and bytes of GPUs over
//! NCCL.
//!
//! With NCCL alone, a rank does not learn that another rank has failed or will not come. So the
//! ranks agree twice over the other communicator: once after each has queued its part, so that
//! nobody waits for a rank that could not; and once after each has reached the end of the call, so
//! that a failure on one rank is a failure on all.

use std::sync::Arc;

use super::agreement::agree;
use super::membership::{Membership, MessagePart};
use crate::communicator::{Communicator, EngineCall, Incoming, Outgoing, RankPlace};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceKind;
use umbo_device::backend::Backend;
use umbo_device::memory::DeviceMemory;

/// A rank that uses NCCL.
pub struct NcclEngine {
    base: Arc<dyn Communicator>,
    membership: Membership,
}

impl NcclEngine {
    pub fn new(base: Arc<dyn Communicator>, membership: Membership) -> NcclEngine {
        NcclEngine { base, membership }
    }

    /// Queues parts, and waits until they have arrived on all ranks.
    fn move_parts(&self, send: &DeviceParts<'_>, receive: &DeviceParts<'_>) -> Result<()> {
        let moved = agree(&*self.base, self.queue(send, receive))
            .and_then(|gpu| agree(&*self.base, self.membership.finish(gpu)));
        moved.inspect_err(|_| self.membership.abort())
    }

    fn queue(
        &self,
        send: &DeviceParts<'_>,
        receive: &DeviceParts<'_>,
    ) -> Result<&'static dyn Backend> {
        let gpu = send.memory.backend();
        let communicator_gpu = self.membership.gpu;
        if gpu.id() != receive.memory.backend().id() || card(gpu) != card(communicator_gpu) {
            return Err(Error::precondition(format!(
                "NCCL's communicator is for {} and what is on its card; memory of {} and {} is to \
                 be moved. Make it for the device of this rank's variables",
                communicator_gpu.id(),
                gpu.id(),
                receive.memory.backend().id()
            )));
        }
        let rank = self.base.rank();
        let is_own = |part: &&MessagePart| part.peer == rank;
        let own_parts = (
            send.parts.iter().find(is_own),
            receive.parts.iter().find(is_own),
        );
        if let (Some(from), Some(to)) = own_parts {
            // SAFETY: both are parts of this GPU's memory, which is freed only after the stream has
            // come past this copy.
            unsafe { gpu.copy(from.address, to.address, from.bytes) }?;
        }
        let others = |parts: &[MessagePart]| -> Vec<MessagePart> {
            parts
                .iter()
                .filter(|part| part.peer != rank && part.bytes > 0)
                .copied()
                .collect()
        };
        // SAFETY: as for the copy; if this fails, the membership ends before the caller continues.
        unsafe {
            self.membership
                .begin(gpu, &others(&send.parts), &others(&receive.parts))
        }?;
        Ok(gpu)
    }
}

/// The card of which a GPU is a part.
fn card(gpu: &dyn Backend) -> (DeviceKind, u32) {
    (gpu.id().kind, gpu.physical_ordinal())
}

/// Memory of a GPU, and the parts of it that go to or come from each rank.
struct DeviceParts<'a> {
    memory: &'a DeviceMemory,
    parts: Vec<MessagePart>,
}

/// The parts of `memory`, one after the other in the order of the ranks.
fn consecutive<'a>(memory: &'a DeviceMemory, counts: &[usize]) -> DeviceParts<'a> {
    let mut address = memory.address();
    let part = |(peer, &bytes): (usize, &usize)| {
        let part = MessagePart {
            peer,
            address,
            bytes,
        };
        address += bytes as u64;
        part
    };
    let parts = counts.iter().enumerate().map(part).collect();
    DeviceParts { memory, parts }
}

impl Communicator for NcclEngine {
    fn place(&self) -> RankPlace {
        self.base.place()
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        let (send, receive) = match call {
            EngineCall::AllToAll {
                send: Outgoing::Device(send),
                send_counts,
                receive: Incoming::Device(receive),
                receive_counts,
            } => (
                consecutive(send, send_counts),
                consecutive(receive, receive_counts),
            ),
            EngineCall::AllGather {
                send: Outgoing::Device(send),
                receive: Incoming::Device(receive),
                counts,
            } => {
                let address = send.address();
                let bytes = counts[self.base.rank()];
                let to = |peer| MessagePart {
                    peer,
                    address,
                    bytes,
                };
                let send = DeviceParts {
                    memory: send,
                    parts: (0..counts.len()).map(to).collect(),
                };
                (send, consecutive(receive, counts))
            }
            // If the other communicator fails, this one cannot be used any more.
            call => {
                return self
                    .base
                    .call(call)
                    .inspect_err(|_| self.membership.abort());
            }
        };
        self.move_parts(&send, &receive)
    }

    fn check_thread(&self) -> Result<()> {
        self.base.check_thread()
    }

    fn moves_device_memory(&self) -> bool {
        true
    }

    fn abort(&self, error: &Error) {
        self.membership.abort();
        self.base.abort(error);
    }
}
