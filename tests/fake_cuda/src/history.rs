//! Who read and wrote which bytes, as far as a later access could conflict with it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::operation::Stamp;

/// Bytes with one past: the last write and the reads since.
#[derive(Clone)]
struct Segment {
    end: u64,
    write: Option<Arc<Stamp>>,
    reads: Vec<Arc<Stamp>>,
}

impl Segment {
    fn same_past(&self, other: &Segment) -> bool {
        let same = |a: &Option<Arc<Stamp>>, b: &Option<Arc<Stamp>>| match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        same(&self.write, &other.write)
            && self.reads.len() == other.reads.len()
            && self
                .reads
                .iter()
                .zip(&other.reads)
                .all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// A pair of accesses that nothing orders.
pub struct Conflict {
    pub earlier: Arc<Stamp>,
    pub earlier_wrote: bool,
    pub bytes: Range<u64>,
}

/// The past of one allocation, by offsets.
#[derive(Default)]
pub struct History(BTreeMap<u64, Segment>);

impl History {
    /// Makes `at` the beginning of a segment if one runs across it.
    fn split(&mut self, at: u64) {
        if let Some((_, segment)) = self.0.range_mut(..at).next_back()
            && segment.end > at
        {
            let right = segment.clone();
            segment.end = at;
            self.0.insert(at, right);
        }
    }

    /// Notes that `now` reads or writes the bytes, and returns the first access that conflicts.
    pub fn access(&mut self, bytes: Range<u64>, write: bool, now: &Arc<Stamp>) -> Option<Conflict> {
        if bytes.is_empty() {
            return None;
        }
        self.split(bytes.start);
        self.split(bytes.end);
        let conflict = self.conflict(bytes.clone(), write, |stamp| now.knows(stamp));
        if write {
            let inside: Vec<u64> = self.0.range(bytes.clone()).map(|(at, _)| *at).collect();
            for at in inside {
                self.0.remove(&at);
            }
            let segment = Segment {
                end: bytes.end,
                write: Some(Arc::clone(now)),
                reads: Vec::new(),
            };
            self.0.insert(bytes.start, segment);
        } else {
            self.record_read(bytes.clone(), now);
        }
        self.coalesce(bytes);
        conflict
    }

    fn record_read(&mut self, bytes: Range<u64>, now: &Arc<Stamp>) {
        let mut gaps = vec![];
        let mut at = bytes.start;
        for (start, segment) in self.0.range_mut(bytes.clone()) {
            if at < *start {
                gaps.push(at..*start);
            }
            at = segment.end;
            // What is ordered after this read is ordered after those that this read follows.
            segment.reads.retain(|read| !now.knows(read));
            segment.reads.push(Arc::clone(now));
        }
        if at < bytes.end {
            gaps.push(at..bytes.end);
        }
        for gap in gaps {
            let segment = Segment {
                end: gap.end,
                write: None,
                reads: vec![Arc::clone(now)],
            };
            self.0.insert(gap.start, segment);
        }
    }

    fn coalesce(&mut self, bytes: Range<u64>) {
        let first = self
            .0
            .range(..bytes.start)
            .next_back()
            .map_or(bytes.start, |(at, _)| *at);
        let mut left: Option<u64> = None;
        let near: Vec<u64> = self.0.range(first..=bytes.end).map(|(at, _)| *at).collect();
        for at in near {
            if let Some(start) = left {
                let a = &self.0[&start];
                let b = &self.0[&at];
                if a.end == at && a.same_past(b) {
                    let end = b.end;
                    self.0.remove(&at);
                    self.0.get_mut(&start).expect("it was found above").end = end;
                    continue;
                }
            }
            left = Some(at);
        }
    }

    /// The first access to the bytes that one of the same kind would conflict with, unless
    /// `known` says that it is finished.
    pub fn conflict(
        &self,
        bytes: Range<u64>,
        write: bool,
        known: impl Fn(&Stamp) -> bool,
    ) -> Option<Conflict> {
        let first = self
            .0
            .range(..=bytes.start)
            .next_back()
            .map_or(bytes.start, |(at, _)| *at);
        for (start, segment) in self.0.range(first..bytes.end) {
            if segment.end <= bytes.start {
                continue;
            }
            let found = |earlier: &Arc<Stamp>, earlier_wrote| Conflict {
                earlier: Arc::clone(earlier),
                earlier_wrote,
                bytes: bytes.start.max(*start)..bytes.end.min(segment.end),
            };
            if let Some(stamp) = segment.write.as_ref().filter(|stamp| !known(stamp)) {
                return Some(found(stamp, true));
            }
            if write && let Some(stamp) = segment.reads.iter().find(|stamp| !known(stamp)) {
                return Some(found(stamp, false));
            }
        }
        None
    }

    /// How many segments there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    /// The next operation of an actor, which knows what `clock` knows.
    fn stamp(actor: usize, clock: &mut Clock) -> Arc<Stamp> {
        let number = clock.tick(actor);
        Arc::new(Stamp::new(
            "test".into(),
            "stream".into(),
            actor,
            number,
            clock.clone(),
        ))
    }

    #[test]
    fn only_unordered_pairs_with_a_write_conflict() {
        let mut one = Clock::default();
        let mut two = Clock::default();
        let mut history = History::default();
        assert!(history.access(0..100, true, &stamp(0, &mut one)).is_none());
        let conflict = history
            .access(90..110, false, &stamp(1, &mut two))
            .expect("not ordered");
        assert_eq!((conflict.bytes, conflict.earlier_wrote), (90..100, true));
        assert!(
            history
                .access(100..110, false, &stamp(0, &mut one))
                .is_none()
        );
        let conflict = history
            .access(100..101, true, &stamp(0, &mut one))
            .expect("not ordered");
        assert!(!conflict.earlier_wrote);
        one.join(&two);
        assert!(history.access(0..110, true, &stamp(0, &mut one)).is_none());
        two.join(&one);
        assert!(history.access(0..110, true, &stamp(1, &mut two)).is_none());
    }

    #[test]
    fn neighbours_with_one_past_become_one() {
        let mut clock = Clock::default();
        let mut history = History::default();
        let now = stamp(0, &mut clock);
        for at in [0, 8, 4, 12] {
            history.access(at..at + 4, true, &now);
        }
        assert_eq!(history.len(), 1);
        history.access(6..7, false, &now);
        assert_eq!(history.len(), 3);
        let later = stamp(0, &mut clock);
        history.access(0..16, true, &later);
        assert_eq!(history.len(), 1);
    }
}
