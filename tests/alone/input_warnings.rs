//! What the log is told of datasets that are hardly meant as they are, and that it is told nothing
//! of usual ones.

use std::sync::Mutex;

use umbo_core::device::DeviceId;
use umbo_core::input::{
    Dataset, DistributeOptions, ElementSpec, Generator, LeafSpec, MapOptions, ShuffleOptions,
    Splitting, distribute, distribute_per_replica_batches,
};
use umbo_core::observe::log::{Level, set_sink};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn said() -> Vec<String> {
    std::mem::take(&mut SAID.lock().unwrap())
}

fn listen() {
    let sink = |level, message: &str| {
        assert_eq!(level, Level::Warning);
        SAID.lock().unwrap().push(message.to_owned());
    };
    set_sink(Level::Warning, Box::new(sink));
}

const UNBATCHED: &str = "nothing has batched is split over 2 replicas";
const TWICE: &str = "batched twice";
const SHUFFLED: &str = "batches are shuffled, and not the elements in them";

fn zeros(shape: &[usize]) -> Value {
    Value::Tensor(
        Tensor::zeros(DType::Float32, Shape::new(shape).unwrap(), DeviceId::HOST).unwrap(),
    )
}

/// Rows of four numbers.
fn rows() -> Dataset {
    Dataset::from_tensor_slices(&zeros(&[6, 4])).unwrap()
}

fn batched(dataset: Dataset) -> Dataset {
    dataset.batch(2, false).unwrap()
}

fn rebatched(dataset: Dataset) -> Dataset {
    dataset.rebatch(&[2], false).unwrap()
}

fn padded(dataset: Dataset) -> Dataset {
    dataset.padded_batch(2, false).unwrap()
}

fn mapped(dataset: Dataset) -> Dataset {
    dataset
        .map(|element| Ok(element.clone()), MapOptions::default())
        .unwrap()
}

fn shuffled(dataset: Dataset) -> Dataset {
    dataset.shuffle(&ShuffleOptions::default()).unwrap()
}

fn zipped(one: Dataset, other: Dataset) -> Dataset {
    Dataset::zip(&[one, other], None).unwrap()
}

fn joined(one: Dataset, other: Dataset) -> Dataset {
    Dataset::concatenate(&[one, other]).unwrap()
}

struct Nothing;

impl Generator for Nothing {
    fn next(&mut self) -> umbo_core::error::Result<Option<Value>> {
        Ok(None)
    }

    fn reset(&mut self) -> umbo_core::error::Result<()> {
        Ok(())
    }
}

fn generated() -> Dataset {
    let spec = ElementSpec::Leaf(LeafSpec {
        dtype: DType::Float32,
        shape: vec![None, Some(4)],
    });
    Dataset::from_generator(spec, || Ok(Box::new(Nothing) as _)).unwrap()
}

/// What makes a pipeline, and what is said of it.
type Pipeline = (fn() -> Dataset, &'static str);

const PIPELINES: [Pipeline; 32] = [
    (rows, UNBATCHED),
    (|| shuffled(rows().take(3).unwrap()), UNBATCHED),
    (|| rows().skip(1).unwrap().repeat(2).unwrap(), UNBATCHED),
    (|| shuffled(rows().shard(2, 1).unwrap()), UNBATCHED),
    (
        || shuffled(rows().prefetch(1).unwrap().cache().unwrap()),
        UNBATCHED,
    ),
    (|| zipped(rows(), rows()), UNBATCHED),
    (
        || shuffled(zipped(rows().prefetch(1).unwrap(), rows())),
        UNBATCHED,
    ),
    (|| joined(rows(), rows()), UNBATCHED),
    (|| batched(batched(rows())), TWICE),
    (|| padded(padded(rows())), TWICE),
    (|| batched(batched(rows()).repeat(2).unwrap()), TWICE),
    (|| batched(rebatched(rows())).prefetch(1).unwrap(), TWICE),
    (|| rebatched(batched(batched(rows()))), TWICE),
    (
        || zipped(batched(batched(rows())), batched(batched(rows()))),
        TWICE,
    ),
    (|| batched(rows()).rebatch(&[3], false).unwrap(), ""),
    (
        || batched(zipped(batched(rows()), rows().take(3).unwrap())),
        "",
    ),
    (|| batched(mapped(batched(rows()))), ""),
    (|| mapped(batched(batched(rows()))), ""),
    (|| shuffled(batched(rows())).repeat(2).unwrap(), SHUFFLED),
    (
        || mapped(shuffled(batched(rows()))).prefetch(1).unwrap(),
        SHUFFLED,
    ),
    (
        || shuffled(zipped(batched(rows()), batched(rows()))),
        SHUFFLED,
    ),
    (
        || shuffled(joined(batched(rows()), batched(rows()))),
        SHUFFLED,
    ),
    (|| batched(shuffled(rows())).repeat(2).unwrap(), ""),
    (|| shuffled(batched(shuffled(rows()))), ""),
    // Elements of about the same length, and the parts of a text.
    (|| shuffled(padded(rows())), ""),
    (|| shuffled(mapped(batched(rows()))), ""),
    (|| shuffled(rows().batch(1, false).unwrap()), ""),
    (|| padded(rows()).prefetch(1).unwrap(), ""),
    (|| zipped(batched(rows()), rebatched(rows())), ""),
    // Whether these are batches is known to the program alone.
    (|| joined(rows(), mapped(rows())), ""),
    (generated, ""),
    (|| Dataset::from_tensors(&zeros(&[4])).unwrap(), ""),
];

#[test]
fn unbatched_and_twice_batched_datasets_are_warned_of() {
    let true = crate::is_alone(unbatched_and_twice_batched_datasets_are_warned_of) else {
        return;
    };
    listen();
    let devices: Vec<DeviceId> = (0..2).map(DeviceId::cpu).collect();
    let default = DistributeOptions::default();
    let balanced = DistributeOptions {
        splitting: Splitting::Balanced,
        ..default
    };
    for (number, (make, words)) in PIPELINES.into_iter().enumerate() {
        for (replicas, options) in [(1, &default), (2, &default), (2, &balanced)] {
            let dataset = make();
            distribute(&dataset, replicas, &devices[..replicas], options).unwrap();
            let lines = said();
            // One replica gets whole elements.
            let is_told = !words.is_empty() && (words != UNBATCHED || replicas == 2);
            assert_eq!(lines.len(), usize::from(is_told), "{number}: {lines:?}");
            assert!(
                lines.iter().all(|line| line.contains(words)),
                "{number}: {lines:?}"
            );
        }
        distribute_per_replica_batches(&make(), 2, &devices, &default).unwrap();
        assert_eq!(said(), [""; 0], "{number}");
    }
}

/// Whole passes over the dataset, by one iterator.
fn passes(dataset: &Dataset, count: usize) {
    let iterator = dataset.iterator().unwrap();
    for pass in 0..count {
        if pass > 0 {
            iterator.reset().unwrap();
        }
        while iterator.next().unwrap().is_some() {}
    }
}

const PARTS: &str = "have elements in common";
const SKIPPED: &str = "a skip leaves out";
const CUT: &str = "nothing is cached";

/// What a program does, and what it is told once.
type Program = (&'static str, fn(), &'static str);

const PROGRAMS: [Program; 22] = [
    (
        "training and test",
        || {
            let all = shuffled(rows());
            passes(&batched(all.take(4).unwrap()), 3);
            passes(&batched(all.skip(4).unwrap()), 3);
        },
        PARTS,
    ),
    (
        "with stages in between",
        || {
            let all = mapped(shuffled(rows())).prefetch(1).unwrap();
            passes(&all.skip(4).unwrap(), 2);
            passes(&all.take(2).unwrap().repeat(2).unwrap(), 2);
        },
        SKIPPED,
    ),
    (
        "three parts",
        || {
            let all = shuffled(rows());
            let _ = (
                all.take(2).unwrap(),
                all.skip(2).unwrap().take(2).unwrap(),
                all.skip(4).unwrap(),
            );
        },
        PARTS,
    ),
    (
        "shards",
        || {
            drop(
                (0..3)
                    .map(|index| shuffled(rows()).shard(3, index).unwrap())
                    .collect::<Vec<_>>(),
            )
        },
        "",
    ),
    (
        "shards of one",
        || {
            let all = shuffled(rows());
            (0..3).for_each(|index| drop(all.shard(3, index).unwrap()));
        },
        PARTS,
    ),
    (
        "one shard for this process",
        || {
            let all = shuffled(rows());
            (0..3).for_each(|_| passes(&all.shard(3, 1).unwrap(), 2));
        },
        "",
    ),
    (
        "zipped before",
        || {
            let all = zipped(mapped(shuffled(rows())), mapped(rows()));
            let _ = (all.take(2).unwrap(), all.skip(2).unwrap());
        },
        PARTS,
    ),
    (
        "built twice",
        || {
            passes(&shuffled(rows()).take(4).unwrap(), 3);
            passes(&shuffled(rows()).skip(4).unwrap(), 3);
        },
        SKIPPED,
    ),
    (
        "one order",
        || {
            let options = ShuffleOptions {
                keep_order_each_pass: true,
                ..Default::default()
            };
            let all = rows().shuffle(&options).unwrap();
            passes(&all.take(4).unwrap(), 2);
            passes(&all.skip(4).unwrap(), 2);
        },
        "",
    ),
    (
        "divided before",
        || {
            passes(&shuffled(rows().take(4).unwrap()), 2);
            passes(&shuffled(rows().skip(4).unwrap()), 2);
        },
        "",
    ),
    (
        "a sample in each epoch",
        || passes(&batched(shuffled(rows())).take(2).unwrap(), 3),
        "",
    ),
    (
        "so many steps",
        || {
            let steps = batched(shuffled(rows())).repeat(-1).unwrap();
            passes(&steps.take(5).unwrap(), 2);
            passes(&steps.skip(2).unwrap().take(5).unwrap(), 2);
        },
        "",
    ),
    (
        "resumed in the first epoch",
        || passes(&batched(shuffled(rows())).skip(1).unwrap(), 1),
        "",
    ),
    (
        "some from the middle",
        || drop(shuffled(rows()).skip(1).unwrap().take(2).unwrap()),
        "",
    ),
    (
        "an order that is kept",
        || {
            let all = mapped(shuffled(rows())).cache().unwrap();
            passes(&all, 1);
            passes(&all.take(4).unwrap(), 2);
            passes(&all.skip(4).unwrap(), 2);
        },
        "",
    ),
    (
        "a cache that is cut",
        || passes(&mapped(rows()).cache().unwrap().take(3).unwrap(), 4),
        CUT,
    ),
    (
        "in rounds",
        || {
            passes(
                &batched(mapped(rows()).cache().unwrap())
                    .take(2)
                    .unwrap()
                    .repeat(3)
                    .unwrap(),
                1,
            )
        },
        CUT,
    ),
    (
        "a small buffer",
        || {
            let options = ShuffleOptions {
                buffer_size: 2,
                ..Default::default()
            };
            passes(
                &mapped(rows())
                    .cache()
                    .unwrap()
                    .shuffle(&options)
                    .unwrap()
                    .take(2)
                    .unwrap(),
                2,
            );
        },
        CUT,
    ),
    (
        "a cache that is read by a shuffle",
        || {
            passes(
                &shuffled(mapped(rows()).cache().unwrap()).take(3).unwrap(),
                3,
            )
        },
        "",
    ),
    (
        "a cache that another pass completes",
        || {
            let all = mapped(rows()).cache().unwrap();
            let training = all.take(4).unwrap();
            let test = all.skip(4).unwrap();
            passes(&training, 1);
            passes(&test, 1);
            passes(&training, 3);
        },
        "",
    ),
    (
        "a cache of steps",
        || {
            passes(
                &mapped(rows())
                    .cache()
                    .unwrap()
                    .repeat(-1)
                    .unwrap()
                    .take(9)
                    .unwrap(),
                2,
            )
        },
        "",
    ),
    (
        "a look at the first",
        || {
            let iterator = mapped(rows())
                .cache()
                .unwrap()
                .take(3)
                .unwrap()
                .iterator()
                .unwrap();
            iterator.next().unwrap();
            iterator.reset().unwrap();
        },
        "",
    ),
];

#[test]
fn doubtful_uses_of_parts_are_warned_of_once() {
    let true = crate::is_alone(doubtful_uses_of_parts_are_warned_of_once) else {
        return;
    };
    listen();
    for (name, run, words) in PROGRAMS {
        run();
        let lines = said();
        assert_eq!(
            lines.len(),
            usize::from(!words.is_empty()),
            "{name}: {lines:?}"
        );
        assert!(
            lines.iter().all(|line| line.contains(words)),
            "{name}: {lines:?}"
        );
    }
}

/// A dataset of which nothing is left in batches, and those of which something is, or was not there
/// before.
#[test]
fn batches_of_nothing_are_told() {
    let true = crate::is_alone(batches_of_nothing_are_told) else {
        return;
    };
    listen();
    type Batch = fn(&Dataset, i64, bool) -> umbo_core::error::Result<Dataset>;
    for (padded, batch) in [
        (false, Dataset::batch as Batch),
        (true, Dataset::padded_batch),
    ] {
        for (dataset, size, drops, is_told) in [
            (rows(), 7, true, true),
            (rows(), 7, false, false),
            (rows(), 6, true, false),
            (rows().repeat(2).unwrap(), 7, true, false),
            (rows().take(0).unwrap(), 7, true, false),
            (generated(), 7, true, false),
        ] {
            batch(&dataset, size, drops).unwrap();
            let lines = said();
            assert_eq!(
                lines.len(),
                usize::from(is_told),
                "{padded} {size} {drops}: {lines:?}"
            );
            assert!(
                lines
                    .iter()
                    .all(|line| line.contains("6 elements in batches of 7")),
                "{lines:?}"
            );
        }
    }
}

/// A loop over epochs that forgets the reset, and threads that share an iterator.
#[test]
fn an_end_that_is_given_twice_is_told_once() {
    let true = crate::is_alone(an_end_that_is_given_twice_is_told_once) else {
        return;
    };
    listen();
    let iterator = rows().iterator().unwrap();
    let pass = || while iterator.next().unwrap().is_some() {};
    (0..3).for_each(|_| {
        pass();
        iterator.reset().unwrap();
    });
    // Each thread is given the end once.
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(pass))));
    assert_eq!(said(), [""; 0]);
    iterator.reset().unwrap();
    (0..5).for_each(|_| pass());
    let lines = said();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("without a reset"), "{lines:?}");
}
