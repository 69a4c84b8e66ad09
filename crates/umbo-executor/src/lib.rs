//! The executor: all threads of the library, and the processors on which they run.
//!
//! Only this module starts threads or uses information about processors. [`thread`] starts all
//! threads in the same way. [`workers`] and [`pieces`] share central work. [`pool`] calls functions
//! that may wait. [`computing`] shares heavy work that does not wait. [`fork`] detects whether this
//! process is a child in which the library does not work. [`wait`] defines how a thread waits for
//! others, and [`sync`] has the primitives for it. [`shutdown`] ends idle threads.
#![expect(
    unsafe_code,
    reason = "the processor's floating-point mode is set, and work is lent to other threads"
)]

#[macro_use]
extern crate umbo_base;

pub mod affinity;
pub mod binding;

pub mod computing;
mod costs;
pub mod floating_point;
pub mod fork;
mod handover;
pub mod pieces;
pub mod pool;
pub mod shutdown;
mod stealing;
pub mod sync;
pub mod thread;
mod topology;
pub mod wait;
pub mod workers;
