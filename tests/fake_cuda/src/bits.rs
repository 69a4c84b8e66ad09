//! One bit for each byte of a piece of memory.

use std::ops::Range;

/// A set of byte offsets. Memory for the bits is taken when they are first set.
pub struct Bits(Vec<u64>);

impl Bits {
    /// An empty set of offsets below `bytes`.
    pub fn new(bytes: u64) -> Bits {
        Bits(vec![0; bytes.div_ceil(64) as usize])
    }

    /// The words, the lowest offset in the lowest bit of the first.
    pub fn words(&mut self) -> &mut [u64] {
        &mut self.0
    }

    fn mask(word: u64, range: &Range<u64>) -> u64 {
        let low = range.start.saturating_sub(word * 64);
        let high = (range.end - word * 64).min(64);
        (u64::MAX << low) & (u64::MAX >> (64 - high))
    }

    /// Adds or removes all offsets of a range.
    pub fn set(&mut self, range: Range<u64>, value: bool) {
        if range.is_empty() {
            return;
        }
        for word in range.start / 64..range.end.div_ceil(64) {
            let mask = Bits::mask(word, &range);
            if value {
                self.0[word as usize] |= mask;
            } else {
                self.0[word as usize] &= !mask;
            }
        }
    }

    /// The first offset of the range that is not in the set.
    pub fn first_missing(&self, range: Range<u64>) -> Option<u64> {
        if range.is_empty() {
            return None;
        }
        (range.start / 64..range.end.div_ceil(64)).find_map(|word| {
            let missing = !self.0[word as usize] & Bits::mask(word, &range);
            (missing != 0).then(|| word * 64 + u64::from(missing.trailing_zeros()))
        })
    }

    /// Whether the offset is in the set.
    pub fn has(&self, offset: u64) -> bool {
        self.0[(offset / 64) as usize] >> (offset % 64) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_set_and_missed() {
        let mut bits = Bits::new(300);
        for range in [3..5, 60..130, 191..192, 256..300] {
            bits.set(range, true);
        }
        let set: Vec<u64> = (0..300).filter(|at| bits.has(*at)).collect();
        let wanted: Vec<u64> = (3..5)
            .chain(60..130)
            .chain(191..192)
            .chain(256..300)
            .collect();
        assert_eq!(set, wanted);
        assert_eq!(bits.first_missing(60..140), Some(130));
        assert_eq!(bits.first_missing(60..130), None);
        assert_eq!(bits.first_missing(7..7), None);
        bits.set(64..128, false);
        assert_eq!(bits.first_missing(60..130), Some(64));
        assert!(bits.has(63) && bits.has(128));
    }
}
