//! bfloat16 weights that are rounded stochastically, against updates of float32 weights, and
//! against the hash that the pages describe.

mod memory;
mod refusals;

use std::slice::from_ref;
use std::sync::Arc;

use half::{bf16, f16};
use umbo_core::executor::workers;
use umbo_core::optimizer::LossReduction::{Mean, Sum};
use umbo_core::optimizer::rules::catalogue::FACTORED_RULES;
use umbo_core::optimizer::{
    ApplyOptions, Gradients, GradientsOptions, NonFinite, Optimizer, Settings, StateBits,
    VariableGroup,
};
use umbo_core::tensor::{DType, Element};
use umbo_core::values::variable::Variable;

use crate::features::DYNAMIC;
use crate::setup::*;

const RATE: f64 = 0.01;

fn rounding(seed: u64) -> Settings {
    Settings {
        stochastic_rounding: Some(seed),
        ..Settings::default()
    }
}

/// An optimizer that rounds.
fn rounder(rule: &str, settings: Settings) -> Arc<Optimizer> {
    let optimizer = optimizer(rule, RATE);
    optimizer.configure(settings).unwrap();
    optimizer
}

fn noise(seed: u64, elements: usize) -> Vec<f32> {
    let number = |index: usize| ((index * 7919 + seed as usize * 104_729) % 2003) as f32;
    (0..elements)
        .map(|index| number(index) / 1001.0 - 0.97)
        .collect()
}

fn narrow(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|&value| bf16::from_f32(value)).collect()
}

fn wide(values: &[bf16]) -> Vec<f32> {
    values.iter().map(|value| value.to_f32()).collect()
}

fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A number rounded as the pages say: of the variable of this name in the update after `updates`
/// others.
fn expected(seed: u64, name: &str, updates: u64, index: usize, value: f32) -> u16 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let name = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let of_variable = mixed(mixed(seed.wrapping_add(SPREAD)) ^ name);
    let key = mixed(of_variable.wrapping_add((updates + 1).wrapping_mul(SPREAD)));
    let block = (index as u64 / 256 + 1).wrapping_mul(SPREAD);
    let key = mixed(key.wrapping_add(block));
    let bits = key as u32 ^ (index as u32 % 256).wrapping_mul(0x7f4a_7c15);
    let bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
    let bits = bits.wrapping_add((key >> 32) as u32);
    let bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    let whole = value.to_bits() >> 16;
    let share = value.to_bits() & 0xffff;
    (whole + u32::from(share + (bits >> 16) > 0xffff)) as u16
}

/// What a training has beside its rule.
#[derive(Clone, Copy, Debug)]
struct Case {
    rule: &'static str,
    settings: Settings,
    gradients: DType,
    replicas: usize,
    accumulation: u64,
    grouped: bool,
    /// A gradient of the second update is not finite, so that it is skipped.
    overflows: bool,
}

fn all_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let clipped = Settings {
        weight_decay: Some(0.03),
        global_clip_norm: Some(0.7),
        clip_value: Some(0.04),
        ..rounding(5)
    };
    let scaled = Settings {
        loss_scaling: Some(DYNAMIC),
        weight_decay: Some(0.2),
        maximize: true,
        ..rounding(u64::MAX)
    };
    let dtypes = [DType::BFloat16, DType::Float32, DType::Float16];
    for (number, rule) in rounding_rules().enumerate() {
        for (at, settings) in [rounding(0), clipped, scaled].into_iter().enumerate() {
            for state_bits in [StateBits::Full, StateBits::Eight] {
                if state_bits == StateBits::Eight && self::rule(rule).code_maps().is_none() {
                    continue;
                }
                cases.push(Case {
                    rule,
                    settings: Settings {
                        state_bits,
                        ..settings
                    },
                    gradients: dtypes[(number + at) % 3],
                    replicas: 1 + 2 * (at % 2),
                    accumulation: 1 + (number as u64 + at as u64) % 2,
                    grouped: at == 1,
                    overflows: at == 2,
                });
            }
        }
    }
    cases
}

fn is_rounding(name: &str) -> bool {
    rule(name).rounds()
}

fn rounding_rules() -> impl Iterator<Item = &'static str> {
    let factored = FACTORED_RULES.iter().map(|rule| rule.name);
    let all = RULES.into_iter().chain(factored);
    all.filter(|rule| is_rounding(rule))
}

/// A variable of the case: a vector or, where rows and columns count, a matrix.
fn variable_of<T: Element>(case: &Case, name: &str, values: &[T]) -> Variable {
    let columns = match rule(case.rule).factored_rule() {
        Some(_) => [229, 57, 40, 1]
            .into_iter()
            .find(|&it| values.len().is_multiple_of(it)),
        None => None,
    };
    match columns {
        Some(columns) => table(name, values, columns),
        None => variable(name, values),
    }
}

fn with_options(variable: &Variable, case: &Case, dtype: DType) -> Arc<Gradients> {
    let options = GradientsOptions {
        dtype: Some(dtype),
        accumulation_steps: case.accumulation,
        ..GradientsOptions::default()
    };
    let variables = vec![variable.clone()];
    Gradients::new(STRATEGY, &devices(case.replicas), variables, Mean, options).unwrap()
}

fn train<T: Element>(
    case: &Case,
    gradients: &Arc<Gradients>,
    optimizer: &Arc<Optimizer>,
    update: u64,
    of_f32: impl Fn(f32) -> T,
) {
    let first = 1 + update * case.accumulation;
    let elements = gradients.variables()[0].shape().elements();
    for run in 0..case.accumulation {
        let number = first + run;
        let data: Vec<Vec<T>> = (0..case.replicas as u64)
            .map(|replica| {
                let mut noise = noise(10 * number + replica, elements);
                if case.overflows && update == 1 {
                    noise[elements / 2] = f32::INFINITY;
                }
                let noise = noise.into_iter();
                // As exact as the narrowest of the types.
                noise
                    .map(|value| of_f32(bf16::from_f32(value).to_f32()))
                    .collect()
            })
            .collect();
        let data: Vec<Option<&[T]>> = data.iter().map(|data| Some(&data[..])).collect();
        let weights: Vec<f64> = (0..case.replicas).map(|at| 1.0 + at as f64).collect();
        step(gradients, number, &data, &weights);
        let options = ApplyOptions {
            measure_norm: true,
            ..ApplyOptions::default()
        };
        apply_with(optimizer, gradients, options).unwrap();
    }
}

/// An update is that of float32 weights, with which it has the states to the bit in common, but
/// that the new weights are rounded as the pages say.
#[test]
fn new_weights_are_those_of_float32_rounded() {
    for (number, case) in all_cases().iter().enumerate() {
        let elements = [1, 5000, 513, 4096 + 255][number % 4];
        let start = narrow(&noise(3, elements));
        let name = ["w", "layer0/kernel"][number % 2];
        let rounded = variable_of(case, name, &start);
        let exact = variable_of(case, name, &wide(&start));
        let of_rounded = with_options(&rounded, case, case.gradients);
        let of_exact = with_options(&exact, case, DType::Float32);
        let optimizers = [0, 1].map(|_| rounder(case.rule, case.settings));
        if case.grouped {
            let group = VariableGroup {
                learning_rate_factor: 0.5,
                weight_decay: Some(0.4),
                frozen: false,
            };
            optimizers[0].add_group(from_ref(&rounded), group).unwrap();
            optimizers[1].add_group(from_ref(&exact), group).unwrap();
        }
        for update in 0..4_u64 {
            let updates = optimizers[0].iterations();
            match case.gradients {
                DType::Float16 => {
                    train(case, &of_rounded, &optimizers[0], update, f16::from_f32);
                }
                DType::BFloat16 => {
                    train(case, &of_rounded, &optimizers[0], update, bf16::from_f32);
                }
                _ => train(case, &of_rounded, &optimizers[0], update, |value| value),
            }
            // What is exact in bfloat16 may not be in float16.
            match case.gradients {
                DType::Float16 => train(case, &of_exact, &optimizers[1], update, |value| {
                    f16::from_f32(value).to_f32()
                }),
                _ => train(case, &of_exact, &optimizers[1], update, |value| value),
            }
            let was_skipped = optimizers[0].iterations() == updates;
            assert_eq!(was_skipped, case.overflows && update == 1, "{case:?}");
            let seed = case.settings.stochastic_rounding.unwrap();
            let found = value::<bf16>(&rounded);
            let before = value::<f32>(&exact);
            for (index, (found, before)) in found.iter().zip(&before).enumerate() {
                let expected = expected(seed, name, updates, index, *before);
                assert_eq!(found.to_bits(), expected, "{case:?}, {before} at {index}");
            }
            write(committed(&exact), &wide(&found));
            for slot in &optimizers[0].slots() {
                // A matrix has other states than a vector.
                let state = |optimizer: &Optimizer, variable| {
                    let state = optimizer.state(variable, &slot.name).ok()?;
                    Some(bits(&read(&state)))
                };
                let states = [
                    state(&optimizers[0], &rounded),
                    state(&optimizers[1], &exact),
                ];
                assert!(states[0] == states[1], "{case:?}, {}", slot.name);
            }
        }
    }
}

/// The mean of the rounded weights over many seeds is the exact weight, within five standard
/// deviations; and no weight is anything but one of the two neighbours.
#[test]
fn rounding_is_unbiased() {
    const SEEDS: u64 = 2000;
    let elements = 300;
    let start = narrow(&noise(4, elements));
    let data = noise(5, elements);
    let exact = variable("w", &wide(&start));
    let of_exact = gradients(1, &[&exact], Sum);
    step(&of_exact, 1, &[Some(&data)], &[1.0]);
    apply(&optimizer("sgd", RATE), &of_exact).unwrap();
    let exact = value::<f32>(&exact);
    let case = all_cases()[0];
    let mut ups = vec![0_u64; elements];
    for seed in 0..SEEDS {
        let variable = variable("w", &start);
        let gradients = with_options(
            &variable,
            &Case {
                accumulation: 1,
                replicas: 1,
                ..case
            },
            DType::Float32,
        );
        step(&gradients, 1, &[Some(&data)], &[1.0]);
        apply(&rounder("sgd", rounding(seed)), &gradients).unwrap();
        for ((ups, found), exact) in ups.iter_mut().zip(value::<bf16>(&variable)).zip(&exact) {
            let away = u64::from(found.to_bits()) - u64::from(exact.to_bits() >> 16);
            assert!(away <= 1, "{exact} became {found}");
            *ups += away;
        }
    }
    let mut all = 0.0;
    for (ups, exact) in ups.iter().zip(&exact) {
        let share = f64::from(exact.to_bits() & 0xffff) / 65536.0;
        let deviation = *ups as f64 - share * SEEDS as f64;
        let standard = (SEEDS as f64 * share * (1.0 - share)).sqrt();
        assert!(deviation.abs() <= 5.0 * standard, "{exact}: {ups} times up");
        all += deviation / standard.max(1e-9);
    }
    // The elements are independent of each other, too.
    assert!(all.abs() <= 5.0 * (elements as f64).sqrt(), "{all}");
}

/// Steps of a thousandth of the distance of two neighbours, of which rounding to nearest would lose
/// all, move weights as far as they do in float32.
#[test]
fn small_steps_are_not_lost() {
    const STEPS: u64 = 4000;
    let elements = 1000;
    let variable = variable("w", &vec![bf16::from_f32(1.5); elements]);
    let gradients = gradients(1, &[&variable], Sum);
    let optimizer = rounder("sgd", rounding(11));
    let distance = 1.0 / 128.0;
    let gradient = vec![bf16::from_f32(-distance / 1024.0 / RATE as f32); elements];
    for number in 1..=STEPS {
        step(&gradients, number, &[Some(&gradient)], &[1.0]);
        apply(&optimizer, &gradients).unwrap();
    }
    let mean = wide(&value::<bf16>(&variable))
        .iter()
        .map(|&it| f64::from(it))
        .sum::<f64>();
    let moved = mean / elements as f64 - 1.5;
    let expected = STEPS as f64 * f64::from(-gradient[0].to_f32()) * RATE;
    // A binomial number of moves by the distance for each of the elements.
    let moves = expected / f64::from(distance);
    let standard = f64::from(distance) * (moves / elements as f64).sqrt();
    assert!(
        (moved - expected).abs() < 5.0 * standard,
        "{moved} for {expected}"
    );
}

fn trained(replicas: usize, settings: Settings) -> Vec<u16> {
    let variable = variable("w", &narrow(&noise(1, 9000)));
    let gradients = gradients(replicas, &[&variable], Mean);
    let optimizer = rounder("adamw", settings);
    for number in 1..=6 {
        // All replicas have the same gradient, whose mean is exact.
        let data = narrow(&noise(number, 9000));
        step(
            &gradients,
            number,
            &vec![Some(&data[..]); replicas],
            &vec![1.0; replicas],
        );
        apply(&optimizer, &gradients).unwrap();
    }
    value::<bf16>(&variable)
        .into_iter()
        .map(bf16::to_bits)
        .collect()
}

/// Rounding follows from seed, name, update and index alone.
#[test]
fn bits_depend_on_the_seed_and_not_on_threads_or_replicas() {
    let _changes = WORKER_COUNT.write();
    workers::fix_costs(Some(workers::Costs::NONE));
    for state_bits in [StateBits::Full, StateBits::Eight] {
        let settings = |seed| Settings {
            state_bits,
            ..rounding(seed)
        };
        workers::set_count(1).unwrap();
        let expected = trained(1, settings(1));
        assert!(trained(1, settings(2)) != expected);
        for (count, replicas) in [(2, 1), (3, 2), (8, 4)] {
            workers::set_count(count).unwrap();
            let found = trained(replicas, settings(1));
            assert!(found == expected, "{count} workers, {replicas} replicas");
        }
    }
}

/// A run that is skipped, or an apply that fails, takes no part in the count of updates.
#[test]
fn what_changes_nothing_uses_no_random_bits_up() {
    for treatment in [NonFinite::Skip, NonFinite::Fail] {
        let settings = Settings {
            non_finite: Some(treatment),
            ..rounding(9)
        };
        let made = [0, 1].map(|_| {
            let variable = variable("w", &narrow(&noise(1, 4500)));
            (
                gradients(1, &[&variable], Sum),
                rounder("momentum", settings),
                variable,
            )
        });
        for (at, (gradients, optimizer, variable)) in made.iter().enumerate() {
            let data = narrow(&noise(1, 4500));
            step(gradients, 1, &[Some(&data)], &[1.0]);
            apply(optimizer, gradients).unwrap();
            if at == 1 {
                let before = value::<bf16>(variable);
                let mut spoilt = data.clone();
                spoilt[17] = bf16::INFINITY;
                step(gradients, 2, &[Some(&spoilt)], &[1.0]);
                let applied = apply(optimizer, gradients);
                assert_eq!(applied.is_err(), treatment == NonFinite::Fail);
                assert_eq!(value::<bf16>(variable), before);
            }
            step(gradients, 3, &[Some(&data)], &[1.0]);
            apply(optimizer, gradients).unwrap();
        }
        assert_eq!(value::<bf16>(&made[0].2), value::<bf16>(&made[1].2));
    }
}

/// Weights that become infinite or NaN are what they would be in float32.
#[test]
fn what_is_not_finite_is_not_rounded() {
    let data = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 3e38, -3e38, 0.0];
    let largest = bf16::MAX.to_f32();
    let variable = variable("w", &narrow(&[1.0, 1.0, 1.0, -largest, largest, -0.0]));
    let gradients = with_options(
        &variable,
        &Case {
            accumulation: 1,
            replicas: 1,
            ..all_cases()[0]
        },
        DType::Float32,
    );
    let optimizer = optimizer("sgd", 1.0);
    optimizer.configure(rounding(1)).unwrap();
    step(&gradients, 1, &[Some(&data)], &[1.0]);
    apply(&optimizer, &gradients).unwrap();
    let found = wide(&value::<bf16>(&variable));
    assert!(found[2].is_nan());
    let of_others = [found[0], found[1], found[3], found[4], found[5]];
    let infinite = f32::INFINITY;
    assert_eq!(of_others, [-infinite, infinite, -infinite, infinite, 0.0]);
}
