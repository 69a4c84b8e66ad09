//! Merge calls, and the collectives that are made of them.

use crate::*;

#[test]
fn a_merge_call_runs_once_in_cross_replica_context_on_the_callers_thread() {
    for replicas in 2..5 {
        let strategy = strategy(replicas);
        let caller = std::thread::current().id();
        let calls = Arc::new(AtomicUsize::new(0));
        for bounded in [false, true] {
            let calls = Arc::clone(&calls);
            let function = move |context: &ReplicaContext| {
                for _ in 0..3 {
                    let sum = merge_sum(context, context.replica() as f32 + 1.0)?.unwrap();
                    let expected = (replicas * (replicas + 1) / 2) as f32;
                    assert_eq!(numbers(sum.tensor_of(0)?), [expected]);
                }
                let calls = Arc::clone(&calls);
                context.synchronize(
                    Operation::MergeCall { function: 2 },
                    None,
                    Box::new(move |strategy, _| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(std::thread::current().id(), caller);
                        assert!(matches!(current(), Current::CrossReplica(_)));
                        let scope = strategy.enter_scope()?;
                        drop(scope.exit()?);
                        Ok(None)
                    }),
                )
            };
            if bounded {
                let deadline = Some(Instant::now() + Duration::from_secs(60));
                let limits = Limits {
                    deadline,
                    ..Limits::default()
                };
                strategy
                    .run_within(Arc::new(function), None, limits, None)
                    .unwrap();
            } else {
                strategy.run(&function, None).unwrap();
            }
        }
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn runs_inside_of_merge_calls_are_served_by_the_waiting_replicas() {
    for bounded in [false, true] {
        let strategy = strategy(3);
        let function = move |context: &ReplicaContext| {
            let result = context.synchronize(
                Operation::MergeCall { function: 1 },
                None,
                Box::new(move |strategy, _| {
                    let inner =
                        |context: &ReplicaContext| merge_sum(context, context.replica() as f32);
                    let inner = match bounded {
                        // The step around it may be given up, and this one with it.
                        true => {
                            refused(
                                strategy.run(&inner, None),
                                Status::FailedPrecondition,
                                &["function", "deadline or a token", "owns"],
                            );
                            strategy.run_within(Arc::new(inner), None, Limits::default(), None)
                        }
                        false => strategy.run(&inner, None),
                    };
                    let inner = inner?.unwrap();
                    assert_eq!(numbers(inner.tensor_of(0)?), [3.0]);
                    Ok(Some(inner))
                }),
            )?;
            Ok(result)
        };
        let result = if bounded {
            let limits = Limits {
                cancellation: Some(Cancellation::new()),
                ..Limits::default()
            };
            strategy.run_within(Arc::new(function), None, limits, None)
        } else {
            strategy.run(&function, None)
        };
        assert_eq!(
            numbers(result.unwrap().unwrap().tensor_of(0).unwrap()),
            [3.0]
        );
    }
}

#[test]
fn replicas_that_disagree_about_merge_calls_are_told_who_was_where() {
    let strategy = strategy(3);
    for misfit in 0..3 {
        let error = strategy.run(
            &|context| match context.replica() == misfit {
                true => Ok(None),
                false => merge_sum(context, 1.0),
            },
            None,
        );
        let place = format!("replica {misfit} has returned");
        refused(error, Status::FailedPrecondition, &[&place, "merge_call"]);
        let error = strategy.run(
            &|context| {
                let op = if context.replica() == misfit {
                    ReduceOp::Mean
                } else {
                    ReduceOp::Sum
                };
                context.all_reduce(op, scalar(1.0)).map(Some)
            },
            None,
        );
        refused(
            error,
            Status::FailedPrecondition,
            &["all_reduce SUM", "all_reduce MEAN"],
        );
    }
    strategy
        .run(&|context| merge_sum(context, 1.0), None)
        .unwrap();
}

#[test]
fn merge_calls_that_differ_are_named_by_their_addresses_and_once() {
    let strategy = strategy(3);
    let functions = [0x40, 0x41, 0x42];
    let error = strategy.run(
        &|context| {
            let function = functions[context.replica()];
            context.synchronize(
                Operation::MergeCall { function },
                None,
                Box::new(|_, _| Ok(None)),
            )
        },
        None,
    );
    let parts = [
        "0x40",
        "the function at 0x41",
        "0x42",
        "the replicas disagree",
    ];
    let error = refused(error, Status::FailedPrecondition, &parts).to_string();
    for once in ["the replicas disagree", "0x41"] {
        assert_eq!(error.matches(once).count(), 1, "'{once}' in {error}");
    }
    for replica in 0..3 {
        assert!(
            error.contains(&format!("replica {replica} (CPU:")),
            "{error}"
        );
    }
}

#[test]
fn collectives_of_different_shapes_do_not_advise_what_they_cannot_take() {
    let strategy = strategy(2);
    let uneven =
        |context: &ReplicaContext| Value::Tensor(tensor(&vec![1.0; 3 + context.replica()]));
    let error = strategy.run(
        &|context| context.all_reduce(ReduceOp::Sum, uneven(context)).map(Some),
        None,
    );
    let parts = [
        "replica 0 [3]",
        "replica 1 [4]",
        "one shape",
        "on each replica first",
    ];
    let error = refused(error, Status::InvalidArgument, &parts).to_string();
    assert!(!error.contains("axes"), "{error}");
    // What can take axes says so.
    let parts = Value::per_replica(vec![tensor(&[1.0; 3]), tensor(&[1.0; 4])]).unwrap();
    let error = strategy.reduce(ReduceOp::Sum, &parts, &ReductionOptions::default());
    refused(error, Status::InvalidArgument, &["pass axes = {0}"]);
}
