//! What cannot be checked.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use umbo::strategy::cancellation::Cancellation;
use umbo::strategy::merge::{MergeCall, Operation};
use umbo::strategy::run::Limits;

use crate::setup::*;

fn nothing(_: &ReplicaContext) -> Result<Option<Value>> {
    Ok(None)
}

#[track_caller]
fn refused(result: Result<Report>, status: Status, parts: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.status(), status, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "'{part}' is not in: {error}");
    }
}

fn checked(strategy: &Strategy, batch: &Value) -> Result<Report> {
    check(strategy, &nothing, batch, None, &CheckOptions::default())
}

#[test]
fn batches() {
    let strategy = strategy(2);
    let two = batch_of(&rows(2));
    refused(checked(&strategy, &two), Status::InvalidArgument, &["batch: 2 examples", "3 or more"]);
    let scalar = Value::Tensor(Tensor::scalar(1.0f32).unwrap());
    refused(checked(&strategy, &scalar), Status::InvalidArgument, &["batch", "scalar"]);
    let mixed = Value::tuple(vec![batch_of(&rows(4)), batch_of(&rows(5))]).unwrap();
    refused(checked(&strategy, &mixed), Status::InvalidArgument, &["4 and of 5 rows"]);
    let Value::Tensor(tensor) = batch_of(&rows(4)) else { unreachable!() };
    let split = Value::per_replica(vec![tensor.clone(), tensor]).unwrap();
    refused(checked(&strategy, &split), Status::InvalidArgument, &["per-replica", "global batch"]);
    refused(checked(&strategy, &Value::nothing()), Status::InvalidArgument, &["no tensor"]);
}

#[test]
fn tolerances_and_foreign_gradients() {
    let (model, other) = (Model::new(2, LossReduction::Sum), strategy(2));
    let batch = batch_of(&rows(4));
    for wrong in [-1.0, f64::NAN, f64::INFINITY] {
        let options = CheckOptions { relative_tolerance: Some(wrong), ..CheckOptions::default() };
        let report = check(&model.strategy, &nothing, &batch, None, &options);
        refused(report, Status::InvalidArgument, &["relative_tolerance"]);
        let options = CheckOptions { absolute_tolerance: wrong, ..CheckOptions::default() };
        let report = check(&model.strategy, &nothing, &batch, None, &options);
        refused(report, Status::InvalidArgument, &["absolute_tolerance"]);
    }
    let report = check(&other, &nothing, &batch, Some(&model.gradients), &CheckOptions::default());
    refused(report, Status::InvalidArgument, &["gradients", "another strategy"]);
}

#[test]
fn contexts() {
    let strategy = strategy(2);
    let batch = batch_of(&rows(4));
    let run = |context: &ReplicaContext| {
        let report = checked(context.strategy(), &batch_of(&rows(4)));
        refused(report, Status::FailedPrecondition, &["inside of a run", "outside of runs"]);
        let merged = Box::new(|strategy: &Strategy, _: &mut [&mut MergeCall]| {
            let report = checked(strategy, &batch_of(&rows(4)));
            refused(report, Status::FailedPrecondition, &["inside of a run", "outside of runs"]);
            Ok(None)
        });
        context.synchronize(Operation::MergeCall { function: 1 }, None, merged)
    };
    strategy.run(&run, None).unwrap();
    // In the strategy's own scope it is fine, and the strategy is of use after all this.
    strategy.scope(|| is_equivalent(&checked(&strategy, &batch).unwrap())).unwrap();
}

/// Another thread's run, between those of the check, leaves a callback behind: that is not the
/// doing of the callback that is checked.
#[test]
fn strategies_that_drain_meanwhile() {
    let strategy = strategy(2);
    let (release, released) = mpsc::channel::<()>();
    let (late, released) = (Mutex::new(None), Mutex::new(Some(released)));
    let step = |context: &ReplicaContext| {
        if let Some(released) = released.lock().unwrap().take() {
            let strategy = context.strategy().clone();
            let (begins, has_begun) = mpsc::channel();
            *late.lock().unwrap() = Some(thread::spawn(move || {
                // SAFETY: asks for a number.
                begins.send(unsafe { libc::gettid() }).unwrap();
                leave_behind(&strategy, released);
            }));
            // The other run asks for its turn, and sleeps until it has it.
            let status = format!("/proc/self/task/{}/status", has_begun.recv().unwrap());
            while !std::fs::read_to_string(&status).unwrap().contains("State:\tS") {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(None)
    };
    let report = check(&strategy, &step, &batch_of(&rows(4)), None, &CheckOptions::default());
    refused(report, Status::FailedPrecondition, &["draining"]);
    drop(release);
    late.into_inner().unwrap().unwrap().join().unwrap();
    strategy.synchronize().unwrap();
    is_equivalent(&checked(&strategy, &batch_of(&rows(4))).unwrap());
}

/// A run that is given up once its callbacks have begun, which return when `released` is closed.
fn leave_behind(strategy: &Strategy, released: mpsc::Receiver<()>) {
    let (released, token) = (Mutex::new(released), Cancellation::new());
    let limits = Limits { cancellation: Some(token.clone()), ..Limits::default() };
    let step = move |_: &ReplicaContext| {
        token.cancel();
        assert!(released.lock().unwrap().recv().is_err());
        Ok(None)
    };
    strategy.run_within(Arc::new(step), None, limits, None).unwrap_err();
}

#[test]
fn tolerances_count() {
    let model = Model::new(2, LossReduction::Sum);
    let (strategy, gradients) = (&model.strategy, Some(&model.gradients));
    let step = |context: &ReplicaContext| {
        // A thousandth too large on replica 1.
        let factor = if context.replica() == 1 { 1.001 } else { 1.0 };
        contribute(context, &model.gradients, sum(&part(context)), factor)?;
        model.gradients.submit_in(context, None)?;
        Ok(None)
    };
    let batch = batch_of(&rows(8));
    let strict = check(strategy, &step, &batch, gradients, &CheckOptions::default()).unwrap();
    assert!(!strict.equivalent, "{}", strict.text);
    assert!(strict.text.contains("options.relative_tolerance"), "{}", strict.text);
    for options in [
        CheckOptions { relative_tolerance: Some(0.01), absolute_tolerance: 0.0 },
        CheckOptions { relative_tolerance: None, absolute_tolerance: 0.1 },
    ] {
        is_equivalent(&check(strategy, &step, &batch, gradients, &options).unwrap());
    }
}
