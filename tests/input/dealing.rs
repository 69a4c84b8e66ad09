//! Elements dealt out to replicas, balanced splitting, and the options of distribution.

use crate::common::{all, counting, fails, ints, numbers, parts, read, rest};
use umbo_core::device::{DeviceId, DeviceKind};
use umbo_core::error::{Error, Status};
use umbo_core::input::{
    Cardinality, Dataset, DistributeOptions, DistributedDataset, ElementSpec, LeafSpec, Sharding,
    Splitting, distribute, distribute_dataset, distribute_per_replica_batches, make_numpy_dataset,
};
use umbo_core::strategy::Strategy;
use umbo_core::strategy::setup::central_storage::Options;
use umbo_core::tensor::DType;
use umbo_core::values::Value;

fn devices(count: usize) -> Vec<DeviceId> {
    (0..count as u32).map(DeviceId::cpu).collect()
}

fn strategy(replicas: usize) -> Strategy {
    Strategy::new(&Options {
        cpu_replicas: replicas,
        ..Options::default()
    })
    .unwrap()
}

fn dealt(dataset: &Dataset, replicas: usize, options: &DistributeOptions) -> DistributedDataset {
    distribute_per_replica_batches(dataset, replicas, &devices(replicas), options).unwrap()
}

fn balanced(dataset: &Dataset, replicas: usize, drop_partial_step: bool) -> DistributedDataset {
    let options = DistributeOptions {
        splitting: Splitting::Balanced,
        drop_partial_step,
        ..Default::default()
    };
    distribute(dataset, replicas, &devices(replicas), &options).unwrap()
}

fn steps(dataset: &DistributedDataset) -> Vec<Vec<Vec<i32>>> {
    rest(&dataset.iterator().unwrap(), parts)
}

const DROPPING: DistributeOptions = DistributeOptions {
    splitting: Splitting::Ceiling,
    drop_partial_step: true,
    keep_on_host: false,
    read_ahead: Some(1),
    sharding: Sharding::Data,
    compared_steps: None,
};

/// What is made of batches before they are distributed.
type Way = (&'static str, fn(&Dataset) -> Dataset);

const WAYS: [Way; 9] = [
    ("as it is", Dataset::clone),
    ("prefetch", |batches| batches.prefetch(1).unwrap()),
    ("cache", |batches| batches.cache().unwrap()),
    ("all", |batches| batches.take(-1).unwrap()),
    ("one round", |batches| batches.repeat(1).unwrap()),
    ("alone", |batches| {
        Dataset::concatenate(std::slice::from_ref(batches)).unwrap()
    }),
    ("two rounds", |batches| batches.repeat(2).unwrap()),
    ("all but one", |batches| batches.skip(1).unwrap()),
    ("itself twice", |batches| {
        Dataset::concatenate(&[batches.clone(), batches.clone()]).unwrap()
    }),
];

/// The rows that each replica gets of a batch of `rows`, where a full one has `full`.
fn shares(rows: &[i32], full: usize, replicas: usize) -> Vec<Vec<i32>> {
    let mut left = rows;
    (0..replicas)
        .map(|replica| {
            let share = full / replicas + usize::from(replica < full % replicas);
            let (share_of_replica, rest) = left.split_at(share.min(left.len()));
            left = rest;
            share_of_replica.to_vec()
        })
        .collect()
}

/// Each batch is split by itself, beside a model: the steps, and how many there are said to be.
#[test]
fn shares_of_each_batch_are_those_of_a_full_one() {
    for (count, batch, replicas) in (0..18usize)
        .flat_map(|count| (1..7usize).flat_map(move |b| [1, 2, 3, 5].map(|n| (count, b, n))))
    {
        for (name, way) in &WAYS {
            let drop_remainder = (count + batch) % 3 == 0;
            let drop = (count + replicas) % 2 == 0;
            let batches = way(&numbers(count).batch(batch as i64, drop_remainder).unwrap());
            let whole = |rows: &Vec<i32>| !drop || rows.len() == batch;
            let rows: Vec<Vec<i32>> = all(&batches).into_iter().filter(whole).collect();
            let expected: Vec<_> = rows
                .iter()
                .map(|rows| shares(rows, batch, replicas))
                .collect();
            let dataset = balanced(&batches, replicas, drop);
            let case =
                format!("{count} by {batch} over {replicas}, {name}, {drop_remainder} {drop}");
            assert_eq!(steps(&dataset), expected, "{case}");
            match dataset.cardinality() {
                Cardinality::Exact(steps) => assert_eq!(steps as usize, expected.len(), "{case}"),
                // Of how many batches are smaller nothing is known.
                other => {
                    let may_be_smaller = drop && !drop_remainder;
                    assert!(may_be_smaller && other == Cardinality::Unknown, "{case}");
                }
            }
        }
    }
    // Where the size of a full batch is not known, each batch is one.
    let mapped = numbers(7).batch(5, false).unwrap();
    let mapped = mapped
        .map(|batch| Ok(batch.clone()), Default::default())
        .unwrap();
    for drop in [false, true] {
        let expected = [
            [vec![0, 1], vec![2, 3], vec![4]],
            [vec![5], vec![6], vec![]],
        ];
        assert_eq!(steps(&balanced(&mapped, 3, drop)), expected, "{drop}");
    }
}

/// A training that is resumed on other numbers of replicas, and split in another way, gets the same
/// batches.
#[test]
fn batches_and_their_places_are_the_same_for_all_numbers_of_replicas() {
    let joined = |step: &Value| match step {
        Value::PerReplica(_) => parts(step).concat(),
        plain => ints(plain),
    };
    for (name, way) in &WAYS {
        for drop in [false, true] {
            let batches = || way(&numbers(14).batch(4, false).unwrap());
            let over = |replicas, splitting| {
                let options = DistributeOptions {
                    splitting,
                    drop_partial_step: drop,
                    ..DistributeOptions::default()
                };
                distribute(&batches(), replicas, &devices(replicas), &options).unwrap()
            };
            let one = over(1, Splitting::Balanced).iterator().unwrap();
            let mut positions = vec![one.save_position().unwrap()];
            let mut expected = Vec::new();
            while let Some(step) = one.next().unwrap() {
                expected.push(joined(&step));
                positions.push(one.save_position().unwrap());
            }
            assert!(!expected.is_empty());
            for replicas in [1, 2, 3, 5] {
                // Only balanced batches have a size below which a step is partial.
                let ways = [Splitting::Balanced, Splitting::Ceiling];
                for splitting in ways.into_iter().take(if drop { 1 } else { 2 }) {
                    for (place, position) in positions.iter().enumerate() {
                        let iterator = over(replicas, splitting).iterator().unwrap();
                        iterator.restore_position(position).unwrap();
                        let case = format!("{name}, {replicas} replicas from {place}, {drop}");
                        assert_eq!(rest(&iterator, joined), expected[place..], "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn each_replica_gets_whole_elements() {
    let pairs = numbers(9).batch(2, false).unwrap();
    let complete = [[vec![0, 1], vec![2, 3]], [vec![4, 5], vec![6, 7]]];
    let all_steps = [complete[0].clone(), complete[1].clone(), [vec![8], vec![]]];
    let dataset = dealt(&pairs, 2, &Default::default());
    assert_eq!(steps(&dataset), all_steps);
    assert_eq!(dataset.cardinality(), Cardinality::Exact(3));
    assert_eq!(steps(&dealt(&pairs, 2, &DROPPING)), complete);
    assert_eq!(
        dealt(&pairs, 2, &DROPPING).cardinality(),
        Cardinality::Exact(2)
    );
    assert_eq!(steps(&dealt(&pairs, 5, &DROPPING)).len(), 1);
    assert!(steps(&dealt(&pairs, 6, &DROPPING)).is_empty());
}

#[test]
fn empty_components_keep_dtype_rank_and_row_shape() {
    let nest = Value::tuple(vec![
        Value::Tensor(counting(&[2, 3])),
        Value::Tensor(counting(&[2])),
    ])
    .unwrap();
    let element = Dataset::from_tensors(&nest).unwrap();
    let step = dealt(&element, 3, &Default::default())
        .iterator()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    for (item, full, empty) in [(0, vec![2, 3], vec![0, 3]), (1, vec![2], vec![0])] {
        let leaf = step.item(item).unwrap();
        let shapes: Vec<_> = (0..3)
            .map(|replica| leaf.tensor_of(replica).unwrap().shape().to_vec())
            .collect();
        assert_eq!(shapes, [full, empty.clone(), empty]);
        assert_eq!(leaf.tensor_of(2).unwrap().dtype(), DType::Int32);
        assert_eq!(leaf.tensor_of(2).unwrap().examples(), Some(0));
    }
}

#[test]
fn specs_of_dealt_elements() {
    let spec = |count: usize, drop_remainder, replicas, options: &DistributeOptions| {
        let batches = numbers(count).batch(4, drop_remainder).unwrap();
        dealt(&batches, replicas, options).element_spec().clone()
    };
    let leaf = |rows| LeafSpec {
        dtype: DType::Int32,
        shape: vec![rows],
    };
    let each = |rows| ElementSpec::PerReplica(2, leaf(rows));
    let default = DistributeOptions::default();
    assert_eq!(spec(8, true, 2, &default), each(Some(4)));
    assert_eq!(
        spec(12, true, 2, &default),
        each(None),
        "the last step is completed"
    );
    assert_eq!(spec(12, true, 2, &DROPPING), each(Some(4)));
    assert_eq!(spec(8, false, 2, &default), each(None));
    assert_eq!(spec(8, true, 1, &default), ElementSpec::Leaf(leaf(Some(4))));
    let iterator = dealt(&numbers(4), 2, &default).iterator().unwrap();
    let scalars = ElementSpec::PerReplica(
        2,
        LeafSpec {
            dtype: DType::Int32,
            shape: vec![],
        },
    );
    assert_eq!(*iterator.element_spec(), scalars);
    assert_eq!(
        numbers(4).iterator().unwrap().element_spec(),
        numbers(4).element_spec()
    );
}

#[test]
fn components_lie_on_their_devices_or_stay_on_the_host() {
    let batches = numbers(5).batch(4, false).unwrap();
    let seen = |dataset: DistributedDataset, replicas| {
        rest(&dataset.iterator().unwrap(), |step| {
            (0..replicas)
                .map(|replica| step.tensor_of(replica).unwrap().device().index)
                .collect::<Vec<_>>()
        })
    };
    let two = [DeviceId::cpu(4), DeviceId::cpu(2)];
    let host = DistributeOptions {
        keep_on_host: true,
        ..Default::default()
    };
    let default = DistributeOptions::default();
    let balanced = DistributeOptions {
        splitting: Splitting::Balanced,
        ..default
    };
    for (options, expected) in [(&default, [4, 2]), (&balanced, [4, 2]), (&host, [0, 0])] {
        assert_eq!(
            seen(distribute(&batches, 2, &two, options).unwrap(), 2),
            [expected; 2]
        );
        assert_eq!(
            seen(
                distribute_per_replica_batches(&batches, 2, &two, options).unwrap(),
                2
            ),
            [expected]
        );
        let one = distribute(&batches, 1, &two[..1], options).unwrap();
        assert_eq!(seen(one, 1), [[expected[0]]; 2]);
    }
    // The memory is the array's wherever a component lies.
    let array = counting(&[4]);
    let rows = Dataset::from_tensor_slices(&Value::Tensor(array.clone())).unwrap();
    let dataset = distribute(&rows.batch(4, false).unwrap(), 2, &two, &default).unwrap();
    let step = dataset.iterator().unwrap().next().unwrap().unwrap();
    let part = step.tensor_of(1).unwrap();
    assert_eq!(part.address(), array.slice(0, 2, 4, 1).unwrap().address());
    assert_eq!(part.slice(0, 1, 2, 1).unwrap().device(), DeviceId::cpu(2));
    // On the host, devices need no memory that the CPU can address.
    let gpus = [0, 1].map(|index| DeviceId {
        kind: DeviceKind::Gpu,
        index,
    });
    assert_eq!(
        seen(distribute(&batches, 2, &gpus, &host).unwrap(), 2),
        [[0, 0]; 2]
    );
}

#[test]
fn options_that_are_out_of_range() {
    let batches = numbers(8).batch(4, false).unwrap();
    let with = |keep_on_host, read_ahead| {
        let options = DistributeOptions {
            keep_on_host,
            read_ahead: Some(read_ahead),
            ..Default::default()
        };
        let distributed = distribute(&batches, 2, &devices(2), &options);
        let dealt = distribute_per_replica_batches(&batches, 2, &devices(2), &options);
        assert_eq!(
            dealt.as_ref().map(|_| ()).map_err(Error::status),
            distributed.as_ref().map(|_| ()).map_err(Error::status)
        );
        distributed
    };
    fails(with(false, -1), Status::InvalidArgument, "prefetch_count");
    fails(with(true, 5000), Status::InvalidArgument, "prefetch_count");
    assert!(with(true, 0).is_ok());
}

#[test]
fn a_failure_comes_behind_the_steps_before_it() {
    let fragile = |element: &Value| match ints(element)[0] {
        5 => Err(Error::DataLoss("five".into())),
        _ => Ok(element.clone()),
    };
    let source = numbers(8).map(fragile, Default::default()).unwrap();
    for read_ahead in [0, 1, 3] {
        let options = DistributeOptions {
            read_ahead: Some(read_ahead),
            ..Default::default()
        };
        let batches = source.batch(2, false).unwrap();
        let iterator = distribute(&batches, 2, &devices(2), &options)
            .unwrap()
            .iterator()
            .unwrap();
        assert_eq!(parts(&iterator.next().unwrap().unwrap()), [[0], [1]]);
        assert_eq!(parts(&iterator.next().unwrap().unwrap()), [[2], [3]]);
        fails(iterator.next(), Status::DataLoss, "five");
        assert_eq!(parts(&iterator.next().unwrap().unwrap()), [[4], [6]]);
        assert_eq!(parts(&iterator.next().unwrap().unwrap()), [vec![7], vec![]]);
        assert!(iterator.next().unwrap().is_none());

        let iterator = dealt(&source, 2, &options).iterator().unwrap();
        assert_eq!(parts(&iterator.next().unwrap().unwrap()), [[0], [1]]);
        assert_eq!(parts(&iterator.next().unwrap().unwrap()), [[2], [3]]);
        fails(iterator.next(), Status::DataLoss, "five");
        // What had been taken of the step is still there.
        assert_eq!(parts(&iterator.next().unwrap().unwrap()), [[4], [6]]);
        iterator.reset().unwrap();
        assert_eq!(parts(&iterator.next().unwrap().unwrap()), [[0], [1]]);
    }
}

#[test]
fn threads_share_an_iterator() {
    for replicas in [1, 2, 3] {
        let batches = numbers(600).batch(3, false).unwrap();
        let iterator = balanced(&batches, replicas, false).iterator().unwrap();
        let mut seen: Vec<i32> = std::thread::scope(|scope| {
            let each = || {
                rest(&iterator, |step| match step {
                    Value::PerReplica(_) => parts(step).concat(),
                    plain => ints(plain),
                })
                .concat()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(each)).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        seen.sort_unstable();
        assert_eq!(seen, Vec::from_iter(0..600));
    }
}

#[test]
fn arrays_are_copied_by_a_numpy_dataset() {
    let strategy = strategy(2);
    let array = counting(&[3, 2]);
    let nest = Value::tuple(vec![
        Value::Tensor(array.clone()),
        Value::Tensor(counting(&[3])),
    ])
    .unwrap();
    let dataset = make_numpy_dataset(&strategy, &nest).unwrap();
    // SAFETY: nobody reads the array now.
    unsafe { array.assume_exclusive() }.fill_zeros().unwrap();
    let seen = rest(&dataset.iterator().unwrap(), |element| {
        read::<i32>(element.item(0).unwrap().tensor_of(0).unwrap())
    });
    assert_eq!(seen, [[0, 1], [2, 3], [4, 5]]);
    let invalid = Status::InvalidArgument;
    let distributed = distribute_dataset(&strategy, &dataset, &Default::default());
    fails(distributed, invalid, "batch the dataset");
    let uneven = Value::tuple(vec![
        Value::Tensor(counting(&[2])),
        Value::Tensor(counting(&[3])),
    ])
    .unwrap();
    fails(
        make_numpy_dataset(&strategy, &uneven),
        invalid,
        "dimension 0 differs",
    );
    fails(
        make_numpy_dataset(&strategy, &Value::Tensor(counting(&[]))),
        invalid,
        "a scalar",
    );
    assert_eq!(
        all(&make_numpy_dataset(&strategy, &Value::Tensor(counting(&[2]))).unwrap()),
        [[0], [1]]
    );
    let in_replica = |_: &umbo_core::strategy::ReplicaContext| {
        make_numpy_dataset(&strategy, &Value::Tensor(counting(&[2]))).map(|_| None)
    };
    fails(
        strategy.run(&in_replica, None),
        Status::FailedPrecondition,
        "requires being in cross-replica context",
    );
}
