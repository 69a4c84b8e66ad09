//! Spans record how a thread spends its time.
//!
//! While a tool is active, each thread adds up the times of its spans, without the spans inside of
//! them. While there is a trace, it passes every span to the trace.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use super::phase::{Counter, Phase};
use super::trace::{self, Event};
use super::watching::{COUNTS, LOCAL, is_traced, is_watched};
use umbo_system::clock;

/// The phase of the calling thread's time until this is dropped.
#[must_use = "dropping it ends the span"]
pub struct PhaseSpan {
    open: Option<Open>,
    /// A thread ends its own spans, so a span cannot be sent to another thread.
    _own: PhantomData<*const ()>,
}

struct Open {
    /// None for a span that is only in the trace.
    phase: Option<Phase>,
    name: &'static str,
    start: u64,
    inside: u64,
    bytes: u64,
}

/// From now until the span is dropped, the calling thread's time belongs to `phase`, and not to the
/// phase of the span around it. It costs one relaxed load if no tool is active.
#[inline]
pub fn span(phase: Phase) -> PhaseSpan {
    let open = if is_watched() {
        Some(open(phase))
    } else {
        None
    };
    PhaseSpan {
        open,
        _own: PhantomData,
    }
}

/// Starts a span as [`span`] does, for a share of work that belongs to another thread's span. It is
/// only in the trace.
#[inline]
pub fn share(name: &'static str) -> PhaseSpan {
    let shared = || Open {
        phase: None,
        name,
        start: clock::now(),
        inside: 0,
        bytes: 0,
    };
    PhaseSpan {
        open: is_traced().then(shared),
        _own: PhantomData,
    }
}

#[cold]
fn open(phase: Phase) -> Open {
    let inside = LOCAL.with(|local| local.inside.replace(0));
    Open {
        phase: Some(phase),
        name: phase.name(),
        start: clock::now(),
        inside,
        bytes: 0,
    }
}

impl PhaseSpan {
    /// Gives the span another name in the trace.
    pub fn named(mut self, name: &'static str) -> PhaseSpan {
        if let Some(open) = &mut self.open {
            open.name = name;
        }
        self
    }

    /// Adds a number of bytes to the span in the trace. `bytes` is called only if the span is
    /// recorded.
    #[inline]
    pub fn of_bytes(&mut self, bytes: impl FnOnce() -> u64) {
        if let Some(open) = &mut self.open {
            open.bytes = bytes();
        }
    }
}

impl Drop for PhaseSpan {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            close(open);
        }
    }
}

#[cold]
fn close(open: Open) {
    let Open {
        phase,
        name,
        start,
        inside,
        bytes,
    } = open;
    let duration = clock::now().saturating_sub(start);
    if let Some(phase) = phase {
        LOCAL.with(|local| {
            let own_time = duration.saturating_sub(local.inside.get());
            local.inside.set(inside.saturating_add(duration));
            let spent = &local.spent[phase as usize];
            spent.set(spent.get() + own_time);
        });
    }
    if is_traced() {
        let category = phase.map_or("share", Phase::name);
        trace::record(Event::of(name, category, start, duration, bytes));
    }
}

/// Counts bytes. It costs one relaxed load if no tool is active.
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
    use super::super::watching::{Local, add_measurer, remove_measurer};
    use super::*;

    /// The time of a measured thread belongs only to the innermost span.
    #[test]
    fn self_time_excludes_inner_spans() {
        add_measurer();
        std::thread::spawn(|| {
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
}
