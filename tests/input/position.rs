//! Places in the data: what follows a restored position is what follows it in the pass that it was
//! saved of. Pipelines, places and interruptions are drawn.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use umbo::device::DeviceId;
use umbo::error::{Error, Result, Status};
use umbo::input::{
    Dataset, DistributeOptions, ElementSpec, Generator, LeafSpec, MapOptions, PassIterator,
    ShuffleOptions, Splitting, deal, distribute,
};
use umbo::tensor::{DType, Shape, Tensor};
use umbo::values::Value;

use crate::common::{all, fails, ints, numbers, rest};

/// A pipeline, from which a dataset can be made as often as processes would make it.
#[derive(Clone, Debug)]
enum Plan {
    Range(i64),
    Rows(usize),
    Ragged(usize),
    Generator { count: i64, failing: i64 },
    Map { of: Box<Plan>, calls: i64, failing: i64 },
    Same { of: Box<Plan>, calls: i64, failing: i64 },
    Batch { of: Box<Plan>, size: i64, padded: bool, drop_remainder: bool },
    Rebatch { of: Box<Plan>, sizes: Vec<i64>, drop_remainder: bool },
    Shuffle { of: Box<Plan>, buffer: i64, seed: u64, keep_order: bool },
    Repeat(Box<Plan>, i64),
    Take(Box<Plan>, i64),
    Skip(Box<Plan>, i64),
    Shard(Box<Plan>, i64, i64),
    Cache(Box<Plan>),
    Prefetch(Box<Plan>, i64),
    Zip(Box<Plan>, Box<Plan>),
    Concatenate(Box<Plan>, Box<Plan>),
}

/// How its elements are given to replicas.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    /// None: not distributed.
    replicas: usize,
    balanced: bool,
    dealt: bool,
    drop_partial_step: bool,
    read_ahead: i64,
}

fn plans() -> impl Strategy<Value = Plan> {
    let source = prop_oneof![
        (0i64..14).prop_map(Plan::Range),
        (0usize..14).prop_map(Plan::Rows),
        (1usize..10).prop_map(Plan::Ragged),
        (0i64..10, prop_oneof![Just(0i64), 2i64..6])
            .prop_map(|(count, failing)| Plan::Generator { count, failing }),
    ];
    source.prop_recursive(6, 12, 2, |inner| {
        let of = || inner.clone().prop_map(Box::new);
        let failing = || prop_oneof![Just(0i64), Just(0), 2i64..6];
        let calls = || prop_oneof![Just(0i64), 2i64..5];
        prop_oneof![
            (of(), calls(), failing()).prop_map(|(of, calls, failing)| Plan::Map {
                of,
                calls,
                failing
            }),
            (of(), calls(), failing()).prop_map(|(of, calls, failing)| Plan::Same {
                of,
                calls,
                failing
            }),
            (of(), 1i64..5, any::<bool>(), any::<bool>()).prop_map(
                |(of, size, padded, drop_remainder)| Plan::Batch {
                    of,
                    size,
                    padded,
                    drop_remainder
                }
            ),
            (of(), proptest::collection::vec(1i64..4, 1..3), any::<bool>()).prop_map(
                |(of, sizes, drop_remainder)| Plan::Rebatch { of, sizes, drop_remainder }
            ),
            (of(), 0i64..7, 0u64..3, any::<bool>()).prop_map(|(of, buffer, seed, keep_order)| {
                Plan::Shuffle { of, buffer, seed, keep_order }
            }),
            (of(), -1i64..4).prop_map(|(of, count)| Plan::Repeat(of, count)),
            (of(), -1i64..9).prop_map(|(of, count)| Plan::Take(of, count)),
            (of(), 0i64..5).prop_map(|(of, count)| Plan::Skip(of, count)),
            (of(), 1i64..4, 0i64..3).prop_map(|(of, shards, index)| Plan::Shard(of, shards, index)),
            of().prop_map(Plan::Cache),
            (of(), 1i64..4).prop_map(|(of, depth)| Plan::Prefetch(of, depth)),
            (of(), of()).prop_map(|(one, other)| Plan::Zip(one, other)),
            (of(), of()).prop_map(|(one, other)| Plan::Concatenate(one, other)),
        ]
    })
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    (0usize..4, any::<bool>(), any::<bool>(), any::<bool>(), 0i64..3).prop_map(
        |(replicas, balanced, dealt, drop_partial_step, read_ahead)| Delivery {
            replicas,
            balanced,
            dealt,
            drop_partial_step,
            read_ahead,
        },
    )
}

/// All numbers of an element, in order.
fn flat(element: &Value, to: &mut Vec<i64>) {
    let read = |tensor: &Tensor, to: &mut Vec<i64>| to.extend(tensor.to_vec::<i64>().unwrap());
    match element {
        Value::Tensor(tensor) => read(tensor, to),
        nest => (0..nest.count()).for_each(|index| flat(&nest.item(index).unwrap(), to)),
    }
}

/// An element in words: what each replica gets of it.
fn words(element: &Value, to: &mut String) {
    match element {
        Value::Tensor(tensor) => {
            let (shape, examples) = (tensor.shape(), tensor.examples());
            write!(to, "{shape}{:?}{examples:?}", tensor.to_vec::<i64>().unwrap()).unwrap();
        }
        Value::PerReplica(_) => {
            for replica in 0..element.count() {
                words(&Value::Tensor(element.tensor_of(replica).unwrap().clone()), to);
            }
        }
        nest => (0..nest.count()).for_each(|index| words(&nest.item(index).unwrap(), to)),
    }
}

fn mixed(element: &Value) -> i64 {
    let mut numbers = Vec::new();
    flat(element, &mut numbers);
    numbers.iter().fold(7, |sum: i64, number| sum.wrapping_mul(31).wrapping_add(*number) % 9973)
}

fn refused_if(number: i64, failing: i64) -> Result<()> {
    match failing > 0 && number.rem_euclid(failing) == 1 {
        true => Err(Error::precondition(format!("{number} is not wanted"))),
        false => Ok(()),
    }
}

fn scalars() -> ElementSpec {
    ElementSpec::Leaf(LeafSpec { dtype: DType::Int64, shape: vec![] })
}

/// Numbers, other ones in each round; some fail.
struct Counter {
    round: i64,
    next: i64,
    count: i64,
    failing: i64,
}

impl Generator for Counter {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.next == self.count {
            return Ok(None);
        }
        self.next += 1;
        refused_if(self.next, self.failing)?;
        Ok(Some(Value::Tensor(Tensor::scalar(self.round * 100 + self.next)?)))
    }

    fn reset(&mut self) -> Result<()> {
        (self.round, self.next) = (self.round + 1, 0);
        Ok(())
    }
}

fn array(shape: &[usize], first: i64) -> Tensor {
    let shape = Shape::new(shape).unwrap();
    let data: Vec<i64> = (0..shape.elements() as i64).map(|number| first + number).collect();
    Tensor::from_slice(&data, shape, DeviceId::HOST).unwrap()
}

impl Plan {
    /// The dataset. A transformation that its elements do not allow is left out.
    fn dataset(&self) -> Dataset {
        let or_as_it_is = |of: &Plan, transform: &dyn Fn(&Dataset) -> Result<Dataset>| {
            let dataset = of.dataset();
            transform(&dataset).unwrap_or(dataset)
        };
        match self {
            Plan::Range(count) => Dataset::range(3, 3 + 2 * count, 2).unwrap(),
            Plan::Rows(rows) => {
                Dataset::from_tensor_slices(&Value::Tensor(array(&[*rows, 2], 0))).unwrap()
            }
            Plan::Ragged(count) => {
                let tensors = (0..*count).map(|at| array(&[1 + at * 2 % 5], at as i64 * 10));
                Dataset::elements(&tensors.collect::<Vec<_>>()).unwrap()
            }
            &Plan::Generator { count, failing } => Dataset::from_generator(scalars(), move || {
                Ok(Box::new(Counter { round: 0, next: 0, count, failing }) as _)
            })
            .unwrap(),
            &Plan::Map { ref of, calls, failing } => {
                let options = MapOptions { parallel_calls: calls, element_spec: Some(scalars()) };
                let function = move |element: &Value| {
                    let number = mixed(element);
                    refused_if(number, failing)?;
                    Ok(Value::Tensor(Tensor::scalar(number)?))
                };
                of.dataset().map(function, options).unwrap()
            }
            &Plan::Same { ref of, calls, failing } => {
                let options = MapOptions { parallel_calls: calls, element_spec: None };
                let function = move |element: &Value| {
                    refused_if(mixed(element), failing)?;
                    Ok(element.clone())
                };
                of.dataset().map(function, options).unwrap()
            }
            &Plan::Batch { ref of, size, padded, drop_remainder } => {
                or_as_it_is(of, &|dataset| match padded {
                    true => dataset.padded_batch(size, drop_remainder),
                    false => dataset.batch(size, drop_remainder),
                })
            }
            Plan::Rebatch { of, sizes, drop_remainder } => {
                or_as_it_is(of, &|dataset| dataset.rebatch(sizes, *drop_remainder))
            }
            &Plan::Shuffle { ref of, buffer, seed, keep_order } => {
                let options =
                    ShuffleOptions { buffer_size: buffer, seed, keep_order_each_pass: keep_order };
                or_as_it_is(of, &|dataset| dataset.shuffle(&options))
            }
            Plan::Repeat(of, count) => of.dataset().repeat(*count).unwrap(),
            Plan::Take(of, count) => of.dataset().take(*count).unwrap(),
            Plan::Skip(of, count) => of.dataset().skip(*count).unwrap(),
            Plan::Shard(of, shards, index) => {
                or_as_it_is(of, &|dataset| dataset.shard(*shards, index % shards))
            }
            Plan::Cache(of) => of.dataset().cache().unwrap(),
            Plan::Prefetch(of, depth) => of.dataset().prefetch(*depth).unwrap(),
            Plan::Zip(one, other) => Dataset::zip(&[one.dataset(), other.dataset()], None).unwrap(),
            Plan::Concatenate(one, other) => {
                let (one, other) = (one.dataset(), other.dataset());
                Dataset::concatenate(&[one.clone(), other]).unwrap_or(one)
            }
        }
    }
}

impl Plan {
    fn inputs(&self) -> Vec<&Plan> {
        match self {
            Plan::Range(_) | Plan::Rows(_) | Plan::Ragged(_) | Plan::Generator { .. } => vec![],
            Plan::Zip(one, other) | Plan::Concatenate(one, other) => vec![one, other],
            Plan::Map { of, .. }
            | Plan::Same { of, .. }
            | Plan::Batch { of, .. }
            | Plan::Rebatch { of, .. }
            | Plan::Shuffle { of, .. }
            | Plan::Repeat(of, _)
            | Plan::Take(of, _)
            | Plan::Skip(of, _)
            | Plan::Shard(of, ..)
            | Plan::Cache(of)
            | Plan::Prefetch(of, _) => vec![of],
        }
    }

    fn any(&self, is: &dyn Fn(&Plan) -> bool) -> bool {
        is(self) || self.inputs().iter().any(|input| input.any(is))
    }

    /// Where a new pass may be started. One that is started while elements are made ahead finds a
    /// dataset that is repeated or cached, or a generator that may not have begun, in a round that
    /// depends on how far ahead, and that depends on a thread.
    fn resets(&self, delivery: Delivery) -> Resets {
        let ahead = |plan: &Plan| match plan {
            Plan::Prefetch(..) => true,
            Plan::Map { calls, .. } | Plan::Same { calls, .. } => *calls > 1,
            _ => false,
        };
        let rounds = |plan: &Plan| {
            matches!(plan, Plan::Repeat(..) | Plan::Cache(_) | Plan::Generator { .. })
        };
        let stops = |plan: &Plan| matches!(plan, Plan::Zip(..) | Plan::Take(..));
        match (delivery.read_ahead > 0 || self.any(&ahead)) && self.any(&rounds) {
            false => Resets::Anywhere,
            true if self.any(&stops) => Resets::Nowhere,
            true => Resets::AtTheEnd,
        }
    }
}

#[derive(Clone, Copy)]
enum Resets {
    Anywhere,
    AtTheEnd,
    Nowhere,
}

impl Resets {
    fn allow(self, events: &[String]) -> bool {
        match self {
            Resets::Anywhere => true,
            Resets::AtTheEnd => events.last().is_some_and(|last| last == "the end"),
            Resets::Nowhere => false,
        }
    }
}

impl Delivery {
    /// What makes iterators over the dataset for its replicas.
    fn of(self, dataset: &Dataset) -> Box<dyn Fn() -> PassIterator> {
        let devices: Vec<DeviceId> = (0..self.replicas as u32).map(DeviceId::cpu).collect();
        let options = DistributeOptions {
            splitting: if self.balanced { Splitting::Balanced } else { Splitting::Ceiling },
            drop_partial_step: self.drop_partial_step,
            read_ahead: self.read_ahead,
            ..DistributeOptions::default()
        };
        let distributed = match (self.replicas, self.dealt) {
            (0, _) => None,
            (replicas, true) => Some(deal(dataset, replicas, &devices, &options).unwrap()),
            // Elements with a scalar are not split.
            (replicas, false) => distribute(dataset, replicas, &devices, &options).ok(),
        };
        let dataset = dataset.clone();
        match distributed {
            Some(distributed) => Box::new(move || distributed.iterator().unwrap()),
            None => Box::new(move || dataset.iterator().unwrap()),
        }
    }
}

/// What comes of asking, or of starting a new pass.
fn event(iterator: &PassIterator, reset: bool) -> String {
    if reset {
        return format!("{:?}", iterator.reset().map_err(|error| error.to_string()));
    }
    match iterator.next() {
        Ok(None) => "the end".into(),
        Err(error) => error.to_string(),
        Ok(Some(element)) => {
            let mut text = String::new();
            words(&element, &mut text);
            text
        }
    }
}

const EVENTS: usize = 30;

/// `PROPTEST_CASES` asks for another number.
fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if asked { default } else { ProptestConfig { cases: 400, ..default } }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_follows_a_restored_position_is_what_followed_it(
        plan in plans(),
        delivery in deliveries(),
        earlier in 0usize..3,
        resets in proptest::collection::btree_set(0usize..EVENTS, 0..4),
        places in proptest::collection::vec((0usize..=EVENTS, 0usize..5, any::<bool>()), 3),
    ) {
        let dataset = plan.dataset();
        let iterators = delivery.of(&dataset);
        for number in 0..earlier {
            let other = iterators();
            (0..number * 12).for_each(|_| drop(event(&other, false)));
        }
        let iterator = iterators();
        let (mut events, mut positions) = (Vec::new(), Vec::new());
        let allowed = plan.resets(delivery);
        let resets_at = |events: &[String]| resets.contains(&events.len()) && allowed.allow(events);
        for _ in 0..EVENTS {
            positions.push(iterator.save_position().unwrap());
            events.push(event(&iterator, resets_at(&events)));
        }
        positions.push(iterator.save_position().unwrap());
        let follows = |iterator: &PassIterator, place: usize, what: &str| {
            for at in place..EVENTS {
                let now = event(iterator, resets_at(&events[..at]));
                prop_assert_eq!(&now, &events[at], "{}: event {} after {}", what, at, place);
            }
            Ok(())
        };
        for (place, used, same_dataset) in places {
            // As in another process, or beside the pass that goes on.
            let iterators = if same_dataset { &iterators } else { &delivery.of(&plan.dataset()) };
            let other = iterators();
            (0..used).for_each(|_| drop(event(&other, false)));
            other.restore_position(&positions[place]).unwrap();
            // Once more from there, and from a few steps on.
            let third = iterators();
            third.restore_position(&other.save_position().unwrap()).unwrap();
            let later = (place + used).min(EVENTS);
            for at in place..later {
                let now = event(&other, resets_at(&events[..at]));
                prop_assert_eq!(&now, &events[at], "event {} after {}", at, place);
            }
            let fourth = iterators();
            fourth.restore_position(&other.save_position().unwrap()).unwrap();
            follows(&other, later, "restored")?;
            follows(&third, place, "restored twice")?;
            follows(&fourth, later, "restored on the way")?;
        }
    }

    /// Numbers that were not saved, in a text that is whole otherwise, are refused or lead somewhere.
    #[test]
    fn forged_numbers_do_no_harm(
        plan in plans(),
        delivery in deliveries(),
        taken in 0usize..12,
        changes in proptest::collection::vec((any::<usize>(), 0u64..40), 1..4),
        shorter in 0usize..3,
    ) {
        let iterators = delivery.of(&plan.dataset());
        let iterator = iterators();
        (0..taken).for_each(|_| drop(event(&iterator, false)));
        let text = iterator.save_position().unwrap();
        let other = iterators();
        (0..2).for_each(|_| drop(event(&other, false)));
        let before = other.save_position().unwrap();
        let forged = forged(&text, |numbers| {
            for (at, number) in changes {
                let at = at % numbers.len();
                numbers[at] = number;
            }
            numbers.truncate(numbers.len() - shorter.min(numbers.len()));
        });
        if other.restore_position(&forged).is_err() {
            prop_assert_eq!(other.save_position().unwrap(), before);
        }
        (0..EVENTS).for_each(|at| drop(event(&other, at == 12)));
    }
}

/// A position with other numbers and the checksum that belongs to them.
fn forged(text: &str, change: impl FnOnce(&mut Vec<u64>)) -> String {
    let mut json: serde_json::Value = serde_json::from_str(text).unwrap();
    let number = |number: &serde_json::Value| number.as_u64().unwrap();
    let mut numbers: Vec<u64> = json["numbers"].as_array().unwrap().iter().map(number).collect();
    change(&mut numbers);
    let mut checksum = crc32fast::Hasher::new();
    for stage in json["pipeline"].as_array().unwrap() {
        let stage = stage.as_str().unwrap();
        checksum.update(&(stage.len() as u64).to_le_bytes());
        checksum.update(stage.as_bytes());
    }
    numbers.iter().for_each(|number| checksum.update(&number.to_le_bytes()));
    json["checksum"] = format!("{:08x}", checksum.finalize()).into();
    json["numbers"] = numbers.into();
    json.to_string()
}

/// What the test above rests on.
#[test]
fn forged_positions_are_read() {
    let dataset = Dataset::range(0, 9, 1).unwrap();
    let (_, position) = after(&dataset, 3);
    let forged = forged(&position, |numbers| *numbers.last_mut().unwrap() = 5);
    assert_eq!(event(&in_place(&dataset, &forged), false), "[][5]None");
    let edited = position.replace("3]", "5]");
    let iterator = dataset.iterator().unwrap();
    fails(iterator.restore_position(&edited), Status::InvalidArgument, "checksum");
}

fn in_place(dataset: &Dataset, position: &str) -> PassIterator {
    let iterator = dataset.iterator().unwrap();
    iterator.restore_position(position).unwrap();
    iterator
}

fn after(dataset: &Dataset, elements: usize) -> (PassIterator, String) {
    let iterator = dataset.iterator().unwrap();
    (0..elements).for_each(|_| drop(iterator.next().unwrap().unwrap()));
    let position = iterator.save_position().unwrap();
    (iterator, position)
}

/// Numbers, and how often a function was called that makes them.
fn counted(count: usize) -> (Dataset, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let of_function = Arc::clone(&calls);
    let function = move |element: &Value| {
        of_function.fetch_add(1, Ordering::Relaxed);
        Ok(element.clone())
    };
    (numbers(count).map(function, MapOptions::default()).unwrap(), calls)
}

#[test]
fn functions_are_called_only_for_what_is_held() {
    let (mapped, calls) = counted(1000);
    let shuffled = mapped.shuffle(&ShuffleOptions { buffer_size: 10, ..Default::default() });
    for (dataset, most) in [
        (mapped.clone(), 0),
        (mapped.batch(7, false).unwrap(), 0),
        (mapped.batch(7, false).unwrap().rebatch(&[3], false).unwrap(), 7),
        (mapped.prefetch(5).unwrap(), 0),
        (shuffled.unwrap().batch(7, false).unwrap(), 10),
    ] {
        let (iterator, position) = after(&dataset, 100);
        let following = ints(&iterator.next().unwrap().unwrap());
        drop(iterator);
        calls.store(0, Ordering::Relaxed);
        let restored = in_place(&dataset, &position);
        let made = calls.load(Ordering::Relaxed);
        assert!(made <= most, "{dataset:?}: {made} calls");
        assert_eq!(ints(&restored.next().unwrap().unwrap()), following);
    }
}

#[test]
fn what_was_made_ahead_does_not_count() {
    let (mapped, calls) = counted(100);
    let dataset = mapped.prefetch(20).unwrap();
    let (iterator, _) = after(&dataset, 3);
    while calls.load(Ordering::Relaxed) < 23 {
        std::thread::yield_now();
    }
    let position = iterator.save_position().unwrap();
    assert_eq!(rest(&in_place(&dataset, &position), ints)[0], [3]);
}

/// A program may draw another seed for each process.
#[test]
fn the_seed_comes_with_the_position() {
    let shuffled = |seed| {
        let options = ShuffleOptions { seed, ..Default::default() };
        numbers(50).shuffle(&options).unwrap().repeat(2).unwrap()
    };
    let (iterator, position) = after(&shuffled(1), 30);
    let restored = in_place(&shuffled(2), &position);
    assert_eq!(rest(&restored, ints), rest(&iterator, ints));
}

/// The iterator that is made after the restored one has the order that it would have had.
#[test]
fn later_iterators_have_their_own_orders() {
    let shuffled = || numbers(20).shuffle(&ShuffleOptions::default()).unwrap();
    let dataset = shuffled();
    let orders: Vec<_> = (0..3).map(|_| all(&dataset)).collect();
    let position = {
        let dataset = shuffled();
        drop(dataset.iterator().unwrap());
        after(&dataset, 5).1
    };
    let again = shuffled();
    assert_eq!(rest(&in_place(&again, &position), ints), orders[1][5..]);
    assert_eq!(all(&again), orders[2]);
}

#[test]
fn other_pipelines_are_refused() {
    let dataset = numbers(20).shuffle(&ShuffleOptions::default()).unwrap().batch(3, false).unwrap();
    let (_, position) = after(&dataset, 2);
    let whole = ShuffleOptions::default();
    for (other, difference) in [
        (numbers(20).batch(3, false).unwrap(), "that of the iterator is 'arrays"),
        (numbers(20).shuffle(&whole).unwrap().batch(4, false).unwrap(), "'batch of 3'"),
        (
            numbers(20).shuffle(&whole).unwrap().batch(3, true).unwrap(),
            "without a smaller last one",
        ),
        (numbers(21).shuffle(&whole).unwrap().batch(3, false).unwrap(), "arrays of 21 rows"),
        (dataset.prefetch(2).unwrap(), "its stage 0 is 'batch of 3'"),
        (dataset.rebatch(&[2, 1], false).unwrap(), "batches cut anew to [2, 1]"),
        (dataset.cache().unwrap(), "'cache'"),
    ] {
        let iterator = other.iterator().unwrap();
        let before = iterator.save_position().unwrap();
        let refused = iterator.restore_position(&position);
        fails(refused, Status::InvalidArgument, difference);
        assert_eq!(iterator.save_position().unwrap(), before);
    }
    // How far ahead elements are made, and on how many replicas they are, changes nothing.
    let (_, position) = after(&dataset.prefetch(2).unwrap(), 2);
    in_place(&dataset.prefetch(7).unwrap(), &position);
}

#[test]
fn a_generator_that_has_become_shorter_is_refused() {
    let counter = |count| {
        Dataset::from_generator(scalars(), move || {
            Ok(Box::new(Counter { round: 0, next: 0, count, failing: 0 }) as _)
        })
        .unwrap()
    };
    let (_, position) = after(&counter(9), 5);
    let shorter = counter(4);
    let iterator = shorter.iterator().unwrap();
    iterator.next().unwrap();
    let refused = iterator.restore_position(&position);
    fails(refused, Status::InvalidArgument, "ended after 4 elements of 5");
    assert_eq!(event(&iterator, false), "[][2]None");
}

/// A generator that fails once, for a reason that is gone when its elements are asked for again.
#[test]
fn failures_that_are_gone_cost_no_element() {
    struct Flaky(i64, Arc<AtomicUsize>);
    impl Generator for Flaky {
        fn next(&mut self) -> Result<Option<Value>> {
            if self.0 == 3 && self.1.fetch_add(1, Ordering::Relaxed) == 0 {
                return Err(Error::precondition("not now"));
            }
            self.0 += 1;
            Ok(Some(Value::Tensor(Tensor::scalar(self.0)?)))
        }

        fn reset(&mut self) -> Result<()> {
            self.0 = 0;
            Ok(())
        }
    }
    for taken in 3..6 {
        let failures = Arc::new(AtomicUsize::new(0));
        let begin = move || Ok(Box::new(Flaky(0, Arc::clone(&failures))) as _);
        let dataset = Dataset::from_generator(scalars(), begin).unwrap();
        let iterator = dataset.iterator().unwrap();
        let events: Vec<String> = (0..taken + 1).map(|_| event(&iterator, false)).collect();
        assert_eq!(events[3], "not now");
        let restored = in_place(&dataset, &iterator.save_position().unwrap());
        assert_eq!(event(&restored, false), event(&iterator, false), "after {taken}");
        let again = in_place(&dataset, &restored.save_position().unwrap());
        assert_eq!(event(&again, false), event(&iterator, false));
    }
}

/// The same global batches on another number of replicas.
#[test]
fn batches_that_are_split_have_no_number_of_replicas() {
    let batches = numbers(20).shuffle(&ShuffleOptions::default()).unwrap().batch(4, false).unwrap();
    let over = |replicas: u32| {
        let devices: Vec<DeviceId> = (0..replicas).map(DeviceId::cpu).collect();
        distribute(&batches, replicas as usize, &devices, &DistributeOptions::default()).unwrap()
    };
    let three = over(3).iterator().unwrap();
    three.next().unwrap();
    let two = over(2).iterator().unwrap();
    two.restore_position(&three.save_position().unwrap()).unwrap();
    let all = |iterator: &PassIterator| {
        rest(iterator, |element| {
            (0..element.count())
                .flat_map(|replica| element.tensor_of(replica).unwrap().to_vec::<i32>().unwrap())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(all(&two), all(&three));
}
