//! The caller's functions: how they are run.

use std::cell::Cell;
use std::ptr;

use super::handle::consume;
use super::made_handles::releasing_made;
use super::object::Opaque;
use super::status::{self, umbo_status};
use umbo_core::error::{Error, Result};
use umbo_core::executor::floating_point;

thread_local! {
    /// A rule of the program's is at work on this thread.
    static IN_RULE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a rule of the program's on a tile, in the default floating-point mode: which thread has
/// which tile must not decide the result. Meanwhile this thread's calls are refused
/// ([`check_no_rule`]): the apply around it holds the optimizer, and other tiles are changed
/// already.
pub(crate) fn run_rule(rule: impl FnOnce()) {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            IN_RULE.set(false);
        }
    }
    IN_RULE.set(true);
    let _end = End;
    floating_point::in_default_mode(rule);
}

/// FAILED_PRECONDITION in a rule of the program's.
pub(crate) fn check_no_rule() -> Result<()> {
    if IN_RULE.get() {
        return Err(Error::precondition(
            "called by an update rule of the program's, in the middle of an apply; a rule \
             computes, and calls no function of the library",
        ));
    }
    Ok(())
}

/// Runs a callback, in the program's floating-point mode, and reads its failure: the last error
/// that it set or passed on, whose status it must have returned, else a message that says that
/// there was none. What failed inside of a callback that succeeds is forgotten with it, so that no
/// thread of the library keeps a payload. The tensors and values that it makes are released.
pub(crate) fn run(callback: impl FnOnce() -> umbo_status) -> Result<()> {
    releasing_made(|| call(callback))
}

/// Runs a callback that does not fail, in the program's floating-point mode. The tensors and values
/// that it makes are released.
pub(crate) fn run_infallible<R>(callback: impl FnOnce() -> R) -> R {
    releasing_made(|| floating_point::in_program(callback))
}

fn call(callback: impl FnOnce() -> umbo_status) -> Result<()> {
    status::clear();
    match floating_point::in_program(callback) {
        status::UMBO_OK => {
            status::clear();
            Ok(())
        }
        code => Err(status::callback_failure(code)),
    }
}

/// Runs a callback that may store a handle, and takes that over whatever the status. `argument` is
/// its place.
pub(crate) fn stored<H: Opaque>(
    argument: &'static str,
    callback: impl FnOnce(*mut *mut H) -> umbo_status,
) -> Result<Option<H::Object>> {
    releasing_made(|| {
        let mut handle = ptr::null_mut();
        let ran = call(|| callback(&raw mut handle));
        let object = (!handle.is_null()).then(|| consume(handle, argument));
        ran?;
        object.transpose()
    })
}

/// As [`stored`], for a callback that must store one; `missing` says so.
pub(crate) fn must_store<H: Opaque>(
    argument: &'static str,
    missing: &str,
    callback: impl FnOnce(*mut *mut H) -> umbo_status,
) -> Result<H::Object> {
    stored(argument, callback)?.ok_or_else(|| Error::invalid(argument, missing))
}
