//! Strict mode: each mistake that it looks for is made, in each setting in which callbacks run, and
//! a callback without mistakes does what it does elsewhere.

mod check;
mod each_warning;
#[path = "../fresh/mod.rs"]
mod fresh;
mod in_place;
#[path = "../messages/mod.rs"]
mod messages;
mod mistakes;
mod scene;
mod settings;
mod stale;
mod warnings;

#[path = "../views/mod.rs"]
mod views;

use umbo_core::error::{Error, Result, Status};

/// The failure of a run or an apply in which strict mode has found something.
#[track_caller]
fn found<T>(result: Result<T>, parts: &[&str]) -> Error {
    let Err(error) = result else {
        panic!("went unnoticed; expected: {parts:?}")
    };
    let text = error.to_string();
    assert_eq!(error.status(), Status::FailedPrecondition, "{text}");
    for part in parts.iter().chain(&["strict mode: "]) {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
    error
}
