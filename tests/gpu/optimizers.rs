//! Every rule with every option, on variables that a GPU holds or the host: the bits are those of
//! CPUs.

use std::sync::Arc;

use fake_cuda::harness::under_driver;
use umbo_core::optimizer::gradients::reduced::reduced;
use umbo_core::optimizer::rules::{WeightDecay, catalogue};
use umbo_core::optimizer::{
    Applied, ApplyOptions, AverageKind, Averaging, GradientMode, Gradients, GradientsOptions,
    LossReduction, LossScaling, NonFinite, Optimizer, Settings, UpdateRule, apply_with,
};
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::DType;
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::fresh::new_variable;
use super::own_rules::own;
use super::strategy::{Place, strategy_of};
use super::*;

pub(super) fn rule(name: &str) -> Box<dyn UpdateRule> {
    match name {
        "own" => own(WeightDecay::L2),
        "own decoupled" => own(WeightDecay::Decoupled),
        name => catalogue::make(name).unwrap(),
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) rule: &'static str,
    clip: Option<f64>,
    clip_value: Option<f64>,
    weight_decay: Option<f64>,
    pub(super) accumulation: u64,
    narrow: Option<DType>,
    pub(super) rows: bool,
    copies: bool,
    /// Float64 variables, and one of float32.
    pub(super) wide: bool,
    reduction: LossReduction,
    /// A loss scale that moves. In one step the last replica's gradient overflows.
    scaled: bool,
    averaging: Option<Averaging>,
}

pub(super) fn cases() -> Vec<Case> {
    let averaging = |kind, start| Averaging {
        kind,
        start,
        interval: 1,
    };
    let exponential = AverageKind::Exponential {
        decay: 0.75,
        warmup: false,
    };
    let averages = [
        None,
        Some(averaging(exponential, 0)),
        None,
        Some(averaging(AverageKind::Mean, 2)),
        Some(averaging(AverageKind::Mean, 0)),
    ];
    let mut cases = Vec::new();
    let factored = catalogue::FACTORED_RULES.iter().map(|rule| rule.name);
    let rules = catalogue::NAMES.into_iter().chain(factored);
    for rule in rules.chain(["own", "own decoupled"]) {
        for number in 0..8 {
            let bit = |bit: usize| number >> bit & 1 == 1;
            let all = cases.len();
            let wide = all % 5 == 4;
            let rows = bit(1) && catalogue::updates_rows(rule);
            cases.push(Case {
                rule,
                clip: bit(0).then_some(0.3),
                clip_value: bit(2).then_some(0.05),
                weight_decay: (all % 3 == 1).then_some(0.01),
                accumulation: 1 + u64::from(bit(2)) + u64::from(bit(1)),
                narrow: [None, Some(DType::BFloat16), Some(DType::Float16)]
                    [if wide { 0 } else { all % 3 }],
                rows,
                copies: bit(0) && !wide,
                wide,
                reduction: [
                    LossReduction::Sum,
                    LossReduction::Mean,
                    LossReduction::GlobalMean,
                ][all % 3],
                scaled: (all / 8 + number / 2) % 3 == 1,
                averaging: averages[all % averages.len()],
            });
        }
    }
    cases
}

/// The `at`-th element of what a replica contributes to a variable in a step.
fn noise(step: u64, replica: usize, variable: usize, at: usize) -> f64 {
    let seed = (step * 31 + replica as u64 * 7 + variable as u64) * 1_000_003 + at as u64;
    let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ seed;
    f64::from((mixed % 2001) as i32 - 1000) / 700.0
}

const SHAPES: [&[usize]; 3] = [&[3, 5, 2], &[7], &[9, 4]];
pub(super) const STEPS: u64 = 5;

pub(super) struct Training {
    case: Case,
    pub(super) strategy: Strategy,
    variables: Vec<Variable>,
    pub(super) gradients: Arc<Gradients>,
}

impl Training {
    pub(super) fn new(case: Case, devices: &[&str], parameter_device: &str) -> Training {
        Training::over(
            case,
            strategy_of((devices.len(), devices, parameter_device)),
        )
    }

    pub(super) fn over(case: Case, strategy: Strategy) -> Training {
        let variable = |(index, sizes): (usize, &&[usize])| {
            let is_wide = case.wide && index != 1;
            let dtype = if is_wide {
                DType::Float64
            } else {
                DType::Float32
            };
            let shape = shape(sizes);
            let start: Vec<f64> = (0..shape.elements())
                .map(|at| noise(99, 9, index, at))
                .collect();
            let new = new_variable(&format!("v{index}"), Aggregation::None);
            let start = elements(&start, dtype, shape, HOST);
            variables::create(Some(&strategy), new, Initial::Value(&start)).unwrap()
        };
        let variables: Vec<Variable> = SHAPES.iter().enumerate().map(variable).collect();
        let options = GradientsOptions {
            accumulation_steps: case.accumulation,
            dtype: case.narrow,
            row_sparse: &[false, false, case.rows],
        };
        let gradients = Gradients::new(
            strategy.id(),
            strategy.replica_devices(),
            variables.clone(),
            case.reduction,
            options,
        )
        .unwrap();
        Training {
            case,
            strategy,
            variables,
            gradients,
        }
    }

    /// What a replica does in a step; gradients are those of a loss times `scale`.
    pub(super) fn contribute(&self, context: &ReplicaContext, step: u64, scale: f64) -> Result<()> {
        let replica = context.replica_in_sync();
        let is_last = replica + 1 == context.strategy().num_replicas_in_sync();
        let overflows = self.case.scaled && step == 1 && is_last;
        for (index, variable) in self.variables.iter().enumerate() {
            if step == 2 && index == 1 && replica == 0 {
                // This replica does not write it.
                continue;
            }
            let dtype = self.case.narrow.unwrap_or(variable.dtype());
            let values = |shape: Shape| {
                let mut all: Vec<f64> = (0..shape.elements())
                    .map(|at| noise(step, replica, index, at) * scale)
                    .collect();
                if overflows {
                    all[0] = f64::INFINITY;
                }
                elements(&all, dtype, shape, context.device())
            };
            if index == 2 && self.case.rows {
                let added = self.gradients.add_rows_in(context, index, 3)?;
                assert_eq!(added.values.device(), context.device());
                let rows = [8, (step as i64 + replica as i64) % 9, 1];
                let rows = Tensor::from_slice(&rows, shape(&[3]), context.device())?;
                // SAFETY: the rows are this replica's to write.
                unsafe {
                    added.indices.assume_exclusive().copy_from(&rows)?;
                    added
                        .values
                        .assume_exclusive()
                        .copy_from(&values(shape(&[3, 4])))?;
                }
                continue;
            }
            let mode = if step.is_multiple_of(2) {
                GradientMode::Overwrite
            } else {
                GradientMode::Add
            };
            let buffer = self.gradients.view_in(context, index, mode)?;
            assert_eq!(buffer.device(), context.device());
            // SAFETY: the buffer is this replica's.
            unsafe { buffer.assume_exclusive() }.copy_from(&values(buffer.shape()))?;
        }
        let weight = if step == 3 && replica == 1 {
            0.0
        } else {
            1.0 + replica as f64
        };
        self.gradients.submit_in(context, Some(weight))
    }

    /// An optimizer with the settings of the case.
    pub(super) fn optimizer(&self, rule: Box<dyn UpdateRule>) -> Arc<Optimizer> {
        let optimizer = Optimizer::new(self.strategy.id(), rule, 0.1).unwrap();
        let loss_scaling = LossScaling::Dynamic {
            initial: 64.0,
            growth_factor: 2.0,
            growth_interval: 2,
            backoff_factor: 0.25,
            minimum: 1.0,
        };
        let settings = Settings {
            weight_decay: self.case.weight_decay,
            global_clip_norm: self.case.clip,
            clip_value: self.case.clip_value,
            loss_scaling: self.case.scaled.then_some(loss_scaling),
            maximize: self.case.scaled,
            averaging: self.case.averaging,
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        optimizer
    }

    /// The bits of all variables and of their state, for which all ranks ask together.
    pub(super) fn bits(&self, optimizer: &Optimizer) -> Vec<u64> {
        let mut bits = Vec::new();
        for variable in &self.variables {
            bits.extend(bits_of(&variables::read(variable).unwrap()));
            for slot in &optimizer.slots() {
                bits.extend(
                    optimizer
                        .state(variable, &slot.name)
                        .iter()
                        .flat_map(bits_of),
                );
            }
        }
        bits
    }

    /// Trains and says the bits of all that came of it.
    pub(super) fn train(&self) -> Vec<u64> {
        let optimizer = self.optimizer(rule(self.case.rule));
        let mut bits = Vec::new();
        for step in 0..STEPS {
            let scale = optimizer.loss_scale();
            let run = self.strategy.run(
                &|context| {
                    if self.case.copies {
                        // SAFETY: nobody writes the variable in this step.
                        let copy = unsafe {
                            variables::refreshed_copy(
                                Some(context),
                                &self.variables[0],
                                DType::BFloat16,
                            )
                        }?;
                        assert_eq!(copy.device().kind, context.device().kind);
                    }
                    self.contribute(context, step, scale).map(|()| None)
                },
                None,
            );
            run.unwrap();
            let look = reduced(&self.gradients, 0, Some(&optimizer)).unwrap();
            let Value::Tensor(look) = look else { panic!() };
            bits.extend(bits_of(&look));
            let options = ApplyOptions {
                measure_norm: step % 2 == 1,
                ..ApplyOptions::default()
            };
            let outcome = apply_with(&optimizer, &self.gradients, options).unwrap();
            let Applied::Done(report) = outcome else {
                panic!()
            };
            bits.push(report.gradient_norm.unwrap_or(-1.0).to_bits());
            bits.push(report.variables_updated as u64 + u64::from(report.clipped) * 100);
            bits.push(report.loss_scale.to_bits() ^ u64::from(report.skipped));
        }
        bits.extend(self.bits(&optimizer));
        if self.case.copies {
            let variable = &self.variables[0];
            // SAFETY: nobody writes the variable.
            let copy =
                unsafe { variables::refreshed_copy(None, variable, DType::BFloat16) }.unwrap();
            bits.extend(bits_of(copy));
        }
        bits
    }
}

pub(super) fn elements(values: &[f64], dtype: DType, shape: Shape, device: DeviceId) -> Tensor {
    use half::{bf16, f16};
    match dtype {
        DType::Float64 => Tensor::from_slice(values, shape, device),
        DType::Float32 => {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            Tensor::from_slice(&values, shape, device)
        }
        DType::BFloat16 => {
            let values: Vec<bf16> = values.iter().map(|&value| bf16::from_f64(value)).collect();
            Tensor::from_slice(&values, shape, device)
        }
        _ => {
            let values: Vec<f16> = values.iter().map(|&value| f16::from_f64(value)).collect();
            Tensor::from_slice(&values, shape, device)
        }
    }
    .unwrap()
}

fn bits_of(tensor: &Tensor) -> Vec<u64> {
    match tensor.dtype() {
        DType::Float64 => tensor
            .to_vec::<f64>()
            .unwrap()
            .iter()
            .map(|it| it.to_bits())
            .collect(),
        DType::Float32 => tensor
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .map(|it| it.to_bits().into())
            .collect(),
        _ => tensor
            .to_vec::<half::bf16>()
            .unwrap()
            .iter()
            .map(|it| it.to_bits().into())
            .collect(),
    }
}

/// Each rule is in each place, with some of its options.
#[test]
fn all_rules_and_options_have_the_bits_of_cpus() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    registry::REGISTRY.ensure_logical_cpus(3).unwrap();
    let places: [Place<'_>; 7] = [
        (1, &["GPU:0"], "GPU:0"),
        (2, &["GPU:0", "GPU:1"], "GPU:0"),
        (2, &["GPU:1", "CPU:0"], "GPU:1"),
        (2, &["CPU:0", "CPU:1"], "GPU:0"),
        (2, &["GPU:0", "GPU:1"], "CPU:0"),
        (3, &["GPU:0"], "GPU:0"),
        (3, &["CPU:0", "GPU:0"], "GPU:1"),
    ];
    let cpus = ["CPU:0", "CPU:1", "CPU:2"];
    for (number, case) in cases().into_iter().enumerate() {
        control.seed(number as u64);
        let place = places[number % places.len()];
        let expected = Training::new(case, &cpus[..place.0], "CPU:0").train();
        let trained = Training::over(case, strategy_of(place)).train();
        assert_eq!(trained, expected, "{case:?}: {place:?}");
    }
    clean(&control);
    all_freed(&control, 2);
}

#[test]
fn what_is_not_finite_is_found_on_a_gpu() {
    let Some(control) = under_driver(&[]) else {
        return;
    };
    let case = cases()[0];
    for choice in [NonFinite::Skip, NonFinite::Fail, NonFinite::Ignore] {
        let training = Training::new(case, &["GPU:0"], "GPU:0");
        let optimizer = Optimizer::new(training.strategy.id(), rule("adam"), 0.1).unwrap();
        optimizer
            .configure(Settings {
                non_finite: Some(choice),
                ..Settings::default()
            })
            .unwrap();
        let before = bits_of(&variables::read(&training.variables[0]).unwrap());
        let run = training.strategy.run(
            &|context| {
                let buffer = training.gradients.view_in(context, 0, GradientMode::Add)?;
                let mut values = vec![0.5f32; 30];
                values[17] = f32::NAN;
                let values = Tensor::from_slice(&values, buffer.shape(), HOST)?;
                // SAFETY: the buffer is this replica's.
                unsafe { buffer.assume_exclusive() }.copy_from(&values)?;
                training
                    .gradients
                    .submit_in(context, Some(1.0))
                    .map(|()| None)
            },
            None,
        );
        run.unwrap();
        let outcome = apply_with(&optimizer, &training.gradients, ApplyOptions::default());
        let after = bits_of(&variables::read(&training.variables[0]).unwrap());
        match choice {
            NonFinite::Fail => refused(outcome, Status::InvalidArgument, &["v0", "replica 0"]),
            NonFinite::Skip | NonFinite::Ignore => {
                let Applied::Done(report) = outcome.unwrap() else {
                    panic!()
                };
                assert_eq!(report.non_finite.unwrap().name().to_string(), "v0");
                assert_eq!(report.skipped, choice == NonFinite::Skip);
            }
        }
        assert_eq!(after == before, choice != NonFinite::Ignore);
    }
    clean(&control);
}
