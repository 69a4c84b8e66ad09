//! Runs protocols of the library under loom, which tries every order that the memory model allows.
//!
//! The protocols are the library's own sources, compiled a second time: here `cfg(loom)` is set, by
//! which they take loom's atomics, locks and threads. Whatever else they use is the library's as it
//! is.

#![allow(dead_code, reason = "models need not all of what the library needs")]

// What protocols use of `umbo-executor`, under that name, and how work is handed to its workers.
extern crate self as umbo_executor;

mod ffi;
#[path = "../../../crates/umbo-executor/src/handover.rs"]
mod handover;
mod strategy;
#[path = "../../../crates/umbo-executor/src/sync.rs"]
pub mod sync;
#[path = "../../../crates/umbo-executor/src/wait.rs"]
pub mod wait;
