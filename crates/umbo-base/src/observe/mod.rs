//! How work tells what it does: the log, spans and counters, and what observes them.
//!
//! Relevant work has a [`span()`] around it and counts bytes with [`count`]. If no tool is active,
//! this costs one relaxed load ([`watching`]). The tools are in a crate above this one: step
//! reports read what each thread has measured, and a trace gets every event ([`trace`]).
//!
//! This module is at the bottom of the library: it uses phases and threads, but neither strategies
//! nor tensors.

pub mod log;
pub mod own_threads;
pub mod phase;
mod span;
pub mod strict;
pub mod switch;
pub mod trace;
pub mod watching;

pub use phase::{Counter, Phase};
pub use span::{PhaseSpan, count, share, span};
pub use watching::{rank, record_rank};
