//! An engine whose ranks are threads of one process: it delays, and it lets ranks die, as a seed
//! says.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::cluster::communicator::{Communicator, EngineCall, Incoming, Outgoing, RankPlace};
use umbo_core::device::memory::DeviceMemory;
use umbo_core::error::{Error, Result, Status};

/// How long a rank waits for the others before it gives up. Nothing that goes right waits as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many calls the making of a strategy takes: a vote, and descriptors, since strategies of one
/// process have different numbers.
pub const STRATEGY: u64 = 2;

/// How many calls the making of a variable takes at most: a vote, descriptors where it lies on
/// GPUs of some ranks alone, and its first value.
pub const VARIABLE: u64 = 3;

/// What a rank sends: which call it is, and a part for each rank.
struct Sent {
    call: &'static str,
    parts: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Round {
    number: u64,
    sent: Vec<Option<Sent>>,
    taken: usize,
    /// The rank that has died.
    dead: Option<usize>,
}

/// Where the ranks meet.
pub struct Hall {
    round: Mutex<Round>,
    changed: Condvar,
}

/// One rank.
pub struct Rank {
    hall: Arc<Hall>,
    rank: usize,
    size: usize,
    delays: Mutex<Option<ChaCha8Rng>>,
    /// At which of its calls, from 0, this rank dies.
    dies_at: Option<u64>,
    /// From which of its calls on it waits for the others in vain.
    hangs_at: Option<u64>,
    calls: Mutex<u64>,
    /// Calls are not counted, nor does this rank die.
    is_joining: AtomicBool,
    bytes: AtomicU64,
    bytes_on_gpus: AtomicU64,
}

/// The ranks of one job.
pub fn ranks(size: usize) -> Vec<Arc<Rank>> {
    job(size, None, None)
}

/// The ranks of one job whose calls, from one on, wait for each other in vain.
pub fn hanging(size: usize, at: u64) -> Vec<Arc<Rank>> {
    let ranks = ranks(size).into_iter().map(|rank| {
        let rank = Arc::into_inner(rank).unwrap();
        Arc::new(Rank {
            hangs_at: Some(at),
            ..rank
        })
    });
    ranks.collect()
}

/// The ranks of one job that are late by small times, as `delays` says, and of which one dies at
/// one of its calls.
pub fn job(size: usize, delays: Option<u64>, death: Option<(usize, u64)>) -> Vec<Arc<Rank>> {
    let round = Round {
        sent: (0..size).map(|_| None).collect(),
        ..Round::default()
    };
    let hall = Arc::new(Hall {
        round: Mutex::new(round),
        changed: Condvar::new(),
    });
    let rank = |rank| {
        Arc::new(Rank {
            hall: Arc::clone(&hall),
            rank,
            size,
            delays: Mutex::new(delays.map(|seed| ChaCha8Rng::seed_from_u64(seed + rank as u64))),
            dies_at: death.filter(|(who, _)| *who == rank).map(|(_, at)| at),
            hangs_at: None,
            calls: Mutex::new(0),
            is_joining: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            bytes_on_gpus: AtomicU64::new(0),
        })
    };
    (0..size).map(rank).collect()
}

impl Rank {
    /// How many calls this rank has made.
    pub fn calls(&self) -> u64 {
        *self.calls.lock().unwrap()
    }

    /// Has `join` make calls that do not count: those of before a test begins.
    pub fn while_joining<T>(&self, join: impl FnOnce() -> T) -> T {
        self.is_joining.store(true, Ordering::Relaxed);
        let joined = join();
        self.is_joining.store(false, Ordering::Relaxed);
        joined
    }

    /// How many bytes were given to calls of this rank, to be sent or for what is received.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        if self.is_joining.load(Ordering::Relaxed) {
            return;
        }
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many of these lay on GPUs.
    pub fn bytes_on_gpus(&self) -> u64 {
        self.bytes_on_gpus.load(Ordering::Relaxed)
    }

    /// Writes what was received, and counts it and what was sent if they are on GPUs.
    fn receive(
        &self,
        to: Incoming<'_>,
        received: &[Vec<u8>],
        counts: &[usize],
        sent: usize,
    ) -> Result<()> {
        assert!(received.iter().map(Vec::len).eq(counts.iter().copied()));
        let received = received.concat();
        match to {
            Incoming::Host(to) => to.copy_from_slice(&received),
            Incoming::Device(to) => {
                self.bytes_on_gpus
                    .fetch_add((sent + received.len()) as u64, Ordering::Relaxed);
                up(to, &received)?;
            }
        }
        Ok(())
    }

    /// A rank whose GPU fails in the middle of a call is gone for the others.
    fn or_dead<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.abort(error))
    }

    fn gone(&self, rank: usize) -> Error {
        let message = format!("rank {rank} has died");
        Error::Rank {
            rank: Some(rank),
            status: Status::Unavailable,
            message,
        }
    }

    fn exchange(&self, call: &'static str, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        if let Some(delays) = &mut *self.delays.lock().unwrap()
            && delays.random_bool(0.3)
        {
            std::thread::sleep(Duration::from_micros(delays.random_range(0..300)));
        }
        let counts = !self.is_joining.load(Ordering::Relaxed);
        let number = {
            let mut calls = self.calls.lock().unwrap();
            *calls += u64::from(counts);
            calls.saturating_sub(1)
        };
        if counts && self.hangs_at.is_some_and(|at| number >= at) {
            return Err(Error::DeadlineExceeded(format!(
                "{call}: not all ranks have come"
            )));
        }
        let mut round = self.hall.round.lock().unwrap();
        if counts && self.dies_at.is_some_and(|at| number >= at) {
            round.dead = Some(self.rank);
            self.hall.changed.notify_all();
            return Err(Error::Internal("this rank has died".into()));
        }
        let until = Instant::now() + PATIENCE;
        let number = round.number;
        round.sent[self.rank] = Some(Sent { call, parts });
        self.hall.changed.notify_all();
        while round.number == number && round.sent.iter().any(Option::is_none) {
            if let Some(dead) = round.dead {
                return Err(self.gone(dead));
            }
            if Instant::now() > until {
                return Err(Error::DeadlineExceeded(format!(
                    "{call}: not all ranks have come"
                )));
            }
            (round, _) = self.hall.changed.wait_timeout(round, PATIENCE).unwrap();
        }
        let received = round
            .sent
            .iter()
            .map(|sent| {
                let sent = sent.as_ref().unwrap();
                assert_eq!(
                    sent.call, call,
                    "the ranks make different calls of the engine"
                );
                sent.parts[self.rank].clone()
            })
            .collect();
        round.taken += 1;
        if round.taken == self.size {
            round.taken = 0;
            round.number += 1;
            round.sent.iter_mut().for_each(|sent| *sent = None);
            self.hall.changed.notify_all();
        }
        // The next call must not find what others have yet to take.
        while round.number == number {
            (round, _) = self.hall.changed.wait_timeout(round, PATIENCE).unwrap();
        }
        Ok(received)
    }
}

impl Communicator for Rank {
    fn place(&self) -> RankPlace {
        let rank = self.rank;
        let size = self.size;
        RankPlace {
            rank,
            size,
            node_rank: rank,
            node_size: size,
        }
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        match call {
            EngineCall::AllToAll {
                send,
                send_counts,
                receive,
                receive_counts,
            } => {
                assert_eq!(
                    (send_counts.len(), receive_counts.len()),
                    (self.size, self.size)
                );
                let send = self.or_dead(sent(&send, send_counts.iter().sum()))?;
                self.count(send.len() + receive_counts.iter().sum::<usize>());
                let mut rest = &send[..];
                let parts = send_counts
                    .iter()
                    .map(|&count| rest.split_off(..count).unwrap());
                let parts = parts.map(<[u8]>::to_vec).collect();
                let received = self.exchange("all_to_all", parts)?;
                self.or_dead(self.receive(receive, &received, receive_counts, send.len()))
            }
            EngineCall::AllGather {
                send,
                receive,
                counts,
            } => {
                let send = self.or_dead(sent(&send, counts[self.rank]))?;
                self.count(send.len() + counts.iter().sum::<usize>());
                let received = self.exchange("all_gather", vec![send.clone(); self.size])?;
                self.or_dead(self.receive(receive, &received, counts, send.len()))
            }
            EngineCall::Broadcast { bytes, root } => {
                self.count(bytes.len());
                let received = self.exchange("broadcast", vec![bytes.to_vec(); self.size])?;
                bytes.copy_from_slice(&received[root]);
                Ok(())
            }
            EngineCall::Vote(vote) => {
                let own_vote = vote.least.to_le_bytes().to_vec();
                let received = self.exchange("vote", vec![own_vote; self.size])?;
                let numbers = received
                    .iter()
                    .map(|bytes| i64::from_le_bytes(bytes[..].try_into().unwrap()));
                (vote.least, vote.greatest) =
                    (numbers.clone().min().unwrap(), numbers.max().unwrap());
                Ok(())
            }
            EngineCall::Barrier => self
                .exchange("barrier", vec![Vec::new(); self.size])
                .map(drop),
        }
    }

    fn moves_device_memory(&self) -> bool {
        super::on_gpus::moves_device_memory()
    }

    fn abort(&self, _: &Error) {
        self.hall.round.lock().unwrap().dead = Some(self.rank);
        self.hall.changed.notify_all();
    }
}

/// What lies at the beginning of a GPU's memory.
pub fn down(memory: &DeviceMemory, bytes: usize) -> Result<Vec<u8>> {
    assert!(bytes <= memory.bytes());
    let mut bytes_on_host = vec![0; bytes];
    // SAFETY: there are as many bytes on both sides.
    unsafe {
        memory
            .backend()
            .download(memory.address(), bytes_on_host.as_mut_ptr(), bytes)
    }?;
    Ok(bytes_on_host)
}

/// Replaces it.
pub fn up(memory: &DeviceMemory, bytes: &[u8]) -> Result<()> {
    assert!(bytes.len() <= memory.bytes());
    // SAFETY: there are as many bytes on both sides.
    unsafe {
        memory
            .backend()
            .upload(bytes.as_ptr(), memory.address(), bytes.len())
    }
}

/// The bytes that are sent.
fn sent(sent: &Outgoing<'_>, bytes: usize) -> Result<Vec<u8>> {
    match sent {
        Outgoing::Host(all) => {
            assert_eq!(all.len(), bytes);
            Ok(all.to_vec())
        }
        Outgoing::Device(memory) => down(memory, bytes),
    }
}
