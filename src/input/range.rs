//! Numbers in steps.

use std::fmt;

use crate::error::{Error, Result};
use crate::input::dataset::Dataset;
use crate::input::element_buffer::{BufferPool, ElementBuffer};
use crate::input::indexed::{self, Indexed};
use crate::input::op::Op;
use crate::input::pass::Pass;
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::kernels::rows;
use crate::tensor::{DType, Shape};
use crate::values::Value;

impl Dataset {
    /// The int64 scalars `start`, `start + step`, ... as long as they are below `stop`, or above it
    /// if `step` is negative. INVALID_ARGUMENT if `step` is 0.
    pub fn range(start: i64, stop: i64, step: i64) -> Result<Dataset> {
        if step == 0 {
            return Err(Error::invalid("step", "0; numbers in steps of 0 never reach 'stop'"));
        }
        // In 128 bits, because the distance of two numbers of 64 bits may not fit in 64.
        let distance = (i128::from(stop) - i128::from(start)) * i128::from(step.signum());
        let distance = u128::try_from(distance).unwrap_or(0);
        let count = distance.div_ceil(u128::from(step.unsigned_abs()));
        // At most 2^64 - 1, because the numbers are distinct and below or above `stop`.
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        Dataset::of(Op::Range(Range { start, step, count }), &[])
    }
}

#[derive(Clone, Copy)]
pub(super) struct Range {
    start: i64,
    step: i64,
    pub(super) count: u64,
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, step, count } = self;
        write!(formatter, "range of {count} from {start} in steps of {step}")
    }
}

impl Range {
    pub(super) fn spec() -> ElementSpec {
        ElementSpec::Leaf(LeafSpec { dtype: DType::Int64, shape: Vec::new() })
    }

    pub(super) fn start(&self) -> Box<dyn Pass<Value>> {
        indexed::start(Numbers { range: *self, pool: BufferPool::new() }, self.count)
    }
}

struct Numbers {
    range: Range,
    pool: BufferPool<ElementBuffer>,
}

impl Indexed for Numbers {
    type Item = Value;

    fn item(&mut self, number: u64) -> Result<Value> {
        let Range { start, step, .. } = self.range;
        // Wrapping in both factors and in the sum gives the number, which fits, modulo 2^64.
        let number = start.wrapping_add((number as i64).wrapping_mul(step));
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
