//! Every rule with every feature, against plain float64 code that updates all elements, or the rows
//! that were named and no others; and rows against dense gradients, to the bit.

use std::sync::Arc;

use umbo_core::optimizer::LossReduction::{GlobalMean, Mean, Sum};
use umbo_core::optimizer::{
    ApplyOptions, ApplyReport, Gradients, LossScaling, Optimizer, Settings,
};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::tensor::Element;
use umbo_core::values::variable::Variable;

use crate::features::*;
use crate::pairwise::pairwise;
use crate::plain::{Noise, Plain};
use crate::setup::*;

const NAMES: [&str; 4] = ["factors", "bias", "kernel", "frozen"];
/// Rows and the elements of one.
const SHAPES: [(usize, usize); 4] = [(7, 19), (5, 1), (1, 6), (3, 2)];
const ROW_SPARSE: [bool; 4] = [true, true, false, true];
/// The rules that can update some rows without the others.
fn elementwise() -> impl Iterator<Item = &'static str> {
    RULES.into_iter().filter(|&rule| updates_rows(rule))
}

/// Each two choices meet.
fn cases() -> Vec<Features> {
    let scalings = [None, Some(LossScaling::Fixed(32.0)), Some(DYNAMIC)];
    let choices = [
        RULES.len(),
        CLIPPING.len(),
        scalings.len(),
        3,
        3,
        3,
        2,
        2,
        AVERAGES.len(),
    ];
    let case = |choice: Vec<usize>| Features {
        rule: RULES[choice[0]],
        global_clip_norm: CLIPPING[choice[1]].0,
        clip_value: CLIPPING[choice[1]].1,
        scaling: scalings[choice[2]],
        replicas: 1 + choice[3],
        reduction: [Sum, Mean, GlobalMean][choice[4]],
        accumulation: 1 + choice[5],
        overflow: choice[6] == 1,
        groups: choice[7] == 1,
        averaging: AVERAGES[choice[8]],
        rows: false,
    };
    let dense = pairwise(&choices).into_iter().map(case);
    let both = dense.flat_map(|dense| {
        [
            dense,
            Features {
                rows: true,
                ..dense
            },
        ]
    });
    both.filter(|case| !case.rows || updates_rows(case.rule))
        .collect()
}

struct Trained {
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Trained {
    fn new<T: Element>(case: &Features, start: &[Vec<f64>], convert: fn(f64) -> T) -> Trained {
        let parts = NAMES.iter().zip(start).zip(SHAPES);
        let variables: Vec<Variable> = parts
            .map(|((name, values), (_, width))| {
                let values: Vec<T> = values.iter().map(|&value| convert(value)).collect();
                // The bias has one dimension.
                if width == 1 {
                    variable(name, &values)
                } else {
                    table(name, &values, width)
                }
            })
            .collect();
        let all: Vec<&Variable> = variables.iter().collect();
        let steps = case.accumulation as u64;
        let row_sparse = ROW_SPARSE.map(|of_rows| of_rows && case.rows);
        let gradients = row_gradients(case.replicas, &all, case.reduction, &row_sparse, steps);
        let optimizer = case.optimizer(&variables, &variables[3..]);
        Trained {
            variables,
            gradients,
            optimizer,
        }
    }
}

/// The sum over a window's examples of what they contribute to a variable, and which rows they
/// name.
#[derive(Clone)]
struct Sums {
    elements: Vec<f64>,
    touched: Vec<bool>,
    /// Replicas contributed, if only 0 rows.
    written: bool,
}

fn no_sums() -> Vec<Sums> {
    let sums = |&(rows, width): &(usize, usize)| Sums {
        elements: vec![0.0; rows * width],
        touched: vec![false; rows],
        written: false,
    };
    SHAPES.iter().map(sums).collect()
}

/// What one example contributes: for each variable a row and its gradient.
fn example(noise: &mut Noise) -> Vec<(usize, Vec<f64>)> {
    let row = |rows: usize, noise: &mut Noise| ((noise.next() + 1.0) / 2.0 * rows as f64) as usize;
    SHAPES
        .iter()
        .map(|&(rows, width)| (row(rows, noise), noise.take(width)))
        .collect()
}

/// What is left out of run `number`: nobody adds to the bias; or all add no rows to it.
fn is_silent(number: usize) -> bool {
    number % 5 == 3
}

fn is_without_rows(number: usize) -> bool {
    number == 9
}

/// One replica's part of a run, in two calls for each table.
fn contribute<T: Element>(
    trained: &Trained,
    rows: bool,
    step: u64,
    replica: usize,
    examples: &[Vec<(usize, Vec<f64>)>],
    convert: impl Fn(f64) -> T,
) {
    let number = step as usize - 1;
    for (index, is_row_sparse) in ROW_SPARSE.into_iter().enumerate() {
        if index == BIAS && is_silent(number) {
            continue;
        }
        let none = index == BIAS && is_without_rows(number);
        let examples = if none { &[] } else { examples };
        if !(is_row_sparse && rows) {
            let (rows, width) = SHAPES[index];
            let mut sum = vec![0.0; rows * width];
            for (row, values) in examples.iter().map(|example| &example[index]) {
                match sum.get_mut(row.saturating_mul(width)..) {
                    Some(of_row) => of_row.iter_mut().zip(values).for_each(|(sum, v)| *sum += v),
                    None => sum.fill(f64::NAN),
                }
            }
            let written: Vec<T> = sum.into_iter().map(&convert).collect();
            overwrite(&trained.gradients, step, replica, index, &written);
            continue;
        }
        for part in [
            &examples[..examples.len() / 2],
            &examples[examples.len() / 2..],
        ] {
            let rows: Vec<i64> = part.iter().map(|example| example[index].0 as i64).collect();
            let values = part.iter().flat_map(|example| &example[index].1);
            let values: Vec<T> = values.map(|&value| convert(value)).collect();
            add_rows(&trained.gradients, step, replica, index, &rows, &values);
        }
    }
}

/// The update of one window; returns whether gradients were clipped.
fn descend(
    case: &Features,
    plain: &mut [Plain],
    sums: &[Sums],
    examples: usize,
    iterations: u64,
    report: &ApplyReport,
) -> bool {
    let updated = || (0..3).filter(|&index| sums[index].written);
    let mean = |index: usize| sums[index].elements.iter().map(|sum| sum / examples as f64);
    let factor = case.clip_factor(updated().flat_map(mean), report);
    assert_eq!(report.variables_updated, updated().count());
    for index in updated() {
        let gradient = case.clipped(mean(index), factor);
        let (learning_rate, decay) = case.rates(index, iterations, report);
        let is_touched = |element: usize| sums[index].touched[element / SHAPES[index].1];
        plain[index].update_where(is_touched, &gradient, learning_rate, decay);
        plain[index].average(case.averaging);
    }
    factor < 1.0
}

/// Trains; returns in how many windows gradients were clipped, and how many updates there were.
fn check<T: Element>(
    case: Features,
    convert: fn(f64) -> T,
    back: fn(T) -> f64,
    tolerance: f64,
) -> (usize, u64) {
    let mut noise = Noise(3);
    let start: Vec<Vec<f64>> = SHAPES
        .iter()
        .map(|&(rows, width)| {
            noise
                .take(rows * width)
                .into_iter()
                .map(|value| back(convert(value)))
                .collect()
        })
        .collect();
    let trained = Trained::new(&case, &start, convert);
    let mut plain: Vec<Plain> = start
        .iter()
        .map(|start| Plain::new(case.rule, start))
        .collect();
    let mut sums = no_sums();
    let mut examples = 0;
    let mut overflowed = false;
    let mut clips = 0;
    let mut iterations = 0;
    let mut scale = case.scaling.map_or(1.0, LossScaling::initial);
    let mut applies_at_scale = 0;
    for (number, &batch) in BATCHES.iter().enumerate() {
        let step = number as u64 + 1;
        let window = case.window(number);
        trained.gradients.try_begin_step(step);
        let sizes = split(batch, case.replicas);
        for (replica, &size) in sizes.iter().enumerate() {
            let mut drawn: Vec<_> = (0..size).map(|_| example(&mut noise)).collect();
            let divisor = case.divisor(size, window);
            for example in &drawn {
                for (index, (row, values)) in example.iter().enumerate() {
                    let sum_of_variable = &mut sums[index];
                    if index == BIAS && is_silent(number) {
                        continue;
                    }
                    sum_of_variable.written = true;
                    if !(case.rows && ROW_SPARSE[index]) {
                        sum_of_variable.touched.fill(true);
                    }
                    if index == BIAS && is_without_rows(number) {
                        continue;
                    }
                    sum_of_variable.touched[*row] = true;
                    let width = SHAPES[index].1;
                    let sum = &mut sum_of_variable.elements[row * width..][..width];
                    sum.iter_mut()
                        .zip(values)
                        .for_each(|(sum, value)| *sum += value);
                }
            }
            if case.overflow && number == OVERFLOWING && replica == 0 {
                drawn[0][BIAS].1[0] = f64::INFINITY;
                overflowed = true;
            }
            if size == 0 {
                // An empty replica writes nonsense, which must not be read.
                drawn.push(vec![(usize::MAX >> 1, vec![f64::NAN; 19]); 4]);
                for (values, (_, width)) in drawn[0].iter_mut().zip(SHAPES) {
                    values.1.truncate(width);
                }
            }
            let written = |value: f64| convert(value / divisor * scale);
            contribute(&trained, case.rows, step, replica, &drawn, written);
        }
        examples += batch;
        let weights: Vec<f64> = sizes.iter().map(|&size| size as f64).collect();
        submit(&trained.gradients, step, &weights);
        trained.gradients.commit(step);
        let report = apply(&trained.optimizer, &trained.gradients).unwrap();
        if (number + 1) % case.accumulation != 0 {
            assert!(!report.applied && report.accumulated_runs > 0);
            continue;
        }
        assert_eq!(
            (report.total_weight, report.skipped),
            (examples as f64, overflowed)
        );
        let named = report
            .non_finite
            .as_ref()
            .map(|variable| variable.name().to_owned());
        assert_eq!(named.as_deref(), overflowed.then_some(NAMES[BIAS]));
        if overflowed {
            applies_at_scale = 0;
            if let Some(LossScaling::Dynamic {
                backoff_factor,
                minimum,
                ..
            }) = case.scaling
            {
                scale = (scale * backoff_factor).max(minimum);
            }
        } else if examples > 0 {
            let clipped = descend(&case, &mut plain, &sums, examples, iterations, &report);
            clips += usize::from(clipped);
            iterations += 1;
            applies_at_scale += 1;
            if let Some(LossScaling::Dynamic {
                growth_factor,
                growth_interval,
                ..
            }) = case.scaling
                && applies_at_scale == growth_interval
            {
                (scale, applies_at_scale) = (scale * growth_factor, 0);
            }
        } else {
            assert!(!report.applied);
        }
        assert_eq!((report.iterations, report.loss_scale), (iterations, scale));
        (sums, examples, overflowed) = (no_sums(), 0, false);
    }
    for (index, variable) in trained.variables.iter().enumerate() {
        let close = |quantity: &str, ours: Vec<T>, theirs: &[f64]| {
            for (&ours, &theirs) in ours.iter().zip(theirs) {
                let difference = (back(ours) - theirs).abs();
                let context = format!(
                    "{quantity} of {}: {ours:?} for {theirs}; {case:?}",
                    NAMES[index]
                );
                assert!(difference <= tolerance * theirs.abs().max(1.0), "{context}");
            }
        };
        close("weights", value(variable), &plain[index].weights);
        if index < 3 {
            for (name, state) in plain[index]
                .state_names()
                .into_iter()
                .zip(&plain[index].state)
            {
                close(
                    name,
                    read(&trained.optimizer.state(variable, name).unwrap()),
                    state,
                );
            }
            if case.averaging.is_some() {
                let average = trained.optimizer.state(variable, "average").unwrap();
                close("average", read(&average), &plain[index].average);
            }
        }
    }
    (clips, iterations)
}

#[test]
fn every_rule_with_every_feature() {
    let mut clips = 0;
    let mut updates = 0;
    for case in cases() {
        let of_case = check::<f64>(case, |value| value, |value| value, 1e-11);
        check::<f32>(case, |value| value as f32, f64::from, 4e-5);
        assert_eq!(of_case.0 > 0, case.global_clip_norm.is_some(), "{case:?}");
        if case.global_clip_norm.is_some() {
            clips += of_case.0 as u64;
            updates += of_case.1;
        }
    }
    // Some gradients are clipped and some are not.
    assert!(0 < clips && clips < updates);
}

/// Four steps of two replicas, which contribute to all rows of a table: as rows, in any order, or
/// as a dense gradient.
fn trained_on_all_rows<T: Element>(
    rule: &str,
    accumulation: u64,
    clipped: bool,
    as_rows: bool,
    convert: fn(f64) -> T,
) -> Vec<T> {
    const ROWS: usize = 11;
    const WIDTH: usize = 537;
    let mut noise = Noise(5);
    let mut numbers = |count: usize| {
        noise
            .take(count)
            .into_iter()
            .map(convert)
            .collect::<Vec<T>>()
    };
    let variable = table("w", &numbers(ROWS * WIDTH), WIDTH);
    let gradients = row_gradients(2, &[&variable], Mean, &[as_rows], accumulation);
    let optimizer = optimizer(rule, 0.1);
    let settings = Settings {
        weight_decay: Some(0.1),
        global_clip_norm: clipped.then_some(0.5),
        clip_value: clipped.then_some(0.05),
        ..Settings::default()
    };
    optimizer.configure(settings).unwrap();
    for step in 1..=4 {
        for replica in 0..2 {
            let values = numbers(ROWS * WIDTH);
            if !as_rows {
                overwrite(&gradients, step, replica, 0, &values);
                continue;
            }
            let order: Vec<usize> = (0..ROWS)
                .map(|row| (row * 31 + replica * 7) % ROWS)
                .collect();
            let rows = order
                .iter()
                .flat_map(|row| values[row * WIDTH..][..WIDTH].to_vec());
            let rows: Vec<T> = rows.collect();
            let indices: Vec<i64> = order.iter().map(|&row| row as i64).collect();
            add_rows(&gradients, step, replica, 0, &indices, &rows);
        }
        submit(&gradients, step, &[3.0, 1.5]);
        gradients.commit(step);
        apply(&optimizer, &gradients).unwrap();
    }
    value(&variable)
}

/// Also where rows are longer than what is added up at once.
#[test]
fn all_rows_have_the_bits_of_a_dense_gradient() {
    let ways = [(1, false), (1, true), (2, false), (2, true), (4, true)];
    for (number, rule) in elementwise().enumerate() {
        for (way, (accumulation, clipped)) in ways.into_iter().enumerate() {
            let [rows, dense] = [true, false].map(|as_rows| match (number + way) % 2 {
                0 => trained_on_all_rows(rule, accumulation, clipped, as_rows, |it| it)
                    .into_iter()
                    .map(f64::to_bits)
                    .collect(),
                _ => {
                    let convert = |it| it as f32;
                    let values = trained_on_all_rows(rule, accumulation, clipped, as_rows, convert);
                    bits(&values).into_iter().map(u64::from).collect::<Vec<_>>()
                }
            });
            assert!(rows == dense, "{rule}");
        }
    }
}

/// 1e8 + 1 − 1e8 + 1 is 1 in float32 and 2 in truth.
#[test]
fn duplicates_are_added_up_in_float64() {
    let variable = table("w", &[0.0f32; 6], 2);
    let gradients = row_gradients(2, &[&variable], GlobalMean, &[true], 1);
    let values = [1e8f32, 1e8, 1.0, 1.0, -1e8, -1e8];
    add_rows(&gradients, 1, 0, 0, &[1, 1, 1], &values);
    add_rows(&gradients, 1, 1, 0, &[1], &[1.0f32; 2]);
    submit(&gradients, 1, &[1.0; 2]);
    gradients.commit(1);
    apply(&optimizer("sgd", 1.0), &gradients).unwrap();
    assert_eq!(value::<f32>(&variable), [0.0, 0.0, -2.0, -2.0, 0.0, 0.0]);
}

/// Training on 30 examples a step, split into parts of these sizes, one for each replica. What is
/// measured is added up before the update; otherwise the update adds up.
fn trained_in_parts(rule: &str, sizes: &[usize], accumulation: u64, measured: bool) -> Vec<u32> {
    const ROWS: usize = 5;
    const WIDTH: usize = 18;
    let mut noise = Noise(11);
    let mut numbers = |count: usize| {
        noise
            .take(count)
            .into_iter()
            .map(|v| v as f32)
            .collect::<Vec<f32>>()
    };
    let variable = table("w", &numbers(ROWS * WIDTH), WIDTH);
    let gradients = row_gradients(sizes.len(), &[&variable], Sum, &[true], accumulation);
    let optimizer = optimizer(rule, 0.1);
    for step in 1..=4 {
        let values = numbers(30 * WIDTH);
        let mut first = 0;
        for (replica, &size) in sizes.iter().enumerate() {
            let examples = first..first + size;
            let indices: Vec<i64> = examples
                .clone()
                .map(|example| (example * example % ROWS) as i64)
                .collect();
            let values = &values[examples.start * WIDTH..examples.end * WIDTH];
            add_rows(&gradients, step, replica, 0, &indices, values);
            first += size;
        }
        let weights: Vec<f64> = sizes.iter().map(|&size| size as f64).collect();
        submit(&gradients, step, &weights);
        gradients.commit(step);
        let options = ApplyOptions {
            measure_norm: measured,
            ..ApplyOptions::default()
        };
        apply_with(&optimizer, &gradients, options).unwrap();
    }
    bits(&value(&variable))
}

/// Of sums over examples: the additions are those of one replica, in the same order, so that their
/// rounding is the same, too.
#[test]
fn replicas_change_no_bit() {
    for rule in elementwise() {
        let one = trained_in_parts(rule, &[30], 1, false);
        for sizes in [
            &[17, 13][..],
            &[1, 0, 29],
            &[6, 6, 6, 6, 6],
            &[3, 1, 11, 2, 13, 0, 0, 0, 0],
        ] {
            let parts = trained_in_parts(rule, sizes, 1, false);
            assert!(parts == one, "{rule} {sizes:?}");
        }
    }
}

/// The sums that an update makes on its way are those that are written for a norm.
#[test]
fn measuring_changes_no_bit() {
    for rule in elementwise() {
        for (sizes, accumulation) in [(&[30][..], 1), (&[17, 0, 13], 1), (&[3, 27], 2)] {
            let [plain, measured] =
                [false, true].map(|measured| trained_in_parts(rule, sizes, accumulation, measured));
            assert!(plain == measured, "{rule} {sizes:?}");
        }
    }
}
