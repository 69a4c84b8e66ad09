//! Several elements as one, with a dimension more in front.

use std::sync::Arc;

use crate::error::{Error, Result, memory};
use crate::input::batch_elements::BatchElements;
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{BatchSize, Dataset, Kind};
use crate::input::frame::{Frame, LeafBuffer, Pool};
use crate::input::position::{Description, Mark, Reader, unfit};
use crate::input::slices::Arrays;
use crate::input::spec::ElementSpec;
use crate::input::stage::{Pass, Stage};
use crate::kernels::rows;
use crate::tensor::{Shape, Tensor};
use crate::values::Value;

impl Dataset {
    /// Batches of `size` elements, stacked along a new dimension 0. The last batch is smaller if
    /// elements are left over; with `drop_remainder` they are left out, and dimension 0 is known.
    ///
    /// Over arrays in their own order batches are read-only views; over arrays in another order
    /// each row is copied once, from the array to the batch.
    ///
    /// INVALID_ARGUMENT: a size below 1, elements of rank 8. While iterating, INVALID_ARGUMENT
    /// if the elements of a batch differ in shape (that batch is left out) and
    /// RESOURCE_EXHAUSTED if there is no memory for one. Elements before one that fails are in the
    /// next batch.
    pub fn batch(&self, size: i64, drop_remainder: bool) -> Result<Dataset> {
        let again = move |input: &Dataset| input.batch(size, drop_remainder);
        let size = batch_rows(size)?;
        let dimension = drop_remainder.then_some(size);
        let spec =
            self.element_spec().map(&mut |leaf| Ok(ElementSpec::Leaf(leaf.stacked(dimension)?)))?;
        let cardinality = self.cardinality().map(|count| batches(count, size, drop_remainder));
        let plan = Plan {
            size,
            capacity: self.cardinality().bound().map_or(size, |count| count.min(size)),
            drop_remainder,
            spec: spec.clone(),
        };
        let stage: Arc<dyn Stage<Value>> = match self.kind() {
            Kind::Rows(arrays, order) => {
                Arc::new(BatchRows { plan, arrays: Arc::clone(arrays), order: order.clone() })
            }
            Kind::Stream(input) => Arc::new(BatchElements { plan, input: Arc::clone(input) }),
        };
        let batch_size = batch_size(self.cardinality(), size, drop_remainder);
        let kind = Kind::Stream(stage);
        let batched =
            Dataset::batched(spec, cardinality, kind, Some(batch_size)).made_of([self])?;
        Ok(batched.batched_once_more(self).remade_of(self, again))
    }
}

/// The elements of a batch, as the caller gave them.
pub(super) fn batch_rows(size: i64) -> Result<usize> {
    let wrong = || Error::invalid("size", format!("{size} elements in a batch; it is 1 or more"));
    usize::try_from(size).ok().filter(|&size| size > 0).ok_or_else(wrong)
}

/// How many batches so many elements make, the last ones of their pass if they are too few.
pub(super) fn batches(elements: u64, size: usize, drop_remainder: bool) -> u64 {
    match drop_remainder {
        true => elements / size as u64,
        false => elements.div_ceil(size as u64),
    }
}

/// What is known of batches of so many elements.
pub(super) fn batch_size(elements: Cardinality, rows: usize, drop_remainder: bool) -> BatchSize {
    let total = match elements {
        Cardinality::Exact(count) if drop_remainder => Some(count - count % rows as u64),
        Cardinality::Exact(count) => Some(count),
        Cardinality::Endless | Cardinality::Unknown => None,
    };
    BatchSize { rows, one_partial: true, total }
}

/// A batching stage in words.
pub(super) fn words(kind: &str, size: usize, drop_remainder: bool) -> String {
    let remainder = if drop_remainder { ", without a smaller last one" } else { "" };
    format!("{kind} of {size}{remainder}")
}

#[derive(Clone)]
pub(super) struct Plan {
    pub(super) size: usize,
    /// How many elements a batch can have, given how many there are.
    pub(super) capacity: usize,
    drop_remainder: bool,
    pub(super) spec: ElementSpec,
}

impl Plan {
    /// Whether a last batch of `count` elements is one.
    pub(super) fn keeps(&self, count: usize) -> bool {
        count > 0 && !(self.drop_remainder && count < self.size)
    }

    pub(super) fn describe(&self, to: &mut Description) {
        to.stage(words("batch", self.size, self.drop_remainder));
    }

    pub(super) fn batches(&self, elements: u64) -> u64 {
        batches(elements, self.size, self.drop_remainder)
    }
}

/// Batches of rows of arrays.
struct BatchRows {
    plan: Plan,
    arrays: Arc<Arrays>,
    order: Option<Arc<dyn Stage<u64>>>,
}

impl Stage<Value> for BatchRows {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        let numbers = memory::list(self.plan.capacity, "row numbers")?;
        let order = match &self.order {
            Some(order) => Order::Any(order.start()?),
            None => Order::Own { next: 0 },
        };
        let (plan, arrays) = (self.plan.clone(), Arc::clone(&self.arrays));
        Ok(Box::new(BatchRowsPass { plan, arrays, order, numbers, pool: Pool::new() }))
    }

    fn describe(&self, to: &mut Description) {
        self.plan.describe(to);
        if let Some(order) = &self.order {
            order.describe(to);
        }
        self.arrays.describe(to);
    }
}

enum Order {
    /// The arrays' own: batches are ranges.
    Own { next: u64 },
    /// Any other.
    Any(Box<dyn Pass<u64>>),
}

struct BatchRowsPass {
    plan: Plan,
    arrays: Arc<Arrays>,
    order: Order,
    /// The rows of the batch at hand. They stay if it cannot be made, for another attempt.
    numbers: Vec<u64>,
    pool: Pool<Frame>,
}

impl BatchRowsPass {
    /// The next batch in the arrays' own order: the first row and how many.
    fn next_range(&mut self) -> Result<Option<Value>> {
        let Order::Own { next } = &mut self.order else { return Ok(None) };
        let count = (self.arrays.rows - *next).min(self.plan.size as u64) as usize;
        if !self.plan.keeps(count) {
            return Ok(None);
        }
        let frame = self.pool.claim(|| Frame::new(&self.plan.spec))?;
        let (components, first) = (&self.arrays.components, *next as usize);
        frame.fill(&mut |leaf, slot| view_rows(&components[leaf], first, count, slot))?;
        *next += count as u64;
        Ok(Some(frame.value()))
    }
}

impl Pass<Value> for BatchRowsPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let Order::Any(order) = &mut self.order else { return self.next_range() };
        while self.numbers.len() < self.plan.size {
            let Some(row) = order.next()? else { break };
            memory::room(&mut self.numbers, 1, "row numbers")?;
            self.numbers.push(row);
        }
        let Some((&first, count)) = self.numbers.first().zip(Some(self.numbers.len())) else {
            return Ok(None);
        };
        if !self.plan.keeps(count) {
            self.numbers.clear();
            return Ok(None);
        }
        let (components, capacity) = (&self.arrays.components, self.plan.capacity.max(count));
        let frame = self.pool.claim(|| {
            let mut frame = Frame::new(&self.plan.spec)?;
            frame.fill(&mut |leaf, slot| {
                let (source, shape) = (&components[leaf], components[leaf].shape());
                let bytes = resized(&shape, capacity)?.bytes(source.dtype())?;
                slot.reserve(bytes).map(drop)
            })?;
            Ok(frame)
        })?;
        let numbers = &self.numbers;
        let consecutive = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
        frame.fill(&mut |leaf, slot| {
            let source = &components[leaf];
            if consecutive {
                return view_rows(source, first as usize, count, slot);
            }
            let shape = resized(&source.shape(), count)?;
            let mut target = slot.own(source.dtype(), shape, 0)?;
            rows::copy_rows(&source.reading()?, numbers, &mut target.writing()?)
        })?;
        self.numbers.clear();
        Ok(Some(frame.value()))
    }

    fn restart(&mut self) -> Result<()> {
        self.numbers.clear();
        match &mut self.order {
            Order::Own { next } => *next = 0,
            Order::Any(order) => order.restart()?,
        }
        Ok(())
    }

    fn save(&self, to: &mut Mark) {
        to.push(self.numbers.len() as u64);
        self.numbers.iter().for_each(|&row| to.push(row));
        match &self.order {
            Order::Own { next } => to.push(*next),
            Order::Any(order) => order.save(to),
        }
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.numbers.clear();
        let last = self.arrays.rows.checked_sub(1);
        for _ in 0..from.index(self.plan.size, "the rows of a batch")? {
            let last = last.ok_or_else(|| unfit("there are no rows"))?;
            memory::room(&mut self.numbers, 1, "row numbers")?;
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
        let rows = count.saturating_mul(self.plan.size as u64) - begun;
        let skipped = match &mut self.order {
            Order::Own { next } => {
                let skipped = rows.min(self.arrays.rows - *next);
                *next += skipped;
                skipped
            }
            Order::Any(order) => order.skip(rows)?,
        };
        Ok(self.plan.batches(begun + skipped))
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
