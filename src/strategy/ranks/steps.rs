//! What a step asks the other ranks, from its beginning to its commit point.

use super::wire::{Reader, Writer};
use super::{Call, Kind, Ranks};
use crate::error::Result;
use crate::strategy::metrics::Metric;

/// What a run learns from the others when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Elsewhere {
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
    /// A run begins, in which this rank has `examples`; it has begun `steps` steps so far.
    pub(crate) fn open<T>(
        &self,
        here: Result<T>,
        examples: u64,
        steps: u64,
    ) -> Result<(Elsewhere, T)> {
        let call =
            Call { numbers: [examples, steps], ..Call::to(Kind::Run, &"the beginning of a run") };
        let (meeting, value) = self.meet(call, here)?;
        let mut elsewhere = Elsewhere::default();
        for (rank, [examples, steps]) in meeting.numbers().enumerate() {
            if rank < self.rank() {
                elsewhere.examples_before += examples;
            }
            if rank != self.rank() {
                elsewhere.examples += examples;
            }
            elsewhere.steps = elsewhere.steps.max(steps);
        }
        Ok((elsewhere, value))
    }

    /// The commit point: whether all ranks have come to their end, as this one has if `here` is no
    /// error. If so, what happens here happens on all ranks. `tell` is what the others are told then,
    /// of which this gives back what each rank has told.
    pub(crate) fn vote(&self, here: Result<()>, tell: &[u8]) -> Result<Vec<Vec<u8>>> {
        let call = Call { length: tell.len(), ..Call::to(Kind::Commit, &"the commit point") };
        let met = self.meet(call, here);
        self.finish();
        let (mut meeting, ()) = met?;
        // All have voted, so the step counts, whatever becomes of this; what needs the engine says that
        // it is broken from now on.
        let told = meeting.all_gather(tell).unwrap_or_default();
        Ok(told)
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
