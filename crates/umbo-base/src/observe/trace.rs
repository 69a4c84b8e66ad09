//! The trace, as work sees it that is traced.
//!
//! Work passes its events to a [`Tracer`], which is set when the first trace begins. The tracer is
//! in a crate above this one.

use std::borrow::Cow;
use std::sync::OnceLock;

/// The present time of the trace's clock, in nanoseconds.
pub use umbo_system::clock::now;

use super::watching;

/// An event of a thread.
#[derive(Debug)]
pub struct Event {
    /// The name. Borrowed names are the library's, and owned ones are the program's.
    pub name: Cow<'static, str>,
    /// The kind of work, as traces name it.
    pub category: &'static str,
    /// The start, in nanoseconds of [`now`].
    pub start: u64,
    /// Nanoseconds from the start to the end.
    pub duration: u64,
    /// The number of bytes the work was about; 0 if it was about none.
    pub bytes: u64,
}

impl Event {
    /// An event with a number of bytes; 0 if there is none.
    pub fn of(
        name: impl Into<Cow<'static, str>>,
        category: &'static str,
        start: u64,
        duration: u64,
        bytes: u64,
    ) -> Event {
        Event {
            name: name.into(),
            category,
            start,
            duration,
            bytes,
        }
    }
}

/// A receiver of events that writes a trace.
pub trait Tracer: Sync {
    /// Records an event of the calling thread.
    fn record(&self, event: Event);

    /// Records events on the row with this number and name, in the order of their starts. A row
    /// does not belong to a thread: it is a GPU's stream, for example.
    fn record_row(&self, number: u32, name: &str, events: Vec<Event>);

    /// Leaves the trace unchanged from now on. It only stores to memory, because it is called in
    /// the child of a fork.
    fn abandon(&self);
}

/// Set when the first trace begins.
static TRACER: OnceLock<&'static dyn Tracer> = OnceLock::new();

/// A function that records work that was done and is not recorded yet.
static BEFORE_END: OnceLock<fn()> = OnceLock::new();

/// Whether there is a trace.
#[inline]
pub fn is_on() -> bool {
    watching::is_traced()
}

/// From now on passes events to `tracer`, of which a process has one.
pub fn begin(tracer: &'static dyn Tracer) {
    TRACER.get_or_init(|| tracer);
    watching::set_traced(true);
}

/// Passes no more events on.
pub fn end() {
    watching::set_traced(false);
}

/// Sets a function that records work that was done and is not recorded yet. It is called before a
/// trace ends. There is only one such function.
pub fn record_before_end(record: fn()) {
    BEFORE_END.get_or_init(|| record);
}

/// Records work that was done and is not recorded yet.
pub fn record_rest() {
    if let Some(record) = BEFORE_END.get().filter(|_| is_on()) {
        record();
    }
}

/// Records an event of the calling thread.
pub fn record(event: Event) {
    if let Some(tracer) = TRACER.get() {
        tracer.record(event);
    }
}

/// Records events on a row, as [`Tracer::record_row`] says.
pub fn record_row(number: u32, name: &str, events: Vec<Event>) {
    if let Some(tracer) = TRACER.get() {
        tracer.record_row(number, name, events);
    }
}

/// Leaves the trace unchanged, because this is the child of a fork and the file belongs to the
/// parent. It waits for nothing and drops nothing, because threads that do not exist in the child
/// may have been using the trace.
pub fn abandon() {
    end();
    if let Some(tracer) = TRACER.get() {
        tracer.abandon();
    }
}
