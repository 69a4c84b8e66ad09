//! Elements that fail and are passed over, beside a model: what belongs together stays together,
//! whatever stands between the failure and the zip, and whatever place is saved and restored on the
//! way. Pipelines and failures are drawn.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use umbo_core::error::{Error, Status};
use umbo_core::input::{Dataset, File, FilesOptions, MapOptions, PassIterator, ShuffleOptions};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;

use crate::common::fails;

/// What happens to one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Comes,
    Fails,
    Panics,
    /// There is no memory for it in so many calls, and then it comes.
    Lacks(u32),
}

/// What lies between the elements and the zip, or the zip and the consumer.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Map { calls: i64 },
    Prefetch(i64),
    Take(i64),
    Skip(i64),
    Cache,
}

/// Inputs that are zipped, with what is made of each and of the pairs.
#[derive(Clone, Debug)]
struct Plan {
    inputs: Vec<(Vec<Fate>, Vec<Stage>)>,
    stages: Vec<Stage>,
    /// The last input is zipped with the pairs of the others.
    nested: bool,
}

fn plans() -> impl Strategy<Value = Plan> {
    let fate = prop_oneof![
        6 => Just(Fate::Comes),
        2 => Just(Fate::Fails),
        1 => Just(Fate::Panics),
        1 => (1u32..3).prop_map(Fate::Lacks),
    ];
    let stage = || {
        prop_oneof![
            (1i64..4).prop_map(|calls| Stage::Map { calls }),
            (1i64..4).prop_map(Stage::Prefetch),
            (0i64..9).prop_map(Stage::Take),
            (0i64..3).prop_map(Stage::Skip),
            Just(Stage::Cache),
        ]
    };
    let input = (
        proptest::collection::vec(fate, 0..12),
        proptest::collection::vec(stage(), 0..3),
    );
    let inputs = proptest::collection::vec(input, 1..4);
    let stages = proptest::collection::vec(stage(), 0..3);
    (inputs, stages, any::<bool>()).prop_map(|(inputs, stages, nested)| Plan {
        inputs,
        stages,
        nested,
    })
}

/// An element or its failure: the numbers of the inputs, all of which are the element's place in
/// its input.
type Came = Result<Vec<i64>, ()>;

impl Stage {
    fn above(self, dataset: &Dataset) -> Dataset {
        match self {
            Stage::Map { calls } => {
                let options = MapOptions {
                    parallel_calls: calls,
                    element_spec: None,
                };
                dataset.map(|element| Ok(element.clone()), options)
            }
            Stage::Prefetch(depth) => dataset.prefetch(depth),
            Stage::Take(count) => dataset.take(count),
            Stage::Skip(count) => dataset.skip(count),
            Stage::Cache => dataset.cache(),
        }
        .unwrap()
    }

    /// What it makes of what comes. Take and skip count what does not fail.
    fn model(self, came: Vec<Came>) -> Vec<Came> {
        match self {
            Stage::Map { .. } | Stage::Prefetch(_) | Stage::Cache => came,
            Stage::Take(count) => {
                let mut left = count;
                let wanted = |one: &Came| {
                    let is_wanted = left > 0;
                    left -= i64::from(one.is_ok());
                    is_wanted
                };
                came.into_iter().take_while(wanted).collect()
            }
            Stage::Skip(count) => {
                let mut left = count;
                let behind = |one: &Came| {
                    let skipped = one.is_ok() && left > 0;
                    left -= i64::from(skipped);
                    !skipped
                };
                came.into_iter().filter(behind).collect()
            }
        }
    }
}

/// Numbers with their fates.
fn numbers(fates: &[Fate]) -> Dataset {
    let lacked: Vec<AtomicU32> = fates.iter().map(|_| AtomicU32::new(0)).collect();
    let fates = fates.to_vec();
    let count = fates.len() as i64;
    let function = move |element: &Value| {
        let place = number(element) as usize;
        match fates[place] {
            Fate::Fails => Err(Error::DataLoss(format!("{place} is broken"))),
            Fate::Panics => std::panic::resume_unwind(Box::new("a panic that was drawn")),
            Fate::Lacks(times) if lacked[place].fetch_add(1, Ordering::Relaxed) < times => {
                Err(Error::no_memory_for(place.to_string()))
            }
            Fate::Comes | Fate::Lacks(_) => Ok(element.clone()),
        }
    };
    Dataset::range(0, count, 1)
        .unwrap()
        .map(function, MapOptions::default())
        .unwrap()
}

fn number(element: &Value) -> i64 {
    element.tensor_of(0).unwrap().to_vec::<i64>().unwrap()[0]
}

fn flat(element: &Value, to: &mut Vec<i64>) {
    match element {
        Value::Tensor(_) => to.push(number(element)),
        nest => (0..nest.count()).for_each(|index| flat(&nest.item(index).unwrap(), to)),
    }
}

/// Element i of all inputs, until one ends. What fails in one is passed over in all.
fn zip_model(inputs: &[Vec<Came>]) -> Vec<Came> {
    let mut came = Vec::new();
    for row in 0.. {
        let ended = inputs
            .iter()
            .position(|input| input.len() <= row)
            .unwrap_or(inputs.len());
        let of_row = inputs[..ended].iter().map(|input| input[row].clone());
        let joined: Result<Vec<Vec<i64>>, ()> = of_row.collect();
        if ended == inputs.len() {
            came.push(joined.map(|parts| parts.concat()));
            continue;
        }
        // A failure before the input that has ended is told.
        came.extend(joined.is_err().then_some(Err(())));
        break;
    }
    came
}

impl Plan {
    fn dataset(&self) -> Dataset {
        let inputs: Vec<Dataset> = self
            .inputs
            .iter()
            .map(|(fates, stages)| {
                stages
                    .iter()
                    .fold(numbers(fates), |dataset, stage| stage.above(&dataset))
            })
            .collect();
        let zipped = match inputs.split_last() {
            Some((last, others)) if self.nested && !others.is_empty() => {
                Dataset::zip(&[Dataset::zip(others, None).unwrap(), last.clone()], None)
            }
            _ => Dataset::zip(&inputs, None),
        };
        self.stages
            .iter()
            .fold(zipped.unwrap(), |dataset, stage| stage.above(&dataset))
    }

    fn model(&self) -> Vec<Came> {
        let inputs: Vec<Vec<Came>> = self
            .inputs
            .iter()
            .map(|(fates, stages)| {
                let came = fates.iter().enumerate().map(|(place, fate)| match fate {
                    Fate::Fails | Fate::Panics => Err(()),
                    Fate::Comes | Fate::Lacks(_) => Ok(vec![place as i64]),
                });
                stages
                    .iter()
                    .fold(came.collect(), |came, stage| stage.model(came))
            })
            .collect();
        let zipped = match inputs.split_last() {
            Some((last, others)) if self.nested && !others.is_empty() => {
                zip_model(&[zip_model(others), last.clone()])
            }
            _ => zip_model(&inputs),
        };
        self.stages
            .iter()
            .fold(zipped, |came, stage| stage.model(came))
    }
}

/// The next element or failure, or none at the end. For what lacks memory it asks again, as often
/// as `lacking` says from another iterator at the same place.
fn next(iterator: &mut PassIterator, lacking: &dyn Fn(&mut PassIterator)) -> Option<Came> {
    loop {
        match catch_unwind(AssertUnwindSafe(|| iterator.next())) {
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(element))) => {
                let mut numbers = Vec::new();
                flat(&element, &mut numbers);
                return Some(Ok(numbers));
            }
            Ok(Err(error)) if error.status() == Status::ResourceExhausted => lacking(iterator),
            Ok(Err(error)) => {
                assert_eq!(error.status(), Status::DataLoss, "{error}");
                return Some(Err(()));
            }
            Err(_) => return Some(Err(())),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 400,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_belongs_together_stays_together(
        plan in plans(),
        moves in proptest::collection::btree_set(0usize..16, 0..5),
        moves_when_lacking: bool,
    ) {
        let expected = plan.model();
        let dataset = plan.dataset();
        let moved = |iterator: &mut PassIterator| {
            let other = dataset.iterator().unwrap();
            let position = iterator.save_position().unwrap();
            // What is made again may lack memory, too.
            while let Err(error) = other.restore_position(&position) {
                assert_eq!(error.status(), Status::ResourceExhausted, "{error}");
            }
            *iterator = other;
        };
        let lacking = |iterator: &mut PassIterator| {
            if moves_when_lacking {
                moved(iterator);
            }
        };
        let mut iterator = dataset.iterator().unwrap();
        for pass in 0..2 {
            let mut came = Vec::new();
            loop {
                if moves.contains(&came.len()) {
                    moved(&mut iterator);
                }
                match next(&mut iterator, &lacking) {
                    None => break,
                    Some(one) => came.push(one),
                }
            }
            prop_assert_eq!(&came, &expected, "pass {}", pass);
            prop_assert!(iterator.has_ended().unwrap());
            iterator.reset().unwrap();
        }
    }
}

fn broken(count: i64, place: i64) -> Dataset {
    let mut fates = vec![Fate::Comes; count as usize];
    fates[place as usize] = Fate::Fails;
    numbers(&fates)
}

/// What a failure shifts: an operation over elements of which some fail.
type Shifting = (&'static str, fn(Dataset) -> Dataset);

const SHIFTING: [Shifting; 7] = [
    ("batch", |dataset| dataset.batch(3, false).unwrap()),
    ("padded batch", |dataset| {
        dataset.padded_batch(2, false).unwrap()
    }),
    ("rebatch", |dataset| {
        dataset
            .batch(1, true)
            .unwrap()
            .rebatch(&[2], false)
            .unwrap()
    }),
    ("shuffle", |dataset| {
        dataset
            .shuffle(&ShuffleOptions {
                buffer_size: 4,
                ..Default::default()
            })
            .unwrap()
    }),
    ("shard", |dataset| dataset.shard(2, 0).unwrap()),
    ("unbatch", |dataset| {
        dataset.batch(1, true).unwrap().unbatch().unwrap()
    }),
    ("filter", |dataset| dataset.filter(|_| Ok(true)).unwrap()),
];

/// Below a batch or a shuffle, a failure takes no element's place. What follows belongs to nothing,
/// and this is said once.
#[test]
fn what_a_failure_shifts_is_not_zipped() {
    for (name, above) in SHIFTING {
        for failing_first in [true, false] {
            // The failure lies behind elements that come.
            let one = above(broken(12, 7));
            let other = above(numbers(&[Fate::Comes; 12]));
            let inputs = if failing_first {
                [one, other]
            } else {
                [other, one]
            };
            let zipped = Dataset::zip(&inputs, None).unwrap().prefetch(2).unwrap();
            let mut iterator = zipped.iterator().unwrap();
            for _ in 0..2 {
                let failure = loop {
                    match iterator.next() {
                        Ok(element) => assert!(element.is_some(), "{name}"),
                        failure => break failure,
                    }
                };
                fails(failure, Status::DataLoss, "7 is broken");
                // Also from a place that was saved in between.
                let position = iterator.save_position().unwrap();
                iterator = zipped.iterator().unwrap();
                iterator.restore_position(&position).unwrap();
                fails(
                    iterator.next(),
                    Status::FailedPrecondition,
                    "do not belong together",
                );
                assert!(iterator.next().unwrap().is_none(), "{name}");
                iterator.reset().unwrap();
            }
        }
        // There is nothing that it would belong to.
        let alone = Dataset::zip(&[above(broken(12, 7))], None)
            .unwrap()
            .iterator()
            .unwrap();
        let came: Vec<_> = (0..14)
            .map(|_| alone.next().map(|element| element.is_some()))
            .collect();
        let failures = came.iter().filter(|one| one.is_err()).count();
        assert_eq!(failures, 1, "{name}: {came:?}");
        assert!(matches!(came.last(), Some(Ok(false))), "{name}");
    }
}

/// A file that cannot be opened leaves out nobody knows how many elements; one that fails inside of
/// a file is one.
#[test]
fn files_that_are_left_out_are_not_zipped() {
    let files = |missing: usize, failing: i64| {
        let open = move |file: File<'_>| match file.number {
            number if number == missing => Err(Error::NotFound(format!("file {number}"))),
            number => {
                let first = 3 * number as i64;
                let all = Dataset::range(first, first + 3, 1)?;
                let function = move |element: &Value| match self::number(element) == failing {
                    true => Err(Error::DataLoss("a broken element".into())),
                    false => Ok(element.clone()),
                };
                all.map(function, MapOptions::default())
            }
        };
        let spec = Some(Dataset::range(0, 1, 1).unwrap().element_spec().clone());
        let options = FilesOptions {
            element_spec: spec,
            ..FilesOptions::default()
        };
        Dataset::from_files(&["a", "b", "c"], open, options).unwrap()
    };
    let pairs = |one, other| {
        Dataset::zip(&[one, other], None)
            .unwrap()
            .iterator()
            .unwrap()
    };
    let whole = pairs(files(9, 4), files(9, 9));
    for place in 0..9 {
        match whole.next() {
            Ok(Some(pair)) => {
                let both = [0, 1].map(|index| number(&pair.item(index).unwrap()));
                assert_eq!(both, [place, place]);
            }
            failed => {
                assert_eq!(place, 4);
                fails(failed, Status::DataLoss, "a broken element");
            }
        }
    }
    assert!(whole.next().unwrap().is_none());
    let without = pairs(files(1, 99), files(9, 99));
    (0..3).for_each(|_| assert!(without.next().unwrap().is_some()));
    fails(without.next(), Status::NotFound, "file 1");
    fails(
        without.next(),
        Status::FailedPrecondition,
        "do not belong together",
    );
    assert!(without.next().unwrap().is_none());
}

/// A pass that could not begin in all inputs gives nothing, rather than elements of two passes.
#[test]
fn inputs_that_have_not_all_begun_give_nothing() {
    struct Counter {
        next: i64,
        resets: Arc<AtomicU32>,
    }
    impl umbo_core::input::Generator for Counter {
        fn next(&mut self) -> umbo_core::error::Result<Option<Value>> {
            self.next += 1;
            Ok(Some(Value::Tensor(Tensor::scalar(self.next - 1)?)))
        }
        fn reset(&mut self) -> umbo_core::error::Result<()> {
            if self.resets.fetch_add(1, Ordering::Relaxed) == 0 {
                return Err(Error::Unavailable("the server is away".into()));
            }
            self.next = 0;
            Ok(())
        }
    }
    let resets = Arc::new(AtomicU32::new(0));
    let counter = {
        let resets = Arc::clone(&resets);
        let spec = Dataset::range(0, 1, 1).unwrap().element_spec().clone();
        let begin = move || {
            Ok(Box::new(Counter {
                next: 0,
                resets: Arc::clone(&resets),
            }) as _)
        };
        Dataset::from_generator(spec, begin).unwrap()
    };
    let zipped = Dataset::zip(&[Dataset::range(0, 9, 1).unwrap(), counter], None).unwrap();
    let mut iterator = zipped.iterator().unwrap();
    let never = |_: &mut PassIterator| unreachable!();
    (0..4).for_each(|place| assert_eq!(next(&mut iterator, &never), Some(Ok(vec![place, place]))));
    fails(iterator.reset(), Status::Unavailable, "away");
    assert_eq!(next(&mut iterator, &never), None);
    iterator.reset().unwrap();
    (0..4).for_each(|place| assert_eq!(next(&mut iterator, &never), Some(Ok(vec![place, place]))));
}
