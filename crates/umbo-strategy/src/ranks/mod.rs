//! A strategy over several processes. Each process, a rank, has its own replicas, and all ranks
//! together behave like one process.
//!
//! Ranks exchange everything in collectives, on the thread that calls the strategy. A collective
//! begins with the exchange of descriptors, which say where each rank is and whether it has failed.
//! So it is also a vote, and all ranks draw the same conclusion from the same descriptors. The
//! collectives of one step are a series; once one rank has failed in it, or is at another
//! operation, no rank exchanges anything more in it. The last collective of a step is its commit
//! point. So a step counts on all ranks or on none.
//!
//! - `group`: the ranks. `joining`: they make a strategy and variables. `series`: the state of
//!   their collectives.
//! - `descriptor`: what a rank says first. `descriptors`: those of all ranks, which are sent only
//!   if they differ. `collective_call`: collectives. `quantities`: what must be equal on all ranks.
//!   `disagreement`: messages where it is not.
//! - `values`: values gathered from all ranks. `large`: reductions of large tensors.
//! - `wire`: the encoding of numbers and tensors.
//! - `steps`: the collectives of a step, from its beginning to its commit point. `totals`: the
//!   totals that a step adds up.

pub(crate) mod fingerprint;
pub(crate) mod multi_rank_step;

mod collective_call;
mod descriptor;
mod descriptors;
mod disagreement;
mod group;
mod joining;
pub(crate) mod large;
mod quantities;
mod series;
pub mod steps;
pub mod totals;
mod values;
pub mod wire;

pub use collective_call::{Call, Collective, Gathered, zeros};
pub use descriptor::{CollectiveKind, PASS_ENDED, PASSED_OVER};
pub use group::Ranks;
pub use quantities::{AddQuantity, Quantities, agreement, agreement_of};
