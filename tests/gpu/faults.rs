//! Calls of the driver that fail: every one in turn, and cards that are lost.

use fake_cuda::harness::under_driver;
use umbo_core::collectives::Assignment;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::strategy::ReplicaContext;
use umbo_core::strategy::variables::{assign, read};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::strategy::{strategy_on, variable};
use super::*;

/// A training that can be continued after a step that failed.
struct Training {
    training: super::training::Training,
    total: Variable,
}

impl Training {
    fn new(devices: &[&str], parameter_device: &str) -> Result<Training> {
        let strategy = strategy_on(devices, parameter_device)?;
        let total = variable(&strategy, Aggregation::Sum, &[0.0])?;
        let starts: [&[f32]; 2] = [&[0.1, -0.2, 0.3], &[1.5; 5]];
        let rule = Adam::new(0.9, 0.999, 1e-7)?;
        Ok(Training {
            training: super::training::Training::new(strategy, &starts, rule)?,
            total,
        })
    }

    /// One step. If it fails nothing has changed, unless the run succeeded and the apply waits.
    fn step(&self, ran: &mut bool) -> Result<()> {
        if !*ran {
            self.training
                .strategy
                .run(&|context| self.replica(context), None)?;
            *ran = true;
        }
        self.training.apply()
    }

    fn replica(&self, context: &ReplicaContext) -> Result<Option<Value>> {
        self.training
            .contribute(context, (context.replica() + 2) as f32)?;
        let one = Tensor::from_slice(&[1.0f32], shape(&[1]), context.device())?;
        assign(&self.total, Assignment::Add, &Value::Tensor(one))?;
        Ok(None)
    }

    /// The bits of everything that a step changes.
    fn bits(&self) -> Vec<u32> {
        let total = numbers(&read(&self.total).unwrap())[0].to_bits();
        self.training.bits().into_iter().chain([total]).collect()
    }
}

const STEPS: usize = 3;

/// Trains, and tries again what fails. Returns the final bits and how often something failed.
fn train(devices: &[&str], parameter_device: &str) -> (Vec<u32>, Vec<Error>) {
    let mut failures = Vec::new();
    let training = loop {
        match Training::new(devices, parameter_device) {
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
    let (expected, failures) = train(&devices, "CPU:0");
    assert!(failures.is_empty());
    control.fault("");
    assert_eq!(train(&devices, "CPU:0").0, expected);
    let calls = control.calls("*");
    let mut trials = 0;
    let mut injected = 0;
    let mut seen = 0;
    for number in 1..=calls {
        let code = 1 + number % 2;
        control.seed(number);
        control.fault(&format!("*:{number}:{code}"));
        let (bits, failures) = train(&devices, "CPU:0");
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
    registry::REGISTRY
        .set_logical_count(DeviceKind::Gpu, 0, 2)
        .unwrap();
    let training = Training::new(&["GPU:0", "GPU:2"], "CPU:0").unwrap();
    let other = Training::new(&["GPU:2", "CPU:0"], "CPU:0").unwrap();
    training.step(&mut false).unwrap();
    let before = training.bits();
    let held = tensor(&[1.0; 8], gpu(1));
    control.fault("cuMemcpyDtoHAsync_v2:1:719");
    let lost = held.on_host();
    control.fault("");
    refused(
        lost,
        Status::Unavailable,
        &["GPU 0", "a kernel failed", "logical GPUs", "lost"],
    );
    let failed = training.step(&mut false);
    refused(
        failed,
        Status::Unavailable,
        &["replica 0", "GPU 0", "lost to this process"],
    );
    assert_eq!(training.bits(), before);
    for _ in 0..3 {
        other.step(&mut false).unwrap();
    }
    refused(
        Training::new(&["GPU:1"], "CPU:0"),
        Status::Unavailable,
        &["GPU 0", "lost"],
    );
    drop((training, other, held));
    clean(&control);
}

/// Trains where a GPU holds the variables while one call fails, in a process of its own. Says what
/// came of it.
fn trial(control: &Control, fault: &str) -> String {
    control.fault(fault);
    let devices = ["GPU:0", "GPU:1"];
    let lost = |error: &Error| {
        let text = error.to_string();
        assert_eq!(error.status(), Status::Unavailable, "{text}");
        assert!(
            text.contains("GPU ") && text.contains("lost to this process"),
            "{text}"
        );
        "lost".to_owned()
    };
    let is_lost = |error: &Error| error.to_string().contains("lost to this process");
    let mut failures = 0;
    let training = loop {
        match Training::new(&devices, "GPU:0") {
            Ok(training) => break training,
            Err(error) if is_lost(&error) => return lost(&error),
            Err(error) if failures == 2 => {
                // The driver or the card is of no use from the start.
                let refused = [Status::Unavailable, Status::NotFound];
                assert!(refused.contains(&error.status()), "{error}");
                return "lost".to_owned();
            }
            Err(_) => failures += 1,
        }
    };
    for _ in 0..STEPS {
        let mut ran = false;
        while let Err(error) = training.step(&mut ran) {
            if is_lost(&error) {
                // From now on every use of the card says so.
                let again = training.step(&mut ran);
                return lost(&again.expect_err("the card is lost"));
            }
            failures += 1;
            assert!(failures < 3, "{error}");
        }
    }
    control.fault("");
    format!("{:?}", training.bits())
}

#[test]
fn a_gpu_that_holds_the_variables_loses_no_half_of_an_update() {
    let settings = [("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    if let Ok(fault) = std::env::var("UMBO_GPU_FAULT") {
        println!("outcome: {}", trial(&control, &fault));
        control.fault("");
        // What the training let go of is used for something else, where the card is not lost.
        for device in [gpu(0), gpu(1)] {
            for _ in 0..8 {
                let again = Tensor::from_slice(&[1.0f32; 8], shape(&[8]), device);
                let _ = again.and_then(|again| again.on_host());
            }
        }
        return clean(&control);
    }
    let expected = trial(&control, "");
    control.fault("");
    trial(&control, "");
    let calls = control.calls("*");
    let mut whole = 0;
    let mut lost = 0;
    let name = "faults::a_gpu_that_holds_the_variables_loses_no_half_of_an_update";
    for (trial, number) in (1..=calls).step_by(calls.div_ceil(60) as usize).enumerate() {
        // A kernel that fails, a call that is refused, and memory that is not there.
        let code = match trial % 4 {
            0 => 719,
            1 => 1,
            _ => 2,
        };
        let output = fake_cuda::harness::command(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env("UMBO_GPU_FAULT", format!("*:{number}:{code}"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "call {number}, code {code}: {text} {output:?}"
        );
        let outcome = text
            .lines()
            .find_map(|line| line.split("outcome: ").nth(1))
            .unwrap();
        match outcome {
            "lost" => lost += 1,
            bits => {
                assert_eq!(bits, expected, "call {number}, code {code}");
                whole += 1;
            }
        }
    }
    clean(&control);
    println!("{whole} trainings were whole, {lost} cards were lost");
    assert!(whole > 10 && lost > 10);
}

/// Memory is asked for before anything is written: a GPU that has none loses nothing, and is not
/// lost.
#[test]
fn a_gpu_without_memory_is_never_given_up() {
    let settings = [("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    let expected = trial(&control, "");
    let training = Training::new(&["GPU:0", "GPU:1"], "GPU:0").unwrap();
    control.fault("");
    for _ in 0..STEPS {
        training.step(&mut false).unwrap();
    }
    drop(training);
    let calls = control.calls("cuMemAllocAsync");
    assert!(calls > 10, "{calls}");
    // Beside those of the steps there are those of the making.
    for number in 1..=2 * calls {
        let outcome = trial(&control, &format!("cuMemAllocAsync:{number}:2"));
        assert_eq!(outcome, expected, "request {number}");
    }
    clean(&control);
    all_freed(&control, 2);
}
