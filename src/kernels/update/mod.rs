//! Gradients of all replicas into the update of a variable, and norms of them.

pub mod accumulate;
pub mod chunks;
pub mod formula;
mod gradients;
pub mod measure;
pub mod pass;
mod pass_loop;
pub mod rules;
pub mod tiles;
pub mod weighted_sum;
