//! Training loops.
//!
//! [`epoch`]: a pass over a dataset, a step for each element.

pub mod epoch;

pub use epoch::{Epoch, EpochReport};
