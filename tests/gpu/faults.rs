//! Calls of the driver that fail: every one in turn, and cards that are lost.

use std::sync::Arc;

use fake_cuda::harness::under_driver;
use umbo::error::Error;
use umbo::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, adam::Adam, apply};
use umbo::strategy::{Strategy, variables};
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Variable};

use super::strategy::{strategy, variable};
use super::*;

/// A training that can be gone on with after a step that failed.
struct Training {
    strategy: Strategy,
    weights: [Variable; 2],
    total: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Training {
    fn new(devices: &[&str]) -> Result<Training> {
        let strategy = strategy(devices)?;
        let weights = [
            variable(&strategy, Aggregation::None, &[0.1, -0.2, 0.3])?,
            variable(&strategy, Aggregation::None, &[1.5; 5])?,
        ];
        let total = variable(&strategy, Aggregation::Sum, &[0.0])?;
        let (id, devices) = (strategy.id(), strategy.compute_devices());
        let gradients = Gradients::new(id, devices, weights.to_vec(), LossReduction::Mean)?;
        let optimizer = Optimizer::new(id, Box::new(Adam::new(0.9, 0.999, 1e-7)?), 0.1)?;
        Ok(Training { strategy, weights, total, gradients, optimizer })
    }

    /// One step. If it fails nothing has changed, unless the run succeeded and the apply waits.
    fn step(&self, ran: &mut bool) -> Result<()> {
        if !*ran {
            self.strategy.run(&|context| self.replica(context), None)?;
            *ran = true;
        }
        apply(&self.optimizer, &self.gradients).map(drop)
    }

    fn replica(&self, context: &umbo::strategy::ReplicaContext) -> Result<Option<Value>> {
        for (index, weight) in self.weights.iter().enumerate() {
            // SAFETY: the elements are read at once.
            let seen = unsafe { variables::current_tensor(Some(context), weight) }?;
            let own = (context.replica() + 2) as f32;
            let values: Vec<f32> = seen.to_vec::<f32>()?.iter().map(|it| it * own + 0.01).collect();
            let buffer = self.gradients.view_in(context, index, GradientMode::Overwrite)?;
            let values = Tensor::from_slice(&values, buffer.shape(), context.device())?;
            // SAFETY: the buffer is this replica's.
            unsafe { buffer.assume_exclusive() }.copy_from(&values)?;
        }
        let one = Tensor::from_slice(&[1.0f32], shape(&[1]), context.device())?;
        variables::assign(&self.total, umbo::collectives::Assignment::Add, &Value::Tensor(one))?;
        self.gradients.submit_in(context, Some(1.0))?;
        Ok(None)
    }

    /// The bits of everything that a step changes.
    fn bits(&self) -> Vec<u32> {
        let all = self.weights.iter().chain([&self.total]);
        let values = all.flat_map(|variable| numbers(&variables::read(variable).unwrap()));
        values.map(f32::to_bits).collect()
    }
}

const STEPS: usize = 3;

/// Trains, and tries again what fails. Returns the final bits and how often something failed.
fn train(devices: &[&str]) -> (Vec<u32>, Vec<Error>) {
    let mut failures = Vec::new();
    let training = loop {
        match Training::new(devices) {
            Ok(training) => break training,
            Err(error) => failures.push(error),
        }
        assert!(failures.len() < 3, "{failures:?}");
    };
    for _ in 0..STEPS {
        let mut ran = false;
        loop {
            let before = training.bits();
            match training.step(&mut ran) {
                Ok(()) => break,
                Err(error) => failures.push(error),
            }
            assert!(failures.len() < 3, "{failures:?}");
            if !ran {
                assert_eq!(training.bits(), before);
            }
        }
    }
    (training.bits(), failures)
}

#[test]
fn every_call_that_fails_is_reported_and_changes_nothing() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_QUIET", "1")])
    else {
        return;
    };
    let devices = ["GPU:0", "GPU:1"];
    let (expected, failures) = train(&devices);
    assert!(failures.is_empty());
    control.fault("");
    assert_eq!(train(&devices).0, expected);
    let calls = control.calls("*");
    let (mut trials, mut injected, mut seen) = (0, 0, 0);
    for code in [1, 2] {
        for number in 1..=calls {
            control.seed(number);
            control.fault(&format!("*:{number}:{code}"));
            let (bits, failures) = train(&devices);
            assert_eq!(bits, expected, "call {number}, code {code}: {failures:?}");
            for error in &failures {
                let text = error.to_string();
                let found = error.status();
                assert!(
                    matches!(found, Status::Unavailable | Status::ResourceExhausted),
                    "{found:?} {text}"
                );
                assert!(text.contains("GPU"), "{text}");
            }
            trials += 1;
            injected += control.injected();
            seen += failures.len();
            control.fault("");
        }
    }
    clean(&control);
    all_freed(&control, 2);
    println!("{trials} trials, {injected} calls failed, {seen} errors");
    // How often the driver is asked depends a little on who comes first.
    assert!(injected * 10 > trials * 9 && seen * 2 > trials as usize);
}

#[test]
fn a_card_that_is_lost_is_named_and_the_others_go_on() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_QUIET", "1")])
    else {
        return;
    };
    registry::set_logical_count(DeviceKind::Gpu, 0, 2).unwrap();
    let training = Training::new(&["GPU:0", "GPU:2"]).unwrap();
    let other = Training::new(&["GPU:2", "CPU:0"]).unwrap();
    training.step(&mut false).unwrap();
    let before = training.bits();
    // SAFETY: GPU:0 is card 0's, which is about to be lost.
    let held = tensor(&[1.0; 8], gpu(1));
    control.fault("cuMemcpyDtoHAsync_v2:1:719");
    let lost = held.on_host();
    control.fault("");
    refused(lost, Status::Unavailable, &["GPU 0", "a kernel failed", "logical GPUs", "lost"]);
    let failed = training.step(&mut false);
    refused(failed, Status::Unavailable, &["replica 0", "GPU 0", "lost to this process"]);
    assert_eq!(training.bits(), before);
    for _ in 0..3 {
        other.step(&mut false).unwrap();
    }
    refused(Training::new(&["GPU:1"]), Status::Unavailable, &["GPU 0", "lost"]);
    drop((training, other, held));
    clean(&control);
}
