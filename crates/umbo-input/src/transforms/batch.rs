//! Batches, each of which stacks several elements.

use crate::dataset::{Dataset, Operation};
use crate::elements::stack::Stack;
use crate::passes::batch_counter::BatchCounter;
use crate::passes::signature::Signature;
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::{Batched, DatasetProperties, RowFacts};
use crate::transforms::batch_parameters::BatchParameters;
use crate::transforms::suspects::check_remainder;
use crate::{passes::gathered, transforms::batch_rows};
use umbo_base::error::Result;
use umbo_tensor::values::Value;

impl Dataset {
    /// Makes batches of `size` elements, which are stacked along a new dimension 0. The last batch
    /// is smaller if elements are left over. With `drop_remainder` these are left out, and the
    /// spec has a fixed size of dimension 0.
    ///
    /// Batches of arrays' rows in their own order are read-only views. In another order, each row
    /// is copied once, from the array to the batch.
    ///
    /// INVALID_ARGUMENT: a size below 1, elements of rank 8. While iterating: INVALID_ARGUMENT if
    /// the elements of a batch differ in shape (that batch is left out), and RESOURCE_EXHAUSTED
    /// if there is no memory for a batch. If an element fails, the elements before it are in
    /// the next batch. If the dataset has elements and they make no batch, this is a warning
    /// and, in a strict process, INVALID_ARGUMENT.
    pub fn batch(&self, size: i64, drop_remainder: bool) -> Result<Dataset> {
        self.batched(Batch {
            batch: BatchParameters::new(size, drop_remainder)?,
            pads: false,
        })
    }

    /// Makes batches of `size` elements, which are stacked along a new dimension 0. Each element is
    /// padded with zeros, at the end of each dimension, to the largest size in its batch. The
    /// last batch is smaller if elements are left over. With `drop_remainder` these are left
    /// out.
    ///
    /// INVALID_ARGUMENT: a size below 1, elements of rank 8. While iterating: INVALID_ARGUMENT if
    /// the elements of a batch differ in dtype or rank (they are left out), and
    /// RESOURCE_EXHAUSTED if there is no memory for a batch.
    pub fn padded_batch(&self, size: i64, drop_remainder: bool) -> Result<Dataset> {
        self.batched(Batch {
            batch: BatchParameters::new(size, drop_remainder)?,
            pads: true,
        })
    }

    fn batched(&self, batch: Batch) -> Result<Dataset> {
        check_remainder(batch.batch, self.cardinality())?;
        self.then(batch)
    }
}

struct Batch {
    batch: BatchParameters,
    /// Whether elements may differ in shape.
    pads: bool,
}

impl Operation for Batch {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let first = inputs[0];
        let mut properties = DatasetProperties::above(inputs)?;
        properties.replace(self.batch.spec(&first.spec)?);
        properties.cardinality = first.cardinality.map(|count| self.batch.batches(count));
        properties.batches = Some(self.batch.size);
        properties.batched = Some(match first.batched {
            None | Some(Batched::Never) => Batched::Once,
            Some(Batched::Once | Batched::Twice) => Batched::Twice,
        });
        // Who pads sorts elements by length, perhaps, and shuffles batches of about the same
        // lengths.
        properties.order.batch(self.batch.size > 1 && !self.pads);
        Ok(properties)
    }

    fn signature(&self, _inputs: usize) -> Signature {
        let signature = match self.pads {
            true => Signature::new("padded_batch"),
            false => Signature::new("batch"),
        };
        signature
            .with("size", self.batch.size)
            .with("drop_remainder", self.batch.drop_remainder)
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let spec = dataset.element_spec();
        let input = dataset.input();
        if let Some(RowFacts { arrays, in_order }) =
            input.properties().rows.as_ref().filter(|_| !self.pads)
        {
            let order = if *in_order {
                None
            } else {
                Some(input.start_rows()?)
            };
            return batch_rows::start(self.batch, spec, arrays, input.cardinality(), order);
        }
        let stack = Stack::new(spec, self.pads)?;
        Ok(gathered::start(
            self.batch,
            spec,
            BatchCounter::new(None, 0),
            stack,
            input.start()?,
        ))
    }

    fn takes_rows(&self) -> bool {
        !self.pads
    }
}
