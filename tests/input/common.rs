//! Making arrays and reading elements.

use std::path::PathBuf;

use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{Dataset, PassIterator};
use umbo_core::tensor::{DType, Element, Shape, Tensor};
use umbo_core::values::Value;

/// An int32 tensor of 0, 1, 2, ... in this shape.
pub fn counting(shape: &[usize]) -> Tensor {
    let shape = Shape::new(shape).unwrap();
    let data: Vec<i32> = (0..shape.elements() as i32).collect();
    Tensor::from_slice(&data, shape, DeviceId::HOST).unwrap()
}

/// The numbers 0 to before `count`, as scalars.
pub fn numbers(count: usize) -> Dataset {
    Dataset::from_tensor_slices(&Value::Tensor(counting(&[count]))).unwrap()
}

/// The elements of a contiguous tensor.
pub fn read<T: Element>(tensor: &Tensor) -> Vec<T> {
    assert_eq!(tensor.dtype(), T::DTYPE);
    assert!(tensor.layout().is_contiguous());
    let elements = tensor.shape().elements();
    // SAFETY: the tensor is contiguous and of this type, and the tests write no tensors.
    (0..elements)
        .map(|at| unsafe { tensor.address().cast::<T>().add(at).read() })
        .collect()
}

/// The int32 elements of a value that is a tensor.
pub fn ints(value: &Value) -> Vec<i32> {
    let Value::Tensor(tensor) = value else {
        panic!("{value:?} is no tensor")
    };
    assert_eq!(tensor.dtype(), DType::Int32);
    read(tensor)
}

/// The int32 elements of each component.
pub fn parts(value: &Value) -> Vec<Vec<i32>> {
    (0..value.count())
        .map(|replica| read(value.tensor_of(replica).unwrap()))
        .collect()
}

/// What `read` makes of each element that is left.
pub fn rest<T>(iterator: &PassIterator, read: impl Fn(&Value) -> T) -> Vec<T> {
    std::iter::from_fn(|| iterator.next().unwrap())
        .map(|element| read(&element))
        .collect()
}

/// The int32 elements of each element of one pass.
pub fn all(dataset: &Dataset) -> Vec<Vec<i32>> {
    rest(&dataset.iterator().unwrap(), ints)
}

/// Checks the status of a failure, and that its message says `part`.
pub fn fails<T>(result: Result<T>, status: Status, part: &str) {
    let error: Error = result.err().expect("a failure");
    assert_eq!(error.status(), status, "{error}");
    assert!(
        error.to_string().contains(part),
        "'{error}' does not say '{part}'"
    );
}

/// A file that is removed with the value.
pub struct Temporary(pub PathBuf);

impl Temporary {
    pub fn new(name: &str, bytes: &[u8]) -> Temporary {
        let path = std::env::temp_dir().join(format!("umbo-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
