//! The central storage strategy: scopes and contexts, steps on all replicas, merge calls, the
//! commit point, variables.
//!
//! From the bottom up; each imports only what stands above it here:
//!
//! - [`protocol`]: how the threads of a step meet, which knows nothing of callbacks and is
//!   model-checked; the life of a step is written down there;
//! - [`limits`], [`cancellation`], `step_lock`, `draining`: what bounds a step, who takes the next one, and what
//!   remains of abandoned steps;
//! - [`commit`], `transaction`, [`metrics`], `scratch`, [`operation`]: what a step writes and asks
//!   for;
//! - `layout`: which replicas a process has, and on which device each is; [`replica_threads`]: what a program does on
//!   their threads;
//! - [`ranks`]: processes whose replicas run in sync, and how they meet;
//! - [`options`]: how a strategy is set up, and what the choices come to;
//! - `devices`, `threads`, `steps`: what a strategy consists of; [`central_storage`]: the strategy
//!   itself, and the one that is current where a program has made none;
//! - `fingerprint`: whether all ranks have the same weights;
//! - [`creator`], `creations`: variables that are about to be made;
//! - `lending`, `slot`: what a step lends to its replicas, and what they leave; `step`: the record of one step, and the
//!   context by which a replica finds it;
//! - `multi_rank_step`: how several ranks begin a step and come to one outcome;
//! - [`context`], [`replica_context`], [`strict_callbacks`]: which of all this a thread is in, what it can ask, and
//!   what is looked at when a callback has returned;
//! - `commit_point`: what becomes central state, and when;
//! - [`quiet`]: no step in progress, and none that begins;
//! - `dispatch`, `execution`, [`merge`], [`run`]: one step, from its start to its outcome;
//! - [`variables`], `aggregation`, [`assign_all`], [`creation`], [`in_place`], [`writing`], [`collective`],
//!   `placement`, `sparse`: variables and values in each of the contexts;
//! - `measuring`: what steps spend their time on;
//! - [`extended`]: the rest of the strategy's interface.

mod aggregation;
pub mod assign_all;
pub mod cancellation;
pub mod central_storage;
pub mod collective;
pub mod commit;
mod commit_point;
pub mod context;
pub mod creation;
mod creations;
pub mod creator;
mod devices;
mod dispatch;
mod draining;
mod execution;
pub mod extended;
mod fingerprint;
pub mod in_place;
mod layout;
mod lending;
pub mod limits;

mod measuring;
pub mod merge;
pub mod metrics;
mod multi_rank_step;
pub mod operation;
pub mod options;
mod panic;
mod placement;
mod protocol;
pub mod quiet;
pub mod ranks;
pub mod replica_context;
pub mod replica_threads;
pub mod run;
mod scratch;
mod slot;
mod sparse;
mod step;
mod step_lock;
mod steps;
pub mod strict_callbacks;
mod strict_context;
mod threads;
mod transaction;
pub mod variables;
pub mod writing;

pub use central_storage::Strategy;
pub use measuring::StepReport;
pub use options::Options;
pub use step::{FunctionFor, ReplicaContext, ReplicaFunction, RunUserData, Watcher};

/// Every lock that the replicas of a strategy share, held: for tests of what is to take none of them.
#[cfg(test)]
pub(crate) mod held_locks {
    use super::step::ReplicaContext;

    /// Calls `body` while this thread holds the locks of the context's strategy and of its step, and those
    /// that belong to the other replicas. Only what belongs to `replica` alone is free.
    pub(crate) fn with_locks_held<R>(
        context: &ReplicaContext,
        replica: usize,
        body: impl FnOnce() -> R,
    ) -> R {
        let inner = context.strategy().inner();
        let _of_strategy = (
            inner.steps.lock.hold(),
            inner.steps.draining.hold(),
            inner.steps.records.lock(),
            inner.steps.transaction.lock(),
            inner.steps.central.write(),
            inner.steps.metrics.lock(),
            inner.variable_slab.lock(),
        );
        let step = context.step.as_ref().expect("a replica in a run");
        let _of_step = (step.coordinator_moved.lock(), step.creations.hold(), step.hold());
        let slots = step.slots.iter().enumerate().filter(|&(other, _)| other != replica);
        let _of_replicas: Vec<_> = slots.map(|(_, slot)| slot.local()).collect();
        body()
    }
}
