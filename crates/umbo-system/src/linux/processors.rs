//! Processors, as the scheduler of the kernel knows them.

use std::io;

use crate::processors::CpuSet;

/// The most processors that Linux can be built for. The kernel fails a call whose set is smaller
/// than its own, and the C library's type has room for 1,024.
pub const MOST: usize = 8192;

pub fn of_current_thread() -> io::Result<CpuSet> {
    of_thread(0)
}

pub fn of_main_thread() -> io::Result<CpuSet> {
    of_thread(std::process::id() as libc::pid_t)
}

/// The processors on which a thread may run, given its id; 0 is the calling thread.
fn of_thread(thread: libc::pid_t) -> io::Result<CpuSet> {
    let mut set = CpuSet::default();
    // SAFETY: the set has the given size, is words of bits as the kernel's sets are, and lives
    // during the call.
    match unsafe { libc::sched_getaffinity(thread, size_of_val(&set.0), set.0.as_mut_ptr().cast()) }
    {
        0 => Ok(set),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn bind(set: &CpuSet) -> io::Result<()> {
    // SAFETY: as in `of_thread`; thread 0 is the calling one.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set.0), set.0.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The number of processors of the machine that are online; `usize::MAX` if the system does not
/// report it.
pub fn online() -> usize {
    // SAFETY: the call takes a number and changes nothing.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(usize::MAX)
}

/// The processor on which the calling thread runs at this moment, if the system reports it. It
/// costs some nanoseconds and no system call.
#[inline]
pub fn current() -> Option<usize> {
    // SAFETY: the call takes no arguments and changes nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The size in bytes of the third-level cache that the first processor uses, if the system reports
/// it. (On some systems `sysconf` returns the sum over all caches of the socket.)
pub fn last_level_cache() -> Option<usize> {
    let size = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").ok()?;
    let kibibytes: usize = size.trim().strip_suffix('K')?.parse().ok()?;
    kibibytes.checked_mul(1024).filter(|&bytes| bytes > 0)
}
