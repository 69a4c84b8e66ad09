//! Memory that is short for a while: an iterator says so, and no element is lost or comes twice.

use std::fmt::Write;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::device::DeviceId;
use umbo_core::error::{Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, ElementSpec, File, FilesOptions, Generator, LeafSpec, MapOptions,
    PassIterator, ShuffleOptions, Splitting, distribute, distribute_per_replica_batches,
};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

use crate::allocator::{LARGE, is_short, serve};

/// The numbers of a row, whose memory may be refused.
const WIDTH: usize = LARGE / 8;

/// Rows of one number each, from `first` on.
fn rows(first: i64, count: usize) -> Result<Tensor> {
    let numbers: Vec<i64> = (0..count * WIDTH)
        .map(|at| first + (at / WIDTH) as i64)
        .collect();
    Tensor::from_slice(&numbers, Shape::new(&[count, WIDTH])?, DeviceId::HOST)
}

fn array(first: i64, count: usize) -> Dataset {
    Dataset::from_tensor_slices(&Value::Tensor(rows(first, count).unwrap())).unwrap()
}

fn row_spec() -> ElementSpec {
    ElementSpec::Leaf(LeafSpec {
        dtype: DType::Int64,
        shape: vec![Some(WIDTH)],
    })
}

/// A row in memory of its own, which there may not be.
fn copied(element: &Value) -> Result<Value> {
    Ok(Value::Tensor(
        element.tensor_of(0)?.copied_to(DeviceId::HOST)?,
    ))
}

/// Rows that are made when they are asked for.
struct Rows(i64, i64);

impl Generator for Rows {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.0 == self.1 {
            return Ok(None);
        }
        // Before there is an element, so that none is lost.
        let row = Tensor::from_slice(&[self.0; WIDTH], Shape::new(&[WIDTH])?, DeviceId::HOST)?;
        self.0 += 1;
        Ok(Some(Value::Tensor(row)))
    }

    fn reset(&mut self) -> Result<()> {
        self.0 = 0;
        Ok(())
    }
}

fn generated() -> Dataset {
    Dataset::from_generator(row_spec(), || Ok(Box::new(Rows(0, 13)) as _)).unwrap()
}

fn mapped(calls: i64) -> Dataset {
    array(0, 13)
        .map(
            copied,
            MapOptions {
                parallel_calls: calls,
                element_spec: None,
            },
        )
        .unwrap()
}

/// The rows whose numbers are not divided by 3. The function may lack memory.
fn filtered(dataset: &Dataset) -> Dataset {
    let keeps = |element: &Value| {
        let copy = copied(element)?;
        Ok(copy.tensor_of(0)?.to_vec::<i64>()?[0] % 3 != 0)
    };
    dataset.filter(keeps).unwrap()
}

fn shuffled(dataset: &Dataset, buffer_size: i64) -> Dataset {
    let options = ShuffleOptions {
        buffer_size,
        seed: 5,
        ..Default::default()
    };
    dataset.shuffle(&options).unwrap()
}

/// As many rows as the name says, of a file that there may be no memory to open.
fn opened(file: File<'_>) -> Result<Dataset> {
    let first = 10 * file.number as i64;
    let count = if file.path.as_os_str() == "3" { 3 } else { 2 };
    drop(Tensor::zeros(
        DType::Int64,
        Shape::new(&[WIDTH])?,
        DeviceId::HOST,
    )?);
    Dataset::from_generator(row_spec(), move || {
        Ok(Box::new(Rows(first, first + count)) as _)
    })
}

fn files() -> Dataset {
    let options = FilesOptions {
        element_spec: Some(row_spec()),
        files_at_once: 2,
        elements_in_turn: 1,
        shuffle_files: Some(3),
    };
    Dataset::from_files(&["3", "2", "3", "2"], opened, options).unwrap()
}

/// What makes a pipeline, and what it is called.
type Pipeline = (&'static str, fn() -> Dataset);

/// A pipeline for each stage, and some of several.
fn pipelines() -> Vec<Pipeline> {
    vec![
        ("rows", || array(0, 13)),
        ("batches of rows", || {
            shuffled(&array(0, 13), 0).batch(4, false).unwrap()
        }),
        ("generator", generated),
        ("map", || mapped(0)),
        ("parallel map", || mapped(3)),
        ("filter", || filtered(&generated())),
        ("filter of parallel calls", || filtered(&mapped(3))),
        ("batch", || generated().batch(4, false).unwrap()),
        ("batch of a map, dropping", || {
            mapped(0).batch(4, true).unwrap()
        }),
        ("batch of parallel calls", || {
            mapped(2).batch(5, false).unwrap()
        }),
        ("padded batch", || {
            generated().padded_batch(4, false).unwrap()
        }),
        ("padded batch of a map, dropping", || {
            mapped(0).padded_batch(4, true).unwrap()
        }),
        ("rebatch", || {
            generated()
                .batch(4, false)
                .unwrap()
                .rebatch(&[3, 2], false)
                .unwrap()
        }),
        ("rebatch, dropping", || {
            mapped(0)
                .batch(4, false)
                .unwrap()
                .rebatch(&[5, 1], true)
                .unwrap()
        }),
        ("unbatch", || {
            generated().batch(4, false).unwrap().unbatch().unwrap()
        }),
        ("unbatch of a map", || {
            let batches = mapped(2).batch(5, false).unwrap();
            batches.unbatch().unwrap().prefetch(2).unwrap()
        }),
        ("shuffle", || shuffled(&generated(), 5)),
        ("shuffle of all", || shuffled(&mapped(0), 0)),
        ("cache", || mapped(0).cache().unwrap().repeat(3).unwrap()),
        ("prefetch", || mapped(0).prefetch(1).unwrap()),
        ("prefetch of a batch", || {
            generated().batch(3, false).unwrap().prefetch(3).unwrap()
        }),
        ("prefetch twice", || {
            mapped(2)
                .prefetch(2)
                .unwrap()
                .batch(2, false)
                .unwrap()
                .prefetch(2)
                .unwrap()
        }),
        ("zip", || {
            Dataset::zip(&[mapped(0), generated()], None).unwrap()
        }),
        ("sample", || {
            let both = [generated(), mapped(2)];
            Dataset::sample(&both, Some(&[1.0, 3.0]), &Default::default()).unwrap()
        }),
        ("concatenate", || {
            Dataset::concatenate(&[generated(), mapped(2)]).unwrap()
        }),
        ("repeat", || shuffled(&generated(), 4).repeat(2).unwrap()),
        ("skip, shard, take", || {
            mapped(0)
                .skip(2)
                .unwrap()
                .shard(2, 1)
                .unwrap()
                .take(4)
                .unwrap()
        }),
        ("files", files),
        ("batches of files", || {
            files().batch(3, false).unwrap().prefetch(1).unwrap()
        }),
    ]
}

/// Ways to give elements to replicas. None of them is as the dataset is.
#[derive(Clone, Copy, Debug)]
struct Way {
    replicas: usize,
    balanced: bool,
    dealt: bool,
    drop_partial_step: bool,
    read_ahead: i64,
}

fn ways() -> Vec<Option<Way>> {
    let mut ways = vec![None];
    for (replicas, read_ahead) in [(1, 0), (1, 2), (2, 0), (2, 1), (3, 3)] {
        for (balanced, dealt) in [(false, false), (true, false), (false, true)] {
            for drop_partial_step in [false, true] {
                ways.push(Some(Way {
                    replicas,
                    balanced,
                    dealt,
                    drop_partial_step,
                    read_ahead,
                }));
            }
        }
    }
    ways
}

fn iterator(dataset: &Dataset, way: Option<Way>) -> PassIterator {
    let Some(way) = way else {
        return dataset.iterator().unwrap();
    };
    let devices: Vec<DeviceId> = (0..way.replicas as u32).map(DeviceId::cpu).collect();
    let options = DistributeOptions {
        splitting: if way.balanced {
            Splitting::Balanced
        } else {
            Splitting::Ceiling
        },
        drop_partial_step: way.drop_partial_step,
        read_ahead: Some(way.read_ahead),
        ..Default::default()
    };
    let distributed = match way.dealt {
        true => distribute_per_replica_batches(dataset, way.replicas, &devices, &options),
        false => distribute(dataset, way.replicas, &devices, &options),
    };
    distributed.unwrap().iterator().unwrap()
}

/// An element in words: of each tensor the shape, and the number of each row.
fn words(element: &Value, to: &mut String) {
    match element {
        Value::Tensor(tensor) => {
            let all = tensor.to_vec::<i64>().unwrap();
            let width = tensor.shape().last().copied().unwrap_or(1).max(1);
            for row in all.chunks(width) {
                assert!(row.iter().all(|&number| number == row[0]), "{row:?}");
            }
            let numbers: Vec<i64> = all.iter().copied().step_by(width).collect();
            write!(to, "{}{numbers:?}{:?} ", tensor.shape(), tensor.examples()).unwrap();
        }
        Value::PerReplica(_) => {
            for replica in 0..element.count() {
                words(
                    &Value::Tensor(element.tensor_of(replica).unwrap().clone()),
                    to,
                );
            }
        }
        nest => (0..nest.count()).for_each(|index| words(&nest.item(index).unwrap(), to)),
    }
}

fn in_words(elements: &[Value]) -> Vec<String> {
    let word = |element| {
        let mut word = String::new();
        words(element, &mut word);
        word
    };
    elements.iter().map(word).collect()
}

fn rest(iterator: &PassIterator) -> Vec<String> {
    let elements: Vec<Value> = std::iter::from_fn(|| iterator.next().unwrap()).collect();
    in_words(&elements)
}

/// Takes all elements, with memory that comes and goes. All of them are held, so that each needs
/// memory of its own. What is behind a failure is also reached by way of the position. How often
/// there was none.
fn take_with_little(
    random: &mut ChaCha8Rng,
    iterator: &PassIterator,
    again: &dyn Fn() -> PassIterator,
    expected: &[String],
    case: &str,
) -> usize {
    let mut elements = Vec::with_capacity(100);
    let mut failures = 0;
    let mut in_a_row = 0;
    loop {
        if random.random_range(0..4) > 0 {
            serve(random.random_range(0..9));
        }
        if in_a_row > 0 && random.random_range(0..3) == 0 {
            serve(usize::MAX);
        }
        let short_now = is_short();
        match iterator.next() {
            Ok(Some(element)) => elements.push(element),
            Ok(None) => break,
            Err(error) => {
                let seen = elements.len();
                failures += 1;
                in_a_row = if short_now { 1 } else { in_a_row + 1 };
                serve(usize::MAX);
                assert_eq!(error.status(), Status::ResourceExhausted, "{case}: {error}");
                assert!(in_a_row < 5, "{case}: still {error}");
                // There may have been no memory to note the place either.
                let place = iterator.save_position().ok().filter(|_| random.random());
                if let Some(place) = place {
                    let other = again();
                    other.restore_position(&place).unwrap();
                    assert_eq!(rest(&other), expected[seen..], "{case}: from {seen} on");
                }
                continue;
            }
        }
        in_a_row = 0;
    }
    serve(usize::MAX);
    assert_eq!(in_words(&elements), expected, "{case}");
    failures
}

/// Behind a failure that has been told the next call tries again: it does not tell of others that
/// were made ahead while there was no memory.
fn a_failure_is_told_once(name: &str, iterator: &PassIterator) {
    let mut elements = Vec::with_capacity(20);
    elements.extend(iterator.next().unwrap());
    serve(0);
    let failed = loop {
        match iterator.next() {
            Ok(element) => elements.push(element.expect("an element or a failure")),
            Err(error) => break error,
        }
    };
    assert_eq!(
        failed.status(),
        Status::ResourceExhausted,
        "{name}: {failed}"
    );
    // Time to fail again.
    std::thread::sleep(Duration::from_millis(20));
    serve(usize::MAX);
    elements.extend(std::iter::from_fn(|| iterator.next().expect(name)));
    assert_eq!(elements.len(), 13, "{name}");
}

#[test]
fn memory_that_is_short_for_a_while_costs_no_element() {
    let true = crate::is_alone(memory_that_is_short_for_a_while_costs_no_element) else {
        return;
    };
    let ahead = Way {
        replicas: 1,
        balanced: false,
        dealt: false,
        drop_partial_step: false,
        read_ahead: 4,
    };
    a_failure_is_told_once(
        "prefetch",
        &mapped(0).prefetch(4).unwrap().iterator().unwrap(),
    );
    a_failure_is_told_once("read ahead", &iterator(&mapped(0), Some(ahead)));
    for (name, pipeline) in pipelines() {
        let mut failures = 0;
        for way in ways() {
            let balanced = way.is_some_and(|way| way.balanced);
            let expected = rest(&iterator(&pipeline(), way));
            for seed in 0..if balanced { 4 } else { 2 } {
                let case = format!("{name}, {way:?}, seed {seed}");
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let dataset = pipeline();
                let first = iterator(&dataset, way);
                let again = || iterator(&dataset, way);
                let of_first = take_with_little(&mut random, &first, &again, &expected, &case);
                failures += of_first;
            }
        }
        let needs_none = name == "rows";
        assert!(needs_none || failures > 20, "{name}: {failures} failures");
    }
}
