//! Checkpoints: what one rank has saved is where any number of ranks goes on.

use std::sync::Arc;

use umbo::checkpoint::{Checkpoint, SavedIterator};
use umbo::error::Status;
use umbo::input::{Dataset, ShuffleOptions, distribute_dataset};
use umbo::optimizer::adam::Adam;
use umbo::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
use umbo::strategy::variables::{self, Initial, read};
use umbo::strategy::{ReplicaContext, Strategy};
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Variable};

use super::engine::ranks;
use super::saving::Folder;
use super::{alone, bytes, named, on_ranks, tensor};

struct Training {
    strategy: Strategy,
    variable: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    iterator: Arc<umbo::input::PassIterator>,
    checkpoint: Arc<Checkpoint>,
}

impl Training {
    fn new(strategy: Strategy, accumulation: u64) -> Training {
        let initial = tensor(&[0.5f32, -0.25, 2.0], &[3]);
        let new = named("w", Aggregation::None);
        let variable = variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap();
        let gradients = Gradients::accumulating(
            strategy.id(),
            strategy.replica_devices(),
            vec![variable.clone()],
            LossReduction::Sum,
            accumulation,
        )
        .unwrap();
        let rule = Adam::new(0.9, 0.999, 1e-7).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.1).unwrap();
        let numbers: Vec<f32> = (0..50).map(|number| number as f32 / 8.0).collect();
        let data = Dataset::from_tensor_slices(&Value::Tensor(tensor(&numbers, &[50]))).unwrap();
        let shuffle = ShuffleOptions { buffer_size: 20, seed: 9, ..ShuffleOptions::default() };
        let data = data.shuffle(&shuffle).unwrap().batch(7, false).unwrap();
        let distributed = distribute_dataset(&strategy, &data, &Default::default()).unwrap();
        let iterator = Arc::new(distributed.iterator().unwrap());
        let checkpoint = Checkpoint::new(&strategy);
        checkpoint.add("pass", Arc::new(SavedIterator(Arc::clone(&iterator)))).unwrap();
        checkpoint.add("w", Arc::new(variable.clone())).unwrap();
        checkpoint.add("optimizer", Arc::clone(&optimizer) as _).unwrap();
        checkpoint.add("gradients", Arc::clone(&gradients) as _).unwrap();
        Training { strategy, variable, gradients, optimizer, iterator, checkpoint }
    }

    fn train(&self, steps: usize) -> Vec<u8> {
        for _ in 0..steps {
            let element = self.iterator.next().unwrap();
            let step = |context: &ReplicaContext| {
                let rows = context.arguments()?.unwrap().tensor_of(0)?.to_vec::<f32>()?;
                let number = context.step_number() as f32;
                let sum: f32 = rows.iter().sum();
                let view = self.gradients.view_in(context, 0, GradientMode::Overwrite)?;
                super::copy_into(view, &tensor(&[sum, sum * number, rows.len() as f32], &[3]));
                self.gradients.submit_in(context, None)?;
                Ok(None)
            };
            self.strategy.run(&step, element).unwrap();
            apply(&self.optimizer, &self.gradients).unwrap();
        }
        bytes(&read(&self.variable).unwrap())
    }
}

#[test]
fn a_checkpoint_goes_on_with_any_number_of_ranks() {
    let expected = Training::new(alone(4), 1).train(6);
    let splits = [(1, 4), (2, 2), (4, 1)];
    for (number, (size, replicas)) in splits.into_iter().enumerate() {
        let folder = Folder::new(&format!("split-{number}"));
        on_ranks(&ranks(size), replicas, |_, strategy| {
            let training = Training::new(strategy.unwrap(), 1);
            training.train(3);
            training.checkpoint.save(&folder.file()).unwrap();
        });
        for (size, replicas) in splits {
            let came = on_ranks(&ranks(size), replicas, |_, strategy| {
                let training = Training::new(strategy.unwrap(), 1);
                training.checkpoint.restore(&folder.file()).unwrap();
                training.train(3)
            });
            assert!(came.iter().all(|came| *came == expected), "{size}×{replicas}: {came:?}");
        }
    }
}

#[test]
fn what_is_accumulated_is_restored_once_and_saved_by_none() {
    let expected = Training::new(alone(4), 3).train(6);
    let folder = Folder::new("accumulated");
    let training = Training::new(alone(4), 3);
    training.train(2);
    training.checkpoint.save(&folder.file()).unwrap();
    for (size, replicas) in [(2, 2), (4, 1)] {
        let came = on_ranks(&ranks(size), replicas, |rank, strategy| {
            let training = Training::new(strategy.unwrap(), 3);
            training.checkpoint.restore(&folder.file()).unwrap();
            let came = training.train(4);
            training.train(1);
            let other = Folder::new(&format!("never-{size}-{rank}"));
            let error = training.checkpoint.save(&other.file()).unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            came
        });
        assert!(came.iter().all(|came| *came == expected), "{size}×{replicas}: {came:?}");
    }
}
