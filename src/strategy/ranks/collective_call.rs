//! Meetings: what ranks do together begins with each saying where it is, which is also a vote.

use std::fmt;

use super::descriptor::{BYTES, Descriptor, Kind};
use super::disagreement::{Difference, all_agree, differ_in_quantities, disagreement};
use super::group::{Ranks, count};
use super::quantities::{Quantities, agreement_of};
use super::series::{Ended, Series, Turn};
use crate::cluster::communicator::GpuCommunicator;
use crate::device::cuda::memory::DeviceMemory;
use crate::error::{Error, ReplicaFailures, Result, Status};
use crate::observe::{self, Phase};
use parking_lot::MutexGuard;

/// What this rank calls the others for.
pub(crate) struct Call<'a> {
    pub kind: Kind,
    /// What it is at, for messages.
    pub what: &'a dyn fmt::Display,
    /// What all ranks must agree about; see [`super::agreement`].
    pub agreement: u64,
    /// What that is made of, to be told where ranks differ.
    pub quantities: &'a Quantities<'a>,
    /// Numbers for the others.
    pub numbers: [u64; 2],
    /// How many bytes this rank will send to all ([`Collective::all_gather`]).
    pub length: usize,
}

impl<'a> Call<'a> {
    /// A call that only says where this rank is.
    pub fn to(kind: Kind, what: &'a dyn fmt::Display) -> Call<'a> {
        Call { kind, what, agreement: 0, quantities: &|_| {}, numbers: [0; 2], length: 0 }
    }

    /// The same call, for which these must be the same on all ranks.
    pub fn agreeing(self, quantities: &'a Quantities<'a>) -> Call<'a> {
        Call { agreement: agreement_of(quantities), quantities, ..self }
    }
}

/// In place of the examples of a run that a rank has failed to begin: it passes over the element.
pub(crate) const PASSED_OVER: u64 = u64::MAX;

/// All ranks are here, for the same, and none has failed. What they exchange is exchanged while this
/// lives; nobody else meets meanwhile.
pub(crate) struct Collective<'a> {
    ranks: &'a Ranks,
    turn: MutexGuard<'a, Turn>,
    descriptors: Vec<Descriptor>,
}

impl Ranks {
    /// Begins a series of meetings, in which a failure of one rank fails all that follows.
    pub(crate) fn begin(&self, step: u64) {
        self.series.lock().begin(step);
    }

    /// Says to which step the series belongs.
    pub(crate) fn is_step(&self, step: u64) {
        self.series.lock().step = step;
    }

    /// Whether a rank passes over what all of them were to begin with this series.
    pub(crate) fn passes_over(&self) -> bool {
        self.series.lock().passes_over
    }

    /// Ends the series.
    pub(crate) fn finish(&self) {
        self.series.lock().is_open = false;
    }

    /// Meets the others. `here` is what this rank has come to by itself: if it is an error, the others
    /// are told and fail, too, and this rank gets its own error back.
    ///
    /// Fails with [`Error::Rank`] if another rank has failed or is somewhere else, if one of both was
    /// so earlier in the series (then nothing is exchanged), and with UNAVAILABLE if the engine cannot
    /// bring the ranks together.
    pub(crate) fn start_collective<T>(
        &self,
        call: Call<'_>,
        here: Result<T>,
    ) -> Result<(Collective<'_>, T)> {
        let mut turn = self.turn.lock();
        let series = &mut *self.series.lock();
        if !series.is_open {
            series.begin(0);
            series.is_open = false;
        }
        if let Some(ended) = turn.broken.as_ref().or(series.ended.as_ref()) {
            return Err(here.err().unwrap_or_else(|| ended.error()));
        }
        series.operation += 1;
        let own = self.describe(&call, series, here.as_ref().err());
        let descriptors = match self.exchange(&own) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                let broken = self.break_off(&mut turn, &error, &own);
                return Err(here.err().unwrap_or(broken));
            }
        };
        let ended = match failures(&descriptors) {
            None if all_agree(&descriptors) => None,
            None => match self.difference(&descriptors, call.quantities) {
                Ok(difference) => Some(disagreement(&descriptors, difference.as_ref())),
                Err(error) => {
                    let broken = self.break_off(&mut turn, &error, &own);
                    return Err(here.err().unwrap_or(broken));
                }
            },
            failed => failed,
        };
        if let Some(ended) = ended {
            let error = here.err().unwrap_or_else(|| ended.error());
            let passes_over =
                |it: &Descriptor| it.kind == Kind::Run && it.numbers[0] == PASSED_OVER;
            series.passes_over = descriptors.iter().any(passes_over);
            series.ended = Some(ended);
            return Err(error);
        }
        here.map(|value| (Collective { ranks: self, turn, descriptors }, value))
    }

    fn describe(&self, call: &Call<'_>, series: &Series, failure: Option<&Error>) -> Descriptor {
        let (status, text) = match failure {
            None => (Status::Ok, call.what.to_string()),
            // Little of a message fits: what went wrong comes first, and not who was stopped by it.
            Some(error) => {
                let brief = error.replicas().map(ReplicaFailures::brief);
                (error.status(), brief.unwrap_or_else(|| error.to_string()))
            }
        };
        Descriptor {
            kind: call.kind,
            status,
            strategy: self.tag,
            series: series.number,
            operation: series.operation,
            step: series.step,
            agreement: call.agreement,
            numbers: call.numbers,
            length: call.length as u64,
            text,
        }
    }

    fn exchange(&self, own: &Descriptor) -> Result<Vec<Descriptor>> {
        let _span = observe::span(Phase::Exchange);
        let bytes = self.gather_alike(&own.encode())?;
        bytes
            .chunks(BYTES)
            .enumerate()
            .map(|(rank, bytes)| Descriptor::decode(bytes, rank))
            .collect()
    }

    /// What ranks differ in that are at the same place: all ask each other, since all see that they do.
    fn difference(
        &self,
        descriptors: &[Descriptor],
        quantities: &Quantities<'_>,
    ) -> Result<Option<Difference>> {
        match differ_in_quantities(descriptors) {
            true => self.first_difference(quantities),
            false => Ok(None),
        }
    }

    /// Uses the engine no more, which has failed; the error of the call that has found it out.
    fn break_off(&self, turn: &mut Turn, error: &Error, own: &Descriptor) -> Error {
        let rank = match error.unnamed() {
            Error::Rank { rank, .. } => *rank,
            _ => None,
        };
        let message = format!(
            "the ranks cannot meet any more ({}: {error}), found at {} on rank {}; what needs all ranks \
             fails from now on: end the job, and go on from the last checkpoint",
            error.status().name(),
            own.text,
            self.rank()
        );
        let ended = turn.broken.insert(Ended { rank, status: Status::Unavailable, message });
        match error.status() {
            // This call has waited for it; those that follow do not.
            Status::DeadlineExceeded => {
                Ended { status: Status::DeadlineExceeded, ..ended.clone() }.error()
            }
            _ => ended.error(),
        }
    }
}

/// What failed, if a rank has.
fn failures(descriptors: &[Descriptor]) -> Option<Ended> {
    let failed = || {
        descriptors.iter().enumerate().filter(|(_, descriptors)| descriptors.status != Status::Ok)
    };
    let (rank, first) = failed().next()?;
    let lines: Vec<String> = failed()
        .map(|(rank, descriptors)| {
            format!("rank {rank} failed: {}: {}", descriptors.status.name(), descriptors.text)
        })
        .collect();
    Some(Ended { rank: Some(rank), status: first.status, message: lines.join("\n") })
}

impl Collective<'_> {
    /// The numbers of each rank.
    pub fn numbers(&self) -> impl Iterator<Item = [u64; 2]> {
        self.descriptors.iter().map(|descriptors| descriptors.numbers)
    }

    /// What all ranks have to send, which is as many bytes as each has announced.
    pub fn all_gather(&mut self, send: &[u8]) -> Result<Gathered> {
        let counts: Vec<usize> =
            self.descriptors.iter().map(|descriptors| descriptors.length as usize).collect();
        let all = counts.iter().try_fold(0_usize, |sum, &count| sum.checked_add(count));
        let mut bytes = zeros(all.unwrap_or(usize::MAX))?;
        self.all_gather_into(send, &mut bytes, &counts)?;
        Ok(Gathered { bytes, counts })
    }

    /// As [`Collective::all_gather`], of parts whose lengths all ranks know, into memory of the caller's.
    pub fn all_gather_into(
        &mut self,
        send: &[u8],
        receive: &mut [u8],
        counts: &[usize],
    ) -> Result<()> {
        if receive.is_empty() {
            return Ok(());
        }
        let bytes = (send.len(), receive.len());
        self.exchange(bytes, |collective| collective.ranks.engine.all_gather(send, receive, counts))
    }

    /// Sends a part to each rank, and receives one from each.
    pub fn all_to_all(
        &mut self,
        (send, send_counts): (&[u8], &[usize]),
        (receive, receive_counts): (&mut [u8], &[usize]),
    ) -> Result<()> {
        self.exchange((send.len(), receive.len()), |collective| {
            collective.ranks.engine.all_to_all(send, send_counts, receive, receive_counts)
        })
    }

    /// As [`Collective::all_to_all`], of memory of GPUs, which what joins the ranks has to move.
    pub fn all_to_all_on_gpus(
        &mut self,
        (send, send_counts): (&DeviceMemory, &[usize]),
        (receive, receive_counts): (&mut DeviceMemory, &[usize]),
    ) -> Result<()> {
        self.exchange((send_counts.iter().sum(), receive_counts.iter().sum()), |collective| {
            collective.on_gpus()?.all_to_all_on_gpus(send, send_counts, receive, receive_counts)
        })
    }

    /// As [`Collective::all_gather_into`], of memory of GPUs.
    pub fn all_gather_on_gpus(
        &mut self,
        send: &DeviceMemory,
        receive: &mut DeviceMemory,
        counts: &[usize],
    ) -> Result<()> {
        self.exchange((counts[self.ranks.rank()], counts.iter().sum()), |collective| {
            collective.on_gpus()?.all_gather_on_gpus(send, receive, counts)
        })
    }

    fn on_gpus(&self) -> Result<&dyn GpuCommunicator> {
        let none = || Error::Internal("an engine that moves no memory of GPUs".into());
        self.ranks.engine.on_gpus().ok_or_else(none)
    }

    /// Replaces `bytes` by those of rank 0.
    pub fn broadcast(&mut self, bytes: &mut [u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.exchange((bytes.len(), 0), |collective| collective.ranks.engine.broadcast(bytes, 0))
    }

    /// Exchanges so many bytes, sent and received. Ranks that cannot do so do not meet any more.
    fn exchange(
        &mut self,
        (sent, received): (usize, usize),
        exchange: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        let _span = observe::span(Phase::Exchange);
        count(sent, received);
        exchange(self).map_err(|error| {
            self.ranks.break_off(&mut self.turn, &error, &self.descriptors[self.ranks.rank()])
        })
    }
}

/// What all ranks have sent.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    counts: Vec<usize>,
}

impl Gathered {
    /// The bytes of each rank, in rank order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.counts.iter().map(move |&count| {
            let (part, behind) = rest.split_at(count);
            rest = behind;
            part
        })
    }
}

/// So many bytes, all 0.
pub(crate) fn zeros(bytes: usize) -> Result<Vec<u8>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).map_err(|_| {
        Error::ResourceExhausted(format!("{bytes} bytes of memory to exchange between ranks"))
    })?;
    memory.resize(bytes, 0);
    Ok(memory)
}
