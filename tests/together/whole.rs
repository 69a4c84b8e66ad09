//! A whole training with a chosen number of replicas in sync: batches with partial last ones, statistics as
//! a batch normalisation keeps them, dropout by the place in the batch, runs inside of merge calls, metrics.
//! The SHA-256 of all that comes of it is the same for every number of ranks and devices.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use umbo::collectives::ReduceOp;
use umbo::error::Result;
use umbo::input::{Dataset, DistributeOptions, ShuffleOptions, distribute_dataset};
use umbo::metrics::Metrics;
use umbo::metrics::kind::MetricKind;
use umbo::optimizer::{
    ApplyOptions, GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, Settings,
    apply_with,
};
use umbo::strategy::assign_all::assign_all;
use umbo::strategy::merge::{MergeCall, Operation};
use umbo::strategy::metrics::Metric;
use umbo::strategy::variables::{self, Initial, read};
use umbo::strategy::{ReplicaContext, Strategy};
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Variable};

use super::engine::ranks;
use super::training::rule;
use super::{bytes, named, on_ranks_of, options, tensor};

const FEATURES: usize = 6;
const EXAMPLES: usize = 47;
const BATCH: usize = 15;
const EPOCHS: usize = 3;

/// What is trained, and how.
#[derive(Clone, Copy, Debug)]
struct How {
    /// The number of the update rule.
    rule: usize,
    accumulation: u64,
    clips: bool,
    in_sync: usize,
}

/// Numbers that are far apart, so that their sums depend on the order.
fn number(seed: usize) -> f32 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let fraction = (mixed >> 40) as f32 / (1 << 24) as f32 - 0.5;
    fraction * 2f32.powi((mixed % 41) as i32 - 30)
}

struct Program {
    strategy: Strategy,
    weights: Variable,
    /// Mean and variance of the features, over all batches.
    statistics: [Variable; 2],
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    metrics: Arc<Metrics>,
}

impl Program {
    fn new(strategy: Strategy, how: How) -> Program {
        let make = |name: &str, aggregation, value: f32| {
            let initial = tensor(&[value; FEATURES], &[FEATURES]);
            let new = named(name, aggregation);
            variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap()
        };
        let weights = make("weights", Aggregation::None, 0.25);
        let statistics =
            [make("mean", Aggregation::Mean, 0.0), make("variance", Aggregation::Mean, 1.0)];
        let options = GradientsOptions {
            accumulation_steps: how.accumulation,
            ..GradientsOptions::default()
        };
        let gradients = Gradients::with_options(
            strategy.id(),
            strategy.replica_devices(),
            vec![weights.clone()],
            LossReduction::Sum,
            options,
        )
        .unwrap();
        let optimizer = Optimizer::new(strategy.id(), rule(how.rule), 0.05).unwrap();
        let clip = how.clips.then_some(0.3);
        optimizer.configure(Settings { global_clip_norm: clip, ..Settings::default() }).unwrap();
        let metrics = Metrics::new(&strategy);
        metrics.define("loss", MetricKind::Mean).unwrap();
        Program { strategy, weights, statistics, gradients, optimizer, metrics }
    }

    fn step(&self, context: &ReplicaContext) -> Result<()> {
        let Some(arguments) = context.arguments()? else { return Ok(()) };
        let part = arguments.tensor_of(context.replica())?;
        let values = part.to_vec::<f32>()?;
        let rows: Vec<&[f32]> = values.chunks(FEATURES).collect();
        let place = context.batch_position();
        // The statistics of the whole batch, which all replicas see.
        let sums = |power: i32| -> Vec<f32> {
            let of = |column: usize| rows.iter().map(|row| row[column].powi(power)).sum();
            (0..FEATURES).map(of).collect()
        };
        let own = tensor(&[sums(1), sums(2)].concat(), &[2, FEATURES]);
        let all = context.all_reduce(ReduceOp::Sum, Value::Tensor(own))?;
        let all = all.tensor_of(0)?.to_vec::<f32>()?;
        let count = place.global_examples.unwrap() as f32;
        let mean: Vec<f32> = all[..FEATURES].iter().map(|sum| sum / count).collect();
        let examples = rows.len() as f64;
        let per_example = |sums: Vec<f32>| {
            let count = rows.len().max(1) as f32;
            tensor(&sums.into_iter().map(|sum| sum / count).collect::<Vec<_>>(), &[FEATURES])
        };
        let of_part = vec![per_example(sums(1)), per_example(sums(2))];
        assign_all(context, &self.statistics, of_part, Some(examples))?;

        let weights = read(&self.weights)?.to_vec::<f32>()?;
        let mut gradient = vec![0f32; FEATURES];
        for (at, row) in rows.iter().enumerate() {
            let example = place.first_example as usize + at;
            let keeps = |column: usize| {
                number((context.step_number() as usize * 1000 + example) * 10 + column) > 0.0
            };
            let kept = |column: usize| if keeps(column) { row[column] - mean[column] } else { 0.0 };
            let error: f32 = (0..FEATURES).map(|column| weights[column] * kept(column)).sum();
            for (column, sum) in gradient.iter_mut().enumerate() {
                *sum += (error - row[0]) * kept(column) + row[column];
            }
            let loss = Metric { sum: f64::from(error * error), weight: 1.0 };
            context.add_metric("loss", loss)?;
            self.metrics.add_in(context, 0, loss.sum, 1.0)?;
        }
        let to = self.gradients.view_in(context, 0, GradientMode::Overwrite)?;
        super::copy_into(to, &tensor(&gradient, &[FEATURES]));
        self.gradients.submit_in(context, None)?;
        // Something that all replicas do together once more, in a run of its own.
        let merge = |strategy: &Strategy, _: &mut [&mut MergeCall]| {
            let inner = |context: &ReplicaContext| {
                let sum = f64::from(number(context.replica_in_sync() + 77)) * 1e9;
                context.add_metric("inner", Metric { sum, weight: 0.1 })?;
                Ok(None)
            };
            strategy.run_within(Arc::new(inner), None, Default::default(), None)?;
            strategy.run_within(Arc::new(inner), None, Default::default(), None)?;
            Ok(None)
        };
        context.synchronize(Operation::MergeCall { function: 5 }, None, Box::new(merge))?;
        Ok(())
    }
}

/// Trains, and hashes weights, state, statistics and metrics after each step.
fn hash(strategy: Strategy, how: How) -> String {
    let program = Program::new(strategy, how);
    let values: Vec<f32> = (0..EXAMPLES * FEATURES).map(number).collect();
    let data = Value::Tensor(tensor(&values, &[EXAMPLES, FEATURES]));
    let shuffle =
        ShuffleOptions { buffer_size: EXAMPLES as i64, seed: 3, ..ShuffleOptions::default() };
    let batches = Dataset::from_tensor_slices(&data)
        .unwrap()
        .shuffle(&shuffle)
        .unwrap()
        .batch(BATCH as i64, false)
        .unwrap();
    let batches =
        distribute_dataset(&program.strategy, &batches, &DistributeOptions::default()).unwrap();
    let mut hash = Sha256::new();
    for epoch in 0..EPOCHS {
        let iterator = batches.iterator().unwrap();
        while let Some(batch) = iterator.next().unwrap() {
            let step = |context: &ReplicaContext| program.step(context).map(|()| None);
            program.strategy.run(&step, Some(batch)).unwrap();
            let flush = epoch + 1 == EPOCHS;
            let options = ApplyOptions { flush, ..ApplyOptions::default() };
            apply_with(&program.optimizer, &program.gradients, options).unwrap();
            for variable in program.statistics.iter().chain([&program.weights]) {
                hash.update(bytes(&read(variable).unwrap()));
            }
            for name in ["loss", "inner"] {
                let metric = program.strategy.metric(name).unwrap();
                hash.update(metric.sum.to_le_bytes());
                hash.update(metric.weight.to_le_bytes());
            }
            hash.update(program.metrics.result(0).unwrap().sum.to_le_bytes());
        }
    }
    for slot in ["m", "v", "momentum", "velocity"] {
        if let Ok(state) = program.optimizer.state(&program.weights, slot) {
            hash.update(bytes(&state));
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn trainings_on_any_number_of_ranks_and_devices_have_one_hash() {
    let all = [
        How { rule: 1, accumulation: 1, clips: true, in_sync: 12 },
        How { rule: 3, accumulation: 2, clips: false, in_sync: 12 },
        How { rule: 3, accumulation: 1, clips: true, in_sync: 17 },
    ];
    let mut hashes = Vec::new();
    for how in all {
        let expected = hash(Strategy::new(&options(how.in_sync)).unwrap(), how);
        let splits = (1..=4).flat_map(|size| (1..=3).map(move |devices| (size, devices)));
        for (size, devices) in splits {
            let of_rank =
                |_| umbo::strategy::Options { replicas_in_sync: how.in_sync, ..options(devices) };
            let came =
                on_ranks_of(&ranks(size), of_rank, |_, strategy| hash(strategy.unwrap(), how));
            assert!(came.iter().all(|came| *came == expected), "{size}×{devices}: {how:?}");
        }
        hashes.push(expected);
    }
    // They are hashes of something.
    hashes.dedup();
    assert_eq!(hashes.len(), all.len());
}
