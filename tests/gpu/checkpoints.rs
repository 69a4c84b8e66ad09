//! Training on GPUs that is resumed elsewhere, and the reverse.

use fake_cuda::harness::under_driver;

use umbo_core::error::Status;
use umbo_core::optimizer::rules::catalogue;
use umbo_core::optimizer::{Gradients, GradientsOptions, LossReduction, apply};
use umbo_core::tensor::DType;

use super::scene::{FEATURES, Feature, Folder, Scene, rules, same_bytes};
use super::strategy::{Place, strategy_of};
use super::*;

const PLACES: [Place<'_>; 6] = [
    (2, &["CPU:0", "CPU:1"], "CPU:0"),
    (2, &["GPU:0", "GPU:1"], "GPU:0"),
    (2, &["GPU:1", "CPU:0"], "CPU:0"),
    (2, &["CPU:0", "GPU:0"], "GPU:1"),
    (2, &["GPU:0"], "GPU:0"),
    (2, &["GPU:1"], "CPU:0"),
];

#[test]
fn training_goes_on_with_the_same_bits_on_other_devices() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    registry::REGISTRY.ensure_logical_cpus(2).unwrap();
    let folder = Folder::new();
    let middle = folder.path("middle");
    let end = folder.path("end");
    let other_end = folder.path("other");
    let mut number = 0;
    for rule in rules() {
        for feature in FEATURES.into_iter().filter(|feature| feature.fits(rule)) {
            // Each case goes from one place to another; over the cases from each to each.
            let from = PLACES[number % 6];
            let to = PLACES[(number / 6 + number + 1) % 6];
            number += 1;
            let is_on_gpu = |(_, _, variables): Place<'_>| variables.starts_with("GPU");
            let is_narrow = matches!(feature, Feature::EightBits | Feature::Rounding);
            let for_host = is_narrow || is_for_host(rule);
            if for_host && (is_on_gpu(from) || is_on_gpu(to)) {
                continue;
            }
            control.seed(number as u64);
            let scene = |place| Scene::with(rule, feature, strategy_of(place));
            let case = format!("{rule}, {feature:?}, {from:?} to {to:?}");
            let one = scene(from);
            one.train(4);
            one.checkpoint.save(&middle).unwrap();
            one.train(3);
            one.checkpoint.save(&end).unwrap();
            let other = scene(to);
            other.checkpoint.restore(&middle).unwrap();
            other.train(3);
            assert_eq!(other.bits(), one.bits(), "{case}");
            other.checkpoint.save(&other_end).unwrap();
            same_bytes(&end, &other_end, &case);
        }
    }
    clean(&control);
    println!("{number} trainings moved");
}

/// Whether the rule updates variables in host memory alone.
fn is_for_host(name: &str) -> bool {
    let mut rules = catalogue::MATRIX_RULES.iter();
    rules.any(|rule| rule.name == name)
}

/// A GPU refuses the rule by name, and changes nothing.
#[test]
fn rules_for_host_memory_are_refused_by_name() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    let mut refusals = 0;
    for rule in rules().filter(|rule| is_for_host(rule)) {
        let on_gpu = Scene::with(rule, Feature::Plain, strategy_of(PLACES[1]));
        let before = on_gpu.bits().0;
        on_gpu.run();
        let (optimizer, gradients) = &on_gpu.trainers[0];
        let refused = apply(optimizer, gradients).map(drop).unwrap_err();
        assert_eq!(refused.status(), Status::Unimplemented);
        let name = optimizer.rule().name();
        assert!(refused.to_string().contains(name), "{refused}");
        assert_eq!(on_gpu.bits().0, before);
        refusals += 1;
    }
    assert!(refusals > 0);
    clean(&control);
}

/// They are those of variables in host memory, and what a GPU refuses says so.
#[test]
fn states_of_8_bits_are_refused_by_name() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    let folder = Folder::new();
    let file = folder.path("file");
    let on_host = Scene::with("adam", Feature::EightBits, strategy_of(PLACES[2]));
    on_host.train(3);
    on_host.checkpoint.save(&file).unwrap();
    let on_gpu = Scene::with("adam", Feature::EightBits, strategy_of(PLACES[1]));
    let before = on_gpu.bits().0;
    on_gpu.run();
    let (optimizer, gradients) = &on_gpu.trainers[0];
    let refused = apply(optimizer, gradients).map(drop).unwrap_err();
    assert_eq!(refused.status(), Status::Unimplemented);
    assert!(refused.to_string().contains("state_bits"), "{refused}");
    assert_eq!(on_gpu.bits().0, before);
    let fresh = Scene::with("adam", Feature::EightBits, strategy_of(PLACES[1]));
    let refused = fresh.checkpoint.restore(&file).unwrap_err();
    assert!(refused.to_string().contains("GPU"), "{refused}");
    assert_eq!(fresh.bits().0, before);
    clean(&control);
}

/// Weights that are rounded lie in host memory, and who has them elsewhere learns it before a step.
#[test]
fn gradients_of_bfloat16_variables_are_refused() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    let strategy = strategy_of(PLACES[1]);
    let narrow = super::scene::variable(&strategy, "narrow", &[4, 3], DType::BFloat16);
    let refused = Gradients::new(
        strategy.id(),
        strategy.replica_devices(),
        vec![narrow],
        LossReduction::Mean,
        GradientsOptions::default(),
    );
    let refused = refused.map(drop).unwrap_err();
    assert_eq!(refused.status(), Status::Unimplemented);
    for part in ["'narrow'", "bfloat16", "GPU"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    clean(&control);
}
