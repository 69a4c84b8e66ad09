//! Status codes, and the functions about the thread's last error.

mod last_error;

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::LazyLock;

use super::c_string::c_string;
use super::options::{self, c_struct};
use super::user_data::{UserData, umbo_destroy_fn};
use umbo_core::error::{Error, Status};
use umbo_core::executor::floating_point::in_library;
use umbo_core::system::process::fail_after_message;

pub(crate) use last_error::{callback_failure, clear, forget_all, set};
use last_error::{keep, last, release_left_behind};

/// The result of a function: UMBO_OK, or why it failed. The codes are the canonical ones.
pub type umbo_status = i32;

/// Success.
pub const UMBO_OK: umbo_status = 0;
/// The call was stopped by a token, or because another replica failed.
pub const UMBO_STATUS_CANCELLED: umbo_status = 1;
/// A callback returned this, or an undefined status.
pub const UMBO_STATUS_UNKNOWN: umbo_status = 2;
/// An argument has a wrong value, shape, dtype or name, or is an invalid pointer or handle.
pub const UMBO_STATUS_INVALID_ARGUMENT: umbo_status = 3;
/// The call did not finish before its deadline.
pub const UMBO_STATUS_DEADLINE_EXCEEDED: umbo_status = 4;
/// A device, file or name does not exist.
pub const UMBO_STATUS_NOT_FOUND: umbo_status = 5;
/// The thing that the call is to make exists already.
pub const UMBO_STATUS_ALREADY_EXISTS: umbo_status = 6;
/// The operating system refused access.
pub const UMBO_STATUS_PERMISSION_DENIED: umbo_status = 7;
/// No memory, thread or handle is left.
pub const UMBO_STATUS_RESOURCE_EXHAUSTED: umbo_status = 8;
/// The call is not allowed now or here: context, order, or late callbacks.
pub const UMBO_STATUS_FAILED_PRECONDITION: umbo_status = 9;
/// The call conflicts with something that ran at the same time.
pub const UMBO_STATUS_ABORTED: umbo_status = 10;
/// An axis, index or position is out of range, or a buffer is too small.
pub const UMBO_STATUS_OUT_OF_RANGE: umbo_status = 11;
/// This strategy or this version does not offer it.
pub const UMBO_STATUS_UNIMPLEMENTED: umbo_status = 12;
/// There is a defect in the library.
pub const UMBO_STATUS_INTERNAL: umbo_status = 13;
/// Something that the call needs is missing now: a driver, a device, another rank.
pub const UMBO_STATUS_UNAVAILABLE: umbo_status = 14;
/// A file or stream is damaged.
pub const UMBO_STATUS_DATA_LOSS: umbo_status = 15;

/// A failure: of the whole call, or of one replica. umbo_last_error_at() gets it.
#[c_struct]
pub struct umbo_error_info {
    /// Why it failed.
    pub status: umbo_status,
    /// The id of the replica that failed; UMBO_NONE for a failure of the whole call.
    pub replica: i32,
    /// The canonical name of its compute device, or "".
    pub device: *const c_char,
    /// The message.
    pub message: *const c_char,
    /// The object that the callback attached with umbo_set_last_error(), or NULL. The library owns
    /// it.
    pub payload: *mut c_void,
    /// The `destroy` of the payload, by which a program knows its own.
    pub payload_destroy: umbo_destroy_fn,
}

/// Gets the name of a status, such as "INVALID_ARGUMENT"; "UNKNOWN_STATUS" for an undefined number.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_status_name(status: umbo_status) -> *const c_char {
    static NAMES: LazyLock<[CString; Status::ALL.len()]> =
        LazyLock::new(|| Status::ALL.map(|status| c_string(status.name())));
    let name = usize::try_from(status)
        .ok()
        .and_then(|code| NAMES.get(code));
    name.map_or(c"UNKNOWN_STATUS", CString::as_c_str).as_ptr()
}

/// Gets the message of this thread's last error.
///
/// @return "" if nothing has failed since the last umbo_clear_last_error(). It lives until the next
///   function on this thread that fails or runs a callback.
///
/// The line begins with the function that failed ("umbo_strategy_reduce: axis: ..."). If replicas
/// failed, there is a line for each: "replica 1 (CPU:1): NOT_FOUND: ...". umbo_train_epoch() writes
/// a line before them that names the step.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_last_error_message() -> *const c_char {
    last(|last| last.message.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Gets the number of failures of this thread's last error.
///
/// @return The number of replicas that failed or were stopped; 1 for a failure of the whole call; 0
///   for none.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_last_error_count() -> i64 {
    last(|last| last.records.len() as i64).unwrap_or(0)
}

/// Gets a failure of this thread's last error.
///
/// @param[in] index 0 to umbo_last_error_count() - 1, in the order of the replicas.
/// @param[out] info Its texts and its payload live as long as umbo_last_error_message().
/// @return UMBO_STATUS_OUT_OF_RANGE: no failure at `index`.
///
/// If it fails, also because `info` is NULL, the last error stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_last_error_at(index: i64, info: *mut umbo_error_info) -> umbo_status {
    // SAFETY: the caller gives NULL or a struct of the size that it states.
    let Ok(info) = (unsafe { options::result(info, "info") }) else {
        return UMBO_STATUS_INVALID_ARGUMENT;
    };
    let found = last(|last| {
        let index = usize::try_from(index).ok()?;
        last.records.get(index).map(|record| record.info)
    });
    let Some(found) = found.flatten() else {
        return UMBO_STATUS_OUT_OF_RANGE;
    };
    info.write(found);
    UMBO_OK
}

/// Sets why a callback fails: `return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "...", NULL,
/// NULL);`
///
/// @param[in] message Up to 16 KiB are copied. `message` may be NULL.
/// @param[in] payload Any object, such as an exception. The library takes it over and carries it to
///   the thread that called the library, where umbo_last_error_at() gets it. May be NULL.
/// @param[in] destroy Releases the payload once, when the error is forgotten: when this thread's
///   last error is replaced or cleared. If the thread ends before, that is done by the next call of
///   this function with the same `destroy`, or by umbo_shutdown(), on any thread, and not at all if
///   the process ends. May be NULL.
/// @return `status`; UMBO_STATUS_UNKNOWN for an undefined one, UMBO_STATUS_INVALID_ARGUMENT for
///   UMBO_OK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_set_last_error(
    status: umbo_status,
    message: *const c_char,
    payload: *mut c_void,
    destroy: umbo_destroy_fn,
) -> umbo_status {
    in_library(|| {
        // SAFETY: the caller gives the payload and its function away.
        let payload = unsafe { UserData::new(payload, destroy) };
        let message = if message.is_null() {
            String::new()
        } else {
            // SAFETY: not NULL, so the caller promises a text that a NUL ends.
            let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
            message[..message.floor_char_boundary(LONGEST_MESSAGE)].to_owned()
        };
        release_left_behind(destroy);
        set_by_program("umbo_set_last_error", status, message, payload)
    })
}

/// Makes the failure of a callback, of which `function` is told, the thread's last error and
/// returns its status.
fn set_by_program(
    function: &'static str,
    status: umbo_status,
    message: String,
    payload: UserData,
) -> umbo_status {
    // What a function of the library said, and the callback only passes on, has its name already.
    let (name, message) = match message.split_once(": ") {
        Some((name, rest)) if is_function_name(name) => (Some(name.to_owned()), rest.to_owned()),
        _ => (None, message),
    };
    let (status, message) = match Status::from_code(status) {
        Some(Status::Ok) => {
            let error = invalid!("status", "UMBO_OK is not a failure");
            return set(function, error);
        }
        Some(known) if message.is_empty() => {
            (known, format!("the callback failed with {}", known.name()))
        }
        Some(known) => (known, message),
        None => (
            Status::Unknown,
            format!("status {status}, which is none: {message}"),
        ),
    };
    let is_given = !payload.pointer().is_null() || payload.destroy().is_some();
    let payload = is_given.then(|| Box::new(payload) as umbo_core::error::Payload);
    let error = Error::Callback {
        status,
        message,
        payload,
    };
    keep(match name {
        Some(name) => error.named(name),
        None => error,
    })
}

/// Whether this looks like the name of a function of this library.
fn is_function_name(text: &str) -> bool {
    let ordinary = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.starts_with("umbo_") && text.bytes().all(ordinary)
}

/// How much of a message is kept. Messages are combined where there may be no memory left.
const LONGEST_MESSAGE: usize = 16 << 10;

/// Forgets this thread's last error and releases its payload.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_clear_last_error() {
    in_library(clear);
}

/// Ends the program after a call that failed, as UMBO_CHECK() does.
///
/// @param[in] status What the call returned.
/// @param[in] file The name of the source file. May be NULL.
/// @param[in] line The number of the line.
///
/// It flushes stdout, prints the place and this thread's last error message (the name of `status`,
/// if there is none) to standard error, "main.c:12: umbo_strategy_reduce: axis: ...", and calls
/// exit() with EXIT_FAILURE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_check_failed(
    status: umbo_status,
    file: *const c_char,
    line: i32,
) -> ! {
    let file = if file.is_null() { c"?".as_ptr() } else { file };
    // SAFETY: the caller gives a text; a message and a name are texts, which nothing replaces
    // meanwhile.
    let [file, message, name] = unsafe {
        [file, umbo_last_error_message(), umbo_status_name(status)]
            .map(|text| CStr::from_ptr(text).to_string_lossy())
    };
    let said = if message.is_empty() { name } else { message };
    fail_after_message(&format!("{file}:{line}: {said}\n"))
}

/// The thread's last message, for tests.
#[cfg(test)]
pub(crate) fn last_message() -> String {
    // SAFETY: the message is a C string that nothing replaces meanwhile.
    unsafe { CStr::from_ptr(umbo_last_error_message()) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests;
