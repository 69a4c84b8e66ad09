//! Pipelines that are drawn, and what comes of them in words.

use std::fmt::Write;

use proptest::prelude::*;
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result};
use umbo_core::input::{
    Cardinality, Dataset, DistributeOptions, ElementSpec, File, FilesOptions, Generator, LeafSpec,
    MapOptions, PassIterator, SampleOptions, ShuffleOptions, Splitting, distribute,
    distribute_per_replica_batches,
};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

/// A pipeline, from which a dataset can be made as often as processes would make it.
#[derive(Clone, Debug)]
pub enum Plan {
    Range(i64),
    Rows(usize),
    Ragged(usize),
    Generator {
        count: i64,
        failing: i64,
    },
    Files {
        sizes: Vec<i64>,
        at_once: i64,
        in_turn: i64,
        seed: u64,
        failing: usize,
    },
    Map {
        input: Box<Plan>,
        calls: i64,
        failing: i64,
    },
    Same {
        input: Box<Plan>,
        calls: i64,
        failing: i64,
    },
    Filter {
        input: Box<Plan>,
        dropping: i64,
        failing: i64,
    },
    Batch {
        input: Box<Plan>,
        size: i64,
        padded: bool,
        drop_remainder: bool,
    },
    Rebatch {
        input: Box<Plan>,
        sizes: Vec<i64>,
        drop_remainder: bool,
    },
    Unbatch(Box<Plan>),
    Shuffle {
        input: Box<Plan>,
        buffer: i64,
        seed: u64,
        keep_order: bool,
    },
    Repeat(Box<Plan>, i64),
    Take(Box<Plan>, i64),
    Skip(Box<Plan>, i64),
    Shard(Box<Plan>, i64, i64),
    Cache(Box<Plan>),
    Prefetch(Box<Plan>, i64),
    Zip(Box<Plan>, Box<Plan>),
    Concatenate(Box<Plan>, Box<Plan>),
    Sample {
        one: Box<Plan>,
        other: Box<Plan>,
        options: SampleOptions,
    },
}

/// How its elements are given to replicas.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// None: not distributed.
    pub replicas: usize,
    pub balanced: bool,
    pub dealt: bool,
    pub drop_partial_step: bool,
    pub read_ahead: i64,
}

pub fn plans() -> impl Strategy<Value = Plan> {
    let source = prop_oneof![
        (0i64..14).prop_map(Plan::Range),
        (0usize..14).prop_map(Plan::Rows),
        (1usize..10).prop_map(Plan::Ragged),
        (0i64..10, prop_oneof![Just(0i64), 2i64..6])
            .prop_map(|(count, failing)| Plan::Generator { count, failing }),
        (
            proptest::collection::vec(0i64..6, 1..6),
            1i64..4,
            1i64..4,
            0u64..3,
            0usize..8
        )
            .prop_map(|(sizes, at_once, in_turn, seed, failing)| Plan::Files {
                sizes,
                at_once,
                in_turn,
                seed,
                failing
            }),
    ];
    source.prop_recursive(6, 12, 2, |inner| {
        let input = || inner.clone().prop_map(Box::new);
        let failing = || prop_oneof![Just(0i64), Just(0), 2i64..6];
        let calls = || prop_oneof![Just(0i64), 2i64..5];
        prop_oneof![
            (input(), calls(), failing()).prop_map(|(input, calls, failing)| Plan::Map {
                input,
                calls,
                failing
            }),
            (input(), calls(), failing()).prop_map(|(input, calls, failing)| Plan::Same {
                input,
                calls,
                failing
            }),
            (input(), 1i64..4, failing()).prop_map(|(input, dropping, failing)| Plan::Filter {
                input,
                dropping,
                failing
            }),
            (input(), 1i64..5, any::<bool>(), any::<bool>()).prop_map(
                |(input, size, padded, drop_remainder)| Plan::Batch {
                    input,
                    size,
                    padded,
                    drop_remainder
                }
            ),
            (
                input(),
                proptest::collection::vec(1i64..4, 1..3),
                any::<bool>()
            )
                .prop_map(|(input, sizes, drop_remainder)| Plan::Rebatch {
                    input,
                    sizes,
                    drop_remainder
                }),
            (input(), 0i64..7, 0u64..3, any::<bool>()).prop_map(
                |(input, buffer, seed, keep_order)| {
                    Plan::Shuffle {
                        input,
                        buffer,
                        seed,
                        keep_order,
                    }
                }
            ),
            (input(), -1i64..4).prop_map(|(input, count)| Plan::Repeat(input, count)),
            (input(), -1i64..9).prop_map(|(input, count)| Plan::Take(input, count)),
            (input(), 0i64..5).prop_map(|(input, count)| Plan::Skip(input, count)),
            (input(), 1i64..4, 0i64..3)
                .prop_map(|(input, shards, index)| Plan::Shard(input, shards, index)),
            input().prop_map(Plan::Unbatch),
            input().prop_map(Plan::Cache),
            (input(), 1i64..4).prop_map(|(input, depth)| Plan::Prefetch(input, depth)),
            (input(), input()).prop_map(|(one, other)| Plan::Zip(one, other)),
            (input(), input()).prop_map(|(one, other)| Plan::Concatenate(one, other)),
            (input(), input(), samples()).prop_map(|(one, other, options)| Plan::Sample {
                one,
                other,
                options
            }),
        ]
    })
}

fn samples() -> impl Strategy<Value = SampleOptions> {
    (0u64..3, any::<bool>(), any::<bool>()).prop_map(
        |(seed, keep_order_each_pass, stop_on_empty)| SampleOptions {
            seed,
            keep_order_each_pass,
            stop_on_empty,
        },
    )
}

pub fn deliveries() -> impl Strategy<Value = Delivery> {
    (
        0usize..4,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        0i64..3,
    )
        .prop_map(
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
pub fn words(element: &Value, to: &mut String) {
    match element {
        Value::Tensor(tensor) => {
            let shape = tensor.shape();
            let examples = tensor.examples();
            write!(
                to,
                "{shape}{:?}{examples:?}",
                tensor.to_vec::<i64>().unwrap()
            )
            .unwrap();
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

fn mixed(element: &Value) -> i64 {
    let mut numbers = Vec::new();
    flat(element, &mut numbers);
    numbers.iter().fold(7, |sum: i64, number| {
        sum.wrapping_mul(31).wrapping_add(*number) % 9973
    })
}

fn refused_if(number: i64, failing: i64) -> Result<()> {
    match failing > 0 && number.rem_euclid(failing) == 1 {
        true => Err(Error::precondition(format!("{number} is not wanted"))),
        false => Ok(()),
    }
}

pub fn scalars() -> ElementSpec {
    ElementSpec::Leaf(LeafSpec {
        dtype: DType::Int64,
        shape: vec![],
    })
}

/// Numbers, other ones in each round; some fail.
pub struct Counter {
    pub round: i64,
    pub next: i64,
    pub count: i64,
    pub failing: i64,
}

impl Generator for Counter {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.next == self.count {
            return Ok(None);
        }
        self.next += 1;
        refused_if(self.next, self.failing)?;
        Ok(Some(Value::Tensor(Tensor::scalar(
            self.round * 100 + self.next,
        )?)))
    }

    fn reset(&mut self) -> Result<()> {
        (self.round, self.next) = (self.round + 1, 0);
        Ok(())
    }
}

fn array(shape: &[usize], first: i64) -> Tensor {
    let shape = Shape::new(shape).unwrap();
    let data: Vec<i64> = (0..shape.elements() as i64)
        .map(|number| first + number)
        .collect();
    Tensor::from_slice(&data, shape, DeviceId::HOST).unwrap()
}

/// As many numbers as the name of the file says, in one way or another; `failing` cannot be opened.
fn opened(file: File<'_>, failing: usize) -> Result<Dataset> {
    if file.number == failing {
        return Err(Error::NotFound(format!("file {failing}")));
    }
    let first = 10 * file.number as i64;
    let count = file.path.to_str().unwrap().parse::<i64>().unwrap();
    let numbers = Dataset::range(first, first + count, 1)?;
    match file.number % 3 {
        0 => numbers.shuffle(&ShuffleOptions {
            seed: 4,
            ..Default::default()
        }),
        1 => {
            let function = |element: &Value| {
                refused_if(mixed(element), 4)?;
                Ok(element.clone())
            };
            numbers.map(
                function,
                MapOptions {
                    parallel_calls: 2,
                    element_spec: None,
                },
            )
        }
        _ => numbers.prefetch(2),
    }
}

impl Plan {
    /// The dataset. A transformation that its elements do not allow is left out.
    pub fn dataset(&self) -> Dataset {
        self.made(true)
    }

    /// The same, or one of which no element is made before it is asked for.
    pub fn made(&self, ahead: bool) -> Dataset {
        let or_as_it_is = |input: &Plan, transform: &dyn Fn(&Dataset) -> Result<Dataset>| {
            let dataset = input.made(ahead);
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
                Ok(Box::new(Counter {
                    round: 0,
                    next: 0,
                    count,
                    failing,
                }) as _)
            })
            .unwrap(),
            &Plan::Files {
                ref sizes,
                at_once,
                in_turn,
                seed,
                failing,
            } => {
                let options = FilesOptions {
                    element_spec: Some(scalars()),
                    files_at_once: at_once,
                    elements_in_turn: in_turn,
                    shuffle_files: Some(seed).filter(|&seed| seed > 0),
                };
                let paths: Vec<String> = sizes.iter().map(i64::to_string).collect();
                let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                Dataset::from_files(&paths, move |file| opened(file, failing), options).unwrap()
            }
            &Plan::Map {
                ref input,
                calls,
                failing,
            } => {
                let parallel_calls = if ahead { calls } else { 0 };
                let options = MapOptions {
                    parallel_calls,
                    element_spec: Some(scalars()),
                };
                let function = move |element: &Value| {
                    let number = mixed(element);
                    refused_if(number, failing)?;
                    Ok(Value::Tensor(Tensor::scalar(number)?))
                };
                input.made(ahead).map(function, options).unwrap()
            }
            &Plan::Same {
                ref input,
                calls,
                failing,
            } => {
                let parallel_calls = if ahead { calls } else { 0 };
                let options = MapOptions {
                    parallel_calls,
                    element_spec: None,
                };
                let function = move |element: &Value| {
                    refused_if(mixed(element), failing)?;
                    Ok(element.clone())
                };
                input.made(ahead).map(function, options).unwrap()
            }
            &Plan::Filter {
                ref input,
                dropping,
                failing,
            } => {
                let keeps = move |element: &Value| {
                    let number = mixed(element);
                    refused_if(number, failing)?;
                    Ok(number.rem_euclid(dropping + 1) != 0)
                };
                // Of a dataset without end nothing might be kept.
                or_as_it_is(input, &|dataset| match dataset.cardinality() {
                    Cardinality::Endless | Cardinality::EndlessUnlessEmpty => Ok(dataset.clone()),
                    _ => dataset.filter(keeps),
                })
            }
            &Plan::Batch {
                ref input,
                size,
                padded,
                drop_remainder,
            } => or_as_it_is(input, &|dataset| match padded {
                true => dataset.padded_batch(size, drop_remainder),
                false => dataset.batch(size, drop_remainder),
            }),
            Plan::Rebatch {
                input,
                sizes,
                drop_remainder,
            } => or_as_it_is(input, &|dataset| dataset.rebatch(sizes, *drop_remainder)),
            &Plan::Shuffle {
                ref input,
                buffer,
                seed,
                keep_order,
            } => {
                let options = ShuffleOptions {
                    buffer_size: buffer,
                    seed,
                    keep_order_each_pass: keep_order,
                };
                or_as_it_is(input, &|dataset| dataset.shuffle(&options))
            }
            Plan::Unbatch(input) => or_as_it_is(input, &|dataset| dataset.unbatch()),
            Plan::Repeat(input, count) => input.made(ahead).repeat(*count).unwrap(),
            Plan::Take(input, count) => input.made(ahead).take(*count).unwrap(),
            Plan::Skip(input, count) => input.made(ahead).skip(*count).unwrap(),
            Plan::Shard(input, shards, index) => {
                or_as_it_is(input, &|dataset| dataset.shard(*shards, index % shards))
            }
            Plan::Cache(input) => input.made(ahead).cache().unwrap(),
            Plan::Prefetch(input, _) if !ahead => input.made(ahead),
            Plan::Prefetch(input, depth) => input.made(ahead).prefetch(*depth).unwrap(),
            Plan::Zip(one, other) => {
                Dataset::zip(&[one.made(ahead), other.made(ahead)], None).unwrap()
            }
            Plan::Concatenate(one, other) => {
                let one = one.made(ahead);
                let other = other.made(ahead);
                Dataset::concatenate(&[one.clone(), other]).unwrap_or(one)
            }
            Plan::Sample {
                one,
                other,
                options,
            } => {
                let one = one.made(ahead);
                let both = [one.clone(), other.made(ahead)];
                Dataset::sample(&both, Some(&[2.0, 1.0]), options).unwrap_or(one)
            }
        }
    }
}

impl Delivery {
    /// What makes iterators over the dataset for its replicas.
    pub fn of(self, dataset: &Dataset) -> Box<dyn Fn() -> PassIterator> {
        let devices: Vec<DeviceId> = (0..self.replicas as u32).map(DeviceId::cpu).collect();
        let options = DistributeOptions {
            splitting: if self.balanced {
                Splitting::Balanced
            } else {
                Splitting::Ceiling
            },
            drop_partial_step: self.drop_partial_step,
            read_ahead: Some(self.read_ahead),
            ..DistributeOptions::default()
        };
        let distributed = match (self.replicas, self.dealt) {
            (0, _) => None,
            (replicas, true) => {
                Some(distribute_per_replica_batches(dataset, replicas, &devices, &options).unwrap())
            }
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
