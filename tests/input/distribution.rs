//! Distribution: each batch split over the replicas.

use crate::common::{all, counting, fails, numbers, parts, rest};
use proptest::prelude::*;
use umbo::device::{DeviceId, DeviceKind, registry};
use umbo::error::Status;
use umbo::input::{
    Dataset, DistributeOptions, DistributedDataset, ElementSpec, LeafSpec, ShuffleOptions,
    Splitting, distribute,
};
use umbo::tensor::DType;
use umbo::values::Value;

fn devices(count: usize) -> Vec<DeviceId> {
    (0..count as u32).map(DeviceId::cpu).collect()
}

fn over(dataset: &Dataset, replicas: usize) -> DistributedDataset {
    let options = DistributeOptions::default();
    distribute(dataset, replicas, &devices(replicas), &options).unwrap()
}

fn steps(dataset: &DistributedDataset) -> Vec<Vec<Vec<i32>>> {
    rest(&dataset.iterator().unwrap(), parts)
}

#[test]
fn rule_a_on_full_and_partial_batches() {
    let batches = numbers(14).batch(8, false).unwrap();
    let expected = [[vec![0, 1, 2, 3], vec![4, 5, 6, 7]], [vec![8, 9, 10], vec![11, 12, 13]]];
    assert_eq!(steps(&over(&batches, 2)), expected);
    let dropped = numbers(14).batch(8, true).unwrap();
    assert_eq!(steps(&over(&dropped, 2)), expected[..1]);
}

#[test]
fn rule_a_sizes() {
    let table: [(usize, usize, &[usize]); 6] = [
        (9, 4, &[3, 3, 3, 0]),
        (4, 3, &[2, 2, 0]),
        (3, 2, &[2, 1]),
        (1, 2, &[1, 0]),
        (2, 4, &[1, 1, 0, 0]),
        (8, 4, &[2, 2, 2, 2]),
    ];
    for (rows, replicas, expected) in table {
        let batch = numbers(rows).batch(rows as i64, false).unwrap();
        let sizes: Vec<_> = steps(&over(&batch, replicas))[0].iter().map(Vec::len).collect();
        assert_eq!(sizes, expected, "{rows} rows over {replicas} replicas");
    }
}

#[test]
fn balanced_sizes_on_request() {
    let options = DistributeOptions { splitting: Splitting::Balanced, ..Default::default() };
    let batch = numbers(9).batch(9, false).unwrap();
    let dataset = distribute(&batch, 4, &devices(4), &options).unwrap();
    assert_eq!(steps(&dataset), [[vec![0, 1, 2], vec![3, 4], vec![5, 6], vec![7, 8]]]);
}

#[test]
fn empty_parts_keep_rank_and_dtype_and_parts_know_their_examples() {
    let rows = Dataset::from_tensor_slices(&Value::Tensor(counting(&[1, 2, 3]))).unwrap();
    let iterator = over(&rows.batch(4, false).unwrap(), 2).iterator().unwrap();
    let element = iterator.next().unwrap().unwrap();
    let (full, empty) = (element.tensor_of(0).unwrap(), element.tensor_of(1).unwrap());
    assert_eq!((&full.shape()[..], full.examples()), (&[1, 2, 3][..], Some(1)));
    assert_eq!((&empty.shape()[..], empty.examples()), (&[0, 2, 3][..], Some(0)));
    assert_eq!(empty.dtype(), DType::Int32);
}

#[test]
fn leaves_are_split_by_their_own_rows() {
    let four = numbers(4).batch(4, false).unwrap();
    let six = numbers(6).batch(6, false).unwrap();
    let zipped = Dataset::zip(&[four, six], Some(&["a", "b"])).unwrap();
    let iterator = over(&zipped, 2).iterator().unwrap();
    let element = iterator.next().unwrap().unwrap();
    assert_eq!(parts(element.at_path("a").unwrap()), [[0, 1], [2, 3]]);
    assert_eq!(parts(element.at_path("b").unwrap()), [[0, 1, 2], [3, 4, 5]]);
    assert_eq!(element.examples_of(1), Some(2));
}

#[test]
fn one_replica_gets_plain_tensors() {
    let dataset = over(&numbers(5).batch(3, false).unwrap(), 1);
    let seen = rest(&dataset.iterator().unwrap(), |element| {
        let Value::Tensor(tensor) = element else { panic!("{element:?}") };
        (crate::common::ints(element), tensor.examples(), element.examples_of(0))
    });
    assert_eq!(seen, [(vec![0, 1, 2], Some(3), Some(3)), (vec![3, 4], Some(2), Some(2))]);
    assert_eq!(rest(&over(&numbers(2), 1).iterator().unwrap(), crate::common::ints).len(), 2);
}

#[test]
fn parts_are_views_of_the_batch() {
    let array = counting(&[8]);
    let dataset = Dataset::from_tensor_slices(&Value::Tensor(array.clone())).unwrap();
    let iterator = over(&dataset.batch(8, false).unwrap(), 2).iterator().unwrap();
    let element = iterator.next().unwrap().unwrap();
    assert_eq!(element.tensor_of(0).unwrap().address(), array.address());
    assert_eq!(element.tensor_of(1).unwrap().address(), array.slice(0, 4, 8, 1).unwrap().address());
}

#[test]
fn what_cannot_be_distributed_is_refused_at_once() {
    let options = DistributeOptions::default();
    let scalars = numbers(4);
    let to = |dataset, replicas, devices: &[_]| distribute(dataset, replicas, devices, &options);
    fails(to(&scalars, 2, &devices(2)), Status::InvalidArgument, "batch the dataset");
    let batches = scalars.batch(2, false).unwrap();
    fails(to(&batches, 0, &[]), Status::InvalidArgument, "devices");
    fails(to(&batches, 2, &devices(3)), Status::InvalidArgument, "3 devices for 2 replicas");
    let gpu = DeviceId { kind: DeviceKind::Gpu, index: 0 };
    if registry::logical_count(DeviceKind::Gpu) == 0 {
        fails(to(&batches, 1, &[gpu]), Status::NotFound, "GPU:0");
    }
}

#[test]
fn specs_and_cardinality() {
    let spec = |rows, drop, replicas| {
        let batches = numbers(20).batch(rows, drop).unwrap();
        let dataset = over(&batches, replicas);
        assert_eq!(dataset.cardinality(), batches.cardinality());
        dataset.element_spec().clone()
    };
    let leaf = |rows| LeafSpec { dtype: DType::Int32, shape: vec![rows] };
    assert_eq!(spec(8, true, 2), ElementSpec::PerReplica(2, leaf(Some(4))));
    assert_eq!(spec(9, true, 2), ElementSpec::PerReplica(2, leaf(None)));
    assert_eq!(spec(8, false, 2), ElementSpec::PerReplica(2, leaf(None)));
    assert_eq!(spec(8, true, 1), ElementSpec::Leaf(leaf(Some(8))));
}

#[test]
fn empty_and_endless_datasets() {
    let batches = numbers(4).take(0).unwrap().batch(2, false).unwrap();
    let iterator = over(&batches, 2).iterator().unwrap();
    assert!(iterator.next().unwrap().is_none());
    let endless = numbers(3).repeat(-1).unwrap().batch(2, false).unwrap();
    let iterator = over(&endless, 2).iterator().unwrap();
    assert!((0..100).all(|_| iterator.next().unwrap().is_some()));
}

proptest! {
    /// Whatever the sizes, the parts of all steps in replica order are the source.
    #[test]
    fn the_parts_of_all_steps_are_the_source(
        rows in 0usize..60,
        batch in 1i64..20,
        replicas in 1usize..7,
        rounds in 1i64..3,
        balanced: bool,
        prefetch: bool,
        shuffle in proptest::option::of(any::<u64>()),
        elements: bool,
    ) {
        let mut source = numbers(rows);
        if elements {
            // A dataset of elements rather than of rows.
            source = Dataset::zip(&[source.repeat(1).unwrap(), numbers(rows)], None).unwrap();
        } else {
            source = Dataset::zip(&[source.clone(), source], None).unwrap();
        }
        if let Some(seed) = shuffle {
            let keep_order_each_pass = true;
            let options = ShuffleOptions { seed, keep_order_each_pass, ..Default::default() };
            source = source.shuffle(&options).unwrap();
        }
        let source = source.repeat(rounds).unwrap();
        let expected = rest(&source.iterator().unwrap(), |element| {
            crate::common::ints(&element.item(0).unwrap())
        })
        .concat();
        let mut batches = source.batch(batch, false).unwrap();
        if prefetch {
            batches = batches.prefetch(2).unwrap();
        }
        let splitting = if balanced { Splitting::Balanced } else { Splitting::Ceiling };
        let options = DistributeOptions { splitting, ..Default::default() };
        let dataset = distribute(&batches, replicas, &devices(replicas), &options).unwrap();
        let iterator = dataset.iterator().unwrap();
        let whole = |element: &Value, index| {
            let leaf = element.item(index).unwrap();
            match replicas {
                1 => crate::common::ints(&leaf),
                _ => parts(&leaf).concat(),
            }
        };
        for _ in 0..2 {
            let seen = rest(&iterator, |element| {
                assert_eq!(whole(element, 0), whole(element, 1));
                whole(element, 0)
            });
            prop_assert_eq!(seen.concat(), expected.clone());
            iterator.reset().unwrap();
        }
        prop_assert_eq!(all(&numbers(rows)).len(), rows);
    }
}
