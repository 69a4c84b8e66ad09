//! Ranks that read other data than the others, where all are to read the same: they are told in the
//! first step in which it shows, with the rank, the quantity and its values.

use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, File, FilesOptions, Generator, MapOptions, PassIterator, Sharding,
    ShuffleOptions, Splitting, distribute_dataset, split_for,
};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::values::Value;

use super::engine::ranks;
use super::pairwise::pairwise;
use super::{on_ranks, tensor};

/// How a rank reads.
#[derive(Clone, Copy)]
struct Reading {
    rows: i32,
    seed: u64,
    rounds: i64,
    batch: i64,
    /// Iterators that are made before.
    iterators: usize,
    /// Elements that are taken before, and how often the pass begins anew after these.
    taken: usize,
    resets: usize,
}

const ALIKE: Reading = Reading {
    rows: 20,
    seed: 7,
    rounds: 2,
    batch: 10,
    iterators: 0,
    taken: 1,
    resets: 1,
};

impl Reading {
    fn dataset(self) -> Dataset {
        let numbers: Vec<i32> = (0..self.rows).collect();
        let rows = Value::Tensor(tensor(&numbers, &[numbers.len()]));
        let shuffle = ShuffleOptions {
            seed: self.seed,
            ..ShuffleOptions::default()
        };
        let rows = Dataset::from_tensor_slices(&rows)
            .unwrap()
            .shuffle(&shuffle)
            .unwrap();
        rows.repeat(self.rounds)
            .unwrap()
            .batch(self.batch, false)
            .unwrap()
    }

    fn iterator(self, strategy: &Strategy, options: &DistributeOptions) -> PassIterator {
        let distributed = distribute_dataset(strategy, &self.dataset(), options).unwrap();
        (0..self.iterators).for_each(|_| drop(distributed.iterator().unwrap()));
        distributed.iterator().unwrap()
    }

    /// Goes to where the first step begins. Not with datasets for whose elements the ranks meet.
    fn begin(self, iterator: &PassIterator) {
        for _ in 0..self.resets {
            iterator.reset().unwrap();
        }
        for _ in 0..self.taken {
            iterator.next().unwrap().unwrap();
        }
    }
}

/// A rank that reads otherwise, what the others are told that differs, and its two values.
const OTHERWISE: [(Reading, &str, &str, &str); 7] = [
    (
        Reading { rows: 21, ..ALIKE },
        "of the pipeline",
        "rows: 21)'",
        "rows: 20)'",
    ),
    (
        Reading { seed: 8, ..ALIKE },
        "the seed of the pipeline's 'shuffle",
        "'8'",
        "'7'",
    ),
    (
        Reading { rounds: 3, ..ALIKE },
        "of the pipeline",
        "'repeat(rounds: 3)'",
        "'repeat(rounds: 2)'",
    ),
    (
        Reading { batch: 12, ..ALIKE },
        "of the pipeline",
        "size: 12)'",
        "size: 10)'",
    ),
    (
        Reading {
            iterators: 2,
            ..ALIKE
        },
        "the number of iterators that were made before",
        "'2'",
        "'0'",
    ),
    (
        Reading { taken: 2, ..ALIKE },
        "the number of its element",
        "2",
        "1",
    ),
    (
        Reading { resets: 3, ..ALIKE },
        "the round of the pass",
        "3",
        "1",
    ),
];

fn step(strategy: &Strategy, element: Option<Value>) -> Result<()> {
    let callback = |_: &ReplicaContext| Ok(None);
    strategy.run(&callback, element).map(drop)
}

/// That an error names who differs in what.
fn assert_names(text: &str, size: usize, wrong: usize, name: &str, values: [&str; 2]) {
    let [odd, usual] = values;
    let others: Vec<String> = (0..size)
        .filter(|&rank| rank != wrong)
        .map(|rank| rank.to_string())
        .collect();
    let usual_on = match others.as_slice() {
        [one] => format!("on rank {one}"),
        all => format!("on ranks {}", all.join(" and ")),
    };
    let mut parts = vec!["the ranks disagree".to_owned(), name.to_owned()];
    parts.extend([odd, usual].map(str::to_owned));
    parts.extend([format!("on rank {wrong}"), usual_on]);
    if size > 2 {
        parts.push(format!("rank {wrong} differs from the others"));
    }
    for part in parts {
        assert!(text.contains(&part), "'{part}' is missing: {text}");
    }
}

#[test]
fn ranks_that_read_other_data_are_told_in_the_first_step() {
    for (size, replicas) in [(2, 1), (2, 2), (3, 1)] {
        for (number, (other, name, odd, usual)) in OTHERWISE.into_iter().enumerate() {
            for wrong in 0..size {
                let splitting = [Splitting::Ceiling, Splitting::Balanced][(number + wrong) % 2];
                let read_ahead = Some([0, 2][(number + wrong / 2) % 2]);
                let options = DistributeOptions {
                    splitting,
                    read_ahead,
                    ..DistributeOptions::default()
                };
                let came = on_ranks(&ranks(size), replicas, |rank, strategy| {
                    let strategy = strategy.unwrap();
                    let reading = if rank == wrong { other } else { ALIKE };
                    let iterator = reading.iterator(&strategy, &options);
                    reading.begin(&iterator);
                    let element = iterator.next().unwrap();
                    step(&strategy, element).unwrap_err()
                });
                for error in came {
                    assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
                    let text = error.to_string();
                    assert_names(&text, size, wrong, name, [odd, usual]);
                    assert!(text.contains("step 1"), "{text}");
                }
            }
        }
    }
}

/// A place that was restored has the numbers and the seed that it was saved with, on whatever
/// number of ranks.
#[test]
fn restored_places_are_compared_as_they_were_saved() {
    let saved = on_ranks(&ranks(2), 1, |_, strategy| {
        let strategy = strategy.unwrap();
        let iterator = ALIKE.iterator(&strategy, &DistributeOptions::default());
        iterator.next().unwrap();
        let first = iterator.save_position().unwrap();
        iterator.next().unwrap();
        (first, iterator.save_position().unwrap())
    });
    assert_eq!(saved[0], saved[1]);
    let (first, second) = &saved[0];
    for wrong in [None, Some(0), Some(2)] {
        on_ranks(&ranks(3), 1, |rank, strategy| {
            let strategy = strategy.unwrap();
            // Drawn by each process.
            let reading = Reading {
                seed: 100 + rank as u64,
                ..ALIKE
            };
            let iterator = reading.iterator(&strategy, &DistributeOptions::default());
            let place = if wrong == Some(rank) { second } else { first };
            iterator.restore_position(place).unwrap();
            let stepped = step(&strategy, iterator.next().unwrap());
            match wrong {
                None => stepped.unwrap(),
                Some(wrong) => {
                    let text = stepped.unwrap_err().to_string();
                    assert_names(&text, 3, wrong, "the number of its element", ["2", "1"]);
                }
            }
        });
    }
}

/// Elements of one number are of one round of a shuffle. A row that fails on one rank only makes
/// its rounds longer.
#[test]
fn rounds_of_shuffles_are_compared() {
    for read_ahead in [0, 2] {
        on_ranks(&ranks(3), 1, |rank, strategy| {
            let strategy = strategy.unwrap();
            let refuse =
                move |row: &Value| match rank == 1 && row.tensor_of(0)?.to_vec::<i32>()? == [2] {
                    true => Err(Error::precondition("a row that fails on one rank")),
                    false => Ok(row.clone()),
                };
            let rows = Value::Tensor(tensor(&[0, 1, 2, 3], &[4]));
            let rows = Dataset::from_tensor_slices(&rows).unwrap();
            let shuffled = rows.shuffle(&ShuffleOptions::default()).unwrap();
            let mapped = shuffled.map(refuse, MapOptions::default()).unwrap();
            let data = mapped.batch(2, false).unwrap().repeat(2).unwrap();
            let options = DistributeOptions {
                read_ahead: Some(read_ahead),
                ..Default::default()
            };
            let iterator = distribute_dataset(&strategy, &data, &options).unwrap();
            let iterator = iterator.iterator().unwrap();
            let failed = (0..2).filter(|_| iterator.next().is_err()).count();
            assert_eq!(failed, usize::from(rank == 1));
            let text = step(&strategy, iterator.next().unwrap())
                .unwrap_err()
                .to_string();
            assert_names(
                &text,
                3,
                1,
                "the rounds of the pipeline's shuffles",
                ["0", "1"],
            );
        });
    }
}

/// All that a run gets is compared, not the first of it alone, and also in later steps.
#[test]
fn elements_of_several_iterators_are_compared() {
    on_ranks(&ranks(3), 2, |rank, strategy| {
        let strategy = strategy.unwrap();
        let options = DistributeOptions::default();
        let [first, second] = [(); 2].map(|()| ALIKE.iterator(&strategy, &options));
        let both = || {
            let both = [&first, &second].map(|iterator| iterator.next().unwrap().unwrap());
            Value::tuple(both.to_vec()).unwrap()
        };
        step(&strategy, Some(both())).unwrap();
        if rank == 2 {
            second.next().unwrap();
        }
        let text = step(&strategy, Some(both())).unwrap_err().to_string();
        assert_names(&text, 3, 2, "the number of its element", ["2", "1"]);
        assert!(text.contains("step 2"), "{text}");
        // The ranks continue once they have read the same.
        if rank != 2 {
            second.next().unwrap();
        }
        step(&strategy, Some(both())).unwrap();
    });
}

#[test]
fn batches_of_the_program_are_compared_too() {
    on_ranks(&ranks(3), 1, |rank, strategy| {
        let strategy = strategy.unwrap();
        let batch = |rows: usize| Value::Tensor(tensor(&vec![1i32; rows], &[rows]));
        step(&strategy, Some(split_for(&strategy, &batch(9)).unwrap())).unwrap();
        let rows = if rank == 1 { 6 } else { 9 };
        let error = step(&strategy, Some(split_for(&strategy, &batch(rows)).unwrap())).unwrap_err();
        let text = error.to_string();
        assert_names(
            &text,
            3,
            1,
            "the number of examples in the global batch",
            ["6", "9"],
        );
    });
}

/// Ranks with data of their own stay free to differ.
#[test]
fn data_of_a_rank_s_own_may_differ() {
    for (other, ..) in OTHERWISE {
        let options = DistributeOptions {
            sharding: Sharding::Off,
            ..DistributeOptions::default()
        };
        let steps = on_ranks(&ranks(3), 2, |rank, strategy| {
            let strategy = strategy.unwrap();
            let reading = if rank == 1 { other } else { ALIKE };
            let iterator = reading.iterator(&strategy, &options);
            let mut steps = 0;
            while let Some(element) = iterator.next().unwrap() {
                step(&strategy, Some(element)).unwrap();
                steps += 1;
            }
            steps
        });
        assert!(
            steps[0] > 1 && steps.iter().all(|count| *count == steps[0]),
            "{steps:?}"
        );
    }
}

/// Where the rows of a rank come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Arrays,
    Shuffled,
    Generator,
    /// Functions of the program change the elements.
    Mapped,
    Files,
}

/// Rows as they are on the other ranks, in another order, or with other numbers from one step on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Contents {
    Alike,
    Reversed,
    OtherFromStep(i32),
}

const STEPS: i32 = 24;
/// Rows of a batch.
const BATCH: i32 = 12;

fn numbers(contents: Contents) -> Vec<i64> {
    let numbers = 0..i64::from(STEPS * BATCH);
    match contents {
        Contents::Alike => numbers.collect(),
        Contents::Reversed => numbers.rev().collect(),
        Contents::OtherFromStep(step) => {
            let first = i64::from(step * BATCH);
            numbers
                .map(|number| if number < first { number } else { number + 7 })
                .collect()
        }
    }
}

/// A generator of these numbers.
struct Numbers(std::vec::IntoIter<i64>);

impl Generator for Numbers {
    fn next(&mut self) -> Result<Option<Value>> {
        Ok(self
            .0
            .next()
            .map(|number| Value::Tensor(tensor(&[number], &[]))))
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }
}

fn dataset_of(source: Source, numbers: Vec<i64>) -> Dataset {
    let rows = Value::Tensor(tensor(&numbers, &[numbers.len()]));
    let arrays = Dataset::from_tensor_slices(&rows).unwrap();
    let shuffle = ShuffleOptions {
        seed: 5,
        ..ShuffleOptions::default()
    };
    let rows = match source {
        Source::Arrays => arrays,
        Source::Shuffled => arrays.shuffle(&shuffle).unwrap(),
        Source::Generator => {
            let begin = move || Ok(Box::new(Numbers(numbers.clone().into_iter())) as _);
            Dataset::from_generator(arrays.element_spec().clone(), begin).unwrap()
        }
        Source::Mapped => {
            let same = |value: &Value| Ok(value.clone());
            arrays.map(same, MapOptions::default()).unwrap()
        }
        Source::Files => {
            let open = move |_: File<'_>| Ok(arrays.clone());
            Dataset::from_files(&["one"], open, FilesOptions::default()).unwrap()
        }
    };
    rows.batch(BATCH.into(), false).unwrap()
}

/// In which step the ranks are told, counted from 0.
fn told_in(source: Source, contents: Contents, compared: Option<u64>) -> Option<i32> {
    let has_functions = matches!(source, Source::Mapped | Source::Files);
    let compared = compared.unwrap_or(if has_functions { 0 } else { 16 });
    let first = match contents {
        Contents::Alike => return None,
        Contents::Reversed => 0,
        // A shuffle of all rows brings some of the others into the first batch.
        Contents::OtherFromStep(_) if source == Source::Shuffled => 0,
        Contents::OtherFromStep(step) => step,
    };
    (compared > first as u64).then_some(first)
}

/// Rows in another order, and other rows, are noticed where the ranks read the same batches, in the
/// steps in which they are compared; and nowhere else.
#[test]
fn other_rows_of_the_same_shape_are_noticed() {
    let sources = [
        Source::Arrays,
        Source::Shuffled,
        Source::Generator,
        Source::Mapped,
        Source::Files,
    ];
    let contents = [
        Contents::Alike,
        Contents::Reversed,
        Contents::OtherFromStep(4),
        Contents::OtherFromStep(17),
    ];
    let compared = [None, Some(0), Some(5), Some(u64::MAX)];
    let splits = [(2, 1), (2, 2), (3, 1), (3, 2)];
    let plans = pairwise(&[
        sources.len(),
        contents.len(),
        compared.len(),
        splits.len(),
        2,
        2,
        2,
    ]);
    for plan in plans {
        let source = sources[plan[0]];
        let contents = contents[plan[1]];
        let compared = compared[plan[2]];
        let (size, replicas) = splits[plan[3]];
        let wrong = size - 1;
        let options = DistributeOptions {
            splitting: [Splitting::Ceiling, Splitting::Balanced][plan[4]],
            read_ahead: Some([0, 2][plan[5]]),
            sharding: [Sharding::Data, Sharding::Off][plan[6]],
            compared_steps: compared,
            ..DistributeOptions::default()
        };
        let told = match options.sharding {
            Sharding::Off => None,
            _ => told_in(source, contents, compared),
        };
        let case = format!("{source:?}, {contents:?}, {size}×{replicas}, {options:?}");
        on_ranks(&ranks(size), replicas, |rank, strategy| {
            let strategy = strategy.unwrap();
            let numbers = numbers(if rank == wrong {
                contents
            } else {
                Contents::Alike
            });
            let dataset = dataset_of(source, numbers);
            let distributed = distribute_dataset(&strategy, &dataset, &options).unwrap();
            let iterator = distributed.iterator().unwrap();
            for number in 0.. {
                let Some(element) = iterator.next().unwrap() else {
                    assert_eq!((number, told), (STEPS, None), "{case}");
                    break;
                };
                let Err(error) = step(&strategy, Some(element)) else {
                    assert_ne!(Some(number), told, "{case}");
                    continue;
                };
                assert_eq!(Some(number), told, "{case}: {error}");
                assert_eq!(
                    error.status(),
                    Status::FailedPrecondition,
                    "{case}: {error}"
                );
                let text = error.to_string();
                let parts = [
                    "the ranks disagree",
                    "the checksum of rows of the global batch",
                ];
                for part in parts
                    .into_iter()
                    .chain(["compared_steps", &format!("rank {wrong}")])
                {
                    assert!(text.contains(part), "'{part}' is missing: {text}");
                }
                break;
            }
        });
    }
}
