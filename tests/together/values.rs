//! Collectives, assignments, metrics and initial values: W ranks of M replicas give what one
//! process of W·M replicas gives, bit for bit.

use std::sync::Mutex;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::collectives::{Assignment, ReduceOp};
use umbo_core::strategy::context::metrics::Metric;
use umbo_core::strategy::values::collective::ReductionOptions;
use umbo_core::strategy::variables::assign_all::assign_all;
use umbo_core::strategy::variables::writing::{ScatterOp, scatter};
use umbo_core::strategy::variables::{self, Initial, assign, read};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;
use umbo_core::values::initial::{Distribution, DistributionForm};
use umbo_core::values::variable::Aggregation;

use super::engine::{job, ranks};
use super::on_gpus::tried;
use super::training::assert_same;
use super::{alone, bytes, named, on_ranks, tensor, tensor_of, variable};

/// What replica `replica` of all contributes: values whose sum depends on the order.
fn contribution(seed: u64, replica: usize, dtype: DType, shape: &[usize]) -> Tensor {
    let mut numbers = ChaCha8Rng::seed_from_u64(seed * 1000 + replica as u64);
    let count = shape.iter().product();
    let wild = |numbers: &mut ChaCha8Rng| {
        let exponent = numbers.random_range(-12..12);
        numbers.random_range(-1.0f32..1.0) * 2f32.powi(exponent)
    };
    let values: Vec<f32> = (0..count).map(|_| wild(&mut numbers)).collect();
    tensor_of(dtype, &values, shape)
}

/// How many ranks, and how many replicas each has.
const SPLITS: [(usize, usize); 6] = [(2, 1), (2, 2), (3, 1), (4, 1), (3, 2), (2, 3)];

const DTYPES: [DType; 5] = [
    DType::Float16,
    DType::BFloat16,
    DType::Float32,
    DType::Float64,
    DType::Int32,
];

/// A program that does everything, and the bytes of all that it came to.
fn program(strategy: &Strategy, dtype: DType) -> Vec<Vec<u8>> {
    let results = Mutex::new(Vec::new());
    let own_rank = strategy.rank();
    // Each rank proposes another initial value.
    let initial = contribution(99 + own_rank as u64, 0, dtype, &[5, 3]);
    let sum = variable(strategy, "sum", Aggregation::Sum, &initial);
    let first = variable(strategy, "first", Aggregation::OnlyFirstReplica, &initial);
    let mean = match dtype {
        DType::Int32 => None,
        _ => Some(variable(strategy, "mean", Aggregation::Mean, &initial)),
    };
    results.lock().unwrap().push(bytes(&read(&sum).unwrap()));
    for step in 0..2u64 {
        let callback = |context: &ReplicaContext| {
            let replica = context.replica_in_sync();
            let all = context.strategy().num_replicas_in_sync();
            assert!(replica < all);
            let contributed =
                |seed, shape: &[usize]| contribution(seed + step, replica, dtype, shape);
            let mut came = Vec::new();
            for op in ReduceOp::ALL {
                // The last ones are reduced in parts.
                let large: [&[usize]; 2] = if step == 0 {
                    [&[129, 260], &[35_001]]
                } else {
                    [&[1]; 2]
                };
                let nest = Value::tuple(vec![
                    Value::Tensor(contributed(1, &[7])),
                    Value::Tensor(contributed(2, &[])),
                    Value::Tensor(contributed(3, &[0, 4])),
                    Value::Tensor(contributed(10, large[0])),
                    Value::Tensor(contributed(20, large[1])),
                ])?;
                came.push(context.all_reduce(op, nest)?);
            }
            // A result that is released is the memory of the next one, and one that is kept is not.
            let shapes: [&[usize]; 6] = [&[5, 3], &[], &[0, 4], &[255], &[1024], &[1025]];
            for seed in 30..54 {
                // Each shape follows itself twice, and then others.
                let shape = shapes[(seed as usize / 2 + usize::from(seed > 41)) % 6];
                let number = Value::Tensor(contributed(seed, shape));
                let reduced = context.all_reduce(ReduceOp::Sum, number)?;
                came.extend((seed % 3 != 0).then_some(reduced));
            }
            // As many rows as the replica's number says: none on the first one.
            came.push(context.all_gather(Value::Tensor(contributed(4, &[replica, 2])), 0)?);
            let slices = |rows: &[i64]| {
                Value::indexed_slices(
                    contributed(5, &[rows.len(), 3]),
                    tensor(rows, &[rows.len()]),
                    umbo_core::tensor::Shape::new(&[5, 3]).unwrap(),
                )
            };
            came.push(context.all_reduce(ReduceOp::Sum, slices(&[4, 0, 4])?)?);
            assign(
                &sum,
                Assignment::Add,
                &Value::Tensor(contributed(6, &[5, 3])),
            )?;
            assign(
                &first,
                Assignment::Assign,
                &Value::Tensor(contributed(7, &[5, 3])),
            )?;
            scatter(&sum, ScatterOp::Add, &slices(&[replica as i64 % 5])?)?;
            if let Some(mean) = &mean {
                assign(
                    mean,
                    Assignment::Subtract,
                    &Value::Tensor(contributed(8, &[5, 3])),
                )?;
            }
            // Replicas and whole ranks do not count.
            let weight = [(replica % 2) as f64 * 0.75, f64::from(replica == 1)][step as usize];
            let has_mean = matches!(dtype, DType::Float32 | DType::Float64);
            let mean = mean.as_ref().filter(|_| has_mean);
            let targets: Vec<_> = [Some(&sum), Some(&first), mean]
                .into_iter()
                .flatten()
                .cloned()
                .collect();
            let values = (11..)
                .take(targets.len())
                .map(|seed| contributed(seed, &[5, 3]))
                .collect();
            assign_all(context, &targets, values, Some(weight))?;
            context.add_metric(
                "loss",
                Metric {
                    sum: 0.1 * replica as f64,
                    weight: 0.3,
                },
            )?;
            if replica % 2 == 1 {
                context.add_metric(
                    "odd",
                    Metric {
                        sum: 1.0,
                        weight: 1.0,
                    },
                )?;
            }
            if context.replica() == 0 {
                let mut results = results.lock().unwrap();
                for value in came {
                    value.find_leaf(&mut |leaf| {
                        match leaf {
                            Value::Tensor(tensor) => results.push(bytes(tensor)),
                            Value::IndexedSlices(slices) => {
                                results.push(bytes(slices.values()));
                                results.push(bytes(slices.indices()));
                            }
                            other => panic!("{other:?}"),
                        }
                        None::<()>
                    });
                }
            }
            Ok(Some(Value::Tensor(contributed(9, &[2, 2]))))
        };
        let result = strategy.run(&callback, None).unwrap().unwrap();
        let local = strategy.local_results(&result).unwrap();
        assert_eq!(local.count(), strategy.num_replicas());
        let mut results = results.lock().unwrap();
        for op in ReduceOp::ALL {
            for axes in [None, Some(vec![0])] {
                let how = ReductionOptions {
                    axes,
                    ..ReductionOptions::default()
                };
                let reduced = strategy.reduce(op, &result, &how).unwrap();
                results.push(bytes(reduced.tensor_of(0).unwrap()));
            }
        }
        // The first replica, and so a whole rank, has no rows.
        let uneven = |context: &ReplicaContext| {
            let replica = context.replica_in_sync();
            let rows = contribution(30 + step, replica, dtype, &[replica, 3]);
            Ok(Some(Value::Tensor(rows)))
        };
        let uneven = strategy.run(&uneven, None).unwrap().unwrap();
        for op in ReduceOp::ALL {
            let how = ReductionOptions {
                axes: Some(vec![0]),
                ..ReductionOptions::default()
            };
            let reduced = strategy.reduce(op, &uneven, &how).unwrap();
            results.push(bytes(reduced.tensor_of(0).unwrap()));
        }
        let gathered = strategy
            .gather(&result, 1, &ReductionOptions::default())
            .unwrap();
        results.push(bytes(gathered.tensor_of(0).unwrap()));
        for variable in [Some(&sum), Some(&first), mean.as_ref()]
            .into_iter()
            .flatten()
        {
            results.push(bytes(&read(variable).unwrap()));
        }
        assert_eq!(strategy.metric_names(), ["loss", "odd"]);
        for name in ["loss", "odd"] {
            let Metric { sum, weight } = strategy.metric(name).unwrap();
            results.push([sum.to_le_bytes(), weight.to_le_bytes()].concat());
        }
    }
    results.into_inner().unwrap()
}

#[test]
fn ranks_of_replicas_are_as_one_process() {
    let all = DTYPES
        .into_iter()
        .flat_map(|dtype| SPLITS.map(|split| (dtype, split)));
    // Every dtype and every split is among those that are tried elsewhere too.
    for (number, (dtype, (size, replicas))) in tried(all.enumerate()) {
        let expected = program(&alone(size * replicas), dtype);
        let delays = (!number.is_multiple_of(3)).then_some(7 * size as u64);
        let came = on_ranks(&job(size, delays, None), replicas, |rank, strategy| {
            let strategy = strategy.unwrap();
            assert_eq!((strategy.rank(), strategy.ranks().size()), (rank, size));
            assert_eq!(strategy.num_replicas_in_sync(), size * replicas);
            program(&strategy, dtype)
        });
        assert_same(
            &came,
            &expected,
            &format!("{dtype}, {size} ranks of {replicas}"),
        );
    }
}

#[test]
fn the_place_in_the_global_batch_counts_all_ranks() {
    let rows = [3usize, 0, 5, 1, 2, 4];
    for (size, replicas) in [(2, 3), (3, 2), (6, 1)] {
        on_ranks(&ranks(size), replicas, |rank, strategy| {
            let strategy = strategy.unwrap();
            let rows_of_rank = &rows[rank * replicas..(rank + 1) * replicas];
            let parts = rows_of_rank
                .iter()
                .map(|&rows| tensor(&vec![0f32; rows], &[rows]))
                .collect();
            let arguments = Value::per_replica(parts).unwrap();
            let look = |context: &ReplicaContext| {
                let position = context.batch_position();
                let replica = context.replica_in_sync();
                assert_eq!(position.local_examples, Some(rows[replica] as u64));
                assert_eq!(
                    position.first_example,
                    rows[..replica].iter().sum::<usize>() as u64
                );
                assert_eq!(position.global_examples, Some(15));
                Ok(None)
            };
            strategy.run(&look, Some(arguments)).unwrap();
        });
    }
}

#[test]
fn a_rank_alone_needs_nobody() {
    let expected = program(&alone(2), DType::Float32);
    let ranks = ranks(1);
    let came = on_ranks(&ranks, 2, |_, strategy| {
        program(&strategy.unwrap(), DType::Float32)
    });
    assert_eq!((came[0].clone(), ranks[0].calls()), (expected, 0));
}

/// Variables of one name, made before runs and in them, have different elements, and those that one
/// process draws.
#[test]
fn elements_are_drawn_alike_on_all_ranks() {
    let draw = |strategy: Option<&Strategy>, name: &str| {
        let initial = Initial::Drawn {
            dtype: DType::Float64,
            shape: Shape::new(&[6])?,
            distribution: Distribution::Glorot(DistributionForm::TruncatedNormal),
            seed: 3,
        };
        variables::create(strategy, named(name, Aggregation::None), initial)
    };
    let program = |strategy: &Strategy| {
        let mut made = ["w", "w", "v"]
            .map(|name| draw(Some(strategy), name).unwrap())
            .to_vec();
        let run = |_: &ReplicaContext| {
            let made = [draw(None, "w")?, draw(None, "v")?].map(Value::Variable);
            Ok(Some(Value::tuple(made.to_vec())?))
        };
        let result = strategy.run(&run, None).unwrap().unwrap();
        for item in 0..2 {
            let Value::Variable(variable) = result.item(item).unwrap() else {
                panic!("{result:?}")
            };
            made.push(variable.clone());
        }
        made.iter()
            .map(|variable| bytes(&read(variable).unwrap()))
            .collect::<Vec<_>>()
    };
    let expected = program(&alone(1));
    for (index, elements) in expected.iter().enumerate() {
        assert!(
            expected[..index].iter().all(|other| other != elements),
            "variable {index}"
        );
    }
    for (size, replicas) in tried(SPLITS) {
        for found in on_ranks(&ranks(size), replicas, |_, made| program(&made.unwrap())) {
            assert_eq!(found, expected, "{size} ranks of {replicas}");
        }
    }
}
