//! Batches of elements whose shapes differ.

use crate::error::{Error, Result};
use crate::input::element_buffer::{ElementBuffer, LeafBuffer};
use crate::input::gathered::Make;
use crate::input::leaves::{Leaf, Leaves};
use crate::input::numbering::Numbering;
use crate::input::spec::ElementSpec;
use crate::input::window::Window;
use crate::tensor::{Layout, MAX_RANK, Shape, Tensor};
use crate::values::Value;

/// Stacks elements and pads them.
pub(super) struct Pad {
    leaves: Leaves,
    window: Window,
}

impl Pad {
    /// To batches like `spec`.
    pub(super) fn new(spec: &ElementSpec) -> Result<Pad> {
        Ok(Pad { leaves: Leaves::of(spec), window: Window::new()? })
    }
}

impl Make for Pad {
    const IS_VIEW: bool = false;

    fn make(
        &mut self,
        elements: &[Value],
        _numbering: &Numbering,
        batch: &mut ElementBuffer,
    ) -> Result<()> {
        let (leaves, window) = (&self.leaves, &mut self.window);
        batch.fill(&mut |leaf, slot| stack_padded(elements, leaves.at(leaf), slot, window))
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
