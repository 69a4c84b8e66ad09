//! Datasets of files: which elements come, in which order, and what goes wrong with a file.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{Cardinality, Dataset, File, FilesOptions, MapOptions, ShuffleOptions};
use umbo_core::tensor::{Shape, Tensor};
use umbo_core::values::Value;

use crate::common::{all, fails, ints, numbers, rest};

/// The rows 100·i, 100·i + 1, ... of file i, as many as its name says.
fn rows(file: File<'_>) -> Result<Dataset> {
    let first = 100 * file.number as i32;
    let numbers: Vec<i32> =
        (first..first + file.path.to_str().unwrap().parse::<i32>().unwrap()).collect();
    let tensor = Tensor::from_slice(&numbers, Shape::new(&[numbers.len()])?, DeviceId::HOST)?;
    Dataset::from_tensor_slices(&Value::Tensor(tensor))
}

fn files(sizes: &[usize], options: FilesOptions) -> Dataset {
    made(sizes, rows, options).unwrap()
}

fn made(
    sizes: &[usize],
    open: impl Fn(File<'_>) -> Result<Dataset> + Send + Sync + 'static,
    options: FilesOptions,
) -> Result<Dataset> {
    let names: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Dataset::from_files(&names, open, options)
}

/// What comes by turns, if all files are there from the start.
fn by_turns(sizes: &[usize], at_once: usize, in_turn: usize) -> Vec<i32> {
    let file = |(number, &size): (usize, &usize)| -> VecDeque<i32> {
        (0..size).map(|row| (100 * number + row) as i32).collect()
    };
    let mut closed: VecDeque<_> = sizes.iter().enumerate().map(file).collect();
    let mut open: Vec<_> = (0..at_once).filter_map(|_| closed.pop_front()).collect();
    let mut came = Vec::new();
    let mut turn = 0;
    let mut given = 0;
    while !open.is_empty() {
        turn %= open.len();
        match open[turn].pop_front() {
            Some(row) => {
                came.push(row);
                given += 1;
                (turn, given) = if given == in_turn {
                    (turn + 1, 0)
                } else {
                    (turn, given)
                };
            }
            None => {
                given = 0;
                match closed.pop_front() {
                    Some(next) => open[turn] = next,
                    None => drop(open.remove(turn)),
                }
            }
        }
    }
    came
}

#[test]
fn files_come_one_after_the_other_or_by_turns() {
    for sizes in [
        &[3usize][..],
        &[0],
        &[2, 0, 5],
        &[0, 0, 4, 1],
        &[1, 6, 2, 3, 0, 0, 2],
        &[4; 9],
    ] {
        let count = sizes.len();
        let total = sizes.iter().sum::<usize>();
        for at_once in [1, 2, 3, count, count + 2] {
            for in_turn in [1, 2, 5] {
                let files_at_once = at_once as i64;
                let elements_in_turn = in_turn as i64;
                let options = FilesOptions {
                    files_at_once,
                    elements_in_turn,
                    ..Default::default()
                };
                let dataset = files(sizes, options);
                assert_eq!(dataset.cardinality(), Cardinality::Unknown);
                let came: Vec<i32> = all(&dataset).into_iter().flatten().collect();
                let case = format!("{sizes:?}, {at_once}, {in_turn}");
                assert_eq!(came.len(), total, "{case}");
                match at_once {
                    1 => assert!(came.is_sorted(), "{case}"),
                    _ => assert_eq!(came, by_turns(sizes, at_once, in_turn), "{case}"),
                }
                // Items that are passed over are those that would have come.
                for skipped in 0..=total as i64 {
                    let left: Vec<i32> = all(&dataset.skip(skipped).unwrap())
                        .into_iter()
                        .flatten()
                        .collect();
                    assert_eq!(left, came[skipped as usize..], "{case}, behind {skipped}");
                }
            }
        }
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_left_out() {
    let missing = |file: File<'_>| match file.number {
        1 | 3 => Err(Error::NotFound(format!("no file {}", file.number))),
        _ => rows(file),
    };
    for at_once in [1, 2, 5] {
        let options = FilesOptions {
            files_at_once: at_once,
            ..Default::default()
        };
        let iterator = made(&[2; 5], missing, options).unwrap().iterator().unwrap();
        for _round in 0..2 {
            let mut came = Vec::new();
            let mut failures = Vec::new();
            loop {
                match iterator.next() {
                    Ok(Some(element)) => came.extend(ints(&element)),
                    Ok(None) => break,
                    Err(error) => failures.push(error.to_string()),
                }
            }
            came.sort_unstable();
            assert_eq!(came, [0, 1, 200, 201, 400, 401]);
            let is_named = |(at, text): (usize, &String)| text.contains(&format!("no file {at}"));
            assert!(
                [1, 3].into_iter().zip(&failures).all(is_named),
                "{failures:?}"
            );
            assert_eq!(failures.len(), 2);
            iterator.reset().unwrap();
        }
    }
}

#[test]
fn at_most_so_many_files_are_open_and_none_is_kept() {
    let open = Arc::new(AtomicUsize::new(0));
    let of_files = Arc::clone(&open);
    let most = Arc::new(AtomicUsize::new(0));
    let of_most = Arc::clone(&most);
    let counted = move |file: File<'_>| {
        struct IsOpen(Arc<AtomicUsize>);
        impl Drop for IsOpen {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let now = of_files.fetch_add(1, Ordering::Relaxed) + 1;
        of_most.fetch_max(now, Ordering::Relaxed);
        let is_open = IsOpen(Arc::clone(&of_files));
        let same = move |element: &Value| {
            let _ = &is_open;
            Ok(element.clone())
        };
        rows(file)?.map(same, MapOptions::default())
    };
    let options = FilesOptions {
        files_at_once: 3,
        ..Default::default()
    };
    let dataset = made(&[2, 4, 1, 3, 5, 1, 1, 2], counted, options).unwrap();
    assert_eq!(open.load(Ordering::Relaxed), 0);
    assert_eq!(all(&dataset).len(), 19);
    assert_eq!(
        (open.load(Ordering::Relaxed), most.load(Ordering::Relaxed)),
        (0, 3)
    );
    let iterator = dataset.iterator().unwrap();
    iterator.next().unwrap().unwrap();
    assert_eq!(open.load(Ordering::Relaxed), 3);
    iterator.reset().unwrap();
    assert_eq!(open.load(Ordering::Relaxed), 0);
    iterator.next().unwrap().unwrap();
    drop(iterator);
    assert_eq!(open.load(Ordering::Relaxed), 0);
}

#[test]
fn files_are_shuffled_anew_in_each_round() {
    let sizes = [1; 30];
    let options = |seed| FilesOptions {
        shuffle_files: Some(seed),
        ..Default::default()
    };
    let orders = |seed| {
        let dataset = files(&sizes, options(seed));
        let iterator = dataset.repeat(2).unwrap().iterator().unwrap();
        let mut rounds = rest(&iterator, ints)
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
        rounds.extend(all(&dataset).into_iter().flatten());
        rounds
    };
    let came = orders(7);
    assert_eq!(came, orders(7));
    assert_ne!(came, orders(8));
    let rounds: Vec<&[i32]> = came.chunks(30).collect();
    assert_eq!(rounds.len(), 3);
    assert!(rounds[0] != rounds[1] && rounds[1] != rounds[2] && rounds[0] != rounds[2]);
    for round in rounds {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq((0..30).map(|number| 100 * number)));
    }
}

#[test]
fn elements_are_as_the_first_file_or_the_options_say() {
    let opened = Arc::new(Mutex::new(Vec::new()));
    let of_files = Arc::clone(&opened);
    let noted = move |file: File<'_>| {
        of_files.lock().unwrap().push(file.number);
        match file.number {
            2 => Dataset::range(0, 3, 1),
            _ => rows(file),
        }
    };
    let spec = numbers(1).element_spec().clone();
    let options = FilesOptions {
        element_spec: Some(spec.clone()),
        ..Default::default()
    };
    let dataset = made(&[2, 1, 3, 1], noted.clone(), options).unwrap();
    assert!(opened.lock().unwrap().is_empty());
    assert_eq!(*dataset.element_spec(), spec);
    let iterator = dataset.iterator().unwrap();
    let first: Vec<i32> = (0..3)
        .flat_map(|_| ints(&iterator.next().unwrap().unwrap()))
        .collect();
    assert_eq!(first, [0, 1, 100]);
    fails(iterator.next(), Status::InvalidArgument, "file 2 ('3')");
    assert_eq!(rest(&iterator, ints), [[300]]);
    assert_eq!(std::mem::take(&mut *opened.lock().unwrap()), [0, 1, 2, 3]);
    let dataset = made(&[2, 1, 3, 1], noted, FilesOptions::default()).unwrap();
    assert_eq!(
        (dataset.element_spec(), &*opened.lock().unwrap()),
        (&spec, &vec![0])
    );
    // Sizes that the first file has and another has not.
    let batches = |file: File<'_>| rows(file)?.batch(2, true);
    let dataset = made(&[2], batches, FilesOptions::default()).unwrap();
    let options = FilesOptions {
        element_spec: Some(dataset.element_spec().clone()),
        ..Default::default()
    };
    let others = made(&[3], |file| rows(file)?.batch(3, false), options).unwrap();
    fails(
        others.iterator().unwrap().next(),
        Status::InvalidArgument,
        "an element of a file",
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let none = FilesOptions::default;
    let refused = |result: Result<Dataset>, part| fails(result, Status::InvalidArgument, part);
    refused(made(&[], rows, none()), "paths: none");
    for (files_at_once, elements_in_turn, part) in [
        (0, 1, "open_file_count: 0"),
        (-1, 1, "open_file_count: -1"),
        (4097, 1, "open_file_count: 4097"),
        (1, 0, "consecutive_count: 0"),
        (2, -3, "consecutive_count: -3"),
    ] {
        let options = FilesOptions {
            files_at_once,
            elements_in_turn,
            ..none()
        };
        refused(made(&[1], rows, options), part);
    }
    let failing = |_: File<'_>| Err(Error::PermissionDenied("not for you".into()));
    fails(
        made(&[1], failing, none()),
        Status::PermissionDenied,
        "not for you",
    );
    // A file whose dataset has too many transformations would cost stack that nobody has counted.
    let deep = |file: File<'_>| (0..127).try_fold(rows(file)?, |dataset, _| dataset.prefetch(1));
    refused(made(&[1], deep, none()), "128 transformations");
    let nested = |_: File<'_>| made(&[1], rows, FilesOptions::default());
    refused(made(&[1], nested, none()), "file 0 ('1')");
    let above = (0..128).try_fold(files(&[1], none()), |dataset, _| dataset.repeat(1));
    assert!(above.as_ref().unwrap().repeat(1).is_err());
    assert_eq!(all(&above.unwrap()), [[0]]);
}

#[test]
fn a_place_in_files_that_have_changed_is_refused() {
    let shuffled = Arc::new(Mutex::new(true));
    let of_files = Arc::clone(&shuffled);
    let open = move |file: File<'_>| match *of_files.lock().unwrap() {
        true => rows(file)?.shuffle(&ShuffleOptions::default()),
        false => rows(file),
    };
    let dataset = made(&[5, 5], open, FilesOptions::default()).unwrap();
    let iterator = dataset.iterator().unwrap();
    iterator.next().unwrap().unwrap();
    let place = iterator.save_position().unwrap();
    let after = rest(&iterator, ints);
    *shuffled.lock().unwrap() = false;
    fails(
        iterator.restore_position(&place),
        Status::InvalidArgument,
        "another dataset",
    );
    *shuffled.lock().unwrap() = true;
    iterator.restore_position(&place).unwrap();
    assert_eq!(rest(&iterator, ints), after);
    let longer = files(&[5, 5, 5], FilesOptions::default());
    fails(
        longer.iterator().unwrap().restore_position(&place),
        Status::InvalidArgument,
        "files",
    );
}
