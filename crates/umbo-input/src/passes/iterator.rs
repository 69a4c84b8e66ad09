//! Passes over a dataset, plain or distributed, as their consumer sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use parking_lot::{FairMutex, FairMutexGuard};

use crate::cardinality::Cardinality;
use crate::elements::spec::ElementSpec;
use crate::passes::given::Given;
use crate::passes::place::Place;
use crate::passes::position::{Description, StateReader, StateWriter};
use crate::passes::reentrancy::{self, InsideGuard, IteratorId};
use crate::passes::request_limits::RequestLimits;
use crate::passes::saved_position::SavedPosition;
use crate::passes::{IteratorStage, Pipeline};
use umbo_base::error::{Error, Result};
use umbo_base::observe::{self, Phase, strict};
use umbo_strategy::context::require_cross_replica;
use umbo_strategy::step::run::Limits;
use umbo_tensor::values::Value;

/// The most elements that a saved pass of unknown length has returned. A pass that continues from
/// there does not overflow.
const MOST_TAKEN: u64 = 1 << 62;

/// A pass over a dataset. Threads may share it; each element goes to one of them.
///
/// The pass runs code of the caller (generators, mapped functions, functions that release memory).
/// Such code may call this iterator again: a call from a thread that already works on the pass is
/// refused. Other threads wait, and are served in the order in which they came.
///
/// Dropping the iterator, even before the end, stops and joins its threads.
pub struct PassIterator {
    node: IteratorId,
    work: FairMutex<NextElement>,
    /// The id of the strategy for which its elements are distributed, if there is one.
    strategy: Option<u64>,
    /// Whether several ranks communicate for each element, and so learn of each other's failures.
    pub spans_ranks: bool,
    /// Whether that strategy is strict.
    is_strict: bool,
    /// True until the caller notes that the pass has begun.
    begins: AtomicBool,
    /// The limits of the request that is being answered.
    limits: Arc<RequestLimits>,
    spec: ElementSpec,
    /// The number of elements of a pass, as far as it is known.
    cardinality: Cardinality,
    /// The pipeline that makes its passes.
    pipeline: Arc<dyn Pipeline>,
}

struct NextElement {
    pass: Box<dyn IteratorStage<Value>>,
    /// Whether its end was returned, or noted.
    ended: bool,
    /// The number of elements of this pass that were returned, without one that was given back.
    taken: u64,
    /// The thread that was told the end.
    told: Option<ThreadId>,
    /// Whether the program was warned that a thread was told it twice.
    is_warned: bool,
    /// The number of requests that were made.
    asked: u64,
    /// The place of the pass before the element that a step has taken last.
    before: Place,
    /// That element, if its step had no effect and no request was made since.
    again: Option<Value>,
    /// The answer to the next request, if it was looked for: an element, or the failure to make
    /// one. `before` is the place before it.
    ahead: Option<Result<Value>>,
    /// The answer to the next request is the end, which was given back.
    end_again: bool,
}

impl NextElement {
    fn new(mut pass: Box<dyn IteratorStage<Value>>, ended: bool, taken: u64) -> NextElement {
        let before = Place::with_room_of(&Place::of(&mut *pass));
        NextElement {
            pass,
            ended,
            taken,
            told: None,
            is_warned: false,
            asked: 0,
            before,
            again: None,
            ahead: None,
            end_again: false,
        }
    }

    /// Whether the pass has worked ahead of its consumer, whose place is `before`.
    fn is_ahead(&self) -> bool {
        self.again.is_some() || self.ahead.is_some()
    }

    /// Saves the position. An element that was given back, or looked for, is the next one.
    fn save(&self, to: &mut StateWriter) {
        to.push_flag(self.ended);
        to.push(self.taken);
        match self.is_ahead() {
            true => to.extend(&self.before.position),
            false => self.pass.save(to),
        }
    }

    fn next(&mut self) -> Result<Option<Value>> {
        self.ended |= std::mem::take(&mut self.end_again);
        if self.ended {
            return Ok(None);
        }
        let element = match self.ahead.take() {
            Some(looked) => Some(looked?),
            None => self.pass.next().map_err(Error::not_shifting)?,
        };
        self.ended = element.is_none();
        self.taken += u64::from(element.is_some());
        Ok(element)
    }

    /// Notes the place before the next element.
    fn note_place(&mut self) {
        if self.ahead.is_none() {
            self.before.note(&mut *self.pass);
        }
    }

    /// Looks whether there is another element. After a limit, or where memory was lacking, that
    /// stays open.
    fn look_ahead(&mut self) {
        self.ended |= std::mem::take(&mut self.end_again);
        if self.ended || self.is_ahead() {
            return;
        }
        self.note_place();
        self.ahead = match self.pass.next().map_err(Error::not_shifting) {
            Ok(element) => {
                self.ended = element.is_none();
                element.map(Ok)
            }
            Err(error) if error.comes_again() => None,
            Err(error) => Some(Err(error)),
        };
    }

    /// The element that was given back, if there is one.
    fn next_again(&mut self) -> Option<Value> {
        let again = self.again.take();
        self.taken += u64::from(again.is_some());
        again
    }
}

/// The strategy for whose replicas elements are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementsFor {
    pub(crate) id: u64,
    pub(crate) is_strict: bool,
}

/// An element for a step. A step that has no effect gives it back ([`PassIterator::give_back`]).
pub struct LentElement {
    /// The element.
    pub element: Value,
    asked: u64,
}

impl PassIterator {
    /// An iterator at the beginning of a new pass of `pipeline`. Its elements are like `spec`, and
    /// there are as many as `cardinality` says. They are for the replicas of `strategy`, if there
    /// is one. If `spans_ranks`, several ranks communicate for each of them. The iterator is
    /// counted, so that the next one has another order if the dataset is shuffled.
    pub(crate) fn new(
        pipeline: Arc<dyn Pipeline>,
        spec: ElementSpec,
        cardinality: Cardinality,
        strategy: Option<ElementsFor>,
        spans_ranks: bool,
    ) -> Result<PassIterator> {
        let mut pass = pipeline.start()?;
        let limits = Arc::default();
        pass.announce(&Given::to_requests(&limits));
        let work = FairMutex::new(NextElement::new(pass, false, 0));
        let begins = AtomicBool::new(true);
        let is_strict = strategy.is_some_and(|strategy| strategy.is_strict);
        let strategy = strategy.map(|strategy| strategy.id);
        Ok(PassIterator {
            node: IteratorId::new(),
            work,
            strategy,
            spans_ranks,
            is_strict,
            begins,
            limits,
            spec,
            cardinality,
            pipeline,
        })
    }

    /// The id of the strategy for whose replicas the elements are distributed, if they are.
    pub fn distributed_for(&self) -> Option<u64> {
        self.strategy
    }

    /// Whether [`PassIterator::record_begun`] has not been called since the pass began. It begins
    /// with the iterator, and with each [`PassIterator::reset`] or
    /// [`PassIterator::restore_position`].
    pub fn begins(&self) -> bool {
        self.begins.load(Ordering::Relaxed)
    }

    /// Notes that everything that belongs to the first element of a pass is done.
    pub fn record_begun(&self) {
        self.begins.store(false, Ordering::Relaxed);
    }

    /// The structure, dtypes and shapes of the elements, as the dataset has them.
    pub fn element_spec(&self) -> &ElementSpec {
        &self.spec
    }

    /// Checks the context. Elements that are distributed for a strategy are for all of its
    /// replicas, so they are requested in its cross-replica context or in the default context.
    fn check_context(&self) -> Result<()> {
        self.strategy.map_or(Ok(()), require_cross_replica)
    }

    /// The next element, or nothing at the end and ever after. Blocks until the element is there.
    /// Threads that share the iterator are served in the order of their requests.
    ///
    /// Once an element and all that was made from it are dropped, its memory is used for a later
    /// element. After an error the call may be repeated; it continues after what failed.
    ///
    /// Errors are those of the sources and transformations. A thread that was given the end and
    /// asks again, without a reset, is told so once, since a loop over several passes would do
    /// nothing from the second one on; in a strict process and for a strict strategy this is
    /// FAILED_PRECONDITION. FAILED_PRECONDITION also
    /// - in a function that this iterator has called, on whatever thread (a generator, a mapped
    ///   function, the release of an element), since the call would wait for itself;
    /// - if elements are distributed for a strategy: inside of a replica's callback and in the
    ///   context of another strategy.
    pub fn next(&self) -> Result<Option<Value>> {
        self.check_context()?;
        let _input = observe::span(Phase::Input).named("next element");
        let (_inside, mut work) = self.take("asked for an element")?;
        work.asked += 1;
        drop(work.next_again());
        let next = work.next()?;
        if next.is_none() {
            self.tell_end(&mut work)?;
        }
        Ok(next)
    }

    /// Notes that this thread is given the end, and warns if it was given this end before. A thread
    /// that shares the iterator with others may be given an end that another one has found.
    fn tell_end(&self, work: &mut NextElement) -> Result<()> {
        let this = std::thread::current().id();
        if work.told.replace(this) != Some(this) {
            return Ok(());
        }
        let is_warned = std::mem::replace(&mut work.is_warned, true);
        if is_warned && !self.is_strict && !strict::is_on() {
            return Ok(());
        }
        strict::warn_or_fail(self.is_strict, Error::precondition, || {
            "the pass has ended, and its iterator is asked for an element once more without a \
             reset, and has none: in a loop over several passes all but the first would be empty; \
             reset the iterator at the end of each pass"
                .to_owned()
        })
    }

    /// Whether the pass has ended, so that a reset begins the next one. It is false before the end
    /// was returned once, or noted. FAILED_PRECONDITION as for [`PassIterator::next`].
    pub fn has_ended(&self) -> Result<bool> {
        self.check_context()?;
        let (_inside, work) = self.take("asked whether its pass has ended")?;
        Ok(work.ended && work.again.is_none())
    }

    /// Notes the end of the pass if its last element was returned. If the number of elements is not
    /// known and `looks` are limits, within them it looks for another element, which is then the
    /// answer to the next request; so is the error if it cannot be made. Returns whether the pass
    /// has ended. FAILED_PRECONDITION as for [`PassIterator::next`].
    pub fn note_end(&self, looks: Option<&Limits>) -> Result<bool> {
        self.check_context()?;
        let (_inside, mut work) = self.take("asked whether its pass has ended")?;
        match (self.cardinality, looks) {
            (Cardinality::Exact(count), _) => work.ended |= count == work.taken,
            (Cardinality::Unknown, Some(limits)) => {
                let _input = observe::span(Phase::Input).named("next element");
                let _limits = self.limits.enforce(limits);
                // What another thread gives back from now on is not the element before this place.
                work.asked += 1;
                work.look_ahead();
            }
            _ => {}
        }
        Ok(work.ended && work.again.is_none())
    }

    /// The next element, as with [`PassIterator::next`], for a step. The step may give the element
    /// back; it is then the next element for a step.
    ///
    /// DEADLINE_EXCEEDED, CANCELLED: a limit was reached. `limits` are looked at between elements
    /// that are made only to be left out, by a skip or a shard. Nothing is lost: the next request
    /// continues from that element.
    pub fn lend(&self, limits: &Limits) -> Result<Option<LentElement>> {
        self.check_context()?;
        let _input = observe::span(Phase::Input).named("next element");
        let (_inside, mut work) = self.take("asked for an element")?;
        let _limits = self.limits.enforce(limits);
        work.asked += 1;
        let element = match work.next_again() {
            Some(element) => Some(element),
            None => {
                work.note_place();
                work.next()?
            }
        };
        let asked = work.asked;
        Ok(element.map(|element| LentElement { element, asked }))
    }

    /// Gives back an element whose step had no effect. The iterator is then at its position before
    /// the element, and [`PassIterator::lend`] returns the element again. Nothing happens if
    /// another thread has made a request since. Returns whether the element was taken back.
    pub fn give_back(&self, lent: LentElement) -> bool {
        let Ok((_inside, mut work)) = self.take("given an element back") else {
            return false;
        };
        let is_last = work.asked == lent.asked;
        if is_last {
            work.again = Some(lent.element);
            work.taken -= 1;
        }
        is_last
    }

    /// Gives back the end of the pass, which had no effect: the pass has not ended until a request
    /// is answered by the end once more.
    pub fn give_back_end(&self) {
        if let Ok((_inside, mut work)) = self.take("given its end back") {
            work.end_again |= std::mem::take(&mut work.ended);
        }
    }

    /// Starts a new pass from the beginning. A shuffled dataset has another order in it, unless its
    /// options keep one order. It does not depend on how many elements were made ahead. Memory
    /// and threads stay. FAILED_PRECONDITION as for [`PassIterator::next`].
    pub fn reset(&self) -> Result<()> {
        self.check_context()?;
        self.begins.store(true, Ordering::Relaxed);
        let (_inside, mut work) = self.take("reset")?;
        work.asked += 1;
        (work.ended, work.end_again) = (false, false);
        (work.taken, work.told) = (0, None);
        let is_ahead = work.is_ahead();
        let NextElement {
            pass,
            before,
            again,
            ahead,
            ..
        } = &mut *work;
        drop((again.take(), ahead.take()));
        match is_ahead {
            true => before.restart(&mut **pass),
            false => pass.restart(),
        }
    }

    /// Returns the position of the pass as a text. The position is after the element that
    /// [`PassIterator::next`] returned last, or after its failure; it is before an element that
    /// a step has given back. Elements that were made ahead of the consumer do not count. The
    /// text is JSON and names the stages of the pipeline. Its numbers are for
    /// [`PassIterator::restore_position`].
    ///
    /// FAILED_PRECONDITION as for [`PassIterator::next`]. RESOURCE_EXHAUSTED if there is no memory
    /// for it, or if it is very large, which it may be while elements fail that others are held
    /// with.
    pub fn save_position(&self) -> Result<String> {
        self.position()?.to_text()
    }

    /// The same position, for a checkpoint.
    pub fn position(&self) -> Result<SavedPosition> {
        self.check_context()?;
        let mut state = StateWriter::default();
        let (_inside, work) = self.take("asked for its position")?;
        work.save(&mut state);
        drop(work);
        SavedPosition::new(&self.description(), state.numbers()?)
    }

    /// Goes to a position that [`PassIterator::save_position`] has returned, of this iterator or of
    /// another one of the same pipeline, in this process or another. The same elements follow.
    /// Items that a shuffle has taken in this round, or that a cache or a rebatch holds, are made
    /// again. All earlier elements of a generator's round are also made again. Shuffles use the
    /// seeds of the position.
    ///
    /// The pass is a new one, with memory and threads of its own. If it cannot be made, the
    /// iterator stays at its position.
    ///
    /// INVALID_ARGUMENT: a text that is not such a position, is damaged, or is of another version
    /// or of another pipeline (the message names the first difference), or of other data, as
    /// far as that is detected. FAILED_PRECONDITION as for [`PassIterator::save_position`]. It
    /// also fails if a source or a transformation fails while elements are made again.
    pub fn restore_position(&self, text: &str) -> Result<()> {
        self.check_context()?;
        self.prepare(&SavedPosition::from_text(text)?)?.go()
    }

    /// Makes the new pass, as [`PassIterator::restore_position`] does, and leaves the iterator
    /// where it is.
    pub fn prepare(&self, position: &SavedPosition) -> Result<PreparedPosition<'_>> {
        self.check_context()?;
        let description = self.description();
        let numbers = position.numbers_for(&description)?;
        let _inside = self.enter("put at another position")?;
        let mut pass = self.pipeline.start()?;
        let mut reader = StateReader::new(numbers);
        let ended = reader.flag()?;
        let taken = reader.at_most(
            self.cardinality.exact().unwrap_or(MOST_TAKEN),
            "the number of elements of the pass",
        )?;
        pass.restore(&mut reader).map_err(Error::not_shifting)?;
        reader.end()?;
        Ok(PreparedPosition {
            iterator: self,
            next: NextElement::new(pass, ended, taken),
        })
    }

    fn description(&self) -> Description {
        self.pipeline.description()
    }

    /// Waits for this thread's turn, and then has exclusive access to the pass.
    fn take(&self, action: &str) -> Result<(InsideGuard, FairMutexGuard<'_, NextElement>)> {
        Ok((self.enter(action)?, self.work.lock()))
    }

    fn enter(&self, action: &str) -> Result<InsideGuard> {
        if reentrancy::is_inside(self.node) {
            return Err(Error::precondition(format!(
                "the iterator is {action} by a function that it has called itself (a generator, a \
                 mapped function, the release of an element): the call would wait for itself; use \
                 another iterator there"
            )));
        }
        reentrancy::enter(self.node)
    }
}

/// A pass at a position that was saved. If it is dropped, its iterator stays where it is.
pub struct PreparedPosition<'a> {
    iterator: &'a PassIterator,
    next: NextElement,
}

impl PreparedPosition<'_> {
    /// Puts the iterator there. It fails only in a function that the iterator has called.
    pub fn go(mut self) -> Result<()> {
        let (_inside, mut work) = self.iterator.take("put at another position")?;
        self.iterator.begins.store(true, Ordering::Relaxed);
        self.next.asked = work.asked + 1;
        self.next
            .pass
            .announce(&Given::to_requests(&self.iterator.limits));
        // The old pass is also dropped inside, because dropping its elements may run the caller's
        // code.
        *work = self.next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::elements::spec::LeafSpec;
    use crate::passes::signature::Signature;
    use umbo_tensor::{DType, Tensor};

    /// Elements that become available once a message is received.
    struct Gated(Receiver<()>, i32);

    impl IteratorStage<Value> for Gated {
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
        fn start(&self) -> Result<Box<dyn IteratorStage<Value>>> {
            let pass = self.0.lock().unwrap().take();
            pass.map(|pass| Box::new(pass) as _)
                .ok_or_else(|| Error::Internal("a second pass".into()))
        }

        fn describe(&self, to: &mut Description) {
            to.stage(Signature::new("gate"));
        }
    }

    #[test]
    fn threads_are_served_in_the_order_in_which_they_ask() {
        let (go, gate) = channel();
        let spec = ElementSpec::Leaf(LeafSpec {
            dtype: DType::Int32,
            shape: vec![],
        });
        let gate = Arc::new(Gate(Mutex::new(Some(Gated(gate, 0)))));
        let iterator =
            Arc::new(PassIterator::new(gate, spec, Cardinality::Unknown, None, false).unwrap());
        let number = |value: Option<Value>| match value {
            Some(Value::Tensor(tensor)) => tensor.to_vec::<i32>().unwrap()[0],
            other => panic!("{other:?}"),
        };
        let threads: Vec<_> = (0..6)
            .map(|_| {
                let (say, said) = channel();
                let of_thread = Arc::clone(&iterator);
                let thread = std::thread::spawn(move || {
                    say.send(std::fs::read_link("/proc/thread-self").unwrap())
                        .unwrap();
                    number(of_thread.next().unwrap())
                });
                // The next thread makes its request once this one sleeps: inside, or in the queue.
                let status = Path::new("/proc").join(said.recv().unwrap()).join("status");
                let sleeps = || {
                    std::fs::read_to_string(&status)
                        .unwrap()
                        .contains("State:\tS")
                };
                while !sleeps() {
                    std::thread::yield_now();
                }
                thread
            })
            .collect();
        (0..6).for_each(|_| go.send(()).unwrap());
        let numbers: Vec<i32> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    }
}
