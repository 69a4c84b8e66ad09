//! The one processor on which the program runs.

use std::io;

use crate::processors::{Cache, CpuSet, Frequency};

/// More than there are, so that sets print as they do elsewhere.
pub const MOST: usize = 1024;

/// The only processor.
fn all() -> CpuSet {
    [0].into_iter().collect()
}

/// The thread runs on the only processor.
pub fn of_current_thread() -> io::Result<CpuSet> {
    Ok(all())
}

/// The same for the first thread, which is the only one.
pub fn of_main_thread() -> io::Result<CpuSet> {
    Ok(all())
}

/// A thread is on the only processor already. A set without it is refused as elsewhere.
pub fn bind(set: &CpuSet) -> io::Result<()> {
    match set.contains(0) {
        true => Ok(()),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The number of processors that the program knows.
pub fn online() -> usize {
    1
}

/// The only processor.
#[inline]
pub fn current() -> Option<usize> {
    Some(0)
}

/// The size of caches is not reported.
pub fn last_level_cache() -> Option<usize> {
    None
}

/// Caches are not reported.
pub fn caches(_: usize) -> Vec<Cache> {
    Vec::new()
}

/// All memory is one node.
pub fn memory_nodes() -> Vec<CpuSet> {
    vec![all()]
}

/// The only processor.
pub fn online_set() -> Option<CpuSet> {
    Some(all())
}

/// The only processor shares its core with none.
pub fn siblings(processor: usize) -> Option<CpuSet> {
    (processor == 0).then(all)
}

/// It is not reported how the frequency is chosen.
pub fn frequency(_: usize) -> Option<Frequency> {
    None
}

/// The name of the processor is not reported.
pub fn model() -> Option<String> {
    None
}
