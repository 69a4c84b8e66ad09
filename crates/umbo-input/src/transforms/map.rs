//! Applies a function of the caller to each element.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::arguments::in_range;
use crate::dataset::{Dataset, Operation};
use crate::elements::spec::ElementSpec;
use crate::passes::given::{Effect, Given};
use crate::passes::pending_item::PendingItem;
use crate::passes::place::Place;
use crate::passes::position::{Rounds, StateReader, StateWriter};
use crate::passes::reentrancy::CallStack;
use crate::passes::signature::Signature;
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::DatasetProperties;
use umbo_base::error::memory::exhausted;
use umbo_base::error::{Error, Result};
use umbo_executor::pool::{Outcome, Pool};
use umbo_tensor::values::Value;

/// The largest number of parallel calls. More would add no parallelism.
const MAX_PARALLEL_CALLS: i64 = 4096;

/// How a function is applied to elements.
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    /// The largest number of calls that run at once. The number of processors does not limit it,
    /// since calls may wait. With 0 and 1, calls run one after the other on the thread that
    /// requests the element.
    pub parallel_calls: i64,
    /// The specification of the results. Without it, they look like the elements.
    pub element_spec: Option<ElementSpec>,
}

type Function = Arc<dyn Fn(&Value) -> Result<Value> + Send + Sync>;

impl Dataset {
    /// The results of `function` for each element, in the order of the elements.
    ///
    /// With parallel calls, this number of elements is taken at a time, and the function is called
    /// on as many threads. The threads belong to the iterator and end with it. The results do
    /// not depend on the number of threads. They are in order, and a failure of the function or
    /// of the input takes the place of its element; the next elements follow. After
    /// RESOURCE_EXHAUSTED the same element comes again: the function is called with it once more.
    /// The function must not keep elements that it returns unchanged, because their memory is
    /// used again when they are dropped.
    ///
    /// INVALID_ARGUMENT: a number of calls that is not in [0, 4096], a spec without tensors; while
    /// iterating, a result that does not match its spec. With parallel calls, `next` returns
    /// RESOURCE_EXHAUSTED if no thread can be started. No element is lost then, and the next
    /// call tries again. If the system allows fewer threads, fewer calls run at once.
    pub fn map(
        &self,
        function: impl Fn(&Value) -> Result<Value> + Send + Sync + 'static,
        options: MapOptions,
    ) -> Result<Dataset> {
        let range = format_args!("between 0 and {MAX_PARALLEL_CALLS}");
        let calls = in_range(
            "parallel_call_count",
            options.parallel_calls,
            0..=MAX_PARALLEL_CALLS,
            range,
        )?;
        let spec = options
            .element_spec
            .unwrap_or_else(|| self.element_spec().clone());
        spec.check_describes_elements("element_spec")?;
        self.then(Map {
            function: Arc::new(function),
            calls,
            spec,
        })
    }
}

#[derive(Clone)]
struct Map {
    function: Function,
    calls: usize,
    spec: ElementSpec,
}

impl Map {
    fn apply(&self, element: &Value) -> Result<Value> {
        let result = (self.function)(element)?;
        self.spec
            .check(&result, "the result of a mapped function")?;
        Ok(result)
    }
}

impl Operation for Map {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let mut properties = DatasetProperties::above(inputs)?;
        // The result for a batch is assumed to be a batch with the same number of rows.
        properties.set_file_rows(inputs[0].rows_of_batches());
        properties.replace(self.spec.clone());
        properties.order.forget_batches();
        properties.has_functions = true;
        Ok(properties)
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Signature::new("map").with("element_spec", &self.spec)
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let mut input = dataset.input().start()?;
        let map = self.clone();
        if self.calls <= 1 {
            return Ok(Box::new(EachPass {
                map,
                held: PendingItem::of(&*input),
                input,
            }));
        }
        let mut taken = Vec::new();
        let mut results = VecDeque::new();
        let no_memory = |_| exhausted(self.calls, "elements of parallel calls");
        taken.try_reserve_exact(self.calls).map_err(no_memory)?;
        // One more place is for an error of the input.
        results
            .try_reserve_exact(self.calls + 1)
            .map_err(no_memory)?;
        input.reserve(self.calls);
        let caller = Arc::new(Mutex::new(CallStack::EMPTY));
        let of_calls = Arc::clone(&caller);
        let pool = Pool::new("umbo-map", move |element: Value| {
            let _inside = of_calls.lock().enter();
            // The element is also released inside the iterator, because releasing it may run the
            // caller's code.
            let element = element;
            match map.apply(&element) {
                Ok(result) => Called::Made(result),
                Err(error) if error.comes_again() => Called::Again(error, element),
                Err(error) => Called::Failed(error),
            }
        });
        Ok(Box::new(ParallelPass {
            pool,
            caller,
            calls: self.calls,
            taken,
            again: Vec::new(),
            results,
            failure: None,
            ended: false,
            at: Place::default(),
            behind: VecDeque::new(),
            places: Vec::new(),
            of_input: Given::later(),
            given: Given::at_once(),
            input,
        }))
    }
}

struct EachPass {
    map: Map,
    /// The element with which the call is made again, as when memory was lacking.
    held: PendingItem<Value>,
    input: Box<dyn IteratorStage<Value>>,
}

impl IteratorStage<Value> for EachPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let Some(element) = self.held.next(&mut *self.input)? else {
            return Ok(None);
        };
        let result = self.map.apply(&element);
        self.held.hold_if_it_comes_again(element, result).map(Some)
    }

    fn restart(&mut self) -> Result<()> {
        self.held.restart(&mut *self.input)
    }

    fn save(&self, to: &mut StateWriter) {
        self.held.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.held.restore(&mut *self.input, from)
    }

    fn rounds(&mut self, to: &mut Rounds) {
        self.held.rounds(&mut *self.input, to);
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        self.held.go_back(&mut *self.input, to)
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        visit(&mut *self.input);
    }
}

/// The result of a call, or of the input in its place.
enum Called {
    Made(Value),
    Failed(Error),
    /// Nothing was lost, as when there was no memory for the result. The call is made again with
    /// the same element.
    Again(Error, Value),
}

struct ParallelPass {
    pool: Pool<Value, Called>,
    /// The iterators inside of which the thread that waits for the calls is.
    caller: Arc<Mutex<CallStack>>,
    calls: usize,
    /// Elements with which the function was not yet called. There are some only if the calls could
    /// not be made.
    taken: Vec<Value>,
    /// The element with which the call is made again. It comes before the waiting results.
    again: Vec<Value>,
    /// Results that wait to be requested.
    results: VecDeque<Outcome<Called>>,
    /// The error or the panic with which the input ended after the elements that are taken.
    failure: Option<Outcome<Called>>,
    ended: bool,
    /// The place of the input before the first result that was not yet returned, if there is any.
    at: Place,
    /// The place of the input after each of these results, and after the end, and what happens
    /// when it is returned.
    behind: VecDeque<(Place, Vec<Effect>)>,
    /// Unused memory for such places.
    places: Vec<Place>,
    /// The moments at which the input's elements are given, and those of the results.
    of_input: Given,
    given: Given,
    input: Box<dyn IteratorStage<Value>>,
}

impl ParallelPass {
    /// Takes elements and calls the function for each.
    fn work(&mut self) -> Result<()> {
        // The thread is started before an element is taken, so that no element is lost if none can
        // start.
        self.pool.grow(1)?;
        while self.taken.len() < self.calls && !self.ended && self.failure.is_none() {
            // Unwind safety: a pass in which a panic occurred continues after it.
            self.record_place();
            match catch_unwind(AssertUnwindSafe(|| self.input.next())) {
                Ok(Ok(Some(element))) => self.taken.push(element),
                Ok(Ok(None)) => self.ended = true,
                // What was taken before is worked on. The next elements come with a later request,
                // whose limits may be others.
                Ok(Err(error)) if error.is_interruption() => match self.taken.is_empty() {
                    true => return Err(error),
                    false => break,
                },
                Ok(Err(error)) => self.failure = Some(Ok(Called::Failed(error))),
                Err(panic) => self.failure = Some(Err(panic)),
            }
            let mut place = self.places.pop().unwrap_or_default();
            place.note(&mut *self.input);
            self.behind.push_back((place, self.of_input.take()));
        }
        self.pool.grow(self.taken.len())?;
        self.enter();
        let results = &mut self.results;
        self.pool
            .call(&mut self.taken, |outcome| results.push_back(outcome))?;
        self.results.extend(self.failure.take());
        Ok(())
    }

    /// Calls the function once more with the element whose call lost nothing when it failed.
    fn work_again(&mut self) -> Result<()> {
        self.enter();
        let results = &mut self.results;
        self.pool
            .call(&mut self.again, |outcome| results.push_front(outcome))
    }

    /// Puts the calls inside of the iterators inside of which this thread is.
    fn enter(&self) {
        *self.caller.lock() = CallStack::current();
    }

    /// Notes the place of the input, if no result waits.
    fn record_place(&mut self) {
        if self.behind.is_empty() {
            self.at.note(&mut *self.input);
        }
    }

    /// Updates the places before the first result, or the end, is returned.
    fn step(&mut self) {
        if let Some((place, effects)) = self.behind.pop_front() {
            self.places.push(std::mem::replace(&mut self.at, place));
            effects
                .into_iter()
                .for_each(|effect| self.given.then(effect));
        }
    }

    /// Drops all waiting elements and results.
    fn release(&mut self) {
        self.again.clear();
        self.results.clear();
        self.taken.clear();
        self.failure = None;
        self.ended = false;
        self.places
            .extend(self.behind.drain(..).map(|(place, _)| place));
    }
}

impl IteratorStage<Value> for ParallelPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if !self.again.is_empty() {
            self.work_again()?;
        } else if self.results.is_empty() && !(self.ended && self.taken.is_empty()) {
            self.work()?;
        }
        let Some(result) = self.results.pop_front() else {
            self.step();
            return Ok(None);
        };
        if let Ok(Called::Again(error, element)) = result {
            self.again.push(element);
            return Err(error);
        }
        self.step();
        match result.unwrap_or_else(|panic| resume_unwind(panic)) {
            Called::Made(result) => Ok(Some(result)),
            Called::Failed(error) | Called::Again(error, _) => Err(error),
        }
    }

    fn restart(&mut self) -> Result<()> {
        let is_ahead = !self.behind.is_empty();
        self.release();
        match is_ahead {
            true => self.at.restart(&mut *self.input),
            false => self.input.restart(),
        }
    }

    fn save(&self, to: &mut StateWriter) {
        // As without parallel calls, this is the present position of the input, or the one before
        // the waiting results.
        match self.behind.is_empty() {
            true => self.input.save(to),
            false => to.extend(&self.at.position),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.release();
        self.input.restore(from)
    }

    fn rounds(&mut self, to: &mut Rounds) {
        match self.behind.is_empty() {
            true => self.input.rounds(to),
            false => to.extend(&self.at.rounds),
        }
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        self.release();
        self.input.go_back(to)
    }

    fn announce(&mut self, given: &Given) {
        self.given = given.clone();
        self.input.announce(&self.of_input.below(given));
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        visit(&mut *self.input);
    }
}
