//! Several elements as one, with a dimension more in front.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{BatchSize, Dataset, Kind};
use crate::input::frame::{Frame, LeafBuffer, Pool, no_memory};
use crate::input::held::lacks_memory;
use crate::input::leaves::Leaves;
use crate::input::position::{Description, Mark, Reader, unfit};
use crate::input::slices::Arrays;
use crate::input::spec::ElementSpec;
use crate::input::stage::{Pass, Stage};
use crate::input::trail::{Saved, Trail, Wanted};
use crate::kernels::rows;
use crate::tensor::{MAX_RANK, Shape, Tensor};
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
        Ok(batched.remade_of(self, again))
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
struct Plan {
    size: usize,
    /// How many elements a batch can have, given how many there are.
    capacity: usize,
    drop_remainder: bool,
    spec: ElementSpec,
}

impl Plan {
    /// Whether a last batch of `count` elements is one.
    fn keeps(&self, count: usize) -> bool {
        count > 0 && !(self.drop_remainder && count < self.size)
    }

    fn describe(&self, to: &mut Description) {
        to.stage(words("batch", self.size, self.drop_remainder));
    }

    fn batches(&self, elements: u64) -> u64 {
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
        let mut numbers = Vec::new();
        numbers
            .try_reserve_exact(self.plan.capacity)
            .map_err(|_| no_memory("the row numbers of a batch"))?;
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
            self.numbers.try_reserve(1).map_err(|_| no_memory("the row numbers of a batch"))?;
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
            self.numbers.try_reserve(1).map_err(|_| no_memory("the row numbers of a batch"))?;
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

/// Batches of elements that come one by one.
struct BatchElements {
    plan: Plan,
    input: Arc<dyn Stage<Value>>,
}

impl Stage<Value> for BatchElements {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        let (plan, input) = (self.plan.clone(), self.input.start()?);
        let leaves = Leaves::of(&plan.spec)?;
        let (begun, trail, pool) = (None, Trail::default(), Pool::new());
        // Elements that differ cannot be stacked, which only trying tells.
        let mut alike = true;
        plan.spec
            .for_each_leaf(&mut |leaf| alike &= leaf.shape.iter().skip(1).all(Option::is_some));
        Ok(Box::new(BatchElementsPass { plan, leaves, alike, begun, trail, input, pool }))
    }

    fn describe(&self, to: &mut Description) {
        self.plan.describe(to);
        self.input.describe(to);
    }
}

struct BatchElementsPass {
    plan: Plan,
    leaves: Leaves,
    /// Whether all elements are known to have one shape.
    alike: bool,
    /// The batch at hand, while its elements are taken.
    begun: Option<Begun>,
    trail: Trail,
    input: Box<dyn Pass<Value>>,
    pool: Pool<Frame>,
}

/// A batch of which some elements have been taken.
struct Begun {
    /// The place of its frame in the pool.
    frame: usize,
    /// How many elements have been stacked, or left out behind one that does not fit.
    count: usize,
    /// The element behind these, if there was no memory for it.
    next: Option<Value>,
    /// Why there will be no batch of them.
    problem: Option<Error>,
}

impl Begun {
    fn in_frame(frame: usize) -> Begun {
        Begun { frame, count: 0, next: None, problem: None }
    }

    /// How many elements have been taken.
    fn taken(&self) -> usize {
        self.count + usize::from(self.next.is_some())
    }

    /// Takes one more element, for which there may be no memory.
    fn take(
        &mut self,
        element: Value,
        plan: &Plan,
        leaves: &Leaves,
        frame: &mut Frame,
    ) -> Result<()> {
        let (count, capacity) = (self.count, plan.capacity.max(self.count + 1));
        // The elements behind one that does not fit are taken all the same: where a batch ends
        // does not depend on what is in it, and one that is left out anyway does not fail.
        if self.problem.is_none() {
            let stacked = frame.fill(&mut |leaf, slot| {
                stack(leaves.tensor(&element, leaf)?, count, capacity, slot)
            });
            if lacks_memory(&stacked) {
                self.next = Some(element);
                return stacked;
            }
            self.problem = stacked.err();
        }
        self.count += 1;
        Ok(())
    }
}

impl BatchElementsPass {
    /// Takes the elements that the batch at hand, or a new one, is missing. If that fails, or panics, the batch
    /// stays: what failed is left out, or comes again, and what was taken before it is in the next batch.
    fn fill(&mut self) -> Result<Option<Begun>> {
        let place = match &self.begun {
            Some(batch) => batch.frame,
            None => self.pool.claim_place(|| Frame::new(&self.plan.spec))?,
        };
        let batch = self.begun.get_or_insert_with(|| Begun::in_frame(place));
        let frame = self.pool.at(place);
        while batch.count < self.plan.size {
            let element = match batch.next.take() {
                Some(element) => element,
                None => match self.trail.next(&mut *self.input)? {
                    Some(element) => element,
                    None => break,
                },
            };
            batch.take(element, &self.plan, &self.leaves, frame)?;
        }
        self.trail.clear();
        Ok(self.begun.take())
    }

    fn let_go(&mut self) {
        self.begun = None;
        self.trail.clear();
    }
}

impl Pass<Value> for BatchElementsPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let batch = self.fill()?.filter(|batch| self.plan.keeps(batch.count));
        let Some(Begun { frame, count, problem, .. }) = batch else { return Ok(None) };
        if let Some(problem) = problem {
            return Err(problem);
        }
        let frame = self.pool.at(frame);
        if count < self.plan.capacity {
            frame.fill(&mut |_, slot| slot.shorten(count))?;
        }
        Ok(Some(frame.value()))
    }

    fn restart(&mut self) -> Result<()> {
        self.let_go();
        self.input.restart()
    }

    fn save(&self, to: &mut Mark) {
        self.trail.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.let_go();
        let saved = Saved::read(from)?;
        if saved.items() > self.plan.size as u64 {
            return Err(unfit(&format!("more than {} elements of a batch", self.plan.size)));
        }
        let place = self.pool.claim_place(|| Frame::new(&self.plan.spec))?;
        let (mut batch, frame) = (Begun::in_frame(place), self.pool.at(place));
        let (plan, leaves) = (&self.plan, &self.leaves);
        self.trail.restore(&saved, &mut *self.input, Wanted::All, &mut |element| {
            batch.take(element, plan, leaves, frame)
        })?;
        self.begun = Some(batch);
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        let begun = self.begun.take().map_or(0, |begun| begun.taken() as u64);
        self.trail.clear();
        let skipped = self.input.skip(count.saturating_mul(self.plan.size as u64) - begun)?;
        Ok(self.plan.batches(begun + skipped))
    }

    fn passes_freely(&self) -> bool {
        self.alike && self.input.passes_freely()
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
    }

    fn announce(&mut self) {
        self.input.announce();
    }
}

/// Copies `tensor` to row `position` of a batch with room for `capacity` rows.
fn stack(
    tensor: &Tensor,
    position: usize,
    capacity: usize,
    slot: &mut LeafBuffer<'_>,
) -> Result<()> {
    let shape = tensor.shape();
    if position == 0 {
        let mut sizes = [capacity; MAX_RANK];
        let rank = shape.rank() + 1;
        let room = sizes.get_mut(1..rank).ok_or_else(|| {
            Error::invalid("dataset", format!("an element of rank {MAX_RANK} cannot be batched"))
        })?;
        room.copy_from_slice(&shape);
        slot.own(tensor.dtype(), Shape::new(&sizes[..rank])?, 0)?;
    } else if slot.tensor().shape()[1..] != *shape || slot.tensor().dtype() != tensor.dtype() {
        let first = slot.tensor();
        return Err(Error::invalid(
            "dataset",
            format!(
                "element {position} of a batch is {} of shape {shape}, element 0 is {} of shape \
                 {}; the elements of one batch have one dtype and shape",
                tensor.dtype(),
                first.dtype(),
                first.shape().without(0)
            ),
        ));
    }
    rows::copy_to_row(&tensor.on_host()?.reading()?, &mut slot.own_tensor().writing()?, position)
}
