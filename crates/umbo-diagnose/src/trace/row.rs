//! Rows of the trace that do not belong to a thread, such as a GPU's stream. Their events are
//! recorded afterwards.

use std::sync::Arc;

use umbo_base::observe::trace::Event;

use super::{KEPT, SESSION};

/// The smallest number of such a row. No thread of the system has a number as large as this.
const FIRST: u32 = 1 << 30;

/// Records events on the row with this number and name, in the order of their starts.
pub(super) fn record(number: u32, name: &str, events: Vec<Event>) {
    let mut current = SESSION.lock();
    let Some(session) = current.as_mut() else {
        return;
    };
    let thread = FIRST.saturating_add(number);
    let known = session
        .buffers
        .iter()
        .find(|buffer| buffer.thread == thread)
        .map(Arc::clone);
    let buffer = known.unwrap_or_else(|| session.add_buffer(thread, name.to_owned()));
    let is_full = {
        let mut kept = buffer.events.lock();
        kept.extend(events.into_iter().map(Into::into));
        kept.len() >= KEPT
    };
    if is_full {
        session.write_buffer(&buffer);
        session.put();
    }
}
