//! Places in the data: what follows a restored position is what follows it in the pass that it was
//! saved of; and what is made ahead is what would be made when it is asked for. Pipelines, places
//! and interruptions are drawn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, MapOptions, PassIterator, ShuffleOptions, distribute,
};
use umbo_core::values::Value;

use crate::common::{all, fails, ints, numbers, rest};
use crate::plan::{Counter, Delivery, deliveries, plans, scalars, words};

/// What comes of asking, or of starting a new pass.
pub fn event(iterator: &PassIterator, reset: bool) -> String {
    if reset {
        return format!("{:?}", iterator.reset().map_err(|error| error.to_string()));
    }
    match iterator.next() {
        Ok(None) => "the end".into(),
        Err(error) => error.to_string(),
        Ok(Some(element)) => {
            let mut text = String::new();
            words(&element, &mut text);
            text
        }
    }
}

const EVENTS: usize = 30;

/// `PROPTEST_CASES` asks for another number.
pub fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if asked {
        default
    } else {
        ProptestConfig {
            cases: 400,
            ..default
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_follows_a_restored_position_is_what_followed_it(
        plan in plans(),
        delivery in deliveries(),
        earlier in 0usize..3,
        resets in proptest::collection::btree_set(0usize..EVENTS, 0..4),
        places in proptest::collection::vec((0usize..=EVENTS, 0usize..5, any::<bool>()), 3),
    ) {
        let dataset = plan.dataset();
        let iterators = delivery.of(&dataset);
        for number in 0..earlier {
            let other = iterators();
            (0..number * 12).for_each(|_| drop(event(&other, false)));
        }
        let iterator = iterators();
        let mut events = Vec::new();
        let mut positions = Vec::new();
        for _ in 0..EVENTS {
            positions.push(iterator.save_position().unwrap());
            events.push(event(&iterator, resets.contains(&events.len())));
        }
        positions.push(iterator.save_position().unwrap());
        let follows = |iterator: &PassIterator, place: usize, case: &str| {
            for (at, expected) in events.iter().enumerate().skip(place) {
                let now = event(iterator, resets.contains(&at));
                prop_assert_eq!(&now, expected, "{}: event {} after {}", case, at, place);
            }
            Ok(())
        };
        for (place, used, same_dataset) in places {
            // As in another process, or beside the pass that continues.
            let iterators = if same_dataset { &iterators } else { &delivery.of(&plan.dataset()) };
            let other = iterators();
            (0..used).for_each(|_| drop(event(&other, false)));
            other.restore_position(&positions[place]).unwrap();
            // Once more from there, and from a few steps on.
            let third = iterators();
            third.restore_position(&other.save_position().unwrap()).unwrap();
            let later = (place + used).min(EVENTS);
            for (at, expected) in events.iter().enumerate().take(later).skip(place) {
                let now = event(&other, resets.contains(&at));
                prop_assert_eq!(&now, expected, "event {} after {}", at, place);
            }
            let fourth = iterators();
            fourth.restore_position(&other.save_position().unwrap()).unwrap();
            follows(&other, later, "restored")?;
            follows(&third, place, "restored twice")?;
            follows(&fourth, later, "restored on the way")?;
        }
    }

    /// Elements, failures and the end come in the same places.
    #[test]
    fn what_is_made_ahead_is_what_would_be_made_when_it_is_asked_for(
        plan in plans(),
        delivery in deliveries(),
        resets in proptest::collection::btree_set(0usize..EVENTS, 0..4),
    ) {
        let ahead = delivery.of(&plan.dataset())();
        let asked = Delivery { read_ahead: 0, ..delivery }.of(&plan.made(false))();
        let mut events = Vec::new();
        for _ in 0..EVENTS {
            let is_reset = resets.contains(&events.len());
            events.push(event(&asked, is_reset));
            prop_assert_eq!(&event(&ahead, is_reset), &events[events.len() - 1], "{:?}", events);
        }
    }
}

/// A generator of so many elements, which says only by ending how many.
fn generated(count: i64) -> Dataset {
    let generator = Dataset::from_generator(scalars(), move || {
        Ok(Box::new(Counter {
            round: 0,
            next: 0,
            count,
            failing: 0,
        }) as _)
    });
    generator.unwrap()
}

/// What repeats a generator of nothing without end is empty, too; what is before and behind it is
/// not.
#[test]
fn a_cache_with_an_endless_repeat_of_nothing_is_restored() {
    let nothing = || generated(0).repeat(-1).unwrap();
    let before = || Dataset::range(0, 3, 1).unwrap();
    let joined = |parts: &[Dataset]| Dataset::concatenate(parts).unwrap();
    let all_with_nothing = [
        (nothing(), 0),
        (nothing().repeat(2).unwrap(), 0),
        (nothing().take(5).unwrap().repeat(-1).unwrap(), 0),
        (joined(&[before(), nothing()]), 3),
        (joined(&[nothing(), before()]), 3),
        (joined(&[generated(2), nothing(), before()]), 5),
        (
            joined(&[
                before(),
                nothing().batch(2, true).unwrap().unbatch().unwrap(),
            ]),
            3,
        ),
        (
            joined(&[before(), nothing()]).filter(|_| Ok(true)).unwrap(),
            3,
        ),
        (joined(&[before(), nothing()]).take(5).unwrap(), 3),
        (joined(&[before(), nothing()]).skip(1).unwrap(), 2),
        (
            Dataset::zip(&[joined(&[before(), nothing()]), before()], None).unwrap(),
            3,
        ),
    ];
    for (at, (dataset, count)) in all_with_nothing.into_iter().enumerate() {
        let cached = dataset.cache().unwrap();
        let iterator = cached.iterator().unwrap();
        for _ in 0..count {
            assert!(iterator.next().unwrap().is_some(), "dataset {at}");
        }
        assert!(iterator.next().unwrap().is_none(), "dataset {at}");
        let position = iterator.save_position().unwrap();
        let again = dataset.cache().unwrap().iterator().unwrap();
        let restored = again.restore_position(&position);
        assert!(restored.is_ok(), "dataset {at}: {restored:?}");
        assert!(again.next().unwrap().is_none(), "dataset {at}");
    }
}

/// A cache holds a whole round. Where there are more elements by now, it does not.
#[test]
fn a_cache_of_what_has_become_longer_is_refused() {
    for (cached, now) in [(0, 2), (2, 3), (3, 9)] {
        for repeated in [1, -1] {
            if repeated == -1 && cached > 0 {
                continue; // It never ends.
            }
            let dataset = |count| generated(count).repeat(repeated).unwrap().cache().unwrap();
            let (iterator, _) = after(&dataset(cached), cached as usize);
            assert!(iterator.next().unwrap().is_none());
            let position = iterator.save_position().unwrap();
            let longer = dataset(now).iterator().unwrap();
            let says = format!("{cached} elements were cached, and there are more");
            fails(
                longer.restore_position(&position),
                Status::InvalidArgument,
                &says,
            );
        }
    }
}

fn in_place(dataset: &Dataset, position: &str) -> PassIterator {
    let iterator = dataset.iterator().unwrap();
    iterator.restore_position(position).unwrap();
    iterator
}

fn after(dataset: &Dataset, elements: usize) -> (PassIterator, String) {
    let iterator = dataset.iterator().unwrap();
    (0..elements).for_each(|_| drop(iterator.next().unwrap().unwrap()));
    let position = iterator.save_position().unwrap();
    (iterator, position)
}

/// Numbers, and how often a function was called that makes them.
fn counted(count: usize) -> (Dataset, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let of_function = Arc::clone(&calls);
    let function = move |element: &Value| {
        of_function.fetch_add(1, Ordering::Relaxed);
        Ok(element.clone())
    };
    (
        numbers(count).map(function, MapOptions::default()).unwrap(),
        calls,
    )
}

#[test]
fn functions_are_called_only_for_what_is_held() {
    let (mapped, calls) = counted(1000);
    let shuffled = mapped.shuffle(&ShuffleOptions {
        buffer_size: 10,
        ..Default::default()
    });
    for (dataset, most) in [
        (mapped.clone(), 0),
        (mapped.batch(7, false).unwrap(), 0),
        (
            mapped
                .batch(7, false)
                .unwrap()
                .rebatch(&[3], false)
                .unwrap(),
            7,
        ),
        (mapped.prefetch(5).unwrap(), 0),
        (shuffled.unwrap().batch(7, false).unwrap(), 710),
    ] {
        let (iterator, position) = after(&dataset, 100);
        let following = ints(&iterator.next().unwrap().unwrap());
        drop(iterator);
        calls.store(0, Ordering::Relaxed);
        let restored = in_place(&dataset, &position);
        let made = calls.load(Ordering::Relaxed);
        assert!(made <= most, "{dataset:?}: {made} calls");
        assert_eq!(ints(&restored.next().unwrap().unwrap()), following);
    }
}

#[test]
fn what_was_made_ahead_does_not_count() {
    let (mapped, calls) = counted(100);
    let dataset = mapped.prefetch(20).unwrap();
    let (iterator, _) = after(&dataset, 3);
    while calls.load(Ordering::Relaxed) < 23 {
        std::thread::yield_now();
    }
    let position = iterator.save_position().unwrap();
    assert_eq!(rest(&in_place(&dataset, &position), ints)[0], [3]);
}

/// A program may draw another seed for each process.
#[test]
fn the_seed_comes_with_the_position() {
    let shuffled = |seed| {
        let options = ShuffleOptions {
            seed,
            ..Default::default()
        };
        numbers(50).shuffle(&options).unwrap().repeat(2).unwrap()
    };
    let (iterator, position) = after(&shuffled(1), 30);
    let restored = in_place(&shuffled(2), &position);
    assert_eq!(rest(&restored, ints), rest(&iterator, ints));
}

/// The iterator that is made after the restored one has the order that it would have had.
#[test]
fn later_iterators_have_their_own_orders() {
    let shuffled = || numbers(20).shuffle(&ShuffleOptions::default()).unwrap();
    let dataset = shuffled();
    let orders: Vec<_> = (0..3).map(|_| all(&dataset)).collect();
    let position = {
        let dataset = shuffled();
        drop(dataset.iterator().unwrap());
        after(&dataset, 5).1
    };
    let again = shuffled();
    assert_eq!(rest(&in_place(&again, &position), ints), orders[1][5..]);
    assert_eq!(all(&again), orders[2]);
}

/// A shuffle sees the end of its input long before its own, and what is cached is whole from then
/// on.
#[test]
fn an_end_that_was_seen_counts() {
    let shuffled = |dataset: &Dataset| {
        let options = ShuffleOptions {
            buffer_size: 20,
            ..Default::default()
        };
        dataset.shuffle(&options).unwrap()
    };
    let dataset = || shuffled(&shuffled(&numbers(20)).cache().unwrap());
    let (iterator, position) = after(&dataset(), 1);
    let restored = in_place(&dataset(), &position);
    for _ in 0..3 {
        assert_eq!(rest(&restored, ints), rest(&iterator, ints));
        iterator.reset().unwrap();
        restored.reset().unwrap();
    }
}

/// Rows that are shuffled, in batches that are cut anew so many times; `refuse` may lack memory for
/// one.
fn cut_again(stages: i64, refuse: Option<Arc<AtomicUsize>>) -> Dataset {
    let function = move |element: &Value| {
        let lacks = |left: &Arc<AtomicUsize>| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok()
        };
        match refuse.as_ref().is_some_and(lacks) {
            true => Err(Error::beyond_limit("as the test wants it")),
            false => Ok(element.clone()),
        }
    };
    let rows = numbers(400)
        .shuffle(&ShuffleOptions::default())
        .unwrap()
        .batch(50, false)
        .unwrap();
    let batches = rows.map(function, MapOptions::default()).unwrap();
    (0..stages).fold(batches, |batches, stage| {
        batches.rebatch(&[49 - stage], false).unwrap()
    })
}

/// Each stage holds what it has taken, and its position leads to that. It has the position of its
/// input once, also after calls that lacked memory: positions grow with the stages, and do not
/// multiply.
#[test]
fn a_position_grows_with_the_stages_and_does_not_multiply() {
    let largest = |stages: i64, fails: bool| {
        let left = Arc::new(AtomicUsize::new(0));
        let dataset = cut_again(stages, fails.then(|| Arc::clone(&left)));
        let expected = rest(&cut_again(stages, None).iterator().unwrap(), ints);
        let iterator = dataset.iterator().unwrap();
        let mut largest = 0;
        for number in 0..7 {
            left.store(stages as usize, Ordering::Relaxed);
            let next = loop {
                let position = iterator.save_position().unwrap();
                largest = largest.max(position.len());
                let restored = cut_again(stages, None).iterator().unwrap();
                restored.restore_position(&position).unwrap();
                assert_eq!(
                    rest(&restored, ints),
                    expected[number..],
                    "{stages}, {number}"
                );
                match iterator.next() {
                    Err(error) => assert_eq!(error.status(), Status::ResourceExhausted),
                    Ok(next) => break next,
                }
            };
            assert_eq!(ints(&next.unwrap()), expected[number]);
        }
        left.store(0, Ordering::Relaxed);
        largest
    };
    for fails in [false, true] {
        let [none, four, twelve] = [0, 4, 12].map(|stages| largest(stages, fails));
        let of_stage = (four - none) / 4;
        assert!(
            twelve <= none + 24 * of_stage,
            "{fails}: {none}, {four}, {twelve}"
        );
    }
}

#[test]
fn other_pipelines_are_refused() {
    let dataset = numbers(20)
        .shuffle(&ShuffleOptions::default())
        .unwrap()
        .batch(3, false)
        .unwrap();
    let (_, position) = after(&dataset, 2);
    let whole = ShuffleOptions::default();
    for (other, difference) in [
        (
            numbers(20).batch(3, false).unwrap(),
            "that of the iterator is 'arrays(",
        ),
        (
            numbers(20)
                .shuffle(&whole)
                .unwrap()
                .batch(4, false)
                .unwrap(),
            "'batch(drop_remainder: false, size: 3)', that of the iterator is \
             'batch(drop_remainder: false, size: 4)'",
        ),
        (
            numbers(20).shuffle(&whole).unwrap().batch(3, true).unwrap(),
            "that of the iterator is 'batch(drop_remainder: true, size: 3)'",
        ),
        (
            numbers(21)
                .shuffle(&whole)
                .unwrap()
                .batch(3, false)
                .unwrap(),
            "that of the iterator is 'arrays(components: [int32[]], rows: 21)'",
        ),
        (
            dataset.prefetch(2).unwrap(),
            "size: 3)', that of the iterator is 'prefetch'",
        ),
        (
            dataset.rebatch(&[2, 1], false).unwrap(),
            "'rebatch(drop_remainder: false, sizes: [2, 1])'",
        ),
        (dataset.cache().unwrap(), "'cache'"),
    ] {
        let iterator = other.iterator().unwrap();
        let before = iterator.save_position().unwrap();
        let refused = iterator.restore_position(&position);
        fails(refused, Status::InvalidArgument, difference);
        assert_eq!(iterator.save_position().unwrap(), before);
    }
    // How far ahead elements are made, and on how many replicas they are, changes nothing.
    let (_, position) = after(&dataset.prefetch(2).unwrap(), 2);
    in_place(&dataset.prefetch(7).unwrap(), &position);
}

#[test]
fn a_generator_that_has_become_shorter_is_refused() {
    let counter = |count| {
        Dataset::from_generator(scalars(), move || {
            Ok(Box::new(Counter {
                round: 0,
                next: 0,
                count,
                failing: 0,
            }) as _)
        })
        .unwrap()
    };
    let (_, position) = after(&counter(9), 5);
    let shorter = counter(4);
    let iterator = shorter.iterator().unwrap();
    iterator.next().unwrap();
    let refused = iterator.restore_position(&position);
    fails(
        refused,
        Status::InvalidArgument,
        "ended after 4 elements of 5",
    );
    assert_eq!(event(&iterator, false), "[][2]None");
}

/// Who restores waits until the thread that is in the iterator has its element.
#[test]
fn a_position_is_restored_in_turn() {
    let (arrived, arrival) = channel();
    let (go, gate) = channel::<()>();
    let meeting = Mutex::new(Some((arrived, gate)));
    let function = move |element: &Value| {
        if let Some((arrived, gate)) = meeting.lock().unwrap().take() {
            arrived.send(()).unwrap();
            gate.recv().unwrap();
        }
        Ok(element.clone())
    };
    let dataset = numbers(9).map(function, MapOptions::default()).unwrap();
    let iterator = Arc::new(dataset.iterator().unwrap());
    let position = iterator.save_position().unwrap();
    let of_thread = Arc::clone(&iterator);
    let taking = std::thread::spawn(move || ints(&of_thread.next().unwrap().unwrap()));
    arrival.recv().unwrap();
    let of_thread = Arc::clone(&iterator);
    let restoring = std::thread::spawn(move || of_thread.restore_position(&position));
    go.send(()).unwrap();
    assert_eq!(taking.join().unwrap(), [0]);
    restoring.join().unwrap().unwrap();
    assert_eq!(ints(&iterator.next().unwrap().unwrap()), [0]);
}

/// The same global batches on another number of replicas.
#[test]
fn batches_that_are_split_have_no_number_of_replicas() {
    let batches = numbers(20)
        .shuffle(&ShuffleOptions::default())
        .unwrap()
        .batch(4, false)
        .unwrap();
    let over = |replicas: u32| {
        let devices: Vec<DeviceId> = (0..replicas).map(DeviceId::cpu).collect();
        distribute(
            &batches,
            replicas as usize,
            &devices,
            &DistributeOptions::default(),
        )
        .unwrap()
    };
    let three = over(3).iterator().unwrap();
    three.next().unwrap();
    let two = over(2).iterator().unwrap();
    two.restore_position(&three.save_position().unwrap())
        .unwrap();
    let all = |iterator: &PassIterator| {
        rest(iterator, |element| {
            (0..element.count())
                .flat_map(|replica| element.tensor_of(replica).unwrap().to_vec::<i32>().unwrap())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(all(&two), all(&three));
}
