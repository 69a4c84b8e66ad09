//! Indexed slices: reductions, gathers, all-reduces, and scatter updates in every context.

use umbo_core::collectives::ReduceOp;
use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::strategy::Strategy;
use umbo_core::strategy::values::collective::ReductionOptions;
use umbo_core::strategy::variables::writing::{ScatterOp, scatter};
use umbo_core::strategy::variables::{self, Initial, read};
use umbo_core::tensor::{DType, Element, Shape, Tensor};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use crate::{refused, strategy};

fn tensor<T: Element>(data: &[T], sizes: &[usize]) -> Tensor {
    Tensor::from_slice(data, Shape::new(sizes).unwrap(), DeviceId::HOST).unwrap()
}

fn slices<T: Element>(values: &[T], indices: &[i64], dense: &[usize]) -> Value {
    let dense = Shape::new(dense).unwrap();
    let values = tensor(values, &dense.with_size(0, indices.len()));
    Value::indexed_slices(values, tensor(indices, &[indices.len()]), dense).unwrap()
}

fn per_replica(components: &[Value]) -> Value {
    Value::per_replica_of(components.to_vec()).unwrap()
}

#[track_caller]
fn parts<T: Element>(value: &Value) -> (Vec<T>, Vec<i64>) {
    let Value::IndexedSlices(slices) = value else {
        panic!("{value:?} is not indexed slices")
    };
    (
        slices.values().to_vec().unwrap(),
        slices.indices().to_vec().unwrap(),
    )
}

#[track_caller]
fn dense<T: Element>(value: &Value) -> Vec<T> {
    let Value::Tensor(tensor) = value else {
        panic!("{value:?} is not a tensor")
    };
    tensor.to_vec().unwrap()
}

fn variable(strategy: &Strategy, aggregation: Aggregation, value: &Tensor) -> Variable {
    let new = crate::fresh::new_variable("w", aggregation);
    variables::create(Some(strategy), new, Initial::Value(value)).unwrap()
}

fn value_of(variable: &Variable) -> Vec<f32> {
    read(variable).unwrap().to_vec().unwrap()
}

#[test]
fn slices_that_do_not_fit_together_are_refused() {
    let dense = Shape::new(&[5, 2]).unwrap();
    let values = tensor(&[1.0f32, 2.0], &[1, 2]);
    let new = |indices: Tensor, dense| Value::indexed_slices(values.clone(), indices, dense);
    refused(
        new(tensor(&[1i32], &[1]), dense),
        Status::InvalidArgument,
        &["int32"],
    );
    refused(
        new(tensor(&[1i64], &[]), dense),
        Status::InvalidArgument,
        &["one dimension"],
    );
    refused(
        new(tensor(&[1i64, 2], &[2]), dense),
        Status::InvalidArgument,
        &["need shape [2, 2]"],
    );
    refused(
        new(tensor(&[1i64], &[1]), Shape::scalar()),
        Status::InvalidArgument,
        &["scalar"],
    );
}

#[test]
fn with_tensors_among_the_components_the_result_is_dense() {
    let s = strategy(2);
    let value = per_replica(&[
        slices(&[1.0f32, 2.0], &[2, 2], &[3]),
        Value::Tensor(tensor(&[10.0f32, 20.0, 30.0], &[3])),
    ]);
    let how = ReductionOptions::default();
    assert_eq!(
        dense::<f32>(&s.reduce(ReduceOp::Sum, &value, &how).unwrap()),
        [10.0, 20.0, 33.0]
    );
    assert_eq!(
        dense::<f32>(&s.reduce(ReduceOp::Mean, &value, &how).unwrap()),
        [5.0, 10.0, 16.5]
    );
    // Extremes are dense without one, too. Rows that no index names are zeros.
    let sparse = per_replica(&[
        slices(&[1.0f32, -2.0], &[2, 1], &[3]),
        slices(&[3.0f32], &[2], &[3]),
    ]);
    for (op, expected) in [
        (ReduceOp::Min, [0.0, -2.0, 1.0]),
        (ReduceOp::Max, [0.0, 0.0, 3.0]),
    ] {
        let reduced = s.reduce(op, &sparse, &how).unwrap();
        assert!(matches!(reduced, Value::Tensor(_)), "{reduced:?}");
        assert_eq!(dense::<f32>(&reduced), expected);
    }
    let outside = per_replica(&[slices(&[1.0f32], &[3], &[3]), slices(&[1.0f32], &[0], &[3])]);
    let gathered = s.gather(&outside, 0, &how);
    refused(gathered, Status::OutOfRange, &["3 at position 0"]);
}

#[test]
fn a_plain_value_counts_as_plain_tensors_do() {
    let one = strategy(1);
    let two = strategy(2);
    let plain = slices(&[1i32, 2], &[0, 2], &[3]);
    let how = ReductionOptions::default();
    assert_eq!(
        parts(&two.reduce(ReduceOp::Mean, &plain, &how).unwrap()),
        (vec![1, 2], vec![0, 2])
    );
    assert_eq!(
        parts(&one.reduce(ReduceOp::Sum, &plain, &how).unwrap()),
        (vec![1, 2], vec![0, 2])
    );
    refused(
        two.reduce(ReduceOp::Sum, &plain, &how),
        Status::InvalidArgument,
        &["by SUM"],
    );
    let rows = ReductionOptions {
        axes: Some(vec![0]),
        ..ReductionOptions::default()
    };
    assert_eq!(
        dense::<i32>(&two.reduce(ReduceOp::Sum, &plain, &rows).unwrap()),
        [6]
    );
    refused(
        two.gather(&plain, 0, &how),
        Status::Unimplemented,
        &["indexed slices"],
    );
    let both = per_replica(&[plain.clone(), plain]);
    assert_eq!(
        dense::<i32>(&two.gather(&both, 0, &how).unwrap()),
        [1, 0, 2, 1, 0, 2]
    );
    // MEAN of integers is a float, for any number of components.
    let mean = two.reduce(ReduceOp::Mean, &both, &how).unwrap();
    assert_eq!(
        parts(&mean),
        (vec![0.5f64, 1.0, 0.5, 1.0], vec![0, 2, 0, 2])
    );
}

#[test]
fn scatter_in_other_contexts() {
    let s = strategy(2);
    let w = variable(&s, Aggregation::None, &tensor(&[0.0f32; 2], &[2]));
    let one = slices(&[1.0f32], &[1], &[2]);
    // In a merge call and in an update it acts once, and is kept by the commit point.
    let target = w.clone();
    let value = one.clone();
    s.update(&w, None, move |_, _| {
        scatter(&target, ScatterOp::Add, &value)?;
        scatter(&target, ScatterOp::Add, &value)?;
        Ok(None)
    })
    .unwrap();
    assert_eq!(value_of(&w), [0.0, 2.0]);
    // A per-replica value does not say how to combine its components.
    let both = per_replica(&[one.clone(), slices(&[5.0f32], &[0], &[2])]);
    let per_replica = scatter(&w, ScatterOp::Add, &both);
    refused(per_replica, Status::InvalidArgument, &["inside of a run"]);
    assert_eq!(value_of(&w), [0.0, 2.0]);
    let other = strategy(2);
    let elsewhere = other.scope(|| scatter(&w, ScatterOp::Add, &one)).unwrap();
    refused(elsewhere, Status::FailedPrecondition, &["mixing"]);
    // With one replica it acts at once, whatever the aggregation.
    let single = strategy(1);
    let w = variable(&single, Aggregation::None, &tensor(&[0.0f32; 2], &[2]));
    single
        .run(&|_| scatter(&w, ScatterOp::Add, &one).map(|()| None), None)
        .unwrap();
    assert_eq!(value_of(&w), [0.0, 1.0]);
}

#[test]
fn every_dtype_can_be_scattered() {
    let s = strategy(1);
    for dtype in DType::ALL {
        let shape = Shape::new(&[2, 3]).unwrap();
        let size = dtype.size();
        // One in every type: its bytes come from a tensor of ones by division, where there is one.
        let bytes: Vec<u8> = match dtype {
            DType::Float16 => 0x3c00u16.to_ne_bytes().to_vec(),
            DType::BFloat16 => 0x3f80u16.to_ne_bytes().to_vec(),
            DType::Float32 => 1.0f32.to_ne_bytes().to_vec(),
            DType::Float64 => 1.0f64.to_ne_bytes().to_vec(),
            _ => (0..size).map(|byte| u8::from(byte == 0)).collect(),
        };
        let row = Shape::new(&[1, 3]).unwrap();
        let ones = Tensor::from_bytes(dtype, row, &bytes.repeat(3), DeviceId::HOST).unwrap();
        let value = Value::indexed_slices(ones, tensor(&[1i64], &[1]), shape).unwrap();
        let zeros = Tensor::zeros(dtype, shape, DeviceId::HOST).unwrap();
        let w = variable(&s, Aggregation::None, &zeros);
        let stored = || {
            let mut all = vec![0; 6 * size];
            read(&w).unwrap().copy_to_host(&mut all).unwrap();
            all
        };
        let expected = [vec![0; 3 * size], bytes.repeat(3)].concat();
        scatter(&w, ScatterOp::Update, &value).unwrap();
        assert_eq!(stored(), expected, "{dtype}");
        let arithmetic = [
            ScatterOp::Subtract,
            ScatterOp::Add,
            ScatterOp::Multiply,
            ScatterOp::Divide,
            ScatterOp::Minimum,
            ScatterOp::Maximum,
        ];
        for op in arithmetic {
            let result = scatter(&w, op, &value);
            if dtype == DType::Bool {
                refused(result, Status::InvalidArgument, &["bool"]);
            } else {
                result.unwrap();
            }
        }
        assert_eq!(
            stored(),
            expected,
            "{dtype}: less one, plus one, times and over one"
        );
    }
    let zero = slices(&[0i32], &[0], &[1]);
    let w = variable(&s, Aggregation::None, &tensor(&[i32::MIN], &[1]));
    refused(
        scatter(&w, ScatterOp::Divide, &zero),
        Status::InvalidArgument,
        &["divided by 0"],
    );
    scatter(&w, ScatterOp::Divide, &slices(&[-1i32], &[0], &[1])).unwrap();
    assert_eq!(
        read(&w).unwrap().to_vec::<i32>().unwrap(),
        [i32::MIN],
        "integers wrap"
    );
    let w = variable(&s, Aggregation::None, &tensor(&[1.0f32, f32::NAN], &[2]));
    for op in [ScatterOp::Minimum, ScatterOp::Maximum] {
        scatter(&w, op, &slices(&[f32::NAN, 1.0], &[0, 1], &[2])).unwrap();
        assert!(
            value_of(&w).iter().all(|element| element.is_nan()),
            "{}",
            op.name()
        );
    }
}
