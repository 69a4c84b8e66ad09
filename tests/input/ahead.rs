//! Reading ahead never shows. Every pair of operations that hold or count something, with elements
//! made ahead at every place, gives what it gives without, however fast the thread and its consumer
//! are: after a take, after a reset at every element, and from a saved position.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::input::{
    Dataset, DistributeOptions, FilesOptions, Generator, MapOptions, PassIterator, ShuffleOptions,
    distribute,
};
use umbo_core::values::Value;

use crate::common::{ints, numbers};
use crate::plan::{Counter, scalars};
use crate::position::event;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Shuffle,
    Repeat,
    Cache,
    Batch,
    Rebatch,
    Take,
    ParallelMap,
    Prefetch,
}

const OPS: [Op; 7] = [
    Op::Shuffle,
    Op::Repeat,
    Op::Cache,
    Op::Batch,
    Op::Rebatch,
    Op::Take,
    Op::ParallelMap,
];

#[derive(Clone, Copy, Debug)]
enum Source {
    Range,
    Generator,
    Files,
}

/// Numbers that look random.
struct Draw(AtomicU64);

impl Draw {
    fn below(&self, end: u64) -> u64 {
        let step = |seed: u64| {
            seed.wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407)
        };
        let seed = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seed| {
                Some(step(seed))
            });
        (seed.unwrap() >> 33) % end
    }

    /// Mostly nothing, and sometimes longer than it takes to make elements.
    fn sleep(&self) {
        let micros = [0, 0, 0, 0, 60, 300][self.below(6) as usize];
        if micros > 0 {
            std::thread::sleep(Duration::from_micros(micros));
        }
    }
}

/// The elements of `source`, each of which takes a time that is drawn, and `ops` over them.
fn made(source: Source, ops: &[Op], draw: &Arc<Draw>) -> Dataset {
    let elements = match source {
        Source::Range => Dataset::range(0, 6, 1),
        Source::Generator => Dataset::from_generator(scalars(), || {
            Ok(Box::new(Counter {
                round: 0,
                next: 0,
                count: 5,
                failing: 0,
            }) as Box<dyn Generator>)
        }),
        Source::Files => {
            let options = FilesOptions {
                files_at_once: 2,
                shuffle_files: Some(3),
                ..Default::default()
            };
            let open = |file: umbo_core::input::File<'_>| {
                let first = 10 * file.number as i64;
                Dataset::range(first, first + 2, 1)?.shuffle(&ShuffleOptions::default())
            };
            Dataset::from_files(&["a", "b", "c"], open, options)
        }
    };
    let draw = Arc::clone(draw);
    let slowly = move |element: &Value| {
        draw.sleep();
        Ok(element.clone())
    };
    let same = |element: &Value| Ok(element.clone());
    let options = |parallel_calls| MapOptions {
        parallel_calls,
        element_spec: None,
    };
    let apply = |dataset: Result<Dataset>, op: &Op| {
        let dataset = dataset?;
        match op {
            Op::Shuffle => dataset.shuffle(&ShuffleOptions {
                buffer_size: 4,
                ..Default::default()
            }),
            Op::Repeat => dataset.repeat(3),
            Op::Cache => dataset.cache(),
            Op::Batch => dataset.batch(2, false),
            Op::Rebatch => dataset.batch(2, false)?.rebatch(&[3, 1], false),
            Op::Take => dataset.take(7),
            Op::ParallelMap => dataset.map(same, options(3)),
            Op::Prefetch => dataset.prefetch(3),
        }
    };
    let shuffled = elements.unwrap().map(slowly, options(0)).unwrap();
    ops.iter()
        .fold(shuffled.shuffle(&ShuffleOptions::default()), apply)
        .unwrap()
}

/// A reset after each number of elements, one after the other. An element is asked for behind the
/// end, too.
fn events(iterator: &PassIterator, before_each: impl Fn()) -> Vec<(String, String)> {
    let mut events = Vec::new();
    for elements in 0..10 {
        for number in 0..=elements {
            before_each();
            let position = iterator.save_position().unwrap();
            events.push((position, event(iterator, number == elements)));
        }
    }
    events
}

fn check(source: Source, ops: &[Op], ahead: &[Op], draw: &Arc<Draw>) {
    let asked = made(source, ops, draw).iterator().unwrap();
    let expected = events(&asked, || {});
    let dataset = made(source, ahead, draw);
    let came = events(&dataset.iterator().unwrap(), || draw.sleep());
    for (number, (event, expected)) in came.iter().zip(&expected).enumerate() {
        assert_eq!(
            event.1, expected.1,
            "event {number} of {source:?} {ahead:?}"
        );
    }
    // From one of the positions, in another process. The resets come where they came.
    let place = draw.below(came.len() as u64) as usize;
    let restored = made(source, ahead, draw).iterator().unwrap();
    restored.restore_position(&came[place].0).unwrap();
    for (number, (_, expected)) in expected.iter().enumerate().skip(place) {
        draw.sleep();
        let now = event(&restored, expected == "Ok(())");
        assert_eq!(
            &now, expected,
            "event {number} after {place} of {source:?} {ahead:?}"
        );
    }
}

#[test]
fn what_is_made_ahead_changes_nothing() {
    let draw = &Arc::new(Draw(AtomicU64::new(7)));
    for (first, second) in OPS
        .into_iter()
        .flat_map(|first| OPS.map(|second| (first, second)))
    {
        for place in 0..4 {
            let source = [Source::Range, Source::Generator, Source::Files][draw.below(3) as usize];
            let ops = [first, second];
            let mut ahead = ops.to_vec();
            match place {
                // Two of them.
                3 => ahead.extend([Op::Prefetch, Op::Take, Op::Prefetch]),
                place => ahead.insert(place, Op::Prefetch),
            }
            let works_ahead = |op: &Op| matches!(op, Op::Prefetch | Op::ParallelMap);
            let without: Vec<Op> = ahead
                .iter()
                .copied()
                .filter(|op| !works_ahead(op))
                .collect();
            check(source, &without, &ahead, draw);
        }
    }
}

/// The batches of a distributed dataset, of which some are made ahead, with a reset behind each
/// number of them.
#[test]
fn batches_that_are_made_ahead_of_replicas_change_nothing() {
    let draw = &Arc::new(Draw(AtomicU64::new(11)));
    for op in OPS {
        let over = |ops: &[Op], read_ahead| {
            let batches = made(Source::Range, ops, draw).batch(2, false);
            let options = DistributeOptions {
                read_ahead: Some(read_ahead),
                ..Default::default()
            };
            let devices = [DeviceId::cpu(0), DeviceId::cpu(1)];
            distribute(&batches.unwrap(), 2, &devices, &options)
                .unwrap()
                .iterator()
                .unwrap()
        };
        let without: Vec<Op> = [op]
            .into_iter()
            .filter(|op| *op != Op::ParallelMap)
            .collect();
        let expected = events(&over(&without, 0), || {});
        let came = events(&over(&[op], 2), || draw.sleep());
        let all = |events: &[(String, String)]| {
            events
                .iter()
                .map(|(_, event)| event.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(all(&came), all(&expected), "{op:?}");
    }
}

/// What a dataset caches is the first pass whose end was given, not the first that a thread has
/// made.
#[test]
fn a_round_is_cached_once_its_end_was_given() {
    let asks = Arc::new(AtomicU64::new(0));
    let of_function = Arc::clone(&asks);
    let counted = move |element: &Value| {
        of_function.fetch_add(1, Ordering::Relaxed);
        Ok(element.clone())
    };
    for calls in [0, 4] {
        asks.store(0, Ordering::Relaxed);
        let options = MapOptions {
            parallel_calls: 0,
            element_spec: None,
        };
        let shuffled = numbers(6).shuffle(&ShuffleOptions::default()).unwrap();
        let cached = shuffled
            .map(counted.clone(), options)
            .unwrap()
            .cache()
            .unwrap();
        let same = |element: &Value| Ok(element.clone());
        let options = MapOptions {
            parallel_calls: calls,
            element_spec: None,
        };
        let ahead = match calls {
            0 => cached.prefetch(20).unwrap(),
            _ => cached.map(same, options).unwrap(),
        };
        let next = |iterator: &PassIterator| iterator.next().unwrap().map(|element| ints(&element));
        let first = ahead.iterator().unwrap();
        let mut order: Vec<_> = (0..5).map(|_| next(&first).unwrap()).collect();
        while asks.load(Ordering::Relaxed) < 6 {
            std::thread::yield_now();
        }
        // The sixth element was made, and perhaps the end.
        std::thread::sleep(Duration::from_millis(2));
        let other = ahead.iterator().unwrap();
        next(&other).unwrap();
        drop(other);
        assert!(
            asks.load(Ordering::Relaxed) > 6,
            "a new pass made elements of its own"
        );
        order.push(next(&first).unwrap());
        assert!(next(&first).is_none());
        let before = asks.load(Ordering::Relaxed);
        let later = ahead.iterator().unwrap();
        let again: Vec<_> = (0..6).map(|_| next(&later).unwrap()).collect();
        assert_eq!(again, order);
        assert_eq!(
            asks.load(Ordering::Relaxed),
            before,
            "a later pass took what was cached"
        );
    }
}
