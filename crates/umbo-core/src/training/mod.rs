//! Training loops.
//!
//! [`epoch`]: a pass over a dataset, a step for each element. [`trainer`]: all that a training over
//! arrays of the program's has, as one object. [`replica_choice`]: how many replicas are fastest.

pub mod epoch;
pub mod replica_choice;
pub mod trainer;

pub use epoch::{Epoch, EpochReport};
pub use trainer::Trainer;
