//! The part that Linux and macOS share: functions of POSIX, and those that both have besides. Where
//! they differ, the modules here ask the `platform`.

#![expect(unsafe_code, reason = "the functions of the C library are unsafe")]

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
