//! Sums and means over replicas and over axes.

pub mod half_sums;
pub mod over_axes;
pub mod over_replicas;
pub mod reduction;
