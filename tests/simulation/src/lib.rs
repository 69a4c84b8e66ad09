//! A simulator of trainings over many ranks: the library's own code on a thread for each rank, over
//! a communicator in shared memory, in virtual time.
//!
//! Each rank has a clock. A message carries the time at which it arrives, as a network with drawn
//! latencies and rates would deliver it, and a rank that receives sets its clock to that time if
//! its own is behind. So a thousand threads on two processors give the times of a thousand
//! machines, and the results depend on the settings and the seed alone.
//!
//! - [`network`]: the drawn latencies and rates. `timing`: when the messages of a collective
//!   arrive, if they are those of the library's engine over MPI. [`engine`]: the communicator.
//! - [`counts`]: messages, bytes and calls of each kind. [`memory`]: an allocator that counts the
//!   memory of each rank.
//! - [`training`]: the steps that are simulated.

#![deny(unsafe_code)]

pub mod counts;
pub mod engine;
pub mod memory;
pub mod network;
mod timing;
pub mod training;
