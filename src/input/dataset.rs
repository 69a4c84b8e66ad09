//! Datasets: descriptions of where elements come from and what is done with them.

use std::fmt;
use std::slice;
use std::sync::Arc;

use crate::error::Result;
use crate::input::cardinality::Cardinality;
use crate::input::facts::Facts;
use crate::input::file_shares::FileShare;
use crate::input::iterator::PassIterator;
use crate::input::op::{self, Op};
use crate::input::spec::ElementSpec;

/// A dataset: a tree of operations. Cloning makes another reference; nothing about it changes, so that any
/// number of threads may use it. What it was made from is shared, not copied. At most 256 transformations
/// may lie above each other, and 65,536 may be in one dataset; one more is INVALID_ARGUMENT.
#[derive(Clone)]
pub struct Dataset(Arc<Node>);

/// An operation, what it is applied to, and what is known of its elements.
struct Node {
    op: Op,
    inputs: Vec<Dataset>,
    facts: Facts,
}

impl Dataset {
    /// The dataset that `op` makes of `inputs`. Fails as [`op::facts`].
    pub(super) fn of(op: Op, inputs: &[Dataset]) -> Result<Dataset> {
        let facts = op::facts(&op, inputs)?;
        Ok(Dataset(Arc::new(Node { op, inputs: inputs.to_vec(), facts })))
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
