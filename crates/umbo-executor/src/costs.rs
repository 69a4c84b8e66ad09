//! The cost of sharing work between threads, and the decision when it is worth it.
//!
//! Threads that wait for work spin for a moment and then park. It costs about a microsecond to hand
//! work to a thread that spins. To wake one that has parked costs tens of microseconds, which is
//! more than a small operation takes in all. Between two steps of a training loop the workers
//! usually park. So the decision how many threads take part compares two estimates, in nanoseconds:
//! the time that one thread would need, from the bytes that the operation moves and the speed of
//! earlier operations of that size; and the cost of waking. Both are measured while work is done,
//! because they differ between machines by a factor of ten (a sleeping processor of a virtual
//! machine is woken by its host). They start from guesses. A wrong decision costs time, but never
//! correctness: no result depends on the number of threads.
//!
//! A measurement moves an estimate by a part of the difference, so that a single preempted thread
//! does not determine later decisions. An operation that is not shared measures no wake-up. Each
//! time that this happens, the estimate of a wake-up is reduced a little, until it is measured
//! again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::wait::Spin;

/// Operations with fewer bytes than this are not shared, not even with threads that spin.
pub(super) const INLINE_BYTES: usize = 256 << 10;

/// A worker gets at least this many bytes.
const BYTES_PER_WORKER: usize = 64 << 10;

/// The assumed cost of a wake-up before one was measured. It is more than physical machines need,
/// and less than many virtual ones need.
const FIRST_GUESS: Costs = Costs {
    latency: Duration::from_micros(50),
    wake: Duration::from_micros(5),
};

/// The assumed time of one thread for a mebibyte before it was measured, in nanoseconds. It
/// corresponds to 32 bytes in a nanosecond, which is fast. If too few threads take part, the
/// estimate is corrected as soon as the operation has been timed. If too many took part but sharing
/// still paid off, nothing would correct the estimate.
const FIRST_PACE: u64 = (1 << 20) / 32;

/// Operations are classified by the logarithm of their bytes, because data that fits into the
/// caches is moved faster.
const CLASSES: usize = usize::BITS as usize;

/// The value of costs that are not fixed but measured.
const NOT_FIXED: u64 = u64::MAX;

/// The cost of using threads that have parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The time until the woken threads work.
    pub latency: Duration,
    /// The time that the calling thread needs to wake one of them.
    pub wake: Duration,
}

impl Costs {
    /// The costs of threads that never park. Work is shared as soon as there is enough of it to
    /// divide.
    pub const NONE: Costs = Costs {
        latency: Duration::ZERO,
        wake: Duration::ZERO,
    };
}

/// The measurements of this process.
pub(super) struct Estimates {
    /// The fixed latency and cost of a wake-up, which replace measurements, or [`NOT_FIXED`].
    fixed: [AtomicU64; 2],
    latency: AtomicU64,
    wake: AtomicU64,
    /// The time that one thread needs for a mebibyte of each class; 0 if it was not measured.
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

    /// Fixes the cost of waking. One thread then counts as moving 32 bytes in a nanosecond, and
    /// nothing is measured. With `None`, measurements are used again.
    pub fn fix(&self, costs: Option<Costs>) {
        let fixed = match costs {
            Some(costs) => [costs.latency, costs.wake].map(nanoseconds),
            None => [NOT_FIXED; 2],
        };
        for (kept, fixed) in self.fixed.iter().zip(fixed) {
            kept.store(fixed, Ordering::Relaxed);
        }
    }

    /// Whether the costs are fixed.
    fn is_fixed(&self) -> bool {
        self.fixed[0].load(Ordering::Relaxed) != NOT_FIXED
    }

    /// The estimated cost of waking.
    pub fn costs(&self) -> Costs {
        let measured = [&self.latency, &self.wake];
        let [latency, wake] = [0, 1].map(|which| match self.fixed[which].load(Ordering::Relaxed) {
            NOT_FIXED => measured[which].load(Ordering::Relaxed),
            fixed => fixed,
        });
        Costs {
            latency: Duration::from_nanos(latency),
            wake: Duration::from_nanos(wake),
        }
    }

    /// The number of threads that are worth using for work that moves `bytes` bytes, if the other
    /// threads spin. The calling thread is included, and there are at most `most` in all.
    pub fn of_spinning(bytes: usize, most: usize) -> usize {
        if bytes < INLINE_BYTES {
            return 1;
        }
        most.min(bytes / BYTES_PER_WORKER).max(1)
    }

    /// The same if the other threads have parked: the number with which the work is done first. The
    /// calling thread works until the others begin. So with n threads, it is done after `(alone
    /// + (n - 1) × latency) / n` and n - 1 wake-ups. The sum is smallest if n is the square
    /// root of `(alone - latency) / wake`.
    pub fn of_parked(&self, bytes: usize, most: usize) -> usize {
        let most = Estimates::of_spinning(bytes, most);
        if most == 1 {
            return 1;
        }
        let alone = self.alone(bytes);
        let Costs { latency, wake } = self.costs();
        let [latency, wake] = [latency, wake].map(nanoseconds);
        let best = (alone.saturating_sub(latency) / wake.max(1)).isqrt();
        let best = usize::try_from(best).unwrap_or(usize::MAX).clamp(2, most);
        let others = best as u64 - 1;
        let late = latency.saturating_mul(others);
        let shared = alone.saturating_add(late) / best as u64;
        let shared = shared.saturating_add(wake.saturating_mul(others));
        if shared < alone {
            return best;
        }
        self.forget();
        1
    }

    /// Whether one thread would work on `bytes` bytes for longer than threads spin that wait for a
    /// step.
    pub fn is_long(&self, bytes: usize) -> bool {
        self.alone(bytes) > nanoseconds(Spin::BOUNDED.duration())
    }

    /// Notes that one thread moved `bytes` of the `operation_bytes` of an operation in this time.
    pub fn moved(&self, bytes: usize, operation_bytes: usize, time: Duration) {
        if self.is_fixed() || bytes == 0 {
            return;
        }
        let sample = (u128::from(nanoseconds(time)) << 20) / bytes as u128;
        let sample = u64::try_from(sample).unwrap_or(u64::MAX).max(1);
        let pace = &self.paces[class(operation_bytes)];
        let known = pace.load(Ordering::Relaxed);
        let known = if known == 0 { FIRST_PACE } else { known };
        pace.store(nearer(known, sample, 4), Ordering::Relaxed);
    }

    /// Notes that `threads` parked threads were woken in the time `waking`, and that the last of
    /// them began to work after `latency`.
    pub fn woke(&self, threads: usize, waking: Duration, latency: Duration) {
        if self.is_fixed() || threads == 0 {
            return;
        }
        let move_to = |estimate: &AtomicU64, sample: u64| {
            let known = estimate.load(Ordering::Relaxed);
            estimate.store(nearer(known, sample, 8), Ordering::Relaxed);
        };
        move_to(&self.wake, nanoseconds(waking) / threads as u64);
        move_to(
            &self.latency,
            nanoseconds(latency).saturating_sub(nanoseconds(waking)),
        );
    }

    /// The time that one thread would need for the whole operation.
    fn alone(&self, bytes: usize) -> u64 {
        let pace = match self.paces[class(bytes)].load(Ordering::Relaxed) {
            pace if pace > 0 && !self.is_fixed() => pace,
            _ => FIRST_PACE,
        };
        u64::try_from((bytes as u128 * u128::from(pace)) >> 20).unwrap_or(u64::MAX)
    }

    /// Reduces the estimate a little. Work was not shared because waking is expensive, so its
    /// present cost is less certain.
    fn forget(&self) {
        if !self.is_fixed() {
            let known = self.latency.load(Ordering::Relaxed);
            self.latency.store(known - known / 2048, Ordering::Relaxed);
        }
    }
}

/// A new estimate from the `known` one and a sample. It moves by a part of the difference, and
/// never to many times the known value, because a sample that large comes from a preempted thread.
fn nearer(known: u64, sample: u64, part: u64) -> u64 {
    let sample = sample.min(known.saturating_mul(4).max(1000));
    if sample >= known {
        known + (sample - known) / part
    } else {
        known - (known - sample) / part
    }
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

    /// Estimates with wake-ups of 40 microseconds, of which the caller spends 4.
    fn estimates() -> Estimates {
        let estimates = Estimates::new();
        estimates.fix(Some(Costs {
            latency: 40 * MICROSECOND,
            wake: 4 * MICROSECOND,
        }));
        estimates
    }

    #[test]
    fn the_number_of_threads_follows_the_work() {
        let estimates = estimates();
        // One thread needs 10, 76, 131 and 1049 microseconds.
        let mut last = 1;
        for (bytes, of_two, of_many) in [
            (320_000, 1, 1),
            (2_500_000, 2, 3),
            (4 << 20, 2, 4),
            (32 << 20, 2, 15),
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
        for (bytes, expected) in [
            (0, 1),
            (INLINE_BYTES - 1, 1),
            (INLINE_BYTES, 4),
            (320_000, 4),
            (4 << 20, 64),
        ] {
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
        // Sharing pays off for slow work.
        for _ in 0..20 {
            estimates.moved(bytes / 2, bytes, 500 * MICROSECOND);
        }
        assert_eq!(estimates.of_parked(bytes, 2), 2);
        // Operations of other sizes are not affected.
        assert_eq!(estimates.of_parked(bytes / 2, 2), 1);
        // Expensive wake-ups prevent sharing.
        for _ in 0..50 {
            estimates.woke(1, 4 * MICROSECOND, 2000 * MICROSECOND);
        }
        assert_eq!(estimates.of_parked(bytes, 2), 1);
        // The expensive wake-ups are forgotten in time, and sharing is tried again.
        let tries = (0..20_000)
            .filter(|_| estimates.of_parked(bytes, 2) > 1)
            .count();
        assert!((1..20_000).contains(&tries), "{tries}");
    }

    #[test]
    fn cost_model_ignores_one_late_thread() {
        let estimates = Estimates::new();
        estimates.woke(1, MICROSECOND, Duration::from_secs(1));
        assert!(estimates.costs().latency < 100 * MICROSECOND);
        let before = estimates.costs();
        estimates.fix(Some(before));
        estimates.woke(1, MICROSECOND, Duration::from_secs(1));
        estimates.moved(1 << 20, 1 << 20, Duration::from_secs(1));
        assert_eq!(
            (estimates.costs(), estimates.alone(1 << 20)),
            (before, FIRST_PACE)
        );
    }
}
