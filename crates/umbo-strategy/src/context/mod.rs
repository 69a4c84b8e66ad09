//! Contexts: which strategy this thread is in, and whether it speaks for one replica or for all.
//!
//! Each thread has a stack of frames. The default context (no frame) is replica 0 of 1 of the
//! default strategy. `scope` pushes a cross-replica frame, `run` a replica frame on each
//! replica's thread, a merge call a cross-replica frame on the thread that called `run`.

mod creator_walk;
pub(crate) mod first_views;
pub mod metrics;
pub mod replica_context;
pub mod replica_threads;
pub mod strict_callbacks;
pub(crate) mod strict_context;

use std::cell::RefCell;
use std::mem::{self, ManuallyDrop};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use self::creator_walk::CreatorWalk;
use crate::setup::central_storage::Strategy;
pub use crate::step::ReplicaContext;
use crate::step::StepPosition;
use crate::variables::creator::{CreatorChain, VariableCreator};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_executor::thread::thread_number;

/// One entry of a thread's stack of contexts.
pub(crate) enum Frame {
    Scope {
        strategy: Strategy,
        serial: u64,
        /// It lives until the scope is left, which the handles to the scope notice.
        _open: Arc<()>,
    },
    CrossReplica {
        strategy: Strategy,
        step: Option<StepPosition>,
    },
    Replica(ReplicaContext),
    Creator {
        creator: Arc<VariableCreator>,
        serial: u64,
        /// As in a scope.
        _open: Arc<()>,
    },
    /// The thread releases what an abandoned step of the strategy with this id held.
    Release {
        strategy: u64,
    },
}

impl Frame {
    /// Whether it says which context the thread is in; a scope of variable creators does not.
    fn is_context(&self) -> bool {
        !matches!(self, Frame::Creator { .. } | Frame::Release { .. })
    }
}

/// The contexts of a thread. It has no destructor, so that handles can be released until the
/// thread's very end.
struct ThreadContext {
    frames: RefCell<Vec<Frame>>,
    /// The strategy of `set_strategy`; it counts while no frame is open.
    chosen: RefCell<Option<Strategy>>,
}

thread_local! {
    static OWN: ManuallyDrop<ThreadContext> = const {
        ManuallyDrop::new(ThreadContext {
            frames: RefCell::new(Vec::new()),
            chosen: RefCell::new(None),
        })
    };
}

/// Leaves what its thread has not left when it ends. Code of the program must not run then, since
/// it may be gone by then (an interpreter that has ended, a plugin that was unloaded). So what such
/// code would release is left behind.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        // They are moved out first, because releasing them may read this thread's frames.
        let frames = with_frames(mem::take);
        let chosen = OWN.with(|contexts| contexts.chosen.take());
        for frame in frames {
            match frame {
                Frame::Scope {
                    strategy, serial, ..
                } => leave_strategy(serial, strategy),
                Frame::Creator {
                    creator, serial, ..
                } => leave_behind(serial, creator),
                others => drop(others),
            }
        }
        if let Some(strategy) = chosen {
            leave_strategy(CHOSEN, strategy);
        }
    }
}

/// The context that a thread left behind, and the serial number of the scope that held it.
type LeftBehind = (u64, Box<dyn Send>);

/// In place of a scope's serial number, for the strategy of `set_strategy`.
const CHOSEN: u64 = 0;

/// The contexts that threads have left behind at their end.
static LEFT_BEHIND: Mutex<Vec<LeftBehind>> = Mutex::new(Vec::new());

fn leave_behind(serial: u64, held: impl Send + 'static) {
    LEFT_BEHIND.lock().push((serial, Box::new(held)));
}

fn leave_strategy(serial: u64, strategy: Strategy) {
    if let Some(last) = strategy.into_last_reference() {
        leave_behind(serial, last);
    }
}

/// The contexts of a scope that threads have left behind. Dropping it may run the program's code.
fn take_left_behind(serial: u64) -> Vec<LeftBehind> {
    LEFT_BEHIND
        .lock()
        .extract_if(.., |(owner, _)| *owner == serial)
        .collect()
}

/// Releases what threads have left behind at their end: the scopes and strategies that they were
/// in.
pub fn release_left_behind() {
    let left = mem::take(&mut *LEFT_BEHIND.lock());
    drop(left);
}

/// Makes this thread leave all open contexts at its end.
fn leave_at_the_end() {
    thread_local!(static LEAVE: Leave = const { Leave });
    // A thread that has left already keeps what it enters.
    let _ = LEAVE.try_with(|_| ());
}

fn with_frames<R>(change: impl FnOnce(&mut Vec<Frame>) -> R) -> R {
    OWN.with(|contexts| change(&mut contexts.frames.borrow_mut()))
}

fn inspect_frames<R>(inspect: impl FnOnce(&[Frame]) -> R) -> R {
    OWN.with(|contexts| inspect(&contexts.frames.borrow()))
}

/// Puts a frame on this thread's stack; returns how many are below it.
fn push(frame: Frame) -> usize {
    leave_at_the_end();
    with_frames(|frames| {
        frames.push(frame);
        frames.len() - 1
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

/// [`Current`], borrowed: replicas count no references that they share.
enum Place<'a> {
    Default,
    CrossReplica(&'a Strategy),
    Replica(&'a ReplicaContext),
}

/// Calls `inspect` with the context that this thread is in. Contexts stay as they are meanwhile, so
/// that it must not open or close any.
fn inspect_current<R>(inspect: impl FnOnce(Place<'_>) -> R) -> R {
    OWN.with(|contexts| {
        let frames = contexts.frames.borrow();
        let chosen = contexts.chosen.borrow();
        inspect(match frames.iter().rev().find(|frame| frame.is_context()) {
            // Being in the default strategy's scope is being in no scope.
            Some(Frame::Scope { strategy, .. }) if strategy.is_default() => Place::Default,
            Some(Frame::Scope { strategy, .. } | Frame::CrossReplica { strategy, .. }) => {
                Place::CrossReplica(strategy)
            }
            Some(Frame::Replica(context)) => Place::Replica(context),
            _ => chosen.as_ref().map_or(Place::Default, Place::CrossReplica),
        })
    })
}

/// The context that this thread is in.
pub fn current() -> Current {
    inspect_current(|place| match place {
        Place::Default => Current::Default,
        Place::CrossReplica(strategy) => Current::CrossReplica(strategy.clone()),
        Place::Replica(context) => Current::Replica(context.clone()),
    })
}

/// The default device of this thread's tensors: the device of the replica whose callback it is in,
/// else `CPU:0`.
pub fn current_device() -> DeviceId {
    with_current_replica(|context| context.map_or(DeviceId::HOST, ReplicaContext::device))
}

/// Whether this thread is in a scope of the default strategy.
pub(crate) fn in_default_scope() -> bool {
    inspect_frames(|frames| {
        frames
            .iter()
            .any(|frame| matches!(frame, Frame::Scope { strategy, .. } if strategy.is_default()))
    })
}

/// The creators that this thread is in, for variables of `strategy`: up to the callback of a
/// replica if it is in one, else all.
pub(crate) fn creators(strategy: &Strategy) -> CreatorChain {
    inspect_frames(|frames| {
        let is_creator = |frame: &Frame| matches!(frame, Frame::Creator { .. });
        if !frames.iter().any(is_creator) {
            return CreatorChain::default();
        }
        let mut walk = CreatorWalk::new();
        for frame in frames.iter().rev() {
            let next = match frame {
                Frame::Creator { creator, .. } => walk.creator(creator),
                Frame::Release { .. } => ControlFlow::Continue(()),
                Frame::Scope {
                    strategy: entered, ..
                } => walk.scope(entered.is_same(strategy)),
                Frame::CrossReplica {
                    strategy: entered, ..
                } => walk.merge_call(entered.is_same(strategy)),
                Frame::Replica(context) => walk.replica(context.strategy().is_same(strategy)),
            };
            if next.is_break() {
                break;
            }
        }
        let chosen = OWN.with(|contexts| {
            contexts
                .chosen
                .borrow()
                .as_ref()
                .is_some_and(|chosen| chosen.is_same(strategy))
        });
        let (before, after) = walk.end(chosen || strategy.is_default());
        CreatorChain {
            before: before.into_iter().cloned().collect(),
            after: after.into_iter().cloned().collect(),
        }
    })
}

/// Calls `inspect` with this thread's replica context, borrowed, or with nothing in cross-replica
/// and default context.
pub fn with_current_replica<R>(inspect: impl FnOnce(Option<&ReplicaContext>) -> R) -> R {
    inspect_current(|place| match place {
        Place::Replica(context) => inspect(Some(context)),
        Place::Default | Place::CrossReplica(_) => inspect(None),
    })
}

/// Runs `body` inside of `frame`. Scopes that `body` opened and did not close are closed.
pub(crate) fn with_frame<R>(frame: Frame, body: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            let above = |frames: &mut Vec<Frame>| match frames.len() > self.0 {
                true => frames.pop(),
                false => None,
            };
            // Frames hold strategies, and releasing those may read this thread's frames.
            while let Some(popped) = with_frames(above) {
                drop(popped);
            }
        }
    }
    let _restore = Restore(push(frame));
    body()
}

/// The step of the strategy with this id whose cross-replica frame this thread is in, if it is in
/// one.
pub(crate) fn step_place(id: u64) -> Option<StepPosition> {
    inspect_frames(|frames| {
        frames.iter().rev().find_map(|frame| match frame {
            Frame::CrossReplica { strategy, step } if strategy.id() == id => step.clone(),
            _ => None,
        })
    })
}

impl Strategy {
    /// The number, as callers see it, of the step of this strategy that this thread is inside of,
    /// in a replica's callback or in cross-replica context. Functions that no step may contain
    /// ask before [`require_cross_replica`], whose advice is a merge call.
    pub fn step_around(&self) -> Option<u64> {
        let of_callback = with_current_replica(|context| {
            let context = context.filter(|context| context.strategy().is_same(self));
            context.map(ReplicaContext::step_number)
        });
        of_callback.or_else(|| step_place(self.id()).map(|step| step.number.shown))
    }
}

/// How many runs, merge calls and updates can be nested.
const MOST_NESTED: usize = 64;

/// Checks that this thread has not too many runs, merge calls and updates open to begin another
/// one: each needs some kilobytes of its stack.
pub(crate) fn check_depth() -> Result<()> {
    let is_call = |frame: &&Frame| matches!(frame, Frame::CrossReplica { .. } | Frame::Replica(_));
    match inspect_frames(|frames| frames.iter().filter(is_call).count()) {
        0..MOST_NESTED => Ok(()),
        _ => Err(Error::precondition(format!(
            "this thread is inside of {MOST_NESTED} runs, merge calls and updates, and no more \
             can be nested; does a callback call itself?"
        ))),
    }
}

/// The step of the strategy with this id that a run which begins now is a part of, if there is one.
/// Fails where no run may begin.
pub(crate) fn place_for_run(strategy: u64) -> Result<Option<StepPosition>> {
    let is_outside = OWN
        .with(|contexts| contexts.frames.borrow().is_empty() && contexts.chosen.borrow().is_none());
    if is_outside {
        return Ok(None);
    }
    require_cross_replica(strategy)?;
    check_depth()?;
    Ok(step_place(strategy))
}

/// Whether this thread is releasing what an abandoned step of `strategy` held. The strategy waits
/// for that.
pub(crate) fn releases_step_of(strategy: &Strategy) -> bool {
    inspect_frames(|frames| {
        frames
            .iter()
            .any(|frame| matches!(frame, Frame::Release { strategy: id } if *id == strategy.id()))
    })
}

/// The error for an operation of one strategy inside of another one's context.
pub(crate) fn mixing() -> Error {
    Error::precondition(
        "mixing different strategies: this thread is in the scope or in a run of another \
         strategy; leave that first",
    )
}

/// Checks that an operation of the strategy with this id, which need not live any more, may be done
/// here: in the default context or in the strategy's own cross-replica context.
pub fn require_cross_replica(strategy: u64) -> Result<()> {
    require_cross_replica_else(strategy, "a merge call")
}

/// As [`require_cross_replica`]; `remedy` is what a replica's callback should use instead.
pub(crate) fn require_cross_replica_else(strategy: u64, remedy: &str) -> Result<()> {
    inspect_current(|place| match place {
        Place::Default => Ok(()),
        Place::CrossReplica(other) if other.id() == strategy => Ok(()),
        Place::Replica(context) if context.strategy().id() == strategy => {
            Err(Error::precondition(format!(
                "requires being in cross-replica context, but this is replica {}'s callback; use \
                 {remedy}",
                context.replica()
            )))
        }
        _ => Err(mixing()),
    })
}

/// An open scope.
#[derive(Clone)]
pub struct Scope {
    serial: u64,
    thread: usize,
    open: Weak<()>,
}

impl Strategy {
    /// Makes this strategy current for this thread until the scope is left. The own scope nests;
    /// inside of another strategy's context, or of this strategy's replica context, it is refused.
    pub fn enter_scope(&self) -> Result<Scope> {
        require_cross_replica(self.id())?;
        let (scope, open) = Scope::new();
        push(Frame::Scope {
            strategy: self.clone(),
            serial: scope.serial,
            _open: open,
        });
        Ok(scope)
    }

    /// Calls `body` in this strategy's scope.
    pub fn scope<R>(&self, body: impl FnOnce() -> R) -> Result<R> {
        require_cross_replica(self.id())?;
        // No handle leads to this scope.
        let (scope, open) = Scope::new();
        let frame = Frame::Scope {
            strategy: self.clone(),
            serial: scope.serial,
            _open: open,
        };
        Ok(with_frame(frame, body))
    }
}

/// Calls `creator` for each variable that this thread makes, until the scope is left. Replicas of
/// runs that this thread starts meanwhile count as this thread.
pub fn enter_creator_scope(creator: Arc<VariableCreator>) -> Scope {
    let (scope, open) = Scope::new();
    push(Frame::Creator {
        creator,
        serial: scope.serial,
        _open: open,
    });
    scope
}

impl Scope {
    /// A scope of this thread, and what its frame keeps while it is open.
    fn new() -> (Scope, Arc<()>) {
        static NEXT: AtomicU64 = AtomicU64::new(CHOSEN + 1);
        let open = Arc::new(());
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        (
            Scope {
                serial,
                thread: thread_number(),
                open: Arc::downgrade(&open),
            },
            open,
        )
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.open.strong_count() > 0
    }

    /// The context that the thread which entered it left behind at its end. Dropping it may run the
    /// caller's code.
    pub fn left_behind(&self) -> impl Sized + use<> {
        take_left_behind(self.serial)
    }

    fn is(&self, frame: &Frame) -> bool {
        matches!(
            frame,
            Frame::Scope { serial, .. } | Frame::Creator { serial, .. } if *serial == self.serial
        )
    }

    /// Leaves the scope. It must be the innermost one that this thread has open. Returns what it
    /// held: dropping that may run the caller's code, such as the release of a variable
    /// creator's user data.
    pub fn exit(&self) -> Result<impl Sized + use<>> {
        if !self.is_open() {
            return Err(Error::NotFound(
                "scope: was left already, by the end of the callback or of the thread that \
                 entered it"
                    .into(),
            ));
        }
        if self.thread != thread_number() {
            return Err(Error::precondition(
                "scope: was entered by another thread, which must also leave it",
            ));
        }
        with_frames(|frames| {
            if !frames.last().is_some_and(|frame| self.is(frame)) {
                return Err(Error::precondition(
                    "scope: is not the innermost one; scopes are left in the reverse order of \
                     entering",
                ));
            }
            Ok(frames.pop())
        })
    }
}

/// Makes `strategy` current for this thread where no scope is open, without a block; `None`
/// clears. Refused inside of scopes and runs.
pub fn set_strategy(strategy: Option<Strategy>) -> Result<()> {
    if inspect_frames(|frames| frames.iter().any(Frame::is_context)) {
        return Err(Error::precondition(
            "the strategy of a thread cannot be set inside of a scope or a run; leave that first",
        ));
    }
    leave_at_the_end();
    let chosen = strategy.filter(|strategy| !strategy.is_default());
    let before = OWN.with(|contexts| contexts.chosen.replace(chosen));
    drop((before, take_left_behind(CHOSEN)));
    Ok(())
}
