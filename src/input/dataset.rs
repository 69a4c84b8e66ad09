//! Datasets: descriptions of where elements come from and what is done with them, and the passes over them.

use std::fmt;
use std::slice;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::batch_rows;
use crate::input::cache::{self, Cacheable};
use crate::input::cardinality::Cardinality;
use crate::input::concatenate;
use crate::input::facts::{Facts, RowFacts};
use crate::input::file_shares::FileShare;
use crate::input::from_tensors;
use crate::input::gathered;
use crate::input::iterator::PassIterator;
use crate::input::numbering::Numbering;
use crate::input::op::{self, Op};
use crate::input::pass::{Pass, Pipeline};
use crate::input::position::Description;
use crate::input::prefetch;
use crate::input::repeat;
use crate::input::slices;
use crate::input::spec::ElementSpec;
use crate::input::stack::Stack;
use crate::input::take;
use crate::values::Value;

/// A dataset: a tree of operations. Cloning makes another reference; nothing about it changes, so that any
/// number of threads may use it. What it was made from is shared, not copied. At most 256 transformations
/// may lie above each other, and 65,536 may be in one dataset; one more is INVALID_ARGUMENT.
#[derive(Clone)]
pub struct Dataset(Arc<DatasetNode>);

/// An operation, what it is applied to, and what is known of its elements.
struct DatasetNode {
    op: Op,
    inputs: Vec<Dataset>,
    facts: Facts,
}

impl Dataset {
    /// The dataset that `op` makes of `inputs`. Fails as [`op::facts`].
    pub(super) fn of(op: Op, inputs: &[Dataset]) -> Result<Dataset> {
        let facts = op::facts(&op, &inputs.iter().map(Dataset::facts).collect::<Vec<_>>())?;
        Ok(Dataset(Arc::new(DatasetNode { op, inputs: inputs.to_vec(), facts })))
    }

    /// The dataset that `op` makes of this one.
    pub(super) fn then(&self, op: Op) -> Result<Dataset> {
        Dataset::of(op, slice::from_ref(self))
    }

    pub(super) fn op(&self) -> &Op {
        &self.0.op
    }

    pub(super) fn inputs(&self) -> &[Dataset] {
        &self.0.inputs
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// The same operations over a share of the files, with buffers, caches and counts of their own.
    pub(super) fn share_of_files(&self, share: &mut FileShare) -> Result<Dataset> {
        if let Op::Files(list) = self.op() {
            return Dataset::of(Op::Files(list.share(share)?), &[]);
        }
        let inputs = self.inputs().iter().map(|input| input.share_of_files(share));
        Dataset::of(self.op().anew(), &inputs.collect::<Result<Vec<_>>>()?)
    }

    /// The structure, dtypes and shapes of the elements.
    pub fn element_spec(&self) -> &ElementSpec {
        &self.facts().spec
    }

    /// How many elements one pass yields.
    pub fn cardinality(&self) -> Cardinality {
        self.facts().cardinality
    }

    /// An iterator at the beginning of a new pass, independent of all others. It reads nothing
    /// before its first element is asked for. RESOURCE_EXHAUSTED if there is no memory for it.
    pub fn iterator(&self) -> Result<PassIterator> {
        PassIterator::new(Arc::new(self.clone()), self.element_spec().clone(), None, false)
    }
}

impl fmt::Debug for Dataset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "dataset of {} ({:?})", self.element_spec(), self.cardinality())
    }
}

impl Pipeline for Dataset {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        if let Some(rows) = &self.facts().rows {
            return Ok(slices::elements(&rows.arrays, &self.facts().spec, self.start_rows()?));
        }
        let spec = self.element_spec();
        // Only of what is applied to something.
        let input = || self.input()?.start();
        let count = self.input().map_or(Cardinality::Unknown, Dataset::cardinality);
        match self.op() {
            Op::Tensors(elements, _) => Ok(from_tensors::start(elements)),
            Op::Range(range) => Ok(range.start()),
            Op::Generator(generated) => Ok(generated.start()),
            Op::Files(list) => list.start(),
            Op::Prefetch(depth) => prefetch::ahead(input()?, *depth, count),
            Op::Map(map) => map.start(input()?),
            Op::Batch(batch)
                if let Some(RowFacts { arrays, in_order }) = &self.input()?.facts().rows =>
            {
                let order = (!in_order).then(|| self.input()?.start_rows()).transpose()?;
                batch_rows::start(*batch, spec, arrays, count, order)
            }
            Op::Batch(batch) | Op::PaddedBatch(batch) => {
                let stack = Stack::new(spec, matches!(self.op(), Op::PaddedBatch(_)))?;
                Ok(gathered::start(*batch, spec, Numbering::new(None), stack, input()?))
            }
            Op::Rebatch(rebatch) => rebatch.start(spec, input()?),
            Op::Zip(zip) => {
                let finite = |input: &Dataset| input.cardinality() != Cardinality::Endless;
                let first_finite = self.inputs().iter().position(finite).unwrap_or(0);
                zip.start(self.start_inputs()?, first_finite)
            }
            Op::Concatenate => Ok(concatenate::start(self.start_inputs()?)),
            Op::Slices(..)
            | Op::Take(_)
            | Op::Skip(_)
            | Op::Shard(_)
            | Op::Shuffle(_)
            | Op::Repeat(_)
            | Op::Cache(_) => self.start_reordered(input()?),
        }
    }

    fn describe(&self, to: &mut Description) {
        let facts = self.facts();
        if let Some(rows) = &facts.rows {
            to.stage("rows one by one".into());
            self.describe_rows(to);
            return to.stage(rows.arrays.to_string());
        }
        self.describe_op(to);
        for input in self.inputs() {
            match (self.op(), &input.facts().rows) {
                (Op::Batch(_), Some(rows)) => {
                    input.describe_rows(to);
                    to.stage(rows.arrays.to_string());
                }
                _ => input.describe(to),
            }
        }
    }
}

impl Dataset {
    /// Passes over all that the operation is applied to.
    fn start_inputs(&self) -> Result<Vec<Box<dyn Pass<Value>>>> {
        self.inputs().iter().map(Dataset::start).collect()
    }

    /// What the operation is applied to, or the first of it.
    fn input(&self) -> Result<&Dataset> {
        self.inputs().first().ok_or_else(op::nothing)
    }

    /// A pass over the row numbers of elements that are rows.
    fn start_rows(&self) -> Result<Box<dyn Pass<u64>>> {
        match self.facts().rows_in_order() {
            Some(arrays) => Ok(slices::in_order(arrays.rows)),
            None => self.start_reordered(self.input()?.start_rows()?),
        }
    }

    /// A pass of an operation that only says which items come when, over items of `input`.
    fn start_reordered<T: Cacheable>(&self, input: Box<dyn Pass<T>>) -> Result<Box<dyn Pass<T>>> {
        let count = self.input()?.cardinality();
        match self.op() {
            Op::Take(most) => Ok(take::part(0, Some(*most), input)),
            Op::Skip(least) => Ok(take::part(*least, None, input)),
            Op::Shard(shard) => Ok(shard.start(input)),
            Op::Shuffle(shuffle) => Ok(shuffle.start(count, input)),
            Op::Repeat(rounds) => Ok(repeat::start(*rounds, input)),
            Op::Cache(cached) => Ok(cache::start(cached, count, input)),
            // No catch-all: the compiler names a new operation that is missing here.
            Op::Slices(..)
            | Op::Tensors(..)
            | Op::Range(_)
            | Op::Generator(_)
            | Op::Files(_)
            | Op::Prefetch(_)
            | Op::Map(_)
            | Op::Batch(_)
            | Op::PaddedBatch(_)
            | Op::Rebatch(_)
            | Op::Zip(_)
            | Op::Concatenate => {
                Err(Error::Internal("an operation that does not only reorder".into()))
            }
        }
    }

    /// Says how the row numbers come about.
    fn describe_rows(&self, to: &mut Description) {
        if self.facts().rows_in_order().is_none() {
            self.describe_op(to);
            self.inputs().iter().for_each(|input| input.describe_rows(to));
        }
    }

    fn describe_op(&self, to: &mut Description) {
        to.stage(self.op().words(self.inputs().len()));
        match self.op() {
            Op::Shuffle(shuffle) => shuffle.describe_seed(to),
            Op::Files(list) => list.describe_order(to),
            _ => {}
        }
    }
}
