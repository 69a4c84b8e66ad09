//! Indexed slices: some rows of a tensor, selected by number.

use crate::{DType, Shape, Tensor};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_kernels::rows::scatter::ScatterOp;

/// Some rows of a dense tensor: row `i` of the values belongs to row `indices[i]`. Rows may appear
/// in any order and more than once. If a row appears several times, its values are added.
///
/// Code that uses the indices checks whether they lie within the dense shape, since the caller may
/// write their memory until then.
#[derive(Debug)]
pub struct IndexedSlices {
    values: Tensor,
    indices: Tensor,
    dense_shape: Shape,
}

impl IndexedSlices {
    /// Indexed slices of a tensor of shape `dense_shape`, which is `[rows, rest...]`. The shape of
    /// `values` is `[k, rest...]`, and `indices` is int64 of shape `[k]`.
    ///
    /// Fails with INVALID_ARGUMENT if they do not fit each other.
    pub fn new(values: Tensor, indices: Tensor, dense_shape: Shape) -> Result<IndexedSlices> {
        if indices.dtype() != DType::Int64 || indices.shape().rank() != 1 {
            return Err(invalid!(
                "indices",
                "{} of shape {}; int64 of one dimension is expected",
                indices.dtype(),
                indices.shape()
            ));
        }
        if dense_shape.rank() == 0 {
            return Err(invalid!(
                "dense_shape",
                "is a scalar's; a scalar has no rows"
            ));
        }
        let rows = indices.shape()[0];
        if values.shape() != dense_shape.with_size(0, rows) {
            return Err(invalid!(
                "values",
                "have shape {}; {rows} indices into shape {dense_shape} need shape {}",
                values.shape(),
                dense_shape.with_size(0, rows)
            ));
        }
        Ok(IndexedSlices {
            values,
            indices,
            dense_shape,
        })
    }

    /// The rows.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// The row of the dense tensor to which each row of the values belongs.
    pub fn indices(&self) -> &Tensor {
        &self.indices
    }

    /// The shape of the dense tensor.
    pub fn dense_shape(&self) -> Shape {
        self.dense_shape
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// The device that holds the values.
    pub fn device(&self) -> DeviceId {
        self.values.device()
    }

    /// The dense tensor, as a fresh tensor on `device`. It has the sums of the slices' rows, and
    /// zeros in all other rows.
    ///
    /// Fails with OUT_OF_RANGE for an index outside of the dense shape, with INVALID_ARGUMENT for
    /// bool, and with RESOURCE_EXHAUSTED if there is no memory.
    pub fn to_dense(&self, device: DeviceId) -> Result<Tensor> {
        let mut dense = Tensor::zeros(self.dtype(), self.dense_shape, device)?;
        let mut fresh = dense
            .get_mut()
            .ok_or_else(|| Error::Internal("a fresh tensor is shared".into()))?;
        fresh.scatter_rows(ScatterOp::Add, &self.values, &self.indices)?;
        Ok(dense)
    }
}
