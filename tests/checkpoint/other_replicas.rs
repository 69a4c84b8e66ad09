//! A training that goes on with another number of replicas comes to what the first number would have come to, up to the
//! rounding of its sums.

use std::sync::Arc;

use umbo::checkpoint::{Checkpoint, SavedIterator};
use umbo::input::{Dataset, PassIterator, ShuffleOptions, distribute_dataset};
use umbo::optimizer::adam::Adam;
use umbo::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, Settings, apply,
};
use umbo::strategy::variables::read;
use umbo::strategy::{ReplicaContext, Strategy};
use umbo::tensor::DType;
use umbo::values::variable::Variable;

use super::scene::{Folder, strategy, values, variable};

const WEIGHTS: usize = 6;

/// A linear model, whose gradients are those of the examples however they are split.
struct Training {
    strategy: Strategy,
    weights: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    batches: Arc<PassIterator>,
    checkpoint: Arc<Checkpoint>,
}

impl Training {
    fn new(replicas: usize, accumulation_steps: u64) -> Training {
        let strategy = strategy(replicas);
        let weights = variable(&strategy, "weights", &[WEIGHTS], DType::Float32);
        let options = GradientsOptions { accumulation_steps, ..GradientsOptions::default() };
        let gradients = Gradients::with_options(
            strategy.id(),
            strategy.compute_devices(),
            vec![weights.clone()],
            LossReduction::Sum,
            options,
        )
        .unwrap();
        let rule = Box::new(Adam::new(0.9, 0.99, 1e-8).unwrap());
        let optimizer = Optimizer::new(strategy.id(), rule, 0.05).unwrap();
        let clipped = Settings { global_clip_norm: Some(0.5), ..Settings::default() };
        optimizer.configure(clipped).unwrap();
        let shuffle = ShuffleOptions { buffer_size: 11, seed: 5, keep_order_each_pass: false };
        // The last batch of a round has 4 of 39 numbers, so that some replicas of five have none.
        let numbers = Dataset::range(0, 39, 1).unwrap().shuffle(&shuffle).unwrap();
        let numbers = numbers.batch(7, false).unwrap().repeat(-1).unwrap();
        let batches = distribute_dataset(&strategy, &numbers, &Default::default()).unwrap();
        let batches = Arc::new(batches.iterator().unwrap());
        let checkpoint = Checkpoint::new(&strategy);
        checkpoint.add("weights", Arc::new(weights.clone())).unwrap();
        checkpoint.add("optimizer", Arc::clone(&optimizer) as _).unwrap();
        checkpoint.add("gradients", Arc::clone(&gradients) as _).unwrap();
        checkpoint.add("batches", Arc::new(SavedIterator(Arc::clone(&batches)))).unwrap();
        Training { strategy, weights, gradients, optimizer, batches, checkpoint }
    }

    fn train(&self, steps: usize) -> Vec<f64> {
        for _ in 0..steps {
            let batch = self.batches.next().unwrap();
            let step = |context: &ReplicaContext| {
                let weights = values(&read(&self.weights)?);
                let mut sums = [0.0; WEIGHTS];
                for example in context.arguments()?.unwrap().tensor_of(0)?.to_vec::<i64>()? {
                    let inputs: [f64; WEIGHTS] = std::array::from_fn(|at| {
                        ((example * 7 + 3) as f64 * (at + 1) as f64).sin()
                    });
                    let pairs = || weights.iter().zip(inputs);
                    let error = pairs().map(|(weight, input)| weight * input).sum::<f64>() - 1.0;
                    for (sum, (_, input)) in sums.iter_mut().zip(pairs()) {
                        *sum += error * input;
                    }
                }
                let view = self.gradients.view_in(context, 0, GradientMode::Overwrite)?;
                let mut sums = sums.into_iter();
                // SAFETY: the buffer is the replica's own to write.
                unsafe { view.assume_exclusive() }.fill_with(&mut || sums.next().unwrap())?;
                self.gradients.submit_in(context, None)?;
                Ok(None)
            };
            self.strategy.run(&step, batch).unwrap();
            apply(&self.optimizer, &self.gradients).unwrap();
        }
        values(&read(&self.weights).unwrap())
    }
}

/// How far apart weights are, where their sums are rounded otherwise; float32 has 24 bits.
fn distance(some: &[f64], others: &[f64]) -> f64 {
    some.iter().zip(others).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
}

#[test]
fn the_rest_is_that_of_the_first_number_up_to_rounding() {
    let folder = Folder::new();
    let file = folder.path("middle");
    for accumulation in [1, 3] {
        for from in [1, 2, 3] {
            let unbroken = Training::new(from, accumulation);
            // In the middle of a round, and of three runs that make an update.
            let there = unbroken.train(10);
            unbroken.checkpoint.save(&file).unwrap();
            let end = unbroken.train(11);
            assert!(distance(&there, &end) > 0.05, "nothing is learnt: {there:?} {end:?}");
            for to in [1, 2, 3, 5] {
                let resumed = Training::new(to, accumulation);
                resumed.checkpoint.restore(&file).unwrap();
                let came = resumed.train(11);
                let apart = distance(&came, &end);
                assert!(apart < 1e-5, "{from} to {to} replicas, {accumulation} runs: {apart}");
                assert!(from != to || apart == 0.0, "{from} to {to} replicas: {apart}");
            }
        }
    }
}
