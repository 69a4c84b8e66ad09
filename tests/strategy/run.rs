//! Runs: results, threads, failures, metrics, and the devices they are for.

use crate::*;

#[test]
fn replicas_run_concurrently_on_their_own_threads() {
    let strategy = strategy(4);
    let barrier = Barrier::new(4);
    let threads = Mutex::new(Vec::new());
    for _ in 0..3 {
        strategy
            .run(
                &|_| {
                    barrier.wait();
                    threads.lock().unwrap().push(std::thread::current().id());
                    Ok(None)
                },
                None,
            )
            .unwrap();
    }
    let mut threads = threads.into_inner().unwrap();
    threads.sort_by_key(|id| format!("{id:?}"));
    threads.dedup();
    assert_eq!(threads.len(), 4);
}

#[test]
fn the_first_failure_in_replica_order_decides_and_all_are_listed() {
    let strategy = strategy(4);
    let fail = |status: Status, message: &str| -> Error {
        Error::Callback {
            status,
            message: message.into(),
            payload: None,
        }
    };
    let error = strategy.run(
        &|context| match context.replica() {
            1 => Err(fail(Status::DataLoss, "one")),
            3 => Err(fail(Status::Aborted, "three")),
            _ => Ok(None),
        },
        None,
    );
    let error = refused(
        error,
        Status::DataLoss,
        &["replica 1", "one", "replica 3", "three"],
    );
    let Error::Replicas(failures) = error else {
        panic!("not a list of replicas")
    };
    assert_eq!(failures.failures.len(), 2);

    // The others wait in a merge call and are stopped: that does not count as failing.
    let error = strategy.run(
        &|context| match context.replica() {
            2 => Err(fail(Status::Aborted, "two")),
            _ => merge_sum(context, 1.0),
        },
        None,
    );
    refused(
        error,
        Status::Aborted,
        &["replica 2", "two", "replica 0", "CANCELLED"],
    );

    let error = strategy.run(
        &|context| {
            context.synchronize(
                Operation::MergeCall { function: 1 },
                None,
                Box::new(|_, _| Err(Error::DataLoss("in the merge".into()))),
            )
        },
        None,
    );
    refused(error, Status::DataLoss, &["in the merge"]);
    let error = strategy.run(&|_| panic!("oh no"), None);
    refused(error, Status::Internal, &["replica 0", "oh no"]);
    strategy
        .run(&|context| merge_sum(context, 1.0), None)
        .unwrap();
}

#[test]
fn metrics_and_batch_positions_know_their_replicas() {
    let s = strategy(3);
    let batch = Value::per_replica(vec![
        tensor(&[1.0, 2.0]).with_examples(2),
        tensor(&[3.0]).with_examples(1),
        tensor(&[]).with_examples(0),
    ])
    .unwrap();
    s.run(
        &|context| {
            let position = context.batch_position();
            let expected = [(0, 2), (2, 1), (3, 0)][context.replica()];
            assert_eq!(
                (position.first_example, position.local_examples),
                (expected.0, Some(expected.1))
            );
            assert_eq!(position.global_examples, Some(3));
            let part = context.arguments()?.unwrap();
            let rows = numbers(part.tensor_of(context.replica())?);
            let sum = rows.iter().sum::<f32>().into();
            context.add_metric(
                "loss",
                Metric {
                    sum,
                    weight: rows.len() as f64,
                },
            )?;
            let scratch = context.scratch(100)?;
            assert!((scratch as usize).is_multiple_of(64));
            Ok(None)
        },
        Some(batch),
    )
    .unwrap();
    assert_eq!(
        s.metric("loss"),
        Some(Metric {
            sum: 6.0,
            weight: 3.0
        })
    );
    assert!(s.run(&|_| Err(Error::DataLoss("no".into())), None).is_err());
    assert_eq!(
        s.metric("loss"),
        Some(Metric {
            sum: 6.0,
            weight: 3.0
        })
    );
    let short = Value::per_replica(vec![tensor(&[1.0])]).unwrap();
    refused(
        s.run(&|_| Ok(None), Some(short)),
        Status::InvalidArgument,
        &["args", "3 replicas"],
    );
}

/// On replicas' threads, whose stacks are the smallest that they can have.
#[test]
fn the_deepest_nest_goes_through_run_reduce_and_gather() {
    // In a process of its own: a thread that has served others may have a larger stack.
    const ALONE: &str = "UMBO_TEST_IS_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "run::the_deepest_nest_goes_through_run_reduce_and_gather",
                "--exact",
            ])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&alone.stdout);
        assert!(
            alone.status.success() && told.contains("1 passed"),
            "{}: {told}",
            alone.status
        );
        return;
    }
    let options = Options {
        cpu_replicas: 2,
        stack_bytes: Some(256 << 10),
        ..Options::default()
    };
    let strategy = Strategy::new(&options).unwrap();
    let nested = |leaf: Value| {
        let around = |inner, _| Value::tuple(vec![inner]).unwrap();
        (0..umbo_core::values::limits::MAX_NEST_DEPTH).fold(leaf, around)
    };
    let argument = nested(Value::Tensor(tensor(&[1.0])));
    let function = |context: &ReplicaContext| {
        let argument = context.arguments()?.unwrap();
        let sum = |context: &ReplicaContext| {
            context
                .all_reduce(ReduceOp::Sum, context.arguments()?.unwrap())
                .map(Some)
        };
        let run_in_merge_call =
            Box::new(move |strategy: &Strategy, calls: &mut [&mut MergeCall]| {
                strategy.run(&sum, calls[0].arguments.clone())
            });
        let merge_call = Operation::MergeCall { function: 1 };
        let sum = context
            .synchronize(merge_call, Some(argument), run_in_merge_call)?
            .unwrap();
        context.all_gather(sum, 0).map(Some)
    };
    let result = strategy
        .run(&function, Some(argument.clone()))
        .unwrap()
        .unwrap();
    let how = ReductionOptions::default();
    let sum = strategy.reduce(ReduceOp::Sum, &result, &how).unwrap();
    strategy.gather(&sum, 0, &how).unwrap();
    let path = vec!["0"; umbo_core::values::limits::MAX_NEST_DEPTH].join(".");
    assert_eq!(
        numbers(sum.at_path(&path).unwrap().tensor_of(0).unwrap()),
        [4.0; 2]
    );
    refused(
        Value::tuple(vec![sum.clone()]),
        Status::InvalidArgument,
        &["65 deep", "64 nests"],
    );
    refused(
        strategy.local_results(&sum),
        Status::InvalidArgument,
        &["65 deep"],
    );
}
