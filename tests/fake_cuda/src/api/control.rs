//! Functions that only this driver has: tests ask it what it found and tell it what to do. They
//! are declared in include/fake_cuda.h.

use std::ffi::{c_char, c_int};

use super::{In, TextOut};
use crate::codes::Code;
use crate::session::Session;

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_reports() -> usize {
    Session::open().reports.count()
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_report(index: usize, text: TextOut, room: usize) -> c_int {
    let session = Session::open();
    let outcome = match session.reports.get(index) {
        Some(report) => text.put(report, room),
        None => Err(Code::NOT_FOUND),
    };
    outcome.err().unwrap_or(Code::SUCCESS).0
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_clear_reports() {
    Session::open().reports.clear();
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_seed(seed: u64) {
    Session::open().reseed(seed);
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_fault(text: In<c_char>) -> c_int {
    let set = text.text().and_then(|text| {
        let text = text.to_str().map_err(|_| Code::INVALID_VALUE)?;
        Session::open().faults.set(text).map_err(|()| Code::INVALID_VALUE)
    });
    set.err().unwrap_or(Code::SUCCESS).0
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_calls(function: In<c_char>) -> u64 {
    let name = function.text().ok().and_then(|text| text.to_str().ok()).unwrap_or("*");
    Session::open().faults.calls(name)
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_moved(over: In<c_char>) -> u64 {
    let name = over.text().ok().and_then(|text| text.to_str().ok()).unwrap_or_default();
    Session::open().moved.named(name)
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_injected() -> u64 {
    Session::open().faults.injected()
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_limit_branches(most: u64) {
    Session::open().branches = most;
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_mend() {
    Session::open().mend();
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_limit_memory(device: c_int, bytes: u64) -> c_int {
    let mut session = Session::open();
    let set = session.device(device).map(|id| session.memory.limit(id as usize, bytes));
    set.err().unwrap_or(Code::SUCCESS).0
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_live(kind: In<c_char>) -> u64 {
    let name = kind.text().ok().and_then(|text| text.to_str().ok()).unwrap_or("");
    Session::open().live(name)
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_executed(prefix: In<c_char>) -> u64 {
    let prefix = prefix.text().ok().and_then(|text| text.to_str().ok()).unwrap_or("");
    Session::open().executed.count(prefix)
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_never_executed(
    kernel: In<c_char>,
    text: TextOut,
    room: usize,
) -> c_int {
    let name = kernel.text().ok().and_then(|text| text.to_str().ok()).unwrap_or("");
    let outcome = match Session::open().executed.never(name) {
        Some(list) => text.put(&list, room),
        None => Err(Code::NOT_FOUND),
    };
    outcome.err().unwrap_or(Code::SUCCESS).0
}
