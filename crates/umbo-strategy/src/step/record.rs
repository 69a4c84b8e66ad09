//! The record of one step: what the coordinator and the replicas leave for each other, and how a
//! replica finds it.

#![expect(
    unsafe_code,
    reason = "a step lends its function to the replicas' threads"
)]

use std::any::Any;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use crossbeam_utils::CachePadded;

use super::cancellation::Listener;
use super::draining::Abandonable;
use super::lending::{Reference, TurnCell};
use super::limits::Limits;
use super::lock::StepNumber;
use super::slot::ReplicaSlot;
use super::threads::{Mailboxes, ReplicaJob};
use crate::commit::StepParticipant;
use crate::context::metrics::{Additions, MetricTable};
use crate::protocol::rendezvous::{Rendezvous, ReplicaPhase};
use crate::protocol::turns::Turns;
use crate::ranks::steps::RemoteExamples;
use crate::setup::central_storage::{Inner, Strategy};
use crate::variables::creations::Creations;
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};
use umbo_diagnose::report::Opened;
use umbo_executor::wait::Spin;
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;

/// A replica's callback. It gets its context and may return a value. Arguments are found in the
/// context.
pub type ReplicaFunction = FunctionFor<'static>;

/// A [`ReplicaFunction`] that borrows what lives for `'a`.
pub type FunctionFor<'a> = dyn Fn(&ReplicaContext) -> Result<Option<Value>> + Send + Sync + 'a;

/// User data of a run. It is dropped when the last callback has returned.
pub type RunUserData = Box<dyn Any + Send>;

/// Is called for everything that the callbacks of a trial read or add to.
pub trait TrialObserver: Send + Sync {
    /// A callback is about to be shown `variable`. Called on the replicas' threads, at the same
    /// time.
    fn reads(&self, variable: &Variable) -> Result<()>;

    /// A callback is about to add to `metrics`. Called as the other one.
    fn adds_to(&self, metrics: Arc<dyn Additions>) -> Result<()>;
}

/// The context of a replica's callback. Cloning makes another reference to the same context; it may
/// be used only on the callback's thread and only until the callback returns.
#[derive(Clone)]
pub struct ReplicaContext {
    pub(crate) strategy: Reference<Strategy>,
    pub(crate) step: Option<Reference<Arc<StepRecord>>>,
    pub(crate) replica: usize,
    pub(crate) number: StepNumber,
    /// Called for what the callback reads, if the step is a trial.
    pub(crate) watcher: Option<Arc<dyn TrialObserver>>,
    /// Whether the callback runs on the coordinator's thread.
    pub(crate) inline: bool,
    pub(crate) position: BatchPosition,
}

/// The place of a replica's part in the global batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchPosition {
    /// The number of examples the replicas before this one have.
    pub first_example: u64,
    /// The number of examples that this one has; `None` if the run's arguments do not say.
    pub local_examples: Option<u64>,
    /// The number of examples of all replicas; `None` if the run's arguments do not say.
    pub global_examples: Option<u64>,
}

/// The callback of a step. A step that no limit bounds returns only after all callbacks did, and
/// may borrow it; a step that may be abandoned owns it.
#[derive(Clone)]
pub(crate) enum Callback {
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
        // SAFETY: only the lifetime changes, and the caller guarantees it.
        Callback::Borrowed(unsafe {
            mem::transmute::<*const FunctionFor<'a>, *const ReplicaFunction>(function)
        })
    }

    pub fn is_borrowed(&self) -> bool {
        matches!(self, Callback::Borrowed(_))
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

/// The state that all replicas of a step share. The coordinator writes it before the step opens.
pub(crate) struct Task {
    /// Counted if the step may be abandoned, and outlive the call that began it.
    pub strategy: Reference<Strategy>,
    pub callback: Callback,
    /// Counted if the step may be abandoned.
    pub arguments: Option<Reference<Value>>,
    /// The step, and the position in it.
    pub place: StepPosition,
    /// The time when the run began, for messages about late replicas; such a run has limits.
    pub opened: Option<Instant>,
    /// How the replicas measure themselves, if they are to.
    pub measured: Option<Opened>,
    /// The examples of the other ranks.
    pub remote: RemoteExamples,
    /// The data that the caller lends to the callbacks; dropped when the last one is back.
    pub user_data: TurnCell<Option<RunUserData>>,
}

impl Task {
    #[inline]
    pub fn new(
        strategy: &Strategy,
        callback: Callback,
        arguments: Option<Reference<Value>>,
    ) -> Task {
        let strategy = match &callback {
            // SAFETY: the callback was borrowed for a call that borrows the strategy, too, and
            // returns when all callbacks have.
            Callback::Borrowed(_) => unsafe { Reference::lent(strategy) },
            Callback::Owned(_) => Reference::Counted(strategy.clone()),
        };
        Task {
            strategy,
            callback,
            arguments,
            place: StepPosition::default(),
            opened: None,
            measured: None,
            remote: RemoteExamples::default(),
            user_data: TurnCell::default(),
        }
    }

    /// Whether replica 0 runs on the coordinator's thread. Where there are limits the coordinator
    /// watches them.
    pub fn is_inline(&self) -> bool {
        !self.place.limits.is_bounded()
    }
}

/// The step that something is part of.
#[derive(Clone, Default)]
pub(crate) struct StepPosition {
    pub number: StepNumber,
    /// Called for what callbacks read, if the step is a trial.
    pub watcher: Option<Arc<dyn TrialObserver>>,
    /// 0 for the outermost run.
    pub depth: usize,
    pub limits: Limits,
}

/// The data that one replica needs to take part in a step.
pub(crate) struct ReplicaTask {
    pub callback: Callback,
    /// It counts no references, so that replicas do not contend for the counts of what they share.
    pub context: ReplicaContext,
    /// How the replica measures itself, if it is to.
    pub measured: Option<Opened>,
}

/// The errors of a step as a whole, beside those of its replicas.
#[derive(Default)]
pub(crate) struct StepVerdict {
    /// The error of a merge function.
    pub merge_error: Option<Error>,
    /// The operation at which each replica was, if they disagreed.
    pub disagreement: Option<String>,
}

/// The data that a step holds until its last callback has returned, written in turn: by the
/// coordinator before the step opens and when all callbacks have returned, or by whoever leaves an
/// abandoned step last. Callbacks only read the task.
#[derive(Default)]
struct Holdings {
    task: TurnCell<Option<Task>>,
    /// Only the coordinator uses it.
    verdict: TurnCell<StepVerdict>,
    /// Objects that late callbacks may still write.
    kept: TurnCell<Vec<Arc<dyn StepParticipant>>>,
}

/// The data that a step has held. Its owner drops it while it holds no lock, since that may run the
/// caller's code. The user data is dropped last.
pub(crate) struct Held {
    _kept: Vec<Arc<dyn StepParticipant>>,
    _task: Option<Task>,
}

/// The record of one step. A strategy uses the same one for step after step, and another one for
/// each level of nested runs; an abandoned one is left to the late replicas and dropped.
pub(crate) struct StepRecord {
    /// The record itself, for the mailboxes.
    weak: Weak<StepRecord>,
    pub rendezvous: Rendezvous,
    pub slots: Box<[CachePadded<ReplicaSlot<ReplicaTask>>]>,
    pub mailboxes: Mailboxes,
    /// The turns of replicas that share devices; all steps of the strategy use the same.
    pub turns: Option<Arc<Turns>>,
    pub spin: Spin,
    /// Whether there are as many processors as devices.
    pub has_processor_each: bool,
    /// The time when the coordinator last made way for a replica's thread.
    pub coordinator_moved: Mutex<Option<Instant>>,
    /// Replicas that can stop early should.
    pub stopping: AtomicBool,
    /// Written in every step, and so not in the line of what all threads only read.
    holdings: CachePadded<Holdings>,
    /// The thread that releases what an abandoned step held: a replica's id, or the number of
    /// replicas for the coordinator. It counts as late until it is done.
    pub last: AtomicUsize,
    /// The variables that the replicas make.
    pub creations: CachePadded<Creations>,
    /// Per-replica extension data, set by the C layer.
    pub attachments: Box<[OnceLock<Box<dyn Any + Send + Sync>>]>,
}

impl StepRecord {
    fn of(inner: &Inner, strict: bool) -> Arc<StepRecord> {
        let mailboxes = Arc::clone(&inner.threads.mailboxes);
        let layout = &inner.devices.layout;
        let replicas = mailboxes.len();
        let slot = |(replica, &device)| CachePadded::new(ReplicaSlot::on(replica, device, strict));
        Arc::new_cyclic(|weak| StepRecord {
            weak: Weak::clone(weak),
            rendezvous: Rendezvous::new(replicas),
            slots: layout
                .replica_devices
                .iter()
                .enumerate()
                .map(slot)
                .collect(),
            mailboxes,
            turns: inner.threads.turns.clone(),
            spin: inner.threads.spin,
            has_processor_each: inner.threads.has_processor_each,
            coordinator_moved: Mutex::default(),
            stopping: AtomicBool::new(false),
            holdings: CachePadded::default(),
            last: AtomicUsize::new(replicas),
            creations: CachePadded::default(),
            attachments: (0..replicas).map(|_| OnceLock::new()).collect(),
        })
    }

    /// Leaves the step for the thread of `replica`, which is to be notified then.
    pub fn post(&self, replica: usize) {
        let refer = || {
            self.weak
                .upgrade()
                .expect("the caller that posts a step holds it") as Arc<dyn ReplicaJob>
        };
        self.mailboxes[replica].post(self.weak.as_ptr().cast(), refer);
    }

    pub fn replicas(&self) -> usize {
        self.slots.len()
    }

    /// The additions of each replica to metrics of the step's own, unless it surely has none. All
    /// callbacks have returned.
    pub fn metrics(&self) -> impl Iterator<Item = Option<&MetricTable>> {
        self.slots.iter().map(|slot| {
            // SAFETY: all callbacks have returned, so that it is the coordinator's turn.
            let local = slot.is_used().then(|| unsafe { slot.local() });
            local.map(|local| &local.metrics)
        })
    }

    /// Whether a replica has added to a metric of the step's own.
    pub fn has_measured(&self) -> bool {
        self.metrics().flatten().any(|metrics| !metrics.is_empty())
    }

    /// Calls `inspect` with the task of the open step. Whoever calls it has begun and not left the
    /// step.
    pub fn with_task<R>(&self, inspect: impl FnOnce(&Task) -> R) -> Option<R> {
        // SAFETY: the task is written before the step opens, and after the last one has left it.
        unsafe { self.holdings.task.read() }.as_ref().map(inspect)
    }

    /// Calls `inspect` with the verdict on the open step, as its coordinator.
    pub fn with_verdict<R>(&self, inspect: impl FnOnce(&mut StepVerdict) -> R) -> R {
        // SAFETY: only the coordinator uses it, and `inspect` gets no other reference.
        inspect(unsafe { self.holdings.verdict.get() })
    }

    /// The verdict on a step whose callbacks have returned, and why it should have ended before, if
    /// so.
    pub fn judge(&self) -> (StepVerdict, Option<Error>) {
        let exceeded = self.with_task(|task| task.place.limits.exceeded());
        (self.with_verdict(mem::take), exceeded.flatten())
    }

    /// Sets the slots up and opens the step. The caller keeps the record until it is cleared or
    /// left. What replicas have read of the last step is written at the end, without a lock, so
    /// that all of it is taken from them at once.
    #[inline]
    pub fn open(self: &Arc<Self>, mut task: Task) {
        task.opened = (!task.is_inline()).then(Instant::now);
        // SAFETY: the task keeps them, and is kept until the last callback is back.
        let lent = |arguments: &Value| unsafe { Reference::lent(arguments) };
        let arguments = task.arguments.as_deref().map(lent);
        let examples = |replica| arguments.as_deref()?.examples_of(replica);
        let counts = (0..self.replicas())
            .filter_map(examples)
            .reduce(|sum, count| sum + count);
        let mut position = BatchPosition {
            first_example: task.remote.examples_before,
            local_examples: None,
            global_examples: counts.map(|counts| counts + task.remote.examples),
        };
        let callback = task.callback.clone();
        let measured = task.measured;
        let inline = task.is_inline();
        let context = ReplicaContext {
            // SAFETY: the task keeps the strategy, and is kept until the last callback is back.
            strategy: unsafe { Reference::lent(&*task.strategy) },
            // SAFETY: the coordinator keeps the record as long as the step is its own, and the
            // replica's thread until it takes another step.
            step: Some(unsafe { Reference::lent(self) }),
            replica: 0,
            number: task.place.number,
            watcher: task.place.watcher.clone(),
            inline: false,
            position,
        };
        self.with_verdict(|verdict| *verdict = StepVerdict::default());
        // SAFETY: nobody else uses a record that is not open.
        unsafe { *self.holdings.task.get() = Some(task) };
        for slot in &self.slots {
            slot.set_up();
        }
        if self.stopping.load(Ordering::Relaxed) {
            self.stopping.store(false, Ordering::Relaxed);
        }
        for (replica, slot) in self.slots.iter().enumerate() {
            position.local_examples = examples(replica);
            let inline = inline && replica == 0;
            // SAFETY: what the first one refers to is referred to as long as a callback runs.
            let context = ReplicaContext {
                replica,
                inline,
                position,
                ..unsafe { context.lent() }
            };
            let task = ReplicaTask {
                callback: callback.clone(),
                context,
                measured,
            };
            slot.thread.store(replica, Ordering::Relaxed);
            // SAFETY: the coordinator's turn, which has not posted the step yet.
            let (place, of_run) = unsafe { (slot.task.get(), slot.arguments.get()) };
            *place = Some(task);
            *of_run = arguments.as_deref().map(lent);
            position.first_example += position.local_examples.unwrap_or(0);
        }
        self.rendezvous.open();
    }

    /// Keeps what late callbacks may still write to, as the coordinator, before it leaves.
    pub fn keep(&self, participants: Vec<Arc<dyn StepParticipant>>) {
        // SAFETY: others use it when the coordinator has left.
        unsafe { self.holdings.kept.get() }.extend(participants);
    }

    /// Takes out what the step held, after the last callback, so that the record can serve another
    /// step.
    #[inline]
    pub fn clear(&self) -> Held {
        for slot in &self.slots {
            // SAFETY: all callbacks have returned, and this is the one whose turn it is then.
            let (task, arguments, outcome) =
                unsafe { (slot.task.get(), slot.arguments.get(), slot.outcome.get()) };
            drop((task.take(), arguments.take(), outcome.take()));
        }
        self.creations.clear();
        // SAFETY: as above.
        let (kept, task) = unsafe { (self.holdings.kept.get(), self.holdings.task.get()) };
        Held {
            _kept: mem::take(kept),
            _task: task.take(),
        }
    }
}

impl Listener for StepRecord {
    fn wake(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.rendezvous.wake_coordinator();
        self.creations.check_again();
    }
}

impl Abandonable for StepRecord {
    fn late_replicas(&self, late: &mut Vec<usize>) {
        let before = late.len();
        late.extend(
            (0..self.replicas())
                .filter(|&replica| self.rendezvous.phase(replica) != ReplicaPhase::Finished),
        );
        if late.len() == before {
            // All callbacks have returned, and the last replica is releasing what the step held.
            late.extend(Some(self.last.load(Ordering::Relaxed)).filter(|&it| it < self.replicas()));
        }
    }
}

impl Strategy {
    /// The record for a run at `depth`, which this thread begins: it has the step lock. A record
    /// that is not given back is not used again.
    pub(crate) fn take_record(&self, depth: usize) -> Arc<StepRecord> {
        let inner = self.inner();
        // SAFETY: only the thread that has the step lock uses the records.
        let records = unsafe { inner.steps.records.get() };
        let kept = records.get_mut(depth).and_then(Option::take);
        kept.unwrap_or_else(|| StepRecord::of(inner, self.is_strict()))
    }

    /// Keeps the record of a run at `depth` for the next one.
    pub(crate) fn give_back_record(&self, depth: usize, record: Arc<StepRecord>) {
        // SAFETY: as above.
        let records = unsafe { self.inner().steps.records.get() };
        if records.len() <= depth {
            records.resize(depth + 1, None);
        }
        records[depth] = Some(record);
    }
}

impl ReplicaContext {
    /// The same context, which counts no references.
    ///
    /// # Safety
    /// The objects of this context live as long as the returned one.
    pub unsafe fn lent(&self) -> ReplicaContext {
        // SAFETY: as the caller promises.
        let lent = |step: &Reference<Arc<StepRecord>>| unsafe { Reference::lent(&**step) };
        ReplicaContext {
            // SAFETY: as above.
            strategy: unsafe { Reference::lent(&*self.strategy) },
            step: self.step.as_ref().map(lent),
            watcher: self.watcher.clone(),
            ..*self
        }
    }

    /// The default context: replica 0 of 1, in no step.
    pub fn default_context() -> ReplicaContext {
        ReplicaContext {
            strategy: Reference::Counted(Strategy::default_strategy()),
            step: None,
            replica: 0,
            number: StepNumber::default(),
            watcher: None,
            inline: true,
            position: BatchPosition::default(),
        }
    }

    /// The strategy whose run this is.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// This replica's id among those of all ranks that run in sync.
    pub fn replica_in_sync(&self) -> usize {
        self.strategy.ranks().first_replica() + self.replica
    }

    /// This replica's id among those of this process.
    pub fn replica(&self) -> usize {
        self.replica
    }

    /// The unique id of the step in its strategy; 0 in no step. Later steps have larger ids.
    pub fn step_id(&self) -> u64 {
        self.number.id
    }

    /// The number of the step, counted from 1 over the strategy's life; 0 in no step. Steps that
    /// leave no trace ([`Strategy::try_out`]) are not counted.
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
