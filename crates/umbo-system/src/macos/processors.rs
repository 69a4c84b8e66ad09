//! Processors, which macOS counts and keeps to itself: it tells no thread where it runs, and binds
//! none.

use std::io;

use super::parameters;
pub use crate::posix::processors::online;
use crate::processors::{CpuSet, Frequency};

/// More than macOS can have.
pub const MOST: usize = 1024;

/// A thread may run on all processors.
pub fn of_current_thread() -> io::Result<CpuSet> {
    Ok(all())
}

/// The same for the first thread.
pub fn of_main_thread() -> io::Result<CpuSet> {
    Ok(all())
}

/// All processors that are online.
fn all() -> CpuSet {
    (0..online().min(MOST)).collect()
}

/// The system chooses the processors of a thread and takes no wishes. A set without any that exists
/// is refused as elsewhere.
pub fn bind(set: &CpuSet) -> io::Result<()> {
    let exists = all().processors().any(|processor| set.contains(processor));
    match exists {
        true => Ok(()),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The system does not report on which processor a thread runs.
#[inline]
pub fn current() -> Option<usize> {
    None
}

/// The size in bytes of the last cache that the system reports: the third level of Intel's
/// processors, and the second of Apple's, of the fast ones if they differ.
pub fn last_level_cache() -> Option<usize> {
    let levels = [
        c"hw.l3cachesize",
        c"hw.perflevel0.l2cachesize",
        c"hw.l2cachesize",
    ];
    let mut sizes = levels
        .iter()
        .filter_map(|name| parameters::number(name).ok());
    usize::try_from(sizes.find(|&bytes| bytes > 0)?).ok()
}

/// The processors of the machine that are online.
pub fn online_set() -> Option<CpuSet> {
    Some(all())
}

/// The processors that share a core with this one, itself included. The system reports how many
/// cores there are, and not which processors share one.
pub fn siblings(processor: usize) -> Option<CpuSet> {
    let cores = parameters::number(c"hw.physicalcpu").ok()?;
    let processors = parameters::number(c"hw.logicalcpu").ok()?;
    (cores == processors).then(|| [processor].into_iter().collect())
}

/// The system does not report how the frequency is chosen.
pub fn frequency(_: usize) -> Option<Frequency> {
    None
}

/// The system's name of the processors.
pub fn model() -> Option<String> {
    parameters::text(c"machdep.cpu.brand_string").ok()
}
