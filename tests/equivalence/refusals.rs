//! What cannot be checked.

use umbo_core::strategy::step::merge::{MergeCall, Operation};

use crate::setup::*;

fn nothing(_: &ReplicaContext) -> Result<Option<Value>> {
    Ok(None)
}

#[track_caller]
fn refused(result: Result<Report>, status: Status, parts: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.status(), status, "{error}");
    for part in parts {
        assert!(
            error.to_string().contains(part),
            "'{part}' is not in: {error}"
        );
    }
}

fn checked(strategy: &Strategy, batch: &Value) -> Result<Report> {
    check(strategy, &nothing, batch, None, &CheckOptions::default())
}

#[test]
fn batches() {
    let strategy = strategy(2);
    let two = batch_of(&rows(2));
    refused(
        checked(&strategy, &two),
        Status::InvalidArgument,
        &["batch: 2 examples", "3 or more"],
    );
    let scalar = Value::Tensor(Tensor::scalar(1.0f32).unwrap());
    refused(
        checked(&strategy, &scalar),
        Status::InvalidArgument,
        &["batch", "scalar"],
    );
    let mixed = Value::tuple(vec![batch_of(&rows(4)), batch_of(&rows(5))]).unwrap();
    refused(
        checked(&strategy, &mixed),
        Status::InvalidArgument,
        &["4 and of 5 rows"],
    );
    let Value::Tensor(tensor) = batch_of(&rows(4)) else {
        unreachable!()
    };
    let split = Value::per_replica(vec![tensor.clone(), tensor]).unwrap();
    refused(
        checked(&strategy, &split),
        Status::InvalidArgument,
        &["per-replica", "global batch"],
    );
    refused(
        checked(&strategy, &Value::nothing()),
        Status::InvalidArgument,
        &["no tensor"],
    );
}

#[test]
fn tolerances_and_foreign_gradients() {
    let model = Model::new(2, LossReduction::Sum);
    let other = strategy(2);
    let batch = batch_of(&rows(4));
    for wrong in [-1.0, f64::NAN, f64::INFINITY] {
        let options = CheckOptions {
            relative_tolerance: Some(wrong),
            ..CheckOptions::default()
        };
        let report = check(&model.strategy, &nothing, &batch, None, &options);
        refused(report, Status::InvalidArgument, &["relative_tolerance"]);
        let options = CheckOptions {
            absolute_tolerance: wrong,
            ..CheckOptions::default()
        };
        let report = check(&model.strategy, &nothing, &batch, None, &options);
        refused(report, Status::InvalidArgument, &["absolute_tolerance"]);
    }
    let report = check(
        &other,
        &nothing,
        &batch,
        Some(&model.gradients),
        &CheckOptions::default(),
    );
    refused(
        report,
        Status::InvalidArgument,
        &["gradients", "a strategy other than"],
    );
}

#[test]
fn contexts() {
    let strategy = strategy(2);
    let batch = batch_of(&rows(4));
    let run = |context: &ReplicaContext| {
        let report = checked(context.strategy(), &batch_of(&rows(4)));
        refused(
            report,
            Status::FailedPrecondition,
            &["inside of a run", "outside of runs"],
        );
        let merged = Box::new(|strategy: &Strategy, _: &mut [&mut MergeCall]| {
            let report = checked(strategy, &batch_of(&rows(4)));
            refused(
                report,
                Status::FailedPrecondition,
                &["inside of a run", "outside of runs"],
            );
            Ok(None)
        });
        context.synchronize(Operation::MergeCall { function: 1 }, None, merged)
    };
    strategy.run(&run, None).unwrap();
    // In the strategy's own scope it is fine, and the strategy is of use after all this.
    strategy
        .scope(|| is_equivalent(&checked(&strategy, &batch).unwrap()))
        .unwrap();
}

#[test]
fn tolerances_count() {
    let model = Model::new(2, LossReduction::Sum);
    let strategy = &model.strategy;
    let gradients = Some(&model.gradients);
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
    assert!(
        strict.text.contains("relative_tolerance"),
        "{}",
        strict.text
    );
    for options in [
        CheckOptions {
            relative_tolerance: Some(0.01),
            absolute_tolerance: 0.0,
        },
        CheckOptions {
            relative_tolerance: None,
            absolute_tolerance: 0.1,
        },
    ] {
        is_equivalent(&check(strategy, &step, &batch, gradients, &options).unwrap());
    }
}
