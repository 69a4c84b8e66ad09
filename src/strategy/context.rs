//! Contexts: which strategy this thread is in, and whether it speaks for one replica or for all.
//!
//! Each thread has a stack of frames. The default context (no frame) is replica 0 of 1 of the
//! default strategy. `scope` pushes a cross-replica frame, `run` a replica frame on each
//! replica's thread, a merge call a cross-replica frame on the thread that called `run`.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::central_storage::Strategy;
use super::creator::{Chain, VariableCreator};
use super::metrics::Metric;
use super::run::Limits;
use super::step::{StepRecord, Task};
use crate::error::{Error, Result};
use crate::values::Value;

/// The step that a cross-replica frame belongs to.
#[derive(Clone)]
pub(super) struct StepFrame {
    pub number: u64,
    /// 0 for the outermost run.
    pub depth: usize,
    pub limits: Limits,
}

/// One entry of a thread's stack of contexts.
pub(super) enum Frame {
    Scope { strategy: Strategy, serial: u64 },
    CrossReplica { strategy: Strategy, step: Option<StepFrame> },
    Replica(ReplicaContext),
    Creator { creator: Arc<VariableCreator>, serial: u64 },
}

impl Frame {
    /// Whether it says which context the thread is in; a scope of variable creators does not.
    fn is_context(&self) -> bool {
        !matches!(self, Frame::Creator { .. })
    }
}

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    /// What `set_strategy` set; counts where no frame is open.
    static CHOSEN: RefCell<Option<Strategy>> = const { RefCell::new(None) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    THREAD.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// The context that this thread is in.
pub enum Current {
    /// No strategy was entered: replica 0 of 1 of the default strategy.
    Default,
    /// Cross-replica context of this strategy.
    CrossReplica(Strategy),
    /// A replica's callback.
    Replica(ReplicaContext),
}

/// The context that this thread is in.
pub fn current() -> Current {
    let top = FRAMES.with_borrow(|frames| {
        frames.iter().rev().find_map(|frame| match frame {
            // Being in the default strategy's scope is being in no scope.
            Frame::Scope { strategy, .. } if strategy.is_default() => Some(Current::Default),
            Frame::Scope { strategy, .. } | Frame::CrossReplica { strategy, .. } => {
                Some(Current::CrossReplica(strategy.clone()))
            }
            Frame::Replica(context) => Some(Current::Replica(context.clone())),
            Frame::Creator { .. } => None,
        })
    });
    top.or_else(|| CHOSEN.with_borrow(|chosen| chosen.clone().map(Current::CrossReplica)))
        .unwrap_or(Current::Default)
}

/// Whether this thread is in a scope of the default strategy.
pub(super) fn in_default_scope() -> bool {
    FRAMES.with_borrow(|frames| {
        frames
            .iter()
            .any(|frame| matches!(frame, Frame::Scope { strategy, .. } if strategy.is_default()))
    })
}

/// The creators that this thread is in, for variables of `strategy`: up to the callback of a
/// replica if it is in one, else all.
pub(super) fn creators(strategy: &Strategy) -> Chain {
    FRAMES.with_borrow(|frames| {
        let mut list: Vec<&Arc<VariableCreator>> = Vec::new();
        let mut inside = 0;
        // How many creators a merge call or an update had inside of it when the walk came to it.
        let mut central = None;
        let mut own_scope = |frame: &Strategy, count| {
            if frame.is_same(strategy) {
                inside = count;
            }
        };
        for frame in frames.iter().rev() {
            match frame {
                Frame::Creator { creator, .. } => list.push(creator),
                Frame::Scope { strategy, .. } => own_scope(strategy, list.len()),
                Frame::CrossReplica { strategy, .. } => {
                    own_scope(strategy, list.len());
                    central = Some(list.len());
                }
                // In a merge call, which runs on this replica's thread by chance.
                Frame::Replica(context) if let Some(count) = central.take() => {
                    list.truncate(count);
                    own_scope(context.strategy(), list.len());
                }
                Frame::Replica(_) => {
                    inside = list.len();
                    break;
                }
            }
        }
        let chosen = CHOSEN
            .with_borrow(|chosen| chosen.as_ref().is_some_and(|chosen| chosen.is_same(strategy)));
        if chosen || strategy.is_default() {
            inside = list.len();
        }
        let (before, after) = list.split_at(inside);
        let cloned = |part: &[&Arc<VariableCreator>]| part.iter().map(|&it| it.clone()).collect();
        Chain { before: cloned(before), after: cloned(after) }
    })
}

/// Calls `look` with this thread's replica context, borrowed, or with nothing in cross-replica
/// and default context.
pub fn with_current_replica<R>(look: impl FnOnce(Option<&ReplicaContext>) -> R) -> R {
    // The frames stay borrowed while `look` runs, so it must not open or close any.
    FRAMES.with_borrow(|frames| match frames.iter().rev().find(|frame| frame.is_context()) {
        Some(Frame::Replica(context)) => look(Some(context)),
        _ => look(None),
    })
}

/// Runs `body` inside of `frame`. Scopes that `body` opened and did not close are closed. Gives
/// the frame back for the caller to drop: frames hold references that replicas share.
pub(super) fn with_frame<R>(frame: Frame, body: impl FnOnce() -> R) -> (R, Option<Frame>) {
    struct Restore(usize);
    impl Restore {
        fn restore(&self) -> Option<Frame> {
            while FRAMES.with_borrow(Vec::len) > self.0 + 1 {
                // Frames hold strategies, whose release may look at this thread's frames.
                let popped = FRAMES.with_borrow_mut(|frames| frames.pop());
                drop(popped);
            }
            FRAMES.with_borrow_mut(|frames| frames.pop())
        }
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            drop(self.restore());
        }
    }
    let restore = FRAMES.with_borrow_mut(|frames| {
        frames.push(frame);
        Restore(frames.len() - 1)
    });
    let result = body();
    let frame = restore.restore();
    std::mem::forget(restore);
    (result, frame)
}

/// The step whose cross-replica frame this thread is in, if it is one of `strategy`.
pub(super) fn step_frame(strategy: &Strategy) -> Option<StepFrame> {
    FRAMES.with_borrow(|frames| {
        frames.iter().rev().find_map(|frame| match frame {
            Frame::CrossReplica { strategy: other, step } if other.is_same(strategy) => {
                step.clone()
            }
            _ => None,
        })
    })
}

/// The error for an operation of one strategy inside of another one's context.
pub(super) fn mixing(what: &str) -> Error {
    Error::precondition(format!(
        "{what}: mixing different strategies: this thread is in the scope or in a run of another \
         strategy; leave that first"
    ))
}

/// Checks that `what` of `strategy` may be done here: in the default context or in the
/// strategy's own cross-replica context.
pub(super) fn require_cross_replica(strategy: &Strategy, what: &str) -> Result<()> {
    require_cross_replica_of(strategy.id(), what)
}

/// As [`require_cross_replica`], of the strategy with this id, which need not live any more.
pub(crate) fn require_cross_replica_of(strategy: u64, what: &str) -> Result<()> {
    match current() {
        Current::Default => Ok(()),
        Current::CrossReplica(other) if other.id() == strategy => Ok(()),
        Current::Replica(context) if context.strategy().id() == strategy => {
            Err(Error::precondition(format!(
                "{what}: requires being in cross-replica context, but this is replica {}'s \
                 callback; use a merge call",
                context.replica()
            )))
        }
        _ => Err(mixing(what)),
    }
}

/// An open scope.
#[derive(Clone)]
pub struct Scope {
    serial: u64,
    thread: u64,
}

impl Strategy {
    /// Makes this strategy current for this thread until the scope is left. The own scope nests;
    /// inside of another strategy's context, or of this strategy's replica context, it is refused.
    pub fn enter_scope(&self) -> Result<Scope> {
        require_cross_replica(self, "umbo_strategy_scope_enter")?;
        let serial = next_serial();
        FRAMES.with_borrow_mut(|frames| {
            frames.push(Frame::Scope { strategy: self.clone(), serial });
        });
        Ok(Scope { serial, thread: thread_number() })
    }

    /// Calls `body` in this strategy's scope.
    pub fn scope<R>(&self, body: impl FnOnce() -> R) -> Result<R> {
        require_cross_replica(self, "umbo_strategy_scope")?;
        // No handle leads to this scope, so it needs no number.
        Ok(with_frame(Frame::Scope { strategy: self.clone(), serial: 0 }, body).0)
    }
}

/// Opens a scope of a variable creator.
pub(super) fn push_creator(creator: Arc<VariableCreator>) -> Scope {
    let serial = next_serial();
    FRAMES.with_borrow_mut(|frames| frames.push(Frame::Creator { creator, serial }));
    Scope { serial, thread: thread_number() }
}

/// A number that no other scope has; 0 is never one.
fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Scope {
    /// Whether it may still be open: certain for the thread that entered it.
    pub fn may_be_open(&self) -> bool {
        self.thread != thread_number()
            || FRAMES.with_borrow(|frames| frames.iter().any(|frame| self.is(frame)))
    }

    fn is(&self, frame: &Frame) -> bool {
        matches!(
            frame,
            Frame::Scope { serial, .. } | Frame::Creator { serial, .. } if *serial == self.serial
        )
    }

    /// Leaves the scope. It must be the innermost one that this thread has open.
    pub fn exit(&self) -> Result<()> {
        if self.thread != thread_number() {
            return Err(Error::precondition(
                "scope: was entered by another thread, which must also leave it",
            ));
        }
        let popped = FRAMES.with_borrow_mut(|frames| {
            if !frames.iter().any(|frame| self.is(frame)) {
                return Err(Error::precondition("scope: was left already"));
            }
            if !frames.last().is_some_and(|frame| self.is(frame)) {
                return Err(Error::precondition(
                    "scope: is not the innermost one; scopes are left in the reverse order of \
                     entering",
                ));
            }
            Ok(frames.pop())
        })?;
        drop(popped);
        Ok(())
    }
}

/// Makes `strategy` current for this thread where no scope is open, without a block; `None`
/// clears. Refused inside of scopes and runs.
pub fn set_strategy(strategy: Option<Strategy>) -> Result<()> {
    if FRAMES.with_borrow(|frames| frames.iter().any(Frame::is_context)) {
        return Err(Error::precondition(
            "umbo_set_strategy: must not be called inside of a scope or a run",
        ));
    }
    let before = CHOSEN.replace(strategy.filter(|strategy| !strategy.is_default()));
    drop(before);
    Ok(())
}

/// What a replica's callback knows of itself. Cloning makes another reference to the same
/// context; it is of use only in the callback's thread and only until the callback returns.
#[derive(Clone)]
pub struct ReplicaContext {
    strategy: Strategy,
    pub(super) step: Option<Arc<StepRecord>>,
    replica: usize,
    number: u64,
    pub(super) inline: bool,
    global_examples: u64,
}

impl ReplicaContext {
    pub(super) fn of_step(task: &Task, step: &Arc<StepRecord>, replica: usize) -> ReplicaContext {
        ReplicaContext {
            strategy: task.strategy.clone(),
            step: Some(Arc::clone(step)),
            replica,
            number: task.number,
            inline: task.inline && replica == 0,
            global_examples: task.global_examples,
        }
    }

    /// The default context: replica 0 of 1, in no step.
    pub fn default_context() -> ReplicaContext {
        ReplicaContext {
            strategy: Strategy::default_strategy(),
            step: None,
            replica: 0,
            number: 0,
            inline: true,
            global_examples: 0,
        }
    }

    /// The strategy whose run this is.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// This replica's id among the replicas that run in sync.
    pub fn replica(&self) -> usize {
        self.replica
    }

    /// The number of the step, counted over the strategy's life; 0 in no step.
    pub fn step_number(&self) -> u64 {
        self.number
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

    fn record(&self) -> Result<&Arc<StepRecord>> {
        self.step.as_ref().ok_or_else(|| {
            Error::precondition("context: the default context is in no run; this needs one")
        })
    }

    /// Checks that the step still wants this replica to go on.
    pub fn check_live(&self) -> Result<()> {
        match &self.step {
            Some(step) if step.rendezvous.is_abandoned() => {
                step.desks[self.replica].lock().told_to_stop = true;
                Err(Error::Cancelled(
                    "the run has returned without this replica (deadline or cancellation); \
                     return from the callback"
                        .into(),
                ))
            }
            _ => Ok(()),
        }
    }

    /// The arguments of the run, whole; `None` if it was given none.
    pub fn arguments(&self) -> Option<Value> {
        self.step.as_ref()?.with_task(|task| task.arguments.clone())?
    }

    /// Whether the callback should return early: another replica failed, or the run was
    /// cancelled or is late.
    pub fn is_cancelled(&self) -> bool {
        let Some(step) = &self.step else { return false };
        let cancelled = step.stopping.load(Ordering::Relaxed)
            || step.rendezvous.is_abandoned()
            || step.with_task(|task| task.limits.is_cancelled()) == Some(true);
        if cancelled {
            step.desks[self.replica].lock().told_to_stop = true;
        }
        cancelled
    }

    /// The place of this replica's part in the global batch.
    pub fn batch_position(&self) -> BatchPosition {
        let (first, local) = match &self.step {
            Some(step) => {
                let desk = step.desks[self.replica].lock();
                (desk.first_example, desk.examples)
            }
            None => (0, None),
        };
        BatchPosition {
            first_example: first,
            local_examples: local,
            global_examples: self.global_examples,
        }
    }

    /// Scratch memory of `bytes` bytes at a multiple of 64, until the callback returns.
    pub fn scratch(&self, bytes: usize) -> Result<*mut u8> {
        self.record()?.desks[self.replica].lock().scratch.grant(bytes)
    }

    /// Adds to the metric `name` of this step.
    pub fn add_metric(&self, name: &str, metric: Metric) -> Result<()> {
        self.record()?.desks[self.replica].lock().metrics.add(name, metric);
        Ok(())
    }

    /// What this replica has added to the metrics of this step so far.
    pub fn metrics(&self) -> Result<Vec<(String, Metric)>> {
        let desk = self.record()?.desks[self.replica].lock();
        Ok(desk.metrics.iter().map(|(name, metric)| (name.to_owned(), metric)).collect())
    }

    /// What the layer above hangs on this replica's context, made on first use. It lives until
    /// the strategy has no more use for the context.
    pub fn attachment<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Result<&T> {
        self.record()?.attachments[self.replica]
            .get_or_init(|| Box::new(make()))
            .downcast_ref()
            .ok_or_else(|| Error::Internal("two kinds of attachment on one context".into()))
    }
}

/// The place of a replica's part in the global batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPosition {
    /// How many examples the replicas before this one have.
    pub first_example: u64,
    /// How many this one has; `None` if the run's arguments do not say.
    pub local_examples: Option<u64>,
    /// How many all have together.
    pub global_examples: u64,
}
