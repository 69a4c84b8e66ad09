//! Input over ranks: no example is lost or comes twice, and all ranks make the same number of
//! steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, MapOptions, PassIterator, Sharding, ShuffleOptions, Splitting,
    distribute_dataset, distribute_datasets_from_function, split_for,
};
use umbo_core::strategy::Strategy;
use umbo_core::values::Value;

use super::engine::{job, ranks};
use super::{alone, on_ranks, tensor};

/// The numbers 0, 1, ... as rows.
pub fn rows(range: std::ops::Range<i32>) -> Dataset {
    let numbers: Vec<i32> = range.collect();
    Dataset::from_tensor_slices(&Value::Tensor(tensor(&numbers, &[numbers.len()]))).unwrap()
}

/// Of each step the rows of each of the strategy's replicas, and how many examples they say they
/// have.
pub fn steps(strategy: &Strategy, iterator: &PassIterator) -> Vec<Vec<Vec<i32>>> {
    let mut steps = Vec::new();
    while let Some(element) = iterator.next().unwrap() {
        steps.push(parts(strategy, &element));
    }
    assert!(iterator.next().unwrap().is_none());
    steps
}

pub fn parts(strategy: &Strategy, element: &Value) -> Vec<Vec<i32>> {
    (0..strategy.num_replicas())
        .map(|replica| {
            let component = element.component(replica).unwrap();
            let rows = component.tensor_of(0).unwrap().to_vec::<i32>().unwrap();
            assert_eq!(element.examples_of(replica), Some(rows.len() as u64));
            rows
        })
        .collect()
}

/// What all ranks' replicas have got, step by step.
pub fn joined(of_ranks: Vec<Vec<Vec<Vec<i32>>>>) -> Vec<Vec<Vec<i32>>> {
    let count = of_ranks[0].len();
    assert!(
        of_ranks.iter().all(|steps| steps.len() == count),
        "{of_ranks:?}"
    );
    (0..count)
        .map(|step| {
            of_ranks
                .iter()
                .flat_map(|steps| steps[step].clone())
                .collect()
        })
        .collect()
}

#[test]
fn batches_are_split_over_the_replicas_of_all_ranks() {
    for (size, replicas) in [(2, 1), (3, 1), (2, 2), (3, 2), (4, 3)] {
        for count in [1, 7, 24, 50] {
            for splitting in [Splitting::Ceiling, Splitting::Balanced] {
                for read_ahead in [0, 2] {
                    let options = DistributeOptions {
                        splitting,
                        read_ahead: Some(read_ahead),
                        ..DistributeOptions::default()
                    };
                    let shuffle = ShuffleOptions {
                        buffer_size: 10,
                        seed: 5,
                        ..ShuffleOptions::default()
                    };
                    let data = || {
                        rows(0..count)
                            .shuffle(&shuffle)
                            .unwrap()
                            .batch(9, false)
                            .unwrap()
                    };
                    let strategy = alone(size * replicas);
                    let distributed = distribute_dataset(&strategy, &data(), &options).unwrap();
                    let expected = steps(&strategy, &distributed.iterator().unwrap());
                    let came = on_ranks(&ranks(size), replicas, |_, strategy| {
                        let strategy = strategy.unwrap();
                        let distributed = distribute_dataset(&strategy, &data(), &options).unwrap();
                        assert_eq!(distributed.replicas(), replicas);
                        let iterator = distributed.iterator().unwrap();
                        let first = steps(&strategy, &iterator);
                        iterator.reset().unwrap();
                        let again = steps(&strategy, &iterator);
                        assert_eq!(again.len(), first.len());
                        first
                    });
                    assert_eq!(
                        joined(came),
                        expected,
                        "{size}×{replicas}, {count}: {options:?}"
                    );
                    let mut all: Vec<i32> = expected.into_iter().flatten().flatten().collect();
                    all.sort_unstable();
                    assert!(all.into_iter().eq(0..count));
                }
            }
        }
    }
}

#[test]
fn ranks_with_data_of_their_own_go_on_together() {
    // How many rows each rank has.
    let counts = [10, 0, 3];
    for replicas in [1, 2] {
        for drop_partial_step in [false, true] {
            for from_function in [false, true] {
                let options = DistributeOptions {
                    sharding: Sharding::Off,
                    drop_partial_step,
                    ..DistributeOptions::default()
                };
                let came = on_ranks(&job(3, Some(3), None), replicas, |rank, strategy| {
                    let strategy = strategy.unwrap();
                    let first: i32 = counts[..rank].iter().sum();
                    let data = || rows(first..first + counts[rank]).batch(2, false);
                    let distributed = if from_function {
                        distribute_datasets_from_function(
                            &strategy,
                            |context| {
                                assert_eq!(context.num_input_pipelines, 3);
                                assert_eq!(context.input_pipeline_id, rank as i32);
                                assert_eq!(context.num_replicas_in_sync, 3 * replicas as i64);
                                data()
                            },
                            &options,
                        )
                    } else {
                        distribute_dataset(&strategy, &data().unwrap(), &options)
                    };
                    steps(&strategy, &distributed.unwrap().iterator().unwrap())
                });
                let steps = joined(came);
                let all: Vec<i32> = steps.iter().flatten().flatten().copied().collect();
                if drop_partial_step {
                    // One rank has nothing from the start.
                    assert_eq!(steps.len(), 0);
                    continue;
                }
                let batches = if from_function {
                    5usize.div_ceil(replicas)
                } else {
                    5
                };
                assert_eq!(steps.len(), batches);
                let mut sorted = all.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..13), "{steps:?}");
            }
        }
    }
}

/// Memory that a rank has none of for a while: with data of their own all ranks are told and try
/// again, with parts of the same batches it is that rank alone. Nothing is lost or comes twice.
#[test]
fn memory_that_one_rank_lacks_costs_no_element() {
    let counts = [7, 0, 4];
    let shardings = [Sharding::Off, Sharding::Data];
    for (sharding, read_ahead) in shardings.into_iter().flat_map(|way| [(way, 0), (way, 2)]) {
        let came = on_ranks(&job(3, Some(11), None), 1, |rank, strategy| {
            let strategy = strategy.unwrap();
            let is_off = sharding == Sharding::Off;
            let first: i32 = counts[..rank].iter().sum();
            let data = if is_off {
                rows(first..first + counts[rank])
            } else {
                rows(0..11)
            };
            let size = if is_off { 1 } else { 3 };
            let calls = Arc::new(AtomicUsize::new(0));
            let function = move |value: &Value| -> Result<Value> {
                // Each rank lacks it at other times, and twice in a row.
                match (calls.fetch_add(1, Ordering::Relaxed) + rank) % 5 {
                    2 | 3 => Err(Error::beyond_limit("the memory of this rank")),
                    _ => Ok(value.clone()),
                }
            };
            let data = data.batch(size, false).unwrap();
            let data = data.map(function, MapOptions::default()).unwrap();
            let options = DistributeOptions {
                sharding,
                read_ahead: Some(read_ahead),
                ..DistributeOptions::default()
            };
            let distributed = distribute_dataset(&strategy, &data, &options).unwrap();
            let iterator = distributed.iterator().unwrap();
            let mut steps = Vec::new();
            let mut failures = 0;
            loop {
                match iterator.next() {
                    Ok(Some(element)) => steps.push(parts(&strategy, &element)),
                    Ok(None) => break,
                    Err(error) => {
                        failures += 1;
                        assert_eq!(error.status(), Status::ResourceExhausted, "{error}");
                    }
                }
                let place = iterator.save_position().unwrap();
                let other = distributed.iterator().unwrap();
                // What the ranks have not agreed on is made again, which lacks memory, too.
                assert!((0..3).any(|_| other.restore_position(&place).is_ok()));
                assert_eq!(other.save_position().unwrap(), place);
            }
            (steps, failures)
        });
        let (steps, failures): (Vec<_>, Vec<i32>) = came.into_iter().unzip();
        let case = format!("{sharding:?}, {read_ahead} ahead: {failures:?}");
        assert!(failures.iter().all(|&count| count > 0), "{case}");
        if sharding == Sharding::Off {
            assert!(failures.iter().all(|&count| count == failures[0]), "{case}");
        }
        let steps = joined(steps);
        let mut all: Vec<i32> = steps.iter().flatten().flatten().copied().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..11), "{case}: {steps:?}");
        assert_eq!(
            steps.len(),
            if sharding == Sharding::Off { 7 } else { 4 },
            "{case}"
        );
    }
}

/// A global batch that all ranks have, wherever its rows lie, is split over all replicas as one
/// process splits it, also into empty parts.
#[test]
fn a_batch_is_split_over_the_replicas_of_all_ranks() {
    let numbers = |shape: &[usize]| {
        let count: usize = shape.iter().product();
        tensor(&(0..count as i32).collect::<Vec<_>>(), shape)
    };
    let batches = [0, 1, 2, 5, 12, 13].into_iter().flat_map(|rows| {
        [
            numbers(&[rows]),
            numbers(&[2 * rows]).slice(0, 0, 2 * rows, 2).unwrap(),
            numbers(&[3, rows]).transpose(&[1, 0]).unwrap(),
        ]
    });
    let batches: Vec<Value> = batches.map(Value::Tensor).collect();
    for (size, replicas) in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 2)] {
        let one = alone(size * replicas);
        let all: Vec<_> = batches
            .iter()
            .map(|batch| split_for(&one, batch).unwrap())
            .collect();
        on_ranks(&ranks(size), replicas, |rank, strategy| {
            let strategy = strategy.unwrap();
            for (batch, all) in batches.iter().zip(&all) {
                let split = split_for(&strategy, batch).unwrap();
                for replica in 0..replicas {
                    let expected = all.component(rank * replicas + replica).unwrap();
                    let came = split.component(replica).unwrap();
                    let expected = expected.tensor_of(0).unwrap();
                    let came = came.tensor_of(0).unwrap();
                    assert_eq!(came.shape(), expected.shape());
                    let expected = expected.to_vec::<i32>().unwrap();
                    assert_eq!(came.to_vec::<i32>().unwrap(), expected);
                }
            }
        });
    }
}
