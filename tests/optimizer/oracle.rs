//! Numbers: N replicas against one.

use umbo_core::optimizer::LossReduction::{self, GlobalMean, Mean, Sum};

use crate::setup::*;

const LEARNING_RATE: f64 = 0.125;

/// The gradient of one example: few bits, so that all sums of examples are exact.
fn example(step: u64, index: usize, element: usize) -> f32 {
    let number = (step as usize * 37 + index * 11 + element * 5) % 64;
    (number as f32 - 31.0) / 16.0
}

/// Trains with the examples of each step split into parts of these sizes, one for each replica.
fn train(rule: &str, reduction: LossReduction, sizes: &[usize]) -> Vec<u32> {
    const ELEMENTS: usize = 21;
    let start: Vec<f32> = (0..ELEMENTS).map(|element| element as f32 / 8.0).collect();
    let variable = variable("w", &start);
    let gradients = gradients(sizes.len(), &[&variable], reduction);
    let optimizer = optimizer(rule, LEARNING_RATE);
    let global: usize = sizes.iter().sum();
    for number in 1..=4 {
        let mut first = 0;
        for (replica, &size) in sizes.iter().enumerate() {
            let mut data = vec![0.0; ELEMENTS];
            for (element, sum) in data.iter_mut().enumerate() {
                *sum = (first..first + size)
                    .map(|index| example(number, index, element))
                    .sum();
                *sum /= match reduction {
                    Sum => 1.0,
                    // An empty replica divides zero by zero: mutant "buffer of an empty replica
                    // read" turns the weights into NaN.
                    Mean => size as f32,
                    GlobalMean => global as f32,
                };
            }
            if size == 0 {
                data.fill(f32::NAN);
            }
            overwrite(&gradients, number, replica, 0, &data);
            first += size;
        }
        let weights: Vec<f64> = sizes.iter().map(|&size| size as f64).collect();
        submit(&gradients, number, &weights);
        umbo_core::strategy::commit::StepParticipant::commit(&*gradients, number);
        apply(&optimizer, &gradients).unwrap();
    }
    bits(&value(&variable))
}

/// Catches "weight dropped" and "mean of means" (the parts differ in size) and "buffer of an empty
/// replica read" (there are empty ones, full of NaN).
#[test]
fn replicas_change_no_bit() {
    for rule in RULES {
        for reduction in [Sum, Mean, GlobalMean] {
            let one = train(rule, reduction, &[32]);
            for sizes in [
                &[16, 16][..],
                &[32, 0],
                &[0, 32],
                &[16, 8, 8],
                &[16, 8, 0, 4, 4],
                &[1; 32],
            ] {
                assert_eq!(
                    train(rule, reduction, sizes),
                    one,
                    "{rule} {reduction:?} {sizes:?}"
                );
            }
        }
        // Sums are exact for any split and any total, not only for powers of two.
        let one = train(rule, Sum, &[30]);
        for sizes in [
            &[17, 13][..],
            &[1, 0, 29],
            &[6, 6, 6, 6, 6],
            &[3, 1, 11, 2, 13, 0, 0, 0, 0],
        ] {
            assert_eq!(train(rule, Sum, sizes), one, "{rule} {sizes:?}");
        }
    }
}

#[test]
fn sums_are_wider_than_float32() {
    // 1e8 + 1 − 1e8 + 1 is 1 in float32 and 2 in truth.
    let variable = variable("w", &[0.0f32]);
    let gradients = gradients(4, &[&variable], GlobalMean);
    let parts = [&[1e8f32][..], &[1.0], &[-1e8], &[1.0]].map(Some);
    step(&gradients, 1, &parts, &[1.0; 4]);
    apply(&optimizer("sgd", 1.0), &gradients).unwrap();
    assert_eq!(value::<f32>(&variable), [-2.0]);
}

/// A variable whose gradient comes first in the third apply gets the corrections of a first update.
#[test]
fn adam_counts_updates_per_variable() {
    let often = variable("often", &[1.0f64]);
    let seldom = variable("seldom", &[1.0f64]);
    let gradients = gradients(1, &[&often, &seldom], Sum);
    let optimizer = optimizer("adam", 0.5);
    for number in 1..=3 {
        overwrite(&gradients, number, 0, 0, &[2.0f64]);
        if number == 3 {
            overwrite(&gradients, number, 0, 1, &[2.0f64]);
        }
        submit(&gradients, number, &[1.0]);
        umbo_core::strategy::commit::StepParticipant::commit(&*gradients, number);
        apply(&optimizer, &gradients).unwrap();
    }
    assert!((value::<f64>(&seldom)[0] - 0.5).abs() < 1e-8);
}

#[test]
fn learning_rate_counts_from_the_next_apply() {
    let variable = variable("w", &[8.0f32]);
    let gradients = gradients(1, &[&variable], Sum);
    let optimizer = optimizer("sgd", 1.0);
    for (number, learning_rate, expected) in [(1, 0.5, 7.5), (2, 0.25, 7.25), (3, 0.0, 7.25)] {
        optimizer.set_learning_rate(learning_rate).unwrap();
        assert_eq!(optimizer.learning_rate(), learning_rate);
        step(&gradients, number, &[Some(&[1.0f32])], &[1.0]);
        apply(&optimizer, &gradients).unwrap();
        assert_eq!(value::<f32>(&variable), [expected]);
    }
}
