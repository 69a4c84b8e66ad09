//! Networks, whose latencies and rates are drawn from a seed.

/// A point in virtual time, or a span of it, in picoseconds.
pub type Time = u64;

/// Picoseconds of a microsecond.
const MICROSECOND: f64 = 1e6;

/// What a network is like.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// The mean time from one rank to another, in microseconds.
    pub latency_us: f64,
    /// The mean rate at which a rank sends, and at the same time receives, in gigabits a second.
    pub gbits: f64,
    /// The time that a rank spends on sending a message and on receiving one, in microseconds.
    pub message_us: f64,
    /// How far the drawn numbers lie from their mean, as a part of it.
    pub spread: f64,
    /// What is drawn depends on this number.
    pub seed: u64,
}

/// What a number is drawn for.
#[derive(Clone, Copy)]
enum Purpose {
    Rate = 1,
    Pair,
    Message,
    Computation,
}

impl Network {
    /// A factor around 1, the same for the same arguments.
    fn factor(&self, purpose: Purpose, from: usize, to: usize, number: u64) -> f64 {
        let words = [purpose as u64, from as u64, to as u64, number];
        let mixed = words.iter().fold(self.seed, |hash, word| mix(hash ^ word));
        let between_0_and_1 = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
        1.0 + self.spread * (2.0 * between_0_and_1 - 1.0)
    }

    /// The latency of message `number` from one rank to another. It is drawn for the two ranks, and
    /// again for the message.
    pub fn latency(&self, from: usize, to: usize, number: u64) -> Time {
        let pair = self.factor(Purpose::Pair, from.min(to), from.max(to), 0);
        let message = self.factor(Purpose::Message, from, to, number);
        (self.latency_us * MICROSECOND * pair * message) as Time
    }

    /// The time that so many bytes need on the way into rank `rank`, or out of it.
    pub fn transfer(&self, rank: usize, bytes: usize) -> Time {
        let per_byte = 8e3 / self.gbits / self.factor(Purpose::Rate, rank, 0, 0);
        (bytes as f64 * per_byte) as Time
    }

    /// The time that a rank spends on one end of a message.
    pub fn handling(&self) -> Time {
        (self.message_us * MICROSECOND / 2.0) as Time
    }

    /// The time that rank `rank` computes in step `step`, around a mean in microseconds.
    pub fn computation(&self, mean_us: f64, rank: usize, step: u64) -> Time {
        (mean_us * MICROSECOND * self.factor(Purpose::Computation, rank, 0, step)) as Time
    }
}

/// The finaliser of splitmix64.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
