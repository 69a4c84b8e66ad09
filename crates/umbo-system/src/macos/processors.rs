//! Processors, which macOS counts and keeps to itself: it tells no thread where it runs, and binds
//! none.

use std::ffi::CStr;
use std::io;

use super::parameters;
pub use crate::posix::processors::online;
use crate::processors::{Cache, CpuSet, Frequency};

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
    caches(0).last().map(|cache| cache.bytes)
}

/// The caches with data of a core, of the fast ones if they differ. The system does not report
/// which processors share them.
pub fn caches(_: usize) -> Vec<Cache> {
    let levels = [
        (1, [c"hw.perflevel0.l1dcachesize", c"hw.l1dcachesize"]),
        (2, [c"hw.perflevel0.l2cachesize", c"hw.l2cachesize"]),
        (3, [c"hw.perflevel0.l3cachesize", c"hw.l3cachesize"]),
    ];
    let read = |name: &&CStr| parameters::number(name).ok().filter(|&bytes| bytes > 0);
    levels
        .iter()
        .filter_map(|(level, names)| {
            Some(Cache {
                level: *level,
                bytes: usize::try_from(names.iter().find_map(read)?).ok()?,
                processors: CpuSet::default(),
            })
        })
        .collect()
}

/// The memory of all machines with macOS is one node.
pub fn memory_nodes() -> Vec<CpuSet> {
    vec![all()]
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
