//! Which operation may be done in which context, cell by cell, and what the default strategy does.

use umbo_core::collectives::ReduceOp;
use umbo_core::device::DeviceId;
use umbo_core::error::{Result, Status};
use umbo_core::strategy::context::{self, Current};
use umbo_core::strategy::values::collective::{Destination, ReductionOptions};
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use crate::{refused, strategy};

fn variable(strategy: &Strategy, name: &str) -> Variable {
    let new = crate::fresh::new_variable(name, Aggregation::None);
    variables::create(
        Some(strategy),
        new,
        Initial::Value(&Tensor::scalar(1.0f32).unwrap()),
    )
    .unwrap()
}

fn tensor<T: umbo_core::tensor::Element>(values: &[T]) -> Tensor {
    Tensor::from_slice(values, Shape::new(&[values.len()]).unwrap(), DeviceId::HOST).unwrap()
}

fn both() -> Value {
    Value::per_replica(vec![tensor(&[1.0f32]), tensor(&[2.0f32])]).unwrap()
}

/// What a cell of the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Ok,
    NeedsCrossReplica,
    Mixing,
}

use Cell::{Mixing, NeedsCrossReplica, Ok as Fine};

type Operation = fn(&Strategy, &Variable) -> Result<()>;

/// The operations, with what they say in the default context, the own cross-replica context, the
/// own replica context and another strategy's scope.
const TABLE: &[(&str, [Cell; 4], Operation)] = &[
    ("run", [Fine, Fine, NeedsCrossReplica, Mixing], |s, _| {
        s.run(&|_| Ok(None), None).map(drop)
    }),
    ("reduce", [Fine, Fine, NeedsCrossReplica, Mixing], |s, _| {
        s.reduce(ReduceOp::Sum, &both(), &ReductionOptions::default())
            .map(drop)
    }),
    ("gather", [Fine, Fine, NeedsCrossReplica, Mixing], |s, _| {
        s.gather(&both(), 0, &ReductionOptions::default()).map(drop)
    }),
    (
        "reduce_to",
        [Fine, Fine, NeedsCrossReplica, Mixing],
        |s, _| {
            s.reduce_to(ReduceOp::Sum, &both(), &Destination::Device(DeviceId::HOST))
                .map(drop)
        },
    ),
    (
        "batch_reduce_to",
        [Fine, Fine, NeedsCrossReplica, Mixing],
        |s, _| {
            let pair = (both(), Destination::Device(DeviceId::HOST));
            s.batch_reduce_to(ReduceOp::Sum, &[pair]).map(drop)
        },
    ),
    (
        "broadcast_to",
        [Fine, Fine, NeedsCrossReplica, Mixing],
        |s, _| {
            s.broadcast_to(
                &Value::Tensor(tensor(&[1.0f32])),
                &Destination::Like(both()),
            )
            .map(drop)
        },
    ),
    ("update", [Fine, Fine, Fine, Mixing], |s, v| {
        s.update(v, None, |_, _| Ok(None)).map(drop)
    }),
    ("scope", [Fine, Fine, NeedsCrossReplica, Mixing], |s, _| {
        s.scope(|| ())
    }),
    ("local_results", [Fine; 4], |s, _| {
        s.local_results(&both()).map(drop)
    }),
    ("values_from_function", [Fine; 4], |s, _| {
        s.values_from_function(&mut |_| Ok(Value::Tensor(tensor(&[1.0f32]))))
            .map(drop)
    }),
];

#[test]
fn every_method_demands_its_context() {
    let s = strategy(2);
    let other = strategy(2);
    let v = variable(&s, "v");
    for (name, cells, operation) in TABLE {
        let results = [
            operation(&s, &v),
            s.scope(|| operation(&s, &v)).unwrap(),
            s.run(&|_| operation(&s, &v).map(|()| None), None).map(drop),
            other.scope(|| operation(&s, &v)).unwrap(),
        ];
        for (place, (cell, result)) in cells.iter().zip(results).enumerate() {
            let part = match cell {
                Fine => {
                    result.unwrap_or_else(|error| panic!("{name}, context {place}: {error}"));
                    continue;
                }
                NeedsCrossReplica => "requires being in cross-replica context",
                Mixing => "mixing different strategies",
            };
            refused(result, Status::FailedPrecondition, &[part]);
        }
        // In a merge call it is the own cross-replica context again.
        let strategy_in_call = s.clone();
        let target = v.clone();
        let operation = *operation;
        s.update(&v, None, move |_, _| {
            operation(&strategy_in_call, &target).map(|()| None)
        })
        .unwrap_or_else(|error| panic!("{name} in an update: {error}"));
    }
}

#[test]
fn a_context_counts_only_in_its_own_callback() {
    let s = strategy(2);
    let other = strategy(2);
    let kept = std::sync::Mutex::new(None);
    let one = || Value::Tensor(tensor(&[1.0f32]));
    s.run(
        &|context| {
            if context.replica() == 0 {
                *kept.lock().unwrap() = Some(context.clone());
            }
            Ok(None)
        },
        None,
    )
    .unwrap();
    let stale = kept.into_inner().unwrap().unwrap();
    refused(
        stale.all_reduce(ReduceOp::Sum, one()),
        Status::FailedPrecondition,
        &["has ended"],
    );
    let elsewhere = other.run(&|_| stale.all_reduce(ReduceOp::Sum, one()).map(Some), None);
    refused(elsewhere, Status::FailedPrecondition, &["mixing"]);
    // The default context is of no use in a scope.
    let default = ReplicaContext::default_context();
    assert!(default.all_reduce(ReduceOp::Sum, one()).is_ok());
    let in_scope = s
        .scope(|| default.all_reduce(ReduceOp::Sum, one()))
        .unwrap();
    refused(in_scope, Status::FailedPrecondition, &["mixing"]);
    refused(
        s.run(&|_| s.run(&|_| Ok(None), None), None),
        Status::FailedPrecondition,
        &["requires being in cross-replica context"],
    );
}

#[test]
fn the_default_strategy_is_nearly_nothing() {
    let default = Strategy::default_strategy();
    let plain = Value::Tensor(tensor(&[1.0f32, 2.0]));
    let how = ReductionOptions::default();
    let same = |value: Value| {
        value
            .tensor_of(0)
            .unwrap()
            .is_same(plain.tensor_of(0).unwrap())
    };
    assert!(same(default.reduce(ReduceOp::Sum, &plain, &how).unwrap()));
    assert!(same(default.gather(&plain, 5, &how).unwrap()));
    assert!(same(
        default
            .values_from_function(&mut |_| Ok(plain.clone()))
            .unwrap()
    ));
    refused(
        default.broadcast_to(&plain, &Destination::Device(DeviceId::HOST)),
        Status::Unimplemented,
        &["default strategy"],
    );
    refused(
        default.deep_copy(),
        Status::FailedPrecondition,
        &["cannot be copied"],
    );
    // Its scope nests in itself, changes nothing, and is refused in another strategy's.
    let outer = default.enter_scope().unwrap();
    let inner = default.enter_scope().unwrap();
    assert!(matches!(context::current(), Current::Default));
    let s = strategy(2);
    refused(
        s.scope(|| default.enter_scope()).unwrap(),
        Status::FailedPrecondition,
        &["mixing"],
    );
    // Another strategy's scope may be entered inside of it, but no variable be made there.
    let made = s.scope(|| {
        let new = crate::fresh::new_variable("v", Aggregation::None);
        variables::create(None, new, Initial::Value(&Tensor::scalar(1.0f32)?))
    });
    refused(made.unwrap(), Status::FailedPrecondition, &["mixing"]);
    drop(inner.exit().unwrap());
    drop(outer.exit().unwrap());
}

#[test]
fn every_dtype_is_assigned_gathered_and_copied() {
    let s = strategy(2);
    for dtype in DType::ALL {
        let shape = Shape::new(&[2]).unwrap();
        let bytes: Vec<u8> = vec![1; 2 * dtype.size()];
        let component = || Tensor::from_bytes(dtype, shape, &bytes, DeviceId::HOST).unwrap();
        let value = Value::per_replica(vec![component(), component()]).unwrap();
        let raw = |tensor: &Tensor| {
            let mut all = vec![0; tensor.shape().bytes(dtype).unwrap()];
            tensor.copy_to_host(&mut all).unwrap();
            all
        };
        let gathered = s.gather(&value, 0, &ReductionOptions::default()).unwrap();
        assert_eq!(
            raw(gathered.tensor_of(0).unwrap()),
            bytes.repeat(2),
            "{dtype}"
        );
        let copy = s.broadcast_to(
            &Value::Tensor(component()),
            &Destination::Like(value.clone()),
        );
        assert_eq!(raw(copy.unwrap().tensor_of(1).unwrap()), bytes, "{dtype}");
        let new = crate::fresh::new_variable("v", Aggregation::OnlyFirstReplica);
        let zeros = Tensor::zeros(dtype, shape, DeviceId::HOST).unwrap();
        let v = variables::create(Some(&s), new, Initial::Value(&zeros)).unwrap();
        s.run(
            &|context| {
                let argument = Value::Tensor(component());
                for op in [ReduceOp::Min, ReduceOp::Max] {
                    let chosen = context.all_reduce(op, argument.clone())?;
                    assert_eq!(raw(chosen.tensor_of(0)?), bytes, "{dtype}");
                }
                let reduced = context.all_reduce(ReduceOp::Sum, argument.clone());
                if dtype == DType::Bool {
                    // The merge fails for all, and so does the run.
                    return reduced.map(Some);
                }
                assert_eq!(reduced?.tensor_of(0)?.dtype(), dtype);
                let mean = context.all_reduce(ReduceOp::Mean, argument.clone())?;
                assert_eq!(Some(mean.tensor_of(0)?.dtype()), dtype.mean_dtype());
                variables::assign(&v, umbo_core::collectives::Assignment::Assign, &argument)?;
                Ok(None)
            },
            None,
        )
        .map_or_else(
            |error| {
                assert_eq!(
                    (dtype, error.status()),
                    (DType::Bool, Status::InvalidArgument)
                )
            },
            |_| assert_eq!(raw(&variables::read(&v).unwrap()), bytes, "{dtype}"),
        );
    }
}

#[test]
fn plain_values_are_reduced_and_gathered_to_the_destination() {
    let slices = || {
        let indices = tensor(&[1i64]);
        let rows = tensor(&[2.0f32]);
        Value::indexed_slices(rows, indices, Shape::new(&[3]).unwrap()).unwrap()
    };
    for replicas in 2..=3 {
        let strategy = strategy(replicas);
        let there = DeviceId::cpu(1);
        let how = ReductionOptions {
            destination: Some(there),
            ..ReductionOptions::default()
        };
        let device = |value: Value| match value {
            Value::Tensor(tensor) => tensor.device(),
            Value::IndexedSlices(slices) => slices.device(),
            other => panic!("{other:?}"),
        };
        let variable_value = Value::Variable(variable(&strategy, "own"));
        let one = Value::per_replica(vec![tensor(&[1.0f32])]).unwrap();
        let floats = Value::Tensor(tensor(&[1.0f32]));
        for plain in [
            &floats,
            &Value::Tensor(tensor(&[1i32])),
            &variable_value,
            &slices(),
        ] {
            let mean = strategy.reduce(ReduceOp::Mean, plain, &how).unwrap();
            assert_eq!(device(mean), there, "the mean of {plain:?}");
            for op in [ReduceOp::Min, ReduceOp::Max] {
                let chosen = strategy.reduce(op, plain, &how).unwrap();
                assert_eq!(device(chosen), there, "the {} of {plain:?}", op.name());
            }
        }
        let rows = ReductionOptions {
            axes: Some(vec![0]),
            ..ReductionOptions::default()
        };
        let three = Value::Tensor(tensor(&[5i32, -7, 6]));
        for (op, expected) in [(ReduceOp::Min, -7), (ReduceOp::Max, 6)] {
            let chosen = strategy.reduce(op, &three, &rows).unwrap();
            let chosen = chosen.tensor_of(0).unwrap().to_vec::<i32>().unwrap();
            assert_eq!(chosen, [expected]);
        }
        for plain in [&floats, &variable_value, &one] {
            let gathered = strategy.gather(plain, 0, &how).unwrap();
            assert_eq!(device(gathered), there, "{plain:?} gathered");
        }
        // Without a destination it stays where, and what, it is.
        let same = strategy
            .reduce(ReduceOp::Mean, &floats, &ReductionOptions::default())
            .unwrap();
        assert!(
            same.tensor_of(0)
                .unwrap()
                .is_same(floats.tensor_of(0).unwrap())
        );
    }
}

#[test]
fn update_in_replica_context_uses_replica_0() {
    let s = strategy(2);
    let v = variable(&s, "v");
    let result = s
        .run(
            &|context| {
                let argument = Value::Tensor(Tensor::scalar(10.0f32 + context.replica() as f32)?);
                s.update(&v, Some(&argument), |v, value| {
                    let value = value.expect("the arguments were given");
                    variables::assign(v, umbo_core::collectives::Assignment::Assign, &value)?;
                    Ok(Some(value))
                })
            },
            None,
        )
        .unwrap()
        .unwrap();
    assert_eq!(
        result.tensor_of(0).unwrap().to_vec::<f32>().unwrap(),
        [10.0]
    );
    assert_eq!(
        variables::read(&v).unwrap().to_vec::<f32>().unwrap(),
        [10.0]
    );
    // Of per-replica arguments the first component counts.
    s.update(&v, Some(&both()), |v, value| {
        assert_eq!(v.name(), "v");
        assert_eq!(value.unwrap().tensor_of(0)?.to_vec::<f32>()?, [1.0]);
        Ok(None)
    })
    .unwrap();
}
