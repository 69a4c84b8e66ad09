//! Rows of the trace that are no thread's, such as a GPU's stream. What was done there is recorded
//! afterwards.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Event, Introduced, KEPT, SESSION, ThreadEvents};

/// Rows have numbers that no thread of the system has.
const FIRST: u32 = 1 << 30;

/// Notes what was done on the row of this number and name, in the order in which it began.
pub(crate) fn record_row(number: u32, name: &str, events: Vec<Event>) {
    let mut current = SESSION.lock();
    let Some(session) = current.as_mut() else { return };
    let thread = FIRST.saturating_add(number);
    let known = session.buffers.iter().find(|buffer| buffer.thread == thread).map(Arc::clone);
    let buffer = known.unwrap_or_else(|| {
        let buffer = Arc::new(ThreadEvents {
            thread,
            name: name.to_owned(),
            events: Mutex::new(Vec::with_capacity(KEPT)),
            introduced: Mutex::new(Introduced::default()),
        });
        session.buffers.push(Arc::clone(&buffer));
        buffer
    });
    let is_full = {
        let mut kept = buffer.events.lock();
        kept.extend(events);
        kept.len() >= KEPT
    };
    if is_full {
        session.write_buffer(&buffer);
        session.put();
    }
}
