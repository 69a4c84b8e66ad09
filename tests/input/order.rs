//! Which elements come when: take, skip, repeat, batch, shuffle, passes.

use crate::common::{all, fails, ints, numbers, rest};
use umbo::error::Status;
use umbo::input::{Dataset, ShuffleOptions};

fn seeded(seed: u64) -> ShuffleOptions {
    ShuffleOptions { seed, ..Default::default() }
}

fn flat(dataset: &Dataset) -> Vec<i32> {
    all(dataset).concat()
}

#[test]
fn take_and_skip_on_rows_and_on_elements() {
    let rows = numbers(10);
    assert_eq!(flat(&rows.skip(2).unwrap().take(3).unwrap()), [2, 3, 4]);
    assert_eq!(flat(&rows.skip(12).unwrap()), [0i32; 0]);
    let batches = rows.batch(3, false).unwrap();
    assert_eq!(all(&batches.skip(1).unwrap().take(2).unwrap()), [[3, 4, 5], [6, 7, 8]]);
    assert_eq!(all(&batches.take(9).unwrap()).len(), 4);
    let repeated = rows.repeat(2).unwrap();
    assert_eq!(flat(&repeated.skip(9).unwrap().take(3).unwrap()), [9, 0, 1]);
}

#[test]
fn batch_then_repeat_and_repeat_then_batch() {
    let three = numbers(3);
    let rounds = three.batch(2, false).unwrap().repeat(2).unwrap();
    assert_eq!(all(&rounds), [vec![0, 1], vec![2], vec![0, 1], vec![2]]);
    let crossing = three.repeat(2).unwrap().batch(2, false).unwrap();
    assert_eq!(all(&crossing), [[0, 1], [2, 0], [1, 2]]);
    let full = three.repeat(3).unwrap().batch(4, true).unwrap();
    assert_eq!(all(&full), [[0, 1, 2, 0], [1, 2, 0, 1]]);
    assert_eq!(all(&full.repeat(2).unwrap()).len(), 4);
}

#[test]
fn batches_of_batches() {
    let batches = numbers(8).batch(2, false).unwrap().batch(3, false).unwrap();
    let shapes = rest(&batches.iterator().unwrap(), |element| {
        (element.tensor_of(0).unwrap().shape().to_vec(), ints(element))
    });
    assert_eq!(shapes, [(vec![3, 2], vec![0, 1, 2, 3, 4, 5]), (vec![1, 2], vec![6, 7])]);
}

#[test]
fn elements_of_different_shapes_do_not_make_a_batch() {
    let batches = numbers(7).batch(2, false).unwrap().batch(2, false).unwrap();
    let iterator = batches.iterator().unwrap();
    assert_eq!(ints(&iterator.next().unwrap().unwrap()), [0, 1, 2, 3]);
    fails(iterator.next(), Status::InvalidArgument, "shape [1]");
    assert!(iterator.next().unwrap().is_none());
    iterator.reset().unwrap();
    assert_eq!(ints(&iterator.next().unwrap().unwrap()), [0, 1, 2, 3]);
}

#[test]
fn repeating_nothing_ends() {
    let nothing = numbers(3).take(0).unwrap();
    assert!(all(&nothing.repeat(-1).unwrap()).is_empty());
    assert!(all(&nothing.batch(2, false).unwrap().repeat(-1).unwrap()).is_empty());
    assert!(all(&numbers(3).repeat(0).unwrap()).is_empty());
}

#[test]
fn shuffling_permutes() {
    for size in [0, 1, 3, 20, 21, 100] {
        let options = ShuffleOptions { buffer_size: size, seed: 5, ..Default::default() };
        let mut order = flat(&numbers(20).shuffle(&options).unwrap());
        if size == 1 {
            assert_eq!(order, Vec::from_iter(0..20));
        } else {
            assert_ne!(order, Vec::from_iter(0..20));
        }
        if size == 3 {
            let late = |(at, &number): (usize, &i32)| number as usize <= at + 2;
            assert!(order.iter().enumerate().all(late), "drawn from beyond the buffer");
        }
        order.sort_unstable();
        assert_eq!(order, Vec::from_iter(0..20));
    }
}

/// The order is part of what a seed promises: the same on every machine and in every version.
#[test]
fn a_seed_means_one_order() {
    assert_eq!(flat(&numbers(10).shuffle(&seeded(42)).unwrap()), EXPECTED_ORDER);
    assert_ne!(flat(&numbers(10).shuffle(&seeded(43)).unwrap()), EXPECTED_ORDER);
}

const EXPECTED_ORDER: [i32; 10] = [3, 2, 9, 8, 4, 0, 1, 5, 6, 7];

#[test]
fn rows_and_elements_are_shuffled_alike() {
    let rows = numbers(30).shuffle(&seeded(7)).unwrap().batch(1, false).unwrap();
    let elements = numbers(30).batch(1, false).unwrap().shuffle(&seeded(7)).unwrap();
    assert_eq!(flat(&rows), flat(&elements));
}

#[test]
fn many_elements_are_shuffled() {
    let elements = Dataset::zip(&[numbers(20_000).repeat(1).unwrap()], None).unwrap();
    let shuffled = elements.shuffle(&seeded(1)).unwrap();
    let read = |value: &umbo::values::Value| ints(&value.item(0).unwrap())[0];
    let mut order = rest(&shuffled.iterator().unwrap(), read);
    order.sort_unstable();
    assert_eq!(order, Vec::from_iter(0..20_000));
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
    let mut orders =
        vec![first, second, other_iterator, rounds[..30].to_vec(), rounds[30..].to_vec()];
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, Vec::from_iter(0..30));
    }
    orders.sort();
    orders.dedup();
    assert_eq!(orders.len(), 5, "two passes had one order");

    let options = ShuffleOptions { seed: 3, keep_order_each_pass: true, ..Default::default() };
    let kept = numbers(30).shuffle(&options).unwrap();
    let rounds = flat(&kept.repeat(2).unwrap());
    assert_eq!(rounds[..30], rounds[30..]);
    assert_eq!(flat(&kept), rounds[..30]);
}

#[test]
fn iterators_are_independent() {
    let dataset = numbers(6).repeat(2).unwrap().batch(4, false).unwrap();
    let (one, other) = (dataset.iterator().unwrap(), dataset.iterator().unwrap());
    let first = one.next().unwrap().unwrap();
    assert_eq!(ints(&one.next().unwrap().unwrap()), [4, 5, 0, 1]);
    assert_eq!(ints(&other.next().unwrap().unwrap()), [0, 1, 2, 3]);
    one.reset().unwrap();
    assert_eq!(rest(&other, ints), [[4, 5, 0, 1], [2, 3, 4, 5]]);
    assert_eq!(rest(&one, ints).len(), 3);
    assert!(one.next().unwrap().is_none());
    assert!(one.next().unwrap().is_none());
    assert_eq!(ints(&first), [0, 1, 2, 3]);
}

#[test]
fn elements_that_are_held_do_not_change() {
    let shuffled = numbers(400).shuffle(&seeded(9)).unwrap().batch(4, false).unwrap();
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
    let shuffled = numbers(400).shuffle(&seeded(9)).unwrap().batch(4, false).unwrap();
    let addresses = rest(&shuffled.iterator().unwrap(), |element| {
        element.tensor_of(0).unwrap().address() as usize
    });
    let mut distinct = addresses.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() <= 3, "{} memories for {} batches", distinct.len(), addresses.len());
}
