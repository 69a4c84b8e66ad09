//! Tensors that are read of a file once it is known that all of them fit.

use crate::error::{Error, Result};
use crate::tensor::{DType, Shape, Tensor};

/// A tensor that is read once it is known that all that is wanted of the file fits: its place among them.
#[derive(Clone, Copy, Debug)]
pub struct Later(usize);

/// The tensors that are wanted of a file.
#[derive(Default)]
pub(super) struct WantedTensors(pub(super) Vec<One>);

pub(super) enum One {
    /// Of this name, dtype and shape.
    OfFile(String, DType, Shape),
    /// It was read.
    Read(Tensor),
}

impl WantedTensors {
    /// Adds one that is in the file with this dtype and shape.
    pub(super) fn add(&mut self, name: &str, dtype: DType, shape: Shape) -> Later {
        self.push(One::OfFile(name.to_owned(), dtype, shape))
    }

    /// Adds one that was read.
    pub(super) fn add_read(&mut self, tensor: Tensor) -> Later {
        self.push(One::Read(tensor))
    }

    fn push(&mut self, one: One) -> Later {
        self.0.push(one);
        Later(self.0.len() - 1)
    }
}

/// The tensors that were wanted of a file.
#[derive(Default)]
pub(super) struct Values(pub(super) Vec<Tensor>);

impl Values {
    /// One of them.
    pub(super) fn get(&self, later: Later) -> Result<&Tensor> {
        self.0.get(later.0).ok_or_else(lost)
    }
}

pub(super) fn lost() -> Error {
    Error::Internal("a tensor that was to be read of a file was not".into())
}
