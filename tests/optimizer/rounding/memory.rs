//! The memory of updates of bfloat16 weights: none in a steady step, and float32 states.

use half::bf16;
use umbo_core::error::Status;
use umbo_core::optimizer::LossReduction::{Mean, Sum};
use umbo_core::optimizer::{GradientMode, Settings, StateBits};
use umbo_core::strategy::commit::StepParticipant;

use super::{narrow, noise, rounder, rounding, wide};
use crate::allocator::{LARGE, of_this_thread, refusing};
use crate::setup::*;

/// A step of bfloat16 and float32 variables allocates nothing once both were updated.
#[test]
fn steady_steps_allocate_nothing() {
    let _keeps = WORKER_COUNT.read();
    for state_bits in [StateBits::Full, StateBits::Eight] {
        let narrow = variable("a", &vec![bf16::ONE; 20_000]);
        let wide = variable("b", &[1.0_f32; 300]);
        let gradients = gradients(2, &[&narrow, &wide], Mean);
        let settings = Settings {
            state_bits,
            global_clip_norm: Some(0.5),
            ..rounding(1)
        };
        let optimizer = rounder("adamw", settings);
        let step = |number: u64| {
            gradients.try_begin_step(number);
            for replica in 0..2 {
                for index in 0..2 {
                    gradients
                        .view(replica, number, index, GradientMode::Add)
                        .unwrap();
                }
                gradients.submit(replica, number, 1.0).unwrap();
            }
            gradients.commit(number);
            apply(&optimizer, &gradients).unwrap();
        };
        (1..=3).for_each(step);
        let before = of_this_thread();
        (4..=6).for_each(step);
        assert_eq!(of_this_thread(), before);
    }
}

/// Every allocation of a first update may be refused, and then nothing has changed.
#[test]
fn refused_memory_changes_nothing() {
    let _keeps = WORKER_COUNT.read();
    let elements = 40 * LARGE;
    let data = narrow(&noise(1, elements));
    let settings = Settings {
        global_clip_norm: Some(1.0),
        ..rounding(1)
    };
    for granted in 0..100 {
        let variable = variable("w", &data);
        let gradients = gradients(3, &[&variable], Sum);
        let optimizer = rounder("adamw", settings);
        step(
            &gradients,
            1,
            &[Some(&data), Some(&data), None],
            &[1.0, 1.0, 1.0],
        );
        let (refused, left) = refusing(granted, || apply(&optimizer, &gradients));
        if left != usize::MAX {
            refused.unwrap();
            assert!(granted >= 2, "{granted} requests");
            return;
        }
        // An update does without another worker.
        if refused.is_ok() {
            continue;
        }
        refusal(refused, Status::ResourceExhausted);
        assert_eq!(value::<bf16>(&variable), data);
        assert!(optimizer.state(&variable, "m").is_err());
    }
    panic!("memory was refused in every try");
}

/// States are float32: read, set, and as large as they are said to be.
#[test]
fn states_are_float32() {
    let variable = variable("w", &narrow(&noise(1, 40)));
    let gradients = gradients(1, &[&variable], Sum);
    let optimizer = rounder("momentum", rounding(1));
    let data = narrow(&noise(2, 40));
    step(&gradients, 1, &[Some(&data)], &[1.0]);
    apply(&optimizer, &gradients).unwrap();
    let state = optimizer.state(&variable, "momentum").unwrap();
    assert_eq!(read::<f32>(&state), wide(&data));
    assert_eq!(state.shape(), variable.shape());
}
