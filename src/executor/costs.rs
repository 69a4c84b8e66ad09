//! What it costs to share work between threads, and when that is worth it.
//!
//! Threads that wait for work spin for a moment and then park. To hand work to one that spins costs
//! about a microsecond; to wake one that has parked costs tens of them, more than all of a small
//! operation. Between two steps of a training loop the workers usually park. So the decision how many
//! threads take part weighs two estimates, both of them in nanoseconds: how long one thread would need,
//! from the bytes that the operation moves and the speed at which operations of that size have moved
//! theirs; and what waking has cost. Both are measured while work is done, since they differ between
//! machines by a factor of ten (a processor of a virtual machine that sleeps is woken by its host), and
//! start from guesses. A wrong decision costs time, never correctness: no result depends on the
//! number of threads.
//!
//! What was measured moves an estimate by a part of the difference, so that one preempted thread does
//! not decide what follows. An operation that is not shared measures no wake-up; each time that happens
//! the estimate of a wake-up becomes a little smaller, until it is measured again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Below this many bytes not even threads that spin are given a part.
pub(super) const INLINE_BYTES: usize = 256 << 10;

/// A worker gets at least this many bytes.
const BYTES_PER_WORKER: usize = 64 << 10;

/// What a wake-up is taken for before one was measured: more than a bare machine needs, less than many
/// a virtual one does.
const FIRST_GUESS: Costs =
    Costs { latency: Duration::from_micros(50), wake: Duration::from_micros(5) };

/// What one thread is thought to need for a mebibyte before it was measured, in nanoseconds. That is 32
/// bytes in a nanosecond, which is fast: too small a number of threads is corrected as soon as the
/// operation has been timed, while nothing would correct one that is too large but pays all the same.
const FIRST_PACE: u64 = (1 << 20) / 32;

/// Operations are told apart by the logarithm of their bytes: what fits into the caches is moved
/// faster.
const CLASSES: usize = usize::BITS as usize;

/// What stands for costs that are measured.
const NOT_FIXED: u64 = u64::MAX;

/// What it costs to have threads that have parked take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// How long it takes until those that are woken work.
    pub latency: Duration,
    /// How long the calling thread needs to wake one of them.
    pub wake: Duration,
}

impl Costs {
    /// Those of threads that never park: work is shared as soon as there is enough of it to cut.
    pub const NONE: Costs = Costs { latency: Duration::ZERO, wake: Duration::ZERO };
}

/// What was measured in this process.
pub(super) struct Estimates {
    /// Latency and wake-up that count whatever was measured; [`NOT_FIXED`] where that counts.
    fixed: [AtomicU64; 2],
    latency: AtomicU64,
    wake: AtomicU64,
    /// For each class, how long one thread needs for a mebibyte; 0 where nothing was measured.
    paces: [AtomicU64; CLASSES],
}

impl Estimates {
    pub const fn new() -> Estimates {
        Estimates {
            fixed: [const { AtomicU64::new(NOT_FIXED) }; 2],
            latency: AtomicU64::new(FIRST_GUESS.latency.as_nanos() as u64),
            wake: AtomicU64::new(FIRST_GUESS.wake.as_nanos() as u64),
            paces: [const { AtomicU64::new(0) }; CLASSES],
        }
    }

    /// From now on waking costs this, one thread moves 32 bytes in a nanosecond, and nothing is measured;
    /// with `None` what was measured counts again.
    pub fn fix(&self, costs: Option<Costs>) {
        let fixed = match costs {
            Some(costs) => [costs.latency, costs.wake].map(nanoseconds),
            None => [NOT_FIXED; 2],
        };
        for (kept, fixed) in self.fixed.iter().zip(fixed) {
            kept.store(fixed, Ordering::Relaxed);
        }
    }

    fn is_fixed(&self) -> bool {
        self.fixed[0].load(Ordering::Relaxed) != NOT_FIXED
    }

    /// What waking is thought to cost.
    pub fn costs(&self) -> Costs {
        let measured = [&self.latency, &self.wake];
        let [latency, wake] = [0, 1].map(|which| match self.fixed[which].load(Ordering::Relaxed) {
            NOT_FIXED => measured[which].load(Ordering::Relaxed),
            fixed => fixed,
        });
        Costs { latency: Duration::from_nanos(latency), wake: Duration::from_nanos(wake) }
    }

    /// How many threads, the calling one and at most `most` in all, are worth entering for work that
    /// moves `bytes` bytes, where the others spin.
    pub fn of_spinning(bytes: usize, most: usize) -> usize {
        if bytes < INLINE_BYTES {
            return 1;
        }
        most.min(bytes / BYTES_PER_WORKER).max(1)
    }

    /// The same where the others have parked: the number that is done first. With n threads that is
    /// after `alone / n`, the latency, and n - 1 wake-ups; it is least where n is the root of
    /// `alone / wake`.
    pub fn of_parked(&self, bytes: usize, most: usize) -> usize {
        let most = Estimates::of_spinning(bytes, most);
        if most == 1 {
            return 1;
        }
        let alone = self.alone(bytes);
        let Costs { latency, wake } = self.costs();
        let [latency, wake] = [latency, wake].map(nanoseconds);
        let best = usize::try_from((alone / wake.max(1)).isqrt()).unwrap_or(usize::MAX);
        let best = best.clamp(2, most);
        let shared = (alone / best as u64)
            .saturating_add(latency)
            .saturating_add(wake.saturating_mul(best as u64 - 1));
        if shared < alone {
            return best;
        }
        self.forget();
        1
    }

    /// One thread moved `bytes` bytes of an operation of `of` bytes.
    pub fn moved(&self, bytes: usize, of: usize, time: Duration) {
        if self.is_fixed() || bytes == 0 {
            return;
        }
        let sample = (u128::from(nanoseconds(time)) << 20) / bytes as u128;
        let sample = u64::try_from(sample).unwrap_or(u64::MAX).max(1);
        let pace = &self.paces[class(of)];
        let known = pace.load(Ordering::Relaxed);
        let known = if known == 0 { FIRST_PACE } else { known };
        pace.store(nearer(known, sample, 4), Ordering::Relaxed);
    }

    /// So many threads that had parked were woken in `waking`, and the last of them began to work when
    /// `latency` had passed.
    pub fn woke(&self, threads: usize, waking: Duration, latency: Duration) {
        if self.is_fixed() || threads == 0 {
            return;
        }
        let move_to = |estimate: &AtomicU64, sample: u64| {
            let known = estimate.load(Ordering::Relaxed);
            estimate.store(nearer(known, sample, 8), Ordering::Relaxed);
        };
        move_to(&self.wake, nanoseconds(waking) / threads as u64);
        move_to(&self.latency, nanoseconds(latency).saturating_sub(nanoseconds(waking)));
    }

    /// How long one thread would need for all.
    fn alone(&self, bytes: usize) -> u64 {
        let pace = match self.paces[class(bytes)].load(Ordering::Relaxed) {
            pace if pace > 0 && !self.is_fixed() => pace,
            _ => FIRST_PACE,
        };
        u64::try_from((bytes as u128 * u128::from(pace)) >> 20).unwrap_or(u64::MAX)
    }

    /// Work was not shared since waking is dear, so what it costs now is known a little less.
    fn forget(&self) {
        if !self.is_fixed() {
            let known = self.latency.load(Ordering::Relaxed);
            self.latency.store(known - known / 2048, Ordering::Relaxed);
        }
    }
}

/// The estimate that a sample makes of a `known` one: a part of the way, and not to many times what was
/// known, which is what a thread that was preempted shows.
fn nearer(known: u64, sample: u64, part: u64) -> u64 {
    let sample = sample.min(known.saturating_mul(4).max(1000));
    if sample >= known { known + (sample - known) / part } else { known - (known - sample) / part }
}

fn class(bytes: usize) -> usize {
    bytes.checked_ilog2().unwrap_or(0) as usize
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    /// Estimates of wake-ups of 40 microseconds, which the caller spends 4 on.
    fn estimates() -> Estimates {
        let estimates = Estimates::new();
        estimates.fix(Some(Costs { latency: 40 * MICROSECOND, wake: 4 * MICROSECOND }));
        estimates
    }

    #[test]
    fn the_number_of_threads_follows_the_work() {
        let estimates = estimates();
        // 10, 76, 131 and 1049 microseconds of one thread.
        let mut last = 1;
        for (bytes, of_two, of_many) in [
            (320_000, 1, 1),
            (2_500_000, 1, 4),
            (4 << 20, 2, 5),
            (32 << 20, 2, 16),
            (1 << 30, 2, 64),
        ] {
            assert_eq!(estimates.of_parked(bytes, 2), of_two, "{bytes} bytes");
            let most = estimates.of_parked(bytes, 64);
            assert_eq!(most, of_many, "{bytes} bytes");
            assert!(most >= last);
            last = most;
        }
        assert_eq!(estimates.of_parked(usize::MAX, 3), 3);
    }

    #[test]
    fn threads_that_spin_take_part_sooner() {
        for (bytes, expected) in
            [(0, 1), (INLINE_BYTES - 1, 1), (INLINE_BYTES, 4), (320_000, 4), (4 << 20, 64)]
        {
            assert_eq!(Estimates::of_spinning(bytes, 64), expected);
            assert!(estimates().of_parked(bytes, 64) <= expected);
            let free = Estimates::new();
            free.fix(Some(Costs::NONE));
            assert_eq!(free.of_parked(bytes, 64), expected);
        }
    }

    #[test]
    fn what_is_measured_decides() {
        let estimates = Estimates::new();
        let bytes = 1 << 20;
        assert_eq!(estimates.of_parked(bytes, 2), 1);
        // Slow work is worth sharing.
        for _ in 0..20 {
            estimates.moved(bytes / 2, bytes, 500 * MICROSECOND);
        }
        assert_eq!(estimates.of_parked(bytes, 2), 2);
        // Of other sizes nothing is known by that.
        assert_eq!(estimates.of_parked(bytes / 2, 2), 1);
        // Dear wake-ups outweigh it.
        for _ in 0..50 {
            estimates.woke(1, 4 * MICROSECOND, 2000 * MICROSECOND);
        }
        assert_eq!(estimates.of_parked(bytes, 2), 1);
        // They are forgotten in time, and tried again.
        let tries = (0..20_000).filter(|_| estimates.of_parked(bytes, 2) > 1).count();
        assert!((1..20_000).contains(&tries), "{tries}");
    }

    #[test]
    fn one_late_thread_is_not_believed() {
        let estimates = Estimates::new();
        estimates.woke(1, MICROSECOND, Duration::from_secs(1));
        assert!(estimates.costs().latency < 100 * MICROSECOND);
        let before = estimates.costs();
        estimates.fix(Some(before));
        estimates.woke(1, MICROSECOND, Duration::from_secs(1));
        estimates.moved(1 << 20, 1 << 20, Duration::from_secs(1));
        assert_eq!((estimates.costs(), estimates.alone(1 << 20)), (before, FIRST_PACE));
    }
}
