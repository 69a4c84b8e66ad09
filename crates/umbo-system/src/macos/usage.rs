//! The kernel's counters of time on processors.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use super::mach;
use crate::posix::processors::online;
use crate::usage::ProcessorTime;

/// The kernel counts the time of processors in hundredths of seconds.
pub const RESOLUTION: u64 = 10_000_000;

/// The kernel's number for the list of a process's threads, by their ids.
const THREADS_OF_PROCESS: c_int = 28;

/// The kernel's number for what it knows of a thread, by its id.
const THREAD: c_int = 15;

/// The time of a thread of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// The system's id of the thread.
    pub thread: u32,
    /// The time for which it has been on a processor, in nanoseconds.
    pub nanoseconds: u64,
}

/// Asks the kernel about this process. Returns how many bytes of `to` it has filled.
///
/// # Safety
/// Any bytes are a value of the type.
unsafe fn ask<T>(question: c_int, about: u64, to: &mut [T]) -> usize {
    let process = std::process::id() as c_int;
    let bytes = c_int::try_from(size_of_val(to)).unwrap_or(c_int::MAX);
    let place = to.as_mut_ptr().cast::<c_void>();
    // SAFETY: there is memory for as many bytes as the call is told, and the caller's promise.
    let filled = unsafe { libc::proc_pidinfo(process, question, about, place, bytes) };
    usize::try_from(filled).unwrap_or(0)
}

/// The kernel's account of a thread of this process.
fn known(thread: u64) -> Option<libc::proc_threadinfo> {
    let mut found = [MaybeUninit::<libc::proc_threadinfo>::zeroed()];
    // SAFETY: the type consists of numbers.
    let filled = unsafe { ask(THREAD, thread, &mut found) };
    // SAFETY: all zeros is a value of numbers, and the kernel has filled in others.
    (filled == size_of_val(&found)).then(|| unsafe { found[0].assume_init() })
}

/// The time of each thread of the process. There are none if the system does not report them.
pub fn threads() -> impl Iterator<Item = ThreadTime> {
    let mut ids = vec![0u64; 256];
    let count = loop {
        // SAFETY: the list is of numbers.
        let count = unsafe { ask(THREADS_OF_PROCESS, 0, &mut ids) } / size_of::<u64>();
        if count < ids.len() {
            break count;
        }
        ids.resize(2 * ids.len(), 0);
    };
    ids.truncate(count);
    ids.into_iter().filter_map(|thread| {
        let known = known(thread)?;
        Some(ThreadTime {
            thread: thread as u32,
            nanoseconds: known.pth_user_time + known.pth_system_time,
        })
    })
}

/// The name of a thread of the process, given its id.
pub fn thread_name(thread: u32) -> Option<String> {
    let name = known(thread.into())?.pth_name.map(|byte| byte as u8);
    let name = name.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The time of the processors, all of which this process may use, if the system reports it. It is a
/// multiple of [`RESOLUTION`].
pub fn processors() -> Option<ProcessorTime> {
    let ticks = mach::statistics::<libc::host_cpu_load_info>()
        .ok()?
        .cpu_ticks;
    let idle = ticks[libc::CPU_STATE_IDLE as usize];
    let busy = ticks.iter().map(|&ticks| u64::from(ticks)).sum::<u64>() - u64::from(idle);
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: there is memory for the numbers.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_SELF, used.as_mut_ptr()) } != 0;
    if failed {
        return None;
    }
    // SAFETY: all zeros is a value of numbers, and the kernel has filled in others.
    let used = unsafe { used.assume_init() };
    let nanoseconds =
        |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    let own_time = nanoseconds(used.ru_utime) + nanoseconds(used.ru_stime);
    Some(ProcessorTime {
        busy: busy * RESOLUTION,
        own_time: own_time / RESOLUTION * RESOLUTION,
        processors: u32::try_from(online()).ok()?,
    })
}

/// The number of threads of the machine that were ready or on a processor in the last 1, 5 and 15
/// minutes, if the system reports it.
pub fn load_averages() -> Option<[f64; 3]> {
    let mut averages = [0.0; 3];
    // SAFETY: there is memory for as many numbers as the call is told.
    let count = unsafe { libc::getloadavg(averages.as_mut_ptr(), 3) };
    (count == 3).then_some(averages)
}
