//! The central storage strategy: scopes and contexts, steps on all replicas, merge calls, the
//! commit point, variables.
//!
//! From the bottom up; each imports only what stands above it here:
//!
//! - [`protocol`]: how the threads of a step meet, which knows nothing of callbacks and is
//!   model-checked; the life of a step is written down there;
//! - [`limits`], [`cancellation`], `step_lock`, `draining`: what bounds a step, who takes the next
//!   one, and what remains of abandoned steps;
//! - [`commit`], `transaction`, [`metrics`], `scratch`, [`operation`]: what a step writes and asks
//!   for;
//! - `layout`: which replicas a process has, and on which device each is; [`replica_threads`]: what
//!   a program does on their threads;
//! - [`ranks`]: processes whose replicas run in sync, and how they meet;
//! - [`options`]: how a strategy is set up, and what the choices come to;
//! - `devices`, `threads`, `steps`: what a strategy consists of; [`central_storage`]: the strategy
//!   itself, and the one that is current where a program has made none;
//! - `fingerprint`: whether all ranks have the same weights;
//! - [`creator`], `creations`: variables that are about to be made;
//! - `lending`, `slot`: what a step lends to its replicas, and what they leave; `step`: the record
//!   of one step, and the context by which a replica finds it;
//! - `multi_rank_step`: how several ranks begin a step and come to one outcome;
//! - [`context`], [`replica_context`], [`strict_callbacks`]: which of all this a thread is in, what
//!   it can ask, and what is looked at when a callback has returned;
//! - `commit_point`: what becomes central state, and when;
//! - [`quiet`]: no step in progress, and none that begins;
//! - `dispatch`, `execution`, [`merge`], [`run`]: one step, from its start to its outcome;
//! - [`variables`], `aggregation`, [`assign_all`], [`creation`], [`in_place`], [`writing`],
//!   [`collective`], `placement`, `sparse`: variables and values in each of the contexts;
//! - `measuring`: what steps spend their time on;
//! - [`extended`]: the rest of the strategy's interface.

#![deny(unsafe_code)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "these pages are for those who change the core: they are made with private items"
)]

#[macro_use]
extern crate umbo_base;

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

/// Every lock that the replicas of a strategy share, held: for tests of what is to take none of
/// them.
#[cfg(test)]
pub(crate) mod held_locks {
    use super::step::ReplicaContext;

    /// Calls `body` while this thread holds the locks of the context's strategy and of its step,
    /// and those that belong to the other replicas. Only what belongs to `replica` alone is
    /// free.
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
        let _of_step = (
            step.coordinator_moved.lock(),
            step.creations.hold(),
            step.hold(),
        );
        let slots = step
            .slots
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != replica);
        let _of_replicas: Vec<_> = slots.map(|(_, slot)| slot.local()).collect();
        body()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::held_locks::with_locks_held;
    use super::{Options, ReplicaContext, Strategy};

    /// A replica that polls takes no lock that it shares: it gets its answers while another one
    /// holds all of them.
    #[test]
    fn polling_for_cancellation_takes_no_shared_lock() {
        let options = Options {
            cpu_replicas: 2,
            ..Options::default()
        };
        let strategy = Strategy::new(&options).unwrap();
        let (ready, is_ready) = channel::<()>();
        let (held, all_held) = channel::<()>();
        let (polled, all_polled) = channel::<()>();
        let [is_ready, all_held, all_polled] = [is_ready, all_held, all_polled].map(Mutex::new);
        let callback = |context: &ReplicaContext| {
            if context.replica() == 1 {
                ready.send(()).unwrap();
                all_held.lock().unwrap().recv().unwrap();
                for _ in 0..1000 {
                    assert!(!context.is_cancelled());
                }
                polled.send(()).unwrap();
                return Ok(None);
            }
            // Whatever its callback needs at the beginning it has got.
            is_ready.lock().unwrap().recv().unwrap();
            let answered = with_locks_held(context, 1, || {
                held.send(()).unwrap();
                all_polled
                    .lock()
                    .unwrap()
                    .recv_timeout(Duration::from_secs(60))
                    .is_ok()
            });
            assert!(answered, "the other replica waited for a lock");
            Ok(None)
        };
        strategy.run(&callback, None).unwrap();
    }
}
