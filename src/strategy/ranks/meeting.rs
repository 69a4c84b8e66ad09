//! Meetings: what ranks do together begins with each saying where it is, which is also a vote.

use std::fmt;

use super::Ranks;
use super::descriptor::{BYTES, Descriptor, Kind};
use crate::cluster::communicator::GpuCommunicator;
use crate::device::cuda::memory::DeviceMemory;
use crate::error::{Error, ReplicaFailures, Result, Status};
use crate::executor::lock::MutexGuard;
use crate::observe::{self, Counter, Phase};

/// What this rank calls the others for.
pub(crate) struct Call<'a> {
    pub kind: Kind,
    /// What it is at, for messages.
    pub what: &'a dyn fmt::Display,
    /// What all ranks must agree about; see [`super::agreement`].
    pub agreement: u64,
    /// Numbers for the others.
    pub numbers: [u64; 2],
    /// How many bytes this rank will send to all ([`Meeting::all_gather`]).
    pub length: usize,
}

impl<'a> Call<'a> {
    /// A call that only says where this rank is.
    pub fn to(kind: Kind, what: &'a dyn fmt::Display) -> Call<'a> {
        Call { kind, what, agreement: 0, numbers: [0; 2], length: 0 }
    }
}

/// Why nothing more is exchanged, as often as somebody asks.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    rank: Option<usize>,
    status: Status,
    message: String,
}

impl Ended {
    pub fn error(&self) -> Error {
        let Ended { rank, status, message } = self.clone();
        Error::Rank { rank, status, message }
    }
}

/// The state of a communicator, which several strategies may share.
#[derive(Default)]
pub(super) struct Turn {
    /// Why it cannot be used any more.
    pub broken: Option<Ended>,
}

/// The meetings of one step, of one change outside of steps, or a single one.
#[derive(Default)]
pub(super) struct Series {
    number: u64,
    operation: u64,
    is_open: bool,
    step: u64,
    ended: Option<Ended>,
}

impl Series {
    /// Begins the next one. Outside of steps `step` is 0.
    fn begin(&mut self, step: u64) {
        *self = Series { number: self.number + 1, is_open: true, step, ..Series::default() };
    }
}

/// All ranks are here, for the same, and none has failed. What they exchange is exchanged while this
/// lives; nobody else meets meanwhile.
pub(crate) struct Meeting<'a> {
    ranks: &'a Ranks,
    turn: MutexGuard<'a, Turn>,
    said: Vec<Descriptor>,
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
    pub(crate) fn meet<T>(&self, call: Call<'_>, here: Result<T>) -> Result<(Meeting<'_>, T)> {
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
        let said = match self.exchange(&own) {
            Ok(said) => said,
            Err(error) => {
                let broken = turn.broken.insert(self.unavailable(&error, &own));
                return Err(here.err().unwrap_or_else(|| broken.error()));
            }
        };
        if let Some(ended) = failures(&said).or_else(|| disagreement(&said)) {
            let error = here.err().unwrap_or_else(|| ended.error());
            series.ended = Some(ended);
            return Err(error);
        }
        here.map(|value| (Meeting { ranks: self, turn, said }, value))
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
        let size = self.size();
        let mut bytes = vec![0; BYTES * size];
        count(BYTES, bytes.len());
        self.engine.all_gather(&own.encode(), &mut bytes, &vec![BYTES; size])?;
        bytes
            .chunks(BYTES)
            .enumerate()
            .map(|(rank, bytes)| Descriptor::decode(bytes, rank))
            .collect()
    }

    fn unavailable(&self, error: &Error, own: &Descriptor) -> Ended {
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
        Ended { rank, status: Status::Unavailable, message }
    }
}

/// What failed, if a rank has.
fn failures(said: &[Descriptor]) -> Option<Ended> {
    let failed = || said.iter().enumerate().filter(|(_, said)| said.status != Status::Ok);
    let (rank, first) = failed().next()?;
    let told: Vec<String> = failed()
        .map(|(rank, said)| format!("rank {rank} failed: {}: {}", said.status.name(), said.text))
        .collect();
    Some(Ended { rank: Some(rank), status: first.status, message: told.join("\n") })
}

/// Who is where, if not all are at the same place.
fn disagreement(said: &[Descriptor]) -> Option<Ended> {
    let first = said.first()?;
    if said.iter().all(|other| first.agrees_with(other)) {
        return None;
    }
    let places = said.iter().enumerate();
    let places: Vec<_> =
        places.map(|(rank, said)| format!("rank {rank} {}", said.place())).collect();
    let alike = said.iter().all(|other| other.text == first.text);
    let hint = match alike {
        true => ", but with other shapes, names or options",
        false => "",
    };
    let message = format!(
        "the ranks disagree: {}{hint}; all ranks must run the same program: the same calls in the same \
         order",
        places.join("; ")
    );
    Some(Ended { rank: None, status: Status::FailedPrecondition, message })
}

impl Meeting<'_> {
    /// The numbers of each rank.
    pub fn numbers(&self) -> impl Iterator<Item = [u64; 2]> {
        self.said.iter().map(|said| said.numbers)
    }

    /// What all ranks have to send, which is as many bytes as each has announced.
    pub fn all_gather(&mut self, send: &[u8]) -> Result<Vec<Vec<u8>>> {
        let counts: Vec<usize> = self.said.iter().map(|said| said.length as usize).collect();
        let mut received = room(counts.iter().sum())?;
        if !received.is_empty() {
            let _span = observe::span(Phase::Exchange);
            count(send.len(), received.len());
            let gathered = self.ranks.engine.all_gather(send, &mut received, &counts);
            self.check(gathered)?;
        }
        let mut rest = received.as_slice();
        let cut = counts.iter().map(|&count| {
            let (part, behind) = rest.split_at(count);
            rest = behind;
            part.to_vec()
        });
        Ok(cut.collect())
    }

    /// As [`Meeting::all_gather`], of parts whose lengths all ranks know, into memory of the caller's.
    pub fn all_gather_into(
        &mut self,
        send: &[u8],
        receive: &mut [u8],
        counts: &[usize],
    ) -> Result<()> {
        if receive.is_empty() {
            return Ok(());
        }
        let _span = observe::span(Phase::Exchange);
        count(send.len(), receive.len());
        let gathered = self.ranks.engine.all_gather(send, receive, counts);
        self.check(gathered)
    }

    /// Sends a part to each rank, and receives one from each.
    pub fn all_to_all(
        &mut self,
        (send, send_counts): (&[u8], &[usize]),
        (receive, receive_counts): (&mut [u8], &[usize]),
    ) -> Result<()> {
        let _span = observe::span(Phase::Exchange);
        count(send.len(), receive.len());
        let sent = self.ranks.engine.all_to_all(send, send_counts, receive, receive_counts);
        self.check(sent)
    }

    /// As [`Meeting::all_to_all`], of memory of GPUs, which what joins the ranks has to move.
    pub fn all_to_all_on_gpus(
        &mut self,
        (send, send_counts): (&DeviceMemory, &[usize]),
        (receive, receive_counts): (&mut DeviceMemory, &[usize]),
    ) -> Result<()> {
        let _span = observe::span(Phase::Exchange);
        count(send_counts.iter().sum(), receive_counts.iter().sum());
        let sent = self.on_gpus().and_then(|engine| {
            engine.all_to_all_on_gpus(send, send_counts, receive, receive_counts)
        });
        self.check(sent)
    }

    /// As [`Meeting::all_gather_into`], of memory of GPUs.
    pub fn all_gather_on_gpus(
        &mut self,
        send: &DeviceMemory,
        receive: &mut DeviceMemory,
        counts: &[usize],
    ) -> Result<()> {
        let _span = observe::span(Phase::Exchange);
        count(counts[self.ranks.rank()], counts.iter().sum());
        let gathered =
            self.on_gpus().and_then(|engine| engine.all_gather_on_gpus(send, receive, counts));
        self.check(gathered)
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
        let _span = observe::span(Phase::Exchange);
        count(bytes.len(), 0);
        let sent = self.ranks.engine.broadcast(bytes, 0);
        self.check(sent)
    }

    /// An engine that has failed is used no more.
    fn check(&mut self, result: Result<()>) -> Result<()> {
        let Err(error) = result else { return Ok(()) };
        let ended = self.ranks.unavailable(&error, &self.said[self.ranks.rank()]);
        Err(self.turn.broken.insert(ended).error())
    }
}

/// So many bytes, all 0.
pub(crate) fn room(bytes: usize) -> Result<Vec<u8>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).map_err(|_| {
        Error::ResourceExhausted(format!("{bytes} bytes of memory to exchange between ranks"))
    })?;
    memory.resize(bytes, 0);
    Ok(memory)
}

/// Notes what goes out and comes in, what a rank sends to itself included.
fn count(sent: usize, received: usize) {
    observe::count(Counter::Exchanged, || (sent + received) as u64);
}
