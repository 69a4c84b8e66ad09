//! Tools that observe a running program: measured steps and their reports, and the trace.
//!
//! Work tells them what it does through [`umbo_base::observe`], whose spans and counters cost one
//! relaxed load each while no tool is active. The tools are:
//!
//! - [`report`] measures the steps of a strategy, and keeps a fixed number of them. [`summary`]
//!   makes figures of them, and [`advice`] makes text.
//! - [`trace`] writes every span to a file, for each thread.
//!
//! Both use [`machine`], the load of other processes, and [`processes`], the threads of this one.
//! Reports use [`libraries`], the computing libraries that are loaded, and [`processors`], what
//! makes processors slow. [`environment`] has the settings of the environment.
//!
//! This crate is near the bottom of the library: it knows phases and threads, but neither
//! strategies nor tensors.

#![deny(unsafe_code)]
pub mod advice;
pub mod environment;
mod first_runs;
pub mod libraries;
pub mod machine;
mod meter;
pub mod processes;
pub mod processors;
pub mod report;
mod run_end;
mod running;
mod sample;
pub mod summary;
#[cfg_attr(not(feature = "trace"), path = "trace/absent.rs")]
pub mod trace;
mod vectors;

/// The names of the optional parts that this crate was built with.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "trace")]
    "trace",
];
