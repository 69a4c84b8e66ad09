//! Batches that are full, and no others.

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::elements::leaves::Leaves;
use crate::elements::spec::ElementSpec;
use crate::passes::position::{StateReader, StateWriter};
use crate::passes::signature::Signature;
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::DatasetProperties;
use umbo_base::error::Result;
use umbo_tensor::values::Value;

impl Dataset {
    /// The batches whose tensors have `rows` rows or more, the size of a full batch. If all batches
    /// are known to be full, it is the same dataset.
    pub(crate) fn full_batches(&self, rows: usize) -> Result<Dataset> {
        match self.element_spec().rows() {
            Some(_) => Ok(self.clone()),
            None => self.then(FullBatches { rows }),
        }
    }
}

#[derive(Clone, Copy)]
struct FullBatches {
    rows: usize,
}

impl Operation for FullBatches {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let mut properties = DatasetProperties::above(inputs)?;
        properties.reorder(match inputs[0].cardinality {
            Cardinality::Exact(0) => Cardinality::Exact(0),
            // Of repeated or concatenated batches nobody knows how many are smaller.
            other => other.of_unknown_end(),
        });
        properties.spec = properties
            .spec
            .map(&mut |leaf| Ok(ElementSpec::Leaf(leaf.with_rows(Some(self.rows)))))?;
        Ok(properties)
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Signature::new("full_batches").with("rows", self.rows)
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let leaves = Leaves::of(dataset.element_spec());
        Ok(Box::new(FullBatchesPass {
            rows: self.rows,
            leaves,
            input: dataset.input().start()?,
        }))
    }
}

struct FullBatchesPass {
    rows: usize,
    leaves: Leaves,
    input: Box<dyn IteratorStage<Value>>,
}

impl FullBatchesPass {
    /// Whether all tensors of the batch have enough rows.
    fn is_full(&self, batch: &Value) -> Result<bool> {
        for leaf in 0..self.leaves.count() {
            let rows = self.leaves.tensor(batch, leaf)?.shape().first().copied();
            if rows.is_some_and(|rows| rows < self.rows) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl IteratorStage<Value> for FullBatchesPass {
    fn next(&mut self) -> Result<Option<Value>> {
        while let Some(batch) = self.input.next()? {
            if self.is_full(&batch)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<()> {
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.input.restore(from)
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        visit(&mut *self.input);
    }
}
