//! Variables in each of the contexts: creation, reading, writing.

pub use reading::*;

pub(crate) mod aggregation;
pub mod assign_all;
pub mod creation;
pub(crate) mod creations;
pub mod creator;
pub mod flat;
pub mod in_place;
pub mod reading;
pub mod rows;
pub mod writing;
