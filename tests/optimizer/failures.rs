//! An apply that cannot be done leaves everything as it was, to the bit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo::error::{Error, Result, Status};
use umbo::kernels::update::pass::UpdatePass;
use umbo::optimizer::LossReduction::Sum;
use umbo::optimizer::adagrad::Adagrad;
use umbo::optimizer::adam::Adam;
use umbo::optimizer::momentum::Momentum;
use umbo::optimizer::rule::{Rates, Running, Scalars, Slot};
use umbo::optimizer::{ApplyAction, Optimizer, UpdateRule, VariableGroup};
use umbo::strategy::commit::{CommitAction, StepParticipant};

use crate::setup::*;

/// Adam whose n-th scalars cannot be computed.
#[derive(Debug)]
struct Failing {
    adam: Box<dyn UpdateRule>,
    calls: AtomicUsize,
    fails_at: Arc<AtomicUsize>,
}

impl UpdateRule for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn slots(&self) -> &[Slot] {
        self.adam.slots()
    }

    fn initial_running(&self) -> Running {
        self.adam.initial_running()
    }

    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if call == self.fails_at.load(Ordering::Relaxed) {
            return Err(Error::Internal("injected".into()));
        }
        self.adam.prepare(rates, running)
    }

    fn update(&self, scalars: &Scalars, pass: &UpdatePass<'_>) {
        self.adam.update(scalars, pass);
    }
}

/// The second of two variables fails in the first apply (where state is made) and in a later one;
/// each time the same apply can be done again, and the result is that of an undisturbed training.
#[test]
fn failed_prepare_changes_no_bit() {
    let train = |fails_at: &[usize]| {
        let (a, b) = (variable("a", &[1.0f32, 2.0]), variable("b", &[3.0f32]));
        let gradients = gradients(1, &[&a, &b], Sum);
        let (calls, next) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(usize::MAX)));
        let rule = Failing { adam: rule("adam"), calls, fails_at: Arc::clone(&next) };
        let optimizer = Optimizer::new(STRATEGY, Box::new(rule), 0.1).unwrap();
        // Variables that are treated alike share their scalars.
        let group = VariableGroup { learning_rate_factor: 0.5, ..VariableGroup::default() };
        optimizer.add_group(std::slice::from_ref(&b), group).unwrap();
        let mut failures = fails_at.iter();
        for number in 1..=3 {
            overwrite(&gradients, number, 0, 0, &[number as f32, -1.0]);
            overwrite(&gradients, number, 0, 1, &[0.3f32]);
            submit(&gradients, number, &[3.0]);
            gradients.commit(number);
            if let Some(&failure) = failures.next() {
                next.store(failure, Ordering::Relaxed);
                let state = || {
                    let states = [(&a, "m"), (&a, "v"), (&b, "m"), (&b, "v")];
                    let states = states.map(|(variable, name)| {
                        optimizer.state(variable, name).ok().map(|state| bits(&read(&state)))
                    });
                    (bits(&value(&a)), bits(&value(&b)), states, optimizer.iterations())
                };
                let before = state();
                refusal(apply(&optimizer, &gradients), Status::Internal);
                assert_eq!(state(), before);
            }
            apply(&optimizer, &gradients).unwrap();
        }
        assert_eq!(optimizer.iterations(), 3);
        let state = read(&optimizer.state(&b, "v").unwrap());
        (bits(&value(&a)), bits(&value(&b)), bits(&state))
    };
    // Calls 1 and 2 belong to the first apply; after its repetition the next are 5 and 6.
    assert_eq!(train(&[2, 6]), train(&[]));
    assert_eq!(train(&[1, 4]), train(&[]));
}

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
    assert!(message.contains("another apply"), "{message}");
    let others = crate::setup::gradients(1, &[&variable], Sum);
    step(&others, 1, &[Some(&[1.0f32])], &[1.0]);
    let message = refusal(apply(&optimizer, &others), Status::FailedPrecondition);
    assert!(message.contains("variable 'w'"), "{message}");
    refusal(optimizer.state(&variable, "m"), Status::NotFound);
    drop(action);
    assert_eq!((value::<f32>(&variable), optimizer.iterations()), (vec![1.0], 0));
    assert_eq!(apply(&optimizer, &gradients).unwrap().iterations, 1);
    assert_eq!(apply(&optimizer, &others).unwrap().iterations, 2);
}

/// Two gradient sets of one optimizer at one commit point: the second names a variable that only
/// the first one writes, and must leave its update alone.
#[test]
fn actions_at_one_commit_point_keep_apart() {
    let (a, b) = (variable("a", &[0.0f32]), variable("b", &[0.0f32]));
    let (first, second) = (gradients(1, &[&a, &b], Sum), gradients(1, &[&a, &b], Sum));
    let optimizer = optimizer("momentum", 1.0);
    overwrite(&first, 1, 0, 0, &[1.0f32]);
    overwrite(&second, 1, 0, 1, &[2.0f32]);
    let mut actions = [&first, &second].map(|gradients| {
        submit(gradients, 1, &[1.0]);
        ApplyAction::at_commit_point(Arc::clone(&optimizer), Arc::clone(gradients), 1)
    });
    actions.iter_mut().for_each(|action| action.prepare().unwrap());
    actions.iter_mut().rev().for_each(|action| action.commit());
    assert_eq!(actions.map(|action| action.report().variables_updated), [1, 1]);
    assert_eq!((value::<f32>(&a), value::<f32>(&b)), (vec![-1.0], vec![-2.0]));
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
        refusal(Optimizer::new(STRATEGY, rule("sgd"), value), Status::InvalidArgument);
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
    assert_eq!(read::<f32>(&optimizer.state(&variable, "momentum").unwrap()), [2.0]);
    let message = refusal(optimizer.state(&variable, "velocity"), Status::NotFound);
    assert!(message.contains("'velocity'") && message.contains("momentum"), "{message}");
}
