//! The central storage strategy: scopes and contexts, steps on all replicas, merge calls, the
//! commit point, variables.

pub mod commit;
