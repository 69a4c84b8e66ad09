//! The objects that can be in a checkpoint, one file each.

pub(super) mod gradients;
pub(super) mod iterator;
pub(super) mod metrics;
pub(super) mod number;
pub(super) mod optimizer;
mod schedule;
pub(super) mod string;
pub(super) mod tensor;
pub(super) mod variable;
