//! Training loops.
//!
//! [`epoch`]: a pass over a dataset, a step for each element. [`trainer`]: all that a training over
//! arrays of the program's has, as one object.

pub mod epoch;
pub mod trainer;

pub use epoch::{Epoch, EpochReport};
pub use trainer::Trainer;
