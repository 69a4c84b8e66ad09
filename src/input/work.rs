//! Who works for whom, so that a call that would wait for itself is refused.
//!
//! Sources, mapped functions and `destroy` functions are the caller's code, which may use iterators:
//! the very one that the code works for, one that waits for that one, or one that a third thread
//! holds while it waits. So each thread keeps the list of the iterators that it is inside of. A
//! thread that makes a parallel call goes on with the list of the thread that waits for it, and the
//! thread of a prefetching pass begins with the iterator that it makes elements for.
//!
//! - What is in the list is refused at once.
//! - A thread that has to wait, for an iterator that another thread is inside of or for an element
//!   that a prefetching thread has not made yet, first writes down that all that it is inside of now
//!   waits for that. If that leads back to what the thread is inside of, the call is refused in
//!   place of waiting for ever. Whoever ends a wait strikes it out, so that what stands there is
//!   true at every moment.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use parking_lot::Mutex;

/// How deep iterators can be used by what other iterators call.
const MAX_DEPTH: usize = 32;

/// Something that threads wait for: an iterator, or the elements of a prefetching thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(u64);

impl Node {
    /// One that no other is equal to.
    pub(super) fn new() -> Node {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Node(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    const NONE: Node = Node(0);
}

/// What a thread is inside of.
#[derive(Clone, Copy)]
struct Link {
    node: Node,
    /// Whether the node is an iterator.
    is_iterator: bool,
    /// Whether those who wait for the node wait for this thread. If not, the thread makes elements
    /// for it ahead, and nobody may be waiting.
    held: bool,
}

/// What a thread is inside of, from the outermost to the innermost. It is of fixed size and not
/// dropped, so that it costs no memory and can be used while a thread ends.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    links: [Link; MAX_DEPTH],
    count: usize,
}

thread_local! {
    static CHAIN: RefCell<Chain> = const { RefCell::new(Chain::EMPTY) };
}

impl Chain {
    /// Inside of nothing.
    pub(super) const EMPTY: Chain = Chain {
        links: [Link { node: Node::NONE, is_iterator: false, held: false }; MAX_DEPTH],
        count: 0,
    };

    /// What the calling thread is inside of.
    pub(super) fn current() -> Chain {
        CHAIN.with_borrow(|chain| *chain)
    }

    /// What a thread is inside of that makes elements ahead for the iterator that the calling thread
    /// is inside of, if it is, and that is waited for at `node`.
    pub(super) fn of_producer(node: Node) -> Chain {
        let current = Chain::current();
        let mut chain = Chain::EMPTY;
        let owner = current.links().iter().rev().find(|link| link.is_iterator);
        if let Some(owner) = owner {
            chain.push(Link { held: false, ..*owner });
        }
        chain.push(Link { node, is_iterator: false, held: true });
        chain
    }

    /// Makes this what the calling thread is inside of, which is inside of nothing, until what comes
    /// back is dropped.
    pub(super) fn enter(&self) -> Inside {
        CHAIN.with_borrow_mut(|chain| {
            debug_assert_eq!(chain.count, 0, "the thread is the library's own");
            chain.count = self.count;
            chain.links[..self.count].copy_from_slice(self.links());
        });
        Inside { count: 0 }
    }

    fn links(&self) -> &[Link] {
        &self.links[..self.count]
    }

    fn push(&mut self, link: Link) -> bool {
        let Some(place) = self.links.get_mut(self.count) else { return false };
        *place = link;
        self.count += 1;
        true
    }

    fn holds(&self, node: Node) -> bool {
        self.links().iter().any(|link| link.held && link.node == node)
    }
}

/// Being inside of something; ends when this is dropped, also by a panic.
pub(super) struct Inside {
    /// How much the thread was inside of before.
    count: usize,
}

impl Drop for Inside {
    fn drop(&mut self) {
        CHAIN.with_borrow_mut(|chain| chain.count = self.count);
    }
}

/// Whether the calling thread is inside of `node`, or works for a thread that is.
#[inline]
pub(super) fn is_inside(node: Node) -> bool {
    CHAIN.with_borrow(|chain| chain.links().iter().any(|link| link.node == node))
}

/// Enters an iterator. FAILED_PRECONDITION if the thread is inside of too many.
pub(super) fn enter(iterator: Node) -> Result<Inside> {
    let link = Link { node: iterator, is_iterator: true, held: true };
    CHAIN.with_borrow_mut(|chain| {
        let count = chain.count;
        match chain.push(link) {
            true => Ok(Inside { count }),
            false => Err(Error::precondition(format!(
                "this call is made by a function that an iterator calls, which is called by a \
                 function of another one, and so on over {MAX_DEPTH} iterators; no more can be \
                 nested"
            ))),
        }
    })
}

/// `from` does not go on before the wait for `to` with this ticket is over.
#[derive(Clone, Copy)]
struct Edge {
    from: Node,
    to: Node,
    ticket: u64,
}

/// Who waits for whom at this moment.
struct Graph {
    edges: Vec<Edge>,
}

static GRAPH: Mutex<Graph> = Mutex::new(Graph { edges: Vec::new() });

impl Graph {
    /// Whether who waits for `node` waits for something that `chain` holds.
    fn leads_back(&self, node: Node, chain: &Chain, depth: usize) -> bool {
        // A way without a circle has each node once, and the edges are free of circles as long as
        // each wait is refused that would close one. The bound is for the case that they are not.
        depth <= self.edges.len()
            && (chain.holds(node)
                || self
                    .edges
                    .iter()
                    .any(|edge| edge.from == node && self.leads_back(edge.to, chain, depth + 1)))
    }
}

/// Writes down that the calling thread waits for `node`. [`over`] with the same `ticket` ends it.
///
/// FAILED_PRECONDITION if it would be waiting for itself.
pub(super) fn wait_for(node: Node, ticket: u64) -> Result<()> {
    let chain = Chain::current();
    if !chain.links().iter().any(|link| link.held) {
        // Nobody waits for this thread.
        return Ok(());
    }
    let mut graph = GRAPH.lock();
    if graph.leads_back(node, &chain, 0) {
        return Err(Error::precondition(
            "the iterator waits for a function that another iterator calls, and that one waits for \
             this call: both would wait for ever; let functions that iterators call use no iterator \
             that is used elsewhere at the same time",
        ));
    }
    let held = chain.links().iter().filter(|link| link.held);
    graph.edges.extend(held.map(|link| Edge { from: link.node, to: node, ticket }));
    Ok(())
}

/// The wait for `node` with this ticket is over, or about to be.
pub(super) fn over(node: Node, ticket: u64) {
    GRAPH.lock().edges.retain(|edge| edge.to != node || edge.ticket != ticket);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;

    fn refused(result: Result<()>) {
        assert_eq!(result.unwrap_err().status(), Status::FailedPrecondition);
    }

    #[test]
    fn a_thread_is_inside_of_what_it_has_entered() {
        let (one, two) = (Node::new(), Node::new());
        let outer = enter(one).unwrap();
        assert!(is_inside(one) && !is_inside(two));
        {
            let _inner = enter(two).unwrap();
            assert!(is_inside(one) && is_inside(two));
            let chain = Chain::current();
            std::thread::spawn(move || {
                let _inside = chain.enter();
                assert!(is_inside(one) && is_inside(two));
            })
            .join()
            .unwrap();
        }
        assert!(is_inside(one) && !is_inside(two));
        let ring = Node::new();
        let producer = Chain::of_producer(ring);
        drop(outer);
        assert!(!is_inside(one));
        let _inside = producer.enter();
        assert!(is_inside(one) && is_inside(ring));
    }

    #[test]
    fn depth_has_an_end() {
        let inside: Vec<_> = (0..MAX_DEPTH).map(|_| enter(Node::new()).unwrap()).collect();
        refused(enter(Node::new()).map(drop));
        inside.into_iter().rev().for_each(drop);
        assert_eq!(Chain::current().count, 0);
    }

    #[test]
    fn waiting_in_a_circle_is_refused() {
        let (one, two, three) = (Node::new(), Node::new(), Node::new());
        let of = |held: Node, wanted: Node, ticket: u64| {
            let waits = move || {
                let _inside = enter(held).unwrap();
                wait_for(wanted, ticket)
            };
            std::thread::spawn(waits).join().unwrap()
        };
        refused(of(one, one, 0));
        of(one, two, 0).unwrap();
        refused(of(two, one, 0));
        of(two, three, 7).unwrap();
        refused(of(three, one, 0));
        over(three, 6);
        refused(of(three, one, 0));
        over(three, 7);
        of(three, one, 0).unwrap();
        over(one, 0);
        over(two, 0);
    }
}
