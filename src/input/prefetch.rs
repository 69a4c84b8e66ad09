//! Elements made ahead of their consumer, on a thread of their own.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::error::memory::exhausted;
use crate::error::{Error, Result};
use crate::executor::pool::Outcome;
use crate::executor::thread::{self, Purpose};
use crate::input::arguments::in_range;
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Operation};
use crate::input::facts::Facts;
use crate::input::held::lacks_memory;
use crate::input::pass::{Pass, Pipeline};
use crate::input::position::{StateReader, StateWriter};
use crate::input::work::{self, WorkChain, WorkNode};
use crate::observe::{self, Phase};
use crate::values::Value;

/// The largest number of elements to make ahead. A larger one would be a dataset, not a buffer.
const MAX_DEPTH: i64 = 4096;

/// The largest number of restarts between two elements, because restoring the position repeats each of them.
const MOST_RESTARTS: u64 = 1 << 20;

/// Checks a number of elements to make ahead, which is at least `least`.
pub(super) fn ahead_depth(depth: i64, least: i64, argument: &'static str) -> Result<usize> {
    let what = format_args!("the elements to make ahead, between {least} and {MAX_DEPTH}");
    in_range(argument, depth, least..=MAX_DEPTH, what)
}

/// The items of a pass that has not begun. Up to `depth` of them are made ahead. With 0 they are made on request.
/// Positions have the same form in both cases, because the choice may depend on the devices.
pub(super) fn ahead(
    mut input: Box<dyn Pass<Value>>,
    depth: usize,
    cardinality: Cardinality,
) -> Result<Box<dyn Pass<Value>>> {
    let (mut queue, mut spare) = (VecDeque::new(), VecDeque::new());
    let no_memory = |_| exhausted(depth, "elements made ahead of their consumer");
    queue.try_reserve_exact(depth).map_err(no_memory)?;
    spare.try_reserve_exact(depth).map_err(no_memory)?;
    // The number of elements that can wait at once. In addition, the consumer holds one, and another one while it
    // exchanges them.
    if depth > 0 {
        let capacity = cardinality.bound().map_or(depth, |all| all.min(depth));
        input.reserve(capacity + 2);
    }
    let mut at = StateWriter::default();
    input.save(&mut at);
    // One for each element that waits, one that the producer writes, and one that the consumer replaces.
    let places = (0..depth + 2).map(|_| StateWriter::with_room_of(&at)).collect();
    let end = StateWriter::with_room_of(&at);
    let state = WaitingFor { queue, places, end, ..WaitingFor::default() };
    let (arrived, wanted) = (Condvar::new(), Condvar::new());
    let ring = Ring { node: WorkNode::new(), depth, state: Mutex::new(state), arrived, wanted };
    Ok(Box::new(PrefetchPass {
        ring: Arc::new(ring),
        input: Some(input),
        announced: false,
        thread: None,
        spare,
        at,
        restarts: 0,
    }))
}

impl Dataset {
    /// The same elements in the same order. Up to `depth` of them are made ahead of their consumer. The thread that
    /// makes them starts with the first requested element and is joined at the end of the iterator. Errors and the end
    /// keep their place in the order.
    ///
    /// INVALID_ARGUMENT if `depth` is not in [1, 4096]. From the first `next`, RESOURCE_EXHAUSTED if no thread can be
    /// started; the next call tries again.
    pub fn prefetch(&self, depth: i64) -> Result<Dataset> {
        self.then(Prefetch(ahead_depth(depth, 1, "depth")?))
    }
}

/// The operation that makes this number of elements ahead.
struct Prefetch(usize);

impl Operation for Prefetch {
    fn facts(&self, inputs: &[&Facts]) -> Result<Facts> {
        Ok(Facts { rows: None, ..Facts::above(inputs)? })
    }

    fn words(&self, _inputs: usize) -> String {
        "made ahead".into()
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn Pass<Value>>> {
        ahead(dataset.input().start()?, self.0, dataset.input().cardinality())
    }
}

/// The state that consumer and producer share. No code of the caller runs under the lock: no element is made or
/// dropped.
struct Ring {
    /// The node that the producer's thread enters.
    node: WorkNode,
    depth: usize,
    state: Mutex<WaitingFor>,
    /// The consumer waits here for an element, the end, or the producer's end.
    arrived: Condvar,
    /// The producer waits here for free space, another round, or the request to stop.
    wanted: Condvar,
}

/// An element or a failure, and the position of the input after it.
type Made = (Outcome<Result<Value>>, StateWriter);

#[derive(Default)]
struct WaitingFor {
    queue: VecDeque<Made>,
    /// Unused memory for positions.
    places: Vec<StateWriter>,
    /// The position of the input when it had ended.
    end: StateWriter,
    /// Whether the input has ended. The end comes after the queue.
    ended: bool,
    /// Whether there was no memory for the next element. The failure is in the queue. The producer tries again only
    /// when the consumer makes its next request, so that no outdated failure is reported.
    paused: bool,
    /// Whether the producer is to stop.
    stop: bool,
    /// Whether the producer has stopped.
    gone: bool,
    /// The round that the consumer requests.
    round: u64,
    /// The input, on its way to the producer.
    input: Option<Box<dyn Pass<Value>>>,
}

struct PrefetchPass {
    ring: Arc<Ring>,
    /// The input, until the thread starts and takes it.
    input: Option<Box<dyn Pass<Value>>>,
    /// Whether an iterator has the pass. Before that, no thread is started.
    announced: bool,
    thread: Option<thread::Handle>,
    /// Elements of an abandoned round while they wait to be dropped. It is empty at other times.
    spare: VecDeque<Made>,
    /// The position of the input after the element that was returned last, once there is a thread.
    at: StateWriter,
    /// How often the pass was restarted since.
    restarts: u64,
}

impl PrefetchPass {
    /// Starts the thread if there is none. If it cannot be started, the next call tries again.
    fn start(&mut self) -> Result<()> {
        if self.input.is_none() {
            return Ok(());
        }
        let chain = WorkChain::current().with(self.ring.node)?;
        let Some(input) = self.input.take() else { return Ok(()) };
        self.at.clear();
        input.save(&mut self.at);
        self.ring.state.lock().input = Some(input);
        let ring = Arc::clone(&self.ring);
        let options = thread::ThreadOptions::new("umbo-prefetch", Purpose::Prefetch);
        let started = thread::spawn(&options, move || {
            let _inside = chain.enter();
            produce(&ring);
        });
        match started {
            Ok(thread) => {
                self.thread = Some(thread);
                Ok(())
            }
            Err(error) => {
                self.input = self.ring.state.lock().input.take();
                Err(error)
            }
        }
    }
}

impl Pass<Value> for PrefetchPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let at_once = !self.announced || self.ring.depth == 0;
        if let Some(input) = self.input.as_mut().filter(|_| at_once) {
            return input.next();
        }
        self.start()?;
        let mut state = self.ring.state.lock();
        loop {
            if let Some((made, place)) = state.queue.pop_front() {
                state.places.push(std::mem::replace(&mut self.at, place));
                self.restarts = 0;
                self.ring.wanted.notify_one();
                drop(state);
                return made.unwrap_or_else(|panic| resume_unwind(panic)).map(Some);
            }
            if state.ended {
                self.at.copy_from(&state.end);
                self.restarts = 0;
                return Ok(None);
            }
            if state.gone {
                return Err(Error::Internal("a prefetching thread has ended by itself".into()));
            }
            if std::mem::take(&mut state.paused) {
                self.ring.wanted.notify_one();
            }
            self.ring.arrived.wait(&mut state);
        }
    }

    fn restart(&mut self) -> Result<()> {
        if let Some(input) = &mut self.input {
            return input.restart();
        }
        if self.restarts == MOST_RESTARTS {
            return Err(Error::precondition(format!(
                "the iterator was reset {MOST_RESTARTS} times, and no element was asked for in between; ask \
                 for one"
            )));
        }
        self.restarts += 1;
        let mut state = self.ring.state.lock();
        state.round += 1;
        let WaitingFor { queue, places, .. } = &mut *state;
        places.extend(queue.iter_mut().map(|made| std::mem::take(&mut made.1)));
        std::mem::swap(queue, &mut self.spare);
        (state.ended, state.paused) = (false, false);
        self.ring.wanted.notify_one();
        drop(state);
        // The elements are dropped here, without the lock, because releasing an element may run the caller's code.
        self.spare.clear();
        Ok(())
    }

    fn save(&self, to: &mut StateWriter) {
        match &self.input {
            Some(input) => {
                to.push(0);
                to.nest(|to| input.save(to));
            }
            None => {
                to.push(self.restarts);
                to.append(&self.at);
            }
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        let input = self.input.as_mut().ok_or_else(|| {
            Error::Internal("a pass that a thread works for was to be restored".into())
        })?;
        // The saved position is the one after an element, and the number of restarts since.
        let restarts = from.at_most(MOST_RESTARTS, "how often the pass was restarted")?;
        let mut place = from.nested()?;
        input.restore(&mut place)?;
        place.end()?;
        (0..restarts).try_for_each(|_| input.restart())
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn Pass<Value>)) {
        // If the input is not here, a thread has it. Pools fill when the first element is requested, after this call.
        if let Some(input) = &mut self.input {
            visit(&mut **input);
        }
    }

    fn announce(&mut self) {
        self.announced = true;
        self.inputs(&mut |input| input.announce());
    }
}

impl Drop for PrefetchPass {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.ring.state.lock().stop = true;
        self.ring.wanted.notify_one();
        // The thread may be this one, or wait for this one. Then it cannot be joined, and ends by itself as soon as it
        // can.
        if !work::is_inside(self.ring.node) {
            // A panic of the thread was reported through the ring, unless no request came after it.
            let _ = thread.join();
        }
    }
}

/// Records that the producer has stopped, even if it panics.
struct Gone<'a>(&'a Ring);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.state.lock().gone = true;
        self.0.arrived.notify_one();
    }
}

/// Makes elements until it is stopped.
fn produce(ring: &Ring) {
    let _gone = Gone(ring);
    let Some(mut input) = ring.state.lock().input.take() else { return };
    let mut round = 0;
    let mut place = ring.state.lock().places.pop().unwrap_or_default();
    loop {
        let mut state = ring.state.lock();
        loop {
            if state.stop {
                return;
            }
            let makes_more = !state.ended && !state.paused && state.queue.len() < ring.depth;
            if state.round != round || makes_more {
                break;
            }
            ring.wanted.wait(&mut state);
        }
        let restart = state.round != round;
        // Rounds that the consumer has skipped are also skipped here, one by one, so that the order of a shuffled round
        // does not depend on when this thread looked.
        round += u64::from(restart);
        drop(state);

        // Unwind safety: a pass in which a panic occurred continues after it, as it does without a thread. The consumer
        // gets the panic in place of the element.
        let made = catch_unwind(AssertUnwindSafe(|| match restart {
            true => input.restart().map(|()| None),
            false => {
                let _input = observe::span(Phase::Input).named("make an element ahead");
                input.next()
            }
        }));
        if restart && matches!(made, Ok(Ok(_))) {
            continue;
        }

        place.clear();
        input.save(&mut place);
        let mut state = ring.state.lock();
        if state.round != round {
            // It is dropped without the lock, because releasing an element may run the caller's code.
            drop(state);
            drop(made);
            continue;
        }
        state.paused = made.as_ref().is_ok_and(lacks_memory);
        let made = match made.map(Result::transpose) {
            Ok(Some(made)) => Some(Ok(made)),
            Ok(None) => None,
            Err(panic) => Some(Err(panic)),
        };
        match made {
            Some(made) => {
                let next = state.places.pop().unwrap_or_default();
                state.queue.push_back((made, std::mem::replace(&mut place, next)));
            }
            None => {
                state.ended = true;
                std::mem::swap(&mut state.end, &mut place);
            }
        }
        ring.arrived.notify_one();
    }
}
