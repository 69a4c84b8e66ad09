//! Slices along dimension 0, selected by number.

mod copy;
pub mod order;
pub mod scatter;
pub mod sum;

pub use copy::{copy_rows, copy_to_row, write_bytes};
