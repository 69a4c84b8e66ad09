//! The memory that the host has.

use umbo_base::error::{Error, Result};
use umbo_system::memory;

use crate::MemoryInfo;

/// The host's memory as the system counts it: the total, and what new allocations could get without
/// swapping. Limits of a container are not part of these numbers. Fails with UNAVAILABLE if the
/// system does not report them. Any thread may call this; it reads one small file.
pub fn memory_info() -> Result<MemoryInfo> {
    let size = memory::size()
        .map_err(|cause| Error::Unavailable(format!("the host's memory size: {cause}")))?;
    Ok(MemoryInfo {
        total_bytes: size.total,
        available_bytes: size.available,
    })
}
