//! Passes over a dataset, plain or distributed, as their consumer sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::input::pass::{Pass, Pipeline};
use crate::input::position::{Description, StateReader, StateWriter};
use crate::input::position_text;
use crate::input::spec::ElementSpec;
use crate::input::work::{self, Inside, Node};
use crate::observe::{self, Phase};
use crate::strategy::context::require_cross_replica_of;
use crate::values::Value;
use parking_lot::{Condvar, Mutex};

/// A pass over a dataset. Threads may share it; each element goes to one of them.
///
/// The pass runs the caller's code (generators, mapped functions, functions that release memory),
/// so no lock is held while a thread works on it: the thread takes it out and puts it back. Threads
/// that come meanwhile wait, and are served in the order in which they came.
///
/// Dropping it, also before the end, stops and joins its threads.
pub struct PassIterator {
    node: Node,
    state: Mutex<State>,
    /// Threads wait for this: the pass is back.
    freed: Condvar,
    /// The id of the strategy that its elements are distributed for, if they are.
    strategy: Option<u64>,
    /// Whether several ranks meet for each element, and so know of each other's failures.
    meets_ranks: bool,
    /// Nobody has said that the pass has begun.
    begins: AtomicBool,
    spec: ElementSpec,
    /// Where its passes come from.
    pipeline: Arc<dyn Pipeline>,
}

struct State {
    /// None while a thread works on it.
    work: Option<Work>,
    /// The ticket that the next thread that has to wait draws.
    next: u64,
    /// The ticket that is served next. None waits if it is the same.
    serving: u64,
}

struct Work {
    pass: Box<dyn Pass<Value>>,
    ended: bool,
    /// How often something was asked of it.
    asked: u64,
    /// Where the pass was before the element that a step has taken last.
    before: StateWriter,
    /// That element, if the step took no effect and nothing was asked for since.
    again: Option<Value>,
}

impl Work {
    fn new(pass: Box<dyn Pass<Value>>, ended: bool) -> Work {
        let mut at = StateWriter::default();
        pass.save(&mut at);
        Work { pass, ended, asked: 0, before: StateWriter::with_room_of(&at), again: None }
    }

    /// Writes down where it is.
    fn save(&self, to: &mut StateWriter) {
        to.push_flag(self.ended);
        self.pass.save(to);
    }

    fn next(&mut self) -> Result<Option<Value>> {
        if self.ended {
            return Ok(None);
        }
        let element = self.pass.next()?;
        self.ended = element.is_none();
        Ok(element)
    }
}

/// An element that a step is to take. A step that takes no effect gives it back
/// ([`PassIterator::give_back`]).
pub(crate) struct Lent {
    pub(crate) element: Value,
    asked: u64,
}

impl PassIterator {
    /// An iterator at the beginning of a new pass of `pipeline`, whose elements are like `spec`: for the replicas of
    /// the strategy with this id, if there is one, and such that several ranks meet for each, if `meets_ranks` says
    /// so. It counts as one that was made: the next one has another order, where the dataset is shuffled.
    pub(super) fn new(
        pipeline: Arc<dyn Pipeline>,
        spec: ElementSpec,
        strategy: Option<u64>,
        meets_ranks: bool,
    ) -> Result<PassIterator> {
        let mut pass = pipeline.start()?;
        pass.announce();
        let work = Some(Work::new(pass, false));
        let state = Mutex::new(State { work, next: 0, serving: 0 });
        let (node, freed) = (Node::new(), Condvar::default());
        let begins = AtomicBool::new(true);
        Ok(PassIterator { node, state, freed, strategy, meets_ranks, begins, spec, pipeline })
    }

    /// Whether several ranks meet for each element, and so know of each other's failures.
    pub(crate) fn meets_ranks(&self) -> bool {
        self.meets_ranks
    }

    /// The id of the strategy for whose replicas the elements are distributed, if they are.
    pub fn distributed_for(&self) -> Option<u64> {
        self.strategy
    }

    /// Whether nobody has called [`PassIterator::note_begun`] since the pass has begun: with the iterator, or
    /// with its last [`PassIterator::reset`] or [`PassIterator::restore_position`].
    pub fn begins(&self) -> bool {
        self.begins.load(Ordering::Relaxed)
    }

    /// Notes that what is done with the first element of a pass was done.
    pub fn note_begun(&self) {
        self.begins.store(false, Ordering::Relaxed);
    }

    /// The structure, dtypes and shapes of the elements: those of what it iterates over.
    pub fn element_spec(&self) -> &ElementSpec {
        &self.spec
    }

    /// Elements that are distributed for a strategy are for all of its replicas: they are asked
    /// for in its cross-replica context or in the default context.
    fn check_context(&self) -> Result<()> {
        self.strategy.map_or(Ok(()), require_cross_replica_of)
    }

    /// The next element, or nothing at the end and ever after. Blocks until the element is there;
    /// threads that share the iterator are served in the order in which they ask.
    ///
    /// The memory of an element that has been dropped, with all that was made from it, serves a
    /// later one. After an error the call may be repeated and goes on behind what failed.
    ///
    /// Errors are those of the sources and transformations. FAILED_PRECONDITION
    /// - in a function that this iterator has called, on whatever thread (a generator, a mapped
    ///   function, the release of an element), since the call would wait for itself;
    /// - if elements are distributed for a strategy: inside of a replica's callback and in the
    ///   context of another strategy.
    pub fn next(&self) -> Result<Option<Value>> {
        self.check_context()?;
        let _input = observe::span(Phase::Input).named("next element");
        let mut taken = self.take("asked for an element")?;
        let work = taken.work()?;
        work.asked += 1;
        work.again = None;
        work.next()
    }

    /// As [`PassIterator::next`], for a step, which may give the element back: then it is the next one
    /// for a step.
    pub(crate) fn lend(&self) -> Result<Option<Lent>> {
        self.check_context()?;
        let _input = observe::span(Phase::Input).named("next element");
        let mut taken = self.take("asked for an element")?;
        let work = taken.work()?;
        work.asked += 1;
        let element = match work.again.take() {
            Some(element) => Some(element),
            None => {
                let mut before = std::mem::take(&mut work.before);
                before.clear();
                work.save(&mut before);
                work.before = before;
                work.next()?
            }
        };
        let asked = work.asked;
        Ok(element.map(|element| Lent { element, asked }))
    }

    /// Gives back an element whose step took no effect: the iterator is where it was before it, and
    /// [`PassIterator::lend`] gives it again. Not if something was asked of the iterator since, on
    /// another thread. Returns whether that could be.
    pub(crate) fn give_back(&self, lent: Lent) -> bool {
        let Ok(mut taken) = self.take("given an element back") else { return false };
        match taken.work() {
            Ok(work) if work.asked == lent.asked => {
                work.again = Some(lent.element);
                true
            }
            _ => false,
        }
    }

    /// Starts a new pass from the beginning; a shuffled dataset has another order in it unless
    /// it was told to keep one. Memory and threads stay. FAILED_PRECONDITION as for
    /// [`PassIterator::next`].
    pub fn reset(&self) -> Result<()> {
        self.check_context()?;
        self.begins.store(true, Ordering::Relaxed);
        let mut taken = self.take("reset")?;
        let work = taken.work()?;
        work.asked += 1;
        (work.ended, work.again) = (false, None);
        work.pass.restart()
    }

    /// Where the pass is, as a text: behind the element that [`PassIterator::next`] returned last, or
    /// its failure; before one that a step has given back. What was made ahead of the consumer does not count. The text is JSON and says what
    /// the stages of the pipeline are; its numbers are for [`PassIterator::restore_position`].
    ///
    /// FAILED_PRECONDITION as for [`PassIterator::next`].
    pub fn save_position(&self) -> Result<String> {
        self.check_context()?;
        let mut state = StateWriter::default();
        let mut taken = self.take("asked for its position")?;
        let work = taken.work()?;
        match &work.again {
            Some(_) => state.extend(&work.before),
            None => work.save(&mut state),
        }
        drop(taken);
        Ok(position_text::write(&self.description(), state.numbers()))
    }

    /// Goes to a place that [`PassIterator::save_position`] gave, of this iterator or of another one of the
    /// same pipeline, in this process or another: the same elements follow. Where they would come from
    /// a shuffle, a cache, or batches cut anew, the elements that these hold are made again; so are all
    /// elements of a generator's round that came before. Seeds of shuffles are those of the position.
    ///
    /// The pass is a new one, with memory and threads of its own. If it cannot be had, the iterator
    /// stays where it is.
    ///
    /// INVALID_ARGUMENT: not such a text, a damaged one, one of another version, or of another pipeline
    /// (the message names the first difference), or of other data, as far as that is noticed.
    /// FAILED_PRECONDITION as for [`PassIterator::save_position`]. Besides, whatever a source or a
    /// transformation fails with where elements are made again.
    pub fn restore_position(&self, text: &str) -> Result<()> {
        self.check_context()?;
        self.begins.store(true, Ordering::Relaxed);
        let numbers = position_text::read(text, &self.description())?;
        let mut taken = self.take("put at another position")?;
        let work = taken.work()?;
        let mut pass = self.pipeline.start()?;
        let mut reader = StateReader::new(&numbers);
        let ended = reader.flag()?;
        pass.restore(&mut reader)?;
        reader.end()?;
        pass.announce();
        // The one before is dropped inside too: its elements may run the caller's code.
        *work = Work { asked: work.asked + 1, ..Work::new(pass, ended) };
        Ok(())
    }

    fn description(&self) -> Description {
        Description::of(&*self.pipeline)
    }

    /// Takes the pass out, once it is this thread's turn.
    fn take(&self, what: &str) -> Result<Taken<'_>> {
        if work::is_inside(self.node) {
            return Err(Error::precondition(format!(
                "the iterator is {what} by a function that it has called itself (a generator, a \
                 mapped function, the release of an element): the call would wait for itself; use \
                 another iterator there"
            )));
        }
        let inside = work::enter(self.node)?;
        let mut state = self.state.lock();
        if state.work.is_none() || state.serving != state.next {
            let ticket = state.next;
            state.next += 1;
            while state.work.is_none() || state.serving != ticket {
                self.freed.wait(&mut state);
            }
            state.serving += 1;
        }
        let work = state.work.take();
        Ok(Taken { iterator: self, work, _inside: inside })
    }
}

/// The pass while this thread works on it; dropping this puts it back, also by a panic.
struct Taken<'a> {
    iterator: &'a PassIterator,
    work: Option<Work>,
    _inside: Inside,
}

impl Taken<'_> {
    fn work(&mut self) -> Result<&mut Work> {
        self.work.as_mut().ok_or_else(|| Error::Internal("an iterator has lost its pass".into()))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.iterator.state.lock();
        state.work = self.work.take();
        if state.serving != state.next {
            drop(state);
            self.iterator.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::input::spec::LeafSpec;
    use crate::tensor::{DType, Tensor};

    /// Elements that are there once something is received.
    struct Gated(Receiver<()>, i32);

    impl Pass<Value> for Gated {
        fn next(&mut self) -> Result<Option<Value>> {
            let _ = self.0.recv();
            self.1 += 1;
            Ok(Some(Value::Tensor(Tensor::scalar(self.1)?)))
        }

        fn restart(&mut self) -> Result<()> {
            Ok(())
        }

        fn save(&self, to: &mut StateWriter) {
            to.push(self.1 as u64);
        }

        fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
            self.1 = from.at_most(9, "the number")? as i32;
            Ok(())
        }
    }

    /// The pipeline of one such pass.
    struct Gate(Mutex<Option<Gated>>);

    impl Pipeline for Gate {
        fn start(&self) -> Result<Box<dyn Pass<Value>>> {
            let pass = self.0.lock().unwrap().take();
            pass.map(|pass| Box::new(pass) as _)
                .ok_or_else(|| Error::Internal("a second pass".into()))
        }

        fn describe(&self, to: &mut Description) {
            to.stage("gate".into());
        }
    }

    #[test]
    fn threads_are_served_in_the_order_in_which_they_ask() {
        let (go, gate) = channel();
        let spec = ElementSpec::Leaf(LeafSpec { dtype: DType::Int32, shape: vec![] });
        let gate = Arc::new(Gate(Mutex::new(Some(Gated(gate, 0)))));
        let iterator = Arc::new(PassIterator::new(gate, spec, None, false).unwrap());
        let number = |value: Option<Value>| match value {
            Some(Value::Tensor(tensor)) => tensor.to_vec::<i32>().unwrap()[0],
            other => panic!("{other:?}"),
        };
        let threads: Vec<_> = (0..6)
            .map(|turn| {
                let of_thread = Arc::clone(&iterator);
                let thread = std::thread::spawn(move || number(of_thread.next().unwrap()));
                // The next one asks once this one is inside, or has drawn its ticket.
                loop {
                    let state = iterator.state.lock();
                    if state.work.is_none() && state.next == turn {
                        break;
                    }
                    drop(state);
                    std::thread::yield_now();
                }
                thread
            })
            .collect();
        (0..6).for_each(|_| go.send(()).unwrap());
        let numbers: Vec<i32> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    }
}
