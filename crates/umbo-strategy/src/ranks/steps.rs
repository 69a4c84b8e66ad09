//! The collectives of a step, from its beginning to its commit point.

use std::sync::Weak;

use super::collective_call::{Call, Gathered};
use super::descriptor::CollectiveKind;
use super::group::Ranks;
use super::quantities::{AddQuantity, Quantities};
use super::totals::Totals;
use super::wire::{Reader, Writer};
use crate::context::metrics::Metric;
use umbo_base::error::Result;

/// The data that a run gets from the other ranks when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemoteExamples {
    /// Examples in the parts of the ranks before this one.
    pub examples_before: u64,
    /// Examples in the parts of all other ranks.
    pub examples: u64,
    /// The largest number of steps that a rank has begun.
    pub steps: u64,
}

/// The metrics that one replica adds to in a step.
pub(crate) type ReplicaMetricList = Vec<(String, Metric)>;

impl Ranks {
    /// Begins a run in which this rank has `examples` examples, after `steps` steps. The quantities
    /// of `read`, which describe the dataset element, must be equal on all ranks.
    pub(crate) fn open<T>(
        &self,
        outcome: Result<T>,
        examples: u64,
        steps: u64,
        read: &Quantities<'_>,
    ) -> Result<(RemoteExamples, T)> {
        if self.is_alone() {
            return outcome.map(|value| (RemoteExamples::default(), value));
        }
        let call = Call::to(CollectiveKind::Run, &"the beginning of a run").agreeing(read);
        let call = Call {
            numbers: [examples, steps],
            ..call
        };
        let (collective, value) = self.start_collective(call, outcome)?;
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

    /// The vote at the commit point: succeeds if all ranks have succeeded, as this rank has if
    /// `outcome` is not an error. Then all ranks commit. Returns the payloads of all ranks, if
    /// there are several.
    pub(crate) fn vote(&self, outcome: Result<()>, payload: &[u8]) -> Result<Option<Gathered>> {
        if self.is_alone() {
            return outcome.map(|()| None);
        }
        let totals = self.totals.lock().in_use();
        let quantities = |add: &mut AddQuantity<'_>| {
            for (number, totals) in &totals {
                let name = format_args!("what metrics object {number} has");
                totals.with_definitions(&mut |words| add(&name, words.into()));
            }
        };
        let call = Call {
            length: payload.len(),
            ..Call::to(CollectiveKind::Commit, &"the commit point").agreeing(&quantities)
        };
        let met = self
            .start_collective(call, outcome)
            .and_then(|(mut collective, ())| {
                let memory = collective.reserve()?;
                Ok((collective, memory))
            });
        self.finish();
        let (mut collective, memory) = met?;
        let gathered = collective.all_gather_to(payload, memory);
        if self.is_elastic {
            // The step counts where the exchange has succeeded. The others get the state of such a
            // rank when the ranks meet anew, metrics and all; if there is none, no rank has
            // counted it.
            return gathered.map(Some);
        }
        // All ranks have voted, so the step counts, even if this exchange fails; then every later
        // call that needs the engine fails.
        Ok(Some(gathered.unwrap_or_default()))
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
pub(crate) fn read_metrics(from: &mut Reader<'_>) -> Result<Vec<ReplicaMetricList>> {
    (0..from.count()?)
        .map(|_| {
            (0..from.count()?)
                .map(|_| {
                    let name = from.text()?.to_owned();
                    Ok((
                        name,
                        Metric {
                            sum: from.float()?,
                            weight: from.float()?,
                        },
                    ))
                })
                .collect()
        })
        .collect()
}

impl Ranks {
    /// Whether ranks exchange what replicas add to totals. A rank that is alone does not.
    pub fn exchanges_totals(&self) -> bool {
        !self.is_alone()
    }

    /// Registers totals that several ranks add up. All ranks register theirs in the same order.
    pub fn add_totals(&self, totals: Weak<dyn Totals>) {
        if self.exchanges_totals() {
            self.totals.lock().add(totals);
        }
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
            let mut encoded = Writer::default();
            totals.encode(step, &mut encoded)?;
            let encoded = encoded.done();
            to.number(*number)?;
            to.number(encoded.len() as u64)?;
            to.bytes(&encoded)
        })
    }

    /// Decodes one rank's totals and adds them.
    pub(crate) fn decode_totals(&self, rank: usize, from: &mut Reader<'_>) -> Result<()> {
        let totals = self.totals.lock().in_use();
        for _ in 0..from.count()? {
            let number = from.number()?;
            let length = from.count()?;
            let bytes = from.bytes(length)?;
            if let Some((_, totals)) = totals.iter().find(|(known, _)| *known == number) {
                totals.decode(&mut Reader::new(rank, bytes))?;
            }
        }
        Ok(())
    }
}
