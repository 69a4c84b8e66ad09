//! Limits of requests: elements that are made only to be left out are made until a limit is
//! reached, and the next request continues there.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{
    Dataset, FilesOptions, Generator, MapOptions, PassIterator, ShuffleOptions,
};
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::run::Limits;
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;

use crate::plan::{deliveries, plans, scalars, words};
use crate::position::{config, event};

/// So many elements that making all of them takes years.
const MANY: i64 = 1 << 40;

/// A token that a generator cancels at every so many of its elements, unless that is 0.
#[derive(Default)]
struct Interrupter {
    every: u64,
    /// Whether some of the elements fail.
    fails: bool,
    token: Mutex<Cancellation>,
}

impl Interrupter {
    /// The limits of another request.
    fn limits(&self) -> Limits {
        let token = Cancellation::new();
        *self.token.lock().unwrap() = token.clone();
        Limits {
            cancellation: Some(token),
            ..Limits::default()
        }
    }
}

/// The numbers from 1 on.
struct Numbers {
    next: i64,
    interrupter: Arc<Interrupter>,
    /// When the test has failed, since nothing has ended the skip.
    patience: Instant,
}

impl Generator for Numbers {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.next == MANY {
            return Ok(None);
        }
        self.next += 1;
        let Interrupter {
            every,
            fails,
            token,
        } = &*self.interrupter;
        if (self.next as u64).is_multiple_of(*every) {
            token.lock().unwrap().cancel();
        }
        if Instant::now() > self.patience {
            return Err(Error::Internal("no limit has ended a skip".into()));
        }
        if *fails && self.next % 89 == 13 {
            return Err(Error::NotFound(format!("number {}", self.next)));
        }
        Ok(Some(Value::Tensor(Tensor::scalar(self.next)?)))
    }

    fn reset(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}

fn generated(interrupter: &Arc<Interrupter>) -> Dataset {
    let interrupter = Arc::clone(interrupter);
    Dataset::from_generator(scalars(), move || {
        Ok(Box::new(Numbers {
            next: 0,
            interrupter: Arc::clone(&interrupter),
            patience: Instant::now() + Duration::from_secs(30),
        }) as _)
    })
    .unwrap()
}

fn same(calls: i64) -> MapOptions {
    MapOptions {
        parallel_calls: calls,
        element_spec: None,
    }
}

fn function(element: &Value) -> Result<Value> {
    Ok(element.clone())
}

/// Pipelines over the numbers in which `skipped` elements are left out, by a skip or by each of the
/// steps of a shard.
fn pipelines(
    interrupter: &Arc<Interrupter>,
    skipped: i64,
    count: i64,
) -> Vec<(&'static str, Dataset)> {
    let numbers = || generated(interrupter);
    let rest = || numbers().skip(skipped).unwrap().take(count).unwrap();
    let shard = || {
        numbers()
            .shard(skipped, skipped - 1)
            .unwrap()
            .take(count)
            .unwrap()
    };
    let filter = || {
        let keeps = move |element: &Value| {
            let number = element.tensor_of(0)?.to_vec::<i64>()?[0];
            Ok(number % skipped == 0)
        };
        numbers().filter(keeps).unwrap().take(count).unwrap()
    };
    let few = || Dataset::range(0, count + 3, 1).unwrap();
    let zip = |datasets: &[Dataset]| Dataset::zip(datasets, None);
    let shuffle = ShuffleOptions {
        buffer_size: 3,
        ..ShuffleOptions::default()
    };
    let of_files = {
        let interrupter = Arc::clone(interrupter);
        let options = FilesOptions {
            element_spec: Some(scalars()),
            ..FilesOptions::default()
        };
        let open =
            move |_: umbo_core::input::File<'_>| generated(&interrupter).skip(skipped)?.take(count);
        Dataset::from_files(&["a", "b"], open, options)
    };
    let nested = numbers().prefetch(2).and_then(|it| it.skip(skipped));
    [
        ("skip", Ok(rest())),
        ("shard", Ok(shard())),
        ("filter", Ok(filter())),
        ("filter ahead", filter().prefetch(2)),
        ("batch of a filter", filter().batch(2, false)),
        ("zip before", zip(&[few(), rest()])),
        ("zip behind", zip(&[shard(), few()])),
        ("zip of two", zip(&[rest(), few(), shard()])),
        (
            "concatenate",
            Dataset::concatenate(&[few(), rest(), shard()]),
        ),
        (
            "sample",
            Dataset::sample(&[rest(), few(), shard()], None, &Default::default()),
        ),
        ("batch", shard().batch(2, false)),
        (
            "unbatch",
            shard().batch(2, false).and_then(|it| it.unbatch()),
        ),
        ("padded batch", rest().padded_batch(3, false)),
        (
            "rebatch",
            shard()
                .batch(3, false)
                .and_then(|it| it.rebatch(&[2], false)),
        ),
        ("shuffle", shard().shuffle(&shuffle)),
        ("cache", rest().cache().and_then(|it| it.repeat(2))),
        ("repeat", shard().repeat(2)),
        ("files", of_files),
        ("map", shard().map(function, same(0))),
        ("map of three", shard().map(function, same(3))),
        ("prefetch", rest().prefetch(2)),
        ("shard ahead", shard().prefetch(3)),
        (
            "map ahead",
            shard().prefetch(1).and_then(|it| it.map(function, same(2))),
        ),
        (
            "skip between",
            nested.and_then(|it| it.take(count)?.prefetch(1)),
        ),
        (
            "skips above each other",
            rest()
                .prefetch(1)
                .and_then(|it| it.skip(2)?.batch(2, false)?.prefetch(1)),
        ),
        (
            "zip ahead",
            zip(&[few().prefetch(1).unwrap(), shard().prefetch(2).unwrap()])
                .and_then(|it| it.prefetch(1)),
        ),
    ]
    .into_iter()
    .map(|(name, dataset)| (name, dataset.unwrap()))
    .collect()
}

/// What comes of asking under limits.
fn lent(iterator: &PassIterator, limits: &Limits) -> Result<String> {
    let element = iterator.lend(limits)?;
    let mut text = String::from("the end");
    if let Some(lent) = element {
        text.clear();
        words(&lent.element, &mut text);
    }
    Ok(text)
}

/// Asks once more until no limit ends the request; how often one did. `at_each` may replace the
/// iterator after each of them.
fn asked(
    iterator: &mut PassIterator,
    limits: impl Fn() -> Limits,
    mut at_each: impl FnMut(&mut PassIterator),
) -> (String, usize) {
    for interruptions in 0.. {
        match lent(iterator, &limits()) {
            Err(error) if error.is_interruption() => at_each(iterator),
            Err(error) => return (error.to_string(), interruptions),
            Ok(text) => return (text, interruptions),
        }
    }
    unreachable!("the requests have no end");
}

/// A token that is cancelled now and then while elements are left out: what comes is what comes
/// without, also in the next pass, and from a position that was saved after the request.
#[test]
fn requests_that_are_interrupted_lose_nothing() {
    for (every, fails) in [(7, false), (30, false), (7, true)] {
        let interrupter = |every| {
            Arc::new(Interrupter {
                every,
                fails,
                ..Interrupter::default()
            })
        };
        let plain = pipelines(&interrupter(0), 100, 8);
        let interrupter = interrupter(every);
        let others = pipelines(&interrupter, 100, 8);
        for ((name, plain), (_, other)) in plain.iter().zip(&others) {
            let mut all = 0;
            for restores in [false, true] {
                let expected = plain.iterator().unwrap();
                let mut iterator = other.iterator().unwrap();
                let mut turn = 0;
                for round in 0..2 {
                    loop {
                        let limits = || interrupter.limits();
                        let (text, count) = asked(&mut iterator, limits, |iterator| {
                            turn += 1;
                            // A batch's position is behind its last element, and what was left out
                            // since is left out again.
                            if restores && turn % 61 == 17 {
                                let position = iterator.save_position().unwrap();
                                let restored = other.iterator().unwrap();
                                restored.restore_position(&position).unwrap();
                                *iterator = restored;
                            }
                        });
                        let words = event(&expected, false);
                        assert_eq!(text, words, "{name}, {every}, round {round}");
                        all += count;
                        if text == "the end" {
                            break;
                        }
                    }
                    expected.reset().unwrap();
                    iterator.reset().unwrap();
                }
            }
            // Failures of numbers end a zip.
            assert!(fails || all > 2, "{name}: {all} interruptions");
        }
    }
}

/// The iterator can be used while years of elements are still to be left out.
#[test]
fn a_deadline_ends_a_skip_of_years() {
    let soon = || Limits {
        deadline: Some(Instant::now() + Duration::from_millis(5)),
        ..Limits::default()
    };
    for (name, dataset) in pipelines(&Arc::default(), MANY / 64, 8) {
        let iterator = dataset.iterator().unwrap();
        for round in 0..3 {
            let error = loop {
                match lent(&iterator, &soon()) {
                    // These are in front of those that are left out.
                    Ok(text) => assert_ne!(text, "the end"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.status(), Status::DeadlineExceeded, "{name}: {error}");
            let text = error.to_string();
            assert!(
                text.contains("where the next request continues"),
                "{name}: {text}"
            );
            assert!(text.contains("deadline has passed"), "{name}: {text}");
            iterator.save_position().unwrap();
            if round == 1 {
                iterator.reset().unwrap();
            }
        }
    }
}

/// The elements in front of those that are left out come under limits that are reached. Then a
/// limit ends the request, or there is none and the request is answered.
#[test]
fn what_ends_one_request_does_not_end_the_next() {
    let rest = generated(&Arc::default()).skip(2000).unwrap();
    let few = Dataset::range(0, 2, 1).unwrap();
    let dataset = Dataset::concatenate(&[few, rest.take(4).unwrap()]).unwrap();
    let cancelled = Cancellation::new();
    cancelled.cancel();
    let limits = Limits {
        cancellation: Some(cancelled),
        ..Limits::default()
    };
    let pipelines = [
        dataset.clone(),
        dataset.prefetch(3).unwrap(),
        dataset.map(function, same(4)).unwrap(),
        dataset.prefetch(1).unwrap().prefetch(2).unwrap(),
    ];
    for (dataset, is_ended) in pipelines.iter().flat_map(|it| [(it, false), (it, true)]) {
        let iterator = dataset.iterator().unwrap();
        for number in 0..2 {
            let text = lent(&iterator, &limits).unwrap();
            assert!(text.contains(&format!("[{number}]")), "{text}");
        }
        if is_ended {
            let error = lent(&iterator, &limits).unwrap_err();
            assert_eq!(error.status(), Status::Cancelled, "{error}");
        }
        let plain = dataset.iterator().unwrap();
        (0..2).for_each(|_| drop(event(&plain, false)));
        for _ in 0..5 {
            assert_eq!(event(&iterator, false), event(&plain, false), "{dataset:?}");
        }
    }
}

/// A request gets the element that waits in front of those that are left out, and then its token is
/// cancelled: that is nothing to the next request.
#[test]
fn a_limit_that_was_reached_ahead_of_the_consumer_is_forgotten() {
    let interrupter = Arc::new(Interrupter {
        every: 1500,
        ..Interrupter::default()
    });
    let ahead = generated(&interrupter).shard(1000, 999).unwrap();
    let waits_for = Arc::clone(&interrupter);
    let slowly = move |element: &Value| {
        while !waits_for.token.lock().unwrap().is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The thread looks at the token before it makes another number.
        std::thread::sleep(Duration::from_millis(20));
        Ok(element.clone())
    };
    let slow = Dataset::range(0, 9, 1)
        .unwrap()
        .map(slowly, same(0))
        .unwrap();
    let pairs = Dataset::zip(&[ahead.prefetch(1).unwrap(), slow], None).unwrap();
    let iterator = pairs.iterator().unwrap();
    let first = lent(&iterator, &interrupter.limits()).unwrap();
    assert!(first.contains("[1000]"), "{first}");
    let second = lent(&iterator, &Limits::default()).unwrap();
    assert!(second.contains("[2000]"), "{second}");
}

proptest! {
    #![proptest_config(config())]

    /// Limits that are reached at any time cost no element, and give none twice.
    #[test]
    fn pipelines_that_are_interrupted_give_what_they_give_without(
        plan in plans(),
        delivery in deliveries(),
        resets in proptest::collection::btree_set(0usize..25, 0..3),
        micros in proptest::collection::vec(0u64..40, 25),
        restored in 0usize..25,
    ) {
        let expected = delivery.of(&plan.dataset())();
        let dataset = plan.dataset();
        let iterators = delivery.of(&dataset);
        let mut iterator = iterators();
        for (at, micros) in micros.into_iter().enumerate() {
            let is_reset = resets.contains(&at);
            let words = event(&expected, is_reset);
            if is_reset {
                prop_assert_eq!(event(&iterator, true), words);
                continue;
            }
            let mut left = 3;
            let within = |left: u64| match left {
                0 => Limits::default(),
                left => Limits {
                    deadline: Some(Instant::now() + Duration::from_micros(micros * (3 - left))),
                    ..Limits::default()
                },
            };
            let text = loop {
                match lent(&iterator, &within(left)) {
                    Err(error) if error.is_interruption() => left -= 1,
                    Err(error) => break error.to_string(),
                    Ok(text) => break text,
                }
                if at == restored {
                    let position = iterator.save_position().unwrap();
                    iterator = iterators();
                    iterator.restore_position(&position).unwrap();
                }
            };
            prop_assert_eq!(text, words, "event {}", at);
        }
    }
}
