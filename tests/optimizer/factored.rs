//! Adafactor: its numbers against float64, where its states are, and what it is not for.

use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::executor::workers;
use umbo_core::optimizer::LossReduction::Sum;
use umbo_core::optimizer::rules::FactoredRule;
use umbo_core::optimizer::rules::adafactor::Adafactor;
use umbo_core::optimizer::rules::catalogue::{FACTORED, OTHER_FACTORED};
use umbo_core::optimizer::{NonFinite, Optimizer, Settings, StateBits};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::tensor::{Element, Shape, Tensor};
use umbo_core::values::variable::Variable;

use crate::sets::same_in_every_set;
use crate::setup::*;

fn shaped<T: Element>(name: &str, values: &[T], sizes: &[usize]) -> Variable {
    let shape = Shape::new(sizes).unwrap();
    let value = Tensor::from_slice(values, shape, DeviceId::HOST).unwrap();
    variable_from(STRATEGY, name, value)
}

fn coarse(count: usize, seed: usize) -> Vec<f32> {
    let number = |at: usize| ((at * 7919 + seed * 104_729 + at / 7) % 127) as f32 / 16.0 - 3.9375;
    (0..count).map(number).collect()
}

/// Adafactor in float64, by its definition.
struct Oracle {
    sizes: Vec<usize>,
    weights: Vec<f64>,
    rows: Vec<f64>,
    columns: Vec<f64>,
    full: Vec<f64>,
    updates: i32,
}

fn size_of_all(values: &[f64]) -> f64 {
    (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
}

impl Oracle {
    fn new(sizes: &[usize], weights: Vec<f64>) -> Oracle {
        let factors = match *sizes {
            [.., rows, columns] => [weights.len() / columns, weights.len() / rows],
            _ => [0, 0],
        };
        Oracle {
            sizes: sizes.to_vec(),
            rows: vec![0.0; factors[0]],
            columns: vec![0.0; factors[1]],
            full: vec![0.0; weights.len()],
            weights,
            updates: 0,
        }
    }

    fn update(&mut self, gradient: &[f64], numbers: FactoredRule, epsilon: f64, decay: f64) {
        self.updates += 1;
        let share = f64::from(self.updates).powf(numbers.beta2_decay);
        let epsilon = numbers.epsilon1.unwrap_or(epsilon);
        let squares: Vec<f64> = gradient.iter().map(|g| g * g).collect();
        let mut moments = Vec::new();
        if let [.., rows, columns] = *self.sizes {
            for (row, moment) in self.rows.iter_mut().enumerate() {
                let of_row = &squares[row * columns..][..columns];
                let mean = of_row.iter().sum::<f64>() / columns as f64;
                *moment += share * (mean - *moment);
            }
            for (at, moment) in self.columns.iter_mut().enumerate() {
                let first = at / columns * rows * columns + at % columns;
                let of_column = (0..rows).map(|row| squares[first + row * columns]);
                let mean = of_column.sum::<f64>() / rows as f64;
                *moment += share * (mean - *moment);
            }
            let matrices = self.rows.chunks(rows.max(1));
            let means: Vec<f64> = matrices
                .map(|matrix| matrix.iter().sum::<f64>() / rows as f64)
                .collect();
            for at in 0..gradient.len() {
                let row = at / columns;
                let matrix = row / rows;
                let column = self.columns[matrix * columns + at % columns];
                moments.push(self.rows[row] * column / means[matrix].max(epsilon));
            }
        } else {
            for (moment, square) in self.full.iter_mut().zip(squares) {
                *moment += share * (square - *moment);
            }
            moments = self.full.clone();
        }
        let both = gradient.iter().zip(moments);
        let step: Vec<f64> = both
            .map(|(g, moment)| g / moment.max(epsilon * epsilon).sqrt())
            .collect();
        let rate = RATE.min(1.0 / f64::from(self.updates).sqrt());
        let length = size_of_all(&self.weights).max(numbers.epsilon2) * rate;
        let rate = length / (size_of_all(&step) / numbers.clip_threshold).max(1.0);
        for (w, u) in self.weights.iter_mut().zip(step) {
            *w = (1.0 - RATE * decay) * *w - rate * u;
        }
    }
}

const RATE: f64 = 0.15;

/// A type of weights.
trait Number: Element {
    /// How far the numbers may be from those of the oracle.
    const BOUND: f64;
    /// The distance from 1 to the next number.
    const EPSILON: f64;
    fn of_f32(number: f32) -> Self;
    fn to_f64(self) -> f64;
}

impl Number for f32 {
    const BOUND: f64 = 2e-5;
    const EPSILON: f64 = f32::EPSILON as f64;

    fn of_f32(number: f32) -> f32 {
        number
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Number for f64 {
    const BOUND: f64 = 1e-12;
    const EPSILON: f64 = f64::EPSILON;

    fn of_f32(number: f32) -> f64 {
        number.into()
    }

    fn to_f64(self) -> f64 {
        self
    }
}

/// A variable after some steps, beside the oracle. Returns the bits.
fn compared<T: Number>(
    sizes: &[usize],
    steps: usize,
    (numbers, decay): (FactoredRule, f64),
) -> Vec<u8> {
    let count: usize = sizes.iter().product();
    let typed = |values: &[f32]| -> Vec<T> { values.iter().copied().map(T::of_f32).collect() };
    let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|&x| x.into()).collect() };
    let start = coarse(count, 0);
    let variable = shaped("w", &typed(&start), sizes);
    let gradients = gradients(1, &[&variable], Sum);
    let rule = Adafactor::new(numbers, decay).unwrap();
    let optimizer = Optimizer::new(STRATEGY, Box::new(rule), RATE).unwrap();
    let mut oracle = Oracle::new(sizes, wide(&start));
    for number in 1..=steps {
        // Of several sizes, and some of them 0.
        let factor = [1.0, 2f32.powi(-20), 32.0, 0.0][number % 4];
        let gradient = coarse(count, number);
        let gradient: Vec<f32> = gradient.iter().map(|x| x * factor).collect();
        step(
            &gradients,
            number as u64,
            &[Some(&typed(&gradient))],
            &[1.0],
        );
        apply(&optimizer, &gradients).unwrap();
        oracle.update(&wide(&gradient), numbers, T::EPSILON, decay);
    }
    let close = |found: &[T], expected: &[f64]| {
        assert_eq!(found.len(), expected.len());
        for (&found, expected) in found.iter().zip(expected) {
            let found = found.to_f64();
            let distance = (found - expected).abs();
            let allowed = T::BOUND * expected.abs().max(1.0);
            assert!(distance <= allowed, "{sizes:?}: {found} {expected}");
        }
    };
    let found: Vec<T> = value(&variable);
    close(&found, &oracle.weights);
    let expected = match sizes.len() {
        ..2 => vec![("v", &oracle.full)],
        _ => vec![("v_row", &oracle.rows), ("v_column", &oracle.columns)],
    };
    for (name, expected) in expected {
        close(&read(&optimizer.state(&variable, name).unwrap()), expected);
    }
    let bits = found.into_iter().map(|x| x.to_f64().to_bits());
    bits.flat_map(u64::to_ne_bytes).collect()
}

fn compared_as_both(sizes: &[usize], steps: usize, rule: (FactoredRule, f64)) -> Vec<u8> {
    let mut all = compared::<f32>(sizes, steps, rule);
    all.extend(compared::<f64>(sizes, steps, rule));
    all
}

#[test]
fn a_hundred_steps_are_those_of_float64() {
    let shapes: [&[usize]; 9] = [
        &[5, 3],
        &[3, 17],
        &[1, 4],
        &[40, 1],
        &[7],
        &[],
        &[2, 3, 4],
        &[2, 1, 3, 600],
        &[30, 18],
    ];
    for sizes in shapes {
        for rule in [(FACTORED, 0.1), (OTHER_FACTORED, 0.0)] {
            compared_as_both(sizes, 100, rule);
        }
    }
}

/// Of several blocks, whose rows are shorter and longer than a tile.
#[test]
fn workers_and_instructions_change_no_bit_of_large_variables() {
    let shapes: [&[usize]; 5] = [
        &[300, 700],
        &[40, 5000],
        &[2, 70_000, 2],
        &[200_000],
        &[3, 50_001],
    ];
    let all = || -> Vec<u8> {
        let all = shapes.map(|sizes| compared_as_both(sizes, 3, (FACTORED, 0.1)));
        all.concat()
    };
    same_in_every_set(
        "factored::workers_and_instructions_change_no_bit_of_large_variables",
        || {
            // So that several take part in what several could.
            workers::fix_costs(Some(workers::Costs::NONE));
            workers::set_count(1).unwrap();
            let expected = all();
            for count in [2, 5] {
                workers::set_count(count).unwrap();
                assert!(all() == expected, "{count}");
            }
            expected
        },
    );
}

#[test]
fn states_have_the_shapes_of_rows_and_columns() {
    let matrices = shaped("matrices", &[0.5f32; 24], &[2, 3, 4]);
    let bias = variable("bias", &[0.5f32; 3]);
    let both = gradients(1, &[&matrices, &bias], Sum);
    let adafactor = optimizer("adafactor", 0.1);
    overwrite(&both, 1, 0, 0, &coarse(24, 1));
    overwrite(&both, 1, 0, 1, &coarse(3, 2));
    submit(&both, 1, &[1.0]);
    both.commit(1);
    apply(&adafactor, &both).unwrap();
    let shape = |variable, name| {
        adafactor
            .state(variable, name)
            .map(|it| it.shape().to_vec())
    };
    assert_eq!(shape(&matrices, "v_row").unwrap(), [2, 3]);
    assert_eq!(shape(&matrices, "v_column").unwrap(), [2, 4]);
    assert_eq!(shape(&bias, "v").unwrap(), [3]);
    for (variable, wrong, kept) in [
        (&matrices, "v", "v_row, v_column"),
        (&bias, "v_row", "keeps v"),
        (&bias, "v_column", "keeps v"),
        (&bias, "m", "v, v_row, v_column"),
    ] {
        let message = refusal(shape(variable, wrong), Status::NotFound);
        assert!(message.contains(kept), "{message}");
    }
    let new = Tensor::from_slice(&[1.0f32; 6], Shape::new(&[2, 3]).unwrap(), DeviceId::HOST);
    let new = new.unwrap();
    let wrong = adafactor.set_state(&matrices, "v_column", &new);
    let message = refusal(wrong, Status::InvalidArgument);
    assert!(message.contains("[2, 4]"), "{message}");
}

#[test]
fn rows_and_states_of_8_bits_are_refused() {
    let rows = table("rows", &[0.0f32; 8], 2);
    let sparse = row_gradients(1, &[&rows], Sum, &[true], 1);
    add_rows(&sparse, 1, 0, 0, &[1], &[1.0f32, 2.0]);
    submit(&sparse, 1, &[1.0]);
    sparse.commit(1);
    let adafactor = optimizer("adafactor", 0.1);
    let message = refusal(apply(&adafactor, &sparse), Status::InvalidArgument);
    assert!(message.contains("'rows'"), "{message}");
    assert!(message.contains("row-sparse"), "{message}");
    let coded = Settings {
        state_bits: StateBits::Eight,
        ..Settings::default()
    };
    let message = refusal(adafactor.configure(coded), Status::InvalidArgument);
    for part in ["state_bits", "each row and column"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn wrong_numbers_are_refused_by_name() {
    let wrong = [
        (
            "beta2_decay",
            FactoredRule {
                beta2_decay: 0.5,
                ..FACTORED
            },
        ),
        (
            "clip_threshold",
            FactoredRule {
                clip_threshold: 0.5,
                ..FACTORED
            },
        ),
        (
            "epsilon1",
            FactoredRule {
                epsilon1: Some(1e-30),
                ..FACTORED
            },
        ),
        (
            "epsilon1",
            FactoredRule {
                epsilon1: Some(-1.0),
                ..FACTORED
            },
        ),
        (
            "epsilon2",
            FactoredRule {
                epsilon2: f64::NAN,
                ..FACTORED
            },
        ),
    ];
    for (name, numbers) in wrong {
        let refused = Adafactor::new(numbers, 0.0).map(drop);
        assert!(refusal(refused, Status::InvalidArgument).contains(name));
    }
    let refused = Adafactor::new(FACTORED, -1.0).map(drop);
    assert!(refusal(refused, Status::InvalidArgument).contains("weight_decay"));
}

/// Weights and states stay finite where the square of a gradient is not.
#[test]
fn large_gradients_leave_numbers_finite() {
    for sizes in [&[2, 3][..], &[6]] {
        let variables = [
            shaped("narrow", &[0.5f32; 6], sizes),
            shaped("wide", &[0.5f64; 6], sizes),
        ];
        let gradients = gradients(1, &[&variables[0], &variables[1]], Sum);
        let adafactor = optimizer("adafactor", 0.1);
        for number in 1..=3 {
            let mut narrow = [1.0f32; 6];
            let mut wide = [1.0f64; 6];
            if number < 3 {
                narrow[1] = 1e30;
                wide[1] = -1e300;
            }
            overwrite(&gradients, number, 0, 0, &narrow);
            overwrite(&gradients, number, 0, 1, &wide);
            submit(&gradients, number, &[1.0]);
            gradients.commit(number);
            apply(&adafactor, &gradients).unwrap();
            let narrow: Vec<f32> = value(&variables[0]);
            let wide: Vec<f64> = value(&variables[1]);
            assert!(narrow.iter().all(|x| x.is_finite()), "{number} {narrow:?}");
            assert!(wide.iter().all(|x| x.is_finite()), "{number} {wide:?}");
        }
        for slot in &adafactor.slots() {
            let Ok(state) = adafactor.state(&variables[0], &slot.name) else {
                continue;
            };
            assert!(read::<f32>(&state).iter().all(|x| x.is_finite()));
        }
    }
}

/// A gradient that is not finite is applied, skipped or refused, as it is said, and reported. If it
/// is applied, every weight is NaN, as in PyTorch: each step depends on all moments.
#[test]
fn gradients_that_are_not_finite_are_reported() {
    for choice in [NonFinite::Ignore, NonFinite::Skip, NonFinite::Fail] {
        let kernel = shaped("kernel", &[0.5f32; 6], &[2, 3]);
        let gradients = gradients(1, &[&kernel], Sum);
        let adafactor = optimizer("adafactor", 0.1);
        let settings = Settings {
            non_finite: Some(choice),
            ..Settings::default()
        };
        adafactor.configure(settings).unwrap();
        let gradient = [1.0, f32::NAN, 0.0, 0.0, 1.0, 0.0];
        step(&gradients, 1, &[Some(&gradient)], &[1.0]);
        let applied = apply(&adafactor, &gradients);
        match choice {
            NonFinite::Fail => drop(refusal(applied, Status::InvalidArgument)),
            _ => {
                let named = applied.unwrap().non_finite.unwrap();
                assert_eq!(named.name().as_str(), "kernel");
            }
        }
        let weights = value::<f32>(&kernel);
        match choice {
            NonFinite::Ignore => assert!(weights.iter().all(|x| x.is_nan()), "{weights:?}"),
            _ => assert_eq!(weights, [0.5; 6]),
        }
    }
}

#[test]
fn gradients_of_zeros_and_empty_variables_only_decay() {
    let zeros = shaped("zeros", &[0.5f32; 6], &[3, 2]);
    let empty = shaped::<f32>("empty", &[], &[0, 2]);
    let flat = shaped::<f32>("flat", &[], &[3, 0]);
    let none = shaped::<f32>("none", &[], &[0]);
    let gradients = gradients(1, &[&empty, &zeros, &flat, &none], Sum);
    for index in [0, 2, 3] {
        overwrite::<f32>(&gradients, 1, 0, index, &[]);
    }
    overwrite(&gradients, 1, 0, 1, &[0.0f32; 6]);
    submit(&gradients, 1, &[1.0]);
    gradients.commit(1);
    let adafactor = optimizer("adafactor", 0.5);
    apply(&adafactor, &gradients).unwrap();
    assert_eq!(
        value::<f32>(&zeros),
        [0.5 * (1.0 - 0.5 * WEIGHT_DECAY as f32); 6]
    );
    let rows: Vec<f32> = read(&adafactor.state(&flat, "v_row").unwrap());
    assert_eq!(rows, [0.0; 3]);
}
