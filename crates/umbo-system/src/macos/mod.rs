//! macOS on processors of both kinds, as the interface needs it.

#![expect(unsafe_code, reason = "the functions of the C library are unsafe")]

mod mach;
mod parameters;

pub mod clock;
pub mod files;
pub mod libraries;
pub mod memory;
pub mod processors;
pub mod streams;
pub mod threads;
pub mod usage;

pub use crate::posix::{failure, interrupts, names, process};
