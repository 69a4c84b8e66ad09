//! After its first elements an iterator allocates nothing, on no thread.

use std::cell::Cell;
use std::sync::Barrier;

use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::input::{
    Dataset, DistributeOptions, MapOptions, PassIterator, ShuffleOptions, Splitting, distribute,
    distribute_per_replica_batches,
};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

fn array(dtype: DType, shape: &[usize]) -> Dataset {
    let tensor = Tensor::zeros(dtype, Shape::new(shape).unwrap(), DeviceId::HOST).unwrap();
    Dataset::from_tensor_slices(&Value::Tensor(tensor)).unwrap()
}

/// Passes over the dataset in each way of distributing it.
fn over(dataset: &Dataset, replicas: u32) -> Vec<PassIterator> {
    let devices: Vec<_> = (0..replicas).map(DeviceId::cpu).collect();
    let default = DistributeOptions::default();
    let balanced = DistributeOptions {
        splitting: Splitting::Balanced,
        ..default
    };
    let at_once = DistributeOptions {
        read_ahead: Some(0),
        ..default
    };
    [
        distribute(dataset, devices.len(), &devices, &default),
        distribute(dataset, devices.len(), &devices, &at_once),
        distribute(dataset, devices.len(), &devices, &balanced),
        distribute_per_replica_batches(dataset, devices.len(), &devices, &default),
    ]
    .map(|distributed| distributed.unwrap().iterator().unwrap())
    .into()
}

/// Takes `steps` elements, each held while the next is asked for, as a training loop does.
fn take(iterator: &PassIterator, steps: usize) {
    let mut held = None;
    for _ in 0..steps {
        let next = iterator.next().unwrap();
        if next.is_none() {
            iterator.reset().unwrap();
        }
        drop(std::mem::replace(&mut held, next));
    }
}

/// A mapped function. A thread's first call waits for the other threads', so that all have started,
/// which costs memory, before it is counted what the steady state costs.
fn same(element: &Value) -> Result<Value> {
    static STARTED: Barrier = Barrier::new(PARALLEL_CALLS);
    thread_local!(static IS_NEW: Cell<bool> = const { Cell::new(true) });
    if IS_NEW.replace(false) {
        STARTED.wait();
    }
    Ok(element.clone())
}

const PARALLEL_CALLS: usize = 4;

#[test]
fn steady_state_allocates_nothing() {
    let true = crate::is_alone(steady_state_allocates_nothing) else {
        return;
    };
    let before = crate::allocator::of_all_threads();
    drop(std::hint::black_box(Box::new(before)));
    assert!(
        crate::allocator::of_all_threads() > before,
        "allocations are not counted"
    );
    let rows = Dataset::zip(
        &[
            array(DType::UInt8, &[1000, 28, 28]),
            array(DType::UInt8, &[1000]),
        ],
        Some(&["x", "y"]),
    )
    .unwrap();
    let shuffled = rows.shuffle(&ShuffleOptions::default()).unwrap();
    let batches = shuffled.batch(64, false).unwrap();
    let endless = shuffled.repeat(-1).unwrap().batch(64, false).unwrap();
    let elements = Dataset::zip(&[batches.clone(), batches.clone()], None).unwrap();
    let in_order = rows.batch(64, false).unwrap();
    let numbers = Dataset::range(0, 500, 3).unwrap();
    let parallel = MapOptions {
        parallel_calls: PARALLEL_CALLS as i64,
        element_spec: None,
    };
    let mapped = in_order.map(same, parallel).unwrap();
    let pipelines = [
        ("mapped in parallel", mapped.clone()),
        (
            "mapped in parallel, prefetched",
            mapped.prefetch(2).unwrap(),
        ),
        ("numbers", numbers.batch(5, false).unwrap()),
        ("padded", numbers.padded_batch(5, false).unwrap()),
        (
            "one after the other",
            Dataset::concatenate(&[in_order.clone(), batches.clone()]).unwrap(),
        ),
        (
            "drawn from two",
            Dataset::sample(
                &[in_order.clone(), batches.clone()],
                None,
                &Default::default(),
            )
            .unwrap(),
        ),
        ("every third", batches.shard(3, 1).unwrap()),
        ("filtered", batches.filter(|_| Ok(true)).unwrap()),
        ("kept", batches.cache().unwrap().repeat(-1).unwrap()),
        (
            "taken apart",
            in_order.unbatch().unwrap().batch(10, false).unwrap(),
        ),
        ("cut anew", in_order.rebatch(&[10, 100], false).unwrap()),
        ("in order", in_order.clone()),
        ("in order, prefetched", in_order.prefetch(2).unwrap()),
        ("shuffled", batches.clone()),
        ("shuffled, repeated", batches.repeat(-1).unwrap()),
        ("shuffled, prefetched", batches.prefetch(2).unwrap()),
        (
            "shuffled, prefetched, repeated",
            batches.prefetch(2).unwrap().repeat(-1).unwrap(),
        ),
        ("repeated, prefetched", endless.prefetch(3).unwrap()),
        (
            "batches shuffled",
            batches.shuffle(&ShuffleOptions::default()).unwrap(),
        ),
        ("zipped batches", elements.prefetch(1).unwrap()),
        (
            "batches of elements",
            rows.repeat(1)
                .unwrap()
                .prefetch(4)
                .unwrap()
                .batch(8, false)
                .unwrap(),
        ),
    ];
    for (name, dataset) in pipelines {
        for replicas in [1, 3] {
            for (way, iterator) in over(&dataset, replicas).iter().enumerate() {
                take(iterator, 80);
                let before = crate::allocator::of_all_threads();
                take(iterator, 400);
                let after = crate::allocator::of_all_threads();
                assert_eq!(after - before, 0, "{name}, {replicas} replicas, way {way}");
            }
        }
    }
}
