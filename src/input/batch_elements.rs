//! Batches of elements that come one by one.

use crate::error::{Error, Result};
use crate::input::batch::BatchPlan;
use crate::input::element_buffer::{BufferPool, ElementBuffer, LeafBuffer};
use crate::input::held::lacks_memory;
use crate::input::leaves::Leaves;
use crate::input::pass::Pass;
use crate::input::position::{StateReader, StateWriter, unfit};
use crate::input::replay_log::{ReplayLog, SavedLog, WantedItems};
use crate::kernels::rows;
use crate::tensor::{MAX_RANK, Shape, Tensor};
use crate::values::Value;

/// A pass over batches of the elements of `input`.
pub(super) fn start(plan: BatchPlan, input: Box<dyn Pass<Value>>) -> Box<dyn Pass<Value>> {
    let leaves = Leaves::of(&plan.spec);
    let (begun, replay, pool) = (None, ReplayLog::default(), BufferPool::new());
    // Elements that differ cannot be stacked. Only an attempt shows that.
    let mut alike = true;
    plan.spec.for_each_leaf(&mut |leaf| alike &= leaf.shape.iter().skip(1).all(Option::is_some));
    Box::new(BatchElementsPass { plan, leaves, alike, begun, replay, input, pool })
}

struct BatchElementsPass {
    plan: BatchPlan,
    leaves: Leaves,
    /// Whether all elements are known to have one shape.
    alike: bool,
    /// The batch at hand, while its elements are taken.
    begun: Option<BegunBatch>,
    replay: ReplayLog,
    input: Box<dyn Pass<Value>>,
    pool: BufferPool<ElementBuffer>,
}

/// A batch of which some elements have been taken.
struct BegunBatch {
    /// The place of its buffer in the pool.
    buffer: usize,
    /// How many elements have been stacked, or left out behind one that does not fit.
    count: usize,
    /// The element behind these, if there was no memory for it.
    next: Option<Value>,
    /// Why there will be no batch of them.
    problem: Option<Error>,
}

impl BegunBatch {
    fn in_buffer(buffer: usize) -> BegunBatch {
        BegunBatch { buffer, count: 0, next: None, problem: None }
    }

    /// How many elements have been taken.
    fn taken(&self) -> usize {
        self.count + usize::from(self.next.is_some())
    }

    /// Takes one more element, for which there may be no memory.
    fn take(
        &mut self,
        element: Value,
        plan: &BatchPlan,
        leaves: &Leaves,
        buffer: &mut ElementBuffer,
    ) -> Result<()> {
        let (count, capacity) = (self.count, plan.capacity.max(self.count + 1));
        // The elements behind one that does not fit are taken all the same: where a batch ends
        // does not depend on what is in it, and one that is left out anyway does not fail.
        if self.problem.is_none() {
            let stacked = buffer.fill(&mut |leaf, slot| {
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
    fn fill(&mut self) -> Result<Option<BegunBatch>> {
        let place = match &self.begun {
            Some(batch) => batch.buffer,
            None => self.pool.claim_place(|| ElementBuffer::new(&self.plan.spec))?,
        };
        let batch = self.begun.get_or_insert_with(|| BegunBatch::in_buffer(place));
        let buffer = self.pool.at(place);
        while batch.count < self.plan.batch.size {
            let element = match batch.next.take() {
                Some(element) => element,
                None => match self.replay.next(&mut *self.input)? {
                    Some(element) => element,
                    None => break,
                },
            };
            batch.take(element, &self.plan, &self.leaves, buffer)?;
        }
        self.replay.clear();
        Ok(self.begun.take())
    }

    fn let_go(&mut self) {
        self.begun = None;
        self.replay.clear();
    }
}

impl Pass<Value> for BatchElementsPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let batch = self.fill()?.filter(|batch| self.plan.batch.keeps(batch.count));
        let Some(BegunBatch { buffer, count, problem, .. }) = batch else { return Ok(None) };
        if let Some(problem) = problem {
            return Err(problem);
        }
        let buffer = self.pool.at(buffer);
        if count < self.plan.capacity {
            buffer.fill(&mut |_, slot| slot.shorten(count))?;
        }
        Ok(Some(buffer.value()))
    }

    fn restart(&mut self) -> Result<()> {
        self.let_go();
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        self.replay.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.let_go();
        let saved = SavedLog::read(from)?;
        if saved.items() > self.plan.batch.size as u64 {
            return Err(unfit(&format!("more than {} elements of a batch", self.plan.batch.size)));
        }
        let place = self.pool.claim_place(|| ElementBuffer::new(&self.plan.spec))?;
        let (mut batch, buffer) = (BegunBatch::in_buffer(place), self.pool.at(place));
        let (plan, leaves) = (&self.plan, &self.leaves);
        self.replay.restore(&saved, &mut *self.input, WantedItems::All, &mut |element| {
            batch.take(element, plan, leaves, buffer)
        })?;
        self.begun = Some(batch);
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        let begun = self.begun.take().map_or(0, |begun| begun.taken() as u64);
        self.replay.clear();
        let skipped = self.input.skip(count.saturating_mul(self.plan.batch.size as u64) - begun)?;
        Ok(self.plan.batch.batches(begun + skipped))
    }

    fn passes_freely(&self) -> bool {
        self.alike && self.input.passes_freely()
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
    }

    fn input(&mut self) -> Option<&mut dyn Pass<Value>> {
        Some(&mut *self.input)
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
            Error::invalid(
                "dataset",
                format!("an element of {MAX_RANK} dimensions cannot be batched"),
            )
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
