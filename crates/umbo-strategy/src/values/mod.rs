//! Operations on values in cross-replica context and from replicas.

pub mod collective;
pub(crate) mod placement;
pub(crate) mod sparse;
