//! Slices along dimension 0, picked by number.

mod copy;
pub mod order;
pub mod scatter;
pub mod sum;

pub use copy::{copy_rows, copy_to_row, write_bytes};
