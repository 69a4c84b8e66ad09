//! Joining ranks by NCCL.

use std::sync::Arc;

use super::NcclOptions;
use super::agreement::agree;
use super::engine::NcclEngine;
use super::functions::{Functions, UniqueId};
use super::membership::Membership;
use crate::checked::CheckedCommunicator;
use crate::communicator::Communicator;
use umbo_base::error::{Error, Result};
use umbo_device::backend::Backend;
use umbo_device::{DeviceId, registry};

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
    let rank = base.rank();
    let size = base.size();
    let ready = agree(&*base, prepare(rank, device, options));
    let (nccl, gpu, mut id) = ready?;
    base.broadcast(&mut id.0, 0)?;
    // Once the ranks know that each of them has begun, nobody waits for a rank that could not
    // begin.
    let joined = Membership::join(nccl, id, rank, size, gpu, options.timeout);
    let mut membership = agree(&*base, joined)?;
    agree(&*base, membership.await_all())?;
    membership.is_whole = true;
    CheckedCommunicator::new(Box::new(NcclEngine::new(base, membership)))
}

/// The data that a rank needs before it joins the others. It includes the id, which rank 0 sends to
/// all.
fn prepare(
    rank: usize,
    device: Result<DeviceId>,
    options: &NcclOptions,
) -> Result<(Functions, &'static dyn Backend, UniqueId)> {
    let device = device?;
    let gpu = registry::backend(device)?;
    // NCCL takes CUDA's streams and addresses.
    if gpu.as_cuda().is_none() {
        let problem =
            format!("{device}; NCCL moves memory of GPUs, the device of this rank's variables");
        return Err(Error::invalid("device", problem));
    }
    let nccl = Functions::of_a_library(options.library.as_deref())?;
    let mut id = UniqueId([0; 128]);
    if rank == 0 {
        let _entered = gpu.enter()?;
        // SAFETY: `id` has memory for an id.
        let code = unsafe { (nccl.get_unique_id)(&raw mut id) };
        nccl.check(code, "ncclGetUniqueId")?;
    }
    Ok((nccl, gpu, id))
}
