//! Datasets: descriptions of where elements come from and what is done with them.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::iterator::PassIterator;
use crate::input::slices::{Arrays, Elements, InOrder};
use crate::input::spec::ElementSpec;
use crate::input::stage::Stage;
use crate::values::Value;

/// A dataset. Cloning makes another reference; nothing about it changes, so that any number of
/// threads may use it. What it was made from is shared, not copied.
#[derive(Clone)]
pub struct Dataset(Arc<Parts>);

struct Parts {
    spec: ElementSpec,
    cardinality: Cardinality,
    kind: Kind,
}

/// How the elements come about.
#[derive(Clone)]
pub(super) enum Kind {
    /// Rows of arrays, in an order of row numbers; none stands for all rows in their own order.
    Rows(Arc<Arrays>, Option<Arc<dyn Stage<u64>>>),
    /// One by one.
    Stream(Arc<dyn Stage<Value>>),
}

/// A transformation that changes which items come when, whatever they are.
pub(super) trait Reorder {
    /// The transformation of `input`.
    fn of<T: Send + 'static>(&self, input: Arc<dyn Stage<T>>) -> Arc<dyn Stage<T>>;
}

impl Dataset {
    pub(super) fn new(spec: ElementSpec, cardinality: Cardinality, kind: Kind) -> Dataset {
        Dataset(Arc::new(Parts { spec, cardinality, kind }))
    }

    /// The structure, dtypes and shapes of the elements.
    pub fn element_spec(&self) -> &ElementSpec {
        &self.0.spec
    }

    /// How many elements one pass yields.
    pub fn cardinality(&self) -> Cardinality {
        self.0.cardinality
    }

    /// An iterator at the beginning of a new pass, independent of all others. It reads nothing
    /// before its first element is asked for. RESOURCE_EXHAUSTED if there is no memory for it.
    pub fn iterator(&self) -> Result<PassIterator> {
        Ok(PassIterator::new(self.stream().start()?))
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// The elements one by one, however they come about.
    pub(super) fn stream(&self) -> Arc<dyn Stage<Value>> {
        match self.kind() {
            Kind::Stream(stage) => Arc::clone(stage),
            Kind::Rows(arrays, order) => {
                let order = order.clone().unwrap_or_else(|| Arc::new(InOrder::of(arrays)));
                let spec = self.element_spec().clone();
                Arc::new(Elements { arrays: Arc::clone(arrays), order, spec })
            }
        }
    }

    /// The dataset with its items reordered: row numbers alone, where elements are rows.
    pub(super) fn reordered(&self, by: &impl Reorder, cardinality: Cardinality) -> Dataset {
        let kind = match self.kind() {
            Kind::Stream(stage) => Kind::Stream(by.of(Arc::clone(stage))),
            Kind::Rows(arrays, order) => {
                let order = order.clone().unwrap_or_else(|| Arc::new(InOrder::of(arrays)));
                Kind::Rows(Arc::clone(arrays), Some(by.of(order)))
            }
        };
        Dataset::new(self.element_spec().clone(), cardinality, kind)
    }
}

impl fmt::Debug for Dataset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "dataset of {} ({:?})", self.element_spec(), self.cardinality())
    }
}

/// A count from the caller that may be 0 but not negative.
pub(super) fn not_negative(argument: &'static str, count: i64) -> Result<u64> {
    u64::try_from(count)
        .map_err(|_| Error::invalid(argument, format!("{count} is negative; it is 0 or more")))
}
