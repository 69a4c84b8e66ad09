//! The number of elements that make a batch.

use crate::arguments::in_range;
use crate::elements::spec::ElementSpec;
use umbo_base::error::Result;

/// The parameters of a batching operation.
#[derive(Clone, Copy)]
pub(crate) struct BatchParameters {
    pub(crate) size: usize,
    pub(crate) drop_remainder: bool,
}

impl BatchParameters {
    /// Checks the size that the caller passed. Returns INVALID_ARGUMENT if it is below 1.
    pub(crate) fn new(size: i64, drop_remainder: bool) -> Result<BatchParameters> {
        let size = in_range(
            "element_count",
            size,
            1..,
            "the elements in a batch, 1 or more",
        )?;
        Ok(BatchParameters::of(size, drop_remainder))
    }

    /// The parameters for batches of `size` elements, which is at least 1.
    pub(crate) fn of(size: usize, drop_remainder: bool) -> BatchParameters {
        BatchParameters {
            size,
            drop_remainder,
        }
    }

    /// The spec of batches of elements like `element`. Returns INVALID_ARGUMENT for elements of
    /// rank 8.
    pub(crate) fn spec(&self, element: &ElementSpec) -> Result<ElementSpec> {
        let dimension = self.drop_remainder.then_some(self.size);
        element.map(&mut |leaf| Ok(ElementSpec::Leaf(leaf.stacked(dimension)?)))
    }

    /// The number of batches `elements` elements make.
    pub(crate) fn batches(&self, elements: u64) -> u64 {
        match self.drop_remainder {
            true => elements / self.size as u64,
            false => elements.div_ceil(self.size as u64),
        }
    }

    /// Whether a last batch of `count` elements is kept.
    pub(crate) fn keeps(&self, count: usize) -> bool {
        count > 0 && !(self.drop_remainder && count < self.size)
    }
}
