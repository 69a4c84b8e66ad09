//! WebAssembly with the first preview of WASI, as the interface needs it: one thread, and no
//! libraries that are loaded while it runs. What is missing is refused or known to be absent.

#![expect(unsafe_code, reason = "the functions of the C library are unsafe")]

pub mod clock;
#[path = "../posix/failure.rs"]
pub mod failure;
pub mod files;
pub mod interrupts;
pub mod libraries;
pub mod memory;
#[path = "../posix/names.rs"]
pub mod names;
pub mod process;
pub mod processors;
pub mod streams;
pub mod threads;
pub mod usage;
