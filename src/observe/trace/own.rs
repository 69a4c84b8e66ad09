//! The program's own spans in the trace.

use std::cell::RefCell;

use super::{CURRENT, Event, json, record};
use crate::observe::{clock, watching};
use std::sync::atomic::Ordering;

/// How many spans of the program may be open on a thread at a time, in the trace.
const DEEPEST: usize = 64;

struct OpenSpan {
    /// Of which trace it is, and since when; `None` beyond the deepest.
    begun: Option<(u64, Box<str>, u64)>,
}

thread_local! {
    static OPEN: RefCell<Vec<OpenSpan>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread begins something that the program calls `name`. Nothing happens while there is no
/// trace. Names are kept up to 200 bytes; of spans inside of each other the outermost 64 are in the
/// trace.
pub fn begin(name: &str) {
    if !watching::is_traced() {
        return;
    }
    let name = &name[..name.floor_char_boundary(json::LONGEST_NAME)];
    let _ = OPEN.try_with(|open| {
        let Ok(mut open) = open.try_borrow_mut() else { return };
        // What is left of an earlier trace ends with that.
        let current = CURRENT.load(Ordering::Relaxed);
        open.retain(|span| span.begun.as_ref().is_none_or(|begun| begun.0 == current));
        let begun = (open.len() < DEEPEST).then(|| (current, name.into(), clock::now()));
        open.push(OpenSpan { begun });
    });
}

/// The calling thread ends what it began last. Without a beginning in the trace nothing happens.
pub fn end() {
    let ended = OPEN.try_with(|open| open.try_borrow_mut().ok()?.pop()?.begun);
    let Ok(Some((session, name, start))) = ended else { return };
    if watching::is_traced() && session == CURRENT.load(Ordering::Relaxed) {
        let duration = clock::now().saturating_sub(start);
        record(Event::of(String::from(name), "program", start, duration, 0));
    }
}
