//! Rows that come and go of variables that a GPU holds, or the host for replicas on GPUs: the bits
//! are those of CPUs.

use fake_cuda::harness::under_driver;
use umbo_core::device::registry::release_kept;
use umbo_core::optimizer::rules::catalogue;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::state::rows::KeptRows;
use umbo_core::optimizer::{AverageKind, Averaging, Gradients, LossReduction, Optimizer, Settings};
use umbo_core::strategy::variables::read;

use super::strategy::{Place, strategy_of};
use super::training::Training;
use super::*;

const ON_CPUS: Place<'_> = (2, &["CPU:0", "CPU:1"], "CPU:0");

const PLACES: [Place<'_>; 4] = [
    (2, &["GPU:0", "GPU:1"], "GPU:0"),
    (2, &["GPU:0", "GPU:1"], "CPU:0"),
    (2, &["GPU:1", "CPU:0"], "CPU:0"),
    (2, &["CPU:0", "GPU:0"], "GPU:1"),
];

/// The rows that stay, by number or the first ones, and those that are appended.
const CHANGES: [(KeptRows<'_>, &[f32]); 4] = [
    (KeptRows::Numbered(&[2, 0]), &[0.5, -1.5, 2.0]),
    (KeptRows::First(4), &[]),
    (KeptRows::First(0), &[0.25]),
    (KeptRows::Numbered(&[0]), &[1.0, 3.0]),
];

/// The bits of all state of a training whose rows change after each update.
fn trained(rule: &str, averages: bool, place: Place<'_>) -> Vec<u32> {
    let starts: [&[f32]; 2] = [&[1.0, -2.0, 0.75, 4.0, 0.5], &[0.5, -0.25, 3.0]];
    let mut training = Training::new(strategy_of(place), &starts, Sgd).unwrap();
    let id = training.strategy.id();
    training.optimizer = Optimizer::new(id, catalogue::make(rule).unwrap(), 0.1).unwrap();
    let averaging = Averaging {
        kind: AverageKind::Mean,
        start: 0,
        interval: 1,
    };
    let settings = Settings {
        averaging: averages.then_some(averaging),
        ..Settings::default()
    };
    training.optimizer.configure(settings).unwrap();
    let mut bits = Vec::new();
    for (kept, appended) in CHANGES {
        training.run();
        training.apply().unwrap();
        for variable in &mut training.variables {
            let appended = tensor(appended, HOST);
            let changed = training
                .optimizer
                .change_rows(variable, kept, Some(&appended));
            *variable = changed.unwrap();
        }
        training.gradients = Gradients::new(
            id,
            training.strategy.replica_devices(),
            training.variables.clone(),
            LossReduction::Mean,
            Default::default(),
        )
        .unwrap();
        bits.extend(training.bits());
    }
    training.run();
    training.apply().unwrap();
    bits.extend(training.bits());
    bits
}

#[test]
fn changed_rows_have_the_bits_of_cpus() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    registry::REGISTRY.ensure_logical_cpus(2).unwrap();
    let factored = catalogue::FACTORED_RULES.iter().map(|rule| rule.name);
    for (number, rule) in catalogue::NAMES.into_iter().chain(factored).enumerate() {
        let averages = number % 2 == 0;
        let expected = trained(rule, averages, ON_CPUS);
        for (seed, place) in PLACES.into_iter().enumerate() {
            control.seed((number * PLACES.len() + seed) as u64);
            let found = trained(rule, averages, place);
            assert_eq!(found, expected, "{rule} on {place:?}");
        }
    }
    clean(&control);
}

/// All requests for memory are refused, or each in turn: what changed has the bits that it should,
/// or all is as before.
#[test]
fn a_change_for_which_a_gpu_has_no_memory_changes_nothing() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    // So large that each tensor has memory of its own.
    let start: Vec<f32> = (0..60_000u16).map(f32::from).collect();
    let made = || {
        let mut training = Training::new(strategy_of(PLACES[0]), &[&start], Sgd).unwrap();
        let adam = catalogue::make("adam").unwrap();
        training.optimizer = Optimizer::new(training.strategy.id(), adam, 0.1).unwrap();
        training.run();
        training.apply().unwrap();
        training
    };
    let updated = |training: &Training| {
        training.run();
        training.apply().unwrap();
        training.bits()
    };
    let kept: Vec<i64> = (100..50_000).rev().collect();
    let change = |training: &Training| {
        let kept = KeptRows::Numbered(&kept);
        training
            .optimizer
            .change_rows(&training.variables[0], kept, None)
    };
    let expected = updated(&made());
    let training = made();
    let changed = numbers(&read(&change(&training).unwrap()).unwrap());
    for request in 0.. {
        let training = made();
        release_kept();
        control.fault(&format!("cuMemAllocAsync:{request}:2"));
        let outcome = change(&training);
        let injected = control.injected();
        control.fault("");
        if injected == 0 {
            assert!(request > 3, "{request}");
            break;
        }
        match outcome {
            // What others have freed in the meantime has served.
            Ok(variable) => assert_eq!(numbers(&read(&variable).unwrap()), changed),
            Err(_) => {
                refused(outcome, Status::ResourceExhausted, &[]);
                assert_eq!(updated(&training), expected);
            }
        }
    }
    clean(&control);
}
