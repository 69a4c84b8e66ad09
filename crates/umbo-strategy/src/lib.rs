//! The central storage strategy: scopes and contexts, steps on all replicas, merge calls, the
//! commit point, variables.
//!
//! - [`protocol`]: how the threads of a step meet. It knows nothing of callbacks and is
//!   model-checked; its README has the life of a step.
//! - [`setup`]: how a program sets a strategy up, which replicas a process has and on which
//!   devices, and the strategy itself.
//! - [`step`]: one step. `run` starts it, `dispatch` and `execution` bring it to the replicas'
//!   threads, `record` is what coordinator and replicas leave for each other, `slot` and `lending`
//!   how they do it without locks; [`step::operation`] and [`step::merge`] are what replicas ask of
//!   all of them; [`step::limits`], [`step::cancellation`], `lock` and `draining` bound a step,
//!   order steps, and keep what remains of abandoned ones.
//! - [`commit`]: where what a step changed becomes central state, or none of it does; `quiet`: the
//!   time between two steps.
//! - [`context`]: which strategy and which replica a thread acts for, what a callback can ask of
//!   its context, and what a strict strategy looks at when the callback has returned.
//! - [`variables`]: creation, reading and writing of variables in each of the contexts.
//! - [`values`]: reductions, gathers and copies of values.
//! - [`ranks`]: processes whose replicas run in sync, how they begin a step together and agree on
//!   one outcome.
//! - [`extended`]: the rest of the strategy's interface.

#![deny(unsafe_code)]
#[macro_use]
extern crate umbo_base;

/// The names of the optional parts that this crate was built with.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "ranks")]
    "ranks",
];

/// Whether strategies can be over several ranks.
pub const HAS_RANKS: bool = cfg!(feature = "ranks");

pub mod commit;
pub mod context;
pub mod extended;
mod protocol;
pub mod ranks;
pub mod setup;
pub mod step;
pub mod values;
pub mod variables;

pub use setup::central_storage::{Strategy, WeakStrategy};
pub use setup::options::{Options, replicas_on_all_processors};
pub use step::measuring::StepReport;
pub use step::{FunctionFor, ReplicaContext, ReplicaFunction, RunUserData, TrialObserver};

/// Every lock that the replicas of a strategy share, held: for tests of what is to take none of
/// them.
#[cfg(test)]
pub(crate) mod held_locks {
    use super::step::ReplicaContext;

    /// Calls `body` while this thread holds the locks of the context's strategy and of its step.
    pub(crate) fn with_locks_held<R>(context: &ReplicaContext, body: impl FnOnce() -> R) -> R {
        let inner = context.strategy().inner();
        let _of_strategy = (
            inner.steps.lock.hold(),
            inner.steps.draining.hold(),
            inner.steps.transaction.lock(),
            inner.steps.central.write(),
            inner.steps.metrics.lock(),
            inner.variable_slab.lock(),
        );
        let step = context.step.as_ref().expect("a replica in a run");
        let _of_step = (step.coordinator_moved.lock(), step.creations.hold());
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
            let answered = with_locks_held(context, || {
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
