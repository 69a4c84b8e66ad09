//! Cache, shard, concatenate, map, generators, padded batches, rebatch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{all, counting, fails, ints, numbers, rest};
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{
    Cardinality, Dataset, ElementSpec, Generator, LeafSpec, MapOptions, ShuffleOptions,
};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

fn leaf(shape: &[Option<usize>]) -> ElementSpec {
    ElementSpec::Leaf(LeafSpec {
        dtype: DType::Int32,
        shape: shape.to_vec(),
    })
}

fn tensor(shape: &[usize], data: &[i32]) -> Tensor {
    Tensor::from_slice(data, Shape::new(shape).unwrap(), DeviceId::HOST).unwrap()
}

fn scalar(number: i32) -> Value {
    Value::Tensor(Tensor::scalar(number).unwrap())
}

/// Numbers that fail at some of them, and count how many were made.
struct Failing {
    next: i32,
    count: i32,
    at: &'static [i32],
    made: Arc<AtomicUsize>,
}

impl Generator for Failing {
    fn next(&mut self) -> Result<Option<Value>> {
        let number = self.next;
        if number == self.count {
            return Ok(None);
        }
        self.next += 1;
        self.made.fetch_add(1, Ordering::Relaxed);
        if self.at.contains(&number) {
            return Err(Error::DataLoss(format!("number {number} is damaged")));
        }
        Ok(Some(scalar(number)))
    }

    fn reset(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}

fn failing(count: i32, at: &'static [i32]) -> (Dataset, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let dataset = Dataset::from_generator(leaf(&[]), move || {
        Ok(Box::new(Failing {
            next: 0,
            count,
            at,
            made: Arc::clone(&counter),
        }))
    });
    (dataset.unwrap(), made)
}

/// All outcomes of a pass, failures by their message.
fn outcomes(dataset: &Dataset) -> Vec<std::result::Result<Vec<i32>, String>> {
    let iterator = dataset.iterator().unwrap();
    let mut outcomes = Vec::new();
    loop {
        match iterator.next() {
            Ok(None) => return outcomes,
            Ok(Some(element)) => outcomes.push(Ok(ints(&element))),
            Err(error) => outcomes.push(Err(error.to_string())),
        }
    }
}

#[test]
fn a_generators_failures_stand_in_their_place() {
    let (dataset, _) = failing(4, &[1]);
    let expected = [
        Ok(vec![0]),
        Err("number 1 is damaged".into()),
        Ok(vec![2]),
        Ok(vec![3]),
    ];
    assert_eq!(outcomes(&dataset), expected);
    assert_eq!(outcomes(&dataset.prefetch(3).unwrap()), expected);
}

#[test]
fn generators_keep_to_their_spec() {
    let other = |element: fn() -> Value| {
        struct One(Option<Value>);
        impl Generator for One {
            fn next(&mut self) -> Result<Option<Value>> {
                Ok(self.0.take())
            }
            fn reset(&mut self) -> Result<()> {
                Ok(())
            }
        }
        let begin = move || -> Result<Box<dyn Generator>> { Ok(Box::new(One(Some(element())))) };
        Dataset::from_generator(leaf(&[None, Some(2)]), begin)
            .unwrap()
            .iterator()
            .unwrap()
            .next()
    };
    assert!(other(|| Value::Tensor(counting(&[5, 2]))).is_ok());
    fails(
        other(|| Value::Tensor(counting(&[5, 3]))),
        Status::InvalidArgument,
        "int32 [?, 2]",
    );
    fails(
        other(|| Value::Tensor(counting(&[2]))),
        Status::InvalidArgument,
        "shape [2]",
    );
    fails(
        other(|| Value::tuple(vec![]).unwrap()),
        Status::InvalidArgument,
        "a tuple of 0",
    );
    let none = || -> Result<Box<dyn Generator>> { Err(Error::DataLoss("unused".into())) };
    let empty = Dataset::from_generator(ElementSpec::tuple(vec![]).unwrap(), none);
    fails(empty, Status::InvalidArgument, "no tensor");
    let parts = ElementSpec::PerReplica(
        2,
        LeafSpec {
            dtype: DType::Int32,
            shape: vec![],
        },
    );
    fails(
        Dataset::from_generator(parts, none),
        Status::InvalidArgument,
        "per-replica",
    );
}

fn doubled(element: &Value) -> Result<Value> {
    match ints(element)[0] {
        5 => Err(Error::DataLoss("five".into())),
        number => Ok(scalar(2 * number)),
    }
}

#[test]
fn mapping_keeps_the_order_and_the_place_of_failures() {
    let (source, _) = failing(23, &[9, 22]);
    let map = |parallel_calls| {
        let options = MapOptions {
            parallel_calls,
            element_spec: None,
        };
        source.map(doubled, options).unwrap()
    };
    let expected: Vec<std::result::Result<Vec<i32>, String>> = (0..23)
        .map(|number| match number {
            5 => Err("five".into()),
            9 | 22 => Err(format!("number {number} is damaged")),
            number => Ok(vec![2 * number]),
        })
        .collect();
    for parallel_calls in [0, 1, 2, 7, 64] {
        let mapped = map(parallel_calls);
        assert_eq!(
            outcomes(&mapped),
            expected,
            "{parallel_calls} parallel calls"
        );
        let iterator = mapped.iterator().unwrap();
        for _ in 0..4 {
            iterator.next().unwrap();
        }
        iterator.reset().unwrap();
        assert_eq!(ints(&iterator.next().unwrap().unwrap()), [0]);
    }
}

#[test]
fn mapping_to_another_spec() {
    let pair = |element: &Value| {
        Ok(Value::tuple(vec![
            element.clone(),
            Value::Tensor(Tensor::scalar(0.5f32)?),
        ])
        .unwrap())
    };
    let float = ElementSpec::Leaf(LeafSpec {
        dtype: DType::Float32,
        shape: vec![],
    });
    let spec = ElementSpec::tuple(vec![leaf(&[]), float]).unwrap();
    let options = MapOptions {
        parallel_calls: 2,
        element_spec: Some(spec.clone()),
    };
    let mapped = numbers(3).map(pair, options).unwrap();
    assert_eq!(*mapped.element_spec(), spec);
    assert_eq!(mapped.cardinality(), Cardinality::Exact(3));
    let batches = mapped.batch(2, false).unwrap();
    let shapes = rest(&batches.iterator().unwrap(), |element| {
        element
            .item(1)
            .unwrap()
            .tensor_of(0)
            .unwrap()
            .shape()
            .to_vec()
    });
    assert_eq!(shapes, [[2], [1]]);
    let wrong = numbers(3).map(pair, MapOptions::default()).unwrap();
    fails(
        wrong.iterator().unwrap().next(),
        Status::InvalidArgument,
        "a mapped function",
    );
    let options = MapOptions {
        parallel_calls: -1,
        element_spec: None,
    };
    fails(
        numbers(3).map(pair, options),
        Status::InvalidArgument,
        "parallel_call_count",
    );
}

#[test]
fn a_cache_is_filled_by_the_first_whole_pass() {
    let (source, made) = failing(4, &[]);
    let cached = source.cache().unwrap();
    let partial = cached.iterator().unwrap();
    partial.next().unwrap();
    assert_eq!(made.swap(0, Ordering::Relaxed), 1);
    assert_eq!(all(&cached), [[0], [1], [2], [3]]);
    assert_eq!(made.swap(0, Ordering::Relaxed), 4);
    assert_eq!(all(&cached.repeat(3).unwrap()).len(), 12);
    let element = cached.iterator().unwrap().next().unwrap().unwrap();
    assert!(element.tensor_of(0).unwrap().is_read_only());
    assert_eq!(
        made.load(Ordering::Relaxed),
        0,
        "the source was asked although all is kept"
    );
    partial.reset().unwrap();
    assert_eq!(rest(&partial, ints).len(), 4);
    assert_eq!(made.load(Ordering::Relaxed), 0);
}

#[test]
fn a_round_with_a_failure_is_not_kept() {
    let (source, made) = failing(4, &[2]);
    let cached = source.cache().unwrap();
    assert_eq!(outcomes(&cached).len(), 4);
    assert_eq!(outcomes(&cached)[2], Err("number 2 is damaged".into()));
    assert_eq!(made.load(Ordering::Relaxed), 8);
}

#[test]
fn a_cached_order_repeats() {
    let options = ShuffleOptions {
        seed: 3,
        ..Default::default()
    };
    for source in [numbers(20), failing(20, &[]).0] {
        let shuffled = source.shuffle(&options).unwrap();
        assert_ne!(all(&shuffled), all(&shuffled));
        let cached = shuffled.cache().unwrap();
        let first = all(&cached);
        assert_eq!(all(&cached), first);
        assert_eq!(
            all(&cached.repeat(2).unwrap()).concat(),
            [first.clone(), first].concat().concat()
        );
    }
}

#[test]
fn datasets_one_after_the_other() {
    let batches = numbers(3).batch(2, true).unwrap();
    let joined = Dataset::concatenate(&[batches.clone(), numbers(3).batch(3, true).unwrap()]);
    let joined = joined.unwrap();
    assert_eq!(*joined.element_spec(), leaf(&[None]));
    assert_eq!(joined.cardinality(), Cardinality::Exact(2));
    assert_eq!(
        all(&joined.repeat(2).unwrap()),
        [vec![0, 1], vec![0, 1, 2], vec![0, 1], vec![0, 1, 2]]
    );
    let endless = batches.repeat(-1).unwrap();
    let cardinality = Dataset::concatenate(&[batches.clone(), endless])
        .unwrap()
        .cardinality();
    assert_eq!(cardinality, Cardinality::Endless);
    fails(
        Dataset::concatenate(&[]),
        Status::InvalidArgument,
        "datasets",
    );
    fails(
        Dataset::concatenate(&[batches, numbers(3)]),
        Status::InvalidArgument,
        "dataset 1",
    );
}

#[test]
fn padding_to_the_largest_of_the_batch() {
    let elements = Dataset::elements(&[
        tensor(&[1, 2], &[1, 2]),
        tensor(&[2, 1], &[3, 4]),
        tensor(&[1, 1], &[5]),
        tensor(&[0, 1], &[]),
        tensor(&[1, 3], &[6, 7, 8]),
    ])
    .unwrap();
    let batches = elements.padded_batch(2, false).unwrap();
    assert_eq!(*batches.element_spec(), leaf(&[None, None, None]));
    assert_eq!(batches.cardinality(), Cardinality::Exact(3));
    let expected = [
        (vec![2, 2, 2], vec![1, 2, 0, 0, 3, 0, 4, 0]),
        (vec![2, 1, 1], vec![5, 0]),
        (vec![1, 1, 3], vec![6, 7, 8]),
    ];
    let seen = |dataset: &Dataset| {
        rest(&dataset.iterator().unwrap(), |element| {
            (
                element.tensor_of(0).unwrap().shape().to_vec(),
                ints(element),
            )
        })
    };
    assert_eq!(seen(&batches), expected);
    // Again, in memory that held other elements.
    assert_eq!(seen(&batches.repeat(3).unwrap())[6..], expected);
    let dropped = elements.padded_batch(2, true).unwrap();
    assert_eq!(*dropped.element_spec(), leaf(&[Some(2), None, None]));
    assert_eq!(seen(&dropped), expected[..2]);
    assert_eq!(
        all(&numbers(3).padded_batch(2, false).unwrap()),
        [vec![0, 1], vec![2]]
    );
    fails(
        elements.padded_batch(0, false),
        Status::InvalidArgument,
        "element_count",
    );
}

/// Also from the places in between.
#[test]
fn an_element_whose_function_panics_costs_a_batch_no_other() {
    let fragile = |element: &Value| {
        assert!(ints(element)[0] % 5 != 1, "as planned");
        Ok(element.clone())
    };
    let source = numbers(9).map(fragile, Default::default()).unwrap();
    for batches in [source.batch(3, false), source.padded_batch(3, false)] {
        let batches = batches.unwrap();
        let iterator = batches.iterator().unwrap();
        let mut seen = Vec::new();
        for calls in 1.. {
            match catch_unwind(AssertUnwindSafe(|| iterator.next().unwrap())) {
                Ok(None) => break,
                Ok(Some(batch)) => seen.push(ints(&batch)),
                Err(_) => assert!(calls == 1 || calls == 3, "call {calls}"),
            }
            if calls == 3 {
                let other = batches.iterator().unwrap();
                other
                    .restore_position(&iterator.save_position().unwrap())
                    .unwrap();
                assert_eq!(rest(&other, ints), [vec![4, 5, 7], vec![8]]);
            }
        }
        assert_eq!(seen, [vec![0, 2, 3], vec![4, 5, 7], vec![8]]);
    }
}

#[test]
fn what_cannot_be_cut_anew() {
    let batches = numbers(6).batch(2, true).unwrap();
    fails(
        batches.rebatch(&[], false),
        Status::InvalidArgument,
        "row_counts",
    );
    fails(
        batches.rebatch(&[0, 0], false),
        Status::InvalidArgument,
        "all are 0",
    );
    fails(
        batches.rebatch(&[-1], false),
        Status::InvalidArgument,
        "negative",
    );
    fails(
        numbers(6).rebatch(&[2], false),
        Status::InvalidArgument,
        "scalar",
    );
    assert_eq!(
        *batches.rebatch(&[3, 3], true).unwrap().element_spec(),
        leaf(&[Some(3)])
    );
    assert_eq!(
        *batches.rebatch(&[3, 2], true).unwrap().element_spec(),
        leaf(&[None])
    );
    let zipped = Dataset::zip(&[batches.clone(), numbers(9).batch(3, true).unwrap()], None);
    let cut = zipped.unwrap().rebatch(&[2], false).unwrap();
    fails(
        cut.iterator().unwrap().next(),
        Status::InvalidArgument,
        "2 rows in tensor 0 and 3",
    );
    let wide = Dataset::elements(&[counting(&[2, 2]), counting(&[2, 3])]).unwrap();
    let iterator = wide.rebatch(&[3], false).unwrap().iterator().unwrap();
    fails(iterator.next(), Status::InvalidArgument, "differ");
    assert_eq!(ints(&iterator.next().unwrap().unwrap()), [3, 4, 5]);
}

#[test]
fn each_pass_is_cut_from_the_first_size_on() {
    let iterator = numbers(4)
        .batch(2, false)
        .unwrap()
        .rebatch(&[1, 2], false)
        .unwrap();
    let iterator = iterator.iterator().unwrap();
    for _ in 0..2 {
        assert_eq!(rest(&iterator, ints), [vec![0], vec![1, 2], vec![3]]);
        iterator.reset().unwrap();
    }
}

#[test]
fn a_batch_that_does_not_fit_together_is_left_out_as_a_whole() {
    // Batches of 2, 2, 2, 2, 1: the last one does not fit in with others.
    let rows = numbers(9).batch(2, false).unwrap();
    let iterator = |size, drop_remainder| {
        rows.repeat(2)
            .unwrap()
            .batch(size, drop_remainder)
            .unwrap()
            .iterator()
            .unwrap()
    };
    let three = iterator(3, false);
    assert_eq!(ints(&three.next().unwrap().unwrap()), [0, 1, 2, 3, 4, 5]);
    fails(three.next(), Status::InvalidArgument, "shape [1]");
    // The next one begins where it would have begun.
    assert_eq!(ints(&three.next().unwrap().unwrap()), [2, 3, 4, 5, 6, 7]);
    assert_eq!(ints(&three.next().unwrap().unwrap()), [8]);
    assert!(three.next().unwrap().is_none());
    // What is dropped is not looked at.
    let six = iterator(6, true);
    fails(six.next(), Status::InvalidArgument, "shape [1]");
    assert!(six.next().unwrap().is_none());
    let four = iterator(4, true);
    assert_eq!(
        ints(&four.next().unwrap().unwrap()),
        [0, 1, 2, 3, 4, 5, 6, 7]
    );
}

#[test]
fn pipelines_have_a_greatest_depth() {
    type Transformation = fn(&Dataset) -> Result<Dataset>;
    let transformations: [(&str, Transformation); 5] = [
        ("shuffle", |dataset| {
            dataset.shuffle(&ShuffleOptions {
                buffer_size: 1,
                ..Default::default()
            })
        }),
        ("cache", |dataset| dataset.prefetch(1)?.cache()),
        ("map", |dataset| {
            dataset.map(|element| Ok(element.clone()), MapOptions::default())
        }),
        ("rebatch", |dataset| dataset.rebatch(&[1], false)),
        ("concatenate", |dataset| {
            Dataset::concatenate(&[dataset.clone(), numbers(1).batch(1, true)?.skip(1)?])
        }),
    ];
    for (name, transformation) in transformations {
        // One by one on the smallest stack that a thread of a program usually has.
        let thread = std::thread::Builder::new()
            .stack_size(2 << 20)
            .spawn(move || {
                let mut dataset = failing(1, &[]).0.batch(1, true).unwrap();
                let mut depth = 0;
                let error = loop {
                    match transformation(&dataset) {
                        Ok(deeper) => dataset = deeper,
                        Err(error) => break error,
                    }
                    depth += 1;
                };
                fails::<()>(Err(error), Status::InvalidArgument, "follow one another");
                assert!((100..=256).contains(&depth), "{name}: {depth}");
                if name != "cache" {
                    assert_eq!(
                        rest(&dataset.iterator().unwrap(), |_| ()).len(),
                        1,
                        "{name}"
                    );
                }
            });
        thread.unwrap().join().unwrap();
    }
}

/// A dataset that is joined with itself would have twice as many transformations each time.
#[test]
fn transformations_beside_each_other_have_an_end() {
    type Joined = fn(&[Dataset]) -> Result<Dataset>;
    let ways: [(&str, Joined); 2] = [
        ("concatenate", Dataset::concatenate),
        ("zip", |datasets| Dataset::zip(datasets, None)),
    ];
    for (name, join) in ways {
        let mut dataset = Dataset::range(0, 2, 1).unwrap();
        let mut times = 0;
        let error = loop {
            match join(&[dataset.clone(), dataset.clone()]) {
                Ok(twice) => dataset = twice,
                Err(error) => break error,
            }
            times += 1;
            assert!(times < 20, "{name}");
        };
        if name == "concatenate" {
            fails::<()>(
                Err(error),
                Status::InvalidArgument,
                "at most 65536 are possible",
            );
            assert_eq!(times, 15);
            assert_eq!(rest(&dataset.iterator().unwrap(), |_| ()).len(), 2 << times);
        }
    }
    // As many as there are, in one call.
    let files: Vec<Dataset> = (0..20_000)
        .map(|_| Dataset::range(0, 1, 1).unwrap())
        .collect();
    let all = Dataset::concatenate(&files)
        .unwrap()
        .batch(100, false)
        .unwrap();
    assert_eq!(rest(&all.iterator().unwrap(), |_| ()).len(), 200);
}
