//! The executor: every thread that the library has, and the processors that they run on.
//!
//! Nothing outside of this module starts a thread or knows of processors. [`thread`] starts all of
//! them in the same way; [`workers`] and [`pieces`] share central work; [`pool`] calls functions that
//! may wait; [`computing`] shares heavy work that does not; [`fork`] tells whether this process is a child
//! in which nothing works; [`wait`] is how a thread waits for others, and
//! [`sync`] has what that is built from; [`shutdown`] ends what is idle.

#![expect(
    unsafe_code,
    reason = "threads, signals, processors and forks are the system's, and work is lent to other threads"
)]

pub mod affinity;
pub mod binding;
pub mod computing;
mod costs;
mod floating_point;
pub mod fork;
mod handover;
pub mod pieces;
pub mod pool;
pub mod shutdown;
pub mod sync;
pub mod thread;
pub mod wait;
pub mod workers;
