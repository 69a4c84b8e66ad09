//! The functions of NCCL as C sees them, and those by which tests reach in.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::group;
use crate::nccl::{Config, IN_PROGRESS, INVALID_ARGUMENT, SUCCESS, UniqueId, nccl};

/// The oldest version whose calls need not wait.
const VERSION: c_int = 21403;

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    let fault = nccl().faults.in_call("ncclGetVersion");
    // SAFETY: the caller gives a place for a number.
    unsafe { version.write(VERSION) };
    fault.unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"no error",
        1 => c"unhandled cuda error",
        2 => c"unhandled system error",
        3 => c"internal error",
        4 => c"invalid argument",
        5 => c"invalid usage",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetLastError(_: usize) -> *const c_char {
    c"".as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    let mut nccl = nccl();
    if let Some(code) = nccl.faults.in_call("ncclGetUniqueId") {
        return code;
    }
    // SAFETY: the caller gives a place for an id.
    unsafe { id.write(nccl.new_id()) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommInitRankConfig(
    comm: *mut usize,
    size: c_int,
    id: UniqueId,
    rank: c_int,
    config: *const Config,
) -> c_int {
    let mut nccl = nccl();
    if let Some(code) = nccl.faults.in_call("ncclCommInitRankConfig") {
        return code;
    }
    if comm.is_null() || config.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: neither is null, and the caller gives such things.
    let joined = nccl.join((rank, size), id, unsafe { &*config }, comm);
    // SAFETY: as above.
    unsafe { comm.write(*joined.as_ref().unwrap_or(&0)) };
    joined.err().unwrap_or(IN_PROGRESS)
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommDestroy(comm: usize) -> c_int {
    let mut nccl = nccl();
    let fault = nccl.faults.in_call("ncclCommDestroy");
    let index = match nccl.comm(comm, "ncclCommDestroy") {
        Ok(index) => index,
        Err(code) => return code,
    };
    if nccl.comms[index].state != SUCCESS {
        let state = nccl.comms[index].state;
        nccl.mistake(format!(
            "ncclCommDestroy while the communicator's state is {state}"
        ));
    }
    nccl.end(index);
    fault.unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommAbort(comm: usize) -> c_int {
    let mut nccl = nccl();
    let fault = nccl.faults.in_call("ncclCommAbort");
    match nccl.comm(comm, "ncclCommAbort") {
        Ok(index) => nccl.end(index),
        Err(code) => return code,
    }
    fault.unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommGetAsyncError(comm: usize, state: *mut c_int) -> c_int {
    let mut nccl = nccl();
    let index = match nccl.comm(comm, "ncclCommGetAsyncError") {
        Ok(index) => index,
        Err(code) => return code,
    };
    // How often it is asked depends on the others: these calls do not count among all.
    if let Some(code) = nccl.faults.at("ncclCommGetAsyncError") {
        return code;
    }
    let now = nccl.go_on(index);
    // SAFETY: the caller gives a place for a number.
    unsafe { state.write(now) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> c_int {
    match nccl().faults.in_call("ncclGroupStart") {
        Some(code) => code,
        None => group::start(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupEnd() -> c_int {
    let mut nccl = nccl();
    let fault = nccl.faults.in_call("ncclGroupEnd");
    nccl.end_group(fault)
}

/// A send or a receive, unless the call fails as it is told to.
fn begin(
    name: &'static str,
    end: (usize, c_int),
    memory: (u64, usize, c_int),
    stream: *mut c_void,
) -> c_int {
    let mut nccl = nccl();
    let fault = nccl.faults.in_call(name);
    group::note(fault.unwrap_or_else(|| nccl.add(name, end, memory, stream)))
}

macro_rules! part_of_an_exchange {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            memory: u64,
            count: usize,
            datatype: c_int,
            peer: c_int,
            comm: usize,
            stream: *mut c_void,
        ) -> c_int {
            begin(stringify!($name), (comm, peer), (memory, count, datatype), stream)
        }
    )*};
}
part_of_an_exchange! { ncclSend ncclRecv }

/// # Safety
/// `text` ends with a zero.
unsafe fn text<'a>(text: *const c_char) -> &'a str {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?")
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fake_nccl_fault(faults: *const c_char) -> c_int {
    // SAFETY: the caller gives a text.
    let faults = unsafe { text(faults) };
    nccl().faults.set(faults).map_or(1, |()| 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fake_nccl_count(name: *const c_char) -> u64 {
    // SAFETY: the caller gives a text.
    let name = unsafe { text(name) };
    let nccl = nccl();
    match name {
        "injected" => nccl.faults.injected(),
        "live" => nccl.live() as u64,
        name => nccl.faults.count(name),
    }
}

/// Writes the mistakes that were found, a line each, which are then forgotten.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_nccl_take_reports(room: *mut c_char, bytes: usize) {
    let all = nccl().take_reports().join("\n");
    let length = all.len().min(bytes.saturating_sub(1));
    // SAFETY: the caller gives room for so many bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(all.as_ptr(), room.cast(), length);
        room.add(length).write(0);
    }
}
