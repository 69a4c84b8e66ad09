//! Operations on the elements of tensors, by the rule of [the module](crate): nobody else uses the
//! elements that a writer writes. If elements are on a device and there is no kernel for an
//! operation, they are copied to the host.

use crate::{DType, Element, Shape, Tensor, TensorMut, View, transfer};
use umbo_base::error::{Result, memory};
use umbo_device::DeviceId;
use umbo_kernels::copy::combine::combine;
use umbo_kernels::copy::layouts;
use umbo_kernels::float::real;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::launch::on_device;
use umbo_kernels::rows::scatter::{self, ScatterOp};

impl TensorMut<'_> {
    /// Writes the elements of `from`, of the same dtype and shape, to this tensor. They may share
    /// memory: the elements that `from` had before the call are written.
    ///
    /// Fails with INVALID_ARGUMENT if dtype or shape differ or this tensor is read-only, and with
    /// RESOURCE_EXHAUSTED if overlapping memory has to be copied and there is no memory for the
    /// copy.
    pub fn copy_from(&mut self, from: &Tensor) -> Result<()> {
        if self.tensor.is_placed_like(from) {
            return self.check_writable();
        }
        let from = from.apart_from(self.tensor)?;
        if !(from.device().is_host_memory() && self.tensor.device().is_host_memory()) {
            return transfer::copy(&from, self);
        }
        self.copy_from_view(&from.reading()?)
    }

    /// Writes the elements of a view of other memory, of the same dtype and shape.
    pub fn copy_from_view(&mut self, from: &View<'_>) -> Result<()> {
        self.through_host(false, |to| {
            layouts::copy(Instructions::chosen(), from, &mut to.writing()?)
        })
    }

    /// Writes the elements of `from` to the elements from `start` on along `axis`, as many as
    /// `from` has there. Everything else is as in [`TensorMut::copy_from`].
    pub fn copy_part_from(&mut self, axis: usize, start: usize, from: &Tensor) -> Result<()> {
        let part = self
            .tensor
            .slice(axis, start, start + from.shape()[axis], 1)?;
        TensorMut { tensor: &part }.copy_from(from)
    }

    /// `self += from`, or `self -= from` if it `subtracts`, element by element, in the tensors'
    /// common dtype: integers wrap, and floats are rounded after the operation. Refuses bool.
    /// Everything else is as in [`TensorMut::copy_from`].
    pub fn combine_from(&mut self, from: &Tensor, subtracts: bool) -> Result<()> {
        let mut from = from.apart_from(self.tensor)?;
        if let Some(backend) = self.tensor.backend()? {
            self.check_writable()?;
            if from.device() != self.device() {
                from = from.copied_to(self.device())?;
            }
            let from = from.place();
            let to = self.tensor.place();
            // SAFETY: the elements are those of the tensors, which do not overlap. This tensor has
            // the right to write its own.
            return on_device(backend, |launcher| unsafe {
                launcher.combine(&from, &to, subtracts)
            });
        }
        let from = from.on_host()?;
        combine(
            Instructions::chosen(),
            &from.reading()?,
            &mut self.writing()?,
            subtracts,
        )
    }

    /// Combines row `i` of `values` into row `indices[i]` of this tensor, for all rows in order.
    ///
    /// Fails, with nothing changed, with OUT_OF_RANGE for an index that is not a row of this
    /// tensor; with INVALID_ARGUMENT if dtype or dimensions do not fit, if this tensor is read-only
    /// or not contiguous, for arithmetic on bool, and for an integer divided by zero; and with
    /// RESOURCE_EXHAUSTED if there is no memory for the indices.
    pub fn scatter_rows(&mut self, op: ScatterOp, values: &Tensor, indices: &Tensor) -> Result<()> {
        let indices = indices.to_vec::<i64>()?;
        let values = values.apart_from(self.tensor)?.on_host()?.to_contiguous()?;
        self.through_host(true, |to| {
            scatter::scatter(op, &values.reading()?, &indices, &mut to.writing()?)
        })
    }

    /// Sets all elements to zero (false for bool).
    ///
    /// Fails with INVALID_ARGUMENT if the tensor is read-only.
    pub fn fill_zeros(&mut self) -> Result<()> {
        self.fill(0.0)
    }

    /// Sets all elements to `value`, rounded to their type.
    ///
    /// Fails with INVALID_ARGUMENT if the tensor is read-only.
    pub fn fill(&mut self, value: f64) -> Result<()> {
        let Some(backend) = self.tensor.backend()? else {
            layouts::fill(&mut self.writing()?, value);
            return Ok(());
        };
        self.check_writable()?;
        let place = self.tensor.place();
        // SAFETY: the elements are those of the tensor, which has the right to write them.
        on_device(backend, |launcher| unsafe { launcher.fill(&place, value) })
    }

    /// Sets the elements, which are contiguous floats, to the results of `next`, one after the
    /// other.
    ///
    /// Fails with INVALID_ARGUMENT if the tensor is read-only.
    pub fn fill_with(&mut self, next: &mut dyn FnMut() -> f64) -> Result<()> {
        self.through_host(false, |to| {
            real::fill_with(&mut to.writing()?, next);
            Ok(())
        })
    }
}

impl Tensor {
    /// The elements in row-major order.
    ///
    /// Fails with INVALID_ARGUMENT if `T` is not the type of the elements.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if self.dtype() != T::DTYPE {
            return Err(invalid!(
                "tensor",
                "its elements are {}, not {}",
                self.dtype(),
                T::DTYPE
            ));
        }
        let contiguous = self.on_host()?.to_contiguous()?;
        let view = contiguous.reading()?;
        let elements = view.as_slice::<T>().unwrap_or_default();
        let mut copy = memory::list(elements.len(), "elements of a copy")?;
        copy.extend_from_slice(elements);
        Ok(copy)
    }

    /// Copies the elements, in row-major order, to `destination`, whose length must be their size
    /// in bytes.
    ///
    /// Fails with INVALID_ARGUMENT if it has another length.
    pub fn copy_to_host(&self, destination: &mut [u8]) -> Result<()> {
        let expected = self.shape().bytes(self.dtype())?;
        if destination.len() != expected {
            return Err(invalid!(
                "bytes",
                "{}; {self:?} has {expected}",
                destination.len()
            ));
        }
        layouts::copy_to_bytes(&self.on_host()?.reading()?, destination)
    }

    /// Whether the memory ranges of the two tensors have bytes in common. Slices that interleave
    /// without sharing an element count as overlapping.
    pub fn overlaps(&self, other: &Tensor) -> bool {
        let device = self.device();
        let others = other.device();
        // CPUs share their memory.
        if device != others && !(device.is_host_memory() && others.is_host_memory()) {
            return false;
        }
        let range = |tensor: &Tensor| {
            let start = tensor.address().addr();
            start..start + tensor.layout().extent() * tensor.dtype().size()
        };
        let left = range(self);
        let right = range(other);
        !left.is_empty() && !right.is_empty() && left.start < right.end && right.start < left.end
    }

    /// This tensor if it is contiguous, else a contiguous copy on its device.
    pub fn to_contiguous(&self) -> Result<Tensor> {
        if self.layout().is_contiguous() {
            return Ok(self.clone());
        }
        self.copied()
    }

    fn copied(&self) -> Result<Tensor> {
        self.copied_to(self.device())
    }

    /// This tensor, or a copy if a write to `written` would change it.
    fn apart_from(&self, written: &Tensor) -> Result<Tensor> {
        if self.overlaps(written) {
            self.copied()
        } else {
            Ok(self.clone())
        }
    }

    /// Whether both have the same elements in the same order.
    fn is_placed_like(&self, other: &Tensor) -> bool {
        let place = |tensor: &Tensor| -> (DeviceId, usize, DType, Shape) {
            let device = match tensor.device() {
                device if device.is_host_memory() => DeviceId::HOST,
                device => device,
            };
            (
                device,
                tensor.address().addr(),
                tensor.dtype(),
                tensor.shape(),
            )
        };
        place(self) == place(other) && self.layout() == other.layout()
    }
}
