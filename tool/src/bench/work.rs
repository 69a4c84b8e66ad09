//! Work that takes one processor a known time and can be shared.

use std::hint::black_box;
use std::time::Instant;

/// The number of numbers that a unit reads. They fit into the first cache.
const NUMBERS: usize = 256;

/// A number of units of arithmetic. The number is fixed, and not the time, so that processors that
/// share resources, such as threads of one core, take longer, as they would in a training.
#[derive(Clone, Copy)]
pub struct Work(u64);

impl Work {
    pub fn new(units: u64) -> Work {
        Work(units)
    }

    /// The part of one of several replicas. All parts together are the whole work.
    pub fn of(self, replica: usize, replicas: usize) -> Work {
        let replica = replica as u64;
        let replicas = replicas as u64;
        Work(self.0 / replicas + u64::from(replica < self.0 % replicas))
    }

    pub fn execute(self) {
        let numbers = [0.5f32; NUMBERS];
        let mut sums = [0f32; 16];
        for _ in 0..self.0 {
            for part in black_box(&numbers).chunks_exact(16) {
                for (sum, number) in sums.iter_mut().zip(part) {
                    *sum = *sum * 0.5 + number;
                }
            }
        }
        black_box(sums);
    }

    /// The time of a unit without interruptions, in microseconds.
    pub fn unit_us() -> f64 {
        const UNITS: u64 = 1000;
        let once = || {
            let start = Instant::now();
            Work(UNITS).execute();
            start.elapsed().as_secs_f64() * 1e6 / UNITS as f64
        };
        (0..200).map(|_| once()).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        for units in [1, 2, 7, 100] {
            for replicas in 1..5 {
                let parts = (0..replicas).map(|replica| Work::new(units).of(replica, replicas).0);
                let parts: Vec<u64> = parts.collect();
                assert_eq!(parts.iter().sum::<u64>(), units);
                assert!(parts[0] - parts[replicas - 1] <= 1, "{parts:?}");
            }
        }
        assert!(Work::unit_us() > 0.0);
    }
}
