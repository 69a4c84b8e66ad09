//! Batches, each of which stacks several elements.

use crate::dataset::{Dataset, Operation};
use crate::elements::padding::{Padding, PaddingOptions, mask_spec};
use crate::elements::spec::ElementSpec;
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
            padding: None,
        })
    }

    /// Makes batches of `size` elements, which are stacked along a new dimension 0. Each element is
    /// padded, at the end of each dimension, to the largest size in its batch. The last batch is
    /// smaller if elements are left over. With `drop_remainder` these are left out.
    ///
    /// With a mask, the elements are tuples of the batch and of masks, which have the structure of
    /// the batch: bool tensors that say for each element of the batch and for each place along its
    /// first dimension whether it is of the element, and not padding.
    ///
    /// INVALID_ARGUMENT: a size below 1, elements of rank 8, a padding value that does not fit the
    /// elements. While iterating: INVALID_ARGUMENT if the elements of a batch differ in dtype or
    /// rank (they are left out), and RESOURCE_EXHAUSTED if there is no memory for a batch.
    pub fn padded_batch_with(
        &self,
        size: i64,
        drop_remainder: bool,
        options: &PaddingOptions,
    ) -> Result<Dataset> {
        self.batched(Batch {
            batch: BatchParameters::new(size, drop_remainder)?,
            padding: Some(Padding::new(options, self.element_spec())?),
        })
    }

    /// The same batches, padded with zeros and without masks.
    pub fn padded_batch(&self, size: i64, drop_remainder: bool) -> Result<Dataset> {
        self.padded_batch_with(size, drop_remainder, &PaddingOptions::default())
    }

    fn batched(&self, batch: Batch) -> Result<Dataset> {
        check_remainder(batch.batch, self.cardinality())?;
        self.then(batch)
    }
}

struct Batch {
    batch: BatchParameters,
    /// The padding, if elements may differ in shape.
    padding: Option<Padding>,
}

impl Batch {
    /// The spec of batches of elements like `element`, with their masks if they have any.
    fn spec(&self, element: &ElementSpec) -> Result<ElementSpec> {
        let batch = self.batch.spec(element)?;
        match self.padding.as_ref().is_some_and(|padding| padding.mask) {
            true => {
                let masks = mask_spec(&batch)?;
                ElementSpec::tuple(vec![batch, masks])
            }
            false => Ok(batch),
        }
    }
}

impl Operation for Batch {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let first = inputs[0];
        let mut properties = DatasetProperties::above(inputs)?;
        properties.replace(self.spec(&first.spec)?);
        properties.cardinality = first.cardinality.map(|count| self.batch.batches(count));
        properties.batches = Some(self.batch.size);
        properties.batched = Some(match first.batched {
            None | Some(Batched::Never) => Batched::Once,
            Some(Batched::Once | Batched::Twice) => Batched::Twice,
        });
        // Who pads sorts elements by length, perhaps, and shuffles batches of about the same
        // lengths.
        let pads = self.padding.is_some();
        properties.order.batch(self.batch.size > 1 && !pads);
        Ok(properties)
    }

    fn signature(&self, _inputs: usize) -> Signature {
        let signature = match self.padding {
            Some(_) => Signature::new("padded_batch"),
            None => Signature::new("batch"),
        };
        signature
            .with("size", self.batch.size)
            .with("drop_remainder", self.batch.drop_remainder)
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let spec = dataset.element_spec();
        let input = dataset.input();
        if let Some(RowFacts { arrays, in_order }) = input
            .properties()
            .rows
            .as_ref()
            .filter(|_| self.padding.is_none())
        {
            let order = if *in_order {
                None
            } else {
                Some(input.start_rows()?)
            };
            return batch_rows::start(self.batch, spec, arrays, input.cardinality(), order);
        }
        let stack = Stack::new(input.element_spec(), self.padding.clone())?;
        Ok(gathered::start(
            self.batch,
            spec,
            BatchCounter::new(None, 0),
            stack,
            input.start()?,
        ))
    }

    fn takes_rows(&self) -> bool {
        self.padding.is_none()
    }
}
