//! What a step asks the other ranks, from its beginning to its commit point.

use std::sync::{Arc, Weak};

use super::wire::{Reader, Writer};
use super::{Call, Gathered, Kind, Quantities, Ranks};
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

/// Totals of what the replicas of all ranks add in steps.
pub(crate) trait Totals: Send + Sync {
    /// Writes what this rank's replicas have added in step `step`.
    fn tell(&self, step: u64, to: &mut Writer) -> Result<()>;

    /// Adds what one rank has told; the ranks come in order.
    fn hear(&self, from: &mut Reader<'_>) -> Result<()>;
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
    ) -> Result<(Elsewhere, T)> {
        let call = Call::to(Kind::Run, &"the beginning of a run").agreeing(read);
        let call = Call { numbers: [examples, steps], ..call };
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
    pub(crate) fn vote(&self, here: Result<()>, tell: &[u8]) -> Result<Gathered> {
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

/// Those that are in use, by the number that they got when they were made.
#[derive(Default)]
pub(super) struct AllTotals {
    made: u64,
    known: Vec<(u64, Weak<dyn Totals>)>,
}

impl Ranks {
    /// Has the ranks add these totals up. All ranks make theirs in the same order.
    pub(crate) fn add_totals(&self, totals: Weak<dyn Totals>) {
        let mut all = self.totals.lock();
        all.known.retain(|(_, known)| known.strong_count() > 0);
        all.made += 1;
        let number = all.made;
        all.known.push((number, totals));
    }

    /// Whether there are any.
    pub(crate) fn has_totals(&self) -> bool {
        self.totals.lock().known.iter().any(|(_, known)| known.strong_count() > 0)
    }

    fn totals(&self) -> Vec<(u64, Arc<dyn Totals>)> {
        let all = self.totals.lock();
        let alive = |(number, known): &(u64, Weak<dyn Totals>)| Some((*number, known.upgrade()?));
        all.known.iter().filter_map(alive).collect()
    }

    /// Writes what this rank adds to all totals in step `step`.
    pub(crate) fn tell_totals(&self, step: u64, to: &mut Writer) -> Result<()> {
        let totals = self.totals();
        to.number(totals.len() as u64)?;
        totals.iter().try_for_each(|(number, totals)| {
            let mut own = Writer::default();
            totals.tell(step, &mut own)?;
            let own = own.done();
            to.number(*number)?;
            to.number(own.len() as u64)?;
            to.bytes(&own)
        })
    }

    /// Adds what one rank has written so.
    pub(crate) fn hear_totals(&self, rank: usize, from: &mut Reader<'_>) -> Result<()> {
        let totals = self.totals();
        for _ in 0..from.count()? {
            let (number, length) = (from.number()?, from.count()?);
            let bytes = from.bytes(length)?;
            if let Some((_, totals)) = totals.iter().find(|(known, _)| *known == number) {
                totals.hear(&mut Reader::new(rank, bytes))?;
            }
        }
        Ok(())
    }
}
