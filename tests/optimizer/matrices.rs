//! Muon: its numbers against float64, and what it is not for. For all rules that update variables
//! in host memory alone, as Adafactor does: replicas, averages, copies, and refused memory.

use half::f16;
use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::optimizer::LossReduction::{self, GlobalMean, Mean, Sum};
use umbo_core::optimizer::rules::StepScale;
use umbo_core::optimizer::rules::catalogue::{self, NamedRule};
use umbo_core::optimizer::rules::muon::Muon;
use umbo_core::optimizer::{
    ApplyOptions, Gradients, GradientsOptions, LossScaling, NonFinite, Optimizer, Settings,
    VariableGroup,
};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::tensor::{DType, Element, Shape, Tensor};
use umbo_core::values::variable::Variable;

use crate::allocator::refusing;
use crate::copies::{are_current, make_copies};
use crate::features::{AVERAGES, CLIPPING, DYNAMIC};
use crate::pairwise::pairwise;
use crate::sets::same_in_every_set;
use crate::setup::*;

const SHAPES: [[usize; 2]; 6] = [[5, 3], [3, 17], [8, 8], [1, 4], [40, 1], [30, 18]];

fn shape(sizes: &[usize]) -> Shape {
    Shape::new(sizes).unwrap()
}

fn matrix<T: Element>(name: &str, values: &[T], sizes: &[usize]) -> Variable {
    let value = Tensor::from_slice(values, shape(sizes), DeviceId::HOST).unwrap();
    variable_from(STRATEGY, name, value)
}

/// Numbers of few bits, so that sums of them are exact.
fn coarse(count: usize, seed: usize) -> Vec<f32> {
    let number = |at: usize| ((at * 7919 + seed * 104_729 + at / 7) % 127) as f32 / 16.0 - 3.9375;
    (0..count).map(number).collect()
}

/// The shapes of the variables of a rule: of others than matrices, if it is not for these alone.
fn shapes(rule: &str) -> Vec<&'static [usize]> {
    let others: [&[usize]; 4] = [&[70], &[2, 5, 7], &[], &[1, 600]];
    let is_for_matrices = self::rule(rule).matrix_rule().is_some();
    let others = others.into_iter().filter(|_| !is_for_matrices);
    SHAPES
        .iter()
        .map(|sizes| &sizes[..])
        .chain(others)
        .collect()
}

fn starts(rule: &str) -> Vec<Variable> {
    let start = |(at, sizes): (usize, &[usize])| {
        let values: Vec<f32> = coarse(sizes.iter().product(), at)
            .iter()
            .map(|value| value / 8.0)
            .collect();
        matrix(&format!("m{at}"), &values, sizes)
    };
    shapes(rule).into_iter().enumerate().map(start).collect()
}

/// Muon in float64, by its definition.
struct Oracle {
    rows: usize,
    columns: usize,
    weights: Vec<f64>,
    momentum: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Numbers {
    momentum: f64,
    nesterov: bool,
    decay: f64,
    scale: StepScale,
}

const RATE: f64 = 1e-3;

impl Numbers {
    fn rule(self) -> Muon {
        let rule = Muon::new(self.momentum, self.decay, 1e-7).unwrap();
        rule.nesterov(self.nesterov).scaled(self.scale)
    }
}

fn product(left: &[f64], right: &[f64], rows: usize) -> Vec<f64> {
    let depth = left.len() / rows;
    let columns = right.len() / depth;
    let one = |at: usize| {
        let row = at / columns;
        let column = at % columns;
        (0..depth)
            .map(|inner| left[row * depth + inner] * right[inner * columns + column])
            .sum()
    };
    (0..rows * columns).map(one).collect()
}

fn transposed(matrix: &[f64], rows: usize) -> Vec<f64> {
    let columns = matrix.len() / rows;
    (0..matrix.len())
        .map(|at| matrix[at % rows * columns + at / rows])
        .collect()
}

fn orthogonal(matrix: &[f64], rows: usize) -> Vec<f64> {
    let columns = matrix.len() / rows;
    if rows > columns {
        let turned = orthogonal(&transposed(matrix, rows), columns);
        return transposed(&turned, columns);
    }
    let norm = matrix.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-7);
    let mut x: Vec<f64> = matrix.iter().map(|x| x / norm).collect();
    for _ in 0..5 {
        let gram = product(&x, &transposed(&x, rows), rows);
        let squared = product(&gram, &gram, rows);
        let both = gram.iter().zip(&squared);
        let sum: Vec<f64> = both.map(|(a, b)| -4.7750 * a + 2.0315 * b).collect();
        let turned = product(&sum, &x, rows);
        let both = x.iter().zip(&turned);
        x = both.map(|(x, turned)| 3.4445 * x + turned).collect();
    }
    x
}

impl Oracle {
    fn update(&mut self, gradient: &[f64], numbers: Numbers) {
        let Numbers {
            momentum,
            nesterov,
            decay,
            scale,
        } = numbers;
        for (a, g) in self.momentum.iter_mut().zip(gradient) {
            *a = momentum * *a + (1.0 - momentum) * g;
        }
        let ahead = self.momentum.iter().zip(gradient).map(|(a, g)| {
            let further = momentum * a + (1.0 - momentum) * g;
            if nesterov { further } else { *a }
        });
        let step = orthogonal(&ahead.collect::<Vec<_>>(), self.rows);
        let rows = self.rows as f64;
        let columns = self.columns as f64;
        let factor = match scale {
            StepScale::Original => (rows / columns).max(1.0).sqrt(),
            StepScale::MatchAdamW => 0.2 * rows.max(columns).sqrt(),
        };
        for (w, o) in self.weights.iter_mut().zip(step) {
            *w = (1.0 - RATE * decay) * *w - RATE * factor * o;
        }
    }
}

/// The largest distance of the weights after 100 steps from those of the oracle.
fn distance<T: Element>(numbers: Numbers, of_f32: fn(f32) -> T, to_f64: fn(T) -> f64) -> f64 {
    let mut farthest: f64 = 0.0;
    for sizes in SHAPES {
        let count = sizes[0] * sizes[1];
        let small = |seed| -> Vec<f32> { coarse(count, seed).iter().map(|x| x / 8.0).collect() };
        let typed = |values: &[f32]| -> Vec<T> { values.iter().copied().map(of_f32).collect() };
        let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|&x| x.into()).collect() };
        // Each step rounds the weights, which are small so that this is, too.
        let start: Vec<f32> = small(0).iter().map(|x| x / 8.0).collect();
        let variable = matrix("w", &typed(&start), &sizes);
        let gradients = gradients(1, &[&variable], Sum);
        let optimizer = Optimizer::new(STRATEGY, Box::new(numbers.rule()), RATE).unwrap();
        let mut oracle = Oracle {
            rows: sizes[0],
            columns: sizes[1],
            weights: wide(&start),
            momentum: vec![0.0; count],
        };
        for number in 1..=100 {
            let gradient = small(number as usize);
            step(&gradients, number, &[Some(&typed(&gradient))], &[1.0]);
            apply(&optimizer, &gradients).unwrap();
            oracle.update(&wide(&gradient), numbers);
        }
        let close = |found: Vec<T>, expected: &[f64]| {
            let both = found.into_iter().map(to_f64).zip(expected);
            both.map(|(found, expected)| (found - expected).abs())
                .fold(0.0, f64::max)
        };
        let momentum = optimizer.state(&variable, "momentum").unwrap();
        assert!(close(read(&momentum), &oracle.momentum) < 1e-6, "{sizes:?}");
        farthest = farthest.max(close(value(&variable), &oracle.weights));
    }
    farthest
}

#[test]
fn a_hundred_steps_are_those_of_float64() {
    let cases = [
        (0.95, true, 0.1, StepScale::Original),
        (0.95, false, 0.0, StepScale::MatchAdamW),
        (0.25, true, 0.5, StepScale::MatchAdamW),
        (0.0, false, 0.1, StepScale::Original),
    ];
    for (momentum, nesterov, decay, scale) in cases {
        let numbers = Numbers {
            momentum,
            nesterov,
            decay,
            scale,
        };
        let narrow = distance::<f32>(numbers, |x| x, f64::from);
        let wide = distance::<f64>(numbers, f64::from, |x| x);
        assert!(narrow < 1e-6 && wide < 1e-6, "{numbers:?}: {narrow} {wide}");
    }
}

/// What a training has besides its rule.
#[derive(Clone, Copy, Debug)]
struct Case {
    rule: &'static str,
    settings: Settings,
    reduction: LossReduction,
    dtype: Option<DType>,
    accumulation: u64,
    copies: bool,
    /// Whether one gradient is not finite in some step.
    overflow: bool,
}

/// Each two choices meet.
fn cases() -> Vec<Case> {
    let scalings = [None, Some(LossScaling::Fixed(8.0)), Some(DYNAMIC)];
    let reductions = [Sum, Mean, GlobalMean];
    let dtypes = [None, Some(DType::Float16)];
    let rules: Vec<NamedRule> = catalogue::other_rules().collect();
    let choices = [
        rules.len(),
        CLIPPING.len(),
        scalings.len(),
        reductions.len(),
        dtypes.len(),
        3,
        2,
        2,
        AVERAGES.len(),
        2,
    ];
    let case = |choice: Vec<usize>| Case {
        rule: rules[choice[0]].name,
        settings: Settings {
            global_clip_norm: CLIPPING[choice[1]].0,
            clip_value: CLIPPING[choice[1]].1,
            loss_scaling: scalings[choice[2]],
            maximize: choice[9] == 1,
            weight_decay: (choice[9] == 1).then_some(0.0625),
            averaging: AVERAGES[choice[8]],
            non_finite: (choice[7] == 1).then_some(NonFinite::Skip),
            ..Settings::default()
        },
        reduction: reductions[choice[3]],
        dtype: dtypes[choice[4]],
        accumulation: 1 + choice[5] as u64,
        copies: choice[6] == 1,
        overflow: choice[7] == 1,
    };
    pairwise(&choices).into_iter().map(case).collect()
}

/// The bits of everything after some steps in which the examples are split over the replicas.
fn trained(case: Case, replicas: usize) -> Vec<Vec<u32>> {
    const EXAMPLES: usize = 8;
    let variables = starts(case.rule);
    let options = GradientsOptions {
        accumulation_steps: case.accumulation,
        dtype: case.dtype,
        row_sparse: &[],
    };
    let all = variables.clone();
    let devices = devices(replicas);
    let gradients = Gradients::new(STRATEGY, &devices, all, case.reduction, options).unwrap();
    let optimizer = optimizer(case.rule, 0.1);
    optimizer.configure(case.settings).unwrap();
    let group = VariableGroup {
        learning_rate_factor: 0.5,
        weight_decay: Some(0.25),
        frozen: false,
    };
    optimizer.add_group(&variables[..2], group).unwrap();
    let frozen = VariableGroup {
        frozen: true,
        ..group
    };
    optimizer.add_group(&variables[3..4], frozen).unwrap();
    if case.copies {
        variables.iter().for_each(make_copies);
    }
    // Powers of two, so that sums are exact.
    let divisor = match case.reduction {
        Sum => 1.0,
        Mean => (EXAMPLES / replicas) as f32,
        GlobalMean => 4.0 * EXAMPLES as f32,
    };
    for number in 1..=6 {
        for replica in 0..replicas {
            let examples = EXAMPLES / replicas;
            let examples = replica * examples..(replica + 1) * examples;
            for (index, variable) in variables.iter().enumerate() {
                let mut sum = vec![0.0; variable.shape().elements()];
                for example in examples.clone() {
                    let seed = number as usize * 64 + example * 8 + index;
                    let one = coarse(sum.len(), seed);
                    let both = sum.iter_mut().zip(one);
                    both.for_each(|(sum, one)| *sum += one / 16.0 / divisor);
                }
                if case.overflow && (number, replica, index) == (3, replicas - 1, 4) {
                    sum[1] = f32::INFINITY;
                }
                match case.dtype {
                    None => overwrite(&gradients, number, replica, index, &sum),
                    Some(_) => {
                        let narrow: Vec<f16> = sum.into_iter().map(f16::from_f32).collect();
                        overwrite(&gradients, number, replica, index, &narrow);
                    }
                }
            }
        }
        let weights = vec![(EXAMPLES / replicas) as f64; replicas];
        submit(&gradients, number, &weights);
        gradients.commit(number);
        let options = ApplyOptions {
            measure_norm: number % 2 == 0,
            ..ApplyOptions::default()
        };
        apply_with(&optimizer, &gradients, options).unwrap();
    }
    if case.copies {
        variables.iter().for_each(are_current);
    }
    let mut all: Vec<_> = variables.iter().map(|one| bits(&value(one))).collect();
    for variable in &variables {
        for slot in &optimizer.slots() {
            let state = optimizer.state(variable, &slot.name);
            all.extend(state.map(|state| bits(&read(&state))));
        }
    }
    all
}

#[test]
fn replicas_change_no_bit() {
    same_in_every_set("matrices::replicas_change_no_bit", || {
        let mut all = Vec::new();
        for case in cases() {
            let one = trained(case, 1);
            for replicas in [2, 4] {
                assert!(trained(case, replicas) == one, "{replicas} {case:?}");
            }
            all.extend(one.concat().iter().flat_map(|bits| bits.to_ne_bytes()));
        }
        all
    });
}

#[test]
fn what_is_no_matrix_is_refused_by_name_and_has_an_optimizer_of_its_own() {
    let kernel = matrix("kernel", &[0.5f32; 6], &[2, 3]);
    let bias = variable("bias", &[0.5f32; 3]);
    let filter = matrix("filter", &[0.5f32; 8], &[2, 2, 2]);
    for (wrong, dimensions) in [(&bias, "1 dimensions"), (&filter, "3 dimensions")] {
        let muon = optimizer("muon", 0.1);
        let before = value::<f32>(&kernel);
        let both = gradients(1, &[&kernel, wrong], Sum);
        overwrite(&both, 1, 0, 0, &[1.0f32; 6]);
        overwrite(&both, 1, 0, 1, &vec![1.0f32; wrong.shape().elements()]);
        submit(&both, 1, &[1.0]);
        both.commit(1);
        let message = refusal(apply(&muon, &both), Status::InvalidArgument);
        assert!(message.contains(wrong.name().as_str()), "{message}");
        assert!(message.contains(dimensions), "{message}");
        assert_eq!(value::<f32>(&kernel), before);
        assert!(muon.state(&kernel, "momentum").is_err());
        // It takes them once nobody asks it to update anything but a matrix.
        let frozen = VariableGroup {
            frozen: true,
            ..VariableGroup::default()
        };
        muon.add_group(std::slice::from_ref(wrong), frozen).unwrap();
        apply(&muon, &both).unwrap();
        assert!(value::<f32>(&kernel) != before);
    }
    // One step, two optimizers.
    let of_kernel = gradients(1, &[&kernel], Sum);
    let of_bias = gradients(1, &[&bias], Sum);
    let muon = optimizer("muon", 0.1);
    let adamw = optimizer("adamw", 0.1);
    let before = value::<f32>(&kernel);
    step(&of_kernel, 2, &[Some(&[1.0f32; 6])], &[1.0]);
    step(&of_bias, 2, &[Some(&[1.0f32; 3])], &[1.0]);
    apply(&muon, &of_kernel).unwrap();
    apply(&adamw, &of_bias).unwrap();
    assert!(value::<f32>(&kernel) != before && value::<f32>(&bias)[0] < 0.5);
}

#[test]
fn rows_are_refused() {
    let rows = table("rows", &[0.0f32; 8], 2);
    let sparse = row_gradients(1, &[&rows], Sum, &[true], 1);
    add_rows(&sparse, 1, 0, 0, &[1], &[1.0f32, 2.0]);
    submit(&sparse, 1, &[1.0]);
    sparse.commit(1);
    let message = refusal(
        apply(&optimizer("muon", 0.1), &sparse),
        Status::InvalidArgument,
    );
    assert!(
        message.contains("'rows'") && message.contains("row-sparse"),
        "{message}"
    );
    assert_eq!(value::<f32>(&rows), [0.0; 8]);
}

/// A gradient that is not finite is applied, skipped or refused, as it is said, and reported.
#[test]
fn gradients_that_are_not_finite_are_reported() {
    for wrong in [f32::NAN, f32::INFINITY] {
        for choice in [NonFinite::Ignore, NonFinite::Skip, NonFinite::Fail] {
            let kernel = matrix("kernel", &[0.5f32; 6], &[2, 3]);
            let gradients = gradients(1, &[&kernel], Sum);
            let muon = optimizer("muon", 0.1);
            let settings = Settings {
                non_finite: Some(choice),
                ..Settings::default()
            };
            muon.configure(settings).unwrap();
            step(
                &gradients,
                1,
                &[Some(&[1.0, wrong, 0.0, 0.0, 1.0, 0.0])],
                &[1.0],
            );
            let applied = apply(&muon, &gradients);
            match choice {
                NonFinite::Fail => drop(refusal(applied, Status::InvalidArgument)),
                _ => {
                    let named = applied.unwrap().non_finite.unwrap();
                    assert_eq!(named.name().as_str(), "kernel");
                }
            }
            let moved = value::<f32>(&kernel) != [0.5; 6];
            assert_eq!(moved, choice == NonFinite::Ignore);
        }
    }
}

#[test]
fn gradients_of_zeros_and_empty_matrices_only_decay() {
    let zeros = matrix("zeros", &[0.5f32; 6], &[3, 2]);
    let empty = matrix::<f32>("empty", &[], &[0, 2]);
    let gradients = gradients(1, &[&zeros, &empty], Sum);
    overwrite(&gradients, 1, 0, 0, &[0.0f32; 6]);
    overwrite::<f32>(&gradients, 1, 0, 1, &[]);
    submit(&gradients, 1, &[1.0]);
    gradients.commit(1);
    apply(&optimizer("muon", 0.5), &gradients).unwrap();
    assert_eq!(
        value::<f32>(&zeros),
        [0.5 * (1.0 - 0.5 * WEIGHT_DECAY as f32); 6]
    );
}

/// Memory runs out at each place of an apply's preparation in turn: nothing has changed, and the
/// same apply can be done again.
#[test]
fn without_memory_nothing_changes() {
    for (rule, side, least) in [("muon", 300, 4), ("adafactor", 600, 1)] {
        let (expected, _) = applied_without_memory(rule, side, None);
        let mut faults = 0;
        loop {
            let (came, was_refused) = applied_without_memory(rule, side, Some(faults));
            assert!(came == expected, "{rule} {faults}");
            if !was_refused {
                break;
            }
            faults += 1;
        }
        assert!(faults >= least, "{rule} {faults}");
    }
}

/// The bits of a square matrix after an apply to which a request for memory was refused, if there
/// were so many before, and whether there were.
fn applied_without_memory(rule: &str, side: usize, fault: Option<usize>) -> (Vec<u32>, bool) {
    let start = vec![0.5f32; side * side];
    let kernel = matrix("kernel", &start, &[side, side]);
    let gradients = gradients(1, &[&kernel], Sum);
    let optimizer = optimizer(rule, 0.1);
    step(&gradients, 1, &[Some(&coarse(side * side, 3))], &[1.0]);
    let Some(fault) = fault else {
        apply(&optimizer, &gradients).unwrap();
        return (bits(&value(&kernel)), false);
    };
    let (applied, left) = refusing(fault, || apply(&optimizer, &gradients));
    let was_refused = left == usize::MAX;
    // Memory that is kept for later may be freed, and the request repeated.
    if was_refused && applied.is_err() {
        refusal(applied, Status::ResourceExhausted);
        assert_eq!(value::<f32>(&kernel), start);
        apply(&optimizer, &gradients).unwrap();
    } else {
        applied.unwrap();
    }
    (bits(&value(&kernel)), was_refused)
}
