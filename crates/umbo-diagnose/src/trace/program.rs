//! The program's own spans in the trace.

use std::cell::RefCell;

use super::{CURRENT, json, record};
use std::sync::atomic::Ordering;
use umbo_base::observe::trace::Event;
use umbo_base::observe::watching;
use umbo_system::clock;

/// The largest number of open spans of the program on a thread that are in the trace.
const DEEPEST: usize = 64;

/// The trace, the name and the start of a span.
type Begun = (u64, Box<str>, u64);

thread_local! {
    /// The open spans; `None` for those that are nested too deeply.
    static OPEN: RefCell<Vec<Option<Begun>>> = const { RefCell::new(Vec::new()) };
}

/// Begins a span of the calling thread, which the program calls `name`. Without a trace it has no
/// effect. Names are shortened to 200 bytes. Of nested spans, the outermost 64 are in the trace.
pub fn begin(name: &str) {
    if !watching::is_traced() {
        return;
    }
    let name = &name[..name.floor_char_boundary(json::LONGEST_NAME)];
    let _ = OPEN.try_with(|open| {
        let Ok(mut open) = open.try_borrow_mut() else {
            return;
        };
        // Spans that remain from an earlier trace end here.
        let current = CURRENT.load(Ordering::Relaxed);
        open.retain(|span| span.as_ref().is_none_or(|begun| begun.0 == current));
        let begun = (open.len() < DEEPEST).then(|| (current, name.into(), clock::now()));
        open.push(begun);
    });
}

/// Ends the calling thread's last span. If its beginning is not in the trace, this has no effect.
pub fn end() {
    let ended = OPEN.try_with(|open| open.try_borrow_mut().ok()?.pop()?);
    let Ok(Some((session, name, start))) = ended else {
        return;
    };
    if watching::is_traced() && session == CURRENT.load(Ordering::Relaxed) {
        let duration = clock::now().saturating_sub(start);
        record(Event::of(String::from(name), "program", start, duration, 0).into());
    }
}
