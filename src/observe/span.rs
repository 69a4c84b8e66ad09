//! Spans: what a thread spends its time on, told by those who do the work.
//!
//! Each thread adds up what its spans took, each without those inside of it, while the step that it works
//! for is measured; and hands every span to the trace while there is one.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use super::clock;
use super::phase::{ByPhase, Counter, Phase};
use super::trace::{self, Detail, Event, Name};

/// Who watches: bit 0 while there is a trace; the rest counts what else measures.
static WATCHERS: AtomicU32 = AtomicU32::new(0);

const TRACE: u32 = 1;
const ONE_MEASURER: u32 = 2;

/// What was counted since the trace began.
static COUNTS: [AtomicU64; Counter::ALL.len()] = [const { AtomicU64::new(0) }; 4];

/// The rank of this process among those that train together; less than 0 if it trains alone.
static RANK: AtomicI64 = AtomicI64::new(-1);

/// Tells the trace which of the processes that train together this one is. Processes that are alone are
/// known there by the number that the system gave them.
pub fn note_rank(rank: u32) {
    RANK.store(rank.into(), Ordering::Relaxed);
}

/// The rank of this process, if it was told.
pub fn rank() -> Option<u32> {
    u32::try_from(RANK.load(Ordering::Relaxed)).ok()
}

#[inline]
pub(super) fn is_watched() -> bool {
    WATCHERS.load(Ordering::Relaxed) != 0
}

#[inline]
pub(super) fn is_traced() -> bool {
    WATCHERS.load(Ordering::Relaxed) & TRACE != 0
}

pub(super) fn set_traced(traced: bool) {
    if traced {
        COUNTS.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        WATCHERS.fetch_or(TRACE, Ordering::Relaxed);
    } else {
        WATCHERS.fetch_and(!TRACE, Ordering::Relaxed);
    }
}

pub(super) fn add_measurer() {
    WATCHERS.fetch_add(ONE_MEASURER, Ordering::Relaxed);
}

pub(super) fn remove_measurer() {
    WATCHERS.fetch_sub(ONE_MEASURER, Ordering::Relaxed);
}

/// What was counted since the trace began.
pub(super) fn counts() -> [u64; Counter::ALL.len()] {
    std::array::from_fn(|counter| COUNTS[counter].load(Ordering::Relaxed))
}

/// What a thread knows of its own time.
pub(super) struct Local {
    /// Whether the thread works for a step that is measured.
    pub measuring: Cell<bool>,
    /// Which strategy has had it measured since it was not.
    pub measured_for: Cell<u64>,
    /// The number, in this process, of the time since which it is measured without a break.
    pub stretch: Cell<u64>,
    /// Whether such a step, or its callback, is going on.
    pub running: Cell<bool>,
    /// What it spent on each phase so far while it was measured.
    pub spent: ByPhase<Cell<u64>>,
    /// What the spans inside of the innermost open one took.
    pub inside: Cell<u64>,
    /// The bytes that updates have moved.
    pub updated: Cell<u64>,
}

thread_local! {
    pub(super) static LOCAL: Local = const {
        Local {
            measuring: Cell::new(false),
            measured_for: Cell::new(0),
            stretch: Cell::new(0),
            running: Cell::new(false),
            spent: [const { Cell::new(0) }; 8],
            inside: Cell::new(0),
            updated: Cell::new(0),
        }
    };
}

impl Local {
    /// What was spent so far.
    pub fn spent(&self) -> ByPhase<u64> {
        std::array::from_fn(|phase| self.spent[phase].get())
    }

    /// Has the thread measured from now on, on behalf of a strategy; nothing if it is already.
    pub fn measure_for(&self, strategy: u64) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if !self.measuring.replace(true) {
            self.measured_for.set(strategy);
            self.stretch.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
    }

    /// The strategy does not need the thread measured any more; others may.
    pub fn leave_out(&self, strategy: u64) {
        if self.measured_for.get() == strategy {
            self.measuring.set(false);
        }
    }

    pub fn set_spent(&self, spent: &ByPhase<u64>) {
        for (cell, &spent) in self.spent.iter().zip(spent) {
            cell.set(spent);
        }
    }
}

/// The calling thread spends its time on `phase` until this is dropped.
#[must_use = "dropping it ends the span"]
pub struct Span {
    open: Option<Open>,
    /// A thread ends its own spans.
    _own: PhantomData<*const ()>,
}

struct Open {
    phase: Phase,
    name: &'static str,
    start: u64,
    inside: u64,
    bytes: u64,
    measured: bool,
}

/// From now on the calling thread spends its time on `phase`, and not on that of the span around it,
/// until the span is dropped. One relaxed load where nobody watches.
#[inline]
pub fn span(phase: Phase) -> Span {
    let open = if is_watched() { open(phase, phase.name()) } else { None };
    Span { open, _own: PhantomData }
}

/// As [`span`], for a share of work that another thread's span is about: it is in the trace alone.
#[inline]
pub fn share(name: &'static str) -> Share {
    Share { open: is_traced().then(|| (name, clock::now())), _own: PhantomData }
}

/// A span of the trace alone.
#[must_use = "dropping it ends the span"]
pub struct Share {
    open: Option<(&'static str, u64)>,
    _own: PhantomData<*const ()>,
}

impl Drop for Share {
    #[inline]
    fn drop(&mut self) {
        if let Some((name, start)) = self.open.take() {
            let duration = clock::now().saturating_sub(start);
            let (name, category) = (Name::Own(name), "share");
            trace::record(Event { name, category, start, duration, detail: Detail::None });
        }
    }
}

#[cold]
fn open(phase: Phase, name: &'static str) -> Option<Open> {
    LOCAL.with(|local| {
        let measured = local.measuring.get();
        if !measured && !is_traced() {
            return None;
        }
        let inside = local.inside.replace(0);
        Some(Open { phase, name, start: clock::now(), inside, bytes: 0, measured })
    })
}

impl Span {
    /// The same span with a name of its own in the trace.
    pub fn named(mut self, name: &'static str) -> Span {
        if let Some(open) = &mut self.open {
            open.name = name;
        }
        self
    }

    /// Says in the trace how many bytes the span is about. `bytes` is asked only if the span is watched.
    #[inline]
    pub fn of_bytes(&mut self, bytes: impl FnOnce() -> u64) {
        if let Some(open) = &mut self.open {
            open.bytes = bytes();
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            close(open);
        }
    }
}

#[cold]
fn close(open: Open) {
    let Open { phase, name, start, inside, bytes, measured } = open;
    let duration = clock::now().saturating_sub(start);
    LOCAL.with(|local| {
        let own = duration.saturating_sub(local.inside.get());
        local.inside.set(inside.saturating_add(duration));
        if measured {
            let spent = &local.spent[phase as usize];
            spent.set(spent.get() + own);
        }
    });
    if is_traced() {
        let detail = if bytes > 0 { Detail::Bytes(bytes) } else { Detail::None };
        let (name, category) = (Name::Own(name), phase.name());
        trace::record(Event { name, category, start, duration, detail });
    }
}

/// Counts bytes. One relaxed load where nobody watches.
#[inline]
pub fn count(counter: Counter, bytes: impl FnOnce() -> u64) {
    if is_watched() {
        add(counter, bytes());
    }
}

#[cold]
fn add(counter: Counter, bytes: u64) {
    COUNTS[counter as usize].fetch_add(bytes, Ordering::Relaxed);
    if counter == Counter::Updated {
        LOCAL.with(|local| local.updated.set(local.updated.get() + bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time of a thread that was measured goes to the innermost span, and to it alone.
    #[test]
    fn a_span_is_without_those_inside_of_it() {
        add_measurer();
        std::thread::spawn(|| {
            LOCAL.with(|local| local.measuring.set(true));
            let burn = |nanoseconds: u64| {
                let until = clock::now() + nanoseconds;
                while clock::now() < until {}
            };
            let start = clock::now();
            {
                let _outer = span(Phase::Update);
                burn(200_000);
                {
                    let _inner = span(Phase::Copy).named("copy of weights");
                    burn(300_000);
                    drop(span(Phase::Reduce));
                }
                burn(100_000);
            }
            let whole = clock::now() - start;
            let spent = LOCAL.with(Local::spent);
            assert!(spent[Phase::Update as usize] >= 300_000, "{spent:?}");
            assert!(spent[Phase::Copy as usize] >= 300_000, "{spent:?}");
            assert!(spent.iter().sum::<u64>() <= whole, "{spent:?} of {whole}");
            assert_eq!(spent[Phase::Compute as usize], 0);
        })
        .join()
        .unwrap();
        remove_measurer();
    }

    #[test]
    fn a_thread_that_works_for_no_measured_step_adds_nothing_up() {
        add_measurer();
        std::thread::spawn(|| {
            drop(span(Phase::Update));
            assert_eq!(LOCAL.with(Local::spent), [0; 8]);
        })
        .join()
        .unwrap();
        remove_measurer();
    }
}
