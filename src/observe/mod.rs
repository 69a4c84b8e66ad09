//! What a running program can be watched by: the log, measured steps and what they say, the trace.
//!
//! Work that counts has a [`span()`] around it and counts bytes with [`count`]. While nobody watches, that is one
//! relaxed load (`watching`). Those that watch:
//!
//! - [`report`] measures the steps of a strategy, as many of them as cost little, and keeps a fixed
//!   number; [`summary`] makes figures of them, [`advice`] words.
//! - [`trace`] writes every span into a file, thread by thread.
//!
//! All of it stands at the bottom: it knows phases and threads, and neither strategies nor tensors.

pub mod advice;
pub(crate) mod clock;
pub mod environment;
pub mod log;
pub mod machine;
mod mark;
mod meter;
pub mod phase;
pub mod processes;
pub mod report;
mod running;
mod sample;
mod span;
pub mod strict;
pub mod summary;
pub mod switch;
pub mod trace;
mod watching;

pub use phase::{Counter, Phase};
pub use span::{PhaseSpan, count, share, span};
pub use watching::{note_rank, rank};
