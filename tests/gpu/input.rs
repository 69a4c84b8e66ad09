//! Input for GPUs whose memory is taken for a while.

use fake_cuda::harness::under_driver;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::input::{
    Dataset, DistributeOptions, MapOptions, PassIterator, Splitting, distribute,
    distribute_per_replica_batches,
};
use umbo_core::tensor::DType;
use umbo_core::values::Value;

use super::*;

/// The bytes of the GPU that has little memory.
const LIMIT: usize = 4096;

fn batches() -> Dataset {
    Dataset::range(0, 38, 1).unwrap().batch(4, false).unwrap()
}

/// The batches on the GPU, by a function that the library refuses memory.
fn on_the_gpu(calls: i64) -> Dataset {
    let function = |batch: &Value| Ok(Value::Tensor(batch.tensor_of(0)?.copied_to(gpu(0))?));
    batches()
        .map(
            function,
            MapOptions {
                parallel_calls: calls,
                element_spec: None,
            },
        )
        .unwrap()
}

fn iterator(dataset: &Dataset, way: usize, read_ahead: i64) -> PassIterator {
    let options = DistributeOptions {
        splitting: if way == 1 {
            Splitting::Balanced
        } else {
            Splitting::Ceiling
        },
        read_ahead: Some(read_ahead),
        ..Default::default()
    };
    let devices = [gpu(0), gpu(1), HOST];
    match way {
        0 | 1 => distribute(dataset, 3, &devices, &options)
            .unwrap()
            .iterator()
            .unwrap(),
        2 => distribute_per_replica_batches(dataset, 3, &devices, &options)
            .unwrap()
            .iterator()
            .unwrap(),
        3 => distribute(dataset, 1, &devices[..1], &options)
            .unwrap()
            .iterator()
            .unwrap(),
        _ => dataset.iterator().unwrap(),
    }
}

fn words(element: &Value) -> String {
    let described =
        |tensor: &Tensor| format!("{:?}", (tensor.to_vec::<i64>().unwrap(), tensor.device()));
    let replicas = if let Value::PerReplica(_) = element {
        3
    } else {
        1
    };
    (0..replicas)
        .map(|replica| described(element.tensor_of(replica).unwrap()))
        .collect()
}

fn rest(iterator: &PassIterator) -> Vec<String> {
    std::iter::from_fn(|| iterator.next().unwrap())
        .map(|element| words(&element))
        .collect()
}

/// Takes all memory that is left.
fn fill(taken: &mut Vec<Tensor>) {
    for bytes in [1024, 256, 64, 16, 4, 1] {
        while let Ok(tensor) = Tensor::zeros(DType::UInt8, shape(&[bytes]), gpu(0)) {
            taken.push(tensor);
        }
    }
}

/// A pipeline, and what makes it.
type Pipeline = (&'static str, fn() -> Dataset);

#[test]
fn no_batch_is_lost_for_want_of_memory_of_a_gpu() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "1")]) else {
        return;
    };
    registry::REGISTRY
        .split_gpu(0, &[Some(LIMIT as u64), Some(100_000)])
        .unwrap();
    let pipelines: [Pipeline; 6] = [
        ("batches", batches),
        ("map", || on_the_gpu(0)),
        ("parallel map", || on_the_gpu(3)),
        ("cache", || {
            on_the_gpu(0).cache().unwrap().repeat(2).unwrap()
        }),
        ("prefetch", || on_the_gpu(2).prefetch(2).unwrap()),
        ("rebatch", || batches().rebatch(&[3, 2], false).unwrap()),
    ];
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for (name, pipeline) in pipelines {
        let mut failed = 0;
        for (way, read_ahead) in (0..10).flat_map(|way| [0, 1, 3].map(|ahead| (way % 5, ahead))) {
            if (way, name) == (1, "cache") || (way == 4 && read_ahead > 0) {
                continue;
            }
            let case = format!("{name}, way {way}, {read_ahead} ahead");
            let expected = rest(&iterator(&pipeline(), way, read_ahead));
            let input = iterator(&pipeline(), way, read_ahead);
            let mut came = vec![];
            let mut taken = vec![];
            let mut held = vec![];
            let mut failures = 0;
            let mut in_a_row = 0;
            loop {
                match random.random_range(0..3) {
                    0 => fill(&mut taken),
                    1 => taken.clear(),
                    _ => {}
                }
                match input.next() {
                    Ok(Some(element)) => {
                        came.push(words(&element));
                        if random.random_range(0..3) == 0 {
                            held.clear();
                        }
                        held.push(element);
                        in_a_row = 0;
                    }
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(error.status(), Status::ResourceExhausted, "{case}: {error}");
                        failures += 1;
                        in_a_row = if taken.is_empty() { in_a_row + 1 } else { 0 };
                        assert!(in_a_row < 5, "{case}: still {error}");
                    }
                }
            }
            drop(held);
            assert_eq!(came, expected, "{case}");
            failed += failures;
        }
        println!("{name}: {failed} failures");
        assert!(failed > 20, "{name}: memory was hardly ever short");
    }
    clean(&control);
}
