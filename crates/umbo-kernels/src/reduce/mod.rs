//! Sums, means and extremes over replicas and over axes.

mod addends;
pub mod extremes;
pub mod half_sums;
pub mod over_axes;
pub mod over_replicas;
pub mod reduction;
