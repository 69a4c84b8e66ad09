//! Files of which each rank reads its own: every example once, as many steps on all ranks, nobody
//! else's files opened, whatever stands between the files and the ranks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use umbo_core::error::{Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, DistributedDataset, File, FilesOptions, MapOptions, Sharding,
    ShuffleOptions, distribute_dataset,
};
use umbo_core::strategy::Strategy;
use umbo_core::values::Value;

use super::engine::{job, ranks};
use super::input::{parts, rows as rows_of, steps};
use super::{alone, on_ranks, tensor};

/// The rows 100·i, 100·i + 1, ... of file i, as many as its name says.
fn rows(file: File<'_>) -> Result<Dataset> {
    let first = 100 * file.number as i32;
    let numbers: Vec<i32> =
        (first..first + file.path.to_str().unwrap().parse::<i32>().unwrap()).collect();
    Dataset::from_tensor_slices(&Value::Tensor(tensor(&numbers, &[numbers.len()])))
}

/// A dataset of files with so many rows, which notes in `opened` which are opened.
pub fn files(sizes: &[usize], options: FilesOptions, opened: &Arc<Mutex<Vec<usize>>>) -> Dataset {
    let names: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let spec = Dataset::from_tensor_slices(&Value::Tensor(tensor(&[0i32], &[1]))).unwrap();
    let element_spec = Some(spec.element_spec().clone());
    let opened = Arc::clone(opened);
    let open = move |file: File<'_>| {
        opened.lock().unwrap().push(file.number);
        rows(file)
    };
    Dataset::from_files(
        &names,
        open,
        FilesOptions {
            element_spec,
            ..options
        },
    )
    .unwrap()
}

fn some(sizes: &[usize]) -> Dataset {
    files(sizes, FilesOptions::default(), &Arc::default())
}

fn by_files() -> DistributeOptions {
    DistributeOptions {
        sharding: Sharding::File,
        ..DistributeOptions::default()
    }
}

/// What a pipeline does behind the files, how often each row comes then, and by how much each is
/// larger.
struct Stages {
    name: &'static str,
    rounds: usize,
    added: i32,
    transform: fn(Dataset, i64) -> Result<Dataset>,
}

fn one_more(element: &Value) -> Result<Value> {
    let rows = element.tensor_of(0)?;
    let shape: Vec<usize> = rows.shape().iter().copied().collect();
    let more: Vec<i32> = rows
        .to_vec::<i32>()?
        .into_iter()
        .map(|row| row + 1)
        .collect();
    Ok(Value::Tensor(tensor(&more, &shape)))
}

const SHUFFLE: ShuffleOptions = ShuffleOptions {
    buffer_size: 7,
    seed: 3,
    keep_order_each_pass: false,
};

const STAGES: &[Stages] = &[
    Stages {
        name: "batch",
        rounds: 1,
        added: 0,
        transform: |files, size| files.batch(size, false),
    },
    Stages {
        name: "shuffle, batch, prefetch",
        rounds: 1,
        added: 0,
        transform: |files, size| files.shuffle(&SHUFFLE)?.batch(size, false)?.prefetch(2),
    },
    Stages {
        name: "all shuffled, repeat, batch",
        rounds: 2,
        added: 0,
        transform: |files, size| {
            let all = ShuffleOptions {
                buffer_size: 0,
                ..SHUFFLE
            };
            files.shuffle(&all)?.repeat(2)?.batch(size, false)
        },
    },
    Stages {
        name: "map, batch, repeat",
        rounds: 3,
        added: 1,
        transform: |files, size| {
            let calls = MapOptions {
                parallel_calls: 3,
                element_spec: None,
            };
            files.map(one_more, calls)?.batch(size, false)?.repeat(3)
        },
    },
    Stages {
        name: "batch, map",
        rounds: 1,
        added: 1,
        transform: |files, size| {
            files
                .batch(size, false)?
                .map(one_more, MapOptions::default())
        },
    },
    Stages {
        name: "cache, repeat, padded batch, batch of its own size",
        rounds: 2,
        added: 0,
        transform: |files, size| {
            files
                .cache()?
                .repeat(2)?
                .padded_batch(3, false)?
                .rebatch(&[size], false)
        },
    },
    Stages {
        name: "take and skip that leave nothing out, shard of one",
        rounds: 1,
        added: 0,
        transform: |files, size| files.take(-1)?.skip(0)?.shard(1, 0)?.batch(size, false),
    },
    Stages {
        name: "concatenate with itself",
        rounds: 2,
        added: 0,
        transform: |files, size| {
            let both = Dataset::concatenate(&[files.clone(), files])?;
            both.shuffle(&SHUFFLE)?.batch(size, false)
        },
    },
];

fn sorted_rows(steps: &[Vec<Vec<Vec<i32>>>]) -> BTreeMap<i32, usize> {
    let mut times = BTreeMap::new();
    for row in steps.iter().flatten().flatten().flatten() {
        *times.entry(*row).or_default() += 1;
    }
    times
}

#[test]
fn each_example_comes_once_to_the_rank_that_has_its_file() {
    let sizes: [&[usize]; 6] = [
        &[4, 4, 4, 4],
        &[9, 0, 1, 2, 17],
        &[0, 0, 0, 5],
        &[3, 8, 1],
        &[0; 4],
        &[2; 11],
    ];
    for (stage, stages) in STAGES.iter().enumerate() {
        for (turn, sizes) in sizes.into_iter().enumerate() {
            // Each with each of the stages and with each of the sizes.
            let splits = [(2, 1, 4), (2, 2, 7), (3, 1, 3), (3, 2, 12)];
            let (size, replicas, batch) = splits[(stage / 2 + turn) % 4];
            let auto = (stage + turn) % 2 == 1;
            let options = DistributeOptions {
                sharding: if auto { Sharding::Auto } else { Sharding::File },
                read_ahead: Some(if turn % 3 == 1 { 2 } else { 0 }),
                ..DistributeOptions::default()
            };
            let of_files = FilesOptions {
                files_at_once: 1 + turn as i64 % 3,
                elements_in_turn: 2,
                shuffle_files: (turn % 2 == 1).then_some(5),
                ..Default::default()
            };
            let case = format!("{}, {sizes:?}, {size}×{replicas}, {options:?}", stages.name);
            let run = || {
                on_ranks(
                    &job(size, Some(turn as u64), None),
                    replicas,
                    |rank, strategy| {
                        let strategy = strategy.unwrap();
                        let opened = Arc::default();
                        let data = files(sizes, of_files.clone(), &opened);
                        let data = (stages.transform)(data, batch).unwrap();
                        let distributed = distribute_dataset(&strategy, &data, &options).unwrap();
                        assert_eq!(distributed.replicas(), replicas);
                        let steps = on_and_on(&strategy, &distributed, &case);
                        let opened = opened.lock().unwrap();
                        // The second of two times the same files begins where the first one ends.
                        let shift = if stages.name.starts_with("concat") {
                            sizes.len()
                        } else {
                            0
                        };
                        let is_own =
                            |file: &usize| file % size == rank || (file + shift) % size == rank;
                        assert!(opened.iter().all(is_own), "{case}: rank {rank}: {opened:?}");
                        steps
                    },
                )
            };
            let came = run();
            assert_eq!(came, run(), "{case}: another time");
            let count = came[0].len();
            assert!(
                came.iter().all(|steps| steps.len() == count),
                "{case}: {came:?}"
            );
            let rows = sizes.iter().enumerate().flat_map(|(file, &rows)| {
                (0..rows).map(move |row| (100 * file + row) as i32 + stages.added)
            });
            let expected: BTreeMap<i32, usize> = rows.map(|row| (row, stages.rounds)).collect();
            assert_eq!(sorted_rows(&came), expected, "{case}: {came:?}");
            // While all have rows, a step has those of one batch.
            let of_step = |step: usize| -> Vec<usize> {
                came.iter()
                    .flat_map(|steps| steps[step].iter().map(Vec::len))
                    .collect()
            };
            let all = size * replicas;
            let share =
                |replica| batch as usize / all + usize::from(replica < batch as usize % all);
            let full: Vec<usize> = (0..all).map(share).collect();
            let whole = (0..count).filter(|&step| of_step(step) == full).count();
            let of_rank = |rank: usize| -> usize {
                sizes
                    .iter()
                    .enumerate()
                    .filter(|(file, _)| file % size == rank)
                    .map(|found| found.1)
                    .sum()
            };
            let rows_of_rank =
                |rank: usize| full[rank * replicas..][..replicas].iter().sum::<usize>();
            if stages.rounds == 1 {
                let least = (0..size)
                    .map(|rank| of_rank(rank) / rows_of_rank(rank))
                    .min()
                    .unwrap();
                assert_eq!(whole, least, "{case}: {came:?}");
            }
            assert!(
                (0..count).all(|step| of_step(step).iter().any(|&rows| rows > 0)),
                "{case}"
            );
        }
    }
}

/// The steps of one pass, whose places in between lead to the same steps.
fn on_and_on(
    strategy: &Strategy,
    distributed: &DistributedDataset,
    case: &str,
) -> Vec<Vec<Vec<i32>>> {
    let iterator = distributed.iterator().unwrap();
    let mut seen = Vec::new();
    let mut places = Vec::new();
    loop {
        places.push(iterator.save_position().unwrap());
        let Some(element) = iterator.next().unwrap() else {
            break;
        };
        seen.push(parts(strategy, &element));
    }
    // All ranks have made as many steps, so they choose the same places.
    for at in [0, seen.len() / 2, seen.len()] {
        let other = distributed.iterator().unwrap();
        other.restore_position(&places[at]).unwrap();
        assert_eq!(
            other.save_position().unwrap(),
            places[at],
            "{case}: at {at}"
        );
        assert_eq!(steps(strategy, &other), seen[at..], "{case}: from {at} on");
    }
    seen
}

#[test]
fn steps_that_not_all_ranks_have_rows_for_can_be_left_out() {
    let options = DistributeOptions {
        drop_partial_step: true,
        ..by_files()
    };
    let came = on_ranks(&ranks(2), 2, |_, strategy| {
        let strategy = strategy.unwrap();
        let data = some(&[10, 4]).batch(4, false).unwrap();
        let distributed = distribute_dataset(&strategy, &data, &options).unwrap();
        steps(&strategy, &distributed.iterator().unwrap())
    });
    assert_eq!(
        came,
        [[[[0], [1]], [[2], [3]]], [[[100], [101]], [[102], [103]]]]
    );
}

#[test]
fn what_cannot_be_dealt_out_is_refused_and_split_by_batches_if_that_is_left_open() {
    type Pipeline = fn() -> Result<Dataset>;
    let unknown: Pipeline = || {
        let spec = some(&[2]).batch(2, false)?.element_spec().clone();
        let options = FilesOptions {
            element_spec: Some(spec),
            ..Default::default()
        };
        Dataset::from_files(&["2", "2"], |file| rows(file)?.batch(2, false), options)
    };
    let refused: &[(Pipeline, &str)] = &[
        (|| rows_of(0..9).batch(4, false), "is not made of files"),
        (
            || some(&[5]).batch(4, false),
            "fewer files (1) than ranks (2)",
        ),
        (
            || some(&[5, 2]).take(6)?.batch(4, false),
            "has take behind them",
        ),
        (
            || some(&[5, 2]).skip(1)?.batch(4, false),
            "has skip behind them",
        ),
        (
            || some(&[5, 2]).shard(2, 1)?.batch(4, false),
            "has shard behind them",
        ),
        (
            || Dataset::zip(&[some(&[5, 2]), some(&[5, 2])], None)?.batch(4, false),
            "has zip",
        ),
        (
            || {
                let both = [some(&[5, 2]), rows_of(0..3)];
                Dataset::concatenate(&both)?.batch(4, false)
            },
            "has concatenate with what is not made of files behind them",
        ),
        (unknown, "not known how many rows"),
        (
            || some(&[5, 2]).batch(3, false)?.rebatch(&[1, 2], false),
            "not known how many rows",
        ),
        (
            || some(&[5, 2]).batch(2, false),
            "batches of 2 rows have none for rank 1",
        ),
    ];
    for &(pipeline, part) in refused {
        let case = part;
        let expected = on_ranks(&ranks(2), 2, |_, strategy| {
            let strategy = strategy.unwrap();
            let options = DistributeOptions::default();
            let distributed =
                distribute_dataset(&strategy, &pipeline().unwrap(), &options).unwrap();
            numbered(&distributed)
        });
        let came = on_ranks(&ranks(2), 2, |_, strategy| {
            let strategy = strategy.unwrap();
            let data = pipeline().unwrap();
            let error = distribute_dataset(&strategy, &data, &by_files()).unwrap_err();
            assert_eq!(error.status(), Status::InvalidArgument, "{case}: {error}");
            let text = error.to_string();
            assert!(
                text.contains(part) && text.contains("sharding"),
                "{case}: {text}"
            );
            let options = DistributeOptions {
                sharding: Sharding::Auto,
                ..by_files()
            };
            numbered(&distribute_dataset(&strategy, &data, &options).unwrap())
        });
        assert_eq!(came, expected, "{case}");
    }
    let without = rows_of(0..4).batch(2, false).unwrap();
    let error = distribute_dataset(&alone(2), &without, &by_files()).unwrap_err();
    assert_eq!(
        error.status(),
        Status::InvalidArgument,
        "one process: {error}"
    );
}

/// What the components of each element are, in words.
fn numbered(distributed: &DistributedDataset) -> Vec<String> {
    let iterator = distributed.iterator().unwrap();
    let mut words = Vec::new();
    while let Some(element) = iterator.next().unwrap() {
        let mut of_element = String::new();
        element
            .map_leaves(&mut |leaf| {
                for component in 0..2 {
                    let rows = leaf.tensor_of(component)?.to_vec::<i32>()?;
                    of_element += &format!("{rows:?}");
                }
                Ok(leaf.clone())
            })
            .unwrap();
        words.push(of_element);
    }
    words
}

/// Folders are listed in another order on every machine.
#[test]
fn ranks_with_other_lists_of_files_are_told() {
    for (files_of_others, text) in [(["3", "5", "4"], "'3'"), (["4", "3", "5"], "'4'")] {
        on_ranks(&ranks(2), 1, |rank, strategy| {
            let strategy = strategy.unwrap();
            let names = if rank == 0 {
                ["4", "5", "3"]
            } else {
                files_of_others
            };
            let options = FilesOptions {
                element_spec: Some(some(&[1]).element_spec().clone()),
                ..Default::default()
            };
            let data = Dataset::from_files(&names, rows, options)
                .unwrap()
                .batch(2, false)
                .unwrap();
            let distributed = distribute_dataset(&strategy, &data, &by_files()).unwrap();
            let error = distributed.iterator().unwrap().next().unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        });
    }
}

#[test]
fn a_place_of_one_rank_is_no_place_of_another() {
    let places = on_ranks(&ranks(2), 1, |_, strategy| {
        let strategy = strategy.unwrap();
        let data = some(&[3, 5, 2]).batch(2, false).unwrap();
        let distributed = distribute_dataset(&strategy, &data, &by_files()).unwrap();
        let iterator = distributed.iterator().unwrap();
        iterator.next().unwrap();
        iterator.save_position().unwrap()
    });
    on_ranks(&ranks(2), 1, |rank, strategy| {
        let strategy = strategy.unwrap();
        let data = some(&[3, 5, 2]).batch(2, false).unwrap();
        let distributed = distribute_dataset(&strategy, &data, &by_files()).unwrap();
        let iterator = distributed.iterator().unwrap();
        let error = iterator.restore_position(&places[1 - rank]).unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument, "{error}");
        assert!(error.to_string().contains("share"), "{error}");
        iterator.restore_position(&places[rank]).unwrap();
        assert_eq!(iterator.save_position().unwrap(), places[rank]);
    });
}
