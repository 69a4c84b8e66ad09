//! The strategy from its users' side: contexts, runs, merge calls, the commit point, failures.

mod contexts;
mod creation;
mod engines;
mod failed_updates;
#[path = "../fresh/mod.rs"]
mod fresh;
mod late;
mod merge_calls;
#[path = "../messages/mod.rs"]
mod messages;
mod model;
mod operations;
mod reduce;
mod reduce_cases;
mod reduce_settings;
mod run;
#[path = "../sets/mod.rs"]
mod sets;
mod shared_devices;
mod sparse;

pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
pub(crate) use std::time::{Duration, Instant};

pub(crate) use umbo_core::collectives::{Assignment, ReduceOp};
pub(crate) use umbo_core::device::DeviceId;
pub(crate) use umbo_core::error::{Error, Result, Status};
pub(crate) use umbo_core::strategy::context::metrics::Metric;
pub(crate) use umbo_core::strategy::context::{Current, current};
pub(crate) use umbo_core::strategy::step::cancellation::Cancellation;
pub(crate) use umbo_core::strategy::step::merge::{MergeCall, Operation};
pub(crate) use umbo_core::strategy::step::run::Limits;
pub(crate) use umbo_core::strategy::values::collective::ReductionOptions;
pub(crate) use umbo_core::strategy::variables::{self, Initial, NewVariable, assign, read};
pub(crate) use umbo_core::strategy::{Options, ReplicaContext, RunUserData, Strategy};
pub(crate) use umbo_core::tensor::{Shape, Tensor};
pub(crate) use umbo_core::values::Value;
pub(crate) use umbo_core::values::variable::{Aggregation, Variable};

fn strategy(replicas: usize) -> Strategy {
    Strategy::new(&Options {
        cpu_replicas: replicas,
        ..Options::default()
    })
    .unwrap()
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
    let data = tensor.address().cast::<f32>();
    // SAFETY: contiguous float32 elements of a live tensor, as just said.
    (0..count)
        .map(|index| unsafe { data.add(index).read() })
        .collect()
}

fn variable(strategy: &Strategy, aggregation: Aggregation, value: f32) -> Variable {
    let new = crate::fresh::new_variable("v", aggregation);
    let initial = Tensor::scalar(value).unwrap();
    variables::create(Some(strategy), new, Initial::Value(&initial)).unwrap()
}

fn value_of(variable: &Variable) -> f32 {
    numbers(&read(variable).unwrap())[0]
}

#[track_caller]
fn refused<T>(result: Result<T>, status: Status, parts: &[&str]) -> Error {
    let Err(error) = result else {
        panic!("was accepted")
    };
    let text = error.to_string();
    assert_eq!(error.status(), status, "{text}");
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
    error
}

/// Something of the caller's whose release is noted.
#[derive(Clone, Default)]
struct Released(Arc<AtomicBool>);

impl Released {
    fn is_released(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// What is to be released.
    fn baggage(&self) -> Option<RunUserData> {
        Some(Box::new(OnRelease::new({
            let released = Arc::clone(&self.0);
            move || released.store(true, Ordering::SeqCst)
        })))
    }
}

/// Calls a function when it is dropped.
struct OnRelease<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnRelease<F> {
    fn new(function: F) -> OnRelease<F> {
        OnRelease(Some(function))
    }
}

impl<F: FnOnce()> Drop for OnRelease<F> {
    fn drop(&mut self) {
        if let Some(function) = self.0.take() {
            function();
        }
    }
}

/// Something that threads wait for.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    /// How many have come to it.
    reached: AtomicUsize,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    /// Whether so many have come to it.
    fn is_reached_by(&self, count: usize) -> bool {
        self.reached.load(Ordering::SeqCst) >= count
    }

    fn pass(&self) {
        self.reached.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.changed.wait(open).unwrap();
        }
    }
}

/// Calls `attempt` with the time that a run has until its deadline, and again with more of it, as
/// long as the attempt says that the deadline has come before the callbacks that are to be late:
/// those are not called at all then.
fn with_enough_time(mut attempt: impl FnMut(Duration) -> bool) {
    let mut time = Duration::from_millis(15);
    while !attempt(time) {
        time *= 2;
    }
}

/// Fails the test if `body` has not returned after a long time, instead of hanging for ever.
fn returns<R: Send + 'static>(call: &str, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(body()));
    result
        .recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| panic!("{call} hangs"))
}

fn merge_sum(context: &ReplicaContext, value: f32) -> Result<Option<Value>> {
    context.synchronize(
        Operation::MergeCall { function: 1 },
        Some(scalar(value)),
        Box::new(|strategy, calls| {
            let values: Vec<Value> = calls
                .iter()
                .filter_map(|call| call.arguments.clone())
                .collect();
            let merged = Value::merge(&values, false, "args")?;
            strategy
                .reduce(ReduceOp::Sum, &merged, &ReductionOptions::default())
                .map(Some)
        }),
    )
}
