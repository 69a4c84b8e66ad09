//! Replicas that share compute devices: whatever they do, and however a step ends, at most one
//! callback runs on a device at a time, and everything is as it is with a device for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use umbo_core::collectives::{Assignment, ReduceOp};
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result, Status};
use umbo_core::strategy::context::metrics::Metric;
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::merge::{MergeCall, Operation};
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::variables::{self, Initial, assign, read};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use crate::scalar;

fn strategy(devices: usize, replicas: usize) -> Strategy {
    let options = Options {
        cpu_replicas: devices,
        replicas_in_sync: replicas,
        bind_threads: false,
        ..Options::default()
    };
    Strategy::new(&options).unwrap()
}

fn variable(strategy: &Strategy, name: &str) -> Result<Variable> {
    let new = crate::fresh::new_variable(name, Aggregation::Sum);
    variables::create(
        Some(strategy),
        new,
        Initial::Value(&Tensor::scalar(0.0f32)?),
    )
}

fn number(tensor: &Tensor) -> f32 {
    tensor.to_vec::<f32>().unwrap()[0]
}

/// What bounds a run, and whether the bound is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    None,
    /// Of a run that ends before.
    Token,
    Deadline,
    /// A replica of the innermost run waits for it.
    TokenReached,
    DeadlineReached,
}

/// Who fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    Nobody,
    /// This replica, before it first meets the others in the innermost run.
    Early(usize),
    /// This one, when it has met the others for the last time.
    Late(usize),
    MergeFunction,
}

/// What a run does.
#[derive(Clone, Copy, Debug)]
struct Script {
    merge_calls: usize,
    /// How many runs lie in one another in its first merge call.
    nested: usize,
    bound: Bound,
    fails: Fails,
    /// Callbacks have another strategy run, read a variable, and try what is not for them.
    re_enters: bool,
}

/// What there is beside the strategy.
struct Scene {
    script: Script,
    token: Cancellation,
    other: Strategy,
    written: Variable,
    /// How many callbacks are at work on each device, but in synchronising calls.
    at_work: Vec<AtomicUsize>,
    violations: AtomicUsize,
    wrong_answers: AtomicUsize,
}

impl Scene {
    /// A callback computes on its device from now on.
    fn enter(&self, context: &ReplicaContext) {
        let device = context.device().index as usize;
        let before = self.at_work[device].fetch_add(1, Ordering::SeqCst);
        self.violations.fetch_add(before, Ordering::SeqCst);
    }

    fn leave(&self, context: &ReplicaContext) {
        self.at_work[context.device().index as usize].fetch_sub(1, Ordering::SeqCst);
    }

    /// Does what synchronises.
    fn meet<R>(&self, context: &ReplicaContext, call: impl FnOnce() -> R) -> R {
        self.leave(context);
        let result = call();
        self.enter(context);
        result
    }

    fn callback(self: &Arc<Self>, context: &ReplicaContext, depth: usize) -> Result<Option<Value>> {
        self.enter(context);
        let result = self.work(context, depth);
        self.leave(context);
        result.map(|()| None)
    }

    fn work(self: &Arc<Self>, context: &ReplicaContext, depth: usize) -> Result<()> {
        let Script {
            merge_calls,
            nested,
            bound,
            fails,
            re_enters,
        } = self.script;
        let replica = context.replica();
        let is_innermost = depth == nested;
        let fail = || Error::DataLoss(format!("replica {replica} fails"));
        if re_enters {
            let ran = self.other.run(&|_| Ok(None), None).map(drop);
            let made = variable(context.strategy(), "made in a callback").map(drop);
            for refused in [ran, made] {
                if refused.err().map(|error| error.status()) != Some(Status::FailedPrecondition) {
                    self.wrong_answers.fetch_add(1, Ordering::SeqCst);
                }
            }
            on_another_thread(|| self.other.run(&|_| Ok(None), None).map(drop))?;
            read(&self.written)?;
        }
        if is_innermost && fails == Fails::Early(replica) {
            return Err(fail());
        }
        for call in 0..merge_calls {
            let scene = Arc::clone(self);
            let merge = move |strategy: &Strategy, calls: &mut [&mut MergeCall]| {
                if call == 0 && depth < nested {
                    let run = move |context: &ReplicaContext| scene.callback(context, depth + 1);
                    strategy.run_within(Arc::new(run), None, Limits::default(), None)?;
                } else if fails == Fails::MergeFunction && depth == nested {
                    return Err(Error::DataLoss("the merge function fails".into()));
                }
                let parts = calls.iter().filter_map(|call| call.arguments.clone());
                Value::per_replica_of(parts.collect()).map(Some)
            };
            let operation = Operation::MergeCall { function: 1 };
            let part = scalar(replica as f32);
            let came = self.meet(context, || {
                context.synchronize(operation, Some(part), Box::new(merge))
            });
            let Some(Value::Tensor(part)) = came? else {
                return Err(fail());
            };
            if number(&part) != replica as f32 {
                self.wrong_answers.fetch_add(1, Ordering::SeqCst);
            }
        }
        let sum = self.meet(context, || context.all_reduce(ReduceOp::Sum, scalar(1.0)))?;
        if number(sum.tensor_of(0)?) != context.strategy().num_replicas() as f32 {
            self.wrong_answers.fetch_add(1, Ordering::SeqCst);
        }
        if is_innermost && replica == 1 {
            match bound {
                Bound::TokenReached => self.token.cancel(),
                Bound::DeadlineReached => {}
                _ => return self.end(context, depth, fails),
            }
            while !context.is_cancelled() {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        self.end(context, depth, fails)
    }

    fn end(&self, context: &ReplicaContext, depth: usize, fails: Fails) -> Result<()> {
        context.add_metric(
            "replicas",
            Metric {
                sum: 1.0,
                weight: 1.0,
            },
        )?;
        if depth == 0 {
            self.meet(context, || {
                assign(&self.written, Assignment::Add, &scalar(1.0))
            })?;
        }
        if depth == self.script.nested && fails == Fails::Late(context.replica()) {
            return Err(Error::DataLoss("a replica fails at its end".into()));
        }
        Ok(())
    }
}

/// What came of a run: the replicas that failed, with their statuses, and the state afterwards.
#[derive(Debug, PartialEq)]
struct Outcome {
    status: Status,
    failures: Vec<(usize, Status, bool)>,
    written: f32,
    metric: Option<(f64, f64)>,
}

fn run(strategy: &Strategy, script: Script) -> Outcome {
    let devices = strategy.compute_devices().len();
    let scene = Arc::new(Scene {
        script,
        token: Cancellation::new(),
        other: self::strategy(1, 1),
        written: variable(strategy, "written").unwrap(),
        at_work: (0..devices).map(|_| AtomicUsize::new(0)).collect(),
        violations: AtomicUsize::new(0),
        wrong_answers: AtomicUsize::new(0),
    });
    let deadline = |after| Some(Instant::now() + after);
    let limits = Limits {
        deadline: match script.bound {
            Bound::Deadline => deadline(Duration::from_secs(3600)),
            Bound::DeadlineReached => deadline(Duration::from_millis(10)),
            _ => None,
        },
        cancellation: matches!(script.bound, Bound::Token | Bound::TokenReached)
            .then(|| scene.token.clone()),
    };
    let metric = |strategy: &Strategy| {
        strategy
            .metric("replicas")
            .map(|metric| (metric.sum, metric.weight))
    };
    // So that what an earlier run has measured does not count.
    let none = Metric {
        sum: 1.0,
        weight: 1.0,
    };
    let clean = |context: &ReplicaContext| context.add_metric("none", none).map(|()| None);
    strategy.run(&clean, None).unwrap();
    let function = {
        let scene = Arc::clone(&scene);
        move |context: &ReplicaContext| scene.callback(context, 0)
    };
    let result = strategy.run_within(Arc::new(function), None, limits, None);
    strategy.synchronize().unwrap();
    let count = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    assert_eq!(
        count(&scene.violations),
        0,
        "two callbacks at a time on a device: {script:?}"
    );
    assert_eq!(count(&scene.wrong_answers), 0, "{script:?}");
    assert!(
        scene.at_work.iter().all(|device| count(device) == 0),
        "{script:?}"
    );
    let outcome = Outcome {
        status: result.as_ref().err().map_or(Status::Ok, Error::status),
        failures: match result.as_ref().err().map(Error::unnamed) {
            Some(Error::Replicas(failures)) => {
                let failures_of_run = failures.failures.iter();
                failures_of_run
                    .map(|failures_of_run| {
                        (
                            failures_of_run.replica,
                            failures_of_run.error.status(),
                            failures_of_run.stopped,
                        )
                    })
                    .collect()
            }
            _ => Vec::new(),
        },
        written: number(&read(&scene.written).unwrap()),
        metric: metric(strategy),
    };
    // It continues as if nothing had been.
    let all = strategy.num_replicas() as f32;
    let again =
        |_: &ReplicaContext| assign(&scene.written, Assignment::Add, &scalar(1.0)).map(|()| None);
    strategy.run(&again, None).unwrap();
    assert_eq!(
        number(&read(&scene.written).unwrap()),
        outcome.written + all,
        "{script:?}"
    );
    outcome
}

fn scripts(replicas: usize) -> Vec<Script> {
    use Bound::*;
    let mut scripts = Vec::new();
    for merge_calls in 0..3 {
        for nested in 0..if merge_calls == 0 { 1 } else { 3 } {
            for bound in [None, Token, Deadline, TokenReached, DeadlineReached] {
                for fails in [
                    Fails::Nobody,
                    Fails::Early(0),
                    Fails::Early(replicas - 1),
                    Fails::Late(replicas / 2),
                    Fails::MergeFunction,
                ] {
                    // Who waits for a limit would keep the device from who fails only then.
                    let is_reached = matches!(bound, TokenReached | DeadlineReached);
                    if is_reached && matches!(fails, Fails::Late(_)) {
                        continue;
                    }
                    for re_enters in [false, true] {
                        scripts.push(Script {
                            merge_calls,
                            nested,
                            bound,
                            fails,
                            re_enters,
                        });
                    }
                }
            }
        }
    }
    scripts
}

#[test]
fn everything_is_as_with_a_device_for_each_replica() {
    for (devices, replicas) in [(1, 2), (1, 5), (2, 5), (3, 7)] {
        let shared = strategy(devices, replicas);
        let apart = strategy(replicas, 0);
        assert_eq!(
            (shared.num_replicas(), shared.num_replicas_in_sync()),
            (replicas, replicas)
        );
        assert_eq!(shared.compute_devices().len(), devices);
        for script in scripts(replicas) {
            let came = run(&shared, script);
            let expected = run(&apart, script);
            let case = || format!("{replicas} replicas on {devices} devices, {script:?}");
            match script.bound {
                // Which of them had begun, or were still there, depends on the moment.
                Bound::TokenReached | Bound::DeadlineReached => {
                    let states = |outcome: &Outcome| (outcome.written, outcome.metric);
                    assert_eq!(states(&came), states(&expected), "{}", case());
                    // A failure comes before the deadline, or after it.
                    if script.bound == Bound::TokenReached || script.fails == Fails::Nobody {
                        assert_eq!(came.status, expected.status, "{}", case());
                    }
                }
                _ => {
                    assert_eq!(came, expected, "{}", case());
                    let is_well = match script.fails {
                        Fails::Nobody => true,
                        Fails::MergeFunction => script.merge_calls == 0,
                        _ => false,
                    };
                    assert_eq!(is_well, came.status == Status::Ok, "{}", case());
                }
            }
        }
    }
}

/// A thread in a run may not run another strategy; one beside it may.
fn on_another_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(body).join().unwrap())
}

#[test]
fn replicas_are_dealt_out_to_devices_in_turn_and_begin_in_their_order() {
    let s = strategy(2, 5);
    let devices: Vec<u32> = s
        .replica_devices()
        .iter()
        .map(|device| device.index)
        .collect();
    assert_eq!(devices, [0, 1, 0, 1, 0]);
    assert_eq!(s.compute_devices(), [DeviceId::cpu(0), DeviceId::cpu(1)]);
    let order = std::sync::Mutex::new(Vec::new());
    for _ in 0..20 {
        s.run(
            &|context| {
                order.lock().unwrap().push(context.replica());
                Ok(None)
            },
            None,
        )
        .unwrap();
        let order = std::mem::take(&mut *order.lock().unwrap());
        let begun_on = |device| {
            order
                .iter()
                .copied()
                .filter(move |replica| replica % 2 == device)
        };
        assert!(
            begun_on(0).eq([0, 2, 4]) && begun_on(1).eq([1, 3]),
            "{order:?}"
        );
    }
}

/// Replicas that do not wait for each other have the thread of the first on their device; those
/// that do have one each.
#[test]
fn replicas_share_the_thread_of_their_device_until_one_waits() {
    let s = strategy(2, 7);
    let threads = |meet: bool| {
        let threads = std::sync::Mutex::new(vec![None; 7]);
        s.run(
            &|context| {
                let own_thread = std::thread::current().id();
                threads.lock().unwrap()[context.replica()] = Some(own_thread);
                if meet {
                    context.all_reduce(ReduceOp::Sum, scalar(1.0))?;
                    assert_eq!(std::thread::current().id(), own_thread);
                }
                Ok(None)
            },
            None,
        )
        .unwrap();
        threads.into_inner().unwrap()
    };
    for _ in 0..10 {
        let shared = threads(false);
        assert_eq!(shared[0], Some(std::thread::current().id()));
        assert_ne!(shared[0], shared[1]);
        assert!((2..7).all(|replica| shared[replica] == shared[replica - 2]));
        let distinct: std::collections::HashSet<_> = threads(true).into_iter().collect();
        assert_eq!(distinct.len(), 7);
    }
}

/// Some have returned when another one waits: on the thread of one that has, and on the caller's.
#[test]
fn one_that_waits_on_the_thread_of_another_is_answered() {
    for limits in [
        Limits::default(),
        Limits {
            deadline: later(),
            ..Limits::default()
        },
    ] {
        for meets in 1..5 {
            let s = strategy(2, 5);
            let function = move |context: &ReplicaContext| {
                if context.replica() >= meets {
                    context.all_reduce(ReduceOp::Sum, scalar(1.0))?;
                }
                Ok(None)
            };
            let error = s
                .run_within(Arc::new(function), None, limits.clone(), None)
                .unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition);
            assert!(
                error
                    .to_string()
                    .contains("replica 0 has returned from the callback")
            );
            s.run(&|_| Ok(None), None).unwrap();
        }
    }
}

fn later() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(600))
}

/// A callback that waits for its limit on the one device: the others are told without being called,
/// also those that have not begun, and are not reported as late for long.
#[test]
fn those_that_wait_for_a_device_need_not_be_waited_for() {
    let s = strategy(1, 4);
    let token = Cancellation::new();
    let called = Arc::new(AtomicUsize::new(0));
    let function = {
        let token = token.clone();
        let called = Arc::clone(&called);
        move |context: &ReplicaContext| {
            called.fetch_add(1, Ordering::SeqCst);
            token.cancel();
            while !context.is_cancelled() {
                std::thread::yield_now();
            }
            // After the run has been given up.
            std::thread::sleep(Duration::from_millis(20));
            Ok(None)
        }
    };
    let limits = Limits {
        cancellation: Some(token),
        ..Limits::default()
    };
    let error = s
        .run_within(Arc::new(function), None, limits, None)
        .unwrap_err();
    assert_eq!(error.status(), Status::Cancelled);
    s.synchronize().unwrap();
    assert_eq!(called.load(Ordering::SeqCst), 1);
    assert!(s.late_replicas().is_empty());
}
