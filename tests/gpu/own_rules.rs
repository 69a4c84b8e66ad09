//! Rules of the program's on variables that a GPU holds. That they have the bits of CPUs with all
//! options, and that trainings move, is tested where the built-in rules are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fake_cuda::harness::under_driver;
use umbo_core::kernels::launch::{self, DeviceUpdate, Gradient, on_device};
use umbo_core::kernels::update::tiles::Tile;
use umbo_core::kernels::update::weighted_sum::Clipping;
use umbo_core::optimizer::rules::custom::Custom;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::rules::{CustomUpdate, QueueUpdate, Rates, Slot, WeightDecay};
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, UpdateRule, apply};
use umbo_core::strategy::ReplicaContext;
use umbo_core::tensor::DType;

use super::scene::through_host::through_host;
use super::strategy::strategy_on;
use super::training::Training;
use super::*;

/// Momentum, with a weight decay of its own if it is decoupled.
pub(super) fn momentum_of(tile: &Tile<'_>, rates: &Rates, _: u64) {
    for index in 0..tile.elements {
        // SAFETY: a tile's pointers lead to as many elements as it says.
        unsafe {
            macro_rules! update {
                ($real:ty) => {{
                    let sum = &mut *tile.slots[0].cast::<$real>().add(index);
                    let weight = &mut *tile.weights.cast::<$real>().add(index);
                    let gradient = *tile.gradient.cast::<$real>().add(index);
                    let rate = rates.learning_rate as $real;
                    let decay = rates.weight_decay as $real;
                    *sum = 0.9 * *sum + gradient;
                    *weight -= rate * *sum + decay * *weight;
                }};
            }
            match tile.dtype {
                DType::Float64 => update!(f64),
                _ => update!(f32),
            }
        }
    }
}

pub(super) fn rule(meaning: WeightDecay, queue: Option<Box<QueueUpdate>>) -> Custom {
    let slots = vec![Slot::new("sum", 0.25)];
    Custom::new(
        "own".into(),
        slots,
        0.0,
        meaning,
        Box::new(momentum_of),
        queue,
    )
    .unwrap()
}

/// The rule on CPUs and GPUs.
pub(super) fn own(meaning: WeightDecay) -> Box<dyn UpdateRule> {
    Box::new(rule(meaning, Some(through_host(momentum_of))))
}

/// A training of three variables by such a rule, or another one.
fn training(devices: &[&str], parameter_device: &str, rule: impl UpdateRule + 'static) -> Training {
    let strategy = strategy_on(devices, parameter_device).unwrap();
    Training::new(strategy, &[&[1.0, -2.0, 3.0], &[0.5; 7], &[-1.5; 2]], rule).unwrap()
}

#[test]
fn without_a_function_for_gpus_the_rule_is_refused_and_nothing_changes() {
    let Some(control) = under_driver(&[]) else {
        return;
    };
    let training = training(&["GPU:0"], "GPU:0", rule(WeightDecay::L2, None));
    training.run();
    let before = training.bits();
    let says = ["'own'", "GPU:0", "update_on_gpu", "CPU:0"];
    refused(training.apply(), Status::Unimplemented, &says);
    assert_eq!(training.bits(), before);
    clean(&control);
}

/// The function queues a kernel, here the library's own of the same rule, on the stream of one of a
/// card's logical GPUs.
#[test]
fn kernels_that_are_queued_have_the_bits_of_the_rule_that_they_are() {
    let Some(control) = under_driver(&[]) else {
        return;
    };
    registry::REGISTRY
        .set_logical_count(DeviceKind::Gpu, 0, 2)
        .unwrap();
    for seed in 0..10 {
        control.seed(seed);
        let queue = |tile: &CustomUpdate<'_>| {
            let gradient = [launch::DeviceContribution {
                gradient: tile.gradient,
                factor: 1.0,
            }];
            let rule = Momentum::new(0.9, false).unwrap();
            let step = rule
                .prepare(&tile.rates, &rule.initial_progress())?
                .step
                .unwrap();
            let update = DeviceUpdate {
                gradient: Gradient {
                    dtype: tile.dtype,
                    elements: tile.elements as u64,
                    gradient_dtype: tile.dtype,
                    contributions: &gradient,
                    accumulated: None,
                    divisor: 1.0,
                },
                clipping: Clipping::NONE,
                l2: 0.0,
                step: Some(step),
                weights: tile.weights,
                slots: tile.slots,
                rows: None,
                not_finite: None,
            };
            let gpu = registry::gpu(tile.device)?;
            // SAFETY: all of it is this call's.
            on_device(gpu, |launcher| unsafe { launcher.update(&[update]) })
        };
        let slots = vec![Slot::new("sum", 0.0)];
        let update = Box::new(momentum_of);
        let queue = Some(Box::new(queue) as _);
        let custom = Custom::new("own".into(), slots, 0.0, WeightDecay::L2, update, queue).unwrap();
        let devices = ["GPU:0", "GPU:1"];
        let custom_training = training(&devices, "GPU:1", custom);
        let built_in = training(&devices, "GPU:1", Momentum::new(0.9, false).unwrap());
        for _ in 0..3 {
            for one in [&custom_training, &built_in] {
                one.run();
                one.apply().unwrap();
            }
            assert_eq!(custom_training.bits(), built_in.bits());
        }
    }
    clean(&control);
    all_freed(&control, 2);
}

/// Fails at its `at`-th call, before or after it has written.
pub(super) fn failing(at: usize, late: bool) -> Box<QueueUpdate> {
    let calls = AtomicUsize::new(0);
    let works = through_host(momentum_of);
    Box::new(move |tile| {
        let fails = calls.fetch_add(1, Ordering::Relaxed) == at;
        if !fails || late {
            works(tile)?;
        }
        match fails {
            true => Err(Error::Callback {
                status: Status::DataLoss,
                message: "the rule does not like it".into(),
                payload: None,
            }),
            false => Ok(()),
        }
    })
}

/// What the program's kernel does wrong is found before anything is written; the card is lost.
#[test]
fn a_kernel_that_fails_loses_the_card_and_says_so() {
    let settings = [("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    let works = through_host(momentum_of);
    let queue: Box<QueueUpdate> = Box::new(move |tile| {
        works(tile)?;
        let control = Control::open().expect("the driver is loaded");
        control.fault("cuStreamSynchronize:1:719");
        Ok(())
    });
    let lost = training(&["GPU:1"], "GPU:0", rule(WeightDecay::L2, Some(queue)));
    lost.run();
    let outcome = lost.apply();
    control.fault("");
    refused(outcome, Status::Unavailable, &["GPU 0", "a kernel failed"]);
    refused(
        lost.apply(),
        Status::Unavailable,
        &["GPU 0", "lost to this process"],
    );
    // The other card continues.
    let works = Some(through_host(momentum_of));
    let other = training(&["GPU:1"], "GPU:1", rule(WeightDecay::L2, works));
    other.run();
    other.apply().unwrap();
    drop(control.take_reports());
}

/// Two optimizers at one commit point: the second would compute from what the first has not written
/// yet.
#[test]
fn a_second_apply_at_the_same_commit_point_is_refused() {
    let Some(control) = under_driver(&[]) else {
        return;
    };
    let custom = || rule(WeightDecay::L2, Some(through_host(momentum_of)));
    let training = training(&["GPU:0"], "GPU:0", custom());
    let id = training.strategy.id();
    let first = &training.optimizer;
    let variables = training.variables.clone();
    let devices = training.strategy.compute_devices();
    let others = Gradients::new(
        id,
        devices,
        variables,
        LossReduction::Mean,
        Default::default(),
    )
    .unwrap();
    let second = Optimizer::new(id, Box::new(custom()), 0.1).unwrap();
    let momentum = Momentum::new(0.9, false).unwrap();
    let built_in = Optimizer::new(id, Box::new(momentum), 0.1).unwrap();
    let step = |one: &Arc<Optimizer>, two: &Arc<Optimizer>| {
        let run = |context: &ReplicaContext| {
            training.contribute(context, 1.0)?;
            let buffer = others.view_in(context, 1, GradientMode::Overwrite)?;
            let values = Tensor::from_slice(&[0.5f32; 7], buffer.shape(), HOST)?;
            // SAFETY: the buffer is this replica's.
            unsafe { buffer.assume_exclusive() }.copy_from(&values)?;
            others.submit_in(context, Some(1.0))?;
            apply(one, &training.gradients)?;
            apply(two, &others).map(|_| None)
        };
        training.strategy.run(&run, None)
    };
    for one in [&second, &built_in] {
        let before = training.bits();
        refused(
            step(one, first),
            Status::FailedPrecondition,
            &["another optimizer's apply"],
        );
        assert_eq!(training.bits(), before);
    }
    // What comes behind it takes what it has written.
    step(first, &built_in).unwrap();
    training.run();
    apply(&second, &training.gradients).unwrap();
    clean(&control);
}
