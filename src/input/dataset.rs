//! Datasets: descriptions of where elements come from and what is done with them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result};
use crate::input::batched::Batched;
use crate::input::cardinality::Cardinality;
use crate::input::file_shares::Files;
use crate::input::iterator::PassIterator;
use crate::input::slices::{Arrays, Elements, InOrder};
use crate::input::spec::ElementSpec;
use crate::input::stage::{Item, Stage};
use crate::values::Value;

/// A dataset. Cloning makes another reference; nothing about it changes, so that any number of
/// threads may use it. What it was made from is shared, not copied. At most 256 transformations
/// may lie above each other, and 65,536 may be in one dataset; one more is INVALID_ARGUMENT.
#[derive(Clone)]
pub struct Dataset(pub(super) Arc<Parts>);

#[derive(Clone)]
pub(super) struct Parts {
    spec: ElementSpec,
    cardinality: Cardinality,
    batch_size: Option<BatchSize>,
    /// How many transformations lie above each other, the source included.
    depth: usize,
    /// How many transformations an iterator has, the sources included: as often as each is used.
    stages: usize,
    /// The files that the elements are read from, if they are.
    files: Option<Files>,
    /// How often the elements were batched, as far as that is certain; and whether the log was told that this
    /// is probably not as the program means it.
    pub(super) batched: Option<(Batched, Arc<AtomicBool>)>,
    kind: Kind,
}

/// The greatest number of transformations above each other. Each one costs a part of the stack of
/// whoever iterates, makes an iterator or releases one.
const MAX_DEPTH: usize = 256;

/// The greatest number of transformations of an iterator, each of which takes memory. Without it a dataset
/// that is joined with itself again and again would take twice as much each time.
const MAX_STAGES: usize = 1 << 16;

/// How many rows the elements of a dataset have, where a batching transformation has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchSize {
    /// The rows of a full batch.
    pub(super) rows: usize,
    /// Whether all batches of a pass but one are full.
    pub(super) one_partial: bool,
    /// How many rows all batches of a pass have together, if that is known.
    pub(super) total: Option<u64>,
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
    fn of<T: Item>(&self, input: Arc<dyn Stage<T>>) -> Arc<dyn Stage<T>>;
}

impl Dataset {
    pub(super) fn new(spec: ElementSpec, cardinality: Cardinality, kind: Kind) -> Dataset {
        Dataset::batched(spec, cardinality, kind, None)
    }

    /// As [`Dataset::new`], of batches of this size.
    pub(super) fn batched(
        spec: ElementSpec,
        cardinality: Cardinality,
        kind: Kind,
        batch_size: Option<BatchSize>,
    ) -> Dataset {
        let batched = matches!(kind, Kind::Rows(..)).then(|| (Batched::Never, Arc::default()));
        Dataset(Arc::new(Parts {
            spec,
            cardinality,
            batch_size,
            depth: 1,
            stages: 1,
            files: None,
            batched,
            kind,
        }))
    }

    pub(super) fn changed(&self, change: impl FnOnce(&mut Parts)) -> Dataset {
        let mut parts = Parts::clone(&self.0);
        change(&mut parts);
        Dataset(Arc::new(parts))
    }

    /// How many transformations lie above each other, the source included.
    pub(super) fn depth(&self) -> usize {
        self.0.depth
    }

    /// The same, counting as so many transformations.
    pub(super) fn of_depth(&self, depth: usize) -> Dataset {
        self.changed(|parts| parts.depth = depth)
    }

    /// The files that the elements are read from, if they are.
    pub(super) fn files(&self) -> Option<&Files> {
        self.0.files.as_ref()
    }

    /// The same, whose elements are read from `files`.
    pub(super) fn reading(&self, files: Files) -> Dataset {
        self.changed(|parts| parts.files = Some(files))
    }

    /// The dataset as a transformation of `inputs`. INVALID_ARGUMENT if too many transformations lie
    /// above each other, or beside each other.
    pub(super) fn made_of<'a>(
        self,
        inputs: impl IntoIterator<Item = &'a Dataset>,
    ) -> Result<Dataset> {
        let (mut deepest, mut stages) = (0, 1_usize);
        for input in inputs {
            deepest = deepest.max(input.0.depth);
            stages = stages.saturating_add(input.0.stages);
        }
        if deepest >= MAX_DEPTH {
            return Err(Error::invalid(
                "dataset",
                format!(
                    "{deepest} transformations lie above each other; {MAX_DEPTH} are the most. \
                     Build a pipeline once and not again in each round; concatenate and zip take \
                     many datasets at once"
                ),
            ));
        }
        if stages > MAX_STAGES {
            return Err(Error::invalid(
                "dataset",
                format!(
                    "it would consist of {stages} transformations, each counted as often as it is used; \
                     {MAX_STAGES} are the most. A dataset whose elements are to come several times is \
                     repeated, not joined with itself"
                ),
            ));
        }
        Ok(self.changed(|parts| (parts.depth, parts.stages) = (deepest + 1, stages)))
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
        let iterator = self.unannounced_iterator()?;
        iterator.announce();
        Ok(iterator)
    }

    /// As [`Dataset::iterator`], for a caller that may still fail to hand it out and calls
    /// [`PassIterator::announce`] once it cannot.
    pub(crate) fn unannounced_iterator(&self) -> Result<PassIterator> {
        PassIterator::new(self.stream(), self.element_spec().clone())
    }

    /// The size of the batches that the elements are, as far as it is known before the first one.
    pub(super) fn batch_size(&self) -> Option<BatchSize> {
        match self.element_spec().rows() {
            Some(rows) => {
                let batches = self.cardinality().exact();
                let total = batches.and_then(|batches| batches.checked_mul(rows as u64));
                Some(BatchSize { rows, one_partial: true, total })
            }
            None => self.0.batch_size,
        }
    }

    /// The same, except that more than one batch of a pass may be partial.
    pub(super) fn with_several_partial_batches(&self) -> Dataset {
        self.changed(|parts| {
            parts.batch_size =
                parts.batch_size.map(|size| BatchSize { one_partial: false, ..size });
        })
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

    /// The dataset with its items reordered: row numbers alone, where elements are rows. Fails as
    /// [`Dataset::made_of`].
    pub(super) fn reordered(&self, by: &impl Reorder, cardinality: Cardinality) -> Result<Dataset> {
        let kind = match self.kind() {
            Kind::Stream(stage) => Kind::Stream(by.of(Arc::clone(stage))),
            Kind::Rows(arrays, order) => {
                let order = order.clone().unwrap_or_else(|| Arc::new(InOrder::of(arrays)));
                Kind::Rows(Arc::clone(arrays), Some(by.of(order)))
            }
        };
        let spec = self.element_spec().clone();
        // Where all elements still come, so do their rows.
        let all = cardinality == self.cardinality();
        let size = self.0.batch_size;
        let size = size.map(|size| BatchSize { total: size.total.filter(|_| all), ..size });
        let made = Dataset::batched(spec, cardinality, kind, size).made_of([self])?;
        Ok(made.batched_as([self]))
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
