//! Deadlines, cancellation, and callbacks that come back late.

use std::mem;

use umbo_core::strategy::ReplicaFunction;

use crate::*;

/// The function inside of so many runs, each in a merge call of the one around it.
fn nested(depth: usize, function: Arc<ReplicaFunction>) -> Arc<ReplicaFunction> {
    (0..depth).fold(function, |inner, depth| {
        Arc::new(move |context: &ReplicaContext| {
            let inner = Arc::clone(&inner);
            context.synchronize(
                Operation::MergeCall { function: depth },
                None,
                Box::new(move |strategy, _| {
                    strategy.run_within(inner, Some(scalar(0.5)), Limits::default(), None)?;
                    Ok(None)
                }),
            )
        })
    })
}

#[test]
fn a_late_callback_drains_and_the_strategy_is_usable_again() {
    for replicas in [1, 2, 3] {
        for waiting in [false, true] {
            for depth in [0, 1, 3] {
                with_enough_time(|time| drains_and_is_usable_again(replicas, waiting, depth, time));
            }
        }
    }
}

/// In a run inside of `depth` others.
fn drains_and_is_usable_again(
    replicas: usize,
    waiting: bool,
    depth: usize,
    time: Duration,
) -> bool {
    let s = strategy(replicas);
    let v = variable(&s, Aggregation::Sum, 1.0);
    let gate = Arc::new(Gate::default());
    let dropped = Arc::new(AtomicBool::new(false));
    struct RunUserData(Arc<AtomicBool>);
    impl Drop for RunUserData {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let late = replicas - 1;
    let function = {
        let gate = Arc::clone(&gate);
        let v = v.clone();
        move |context: &ReplicaContext| {
            if context.replica() == late {
                gate.pass();
                assert!(context.is_cancelled());
                // The run that lent them has returned.
                let arguments = context.argument_tensor()?.unwrap();
                assert_eq!(numbers(arguments), [0.5]);
                let refused = assign(&v, Assignment::Add, &scalar(1.0));
                assert_eq!(refused.unwrap_err().status(), Status::Cancelled);
                return Ok(None);
            }
            if waiting {
                assign(&v, Assignment::Add, &scalar(1.0))?;
            }
            Ok(None)
        }
    };
    let deadline = Some(Instant::now() + time);
    let error = s.run_within(
        nested(depth, Arc::new(function)),
        Some(scalar(0.5)),
        Limits {
            deadline,
            ..Limits::default()
        },
        Some(Box::new(RunUserData(Arc::clone(&dropped)))),
    );
    if !gate.is_reached_by(1) {
        gate.open();
        s.synchronize().unwrap();
        return false;
    }
    refused(
        error,
        Status::DeadlineExceeded,
        &[&format!("replica {late}")],
    );
    assert!(!dropped.load(Ordering::SeqCst));
    assert_eq!(value_of(&v), 1.0);
    let drains = [&format!("replica {late}"), "draining"];
    refused(
        s.run(&|_| Ok(None), None),
        Status::FailedPrecondition,
        &[drains[0], "draining"],
    );
    let write = assign(&v, Assignment::Add, &scalar(1.0));
    refused(write, Status::FailedPrecondition, &[drains[0], drains[1]]);
    gate.open();
    s.synchronize().unwrap();
    assert!(s.late_replicas().is_empty());
    s.run(
        &|_| {
            assign(&v, Assignment::Add, &scalar(1.0))?;
            Ok(None)
        },
        None,
    )
    .unwrap();
    assert_eq!(value_of(&v), 1.0 + replicas as f32);
    let patience = Instant::now() + Duration::from_secs(20);
    while !dropped.load(Ordering::SeqCst) {
        assert!(Instant::now() < patience, "the baggage was never dropped");
        std::thread::yield_now();
    }
    true
}

/// Whether the thread that called sees the token before the last callback is back is chance. That
/// the run takes no effect is not, whether or not a callback was told so.
#[test]
fn a_run_that_is_cancelled_before_its_callbacks_are_back_has_no_effect() {
    for (replicas, asks) in (1..=3).flat_map(|replicas| [(replicas, false), (replicas, true)]) {
        let s = strategy(replicas);
        let v = variable(&s, Aggregation::Sum, 1.0);
        for depth in [0, 1].repeat(100) {
            let token = Cancellation::new();
            let limits = Limits {
                cancellation: Some(token.clone()),
                ..Limits::default()
            };
            let v_of_run = v.clone();
            let function = move |context: &ReplicaContext| {
                assign(&v_of_run, Assignment::Add, &scalar(1.0))?;
                if context.replica() == replicas - 1 {
                    token.cancel();
                    assert!(!asks || context.is_cancelled());
                }
                Ok(None)
            };
            let run = s.run_within(nested(depth, Arc::new(function)), None, limits, None);
            refused(run, Status::Cancelled, &[]);
            s.synchronize().unwrap();
            assert_eq!(value_of(&v), 1.0);
        }
    }
}

#[test]
fn a_strategy_can_be_released_while_a_callback_is_late() {
    with_enough_time(release_while_both_are_late);
}

fn release_while_both_are_late(time: Duration) -> bool {
    let gate = Arc::new(Gate::default());
    let back = Arc::new(Gate::default());
    {
        let s = strategy(2);
        let function = {
            let gate = Arc::clone(&gate);
            let back = Arc::clone(&back);
            move |_: &ReplicaContext| {
                gate.pass();
                back.open();
                Ok(None)
            }
        };
        let token = Cancellation::new();
        token.cancel();
        let limits = Limits {
            cancellation: Some(token),
            ..Limits::default()
        };
        let never = s.run_within(Arc::new(|_| panic!("runs")), None, limits, None);
        refused(never, Status::Cancelled, &[]);
        let deadline = Some(Instant::now() + time);
        let limits = Limits {
            deadline,
            ..Limits::default()
        };
        let error = s.run_within(Arc::new(function), None, limits, None);
        if !gate.is_reached_by(2) {
            gate.open();
            return false;
        }
        refused(error, Status::DeadlineExceeded, &["replica 0", "replica 1"]);
    }
    gate.open();
    back.pass();
    true
}

/// What is released by the last callback of a late run may call the strategy, on whichever thread
/// it runs, and gets an answer.
#[test]
fn what_a_late_run_releases_may_call_back() {
    for replicas in 1..=3 {
        for deadline in [false, true] {
            with_enough_time(|time| {
                returns("a release that calls back", move || {
                    release_that_calls_back(replicas, deadline.then_some(time))
                })
            });
        }
    }
}

/// With a time until a deadline, or with a token.
fn release_that_calls_back(replicas: usize, time: Option<Duration>) -> bool {
    let s = strategy(replicas);
    let v = variable(&s, Aggregation::Sum, 1.0);
    let answers = Arc::new(Mutex::new(Vec::new()));
    let late = Arc::new(Mutex::new(Vec::new()));
    let release = {
        let s = s.clone();
        let v = v.clone();
        let answers = Arc::clone(&answers);
        let late = Arc::clone(&late);
        move || {
            late.lock().unwrap().extend(s.late_replicas());
            let run = s.run(&|_| Ok(None), None).map(drop);
            let within = s.run_within(
                Arc::new(|_| Ok(None)),
                None,
                Limits {
                    cancellation: Some(Cancellation::new()),
                    ..Limits::default()
                },
                None,
            );
            let write = assign(&v, Assignment::Add, &scalar(1.0));
            let update = s.update(&v, None, |_, _| Ok(None));
            let all = [
                run,
                within.map(drop),
                write,
                update.map(drop),
                s.synchronize(),
            ];
            answers.lock().unwrap().extend(all);
        }
    };
    let gate = Arc::new(Gate::default());
    let function = {
        let gate = Arc::clone(&gate);
        move |context: &ReplicaContext| {
            if context.replica() + 1 == replicas {
                gate.pass();
            }
            Ok(None)
        }
    };
    let limits = match time {
        Some(time) => Limits {
            deadline: Some(Instant::now() + time),
            ..Limits::default()
        },
        None => {
            let token = Cancellation::new();
            let later = token.clone();
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || {
                while !gate.is_reached_by(1) {
                    std::thread::yield_now();
                }
                later.cancel();
            });
            Limits {
                cancellation: Some(token),
                ..Limits::default()
            }
        }
    };
    let baggage: RunUserData = Box::new(OnRelease::new(release));
    s.run_within(Arc::new(function), None, limits, Some(baggage))
        .unwrap_err();
    let in_time = gate.is_reached_by(1);
    gate.open();
    s.synchronize().unwrap();
    if !in_time {
        return false;
    }
    assert!(s.late_replicas().is_empty());
    s.run(&|_| Ok(None), None).unwrap();
    assert_eq!(value_of(&v), 1.0);
    // The last one, which releases; mostly the one that was at the gate.
    assert!(matches!(late.lock().unwrap()[..], [last] if last < replicas));
    let answers = mem::take(&mut *answers.lock().unwrap());
    assert_eq!(answers.len(), 5);
    for answer in answers {
        refused(answer, Status::FailedPrecondition, &[]);
    }
    true
}

#[test]
fn synchronising_waits_for_what_a_late_run_releases() {
    let s = strategy(2);
    for _ in 0..300 {
        let released = Released::default();
        let function = |context: &ReplicaContext| {
            if context.replica() == 1 {
                while !context.is_cancelled() {
                    std::hint::spin_loop();
                }
            }
            Ok(None)
        };
        let deadline = Some(Instant::now() + Duration::from_micros(100));
        let limits = Limits {
            deadline,
            ..Limits::default()
        };
        s.run_within(Arc::new(function), None, limits, released.baggage())
            .unwrap_err();
        s.synchronize().unwrap();
        assert!(released.is_released());
    }
}
