//! Finite gradients whose square is not finite, by every rule.

use umbo_core::optimizer::LossReduction::Sum;
use umbo_core::tensor::Element;

use crate::plain::Plain;
use crate::setup::*;

const RATE: f64 = 0.125;
const ROUNDS: usize = 6;
/// The round whose gradients are large.
const LARGE: usize = 2;
const START: [f64; 4] = [0.0, 0.5, -2.0, 0.0];

/// The weights after each round.
fn train<T: Element>(
    rule: &str,
    number: impl Fn(f64) -> T,
    back: impl Fn(T) -> f64,
    large: f64,
) -> Vec<Vec<f64>> {
    let variable = variable("w", &START.map(&number));
    let gradients = gradients(1, &[&variable], Sum);
    let optimizer = optimizer(rule, RATE);
    let rounds = (0..ROUNDS).map(|round| {
        let gradient = gradient(round, large).map(&number);
        step(&gradients, round as u64 + 1, &[Some(&gradient)], &[1.0]);
        apply(&optimizer, &gradients).unwrap();
        value::<T>(&variable).into_iter().map(&back).collect()
    });
    rounds.collect()
}

fn gradient(round: usize, large: f64) -> [f64; 4] {
    match round {
        LARGE => [large, -large, large, 0.25],
        _ => [0.25, -0.5, 0.125, 0.25],
    }
}

/// What the rule makes of the large gradients, given the weights before and after.
fn check_large_round(rule: &str, before: &[f64], after: &[f64], large: f64, epsilon: f64) {
    let case = format!("{rule}, {large:e}: {before:?}, {after:?}");
    for element in 0..3 {
        let direction = gradient(LARGE, large)[element].signum();
        let expected = match rule {
            // Steps of the gradient's size.
            "sgd" | "momentum" | "nesterov" | "dampened" | "radam" | "radam_decoupled" => continue,
            // Steps of one size.
            "lion" => before[element] * (1.0 - RATE * WEIGHT_DECAY) - RATE * direction,
            // The limit of the formula for large gradients.
            "ftrl" => before[element] - RATE * direction,
            // Second moments are infinite, and what is left is the weight decay.
            "adamw" | "amsgradw" => before[element] * (1.0 - RATE * WEIGHT_DECAY),
            "adam" | "amsgrad" | "nadam" | "nadam_decoupled" | "adagrad" | "adagrad_decaying"
            | "rmsprop" | "rmsprop_centered" => before[element],
            // These have steps of earlier rounds, or norms of the whole variable.
            "rmsprop_momentum" | "rmsprop_both" | "lamb" | "lars" => continue,
            other => panic!("no rule {other}"),
        };
        assert!(
            (after[element] - expected).abs() <= epsilon,
            "{case}; not {expected}"
        );
    }
}

#[test]
fn no_rule_makes_a_nan_of_a_large_gradient() {
    for rule in RULES {
        let trained = [1e20, 1e25, 1e38].map(|large| {
            let trained = train(rule, |number| number as f32, f64::from, large);
            (trained, large, 1e-5)
        });
        let wide = [1e160, 1e300].map(|large| {
            let trained = train(rule, |number| number, |number: f64| number, large);
            (trained, large, 1e-13)
        });
        for (trained, large, epsilon) in trained.into_iter().chain(wide) {
            assert!(
                trained.iter().flatten().all(|w| w.is_finite()),
                "{rule}: {trained:?}"
            );
            check_large_round(rule, &trained[LARGE - 1], &trained[LARGE], large, epsilon);
        }
    }
}

/// In float64 plain arithmetic overflows as the library's does. Only where it makes NaN, the
/// library does not.
#[test]
fn overflow_is_that_of_the_formulas() {
    let large = 1e200;
    for rule in RULES {
        let found = train(rule, |number| number, |number: f64| number, large);
        let mut plain = Plain::new(rule, &START);
        for (round, found) in found.iter().enumerate() {
            plain.update_where(|_| true, &gradient(round, large), RATE, rule_decay(rule));
            for (element, (&found, &right)) in found.iter().zip(&plain.weights).enumerate() {
                let is_mended = ["ftrl", "rmsprop_centered", "rmsprop_both"].contains(&rule)
                    && round >= LARGE
                    && element < 3;
                assert_eq!(right.is_nan(), is_mended, "{rule}, round {round}: {right}");
                let near = (found - right).abs() <= 1e-9 * right.abs().max(1.0);
                assert!(
                    near || is_mended,
                    "{rule}, round {round}: {found}, not {right}"
                );
            }
        }
    }
}
