//! Numbers in steps.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Kind};
use crate::input::frame::{Frame, Pool};
use crate::input::position::{Description, Mark, Reader};
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::input::stage::{Pass, Stage};
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
        let spec = ElementSpec::Leaf(LeafSpec { dtype: DType::Int64, shape: Vec::new() });
        let stage = Range { start, step, count, spec: spec.clone() };
        Ok(Dataset::new(spec, Cardinality::Exact(count), Kind::Stream(Arc::new(stage))))
    }
}

struct Range {
    start: i64,
    step: i64,
    count: u64,
    spec: ElementSpec,
}

impl Stage<Value> for Range {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        let Range { start, step, count, .. } = *self;
        let spec = self.spec.clone();
        Ok(Box::new(RangePass { start, step, count, done: 0, spec, pool: Pool::new() }))
    }

    fn describe(&self, to: &mut Description) {
        let Range { start, step, count, .. } = self;
        to.stage(format!("range of {count} from {start} in steps of {step}"));
    }
}

struct RangePass {
    start: i64,
    step: i64,
    count: u64,
    done: u64,
    spec: ElementSpec,
    pool: Pool<Frame>,
}

impl Pass<Value> for RangePass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.done == self.count {
            return Ok(None);
        }
        // Wrapping in both factors and in the sum gives the number, which fits, modulo 2^64.
        let number = self.start.wrapping_add((self.done as i64).wrapping_mul(self.step));
        let frame = self.pool.claim(|| Frame::new(&self.spec))?;
        frame.fill(&mut |_, slot| {
            let mut tensor = slot.own(DType::Int64, Shape::scalar(), 0)?;
            rows::write_bytes(&mut tensor.writing()?, 0, &number.to_ne_bytes())
        })?;
        self.done += 1;
        Ok(Some(frame.value()))
    }

    fn restart(&mut self) -> Result<()> {
        self.done = 0;
        Ok(())
    }

    fn save(&self, to: &mut Mark) {
        to.push(self.done);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.done = from.at_most(self.count, "the next number")?;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        let skipped = count.min(self.count - self.done);
        self.done += skipped;
        Ok(skipped)
    }

    fn passes_freely(&self) -> bool {
        true
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
    }

    fn announce(&mut self) {}
}
