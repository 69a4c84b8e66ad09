//! Collectives of ranks. Each begins with an exchange of descriptors, which is also a vote.

use std::fmt;

use super::descriptor::{CollectiveKind, Descriptor, PASSED_OVER};
use super::descriptors::Descriptors;
use super::disagreement::{
    QuantityDifference, all_agree, differ_in_quantities, disagreement, lengths_differ,
};
use super::group::{Ranks, count};
use super::quantities::{Quantities, agreement_of};
use super::series::{CommunicatorState, Ended, Series};
use parking_lot::MutexGuard;
use umbo_base::error::{Error, ReplicaFailures, Result, Status, memory};
use umbo_base::observe::{self, Phase};
use umbo_comm::communicator::{EngineCall, Incoming, Outgoing};

/// A rank's call of a collective.
pub struct Call<'a> {
    /// The kind of the collective.
    pub kind: CollectiveKind,
    /// The operation, for messages.
    pub purpose: &'a dyn fmt::Display,
    /// The hash that must be equal on all ranks; see [`super::agreement`].
    pub agreement: u64,
    /// The quantities of that hash, which are formatted where ranks differ.
    pub quantities: &'a Quantities<'a>,
    /// Numbers for the others.
    pub numbers: [u64; 2],
    /// The number of bytes this rank will send to all ([`Collective::all_gather`]).
    pub length: usize,
}

impl<'a> Call<'a> {
    /// A call that sends only this rank's operation.
    pub fn to(kind: CollectiveKind, purpose: &'a dyn fmt::Display) -> Call<'a> {
        Call {
            kind,
            purpose,
            agreement: 0,
            quantities: &|_| {},
            numbers: [0; 2],
            length: 0,
        }
    }

    /// The same call, with quantities that must be equal on all ranks.
    pub fn agreeing(self, quantities: &'a Quantities<'a>) -> Call<'a> {
        Call {
            agreement: agreement_of(quantities),
            quantities,
            ..self
        }
    }
}

/// From how many bytes on memory to gather may be refused. Less counts as the library's own
/// records.
const MUCH: usize = 4096;

/// A collective that all ranks have started, and in which none has failed. Ranks exchange data
/// while this lives; no other collective of the engine runs meanwhile.
pub struct Collective<'a> {
    ranks: &'a Ranks,
    turn: MutexGuard<'a, CommunicatorState>,
    descriptors: Descriptors,
}

impl Ranks {
    /// Begins a series of collectives. After a failure of one rank all later collectives of the
    /// series fail.
    pub(crate) fn begin(&self, step: u64) {
        if !self.is_alone() {
            self.series.lock().begin(step);
        }
    }

    /// Sets the step of the series.
    pub(crate) fn is_step(&self, step: u64) {
        self.series.lock().step = step;
    }

    /// Whether a rank passes over the run that this series was to begin.
    pub(crate) fn passes_over(&self) -> bool {
        self.series.lock().passes_over
    }

    /// Ends the series.
    pub(crate) fn finish(&self) {
        self.series.lock().is_open = false;
    }

    /// Starts a collective. `outcome` is this rank's own result: if it is an error, the collective
    /// fails on all ranks, and this rank gets its own error back.
    ///
    /// Fails with [`Error::Rank`] if another rank has failed or is at another operation, or if that
    /// happened earlier in the series (then nothing is exchanged); and with UNAVAILABLE if the
    /// engine fails.
    pub fn start_collective<T>(
        &self,
        call: Call<'_>,
        outcome: Result<T>,
    ) -> Result<(Collective<'_>, T)> {
        built_with!("ranks", "exchanges of ranks");
        let mut turn = self.turn.lock();
        let (descriptors, value) = self.exchange_descriptors(&mut turn, call, outcome)?;
        let collective = Collective {
            ranks: self,
            turn,
            descriptors,
        };
        Ok((collective, value))
    }

    fn exchange_descriptors<T>(
        &self,
        turn: &mut CommunicatorState,
        call: Call<'_>,
        outcome: Result<T>,
    ) -> Result<(Descriptors, T)> {
        let (value, outcome) = match outcome {
            Ok(value) => (Some(value), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let descriptors = self.exchange_outcomes(turn, call, outcome)?;
        Ok((descriptors, value.expect("no rank has failed")))
    }

    /// Fails if `outcome` is an error, of whatever type the value is otherwise.
    fn exchange_outcomes(
        &self,
        turn: &mut CommunicatorState,
        call: Call<'_>,
        outcome: Result<()>,
    ) -> Result<Descriptors> {
        let series = &mut *self.series.lock();
        if !series.is_open {
            series.begin(0);
            series.is_open = false;
        }
        if let Some(ended) = turn.broken.as_ref().or(series.ended.as_ref()) {
            return Err(outcome.err().unwrap_or_else(|| ended.error()));
        }
        series.operation += 1;
        let descriptor = self.describe(&call, series, outcome.as_ref().err());
        let descriptors = match self.exchange(&descriptor) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                let broken = self.break_off(turn, &error, &descriptor.text);
                return Err(outcome.err().unwrap_or(broken));
            }
        };
        let differing = descriptors.that_differ();
        let ended = match failures(differing) {
            None if all_agree(differing) => lengths_differ(differing),
            None => match self.difference(differing, call.quantities) {
                Ok(difference) => Some(disagreement(differing, difference.as_ref())),
                Err(error) => {
                    let broken = self.break_off(turn, &error, &descriptor.text);
                    return Err(outcome.err().unwrap_or(broken));
                }
            },
            failed => failed,
        };
        if let Some(ended) = ended {
            let error = outcome.err().unwrap_or_else(|| ended.error());
            let passes_over =
                |it: &Descriptor| it.kind == CollectiveKind::Run && it.numbers[0] == PASSED_OVER;
            series.passes_over = differing.iter().any(passes_over);
            series.ended = Some(ended);
            return Err(error);
        }
        outcome.map(|()| descriptors)
    }

    fn describe(&self, call: &Call<'_>, series: &Series, failure: Option<&Error>) -> Descriptor {
        let (status, text) = match failure {
            None => (Status::Ok, call.purpose.to_string()),
            // Little of a message fits, so the cause comes first, and not the replicas that it
            // stopped.
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

    /// The quantity that differs between ranks that are at the same operation. All ranks take part,
    /// since all see that they differ.
    fn difference(
        &self,
        descriptors: &[Descriptor],
        quantities: &Quantities<'_>,
    ) -> Result<Option<QuantityDifference>> {
        match differ_in_quantities(descriptors) {
            true => self.first_difference(quantities),
            false => Ok(None),
        }
    }

    /// Marks the engine as broken, after a failure; returns the error of the call that has found
    /// it.
    fn break_off(&self, turn: &mut CommunicatorState, error: &Error, operation: &str) -> Error {
        let rank = match error.unnamed() {
            Error::Rank { rank, .. } => *rank,
            _ => None,
        };
        let message = format!(
            "the ranks cannot meet any more ({}: {error}), found at {} on rank {}; what needs all \
             ranks fails from now on: end the job, and resume from the last checkpoint",
            error.status().name(),
            operation,
            self.rank()
        );
        let ended = turn.broken.insert(Ended {
            rank,
            status: Status::Unavailable,
            message,
        });
        match error.status() {
            // Only this call has reached its deadline; later calls fail at once.
            Status::DeadlineExceeded => Ended {
                status: Status::DeadlineExceeded,
                ..ended.clone()
            }
            .error(),
            _ => ended.error(),
        }
    }
}

/// The failures of ranks, if there are any.
fn failures(descriptors: &[Descriptor]) -> Option<Ended> {
    let failed = || {
        descriptors
            .iter()
            .enumerate()
            .filter(|(_, descriptor)| descriptor.status != Status::Ok)
    };
    let (rank, first) = failed().next()?;
    let lines: Vec<String> = failed()
        .map(|(rank, descriptor)| {
            format!(
                "rank {rank} failed: {}: {}",
                descriptor.status.name(),
                descriptor.text
            )
        })
        .collect();
    Some(Ended {
        rank: Some(rank),
        status: first.status,
        message: lines.join("\n"),
    })
}

impl Collective<'_> {
    /// The numbers of each rank.
    pub fn numbers(&self) -> impl Iterator<Item = [u64; 2]> {
        self.descriptors.numbers()
    }

    /// Gathers the bytes of all ranks. Each rank sends as many as its descriptor says.
    pub fn all_gather(&mut self, send: &[u8]) -> Result<Gathered> {
        let gathered = self.reserve()?;
        self.all_gather_to(send, gathered)
    }

    /// Reserves the memory for [`Collective::all_gather_to`]. If there is much to gather, this is a
    /// vote: the other ranks must not wait for one that lacks the memory.
    pub fn reserve(&mut self) -> Result<Gathered> {
        let counts: Vec<usize> = self.descriptors.lengths().collect();
        let all = counts
            .iter()
            .try_fold(0_usize, |sum, &count| sum.checked_add(count));
        let all = all.unwrap_or(usize::MAX);
        if all < MUCH {
            return Ok(Gathered {
                bytes: vec![0; all],
                counts,
            });
        }
        let kind = self.descriptors.kind();
        let call = Call::to(kind, &"the memory for what the ranks send");
        let (_, bytes) = self
            .ranks
            .exchange_descriptors(&mut self.turn, call, zeros(all))?;
        Ok(Gathered { bytes, counts })
    }

    /// As [`Collective::all_gather`], into memory that is reserved.
    pub fn all_gather_to(&mut self, send: &[u8], mut to: Gathered) -> Result<Gathered> {
        self.all_gather_into(
            Outgoing::Host(send),
            Incoming::Host(&mut to.bytes),
            &to.counts,
        )?;
        Ok(to)
    }

    /// As [`Collective::all_gather`], with lengths that all ranks know, into the caller's memory.
    pub fn all_gather_into(
        &mut self,
        send: Outgoing<'_>,
        receive: Incoming<'_>,
        counts: &[usize],
    ) -> Result<()> {
        self.exchange(
            counts[self.ranks.rank()],
            counts.iter().sum(),
            EngineCall::AllGather {
                send,
                receive,
                counts,
            },
        )
    }

    /// Sends a part to each rank, and receives one from each.
    pub fn all_to_all(
        &mut self,
        send: Outgoing<'_>,
        send_counts: &[usize],
        receive: Incoming<'_>,
        receive_counts: &[usize],
    ) -> Result<()> {
        self.exchange(
            send_counts.iter().sum(),
            receive_counts.iter().sum(),
            EngineCall::AllToAll {
                send,
                send_counts,
                receive,
                receive_counts,
            },
        )
    }

    /// Replaces `bytes` by those of rank `root`.
    pub fn broadcast(&mut self, root: usize, bytes: &mut [u8]) -> Result<()> {
        self.exchange(bytes.len(), 0, EngineCall::Broadcast { bytes, root })
    }

    /// Makes a call of this many sent and received bytes, unless there are none on any rank. If it
    /// fails, the engine is broken.
    fn exchange(&mut self, sent: usize, received: usize, call: EngineCall<'_>) -> Result<()> {
        if sent + received == 0 && !matches!(call, EngineCall::AllToAll { .. }) {
            return Ok(());
        }
        let _span = observe::span(Phase::Exchange);
        count(sent, received);
        self.ranks.engine.call(call).map_err(|error| {
            let operation = self.descriptors.text(self.ranks.rank());
            self.ranks.break_off(&mut self.turn, &error, operation)
        })
    }
}

/// The bytes that all ranks have sent.
#[derive(Debug, Default)]
pub struct Gathered {
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

/// This many zero bytes.
pub fn zeros(bytes: usize) -> Result<Vec<u8>> {
    memory::filled(bytes, 0, "bytes to exchange between ranks")
}
