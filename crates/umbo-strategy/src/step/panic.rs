//! Panics of functions that the caller passed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use umbo_base::error::{Error, Result, Status, panic_text};

/// Calls `body`. A panic becomes an error of the callback.
pub(crate) fn caught<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic_text(&*panic).unwrap_or("without a message");
        let message = format!("the callback panicked: {text}");
        Err(Error::Callback {
            status: Status::Internal,
            message,
            payload: None,
        })
    })
}
