//! Small variables that lie behind each other are updated as one: with the bits of one update for
//! each.

use std::ops::Range;
use std::sync::Arc;

use umbo_core::device::DeviceId;
use umbo_core::optimizer::GradientMode::Overwrite;
use umbo_core::optimizer::LossReduction::Mean;
use umbo_core::optimizer::rules::catalogue::FACTORED_RULES;
use umbo_core::optimizer::state::saved::{OptimizerState, VariableState};
use umbo_core::optimizer::{
    ApplyAction, ApplyReport, Averaging, Gradients, GradientsOptions, LossScaling, NonFinite,
    Optimizer, Settings, VariableGroup,
};
use umbo_core::strategy::commit::{CommitAction, StepParticipant};
use umbo_core::tensor::slab::Slab;
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::Variable;

use crate::features::{AVERAGES, CLIPPING};
use crate::pairwise::pairwise;
use crate::plain::Noise;
use crate::setup::*;

/// Groups of neighbours of 16, 64 and 7 elements; those of 7 have gaps between them.
fn sizes() -> Vec<usize> {
    [vec![16; 10], vec![64; 60], vec![7; 5], vec![64; 20]].concat()
}

/// Variables side by side, with values that differ.
fn side_by_side(slab: &mut Slab) -> Vec<Variable> {
    let make = |(index, size): (usize, usize)| {
        let shape = Shape::new(&[size]).unwrap();
        let value = slab.zeros(DType::Float32, shape, DeviceId::HOST).unwrap();
        let numbers: Vec<f32> = (0..size)
            .map(|at| (at * 7 + index) as f32 / 64.0 - 3.0)
            .collect();
        write(&value, &numbers);
        variable_from(STRATEGY, &format!("v{index}"), value)
    };
    sizes().into_iter().enumerate().map(make).collect()
}

fn weights(variables: &[Variable]) -> Vec<Vec<u32>> {
    variables
        .iter()
        .map(|variable| bits(&value(variable)))
        .collect()
}

const DTYPES: [Option<DType>; 3] = [None, Some(DType::BFloat16), Some(DType::Float16)];

/// The rule, the replicas, the type of gradients, the runs of an update, and the average.
type Making = (&'static str, usize, Option<DType>, u64, Option<Averaging>);

/// What has to do with one list of variables, all of which two optimizers update, with gradients of
/// all and of some.
struct Subject {
    variables: Vec<Variable>,
    gradients: [Arc<Gradients>; 2],
    optimizers: [Arc<Optimizer>; 2],
    replicas: usize,
    saved: Option<OptimizerState>,
    /// Whether the optimizers keep averages, and at first which.
    averaging: Option<Averaging>,
    /// The variables that have copies.
    copied: Vec<usize>,
    steps: [u64; 2],
}

const SOME: Range<usize> = 25..60;

/// Settings with an average and nothing else.
fn only(averaging: Option<Averaging>) -> Settings {
    Settings {
        averaging,
        ..Settings::default()
    }
}

fn draw(noise: &mut Noise, choices: usize) -> usize {
    ((noise.next() + 1.0) / 2.0 * choices as f64) as usize
}

impl Subject {
    fn new(making: Making, variables: Vec<Variable>) -> Subject {
        let (rule, replicas, dtype, accumulation_steps, averaging) = making;
        let gradients_of = |list: &[Variable]| {
            let options = GradientsOptions {
                accumulation_steps,
                dtype,
                row_sparse: &[],
            };
            Gradients::new(STRATEGY, &devices(replicas), list.to_vec(), Mean, options).unwrap()
        };
        Subject {
            gradients: [gradients_of(&variables), gradients_of(&variables[SOME])],
            optimizers: [averaging; 2].map(|averaging| {
                let optimizer = optimizer(rule, 0.1);
                optimizer.configure(only(averaging)).unwrap();
                optimizer
            }),
            averaging,
            variables,
            replicas,
            saved: None,
            copied: Vec::new(),
            steps: [0; 2],
        }
    }

    /// A run that writes all variables of a list, or all but some, or with an element that is not
    /// finite.
    fn run(&mut self, list: usize, noise: &mut Noise) {
        let gradients = &self.gradients[list];
        let all = gradients.variables().len();
        self.steps[list] += 1;
        let step = self.steps[list];
        gradients.try_begin_step(step);
        let left_out = draw(noise, 4 * all);
        let by = draw(noise, 6);
        let broken = draw(noise, 12 * all);
        for replica in 0..self.replicas {
            for (index, variable) in gradients.variables().iter().enumerate() {
                if index == left_out && [0, replica + 1].contains(&by) {
                    continue;
                }
                let size = variable.shape().elements();
                let mut values: Vec<f32> = (0..size).map(|_| noise.next() as f32).collect();
                if index == broken {
                    values[size - 1] = f32::NAN;
                }
                write_as(
                    gradients.view(replica, step, index, Overwrite).unwrap(),
                    &values,
                );
            }
            gradients
                .submit(replica, step, 1.0 + replica as f64)
                .unwrap();
        }
        gradients.commit(step);
    }

    fn action(&self, optimizer: usize, list: usize) -> ApplyAction {
        ApplyAction::new(
            Arc::clone(&self.optimizers[optimizer]),
            Arc::clone(&self.gradients[list]),
        )
    }

    fn copy(&mut self, index: usize) {
        self.copied.push(index);
        self.copies();
    }

    /// The copies that were requested, brought up to date.
    fn copies(&self) -> Vec<Vec<u16>> {
        let copy = |&index: &usize| {
            let variable = &self.variables[index];
            let host = DeviceId::HOST;
            // SAFETY: nobody writes the variable meanwhile.
            let copy = unsafe {
                variable.refreshed_copy(variable.committed_buffer(), host, DType::BFloat16)
            };
            let copy: Vec<_> = read::<half::bf16>(copy.unwrap())
                .iter()
                .map(|element| element.to_bits())
                .collect();
            let rounded = value::<f32>(variable)
                .into_iter()
                .map(|number| half::bf16::from_f32(number).to_bits());
            assert!(rounded.eq(copy.iter().copied()), "variable {index}");
            copy
        };
        self.copied.iter().map(copy).collect()
    }

    /// One of all the things that may happen between two applies. Returns what it reports.
    fn act(&mut self, noise: &mut Noise) -> String {
        let index = draw(noise, self.variables.len());
        let by = draw(noise, 2);
        let variable = self.variables[index].clone();
        let optimizer = Arc::clone(&self.optimizers[by]);
        match draw(noise, 11) {
            0 => self.copy(index),
            outcome @ 1..=2 => {
                write(
                    &staging(&variable),
                    &vec![0.5f32; variable.shape().elements()],
                );
                variable.stage();
                if outcome == 1 {
                    variable.publish()
                } else {
                    variable.discard()
                }
            }
            3 => {
                let last = (index + 3).min(self.variables.len());
                let frozen = draw(noise, 2) == 0;
                let group = VariableGroup {
                    learning_rate_factor: 0.5,
                    frozen,
                    ..VariableGroup::default()
                };
                return format!(
                    "{:?}",
                    optimizer.add_group(&self.variables[index..last], group)
                );
            }
            4 => {
                let (norm, limit) = CLIPPING[draw(noise, CLIPPING.len())];
                let settings = Settings {
                    weight_decay: [None, Some(0.01)][draw(noise, 2)],
                    global_clip_norm: norm,
                    clip_value: limit,
                    non_finite: [None, Some(NonFinite::Ignore), Some(NonFinite::Skip)]
                        [draw(noise, 3)],
                    loss_scaling: [None, Some(LossScaling::Fixed(32.0))][draw(noise, 2)],
                    maximize: draw(noise, 2) == 0,
                    averaging: self.averaging.and(AVERAGES[1 + draw(noise, 3)]),
                    ..Settings::default()
                };
                optimizer.configure(settings).unwrap();
            }
            5 => self.saved = Some(optimizer.export().unwrap()),
            6 => {
                if let Some(state) = &mut self.saved {
                    // Of one variable there is no state, and another has its own running scalars.
                    let all = state.variables.len();
                    state.variables.truncate(all.saturating_sub(1));
                    if let Some(variable) = state.variables.get_mut(index) {
                        variable.running = variable.running.map(|scalar| scalar * 0.5);
                    }
                    let room = optimizer.reserve(&state.variables).unwrap();
                    optimizer.import(state, room).unwrap();
                }
            }
            7 => {
                self.run(1, noise);
                return self.apply(by, 1);
            }
            // Prepared, and dropped or done: meanwhile other applies are prepared, and copies made.
            outcome => {
                self.run(1, noise);
                let mut first = self.action(by, 1);
                let prepared = first.prepare().map_err(|error| error.to_string());
                self.run(0, noise);
                let mut second = self.action(draw(noise, 2), 0);
                let another = second.prepare().map_err(|error| error.to_string());
                self.copy(SOME.start + index % SOME.len());
                if outcome > 8 && prepared.is_ok() {
                    first.commit();
                }
                if another.is_ok() {
                    second.commit();
                }
                self.copies();
                return format!("{prepared:?} {another:?}");
            }
        }
        String::new()
    }

    /// Applies; after a failure once more, with other settings.
    fn apply(&self, optimizer: usize, list: usize) -> String {
        let apply = || {
            let mut action = self.action(optimizer, list);
            let done = action.prepare().map(|()| {
                action.commit();
                action.report()
            });
            let in_words = |report: ApplyReport| {
                let found = report
                    .non_finite
                    .as_ref()
                    .map(|variable| variable.name().to_string());
                let norm = report.gradient_norm.map(f64::to_bits);
                let updated = report.variables_updated;
                format!(
                    "{} {} {found:?} {norm:?} {updated}",
                    report.applied, report.skipped
                )
            };
            done.map_or_else(|error| Err(error.to_string()), |done| Ok(in_words(done)))
        };
        let first = apply();
        if first.is_ok() {
            return format!("{first:?}");
        }
        self.optimizers[optimizer]
            .configure(only(self.averaging))
            .unwrap();
        format!("{first:?} {:?}", apply())
    }
}

/// Whatever happens between two applies, it is as if the variables lay apart: what was found out
/// for one apply holds for the next only if it is still true.
#[test]
fn neighbours_part_and_meet_again() {
    let factored = FACTORED_RULES.iter().map(|rule| rule.name);
    let rules: Vec<&str> = RULES.into_iter().chain(factored).collect();
    let drawn = pairwise(&[rules.len(), 3, DTYPES.len(), 2, AVERAGES.len()]);
    assert!((20..200).contains(&drawn.len()), "{}", drawn.len());
    for (seed, choice) in (1..).zip(drawn) {
        let making: Making = (
            rules[choice[0]],
            1 + choice[1],
            DTYPES[choice[2]],
            1 + choice[3] as u64,
            AVERAGES[choice[4]],
        );
        let mut subjects = [side_by_side(&mut Slab::new(0)), apart()]
            .map(|variables| (Subject::new(making, variables), Noise(seed)));
        for number in 0..16 {
            let [together, alone] = subjects.each_mut().map(|(subject, noise)| {
                let before = subject.act(noise);
                subject.run(0, noise);
                let report = subject.apply(usize::from(draw(noise, 5) == 0), 0);
                let state = subject.optimizers.each_ref().map(|optimizer| {
                    let state = optimizer.export().unwrap();
                    let exported = |state: &VariableState| {
                        let slots: Vec<_> = state
                            .slots
                            .iter()
                            .flatten()
                            .map(|it| bits(&read(it)))
                            .collect();
                        (
                            state.variable.name().to_string(),
                            state.updates,
                            state.running,
                            slots,
                        )
                    };
                    state.variables.iter().map(exported).collect::<Vec<_>>()
                });
                (
                    before,
                    report,
                    weights(&subject.variables),
                    subject.copies(),
                    state,
                )
            });
            assert_eq!(together.0, alone.0, "{making:?}, apply {number}");
            assert_eq!(together.1, alone.1, "{making:?}, apply {number}");
            assert!(
                together == alone,
                "{making:?}, apply {number}: {}",
                together.0
            );
        }
    }
}

/// The same values in memory of their own each: nothing follows anything.
fn apart() -> Vec<Variable> {
    let copy = |(index, original): (usize, Variable)| {
        variable::<f32>(&format!("v{index}"), &value::<f32>(&original))
    };
    side_by_side(&mut Slab::new(0))
        .into_iter()
        .enumerate()
        .map(copy)
        .collect()
}

fn write_as(to: &Tensor, values: &[f32]) {
    match to.dtype() {
        DType::BFloat16 => write(
            to,
            &values
                .iter()
                .map(|&v| half::bf16::from_f32(v))
                .collect::<Vec<_>>(),
        ),
        DType::Float16 => write(
            to,
            &values
                .iter()
                .map(|&v| half::f16::from_f32(v))
                .collect::<Vec<_>>(),
        ),
        _ => write(to, values),
    }
}
