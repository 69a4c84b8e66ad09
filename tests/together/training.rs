//! Updates: W ranks of M replicas come to the weights, the state and the reports of one process with
//! W·M replicas, bit for bit.

use std::sync::{Arc, LazyLock};

use half::{bf16, f16};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo::error::Status;
use umbo::optimizer::adam::Adam;
use umbo::optimizer::momentum::Momentum;
use umbo::optimizer::sgd::Sgd;
use umbo::optimizer::{
    Applied, ApplyOptions, GradientMode, Gradients, GradientsOptions, LossReduction, LossScaling,
    NonFinite, Optimizer, Settings, UpdateRule, VariableGroup, apply, apply_with,
};
use umbo::strategy::variables::{self, Initial, read};
use umbo::strategy::{ReplicaContext, Strategy};
use umbo::tensor::{DType, Tensor};
use umbo::values::variable::{Aggregation, Variable};

use super::engine::{job, ranks};
use super::on_gpus::tried;
use super::{alone, bytes, named, on_ranks, tensor};

/// The kinds of what is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Model {
    /// Dense gradients of the variables' type.
    Dense,
    /// Dense gradients of 16 bits.
    Half(DType),
    /// An embedding with row-sparse gradients, beside a dense variable.
    Rows,
    /// The same with 16 bits.
    RowsHalf,
}

/// How it is trained.
#[derive(Clone, Debug)]
pub struct Plan {
    pub model: Model,
    pub reduction: LossReduction,
    pub settings: Settings,
    pub accumulation: u64,
    /// The apply is deferred to the commit point of the run.
    pub deferred: bool,
    /// The gradients of one replica, of another one in each step, overflow.
    pub overflows: bool,
    /// Numbers of more than 16 bits differ so much that sums of them depend on the order.
    pub is_wide: bool,
}

pub fn rule(number: usize) -> Box<dyn UpdateRule> {
    match number {
        0 => Box::new(Sgd),
        1 => Box::new(Momentum::new(0.9, true).unwrap()),
        2 => Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap()),
        3 => Box::new(Adam::adamw(0.9, 0.999, 1e-7, 0.01).unwrap()),
        _ => Box::new(Adam::lamb(0.9, 0.999, 1e-6, 0.01).unwrap()),
    }
}

const SHAPES: [&[usize]; 5] = [&[7], &[40, 3], &[], &[0], &[260, 64]];

/// Numbers for gradients of so many bits.
fn gradients_of(is_wide: bool, overflows: bool, to: &Tensor, seed: u64) -> Vec<f32> {
    let mut values = numbers(seed, to.shape().elements());
    if overflows && to.dtype() == DType::Float16 {
        values.iter_mut().for_each(|value| *value *= 9e4);
    } else if overflows && let Some(first) = values.first_mut() {
        *first = f32::INFINITY;
    }
    if is_wide && to.dtype().size() > 2 {
        let mut from = ChaCha8Rng::seed_from_u64(seed + 5);
        values.iter_mut().for_each(|value| *value *= 2f32.powi(from.random_range(-40..20)));
    }
    values
}

/// Some of the numbers that were drawn once: without optimisation, drawing takes longer than all the rest.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    const STARTS: usize = 1 << 15;
    const MOST: usize = 260 * 64;
    static DRAWN: LazyLock<Vec<f32>> = LazyLock::new(|| {
        let mut from = ChaCha8Rng::seed_from_u64(1);
        let mut next = || from.random_range(-1.0f32..1.0) * 2f32.powi(from.random_range(-6..2));
        (0..STARTS + MOST).map(|_| next()).collect()
    });
    let start = (seed as usize).wrapping_mul(7919) % STARTS;
    DRAWN[start..start + count].to_vec()
}

/// Writes numbers into a gradient of whatever type.
fn write(to: &Tensor, values: &[f32]) {
    let shape = to.shape();
    let from = match to.dtype() {
        DType::Float16 => {
            tensor(&values.iter().map(|&it| f16::from_f32(it)).collect::<Vec<_>>(), &shape)
        }
        DType::BFloat16 => {
            tensor(&values.iter().map(|&it| bf16::from_f32(it)).collect::<Vec<_>>(), &shape)
        }
        DType::Float64 => tensor(&values.iter().map(|&it| it.into()).collect::<Vec<f64>>(), &shape),
        _ => tensor(values, &shape),
    };
    super::copy_into(to, &from);
}

/// What replica `replica` of all contributes in step `step`, and with which weight. Some have nothing,
/// and some leave a variable out.
fn contribute(
    context: &ReplicaContext,
    gradients: &Arc<Gradients>,
    plan: &Plan,
    step: u64,
) -> umbo::error::Result<()> {
    let replica = context.replica_in_sync() as u64;
    let seed = step * 1000 + replica * 10;
    let examples = (replica * 7 + step * 3) % 5;
    let all = context.strategy().num_replicas_in_sync() as u64;
    let overflows = plan.overflows && replica == (3 * step + 1) % all;
    for (index, variable) in gradients.variables().iter().enumerate() {
        if examples == 0 || (replica + index as u64 + step) % 6 == 5 {
            continue;
        }
        if gradients.is_row_sparse(index) {
            let rows = variable.shape()[0] as u64;
            for piece in 0..2 {
                let touched = (replica + step + piece) % 4;
                let added = gradients.add_rows_in(context, index, touched as usize)?;
                let indices: Vec<i64> = (0..touched)
                    .map(|at| ((at * at + replica * 3 + piece) % rows) as i64)
                    .collect();
                super::copy_into(&added.indices, &tensor(&indices, &[indices.len()]));
                let values = gradients_of(plan.is_wide, overflows, &added.values, seed + piece);
                write(&added.values, &values);
            }
        } else {
            let view = gradients.view_in(context, index, GradientMode::Overwrite)?;
            let values = gradients_of(plan.is_wide, overflows, view, seed + index as u64);
            write(view, &values);
        }
    }
    gradients.submit_in(context, Some(examples as f64))
}

struct Trained {
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

fn set_up(strategy: Strategy, plan: &Plan, rule: Box<dyn UpdateRule>) -> Trained {
    let make = |(index, shape): (usize, &&[usize])| {
        let count = shape.iter().product();
        let values = numbers(77 + index as u64, count);
        let value = match index {
            // One variable of float64, where gradients need not be narrower.
            1 if plan.model == Model::Dense => {
                tensor(&values.iter().map(|&it| it.into()).collect::<Vec<f64>>(), shape)
            }
            _ => tensor(&values, shape),
        };
        let new = named(&format!("v{index}"), Aggregation::None);
        variables::create(Some(&strategy), new, Initial::Value(&value)).unwrap()
    };
    let variables: Vec<Variable> = SHAPES.iter().enumerate().map(make).collect();
    let row_sparse: Vec<bool> = match plan.model {
        Model::Rows | Model::RowsHalf => {
            SHAPES.iter().map(|shape| shape.len() == 2 && shape[0] == 40).collect()
        }
        _ => Vec::new(),
    };
    let options = GradientsOptions {
        accumulation_steps: plan.accumulation,
        dtype: match plan.model {
            Model::Half(dtype) => Some(dtype),
            Model::RowsHalf => Some(DType::BFloat16),
            _ => None,
        },
        row_sparse: &row_sparse,
    };
    let gradients = Gradients::with_options(
        strategy.id(),
        strategy.replica_devices(),
        variables.clone(),
        plan.reduction,
        options,
    )
    .unwrap();
    let optimizer = Optimizer::new(strategy.id(), rule, 0.05).unwrap();
    optimizer.configure(plan.settings).unwrap();
    optimizer
        .add_group(
            &variables[..1],
            VariableGroup { learning_rate_factor: 0.5, ..VariableGroup::default() },
        )
        .unwrap();
    Trained { strategy, variables, gradients, optimizer }
}

/// Every rank has come to what was expected.
#[track_caller]
pub fn assert_same(came: &[Vec<Vec<u8>>], expected: &[Vec<u8>], what: &str) {
    for (rank, came) in came.iter().enumerate() {
        // What differs in number begins to differ somewhere.
        let known = |all: &[Vec<u8>]| {
            let texts = all.iter().filter(|it| it.is_ascii() && it.len() > 4 && it.len() < 80);
            texts.map(|it| String::from_utf8_lossy(it).into_owned()).collect::<Vec<_>>()
        };
        let told = || format!("{:?}, not {:?}", known(came), known(expected));
        assert_eq!(came.len(), expected.len(), "rank {rank}, {what}: {}", told());
        for (at, (came, expected)) in came.iter().zip(expected).enumerate() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let told = || (text(came), text(expected));
            assert!(came == expected, "result {at} of rank {rank}, {what}: {:?}", told());
        }
    }
}

/// Trains for some steps, with looks at the gradients before each apply; the bytes of all that is known
/// afterwards.
pub fn train(strategy: Strategy, plan: &Plan, rule: Box<dyn UpdateRule>) -> Vec<Vec<u8>> {
    let Trained { strategy, variables, gradients, optimizer } = set_up(strategy, plan, rule);
    let mut known = Vec::new();
    for step in 0..4 {
        let callback = |context: &ReplicaContext| {
            contribute(context, &gradients, plan, step)?;
            if plan.deferred {
                apply(&optimizer, &gradients)?;
            }
            Ok(None)
        };
        let mut came = strategy.run(&callback, None).map(drop).map_err(|error| error.status());
        if came.is_ok() && !plan.deferred && step != 1 {
            for index in 0..variables.len() {
                known.push(super::reduced::look(&gradients, index, Some(&optimizer)));
            }
        }
        if came.is_ok() && !plan.deferred {
            let options = ApplyOptions { flush: step == 3, measure_norm: step % 2 == 1 };
            came = match apply_with(&optimizer, &gradients, options) {
                Ok(Applied::Done(_)) => Ok(()),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error.status()),
            };
        }
        known.push(format!("{came:?}").into_bytes());
        if let Some(report) = optimizer.last_report() {
            let shown = format!(
                "{} {} {:?} {} {} {} {} {}",
                report.applied,
                report.skipped,
                // One NaN is as good as another, and each kind of processor has its own.
                report
                    .gradient_norm
                    .map(|norm| if norm.is_nan() { f64::NAN } else { norm }.to_bits()),
                report.clipped,
                // While runs are accumulated each rank knows its own.
                if report.accumulated_runs == 0 { report.total_weight } else { 0.0 },
                report.variables_updated,
                report.loss_scale,
                report.iterations,
            );
            known.push(shown.into_bytes());
        }
        known.extend(variables.iter().map(|variable| bytes(&read(variable).unwrap())));
    }
    for variable in &variables {
        for slot in ["m", "v", "momentum", "velocity"] {
            known.extend(optimizer.state(variable, slot).map(|state| bytes(&state)));
        }
    }
    known
}

/// All plans that there are: each two things together, in some plan.
pub fn plans() -> Vec<Plan> {
    let models = [
        Model::Dense,
        Model::Half(DType::Float16),
        Model::Half(DType::BFloat16),
        Model::Rows,
        Model::RowsHalf,
    ];
    let plain = Settings::default();
    let clipped = Settings { global_clip_norm: Some(0.7), clip_value: Some(0.05), ..plain };
    let scaled = Settings {
        loss_scaling: Some(LossScaling::Dynamic {
            initial: 1024.0,
            growth_factor: 2.0,
            growth_interval: 2,
            backoff_factor: 0.5,
            minimum: 1.0,
        }),
        ..plain
    };
    let fails = Settings { non_finite: Some(NonFinite::Fail), ..plain };
    let mut plans = Vec::new();
    for model in models {
        let all = [(plain, false), (clipped, false), (scaled, true), (fails, true)];
        for (number, (settings, overflows)) in all.into_iter().enumerate() {
            for accumulation in [1, 2] {
                // A scale, with a norm to be had of what it has scaled.
                let clips = settings.loss_scaling.is_some() && accumulation == 2;
                let norm = if clips { Some(0.7) } else { settings.global_clip_norm };
                let settings = Settings { global_clip_norm: norm, ..settings };
                let reductions =
                    [LossReduction::Sum, LossReduction::Mean, LossReduction::GlobalMean];
                plans.push(Plan {
                    model,
                    reduction: reductions[plans.len() % 3],
                    settings,
                    accumulation,
                    deferred: (number + accumulation as usize).is_multiple_of(2),
                    overflows,
                    is_wide: false,
                });
            }
        }
    }
    plans
}

#[test]
fn ranks_train_as_one_process_does() {
    let splits = [(2, 1), (3, 1), (2, 2), (4, 1), (3, 2), (2, 3)];
    for (number, plan) in tried(plans().into_iter().enumerate()) {
        let (size, replicas) = splits[number % splits.len()];
        let of = match plan.model {
            Model::Rows | Model::RowsHalf => [0, 2][(number / 4 + number) % 2],
            _ => number % 5,
        };
        let expected = train(alone(size * replicas), &plan, rule(of));
        let ranks = job(size, Some(number as u64), None);
        let came =
            on_ranks(&ranks, replicas, |_, strategy| train(strategy.unwrap(), &plan, rule(of)));
        assert_same(&came, &expected, &format!("rule {of}, {size}×{replicas}: {plan:?}"));
    }
}

/// Every split of the same replicas, for every kind of gradients.
#[test]
fn the_split_does_not_show() {
    for model in [Model::Dense, Model::Half(DType::BFloat16), Model::Rows] {
        let plan = Plan {
            model,
            reduction: LossReduction::Sum,
            settings: Settings { global_clip_norm: Some(0.7), ..Settings::default() },
            accumulation: 1,
            deferred: true,
            overflows: false,
            is_wide: false,
        };
        let expected = train(alone(12), &plan, rule(2));
        let splits = [(2, 6), (3, 4), (4, 3), (6, 2), (12, 1)];
        for (size, replicas) in tried(splits) {
            let came = on_ranks(&ranks(size), replicas, |_, strategy| {
                train(strategy.unwrap(), &plan, rule(2))
            });
            assert!(came.iter().all(|came| *came == expected), "{size}×{replicas}, {plan:?}");
        }
    }
}

/// An apply that fails on one rank alone, or of other gradients, changes nothing anywhere.
#[test]
fn an_update_is_of_all_ranks_or_of_none() {
    let plan = Plan {
        model: Model::Dense,
        reduction: LossReduction::Sum,
        settings: Settings::default(),
        accumulation: 1,
        deferred: true,
        overflows: false,
        is_wide: false,
    };
    for deferred in [true, false] {
        let plan = Plan { deferred, ..plan.clone() };
        on_ranks(&ranks(3), 2, |rank, strategy| {
            let trained = set_up(strategy.unwrap(), &plan, rule(2));
            let Trained { strategy, variables, gradients, optimizer } = &trained;
            let step = |number: u64| {
                let callback = |context: &ReplicaContext| {
                    contribute(context, gradients, &plan, number)?;
                    if plan.deferred {
                        apply(optimizer, gradients)?;
                    }
                    Ok(None)
                };
                strategy.run(&callback, None)?;
                if plan.deferred { Ok(()) } else { apply(optimizer, gradients).map(drop) }
            };
            let weights = || -> Vec<_> {
                variables.iter().map(|variable| bytes(&read(variable).unwrap())).collect()
            };
            step(1).unwrap();
            let before = weights();
            let fails = rank == 1;
            optimizer.set_schedule(Arc::new(move |_| match fails {
                true => Err(umbo::error::Error::NotFound("no schedule today".into())),
                false => Ok(0.1),
            }));
            let error = step(2).unwrap_err();
            assert_eq!(error.status(), Status::NotFound, "{error}");
            assert_eq!(error.to_string().contains("rank 1 failed"), !fails, "{error}");
            assert_eq!((weights(), optimizer.iterations()), (before.clone(), 1));
            optimizer.set_learning_rate(0.1).unwrap();
            step(3).unwrap();
            assert_ne!(weights(), before);
            let before = weights();
            // Options that differ.
            strategy
                .run(
                    &|context: &ReplicaContext| {
                        contribute(context, gradients, &plan, 4)?;
                        Ok(None)
                    },
                    None,
                )
                .unwrap();
            let options = ApplyOptions { measure_norm: rank == 2, ..ApplyOptions::default() };
            let error = apply_with(optimizer, gradients, options).unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            assert_eq!(weights(), before);
            apply(optimizer, gradients).unwrap();
            assert_ne!(weights(), before);
        });
    }
}

/// A rank dies at each of its calls in turn: the weights are those of some step, on all that are left
/// of the same step or of two that follow each other.
#[test]
fn deaths_leave_no_update_half_done() {
    let plan = Plan {
        model: Model::Rows,
        reduction: LossReduction::Sum,
        settings: Settings::default(),
        accumulation: 1,
        deferred: true,
        overflows: false,
        is_wide: false,
    };
    let after = |steps: u64, strategy: Strategy| {
        let trained = set_up(strategy, &plan, rule(2));
        let mut weights = Vec::new();
        let mut failed = false;
        for number in 0..steps {
            let all: Vec<_> =
                trained.variables.iter().map(|variable| bytes(&read(variable).unwrap())).collect();
            weights.push(all);
            let callback = |context: &ReplicaContext| {
                contribute(context, &trained.gradients, &plan, number)?;
                apply(&trained.optimizer, &trained.gradients)?;
                Ok(None)
            };
            if trained.strategy.run(&callback, None).is_err() {
                failed = true;
                break;
            }
        }
        let all: Vec<_> =
            trained.variables.iter().map(|variable| bytes(&read(variable).unwrap())).collect();
        weights.push(all);
        (weights, failed)
    };
    let (expected, _) = after(3, alone(4));
    for at in 20.. {
        let job = job(2, Some(at), Some((1, at)));
        let came = on_ranks(&job, 2, |_, strategy| after(3, strategy.unwrap()));
        for (weights, failed) in &came {
            // A step that has failed leaves what was before it.
            let steps = weights.len() - usize::from(*failed);
            assert_eq!(weights[..steps], expected[..steps]);
            assert!(weights[steps - 1] == weights[weights.len() - 1] || !failed);
        }
        if came.iter().all(|(_, failed)| !failed) {
            return;
        }
    }
}
