//! Datasets and the passes over them. A dataset describes where its elements come from and how they
//! are transformed.

use std::sync::Arc;
use std::{fmt, slice};

use crate::cardinality::Cardinality;
use crate::elements::spec::ElementSpec;
use crate::passes::iterator::PassIterator;
use crate::passes::position::Description;
use crate::passes::signature::Signature;
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::DatasetProperties;
use crate::sources::file_shares::FileShare;
use crate::sources::slices;
use umbo_base::error::{Error, Result};
use umbo_tensor::values::Value;

/// An operation that makes elements: a source, or a transformation of the elements of other
/// datasets. The dataset holds its inputs next to the operation. Operations that only change which
/// items come, and when, implement [`Reorder`](crate::transforms::reorder::Reorder).
pub(crate) trait Operation: Send + Sync {
    /// The properties of the elements that it makes of those of `inputs`. A source has no inputs.
    ///
    /// INVALID_ARGUMENT: elements that it cannot be applied to; too many operations.
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties>;

    /// The signature of the operation, applied to `inputs` inputs, for saved positions. Its
    /// parameters are all on which the meaning of a position depends. What affects neither the
    /// order of items nor what passes save is left out.
    fn signature(&self, inputs: usize) -> Signature;

    /// Starts a pass over the elements of `dataset`, whose operation this is.
    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>>;

    /// Starts the same pass over row numbers instead of elements.
    fn start_rows(&self, _dataset: &Dataset) -> Result<Box<dyn IteratorStage<u64>>> {
        Err(Error::Internal(
            "an operation that does not only reorder".into(),
        ))
    }

    /// Whether the operation works on row numbers, and not on elements, if its input consists of
    /// arrays' rows.
    fn takes_rows(&self) -> bool {
        false
    }

    /// The same operation over a share of the files. It shares nothing with passes of this one.
    /// None if the operation does not depend on the share.
    fn share(&self, _share: &mut FileShare) -> Result<Option<Arc<dyn Operation>>> {
        Ok(None)
    }

    /// The same source without its first `count` elements, if it can skip them without making them.
    fn behind(&self, _count: u64) -> Option<Arc<dyn Operation>> {
        None
    }

    /// Adds the seed of its random numbers to the description, if it has one.
    fn describe_seed(&self, _to: &mut Description) {}
}

/// A dataset: a tree of operations. Cloning makes another reference. A dataset never changes, so
/// any number of threads may use it. Its inputs are shared, not copied. At most 256 transformations
/// may be nested, and a dataset may have 65,536 operations in all; one more is INVALID_ARGUMENT.
#[derive(Clone)]
pub struct Dataset(Arc<DatasetNode>);

/// An operation, its inputs, and what is known of its elements.
struct DatasetNode {
    op: Arc<dyn Operation>,
    inputs: Vec<Dataset>,
    properties: DatasetProperties,
}

impl Dataset {
    /// The dataset that `op` makes of `inputs`. It fails as [`Operation::properties`] does.
    pub(crate) fn of(op: Arc<dyn Operation>, inputs: &[Dataset]) -> Result<Dataset> {
        let properties =
            op.properties(&inputs.iter().map(Dataset::properties).collect::<Vec<_>>())?;
        Ok(Dataset(Arc::new(DatasetNode {
            op,
            inputs: inputs.to_vec(),
            properties,
        })))
    }

    /// The dataset that `op` makes of this one.
    pub(crate) fn then(&self, op: impl Operation + 'static) -> Result<Dataset> {
        Dataset::of(Arc::new(op), slice::from_ref(self))
    }

    pub(crate) fn op(&self) -> &dyn Operation {
        &*self.0.op
    }

    pub(crate) fn inputs(&self) -> &[Dataset] {
        &self.0.inputs
    }

    /// The input of a transformation, or the first of its inputs.
    pub(crate) fn input(&self) -> &Dataset {
        &self.0.inputs[0]
    }

    pub(crate) fn properties(&self) -> &DatasetProperties {
        &self.0.properties
    }

    /// The same operations over a share of the files. They have their own buffers, caches and
    /// counts.
    pub(crate) fn share_of_files(&self, share: &mut FileShare) -> Result<Dataset> {
        let inputs = self
            .inputs()
            .iter()
            .map(|input| input.share_of_files(share));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let op = self.op().share(share)?;
        Dataset::of(op.unwrap_or_else(|| Arc::clone(&self.0.op)), &inputs)
    }

    /// Starts a pass over each input.
    pub(crate) fn start_inputs(&self) -> Result<Vec<Box<dyn IteratorStage<Value>>>> {
        self.inputs().iter().map(Dataset::start).collect()
    }

    /// Starts a pass over row numbers. The elements are arrays' rows.
    pub(crate) fn start_rows(&self) -> Result<Box<dyn IteratorStage<u64>>> {
        match self.properties().rows_in_order() {
            Some(arrays) => Ok(slices::in_order(arrays.rows)),
            None => self.op().start_rows(self),
        }
    }

    /// Adds the operations that order the rows to the description.
    fn describe_rows(&self, to: &mut Description) {
        if self.properties().rows_in_order().is_none() {
            self.describe_op(to);
            self.inputs()
                .iter()
                .for_each(|input| input.describe_rows(to));
        }
    }

    fn describe_op(&self, to: &mut Description) {
        to.stage(self.op().signature(self.inputs().len()));
        self.op().describe_seed(to);
    }

    /// The structure, dtypes and shapes of the elements.
    pub fn element_spec(&self) -> &ElementSpec {
        &self.properties().spec
    }

    /// The number of elements one pass yields.
    pub fn cardinality(&self) -> Cardinality {
        self.properties().cardinality
    }

    /// An iterator at the beginning of a new pass, independent of all others. It reads nothing
    /// until its first element is requested. RESOURCE_EXHAUSTED if there is no memory for it.
    pub fn iterator(&self) -> Result<PassIterator> {
        PassIterator::new(
            Arc::new(self.clone()),
            self.element_spec().clone(),
            self.cardinality(),
            None,
            false,
        )
    }
}

impl fmt::Debug for Dataset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "dataset of {} ({:?})",
            self.element_spec(),
            self.cardinality()
        )
    }
}

impl Pipeline for Dataset {
    fn start(&self) -> Result<Box<dyn IteratorStage<Value>>> {
        match &self.properties().rows {
            Some(rows) => Ok(slices::elements(
                &rows.arrays,
                self.element_spec(),
                self.start_rows()?,
            )),
            None => self.op().start(self),
        }
    }

    fn describe(&self, to: &mut Description) {
        if let Some(rows) = &self.properties().rows {
            to.stage(Signature::new("rows"));
            self.describe_rows(to);
            return to.stage(rows.arrays.signature());
        }
        self.describe_op(to);
        for input in self.inputs() {
            match &input.properties().rows {
                Some(rows) if self.op().takes_rows() => {
                    input.describe_rows(to);
                    to.stage(rows.arrays.signature());
                }
                _ => input.describe(to),
            }
        }
    }
}
