//! Distribution: each batch split over the replicas.

use crate::common::{all, counting, fails, numbers, parts, rest};
use proptest::prelude::*;
use umbo_core::device::{DeviceId, DeviceKind, registry};
use umbo_core::error::Status;
use umbo_core::input::{
    Dataset, DistributeOptions, DistributedDataset, ShuffleOptions, Splitting, distribute,
};
use umbo_core::values::Value;

fn devices(count: usize) -> Vec<DeviceId> {
    (0..count as u32).map(DeviceId::cpu).collect()
}

fn over(dataset: &Dataset, replicas: usize) -> DistributedDataset {
    let options = DistributeOptions::default();
    distribute(dataset, replicas, &devices(replicas), &options).unwrap()
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
fn parts_are_views_of_the_batch() {
    let array = counting(&[8]);
    let dataset = Dataset::from_tensor_slices(&Value::Tensor(array.clone())).unwrap();
    let iterator = over(&dataset.batch(8, false).unwrap(), 2)
        .iterator()
        .unwrap();
    let element = iterator.next().unwrap().unwrap();
    assert_eq!(element.tensor_of(0).unwrap().address(), array.address());
    assert_eq!(
        element.tensor_of(1).unwrap().address(),
        array.slice(0, 4, 8, 1).unwrap().address()
    );
}

#[test]
fn what_cannot_be_distributed_is_refused_at_once() {
    let options = DistributeOptions::default();
    let scalars = numbers(4);
    let to = |dataset, replicas, devices: &[_]| distribute(dataset, replicas, devices, &options);
    fails(
        to(&scalars, 2, &devices(2)),
        Status::InvalidArgument,
        "batch the dataset",
    );
    let batches = scalars.batch(2, false).unwrap();
    fails(to(&batches, 0, &[]), Status::InvalidArgument, "devices");
    fails(
        to(&batches, 2, &devices(3)),
        Status::InvalidArgument,
        "3 devices for 2 replicas",
    );
    let gpu = DeviceId {
        kind: DeviceKind::Gpu,
        index: 0,
    };
    if registry::REGISTRY.logical_count(DeviceKind::Gpu) == 0 {
        fails(to(&batches, 1, &[gpu]), Status::NotFound, "GPU:0");
    }
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
