//! A training of which much is chosen: rule and settings, the types of gradients and weights, the
//! number of optimizers, and runs within merge calls.

use std::sync::Arc;

use umbo_core::checkpoint::{Checkpoint, Number, SavedIterator};
use umbo_core::collectives::Assignment;
use umbo_core::equivalence::OwnedCallback;
use umbo_core::error::Result;
use umbo_core::input::{
    Dataset, DistributeOptions, DistributedDataset, PassIterator, ShuffleOptions,
    distribute_dataset,
};
use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;
use umbo_core::optimizer::rules::catalogue;
use umbo_core::optimizer::{
    AverageKind, Averaging, GradientMode, Gradients, GradientsOptions, LossReduction, LossScaling,
    NonFinite, Optimizer, Settings, StateBits, VariableGroup, apply,
};
use umbo_core::strategy::step::merge::{MergeCall, Operation};
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::variables::assign;
use umbo_core::strategy::{Options, ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::tensor::DType;
use umbo_core::training::Epoch;
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::plateau::PLATEAU;
use super::trouble::{Kind, Trouble, is_planned};
use crate::on_gpus::{may_hold_variables, placed};
use crate::pairwise::pairwise;
use crate::passed_over::epoch_over;
use crate::{copy_into, dividing, options, tensor, tensor_of, try_to_copy_into};

/// Replicas of all ranks together, so that the bits are the same however they are spread.
pub const IN_SYNC: usize = 6;
const ROWS: i32 = 40;
const BATCH: i64 = 7;
pub const STEPS_OF_PASS: u64 = (ROWS as u64).div_ceil(BATCH as u64);
/// Of less than a tile, of some tiles with a rest, one whose states can be of 8 bits, and one that
/// is updated by rows.
const SHAPES: [&[usize]; 4] = [&[5], &[3, 700], &[50, 90], &[6, 3]];
const MATRIX: usize = 2;
const TABLE: usize = 3;

/// What is trained, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    rule: &'static str,
    settings: Settings,
    /// The type of gradients.
    dtype: Option<DType>,
    /// Some gradients are not finite, so that the update is skipped.
    overflows: bool,
    /// The matrix has an optimizer of its own, of a rule for matrices.
    has_two_optimizers: bool,
    /// A schedule that looks at numbers, and a group.
    has_schedule: bool,
    /// Steps have runs within merge calls.
    nests: bool,
}

const AVERAGES: [Averaging; 2] = [
    Averaging {
        kind: AverageKind::Exponential {
            decay: 0.75,
            warmup: true,
        },
        start: 0,
        interval: 1,
    },
    Averaging {
        kind: AverageKind::Mean,
        start: 1,
        interval: 2,
    },
];

/// Plans in which each two choices meet, as far as this process can have them.
pub fn plans() -> Vec<Plan> {
    let plan = |(number, choice): (usize, Vec<usize>)| {
        let is_on = |at: usize| choice[at] == 1;
        let on_hosts = !may_hold_variables();
        let rounds = choice[2] == 3 && on_hosts;
        let codes = is_on(3) && on_hosts;
        let fits = |name: &&&str| {
            let rule = catalogue::make(name).unwrap();
            (!rounds || rule.rounds()) && (!codes || rule.code_maps().is_some())
        };
        let factored = catalogue::FACTORED_RULES.iter().map(|rule| &rule.name);
        let rules = catalogue::NAMES.iter().chain(factored);
        let rules: Vec<&&str> = rules.filter(fits).collect();
        let scaling = [None, Some(LossScaling::Fixed(8.0)), Some(DYNAMIC)][choice[1]];
        let settings = Settings {
            loss_scaling: scaling,
            non_finite: is_on(4).then_some(NonFinite::Skip),
            averaging: AVERAGES.get(choice[2]).copied(),
            stochastic_rounding: rounds.then_some(number as u64),
            state_bits: match codes {
                true => StateBits::Eight,
                false => StateBits::Full,
            },
            global_clip_norm: is_on(5).then_some(0.5),
            clip_value: is_on(6).then_some(0.05),
            weight_decay: is_on(6).then_some(0.03),
            ..Settings::default()
        };
        Plan {
            rule: rules[number * 5 % rules.len()],
            settings,
            dtype: [None, Some(DType::Float16), Some(DType::BFloat16)][choice[0]],
            overflows: is_on(4),
            has_two_optimizers: is_on(7) && on_hosts,
            has_schedule: is_on(8),
            nests: is_on(9),
        }
    };
    let choices = pairwise(&[3, 3, 4, 2, 2, 2, 2, 2, 2, 2]);
    choices.into_iter().enumerate().map(plan).collect()
}

const DYNAMIC: LossScaling = LossScaling::Dynamic {
    initial: 8.0,
    growth_factor: 4.0,
    growth_interval: 2,
    backoff_factor: 0.25,
    minimum: 4.0,
};

/// The options of a process alone.
pub fn options_alone(devices: usize) -> Options {
    Options {
        replicas_in_sync: IN_SYNC,
        elastic: true,
        ..options(devices)
    }
}

/// The options of a rank.
pub fn options_of(rank: usize, devices: usize) -> Options {
    Options {
        bind_threads: false,
        replicas_in_sync: IN_SYNC,
        elastic: true,
        ..placed(rank, devices)
    }
}

pub fn data() -> Dataset {
    let numbers: Vec<i32> = (0..ROWS).collect();
    let rows = tensor(&numbers, &[numbers.len()]);
    let shuffle = ShuffleOptions {
        buffer_size: 16,
        seed: 9,
        ..ShuffleOptions::default()
    };
    let rows = Dataset::from_tensor_slices(&Value::Tensor(rows)).unwrap();
    rows.shuffle(&shuffle).unwrap().batch(BATCH, false).unwrap()
}

/// What trains some of the variables.
type Trainer = (Arc<Optimizer>, Arc<Gradients>);

pub struct Training {
    plan: Plan,
    pub strategy: Strategy,
    /// One that trains within the callback, if there is one, and the other.
    trainers: Vec<Trainer>,
    counts: Variable,
    metrics: Arc<Metrics>,
    #[expect(dead_code, reason = "it is kept for its iterator")]
    distributed: DistributedDataset,
    iterator: Arc<PassIterator>,
    pub checkpoint: Arc<Checkpoint>,
}

/// Variables in bfloat16 if the optimizer rounds. The first one is in float32 nevertheless, as are
/// the table, whose gradients are row-sparse, and a matrix that another optimizer trains.
fn variables(strategy: &Strategy, plan: &Plan) -> Result<Vec<Variable>> {
    let rounds = plan.settings.stochastic_rounding.is_some();
    let one = |(index, shape): (usize, &&[usize])| {
        let is_float32 = index == TABLE || index == 0 || plan.has_two_optimizers && index == MATRIX;
        let dtype = match rounds && !is_float32 {
            true => DType::BFloat16,
            false => DType::Float32,
        };
        let numbers = dividing::numbers(index, shape.iter().product());
        umbo_core::strategy::variables::create(
            Some(strategy),
            crate::named(&format!("v{index}"), Aggregation::None),
            umbo_core::strategy::variables::Initial::Value(&tensor_of(dtype, &numbers, shape)),
        )
    };
    SHAPES.iter().enumerate().map(one).collect()
}

fn trainers(strategy: &Strategy, plan: &Plan, variables: &[Variable]) -> Result<Vec<Trainer>> {
    let gradients = |variables: Vec<Variable>, row_sparse: &[bool]| {
        let given = GradientsOptions {
            row_sparse,
            accumulation_steps: 1,
            dtype: plan.dtype,
        };
        let devices = strategy.replica_devices();
        Gradients::new(
            strategy.id(),
            devices,
            variables,
            LossReduction::Mean,
            given,
        )
    };
    let rule = |name: &str| catalogue::make(name).unwrap();
    let mut variables = variables.to_vec();
    let mut trainers = Vec::new();
    if plan.has_two_optimizers {
        let matrix = variables.remove(MATRIX);
        let other = Optimizer::new(strategy.id(), rule("muon"), 0.01)?;
        let settings = Settings {
            loss_scaling: plan.settings.loss_scaling,
            non_finite: plan.settings.non_finite,
            ..Settings::default()
        };
        other.configure(settings)?;
        trainers.push((other, gradients(vec![matrix], &[])?));
    }
    let optimizer = Optimizer::new(strategy.id(), rule(plan.rule), 0.01)?;
    optimizer.configure(plan.settings)?;
    if plan.has_schedule {
        optimizer.set_named_schedule(PLATEAU)?;
        let group = VariableGroup {
            learning_rate_factor: 0.5,
            weight_decay: Some(0.25),
            frozen: false,
        };
        optimizer.add_group(&variables[1..2], group)?;
    }
    let mut row_sparse = vec![false; variables.len()];
    *row_sparse.last_mut().unwrap() = catalogue::updates_rows(plan.rule);
    trainers.push((optimizer, gradients(variables, &row_sparse)?));
    Ok(trainers)
}

impl Training {
    pub fn new(strategy: Strategy, plan: Plan) -> Result<Training> {
        let variables = variables(&strategy, &plan)?;
        let trainers = trainers(&strategy, &plan, &variables)?;
        let zeros = tensor(&[0f32; 3], &[3]);
        let counts = umbo_core::strategy::variables::create(
            Some(&strategy),
            crate::named("counts", Aggregation::Sum),
            umbo_core::strategy::variables::Initial::Value(&zeros),
        )?;
        let metrics = Metrics::new(&strategy);
        metrics.define("loss", MetricKind::Mean)?;
        let distributed = distribute_dataset(&strategy, &data(), &DistributeOptions::default())?;
        let iterator = Arc::new(distributed.iterator()?);
        let checkpoint = Checkpoint::new(&strategy);
        for variable in variables.iter().chain([&counts]) {
            checkpoint.add(variable.name(), Arc::new(variable.clone()))?;
        }
        checkpoint.add("pass", Arc::new(SavedIterator(Arc::clone(&iterator))))?;
        for (index, (optimizer, _)) in trainers.iter().enumerate() {
            checkpoint.add(&format!("optimizer{index}"), Arc::clone(optimizer) as _)?;
        }
        checkpoint.add("metrics", Arc::clone(&metrics) as _)?;
        checkpoint.set_number("passes", Number::Integer(0))?;
        Ok(Training {
            plan,
            strategy,
            trainers,
            counts,
            metrics,
            distributed,
            iterator,
            checkpoint,
        })
    }

    pub fn trainer(&self) -> &Trainer {
        self.trainers.last().unwrap()
    }

    /// The number of steps that have counted.
    pub fn steps(&self) -> u64 {
        self.strategy.lock_between_steps().unwrap().steps()
    }

    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.checkpoint.to_bytes()
    }

    /// So many more steps, over the ends of passes and over trouble.
    pub fn train(&self, steps: u64, trouble: &Arc<Trouble>) -> Result<()> {
        let last = self.steps() + steps;
        let step = self.step(trouble);
        let (optimizer, gradients) = self.trainer();
        let mut failures = 0;
        while self.steps() < last {
            let epoch = Epoch {
                update: Some((Arc::clone(optimizer), Arc::clone(gradients))),
                metrics: Some(&self.metrics),
                keep_metrics: true,
                max_steps: Some(last - self.steps()),
                limits: trouble.limits(),
                reset: true,
                ..epoch_over(&self.strategy, &self.iterator)
            };
            let callback = OwnedCallback::of(Arc::clone(&step));
            let ran = epoch.run(&callback, &|_, _, _| Ok(()), &mut |_, _| {
                if self.plan.has_schedule {
                    optimizer.observe((optimizer.iterations() * 7 % 5) as f64)?;
                }
                trouble.meet(Kind::Progress)
            });
            match ran {
                Err(error) if is_planned(&error) => {
                    failures += 1;
                    assert!(failures == 1, "it comes again: {error}");
                    self.strategy.synchronize()?;
                }
                ran => drop(ran?),
            }
        }
        Ok(())
    }

    fn step(&self, trouble: &Arc<Trouble>) -> Arc<ReplicaFunction> {
        let trainers = self.trainers.clone();
        let metrics = Arc::clone(&self.metrics);
        let counts = self.counts.clone();
        let plan = self.plan;
        let trouble = Arc::clone(trouble);
        Arc::new(move |context: &ReplicaContext| {
            let part = context.arguments()?.unwrap();
            let rows = part.tensor_of(0)?.to_vec::<i32>()?;
            let sum = rows.iter().map(|&row| row as f32 / 8.0).sum::<f32>();
            let overflows = plan.overflows && rows.iter().any(|row| [5, 27].contains(row));
            for (index, (optimizer, gradients)) in trainers.iter().enumerate() {
                contribute(context, gradients, &rows, sum, overflows)?;
                if index + 1 < trainers.len() {
                    apply(optimizer, gradients)?;
                }
            }
            metrics.add_in(context, "loss", f64::from(sum), rows.len() as f64)?;
            if plan.nests {
                run_within(context, &counts, &trouble)?;
            }
            trouble.meet_in(context, Kind::Callback)?;
            Ok(None)
        })
    }
}

/// The gradients of a replica's rows, whose sum is `sum`.
fn contribute(
    context: &ReplicaContext,
    gradients: &Arc<Gradients>,
    rows: &[i32],
    sum: f32,
    overflows: bool,
) -> Result<()> {
    for (index, variable) in gradients.variables().iter().enumerate() {
        if gradients.is_row_sparse(index) {
            let added = gradients.add_rows_in(context, index, 1)?;
            let row = rows.first().map_or(0, |row| i64::from(row % 6));
            copy_into(&added.indices, &tensor(&[row], &[1]));
            let values = [sum, -sum, 0.5];
            copy_into(
                &added.values,
                &tensor_of(added.values.dtype(), &values, &[1, 3]),
            );
            continue;
        }
        let count = variable.shape().elements();
        let scale = (sum - index as f32) / count as f32;
        let mut numbers: Vec<f32> = (0..count).map(|at| scale * (at % 7) as f32).collect();
        if overflows {
            numbers[count / 2] = f32::INFINITY;
        }
        let view = gradients.view_in(context, index, GradientMode::Overwrite)?;
        try_to_copy_into(view, &tensor_of(view.dtype(), &numbers, &variable.shape()))?;
    }
    gradients.submit_in(context, Some(rows.len() as f64))
}

/// A merge call with a run, each replica of which adds to the variable.
fn run_within(context: &ReplicaContext, counts: &Variable, trouble: &Arc<Trouble>) -> Result<()> {
    let counts = counts.clone();
    let trouble = Arc::clone(trouble);
    let nested = move |context: &ReplicaContext| {
        let place = context.replica_in_sync() as f32;
        let added = tensor(&[1.0, place / 3.0, 0.1 * place], &[3]);
        assign(&counts, Assignment::Add, &Value::Tensor(added))?;
        trouble.meet_in(context, Kind::Nested)?;
        Ok(None)
    };
    let merge = Operation::MergeCall { function: 1 };
    let run = Box::new(move |strategy: &Strategy, _: &mut [&mut MergeCall]| {
        strategy.run_within(Arc::new(nested), None, Limits::default(), None)?;
        Ok(None)
    });
    context.synchronize(merge, None, run).map(drop)
}
