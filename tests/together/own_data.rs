//! Checkpoints of ranks that have data of their own: each rank resumes at its own position.

use std::path::Path;
use std::sync::Arc;

use umbo_core::checkpoint::{Checkpoint, Manager, ManagerOptions, SavedIterator};
use umbo_core::error::{Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, FilesOptions, PassIterator, Sharding, ShuffleOptions,
    distribute_dataset,
};
use umbo_core::strategy::Strategy;
use umbo_core::values::Value;

use super::engine::ranks;
use super::saving::Folder;
use super::{alone, files, on_ranks, tensor};

/// What each rank reads.
#[derive(Clone, Copy)]
struct OwnData {
    name: &'static str,
    sharding: Sharding,
    /// The number of rows and the seed of each rank.
    rows: [usize; 3],
    seeds: [u64; 3],
    /// Whether all ranks are at the same position of the same rows.
    is_alike: bool,
}

const ALIKE: OwnData = OwnData {
    name: "alike",
    sharding: Sharding::Off,
    rows: [20, 20, 20],
    seeds: [5, 5, 5],
    is_alike: true,
};

const OTHER_SEEDS: OwnData = OwnData {
    name: "seeds",
    seeds: [5, 6, 7],
    is_alike: false,
    ..ALIKE
};

const OTHER_ROWS: OwnData = OwnData {
    name: "rows",
    rows: [20, 27, 6],
    is_alike: false,
    ..ALIKE
};

const OWN_FILES: OwnData = OwnData {
    name: "files",
    sharding: Sharding::File,
    ..OTHER_ROWS
};

const OWN_DATA: [OwnData; 4] = [ALIKE, OTHER_SEEDS, OTHER_ROWS, OWN_FILES];

impl OwnData {
    /// An iterator of a rank, over its own rows or over its share of files.
    fn iterator(&self, strategy: &Strategy) -> Arc<PassIterator> {
        let rank = strategy.rank() % 3;
        let data = match self.sharding {
            Sharding::File => files::files(&self.rows, FilesOptions::default(), &Arc::default()),
            _ => {
                let rows: Vec<i32> = (0..self.rows[rank] as i32).collect();
                let rows = tensor(&rows, &[self.rows[rank]]);
                Dataset::from_tensor_slices(&Value::Tensor(rows)).unwrap()
            }
        };
        let shuffle = ShuffleOptions {
            seed: self.seeds[rank],
            ..ShuffleOptions::default()
        };
        let data = data.shuffle(&shuffle).unwrap().batch(6, false).unwrap();
        let options = DistributeOptions {
            sharding: self.sharding,
            ..DistributeOptions::default()
        };
        let distributed = distribute_dataset(strategy, &data, &options).unwrap();
        Arc::new(distributed.iterator().unwrap())
    }
}

fn checkpoint(strategy: &Strategy, iterator: &Arc<PassIterator>) -> Arc<Checkpoint> {
    let checkpoint = Checkpoint::new(strategy);
    checkpoint
        .add("batches", Arc::new(SavedIterator(Arc::clone(iterator))))
        .unwrap();
    checkpoint
}

fn restore(strategy: &Strategy, iterator: &Arc<PassIterator>, path: &Path) -> Result<()> {
    checkpoint(strategy, iterator).restore(path)
}

/// The rows that are left of this pass, and those of the next one.
fn rest(iterator: &PassIterator) -> Vec<Vec<i32>> {
    let mut batches = Vec::new();
    for _ in 0..2 {
        while let Some(batch) = iterator.next().unwrap() {
            batches.push(batch.tensor_of(0).unwrap().to_vec::<i32>().unwrap());
        }
        iterator.reset().unwrap();
    }
    batches
}

/// Saves after two elements of each of `size` ranks; what each rank gets behind them.
fn saved(data: &OwnData, size: usize, path: &Path) -> Vec<Vec<Vec<i32>>> {
    on_ranks(&ranks(size), 1, |_, strategy| {
        let strategy = strategy.unwrap();
        let iterator = data.iterator(&strategy);
        for _ in 0..2 {
            iterator.next().unwrap();
        }
        checkpoint(&strategy, &iterator).save(path).unwrap();
        rest(&iterator)
    })
}

#[test]
fn each_rank_goes_on_at_its_own_position() {
    let folder = Folder::new("own-positions");
    for (data, size) in OWN_DATA
        .iter()
        .flat_map(|data| [2, 3].map(|size| (data, size)))
    {
        let expected = saved(data, size, &folder.file());
        let is_alike = expected.windows(2).all(|pair| pair[0] == pair[1]);
        assert_eq!(is_alike, data.is_alike, "{}", data.name);
        let resumed = on_ranks(&ranks(size), 1, |_, strategy| {
            let strategy = strategy.unwrap();
            let iterator = data.iterator(&strategy);
            restore(&strategy, &iterator, &folder.file()).unwrap();
            rest(&iterator)
        });
        assert_eq!(resumed, expected, "{} on {size} ranks", data.name);
    }
}

/// A manager saves it, too, also in the background.
#[test]
fn a_manager_keeps_the_position_of_each_rank() {
    let data = OTHER_SEEDS;
    for asynchronous in [false, true] {
        let folder = Folder::new("own-positions-kept");
        let options = ManagerOptions {
            asynchronous,
            ..ManagerOptions::default()
        };
        let place = folder.file();
        let manager = |strategy: &Strategy, iterator: &Arc<PassIterator>| {
            Manager::new(checkpoint(strategy, iterator), &place, options).unwrap()
        };
        let expected = on_ranks(&ranks(2), 1, |_, strategy| {
            let strategy = strategy.unwrap();
            let iterator = data.iterator(&strategy);
            let manager = manager(&strategy, &iterator);
            iterator.next().unwrap();
            manager.save(1, None, true).unwrap();
            manager.wait().unwrap();
            rest(&iterator)
        });
        let resumed = on_ranks(&ranks(2), 1, |_, strategy| {
            let strategy = strategy.unwrap();
            let iterator = data.iterator(&strategy);
            let restored = manager(&strategy, &iterator).restore_latest().unwrap();
            assert_eq!(restored, Some(1));
            rest(&iterator)
        });
        assert_ne!(expected[0], expected[1]);
        assert_eq!(resumed, expected);
    }
}

/// Ranks that are more or fewer have no position each, unless all were at the same one.
#[test]
fn another_number_of_ranks_goes_on_where_all_ranks_were_at_one_position() {
    let folder = Folder::new("own-positions-others");
    let tried = |data: &OwnData, strategy: &Strategy, expected: &[Vec<Vec<i32>>]| {
        let iterator = data.iterator(strategy);
        let untouched = iterator.save_position().unwrap();
        let restored = restore(strategy, &iterator, &folder.file());
        if data.is_alike {
            restored.unwrap();
            assert_eq!(rest(&iterator), expected[0]);
            return;
        }
        let error = restored.unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument, "{error}");
        let now = strategy.ranks().size();
        let text = format!(
            "batches: its position differs between the 2 ranks that have saved it, which had data \
             of their own, and the number of ranks is {now} now: restore it on 2 ranks"
        );
        assert!(error.to_string().contains(&text), "{}: {error}", data.name);
        assert_eq!(iterator.save_position().unwrap(), untouched);
    };
    for data in &OWN_DATA {
        let expected = saved(data, 2, &folder.file());
        tried(data, &alone(1), &expected);
        on_ranks(&ranks(3), 1, |_, strategy| {
            tried(data, &strategy.unwrap(), &expected);
        });
    }
}

/// Ranks that read the same data are at one position of it.
#[test]
fn ranks_that_read_the_same_data_take_no_positions_that_differ() {
    let folder = Folder::new("own-positions-same");
    for data in &[ALIKE, OTHER_SEEDS] {
        saved(data, 2, &folder.file());
        on_ranks(&ranks(2), 1, |_, strategy| {
            let strategy = strategy.unwrap();
            let same = OwnData {
                sharding: Sharding::Data,
                seeds: [5; 3],
                ..*data
            };
            let restored = restore(&strategy, &same.iterator(&strategy), &folder.file());
            if data.is_alike {
                return restored.unwrap();
            }
            let error = restored.unwrap_err().to_string();
            assert!(error.contains("these ranks read the same data"), "{error}");
        });
    }
}
