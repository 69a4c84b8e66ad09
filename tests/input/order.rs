//! Which elements come when: take, skip, repeat, batch, shuffle, passes.

use crate::common::{all, ints, numbers, rest};
use umbo_core::input::{Dataset, ShuffleOptions};

fn seeded(seed: u64) -> ShuffleOptions {
    ShuffleOptions {
        seed,
        ..Default::default()
    }
}

fn flat(dataset: &Dataset) -> Vec<i32> {
    all(dataset).concat()
}

#[test]
fn shuffling_permutes() {
    for size in [0, 1, 3, 20, 21, 100] {
        let options = ShuffleOptions {
            buffer_size: size,
            seed: 5,
            ..Default::default()
        };
        let mut order = flat(&numbers(20).shuffle(&options).unwrap());
        if size == 1 {
            assert_eq!(order, Vec::from_iter(0..20));
        } else {
            assert_ne!(order, Vec::from_iter(0..20));
        }
        if size == 3 {
            let late = |(at, &number): (usize, &i32)| number as usize <= at + 2;
            assert!(
                order.iter().enumerate().all(late),
                "drawn from beyond the buffer"
            );
        }
        order.sort_unstable();
        assert_eq!(order, Vec::from_iter(0..20));
    }
}

/// The order is part of what a seed promises: the same on every machine and in every version.
#[test]
fn a_seed_means_one_order() {
    assert_eq!(
        flat(&numbers(10).shuffle(&seeded(42)).unwrap()),
        EXPECTED_ORDER
    );
    assert_ne!(
        flat(&numbers(10).shuffle(&seeded(43)).unwrap()),
        EXPECTED_ORDER
    );
}

const EXPECTED_ORDER: [i32; 10] = [3, 2, 9, 8, 4, 0, 1, 5, 6, 7];

#[test]
fn rows_and_elements_are_shuffled_alike() {
    let rows = numbers(30)
        .shuffle(&seeded(7))
        .unwrap()
        .batch(1, false)
        .unwrap();
    let elements = numbers(30)
        .batch(1, false)
        .unwrap()
        .shuffle(&seeded(7))
        .unwrap();
    assert_eq!(flat(&rows), flat(&elements));
}

#[test]
fn each_pass_and_round_has_its_order_unless_one_is_kept() {
    let shuffled = numbers(30).shuffle(&seeded(3)).unwrap();
    let iterator = shuffled.iterator().unwrap();
    let read = |value: &_| ints(value)[0];
    let first = rest(&iterator, read);
    iterator.reset().unwrap();
    let second = rest(&iterator, read);
    let other_iterator = flat(&shuffled);
    let rounds = flat(&shuffled.repeat(2).unwrap());
    let mut orders = vec![
        first,
        second,
        other_iterator,
        rounds[..30].to_vec(),
        rounds[30..].to_vec(),
    ];
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, Vec::from_iter(0..30));
    }
    orders.sort();
    orders.dedup();
    assert_eq!(orders.len(), 5, "two passes had one order");

    let options = ShuffleOptions {
        seed: 3,
        keep_order_each_pass: true,
        ..Default::default()
    };
    let kept = numbers(30).shuffle(&options).unwrap();
    let rounds = flat(&kept.repeat(2).unwrap());
    assert_eq!(rounds[..30], rounds[30..]);
    assert_eq!(flat(&kept), rounds[..30]);
}

#[test]
fn elements_that_are_held_do_not_change() {
    let shuffled = numbers(400)
        .shuffle(&seeded(9))
        .unwrap()
        .batch(4, false)
        .unwrap();
    let iterator = shuffled.iterator().unwrap();
    let held: Vec<_> = std::iter::from_fn(|| iterator.next().unwrap()).collect();
    let mut seen: Vec<i32> = held.iter().flat_map(ints).collect();
    seen.sort_unstable();
    assert_eq!(seen, Vec::from_iter(0..400));

    // A slice keeps the memory that it shares, also when the element is gone.
    iterator.reset().unwrap();
    let element = iterator.next().unwrap().unwrap();
    let slice = element.tensor_of(0).unwrap().slice(0, 1, 3, 1).unwrap();
    let before: Vec<i32> = crate::common::read(&slice);
    drop(element);
    drop(rest(&iterator, ints));
    assert_eq!(crate::common::read::<i32>(&slice), before);
}

#[test]
fn elements_that_are_dropped_are_used_again() {
    let shuffled = numbers(400)
        .shuffle(&seeded(9))
        .unwrap()
        .batch(4, false)
        .unwrap();
    let addresses = rest(&shuffled.iterator().unwrap(), |element| {
        element.tensor_of(0).unwrap().address() as usize
    });
    let mut distinct = addresses.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(
        distinct.len() <= 3,
        "{} memories for {} batches",
        distinct.len(),
        addresses.len()
    );
}
