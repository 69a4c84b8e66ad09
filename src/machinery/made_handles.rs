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
    /// Where its handles begin in the list.
    first: usize,
}

/// Notes a handle that a call has made for the program. Those that a program retains are not noted:
/// it means to keep them. Variables, optimizers and the like are made for longer than a callback.
#[inline]
pub(crate) fn note(handle: u64, kind: Kind) {
    let Running { owns, first } = CALLBACK.get();
    if owns && matches!(kind, Kind::Tensor | Kind::Value) {
        MADE.with_borrow_mut(|made| {
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
        MADE.with_borrow_mut(|made| made.truncate(first));
    }
}

/// Calls a callback, and afterwards releases the tensors and values that it has made, however it
/// ends.
pub(crate) fn releasing_made<R>(callback: impl FnOnce() -> R) -> R {
    let first = MADE.with_borrow(Vec::len);
    let _end = End(CALLBACK.replace(Running { owns: true, first }));
    callback()
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
    MADE.with_borrow_mut(|made| if made.len() > first { made.pop() } else { None })
}
