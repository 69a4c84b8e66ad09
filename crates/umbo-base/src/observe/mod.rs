//! Tools that observe a running program: the log, measured steps and their reports, the trace.
//!
//! Relevant work has a [`span()`] around it and counts bytes with [`count`]. If no tool is active,
//! this costs one relaxed load (`watching`). The tools are:
//!
//! - [`report`] measures the steps of a strategy, and keeps a fixed number of them. [`summary`]
//!   makes figures of them, and [`advice`] makes text.
//! - [`trace`] writes every span to a file, for each thread.
//!
//! This module is at the bottom of the library: it uses phases and threads, but neither strategies
//! nor tensors.

pub mod advice;
pub mod environment;
mod first_runs;
pub mod libraries;
pub mod log;
pub mod machine;
mod meter;
pub mod phase;
pub mod processes;
pub mod processors;
pub mod report;
mod run_end;
mod running;
mod sample;
mod span;
pub mod strict;
pub mod summary;
pub mod switch;
pub mod trace;
mod vectors;
mod watching;

pub use phase::{Counter, Phase};
pub use span::{PhaseSpan, count, share, span};
pub use watching::{rank, record_rank};
