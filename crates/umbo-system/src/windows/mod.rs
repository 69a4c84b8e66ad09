//! Windows 10 and later, as the interface needs it.

#![expect(unsafe_code, reason = "the functions of Windows are unsafe")]

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
