//! Why a step did not succeed.

use std::ffi::{CStr, CString};
use std::{fmt, ptr};

use umbo::*;

/// Why a step did not succeed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The step failed with this status; a case may expect that.
    Status(umbo_status, String),
    /// The case itself is wrong: an unbound name, an unknown operation. Never expected.
    Case(String),
}

/// What a step says that a case lets fail, so that a replica that fails with CANCELLED by itself
/// can be told from one that was stopped because of another.
pub const BY_ITSELF: &str = "the case says so";

/// What steps give.
pub type Result<T> = std::result::Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Status(status, message) => write!(f, "{}: {message}", status_name(*status)),
            Failure::Case(problem) => write!(f, "the case cannot be executed: {problem}"),
        }
    }
}

/// A mistake in the case.
pub fn wrong<T>(problem: impl Into<String>) -> Result<T> {
    Err(Failure::Case(problem.into()))
}

/// A failure that the interpreter finds itself, made the thread's last error as a library call
/// would.
pub fn fail<T>(status: umbo_status, message: &str) -> Result<T> {
    Err(told(status, message))
}

/// As [`fail`], for the failure alone.
pub fn told(status: umbo_status, message: &str) -> Failure {
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the text is ended by a NUL and there is no payload.
    unsafe { umbo_set_last_error(status, text.as_ptr(), ptr::null_mut(), None) };
    Failure::Status(status, message.to_owned())
}

/// The name of a status.
pub fn status_name(status: umbo_status) -> String {
    // SAFETY: names of statuses are texts that live as long as the process.
    unsafe { CStr::from_ptr(umbo_status_name(status)) }
        .to_string_lossy()
        .into_owned()
}

/// The status with this name.
pub fn status_named(name: &str) -> Option<umbo_status> {
    (1..16).find(|&status| status_name(status) == name)
}

/// What the last error of this thread says.
fn last_message() -> String {
    // SAFETY: the message is a text that no call replaces meanwhile.
    unsafe { CStr::from_ptr(umbo_last_error_message()) }
        .to_string_lossy()
        .into_owned()
}

/// Turns the status of a call into a result.
///
/// When replicas failed, their records must tell the same: the status is that of the first one in
/// replica order that failed by itself, not of one that was stopped because of another.
pub fn check(status: umbo_status) -> Result<()> {
    if status == UMBO_OK {
        return Ok(());
    }
    let message = last_message();
    let mut replicas = Vec::new();
    for index in 0..umbo_last_error_count() {
        // SAFETY: all bytes zero is a value of the struct.
        let mut info: umbo_error_info = unsafe { std::mem::zeroed() };
        info.struct_size = struct_size::<umbo_error_info>();
        // SAFETY: the struct is a variable of the size that it states.
        if unsafe { umbo_last_error_at(index, &raw mut info) } != UMBO_OK {
            return wrong(format!(
                "there is no record {index} of the failure '{message}'"
            ));
        }
        // SAFETY: the message is a text that no call replaces meanwhile.
        let said = unsafe { CStr::from_ptr(info.message) }
            .to_string_lossy()
            .contains(BY_ITSELF);
        let by_itself = said || info.status != UMBO_STATUS_CANCELLED;
        replicas.extend((info.replica >= 0).then_some((info.replica, info.status, by_itself)));
    }
    if !replicas.is_sorted_by_key(|(replica, ..)| *replica) {
        return wrong(format!(
            "the records of '{message}' are not in replica order"
        ));
    }
    let first = replicas
        .iter()
        .find(|(.., by_itself)| *by_itself)
        .map(|(_, status, _)| *status);
    match first {
        Some(first) if first != status => wrong(format!(
            "the call gave {} but its first own failure is {}: {message}",
            status_name(status),
            status_name(first)
        )),
        _ => Err(Failure::Status(status, message)),
    }
}
