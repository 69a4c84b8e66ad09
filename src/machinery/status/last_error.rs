//! The last error of each thread.
//!
//! It keeps the core's `Error` whole. So a callback that passes a failure of the library on gives
//! back the very error, with its payload and its records, and not a copy of its text.

use std::cell::RefCell;
use std::ffi::CString;
use std::ptr;

use parking_lot::Mutex;

use super::{umbo_error_info, umbo_status};
use crate::machinery::c_string::c_string;
use crate::machinery::user_data::{UserData, umbo_destroy_fn};
use umbo_core::error::{Error, Status};
use umbo_core::observe::log::without_controls;

/// A failure as C sees it.
pub(super) struct FailureRecord {
    /// The struct that C gets. It points to the texts beside it and into the error.
    pub(super) info: umbo_error_info,
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
pub(super) struct LastError {
    error: Error,
    pub(super) message: CString,
    pub(super) records: Vec<FailureRecord>,
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
    /// The end of its thread. Code of the program must not run then, since it may be gone by then
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
pub(super) fn release_left_behind(destroy: umbo_destroy_fn) {
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
pub(super) fn last<R>(inspect: impl FnOnce(&LastError) -> R) -> Option<R> {
    LAST.try_with(|last| last.0.try_borrow().ok()?.as_ref().map(inspect))
        .ok()?
}

/// Makes `error` of the C function of this name the thread's last error and returns its status.
pub(crate) fn set(function: &'static str, error: Error) -> umbo_status {
    keep(error.named(function))
}

/// Makes `error` the thread's last error as it is and returns its status.
pub(super) fn keep(error: Error) -> umbo_status {
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
        None => vec![FailureRecord::new(
            &error,
            crate::UMBO_NONE as i32,
            CString::default(),
        )],
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

/// Forgets the thread's last error. Usually there is none.
pub(crate) fn clear() {
    if last(|_| ()).is_some() {
        drop(replace(None));
    }
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
