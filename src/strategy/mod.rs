//! The central storage strategy: scopes and contexts, steps on all replicas, merge calls, the
//! commit point, variables.
//!
//! - [`central_storage`]: the strategy itself, its devices, threads and locks;
//! - `sync`, `signal`, `lane`, `rendezvous`: the gang's protocol, from the bottom up, which knows
//!   nothing of callbacks and is model-checked;
//! - `step`, [`run`], [`merge`]: one step, from its record to its outcome;
//! - [`commit`], `transaction`: what becomes central state, and when;
//! - [`context`]: which of all this a thread is in;
//! - [`collective`], `placement`, `sparse`: values of all replicas become one;
//! - [`variables`], `scatter`, `creation`, [`creator`]: variables in each of the contexts;
//! - [`extended`], `logical_devices`: the rest of the strategy's interface.

pub mod cancellation;
pub mod central_storage;
pub mod collective;
pub mod commit;
pub mod context;
mod creation;
pub mod creator;
pub mod extended;
mod lane;
mod logical_devices;
pub mod merge;
pub mod metrics;
#[cfg(all(test, loom))]
mod model;
mod placement;
mod rendezvous;
pub mod run;
pub mod scatter;
mod scratch;
mod signal;
mod sparse;
mod step;
mod sync;
mod transaction;
mod turn;
pub mod variables;

pub use central_storage::{Options, Strategy};
pub use context::ReplicaContext;
pub use step::{Baggage, ReplicaFunction};
