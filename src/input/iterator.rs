//! Passes over a dataset, plain or distributed, as their consumer sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::input::pass::{Pass, Pipeline};
use crate::input::position::{Description, StateReader, StateWriter};
use crate::input::position_text;
use crate::input::spec::ElementSpec;
use crate::input::work::{self, InsideGuard, WorkNode};
use crate::observe::{self, Phase};
use crate::strategy::context::require_cross_replica_of;
use crate::values::Value;
use parking_lot::{FairMutex, FairMutexGuard};

/// A pass over a dataset. Threads may share it; each element goes to one of them.
///
/// The pass runs the caller's code (generators, mapped functions, functions that release memory), which may
/// come back here: a thread that works on the pass already is refused. Other threads wait, and are served in
/// the order in which they came.
///
/// Dropping it, also before the end, stops and joins its threads.
pub struct PassIterator {
    node: WorkNode,
    work: FairMutex<NextElement>,
    /// The id of the strategy that its elements are distributed for, if they are.
    strategy: Option<u64>,
    /// Whether several ranks meet for each element, and so know of each other's failures.
    spans_ranks: bool,
    /// Nobody has said that the pass has begun.
    begins: AtomicBool,
    spec: ElementSpec,
    /// Where its passes come from.
    pipeline: Arc<dyn Pipeline>,
}

struct NextElement {
    pass: Box<dyn Pass<Value>>,
    ended: bool,
    /// How often something was asked of it.
    asked: u64,
    /// Where the pass was before the element that a step has taken last.
    before: StateWriter,
    /// That element, if the step took no effect and nothing was asked for since.
    again: Option<Value>,
}

impl NextElement {
    fn new(pass: Box<dyn Pass<Value>>, ended: bool) -> NextElement {
        let mut at = StateWriter::default();
        pass.save(&mut at);
        NextElement { pass, ended, asked: 0, before: StateWriter::with_room_of(&at), again: None }
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
pub(crate) struct LentElement {
    pub(crate) element: Value,
    asked: u64,
}

impl PassIterator {
    /// An iterator at the beginning of a new pass of `pipeline`, whose elements are like `spec`: for the replicas of
    /// the strategy with this id, if there is one, and such that several ranks meet for each, if `spans_ranks` says
    /// so. It counts as one that was made: the next one has another order, where the dataset is shuffled.
    pub(super) fn new(
        pipeline: Arc<dyn Pipeline>,
        spec: ElementSpec,
        strategy: Option<u64>,
        spans_ranks: bool,
    ) -> Result<PassIterator> {
        let mut pass = pipeline.start()?;
        pass.announce();
        let (node, work) = (WorkNode::new(), FairMutex::new(NextElement::new(pass, false)));
        let begins = AtomicBool::new(true);
        Ok(PassIterator { node, work, strategy, spans_ranks, begins, spec, pipeline })
    }

    /// Whether several ranks meet for each element, and so know of each other's failures.
    pub(crate) fn spans_ranks(&self) -> bool {
        self.spans_ranks
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
        let (_inside, mut work) = self.take("asked for an element")?;
        work.asked += 1;
        work.again = None;
        work.next()
    }

    /// As [`PassIterator::next`], for a step, which may give the element back: then it is the next one
    /// for a step.
    pub(crate) fn lend(&self) -> Result<Option<LentElement>> {
        self.check_context()?;
        let _input = observe::span(Phase::Input).named("next element");
        let (_inside, mut work) = self.take("asked for an element")?;
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
        Ok(element.map(|element| LentElement { element, asked }))
    }

    /// Gives back an element whose step took no effect: the iterator is where it was before it, and
    /// [`PassIterator::lend`] gives it again. Not if something was asked of the iterator since, on
    /// another thread. Returns whether that could be.
    pub(crate) fn give_back(&self, lent: LentElement) -> bool {
        let Ok((_inside, mut work)) = self.take("given an element back") else { return false };
        let is_last = work.asked == lent.asked;
        if is_last {
            work.again = Some(lent.element);
        }
        is_last
    }

    /// Starts a new pass from the beginning; a shuffled dataset has another order in it unless
    /// its options say that it keeps one. Memory and threads stay. FAILED_PRECONDITION as for
    /// [`PassIterator::next`].
    pub fn reset(&self) -> Result<()> {
        self.check_context()?;
        self.begins.store(true, Ordering::Relaxed);
        let (_inside, mut work) = self.take("reset")?;
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
        let (_inside, work) = self.take("asked for its position")?;
        match &work.again {
            Some(_) => state.extend(&work.before),
            None => work.save(&mut state),
        }
        drop(work);
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
        let (_inside, mut work) = self.take("put at another position")?;
        let mut pass = self.pipeline.start()?;
        let mut reader = StateReader::new(&numbers);
        let ended = reader.flag()?;
        pass.restore(&mut reader)?;
        reader.end()?;
        pass.announce();
        // The one before is dropped inside too: its elements may run the caller's code.
        *work = NextElement { asked: work.asked + 1, ..NextElement::new(pass, ended) };
        Ok(())
    }

    fn description(&self) -> Description {
        self.pipeline.description()
    }

    /// Has the pass to itself, once it is this thread's turn.
    fn take(&self, what: &str) -> Result<(InsideGuard, FairMutexGuard<'_, NextElement>)> {
        if work::is_inside(self.node) {
            return Err(Error::precondition(format!(
                "the iterator is {what} by a function that it has called itself (a generator, a \
                 mapped function, the release of an element): the call would wait for itself; use \
                 another iterator there"
            )));
        }
        Ok((work::enter(self.node)?, self.work.lock()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
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
            .map(|_| {
                let (say, said) = channel();
                let of_thread = Arc::clone(&iterator);
                let thread = std::thread::spawn(move || {
                    say.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
                    number(of_thread.next().unwrap())
                });
                // The next one asks once this one sleeps: inside, or in the queue.
                let status = Path::new("/proc").join(said.recv().unwrap()).join("status");
                let sleeps = || std::fs::read_to_string(&status).unwrap().contains("State:\tS");
                while !sleeps() {
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
