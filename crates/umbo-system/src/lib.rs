//! The operating system: all that Umbo asks of it.
//!
//! Each public module is a part of one interface of safe functions and small types. What all
//! systems share is in the module itself. What depends on the system is in a folder named after it,
//! `linux`, `macos`, `wasi` or `windows`, whose modules have the same names as those of the
//! interface; what Linux and macOS share is in `posix`. No other crate calls the system's functions
//! or reads its files of figures, so another system needs a folder beside these, and no change
//! elsewhere.
//!
//! Failures are [`std::io::Error`]s, since the library's own errors are made of them in a crate
//! above this one.

#![deny(unsafe_code)]

// Files, what ranks send, and what GPUs read have the bytes that memory has.
#[cfg(target_endian = "big")]
compile_error!("Umbo is for processors whose memory has the least significant byte first");

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as platform;
#[cfg(not(unix))]
mod no_signals;
#[cfg(unix)]
mod posix;
#[cfg(target_os = "wasi")]
mod wasi;
#[cfg(target_os = "wasi")]
use wasi as platform;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as platform;
#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "wasi", windows)))]
compile_error!(
    "Umbo compiles for Linux, macOS, Windows and WASI. Another system needs a folder next to \
     crates/umbo-system/src/linux; docs/internals/operating-system.md says what it holds"
);

pub mod clock;
pub mod failure;
pub mod files;
pub mod interrupts;
pub mod libraries;
pub mod memory;
pub mod names;
pub mod process;
pub mod processors;
pub mod streams;
pub mod threads;
pub mod usage;
