//! Copying between parts of tensors without making tensors of the parts.

#![expect(
    unsafe_code,
    reason = "part of a buffer that nobody else has is written"
)]

use crate::elements::element_buffer;
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_tensor::{DType, Layout, Shape, Tensor};

/// Two tensors that are set to the parts to copy from and to.
pub(crate) struct Window {
    from: Tensor,
    to: Tensor,
    nothing: Tensor,
}

/// A part of a tensor.
#[derive(Clone, Copy)]
pub(crate) struct RowWindow<'a> {
    pub(crate) tensor: &'a Tensor,
    /// The part's layout in the tensor's storage.
    pub(crate) layout: Layout,
    /// The number of elements before its first one.
    pub(crate) offset: usize,
}

impl Window {
    pub(crate) fn new() -> Result<Window> {
        let nothing = Tensor::zeros(DType::UInt8, Shape::new(&[0])?, DeviceId::HOST)?;
        let part = || nothing.slice(0, 0, 0, 1);
        Ok(Window {
            from: part()?,
            to: part()?,
            nothing,
        })
    }

    /// Copies the elements of `source` to the same positions of `target`, which has the same dtype
    /// and shape. INVALID_ARGUMENT if they differ.
    pub(crate) fn copy(&mut self, source: RowWindow<'_>, target: RowWindow<'_>) -> Result<()> {
        point(&mut self.from, source)?;
        point(&mut self.to, target)?;
        // SAFETY: the target is part of a buffer that is being filled, and that nobody else has.
        let copied = unsafe { self.to.assume_exclusive() }.copy_from(&self.from);
        // Memory to which a tensor still refers cannot be used again.
        let nothing = RowWindow {
            tensor: &self.nothing,
            layout: *self.nothing.layout(),
            offset: 0,
        };
        point(&mut self.from, nothing)?;
        point(&mut self.to, nothing)?;
        copied
    }
}

fn point(window: &mut Tensor, part: RowWindow<'_>) -> Result<()> {
    let device = part.tensor.device();
    element_buffer::view(window, part.tensor, part.layout, part.offset, device, None)
}
