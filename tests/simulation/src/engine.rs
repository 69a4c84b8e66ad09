//! The communicator: ranks are threads of one process, which meet in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use umbo_core::cluster::communicator::{Communicator, EngineCall, RankPlace};
use umbo_core::error::{Error, Result};
use umbo_core::system::clock;

use crate::counts::{Counts, Kind};
use crate::memory::uncounted;
use crate::network::{Network, Time};
use crate::timing::Clocks;

/// How the descriptors of ranks begin, and how many bytes each has.
const DESCRIPTOR: (&[u8], usize) = (b"BMU", 256);

/// Up to so many bytes of each rank are a record.
const RECORD: usize = 4096;

/// What a rank brings to a collective.
enum Sent {
    /// The bytes, and where those for each rank begin and the last end.
    AllToAll(Vec<u8>, Vec<usize>),
    AllGather(Vec<u8>, Vec<usize>),
    Broadcast(Vec<u8>, usize),
    Vote(i64),
    Barrier,
}

/// What all ranks have brought.
type Met = Arc<Vec<Sent>>;

struct Meeting {
    sent: Vec<Option<Sent>>,
    /// The threads of the ranks that have come.
    come: Vec<Thread>,
    last: Met,
    times: Vec<Time>,
    counts: Vec<Counts>,
    messages: u64,
    /// Why a rank has given up.
    dead: Option<String>,
}

struct Hall {
    network: Network,
    meeting: Mutex<Meeting>,
    /// The number of collectives so far.
    number: AtomicU64,
    /// Whether a rank has given up.
    is_over: AtomicBool,
}

/// One rank.
pub struct Rank {
    hall: Arc<Hall>,
    rank: usize,
    size: usize,
    /// The time of its processor that this rank has spent in the simulator, in nanoseconds.
    simulating: Mutex<u64>,
}

/// The ranks of one job.
pub fn ranks(size: usize, network: Network) -> Vec<Arc<Rank>> {
    let meeting = Meeting {
        sent: (0..size).map(|_| None).collect(),
        come: Vec::new(),
        last: Arc::default(),
        times: vec![0; size],
        counts: vec![Counts::default(); size],
        messages: 0,
        dead: None,
    };
    let hall = Arc::new(Hall {
        network,
        meeting: Mutex::new(meeting),
        number: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    let rank = |rank| {
        Arc::new(Rank {
            hall: Arc::clone(&hall),
            rank,
            size,
            simulating: Mutex::default(),
        })
    };
    (0..size).map(rank).collect()
}

impl Hall {
    fn meeting(&self) -> MutexGuard<'_, Meeting> {
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails all calls of ranks from now on.
    fn end(&self, meeting: &mut Meeting, reason: String) {
        meeting.dead.get_or_insert(reason);
        self.is_over.store(true, Ordering::Release);
        let come = std::mem::take(&mut meeting.come);
        come.iter().for_each(Thread::unpark);
    }
}

impl Meeting {
    /// Lets time pass as the collective does in which all ranks are.
    fn pass(&mut self, network: &Network) -> Result<()> {
        let sent: Vec<Sent> = self.sent.iter_mut().filter_map(Option::take).collect();
        let kind = kind_of(&sent)?;
        let mut clocks = Clocks {
            network,
            times: &mut self.times,
            counts: &mut self.counts,
            number: &mut self.messages,
        };
        clocks.call(kind);
        clocks.reduce(kind);
        match &sent[0] {
            Sent::AllToAll(..) => clocks.exchange(kind, &|from, to| match &sent[from] {
                Sent::AllToAll(_, starts) => starts[to + 1] - starts[to],
                _ => 0,
            }),
            Sent::AllGather(_, counts) => clocks.exchange(kind, &|from, _| counts[from]),
            Sent::Broadcast(_, root) => {
                let bytes = match &sent[*root] {
                    Sent::Broadcast(bytes, _) => bytes.len(),
                    _ => 0,
                };
                clocks.broadcast(kind, *root, bytes);
            }
            Sent::Vote(_) | Sent::Barrier => {}
        }
        self.last = Arc::new(sent);
        Ok(())
    }
}

/// The kind of a collective, if all ranks are in the same one.
fn kind_of(sent: &[Sent]) -> Result<Kind> {
    let first = std::mem::discriminant(&sent[0]);
    if sent
        .iter()
        .any(|other| std::mem::discriminant(other) != first)
    {
        return Err(Error::Internal("ranks are in different calls".into()));
    }
    Ok(match &sent[0] {
        Sent::AllToAll(..) => Kind::AllToAll,
        Sent::AllGather(bytes, counts) => {
            let is_descriptor = bytes.len() == DESCRIPTOR.1 && bytes[1..4] == *DESCRIPTOR.0;
            match counts.iter().max() {
                _ if is_descriptor => Kind::Descriptors,
                Some(&most) if most > RECORD => Kind::AllGather,
                _ => Kind::Records,
            }
        }
        Sent::Broadcast(..) => Kind::Broadcast,
        Sent::Vote(_) | Sent::Barrier => Kind::Vote,
    })
}

impl Rank {
    /// This rank's clock.
    pub fn time(&self) -> Time {
        self.hall.meeting().times[self.rank]
    }

    /// What this rank has sent so far.
    pub fn counts(&self) -> Counts {
        self.hall.meeting().counts[self.rank]
    }

    /// Lets this rank compute for a time.
    pub fn compute(&self, time: Time) {
        self.hall.meeting().times[self.rank] += time;
    }

    /// The time, in nanoseconds, that a processor has worked for this rank, without the simulator.
    pub fn worked(&self) -> u64 {
        let simulating = self.simulating.lock();
        clock::on_processor() - *simulating.unwrap_or_else(PoisonError::into_inner)
    }

    fn meet(&self, sent: Sent) -> Result<Met> {
        let hall = &self.hall;
        let mut meeting = hall.meeting();
        let number = hall.number.load(Ordering::Relaxed);
        meeting.sent[self.rank] = Some(sent);
        meeting.come.push(thread::current());
        if meeting.come.len() == self.size {
            if let Err(error) = meeting.pass(&hall.network) {
                // No rank may take what the collective before has left.
                hall.end(&mut meeting, error.to_string());
            }
            let come = std::mem::take(&mut meeting.come);
            hall.number.fetch_add(1, Ordering::Release);
            drop(meeting);
            come.iter().for_each(Thread::unpark);
        } else {
            drop(meeting);
            while hall.number.load(Ordering::Acquire) == number
                && !hall.is_over.load(Ordering::Acquire)
            {
                thread::park();
            }
        }
        let meeting = hall.meeting();
        match &meeting.dead {
            Some(reason) => Err(Error::Unavailable(reason.clone())),
            None => Ok(Arc::clone(&meeting.last)),
        }
    }

    fn move_bytes(&self, call: EngineCall<'_>) -> Result<()> {
        match call {
            EngineCall::AllToAll {
                send,
                send_counts,
                receive,
                ..
            } => {
                let ends = send_counts.iter().scan(0, |end, count| {
                    *end += count;
                    Some(*end)
                });
                let starts = std::iter::once(0).chain(ends).collect();
                let sent = Sent::AllToAll(send.on_host()?.to_vec(), starts);
                let mut to = receive.on_host()?;
                for sent in self.meet(sent)?.iter() {
                    if let Sent::AllToAll(bytes, starts) = sent {
                        put(&mut to, &bytes[starts[self.rank]..starts[self.rank + 1]]);
                    }
                }
            }
            EngineCall::AllGather {
                send,
                receive,
                counts,
            } => {
                let sent = Sent::AllGather(send.on_host()?.to_vec(), counts.to_vec());
                let mut to = receive.on_host()?;
                for sent in self.meet(sent)?.iter() {
                    if let Sent::AllGather(bytes, _) = sent {
                        put(&mut to, bytes);
                    }
                }
            }
            EngineCall::Broadcast { mut bytes, root } => {
                let sent = if self.rank == root { &*bytes } else { &[] };
                let met = self.meet(Sent::Broadcast(sent.to_vec(), root))?;
                if let Sent::Broadcast(of_root, _) = &met[root] {
                    put(&mut bytes, of_root);
                }
            }
            EngineCall::Vote(vote) => {
                for sent in self.meet(Sent::Vote(vote.least))?.iter() {
                    if let Sent::Vote(number) = sent {
                        vote.least = vote.least.min(*number);
                        vote.greatest = vote.greatest.max(*number);
                    }
                }
            }
            EngineCall::Barrier => drop(self.meet(Sent::Barrier)?),
        }
        Ok(())
    }
}

/// Writes bytes to the front of `to`, and goes past them.
fn put(to: &mut &mut [u8], bytes: &[u8]) {
    let (place, rest) = std::mem::take(to).split_at_mut(bytes.len());
    place.copy_from_slice(bytes);
    *to = rest;
}

impl Communicator for Rank {
    fn place(&self) -> RankPlace {
        RankPlace {
            rank: self.rank,
            size: self.size,
            // Each rank is a machine.
            node_rank: 0,
            node_size: 1,
        }
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        let before = clock::on_processor();
        let done = uncounted(|| self.move_bytes(call));
        let mut simulating = self
            .simulating
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *simulating += clock::on_processor() - before;
        done
    }

    fn abort(&self, error: &Error) {
        let reason = format!("rank {} has given up: {error}", self.rank);
        self.hall.end(&mut self.hall.meeting(), reason);
    }
}
