//! Prefetching: the same elements, errors and end, from another thread.

use crate::common::{all, fails, ints, numbers, rest};
use umbo::device::DeviceId;
use umbo::error::Status;
use umbo::input::{DistributeOptions, ShuffleOptions, distribute};

#[test]
fn prefetching_changes_no_order() {
    let plain = |seed| {
        let options = ShuffleOptions { seed, ..Default::default() };
        numbers(100).shuffle(&options).unwrap().batch(7, false).unwrap().repeat(3).unwrap()
    };
    for depth in [1, 2, 5, 200] {
        assert_eq!(all(&plain(4).prefetch(depth).unwrap()), all(&plain(4)));
    }
    let twice = plain(4).prefetch(2).unwrap().prefetch(3).unwrap();
    assert_eq!(all(&twice), all(&plain(4)));
}

#[test]
fn errors_and_the_end_arrive_in_their_place() {
    let batches = numbers(7).batch(2, false).unwrap().batch(2, false).unwrap();
    let iterator = batches.prefetch(4).unwrap().iterator().unwrap();
    for _ in 0..3 {
        assert_eq!(ints(&iterator.next().unwrap().unwrap()), [0, 1, 2, 3]);
        fails(iterator.next(), Status::InvalidArgument, "shape [1]");
        assert!(iterator.next().unwrap().is_none());
        assert!(iterator.next().unwrap().is_none());
        iterator.reset().unwrap();
    }
}

#[test]
fn a_reset_in_the_middle_starts_the_next_order() {
    let dataset = || {
        let options = ShuffleOptions { seed: 8, ..Default::default() };
        numbers(50).shuffle(&options).unwrap().batch(3, false).unwrap()
    };
    let (plain, ahead) = (dataset(), dataset().prefetch(3).unwrap());
    let (plain, ahead) = (plain.iterator().unwrap(), ahead.iterator().unwrap());
    for taken in [5, 0, 17, 1, 4] {
        for _ in 0..taken {
            assert_eq!(
                ahead.next().unwrap().map(|element| ints(&element)),
                plain.next().unwrap().map(|element| ints(&element))
            );
        }
        plain.reset().unwrap();
        ahead.reset().unwrap();
    }
    assert_eq!(rest(&ahead, ints), rest(&plain, ints));
}

#[test]
fn threads_share_an_iterator() {
    let dataset = numbers(200).batch(2, false).unwrap().prefetch(2).unwrap();
    let devices = [DeviceId::cpu(0), DeviceId::cpu(1)];
    let distributed = distribute(&dataset, 2, &devices, &DistributeOptions::default()).unwrap();
    let iterator = distributed.iterator().unwrap();
    let mut seen: Vec<i32> = std::thread::scope(|scope| {
        let take = || rest(&iterator, |element| crate::common::parts(element).concat()).concat();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    seen.sort_unstable();
    assert_eq!(seen, Vec::from_iter(0..200));
}
