//! When the messages of a collective arrive. They are those of the library's engine over MPI: a
//! reduction of a few words, which MPICH does by recursive doubling, and then messages from each
//! rank to each rank that has bytes for it, with 32 ranks at a time.

use crate::counts::{Counts, Kind};
use crate::network::{Network, Time};

/// The number of ranks with which messages are exchanged at a time.
const PEERS: usize = 32;

/// The bytes of a reduction: the least and greatest number of the call, and of the vote.
const WORDS: usize = 4 * size_of::<i64>();

/// The clocks of all ranks, and what they have sent.
pub struct Clocks<'a> {
    pub network: &'a Network,
    pub times: &'a mut [Time],
    pub counts: &'a mut [Counts],
    /// The number of messages so far, for what is drawn for each.
    pub number: &'a mut u64,
}

impl Clocks<'_> {
    /// Counts a call of each rank.
    pub fn call(&mut self, kind: Kind) {
        let counts = self.counts.iter_mut();
        counts.for_each(|counts| counts.of_mut(kind).calls += 1);
    }

    /// Counts a message, and returns how long it is on its way once it has left.
    fn send(&mut self, kind: Kind, from: usize, to: usize, bytes: usize) -> Time {
        let count = self.counts[from].of_mut(kind);
        count.messages += 1;
        count.bytes += bytes as u64;
        *self.number += 1;
        self.network.latency(from, to, *self.number)
    }

    /// Sends messages of `bytes` bytes between ranks at the same time; each rank sends one at most
    /// and receives one at most.
    fn stage(&mut self, kind: Kind, bytes: usize, messages: &[(usize, usize)]) {
        let handling = self.network.handling();
        let arrive = |&(from, to): &(usize, usize)| {
            let left = self.times[from] + handling + self.network.transfer(from, bytes);
            (from, to, left, left + self.send(kind, from, to, bytes))
        };
        let arrivals: Vec<_> = messages.iter().map(arrive).collect();
        for (from, _, left, _) in &arrivals {
            self.times[*from] = self.times[*from].max(*left);
        }
        for (_, to, _, arrival) in arrivals {
            self.times[to] = self.times[to].max(arrival) + handling;
        }
    }

    /// A reduction of a few words by recursive doubling. Ranks beyond a power of two have their
    /// neighbours take part for them.
    pub fn reduce(&mut self, kind: Kind) {
        let size = self.times.len();
        let doubling = 1 << size.ilog2();
        let beyond = size - doubling;
        let pairs = || (0..beyond).map(|at| (2 * at, 2 * at + 1));
        self.stage(kind, WORDS, &pairs().collect::<Vec<_>>());
        let rank = |at: usize| {
            if at < beyond { 2 * at + 1 } else { at + beyond }
        };
        for stage in 0..doubling.ilog2() {
            let messages = (0..doubling).map(|at| (rank(at), rank(at ^ 1 << stage)));
            self.stage(kind, WORDS, &messages.collect::<Vec<_>>());
        }
        let back = pairs().map(|(even, odd)| (odd, even));
        self.stage(kind, WORDS, &back.collect::<Vec<_>>());
    }

    /// Sends from each rank to each other rank as many bytes as `bytes` says, if there are any.
    pub fn exchange(&mut self, kind: Kind, bytes: &dyn Fn(usize, usize) -> usize) {
        let size = self.times.len();
        let handling = self.network.handling();
        for first in (1..size).step_by(PEERS) {
            let steps = first..size.min(first + PEERS);
            let mut arrivals: Vec<Vec<(Time, usize, usize)>> = vec![Vec::new(); size];
            let mut ready: Vec<Time> = self.times.to_vec();
            for (from, ready) in ready.iter_mut().enumerate() {
                // A rank begins all of its messages, which leave one after the other.
                let mut begun = self.times[from];
                let mut left = begun;
                for to in steps.clone().map(|step| (from + step) % size) {
                    let count = bytes(from, to);
                    if count == 0 {
                        continue;
                    }
                    begun += handling;
                    left = left.max(begun) + self.network.transfer(from, count);
                    let arrival = left + self.send(kind, from, to, count);
                    arrivals[to].push((arrival, from, count));
                }
                *ready = left.max(begun);
            }
            for (to, mut arrivals) in arrivals.into_iter().enumerate() {
                arrivals.sort_unstable();
                let mut inside = self.times[to];
                let mut time = ready[to];
                for (arrival, _, count) in arrivals {
                    // Bytes enter one message after the other, and no earlier than they come.
                    inside = arrival.max(inside + self.network.transfer(to, count));
                    time = time.max(inside) + handling;
                }
                self.times[to] = time;
            }
        }
    }

    /// Sends bytes of `root` to all ranks along a binomial tree.
    pub fn broadcast(&mut self, kind: Kind, root: usize, bytes: usize) {
        let size = self.times.len();
        let mut have = 1;
        while have < size {
            let messages = (0..have.min(size - have))
                .map(|at| ((root + at) % size, (root + at + have) % size));
            self.stage(kind, bytes, &messages.collect::<Vec<_>>());
            have *= 2;
        }
    }
}
