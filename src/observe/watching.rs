//! Who watches, and what each thread knows of its own time meanwhile.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use super::phase::{ByPhase, Counter};

/// Who watches: bit 0 while there is a trace; the rest counts what else measures.
static WATCHERS: AtomicU32 = AtomicU32::new(0);

const TRACE: u32 = 1;
const ONE_MEASURER: u32 = 2;

/// What was counted since the trace began.
pub(super) static COUNTS: [AtomicU64; Counter::ALL.len()] = [const { AtomicU64::new(0) }; 4];

/// The rank of this process among those that train together; less than 0 if it trains alone.
static RANK: AtomicI64 = AtomicI64::new(-1);

/// Notes which of the processes that train together this one is. In a trace, processes that are alone are
/// known by the number that the system gave them.
pub fn note_rank(rank: u32) {
    RANK.store(rank.into(), Ordering::Relaxed);
}

/// The rank of this process, if it has one.
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
