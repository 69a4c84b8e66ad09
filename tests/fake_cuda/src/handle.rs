//! Handles that the driver gives out. They are addresses that no program can read, and they say
//! what kind of thing they stand for, so that an event given as a stream is found out.

use std::ffi::c_void;

use crate::codes::{Code, Outcome};

/// What a handle stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Kind {
    Context = 1,
    Stream,
    Event,
    Module,
    Function,
    Pool,
}

/// A handle as it crosses the C interface.
pub type Raw = *mut c_void;

/// Not a canonical address of x86-64 or of 64-bit Arm: reading through it faults.
const MARK: u64 = 0x0fac << 48;

/// The handle of number `id` of its kind.
pub fn make(kind: Kind, id: u32) -> Raw {
    (MARK | (kind as u64) << 40 | u64::from(id) << 4) as usize as Raw
}

/// The number in a handle, if it is one of that kind.
pub fn number(kind: Kind, raw: Raw) -> Outcome<u32> {
    let value = raw as usize as u64;
    let id = value >> 4 & 0xffff_ffff;
    if value == MARK | (kind as u64) << 40 | id << 4 {
        Ok(id as u32)
    } else {
        Err(Code::INVALID_HANDLE)
    }
}
