//! Iterators that several threads share, and iterators that functions of other iterators use. What
//! hangs is found by a time that is far longer than anything here takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::time::Duration;

use crate::common::{all, fails, ints, numbers};
use umbo_core::error::{Result, Status};
use umbo_core::input::ShuffleOptions;
use umbo_core::input::{Dataset, ElementSpec, Generator, LeafSpec, MapOptions, PassIterator};
use umbo_core::tensor::{DType, Tensor};
use umbo_core::values::Value;

/// Runs `body` on a thread of its own and fails if it does not end.
fn ends<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(body());
    });
    match result.recv_timeout(Duration::from_secs(60)) {
        Ok(value) => value,
        Err(_) if thread.is_finished() => panic!("it panicked"),
        Err(_) => panic!("it hangs"),
    }
}

/// Builds a pipeline on a dataset.
type Build = fn(Dataset) -> Dataset;

fn at_once(parallel_calls: i64) -> MapOptions {
    MapOptions {
        parallel_calls,
        element_spec: None,
    }
}

fn scalar(number: i32) -> Value {
    Value::Tensor(Tensor::scalar(number).unwrap())
}

fn one(element: &Value) -> i32 {
    ints(element)[0]
}

fn spec() -> ElementSpec {
    ElementSpec::Leaf(LeafSpec {
        dtype: DType::Int32,
        shape: vec![],
    })
}

/// A generator whose elements a function makes.
struct Made<F>(F);

impl<F: FnMut() -> Result<Option<Value>> + Send> Generator for Made<F> {
    fn next(&mut self) -> Result<Option<Value>> {
        (self.0)()
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }
}

fn generated<F>(begin: impl Fn() -> F + Send + Sync + 'static) -> Dataset
where
    F: FnMut() -> Result<Option<Value>> + Send + 'static,
{
    Dataset::from_generator(spec(), move || Ok(Box::new(Made(begin())))).unwrap()
}

#[test]
fn as_many_calls_run_at_once_as_are_asked_for() {
    ends(|| {
        // Each call waits until all are there; a machine with fewer processors must do as well.
        let together = Barrier::new(40);
        let wait = move |element: &Value| {
            together.wait();
            Ok(element.clone())
        };
        let mapped = numbers(120).map(wait, at_once(40)).unwrap();
        assert_eq!(all(&mapped).len(), 120);
    });
}

/// Iterators each of which draws from the next one, round in a circle.
type Circle = Arc<Vec<OnceLock<Arc<PassIterator>>>>;

fn circle(count: usize, build: impl Fn(Dataset) -> Dataset) -> Circle {
    let slots: Circle = Arc::new((0..count).map(|_| OnceLock::new()).collect());
    for at in 0..count {
        let others = Arc::downgrade(&slots);
        let dataset = generated(move || {
            let others = others.clone();
            move || {
                let Some(others) = others.upgrade() else {
                    return Ok(None);
                };
                let other = others[(at + 1) % others.len()].get().cloned();
                other.map_or(Ok(None), |other| other.next())
            }
        });
        let iterator = Arc::new(build(dataset).iterator().unwrap());
        assert!(slots[at].set(iterator).is_ok());
    }
    slots
}

#[test]
fn iterators_that_come_back_to_themselves_are_refused() {
    let ways: [(&str, Build); 3] = [
        ("plain", |dataset| dataset),
        ("prefetched", |dataset| dataset.prefetch(2).unwrap()),
        ("parallel", |dataset| {
            dataset
                .map(|element| Ok(element.clone()), at_once(2))
                .unwrap()
        }),
    ];
    for (way, build) in ways {
        for count in 1..4 {
            ends(move || {
                let circle = circle(count, build);
                let error = circle[0]
                    .get()
                    .unwrap()
                    .next()
                    .err()
                    .map(|error| error.status());
                assert_eq!(error, Some(Status::FailedPrecondition), "{way}, {count}");
            });
        }
    }
}

#[test]
fn a_panic_stands_in_the_place_of_its_element() {
    let ways: [(&str, Build); 3] = [
        ("plain", |dataset| dataset),
        ("prefetched", |dataset| dataset.prefetch(2).unwrap()),
        ("parallel", |dataset| {
            dataset
                .map(|element| Ok(element.clone()), at_once(3))
                .unwrap()
        }),
    ];
    for parallel_calls in [0, 3] {
        for (way, build) in ways {
            let seen = ends(move || {
                let panics = |element: &Value| {
                    assert!(one(element) != 2, "two is too much");
                    Ok(element.clone())
                };
                let iterator = build(numbers(5).map(panics, at_once(parallel_calls)).unwrap());
                let iterator = iterator.iterator().unwrap();
                let mut seen = Vec::new();
                for _ in 0..6 {
                    let next = std::panic::AssertUnwindSafe(|| iterator.next());
                    seen.push(match std::panic::catch_unwind(next) {
                        Ok(element) => element.unwrap().map_or(-1, |element| one(&element)),
                        Err(_) => 100,
                    });
                }
                seen
            });
            assert_eq!(seen, [0, 1, 100, 3, 4, -1], "{way}, {parallel_calls}");
        }
    }
}

#[test]
fn the_last_reference_may_be_dropped_by_whom_the_iterator_waits_for() {
    for depth in [1, 3] {
        ends(move || {
            let slot: Arc<Mutex<Option<Arc<PassIterator>>>> = Arc::default();
            let dropped = Arc::new(AtomicBool::new(false));
            let inside = Arc::clone(&slot);
            let has_dropped = Arc::clone(&dropped);
            let dataset = generated(move || {
                let inside = Arc::clone(&inside);
                let has_dropped = Arc::clone(&has_dropped);
                let mut count = 0;
                move || {
                    count += 1;
                    if count == 3 {
                        // Nobody is in `next` any more, so this ends the iterator on its own
                        // thread.
                        while !has_dropped.load(Ordering::SeqCst) {
                            std::thread::yield_now();
                        }
                        drop(inside.lock().unwrap().take());
                    }
                    Ok((count < 5).then(|| scalar(count)))
                }
            });
            let iterator = Arc::new(dataset.prefetch(depth).unwrap().iterator().unwrap());
            *slot.lock().unwrap() = Some(Arc::clone(&iterator));
            assert_eq!(one(&iterator.next().unwrap().unwrap()), 1);
            if depth == 1 {
                assert_eq!(one(&iterator.next().unwrap().unwrap()), 2);
            }
            drop(iterator);
            dropped.store(true, Ordering::SeqCst);
            while slot.lock().unwrap().is_some() {
                std::thread::yield_now();
            }
        });
    }
}

#[test]
fn a_failed_creation_uses_up_no_order() {
    /// More elements than there is memory for.
    const TOO_MANY: i64 = i64::MAX / 2;
    let dataset = || {
        numbers(50)
            .shuffle(&ShuffleOptions {
                seed: 3,
                ..Default::default()
            })
            .unwrap()
    };
    let disturbed = dataset();
    let plain = dataset();
    let fails_to_start = disturbed
        .repeat(-1)
        .unwrap()
        .batch(TOO_MANY, false)
        .unwrap();
    for _ in 0..3 {
        fails(
            fails_to_start.iterator().map(drop),
            Status::ResourceExhausted,
            "row numbers",
        );
        assert_eq!(all(&disturbed), all(&plain));
    }
}
