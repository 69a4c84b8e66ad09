//! The system's counters of time on processors.

use std::iter;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{FALSE, FILETIME, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetProcessTimes, GetSystemTimes, OpenThread,
    THREAD_QUERY_LIMITED_INFORMATION,
};

use super::{clock, processors as all_processors, threads};
use crate::usage::ProcessorTime;

/// The system counts the time of processors in ticks of 15.625 ms.
pub const RESOLUTION: u64 = 15_625_000;

/// The time of a thread of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// The system's id of the thread.
    pub thread: u32,
    /// The time for which it has been on a processor, in nanoseconds.
    pub nanoseconds: u64,
}

/// The time of each thread of the process. There are none if the system does not report them.
pub fn threads() -> impl Iterator<Item = ThreadTime> {
    let process = std::process::id();
    let entries = snapshot()
        .into_iter()
        .flat_map(entries)
        .filter(move |entry| entry.th32OwnerProcessID == process);
    entries.filter_map(|entry| {
        let thread = entry.th32ThreadID;
        let nanoseconds = clock::of_thread(open(thread)?.as_raw_handle())?;
        Some(ThreadTime {
            thread,
            nanoseconds,
        })
    })
}

/// All threads of the machine at this moment.
fn snapshot() -> Option<OwnedHandle> {
    // SAFETY: the call has no preconditions; a handle that it gives is this call's alone.
    unsafe {
        let snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
        (snapshot != INVALID_HANDLE_VALUE).then(|| OwnedHandle::from_raw_handle(snapshot))
    }
}

fn entries(snapshot: OwnedHandle) -> impl Iterator<Item = THREADENTRY32> {
    let mut next: unsafe extern "system" fn(_, _) -> _ = Thread32First;
    iter::from_fn(move || {
        let mut entry = THREADENTRY32 {
            dwSize: size_of::<THREADENTRY32>() as u32,
            ..THREADENTRY32::default()
        };
        // SAFETY: the snapshot is open, and there is memory for the entry, which says how much.
        let found = unsafe { next(snapshot.as_raw_handle(), &mut entry) };
        next = Thread32Next;
        (found != FALSE).then_some(entry)
    })
}

/// Opens a thread, given its id.
fn open(thread: u32) -> Option<OwnedHandle> {
    // SAFETY: the call has no preconditions; a handle that it gives is this call's alone.
    unsafe {
        let opened = OpenThread(THREAD_QUERY_LIMITED_INFORMATION, FALSE, thread);
        (!opened.is_null()).then(|| OwnedHandle::from_raw_handle(opened))
    }
}

/// The name of a thread of the process, given its id.
pub fn thread_name(thread: u32) -> Option<String> {
    threads::name_of(open(thread)?.as_raw_handle())
}

/// The time of the processors that this process may use, if the system reports it: it counts all
/// processors together, so only where the process may use all. It is a multiple of [`RESOLUTION`].
pub fn processors() -> Option<ProcessorTime> {
    let count = all_processors::of_main_thread().ok()?.count();
    if count < all_processors::online() {
        return None;
    }
    let [mut idle, mut kernel, mut user] = [FILETIME::default(); 3];
    let [mut made, mut ended, mut own_kernel, mut own_user] = [FILETIME::default(); 4];
    // SAFETY: there is memory for the times.
    let known = unsafe {
        GetSystemTimes(&mut idle, &mut kernel, &mut user) != FALSE
            && GetProcessTimes(
                GetCurrentProcess(),
                &mut made,
                &mut ended,
                &mut own_kernel,
                &mut own_user,
            ) != FALSE
    };
    if !known {
        return None;
    }
    let [idle, kernel, user] = [idle, kernel, user].map(clock::nanoseconds);
    let own_time = clock::nanoseconds(own_kernel) + clock::nanoseconds(own_user);
    let whole = |time: u64| time / RESOLUTION * RESOLUTION;
    Some(ProcessorTime {
        // The time of the kernel has the idle one.
        busy: whole((kernel + user).saturating_sub(idle)),
        own_time: whole(own_time),
        processors: u32::try_from(count).ok()?,
    })
}

/// The system does not report how many threads were ready.
pub fn load_averages() -> Option<[f64; 3]> {
    None
}
