//! States in 8 bits, against a model that is written by the published description: every share
//! that a code stands for, the nearest of them, and the formulas of the rules, in float32.

use std::sync::Arc;

use umbo_core::error::Status;
use umbo_core::optimizer::LossReduction::Sum;
use umbo_core::optimizer::rules::catalogue::{BETA1, BETA2, EPSILON, MOMENTUM, WEIGHT_DECAY};
use umbo_core::optimizer::state::rows::KeptRows;
use umbo_core::optimizer::{NonFinite, Optimizer, Settings, StateBits};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{Shape, Tensor};
use umbo_core::values::variable::Variable;

use crate::allocator::{LARGE, refusing};
use crate::features::AVERAGES;
use crate::setup::*;

const RATE: f64 = 0.01;

fn eight() -> Settings {
    Settings {
        state_bits: StateBits::Eight,
        ..Settings::default()
    }
}

fn coded(rule: &str) -> Arc<Optimizer> {
    let optimizer = optimizer(rule, RATE);
    optimizer.configure(eight()).unwrap();
    optimizer
}

/// Gradients of magnitudes that differ by many powers of two, and of which some are 0.
fn gradient(step: u64, elements: usize) -> Vec<f32> {
    let number = |index: usize| {
        let drawn = (index * 7919 + step as usize * 104_729) % 1009;
        let magnitude = 2_f32.powi((index % 23) as i32 - 20);
        match index % 11 {
            0 => 0.0,
            _ => (drawn as f32 / 504.0 - 1.0) * magnitude,
        }
    };
    (0..elements).map(number).collect()
}

/// All shares of a map.
fn shares(signed: bool) -> Vec<f64> {
    let mut shares = vec![0.0, 1.0];
    for exponent in 0..7_i32 {
        let cells = 2_i32.pow(exponent as u32 + u32::from(!signed));
        for cell in 0..cells {
            let middle = 0.1 + 0.9 * (f64::from(cell) + 0.5) / f64::from(cells);
            let share = middle * 10_f64.powi(exponent - 6);
            shares.push(share);
            if signed {
                shares.push(-share);
            }
        }
    }
    shares
}

/// Asserts that a state was coded by the nearest codes, and decoded. Shares are of float32, so that
/// between two codes that are as near, either is one.
fn are_nearest(signed: bool, state: &[f32], found: &[f32], case: &str) {
    let shares = shares(signed);
    assert_eq!(state.len(), found.len());
    for (block, found) in state.chunks(256).zip(found.chunks(256)) {
        let scale = block
            .iter()
            .fold(0.0_f32, |most, value| most.max(value.abs()));
        for (value, found) in block.iter().zip(found) {
            if *value == 0.0 {
                assert_eq!(found.to_bits(), 0, "{case}");
                continue;
            }
            let share = f64::from(value / scale);
            // Where there is no sign, only 0 becomes 0.
            let possible = shares.iter().filter(|&&code| signed || code != 0.0);
            let distance = |code: &f64| (code - share).abs();
            let nearest = possible.clone().map(distance).fold(f64::INFINITY, f64::min);
            let is_near = |code: &&f64| distance(code) <= nearest + 3e-7 * share.abs();
            let mut near = possible.filter(is_near);
            assert!(
                near.any(|&code| (code as f32 * scale).to_bits() == found.to_bits()),
                "{case}: {value} became {found}"
            );
        }
    }
}

/// A training by the model.
struct Model {
    weights: Vec<f32>,
    states: Vec<Vec<f32>>,
    step: i32,
}

impl Model {
    fn update(&mut self, rule: &str, gradient: &[f32]) {
        self.step += 1;
        let correction1 = 1.0 - BETA1.powi(self.step);
        let correction2 = 1.0 - BETA2.powi(self.step);
        let rate = (RATE / correction1) as f32;
        let root = (1.0 / correction2.sqrt()) as f32;
        let kept = (1.0 - RATE * WEIGHT_DECAY) as f32;
        for (at, &g) in gradient.iter().enumerate() {
            let w = &mut self.weights[at];
            if rule == "momentum" {
                let a = &mut self.states[0][at];
                *a = MOMENTUM as f32 * *a + g;
                *w -= RATE as f32 * *a;
                continue;
            }
            let m = BETA1 as f32 * self.states[0][at] + (1.0 - BETA1) as f32 * g;
            let v = BETA2 as f32 * self.states[1][at] + (1.0 - BETA2) as f32 * (g * g);
            (self.states[0][at], self.states[1][at]) = (m, v);
            let step = rate * (m / (v.sqrt() * root + EPSILON as f32));
            *w = if rule == "adamw" {
                kept * *w - step
            } else {
                *w - step
            };
        }
    }
}

/// The powers of beta are products of the library's, and may differ by a rounding from the model's.
fn close(found: &[f32], expected: &[f32], case: &str) {
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs();
        assert!(
            difference <= 1e-6 * expected.abs() + 1e-9,
            "{case}, element {at}: {found} for {expected}"
        );
    }
}

#[test]
fn a_few_steps_are_those_of_the_model() {
    for rule in ["adam", "adamw", "momentum"] {
        for elements in [4096, 5000, 512 * 9 + 1] {
            let start = gradient(0, elements);
            let variable = variable("w", &start);
            let gradients = gradients(1, &[&variable], Sum);
            let optimizer = coded(rule);
            let slots = optimizer.slots().len();
            let mut model = Model {
                weights: start,
                states: vec![vec![0.0; elements]; slots],
                step: 0,
            };
            for number in 1..=6 {
                let data = gradient(number, elements);
                step(&gradients, number, &[Some(&data)], &[1.0]);
                apply(&optimizer, &gradients).unwrap();
                model.update(rule, &data);
                let case = format!("{rule}, {elements} elements, step {number}");
                close(&value(&variable), &model.weights, &case);
                let states = model.states.iter_mut().enumerate();
                for (slot, (index, state)) in optimizer.slots().iter().zip(states) {
                    let found = read(&optimizer.state(&variable, &slot.name).unwrap());
                    are_nearest(index == 0, state, &found, &format!("{case}, {}", slot.name));
                    *state = found;
                }
            }
        }
    }
}

/// Small variables and those of float64 have states in full, to the bit.
#[test]
fn variables_that_are_not_coded_have_states_in_full() {
    fn trained<T: umbo_core::tensor::Element>(bits: StateBits, start: &[T], data: &[T]) -> Vec<T> {
        let variable = variable("w", start);
        let gradients = gradients(1, &[&variable], Sum);
        let optimizer = optimizer("adamw", RATE);
        let settings = Settings {
            state_bits: bits,
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        for number in 1..=5 {
            step(&gradients, number, &[Some(data)], &[1.0]);
            apply(&optimizer, &gradients).unwrap();
        }
        value(&variable)
    }
    let single = |elements| {
        let [full, eight] = [StateBits::Full, StateBits::Eight]
            .map(|bits| trained(bits, &gradient(0, elements), &gradient(1, elements)));
        full == eight
    };
    assert!(single(4095));
    assert!(!single(4096));
    let double: Vec<f64> = gradient(2, 5000).into_iter().map(f64::from).collect();
    let [full, eight] =
        [StateBits::Full, StateBits::Eight].map(|bits| trained(bits, &double, &double));
    assert!(full == eight);
}

/// An element whose gradients are tiny beside others' of its block, and then end, takes no step
/// that epsilon alone bounds.
#[test]
fn what_vanishes_beside_others_takes_no_leap() {
    let variable = variable("w", &[1.0_f32; 4096]);
    let gradients = gradients(1, &[&variable], Sum);
    let optimizer = coded("adam");
    let mut data = vec![1.0_f32; 4096];
    data[7] = 3e-5;
    step(&gradients, 1, &[Some(&data)], &[1.0]);
    apply(&optimizer, &gradients).unwrap();
    data[7] = 0.0;
    for number in 2..=20 {
        let before = value::<f32>(&variable)[7];
        step(&gradients, number, &[Some(&data)], &[1.0]);
        apply(&optimizer, &gradients).unwrap();
        let moved = (value::<f32>(&variable)[7] - before).abs();
        assert!(f64::from(moved) <= 2.0 * RATE, "{moved} in step {number}");
    }
}

/// A block with a gradient that is not finite is NaN as a whole, if the program ignores it, and
/// nothing changes if it does not.
#[test]
fn what_is_not_finite_stays_in_its_block() {
    for (treatment, spoilt) in [(NonFinite::Ignore, true), (NonFinite::Skip, false)] {
        let variable = variable("w", &[1.0_f32; 4200]);
        let gradients = gradients(1, &[&variable], Sum);
        let optimizer = optimizer("adamw", RATE);
        let settings = Settings {
            non_finite: Some(treatment),
            ..eight()
        };
        optimizer.configure(settings).unwrap();
        let mut data = gradient(1, 4200);
        step(&gradients, 1, &[Some(&data)], &[1.0]);
        apply(&optimizer, &gradients).unwrap();
        let before = read::<f32>(&optimizer.state(&variable, "m").unwrap());
        data[300] = f32::INFINITY;
        step(&gradients, 2, &[Some(&data)], &[1.0]);
        apply(&optimizer, &gradients).unwrap();
        let after = read::<f32>(&optimizer.state(&variable, "m").unwrap());
        if !spoilt {
            assert_eq!(bits(&after), bits(&before));
            continue;
        }
        for (at, value) in after.iter().enumerate() {
            assert_eq!(value.is_nan(), (256..512).contains(&at), "element {at}");
        }
        let weights = value::<f32>(&variable);
        assert!(
            weights
                .iter()
                .enumerate()
                .all(|(at, it)| it.is_finite() || at == 300)
        );
    }
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    for rule in RULES {
        let optimizer = optimizer(rule, RATE);
        let is_possible = matches!(
            rule,
            "adam" | "adamw" | "momentum" | "nesterov" | "dampened"
        );
        if is_possible {
            optimizer.configure(eight()).unwrap();
            continue;
        }
        let message = refusal(optimizer.configure(eight()), Status::InvalidArgument);
        assert!(message.contains("state_bits"), "{rule}: {message}");
        assert_eq!(optimizer.settings(), Settings::default());
    }
    for (first, then, other) in [
        (eight(), Settings::default(), "state_bits: 0"),
        (Settings::default(), eight(), "state_bits: 8"),
    ] {
        let variable = variable("w", &[1.0_f32; 5000]);
        let gradients = gradients(1, &[&variable], Sum);
        let optimizer = optimizer("adam", RATE);
        optimizer.configure(first).unwrap();
        optimizer.configure(then).unwrap();
        optimizer.configure(first).unwrap();
        step(&gradients, 1, &[Some(&[0.5_f32; 5000][..])], &[1.0]);
        apply(&optimizer, &gradients).unwrap();
        let averages = Settings {
            averaging: AVERAGES[1],
            ..then
        };
        for refused in [then, averages] {
            let message = refusal(optimizer.configure(refused), Status::FailedPrecondition);
            assert!(message.contains(other), "{message}");
            assert_eq!(optimizer.settings(), first);
        }
        optimizer.configure(first).unwrap();
        step(&gradients, 2, &[Some(&[0.5_f32; 5000][..])], &[1.0]);
        apply(&optimizer, &gradients).unwrap();
    }
}

/// Rows do not divide blocks. A table that is small enough has states in full, and is updated by
/// rows.
#[test]
fn large_tables_with_row_sparse_gradients_are_refused() {
    let optimizer = coded("adam");
    let small = table("small", &[1.0_f32; 4000], 8);
    let large = table("large", &[1.0_f32; 4800], 8);
    let gradients = row_gradients(1, &[&small, &large], Sum, &[true, true], 1);
    add_rows(&gradients, 1, 0, 0, &[3], &[0.5_f32; 8]);
    submit(&gradients, 1, &[1.0]);
    gradients.commit(1);
    apply(&optimizer, &gradients).unwrap();
    assert_ne!(value::<f32>(&small)[24], 1.0);
    add_rows(&gradients, 2, 0, 0, &[3], &[0.5_f32; 8]);
    add_rows(&gradients, 2, 0, 1, &[3], &[0.5_f32; 8]);
    submit(&gradients, 2, &[1.0]);
    gradients.commit(2);
    let before = value::<f32>(&small);
    let message = refusal(apply(&optimizer, &gradients), Status::InvalidArgument);
    for part in ["'large'", "row-sparse", "8 bits", "nothing was changed"] {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
    assert_eq!(value::<f32>(&small), before);
}

/// Every allocation of a first update may be refused, and then nothing has changed.
#[test]
fn refused_memory_changes_nothing() {
    let _keeps = WORKER_COUNT.read();
    let elements = 40 * LARGE;
    let data = gradient(1, elements);
    for granted in 0..100 {
        let variable = variable("w", &vec![1.0_f32; elements]);
        let gradients = gradients(1, &[&variable], Sum);
        let optimizer = coded("adamw");
        step(&gradients, 1, &[Some(&data)], &[1.0]);
        let (refused, left) = refusing(granted, || apply(&optimizer, &gradients));
        if left != usize::MAX {
            refused.unwrap();
            assert!(granted >= 2, "{granted} requests");
            return;
        }
        // An update does without another worker.
        if refused.is_ok() {
            continue;
        }
        refusal(refused, Status::ResourceExhausted);
        assert_eq!(value::<f32>(&variable), vec![1.0; elements]);
        assert!(optimizer.state(&variable, "m").is_err());
        apply(&optimizer, &gradients).unwrap();
        let twin = coded("adamw");
        let other = self::variable("w", &vec![1.0_f32; elements]);
        let of_other = self::gradients(1, &[&other], Sum);
        step(&of_other, 1, &[Some(&data)], &[1.0]);
        apply(&twin, &of_other).unwrap();
        assert_eq!(value::<f32>(&variable), value::<f32>(&other));
    }
    panic!("memory was refused in every try");
}

fn made(strategy: &Strategy, values: &[f32], width: usize) -> Variable {
    let shape = Shape::new(&[values.len() / width, width]).unwrap();
    let value = Tensor::from_slice(values, shape, umbo_core::device::DeviceId::HOST).unwrap();
    let new = crate::fresh::new_variable("w", umbo_core::values::variable::Aggregation::None);
    let initial = umbo_core::strategy::variables::Initial::Value(&value);
    umbo_core::strategy::variables::create(Some(strategy), new, initial).unwrap()
}

/// A state that is set reads as the nearest codes, and set again as it reads it stays: the largest
/// element of a block is positive here, and has a code of its own.
#[test]
fn states_are_set_and_move_with_their_rows() {
    let strategy = Strategy::new(&Options {
        cpu_replicas: 1,
        ..Options::default()
    })
    .unwrap();
    let width = 256;
    let rows = 20;
    let variable = made(&strategy, &vec![1.0; rows * width], width);
    let optimizer = Optimizer::new(strategy.id(), rule("adamw"), RATE).unwrap();
    optimizer.configure(eight()).unwrap();
    let mut state: Vec<f32> = gradient(3, rows * width);
    for block in state.chunks_mut(256) {
        block[5] = 8.0;
    }
    let shape = variable.shape();
    let tensor = |values: &[f32]| {
        Tensor::from_slice(values, shape, umbo_core::device::DeviceId::HOST).unwrap()
    };
    let positive: Vec<f32> = state.iter().map(|value| value.abs()).collect();
    for (name, values, signed) in [("m", &state, true), ("v", &positive, false)] {
        let mut expected: Option<Vec<f32>> = None;
        for _ in 0..3 {
            let now = match optimizer.state(&variable, name) {
                Ok(state) if !read::<f32>(&state).iter().all(|&it| it == 0.0) => read(&state),
                _ => values.clone(),
            };
            optimizer.set_state(&variable, name, &tensor(&now)).unwrap();
            let found = read(&optimizer.state(&variable, name).unwrap());
            match &expected {
                Some(expected) => assert_eq!(bits(&found), bits(expected), "{name}"),
                None => are_nearest(signed, values, &found, name),
            }
            expected = Some(found);
        }
    }
    let before = read::<f32>(&optimizer.state(&variable, "v").unwrap());
    // Rows of whole blocks keep their bits; appended ones begin at 0.
    let kept: Vec<i64> = (0..rows as i64).rev().filter(|row| row % 5 != 0).collect();
    let added = Shape::new(&[3, width]).unwrap();
    let added = Tensor::zeros(
        umbo_core::tensor::DType::Float32,
        added,
        umbo_core::device::DeviceId::HOST,
    );
    let changed = optimizer
        .change_rows(&variable, KeptRows::Numbered(&kept), Some(&added.unwrap()))
        .unwrap();
    let mut expected = Vec::new();
    for &row in &kept {
        expected.extend_from_slice(&before[row as usize * width..][..width]);
    }
    expected.resize(expected.len() + 3 * width, 0.0);
    let found = read::<f32>(&optimizer.state(&changed, "v").unwrap());
    assert_eq!(bits(&found), bits(&expected));
    // With fewer elements than 4096 it is in full from now on, and with more again coded.
    let few = optimizer
        .change_rows(&changed, KeptRows::First(5), None)
        .unwrap();
    let found = read::<f32>(&optimizer.state(&few, "v").unwrap());
    assert_eq!(bits(&found), bits(&expected[..5 * width]));
}
