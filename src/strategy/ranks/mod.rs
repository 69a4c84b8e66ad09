//! A strategy over several processes: each, a rank, has replicas of its own, and all together are as
//! one.
//!
//! All that the ranks exchange they exchange in meetings, on the thread that calls the strategy: each
//! begins with every rank's saying where it is and whether it has failed, so that it is also a vote, and
//! all ranks draw the same conclusion from the same words. The meetings of one step are a series; once
//! one rank has failed in it, or is somewhere else, nothing more is exchanged in it on any rank. The
//! last meeting of a step is its commit point. So a step counts on all ranks or on none.
//!
//! - `group`: the ranks. `joining`: they make a strategy and variables. `series`: how far their meetings are.
//! - `descriptor`: what a rank says. `collective`: how they meet. `quantities`: what must be the same on all.
//!   `disagreement`: what is said where it is not.
//! - `values`: values put together from the components of all ranks. `large`: reductions of large ones.
//! - `wire`: numbers and tensors as bytes.
//! - `steps`: what a step asks the others, from its beginning to its commit point. `totals`: what it adds up.

mod collective_call;
mod descriptor;
mod disagreement;
mod group;
mod joining;
pub(crate) mod large;
mod quantities;
mod series;
pub(crate) mod steps;
pub(crate) mod totals;
mod values;
pub(crate) mod wire;

pub(crate) use collective_call::{Call, Collective, Gathered, PASSED_OVER, zeros};
pub(crate) use descriptor::Kind;
pub use group::Ranks;
pub(crate) use quantities::{AddQuantity, Quantities, agreement, agreement_of};
