//! An apply that cannot be done leaves everything as it was, to the bit.

use std::sync::Arc;

use umbo_core::error::Status;
use umbo_core::optimizer::LossReduction::Sum;
use umbo_core::optimizer::rules::adagrad::Adagrad;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::{ApplyAction, Optimizer};
use umbo_core::strategy::commit::CommitAction;

use crate::setup::*;

/// Prepared and dropped, as when another action of the same commit point fails.
#[test]
fn dropped_action_leaves_the_contributions() {
    let variable = variable("w", &[1.0f32]);
    let gradients = gradients(1, &[&variable], Sum);
    let optimizer = optimizer("adam", 0.5);
    step(&gradients, 1, &[Some(&[1.0f32])], &[1.0]);
    let mut action = ApplyAction::new(Arc::clone(&optimizer), Arc::clone(&gradients));
    action.prepare().unwrap();
    // Meanwhile neither the contributions nor the variable's state can be used twice.
    let message = refusal(apply(&optimizer, &gradients), Status::FailedPrecondition);
    assert!(message.contains("applied twice"), "{message}");
    let others = crate::setup::gradients(1, &[&variable], Sum);
    step(&others, 1, &[Some(&[1.0f32])], &[1.0]);
    let message = refusal(apply(&optimizer, &others), Status::FailedPrecondition);
    assert!(message.contains("variable 'w'"), "{message}");
    refusal(optimizer.state(&variable, "m"), Status::NotFound);
    drop(action);
    assert_eq!(
        (value::<f32>(&variable), optimizer.iterations()),
        (vec![1.0], 0)
    );
    assert_eq!(apply(&optimizer, &gradients).unwrap().iterations, 1);
    assert_eq!(apply(&optimizer, &others).unwrap().iterations, 2);
}

/// Two gradient sets of one optimizer at one commit point: the second names a variable that only
/// the first one writes, and must leave its update alone.
#[test]
fn actions_at_one_commit_point_keep_apart() {
    let a = variable("a", &[0.0f32]);
    let b = variable("b", &[0.0f32]);
    let first = gradients(1, &[&a, &b], Sum);
    let second = gradients(1, &[&a, &b], Sum);
    let optimizer = optimizer("momentum", 1.0);
    overwrite(&first, 1, 0, 0, &[1.0f32]);
    overwrite(&second, 1, 0, 1, &[2.0f32]);
    let mut actions = [&first, &second].map(|gradients| {
        submit(gradients, 1, &[1.0]);
        ApplyAction::at_commit_point(Arc::clone(&optimizer), Arc::clone(gradients), 1)
    });
    actions
        .iter_mut()
        .for_each(|action| action.prepare().unwrap());
    actions.iter_mut().rev().for_each(|action| action.commit());
    assert_eq!(
        actions.map(|action| action.report().variables_updated),
        [1, 1]
    );
    assert_eq!(
        (value::<f32>(&a), value::<f32>(&b)),
        (vec![-1.0], vec![-2.0])
    );
}

#[test]
fn wrong_settings_are_refused() {
    for value in [-0.1, 1.0, f64::NAN] {
        refusal(Momentum::new(value, false), Status::InvalidArgument);
        refusal(Adam::new(value, 0.9, 1e-8), Status::InvalidArgument);
        refusal(Adam::new(0.9, value, 1e-8), Status::InvalidArgument);
    }
    for value in [-1.0, 0.0, 1e-60, f64::NAN, f64::INFINITY] {
        refusal(Adam::new(0.9, 0.9, value), Status::InvalidArgument);
    }
    let momentum = |nesterov| Momentum::new(0.9, nesterov).unwrap();
    for value in [-0.1, 1.1, f64::NAN] {
        refusal(momentum(false).dampened(value), Status::InvalidArgument);
    }
    refusal(momentum(true).dampened(0.5), Status::InvalidArgument);
    for value in [-0.5, f64::NAN, f64::INFINITY] {
        let adagrad = Adagrad::new(0.1, 1e-7).unwrap();
        refusal(adagrad.decaying(value), Status::InvalidArgument);
    }
    let optimizer = optimizer("sgd", 0.5);
    for value in [-1.0, f64::NAN, f64::INFINITY] {
        refusal(
            Optimizer::new(STRATEGY, rule("sgd"), value),
            Status::InvalidArgument,
        );
        refusal(optimizer.set_learning_rate(value), Status::InvalidArgument);
    }
    assert_eq!(optimizer.learning_rate(), 0.5);
}

#[test]
fn optimizer_and_gradients_are_of_one_strategy() {
    let variable = variable("w", &[1.0f32]);
    let gradients = gradients(1, &[&variable], Sum);
    step(&gradients, 1, &[Some(&[1.0f32])], &[1.0]);
    let foreign = Optimizer::new(STRATEGY + 1, rule("sgd"), 1.0).unwrap();
    refusal(apply(&foreign, &gradients), Status::InvalidArgument);
    apply(&optimizer("sgd", 1.0), &gradients).unwrap();
}

#[test]
fn state_is_a_copy_under_its_name() {
    let variable = variable("w", &[1.0f32]);
    let gradients = gradients(1, &[&variable], Sum);
    let optimizer = optimizer("momentum", 1.0);
    step(&gradients, 1, &[Some(&[2.0f32])], &[1.0]);
    apply(&optimizer, &gradients).unwrap();
    let state = optimizer.state(&variable, "momentum").unwrap();
    write(&state, &[-5.0f32]);
    assert_eq!(
        read::<f32>(&optimizer.state(&variable, "momentum").unwrap()),
        [2.0]
    );
    let message = refusal(optimizer.state(&variable, "velocity"), Status::NotFound);
    assert!(
        message.contains("'velocity'") && message.contains("momentum"),
        "{message}"
    );
}
