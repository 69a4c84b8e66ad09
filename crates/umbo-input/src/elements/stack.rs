//! Stacks several elements along a new first dimension.

use crate::elements::element_buffer::{ElementBuffer, LeafBuffer};
use crate::elements::leaves::{LeafOf, Leaves};
use crate::elements::padding::Padding;
use crate::elements::spec::{ElementSpec, described};
use crate::elements::window::{RowWindow, Window};
use crate::passes::batch_counter::BatchCounter;
use crate::passes::gathered::Make;
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_kernels::rows;
use umbo_tensor::values::Value;
use umbo_tensor::{DType, Layout, MAX_RANK, Shape, Tensor};

/// Stacks elements. They have the same shape, unless it pads them.
pub(crate) struct Stack {
    leaves: Leaves,
    window: Window,
    padding: Option<Padding>,
    /// The scalar of which masks are made.
    yes: Tensor,
}

impl Stack {
    /// Stacks elements like `element` into batches. With padding that has a mask, the batches are
    /// tuples of the stacked elements and their masks.
    pub(crate) fn new(element: &ElementSpec, padding: Option<Padding>) -> Result<Stack> {
        let yes = Tensor::made(DType::Bool, Shape::new(&[])?, DeviceId::HOST, |yes| {
            yes.fill(1.0)
        })?;
        Ok(Stack {
            leaves: Leaves::of(element),
            window: Window::new()?,
            padding,
            yes,
        })
    }
}

/// Copies one tensor of each element to its row. With `padding`, elements may be smaller than
/// others, and the space around them is filled with its scalar or, without one, with zeros.
fn stack(
    elements: &[Value],
    leaf_of: LeafOf<'_>,
    slot: &mut LeafBuffer<'_>,
    window: &mut Window,
    padding: Option<Option<&Tensor>>,
) -> Result<()> {
    let (shape, differ) = batch_shape(elements, leaf_of, padding.is_some())?;
    slot.own(leaf_of(&elements[0])?.dtype(), shape, 0)?;
    if differ {
        match padding.flatten() {
            Some(value) => {
                window.copy(repeated(value, shape)?, whole(slot.tensor()))?;
            }
            None => slot.own_tensor().fill_zeros()?,
        }
    }
    for (position, element) in elements.iter().enumerate() {
        let source = leaf_of(element)?;
        if differ {
            let row = corner(slot.tensor(), position, &source.shape())?;
            window.copy(whole(source), row)?;
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

/// Makes the mask of one tensor: for each element, as many places as it has in its first dimension.
fn mask(
    elements: &[Value],
    leaf_of: LeafOf<'_>,
    slot: &mut LeafBuffer<'_>,
    window: &mut Window,
    yes: &Tensor,
) -> Result<()> {
    let (batch, _) = batch_shape(elements, leaf_of, true)?;
    let dimensions = batch.rank().min(2);
    slot.own(DType::Bool, Shape::new(&batch[..dimensions])?, 0)?;
    slot.own_tensor().fill_zeros()?;
    for (position, element) in elements.iter().enumerate() {
        let shape = leaf_of(element)?.shape();
        let places = Shape::new(&shape[..dimensions - 1])?;
        let row = corner(slot.tensor(), position, &places)?;
        window.copy(repeated(yes, places)?, row)?;
    }
    Ok(())
}

/// All elements of a tensor.
fn whole(tensor: &Tensor) -> RowWindow<'_> {
    RowWindow {
        tensor,
        layout: *tensor.layout(),
        offset: 0,
    }
}

/// A scalar in all places of `shape`.
fn repeated(scalar: &Tensor, shape: Shape) -> Result<RowWindow<'_>> {
    Ok(RowWindow {
        tensor: scalar,
        layout: Layout::strided(shape, &[0; MAX_RANK][..shape.rank()])?,
        offset: 0,
    })
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
            padding,
            yes,
        } = self;
        batch.fill(&mut |number, slot| {
            // Masks come behind the tensors.
            let leaf = number % leaves.count();
            let leaf_of: LeafOf<'_> = &|element| leaves.tensor(element, leaf);
            if number != leaf {
                return mask(elements, leaf_of, slot, window, yes);
            }
            let value = padding.as_ref().map(|padding| padding.value(leaf));
            stack(elements, leaf_of, slot, window, value)
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

/// The part of row `position` of `tensor` that has `shape` and begins at the row's start.
fn corner<'a>(tensor: &'a Tensor, position: usize, shape: &Shape) -> Result<RowWindow<'a>> {
    let strides = tensor.layout().strides();
    Ok(RowWindow {
        tensor,
        layout: Layout::strided(*shape, &strides[1..=shape.rank()])?,
        offset: position * strides[0] as usize,
    })
}
