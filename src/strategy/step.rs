//! The record of one step: what the coordinator and the replicas leave for each other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::cancellation::Listener;
use super::central_storage::Strategy;
use super::commit::StepParticipant;
use super::context::{Frame, ReplicaContext, with_frame};
use super::creation::Creations;
use super::lane::Lane;
use super::merge::{Request, Verdict};
use super::metrics::MetricTable;
use super::rendezvous::{Finish, Rendezvous};
use super::run::Limits;
use super::scratch::Scratch;
use super::signal::Spin;
use crate::error::{Error, Result};
use crate::values::Value;

/// What a replica's callback does: it sees its context and may return a value. Arguments are
/// found in the context.
pub type ReplicaFunction = FunctionFor<'static>;

/// A [`ReplicaFunction`] that borrows what lives for `'a`.
pub type FunctionFor<'a> = dyn Fn(&ReplicaContext) -> Result<Option<Value>> + Send + Sync + 'a;

/// Something of the caller's that is dropped when the last callback of a run is back.
pub type Baggage = Box<dyn std::any::Any + Send>;

/// The letter boxes of a strategy's replica threads.
pub(super) type Lanes = Arc<[CachePadded<Lane<Arc<StepRecord>>>]>;

/// The callback of a step. Steps that return only after all callbacks did borrow it; those that
/// may be abandoned own it.
#[derive(Clone)]
pub(super) enum Callback {
    Borrowed(*const ReplicaFunction),
    Owned(Arc<ReplicaFunction>),
}

// SAFETY: the pointer is to a `Sync` function, and `Callback::borrowed` makes its caller keep the
// function alive until no replica can call it.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Callback {
    /// A callback that the step borrows.
    ///
    /// # Safety
    /// `function` lives until all replicas of the step have finished.
    pub unsafe fn borrowed<'a>(function: &'a FunctionFor<'a>) -> Callback {
        let function: *const FunctionFor<'a> = function;
        // SAFETY: only the lifetime changes, and the caller vouches for it.
        Callback::Borrowed(unsafe {
            std::mem::transmute::<*const FunctionFor<'a>, *const ReplicaFunction>(function)
        })
    }

    fn call(&self, context: &ReplicaContext) -> Result<Option<Value>> {
        match self {
            // SAFETY: `borrowed` was promised that the function lives until all replicas have
            // finished, and this replica has not.
            Callback::Borrowed(function) => unsafe { (**function)(context) },
            Callback::Owned(function) => function(context),
        }
    }
}

/// What all replicas of a step share. The coordinator writes it before the step opens.
#[derive(Clone)]
pub(super) struct Task {
    pub strategy: Strategy,
    pub callback: Callback,
    pub arguments: Option<Value>,
    /// The number of the step, counted over the strategy's life.
    pub number: u64,
    /// Whether replica 0 runs on the coordinator's thread.
    pub inline: bool,
    /// 0 for the outermost run, one more for each run inside of a merge function.
    pub depth: usize,
    pub limits: Limits,
    pub global_examples: u64,
}

/// What one replica leaves for the coordinator and the coordinator for it. Its lock is free
/// whenever somebody wants it: the rendezvous says whose turn it is.
#[derive(Default)]
pub(super) struct Desk {
    pub request: Option<Request>,
    pub reply: Option<Result<Option<Value>>>,
    pub outcome: Option<Result<Option<Value>>>,
    pub metrics: MetricTable,
    pub scratch: Scratch,
    /// How many synchronising operations the replica has begun.
    pub sequence: u64,
    /// The library told it to stop.
    pub told_to_stop: bool,
    pub first_example: u64,
    pub examples: Option<u64>,
}

/// The record of one step. A strategy uses the same one for step after step, and another one for
/// each level of nested runs; an abandoned one is left to the late replicas.
pub(super) struct StepRecord {
    pub rendezvous: Rendezvous,
    pub desks: Box<[CachePadded<Mutex<Desk>>]>,
    pub lanes: Lanes,
    pub spin: Spin,
    /// Replicas that can stop early should.
    pub stopping: AtomicBool,
    task: Mutex<Option<Task>>,
    pub verdict: Mutex<Verdict>,
    /// What the caller lends to the callbacks; dropped when the last one is back.
    baggage: Mutex<Option<Baggage>>,
    /// What late callbacks may still write to.
    kept: Mutex<Vec<Arc<dyn StepParticipant>>>,
    /// The variables that the replicas make.
    pub creations: Creations,
    /// When the step was opened, for messages about late replicas.
    pub opened: Mutex<Option<Instant>>,
    /// Room for what the layer above hangs on each replica's context.
    pub attachments: Box<[std::sync::OnceLock<Box<dyn std::any::Any + Send + Sync>>]>,
}

impl StepRecord {
    pub fn new(lanes: Lanes, spin: Spin) -> StepRecord {
        let replicas = lanes.len();
        StepRecord {
            rendezvous: Rendezvous::new(replicas),
            desks: (0..replicas).map(|_| CachePadded::default()).collect(),
            lanes,
            spin,
            stopping: AtomicBool::new(false),
            task: Mutex::new(None),
            verdict: Mutex::default(),
            baggage: Mutex::new(None),
            kept: Mutex::new(Vec::new()),
            creations: Creations::default(),
            opened: Mutex::new(None),
            attachments: (0..replicas).map(|_| std::sync::OnceLock::new()).collect(),
        }
    }

    pub fn replicas(&self) -> usize {
        self.desks.len()
    }

    /// The task of the open step.
    pub fn task(&self) -> Option<Task> {
        self.task.lock().clone()
    }

    /// Sets the desks up and opens the step.
    pub fn open(&self, mut task: Task, baggage: Option<Baggage>) {
        let mut first_example = 0;
        for (replica, desk) in self.desks.iter().enumerate() {
            let mut desk = desk.lock();
            let examples = task.arguments.as_ref().and_then(|value| value.examples_of(replica));
            desk.request = None;
            desk.reply = None;
            desk.outcome = None;
            desk.metrics.clear();
            desk.scratch.reset();
            desk.sequence = 0;
            desk.told_to_stop = false;
            desk.first_example = first_example;
            desk.examples = examples;
            first_example += examples.unwrap_or(0);
        }
        task.global_examples = first_example;
        *self.verdict.lock() = Verdict::default();
        self.creations.open(&task.strategy);
        self.stopping.store(false, Ordering::Relaxed);
        *self.opened.lock() = Some(Instant::now());
        *self.baggage.lock() = baggage;
        *self.task.lock() = Some(task);
        self.rendezvous.open();
    }

    /// Keeps what late callbacks may still write to.
    pub fn keep(&self, participants: Vec<Arc<dyn StepParticipant>>) {
        self.kept.lock().extend(participants);
    }

    /// Drops what the step held, after the last callback; the caller's baggage last.
    pub fn clear(&self) {
        let task = self.task.lock().take();
        for desk in &self.desks {
            let mut desk = desk.lock();
            desk.request = None;
            desk.reply = None;
            desk.outcome = None;
        }
        self.kept.lock().clear();
        self.creations.clear();
        drop(task);
        let baggage = self.baggage.lock().take();
        drop(baggage);
    }

    /// Runs the callback of `replica` on this thread, to its end.
    pub fn execute(self: &Arc<Self>, replica: usize) {
        let task = self.task();
        let outcome = match &task {
            Some(task) => {
                let context = ReplicaContext::of_step(task, self, replica);
                let call = AssertUnwindSafe(|| {
                    with_frame(Frame::Replica(context.clone()), || task.callback.call(&context))
                });
                catch_unwind(call).unwrap_or_else(|panic| Err(panicked(panic)))
            }
            None => Err(Error::Internal("a replica was woken without a step".into())),
        };
        // The replica gives up its hold of the strategy before the coordinator learns that it has
        // finished, so that whoever releases a strategy after a step releases it then and there.
        drop(task);
        if outcome.is_err() {
            self.stopping.store(true, Ordering::Relaxed);
        }
        self.desks[replica].lock().outcome = Some(outcome);
        if self.rendezvous.finish(replica) == Finish::LateAndLast {
            self.clear();
        }
    }

    /// Posts the step to the threads of all replicas from `first` on.
    pub fn dispatch(self: &Arc<Self>, first: usize) {
        for lane in &self.lanes[first..] {
            lane.post(Arc::clone(self));
        }
    }

    /// Makes the threads of all replicas look again.
    pub fn notify_all(&self) {
        for lane in self.lanes.iter() {
            lane.notify();
        }
    }
}

impl Listener for StepRecord {
    fn wake(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.rendezvous.wake_coordinator();
    }
}

/// The error for a callback that panicked.
pub(super) fn panicked(panic: Box<dyn std::any::Any + Send>) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".into());
    Error::Callback {
        status: crate::error::Status::Internal,
        message: format!("the callback panicked: {text}"),
        payload: None,
    }
}
