//! The tensors and values that a callback makes: they are released when it returns.

use std::cell::{Cell, RefCell};

use super::handle::{is_live, release_if_live};
use super::object::Kind;

thread_local! {
    /// The callback that runs on this thread.
    static CALLBACK: Cell<Running> = const { Cell::new(Running { owns: false, first: 0 }) };
    /// The handles that callbacks on this thread have made, those of inner callbacks last. Some of
    /// them may be released.
    static MADE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A callback, or none.
#[derive(Clone, Copy)]
struct Running {
    /// Whether what it makes is released when it returns.
    owns: bool,
    /// The position in the list at which its handles begin.
    first: usize,
}

/// Notes a handle that a call has made for the program. Those that a program retains are not noted:
/// it means to keep them. Variables, optimizers and the like are made for longer than a callback.
#[inline]
pub(crate) fn note(handle: u64, kind: Kind) {
    let Running { owns, first } = CALLBACK.get();
    if owns && matches!(kind, Kind::Tensor | Kind::Value) {
        with_made(|made| {
            if made.len() == made.capacity() {
                make_room(made, first);
            }
            made.push(handle);
        });
    }
}

/// Forgets the handles of the running callback that are released. If most are not, the list gets
/// more memory, so that a callback that makes many does not look through them again and again.
#[cold]
fn make_room(made: &mut Vec<u64>, first: usize) {
    let mut kept = first;
    for at in first..made.len() {
        if is_live(made[at]) {
            made[kept] = made[at];
            kept += 1;
        }
    }
    made.truncate(kept);
    if 2 * kept >= made.capacity() {
        made.reserve(made.capacity().max(16));
    }
}

/// The callback that this thread is in keeps what it makes, also what it has made so far.
pub(crate) fn keep_all() {
    let Running { owns, first } = CALLBACK.get();
    if owns {
        CALLBACK.set(Running { owns: false, first });
        with_made(|made| made.truncate(first));
    }
}

/// Calls a callback, and afterwards releases the tensors and values that it has made, however it
/// ends.
pub(crate) fn releasing_made<R>(callback: impl FnOnce() -> R) -> R {
    let _end = begun();
    callback()
}

fn begun() -> End {
    let first = with_made(|made| made.len());
    End(CALLBACK.replace(Running {
        owns: first.is_some(),
        first: first.unwrap_or(0),
    }))
}

/// Calls `body` with the list. At the end of its thread it is gone, and callbacks, such as the
/// destroy function of the last error's payload, release what they make themselves.
fn with_made<R>(body: impl FnOnce(&mut Vec<u64>) -> R) -> Option<R> {
    MADE.try_with(|made| body(&mut made.borrow_mut())).ok()
}

/// The end of a callback. The one around it is the running one again.
struct End(Running);

impl Drop for End {
    fn drop(&mut self) {
        let Running { first, .. } = CALLBACK.replace(self.0);
        // One by one: the destroy function of a tensor may call the library.
        while let Some(handle) = last_behind(first) {
            release_if_live(handle);
        }
    }
}

fn last_behind(first: usize) -> Option<u64> {
    with_made(|made| if made.len() > first { made.pop() } else { None }).flatten()
}
