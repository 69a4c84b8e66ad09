//! The elements that a function of the caller keeps.

use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::passes::given::{Given, Stop};
use crate::passes::pending_item::PendingItem;
use crate::passes::position::{Rounds, StateReader, StateWriter};
use crate::passes::signature::Signature;
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::DatasetProperties;
use umbo_base::error::{Error, Result};
use umbo_tensor::values::Value;

type Predicate = Arc<dyn Fn(&Value) -> Result<bool> + Send + Sync>;

impl Dataset {
    /// The elements for which `predicate` returns true, in their order. The number of elements is
    /// unknown. The predicate is called once for each element, on the thread that requests it.
    ///
    /// Elements that are left out are made and dropped, until a limit of the request ends that; the
    /// next request continues from the element after the last of them. If an element or its call
    /// fails, nobody knows whether the predicate would have kept it, so that a zip above cannot
    /// tell which elements behind it belong together. After RESOURCE_EXHAUSTED the predicate is
    /// called with the same element once more.
    ///
    /// INVALID_ARGUMENT: too many operations.
    pub fn filter(
        &self,
        predicate: impl Fn(&Value) -> Result<bool> + Send + Sync + 'static,
    ) -> Result<Dataset> {
        self.then(Filter(Arc::new(predicate)))
    }
}

#[derive(Clone)]
struct Filter(Predicate);

impl Operation for Filter {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        Ok(DatasetProperties {
            cardinality: match inputs[0].cardinality {
                Cardinality::Exact(0) => Cardinality::Exact(0),
                other => other.of_unknown_end(),
            },
            rows: None,
            has_functions: true,
            ..DatasetProperties::above(inputs)?
        })
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Signature::new("filter")
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let input = dataset.input().start()?;
        Ok(Box::new(FilterPass {
            predicate: Arc::clone(&self.0),
            stop: Stop::default(),
            held: PendingItem::of(&*input),
            input,
        }))
    }
}

struct FilterPass {
    predicate: Predicate,
    /// Whether a request is still to be answered, and now.
    stop: Stop,
    /// The element with which the call is made again, as when memory was lacking.
    held: PendingItem<Value>,
    input: Box<dyn IteratorStage<Value>>,
}

impl IteratorStage<Value> for FilterPass {
    fn next(&mut self) -> Result<Option<Value>> {
        loop {
            let next = self.held.next(&mut *self.input).map_err(Error::shifting)?;
            let Some(element) = next else {
                return Ok(None);
            };
            match (self.predicate)(&element) {
                Ok(true) => return Ok(Some(element)),
                Ok(false) => drop(element),
                failed => {
                    let failed = self.held.hold_if_it_comes_again(element, failed);
                    failed.map_err(Error::shifting)?;
                }
            }
            self.stop.check()?;
        }
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

    fn announce(&mut self, given: &Given) {
        self.stop = given.stop();
        self.input.announce(given);
    }
}
