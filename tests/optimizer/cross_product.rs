//! Every rule with every feature at once, against a plain float64 training on all examples.

use std::sync::Arc;

use umbo::optimizer::LossReduction::{GlobalMean, Mean, Sum};
use umbo::optimizer::{ApplyOptions, ApplyReport, Gradients, LossScaling, Optimizer, Settings};
use umbo::strategy::commit::StepParticipant;
use umbo::tensor::Element;
use umbo::values::variable::Variable;

use crate::features::*;
use crate::plain::{Noise, Plain};
use crate::setup::*;

const NAMES: [&str; 3] = ["kernel", "bias", "frozen"];
const ELEMENTS: [usize; 3] = [19, 5, 3];

fn cases() -> Vec<Features> {
    let dynamic = LossScaling::Dynamic {
        initial: 8.0,
        growth_factor: 4.0,
        growth_interval: 2,
        backoff_factor: 0.25,
        minimum: 4.0,
    };
    let mut cases = Vec::new();
    for rule in RULES {
        for (global_clip_norm, clip_value) in CLIPPING {
            for scaling in [None, Some(LossScaling::Fixed(32.0)), Some(dynamic)] {
                for flags in 0..8 {
                    for replicas in 1..=3 {
                        cases.push(Features {
                            rule,
                            replicas,
                            reduction: reduction(cases.len()),
                            global_clip_norm,
                            clip_value,
                            accumulation: 1 + (flags & 1),
                            scaling,
                            overflow: flags & 2 != 0,
                            groups: flags & 4 != 0,
                        });
                    }
                }
            }
        }
    }
    cases
}

/// What the library trains.
struct Trained {
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Trained {
    fn new<T: Element>(case: &Features, start: &[Vec<f64>], convert: fn(f64) -> T) -> Trained {
        let variable = |(name, values): (&&str, &Vec<f64>)| {
            variable(name, &values.iter().map(|&value| convert(value)).collect::<Vec<_>>())
        };
        let variables: Vec<Variable> = NAMES.iter().zip(start).map(variable).collect();
        let gradients = Gradients::accumulating(
            STRATEGY,
            &devices(case.replicas),
            variables.clone(),
            case.reduction,
            case.accumulation as u64,
        )
        .unwrap();
        let frozen = if case.groups { &variables[2..] } else { &[] };
        let optimizer = case.optimizer(&variables, frozen);
        Trained { variables, gradients, optimizer }
    }
}

/// The same training, of all examples in one place.
struct Expected {
    case: Features,
    plain: Vec<Plain>,
    /// Sums over the examples of the window.
    sums: [Option<Vec<f64>>; 3],
    examples: usize,
    overflowed: bool,
    scale: f64,
    applies_at_scale: u64,
    iterations: u64,
    skips: usize,
    clips: usize,
}

impl Expected {
    fn is_frozen(&self, index: usize) -> bool {
        self.case.groups && index == 2
    }

    /// The end of a window.
    fn update(&mut self, report: &ApplyReport) {
        let case = self.case;
        let examples = std::mem::take(&mut self.examples);
        let sums = std::mem::take(&mut self.sums);
        let overflowed = std::mem::take(&mut self.overflowed);
        assert_eq!((report.total_weight, report.accumulated_runs), (examples as f64, 0));
        assert_eq!(report.skipped, overflowed);
        let name = report.non_finite.as_ref().map(|variable| variable.name().to_owned());
        assert_eq!(name.as_deref(), overflowed.then_some(NAMES[BIAS]));
        if overflowed {
            self.skips += 1;
            self.applies_at_scale = 0;
            if let Some(LossScaling::Dynamic { backoff_factor, minimum, .. }) = case.scaling {
                self.scale = (self.scale * backoff_factor).max(minimum);
            }
        } else if examples > 0 {
            self.descend(&sums, examples, report);
        } else {
            assert!(!report.applied);
        }
        assert_eq!(report.loss_scale, self.scale);
        assert_eq!(report.iterations, self.iterations);
    }

    fn descend(&mut self, sums: &[Option<Vec<f64>>; 3], examples: usize, report: &ApplyReport) {
        let case = self.case;
        let mut gradients: Vec<(usize, Vec<f64>)> = Vec::new();
        for (index, sum) in sums.iter().enumerate().filter(|(index, _)| !self.is_frozen(*index)) {
            if let Some(sum) = sum {
                gradients.push((index, sum.iter().map(|sum| sum / examples as f64).collect()));
            }
        }
        let elements = gradients.iter().flat_map(|(_, values)| values).copied();
        let factor = case.clip_factor(elements, report);
        self.clips += usize::from(factor < 1.0);
        assert_eq!(report.variables_updated, gradients.len());
        for (index, gradient) in gradients {
            let clipped = case.clipped(gradient.into_iter(), factor);
            let (learning_rate, decay) = case.rates(index, self.iterations, report);
            self.plain[index].update(&clipped, learning_rate, decay);
        }
        self.iterations += 1;
        self.applies_at_scale += 1;
        if let Some(LossScaling::Dynamic { growth_factor, growth_interval, .. }) = case.scaling
            && self.applies_at_scale == growth_interval
        {
            self.scale *= growth_factor;
            self.applies_at_scale = 0;
        }
    }
}

fn check<T: Element>(
    case: Features,
    convert: fn(f64) -> T,
    back: fn(T) -> f64,
    tolerance: f64,
) -> Expected {
    let mut noise = Noise(3);
    let start: Vec<Vec<f64>> = ELEMENTS
        .iter()
        .map(|&count| noise.take(count).into_iter().map(|value| back(convert(value))).collect())
        .collect();
    let trained = Trained::new(&case, &start, convert);
    let mut expected = Expected {
        case,
        plain: start.iter().map(|start| Plain::new(case.rule, start)).collect(),
        sums: [None, None, None],
        examples: 0,
        overflowed: false,
        scale: case.scaling.map_or(1.0, LossScaling::initial),
        applies_at_scale: 0,
        iterations: 0,
        skips: 0,
        clips: 0,
    };
    for (number, &batch) in BATCHES.iter().enumerate() {
        let step = number as u64 + 1;
        let window = case.window(number);
        let scale = trained.optimizer.loss_scale();
        assert_eq!(scale, expected.scale);
        trained.gradients.first_touch(step);
        let sizes = split(batch, case.replicas);
        for (index, &elements) in ELEMENTS.iter().enumerate() {
            // No replica writes the bias in some runs.
            if index == BIAS && number % 5 == 3 {
                continue;
            }
            for (replica, &size) in sizes.iter().enumerate() {
                let mut sum = vec![0.0; elements];
                for _ in 0..size {
                    let example = noise.take(elements);
                    sum.iter_mut().zip(example).for_each(|(sum, value)| *sum += value);
                }
                if case.overflow && number == OVERFLOWING && index == BIAS && replica == 0 {
                    sum[3] = f64::INFINITY;
                    expected.overflowed = true;
                }
                let divisor = case.divisor(size, window);
                // An empty replica writes nonsense, which must not be read.
                let written: Vec<T> = sum
                    .iter()
                    .map(|sum| convert(if size == 0 { f64::NAN } else { sum / divisor * scale }))
                    .collect();
                overwrite(&trained.gradients, step, replica, index, &written);
                if size > 0 {
                    let total = expected.sums[index].get_or_insert(vec![0.0; sum.len()]);
                    total.iter_mut().zip(sum).for_each(|(total, sum)| *total += sum);
                }
            }
        }
        expected.examples += batch;
        let weights: Vec<f64> = sizes.iter().map(|&size| size as f64).collect();
        submit(&trained.gradients, step, &weights);
        trained.gradients.commit(step);
        let report = apply(&trained.optimizer, &trained.gradients).unwrap();
        if (number + 1) % case.accumulation == 0 {
            expected.update(&report);
        } else {
            assert_eq!((report.applied, report.accumulated_runs), (false, 1));
        }
    }
    for (index, variable) in trained.variables.iter().enumerate() {
        let plain = &expected.plain[index];
        let close = |what: &str, ours: Vec<T>, theirs: &[f64]| {
            for (&ours, &theirs) in ours.iter().zip(theirs) {
                let difference = (back(ours) - theirs).abs();
                let context =
                    format!("{what} of {}: {ours:?} for {theirs}; {case:?}", NAMES[index]);
                assert!(difference <= tolerance * theirs.abs().max(1.0), "{context}");
            }
        };
        close("weights", value(variable), &plain.weights);
        if !expected.is_frozen(index) {
            for (name, state) in plain.state_names().into_iter().zip(&plain.state) {
                close(name, read(&trained.optimizer.state(variable, name).unwrap()), state);
            }
        }
    }
    expected
}

#[test]
fn every_rule_with_every_feature_in_float64() {
    let results: Vec<Expected> =
        cases().into_iter().map(|case| check::<f64>(case, |v| v, |v| v, 1e-11)).collect();
    // The cases are what they are meant to be.
    assert_eq!(results.len(), RULES.len() * 4 * 3 * 8 * 3);
    assert!(results.iter().all(|result| result.skips == usize::from(result.case.overflow)));
    let clipped = results.iter().filter(|result| result.case.global_clip_norm.is_some());
    assert!(clipped.clone().all(|result| result.clips > 0));
    assert!(clipped.clone().any(|result| (result.clips as u64) < result.iterations));
}

#[test]
fn every_rule_with_every_feature_in_float32() {
    for case in cases() {
        check::<f32>(case, |value| value as f32, f64::from, 4e-5);
    }
}

/// The sum over runs has the bits of one run in which all replicas take part.
#[test]
fn accumulated_runs_have_the_bits_of_one_run() {
    const COUNT: usize = 1000;
    for reduction in [Sum, Mean, GlobalMean] {
        let mut noise = Noise(9);
        let data: Vec<Vec<f32>> = (0..6)
            .map(|_| noise.take(COUNT).into_iter().map(|value| value as f32).collect())
            .collect();
        let weights = [3.0, 1.0, 0.0, 2.5, 0.0, 0.0];
        let train = |replicas: usize, runs: usize| {
            let variable = variable("w", &[0.5f32; COUNT]);
            let gradients = Gradients::accumulating(
                STRATEGY,
                &devices(replicas),
                vec![variable.clone()],
                reduction,
                runs as u64,
            )
            .unwrap();
            let optimizer = optimizer("adam", 0.1);
            optimizer
                .configure(Settings { global_clip_norm: Some(1.0), ..Settings::default() })
                .unwrap();
            for round in 0..2 {
                for run in 0..runs {
                    let number = (round * runs + run + 1) as u64;
                    let first = run * replicas;
                    let parts: Vec<Option<&[f32]>> =
                        data[first..first + replicas].iter().map(|part| Some(&part[..])).collect();
                    step(&gradients, number, &parts, &weights[first..first + replicas]);
                    apply(&optimizer, &gradients).unwrap();
                }
            }
            assert_eq!(optimizer.iterations(), 2);
            bits(&value(&variable))
        };
        let one = train(6, 1);
        assert_eq!(train(3, 2), one, "{reduction:?}");
        assert_eq!(train(2, 3), one, "{reduction:?}");
        assert_eq!(train(1, 6), one, "{reduction:?}");
    }
}

/// At the end of an epoch fewer runs than usual are one update.
#[test]
fn flush_updates_with_what_there_is() {
    let variable = variable("w", &[0.0f32]);
    let variables = vec![variable.clone()];
    let gradients = Gradients::accumulating(STRATEGY, &devices(1), variables, Sum, 4).unwrap();
    let optimizer = optimizer("sgd", 1.0);
    step(&gradients, 1, &[Some(&[6.0f32])], &[1.0]);
    let report = apply(&optimizer, &gradients).unwrap();
    assert_eq!((report.applied, report.accumulated_runs, report.iterations), (false, 1, 0));
    // A run that failed takes nothing of the sum along.
    overwrite(&gradients, 2, 0, 0, &[100.0f32]);
    submit(&gradients, 2, &[1.0]);
    gradients.roll_back(2);
    step(&gradients, 3, &[Some(&[2.0f32])], &[3.0]);
    let options = ApplyOptions { flush: true, measure_norm: true };
    let report = apply_with(&optimizer, &gradients, options).unwrap();
    assert_eq!((report.applied, report.accumulated_runs, report.total_weight), (true, 0, 4.0));
    assert_eq!((report.gradient_norm, value::<f32>(&variable)), (Some(2.0), vec![-2.0]));
    // The next window starts from nothing.
    step(&gradients, 4, &[Some(&[1.0f32])], &[1.0]);
    apply_with(&optimizer, &gradients, options).unwrap();
    assert_eq!(value::<f32>(&variable), [-3.0]);
}

/// After the loop what is left over is applied without another run, once.
#[test]
fn flush_needs_no_run_of_its_own() {
    let dense = variable("w", &[0.0f32]);
    let rows = table("t", &[0.0f32; 4], 2);
    let gradients = row_gradients(1, &[&dense, &rows], Sum, &[false, true], 3);
    let optimizer = optimizer("sgd", 1.0);
    let flush = ApplyOptions { flush: true, measure_norm: false };
    let early = apply_with(&optimizer, &gradients, flush);
    refusal(early, umbo::error::Status::FailedPrecondition);
    for number in 1..=2 {
        overwrite(&gradients, number, 0, 0, &[number as f32]);
        add_rows(&gradients, number, 0, 1, &[1], &[1.0f32, 2.0]);
        submit(&gradients, number, &[1.0]);
        gradients.commit(number);
        assert!(!apply(&optimizer, &gradients).unwrap().applied);
    }
    // A run that fails in between takes nothing away.
    overwrite(&gradients, 3, 0, 0, &[100.0f32]);
    submit(&gradients, 3, &[1.0]);
    gradients.roll_back(3);
    let report = apply_with(&optimizer, &gradients, flush).unwrap();
    assert_eq!((report.applied, report.accumulated_runs, report.total_weight), (true, 0, 2.0));
    assert_eq!(value::<f32>(&dense), [-1.5]);
    assert_eq!(value::<f32>(&rows), [0.0, 0.0, -1.0, -2.0]);
    let again = apply_with(&optimizer, &gradients, flush);
    let message = refusal(again, umbo::error::Status::FailedPrecondition);
    assert!(message.contains("have been applied"), "{message}");
    assert_eq!(value::<f32>(&dense), [-1.5]);
}
