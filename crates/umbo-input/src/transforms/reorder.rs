//! Operations that only change which items come, and when. They work on items of any type.

use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::passes::position::Description;
use crate::passes::signature::Signature;
use crate::passes::{Item, IteratorStage, Pipeline};
use crate::properties::DatasetProperties;
use crate::sources::file_shares::FileShare;
use umbo_base::error::Result;
use umbo_tensor::values::Value;

/// Such an operation. Its items are elements or the numbers of arrays' rows.
pub(crate) trait Reorder: Clone + Send + Sync + 'static {
    /// The same as [`Operation::signature`].
    fn signature(&self) -> Signature;

    /// Changes `properties` from those of `input` to those of the result.
    fn reorder(&self, input: &DatasetProperties, properties: &mut DatasetProperties) -> Result<()>;

    /// A pass over the resulting items. `input` has `count` items.
    fn pass<T: Item>(
        &self,
        count: Cardinality,
        input: Box<dyn IteratorStage<T>>,
    ) -> Box<dyn IteratorStage<T>>;

    /// The same operation, without anything shared with passes of this one.
    fn anew(&self) -> Self {
        self.clone()
    }

    /// The same as [`Operation::describe_seed`].
    fn describe_seed(&self, _to: &mut Description) {}
}

impl<R: Reorder> Operation for R {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let mut properties = DatasetProperties::above(inputs)?;
        self.reorder(inputs[0], &mut properties)?;
        Ok(properties)
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Reorder::signature(self)
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        Ok(self.pass(dataset.input().cardinality(), dataset.input().start()?))
    }

    fn start_rows(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<u64>>> {
        Ok(self.pass(dataset.input().cardinality(), dataset.input().start_rows()?))
    }

    fn share(&self, _share: &mut FileShare) -> Result<Option<Arc<dyn Operation>>> {
        Ok(Some(Arc::new(self.anew())))
    }

    fn describe_seed(&self, to: &mut Description) {
        Reorder::describe_seed(self, to);
    }
}
