//! Runs that are accumulated: the bits of their sum, and windows that end early.

use umbo_core::optimizer::LossReduction::{GlobalMean, Mean, Sum};
use umbo_core::optimizer::{ApplyOptions, Gradients, Settings};
use umbo_core::strategy::commit::StepParticipant;

use crate::plain::Noise;
use crate::setup::*;

/// The sum over runs has the bits of one run in which all replicas take part.
#[test]
fn accumulated_runs_have_the_bits_of_one_run() {
    const COUNT: usize = 1000;
    for reduction in [Sum, Mean, GlobalMean] {
        let mut noise = Noise(9);
        let data: Vec<Vec<f32>> = (0..6)
            .map(|_| {
                noise
                    .take(COUNT)
                    .into_iter()
                    .map(|value| value as f32)
                    .collect()
            })
            .collect();
        let weights = [3.0, 1.0, 0.0, 2.5, 0.0, 0.0];
        let train = |replicas: usize, runs: usize| {
            let variable = variable("w", &[0.5f32; COUNT]);
            let gradients = Gradients::new(
                STRATEGY,
                &devices(replicas),
                vec![variable.clone()],
                reduction,
                umbo_core::optimizer::GradientsOptions {
                    accumulation_steps: runs as u64,
                    ..Default::default()
                },
            )
            .unwrap();
            let optimizer = optimizer("adam", 0.1);
            optimizer
                .configure(Settings {
                    global_clip_norm: Some(1.0),
                    ..Settings::default()
                })
                .unwrap();
            for round in 0..2 {
                for run in 0..runs {
                    let number = (round * runs + run + 1) as u64;
                    let first = run * replicas;
                    let parts: Vec<Option<&[f32]>> = data[first..first + replicas]
                        .iter()
                        .map(|part| Some(&part[..]))
                        .collect();
                    step(
                        &gradients,
                        number,
                        &parts,
                        &weights[first..first + replicas],
                    );
                    apply(&optimizer, &gradients).unwrap();
                }
            }
            assert_eq!(optimizer.iterations(), 2);
            bits(&value(&variable))
        };
        let one = train(6, 1);
        assert_eq!(train(3, 2), one, "{reduction:?}");
        assert_eq!(train(2, 3), one, "{reduction:?}");
        assert_eq!(train(1, 6), one, "{reduction:?}");
    }
}

/// At the end of an epoch fewer runs than usual are one update.
#[test]
fn flush_updates_with_what_there_is() {
    let variable = variable("w", &[0.0f32]);
    let variables = vec![variable.clone()];
    let gradients = Gradients::new(
        STRATEGY,
        &devices(1),
        variables,
        Sum,
        umbo_core::optimizer::GradientsOptions {
            accumulation_steps: 4,
            ..Default::default()
        },
    )
    .unwrap();
    let optimizer = optimizer("sgd", 1.0);
    step(&gradients, 1, &[Some(&[6.0f32])], &[1.0]);
    let report = apply(&optimizer, &gradients).unwrap();
    assert_eq!(
        (report.applied, report.accumulated_runs, report.iterations),
        (false, 1, 0)
    );
    // A run that failed takes nothing of the sum along.
    overwrite(&gradients, 2, 0, 0, &[100.0f32]);
    submit(&gradients, 2, &[1.0]);
    gradients.roll_back(2);
    step(&gradients, 3, &[Some(&[2.0f32])], &[3.0]);
    let options = ApplyOptions {
        flush: true,
        measure_norm: true,
    };
    let report = apply_with(&optimizer, &gradients, options).unwrap();
    assert_eq!(
        (report.applied, report.accumulated_runs, report.total_weight),
        (true, 0, 4.0)
    );
    assert_eq!(
        (report.gradient_norm, value::<f32>(&variable)),
        (Some(2.0), vec![-2.0])
    );
    // The next window starts from nothing.
    step(&gradients, 4, &[Some(&[1.0f32])], &[1.0]);
    apply_with(&optimizer, &gradients, options).unwrap();
    assert_eq!(value::<f32>(&variable), [-3.0]);
}

/// After the loop what is left over is applied without another run, once.
#[test]
fn flush_needs_no_run_of_its_own() {
    let dense = variable("w", &[0.0f32]);
    let rows = table("t", &[0.0f32; 4], 2);
    let gradients = row_gradients(1, &[&dense, &rows], Sum, &[false, true], 3);
    let optimizer = optimizer("sgd", 1.0);
    let flush = ApplyOptions {
        flush: true,
        measure_norm: false,
    };
    let early = apply_with(&optimizer, &gradients, flush);
    refusal(early, umbo_core::error::Status::FailedPrecondition);
    for number in 1..=2 {
        overwrite(&gradients, number, 0, 0, &[number as f32]);
        add_rows(&gradients, number, 0, 1, &[1], &[1.0f32, 2.0]);
        submit(&gradients, number, &[1.0]);
        gradients.commit(number);
        assert!(!apply(&optimizer, &gradients).unwrap().applied);
    }
    // A run that fails in between takes nothing away.
    overwrite(&gradients, 3, 0, 0, &[100.0f32]);
    submit(&gradients, 3, &[1.0]);
    gradients.roll_back(3);
    let report = apply_with(&optimizer, &gradients, flush).unwrap();
    assert_eq!(
        (report.applied, report.accumulated_runs, report.total_weight),
        (true, 0, 2.0)
    );
    assert_eq!(value::<f32>(&dense), [-1.5]);
    assert_eq!(value::<f32>(&rows), [0.0, 0.0, -1.0, -2.0]);
    let again = apply_with(&optimizer, &gradients, flush);
    let message = refusal(again, umbo_core::error::Status::FailedPrecondition);
    assert!(message.contains("have been applied"), "{message}");
    assert_eq!(value::<f32>(&dense), [-1.5]);
}
