//! Positions of iterators, among them a stage of each kind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value as Json;
use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::input::{
    Dataset, DistributeOptions, DistributedDataset, FilesOptions, Generator, MapOptions,
    PassIterator, SampleOptions, ShuffleOptions, Splitting, distribute,
    distribute_per_replica_batches,
};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;

use super::super::{files, tensor};
use super::{contents, frozen, next};

fn range(count: i64) -> Dataset {
    Dataset::range(0, count, 1).unwrap()
}

fn rows(count: i32) -> Dataset {
    let rows: Vec<i32> = (0..count).collect();
    let rows = tensor(&rows, &[rows.len()]);
    Dataset::from_tensor_slices(&Value::Tensor(rows)).unwrap()
}

fn shuffle(buffer_size: i64, keep_order_each_pass: bool) -> ShuffleOptions {
    ShuffleOptions {
        buffer_size,
        seed: 7,
        keep_order_each_pass,
    }
}

fn arrays() -> Result<Dataset> {
    let order = rows(12).shuffle(&shuffle(0, false))?;
    order.take(10)?.repeat(2)?.batch(4, false)
}

fn single_rows() -> Result<Dataset> {
    rows(9).shuffle(&shuffle(3, true))?.skip(1)
}

fn batches() -> Result<Dataset> {
    let same = |element: &Value| Ok(element.clone());
    let mapped = range(10).map(same, MapOptions::default())?;
    let batches = mapped.cache()?.padded_batch(3, false)?.repeat(-1)?;
    batches.rebatch(&[2, 1], true)?.prefetch(2)
}

fn pairs() -> Result<Dataset> {
    let one = Dataset::from_tensors(&Value::Tensor(tensor(&[5i64], &[])))?;
    let joined = Dataset::concatenate(&[range(7).shard(2, 1)?, one])?;
    Dataset::zip(&[joined, range(4)], Some(&["left", "right"]))
}

/// Numbers, other ones in each round.
struct Counter {
    round: i64,
    next: i64,
}

impl Generator for Counter {
    fn next(&mut self) -> Result<Option<Value>> {
        self.next += 1;
        let number = || Tensor::scalar(100 * self.round + self.next);
        (self.next < 6)
            .then(|| number().map(Value::Tensor))
            .transpose()
    }

    fn reset(&mut self) -> Result<()> {
        (self.round, self.next) = (self.round + 1, 0);
        Ok(())
    }
}

fn generated() -> Result<Dataset> {
    let spec = range(1).element_spec().clone();
    let begin = || Ok(Box::new(Counter { round: 0, next: 0 }) as _);
    Dataset::from_generator(spec, begin)?.shuffle(&shuffle(3, false))
}

fn read_in_turns() -> Result<Dataset> {
    let options = FilesOptions {
        files_at_once: 2,
        elements_in_turn: 2,
        shuffle_files: Some(3),
        ..FilesOptions::default()
    };
    Ok(files::files(&[4, 3, 5], options, &Default::default()))
}

fn unbatched() -> Result<Dataset> {
    let batches = range(10).batch(4, false)?.unbatch()?;
    batches.repeat(-1)?.prefetch(1)
}

fn sampled() -> Result<Dataset> {
    let options = SampleOptions {
        seed: 7,
        keep_order_each_pass: false,
        stop_on_empty: true,
    };
    let ends = [range(20), Dataset::range(100, 103, 1)?.repeat(2)?];
    Dataset::sample(&ends, Some(&[0.75, 0.25]), &options)
}

fn filtered() -> Result<Dataset> {
    let keeps = |element: &Value| Ok(element.tensor_of(0)?.to_vec::<i64>()?[0] % 3 > 0);
    range(20).filter(keeps)?.batch(2, false)
}

/// Two replicas on devices of the CPU.
type Distribute =
    fn(&Dataset, usize, &[DeviceId], &DistributeOptions) -> Result<DistributedDataset>;

fn over_replicas(distribute: Distribute, dataset: &Dataset) -> Result<PassIterator> {
    let devices = [DeviceId::cpu(0), DeviceId::cpu(1)];
    let options = DistributeOptions {
        splitting: Splitting::Balanced,
        drop_partial_step: true,
        ..DistributeOptions::default()
    };
    distribute(dataset, 2, &devices, &options)?.iterator()
}

fn split() -> Result<PassIterator> {
    over_replicas(distribute, &range(22).batch(4, false)?)
}

fn per_replica() -> Result<PassIterator> {
    over_replicas(distribute_per_replica_batches, &range(20).batch(2, false)?)
}

struct Position {
    name: &'static str,
    iterator: fn() -> Result<PassIterator>,
    /// How many elements are taken before the position is saved, and whether another pass is begun
    /// behind these.
    taken: usize,
    is_reset: bool,
    then: &'static [&'static [f64]],
}

const POSITIONS: [Position; 11] = [
    Position {
        name: "arrays",
        iterator: || arrays()?.iterator(),
        taken: 2,
        is_reset: false,
        then: &[
            &[10.0, 7.0, 7.0, 8.0],
            &[11.0, 6.0, 1.0, 10.0],
            &[9.0, 5.0, 4.0, 0.0],
        ],
    },
    Position {
        name: "single_rows",
        iterator: || single_rows()?.iterator(),
        taken: 3,
        is_reset: true,
        then: &[&[0.0], &[5.0], &[4.0], &[7.0]],
    },
    Position {
        name: "batches",
        iterator: || batches()?.iterator(),
        taken: 5,
        is_reset: false,
        then: &[&[8.0], &[9.0, 0.0], &[1.0], &[2.0, 3.0]],
    },
    Position {
        name: "filtered",
        iterator: || filtered()?.iterator(),
        taken: 2,
        is_reset: false,
        then: &[&[7.0, 8.0], &[10.0, 11.0], &[13.0, 14.0], &[16.0, 17.0]],
    },
    Position {
        name: "unbatched",
        iterator: || unbatched()?.iterator(),
        taken: 6,
        is_reset: false,
        then: &[&[6.0], &[7.0], &[8.0], &[9.0]],
    },
    Position {
        name: "sampled",
        iterator: || sampled()?.iterator(),
        taken: 5,
        is_reset: true,
        then: &[&[1.0], &[2.0], &[3.0], &[100.0]],
    },
    Position {
        name: "pairs",
        iterator: || pairs()?.iterator(),
        taken: 2,
        is_reset: false,
        then: &[&[5.0, 2.0], &[5.0, 3.0]],
    },
    Position {
        name: "generated",
        iterator: || generated()?.iterator(),
        taken: 2,
        is_reset: true,
        then: &[&[103.0], &[105.0], &[104.0], &[101.0]],
    },
    Position {
        name: "read_in_turns",
        iterator: || read_in_turns()?.iterator(),
        taken: 5,
        is_reset: false,
        then: &[&[203.0], &[2.0], &[3.0], &[204.0]],
    },
    Position {
        name: "split",
        iterator: split,
        taken: 3,
        is_reset: false,
        then: &[&[12.0, 13.0, 14.0, 15.0], &[16.0, 17.0, 18.0, 19.0]],
    },
    Position {
        name: "per_replica",
        iterator: per_replica,
        taken: 2,
        is_reset: false,
        then: &[
            &[8.0, 9.0, 10.0, 11.0],
            &[12.0, 13.0, 14.0, 15.0],
            &[16.0, 17.0, 18.0, 19.0],
        ],
    },
];

/// How many of the elements that follow are compared.
const SHOWN: usize = 4;

impl Position {
    fn file(&self) -> String {
        format!("{}.json", self.name)
    }
}

pub fn save(folder: &Path) {
    for position in &POSITIONS {
        let iterator = (position.iterator)().unwrap();
        next(&iterator, position.taken);
        if position.is_reset {
            iterator.reset().unwrap();
            next(&iterator, 1);
        }
        let text = iterator.save_position().unwrap();
        fs::write(folder.join(position.file()), text).unwrap();
        assert_eq!(next(&iterator, SHOWN), position.then, "{}", position.name);
    }
}

#[test]
fn the_elements_behind_a_position_are_those_that_followed_it() {
    for position in &POSITIONS {
        let text = fs::read_to_string(frozen().join("positions").join(position.file())).unwrap();
        let iterator = (position.iterator)().unwrap();
        iterator.restore_position(&text).unwrap();
        assert_eq!(next(&iterator, SHOWN), position.then, "{}", position.name);
    }
}

/// The kinds of the stages of a position.
fn kinds(position: &Json, to: &mut BTreeSet<String>) {
    let stages = position["pipeline"].as_array().unwrap();
    to.extend(
        stages
            .iter()
            .map(|stage| stage["kind"].as_str().unwrap().to_owned()),
    );
}

#[test]
fn each_kind_of_operation_is_in_a_frozen_position() {
    let mut frozen_kinds = BTreeSet::new();
    for path in super::files(frozen()) {
        if path.extension().unwrap() == "json" {
            let text: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            kinds(&text["iterator_position"], &mut frozen_kinds);
            continue;
        }
        let (metadata, _) = contents(&path);
        for object in metadata["objects"].as_object().unwrap().values() {
            if let Some(position) = object.get("position") {
                kinds(position, &mut frozen_kinds);
            }
        }
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/formats.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page
        .split_once("| kind | parameters |\n|---|---|\n")
        .unwrap();
    let rows = table
        .lines()
        .map_while(|row| row.strip_prefix("| ")?.split_once(" |"));
    let documented: BTreeSet<String> = rows
        .flat_map(|(kinds, _)| kinds.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect();
    assert_eq!(frozen_kinds, documented);
}
