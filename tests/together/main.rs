//! Several ranks, each with replicas of its own, beside one process with all of the replicas.

#![expect(unsafe_code, reason = "tests write the gradients of their replicas")]

mod agreement;
mod damaged;
mod differing;
mod dividing;
mod elastic;
mod engine;
mod failures;
mod file_epochs;
mod files;
mod frozen;
mod given_again;
mod in_place;
mod input;
mod lengths;
mod lent;
mod limits;
mod matrices;
#[path = "../messages/mod.rs"]
mod messages;
mod nccl;
mod nested;
mod new_pass;
mod on_gpus;
mod otherwise;
mod own_data;
mod pairwise;
mod passed_over;
mod processors;
mod reduced;
mod reproducible;
mod row_changes;
mod saving;
mod strict;
mod training;
mod values;
mod watching;

use std::sync::Arc;

use half::{bf16, f16};
use umbo_core::cluster::communicator::Communicator;
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result};
use umbo_core::strategy::variables::{self, Initial, NewVariable};
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{DType, Element, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Synchronization, Variable};

use engine::Rank;

/// Calls `body` for each rank, on a thread of its own, with a strategy of `replicas` replicas; what
/// it returns, in rank order.
fn on_ranks<R: Send>(
    ranks: &[Arc<Rank>],
    replicas: usize,
    body: impl Fn(usize, Result<Strategy>) -> R + Sync,
) -> Vec<R> {
    on_ranks_strict_where(ranks, replicas, |_| false, body)
}

/// The same; the strategies of the ranks for which `strict` says so are strict.
fn on_ranks_strict_where<R: Send>(
    ranks: &[Arc<Rank>],
    replicas: usize,
    strict: impl Fn(usize) -> bool,
    body: impl Fn(usize, Result<Strategy>) -> R + Sync,
) -> Vec<R> {
    let options = |rank| Options {
        bind_threads: false,
        strict: strict(rank),
        ..on_gpus::shared_or_apart(rank, ranks.len(), replicas)
    };
    on_ranks_of(ranks, options, body)
}

/// One replica on each of so many compute devices.
fn options(devices: usize) -> Options {
    Options {
        cpu_replicas: devices,
        bind_threads: false,
        ..Options::default()
    }
}

/// Calls `body` for each rank, on a thread of its own, with a strategy that is set up as `options`
/// says for the rank.
fn on_ranks_of<R: Send>(
    ranks: &[Arc<Rank>],
    options: impl Fn(usize) -> Options,
    body: impl Fn(usize, Result<Strategy>) -> R + Sync,
) -> Vec<R> {
    let body = &body;
    std::thread::scope(|scope| {
        let start = |rank: &Arc<Rank>| {
            let options = options(rank.rank());
            let dies = DiesOfPanics(Arc::clone(rank));
            scope.spawn(move || {
                let joined = on_gpus::joined(&dies.0, &options);
                let strategy = joined.and_then(|communicator| {
                    Strategy::new(&Options {
                        communicator: Some(communicator),
                        ..options
                    })
                });
                body(dies.0.rank(), strategy)
            })
        };
        let threads: Vec<_> = ranks.iter().map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// A rank whose test has failed, for which the others need not wait.
struct DiesOfPanics(Arc<Rank>);

impl Drop for DiesOfPanics {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .abort(&Error::Internal("the test has failed on this rank".into()));
        }
    }
}

/// A strategy of one process.
fn alone(replicas: usize) -> Strategy {
    Strategy::new(&options(replicas)).unwrap()
}

fn tensor<T: Element>(values: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, Shape::new(shape).unwrap(), DeviceId::HOST).unwrap()
}

fn variable(strategy: &Strategy, name: &str, aggregation: Aggregation, value: &Tensor) -> Variable {
    variables::create(
        Some(strategy),
        named(name, aggregation),
        Initial::Value(value),
    )
    .unwrap()
}

/// Writes all elements of a tensor that nobody else is at.
fn copy_into(to: &Tensor, from: &Tensor) {
    try_to_copy_into(to, from).unwrap();
}

fn try_to_copy_into(to: &Tensor, from: &Tensor) -> Result<()> {
    // SAFETY: tests write what is theirs alone.
    unsafe { to.assume_exclusive() }.copy_from(from)
}

fn bytes(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = vec![0; tensor.shape().bytes(tensor.dtype()).unwrap()];
    tensor.copy_to_host(&mut bytes).unwrap();
    bytes
}

/// These numbers, as elements of a type.
fn tensor_of(dtype: DType, numbers: &[f32], shape: &[usize]) -> Tensor {
    let numbers = numbers.iter().copied();
    match dtype {
        DType::Float16 => tensor(&numbers.map(f16::from_f32).collect::<Vec<_>>(), shape),
        DType::BFloat16 => tensor(&numbers.map(bf16::from_f32).collect::<Vec<_>>(), shape),
        DType::Float64 => tensor(&numbers.map(f64::from).collect::<Vec<_>>(), shape),
        DType::Int32 => tensor(
            &numbers.map(|it| (it * 1e3) as i32).collect::<Vec<_>>(),
            shape,
        ),
        _ => tensor(&numbers.collect::<Vec<_>>(), shape),
    }
}

fn named(name: &str, aggregation: Aggregation) -> NewVariable {
    NewVariable {
        name: name.into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation,
    }
}
