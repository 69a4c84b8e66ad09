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

    /// Calls `found` with each run of neighbouring offsets of the set, looking only at `range`.
    pub fn runs(&self, range: Range<u64>, mut found: impl FnMut(Range<u64>)) {
        let (mut at, end) = (range.start, range.end);
        while at < end {
            let rest = self.0[(at / 64) as usize] >> (at % 64);
            if rest == 0 {
                at = (at / 64 + 1) * 64;
                continue;
            }
            let start = at + u64::from(rest.trailing_zeros());
            if start >= end {
                return;
            }
            let stop = self.first_missing(start..end).unwrap_or(end);
            found(start..stop);
            at = stop;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_was_set() {
        let mut bits = Bits::new(300);
        let wanted = [3..5, 60..130, 191..192, 256..300];
        for range in &wanted {
            bits.set(range.clone(), true);
        }
        let mut found = vec![];
        bits.runs(0..300, |run| found.push(run));
        assert_eq!(found, wanted);
        assert_eq!(bits.first_missing(60..140), Some(130));
        assert_eq!(bits.first_missing(60..130), None);
        bits.set(64..128, false);
        found.clear();
        bits.runs(61..257, |run| found.push(run));
        assert_eq!(found, [61..64, 128..130, 191..192, 256..257]);
        assert!(bits.has(63) && !bits.has(64));
    }
}
