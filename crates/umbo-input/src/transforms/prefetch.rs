//! Elements made ahead of their consumer, on a thread of their own.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::arguments::in_range;
use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::passes::given::{Effect, Given};
use crate::passes::pending_item::comes_again;
use crate::passes::place::Place;
use crate::passes::position::{Rounds, StateReader, StateWriter};
use crate::passes::reentrancy::{self, CallStack, IteratorId};
use crate::passes::signature::Signature;
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::DatasetProperties;
use umbo_base::error::Result;
use umbo_base::error::memory::exhausted;
use umbo_base::observe::{self, Phase};
use umbo_executor::pool::Outcome;
use umbo_executor::thread::{self, Purpose};
use umbo_tensor::values::Value;

/// The largest number of elements to make ahead. A larger one would be a dataset, not a buffer.
const MAX_DEPTH: i64 = 4096;

/// Checks a number of elements to make ahead, which is at least `least`.
pub(crate) fn ahead_depth(depth: i64, least: i64, argument: &'static str) -> Result<usize> {
    let range = format_args!("the elements to make ahead, between {least} and {MAX_DEPTH}");
    in_range(argument, depth, least..=MAX_DEPTH, range)
}

/// The items of a pass that has not begun. Up to `depth` of them are made ahead. With 0 they are
/// made on request. Positions have the same form in both cases, because the choice may depend on
/// the devices.
pub(crate) fn ahead(
    mut input: Box<dyn IteratorStage<Value>>,
    depth: usize,
    cardinality: Cardinality,
) -> Result<Box<dyn IteratorStage<Value>>> {
    if depth == 0 {
        return Ok(input);
    }
    let mut queue = VecDeque::new();
    let no_memory = |_| exhausted(depth, "elements made ahead of their consumer");
    queue.try_reserve_exact(depth).map_err(no_memory)?;
    // The number of elements that can wait at once. In addition, the consumer holds one, and
    // another one while it exchanges them.
    let capacity = cardinality.bound().map_or(depth, |all| all.min(depth));
    input.reserve(capacity + 2);
    let at = Place::of(&mut *input);
    // One for each element that waits, one that the producer writes, and one that the consumer
    // replaces.
    let places = (0..depth + 2).map(|_| Place::with_room_of(&at)).collect();
    let state = Mutex::new(QueueState {
        queue,
        places,
        ..QueueState::default()
    });
    let input = Mutex::new(input);
    let of_input = Given::later();
    let ring = Arc::new(Ring {
        node: IteratorId::new(),
        depth,
        input,
        of_input,
        state,
        arrived: Condvar::new(),
        wanted: Condvar::new(),
    });
    Ok(Box::new(PrefetchPass {
        ring,
        given: None,
        thread: None,
        at,
    }))
}

impl Dataset {
    /// The same elements in the same order. Up to `depth` of them are made ahead of their consumer.
    /// The thread that makes them starts with the first requested element and is joined at the
    /// end of the iterator. Errors and the end keep their place in the order.
    ///
    /// INVALID_ARGUMENT if `depth` is not in [1, 4096]. From the first `next`, RESOURCE_EXHAUSTED
    /// if no thread can be started; the next call tries again.
    pub fn prefetch(&self, depth: i64) -> Result<Dataset> {
        self.then(Prefetch(ahead_depth(depth, 1, "depth")?))
    }
}

/// The operation that makes this number of elements ahead.
struct Prefetch(usize);

impl Operation for Prefetch {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        Ok(DatasetProperties {
            rows: None,
            ..DatasetProperties::above(inputs)?
        })
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Signature::new("prefetch")
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        ahead(
            dataset.input().start()?,
            self.0,
            dataset.input().cardinality(),
        )
    }
}

/// The state that consumer and producer share. `input` is locked before `state`. No code of the
/// caller runs while `state` is locked: no element is made or dropped.
struct Ring {
    /// The node that the producer's thread enters.
    node: IteratorId,
    depth: usize,
    /// Locked while an element is made, until it waits in the queue.
    input: Mutex<Box<dyn IteratorStage<Value>>>,
    /// The time when the input's elements are given.
    of_input: Given,
    state: Mutex<QueueState>,
    /// The consumer waits here for an element or the end.
    arrived: Condvar,
    /// The producer waits here for free space, or for the request to continue or to stop.
    wanted: Condvar,
}

/// An element, a failure or the end.
struct Made {
    outcome: Outcome<Result<Option<Value>>>,
    /// The place of the input after it.
    place: Place,
    /// The effect of giving it.
    effects: Vec<Effect>,
}

#[derive(Default)]
struct QueueState {
    queue: VecDeque<Made>,
    /// Unused memory for places.
    places: Vec<Place>,
    /// Whether the input has ended.
    ended: bool,
    /// Whether there was no memory for the next element, or a limit of the consumer's request has
    /// ended the attempt. The failure is in the queue. The producer tries again only when the
    /// consumer makes its next request, so that no outdated failure is reported.
    paused: bool,
    /// Whether the producer is to stop.
    stop: bool,
}

struct PrefetchPass {
    ring: Arc<Ring>,
    /// The moments at which elements are given, once an iterator has the pass. Before that, no
    /// thread is started.
    given: Option<Given>,
    thread: Option<thread::Handle>,
    /// The place of the input after the element that was returned last, once there is a thread.
    at: Place,
}

impl PrefetchPass {
    /// Starts the thread if there is none. If it cannot be started, the next call tries again.
    fn start(&mut self) -> Result<()> {
        if self.thread.is_some() {
            return Ok(());
        }
        let chain = CallStack::current().with(self.ring.node)?;
        self.at.note(&mut **self.ring.input.lock());
        let ring = Arc::clone(&self.ring);
        let options = thread::ThreadOptions::new("umbo-prefetch", Purpose::Prefetch);
        self.thread = Some(thread::spawn(&options, move || {
            let _inside = chain.enter();
            produce(&ring);
        })?);
        Ok(())
    }

    /// Whether the limits of an earlier request, which was given an element that was there, have
    /// ended the attempt to make this one.
    fn is_outdated<R>(&self, outcome: &Outcome<Result<R>>) -> bool {
        let is_interruption = matches!(outcome, Ok(Err(error)) if error.is_interruption());
        let stop = self.given.as_ref().map(Given::stop);
        is_interruption && stop.is_none_or(|stop| stop.check().is_ok())
    }

    /// Drops what was made ahead.
    fn release(&self) {
        loop {
            let mut state = self.ring.state.lock();
            let Some(made) = state.queue.pop_front() else {
                break;
            };
            state.places.push(made.place);
            drop(state);
            drop((made.outcome, made.effects));
        }
    }
}

impl IteratorStage<Value> for PrefetchPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.given.is_none() {
            return self.ring.input.lock().next();
        }
        self.start()?;
        let mut state = self.ring.state.lock();
        loop {
            if let Some(Made {
                outcome,
                place,
                effects,
            }) = state.queue.pop_front()
            {
                state.places.push(std::mem::replace(&mut self.at, place));
                self.ring.wanted.notify_one();
                drop(state);
                if let Some(given) = &self.given {
                    effects.into_iter().for_each(|effect| given.then(effect));
                }
                if self.is_outdated(&outcome) {
                    state = self.ring.state.lock();
                    continue;
                }
                return outcome.unwrap_or_else(|panic| resume_unwind(panic));
            }
            if state.ended {
                return Ok(None);
            }
            if std::mem::take(&mut state.paused) {
                self.ring.wanted.notify_one();
            }
            self.ring.arrived.wait(&mut state);
        }
    }

    fn restart(&mut self) -> Result<()> {
        // This waits for an element that is being made.
        let mut input = self.ring.input.lock();
        if self.thread.is_none() {
            return input.restart();
        }
        self.release();
        // The next round does not depend on how far ahead the thread is.
        let restarted = self.at.restart(&mut **input);
        self.at.note(&mut **input);
        drop(self.ring.of_input.take());
        let mut state = self.ring.state.lock();
        (state.ended, state.paused) = (false, false);
        self.ring.wanted.notify_one();
        restarted
    }

    fn save(&self, to: &mut StateWriter) {
        match self.thread {
            Some(_) => to.extend(&self.at.position),
            None => self.ring.input.lock().save(to),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.ring.input.lock().restore(from)
    }

    fn rounds(&mut self, to: &mut Rounds) {
        match self.thread {
            Some(_) => to.extend(&self.at.rounds),
            None => self.ring.input.lock().rounds(to),
        }
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        let mut input = self.ring.input.lock();
        if self.thread.is_none() {
            return input.go_back(to);
        }
        // Until the other round begins, no more elements are made.
        self.ring.state.lock().ended = true;
        self.release();
        let back = input.go_back(to);
        self.at.record_rounds(&mut **input);
        back
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        visit(&mut **self.ring.input.lock());
    }

    fn announce(&mut self, given: &Given) {
        self.given = Some(given.clone());
        self.ring
            .input
            .lock()
            .announce(&self.ring.of_input.below(given));
    }
}

impl Drop for PrefetchPass {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.ring.state.lock().stop = true;
        self.ring.of_input.end();
        self.ring.wanted.notify_one();
        // The thread may be this one, or wait for this one. Then it cannot be joined, and ends by
        // itself as soon as it can.
        if !reentrancy::is_inside(self.ring.node) {
            // A panic of the thread was reported through the ring, unless no request came after it.
            let _ = thread.join();
        }
    }
}

/// Makes elements until it is stopped.
fn produce(ring: &Ring) {
    let mut place = ring.state.lock().places.pop().unwrap_or_default();
    loop {
        let mut state = ring.state.lock();
        while !state.stop && (state.ended || state.paused || state.queue.len() == ring.depth) {
            ring.wanted.wait(&mut state);
        }
        if state.stop {
            return;
        }
        drop(state);
        let mut input = ring.input.lock();
        // Unwind safety: a pass in which a panic occurred continues after it, as it does without a
        // thread. The consumer gets the panic in place of the element.
        let made = catch_unwind(AssertUnwindSafe(|| {
            let _input = observe::span(Phase::Input).named("make an element ahead");
            input.next()
        }));
        place.note(&mut **input);
        let effects = ring.of_input.take();
        let mut state = ring.state.lock();
        state.paused = made.as_ref().is_ok_and(comes_again);
        state.ended = matches!(made, Ok(Ok(None)));
        let next = state.places.pop().unwrap_or_default();
        let place = std::mem::replace(&mut place, next);
        state.queue.push_back(Made {
            outcome: made,
            place,
            effects,
        });
        ring.arrived.notify_one();
        drop(state);
        MutexGuard::unlock_fair(input);
    }
}
