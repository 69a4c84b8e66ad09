//! Numbers in steps.

use std::fmt;

use crate::error::Result;
use crate::input::element_buffer::{BufferPool, ElementBuffer};
use crate::input::indexed::{self, Indexed};
use crate::input::pass::Pass;
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::kernels::rows;
use crate::tensor::{DType, Shape};
use crate::values::Value;

#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) start: i64,
    pub(super) step: i64,
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

    /// All but the first `count` numbers.
    pub(super) fn behind(&self, count: u64) -> Range {
        let left_out = count.min(self.count);
        Range { start: self.number(left_out), count: self.count - left_out, ..*self }
    }

    /// The number at a position. Wrapping in both factors and in the sum gives it modulo 2^64, and it fits.
    fn number(&self, position: u64) -> i64 {
        self.start.wrapping_add((position as i64).wrapping_mul(self.step))
    }

    pub(super) fn start(&self) -> Box<dyn Pass<Value>> {
        indexed::start(RowNumbers { range: *self, pool: BufferPool::new() }, self.count)
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
