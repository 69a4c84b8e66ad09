//! Tensors that are read from a file once it is known that all of them fit.

use umbo_base::error::{Error, Result};
use umbo_tensor::{DType, Shape, Tensor};

/// A tensor that is read once it is known that all wanted tensors fit. The number is its position
/// among them.
#[derive(Clone, Copy, Debug)]
pub struct PendingTensor(usize);

/// The wanted tensors of a file.
#[derive(Default)]
pub(super) struct WantedTensors(pub(super) Vec<One>);

pub(super) enum One {
    /// A tensor in the file itself.
    OfFile(PlacedTensor),
    /// A tensor that was already read.
    Read(Tensor),
}

/// A tensor in a file itself, not in a part: its position among the file's tensors, and the dtype
/// and shape that it has.
#[derive(Clone, Copy)]
pub(super) struct PlacedTensor {
    pub position: usize,
    pub dtype: DType,
    pub shape: Shape,
}

impl WantedTensors {
    /// Adds a tensor that is in the file.
    pub(super) fn add(&mut self, placed: PlacedTensor) -> PendingTensor {
        self.push(One::OfFile(placed))
    }

    /// Adds a tensor that was already read.
    pub(super) fn add_read(&mut self, tensor: Tensor) -> PendingTensor {
        self.push(One::Read(tensor))
    }

    fn push(&mut self, one: One) -> PendingTensor {
        self.0.push(one);
        PendingTensor(self.0.len() - 1)
    }
}

/// The wanted tensors, after they were read.
#[derive(Default)]
pub(super) struct Values(pub(super) Vec<Tensor>);

impl Values {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The tensor at position `later`.
    pub(super) fn get(&self, later: PendingTensor) -> Result<&Tensor> {
        self.0.get(later.0).ok_or_else(lost)
    }
}

pub(super) fn lost() -> Error {
    Error::Internal("a tensor that was to be read of a file was not".into())
}
