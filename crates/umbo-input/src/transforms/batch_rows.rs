//! Batches of rows of arrays. Each row is copied once, or not at all if the rows follow each other.

use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::elements::element_buffer::{BufferPool, ElementBuffer, LeafBuffer};
use crate::elements::spec::ElementSpec;
use crate::passes::given::{Given, Stop};
use crate::passes::position::{Rounds, StateReader, StateWriter, unfit};
use crate::passes::{IteratorStage, skip_each};
use crate::sources::slices::Arrays;
use crate::transforms::batch_parameters::BatchParameters;
use umbo_base::error::{Result, memory};
use umbo_kernels::rows;
use umbo_tensor::values::Value;
use umbo_tensor::{Shape, Tensor};

/// Starts a pass over batches of arrays' rows. The batches are like `spec`. The row numbers come
/// from `order`, which has `count` of them. Without `order`, rows come in the arrays' own order.
pub(crate) fn start(
    batch: BatchParameters,
    spec: &ElementSpec,
    arrays: &Arc<Arrays>,
    count: Cardinality,
    order: Option<Box<dyn IteratorStage<u64>>>,
) -> Result<Box<dyn IteratorStage<Value>>> {
    let capacity = count
        .bound()
        .map_or(batch.size, |count| count.min(batch.size));
    let numbers = memory::list(capacity, "row numbers")?;
    let order = order.map_or(Order::Own { next: 0 }, Order::Any);
    let spec = spec.clone();
    let arrays = Arc::clone(arrays);
    Ok(Box::new(BatchRowsPass {
        batch,
        capacity,
        spec,
        arrays,
        order,
        numbers,
        pool: BufferPool::new(),
    }))
}

enum Order {
    /// The arrays' own order: batches are ranges.
    Own { next: u64 },
    /// Any other order.
    Any(Box<dyn IteratorStage<u64>>),
}

struct BatchRowsPass {
    batch: BatchParameters,
    /// The largest number of rows in a batch: no more than there are rows.
    capacity: usize,
    spec: ElementSpec,
    arrays: Arc<Arrays>,
    order: Order,
    /// The rows of the current batch. They stay if the batch cannot be made, so that another
    /// attempt can use them.
    numbers: Vec<u64>,
    pool: BufferPool<ElementBuffer>,
}

impl BatchRowsPass {
    /// The next batch in the arrays' own order, from row `first` on.
    fn next_range(&mut self, first: u64) -> Result<Option<Value>> {
        let count = (self.arrays.rows - first).min(self.batch.size as u64) as usize;
        if !self.batch.keeps(count) {
            return Ok(None);
        }
        let buffer = self.pool.claim(|| ElementBuffer::new(&self.spec))?;
        let components = &self.arrays.components;
        buffer.fill(&mut |leaf, slot| view_rows(&components[leaf], first, count, slot))?;
        self.order = Order::Own {
            next: first + count as u64,
        };
        Ok(Some(buffer.value()))
    }
}

impl IteratorStage<Value> for BatchRowsPass {
    fn skip(&mut self, left: &mut u64, stop: &Stop) -> Result<()> {
        let Order::Own { next } = &mut self.order else {
            return skip_each(self, left, stop);
        };
        let skipped = self.batch.batches(self.arrays.rows - *next).min(*left);
        let rows = skipped.saturating_mul(self.batch.size as u64);
        *next = next.saturating_add(rows).min(self.arrays.rows);
        *left -= skipped;
        Ok(())
    }

    fn certain(&self) -> Option<Cardinality> {
        let rows = match &self.order {
            Order::Own { .. } => Some(Cardinality::Exact(self.arrays.rows)),
            Order::Any(order) => order.certain(),
        };
        rows.map(|rows| rows.map(|rows| self.batch.batches(rows)))
    }

    fn skip_rounds(&mut self, rounds: u64, items: u64) {
        self.numbers.clear();
        match &mut self.order {
            Order::Own { next } => *next = 0,
            Order::Any(order) => {
                order.skip_rounds(rounds, items.saturating_mul(self.batch.size as u64));
            }
        }
    }

    fn next(&mut self) -> Result<Option<Value>> {
        let order = match &mut self.order {
            Order::Own { next } => {
                let first = *next;
                return self.next_range(first);
            }
            Order::Any(order) => order,
        };
        while self.numbers.len() < self.batch.size {
            // The memory is reserved first, so that no row is lost if there is none.
            memory::reserve(&mut self.numbers, 1, "row numbers")?;
            let Some(row) = order.next()? else { break };
            self.numbers.push(row);
        }
        let count = self.numbers.len();
        if !self.batch.keeps(count) {
            self.numbers.clear();
            return Ok(None);
        }
        let numbers = &self.numbers;
        let capacity = self.capacity.max(count);
        let consecutive = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let buffer = self.pool.claim(|| ElementBuffer::new(&self.spec))?;
        buffer.fill(&mut |leaf, slot| {
            let source = &self.arrays.components[leaf];
            if consecutive {
                return view_rows(source, numbers[0], count, slot);
            }
            // The multiplication is checked, because the caller chooses the batch size.
            let of_rows = |rows| Shape::new(&source.shape().with_size(0, rows));
            let bytes = of_rows(capacity)?.bytes(source.dtype())?;
            let mut target = slot.own(source.dtype(), of_rows(count)?, bytes)?;
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
        for _ in 0..from.index(self.batch.size, "the rows of a batch")? {
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

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
    }

    fn rounds(&mut self, to: &mut Rounds) {
        if let Order::Any(order) = &mut self.order {
            order.rounds(to);
        }
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        match &mut self.order {
            Order::Own { .. } => Ok(()),
            Order::Any(order) => order.go_back(to),
        }
    }

    fn announce(&mut self, given: &Given) {
        if let Order::Any(order) = &mut self.order {
            order.announce(given);
        }
    }
}

fn view_rows(source: &Tensor, first: u64, count: usize, slot: &mut LeafBuffer<'_>) -> Result<()> {
    let first = first as usize;
    let (layout, offset) = source.layout().slice(0, first, first + count, 1)?;
    slot.view(source, layout, offset)
}
