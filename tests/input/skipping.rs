//! Elements that are left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{fails, numbers};
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Status};
use umbo_core::input::{Dataset, PassIterator, ShuffleOptions};
use umbo_core::tensor::{Shape, Tensor};
use umbo_core::values::Value;

/// All numbers of an element.
fn flat(element: &Value, to: &mut Vec<i64>) {
    match element {
        Value::Tensor(tensor) => match tensor.to_vec::<i64>() {
            Ok(numbers) => to.extend(numbers),
            Err(_) => to.extend(
                tensor
                    .to_vec::<i32>()
                    .unwrap()
                    .iter()
                    .map(|&n| i64::from(n)),
            ),
        },
        nest => (0..nest.count()).for_each(|index| flat(&nest.item(index).unwrap(), to)),
    }
}

fn next(iterator: &PassIterator) -> Option<Vec<i64>> {
    iterator.next().unwrap().map(|element| {
        let mut numbers = Vec::new();
        flat(&element, &mut numbers);
        numbers
    })
}

fn all(dataset: &Dataset) -> Vec<Vec<i64>> {
    let iterator = dataset.iterator().unwrap();
    std::iter::from_fn(|| next(&iterator)).collect()
}

/// A source, and what comes of it.
fn source(random: &mut ChaCha8Rng) -> Dataset {
    let count = random.random_range(0..12);
    match random.random_range(0..5) {
        0 => Dataset::range(3, 3 + 2 * count, 2).unwrap(),
        1 => Dataset::range(i64::MAX - count, i64::MAX, 1).unwrap(),
        2 => numbers(count as usize),
        3 => {
            let shapes = (0..=count).map(|at| vec![at; 1 + at as usize % 3]);
            let tensor = |data: Vec<i64>| {
                Tensor::from_slice(&data, Shape::new(&[data.len()]).unwrap(), DeviceId::HOST)
            };
            let tensors: Vec<Tensor> = shapes.map(|data| tensor(data).unwrap()).collect();
            Dataset::elements(&tensors).unwrap()
        }
        _ => {
            let options = ShuffleOptions {
                seed: 3,
                keep_order_each_pass: true,
                buffer_size: 4,
            };
            Dataset::range(0, count, 1)
                .unwrap()
                .shuffle(&options)
                .unwrap()
        }
    }
}

/// A pipeline beside what a list says that comes of it.
fn drawn(random: &mut ChaCha8Rng, stages: usize, case: &mut String) -> (Dataset, Vec<Vec<i64>>) {
    let mut dataset = source(random);
    let mut model = all(&dataset);
    *case += &format!("{dataset:?}");
    for _ in 0..stages {
        let n = random.random_range(0..7);
        let rounds = random.random_range(0..4);
        let stage = random.random_range(0..12);
        *case += &format!(", {stage} ({n} {rounds})");
        (dataset, model) = match stage {
            0 | 1 => (
                dataset.skip(n as i64).unwrap(),
                model.split_off(n.min(model.len())),
            ),
            2 | 3 => {
                let index = n % (rounds + 1);
                let shard = dataset.shard(rounds as i64 + 1, index as i64).unwrap();
                let model = model.into_iter().skip(index).step_by(rounds + 1).collect();
                (shard, model)
            }
            4 => (
                dataset.take(n as i64).unwrap(),
                model[..n.min(model.len())].to_vec(),
            ),
            5 => (
                dataset.repeat(rounds as i64).unwrap(),
                vec![model; rounds].concat(),
            ),
            6 => {
                let endless = dataset.repeat(-1).unwrap().take(3 * n as i64).unwrap();
                let count = if model.is_empty() { 0 } else { 3 * n };
                (endless, model.into_iter().cycle().take(count).collect())
            }
            7 => {
                let twice = Dataset::concatenate(&[dataset.clone(), dataset]).unwrap();
                (twice, [model.clone(), model].concat())
            }
            8 => (dataset.prefetch(1 + n as i64).unwrap(), model),
            9 | 10 => {
                // Elements of several numbers may differ in shape, or be tuples.
                if model.iter().any(|element| element.len() > 1) {
                    continue;
                }
                let size = 1 + n as i64;
                let drop = rounds > 2;
                let batched = match stage {
                    9 => dataset.batch(size, drop),
                    _ => dataset.padded_batch(size, drop),
                };
                let batches = model.chunks(1 + n).filter(|batch| !drop || batch.len() > n);
                (batched.unwrap(), batches.map(<[_]>::concat).collect())
            }
            _ => {
                let pairs = Dataset::zip(&[dataset.clone(), dataset.skip(1).unwrap()], None);
                let mut others = model.iter().skip(1);
                let joined = model
                    .iter()
                    .map_while(|one| Some([&one[..], &others.next()?[..]].concat()));
                (pairs.unwrap(), joined.collect())
            }
        };
        if model.len() > 60 || model.first().is_some_and(|element| element.len() > 30) {
            break;
        }
    }
    (dataset, model)
}

#[test]
fn skips_and_shards_leave_out_what_would_have_come() {
    for seed in 0..1500 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let stages = random.random_range(1..6);
        let mut case = format!("{seed}: ");
        let (dataset, model) = drawn(&mut random, stages, &mut case);
        let iterator = dataset.iterator().unwrap();
        for round in 0..2 {
            for (at, expected) in model.iter().enumerate() {
                assert_eq!(
                    next(&iterator).as_ref(),
                    Some(expected),
                    "{case}: {at} of round {round}"
                );
                if random.random_range(0..8) == 0 {
                    let other = dataset.iterator().unwrap();
                    other
                        .restore_position(&iterator.save_position().unwrap())
                        .unwrap();
                    let rest: Vec<_> = std::iter::from_fn(|| next(&other)).collect();
                    assert_eq!(rest, model[at + 1..], "{case}: restored behind {at}");
                }
            }
            assert_eq!((next(&iterator), next(&iterator)), (None, None), "{case}");
            iterator.reset().unwrap();
        }
    }
}

/// So many elements are left out that each of them cannot be asked for.
#[test]
fn leaving_out_the_first_elements_of_known_sources_is_arithmetic() {
    const MANY: i64 = 1 << 62;
    let range = |count| Dataset::range(0, count, 1).unwrap();
    let skipped =
        |dataset: &Dataset, count| next(&dataset.skip(count).unwrap().iterator().unwrap());
    assert_eq!(skipped(&range(i64::MAX), MANY), Some(vec![MANY]));
    assert_eq!(skipped(&range(i64::MAX), i64::MAX), None);
    assert_eq!(skipped(&range(7), i64::MAX), None);
    let widest = Dataset::range(i64::MIN, i64::MAX, 1).unwrap();
    assert_eq!(
        skipped(&widest.skip(i64::MAX).unwrap(), i64::MAX),
        Some(vec![i64::MAX - 1])
    );
    assert_eq!(
        skipped(&Dataset::range(9, 0, -2).unwrap(), 3),
        Some(vec![3])
    );
    assert_eq!(skipped(&numbers(10).skip(3).unwrap(), 4), Some(vec![7]));
}

/// So many elements are left out that each of them cannot be asked for, and all that matters of
/// most rounds is their number.
#[test]
fn leaving_out_whole_rounds_is_arithmetic() {
    const MANY: u64 = 1 << 33;
    let first = |dataset: Dataset| next(&dataset.iterator().unwrap());
    let endless = |dataset: &Dataset| dataset.repeat(-1).unwrap();
    let range = Dataset::range(0, 100, 1).unwrap();
    let rest = |count: u64| Some(vec![(count % 100) as i64]);
    for hundred in [range.clone(), numbers(100), range.cache().unwrap()] {
        let rounds = endless(&hundred);
        assert_eq!(first(rounds.skip(MANY as i64).unwrap()), rest(MANY));
        assert_eq!(first(rounds.skip(i64::MAX).unwrap()), rest(i64::MAX as u64));
        let shard = rounds.shard(i64::MAX, i64::MAX - 1).unwrap();
        assert_eq!(first(shard.clone()), rest(i64::MAX as u64 - 1));
        let behind = shard.skip(1 << 20).unwrap();
        let place = (1_u128 << 20) * i64::MAX as u128 + i64::MAX as u128 - 1;
        assert_eq!(first(behind), rest((place % 100) as u64));
        let nested = endless(&rounds.take(i64::MAX).unwrap())
            .skip(i64::MAX)
            .unwrap();
        assert_eq!(first(nested), Some(vec![0]));
        let finite = hundred.repeat(1 << 40).unwrap();
        assert_eq!(first(finite.skip((100 << 40) - 1).unwrap()), Some(vec![99]));
        assert_eq!(first(finite.skip(100 << 40).unwrap()), None);
    }
    let batches = endless(&numbers(100).batch(30, false).unwrap());
    assert_eq!(
        first(batches.skip((1 << 40) + 3).unwrap()),
        Some((90..100).collect())
    );
}

/// The order of each round depends on its number.
#[test]
fn shuffles_know_how_many_rounds_were_left_out() {
    let options = ShuffleOptions {
        seed: 7,
        ..ShuffleOptions::default()
    };
    let shuffled = || numbers(20).shuffle(&options).unwrap();
    let slow = shuffled().iterator().unwrap();
    (0..500).for_each(|_| slow.reset().unwrap());
    let expected: Vec<_> = std::iter::from_fn(|| next(&slow)).collect();
    let rounds = shuffled().repeat(501).unwrap();
    assert_eq!(all(&rounds.skip(20 * 500).unwrap()), expected);
    let far = rounds
        .repeat(-1)
        .unwrap()
        .skip(i64::MAX)
        .unwrap()
        .take(45)
        .unwrap();
    let far = far.iterator().unwrap();
    let before: Vec<_> = std::iter::from_fn(|| next(&far)).collect();
    assert_eq!(before.len(), 45);
}

/// The thread that makes elements ahead leaves them out for years.
#[test]
fn an_iterator_is_released_while_its_thread_leaves_out_elements() {
    let options = umbo_core::input::MapOptions {
        parallel_calls: 0,
        element_spec: None,
    };
    let (begun, has_begun) = std::sync::mpsc::channel();
    let function = move |element: &Value| {
        begun.send(()).unwrap();
        Ok(element.clone())
    };
    let mapped = Dataset::range(0, i64::MAX, 1)
        .unwrap()
        .map(function, options)
        .unwrap();
    let ahead = mapped.skip(1).unwrap().take(1 << 40).unwrap();
    let inner = ahead.shard(i64::MAX, 5).unwrap().prefetch(1).unwrap();
    let outer = Dataset::concatenate(&[Dataset::range(0, 1, 1).unwrap(), inner])
        .unwrap()
        .prefetch(2)
        .unwrap();
    let iterator = outer.iterator().unwrap();
    assert_eq!(next(&iterator), Some(vec![0]));
    assert_eq!(next(&iterator), Some(vec![6]));
    // The producer is behind the seventh element, and skips.
    (0..20).for_each(|_| has_begun.recv().unwrap());
    drop(iterator);
}

#[test]
fn what_a_function_makes_is_made_and_may_fail() {
    let calls = Arc::new(AtomicUsize::new(0));
    for parallel_calls in [0, 3] {
        calls.store(0, Ordering::Relaxed);
        let of_map = Arc::clone(&calls);
        let function = move |element: &Value| {
            of_map.fetch_add(1, Ordering::Relaxed);
            match element.tensor_of(0)?.to_vec::<i64>()?[0] {
                2 => Err(Error::NotFound("the third one".into())),
                _ => Ok(element.clone()),
            }
        };
        let options = umbo_core::input::MapOptions {
            parallel_calls,
            element_spec: None,
        };
        let mapped = Dataset::range(0, 12, 1)
            .unwrap()
            .map(function, options)
            .unwrap();
        for dataset in [mapped.skip(5).unwrap(), mapped.shard(6, 5).unwrap()] {
            calls.store(0, Ordering::Relaxed);
            let iterator = dataset.iterator().unwrap();
            fails(iterator.next(), Status::NotFound, "the third one");
            // The one that failed does not count.
            assert_eq!(next(&iterator), Some(vec![6]));
            assert!((7..=9).contains(&calls.load(Ordering::Relaxed)));
        }
    }
}
