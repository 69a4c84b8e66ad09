//! The update of a variable from the gradients of all replicas, and norms of gradients.

pub mod accumulate;
pub mod average;
mod buffered;
pub mod chunks;
pub mod eight_bit;
pub mod factored;
mod finite_mask;
pub mod formula;
mod gradients;
pub mod matrix_step;
pub mod measure;
pub mod pass;
mod pass_loop;
pub mod rounding;
mod row_gradients;
pub mod rules;
pub mod squares;
pub mod tiles;
pub mod weighted_sum;
