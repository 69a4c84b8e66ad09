//! The gradient contract: what is read, what is skipped, what is used up.

use std::sync::Arc;

use umbo_core::error::Status;
use umbo_core::optimizer::GradientMode::{Add, Overwrite};
use umbo_core::optimizer::LossReduction::{self, GlobalMean, Mean, Sum};
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{
    ApplyAction, ApplyOptions, Gradients, LossScaling, NonFinite, Optimizer, Settings, UpdateRule,
};
use umbo_core::strategy::commit::{CommitAction, StepParticipant};

use crate::setup::*;

fn sgd_step(reduction: LossReduction, parts: &[Option<&[f32]>], weights: &[f64]) -> f32 {
    let variable = variable("w", &[0.0f32]);
    let gradients = gradients(parts.len(), &[&variable], reduction);
    step(&gradients, 1, parts, weights);
    apply(&optimizer("sgd", 1.0), &gradients).unwrap();
    -value::<f32>(&variable)[0]
}

/// Mutant "weight dropped": the sum would be divided by the number of replicas, giving 4.
#[test]
fn sum_is_divided_by_the_weights() {
    assert_eq!(
        sgd_step(Sum, &[Some(&[6.0]), Some(&[2.0])], &[3.0, 1.0]),
        2.0
    );
    assert_eq!(
        sgd_step(Sum, &[Some(&[6.0]), Some(&[2.0])], &[6.0, 2.0]),
        1.0
    );
}

/// Mutant "mean of means": (1 + 5)/2 is 3. Mutant "weight dropped" in the sum: 6/4.
#[test]
fn means_are_weighted() {
    assert_eq!(
        sgd_step(Mean, &[Some(&[1.0]), Some(&[5.0])], &[3.0, 1.0]),
        2.0
    );
}

/// Mutant "buffer of an empty replica read": 0 × NaN is NaN.
#[test]
fn weight_zero_is_never_read() {
    for reduction in [Sum, Mean, GlobalMean] {
        let with = sgd_step(reduction, &[Some(&[f32::NAN]), Some(&[4.0])], &[0.0, 1.0]);
        assert_eq!(with, 4.0, "{reduction:?}");
    }
}

/// Mutant "stale slab": what a replica wrote in the first step would count again in the second.
#[test]
fn buffers_of_earlier_steps_do_not_count() {
    let first = variable("first", &[0.0f32]);
    let second = variable("second", &[0.0f32]);
    let gradients = gradients(2, &[&first, &second], Sum);
    let optimizer = optimizer("momentum", 1.0);
    for (replica, data) in [(0, 16.0f32), (1, 48.0)] {
        overwrite(&gradients, 1, replica, 0, &[data]);
        overwrite(&gradients, 1, replica, 1, &[data]);
    }
    submit(&gradients, 1, &[1.0, 1.0]);
    gradients.commit(1);
    assert_eq!(apply(&optimizer, &gradients).unwrap().variables_updated, 2);
    assert_eq!(
        (value::<f32>(&first), value::<f32>(&second)),
        (vec![-32.0], vec![-32.0])
    );

    // Nobody writes the second variable: not even its momentum moves. Replica 1 does not write the
    // first one: it counts as zero, and with its full weight.
    overwrite(&gradients, 2, 0, 0, &[8.0f32]);
    submit(&gradients, 2, &[1.0, 3.0]);
    gradients.commit(2);
    let report = apply(&optimizer, &gradients).unwrap();
    assert_eq!((report.variables_updated, report.iterations), (1, 2));
    let momentum = (MOMENTUM as f32) * 32.0 + 8.0 / 4.0;
    assert_eq!(value::<f32>(&first), [-32.0 - momentum]);
    assert_eq!(value::<f32>(&second), [-32.0]);
    assert_eq!(
        read::<f32>(&optimizer.state(&second, "momentum").unwrap()),
        [32.0]
    );
}

/// A replica that wrote, but with weight 0, does not make the variable count as written.
#[test]
fn variable_written_only_with_weight_zero_is_skipped() {
    let variable = variable("w", &[1.0f32]);
    let gradients = gradients(2, &[&variable], Sum);
    step(&gradients, 1, &[Some(&[f32::NAN]), None], &[0.0, 2.0]);
    let report = apply(&optimizer("sgd", 1.0), &gradients).unwrap();
    assert_eq!((report.applied, report.variables_updated), (true, 0));
    assert_eq!(value::<f32>(&variable), [1.0]);
}

#[test]
fn total_weight_zero_is_no_update() {
    let variable = variable("w", &[1.0f32]);
    let gradients = gradients(2, &[&variable], Sum);
    let optimizer = optimizer("adam", 1.0);
    step(
        &gradients,
        1,
        &[Some(&[f32::NAN]), Some(&[1.0])],
        &[0.0, 0.0],
    );
    let report = apply(&optimizer, &gradients).unwrap();
    assert!(!report.applied);
    assert_eq!(
        (
            report.variables_updated,
            report.total_weight,
            report.iterations
        ),
        (0, 0.0, 0)
    );
    assert_eq!(value::<f32>(&variable), [1.0]);
    refusal(optimizer.state(&variable, "m"), Status::NotFound);
    // It used the contributions up all the same.
    refusal(apply(&optimizer, &gradients), Status::FailedPrecondition);
}

#[test]
fn add_starts_from_zero_once_a_step() {
    let variable = variable("w", &[0.0f32; 3]);
    let gradients = gradients(1, &[&variable], Sum);
    for number in 1..=2 {
        assert!(gradients.try_begin_step(number));
        let buffer = gradients.view(0, number, 0, Add).unwrap();
        assert_eq!(read::<f32>(buffer), [0.0; 3]);
        write(buffer, &[1.0f32, 2.0, 3.0]);
        assert_eq!(
            read::<f32>(gradients.view(0, number, 0, Add).unwrap()),
            [1.0, 2.0, 3.0]
        );
    }
    gradients.try_begin_step(3);
    write(gradients.view(0, 3, 0, Overwrite).unwrap(), &[4.0f32; 3]);
    assert_eq!(read::<f32>(gradients.view(0, 3, 0, Add).unwrap()), [4.0; 3]);
}

#[test]
fn buffers_lie_apart() {
    let variables = [variable("a", &[0.0f32; 3]), variable("b", &[0.0f32; 17])];
    let gradients = gradients(8, &[&variables[0], &variables[1]], Sum);
    gradients.try_begin_step(1);
    let mut distances = Vec::new();
    for replica in 0..8 {
        for (index, variable) in variables.iter().enumerate() {
            let buffer = gradients.view(replica, 1, index, Overwrite).unwrap();
            assert_eq!(buffer.address() as usize % 64, 0);
            assert_eq!(buffer.device().index as usize, replica);
            assert_eq!(buffer.shape(), variable.shape());
        }
        let (storage, offset) = gradients.view(replica, 1, 0, Overwrite).unwrap().storage();
        assert!(offset < storage.bytes());
        distances.push(offset % 4096);
    }
    distances.sort_unstable();
    distances.dedup();
    assert_eq!(distances.len(), 8);
}

#[test]
fn one_thread_a_step_touches_first() {
    let variable = variable("w", &[0.0f32]);
    let gradients = gradients(1, &[&variable], Sum);
    for number in 1..200 {
        let count: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| gradients.try_begin_step(number)))
                .collect();
            threads
                .into_iter()
                .map(|thread| usize::from(thread.join().unwrap()))
                .sum()
        });
        assert_eq!(count, 1);
    }
    // A late thread of an earlier step does not bring it back.
    assert!(!gradients.try_begin_step(3));
    refusal(gradients.submit(0, 3, 1.0), Status::FailedPrecondition);
}

#[test]
fn contributions_are_used_up() {
    let variable = variable("w", &[0.0f32]);
    let gradients = gradients(1, &[&variable], Sum);
    let optimizer = optimizer("sgd", 1.0);
    let refused = || refusal(apply(&optimizer, &gradients), Status::FailedPrecondition);
    assert!(refused().contains("no run that submitted any"));
    step(&gradients, 1, &[Some(&[1.0f32])], &[1.0]);
    apply(&optimizer, &gradients).unwrap();
    assert!(refused().contains("since the last apply"));
    assert_eq!(value::<f32>(&variable), [-1.0]);

    // A step that was rolled back leaves nothing, also not what was ready before it.
    step(&gradients, 2, &[Some(&[1.0f32])], &[1.0]);
    overwrite(&gradients, 3, 0, 0, &[1.0f32]);
    assert!(refused().contains("still running"));
    gradients.roll_back(3);
    assert!(refused().contains("the last run failed"));
    refusal(
        gradients.view(0, 3, 0, Overwrite),
        Status::FailedPrecondition,
    );

    // Contributions that were not applied are replaced, not added to.
    step(&gradients, 4, &[Some(&[16.0f32])], &[1.0]);
    step(&gradients, 5, &[Some(&[2.0f32])], &[1.0]);
    apply(&optimizer, &gradients).unwrap();
    assert_eq!(value::<f32>(&variable), [-3.0]);
}

#[test]
fn replicas_that_did_not_submit_are_named() {
    let variable = variable("w", &[0.0f32]);
    let gradients = gradients(4, &[&variable], Sum);
    submit(&gradients, 1, &[1.0; 4]);
    gradients.commit(1);
    gradients.try_begin_step(2);
    for replica in [0, 2] {
        gradients.submit(replica, 2, 1.0).unwrap();
    }
    gradients.commit(2);
    let message = refusal(
        apply(&optimizer("sgd", 1.0), &gradients),
        Status::FailedPrecondition,
    );
    assert!(
        message.contains("replica 1 (CPU:1), replica 3 (CPU:3)"),
        "{message}"
    );
    assert!(
        !message.contains("replica 0") && !message.contains("replica 2"),
        "{message}"
    );
}

#[test]
fn wrong_calls_are_refused() {
    let variable = variable("w", &[0.0f32]);
    let gradients = gradients(2, &[&variable], Sum);
    refusal(
        gradients.view(0, 1, 0, Overwrite),
        Status::FailedPrecondition,
    );
    gradients.try_begin_step(1);
    refusal(gradients.view(0, 1, 1, Overwrite), Status::OutOfRange);
    refusal(gradients.view(2, 1, 0, Overwrite), Status::OutOfRange);
    for weight in [-1.0, f64::NAN, f64::INFINITY] {
        refusal(gradients.submit(0, 1, weight), Status::InvalidArgument);
    }
    gradients.submit(0, 1, f64::MAX).unwrap();
    assert!(refusal(gradients.submit(0, 1, 1.0), Status::FailedPrecondition).contains("already"));
    refusal(gradients.view(0, 1, 0, Add), Status::FailedPrecondition);
    // Each weight is finite, their sum is not.
    gradients.submit(1, 1, f64::MAX).unwrap();
    gradients.commit(1);
    refusal(
        apply(&optimizer("sgd", 1.0), &gradients),
        Status::InvalidArgument,
    );
}

#[test]
fn variables_are_checked() {
    let made = |variables: Vec<_>| {
        Gradients::new(STRATEGY, &devices(1), variables, Sum, Default::default())
    };
    let good = variable("good", &[0.0f32]);
    refusal(made(vec![]), Status::InvalidArgument);
    let message = refusal(
        made(vec![good.clone(), good.clone()]),
        Status::InvalidArgument,
    );
    assert!(message.contains("variables[1] ('good')"), "{message}");
    refusal(made(vec![variable("n", &[1i32])]), Status::InvalidArgument);
    refusal(
        made(vec![variable("h", &[half::f16::ONE])]),
        Status::Unimplemented,
    );
    refusal(
        made(vec![variable_of(8, "foreign", &[0.0f32])]),
        Status::InvalidArgument,
    );
    made(vec![good, variable("empty", &[0.0f64; 0])]).unwrap();
}

/// At the commit point, in either order of publishing and committing, the update continues from
/// the staged value.
#[test]
fn staged_values_are_updated_where_they_are() {
    for publish_first in [true, false] {
        let variable = variable("w", &[1.0f32]);
        let gradients = gradients(1, &[&variable], Sum);
        overwrite(&gradients, 1, 0, 0, &[4.0f32]);
        submit(&gradients, 1, &[1.0]);
        write(&staging(&variable), &[100.0f32]);
        variable.stage();
        let optimizer = optimizer("sgd", 1.0);
        let mut action = ApplyAction::at_commit_point(optimizer, Arc::clone(&gradients), 1);
        action.prepare().unwrap();
        if publish_first {
            variable.publish();
            gradients.commit(1);
        }
        action.commit();
        variable.publish();
        gradients.commit(1);
        assert_eq!(value::<f32>(&variable), [96.0]);
        // The step's own commit does not bring the contributions back.
        let again = ApplyAction::new(crate::setup::optimizer("sgd", 1.0), gradients).prepare();
        refusal(again, Status::FailedPrecondition);
    }
}

/// Several gradients of one run: each is divided by the loss scale that the run had, though the
/// first apply changes it, up or down.
#[test]
fn one_loss_scale_holds_for_a_whole_run() {
    let scaling = LossScaling::Dynamic {
        initial: 4.0,
        growth_factor: 2.0,
        growth_interval: 1,
        backoff_factor: 0.5,
        minimum: 1.0,
    };
    let variables = ["a", "b", "c"].map(|name| variable(name, &[0.0f32]));
    let gradients = variables
        .each_ref()
        .map(|variable| gradients(1, &[variable], Sum));
    let optimizer = optimizer("sgd", 1.0);
    let settings = Settings {
        loss_scaling: Some(scaling),
        ..Settings::default()
    };
    optimizer.configure(settings).unwrap();
    for (number, first, scale, next) in [
        (1, 1.0, 4.0, 32.0),
        (2, f32::INFINITY, 32.0, 64.0),
        (3, 1.0, 64.0, 512.0),
    ] {
        assert_eq!(optimizer.loss_scale(), scale);
        let before = variables
            .each_ref()
            .map(|variable| value::<f32>(variable)[0]);
        for (gradients, gradient) in gradients.iter().zip([first, 2.0, 3.0]) {
            step(
                gradients,
                number,
                &[Some(&[gradient * scale as f32])],
                &[1.0],
            );
        }
        for gradients in &gradients {
            apply(&optimizer, gradients).unwrap();
        }
        let after = variables
            .each_ref()
            .map(|variable| value::<f32>(variable)[0]);
        let first = if first.is_finite() { first } else { 0.0 };
        assert_eq!(after, [before[0] - first, before[1] - 2.0, before[2] - 3.0]);
        assert_eq!(optimizer.loss_scale(), next);
    }
}

/// Of applies that wait for one commit point, each has its own number.
#[test]
fn schedules_count_updates_that_are_still_to_come() {
    let variables = ["a", "b"].map(|name| variable(name, &[0.0f32]));
    let gradients = variables
        .each_ref()
        .map(|variable| gradients(1, &[variable], Sum));
    let optimizer = optimizer("sgd", 1.0);
    optimizer.set_schedule(Arc::new(|step| Ok(10f64.powi(step as i32))));
    for gradients in &gradients {
        step(gradients, 1, &[Some(&[1.0f32])], &[1.0]);
    }
    let mut actions = gradients.each_ref().map(|gradients| {
        let mut action = ApplyAction::new(Arc::clone(&optimizer), Arc::clone(gradients));
        action.prepare().unwrap();
        action
    });
    actions.iter_mut().for_each(|action| action.commit());
    assert_eq!(variables.each_ref().map(value::<f32>), [[-1.0], [-10.0]]);
    // One that was dropped does not count.
    for gradients in &gradients {
        step(gradients, 2, &[Some(&[1.0f32])], &[1.0]);
    }
    ApplyAction::new(Arc::clone(&optimizer), Arc::clone(&gradients[0]))
        .prepare()
        .unwrap();
    apply(&optimizer, &gradients[1]).unwrap();
    assert_eq!(value::<f32>(&variables[1]), [-110.0]);
}

/// As in PyTorch, where no sum of gradients is kept then.
#[test]
fn dampening_does_nothing_without_momentum() {
    let train = |rule: Box<dyn UpdateRule>| {
        let variable = variable("w", &[1.0f32, -2.0]);
        let gradients = gradients(1, &[&variable], Sum);
        let optimizer = Optimizer::new(STRATEGY, rule, 0.25).unwrap();
        for number in 1..=3 {
            step(&gradients, number, &[Some(&[number as f32, 0.3])], &[1.0]);
            apply(&optimizer, &gradients).unwrap();
        }
        bits(&value::<f32>(&variable))
    };
    let dampened = |momentum| {
        Momentum::new(momentum, false)
            .unwrap()
            .dampened(0.4)
            .unwrap()
    };
    assert_eq!(train(Box::new(dampened(0.0))), train(Box::new(Sgd)));
    assert_ne!(
        train(Box::new(dampened(0.5))),
        train(Box::new(Momentum::new(0.5, false).unwrap()))
    );
}

/// What is not finite is refused before it is in the sum of several runs, from which nothing could
/// take it out.
#[test]
fn accumulated_runs_are_finite() {
    let variable = variable("w", &[0.0f32; 2]);
    let gradients = Gradients::new(
        STRATEGY,
        &devices(1),
        vec![variable.clone()],
        Sum,
        umbo_core::optimizer::GradientsOptions {
            accumulation_steps: 2,
            ..Default::default()
        },
    )
    .unwrap();
    let optimizer = optimizer("sgd", 1.0);
    let settings = Settings {
        non_finite: Some(NonFinite::Fail),
        ..Settings::default()
    };
    optimizer.configure(settings).unwrap();
    step(&gradients, 1, &[Some(&[1.0f32, f32::NAN])], &[1.0]);
    let message = refusal(apply(&optimizer, &gradients), Status::InvalidArgument);
    assert!(message.contains("'w'"), "{message}");
    for number in 2..=3 {
        step(&gradients, number, &[Some(&[1.0f32, 2.0])], &[1.0]);
        let report = apply(&optimizer, &gradients).unwrap();
        assert_eq!(
            (report.applied, report.accumulated_runs),
            (number == 3, 3 - number)
        );
    }
    assert_eq!(value::<f32>(&variable), [-1.0, -2.0]);
}

/// Also if the factor that scales gradients down is smaller than what their type holds.
#[test]
fn the_largest_gradients_are_clipped_to_the_norm() {
    const COUNT: usize = 10_000;
    for replicas in [1, 3] {
        let variable = variable("w", &[0.0f32; COUNT]);
        let gradients = gradients(replicas, &[&variable], Sum);
        let optimizer = optimizer("sgd", 1.0);
        let settings = Settings {
            global_clip_norm: Some(1e-5),
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        let large = vec![1e38f32; COUNT];
        let parts: Vec<Option<&[f32]>> = (0..replicas).map(|_| Some(&large[..])).collect();
        step(&gradients, 1, &parts, &vec![1.0; replicas]);
        let report = apply(&optimizer, &gradients).unwrap();
        assert!(report.clipped && report.gradient_norm > Some(1e39));
        let expected = 1e-5 / (COUNT as f64).sqrt();
        for weight in value::<f32>(&variable) {
            assert!(
                (f64::from(-weight) - expected).abs() < 1e-6 * expected,
                "{weight}"
            );
        }
    }
}

/// The sign of zero does not tell whether the gradient was kept from its measurement to its update.
#[test]
fn measuring_changes_no_sign() {
    let weights = [false, true].map(|measure_norm| {
        let variable = variable("w", &[-0.0f32; 20]);
        let gradients = gradients(3, &[&variable], Sum);
        // Too small for float32 once it is divided.
        let tiny = [-f32::from_bits(1); 20];
        step(
            &gradients,
            1,
            &[Some(&tiny), Some(&tiny), Some(&tiny)],
            &[1e3; 3],
        );
        let options = ApplyOptions {
            measure_norm,
            ..ApplyOptions::default()
        };
        apply_with(&optimizer("sgd", 1.0), &gradients, options).unwrap();
        bits(&value(&variable))
    });
    assert_eq!(weights[0], weights[1]);
}
