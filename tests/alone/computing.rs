//! Heavy computations: the same results on many threads, on one, where the system has no thread,
//! and after the end of all threads; and rayon's global pool is never started.

use std::time::Duration;

use crate::threads::allowing;
use umbo_core::error::Status;
use umbo_core::executor::computing::{for_each, map};
use umbo_core::executor::thread::{self, Purpose};
use umbo_core::executor::{affinity, shutdown};
use umbo_core::input::{Dataset, MapOptions};

/// How many threads compute when there can be any: none beside the caller on one processor.
fn expected() -> usize {
    match affinity::process_processors().count() {
        1 => 0,
        count => count,
    }
}

fn alive() -> usize {
    thread::alive(Purpose::Compute)
}

const ELEMENTS: usize = 50_003;

/// Everything that the module offers, and whether it came out right.
fn computes() -> bool {
    let mut list: Vec<usize> = (0..ELEMENTS).collect();
    for_each(&mut list, 1000, |element| *element += 1);
    let doubled = map(&list, ELEMENTS, |element| 2 * element).unwrap();
    // One in the other.
    let nested = map(&[0, 1, 2], ELEMENTS, |&item: &usize| {
        map(&list, ELEMENTS, |element| element + item)
            .unwrap()
            .into_iter()
            .sum::<usize>()
    });
    let sum = ELEMENTS * (ELEMENTS + 1) / 2;
    list.iter().copied().eq(1..=ELEMENTS)
        && doubled
            .into_iter()
            .eq((1..=ELEMENTS).map(|element| 2 * element))
        && nested.unwrap() == [0, 1, 2].map(|item| sum + item * ELEMENTS)
}

#[test]
fn heavy_work_has_the_same_results_on_every_thread() {
    let true = crate::is_alone(heavy_work_has_the_same_results_on_every_thread) else {
        return;
    };
    // Without threads, and with fewer than are wanted; the pool's that were started end again.
    allowing(0, || assert!(computes()));
    assert_eq!(alive(), 0);
    std::thread::sleep(Duration::from_millis(150));
    allowing(expected() as i64 - 1, || assert!(computes()));
    assert_eq!(alive(), 0);

    // A while later there are all of them, and everything comes out as before.
    std::thread::sleep(Duration::from_millis(150));
    assert!(computes());
    assert_eq!(alive(), expected());

    // The pool's threads and no others have computed, on all processors.
    let names = map(&[(); 100], ELEMENTS, |()| {
        (
            thread::current_name(),
            affinity::current_thread_processors().unwrap(),
        )
    });
    for (name, processors) in names.unwrap() {
        assert_eq!(name.starts_with("umbo-compute-"), expected() > 0, "{name}");
        assert!(expected() == 0 || processors == *affinity::process_processors());
    }

    // Where there is little to do nobody is asked, nor from a thread of the program's own pool,
    // which would do the program's work while it waits.
    let caller = thread::current_name();
    assert_eq!(
        map(&[1, 2], 10, |_| thread::current_name()).unwrap(),
        [caller.clone(), caller]
    );
    let programs = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    let ours = |(): &()| thread::current_name().starts_with("umbo-compute-");
    let ours = programs.install(|| map(&[(); 10], ELEMENTS, ours)).unwrap();
    assert!(ours.into_iter().all(|ours| !ours));

    // Nobody ends the threads under somebody who computes.
    if expected() > 0 {
        for error in map(&[(); 4], ELEMENTS, |()| shutdown::shut_down().unwrap_err()).unwrap() {
            assert_eq!(error.status(), Status::FailedPrecondition);
            assert!(
                error.to_string().contains("heavy computations are in use"),
                "{error}"
            );
        }
        assert_eq!(alive(), expected());
    }
    for _ in 0..3 {
        assert!(computes());
        assert_eq!(alive(), expected());
        shutdown::shut_down().unwrap();
        assert_eq!(alive(), 0);
    }

    // Several at once, one of which has a panic that reaches its caller alone.
    std::thread::scope(|scope| {
        for caller in 0..4 {
            scope.spawn(move || {
                for _ in 0..20 {
                    let panics = std::panic::catch_unwind(|| {
                        map(&[0, 1, 2], ELEMENTS, |&item: &i32| {
                            if caller == 0 && item > 0 {
                                std::panic::resume_unwind(Box::new("no message"));
                            }
                        })
                    });
                    assert_eq!(panics.is_err(), caller == 0);
                    assert!(computes());
                }
            });
        }
    });
    shutdown::shut_down().unwrap();

    // Threads of parallel maps end with their iterators, and are named until then.
    let options = MapOptions {
        parallel_calls: 3,
        element_spec: None,
    };
    let mapped = Dataset::range(0, 10, 1)
        .unwrap()
        .map(|element| Ok(element.clone()), options);
    let iterator = mapped.unwrap().iterator().unwrap();
    iterator.next().unwrap().unwrap();
    let error = shutdown::shut_down().unwrap_err();
    assert_eq!(error.status(), Status::FailedPrecondition);
    let text = error.to_string();
    assert!(
        text.contains("threads of parallel maps (3): release their iterators"),
        "{text}"
    );
    drop(iterator);
    shutdown::shut_down().unwrap();

    // The first to start rayon's global pool.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .unwrap();
}
