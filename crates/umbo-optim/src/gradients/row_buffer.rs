//! Memory for rows whose number changes from step to step.

use std::sync::Arc;

use umbo_base::error::{Result, memory};
use umbo_device::DeviceId;
use umbo_kernels::view::Span;
use umbo_tensor::storage::Storage;
use umbo_tensor::{DType, Layout, Shape, Tensor, TensorParts};

/// A contiguous tensor of rows. It keeps its memory when it grows: as many rows as before cost no
/// allocation.
pub(crate) struct RowBuffer {
    tensor: Tensor,
}

impl RowBuffer {
    /// An empty buffer, for rows like those of `shape`.
    pub(crate) fn new(dtype: DType, shape: Shape, device: DeviceId) -> Result<RowBuffer> {
        Ok(RowBuffer {
            tensor: Tensor::zeros(dtype, shape.with_size(0, 0), device)?,
        })
    }

    /// The rows.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The rows as a span.
    pub(crate) fn span(&self) -> Span<'_> {
        self.tensor
            .span()
            .expect("it is contiguous, in host memory")
    }

    /// Sets the number of rows to `rows`, and the capacity to at least `most` rows. The contents
    /// are unspecified.
    pub(crate) fn resize(&mut self, rows: usize, most: usize) -> Result<()> {
        let dtype = self.tensor.dtype();
        let device = self.tensor.device();
        let too_many = |_| {
            let row = self.tensor.shape().without(0);
            memory::exhausted(most, format_args!("rows of {dtype} and shape {row}"))
        };
        let shape = self.tensor.shape().with_size(0, rows);
        let largest = Shape::new(&self.tensor.shape().with_size(0, most)).map_err(too_many)?;
        let bytes = largest.bytes(dtype).map_err(too_many)?;
        let (storage, _) = self.tensor.storage();
        let capacity = storage.bytes();
        let storage = if bytes <= capacity {
            Arc::clone(storage)
        } else {
            // Half as much again, so that slow growth does not allocate in every step.
            let bytes = bytes.max(capacity.saturating_add(capacity / 2));
            Arc::new(Storage::zeroed(bytes, device).map_err(too_many)?)
        };
        let layout = Layout::row_major(shape);
        let parts = TensorParts {
            storage: &storage,
            dtype,
            layout,
            offset: 0,
            device,
            share: None,
        };
        if !self.tensor.try_replace(&parts) {
            // Somebody still holds the old tensor.
            self.tensor = Tensor::from_storage(storage, dtype, layout, 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sizes: &[usize]) -> Shape {
        Shape::new(sizes).unwrap()
    }

    #[test]
    fn memory_is_kept() {
        let mut buffer = RowBuffer::new(DType::Float32, shape(&[9, 2, 3]), DeviceId::HOST).unwrap();
        assert_eq!(buffer.tensor().shape(), shape(&[0, 2, 3]));
        buffer.resize(1, 5).unwrap();
        let data = buffer.tensor().address();
        for rows in [0, 3, 5] {
            buffer.resize(rows, rows).unwrap();
            assert_eq!(
                (buffer.tensor().address(), buffer.tensor().shape()),
                (data, shape(&[rows, 2, 3]))
            );
        }
        // A tensor that somebody holds does not change.
        let held = buffer.tensor().clone();
        buffer.resize(7, 7).unwrap();
        assert_eq!((held.shape()[0], buffer.tensor().shape()[0]), (5, 7));
    }

    #[test]
    fn sizes_past_memory_are_refused() {
        let mut buffer = RowBuffer::new(DType::Float64, shape(&[1, 8]), DeviceId::HOST).unwrap();
        buffer.resize(2, 2).unwrap();
        for rows in [usize::MAX, usize::MAX / 64, 1 << 56] {
            let error = buffer.resize(rows, rows).unwrap_err();
            assert_eq!(
                error.status(),
                umbo_base::error::Status::ResourceExhausted,
                "{error}"
            );
        }
        assert_eq!(buffer.tensor().shape(), shape(&[2, 8]));
    }
}
