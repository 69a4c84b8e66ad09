//! The strategy from its users' side: contexts, runs, merge calls, the commit point, failures.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use umbo::cross_device::{Assignment, ReduceOp};
use umbo::device::DeviceId;
use umbo::error::{Error, Result, Status};
use umbo::strategy::cancellation::Cancellation;
use umbo::strategy::collective::{Destination, Reduction};
use umbo::strategy::context::{Current, current, set_strategy};
use umbo::strategy::extended::Grouping;
use umbo::strategy::merge::Operation;
use umbo::strategy::metrics::Metric;
use umbo::strategy::run::Limits;
use umbo::strategy::variables::{self, Initial, NewVariable, assign, read};
use umbo::strategy::{Options, ReplicaContext, Strategy};
use umbo::tensor::{Shape, Tensor};
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Synchronization, Variable};

fn strategy(replicas: usize) -> Strategy {
    Strategy::new(&Options { cpu_replicas: replicas, ..Options::default() }).unwrap()
}

fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, Shape::new(&[values.len()]).unwrap(), DeviceId::HOST).unwrap()
}

fn scalar(value: f32) -> Value {
    Value::Tensor(Tensor::scalar(value).unwrap())
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    // The tests' tensors are contiguous float32 that nobody writes while they are read.
    assert!(tensor.layout().is_contiguous());
    let count = tensor.shape().elements();
    let data = tensor.data().cast::<f32>();
    // SAFETY: contiguous float32 elements of a live tensor, as just said.
    (0..count).map(|index| unsafe { data.add(index).read() }).collect()
}

fn components(value: &Value) -> Vec<Vec<f32>> {
    let Value::PerReplica(value) = value else { panic!("{value:?} is not per replica") };
    value.components().iter().map(numbers).collect()
}

fn variable(strategy: &Strategy, aggregation: Aggregation, value: f32) -> Variable {
    let new = NewVariable {
        name: "v".into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation,
    };
    let initial = Tensor::scalar(value).unwrap();
    variables::create(Some(strategy), new, Initial::Value(&initial)).unwrap()
}

fn value_of(variable: &Variable) -> f32 {
    numbers(&read(variable).unwrap())[0]
}

#[track_caller]
fn refused<T>(result: Result<T>, status: Status, parts: &[&str]) -> Error {
    let Err(error) = result else { panic!("was accepted") };
    let text = error.to_string();
    assert_eq!(error.status(), status, "{text}");
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
    error
}

#[test]
fn results_are_merged_leaf_by_leaf_and_the_same_object_stays_plain() {
    let strategy = strategy(3);
    let shared = tensor(&[1.0, 2.0]);
    let result = strategy
        .run(
            &|context| {
                let own = scalar(context.replica() as f32);
                Ok(Some(Value::tuple(vec![own, Value::Tensor(shared.clone())])))
            },
            None,
        )
        .unwrap()
        .unwrap();
    assert_eq!(components(&result.item(0).unwrap()), [[0.0], [1.0], [2.0]]);
    let Value::Tensor(plain) = result.item(1).unwrap() else { panic!("was wrapped") };
    assert!(plain.is_same(&shared));
    let mixed = strategy.run(&|context| Ok((context.replica() == 0).then(|| scalar(0.0))), None);
    refused(mixed, Status::InvalidArgument, &["1 of 3"]);
}

#[test]
fn one_replica_wraps_nothing() {
    let strategy = strategy(1);
    let result = strategy.run(&|_| Ok(Some(scalar(5.0))), None).unwrap().unwrap();
    assert!(matches!(result, Value::Tensor(_)));
}

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
fn contexts_nest_strictly_and_are_of_their_thread() {
    let (s, t) = (strategy(2), strategy(2));
    assert!(matches!(current(), Current::Default));
    let outer = s.enter_scope().unwrap();
    let inner = s.enter_scope().unwrap();
    refused(outer.exit(), Status::FailedPrecondition, &["innermost"]);
    refused(t.enter_scope(), Status::FailedPrecondition, &["mixing"]);
    refused(t.run(&|_| Ok(None), None), Status::FailedPrecondition, &["mixing"]);
    refused(set_strategy(None), Status::FailedPrecondition, &["umbo_set_strategy"]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(matches!(current(), Current::Default));
            refused(inner.exit(), Status::FailedPrecondition, &["thread"]);
        });
    });
    inner.exit().unwrap();
    refused(inner.exit(), Status::FailedPrecondition, &["left already"]);
    outer.exit().unwrap();
    assert!(matches!(current(), Current::Default));
    set_strategy(Some(s.clone())).unwrap();
    assert!(matches!(current(), Current::CrossReplica(current) if current.is_same(&s)));
    set_strategy(None).unwrap();
    let error = s.run(
        &|_| {
            s.enter_scope()?;
            Ok(None)
        },
        None,
    );
    refused(error, Status::FailedPrecondition, &["cross-replica", "replica 0", "replica 1"]);
    let error = s.run(&|_| s.run(&|_| Ok(None), None), None);
    refused(error, Status::FailedPrecondition, &["umbo_strategy_run"]);
}

fn merge_sum(context: &ReplicaContext, value: f32) -> Result<Option<Value>> {
    context.synchronize(
        Operation::MergeCall { function: 1 },
        Some(scalar(value)),
        Box::new(|strategy, values| {
            let values: Vec<Value> = values.into_iter().flatten().collect();
            let merged = Value::merge(&values, false, "args")?;
            let sum = strategy.reduce(ReduceOp::Sum, &merged, &Reduction::default())?;
            Ok(vec![Some(sum); values.len()])
        }),
    )
}

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
                    Box::new(move |strategy, values| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(std::thread::current().id(), caller);
                        assert!(matches!(current(), Current::CrossReplica(_)));
                        let scope = strategy.enter_scope()?;
                        scope.exit()?;
                        Ok(values)
                    }),
                )
            };
            if bounded {
                let deadline = Some(Instant::now() + Duration::from_secs(60));
                let limits = Limits { deadline, ..Limits::default() };
                strategy.run_within(Arc::new(function), None, limits, None).unwrap();
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
        let function = |context: &ReplicaContext| {
            let result = context.synchronize(
                Operation::MergeCall { function: 1 },
                None,
                Box::new(|strategy, _| {
                    let inner = strategy
                        .run(&|context| merge_sum(context, context.replica() as f32), None)?
                        .unwrap();
                    assert_eq!(numbers(inner.tensor_of(0)?), [3.0]);
                    Ok(vec![Some(inner); 3])
                }),
            )?;
            Ok(result)
        };
        let result = if bounded {
            let limits = Limits { cancellation: Some(Cancellation::new()), ..Limits::default() };
            strategy.run_within(Arc::new(function), None, limits, None)
        } else {
            strategy.run(&function, None)
        };
        assert_eq!(numbers(result.unwrap().unwrap().tensor_of(0).unwrap()), [3.0]);
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
                let op = if context.replica() == misfit { ReduceOp::Mean } else { ReduceOp::Sum };
                context.all_reduce(op, scalar(1.0)).map(Some)
            },
            None,
        );
        refused(error, Status::FailedPrecondition, &["all_reduce SUM", "all_reduce MEAN"]);
    }
    strategy.run(&|context| merge_sum(context, 1.0), None).unwrap();
}

#[test]
fn the_first_failure_in_replica_order_decides_and_all_are_listed() {
    let strategy = strategy(4);
    let fail = |status: Status, message: &str| -> Error {
        Error::Callback { status, message: message.into(), payload: None }
    };
    let error = strategy.run(
        &|context| match context.replica() {
            1 => Err(fail(Status::DataLoss, "one")),
            3 => Err(fail(Status::Aborted, "three")),
            _ => Ok(None),
        },
        None,
    );
    let error = refused(error, Status::DataLoss, &["replica 1", "one", "replica 3", "three"]);
    let Error::Replicas(failures) = error else { panic!("not a list of replicas") };
    assert_eq!(failures.failures.len(), 2);

    // The others wait in a merge call and are stopped: that does not count as failing.
    let error = strategy.run(
        &|context| match context.replica() {
            2 => Err(fail(Status::Aborted, "two")),
            _ => merge_sum(context, 1.0),
        },
        None,
    );
    refused(error, Status::Aborted, &["replica 2", "two", "replica 0", "CANCELLED"]);

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
    strategy.run(&|context| merge_sum(context, 1.0), None).unwrap();
}

#[test]
fn assignments_follow_the_aggregation() {
    let s = strategy(2);
    let table = [
        (Aggregation::Sum, [3.0, 13.0, 7.0]),
        (Aggregation::Mean, [1.5, 11.5, 8.5]),
        (Aggregation::OnlyFirstReplica, [1.0, 11.0, 9.0]),
    ];
    let kinds = [Assignment::Assign, Assignment::Add, Assignment::Subtract];
    for (aggregation, expected) in table {
        for (kind, expected) in kinds.into_iter().zip(expected) {
            let v = variable(&s, aggregation, 10.0);
            let seen = s
                .run(
                    &|context| {
                        assign(&v, kind, &scalar(context.replica() as f32 + 1.0))?;
                        read(&v).map(|tensor| Some(Value::Tensor(tensor)))
                    },
                    None,
                )
                .unwrap()
                .unwrap();
            assert_eq!(components(&seen), [[expected], [expected]]);
            assert_eq!(value_of(&v), expected);
        }
    }
    let v = variable(&s, Aggregation::None, 10.0);
    let error = s.run(
        &|_| {
            assign(&v, Assignment::Assign, &scalar(1.0))?;
            Ok(None)
        },
        None,
    );
    refused(error, Status::InvalidArgument, &["NONE", "'v'"]);
    assign(&v, Assignment::Add, &scalar(1.0)).unwrap();
    assert_eq!(value_of(&v), 11.0);
    // A variable of no strategy is written by each replica in turn.
    let plain = variable(&Strategy::default_strategy(), Aggregation::None, 10.0);
    s.run(
        &|context| {
            assign(&plain, Assignment::Add, &scalar(context.replica() as f32 + 1.0))?;
            Ok(None)
        },
        None,
    )
    .unwrap();
    assert_eq!(value_of(&plain), 13.0);
    let other = strategy(2);
    let scope = other.enter_scope().unwrap();
    refused(assign(&v, Assignment::Add, &scalar(1.0)), Status::FailedPrecondition, &["mixing"]);
    scope.exit().unwrap();
}

#[test]
fn a_failed_step_leaves_central_state_as_it_was() {
    let s = strategy(2);
    let v = variable(&s, Aggregation::Sum, 10.0);
    for failing in 0..2 {
        let error = s.run(
            &|context| {
                assign(&v, Assignment::Add, &scalar(1.0))?;
                assert_eq!(value_of(&v), 12.0);
                match context.replica() == failing {
                    true => Err(Error::DataLoss("after the assignment".into())),
                    false => Ok(None),
                }
            },
            None,
        );
        refused(error, Status::DataLoss, &["after the assignment"]);
        assert_eq!(value_of(&v), 10.0);
    }
    let failed = s.update(&v, None, Grouping::Grouped, |v, _| {
        assign(v, Assignment::Add, &scalar(1.0))?;
        assert_eq!(value_of(v), 11.0);
        Err(Error::DataLoss("in update".into()))
    });
    refused(failed, Status::DataLoss, &["in update"]);
    assert_eq!(value_of(&v), 10.0);
    s.update(&v, Some(&scalar(5.0)), Grouping::Grouped, |v, value| {
        assign(v, Assignment::Add, &value.unwrap())?;
        Ok(None)
    })
    .unwrap();
    assert_eq!(value_of(&v), 15.0);
    // A run inside of a merge call that fails after an assignment: catching its error does not
    // bring the step through.
    let error = s.run(
        &|context| {
            let v = v.clone();
            context.synchronize(
                Operation::MergeCall { function: 1 },
                None,
                Box::new(move |strategy, values| {
                    let nested = strategy.run(
                        &|context| {
                            assign(&v, Assignment::Add, &scalar(1.0))?;
                            match context.replica() {
                                0 => Err(Error::DataLoss("nested".into())),
                                _ => Ok(None),
                            }
                        },
                        None,
                    );
                    assert!(nested.is_err());
                    Ok(values)
                }),
            )
        },
        None,
    );
    refused(error, Status::FailedPrecondition, &["nested"]);
    assert_eq!(value_of(&v), 15.0);
}

#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.changed.wait(open).unwrap();
        }
    }
}

#[test]
fn a_late_callback_drains_and_the_strategy_is_usable_again() {
    for replicas in [1, 2, 3] {
        for waiting in [false, true] {
            let s = strategy(replicas);
            let v = variable(&s, Aggregation::Sum, 1.0);
            let gate = Arc::new(Gate::default());
            let dropped = Arc::new(AtomicBool::new(false));
            struct Baggage(Arc<AtomicBool>);
            impl Drop for Baggage {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::SeqCst);
                }
            }
            let late = replicas - 1;
            let function = {
                let (gate, v) = (Arc::clone(&gate), v.clone());
                move |context: &ReplicaContext| {
                    if context.replica() == late {
                        gate.pass();
                        assert!(context.is_cancelled());
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
            let deadline = Some(Instant::now() + Duration::from_millis(30));
            let error = s.run_within(
                Arc::new(function),
                Some(scalar(0.0)),
                Limits { deadline, ..Limits::default() },
                Some(Box::new(Baggage(Arc::clone(&dropped)))),
            );
            refused(error, Status::DeadlineExceeded, &[&format!("replica {late}")]);
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
        }
    }
}

#[test]
fn a_strategy_can_be_released_while_a_callback_is_late() {
    let gate = Arc::new(Gate::default());
    let back = Arc::new(Gate::default());
    {
        let s = strategy(2);
        let (gate, back) = (Arc::clone(&gate), Arc::clone(&back));
        let function = move |_: &ReplicaContext| {
            gate.pass();
            back.open();
            Ok(None)
        };
        let token = Cancellation::new();
        token.cancel();
        let limits = Limits { cancellation: Some(token), ..Limits::default() };
        let never = s.run_within(Arc::new(|_| panic!("runs")), None, limits, None);
        refused(never, Status::Cancelled, &[]);
        let deadline = Some(Instant::now() + Duration::from_millis(20));
        let limits = Limits { deadline, ..Limits::default() };
        let error = s.run_within(Arc::new(function), None, limits, None);
        refused(error, Status::DeadlineExceeded, &["replica 0", "replica 1"]);
    }
    gate.open();
    back.pass();
}

#[test]
fn a_token_ends_a_run_that_computes_and_one_that_waits() {
    let s = strategy(2);
    for waiting in [false, true] {
        let token = Cancellation::new();
        let gate = Arc::new(Gate::default());
        let function = {
            let (gate, token) = (Arc::clone(&gate), token.clone());
            move |context: &ReplicaContext| {
                if context.replica() == 0 {
                    if waiting {
                        // Cancelled from inside: the other replica waits in a merge call or is
                        // about to.
                        token.cancel();
                    }
                    gate.pass();
                    return Ok(None);
                }
                if !waiting {
                    token.cancel();
                }
                merge_sum(context, 1.0)
            }
        };
        let limits = Limits { cancellation: Some(token), ..Limits::default() };
        let error = s.run_within(Arc::new(function), None, limits, None);
        refused(error, Status::Cancelled, &["replica 0"]);
        gate.open();
        s.synchronize().unwrap();
        s.run(&|context| merge_sum(context, 1.0), None).unwrap();
    }
}

#[test]
fn threads_take_turns_on_one_strategy() {
    let s = strategy(2);
    let v = variable(&s, Aggregation::Sum, 0.0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    s.run(
                        &|_| {
                            assign(&v, Assignment::Add, &scalar(1.0))?;
                            Ok(None)
                        },
                        None,
                    )
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(value_of(&v), 400.0);
}

#[test]
fn collectives_give_each_replica_its_own_copy() {
    let s = strategy(3);
    let result = s
        .run(
            &|context| {
                let own = tensor(&[context.replica() as f32]);
                let sum = context.all_reduce(ReduceOp::Sum, Value::Tensor(own.clone()))?;
                let all = context.all_gather(Value::Tensor(own), 0)?;
                Ok(Some(Value::tuple(vec![sum, all])))
            },
            None,
        )
        .unwrap()
        .unwrap();
    assert_eq!(components(&result.item(0).unwrap()), vec![vec![3.0]; 3]);
    assert_eq!(components(&result.item(1).unwrap()), vec![vec![0.0, 1.0, 2.0]; 3]);
    let uneven =
        Value::per_replica(vec![tensor(&[0.0, 1.0, 2.0, 3.0]), tensor(&[4.0, 5.0]), tensor(&[])])
            .unwrap();
    let axes = |axes: Option<Vec<i64>>| Reduction { axes, ..Reduction::default() };
    let mean = s.reduce(ReduceOp::Mean, &uneven, &axes(Some(vec![0]))).unwrap();
    assert_eq!(numbers(mean.tensor_of(0).unwrap()), [2.5]);
    refused(s.reduce(ReduceOp::Sum, &uneven, &axes(None)), Status::InvalidArgument, &["axes"]);
    let plain = Value::Tensor(tensor(&[1.0, 2.0]));
    refused(s.reduce(ReduceOp::Sum, &plain, &axes(None)), Status::InvalidArgument, &["SUM"]);
    let sum = s.reduce(ReduceOp::Sum, &plain, &axes(Some(vec![0]))).unwrap();
    assert_eq!(numbers(sum.tensor_of(0).unwrap()), [9.0]);
    let to = Destination::Like(uneven.clone());
    let copies = s.reduce_to(ReduceOp::Mean, &plain, &to).unwrap();
    assert_eq!(components(&copies), vec![vec![1.0, 2.0]; 3]);
    let local = s.local_results(&uneven).unwrap();
    assert_eq!(local.count(), 3);
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
            assert_eq!(position.global_examples, 3);
            let part = context.arguments().unwrap();
            let rows = numbers(part.tensor_of(context.replica())?);
            let sum = rows.iter().sum::<f32>().into();
            context.add_metric("loss", Metric { sum, weight: rows.len() as f64 })?;
            let scratch = context.scratch(100)?;
            assert!((scratch as usize).is_multiple_of(64));
            Ok(None)
        },
        Some(batch),
    )
    .unwrap();
    assert_eq!(s.metric("loss"), Some(Metric { sum: 6.0, weight: 3.0 }));
    assert!(s.run(&|_| Err(Error::DataLoss("no".into())), None).is_err());
    assert_eq!(s.metric("loss"), Some(Metric { sum: 6.0, weight: 3.0 }));
    let short = Value::per_replica(vec![tensor(&[1.0])]).unwrap();
    refused(s.run(&|_| Ok(None), Some(short)), Status::InvalidArgument, &["args", "3 replicas"]);
}

#[test]
fn devices_are_checked_when_a_strategy_is_made() {
    let names = |names: &[&str]| {
        Strategy::new(&Options {
            compute_devices: Some(names.iter().map(|&name| name.to_owned()).collect()),
            ..Options::default()
        })
        .map(|_| ())
    };
    refused(names(&[]), Status::InvalidArgument, &["compute_devices"]);
    refused(names(&["CPU:0", "/cpu:0"]), Status::InvalidArgument, &["twice"]);
    refused(names(&["foo"]), Status::InvalidArgument, &["foo"]);
    refused(names(&["CPU:4000"]), Status::NotFound, &["CPU:4000"]);
    let both = Options {
        compute_devices: Some(vec!["CPU:0".into()]),
        cpu_replicas: 2,
        ..Options::default()
    };
    refused(Strategy::new(&both).map(|_| ()), Status::InvalidArgument, &["cpu_replicas"]);
    let s = strategy(2);
    assert_eq!(s.parameter_device(), DeviceId::HOST);
    assert_eq!(s.compute_device_names()[1], "/job:localhost/replica:0/task:0/device:CPU:1");
    let copy = s.deep_copy().unwrap();
    assert!(!copy.is_same(&s) && copy.compute_devices() == s.compute_devices());
    let v = variable(&s, Aggregation::None, 0.0);
    assert!(variables::created_in_scope(&s, &v) && !variables::created_in_scope(&copy, &v));
}
