//! Tensors of the caller. They are saved from, and restored into, the same memory.

#![expect(unsafe_code, reason = "who restores guarantees the caller's tensors")]

use crate::saveable::{Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable};
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_tensor::Tensor;
use umbo_tensor::collectives::{copy_into, copy_to};

/// A tensor of the caller.
pub struct CallersTensor(Tensor);

impl CallersTensor {
    /// Wraps `tensor`, whose elements must be writable.
    ///
    /// # Safety
    /// While a checkpoint is saved, nobody writes the elements. While it is restored, nobody reads
    /// or writes them.
    pub unsafe fn new(tensor: Tensor) -> Result<CallersTensor> {
        // SAFETY: nothing is written here.
        let writable = unsafe { tensor.assume_exclusive() }.into_view().map(|_| ());
        writable.map_err(|error| invalid!("tensor", "it could not be restored: {error}"))?;
        Ok(CallersTensor(tensor))
    }
}

impl Saveable for CallersTensor {
    fn kind(&self) -> &'static str {
        "tensor"
    }

    fn save(&self, _names: &Names<'_>, record: &mut ObjectRecord) -> Result<()> {
        record.whole(match record.is_written_at_once() {
            true => self.0.on_host()?.to_contiguous()?,
            false => copy_to(&self.0, DeviceId::HOST)?,
        });
        Ok(())
    }

    fn prepare<'a>(&'a self, _names: &Names<'_>, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let value = saved.later(None, self.0.dtype(), self.0.shape())?;
        Ok(value.map(|value| {
            PreparedRestore::by(move |changes| {
                // SAFETY: the caller that added the tensor has promised that nobody uses it while
                // it is restored.
                copy_into(changes.value(value)?, &mut unsafe {
                    self.0.assume_exclusive()
                })
            })
        }))
    }
}
