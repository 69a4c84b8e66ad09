//! Status codes and the thread's last error.
//!
//! The last error keeps the core's `Error` whole. So a callback that passes a failure of the
//! library on gives back the very error, with its payload and its records, and not a copy of its
//! text.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::c_string::c_string;
use super::options::{self, c_struct};
use super::user_data::{UserData, umbo_destroy_fn};
use umbo_core::error::{Error, Status};
use umbo_core::executor::floating_point::in_library;
use umbo_core::observe::log::without_controls;

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

/// A failure as C sees it.
struct FailureRecord {
    /// The struct that C gets. It points to the texts beside it and into the error.
    info: umbo_error_info,
    _message: CString,
    _device: CString,
}

/// The message of an error, for C.
fn message_of(error: &Error) -> CString {
    c_string(&without_controls(&error.to_string()))
}

impl FailureRecord {
    fn new(error: &Error, replica: i32, device: CString) -> FailureRecord {
        let payload = match error.unnamed() {
            Error::Callback {
                payload: Some(payload),
                ..
            } => payload.downcast_ref::<UserData>(),
            _ => None,
        };
        let message = message_of(error);
        let info = umbo_error_info {
            status: error.status().code(),
            replica,
            device: device.as_ptr(),
            message: message.as_ptr(),
            payload: payload.map_or(ptr::null_mut(), UserData::pointer),
            payload_destroy: payload.and_then(UserData::destroy),
            ..Default::default()
        };
        FailureRecord {
            info,
            _message: message,
            _device: device,
        }
    }
}

/// The last failure on a thread. The records point into the error.
struct LastError {
    error: Error,
    message: CString,
    records: Vec<FailureRecord>,
}

impl LastError {
    /// The functions that release its payloads.
    fn destroys(&self) -> impl Iterator<Item = usize> {
        self.records
            .iter()
            .filter_map(|record| Some(record.info.payload_destroy? as usize))
    }
}

/// The last error of a thread, if there is one.
struct LastOfThread(RefCell<Option<LastError>>);

thread_local! {
    static LAST: LastOfThread = const { LastOfThread(RefCell::new(None)) };
}

impl Drop for LastOfThread {
    /// When its thread ends. Code of the program must not run then, since it may be gone by then
    /// (an interpreter that has ended, a plugin that was unloaded). So payloads are left behind.
    fn drop(&mut self) {
        if let Some(last) = self.0.take() {
            let destroys: Vec<usize> = last.destroys().collect();
            if !destroys.is_empty() {
                LEFT_BEHIND.lock().push(LeftBehind {
                    _error: last.error,
                    destroys,
                });
            }
        }
    }
}

/// The last error of a thread that has ended.
struct LeftBehind {
    _error: Error,
    /// The addresses of the functions that release its payloads.
    destroys: Vec<usize>,
}

/// The errors with payloads that threads have left behind at their end.
static LEFT_BEHIND: Mutex<Vec<LeftBehind>> = Mutex::new(Vec::new());

/// Releases payloads that threads have left behind: those that `destroy` releases. The program has
/// just named it, so it is there.
fn release_left_behind(destroy: umbo_destroy_fn) {
    let Some(destroy) = destroy.map(|destroy| destroy as usize) else {
        return;
    };
    let is_released_by = |left: &mut LeftBehind| {
        left.destroys
            .iter()
            .all(|left_destroy| *left_destroy == destroy)
    };
    let left: Vec<LeftBehind> = LEFT_BEHIND.lock().extract_if(.., is_released_by).collect();
    drop(left);
}

/// Forgets the thread's last error, and those that threads have left behind at their end.
pub(crate) fn forget_all() {
    clear();
    let left = std::mem::take(&mut *LEFT_BEHIND.lock());
    drop(left);
}

/// Replaces the thread's last error and returns the old one, which the caller drops when it no
/// longer holds anything here: its payload runs the caller's code. None also on a thread that is
/// about to end.
fn replace(new: Option<LastError>) -> Option<LastError> {
    LAST.try_with(|last| last.0.replace(new)).ok().flatten()
}

/// The readable part of the thread's last error: nothing if there is none, or if it is being
/// replaced.
fn last<R>(inspect: impl FnOnce(&LastError) -> R) -> Option<R> {
    LAST.try_with(|last| last.0.try_borrow().ok()?.as_ref().map(inspect))
        .ok()?
}

/// Makes `error` of the C function of this name the thread's last error and returns its status.
pub(crate) fn set(function: &'static str, error: Error) -> umbo_status {
    keep(error.named(function))
}

/// Makes `error` the thread's last error as it is and returns its status.
fn keep(error: Error) -> umbo_status {
    let status = error.status().code();
    let records = match error.replicas() {
        Some(all) => all
            .failures
            .iter()
            .map(|failure| {
                let replica = i32::try_from(failure.replica).unwrap_or(i32::MAX);
                FailureRecord::new(&failure.error, replica, c_string(&failure.device))
            })
            .collect(),
        None => vec![FailureRecord::new(&error, -1, CString::default())],
    };
    let message = message_of(&error);
    // First the end of what was there: the `destroy` of its payload may call functions that fail,
    // and their errors are not to stand in front of this one.
    drop(replace(None));
    drop(replace(Some(LastError {
        error,
        message,
        records,
    })));
    status
}

/// Forgets the thread's last error.
pub(crate) fn clear() {
    drop(replace(None));
}

/// Why a callback failed that has just returned `code` on this thread: the thread's last error,
/// if it has this status. Another one was not what made the callback fail.
pub(crate) fn callback_failure(code: umbo_status) -> Error {
    if let Some(last) = replace(None)
        && last.error.status().code() == code
    {
        return last.error;
    }
    let (status, message) = match Status::from_code(code) {
        Some(status) => (
            status,
            format!("the callback returned {} without a message", status.name()),
        ),
        None => (
            Status::Unknown,
            format!("the callback returned {code}, which is not a status, without a message"),
        ),
    };
    Error::Callback {
        status,
        message,
        payload: None,
    }
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
            let error = invalid!("status", "UMBO_OK is no failure");
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
