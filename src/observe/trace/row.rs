//! Rows of the trace that are no thread's, such as a GPU's stream. What was done there is recorded
//! afterwards.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Detail, Event, Introduced, KEPT, Name, SESSION, ThreadEvents};

/// Rows have numbers that no thread of the system has.
const FIRST: u32 = 1 << 30;

/// A row.
pub struct Row {
    /// Its number among such rows.
    pub number: u32,
    /// What it is called.
    pub name: String,
}

/// What was done there.
pub struct RowSpan {
    /// What was done.
    pub name: &'static str,
    /// Of which kind it is.
    pub category: &'static str,
    /// How many bytes it is about; 0 if that is not said.
    pub bytes: u64,
    /// In nanoseconds of [`now`](super::now).
    pub start: u64,
    /// In nanoseconds.
    pub duration: u64,
}

/// Notes what was done on a row, in the order in which it began.
pub fn record_row(row: &Row, spans: Vec<RowSpan>) {
    let mut current = SESSION.lock();
    let Some(session) = current.as_mut() else { return };
    let thread = FIRST.saturating_add(row.number);
    let known = session.buffers.iter().find(|buffer| buffer.thread == thread).map(Arc::clone);
    let buffer = known.unwrap_or_else(|| {
        let buffer = Arc::new(ThreadEvents {
            thread,
            name: row.name.clone(),
            events: Mutex::new(Vec::with_capacity(KEPT)),
            introduced: Mutex::new(Introduced::default()),
        });
        session.buffers.push(Arc::clone(&buffer));
        buffer
    });
    let is_full = {
        let mut events = buffer.events.lock();
        events.extend(spans.into_iter().map(|span| {
            let RowSpan { name, category, bytes, start, duration } = span;
            let detail = if bytes > 0 { Detail::Bytes(bytes) } else { Detail::None };
            Event { name: Name::Own(name), category, start, duration, detail }
        }));
        events.len() >= KEPT
    };
    if is_full {
        session.write_buffer(&buffer);
        session.put();
    }
}
