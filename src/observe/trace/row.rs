//! Rows of the trace that do not belong to a thread, such as a GPU's stream. Their events are recorded afterwards.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Event, Introduced, KEPT, SESSION, ThreadEvents};

/// The smallest number of such a row. No thread of the system has a number as large as this.
const FIRST: u32 = 1 << 30;

/// Records events on the row with this number and name, in the order of their starts.
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
