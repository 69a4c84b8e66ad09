//! Communicators that move memory of GPUs over NCCL, which is found at run time, and everything
//! else over another communicator.

#![expect(unsafe_code, reason = "NCCL is a C library, found at run time")]

mod agreement;
mod engine;
mod functions;
mod membership;

use std::sync::Arc;
use std::time::Duration;

use agreement::agree;
use engine::NcclEngine;
use functions::{Functions, UniqueId};
use membership::Membership;

use super::checked::CheckedCommunicator;
use super::communicator::Communicator;
use umbo_base::error::{Error, Result};
use umbo_device::cuda::gpu::Gpu;
use umbo_device::{DeviceId, DeviceKind, registry};

pub use functions::VARIABLE;

/// Options of a communicator over NCCL.
#[derive(Clone, Debug)]
pub struct NcclOptions {
    /// How long a call waits for NCCL; `None` means without a limit.
    pub timeout: Option<Duration>,
    /// The library to open; `None` means that it is found.
    pub library: Option<String>,
}

impl Default for NcclOptions {
    fn default() -> NcclOptions {
        // This is shorter than the timeouts of other communicators, such as MPI's, which wait for
        // the message that this wait has failed.
        NcclOptions {
            timeout: Some(Duration::from_secs(300)),
            library: None,
        }
    }
}

/// Opens the library that [`over`] would open. Fails with UNAVAILABLE, with the reason, if there is
/// none that is new enough.
pub fn find() -> Result<()> {
    Functions::of_a_library(None).map(drop)
}

/// Joins the ranks of `base` over NCCL. This rank's memory is that of `device` and of other logical
/// GPUs on its card. All ranks call it. A rank that has no such device passes the reason.
///
/// If it fails on a rank, it fails on all ranks. The ranks that had not failed themselves name the
/// rank that did. `base` can still be used then.
pub fn over(
    base: Arc<dyn Communicator>,
    device: Result<DeviceId>,
    options: &NcclOptions,
) -> Result<CheckedCommunicator> {
    base.check_thread()?;
    let (rank, size) = (base.rank(), base.size());
    let ready = agree(&*base, prepare(rank, device, options));
    let (nccl, gpu, mut id) = ready?;
    base.broadcast(&mut id.0, 0)?;
    // Once the ranks know that each of them has begun, nobody waits for a rank that could not
    // begin.
    let joined = Membership::join(nccl, id, (rank, size), gpu, options.timeout);
    let mut membership = agree(&*base, joined)?;
    agree(&*base, membership.await_all())?;
    membership.is_whole = true;
    CheckedCommunicator::new(Box::new(NcclEngine::new(base, membership)))
}

/// What a rank needs before it joins the others. It includes the id, which rank 0 sends to all.
fn prepare(
    rank: usize,
    device: Result<DeviceId>,
    options: &NcclOptions,
) -> Result<(Functions, &'static Gpu, UniqueId)> {
    let device = device?;
    if device.kind != DeviceKind::Gpu {
        let problem =
            format!("{device}; NCCL moves memory of GPUs, the device of this rank's variables");
        return Err(Error::invalid("device", problem));
    }
    let gpu = registry::gpu(device)?;
    let nccl = Functions::of_a_library(options.library.as_deref())?;
    let mut id = UniqueId([0; 128]);
    if rank == 0 {
        let _entered = gpu.card().enter()?;
        // SAFETY: `id` has memory for an id.
        let code = unsafe { (nccl.get_unique_id)(&raw mut id) };
        nccl.check(code, "ncclGetUniqueId")?;
    }
    Ok((nccl, gpu, id))
}
