//! Stacks several elements along a new first dimension.

use crate::elements::element_buffer::{ElementBuffer, LeafBuffer};
use crate::elements::leaves::{LeafOf, Leaves};
use crate::elements::spec::{ElementSpec, described};
use crate::elements::window::{RowWindow, Window};
use crate::passes::batch_counter::BatchCounter;
use crate::passes::gathered::Make;
use umbo_base::error::Result;
use umbo_kernels::rows;
use umbo_tensor::values::Value;
use umbo_tensor::{Layout, MAX_RANK, Shape, Tensor};

/// Stacks elements. They have the same shape, unless it pads them.
pub(crate) struct Stack {
    leaves: Leaves,
    window: Window,
    pads: bool,
}

impl Stack {
    /// Stacks elements into batches like `spec`.
    pub(crate) fn new(spec: &ElementSpec, pads: bool) -> Result<Stack> {
        Ok(Stack {
            leaves: Leaves::of(spec),
            window: Window::new()?,
            pads,
        })
    }

    /// Copies one tensor of each element to its row, and fills the space around smaller ones with
    /// zeros.
    fn stack(
        elements: &[Value],
        leaf_of: LeafOf<'_>,
        slot: &mut LeafBuffer<'_>,
        window: &mut Window,
        pads: bool,
    ) -> Result<()> {
        let (shape, differ) = batch_shape(elements, leaf_of, pads)?;
        slot.own(leaf_of(&elements[0])?.dtype(), shape, 0)?;
        if differ {
            slot.own_tensor().fill_zeros()?;
        }
        for (position, element) in elements.iter().enumerate() {
            let source = leaf_of(element)?;
            if differ {
                let (layout, offset) = corner(slot.tensor(), position, &source.shape())?;
                let whole = RowWindow {
                    tensor: source,
                    layout: *source.layout(),
                    offset: 0,
                };
                let row = RowWindow {
                    tensor: slot.tensor(),
                    layout,
                    offset,
                };
                window.copy(whole, row)?;
            } else {
                let mut batch = slot.own_tensor();
                rows::copy_to_row(
                    &source.on_host()?.reading()?,
                    &mut batch.writing()?,
                    position,
                )?;
            }
        }
        Ok(())
    }
}

impl Make for Stack {
    const IS_VIEW: bool = false;

    fn make(
        &mut self,
        elements: &[Value],
        _numbering: &BatchCounter,
        batch: &mut ElementBuffer,
    ) -> Result<()> {
        let Stack {
            leaves,
            window,
            pads,
        } = self;
        batch.fill(&mut |leaf, slot| {
            Stack::stack(
                elements,
                &|element| leaves.tensor(element, leaf),
                slot,
                window,
                *pads,
            )
        })
    }
}

/// The shape of the batch: the number of elements, and then the largest size of each dimension.
/// Also returns whether elements differ in shape.
fn batch_shape(elements: &[Value], leaf_of: LeafOf<'_>, pads: bool) -> Result<(Shape, bool)> {
    let first = leaf_of(&elements[0])?;
    let shape = first.shape();
    let rank = first.shape().rank();
    let mut sizes = [0; MAX_RANK + 1];
    sizes[0] = elements.len();
    sizes[1..=rank].copy_from_slice(&shape);
    let mut differ = false;
    for (position, element) in elements.iter().enumerate() {
        let tensor = leaf_of(element)?;
        let is_like = tensor.shape() == shape;
        let fits = is_like || (pads && tensor.shape().rank() == rank);
        if tensor.dtype() != first.dtype() || !fits {
            let (batch, rule) = match pads {
                true => ("a padded batch", "dtype and rank must be the same"),
                false => (
                    "a batch",
                    "the elements of one batch have one dtype and shape",
                ),
            };
            return Err(invalid!(
                "dataset",
                "element {position} of {batch} is {}, element 0 is {}; {rule}",
                described(tensor),
                described(first)
            ));
        }
        differ |= !is_like;
        for (largest, &size) in sizes[1..].iter_mut().zip(tensor.shape().iter()) {
            *largest = size.max(*largest);
        }
    }
    Ok((Shape::new(&sizes[..=rank])?, differ))
}

/// The part of row `position` of `target` that has `shape` and begins at the row's start: a layout,
/// and its first element.
fn corner(target: &Tensor, position: usize, shape: &Shape) -> Result<(Layout, usize)> {
    let strides = target.layout().strides();
    let layout = Layout::strided(*shape, &strides[1..])?;
    Ok((layout, position * strides[0] as usize))
}
