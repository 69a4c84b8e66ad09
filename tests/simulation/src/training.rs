//! The steps that are simulated: a run that computes for a while and submits gradients of all
//! variables, and an update.

#![expect(unsafe_code, reason = "a replica writes its own gradients")]

use std::sync::Arc;
use std::thread;

use umbo_core::cluster::communicator::Communicator;
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result};
use umbo_core::executor::workers;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, apply,
};
use umbo_core::strategy::variables::{Initial, NewVariable, create};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Synchronization};

use crate::counts::Counts;
use crate::engine::{self, Rank};
use crate::memory;
use crate::network::{Network, Time};

/// The stack of a rank's thread.
const STACK: usize = 1 << 20;

/// The steps that come before those that are counted: in the first, ranks make their state.
const WARMING: u64 = 1;

/// A training.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// How its ranks are connected.
    pub network: Network,
    /// The number of ranks, each of which has one replica.
    pub ranks: usize,
    /// The number of variables.
    pub variables: usize,
    /// The bytes of all variables, which are of float32.
    pub bytes: usize,
    /// The mean time for which a rank computes in a step, in microseconds.
    pub compute_us: f64,
    /// The number of steps that are counted.
    pub steps: u64,
    /// Whether the examples of a rank differ from those of others.
    pub uneven: bool,
    /// The rank whose replica fails in the first of these steps, if one does.
    pub failing: Option<usize>,
}

/// What became of the counted steps of a training.
pub struct Simulated {
    /// The mean time of a step in the slowest rank, and so in all.
    pub step: Time,
    /// For each kind the most that a rank has sent in all counted steps.
    pub most: Counts,
    /// What all ranks together have sent in all counted steps.
    pub total: Counts,
    /// The most memory that a rank has had at a time, in bytes.
    pub memory: usize,
    /// The processor time of the library's own work for a rank in a step, in nanoseconds.
    pub work: u64,
    /// A hash of the weights, which all ranks have.
    pub fingerprint: u64,
}

/// What one rank has found.
struct OfRank {
    time: Time,
    counts: Counts,
    memory: usize,
    work: u64,
    fingerprint: u64,
}

/// The thread of a rank. The other ranks would wait for one that has panicked.
struct Leaving<'a>(&'a Rank);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0
                .abort(&Error::Internal("its thread has panicked".into()));
        }
    }
}

impl Setting {
    /// Says what is wrong with the numbers, and what would be right.
    pub fn check(&self) -> Result<()> {
        let Network {
            latency_us,
            gbits,
            message_us,
            spread,
            ..
        } = self.network;
        let counts = [self.ranks, self.variables, self.steps as usize];
        let least = size_of::<f32>() * self.variables;
        let times = [latency_us, message_us, self.compute_us];
        let problem = if counts.contains(&0) {
            "ranks, variables and steps: give 1 of each or more".into()
        } else if self.bytes < least {
            let bytes = self.bytes;
            format!("bytes: {bytes}, of which each variable has at least 4; give {least} or more")
        } else if !(gbits.is_finite() && gbits > 0.0) {
            format!("gbits: {gbits}; give a number above 0")
        } else if !times.iter().all(|time| time.is_finite() && *time >= 0.0) {
            format!("latency, message and compute: {times:?} us; give numbers of 0 or more")
        } else if !(0.0..1.0).contains(&spread) {
            format!("spread: {spread}; give a number from 0 to less than 1")
        } else {
            return Ok(());
        };
        Err(Error::invalid("setting", problem))
    }

    /// The bytes that a rank needs: the weights, its gradients, and its part of the state.
    pub fn memory_needed(&self) -> usize {
        2 * self.bytes + 2 * self.bytes / self.ranks
    }

    /// Simulates the training.
    pub fn simulate(&self) -> Result<Simulated> {
        self.check()?;
        // Each rank works on its own thread alone.
        workers::set_count(1)?;
        let ranks = engine::ranks(self.ranks, self.network);
        let of_ranks = thread::scope(|scope| {
            let threads: Vec<_> = ranks
                .iter()
                .map(|rank| {
                    let builder = thread::Builder::new().stack_size(STACK);
                    let started = builder.spawn_scoped(scope, || {
                        let _leaving = Leaving(rank);
                        let found = self.train(rank);
                        found.inspect_err(|error| rank.abort(error))
                    });
                    let failed = |error| Error::Unavailable(format!("a thread: {error}"));
                    started
                        .map_err(failed)
                        .inspect_err(|error| rank.abort(error))
                })
                .collect();
            let join = |started: Result<thread::ScopedJoinHandle<'_, Result<OfRank>>>| {
                let joined = started?.join();
                joined.map_err(|_| Error::Internal("a rank has panicked".into()))?
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        let mut total = Counts::default();
        of_ranks.iter().for_each(|rank| total += &rank.counts);
        let most = of_ranks
            .iter()
            .fold(Counts::default(), |most, rank| most.most(&rank.counts));
        let fingerprint = of_ranks[0].fingerprint;
        if of_ranks.iter().any(|rank| rank.fingerprint != fingerprint) {
            return Err(Error::DataLoss("ranks have different weights".into()));
        }
        let greatest = |number: fn(&OfRank) -> u64| of_ranks.iter().map(number).max().unwrap_or(0);
        Ok(Simulated {
            step: greatest(|rank| rank.time) / self.steps,
            most,
            total,
            memory: greatest(|rank| rank.memory as u64) as usize,
            work: of_ranks.iter().map(|rank| rank.work).sum::<u64>()
                / (self.ranks as u64 * self.steps),
            fingerprint,
        })
    }

    /// The steps of one rank.
    fn train(&self, rank: &Arc<Rank>) -> Result<OfRank> {
        let strategy = Strategy::new(&Options {
            cpu_replicas: 1,
            bind_threads: false,
            communicator: Some(Arc::clone(rank) as Arc<dyn Communicator>),
            ..Options::default()
        })?;
        let gradients = self.gradients(&strategy)?;
        let rule = Box::new(Adam::new(0.9, 0.999, 1e-7)?);
        let optimizer = Optimizer::new(strategy.id(), rule, 1e-3)?;
        let shape = gradients.variables()[0].shape();
        let computed: Vec<f32> = (0..shape.elements())
            .map(|element| ((element + 7 * rank.rank()) % 31) as f32 / 31.0 - 0.4)
            .collect();
        let computed = Tensor::from_slice(&computed, shape, DeviceId::HOST)?;
        let step = |number| self.step(rank, &strategy, &gradients, &optimizer, &computed, number);
        (0..WARMING).try_for_each(step)?;
        // The wait for ranks that are late is not a part of the counted steps.
        rank.barrier()?;
        let before = (rank.time(), rank.counts(), rank.worked());
        (WARMING..WARMING + self.steps).try_for_each(step)?;
        let found = OfRank {
            time: rank.time() - before.0,
            counts: rank.counts() - before.1,
            work: rank.worked() - before.2,
            memory: memory::most(),
            fingerprint: strategy.fingerprint()?,
        };
        rank.barrier()?;
        Ok(found)
    }

    fn gradients(&self, strategy: &Strategy) -> Result<Arc<Gradients>> {
        let elements = self.bytes / size_of::<f32>() / self.variables;
        let shape = Shape::new(&[elements])?;
        let make = |index| {
            let initial = Tensor::zeros(DType::Float32, shape, DeviceId::HOST)?;
            let new = NewVariable {
                name: format!("w{index}").into(),
                trainable: None,
                synchronization: Synchronization::Auto,
                aggregation: Aggregation::None,
            };
            create(Some(strategy), new, Initial::Value(&initial))
        };
        let variables = (0..self.variables).map(make).collect::<Result<_>>()?;
        Gradients::new(
            strategy.id(),
            &[strategy.parameter_device()],
            variables,
            LossReduction::Sum,
            GradientsOptions::default(),
        )
    }

    fn step(
        &self,
        rank: &Rank,
        strategy: &Strategy,
        gradients: &Arc<Gradients>,
        optimizer: &Arc<Optimizer>,
        computed: &Tensor,
        number: u64,
    ) -> Result<()> {
        let network = &self.network;
        let examples = if self.uneven {
            1.0 + rank.rank() as f64
        } else {
            1.0
        };
        let callback = |context: &ReplicaContext| {
            rank.compute(network.computation(self.compute_us, rank.rank(), number));
            if number == WARMING && self.failing == Some(rank.rank()) {
                return Err(Error::DataLoss("the rank that is to fail".into()));
            }
            for index in 0..gradients.variables().len() {
                let gradient = gradients.view_in(context, index, GradientMode::Overwrite)?;
                // SAFETY: the gradient is this replica's until it submits.
                unsafe { gradient.assume_exclusive() }.copy_from(computed)?;
            }
            gradients.submit_in(context, Some(examples))?;
            Ok(None)
        };
        strategy.run(&callback, None)?;
        apply(optimizer, gradients).map(drop)
    }
}
