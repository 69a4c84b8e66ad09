//! Gradients of 16-bit floats: each counts as the number that it is, so that an update has the bits
//! that it has with the same numbers in float32.

use half::{bf16, f16};
use umbo_core::error::Status;
use umbo_core::optimizer::LossReduction::Mean;
use umbo_core::optimizer::{ApplyOptions, Gradients, GradientsOptions, NonFinite, Settings};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::tensor::{DType, Element};

use crate::features::AVERAGES;
use crate::sets::same_in_every_set;
use crate::setup::*;

/// Whole blocks, some elements more, and a table.
const ELEMENTS: usize = 16 * 9 + 5;
const ROWS: usize = 20;
const WIDTH: usize = 17;
const WEIGHTS: [f64; 3] = [3.0, 0.0, 1.0];

trait Narrow: Element {
    /// This many numbers, among them denormals and ones of either sign.
    fn numbers(count: usize, seed: usize) -> Vec<Self>;
    fn wide(self) -> f32;
}

macro_rules! narrow {
    ($($rust:ty),*) => {
        $(
            impl Narrow for $rust {
                fn numbers(count: usize, seed: usize) -> Vec<$rust> {
                    let bits = |index: usize| {
                        let number = (index * 7919 + seed * 104_729) % 1009;
                        match number % 8 {
                            0 => number as u16 % 64,
                            1 => 0x8000 | number as u16 % 64,
                            _ => <$rust>::from_f32(number as f32 / 1009.0 - 0.4).to_bits(),
                        }
                    };
                    (0..count).map(|index| <$rust>::from_bits(bits(index))).collect()
                }

                fn wide(self) -> f32 {
                    self.to_f32()
                }
            }
        )*
    };
}

narrow!(f16, bf16);

/// The bits of everything after some steps with gradients of type `G`, whose elements `as_gradient`
/// makes of the numbers of `N`.
fn trained<N: Narrow, G: Element>(
    rule: &str,
    replicas: usize,
    settings: Settings,
    as_gradient: fn(N) -> G,
) -> Vec<Vec<u32>> {
    let initial: Vec<f32> = (0..ELEMENTS.max(ROWS * WIDTH))
        .map(|i| 1.0 / (i + 3) as f32)
        .collect();
    let a = variable("a", &initial[..ELEMENTS]);
    let b = table("b", &initial[..ROWS * WIDTH], WIDTH);
    let is_row_sparse = updates_rows(rule);
    let options = GradientsOptions {
        accumulation_steps: 2,
        dtype: Some(G::DTYPE),
        row_sparse: &[false, is_row_sparse],
    };
    let variables = vec![a.clone(), b.clone()];
    let gradients = Gradients::new(STRATEGY, &devices(replicas), variables, Mean, options).unwrap();
    let optimizer = optimizer(rule, 0.1);
    optimizer.configure(settings).unwrap();
    let numbers = |count, seed| -> Vec<G> {
        N::numbers(count, seed)
            .into_iter()
            .map(as_gradient)
            .collect()
    };
    for step in 1..=6 {
        for replica in 0..replicas {
            let seed = step as usize * 31 + replica;
            overwrite(&gradients, step, replica, 0, &numbers(ELEMENTS, seed));
            if is_row_sparse {
                let named = [3, 19, 3, (seed % ROWS) as i64];
                add_rows(
                    &gradients,
                    step,
                    replica,
                    1,
                    &named,
                    &numbers(4 * WIDTH, seed),
                );
            } else {
                overwrite(&gradients, step, replica, 1, &numbers(ROWS * WIDTH, seed));
            }
        }
        submit(&gradients, step, &WEIGHTS[..replicas]);
        gradients.commit(step);
        let options = ApplyOptions {
            measure_norm: true,
            ..ApplyOptions::default()
        };
        apply_with(&optimizer, &gradients, options).unwrap();
    }
    let mut all = vec![bits(&value(&a)), bits(&value(&b))];
    for slot in &optimizer.slots() {
        all.push(bits(&read(&optimizer.state(&a, &slot.name).unwrap())));
        all.push(bits(&read(&optimizer.state(&b, &slot.name).unwrap())));
    }
    let norm = optimizer.last_report().unwrap().gradient_norm.unwrap();
    all.push(vec![norm.to_bits() as u32, (norm.to_bits() >> 32) as u32]);
    all
}

/// Returns the bits of all that was trained.
fn agree<N: Narrow>() -> Vec<u8> {
    let mut bits = Vec::new();
    let clipped = Settings {
        global_clip_norm: Some(0.5),
        weight_decay: Some(0.1),
        averaging: AVERAGES[1],
        ..Settings::default()
    };
    for rule in RULES {
        for replicas in [1, 3] {
            for settings in [Settings::default(), clipped] {
                let wide = trained::<N, f32>(rule, replicas, settings, N::wide);
                let narrow = trained::<N, N>(rule, replicas, settings, |number| number);
                assert!(
                    wide == narrow,
                    "{} {rule} {replicas} {settings:?}",
                    N::DTYPE
                );
                bits.extend(wide.iter().flatten().flat_map(|bits| bits.to_ne_bytes()));
            }
        }
    }
    bits
}

#[test]
fn narrow_gradients_count_as_the_numbers_that_they_are() {
    same_in_every_set(
        "narrow::narrow_gradients_count_as_the_numbers_that_they_are",
        || [agree::<f16>(), agree::<bf16>()].concat(),
    );
}

#[test]
fn narrow_gradients_that_are_not_finite_are_seen() {
    for value in [f16::INFINITY, f16::NAN] {
        let a = variable("a", &[1.0f32; 40]);
        let options = GradientsOptions {
            dtype: Some(DType::Float16),
            ..Default::default()
        };
        let variables = vec![a.clone()];
        let gradients = Gradients::new(STRATEGY, &devices(1), variables, Mean, options).unwrap();
        let optimizer = optimizer("sgd", 0.1);
        let settings = Settings {
            non_finite: Some(NonFinite::Fail),
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        let mut data = [f16::ONE; 40];
        data[37] = value;
        step(&gradients, 1, &[Some(&data)], &[1.0]);
        assert_eq!(
            apply(&optimizer, &gradients).unwrap_err().status(),
            Status::InvalidArgument
        );
    }
}

#[test]
fn types_that_gradients_cannot_have_are_refused() {
    let single = variable("a", &[1.0f32]);
    let double = variable("b", &[1.0f64]);
    let made = |variables: &[&_], dtype| {
        let variables = variables
            .iter()
            .map(|&variable: &&_| Clone::clone(variable))
            .collect();
        let options = GradientsOptions {
            dtype: Some(dtype),
            ..Default::default()
        };
        Gradients::new(STRATEGY, &devices(1), variables, Mean, options).map(drop)
    };
    for dtype in [DType::Float32, DType::Float16, DType::BFloat16] {
        made(&[&single], dtype).unwrap();
        let error = made(&[&single, &double], dtype).unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument);
        assert!(error.to_string().contains("variables[1] ('b')"), "{error}");
    }
    made(&[&double], DType::Float64).unwrap();
    for dtype in [DType::Float64, DType::Int8, DType::Bool] {
        assert_eq!(
            made(&[&single], dtype).unwrap_err().status(),
            Status::InvalidArgument
        );
    }
}
