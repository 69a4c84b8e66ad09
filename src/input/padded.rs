//! Batches of elements whose shapes differ.

use std::sync::Arc;

use crate::error::{Error, Result, memory};
use crate::input::batch::{batch_rows, batch_size, batches, words};
use crate::input::dataset::{Dataset, Kind};
use crate::input::frame::{Frame, LeafBuffer, Pool};
use crate::input::held::lacks_memory;
use crate::input::leaves::{Leaf, Leaves};
use crate::input::position::{Description, Mark, Reader, unfit};
use crate::input::spec::ElementSpec;
use crate::input::stage::{Pass, Stage};
use crate::input::trail::{Saved, Trail, Wanted};
use crate::input::window::Window;
use crate::tensor::{Layout, MAX_RANK, Shape, Tensor};
use crate::values::Value;

impl Dataset {
    /// Batches of `size` elements, stacked along a new dimension 0, each padded with zeros, at the
    /// end of each dimension, to the largest of its batch. The last batch is smaller if elements
    /// are left over; with `drop_remainder` they are left out.
    ///
    /// INVALID_ARGUMENT: a size below 1, elements of rank 8. While iterating, INVALID_ARGUMENT if
    /// the elements of a batch differ in dtype or rank (they are left out then) and
    /// RESOURCE_EXHAUSTED if there is no memory for one.
    pub fn padded_batch(&self, size: i64, drop_remainder: bool) -> Result<Dataset> {
        let again = move |input: &Dataset| input.padded_batch(size, drop_remainder);
        let size = batch_rows(size)?;
        let dimension = drop_remainder.then_some(size);
        let spec =
            self.element_spec().map(&mut |leaf| Ok(ElementSpec::Leaf(leaf.stacked(dimension)?)))?;
        let cardinality = self.cardinality().map(|count| batches(count, size, drop_remainder));
        let input = self.stream();
        let stage = Padded { size, drop_remainder, spec: spec.clone(), input };
        let batch_size = Some(batch_size(self.cardinality(), size, drop_remainder));
        let kind = Kind::Stream(Arc::new(stage));
        let batched = Dataset::batched(spec, cardinality, kind, batch_size).made_of([self])?;
        Ok(batched.batched_once_more(self).remade_of(self, again))
    }
}

struct Padded {
    size: usize,
    drop_remainder: bool,
    spec: ElementSpec,
    input: Arc<dyn Stage<Value>>,
}

impl Stage<Value> for Padded {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        Ok(Box::new(PaddedPass {
            size: self.size,
            drop_remainder: self.drop_remainder,
            leaves: Leaves::of(&self.spec),
            spec: self.spec.clone(),
            taken: Vec::new(),
            trail: Trail::default(),
            window: Window::new()?,
            input: self.input.start()?,
            pool: Pool::new(),
        }))
    }

    fn describe(&self, to: &mut Description) {
        to.stage(words("padded batch", self.size, self.drop_remainder));
        self.input.describe(to);
    }
}

struct PaddedPass {
    size: usize,
    drop_remainder: bool,
    spec: ElementSpec,
    leaves: Leaves,
    /// The elements of the batch at hand. They stay if the next one fails, or if there is no memory for the
    /// batch.
    taken: Vec<Value>,
    trail: Trail,
    window: Window,
    input: Box<dyn Pass<Value>>,
    pool: Pool<Frame>,
}

impl PaddedPass {
    fn let_go(&mut self) {
        self.taken.clear();
        self.trail.clear();
    }
}

/// Holds an element that a position says to be held, together with at most `most`.
pub(super) fn hold(held: &mut Vec<Value>, element: Value, most: usize) -> Result<()> {
    if held.len() == most {
        return Err(unfit(&format!("more than {most} elements of a batch")));
    }
    memory::room(held, 1, "elements of a batch")?;
    held.push(element);
    Ok(())
}

impl Pass<Value> for PaddedPass {
    fn next(&mut self) -> Result<Option<Value>> {
        while self.taken.len() < self.size {
            memory::room(&mut self.taken, 1, "elements of a batch")?;
            let Some(element) = self.trail.next(&mut *self.input)? else { break };
            self.taken.push(element);
        }
        if self.taken.is_empty() || (self.drop_remainder && self.taken.len() < self.size) {
            self.let_go();
            return Ok(None);
        }
        let frame = self.pool.claim(|| Frame::new(&self.spec))?;
        let (leaves, taken, window) = (&self.leaves, &self.taken, &mut self.window);
        let filled =
            frame.fill(&mut |leaf, slot| stack_padded(taken, leaves.at(leaf), slot, window));
        let element = filled.map(|()| frame.value());
        if !lacks_memory(&element) {
            self.let_go();
        }
        element.map(Some)
    }

    fn restart(&mut self) -> Result<()> {
        self.let_go();
        self.input.restart()
    }

    fn save(&self, to: &mut Mark) {
        self.trail.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        let saved = Saved::read(from)?;
        let (taken, size) = (&mut self.taken, self.size);
        taken.clear();
        self.trail.restore(&saved, &mut *self.input, Wanted::All, &mut |element| {
            hold(taken, element, size)
        })
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        let begun = self.taken.len() as u64;
        self.let_go();
        let wanted = count.saturating_mul(self.size as u64) - begun;
        let elements = begun + self.input.skip(wanted)?;
        Ok(batches(elements, self.size, self.drop_remainder))
    }

    // The spec says which dtype and rank all elements have, and other differences are padded.
    fn passes_freely(&self) -> bool {
        self.input.passes_freely()
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
    }

    fn announce(&mut self) {
        self.input.announce();
    }
}

/// Copies one tensor of each element to its row, and zeros around it.
fn stack_padded(
    elements: &[Value],
    leaf: Leaf<'_>,
    slot: &mut LeafBuffer<'_>,
    window: &mut Window,
) -> Result<()> {
    let shape = padded_shape(elements, leaf)?;
    let first = leaf.of(&elements[0])?;
    slot.own(first.dtype(), shape, 0)?;
    let row = shape.without(0);
    let mut padded = false;
    for element in elements {
        padded |= leaf.of(element)?.shape() != row;
    }
    if padded {
        slot.own_tensor().fill_zeros()?;
    }
    let target = slot.tensor();
    for (position, element) in elements.iter().enumerate() {
        let source = leaf.of(element)?;
        let (layout, offset) = corner(target, position, &source.shape())?;
        window.copy((source, *source.layout(), 0), (target, layout, offset))?;
    }
    Ok(())
}

/// The shape of the batch: the largest size of each dimension, behind the number of elements.
fn padded_shape(elements: &[Value], leaf: Leaf<'_>) -> Result<Shape> {
    let first = leaf.of(&elements[0])?;
    let rank = first.shape().rank();
    let mut sizes = [0; MAX_RANK + 1];
    sizes[0] = elements.len();
    for (position, element) in elements.iter().enumerate() {
        let tensor = leaf.of(element)?;
        if tensor.dtype() != first.dtype() || tensor.shape().rank() != rank {
            return Err(Error::invalid(
                "dataset",
                format!(
                    "element {position} of a padded batch is {} of shape {}, element 0 is {} of \
                     shape {}; dtype and rank must be the same",
                    tensor.dtype(),
                    tensor.shape(),
                    first.dtype(),
                    first.shape()
                ),
            ));
        }
        for (largest, &size) in sizes[1..].iter_mut().zip(tensor.shape().iter()) {
            *largest = size.max(*largest);
        }
    }
    Shape::new(&sizes[..rank + 1])
}

/// The first `shape` positions of row `position` of `target`: a layout, and where it begins.
fn corner(target: &Tensor, position: usize, shape: &Shape) -> Result<(Layout, usize)> {
    let strides = target.layout().strides();
    let layout = Layout::strided(*shape, &strides[1..])?;
    Ok((layout, position * strides[0] as usize))
}
