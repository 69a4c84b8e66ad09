//! Panics of functions that the caller passed.

use std::any::Any;

use crate::error::{Error, Status};

/// The error for a callback that panicked.
pub(super) fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".into());
    Error::Callback {
        status: Status::Internal,
        message: format!("the callback panicked: {text}"),
        payload: None,
    }
}
