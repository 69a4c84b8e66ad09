//! The primitives of hazard records. The model of them puts loom's stand-ins in the place of
//! this module.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
pub use std::thread::yield_now;

/// How many slots a thread can use at the same time before it needs a further record.
pub const PLACES: usize = 6;

/// How often a release looks before it yields the processor.
pub const SPINS: u32 = 64;
