//! The border itself: no panic and no floating-point mode crosses it, and every error becomes a
//! status.

use std::panic::{self, AssertUnwindSafe};

pub(crate) use umbo_macros::c_call;

use super::callback::check_no_rule;
use super::status::{self, UMBO_OK, umbo_status};
use umbo_core::error::{Error, Result, panic_text};
use umbo_core::executor::{floating_point, fork, thread};
use umbo_core::observe::log::{self, Level};

/// Runs the body of the C function of this name. An error becomes the thread's last error, with the
/// name in front of its message, and its status is returned; so does a panic, as INTERNAL. In the
/// child of a fork, and on a thread that has all but ended, the body does not run: it is dropped,
/// with what it has taken over, and the status is FAILED_PRECONDITION.
pub(crate) fn boundary(function: &'static str, body: impl FnOnce() -> Result<()>) -> umbo_status {
    let mut body = Some(body);
    run(function, &mut |begins| taken(&mut body, begins))
}

/// Runs the body of a C function that returns nothing, such as a release. What is wrong with its
/// argument changes nothing and is logged; it does not become the last error, since nobody would
/// look there. In the child of a fork nothing is done and nothing said.
pub(crate) fn quietly(function: &'static str, body: impl FnOnce() -> Result<()>) {
    if fork::is_child() {
        return;
    }
    let mut body = Some(body);
    run_quietly(function, &mut |begins| taken(&mut body, begins));
}

/// The body of a C function, which runs if the argument says so, and is dropped in any case. What
/// is below takes it as one type: it is compiled once, and not for each of some hundred functions.
type Body<'a> = dyn FnMut(bool) -> Result<()> + 'a;

#[inline(always)]
fn taken(body: &mut Option<impl FnOnce() -> Result<()>>, begins: bool) -> Result<()> {
    match body.take() {
        Some(body) if begins => body(),
        _ => Ok(()),
    }
}

fn run(function: &'static str, body: &mut Body<'_>) -> umbo_status {
    floating_point::in_library(|| {
        let result = caught(|| {
            if let Err(refused) = may_begin() {
                body(false)?;
                return Err(refused);
            }
            let result = body(true);
            log::log_kept();
            result
        });
        match result {
            Ok(()) => UMBO_OK,
            Err(error) => status::set(function, error),
        }
    })
}

fn may_begin() -> Result<()> {
    fork::check()?;
    thread::init_thread()?;
    check_no_rule()
}

fn run_quietly(function: &'static str, body: &mut Body<'_>) {
    floating_point::in_library(|| {
        let result = caught(|| {
            // A thread that has all but ended can still release.
            let _ = thread::init_thread();
            body(true)
        });
        if let Err(error) = result {
            log::log(Level::Error, || error.named(function).to_string());
        }
    });
}

fn caught(body: impl FnOnce() -> Result<()>) -> Result<()> {
    // Unwind safety: the core keeps its invariants by locks that are released and guards that
    // undo; whatever else a panic interrupted is not used again, since outputs are not written.
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = panic_text(&*payload).unwrap_or("no message");
        Err(Error::Internal(format!("panic: {text}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinery::status::{UMBO_STATUS_INTERNAL, last_message};

    #[test]
    fn a_panic_becomes_internal() {
        assert_eq!(
            boundary("tip", || panic!("the {} fell over", "cart")),
            UMBO_STATUS_INTERNAL
        );
        assert!(
            last_message().starts_with("tip: panic: the cart fell over"),
            "{}",
            last_message()
        );
    }
}
