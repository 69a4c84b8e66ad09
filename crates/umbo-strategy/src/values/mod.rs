//! Operations on values in cross-replica context and from replicas.

mod between_replicas;
pub mod collective;
pub(crate) mod placement;
pub(crate) mod sparse;
