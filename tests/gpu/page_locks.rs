//! Memory of the host that goes over the bus at each step: it is locked, and GPUs copy it
//! themselves; or it is not, and everything works as before.

use std::env;
use std::sync::Arc;

use fake_cuda::Control;
use fake_cuda::harness::under_driver;
use umbo_core::device::page_lock::locked_bytes;
use umbo_core::observe::log::{self, Level};
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, apply,
};
use umbo_core::strategy::Strategy;
use umbo_core::strategy::variables::refreshed_copy;
use umbo_core::values::variable::{Aggregation, Variable};

use super::strategy::{strategy_on, variable};
use super::*;

/// Two variables with blocks of their own, and one that shares a small block, which is not locked.
const SIZES: [usize; 3] = [300_000, 37, 270_000];

/// How many bytes the locked blocks of two replicas on GPUs have at least: the two variables, and
/// all gradients of each replica.
const LOCKED: u64 = 3 * 2_280_000;

/// A training whose gradients are the weights.
struct Training {
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Training {
    fn on(devices: &[&str], parameter_device: &str) -> Training {
        let strategy = strategy_on(devices, parameter_device).unwrap();
        let make = |&size: &usize| {
            let numbers: Vec<f32> = (0..size)
                .map(|number| (number % 17) as f32 * 0.25)
                .collect();
            variable(&strategy, Aggregation::None, &numbers).unwrap()
        };
        let variables: Vec<Variable> = SIZES.iter().map(make).collect();
        let gradients = Gradients::new(
            strategy.id(),
            strategy.compute_devices(),
            variables.clone(),
            LossReduction::Mean,
            GradientsOptions::default(),
        );
        let rule = Momentum::new(0.5, false).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.125).unwrap();
        Training {
            strategy,
            variables,
            gradients: gradients.unwrap(),
            optimizer,
        }
    }

    fn step(&self) -> Result<()> {
        self.strategy.run(
            &|context| {
                for (index, variable) in self.variables.iter().enumerate() {
                    let to = self
                        .gradients
                        .view_in(context, index, GradientMode::Overwrite)?;
                    // SAFETY: nobody assigns.
                    let weights =
                        unsafe { refreshed_copy(Some(context), variable, variable.dtype())? };
                    write_gradient(weights, to)?;
                }
                self.gradients.submit_in(context, Some(1.0))?;
                Ok(None)
            },
            None,
        )?;
        apply(&self.optimizer, &self.gradients).map(drop)
    }

    fn weights(&self) -> Vec<Vec<f32>> {
        let weights = |variable: &Variable| {
            // SAFETY: no step is in progress.
            let copy = unsafe { refreshed_copy(None, variable, variable.dtype()).unwrap() };
            numbers(copy)
        };
        self.variables.iter().map(weights).collect()
    }
}

/// What three steps on CPUs come to.
fn expected() -> Vec<Vec<f32>> {
    registry::REGISTRY
        .set_logical_count(DeviceKind::Cpu, 0, 2)
        .unwrap();
    let training = Training::on(&["CPU:0", "CPU:1"], "CPU:0");
    (0..3).for_each(|_| training.step().unwrap());
    training.weights()
}

fn registered(control: &Control) -> u64 {
    control.live("registered memory")
}

#[test]
fn what_goes_over_the_bus_at_each_step_is_not_staged() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    let expected = expected();
    for seed in 0..3 {
        control.seed(seed);
        let training = Training::on(&["GPU:0", "GPU:1"], "CPU:0");
        training.step().unwrap();
        training.step().unwrap();
        // Two variables, and the mirrors of two replicas.
        assert_eq!(registered(&control), 4);
        assert!(locked_bytes() >= LOCKED, "{}", locked_bytes());
        let over = ["to device", "to host", "registered"];
        // New weights may still be on their way when a step has ended.
        let moved = || {
            (0..2).for_each(|index| registry::gpu(gpu(index)).unwrap().synchronize().unwrap());
            over.map(|over| control.moved(over))
        };
        let before = moved();
        control.fault("");
        training.step().unwrap();
        let after = moved();
        let [up, down, direct] = std::array::from_fn(|over| after[over] - before[over]);
        let all = 2 * 4 * SIZES.iter().sum::<usize>() as u64;
        // What lies between two gradients comes with them.
        assert_eq!(up, all);
        assert!((all..all + 2 * 128).contains(&down), "{down}");
        // The small variable alone is staged, on its way up.
        assert_eq!(up + down - direct, 2 * 4 * SIZES[1] as u64);
        // All gradients of a replica come at once.
        assert_eq!(control.calls("cuMemcpyDtoHAsync_v2"), 2);
        assert!(training.weights() == expected);
        drop(training);
        assert_eq!((registered(&control), locked_bytes()), (0, 0));
        clean(&control);
    }
}

#[test]
fn variables_on_a_gpu_and_a_replica_on_a_cpu() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    let expected = expected();
    let training = Training::on(&["CPU:0", "GPU:1"], "GPU:0");
    (0..3).for_each(|_| training.step().unwrap());
    // Its two large copies of the variables, and its gradients.
    assert_eq!(registered(&control), 3);
    assert!(training.weights() == expected);
    drop(training);
    assert_eq!((registered(&control), locked_bytes()), (0, 0));
    clean(&control);
}

/// Trains where memory cannot be locked, or not all of it, and returns what was warned of.
fn trains_without(control: &Control, locked: u64) -> Vec<String> {
    let expected = expected();
    let (sender, warnings) = std::sync::mpsc::channel();
    log::set_sink(
        Level::Warning,
        Box::new(move |_, text| sender.send(text.to_owned()).unwrap()),
    );
    let training = Training::on(&["GPU:0", "GPU:1"], "CPU:0");
    (0..3).for_each(|_| training.step().unwrap());
    assert_eq!(registered(control), locked);
    assert!(training.weights() == expected);
    drop(training);
    assert_eq!((registered(control), locked_bytes()), (0, 0));
    clean(control);
    log::log_kept();
    let unlocked = |text: &String| text.contains("stay unlocked");
    warnings.try_iter().filter(unlocked).collect()
}

#[test]
fn a_driver_that_locks_nothing() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    control.fault("cuMemHostRegister_v2:0:801");
    let warnings = trains_without(&control, 0);
    assert!(
        warnings.iter().any(|text| text.contains("CUDA error 801")),
        "{warnings:?}"
    );
    assert_eq!(control.calls("cuMemHostUnregister"), 0);
}

#[test]
fn a_limit_of_what_can_be_locked() {
    let limited = [
        ("FAKE_CUDA_DEVICES", "2"),
        ("FAKE_CUDA_LOCKABLE", "5500000"),
    ];
    let Some(control) = under_driver(&limited) else {
        return;
    };
    // Each replica's gradients have more than 2 MB, and come first.
    let warnings = trains_without(&control, 2);
    assert!(
        warnings.iter().any(|text| text.contains("CUDA error 2")),
        "{warnings:?}"
    );
}

/// Pages that are not unlocked are left alone: nobody else gets them.
#[test]
fn pages_that_stay_locked_are_not_used_again() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    let training = Training::on(&["GPU:0"], "CPU:0");
    (0..2).for_each(|_| training.step().unwrap());
    let locked = locked_bytes();
    control.fault("cuMemHostUnregister:0:1");
    drop(training);
    control.fault("");
    assert_eq!((registered(&control), locked_bytes()), (3, locked));
    // The same blocks again would be registered twice, which the driver reports.
    let training = Training::on(&["GPU:0"], "CPU:0");
    (0..2).for_each(|_| training.step().unwrap());
    assert_eq!(registered(&control), 6);
    drop(training);
    assert_eq!(registered(&control), 3);
    assert_eq!(control.take_reports(), Vec::<String>::new());
}

/// A card that is lost during a copy may still use the pages.
#[test]
fn pages_of_a_lost_card_are_not_used_again() {
    for call in [
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuStreamSynchronize",
    ] {
        let settings = [("FAKE_CUDA_DEVICES", "2"), ("LOST_IN", call)];
        let Some(control) = under_driver(&settings) else {
            continue;
        };
        let training = Training::on(&["GPU:0"], "CPU:0");
        training.step().unwrap();
        training.step().unwrap();
        control.fault(&format!("{}:1:719", env::var("LOST_IN").unwrap()));
        let error = training.step().unwrap_err();
        assert!(error.to_string().contains("is lost"), "{error}");
        assert_eq!(error.status(), Status::Unavailable);
        drop(training);
        assert!(registered(&control) > 0 && locked_bytes() > 0);
        assert_eq!(control.take_reports(), Vec::<String>::new());
        return;
    }
}

/// Each call fails once: the step is tried again, and nothing is lost or half done.
#[test]
fn calls_that_fail() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    let expected = expected();
    let mut failed = 0;
    for call in [
        "cuMemHostRegister_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuStreamSynchronize",
        "cuCtxSetCurrent",
    ] {
        for number in [1, 2, 3, 6] {
            let training = Training::on(&["GPU:0", "GPU:1"], "CPU:0");
            control.fault(&format!("{call}:{number}:2"));
            for _ in 0..3 {
                while training.step().is_err() {
                    failed += 1;
                }
            }
            control.fault("");
            assert!(training.weights() == expected, "{call} {number}");
            drop(training);
            assert_eq!(registered(&control), 0, "{call} {number}");
            clean(&control);
        }
    }
    assert!(failed > 8, "{failed}");
}
