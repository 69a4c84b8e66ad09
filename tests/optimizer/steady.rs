//! A steady step allocates nothing.

use std::sync::Arc;

use umbo_core::optimizer::GradientMode::Add;
use umbo_core::optimizer::LossReduction::Mean;
use umbo_core::optimizer::{
    ApplyOptions, Gradients, LossScaling, Settings, StateBits, VariableGroup,
};
use umbo_core::strategy::commit::StepParticipant;

use crate::allocator::of_this_thread;
use crate::features::AVERAGES;
use crate::setup::*;

/// The same with everything on that an apply can do.
#[test]
fn steady_step_with_every_feature_allocates_nothing() {
    let _keeps = WORKER_COUNT.read();
    let full = RULES.map(|rule| (rule, StateBits::Full));
    let coded = ["adamw", "nesterov"].map(|rule| (rule, StateBits::Eight));
    for (rule, state_bits) in full.into_iter().chain(coded) {
        let a = variable("a", &[1.0f32; 20_000]);
        let b = variable("b", &[1.0f64; 3]);
        let variables = vec![a.clone(), b.clone()];
        let gradients = Gradients::new(
            STRATEGY,
            &devices(3),
            variables,
            Mean,
            umbo_core::optimizer::GradientsOptions {
                accumulation_steps: 2,
                ..Default::default()
            },
        )
        .unwrap();
        let optimizer = optimizer(rule, 0.5);
        let loss_scaling = LossScaling::Dynamic {
            initial: 8.0,
            growth_factor: 2.0,
            growth_interval: 2,
            backoff_factor: 0.5,
            minimum: 1.0,
        };
        let settings = Settings {
            weight_decay: Some(0.1),
            global_clip_norm: Some(0.5),
            clip_value: Some(0.01),
            non_finite: None,
            loss_scaling: Some(loss_scaling),
            maximize: true,
            averaging: AVERAGES[3],
            state_bits,
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        let group = VariableGroup {
            learning_rate_factor: 0.5,
            weight_decay: Some(0.0),
            frozen: false,
        };
        optimizer.add_group(&[b], group).unwrap();
        optimizer.set_schedule(Arc::new(|step| Ok(1.0 / (step + 1) as f64)));
        let step = |number: u64, value: f64| {
            gradients.try_begin_step(number);
            for replica in 0..3 {
                gradients.view(replica, number, 0, Add).unwrap();
                write(
                    gradients.view(replica, number, 1, Add).unwrap(),
                    &[value; 3],
                );
                gradients.submit(replica, number, 1.0).unwrap();
            }
            gradients.commit(number);
            let options = ApplyOptions {
                flush: false,
                measure_norm: true,
            };
            apply_with(&Arc::clone(&optimizer), &gradients, options).unwrap()
        };
        (1..=4).for_each(|number| drop(step(number, 1.0)));
        let before = of_this_thread();
        (5..=8).for_each(|number| drop(step(number, 1.0)));
        // Nor does one that is skipped.
        (9..=10).for_each(|number| drop(step(number, f64::NAN)));
        assert_eq!(of_this_thread(), before, "{rule}");
        let report = optimizer.last_report().unwrap();
        assert_eq!((report.skipped, report.iterations), (true, 4));
    }
}

/// The same for row-sparse gradients, with rows in several calls, and as many or fewer in each
/// step.
#[test]
fn steady_step_with_rows_allocates_nothing() {
    let _keeps = WORKER_COUNT.read();
    for rule in RULES.into_iter().filter(|rule| updates_rows(rule)) {
        for accumulation in [1, 2] {
            let a = table("a", &[1.0f32; 20_000], 20);
            let b = variable("b", &[1.0f64; 3]);
            let c = variable("c", &[1.0f32; 3]);
            let choice = [true, true, false];
            let gradients = row_gradients(3, &[&a, &b, &c], Mean, &choice, accumulation);
            let optimizer = optimizer(rule, 0.5);
            let settings = Settings {
                global_clip_norm: Some(0.5),
                averaging: AVERAGES[1],
                ..Settings::default()
            };
            optimizer.configure(settings).unwrap();
            let indices = [37, 1].map(|factor| {
                (0..700)
                    .map(|row| row * factor % 1000)
                    .collect::<Vec<i64>>()
            });
            let step = |number: u64| {
                gradients.try_begin_step(number);
                for replica in 0..3 {
                    let rows = [700, 3, 0].map(|rows| rows - rows * (number as usize % 3) / 7);
                    for rows in rows {
                        let added = gradients.add_rows(replica, number, 0, rows).unwrap();
                        write(&added.indices, &indices[number as usize % 2][..rows]);
                    }
                    let added = gradients.add_rows(replica, number, 1, 1).unwrap();
                    write(&added.indices, &[2i64]);
                    gradients.view(replica, number, 2, Add).unwrap();
                    gradients.submit(replica, number, 1.0).unwrap();
                }
                gradients.commit(number);
                apply(&Arc::clone(&optimizer), &gradients).unwrap();
            };
            (1..=6).for_each(step);
            let before = of_this_thread();
            (7..=12).for_each(step);
            assert_eq!(of_this_thread(), before, "{rule}");
        }
    }
}
