//! Checkpoints of several ranks: with state that they divide and a position that they have in
//! common, and with positions of their own.

use std::path::Path;
use std::sync::Arc;

use umbo_core::checkpoint::{Checkpoint, SavedIterator};
use umbo_core::input::{
    Dataset, DistributeOptions, FilesOptions, PassIterator, Sharding, distribute_dataset,
};
use umbo_core::optimizer::Optimizer;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::strategy::Strategy;
use umbo_core::strategy::variables::read;
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::super::engine::ranks;
use super::super::{alone, files, on_ranks_of, options, tensor, variable};
use super::{frozen, next, numbers};

/// Ranks that save.
const RANKS: usize = 3;

fn on_ranks<R: Send>(size: usize, body: impl Fn(Strategy) -> R + Sync) -> Vec<R> {
    on_ranks_of(
        &ranks(size),
        |_| options(1),
        |_, strategy| body(strategy.unwrap()),
    )
}

/// A training whose state ranks divide, on data that they have in common.
struct Divided {
    weights: Variable,
    optimizer: Arc<Optimizer>,
    iterator: Arc<PassIterator>,
    checkpoint: Arc<Checkpoint>,
}

impl Divided {
    fn new(strategy: &Strategy, weights: [f32; 7]) -> Divided {
        let weights = tensor(&weights, &[7]);
        let weights = variable(strategy, "weights", Aggregation::None, &weights);
        let rule = Box::new(Momentum::new(0.5, false).unwrap());
        let optimizer = Optimizer::new(strategy.id(), rule, 0.5).unwrap();
        let batches = Dataset::range(0, 24, 1).unwrap().batch(6, false).unwrap();
        let iterator = pass(strategy, &batches, Sharding::Data);
        let checkpoint = Checkpoint::new(strategy);
        checkpoint
            .add("weights", Arc::new(weights.clone()))
            .unwrap();
        checkpoint
            .add("optimizer", Arc::clone(&optimizer) as _)
            .unwrap();
        add(&checkpoint, "batches", &iterator);
        Divided {
            weights,
            optimizer,
            iterator,
            checkpoint,
        }
    }

    /// The weights, their momentum, and this rank's part of the next batch.
    fn state(&self) -> [Vec<f64>; 3] {
        let momentum = self.optimizer.state(&self.weights, "momentum").unwrap();
        let batch = next(&self.iterator, 1).concat();
        [
            numbers(&read(&self.weights).unwrap()),
            numbers(&momentum),
            batch,
        ]
    }
}

const WEIGHTS: [f32; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5];
const MOMENTUM: [f32; 7] = [0.5, -0.5, 0.25, -0.25, 8.0, 16.0, -32.0];
const BATCH: [f64; 6] = [12.0, 13.0, 14.0, 15.0, 16.0, 17.0];

fn pass(strategy: &Strategy, dataset: &Dataset, sharding: Sharding) -> Arc<PassIterator> {
    let options = DistributeOptions {
        sharding,
        ..DistributeOptions::default()
    };
    let distributed = distribute_dataset(strategy, dataset, &options).unwrap();
    Arc::new(distributed.iterator().unwrap())
}

fn add(checkpoint: &Checkpoint, name: &str, iterator: &Arc<PassIterator>) {
    let iterator = SavedIterator(Arc::clone(iterator));
    checkpoint.add(name, Arc::new(iterator)).unwrap();
}

/// Passes over files of which each rank reads its own, and over rows of which each has others.
struct Own {
    passes: [Arc<PassIterator>; 2],
    checkpoint: Arc<Checkpoint>,
}

impl Own {
    fn new(strategy: &Strategy) -> Own {
        let opened = Arc::default();
        let files = files::files(&[4, 3, 6, 5], FilesOptions::default(), &opened);
        let rows: Vec<i32> = (0..9)
            .map(|row| 10 * strategy.rank() as i32 + row)
            .collect();
        let rows = Dataset::from_tensor_slices(&Value::Tensor(tensor(&rows, &[9]))).unwrap();
        let passes = [(files, Sharding::File), (rows, Sharding::Off)].map(|(data, sharding)| {
            let batches = data.batch(3, false).unwrap();
            pass(strategy, &batches, sharding)
        });
        let checkpoint = Checkpoint::new(strategy);
        add(&checkpoint, "files", &passes[0]);
        add(&checkpoint, "rows", &passes[1]);
        Own { passes, checkpoint }
    }

    fn next(&self) -> [Vec<f64>; 2] {
        [0, 1].map(|index| next(&self.passes[index], 1).concat())
    }
}

/// The next elements of each rank, of its files and of its rows.
const OWN: [[&[f64]; 2]; RANKS] = [
    [&[1.0], &[3.0, 4.0, 5.0]],
    [&[101.0], &[13.0, 14.0, 15.0]],
    [&[201.0], &[23.0, 24.0, 25.0]],
];

pub fn save(folder: &Path) {
    on_ranks(RANKS, |strategy| {
        let divided = Divided::new(&strategy, WEIGHTS);
        let momentum = tensor(&MOMENTUM, &[7]);
        let set = divided
            .optimizer
            .set_state(&divided.weights, "momentum", &momentum);
        set.unwrap();
        next(&divided.iterator, 2);
        divided
            .checkpoint
            .save(&folder.join("divided.safetensors"))
            .unwrap();
        let objects = Own::new(&strategy);
        objects.next();
        objects
            .checkpoint
            .save(&folder.join("own.safetensors"))
            .unwrap();
    });
}

#[test]
fn what_ranks_divide_is_restored_on_any_number_of_ranks() {
    let path = frozen().join("several_ranks/divided.safetensors");
    let restored = |strategy: &Strategy| {
        let divided = Divided::new(strategy, [0.0; 7]);
        divided.checkpoint.restore(&path).unwrap();
        divided.state()
    };
    let expected = [WEIGHTS, MOMENTUM].map(|numbers| numbers.map(f64::from));
    for size in 1..=RANKS + 1 {
        let parts = match size {
            1 => vec![restored(&alone(1))],
            size => on_ranks(size, |strategy| restored(&strategy)),
        };
        for [weights, momentum, _] in &parts {
            assert_eq!(
                [&weights[..], &momentum[..]],
                [&expected[0][..], &expected[1][..]]
            );
        }
        let batch: Vec<f64> = parts.into_iter().flat_map(|[.., part]| part).collect();
        assert_eq!(batch, BATCH, "on {size} ranks");
    }
}

#[test]
fn each_rank_goes_on_at_its_own_position() {
    let path = frozen().join("several_ranks/own.safetensors");
    let parts = on_ranks(RANKS, |strategy| {
        let objects = Own::new(&strategy);
        objects.checkpoint.restore(&path).unwrap();
        objects.next()
    });
    assert_eq!(parts, OWN.map(|parts| parts.map(<[f64]>::to_vec)));
}
