//! Kernels whose operands are easiest to make as tensors.

mod narrow;
mod rows_copy;
mod rows_sum;
mod rows_update;
