//! The record of one step: what the coordinator and the replicas leave for each other.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::cancellation::Listener;
use super::central_storage::Strategy;
use super::commit::StepParticipant;
use super::context::{Frame, ReplicaContext, StepFrame, with_frame};
use super::creation::Creations;
use super::lane::Lane;
use super::merge::{Request, Verdict};
use super::metrics::MetricTable;
use super::rendezvous::{Finish, Rendezvous};
use super::run::Limits;
use super::scratch::Scratch;
use super::signal::Spin;
use super::sync::Mutex;
use crate::device::cpu::affinity;
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
    /// When the run began, for messages about late replicas; such a run has limits.
    pub opened: Option<Instant>,
    pub global_examples: u64,
}

impl Task {
    /// The step as the frames of its merge functions know it.
    pub fn frame(&self) -> StepFrame {
        let limits = if self.inline { Limits::default() } else { self.limits.clone() };
        StepFrame { number: self.number, depth: self.depth, limits }
    }
}

/// What one replica needs to take part in a step. The coordinator makes and drops it, so that
/// replicas do not contend for the reference counts of what they share.
pub(super) struct Part {
    callback: Callback,
    context: ReplicaContext,
    /// The same for the replica's stack of contexts.
    frame: Option<Frame>,
}

/// What one replica leaves for the coordinator and the coordinator for it. Its lock is free
/// whenever somebody wants it: the rendezvous says whose turn it is.
#[derive(Default)]
pub(super) struct Desk {
    pub part: Option<Part>,
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

/// What a step holds until its last callback is back.
#[derive(Default)]
struct Holdings {
    task: Option<Task>,
    verdict: Verdict,
    /// What the caller lends to the callbacks; dropped when the last one is back.
    baggage: Option<Baggage>,
    /// What late callbacks may still write to.
    kept: Vec<Arc<dyn StepParticipant>>,
}

/// The record of one step. A strategy uses the same one for step after step, and another one for
/// each level of nested runs; an abandoned one is left to the late replicas.
pub(super) struct StepRecord {
    pub rendezvous: Rendezvous,
    pub desks: Box<[CachePadded<Mutex<Desk>>]>,
    pub lanes: Lanes,
    pub spin: Spin,
    /// When the coordinator last made way for a replica's thread.
    coordinator_moved: Mutex<Option<Instant>>,
    /// Replicas that can stop early should.
    pub stopping: AtomicBool,
    holdings: Mutex<Holdings>,
    /// The variables that the replicas make.
    pub creations: Creations,
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
            coordinator_moved: Mutex::default(),
            stopping: AtomicBool::new(false),
            holdings: Mutex::default(),
            creations: Creations::default(),
            attachments: (0..replicas).map(|_| std::sync::OnceLock::new()).collect(),
        }
    }

    pub fn replicas(&self) -> usize {
        self.desks.len()
    }

    /// Looks at the task of the open step; `look` must be short.
    pub fn with_task<R>(&self, look: impl FnOnce(&Task) -> R) -> Option<R> {
        self.holdings.lock().task.as_ref().map(look)
    }

    /// Looks at the verdict on the open step; `look` must be short.
    pub fn with_verdict<R>(&self, look: impl FnOnce(&mut Verdict) -> R) -> R {
        look(&mut self.holdings.lock().verdict)
    }

    /// Sets the desks up and opens the step.
    pub fn open(self: &Arc<Self>, mut task: Task, baggage: Option<Baggage>) {
        let examples = |replica| task.arguments.as_ref()?.examples_of(replica);
        task.global_examples = (0..self.replicas()).filter_map(examples).sum();
        let mut first_example = 0;
        for (replica, desk) in self.desks.iter().enumerate() {
            let context = ReplicaContext::of_step(&task, self, replica);
            let part = Part {
                callback: task.callback.clone(),
                frame: Some(Frame::Replica(context.clone())),
                context,
            };
            let examples = task.arguments.as_ref().and_then(|value| value.examples_of(replica));
            let mut desk = desk.lock();
            desk.part = Some(part);
            desk.metrics.clear();
            desk.scratch.reset();
            desk.sequence = 0;
            desk.told_to_stop = false;
            desk.first_example = first_example;
            desk.examples = examples;
            first_example += examples.unwrap_or(0);
        }
        self.creations.open(&task.strategy);
        self.stopping.store(false, Ordering::Relaxed);
        {
            let mut holdings = self.holdings.lock();
            holdings.verdict = Verdict::default();
            holdings.baggage = baggage;
            holdings.task = Some(task);
        }
        self.rendezvous.open();
    }

    /// Keeps what late callbacks may still write to.
    pub fn keep(&self, participants: Vec<Arc<dyn StepParticipant>>) {
        self.holdings.lock().kept.extend(participants);
    }

    /// Drops what the step held, after the last callback; the caller's baggage last.
    pub fn clear(&self) {
        for desk in &self.desks {
            let (part, request, reply, outcome) = {
                let mut desk = desk.lock();
                let desk = &mut *desk;
                (desk.part.take(), desk.request.take(), desk.reply.take(), desk.outcome.take())
            };
            drop((part, request, reply, outcome));
        }
        let (task, kept, baggage) = {
            let mut holdings = self.holdings.lock();
            let holdings = &mut *holdings;
            (holdings.task.take(), mem::take(&mut holdings.kept), holdings.baggage.take())
        };
        drop((task, kept));
        self.creations.clear();
        drop(baggage);
    }

    /// Runs the callback of `replica` on this thread, to its end.
    pub fn execute(&self, replica: usize) {
        let part = self.desks[replica].lock().part.take();
        let (outcome, part) = match part {
            Some(Part { callback, context, frame: Some(frame) }) => {
                let call = AssertUnwindSafe(|| with_frame(frame, || callback.call(&context)));
                let (outcome, frame) =
                    catch_unwind(call).unwrap_or_else(|panic| (Err(panicked(panic)), None));
                (outcome, Some(Part { callback, context, frame }))
            }
            _ => (Err(Error::Internal("a replica was woken without a step".into())), None),
        };
        if outcome.is_err() {
            self.stopping.store(true, Ordering::Relaxed);
        }
        {
            let mut desk = self.desks[replica].lock();
            desk.outcome = Some(outcome);
            desk.part = part;
        }
        if self.rendezvous.finish(replica) == Finish::LateAndLast {
            self.clear();
        }
    }

    /// Posts the step to the threads of all replicas from `first` on.
    pub fn dispatch(self: &Arc<Self>, first: usize) {
        let here = self.place_coordinator(first);
        for lane in &self.lanes[first..] {
            lane.see_coordinator(here);
            lane.post(Arc::clone(self));
        }
    }

    /// Makes way for the threads of the replicas from `first` on if one of them is bound to the
    /// processor of this thread, which need not take that one; the system would leave both there.
    /// Returns the processor that this thread is on now.
    fn place_coordinator(&self, first: usize) -> Option<usize> {
        const PAUSE: Duration = Duration::from_millis(1);
        let here = affinity::current_processor()?;
        let threads = &self.lanes[first..];
        let taken = |processor| threads.iter().any(|lane| lane.is_bound_to(processor));
        if self.spin == Spin::Never || !taken(here) {
            return Some(here);
        }
        // Not again and again where the system insists.
        let now = Instant::now();
        let mut moved = self.coordinator_moved.lock();
        if moved.is_none_or(|last| now.duration_since(last) >= PAUSE) {
            *moved = Some(now);
            affinity::step_aside(taken);
            return affinity::current_processor();
        }
        Some(here)
    }

    /// How the coordinator waits for the threads of all replicas from `first` on if it is allowed
    /// to spin in this way: not at all on the processor that one of them needs.
    pub fn coordinator_spin(&self, allowed: Spin, first: usize) -> Spin {
        match affinity::current_processor() {
            Some(here) if allowed == Spin::Bounded => {
                let taken = self.lanes[first..].iter().any(|lane| lane.is_bound_to(here));
                if taken { Spin::Never } else { allowed }
            }
            _ => allowed,
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
