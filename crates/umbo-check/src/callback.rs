//! The callback of a check, and how a run of the check calls it.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use super::observer::Observer;
use umbo_base::error::Result;
use umbo_strategy::step::limits::Limits;
use umbo_strategy::{
    FunctionFor, ReplicaContext, ReplicaFunction, RunUserData, Strategy, TrialObserver,
};
use umbo_tensor::values::Value;

/// A step's callback with the data that it uses: a run that ends before its callbacks have
/// returned owns both.
#[derive(Clone)]
pub struct OwnedCallback {
    /// The callback.
    pub function: Arc<ReplicaFunction>,
    /// The data that the callback uses, if it does not own them itself.
    pub user_data: Option<Arc<dyn Any + Send + Sync>>,
}

impl OwnedCallback {
    /// A callback that owns its data.
    pub fn of(function: Arc<ReplicaFunction>) -> OwnedCallback {
        OwnedCallback {
            function,
            user_data: None,
        }
    }

    /// A reference to the data, as a run takes it.
    pub fn run_user_data(&self) -> Option<RunUserData> {
        let user_data = self.user_data.clone()?;
        Some(Box::new(user_data))
    }
}

/// The limits of a step that is checked before it runs. Each run of the check may take as long as
/// the step may.
pub(super) struct TrialLimits<'a> {
    limits: &'a Limits,
    /// The time when the check began.
    begun: Instant,
    /// Whether a run of the check has ended by the limits.
    is_stopped: Cell<bool>,
}

impl<'a> TrialLimits<'a> {
    /// The limits of a check that begins.
    pub fn of(limits: &'a Limits) -> TrialLimits<'a> {
        TrialLimits {
            limits,
            begun: Instant::now(),
            is_stopped: Cell::new(false),
        }
    }

    /// The limits of a run that begins now and takes so many times as long as the step.
    pub fn limits_of(&self, times: usize) -> Limits {
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        let deadline = self.limits.deadline.and_then(|deadline| {
            let left = deadline.saturating_duration_since(self.begun);
            // A deadline past what the clock counts never comes.
            Instant::now().checked_add(left.saturating_mul(times))
        });
        let cancellation = self.limits.cancellation.clone();
        Limits {
            deadline,
            cancellation,
        }
    }

    /// Whether a run of the check has ended by them, and so the check and the step.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }
}

/// The callback of a check.
#[derive(Clone, Copy)]
pub(super) enum TrialCallback<'a> {
    /// The runs of the check wait for it, however long it takes.
    Borrowed(&'a FunctionFor<'a>),
    /// The callback of a step, whose limits the runs of the check have, too.
    Limited(&'a OwnedCallback, &'a TrialLimits<'a>),
}

impl TrialCallback<'_> {
    /// Runs it on all replicas, observed, as a step that leaves no trace. `times`: how many times
    /// as long as the step it may take.
    pub fn try_out(
        &self,
        strategy: &Strategy,
        arguments: Value,
        observer: &Arc<Observer>,
        prefill: f64,
        times: usize,
    ) -> Result<Option<Value>> {
        let watcher = Arc::clone(observer) as Arc<dyn TrialObserver>;
        match *self {
            TrialCallback::Borrowed(function) => {
                let observed =
                    |context: &ReplicaContext| observer.observe(function, context, prefill);
                strategy.try_out(&observed, Some(arguments), watcher)
            }
            TrialCallback::Limited(callback, trial) => {
                let notes = Arc::clone(observer);
                let function = Arc::clone(&callback.function);
                let observed =
                    move |context: &ReplicaContext| notes.observe(&*function, context, prefill);
                let limits = trial.limits_of(times);
                let user_data = callback.run_user_data();
                let outcome = strategy.try_out_within(
                    Arc::new(observed),
                    Some(arguments),
                    watcher,
                    limits.clone(),
                    user_data,
                );
                if !observer.is_complete() && limits.exceeded().is_some() {
                    trial.is_stopped.set(true);
                }
                outcome
            }
        }
    }

    /// Whether a run has ended by the limits of the step.
    pub fn is_stopped(&self) -> bool {
        match self {
            TrialCallback::Borrowed(_) => false,
            TrialCallback::Limited(_, trial) => trial.is_stopped(),
        }
    }
}
