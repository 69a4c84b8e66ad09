//! The central storage strategy: scopes and contexts, steps on all replicas, merge calls, the
//! commit point, variables.
//!
//! - [`central_storage`]: the strategy itself, its devices, threads and locks;
//! - `sync`, `signal`, `lane`, `rendezvous`: the gang's protocol, from the bottom up, which knows
//!   nothing of callbacks and is model-checked;
//! - `step`, [`run`], [`merge`]: one step, from its record to its outcome;
//! - [`commit`], `transaction`: what becomes central state, and when;
//! - [`context`]: which of all this a thread is in;
//! - [`collective`], [`variables`]: what can be done there.

pub mod cancellation;
pub mod central_storage;
pub mod collective;
pub mod commit;
pub mod context;
mod lane;
pub mod merge;
pub mod metrics;
#[cfg(all(test, loom))]
mod model;
mod rendezvous;
pub mod run;
mod scratch;
mod signal;
mod step;
mod sync;
mod transaction;
pub mod variables;

pub use central_storage::{Options, Strategy};
pub use context::ReplicaContext;
pub use step::{Baggage, ReplicaFunction};
