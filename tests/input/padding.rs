//! Padded batches: values around smaller elements, and masks of what is not padding.

use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::input::{Dataset, DistributeOptions, PaddingOptions, distribute};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

use crate::common::{fails, parts};

fn vector(number: i32, length: usize) -> Tensor {
    let numbers = vec![number; length];
    Tensor::from_slice(&numbers, Shape::new(&[length]).unwrap(), DeviceId::HOST).unwrap()
}

/// The elements of a tensor of bool.
fn flags(tensor: &Tensor) -> Vec<u8> {
    let view = tensor.reading().unwrap();
    view.as_matrix::<u8>().unwrap().iter().copied().collect()
}

/// A scalar for each tensor of an element stands around smaller ones, and masks say where.
#[test]
fn padded_batches_have_values_and_masks() {
    let pair = |number: i32, length: usize| {
        let items = vec![
            Value::Tensor(vector(number, length)),
            Value::Tensor(Tensor::scalar(f64::from(number)).unwrap()),
        ];
        Dataset::from_tensors(&Value::tuple(items).unwrap()).unwrap()
    };
    let elements = Dataset::concatenate(&[pair(1, 1), pair(2, 3), pair(3, 0)]).unwrap();
    let scalars = vec![
        Value::Tensor(Tensor::scalar(-100).unwrap()),
        Value::Tensor(Tensor::scalar(0.5).unwrap()),
    ];
    let padding = PaddingOptions {
        value: Some(Value::tuple(scalars).unwrap()),
        mask: true,
    };
    let batches = elements.padded_batch_with(3, false, &padding).unwrap();
    let spec = batches.element_spec().item(1).unwrap();
    assert_eq!(spec.to_string(), "(bool [?, ?], bool [?])");
    let iterator = batches.iterator().unwrap();
    let batch = iterator.next().unwrap().unwrap();
    let leaf = |half: usize, item: usize| {
        let tensor = batch.item(half).unwrap().item(item).unwrap();
        tensor
            .tensor_of(0)
            .unwrap()
            .copied_to(DeviceId::HOST)
            .unwrap()
    };
    let expected = [1, -100, -100, 2, 2, 2, -100, -100, -100];
    assert_eq!(leaf(0, 0).to_vec::<i32>().unwrap(), expected);
    assert_eq!(leaf(0, 1).to_vec::<f64>().unwrap(), [1.0, 2.0, 3.0]);
    let mask = |item| {
        let tensor = leaf(1, item);
        assert_eq!(tensor.dtype(), DType::Bool);
        (tensor.shape().to_vec(), flags(&tensor))
    };
    assert_eq!(mask(0), (vec![3, 3], vec![1, 0, 0, 1, 1, 1, 0, 0, 0]));
    assert_eq!(mask(1), (vec![3], vec![1, 1, 1]));
    let wrong = PaddingOptions {
        value: Some(Value::Tensor(Tensor::scalar(0).unwrap())),
        mask: false,
    };
    fails(
        elements.padded_batch_with(3, false, &wrong),
        Status::InvalidArgument,
        "padding: int32 of shape [] for tensor 1 of the elements",
    );
}

/// A single scalar pads all tensors, and each replica gets its part of batch and mask.
#[test]
fn padded_batches_are_split_with_their_masks() {
    let tensors = [vector(1, 2), vector(2, 1), vector(3, 1), vector(4, 3)];
    let elements = Dataset::elements(&tensors).unwrap();
    let padding = PaddingOptions {
        value: Some(Value::Tensor(Tensor::scalar(9).unwrap())),
        mask: true,
    };
    let batches = elements.padded_batch_with(4, true, &padding).unwrap();
    let devices = [DeviceId::cpu(0), DeviceId::cpu(1)];
    let distributed = distribute(&batches, 2, &devices, &DistributeOptions::default()).unwrap();
    let step = distributed.iterator().unwrap().next().unwrap().unwrap();
    let expected = [[1, 1, 9, 2, 9, 9], [3, 9, 9, 4, 4, 4]];
    assert_eq!(parts(&step.item(0).unwrap()), expected);
    let masks = step.item(1).unwrap();
    let masks = [0, 1].map(|replica| flags(masks.tensor_of(replica).unwrap()));
    assert_eq!(masks, [[1, 1, 0, 1, 0, 0], [1, 0, 0, 1, 1, 1]]);
}
