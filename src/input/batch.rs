//! Several elements as one, with a dimension more in front.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::error::memory;
use crate::input::arguments::in_range;
use crate::input::cardinality::Cardinality;
use crate::input::element_buffer::{BufferPool, ElementBuffer, LeafBuffer};
use crate::input::facts::BatchSize;
use crate::input::pass::Pass;
use crate::input::position::{StateReader, StateWriter, unfit};
use crate::input::slices::Arrays;
use crate::input::spec::ElementSpec;
use crate::kernels::rows;
use crate::tensor::{Shape, Tensor};
use crate::values::Value;

/// How elements are batched.
#[derive(Clone, Copy)]
pub(super) struct BatchParameters {
    pub(super) size: usize,
    drop_remainder: bool,
}

impl fmt::Display for BatchParameters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remainder = if self.drop_remainder { ", without a smaller last one" } else { "" };
        write!(formatter, "of {}{remainder}", self.size)
    }
}

impl BatchParameters {
    /// Of so many elements, as the caller gave them. INVALID_ARGUMENT for a size below 1.
    pub(super) fn new(size: i64, drop_remainder: bool) -> Result<BatchParameters> {
        let size = in_range("element_count", size, 1.., "the elements in a batch, 1 or more")?;
        Ok(BatchParameters::of(size, drop_remainder))
    }

    /// Of so many elements, 1 or more.
    pub(super) fn of(size: usize, drop_remainder: bool) -> BatchParameters {
        BatchParameters { size, drop_remainder }
    }

    /// The spec of batches of elements like `element`. INVALID_ARGUMENT for elements of rank 8.
    pub(super) fn spec(&self, element: &ElementSpec) -> Result<ElementSpec> {
        let dimension = self.drop_remainder.then_some(self.size);
        element.map(&mut |leaf| Ok(ElementSpec::Leaf(leaf.stacked(dimension)?)))
    }

    /// How many batches so many elements make, the last ones of their pass if they are too few.
    pub(super) fn batches(&self, elements: u64) -> u64 {
        match self.drop_remainder {
            true => elements / self.size as u64,
            false => elements.div_ceil(self.size as u64),
        }
    }

    /// Whether a last batch of `count` elements is one.
    pub(super) fn keeps(&self, count: usize) -> bool {
        count > 0 && !(self.drop_remainder && count < self.size)
    }

    /// What is known of batches of so many elements.
    pub(super) fn size_of(&self, elements: Cardinality) -> BatchSize {
        let rows = self.size;
        let left_out = |count| if self.drop_remainder { count % rows as u64 } else { 0 };
        let total = elements.exact().map(|count| count - left_out(count));
        BatchSize { rows, one_partial: true, total }
    }

    /// What a pass needs to know that makes batches like `spec` of so many elements.
    pub(super) fn plan(&self, spec: &ElementSpec, elements: Cardinality) -> BatchPlan {
        let capacity = elements.bound().map_or(self.size, |count| count.min(self.size));
        BatchPlan { batch: *self, capacity, spec: spec.clone() }
    }
}

pub(super) struct BatchPlan {
    pub(super) batch: BatchParameters,
    /// How many elements a batch can have, given how many there are.
    pub(super) capacity: usize,
    pub(super) spec: ElementSpec,
}

/// A pass over batches of rows of arrays, in an order of row numbers or in their own.
pub(super) fn rows(
    plan: BatchPlan,
    arrays: &Arc<Arrays>,
    order: Option<Box<dyn Pass<u64>>>,
) -> Result<Box<dyn Pass<Value>>> {
    let numbers = memory::list(plan.capacity, "row numbers")?;
    let order = order.map_or(Order::Own { next: 0 }, Order::Any);
    let (arrays, pool) = (Arc::clone(arrays), BufferPool::new());
    Ok(Box::new(BatchRowsPass { plan, arrays, order, numbers, pool }))
}

enum Order {
    /// The arrays' own: batches are ranges.
    Own { next: u64 },
    /// Any other.
    Any(Box<dyn Pass<u64>>),
}

struct BatchRowsPass {
    plan: BatchPlan,
    arrays: Arc<Arrays>,
    order: Order,
    /// The rows of the batch at hand. They stay if it cannot be made, for another attempt.
    numbers: Vec<u64>,
    pool: BufferPool<ElementBuffer>,
}

impl BatchRowsPass {
    /// The next batch in the arrays' own order: the first row and how many.
    fn next_range(&mut self) -> Result<Option<Value>> {
        let Order::Own { next } = &mut self.order else { return Ok(None) };
        let count = (self.arrays.rows - *next).min(self.plan.batch.size as u64) as usize;
        if !self.plan.batch.keeps(count) {
            return Ok(None);
        }
        let buffer = self.pool.claim(|| ElementBuffer::new(&self.plan.spec))?;
        let (components, first) = (&self.arrays.components, *next as usize);
        buffer.fill(&mut |leaf, slot| view_rows(&components[leaf], first, count, slot))?;
        *next += count as u64;
        Ok(Some(buffer.value()))
    }
}

impl Pass<Value> for BatchRowsPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let Order::Any(order) = &mut self.order else { return self.next_range() };
        while self.numbers.len() < self.plan.batch.size {
            let Some(row) = order.next()? else { break };
            memory::reserve(&mut self.numbers, 1, "row numbers")?;
            self.numbers.push(row);
        }
        let Some((&first, count)) = self.numbers.first().zip(Some(self.numbers.len())) else {
            return Ok(None);
        };
        if !self.plan.batch.keeps(count) {
            self.numbers.clear();
            return Ok(None);
        }
        let (components, capacity) = (&self.arrays.components, self.plan.capacity.max(count));
        let buffer = self.pool.claim(|| {
            let mut buffer = ElementBuffer::new(&self.plan.spec)?;
            buffer.fill(&mut |leaf, slot| {
                let (source, shape) = (&components[leaf], components[leaf].shape());
                let bytes = resized(&shape, capacity)?.bytes(source.dtype())?;
                slot.reserve(bytes).map(drop)
            })?;
            Ok(buffer)
        })?;
        let numbers = &self.numbers;
        let consecutive = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
        buffer.fill(&mut |leaf, slot| {
            let source = &components[leaf];
            if consecutive {
                return view_rows(source, first as usize, count, slot);
            }
            let shape = resized(&source.shape(), count)?;
            let mut target = slot.own(source.dtype(), shape, 0)?;
            rows::copy_rows(&source.reading()?, numbers, &mut target.writing()?)
        })?;
        self.numbers.clear();
        Ok(Some(buffer.value()))
    }

    fn restart(&mut self) -> Result<()> {
        self.numbers.clear();
        match &mut self.order {
            Order::Own { next } => *next = 0,
            Order::Any(order) => order.restart()?,
        }
        Ok(())
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.numbers.len() as u64);
        self.numbers.iter().for_each(|&row| to.push(row));
        match &self.order {
            Order::Own { next } => to.push(*next),
            Order::Any(order) => order.save(to),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.numbers.clear();
        let last = self.arrays.rows.checked_sub(1);
        for _ in 0..from.index(self.plan.batch.size, "the rows of a batch")? {
            let last = last.ok_or_else(|| unfit("there are no rows"))?;
            memory::reserve(&mut self.numbers, 1, "row numbers")?;
            self.numbers.push(from.at_most(last, "a row")?);
        }
        match &mut self.order {
            Order::Own { next } => *next = from.at_most(self.arrays.rows, "the next row")?,
            Order::Any(order) => order.restore(from)?,
        }
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        // A batch that could not be made yet has begun.
        let begun = self.numbers.len() as u64;
        self.numbers.clear();
        let rows = count.saturating_mul(self.plan.batch.size as u64) - begun;
        let skipped = match &mut self.order {
            Order::Own { next } => {
                let skipped = rows.min(self.arrays.rows - *next);
                *next += skipped;
                skipped
            }
            Order::Any(order) => order.skip(rows)?,
        };
        Ok(self.plan.batch.batches(begun + skipped))
    }

    fn passes_freely(&self) -> bool {
        match &self.order {
            Order::Own { .. } => true,
            Order::Any(order) => order.passes_freely(),
        }
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
    }

    fn announce(&mut self) {
        if let Order::Any(order) = &mut self.order {
            order.announce();
        }
    }
}

/// `shape` with another number of rows, checked: the caller chooses the batch size.
fn resized(shape: &Shape, rows: usize) -> Result<Shape> {
    Shape::new(&shape.with_size(0, rows))
}

fn view_rows(source: &Tensor, first: usize, count: usize, slot: &mut LeafBuffer<'_>) -> Result<()> {
    let (layout, offset) = source.layout().slice(0, first, first + count, 1)?;
    slot.view(source, layout, offset)
}
