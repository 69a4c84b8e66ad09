//! The record of one step: what the coordinator and the replicas leave for each other, and how a
//! replica finds it.

#![expect(unsafe_code, reason = "a step lends its function to the replicas' threads")]

use std::any::Any;
use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crossbeam_utils::CachePadded;

use super::cancellation::Listener;
use super::central_storage::{Inner, Strategy};
use super::commit::StepParticipant;
use super::creations::Creations;
use super::draining::Abandonable;
use super::limits::Limits;
use super::metrics::{Additions, MetricTable};
use super::operation::Operation;
use super::protocol::rendezvous::{Phase, Rendezvous};
use super::protocol::turns::Turns;
use super::ranks::steps::Elsewhere;
use super::scratch::Scratch;
use super::step_lock::StepNumber;
use super::strict_callbacks::Guards;
use super::threads::Mailboxes;
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::executor::sync::Mutex;
use crate::executor::wait::Spin;
use crate::observe::report::Opened;
use crate::values::Value;
use crate::values::variable::Variable;

/// What a replica's callback does: it sees its context and may return a value. Arguments are
/// found in the context.
pub type ReplicaFunction = FunctionFor<'static>;

/// A [`ReplicaFunction`] that borrows what lives for `'a`.
pub type FunctionFor<'a> = dyn Fn(&ReplicaContext) -> Result<Option<Value>> + Send + Sync + 'a;

/// Something of the caller's that is dropped when the last callback of a run is back.
pub type Baggage = Box<dyn Any + Send>;

/// What runs once for all replicas. It gets the replicas' arguments in replica order and returns
/// one result for each.
pub type Merge =
    Box<dyn FnOnce(&Strategy, Vec<Option<Value>>) -> Result<Vec<Option<Value>>> + Send>;

/// Is told of what the callbacks of a trial look at.
pub trait Watcher: Send + Sync {
    /// A callback is about to be shown `variable`. Called on the replicas' threads, at the same time.
    fn looks_at(&self, variable: &Variable) -> Result<()>;

    /// A callback is about to add to `metrics`. Called as the other one.
    fn adds_to(&self, metrics: Arc<dyn Additions>) -> Result<()>;
}

/// What a replica's callback knows of itself. Cloning makes another reference to the same
/// context; it is of use only in the callback's thread and only until the callback returns.
#[derive(Clone)]
pub struct ReplicaContext {
    pub(super) strategy: Strategy,
    pub(super) step: Option<Arc<StepRecord>>,
    pub(super) replica: usize,
    pub(super) number: StepNumber,
    /// Who is told of what the callback looks at, if the step is a trial.
    pub(super) watcher: Option<Arc<dyn Watcher>>,
    /// Whether the callback runs on the coordinator's thread.
    pub(super) inline: bool,
    pub(super) global_examples: Option<u64>,
}

/// The callback of a step. A step that no limit bounds returns only after all callbacks did, and
/// may borrow it; a step that may be abandoned owns it.
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
            mem::transmute::<*const FunctionFor<'a>, *const ReplicaFunction>(function)
        })
    }

    pub fn call(&self, context: &ReplicaContext) -> Result<Option<Value>> {
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
    /// Which step, and where in it.
    pub place: StepPlace,
    /// When the run began, for messages about late replicas; such a run has limits.
    pub opened: Option<Instant>,
    /// How the replicas measure themselves, if they are to.
    pub measured: Option<Opened>,
    /// The examples of all replicas, if the arguments tell them.
    pub global_examples: Option<u64>,
    /// What the other ranks have.
    pub elsewhere: Elsewhere,
}

impl Task {
    pub fn new(
        strategy: &Strategy,
        callback: Callback,
        arguments: Option<Value>,
        step: StepPlace,
    ) -> Task {
        Task {
            strategy: strategy.clone(),
            callback,
            arguments,
            opened: step.limits.is_bounded().then(Instant::now),
            place: step,
            measured: None,
            global_examples: None,
            elsewhere: Elsewhere::default(),
        }
    }

    /// Whether replica 0 runs on the coordinator's thread. Where there are limits the coordinator
    /// watches them.
    pub fn is_inline(&self) -> bool {
        !self.place.limits.is_bounded()
    }
}

/// Which step something is part of.
#[derive(Clone)]
pub(super) struct StepPlace {
    pub number: StepNumber,
    /// Who is told of what callbacks look at, if the step is a trial.
    pub watcher: Option<Arc<dyn Watcher>>,
    /// 0 for the outermost run.
    pub depth: usize,
    pub limits: Limits,
}

/// What one replica needs to take part in a step. The coordinator makes and drops it, so that
/// replicas do not contend for the reference counts of what they share.
pub(super) struct Role {
    pub callback: Callback,
    pub context: ReplicaContext,
    /// The same for the replica's stack of contexts.
    pub frame: Option<ReplicaContext>,
    /// How the replica measures itself, if it is to.
    pub measured: Option<Opened>,
}

/// What a replica asks for when it arrives.
pub(super) struct Request {
    pub operation: Operation,
    pub arguments: Option<Value>,
    pub merge: Merge,
    pub sequence: u64,
}

/// What went wrong with a step as a whole, beside what the replicas report.
#[derive(Default)]
pub(super) struct Verdict {
    /// The error of a merge function.
    pub merge_error: Option<Error>,
    /// Who was where when the replicas disagreed.
    pub disagreement: Option<String>,
}

/// What one replica leaves for the coordinator and the coordinator for it. Its lock is free
/// whenever somebody wants it: the rendezvous says whose turn it is.
pub(super) struct Desk {
    pub part: Option<Role>,
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
    /// Variables of other strategies that the callback has views of.
    pub viewed: HashMap<usize, Variable>,
    /// What a strict strategy looks at.
    pub guards: Option<Box<Guards>>,
}

impl Desk {
    fn on(device: DeviceId, strict: bool) -> Desk {
        Desk {
            guards: strict.then(Box::default),
            scratch: Scratch::on(device),
            part: None,
            request: None,
            reply: None,
            outcome: None,
            metrics: MetricTable::default(),
            sequence: 0,
            told_to_stop: false,
            first_example: 0,
            examples: None,
            viewed: HashMap::new(),
        }
    }
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

/// What a step has held and what its owner still has to drop, when no lock is held: it may run the
/// caller's code. The baggage comes last.
#[derive(Default)]
pub(super) struct Leftovers {
    task: Option<Task>,
    kept: Vec<Arc<dyn StepParticipant>>,
    baggage: Option<Baggage>,
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        drop(self.task.take());
        self.kept.clear();
        drop(self.baggage.take());
    }
}

/// The record of one step. A strategy uses the same one for step after step, and another one for
/// each level of nested runs; an abandoned one is left to the late replicas and dropped.
pub(super) struct StepRecord {
    pub rendezvous: Rendezvous,
    pub desks: Box<[CachePadded<Mutex<Desk>>]>,
    pub mailboxes: Mailboxes,
    /// Who has which device, where replicas share devices; of all steps of the strategy.
    pub turns: Option<Arc<Turns>>,
    pub spin: Spin,
    /// Whether there are as many processors as devices.
    pub has_room: bool,
    /// When the coordinator last made way for a replica's thread.
    pub coordinator_moved: Mutex<Option<Instant>>,
    /// Replicas that can stop early should.
    pub stopping: AtomicBool,
    /// Written in every step, and so not in the line of what all threads only read.
    holdings: CachePadded<Mutex<Holdings>>,
    /// Whoever lets go of what an abandoned step held: a replica's id, or the number of replicas for
    /// the coordinator. It counts as late until it has.
    pub last: AtomicUsize,
    /// The variables that the replicas make.
    pub creations: CachePadded<Creations>,
    /// Room for what the layer above hangs on each replica's context.
    pub attachments: Box<[OnceLock<Box<dyn Any + Send + Sync>>]>,
}

impl StepRecord {
    fn of(inner: &Inner, strict: bool) -> StepRecord {
        let (mailboxes, layout) = (Arc::clone(&inner.threads.mailboxes), &inner.devices.layout);
        let replicas = mailboxes.len();
        StepRecord {
            rendezvous: Rendezvous::new(replicas),
            desks: layout
                .replica_devices
                .iter()
                .map(|&device| CachePadded::new(Mutex::new(Desk::on(device, strict))))
                .collect(),
            mailboxes,
            turns: inner.threads.turns.clone(),
            spin: inner.threads.spin,
            has_room: inner.threads.has_room,
            coordinator_moved: Mutex::default(),
            stopping: AtomicBool::new(false),
            holdings: CachePadded::default(),
            last: AtomicUsize::new(replicas),
            creations: CachePadded::default(),
            attachments: (0..replicas).map(|_| OnceLock::new()).collect(),
        }
    }

    pub fn replicas(&self) -> usize {
        self.desks.len()
    }

    /// Looks at the task of the open step; `look` must be short.
    pub fn with_task<R>(&self, look: impl FnOnce(&Task) -> R) -> Option<R> {
        self.holdings.lock().task.as_ref().map(look)
    }

    /// Holds what the step works on.
    #[cfg(test)]
    pub fn hold(&self) -> impl Sized {
        self.holdings.lock()
    }

    /// Looks at the verdict on the open step; `look` must be short.
    pub fn with_verdict<R>(&self, look: impl FnOnce(&mut Verdict) -> R) -> R {
        look(&mut self.holdings.lock().verdict)
    }

    /// Sets the desks up and opens the step.
    pub fn open(self: &Arc<Self>, mut task: Task, baggage: Option<Baggage>) {
        let examples = |replica| task.arguments.as_ref()?.examples_of(replica);
        let own = (0..self.replicas()).filter_map(examples).reduce(|sum, count| sum + count);
        task.global_examples = own.map(|own| own + task.elsewhere.examples);
        let mut first_example = task.elsewhere.examples_before;
        for (replica, desk) in self.desks.iter().enumerate() {
            let context = ReplicaContext::of_step(&task, self, replica);
            let part = Role {
                callback: task.callback.clone(),
                frame: Some(context.clone()),
                context,
                measured: task.measured,
            };
            let examples = task.arguments.as_ref().and_then(|value| value.examples_of(replica));
            let mut desk = desk.lock();
            desk.part = Some(part);
            desk.metrics.clear();
            desk.scratch.reset();
            if let Some(guards) = &mut desk.guards {
                guards.begin();
            }
            desk.sequence = 0;
            desk.told_to_stop = false;
            desk.first_example = first_example;
            desk.examples = examples;
            first_example += examples.unwrap_or(0);
        }
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

    /// Takes out what the step held, after the last callback, so that the record can serve another
    /// step.
    pub fn clear(&self) -> Leftovers {
        for desk in &self.desks {
            let (part, request, reply, outcome, viewed) = {
                let mut desk = desk.lock();
                let desk = &mut *desk;
                let viewed = (!desk.viewed.is_empty()).then(|| mem::take(&mut desk.viewed));
                let answers = (desk.reply.take(), desk.outcome.take());
                (desk.part.take(), desk.request.take(), answers.0, answers.1, viewed)
            };
            drop((part, request, reply, outcome, viewed));
        }
        self.creations.clear();
        let mut holdings = self.holdings.lock();
        Leftovers {
            task: holdings.task.take(),
            kept: mem::take(&mut holdings.kept),
            baggage: holdings.baggage.take(),
        }
    }
}

impl Listener for StepRecord {
    fn wake(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.rendezvous.wake_coordinator();
        self.creations.look_again();
    }
}

impl Abandonable for StepRecord {
    fn late_replicas(&self, late: &mut Vec<usize>) {
        let before = late.len();
        late.extend(
            (0..self.replicas())
                .filter(|&replica| self.rendezvous.phase(replica) != Phase::Finished),
        );
        if late.len() == before {
            // All callbacks have returned, and the last replica lets go of what the step held.
            late.extend(Some(self.last.load(Ordering::Relaxed)).filter(|&it| it < self.replicas()));
        }
    }
}

impl Strategy {
    /// The record for runs at `depth`.
    pub(super) fn record(&self, depth: usize) -> Arc<StepRecord> {
        let inner = self.inner();
        let mut records = inner.steps.records.lock();
        while records.len() <= depth {
            records.push(Arc::new(StepRecord::of(inner, self.is_strict())));
        }
        let record = Arc::clone(&records[depth]);
        record.downcast().expect("nothing but records of steps is put there, a line above")
    }

    /// Makes sure that no later step gets this record, which was abandoned.
    pub(super) fn forget_record(&self, record: &Arc<StepRecord>) {
        let own = Arc::as_ptr(record).cast::<()>();
        self.inner().steps.records.lock().retain(|other| Arc::as_ptr(other).cast::<()>() != own);
    }
}

impl ReplicaContext {
    fn of_step(task: &Task, step: &Arc<StepRecord>, replica: usize) -> ReplicaContext {
        ReplicaContext {
            strategy: task.strategy.clone(),
            step: Some(Arc::clone(step)),
            replica,
            number: task.place.number,
            watcher: task.place.watcher.clone(),
            inline: task.is_inline() && replica == 0,
            global_examples: task.global_examples,
        }
    }

    /// The default context: replica 0 of 1, in no step.
    pub fn default_context() -> ReplicaContext {
        ReplicaContext {
            strategy: Strategy::default_strategy(),
            step: None,
            replica: 0,
            number: StepNumber { id: 0, shown: 0 },
            watcher: None,
            inline: true,
            global_examples: None,
        }
    }

    /// The strategy whose run this is.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// This replica's id among those of all ranks that run in sync.
    pub fn replica_in_sync(&self) -> usize {
        self.strategy.first_replica_in_sync() + self.replica
    }

    /// This replica's id among those of this process.
    pub fn replica(&self) -> usize {
        self.replica
    }

    /// What tells the step from all others of the strategy; 0 in no step. Later steps have larger ones.
    pub fn step_id(&self) -> u64 {
        self.number.id
    }

    /// The number of the step, counted from 1 over the strategy's life; 0 in no step. Steps that leave
    /// no trace ([`Strategy::try_out`]) are not counted.
    pub fn step_number(&self) -> u64 {
        self.number.shown
    }

    /// Whether this is the very context `other`.
    pub fn is_same(&self, other: &ReplicaContext) -> bool {
        self.replica == other.replica
            && match (&self.step, &other.step) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            }
    }
}
