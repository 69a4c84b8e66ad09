//! The iterators that a thread is inside of. A call that would wait for itself is refused.
//!
//! Sources, mapped functions and `destroy` functions are the caller's code, which may use
//! iterators, even the one for which it is called. So each thread keeps a list of the iterators
//! that it is inside of. A thread that makes parallel calls, or elements ahead, continues the list
//! of the thread for which it works. A call of an iterator in the list is refused. Threads that
//! wait for each other in a circle are not detected.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use umbo_base::error::{Error, Result};

/// The largest depth of iterators that are used by functions of other iterators.
const MAX_DEPTH: usize = 32;

/// An iterator, or a pass whose elements a thread makes ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IteratorId(u64);

impl IteratorId {
    /// A node that differs from all others.
    pub(crate) fn new() -> IteratorId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        IteratorId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The nodes that a thread is inside of, from the outermost to the innermost. It has a fixed size
/// and no destructor, so that it costs no memory.
#[derive(Clone, Copy)]
pub(crate) struct CallStack {
    nodes: [IteratorId; MAX_DEPTH],
    count: usize,
}

thread_local! {
    static CHAIN: RefCell<CallStack> = const { RefCell::new(CallStack::EMPTY) };
}

impl CallStack {
    /// A chain without nodes.
    pub(crate) const EMPTY: CallStack = CallStack {
        nodes: [IteratorId(0); MAX_DEPTH],
        count: 0,
    };

    /// The nodes that the calling thread is inside of.
    pub(crate) fn current() -> CallStack {
        CHAIN.with_borrow(|chain| *chain)
    }

    /// The same chain with `node` added. FAILED_PRECONDITION if it is full.
    pub(crate) fn with(mut self, node: IteratorId) -> Result<CallStack> {
        self.push(node).map(|()| self)
    }

    /// Sets the calling thread's chain, which must be empty, to this one until the returned guard
    /// is dropped.
    pub(crate) fn enter(&self) -> InsideGuard {
        CHAIN.with_borrow_mut(|chain| {
            debug_assert_eq!(chain.count, 0, "the thread is the library's own");
            *chain = *self;
        });
        InsideGuard { count: 0 }
    }

    fn nodes(&self) -> &[IteratorId] {
        &self.nodes[..self.count]
    }

    fn push(&mut self, node: IteratorId) -> Result<()> {
        let Some(place) = self.nodes.get_mut(self.count) else {
            return Err(too_deep());
        };
        *place = node;
        self.count += 1;
        Ok(())
    }
}

#[cold]
fn too_deep() -> Error {
    Error::precondition(format!(
        "this call is made by a function that an iterator calls, which is called by a function of \
         another one, and so on over {MAX_DEPTH} iterators; no more can be nested"
    ))
}

/// Being inside of a node. It ends when this is dropped, also by a panic.
pub(crate) struct InsideGuard {
    /// The length of the chain before.
    count: usize,
}

impl Drop for InsideGuard {
    fn drop(&mut self) {
        CHAIN.with_borrow_mut(|chain| chain.count = self.count);
    }
}

/// Whether the calling thread is inside of `node`, or works for a thread that is.
#[inline]
pub(crate) fn is_inside(node: IteratorId) -> bool {
    CHAIN.with_borrow(|chain| chain.nodes().contains(&node))
}

/// Enters an iterator. FAILED_PRECONDITION if the thread is inside of too many.
pub(crate) fn enter(iterator: IteratorId) -> Result<InsideGuard> {
    CHAIN.with_borrow_mut(|chain| {
        let count = chain.count;
        chain.push(iterator).map(|()| InsideGuard { count })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_base::error::Status;

    #[test]
    fn reentrancy_is_tracked_per_thread() {
        let one = IteratorId::new();
        let two = IteratorId::new();
        let ahead = IteratorId::new();
        let outer = enter(one).unwrap();
        assert!(is_inside(one) && !is_inside(two));
        {
            let _inner = enter(two).unwrap();
            assert!(is_inside(one) && is_inside(two));
            let chain = CallStack::current().with(ahead).unwrap();
            std::thread::spawn(move || {
                let inside = chain.enter();
                assert!(is_inside(one) && is_inside(two) && is_inside(ahead));
                drop(inside);
                assert!(!is_inside(one));
            })
            .join()
            .unwrap();
        }
        assert!(is_inside(one) && !is_inside(two) && !is_inside(ahead));
        drop(outer);
        assert!(!is_inside(one));
    }

    #[test]
    fn depth_has_an_end() {
        let inside: Vec<_> = (0..MAX_DEPTH)
            .map(|_| enter(IteratorId::new()).unwrap())
            .collect();
        let refused = enter(IteratorId::new()).map(drop).unwrap_err();
        assert_eq!(refused.status(), Status::FailedPrecondition);
        assert!(CallStack::current().with(IteratorId::new()).is_err());
        inside.into_iter().rev().for_each(drop);
        assert_eq!(CallStack::current().count, 0);
    }
}
