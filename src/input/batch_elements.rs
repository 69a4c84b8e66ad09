//! Batches of elements that come one by one.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::batch::Plan;
use crate::input::frame::{Frame, LeafBuffer, Pool};
use crate::input::held::lacks_memory;
use crate::input::leaves::Leaves;
use crate::input::position::{Description, Mark, Reader, unfit};
use crate::input::stage::{Pass, Stage};
use crate::input::trail::{Saved, Trail, Wanted};
use crate::kernels::rows;
use crate::tensor::{MAX_RANK, Shape, Tensor};
use crate::values::Value;

/// Batches of elements that come one by one.
pub(super) struct BatchElements {
    pub(super) plan: Plan,
    pub(super) input: Arc<dyn Stage<Value>>,
}

impl Stage<Value> for BatchElements {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        let (plan, input) = (self.plan.clone(), self.input.start()?);
        let leaves = Leaves::of(&plan.spec);
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
