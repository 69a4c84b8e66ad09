//! Elements made ahead of their consumer, on a thread of their own.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::executor::thread::{self, Purpose};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Kind};
use crate::input::frame::no_memory;
use crate::input::stage::{Pass, Stage};
use crate::memory;
use crate::values::Value;

/// More elements than this are a dataset, not a buffer.
const MAX_DEPTH: usize = 4096;

impl Dataset {
    /// The same elements in the same order, up to `depth` of them made ahead of their consumer.
    /// The thread that makes them starts with the first element asked for and is joined with the
    /// end of the iterator. Errors and the end arrive in their place in the order.
    ///
    /// INVALID_ARGUMENT if `depth` is not in [1, 4096]. From the first `next`,
    /// RESOURCE_EXHAUSTED if there can be no thread.
    pub fn prefetch(&self, depth: i64) -> Result<Dataset> {
        let stage = Prefetch {
            depth: ahead_depth(depth, 1, "depth")?,
            cardinality: self.cardinality(),
            input: self.stream(),
        };
        let (spec, kind) = (self.element_spec().clone(), Kind::Stream(Arc::new(stage)));
        Ok(Dataset::batched(spec, self.cardinality(), kind, self.batch_size()))
    }
}

/// A number of elements to make ahead, at least `least`.
pub(super) fn ahead_depth(depth: i64, least: usize, argument: &'static str) -> Result<usize> {
    let fits = usize::try_from(depth).ok().filter(|depth| (least..=MAX_DEPTH).contains(depth));
    fits.ok_or_else(|| {
        let problem = format!("{depth} elements ahead; it is between {least} and {MAX_DEPTH}");
        Error::invalid(argument, problem)
    })
}

struct Prefetch {
    depth: usize,
    cardinality: Cardinality,
    input: Arc<dyn Stage<Value>>,
}

impl Stage<Value> for Prefetch {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        ahead(self.input.start()?, self.depth, self.cardinality)
    }
}

/// The items of a pass that has not begun, up to `depth` of them made ahead.
pub(super) fn ahead(
    mut input: Box<dyn Pass<Value>>,
    depth: usize,
    cardinality: Cardinality,
) -> Result<Box<dyn Pass<Value>>> {
    let mut queue = VecDeque::new();
    queue
        .try_reserve_exact(depth)
        .map_err(|_| no_memory("the elements made ahead of their consumer"))?;
    // How many can wait at once; beside them, one that the consumer holds, and one while it
    // changes over.
    let room = cardinality.bound().map_or(depth, |all| all.min(depth));
    input.reserve(room + 2);
    let state = Waiting { queue, ended: false, stop: false, gone: false, round: 0 };
    let (arrived, wanted) = (Condvar::new(), Condvar::new());
    let ring = Arc::new(Ring { depth, state: Mutex::new(state), arrived, wanted });
    Ok(Box::new(PrefetchPass { ring, input: Some(input), thread: None }))
}

/// What consumer and producer share. The locks are those of the standard library because they
/// never allocate, on no thread.
struct Ring {
    depth: usize,
    state: Mutex<Waiting>,
    /// The consumer waits for this: an element, the end, the producer's end.
    arrived: Condvar,
    /// The producer waits for this: room, another round, the order to stop.
    wanted: Condvar,
}

struct Waiting {
    queue: VecDeque<Result<Value>>,
    /// The input has ended; the end comes behind the queue.
    ended: bool,
    /// The producer is to stop.
    stop: bool,
    /// The producer has stopped.
    gone: bool,
    /// The round that the consumer wants.
    round: u64,
}

impl Ring {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every change of the state is complete when it is made, so a panic leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait<'a>(for_what: &Condvar, state: MutexGuard<'a, Waiting>) -> MutexGuard<'a, Waiting> {
    for_what.wait(state).unwrap_or_else(PoisonError::into_inner)
}

struct PrefetchPass {
    ring: Arc<Ring>,
    /// Until the thread starts and takes it along.
    input: Option<Box<dyn Pass<Value>>>,
    thread: Option<thread::Handle>,
}

impl PrefetchPass {
    fn start_thread(&mut self, input: Box<dyn Pass<Value>>) -> Result<()> {
        let ring = Arc::clone(&self.ring);
        let options = thread::Options::new("umbo-prefetch", Purpose::Prefetch);
        let thread = thread::spawn(&options, move || produce(&ring, input)).inspect_err(|_| {
            self.ring.lock().gone = true;
        })?;
        self.thread = Some(thread);
        Ok(())
    }
}

impl Pass<Value> for PrefetchPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.input.is_some() {
            memory::ask_system()?;
        }
        if let Some(input) = self.input.take() {
            self.start_thread(input)?;
        }
        let mut state = self.ring.lock();
        loop {
            if let Some(element) = state.queue.pop_front() {
                self.ring.wanted.notify_one();
                return element.map(Some);
            }
            if state.ended {
                return Ok(None);
            }
            if state.gone {
                return Err(Error::FailedPrecondition(
                    "the prefetching thread of this iterator could not start or has panicked; \
                     make a new iterator"
                        .into(),
                ));
            }
            state = wait(&self.ring.arrived, state);
        }
    }

    fn restart(&mut self) -> Result<()> {
        if let Some(input) = &mut self.input {
            return input.restart();
        }
        let mut state = self.ring.lock();
        state.round += 1;
        state.queue.clear();
        state.ended = false;
        self.ring.wanted.notify_one();
        Ok(())
    }

    fn reserve(&mut self, items: usize) {
        // Pools fill when the first element is asked for, and this comes before.
        if let Some(input) = &mut self.input {
            input.reserve(items);
        }
    }
}

impl Drop for PrefetchPass {
    fn drop(&mut self) {
        self.ring.lock().stop = true;
        self.ring.wanted.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported through the ring, or nobody asked.
            let _ = thread.join();
        }
    }
}

/// Says that the producer has stopped, also when it panics.
struct Gone<'a>(&'a Ring);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.lock().gone = true;
        self.0.arrived.notify_one();
    }
}

/// Makes elements until it is told to stop.
fn produce(ring: &Ring, mut input: Box<dyn Pass<Value>>) {
    let _gone = Gone(ring);
    let mut round = 0;
    loop {
        let mut state = ring.lock();
        loop {
            if state.stop {
                return;
            }
            if state.round != round || (!state.ended && state.queue.len() < ring.depth) {
                break;
            }
            state = wait(&ring.wanted, state);
        }
        let restart = state.round != round;
        // Rounds that the consumer has passed over are passed over here too, one by one, so that
        // the order of a shuffled round does not depend on when this thread looked.
        round += u64::from(restart);
        drop(state);

        let made = if restart {
            match input.restart() {
                Ok(()) => continue,
                Err(error) => Err(error),
            }
        } else {
            input.next()
        };

        let mut state = ring.lock();
        if state.round != round {
            continue;
        }
        match made {
            Ok(Some(element)) => state.queue.push_back(Ok(element)),
            Ok(None) => state.ended = true,
            Err(error) => state.queue.push_back(Err(error)),
        }
        ring.arrived.notify_one();
    }
}
