//! Updates: W ranks of M replicas come to the weights, the state and the reports of one process
//! with W·M replicas, bit for bit.

use std::sync::{Arc, LazyLock};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{
    Applied, ApplyOptions, GradientMode, Gradients, GradientsOptions, LossReduction, LossScaling,
    NonFinite, Optimizer, Settings, UpdateRule, VariableGroup, apply, apply_with,
};
use umbo_core::strategy::variables::read;
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Tensor};
use umbo_core::values::variable::{Aggregation, Variable};

use super::engine::job;
use super::on_gpus::{may_hold_variables, runs, shared_or_apart, tried};
use super::reproducible::chosen;
use super::{alone, bytes, on_ranks_of, tensor, tensor_of, try_to_copy_into, variable};

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
    /// Weights in bfloat16, which are rounded, and one variable in float32; each with gradients of
    /// its own type.
    Rounded,
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
        values
            .iter_mut()
            .for_each(|value| *value *= 2f32.powi(from.random_range(-40..20)));
    }
    values
}

/// Some of the numbers that were drawn once: without optimisation, drawing takes longer than all
/// the rest.
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

/// What replica `replica` of all contributes in step `step`, and with which weight. Some have
/// nothing, and some leave a variable out.
fn contribute(
    context: &ReplicaContext,
    gradients: &Arc<Gradients>,
    plan: &Plan,
    step: u64,
) -> umbo_core::error::Result<()> {
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
                try_to_copy_into(&added.indices, &tensor(&indices, &[indices.len()]))?;
                let values = gradients_of(plan.is_wide, overflows, &added.values, seed + piece);
                try_to_copy_into(
                    &added.values,
                    &tensor_of(added.values.dtype(), &values, &added.values.shape()),
                )?;
            }
        } else {
            let view = gradients.view_in(context, index, GradientMode::Overwrite)?;
            let values = gradients_of(plan.is_wide, overflows, view, seed + index as u64);
            try_to_copy_into(view, &tensor_of(view.dtype(), &values, &view.shape()))?;
        }
    }
    gradients.submit_in(context, Some(examples as f64))
}

/// Every rank has come to what was expected.
#[track_caller]
pub fn assert_same(came: &[Vec<Vec<u8>>], expected: &[Vec<u8>], case: &str) {
    for (rank, came) in came.iter().enumerate() {
        assert_eq!(came.len(), expected.len(), "rank {rank}, {case}");
        for (at, (came, expected)) in came.iter().zip(expected).enumerate() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let told = || (text(came), text(expected));
            assert!(
                came == expected,
                "result {at} of rank {rank}, {case}: {:?}",
                told()
            );
        }
    }
}

/// Trains for some steps, with looks at the gradients before each apply; the bytes of all that is
/// known afterwards.
pub fn train(strategy: Strategy, plan: &Plan, rule: Box<dyn UpdateRule>) -> Vec<Vec<u8>> {
    let make = |(index, shape): (usize, &&[usize])| {
        let values = numbers(77 + index as u64, shape.iter().product());
        // One variable of float64, where gradients need not be narrower.
        let dtype = match (plan.model, index) {
            (Model::Dense, 1) => DType::Float64,
            (Model::Rounded, 0 | 2..) => DType::BFloat16,
            _ => DType::Float32,
        };
        let value = tensor_of(dtype, &values, shape);
        variable(&strategy, &format!("v{index}"), Aggregation::None, &value)
    };
    let variables: Vec<Variable> = SHAPES.iter().enumerate().map(make).collect();
    let has_rows = matches!(plan.model, Model::Rows | Model::RowsHalf);
    let options = GradientsOptions {
        accumulation_steps: plan.accumulation,
        dtype: match plan.model {
            Model::Half(dtype) => Some(dtype),
            Model::RowsHalf => Some(DType::BFloat16),
            _ => None,
        },
        row_sparse: &SHAPES.map(|shape| has_rows && shape.len() == 2 && shape[0] == 40),
    };
    let id = strategy.id();
    let devices = strategy.replica_devices();
    let gradients =
        Gradients::new(id, devices, variables.clone(), plan.reduction, options).unwrap();
    let optimizer = Optimizer::new(id, rule, 0.05).unwrap();
    optimizer.configure(plan.settings).unwrap();
    let group = VariableGroup {
        learning_rate_factor: 0.5,
        ..VariableGroup::default()
    };
    optimizer.add_group(&variables[..1], group).unwrap();
    let mut known = Vec::new();
    for step in 0..4 {
        let callback = |context: &ReplicaContext| {
            contribute(context, &gradients, plan, step)?;
            if plan.deferred {
                apply(&optimizer, &gradients)?;
            }
            Ok(None)
        };
        let mut came = strategy
            .run(&callback, None)
            .map(drop)
            .map_err(|error| error.status());
        if came.is_ok() && !plan.deferred && step != 1 {
            for index in 0..variables.len() {
                known.push(super::reduced::look(&gradients, index, Some(&optimizer)));
            }
        }
        if came.is_ok() && !plan.deferred {
            let options = ApplyOptions {
                flush: step == 3,
                measure_norm: step % 2 == 1,
            };
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
                if report.accumulated_runs == 0 {
                    report.total_weight
                } else {
                    0.0
                },
                report.variables_updated,
                report.loss_scale,
                report.iterations,
            );
            known.push(shown.into_bytes());
        }
        known.extend(
            variables
                .iter()
                .map(|variable| bytes(&read(variable).unwrap())),
        );
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
        Model::Rounded,
    ];
    let plain = Settings::default();
    let clipped = Settings {
        global_clip_norm: Some(0.7),
        clip_value: Some(0.05),
        ..plain
    };
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
    let fails = Settings {
        non_finite: Some(NonFinite::Fail),
        ..plain
    };
    let mut plans = Vec::new();
    for model in models {
        let all = [
            (plain, false),
            (clipped, false),
            (scaled, true),
            (fails, true),
        ];
        for (number, (settings, overflows)) in all.into_iter().enumerate() {
            for accumulation in [1, 2] {
                // A scale, with a norm to be had of what it has scaled.
                let clips = settings.loss_scaling.is_some() && accumulation == 2;
                let norm = if clips {
                    Some(0.7)
                } else {
                    settings.global_clip_norm
                };
                let settings = Settings {
                    global_clip_norm: norm,
                    stochastic_rounding: (model == Model::Rounded).then_some(number as u64),
                    ..settings
                };
                let reductions = [
                    LossReduction::Sum,
                    LossReduction::Mean,
                    LossReduction::GlobalMean,
                ];
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

/// Each device has a replica, or the number of replicas was chosen. Some of the ranks are strict.
#[test]
fn ranks_train_as_one_process_does() {
    let splits = [(2, 1), (3, 1), (2, 2), (4, 1), (3, 2), (2, 3), (4, 3)];
    let on_hosts = !may_hold_variables();
    let plans = plans().into_iter().enumerate();
    let plans = plans.filter(|(_, plan)| on_hosts || plan.model != Model::Rounded);
    for (number, plan) in tried(plans) {
        let rule_name = match plan.model {
            Model::Rounded => number % 4,
            Model::Rows | Model::RowsHalf => [0, 2][(number / 4 + number) % 2],
            _ => number % 5,
        };
        // Both with each model, with each setting and with each accumulation.
        let in_sync = [0, 12][(number / 8 + number / 2 + number) % 2];
        let (size, devices) = splits[(number + in_sync) % splits.len()];
        let plan = Plan {
            is_wide: in_sync > 0 && !plan.overflows,
            ..plan
        };
        let accumulation = if in_sync > 0 {
            1
        } else {
            runs(plan.accumulation)
        };
        let plan = Plan {
            accumulation,
            ..plan
        };
        let all = if in_sync == 0 {
            size * devices
        } else {
            in_sync
        };
        let expected = train(alone(all), &plan, rule(rule_name));
        let options = |rank: usize| Options {
            bind_threads: false,
            strict: (rank + number).is_multiple_of(3),
            ..match in_sync {
                0 => shared_or_apart(rank, size, devices),
                _ => chosen(rank, devices, in_sync),
            }
        };
        let ranks = job(size, Some(number as u64), None);
        let came = on_ranks_of(&ranks, options, |_, made| {
            train(made.unwrap(), &plan, rule(rule_name))
        });
        let case = format!("rule {rule_name}, {all} on {size}×{devices}: {plan:?}");
        assert_same(&came, &expected, &case);
    }
}
