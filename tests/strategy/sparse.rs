//! Indexed slices: reductions, gathers, all-reduces, and scatter updates in every context.

use umbo::collectives::ReduceOp;
use umbo::device::DeviceId;
use umbo::error::{Error, Result, Status};
use umbo::strategy::collective::{Destination, ReductionOptions, ReductionOutput};
use umbo::strategy::scatter::{ScatterOp, scatter};
use umbo::strategy::variables::{self, Initial, NewVariable, read};
use umbo::strategy::{Options, Strategy};
use umbo::tensor::{DType, Element, Shape, Tensor};
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Synchronization, Variable};

fn strategy(replicas: usize) -> Strategy {
    Strategy::new(&Options { cpu_replicas: replicas, ..Options::default() }).unwrap()
}

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
    let Value::IndexedSlices(slices) = value else { panic!("{value:?} is not indexed slices") };
    (slices.values().to_vec().unwrap(), slices.indices().to_vec().unwrap())
}

#[track_caller]
fn dense<T: Element>(value: &Value) -> Vec<T> {
    let Value::Tensor(tensor) = value else { panic!("{value:?} is not a tensor") };
    tensor.to_vec().unwrap()
}

#[track_caller]
fn refused<T>(result: Result<T>, status: Status, part: &str) -> Error {
    let Err(error) = result else { panic!("was accepted") };
    assert_eq!(error.status(), status, "{error}");
    assert!(error.to_string().contains(part), "'{part}' is not in: {error}");
    error
}

fn variable(strategy: &Strategy, aggregation: Aggregation, value: &Tensor) -> Variable {
    let new = NewVariable {
        name: "w".into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation,
    };
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
    refused(new(tensor(&[1i32], &[1]), dense), Status::InvalidArgument, "int32");
    refused(new(tensor(&[1i64], &[]), dense), Status::InvalidArgument, "one dimension");
    refused(new(tensor(&[1i64, 2], &[2]), dense), Status::InvalidArgument, "need shape [2, 2]");
    refused(new(tensor(&[1i64], &[1]), Shape::scalar()), Status::InvalidArgument, "scalar");
}

#[test]
fn reducing_concatenates_and_the_mean_divides() {
    let s = strategy(2);
    let value = per_replica(&[
        slices(&[1.0f32, 2.0], &[1], &[5, 2]),
        slices(&[3.0f32, 4.0, 5.0, 6.0], &[1, 3], &[5, 2]),
    ]);
    let how = ReductionOptions::default();
    let sum = s.reduce(ReduceOp::Sum, &value, &how).unwrap();
    assert_eq!(parts(&sum), (vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], vec![1, 1, 3]));
    let mean = s.reduce(ReduceOp::Mean, &value, &how).unwrap();
    assert_eq!(parts(&mean), (vec![0.5f32, 1.0, 1.5, 2.0, 2.5, 3.0], vec![1, 1, 3]));
    let rows = ReductionOptions { axes: Some(vec![0]), ..ReductionOptions::default() };
    let sum = s.reduce(ReduceOp::Sum, &value, &rows).unwrap();
    assert_eq!(dense::<f32>(&sum), [9.0, 12.0]);
    let mean = s.reduce(ReduceOp::Mean, &value, &rows).unwrap();
    assert_eq!(dense::<f32>(&mean), [0.9, 1.2], "over the rows of both dense tensors");
    let output = Some(tensor(&[0.0f32], &[1]));
    // SAFETY: nobody else has the tensor.
    let output = output.map(|tensor| unsafe { ReductionOutput::new(tensor) });
    let into = ReductionOptions { output, ..ReductionOptions::default() };
    refused(s.reduce(ReduceOp::Sum, &value, &into), Status::InvalidArgument, "output");
    let other = per_replica(&[slices(&[1i8], &[0], &[5]), slices(&[1i8], &[0], &[6])]);
    refused(s.reduce(ReduceOp::Sum, &other, &how), Status::InvalidArgument, "replica 1 [6]");
}

#[test]
fn with_tensors_among_the_components_the_result_is_dense() {
    let s = strategy(2);
    let value = per_replica(&[
        slices(&[1.0f32, 2.0], &[2, 2], &[3]),
        Value::Tensor(tensor(&[10.0f32, 20.0, 30.0], &[3])),
    ]);
    let how = ReductionOptions::default();
    assert_eq!(dense::<f32>(&s.reduce(ReduceOp::Sum, &value, &how).unwrap()), [10.0, 20.0, 33.0]);
    assert_eq!(dense::<f32>(&s.reduce(ReduceOp::Mean, &value, &how).unwrap()), [5.0, 10.0, 16.5]);
    let outside = per_replica(&[slices(&[1.0f32], &[3], &[3]), slices(&[1.0f32], &[0], &[3])]);
    let gathered = s.gather(&outside, 0, &how);
    refused(gathered, Status::OutOfRange, "3 at position 0");
}

#[test]
fn a_plain_value_counts_as_plain_tensors_do() {
    let (one, two) = (strategy(1), strategy(2));
    let plain = slices(&[1i32, 2], &[0, 2], &[3]);
    let how = ReductionOptions::default();
    assert_eq!(parts(&two.reduce(ReduceOp::Mean, &plain, &how).unwrap()), (vec![1, 2], vec![0, 2]));
    assert_eq!(parts(&one.reduce(ReduceOp::Sum, &plain, &how).unwrap()), (vec![1, 2], vec![0, 2]));
    refused(two.reduce(ReduceOp::Sum, &plain, &how), Status::InvalidArgument, "by SUM");
    let rows = ReductionOptions { axes: Some(vec![0]), ..ReductionOptions::default() };
    assert_eq!(dense::<i32>(&two.reduce(ReduceOp::Sum, &plain, &rows).unwrap()), [6]);
    refused(two.gather(&plain, 0, &how), Status::Unimplemented, "indexed slices");
    let both = per_replica(&[plain.clone(), plain]);
    assert_eq!(dense::<i32>(&two.gather(&both, 0, &how).unwrap()), [1, 0, 2, 1, 0, 2]);
    // MEAN of integers is a float, for any number of components.
    let mean = two.reduce(ReduceOp::Mean, &both, &how).unwrap();
    assert_eq!(parts(&mean), (vec![0.5f64, 1.0, 0.5, 1.0], vec![0, 2, 0, 2]));
}

#[test]
fn they_go_through_runs_merge_calls_and_destinations() {
    let s = strategy(2);
    let value =
        per_replica(&[slices(&[1.0f32], &[1], &[4]), slices(&[2.0f32, 3.0], &[0, 3], &[4])]);
    let result = s
        .run(
            &|context| {
                let own = context.arguments()?.unwrap().component(context.replica())?;
                assert_eq!(parts::<f32>(&own).1.len(), context.replica() + 1);
                refused(
                    context.all_gather(own.clone(), 0),
                    Status::Unimplemented,
                    "gathering indexed slices",
                );
                let sum = context.all_reduce(ReduceOp::Sum, own.clone())?;
                assert_eq!(parts(&sum), (vec![1.0f32, 2.0, 3.0], vec![1, 0, 3]));
                let mean = context.all_reduce(ReduceOp::Mean, own.clone())?;
                assert_eq!(parts(&mean), (vec![0.5f32, 1.0, 1.5], vec![1, 0, 3]));
                Ok(Some(own))
            },
            Some(value.clone()),
        )
        .unwrap()
        .unwrap();
    let results = s.local_results(&result).unwrap();
    assert_eq!(parts(&results.item(1).unwrap()), (vec![2.0f32, 3.0], vec![0, 3]));
    let to = Destination::Device(DeviceId::cpu(1));
    let reduced = s.reduce_to(ReduceOp::Sum, &value, &to).unwrap();
    let Value::IndexedSlices(reduced) = reduced else { panic!("{reduced:?}") };
    assert_eq!(
        (reduced.device(), reduced.indices().device()),
        (DeviceId::cpu(1), DeviceId::cpu(1))
    );
    let copies = s.broadcast_to(&value.item(0).unwrap(), &Destination::Like(value)).unwrap();
    assert_eq!(parts(&copies.item(1).unwrap()), (vec![1.0f32], vec![1]));
}

#[test]
fn scatter_updates_follow_one_another() {
    let s = strategy(2);
    let w = variable(&s, Aggregation::None, &tensor(&[0.0f32; 3], &[3]));
    type Step = (ScatterOp, [f32; 2], [i64; 2], [f32; 3]);
    let steps: [Step; 7] = [
        (ScatterOp::Add, [1.0, 2.0], [0, 2], [1.0, 0.0, 2.0]),
        (ScatterOp::Divide, [4.0, 2.0], [0, 2], [0.25, 0.0, 1.0]),
        (ScatterOp::Maximum, [1.0, 0.5], [1, 2], [0.25, 1.0, 1.0]),
        (ScatterOp::Minimum, [1.0, 0.5], [0, 1], [0.25, 0.5, 1.0]),
        (ScatterOp::Multiply, [2.0, 0.5], [0, 1], [0.5, 0.25, 1.0]),
        (ScatterOp::Subtract, [2.0, 0.5], [0, 1], [-1.5, -0.25, 1.0]),
        (ScatterOp::Update, [2.0, 0.5], [1, 1], [-1.5, 0.5, 1.0]),
    ];
    for (op, values, indices, expected) in steps {
        scatter(&w, op, &slices(&values, &indices, &[3])).unwrap();
        assert_eq!(value_of(&w), expected, "{}", op.name());
    }
    let wrong = |value: Value, status, part| {
        refused(scatter(&w, ScatterOp::Add, &value), status, part);
        assert_eq!(value_of(&w), [-1.5, 0.5, 1.0]);
    };
    wrong(slices(&[1.0f32, 1.0], &[0, 3], &[3]), Status::OutOfRange, "3 at position 1");
    wrong(slices(&[1.0f32, 1.0], &[0, -1], &[3]), Status::OutOfRange, "-1 at position 1");
    wrong(slices(&[1.0f64], &[0], &[3]), Status::InvalidArgument, "float64");
    wrong(slices(&[1.0f32], &[0], &[4]), Status::InvalidArgument, "[4]");
    wrong(Value::Tensor(tensor(&[1.0f32], &[1])), Status::InvalidArgument, "a tensor");
}

#[test]
fn in_replica_context_the_aggregation_says_which_slices_count() {
    let s = strategy(2);
    let args = per_replica(&[slices(&[1.0f32, 2.0], &[0, 2], &[3]), slices(&[3.0f32], &[0], &[3])]);
    let after = |aggregation, fails: bool| {
        let w = variable(&s, aggregation, &tensor(&[10.0f32; 3], &[3]));
        let result = s.run(
            &|context| {
                let own = context.arguments()?.unwrap().component(context.replica())?;
                scatter(&w, ScatterOp::Subtract, &own)?;
                assert_ne!(value_of(&w), [10.0; 3], "later reads in the step see it");
                match fails && context.replica() == 1 {
                    true => Err(Error::DataLoss("afterwards".into())),
                    false => Ok(None),
                }
            },
            Some(args.clone()),
        );
        (value_of(&w), result.map(drop))
    };
    assert_eq!(after(Aggregation::Sum, false).0, [6.0, 10.0, 8.0]);
    assert_eq!(after(Aggregation::Mean, false).0, [8.0, 10.0, 9.0]);
    assert_eq!(after(Aggregation::OnlyFirstReplica, false).0, [9.0, 10.0, 8.0]);
    let (value, result) = after(Aggregation::None, false);
    refused(result, Status::InvalidArgument, "NONE");
    assert_eq!(value, [10.0; 3]);
    let (value, result) = after(Aggregation::Sum, true);
    refused(result, Status::DataLoss, "afterwards");
    assert_eq!(value, [10.0; 3], "the commit point was not reached");
    // The very same slices on all replicas: no sum, and their own mean.
    let shared = slices(&[1.0f32], &[0], &[3]);
    for (aggregation, status) in [(Aggregation::Sum, Some("by SUM")), (Aggregation::Mean, None)] {
        let w = variable(&s, aggregation, &tensor(&[10.0f32; 3], &[3]));
        let result = s.run(
            &|_| {
                scatter(&w, ScatterOp::Add, &shared)?;
                Ok(None)
            },
            None,
        );
        match status {
            Some(part) => drop(refused(result, Status::InvalidArgument, part)),
            None => assert_eq!(value_of(&w), [11.0, 10.0, 10.0]),
        }
    }
}

#[test]
fn scatter_in_other_contexts() {
    let s = strategy(2);
    let w = variable(&s, Aggregation::None, &tensor(&[0.0f32; 2], &[2]));
    let one = slices(&[1.0f32], &[1], &[2]);
    // In a merge call and in an update it acts once, and is kept by the commit point.
    let (target, value) = (w.clone(), one.clone());
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
    refused(per_replica, Status::InvalidArgument, "inside of a run");
    assert_eq!(value_of(&w), [0.0, 2.0]);
    let other = strategy(2);
    let elsewhere = other.scope(|| scatter(&w, ScatterOp::Add, &one)).unwrap();
    refused(elsewhere, Status::FailedPrecondition, "mixing");
    // With one replica it acts at once, whatever the aggregation.
    let single = strategy(1);
    let w = variable(&single, Aggregation::None, &tensor(&[0.0f32; 2], &[2]));
    single.run(&|_| scatter(&w, ScatterOp::Add, &one).map(|()| None), None).unwrap();
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
                refused(result, Status::InvalidArgument, "bool");
            } else {
                result.unwrap();
            }
        }
        assert_eq!(stored(), expected, "{dtype}: less one, plus one, times and over one");
    }
    let zero = slices(&[0i32], &[0], &[1]);
    let w = variable(&s, Aggregation::None, &tensor(&[i32::MIN], &[1]));
    refused(scatter(&w, ScatterOp::Divide, &zero), Status::InvalidArgument, "divided by 0");
    scatter(&w, ScatterOp::Divide, &slices(&[-1i32], &[0], &[1])).unwrap();
    assert_eq!(read(&w).unwrap().to_vec::<i32>().unwrap(), [i32::MIN], "integers wrap");
    let w = variable(&s, Aggregation::None, &tensor(&[1.0f32, f32::NAN], &[2]));
    for op in [ScatterOp::Minimum, ScatterOp::Maximum] {
        scatter(&w, op, &slices(&[f32::NAN, 1.0], &[0, 1], &[2])).unwrap();
        assert!(value_of(&w).iter().all(|element| element.is_nan()), "{}", op.name());
    }
}
