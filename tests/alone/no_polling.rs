//! Who waits sleeps until it is woken. Polling would show in how often a waiting thread gives up
//! its processor, which the system counts.

use std::fs;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use umbo_core::collectives::Assignment;
use umbo_core::error::{Result, Status};
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::variables::{self, Initial, assign};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

/// How long a wait is watched. Who looked every 10 ms would give up its processor 30 times.
const WATCHED: Duration = Duration::from_millis(300);

/// So often a thread that is not woken may have slept and woken meanwhile, for whatever reason.
const A_HANDFUL: u64 = 6;

/// A thread, as the system knows it.
#[derive(Clone, Copy, Debug)]
struct Task(i32);

impl Task {
    /// The calling thread.
    fn own() -> Task {
        // SAFETY: asks for a number.
        Task(unsafe { libc::gettid() })
    }

    fn status(self, field: &str) -> String {
        let status = fs::read_to_string(format!("/proc/self/task/{}/status", self.0)).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line[field.len()..].trim().to_owned()
    }

    fn switches(self) -> u64 {
        self.status("voluntary_ctxt_switches:").parse().unwrap()
    }

    fn sleeps(self) -> bool {
        self.status("State:").starts_with('S')
    }
}

/// How often the thread, which is about to wait, sleeps and wakes once it has come to sleep.
fn wakes(task: Task) -> u64 {
    while !task.sleeps() {
        thread::yield_now();
    }
    // It may have slept for a lock on its way.
    thread::sleep(Duration::from_millis(50));
    let before = task.switches();
    thread::sleep(WATCHED);
    task.switches() - before
}

/// To be asked when whoever waits was let go, so that a test that fails does not hang.
#[track_caller]
fn is_not_polling(wakes: u64, wait_name: &str) {
    assert!(
        wakes < A_HANDFUL,
        "{wait_name}: has slept and woken {wakes} times"
    );
}

fn strategy(replicas: usize) -> Strategy {
    Strategy::new(&Options {
        cpu_replicas: replicas,
        ..Options::default()
    })
    .unwrap()
}

fn make(strategy: Option<&Strategy>) -> Result<Variable> {
    let new = crate::fresh::new_variable("v", Aggregation::Mean);
    variables::create(strategy, new, Initial::Value(&Tensor::scalar(1.0f32)?))
}

/// What one replica does while the test runs: it says who it is and waits to be let go.
struct Held {
    entered: Mutex<Sender<Task>>,
    may_go: Mutex<Receiver<()>>,
}

impl Held {
    fn new() -> (Arc<Held>, Receiver<Task>, Sender<()>) {
        let (entered, has_entered) = channel();
        let (go, may_go) = channel();
        let held = Held {
            entered: Mutex::new(entered),
            may_go: Mutex::new(may_go),
        };
        (Arc::new(held), has_entered, go)
    }

    fn enter(&self) {
        self.entered.lock().unwrap().send(Task::own()).unwrap();
        self.may_go.lock().unwrap().recv().unwrap();
    }
}

/// Has `waits` wait on a thread of its own until `go` lets the other side go.
fn watch(wait_name: &str, go: impl FnOnce(), waits: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let (begun, has_begun) = channel();
        let waiting = scope.spawn(move || {
            begun.send(Task::own()).unwrap();
            waits();
        });
        let wakes = wakes(has_begun.recv().unwrap());
        let waited = !waiting.is_finished();
        go();
        assert!(waited, "{wait_name}: did not wait");
        is_not_polling(wakes, wait_name);
    });
}

#[test]
fn synchronize_is_woken() {
    let true = crate::is_alone(synchronize_is_woken) else {
        return;
    };
    let strategy = strategy(2);
    let (held, entered, go) = Held::new();
    let token = Cancellation::new();
    let limits = Limits {
        cancellation: Some(token.clone()),
        ..Limits::default()
    };
    let late = move |context: &ReplicaContext| {
        if context.replica() == 1 {
            held.enter();
        }
        Ok(None)
    };
    thread::scope(|scope| {
        let running = scope.spawn(|| strategy.run_within(Arc::new(late), None, limits, None));
        entered.recv().unwrap();
        token.cancel();
        let error = running.join().unwrap().unwrap_err();
        assert_eq!(error.status(), Status::Cancelled);
    });
    let go = || go.send(()).unwrap();
    watch("synchronize", go, || strategy.synchronize().unwrap());
}

#[test]
fn the_step_lock_is_woken_for() {
    let true = crate::is_alone(the_step_lock_is_woken_for) else {
        return;
    };
    let strategy = strategy(2);
    let variable = make(Some(&strategy)).unwrap();
    type Wait<'a> = (&'a str, &'a (dyn Fn() + Sync));
    let one = || Value::Tensor(Tensor::scalar(1.0f32).unwrap());
    let token = Cancellation::new();
    let limits = || Limits {
        cancellation: Some(token.clone()),
        deadline: Some(Instant::now() + Duration::from_secs(3600)),
    };
    let waits: [Wait<'_>; 3] = [
        ("a run", &|| {
            drop(strategy.run(&|_| Ok(None), None).unwrap())
        }),
        ("a run with limits", &|| {
            let nothing = Arc::new(|_: &ReplicaContext| Ok(None));
            drop(strategy.run_within(nothing, None, limits(), None).unwrap());
        }),
        ("an assignment", &|| {
            assign(&variable, Assignment::Add, &one()).unwrap()
        }),
    ];
    for (wait_name, wait) in waits {
        let (held, entered, go) = Held::new();
        let hold = |context: &ReplicaContext| {
            if context.replica() == 0 {
                held.enter();
            }
            Ok(None)
        };
        thread::scope(|scope| {
            scope.spawn(|| drop(strategy.run(&hold, None).unwrap()));
            entered.recv().unwrap();
            watch(wait_name, || go.send(()).unwrap(), wait);
        });
    }
}

/// In a run: replicas that wait for one that computes, in a synchronising call or for a variable
/// that it makes, and the thread that called the run.
#[test]
fn replicas_and_callers_are_woken() {
    let true = crate::is_alone(replicas_and_callers_are_woken) else {
        return;
    };
    let strategy = strategy(2);
    let variable = make(Some(&strategy)).unwrap();
    for (wait_name, creates) in [("a synchronising call", false), ("creation", true)] {
        let (held, entered, go) = Held::new();
        let (begun, has_begun) = channel();
        let begun = Mutex::new(begun);
        let variable = variable.clone();
        let callback = move |context: &ReplicaContext| {
            if context.replica() == 0 {
                held.enter();
            } else {
                begun.lock().unwrap().send(Task::own()).unwrap();
            }
            match creates {
                true => drop(make(None)?),
                false => {
                    let one = Value::Tensor(Tensor::scalar(1.0f32)?);
                    assign(&variable, Assignment::Add, &one)?;
                }
            }
            Ok(None)
        };
        // With a deadline both replicas have threads of their own, and the caller watches.
        let deadline = Some(Instant::now() + Duration::from_secs(3600));
        let limits = Limits {
            deadline,
            ..Limits::default()
        };
        thread::scope(|scope| {
            let (called, has_called) = channel();
            let strategy = &strategy;
            let running = scope.spawn(move || {
                called.send(Task::own()).unwrap();
                strategy.run_within(Arc::new(callback), None, limits, None)
            });
            entered.recv().unwrap();
            let of_replica = wakes(has_begun.recv().unwrap());
            let of_caller = wakes(has_called.recv().unwrap());
            let waited = !running.is_finished();
            go.send(()).unwrap();
            running.join().unwrap().unwrap();
            assert!(waited, "{wait_name}: did not wait");
            is_not_polling(of_replica, wait_name);
            is_not_polling(of_caller, "the caller of a run");
        });
    }
}
