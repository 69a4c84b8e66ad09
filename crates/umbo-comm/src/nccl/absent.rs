//! The stand-in for communicators over NCCL in a library without the feature `nccl`: functions that
//! fail with UNIMPLEMENTED.

use std::sync::Arc;

use super::NcclOptions;
use crate::checked::CheckedCommunicator;
use crate::communicator::Communicator;
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;

fn refused<T>() -> Result<T> {
    Err(Error::left_out("communicators over NCCL", "nccl"))
}

/// Fails: there is nothing that would open a library.
pub fn find() -> Result<()> {
    refused()
}

/// Fails on each rank: there is nothing that would join them. `base` can still be used.
pub fn over(
    _base: Arc<dyn Communicator>,
    _device: Result<DeviceId>,
    _options: &NcclOptions,
) -> Result<CheckedCommunicator> {
    refused()
}
