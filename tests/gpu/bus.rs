//! How many bytes of a step go over the bus between the host, which has the variables, and the
//! cards.

use fake_cuda::Control;
use fake_cuda::harness::under_driver;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, apply,
};
use umbo_core::strategy::variables::refreshed_copy;
use umbo_core::tensor::DType;
use umbo_core::values::variable::Aggregation;

use super::strategy::{strategy_on, variable};
use super::*;

/// The cards' logical GPUs: one, two and three.
const SPLIT: [&[&str]; 3] = [
    &["GPU:0"],
    &["GPU:1", "GPU:2"],
    &["GPU:3", "GPU:4", "GPU:5"],
];

const ELEMENTS: usize = 5000;

fn split() {
    for (card, parts) in SPLIT.iter().enumerate() {
        registry::REGISTRY
            .split_gpu(card as u32, &vec![None; parts.len()])
            .unwrap();
    }
}

/// What went up and down since the last time.
fn moved(control: &Control, last: &mut [u64; 3]) -> [u64; 3] {
    let now = ["to device", "to host", "between devices"].map(|over| control.moved(over));
    let since = std::array::from_fn(|over| now[over] - last[over]);
    *last = now;
    since
}

/// Trains some steps and says what each of them moved, which is the same for all but the first.
fn bytes_of_a_step(
    control: &Control,
    devices: &[&str],
    parameter_device: &str,
    gradient: Option<DType>,
) -> [u64; 3] {
    let strategy = strategy_on(devices, parameter_device).unwrap();
    let numbers: Vec<f32> = (0..ELEMENTS)
        .map(|number| (number % 17) as f32 * 0.25)
        .collect();
    let weight = variable(&strategy, Aggregation::None, &numbers).unwrap();
    let gradients = Gradients::new(
        strategy.id(),
        strategy.compute_devices(),
        vec![weight.clone()],
        LossReduction::Mean,
        GradientsOptions {
            dtype: gradient,
            ..GradientsOptions::default()
        },
    );
    let gradients = gradients.unwrap();
    let rule = Momentum::new(0.5, false).unwrap();
    let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.125).unwrap();
    let step = |context: &umbo_core::strategy::ReplicaContext| {
        let buffer = gradients.view_in(context, 0, GradientMode::Overwrite)?;
        // The gradient is the weights, in its type, by work of the program's on the card. They are
        // asked for twice, and come once.
        for _ in 0..2 {
            // SAFETY: nobody assigns.
            let seen = unsafe {
                refreshed_copy(Some(context), &weight, gradient.unwrap_or(weight.dtype()))?
            };
            let from = seen.address().addr() as u64;
            let to = buffer.address().addr() as u64;
            let bytes = ELEMENTS * buffer.dtype().size();
            // SAFETY: both are this GPU's, and the buffer is this replica's until it submits.
            unsafe { registry::gpu(context.device())?.copy(from, to, bytes)? };
        }
        gradients.submit_in(context, Some(1.0))?;
        Ok(None)
    };
    let mut last = [0; 3];
    let mut all = Vec::new();
    moved(control, &mut last);
    for _ in 0..4 {
        strategy.run(&step, None).unwrap();
        apply(&optimizer, &gradients).unwrap();
        all.push(moved(control, &mut last));
    }
    assert!(
        all[1..].iter().all(|step| *step == all[1]),
        "{devices:?}: {all:?}"
    );
    clean(control);
    all[1]
}

/// Weights go up once for each card, however many logical GPUs it has; gradients come down once for
/// each replica, since sums are made in replica order.
#[test]
fn weights_go_up_once_for_each_card() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "3")]) else {
        return;
    };
    split();
    for (seed, cards) in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[2, 0, 1]]
        .iter()
        .enumerate()
    {
        control.seed(seed as u64);
        let devices: Vec<&str> = cards
            .iter()
            .flat_map(|&card| SPLIT[card])
            .copied()
            .collect();
        for (gradient, size) in [(None, 4), (Some(DType::BFloat16), 2)] {
            let one = (ELEMENTS * size) as u64;
            let expected = [cards.len() as u64 * one, devices.len() as u64 * one, 0];
            let moved = bytes_of_a_step(&control, &devices, "CPU:0", gradient);
            assert_eq!(moved, expected, "{devices:?}, {gradient:?}");
        }
    }
}

/// Where the variables are on the card that computes, nothing but a few flags comes to the host.
#[test]
fn variables_on_the_card_that_computes() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "3")]) else {
        return;
    };
    split();
    for (devices, parameter_device) in [
        (SPLIT[0], "GPU:0"),
        (SPLIT[1], "GPU:1"),
        (SPLIT[2], "GPU:4"),
    ] {
        let [up, down, between] = bytes_of_a_step(&control, devices, parameter_device, None);
        assert_eq!(between, 0, "{devices:?}");
        assert!(
            down <= 64 && up <= 4096,
            "{devices:?}: {up} bytes up, {down} down"
        );
    }
}
