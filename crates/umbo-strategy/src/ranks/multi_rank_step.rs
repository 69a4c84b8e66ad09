//! Multi-rank steps: how several ranks begin a step together, and how they agree on one outcome.

use std::fmt;

use crate::context::metrics::{Metric, MetricTable};
use crate::ranks::steps::{RemoteExamples, ReplicaMetricList, read_metrics, write_metrics};
use crate::ranks::wire::{Reader, Writer};
use crate::ranks::{AddQuantity, Call, CollectiveKind, Gathered, PASS_ENDED, PASSED_OVER, Ranks};
use crate::setup::central_storage::Strategy;
use crate::step::StepRecord;
use crate::step::limits::Limits;
use crate::step::lock::StepGuard;
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_tensor::origin::Origin;
use umbo_tensor::values::Value;

/// Adds the quantities of a run's element that are compared: there are none unless all ranks have
/// read the same element, each to take its part.
fn read(arguments: Option<&Value>, add: &mut AddQuantity<'_>) {
    let (Some(arguments), mut last) = (arguments, None::<Origin>) else {
        return;
    };
    arguments.for_each_origin(&mut |origin| {
        if last.as_ref().is_none_or(|last| !origin.is_of_element(last)) {
            let quantities = &origin.source.quantities;
            quantities
                .iter()
                .for_each(|(name, value)| add(name, value.as_str().into()));
            add(
                &"the round of the pass, counted by its resets,",
                origin.round.into(),
            );
            add(
                &"the number of its element in the pass",
                origin.element.into(),
            );
            add(
                &"the rounds of the pipeline's shuffles",
                origin.shuffles.into(),
            );
            last = Some(origin.clone());
        }
        add(
            &"the number of examples in the global batch",
            origin.examples.into(),
        );
        if let Some(checksum) = origin.checksum {
            add(
                &"the checksum of rows of the global batch",
                u64::from(checksum).into(),
            );
        }
    });
}

impl Strategy {
    /// Waits until the other ranks begin the run, too, and exchanges the numbers of examples.
    /// `entered` is this rank's step lock, or why this rank cannot begin the run, which the other
    /// ranks learn then.
    pub(crate) fn open_on_all_ranks<'a>(
        &'a self,
        entered: Result<StepGuard<'a>>,
        arguments: Option<&Value>,
    ) -> Result<(StepGuard<'a>, RemoteExamples)> {
        let ranks = self.ranks();
        let (mut lock, outcome) = match entered {
            Ok(lock) => (Some(lock), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let steps = lock.as_ref().map_or(0, StepGuard::steps);
        ranks.begin(steps + 1);
        match ranks.open(outcome, self.examples(arguments), steps, &|add| {
            read(arguments, add)
        }) {
            Ok((remote, ())) => {
                let mut lock = lock.take().ok_or_else(|| {
                    Error::Internal("the ranks have begun a run that this one has not".into())
                })?;
                // A rank that could not begin a run has counted one step less.
                if remote.steps > steps {
                    lock.set_steps(remote.steps);
                    ranks.is_step(remote.steps + 1);
                }
                match self.check_weights(ranks, remote.steps) {
                    Ok(()) => Ok((lock, remote)),
                    Err(error) => Err(self.not_begun(ranks, Some(lock), error)),
                }
            }
            Err(error) => Err(self.not_begun(ranks, lock, error)),
        }
    }

    /// The error of a run that its ranks cannot begin.
    fn not_begun(&self, ranks: &Ranks, lock: Option<StepGuard<'_>>, error: Error) -> Error {
        ranks.finish();
        if lock.is_some() {
            self.inner().steps.draining.close_step();
        }
        error
    }

    /// Reports to the other ranks, which begin a run, that this rank cannot begin one, and returns
    /// the error. `passes_over` says whether it passes over the element, so that the others
    /// must do so, too.
    pub fn fail_to_begin(&self, error: Error, passes_over: bool) -> Error {
        let ranks = self.ranks();
        if ranks.is_alone() {
            return error;
        }
        // The lock keeps other runs of this rank out. Even if it fails, the other ranks wait for
        // this call.
        let lock = self.enter(&Limits::default()).ok();
        let steps = lock.as_ref().map_or(0, StepGuard::steps);
        ranks.begin(steps + 1);
        let examples = if passes_over { PASSED_OVER } else { 0 };
        let opened = ranks.open(Err::<(), _>(error), examples, steps, &|_| {});
        ranks.finish();
        let never = || Error::Internal("the ranks have begun a run that one could not".into());
        opened.err().unwrap_or_else(never)
    }

    /// Reports to the other ranks that the pass of this one has ended, after `steps` steps of its
    /// epoch. Succeeds once those of all ranks have ended. If another rank begins a step, it
    /// fails on all of them.
    pub fn end_pass(&self, steps: u64) -> Result<()> {
        let ranks = self.ranks();
        if ranks.is_alone() {
            return Ok(());
        }
        // As with a run that this rank cannot begin.
        let (lock, outcome) = match self.enter(&Limits::default()) {
            Ok(lock) => (Some(lock), Ok(())),
            Err(error) => (None, Err(error)),
        };
        ranks.begin(lock.as_ref().map_or(0, StepGuard::steps) + 1);
        let purpose = format_args!("the end of a pass, after {steps} steps of the epoch");
        let call = Call {
            numbers: [PASS_ENDED, steps],
            ..Call::to(CollectiveKind::Run, &purpose)
        };
        let ended = ranks.start_collective(call, outcome).map(drop);
        ranks.finish();
        ended
    }

    /// Reports to the other ranks, unless they know it, that the variable `name`, which they wait
    /// for, was not made here.
    pub(crate) fn fail_to_make(&self, name: &str, error: Error) -> Error {
        match self.ranks().is_alone() || matches!(error.unnamed(), Error::Rank { .. }) {
            true => error,
            false => self.ranks().failed_to_make(name, error),
        }
    }

    /// Whether the run that this thread has begun last failed because a rank passes over its
    /// element.
    pub fn element_is_passed_over(&self) -> bool {
        self.ranks().passes_over()
    }

    /// The same for a run inside of a merge call.
    pub(crate) fn begin_nested(&self, arguments: Option<&Value>) -> Result<RemoteExamples> {
        let checked = self.check_arguments(arguments);
        let read = |add: &mut AddQuantity<'_>| read(arguments, add);
        let opened = self
            .ranks()
            .open(checked, self.examples(arguments), 0, &read);
        opened.map(|(remote, ())| remote)
    }

    fn examples(&self, arguments: Option<&Value>) -> u64 {
        let of_replica = |replica| arguments?.examples_of(replica);
        (0..self.num_replicas()).filter_map(of_replica).sum()
    }

    /// Begins a series of collectives outside runs; `step` is 0 outside steps.
    pub fn begin_series(&self, step: u64) {
        self.ranks().begin(step);
    }

    /// The common result of all ranks: success only if `outcome` is not an error on any rank.
    pub fn agree(&self, outcome: Result<()>) -> Result<()> {
        self.ranks().vote(outcome, &[]).map(drop)
    }

    /// Reports to the other ranks that the step has failed here, and returns the error.
    pub(crate) fn fail_on_all_ranks(&self, error: Error) -> Error {
        let never = || Error::Internal("the ranks have agreed about a step that failed".into());
        self.agree(Err(error)).err().unwrap_or_else(never)
    }

    /// This rank's value, and whether `is_so` of the value of any rank. `purpose` names the
    /// operation, and `agreed` is a quantity, called `name`, that must be equal on all ranks. An
    /// error of one rank is an error of all ranks; if `outcome` is another rank's error, nothing is
    /// exchanged.
    pub fn any_rank<T>(
        &self,
        purpose: &dyn fmt::Display,
        name: &str,
        agreed: u64,
        outcome: Result<T>,
        is_so: impl FnOnce(&T) -> bool,
    ) -> Result<(T, bool)> {
        let is_known =
            matches!(&outcome, Err(error) if matches!(error.unnamed(), Error::Rank { .. }));
        let holds = outcome.as_ref().is_ok_and(is_so);
        if is_known || self.ranks().is_alone() {
            return outcome.map(|value| (value, holds));
        }
        let numbers = [u64::from(holds), 0];
        let quantities = |add: &mut AddQuantity<'_>| add(&name, agreed.into());
        let call = Call {
            numbers,
            ..Call::to(CollectiveKind::Value, purpose).agreeing(&quantities)
        };
        let (collective, value) = self.ranks().start_collective(call, outcome)?;
        Ok((value, collective.numbers().any(|[is_so, _]| is_so != 0)))
    }

    /// As [`Strategy::agree`], for a step, whose metrics the ranks exchange.
    pub(crate) fn agree_on_step(
        &self,
        step: u64,
        outcome: Result<()>,
        record: Option<&StepRecord>,
        of_nested: &[Vec<ReplicaMetricList>],
    ) -> Result<Option<Gathered>> {
        let ranks = self.ranks();
        let encode = || match ranks.is_alone() {
            true => Ok(Vec::new()),
            false => encode(ranks, step, record, of_nested),
        };
        match outcome.and_then(|()| encode()) {
            Ok(record) => ranks.vote(Ok(()), &record),
            Err(error) => ranks.vote(Err(error), &[]),
        }
    }

    /// Adds up the metrics of the step from the messages of all ranks, in the order of one process
    /// with all the replicas.
    pub(crate) fn take_metrics(&self, gathered: &Gathered) -> bool {
        let ranks = self.ranks();
        let read = |(rank, bytes): (usize, &[u8])| {
            if bytes.is_empty() {
                return Ok(Vec::new());
            }
            let mut from = Reader::new(rank, bytes);
            let metrics = read_metrics(&mut from)?;
            ranks.decode_totals(rank, &mut from)?;
            Ok(metrics)
        };
        let all: Vec<_> = match gathered.iter().enumerate().map(read).collect::<Result<_>>() {
            Ok(all) => all,
            Err(error) => {
                let say = || format!("the metrics of a step are lost: {error}");
                // The commit point has locks.
                log::keep(Level::Error, say);
                return false;
            }
        };
        let mut metrics = self.inner().steps.metrics.lock();
        // A run that measured nothing leaves what the one before it had.
        let has_measured = all.iter().flatten().any(|metrics| !metrics.is_empty());
        if has_measured {
            metrics.clear();
        }
        // Each rank sends the metrics of the same number of runs, nested runs before the outer one.
        // A rank that sends none has measured nothing.
        let replicas = |rank: usize| ranks.replicas()[rank].max(1);
        let runs = |(rank, of_rank): (usize, &Vec<_>)| of_rank.len() / replicas(rank);
        let runs = all.iter().enumerate().map(runs).max().unwrap_or(0);
        for run in 0..runs {
            for (rank, of_rank) in all.iter().enumerate() {
                let of_run = of_rank.chunks(replicas(rank)).nth(run).unwrap_or_default();
                for (name, metric) in of_run.iter().flatten() {
                    metrics.add(name, *metric);
                }
            }
        }
        has_measured
    }
}
/// Encodes this rank's metrics of the step: of each replica in each nested run, then of each
/// replica.
fn encode(
    ranks: &Ranks,
    step: u64,
    record: Option<&StepRecord>,
    of_nested: &[Vec<ReplicaMetricList>],
) -> Result<Vec<u8>> {
    let mut to = Writer::default();
    let mut all: Vec<Vec<(&str, Metric)>> = Vec::new();
    for replica in of_nested.iter().flatten() {
        all.push(
            replica
                .iter()
                .map(|(name, metric)| (name.as_str(), *metric))
                .collect(),
        );
    }
    let of_replicas = record.into_iter().flat_map(StepRecord::metrics);
    all.extend(
        of_replicas.map(|metrics| metrics.into_iter().flat_map(MetricTable::iter).collect()),
    );
    // A step that measures nothing has nothing to send.
    if all.iter().all(Vec::is_empty) && !ranks.has_totals() {
        return Ok(Vec::new());
    }
    write_metrics(&mut to, &all)?;
    ranks.encode_totals(step, &mut to)?;
    Ok(to.done())
}
