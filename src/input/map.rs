//! A function of the caller's, applied to each element.

use std::collections::VecDeque;
use std::sync::Arc;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::input::dataset::{Dataset, Kind};
use crate::input::frame::no_memory;
use crate::input::spec::ElementSpec;
use crate::input::stage::{Pass, Stage};
use crate::values::Value;

/// More calls at once than this are no parallelism any more.
const MAX_PARALLEL_CALLS: usize = 4096;

/// How a function is applied to elements.
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    /// How many calls run at once, at most. 0 and 1: one after the other, on the thread that asks
    /// for the element.
    pub parallel_calls: i64,
    /// What the results look like; none: like the elements.
    pub element_spec: Option<ElementSpec>,
}

type Function = Arc<dyn Fn(&Value) -> Result<Value> + Send + Sync>;

impl Dataset {
    /// The results of `function` for each element, in the order of the elements.
    ///
    /// With parallel calls, that many elements are taken at a time and given to the function on
    /// several threads. What comes out does not depend on their number: results are in order, and
    /// a failure, of the function or of the input, stands in the place of its element; after it
    /// the next elements come. The function must not keep elements that it changes nothing about:
    /// their memory is used again when they are dropped.
    ///
    /// INVALID_ARGUMENT: a number of calls that is not in [0, 4096], a spec without tensors; while
    /// iterating, a result that is not as its spec says.
    pub fn map(
        &self,
        function: impl Fn(&Value) -> Result<Value> + Send + Sync + 'static,
        options: MapOptions,
    ) -> Result<Dataset> {
        let calls = usize::try_from(options.parallel_calls)
            .ok()
            .filter(|&calls| calls <= MAX_PARALLEL_CALLS)
            .ok_or_else(|| {
                let given = options.parallel_calls;
                let problem = format!("{given} at once; it is between 0 and {MAX_PARALLEL_CALLS}");
                Error::invalid("parallel_calls", problem)
            })?;
        let spec = options.element_spec.unwrap_or_else(|| self.element_spec().clone());
        spec.check_describes_elements("element_spec")?;
        let function: Function = Arc::new(function);
        let stage = Map { function, calls, spec: spec.clone(), input: self.stream() };
        Ok(Dataset::new(spec, self.cardinality(), Kind::Stream(Arc::new(stage))))
    }
}

struct Map {
    function: Function,
    calls: usize,
    spec: ElementSpec,
    input: Arc<dyn Stage<Value>>,
}

impl Stage<Value> for Map {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        let mut input = self.input.start()?;
        let mapper = Mapper { function: Arc::clone(&self.function), spec: self.spec.clone() };
        if self.calls <= 1 {
            return Ok(Box::new(MapPass { mapper, input }));
        }
        let (mut taken, mut results) = (Vec::new(), VecDeque::new());
        let no_room = |_| no_memory("the elements of parallel calls");
        taken.try_reserve_exact(self.calls).map_err(no_room)?;
        // One more for an error of the input.
        results.try_reserve_exact(self.calls + 1).map_err(no_room)?;
        input.reserve(self.calls);
        let calls = self.calls;
        Ok(Box::new(ParallelPass { mapper, calls, taken, results, ended: false, input }))
    }
}

struct Mapper {
    function: Function,
    spec: ElementSpec,
}

impl Mapper {
    fn apply(&self, element: &Value) -> Result<Value> {
        let result = (self.function)(element)?;
        self.spec.check(&result, "the result of a mapped function")?;
        Ok(result)
    }
}

struct MapPass {
    mapper: Mapper,
    input: Box<dyn Pass<Value>>,
}

impl Pass<Value> for MapPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let element = self.input.next()?;
        element.map(|element| self.mapper.apply(&element)).transpose()
    }

    fn restart(&mut self) -> Result<()> {
        self.input.restart()
    }

    fn reserve(&mut self, items: usize) {
        self.input.reserve(items);
    }
}

struct ParallelPass {
    mapper: Mapper,
    calls: usize,
    /// Elements, and what becomes of them.
    taken: Vec<(Value, Option<Result<Value>>)>,
    /// What waits to be asked for.
    results: VecDeque<Result<Value>>,
    ended: bool,
    input: Box<dyn Pass<Value>>,
}

impl ParallelPass {
    /// Takes elements and calls the function for each.
    fn work(&mut self) {
        // Not empty if the function has panicked the last time.
        self.taken.clear();
        let mut failure = None;
        while self.taken.len() < self.calls && !self.ended && failure.is_none() {
            match self.input.next() {
                Ok(Some(element)) => self.taken.push((element, None)),
                Ok(None) => self.ended = true,
                Err(error) => failure = Some(error),
            }
        }
        let mapper = &self.mapper;
        self.taken
            .par_iter_mut()
            .with_max_len(1)
            .for_each(|(element, result)| *result = Some(mapper.apply(element)));
        self.results.extend(self.taken.drain(..).filter_map(|(_, result)| result));
        self.results.extend(failure.map(Err));
    }
}

impl Pass<Value> for ParallelPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.results.is_empty() && !self.ended {
            self.work();
        }
        self.results.pop_front().transpose()
    }

    fn restart(&mut self) -> Result<()> {
        self.results.clear();
        self.ended = false;
        self.input.restart()
    }

    fn reserve(&mut self, items: usize) {
        self.input.reserve(items);
    }
}
