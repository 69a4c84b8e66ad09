//! The tools that are active, and the times that each thread measures for them.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use super::phase::{ByPhase, Counter};
use umbo_system::threads;

/// The active tools: bit 0 is set while there is a trace, and the other bits count the tools that
/// measure.
static WATCHERS: AtomicU32 = AtomicU32::new(0);

const TRACE: u32 = 1;
const ONE_MEASURER: u32 = 2;

/// The number of the present stretch of time without a break in watching.
static STRETCH: AtomicU64 = AtomicU64::new(0);

/// The counters since the trace began.
pub(super) static COUNTS: [AtomicU64; Counter::ALL.len()] = [const { AtomicU64::new(0) }; 4];

/// The rank of this process among those that train together; negative if it trains alone.
static RANK: AtomicI64 = AtomicI64::new(-1);

/// Sets the rank of this process among those that train together. In a trace, a process that trains
/// alone has its process id instead.
pub fn record_rank(rank: u32) {
    RANK.store(rank.into(), Ordering::Relaxed);
}

/// The rank of this process, if it has one.
pub fn rank() -> Option<u32> {
    u32::try_from(RANK.load(Ordering::Relaxed)).ok()
}

/// Whether any tool is active.
#[inline]
pub fn is_watched() -> bool {
    WATCHERS.load(Ordering::Relaxed) != 0
}

/// Whether there is a trace.
#[inline]
pub fn is_traced() -> bool {
    WATCHERS.load(Ordering::Relaxed) & TRACE != 0
}

/// Begins or ends a trace. When it begins, the counters are 0.
pub(super) fn set_traced(traced: bool) {
    if traced {
        COUNTS
            .iter()
            .for_each(|count| count.store(0, Ordering::Relaxed));
        record_begin(WATCHERS.fetch_or(TRACE, Ordering::Relaxed));
    } else {
        WATCHERS.fetch_and(!TRACE, Ordering::Relaxed);
    }
}

/// Adds a tool that measures.
pub fn add_measurer() {
    record_begin(WATCHERS.fetch_add(ONE_MEASURER, Ordering::Relaxed));
}

/// Begins a stretch of time, if there were no watchers.
fn record_begin(before: u32) {
    STRETCH.fetch_add(u64::from(before == 0), Ordering::Relaxed);
}

/// The calling thread, and the present stretch of time without a break in watching.
pub fn place() -> (u32, u64) {
    (threads::number(), STRETCH.load(Ordering::Relaxed))
}

/// Removes a tool that measures.
pub fn remove_measurer() {
    WATCHERS.fetch_sub(ONE_MEASURER, Ordering::Relaxed);
}

/// The counters since the trace began.
pub fn counts() -> [u64; Counter::ALL.len()] {
    std::array::from_fn(|counter| COUNTS[counter].load(Ordering::Relaxed))
}

/// The times that a thread measures.
pub struct Local {
    /// Whether a measured step, or its callback, is in progress.
    pub running: Cell<bool>,
    /// The measured time that it has spent on each phase.
    pub spent: ByPhase<Cell<u64>>,
    /// The time of the spans inside of the innermost open one.
    pub inside: Cell<u64>,
    /// The bytes that updates have moved.
    pub updated: Cell<u64>,
}

thread_local! {
    /// The times that the calling thread measures.
    pub static LOCAL: Local = const {
        Local {
            running: Cell::new(false),
            spent: [const { Cell::new(0) }; 8],
            inside: Cell::new(0),
            updated: Cell::new(0),
        }
    };
}

impl Local {
    /// The time that was spent on each phase so far.
    pub fn spent(&self) -> ByPhase<u64> {
        std::array::from_fn(|phase| self.spent[phase].get())
    }

    /// Sets the time that was spent on each phase.
    pub fn set_spent(&self, spent: &ByPhase<u64>) {
        for (cell, &spent) in self.spent.iter().zip(spent) {
            cell.set(spent);
        }
    }
}
