//! Names of result codes, and functions by name. These work before the driver is started.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null;

use super::{In, Out};
use crate::codes::{Code, Outcome, describe};

fn answer(outcome: Outcome) -> c_int {
    outcome.err().unwrap_or(Code::SUCCESS).0
}

fn put_text(text: &Out<*const c_char>, found: Option<&'static CStr>) -> c_int {
    let put = text.put(found.map_or(null(), CStr::as_ptr));
    answer(put.and(if found.is_some() { Ok(()) } else { Err(Code::INVALID_VALUE) }))
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(code: c_int, text: Out<*const c_char>) -> c_int {
    put_text(&text, describe(code).map(|(name, _)| name))
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(code: c_int, text: Out<*const c_char>) -> c_int {
    put_text(&text, describe(code).map(|(_, text)| text))
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress_v2(
    name: In<c_char>,
    function: Out<*mut c_void>,
    _version: c_int,
    _flags: c_ulonglong,
    status: Out<c_uint>,
) -> c_int {
    /// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
    const NOT_FOUND: c_uint = 1;
    let found = name.text().and_then(|name| {
        let name = name.to_str().map_err(|_| Code::INVALID_VALUE)?;
        crate::symbols::find(name).ok_or(Code::NOT_FOUND)
    });
    match found {
        Ok(address) => answer(status.put_if_wanted(0).and(function.put(address))),
        Err(code) => {
            let put = status.put_if_wanted(NOT_FOUND).and(function.put(std::ptr::null_mut()));
            answer(put.and(Err(code)))
        }
    }
}
