//! Ranges of integers.

use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::elements::element_buffer::{BufferPool, ElementBuffer};
use crate::elements::spec::{ElementSpec, LeafSpec};
use crate::passes::IteratorStage;
use crate::passes::indexed::{self, Indexed};
use crate::passes::signature::Signature;
use crate::properties::DatasetProperties;
use umbo_base::error::Result;
use umbo_kernels::rows;
use umbo_tensor::values::Value;
use umbo_tensor::{DType, Shape};

impl Dataset {
    /// The int64 scalars `start`, `start + step`, ... as long as they are below `stop`, or, with a
    /// negative `step`, above it. INVALID_ARGUMENT if `step` is 0.
    pub fn range(start: i64, stop: i64, step: i64) -> Result<Dataset> {
        if step == 0 {
            return Err(invalid!(
                "step",
                "0; numbers in steps of 0 never reach 'stop'"
            ));
        }
        // The distance of two 64-bit numbers may need more than 64 bits, so it is computed with
        // 128.
        let distance = (i128::from(stop) - i128::from(start)) * i128::from(step.signum());
        let distance = u128::try_from(distance).unwrap_or(0);
        let count = distance.div_ceil(u128::from(step.unsigned_abs()));
        // At most 2^64 - 1, because the numbers are distinct and below or above `stop`.
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        Dataset::of(Arc::new(Range { start, step, count }), &[])
    }
}

#[derive(Clone, Copy)]
struct Range {
    start: i64,
    step: i64,
    count: u64,
}

impl Range {
    fn spec() -> ElementSpec {
        ElementSpec::Leaf(LeafSpec {
            dtype: DType::Int64,
            shape: Vec::new(),
        })
    }

    /// The number at a position. Both factors and the sum wrap. The result is the number modulo
    /// 2^64, and the number fits.
    fn number(&self, position: u64) -> i64 {
        self.start
            .wrapping_add((position as i64).wrapping_mul(self.step))
    }
}

impl Operation for Range {
    fn properties(&self, _inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        Ok(DatasetProperties::source(
            Range::spec(),
            Cardinality::Exact(self.count),
        ))
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Signature::new("range")
            .with("start", self.start)
            .with("step", self.step)
            .with("count", self.count)
    }

    fn start(&self, _dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        Ok(indexed::start(
            RowNumbers {
                range: *self,
                pool: BufferPool::new(),
            },
            self.count,
        ))
    }

    fn behind(&self, count: u64) -> Option<Arc<dyn Operation>> {
        let left_out = count.min(self.count);
        let start = self.number(left_out);
        let count = self.count - left_out;
        Some(Arc::new(Range {
            start,
            count,
            ..*self
        }))
    }
}

struct RowNumbers {
    range: Range,
    pool: BufferPool<ElementBuffer>,
}

impl Indexed for RowNumbers {
    type Item = Value;

    fn item(&mut self, number: u64) -> Result<Value> {
        let number = self.range.number(number);
        let buffer = self.pool.claim(|| ElementBuffer::new(&Range::spec()))?;
        buffer.fill(&mut |_, slot| {
            let mut tensor = slot.own(DType::Int64, Shape::scalar(), 0)?;
            rows::write_bytes(&mut tensor.writing()?, 0, &number.to_ne_bytes())
        })?;
        Ok(buffer.value())
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
    }
}
