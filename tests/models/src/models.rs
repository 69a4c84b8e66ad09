//! Runs protocols of the library under loom, which tries every order that the memory model allows.
//!
//! The protocols are the library's own sources, compiled a second time: here `cfg(loom)` is set, by which
//! they take loom's atomics, locks and threads. Whatever else they use is the library's as it is.

#![allow(dead_code, reason = "models need not all of what the library needs")]

mod executor;
mod ffi;
mod strategy;
