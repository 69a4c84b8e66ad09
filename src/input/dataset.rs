//! Datasets: descriptions of where elements come from and what is done with them, and the passes over them.

use std::fmt;
use std::slice;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::facts::Facts;
use crate::input::file_shares::FileShare;
use crate::input::iterator::PassIterator;
use crate::input::pass::{Pass, Pipeline};
use crate::input::position::Description;
use crate::input::slices;
use crate::input::spec::ElementSpec;
use crate::values::Value;

/// What makes elements: a source, or a transformation of the elements of other datasets. What it is applied to stands
/// beside it in the dataset. One that only says which items come when is a
/// [`Reorder`](crate::input::reorder::Reorder).
pub(super) trait Operation: Send + Sync {
    /// What is known of the elements that it makes of those of `inputs`, of which a source has none.
    ///
    /// INVALID_ARGUMENT: elements that it cannot be applied to; too many operations.
    fn facts(&self, inputs: &[&Facts]) -> Result<Facts>;

    /// The operation in words, applied to so many inputs. They are a part of saved positions: everything on which the
    /// meaning of a position depends, and nothing that changes neither which items come nor what passes save.
    fn words(&self, inputs: usize) -> String;

    /// A pass over the elements of `dataset`, which it makes.
    fn start(&self, dataset: &Dataset) -> Result<Box<dyn Pass<Value>>>;

    /// The same over the numbers of rows.
    fn start_rows(&self, _dataset: &Dataset) -> Result<Box<dyn Pass<u64>>> {
        Err(Error::Internal("an operation that does not only reorder".into()))
    }

    /// Whether it takes the numbers of rows of an input that is rows of arrays, and not the elements.
    fn takes_rows(&self) -> bool {
        false
    }

    /// The same operation over a share of the files, which shares nothing with passes of this one; none if it is the
    /// very same.
    fn share(&self, _share: &mut FileShare) -> Result<Option<Arc<dyn Operation>>> {
        Ok(None)
    }

    /// The same source without its first `count` elements, if it need not make them.
    fn behind(&self, _count: u64) -> Option<Arc<dyn Operation>> {
        None
    }

    /// Says from which seed it draws, if it does.
    fn describe_seed(&self, _to: &mut Description) {}
}

/// A dataset: a tree of operations. Cloning makes another reference; nothing about it changes, so that any
/// number of threads may use it. What it was made from is shared, not copied. At most 256 transformations
/// may lie above each other, and 65,536 may be in one dataset; one more is INVALID_ARGUMENT.
#[derive(Clone)]
pub struct Dataset(Arc<DatasetNode>);

/// An operation, what it is applied to, and what is known of its elements.
struct DatasetNode {
    op: Arc<dyn Operation>,
    inputs: Vec<Dataset>,
    facts: Facts,
}

impl Dataset {
    /// The dataset that `op` makes of `inputs`. Fails as [`Operation::facts`].
    pub(super) fn of(op: Arc<dyn Operation>, inputs: &[Dataset]) -> Result<Dataset> {
        let facts = op.facts(&inputs.iter().map(Dataset::facts).collect::<Vec<_>>())?;
        Ok(Dataset(Arc::new(DatasetNode { op, inputs: inputs.to_vec(), facts })))
    }

    /// The dataset that `op` makes of this one.
    pub(super) fn then(&self, op: impl Operation + 'static) -> Result<Dataset> {
        Dataset::of(Arc::new(op), slice::from_ref(self))
    }

    pub(super) fn op(&self) -> &dyn Operation {
        &*self.0.op
    }

    pub(super) fn inputs(&self) -> &[Dataset] {
        &self.0.inputs
    }

    /// What a transformation is applied to, or the first of it.
    pub(super) fn input(&self) -> &Dataset {
        &self.0.inputs[0]
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// The same operations over a share of the files, with buffers, caches and counts of their own.
    pub(super) fn share_of_files(&self, share: &mut FileShare) -> Result<Dataset> {
        let inputs = self.inputs().iter().map(|input| input.share_of_files(share));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let op = self.op().share(share)?;
        Dataset::of(op.unwrap_or_else(|| Arc::clone(&self.0.op)), &inputs)
    }

    /// Passes over all that the operation is applied to.
    pub(super) fn start_inputs(&self) -> Result<Vec<Box<dyn Pass<Value>>>> {
        self.inputs().iter().map(Dataset::start).collect()
    }

    /// A pass over the row numbers of elements that are rows.
    pub(super) fn start_rows(&self) -> Result<Box<dyn Pass<u64>>> {
        match self.facts().rows_in_order() {
            Some(arrays) => Ok(slices::in_order(arrays.rows)),
            None => self.op().start_rows(self),
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
        self.op().describe_seed(to);
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
        match &self.facts().rows {
            Some(rows) => {
                Ok(slices::elements(&rows.arrays, self.element_spec(), self.start_rows()?))
            }
            None => self.op().start(self),
        }
    }

    fn describe(&self, to: &mut Description) {
        if let Some(rows) = &self.facts().rows {
            to.stage("rows one by one".into());
            self.describe_rows(to);
            return to.stage(rows.arrays.to_string());
        }
        self.describe_op(to);
        for input in self.inputs() {
            match &input.facts().rows {
                Some(rows) if self.op().takes_rows() => {
                    input.describe_rows(to);
                    to.stage(rows.arrays.to_string());
                }
                _ => input.describe(to),
            }
        }
    }
}
