//! What a step asks the other ranks, from its beginning to its commit point.

use std::sync::Weak;

use super::collective_call::{Call, Gathered};
use super::descriptor::Kind;
use super::group::Ranks;
use super::quantities::Quantities;
use super::totals::Totals;
use super::wire::{Reader, Writer};
use crate::error::Result;
use crate::strategy::metrics::Metric;

/// What a run learns from the others when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemoteExamples {
    /// Examples in the parts of the ranks before this one.
    pub examples_before: u64,
    /// Examples in the parts of all other ranks.
    pub examples: u64,
    /// The most steps that a rank has begun.
    pub steps: u64,
}

/// What one replica adds to the metrics of a step.
pub(crate) type OfReplica = Vec<(String, Metric)>;

impl Ranks {
    /// A run begins, in which this rank has `examples`; it has begun `steps` steps so far. What it has `read`
    /// of a dataset is the same on all ranks.
    pub(crate) fn open<T>(
        &self,
        here: Result<T>,
        examples: u64,
        steps: u64,
        read: &Quantities<'_>,
    ) -> Result<(RemoteExamples, T)> {
        let call = Call::to(Kind::Run, &"the beginning of a run").agreeing(read);
        let call = Call { numbers: [examples, steps], ..call };
        let (collective, value) = self.start_collective(call, here)?;
        let mut remote = RemoteExamples::default();
        for (rank, [examples, steps]) in collective.numbers().enumerate() {
            if rank < self.rank() {
                remote.examples_before += examples;
            }
            if rank != self.rank() {
                remote.examples += examples;
            }
            remote.steps = remote.steps.max(steps);
        }
        Ok((remote, value))
    }

    /// The commit point: whether all ranks have come to their end, as this one has if `here` is no
    /// error. If so, what happens here happens on all ranks. `add` is what the others are told then,
    /// of which this gives back what each rank has told.
    pub(crate) fn vote(&self, here: Result<()>, payload: &[u8]) -> Result<Gathered> {
        let call = Call { length: payload.len(), ..Call::to(Kind::Commit, &"the commit point") };
        let met = self.start_collective(call, here);
        self.finish();
        let (mut collective, ()) = met?;
        // All have voted, so the step counts, whatever becomes of this; what needs the engine says that
        // it is broken from now on.
        let gathered = collective.all_gather(payload).unwrap_or_default();
        Ok(gathered)
    }
}

/// Writes the metrics of a rank's replicas.
pub(crate) fn write_metrics(to: &mut Writer, replicas: &[Vec<(&str, Metric)>]) -> Result<()> {
    to.number(replicas.len() as u64)?;
    for metrics in replicas {
        to.number(metrics.len() as u64)?;
        for (name, metric) in metrics {
            to.text(name)?;
            to.float(metric.sum)?;
            to.float(metric.weight)?;
        }
    }
    Ok(())
}

/// Reads what [`write_metrics`] has written.
pub(crate) fn read_metrics(from: &mut Reader<'_>) -> Result<Vec<OfReplica>> {
    (0..from.count()?)
        .map(|_| {
            (0..from.count()?)
                .map(|_| {
                    let name = from.text()?.to_owned();
                    Ok((name, Metric { sum: from.float()?, weight: from.float()? }))
                })
                .collect()
        })
        .collect()
}

impl Ranks {
    /// Has the ranks add these totals up. All ranks make theirs in the same order.
    pub(crate) fn add_totals(&self, totals: Weak<dyn Totals>) {
        self.totals.lock().add(totals);
    }

    /// Whether there are any.
    pub(crate) fn has_totals(&self) -> bool {
        self.totals.lock().has_some()
    }

    /// Writes what this rank adds to all totals in step `step`.
    pub(crate) fn encode_totals(&self, step: u64, to: &mut Writer) -> Result<()> {
        let totals = self.totals.lock().in_use();
        to.number(totals.len() as u64)?;
        totals.iter().try_for_each(|(number, totals)| {
            let mut own = Writer::default();
            totals.encode(step, &mut own)?;
            let own = own.done();
            to.number(*number)?;
            to.number(own.len() as u64)?;
            to.bytes(&own)
        })
    }

    /// Adds what one rank has written so.
    pub(crate) fn decode_totals(&self, rank: usize, from: &mut Reader<'_>) -> Result<()> {
        let totals = self.totals.lock().in_use();
        for _ in 0..from.count()? {
            let (number, length) = (from.number()?, from.count()?);
            let bytes = from.bytes(length)?;
            if let Some((_, totals)) = totals.iter().find(|(known, _)| *known == number) {
                totals.decode(&mut Reader::new(rank, bytes))?;
            }
        }
        Ok(())
    }
}
