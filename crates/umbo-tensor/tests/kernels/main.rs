//! Kernels whose operands are easiest to make as tensors, and those of matrices.

mod matrices;
mod narrow;
mod rows_copy;
mod rows_sum;
mod rows_update;
