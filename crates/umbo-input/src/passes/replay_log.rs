//! A log that leads a restored pass to the items that it held.
//!
//! Some passes hold items that they have taken and not returned: the buffer of a shuffle, the batch
//! that is being cut, a complete round for a cache. Items are not part of a position. Instead, the
//! position contains from where in the input they came, so that they can be taken again. Items that
//! failed in between are not taken again, because they might not fail now: a replay log begins a
//! new segment after each failure. A call that lacked memory, or that a limit has ended, is none:
//! it has lost nothing, and the next one tries again.
//!
//! A segment that follows the one before is saved without its position, to which the items before
//! lead. So a saved state has the state of its input once, and the position of a pipeline grows
//! with its stages and does not multiply.

use crate::passes::IteratorStage;
use crate::passes::pending_item::comes_again;
use crate::passes::position::{MOST_AGAIN, StateReader, StateWriter, unfit};
use umbo_base::error::{Error, Result, memory};

/// From where in the input the held items came.
#[derive(Default)]
pub(crate) struct ReplayLog {
    /// Items that followed one another. The segments after the first `used` are memory for later
    /// use.
    segments: Vec<Segment>,
    used: usize,
    /// Whether the input is at the end of the last segment.
    whole: bool,
    /// Whether the input has returned its end there, which may affect later rounds.
    ended: bool,
}

#[derive(Default)]
struct Segment {
    from: StateWriter,
    items: u64,
    /// Whether the input was at the end of the segment before when this one began.
    follows: bool,
}

impl ReplayLog {
    /// Records that no item is held any more.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.whole = false;
        self.ended = false;
    }

    /// The next item of `input`, which the pass then holds.
    pub(crate) fn next<T>(&mut self, input: &mut dyn IteratorStage<T>) -> Result<Option<T>> {
        if !self.whole {
            self.begin(input)?;
        }
        self.take(input)
    }

    /// The next item, in a segment of its own, so that the items before it can be forgotten.
    pub(crate) fn next_apart<T>(&mut self, input: &mut dyn IteratorStage<T>) -> Result<Option<T>> {
        self.begin(input)?;
        self.take(input)
    }

    fn begin<T>(&mut self, input: &mut dyn IteratorStage<T>) -> Result<()> {
        let unused = self.segments[..self.used]
            .last()
            .filter(|last| last.items == 0);
        let follows = self.whole && unused.is_none_or(|last| last.follows);
        let used = self.used + usize::from(unused.is_none());
        if self.segments.len() < used {
            memory::reserve(&mut self.segments, 1, "places of elements that are held")?;
            self.segments.push(Segment::default());
        }
        self.used = used;
        let last = &mut self.segments[used - 1];
        (last.items, last.follows) = (0, follows);
        last.from.clear();
        input.save(&mut last.from);
        Ok(())
    }

    fn take<T>(&mut self, input: &mut dyn IteratorStage<T>) -> Result<Option<T>> {
        // After a failure or a panic, a new segment begins.
        self.whole = false;
        let next = input.next();
        self.whole = next.is_ok() || comes_again(&next);
        let item = next?;
        self.ended = item.is_none();
        self.segments[self.used - 1].items += u64::from(item.is_some());
        Ok(item)
    }

    /// Forgets the first `count` items. All items must have been taken by
    /// [`ReplayLog::next_apart`].
    pub(crate) fn forget_first(&mut self, count: usize) {
        self.segments[..self.used].rotate_left(count);
        self.forget(count);
    }

    /// Forgets the last item, which was taken by [`ReplayLog::next_apart`].
    pub(crate) fn forget_last(&mut self) {
        self.whole = false;
        self.forget(1);
    }

    /// The position before the first item, if nothing has failed since.
    pub(crate) fn beginning(&self) -> Option<&StateWriter> {
        self.segments[..self.used]
            .first()
            .filter(|_| self.used == 1)
            .map(|first| &first.from)
    }

    /// The number of items that are held.
    #[cfg(test)]
    fn items(&self) -> u64 {
        self.segments[..self.used]
            .iter()
            .map(|segment| segment.items)
            .sum()
    }

    fn forget(&mut self, count: usize) {
        self.used -= count;
        self.whole &= self.used > 0;
    }

    /// Saves from where the items came, and the present position of `input`.
    pub(crate) fn save<T>(&self, input: &dyn IteratorStage<T>, to: &mut StateWriter) {
        // An empty segment says no more than the present position, or than the segment that it
        // follows.
        let empty = self.segments[..self.used]
            .last()
            .filter(|last| last.items == 0);
        let segments = &self.segments[..self.used - usize::from(empty.is_some())];
        to.push(segments.len() as u64);
        for (number, segment) in segments.iter().enumerate() {
            let follows = number > 0 && segment.follows;
            to.push(segment.items);
            to.push_flag(follows);
            if !follows {
                to.append(&segment.from);
            }
        }
        let is_behind =
            self.whole && !segments.is_empty() && empty.is_none_or(|empty| empty.follows);
        to.push_flag(is_behind);
        match is_behind {
            true => to.push_flag(self.ended),
            false => to.nest(|to| input.save(to)),
        }
    }

    /// Restores a saved log. Calls `hold` with each of its items, in order. Then brings `input` to
    /// its saved position.
    pub(crate) fn restore<T>(
        &mut self,
        saved: &SavedLog<'_>,
        input: &mut dyn IteratorStage<T>,
        hold: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
        self.clear();
        self.segments.clear();
        let mut taken = 0;
        for &(items, from) in &saved.segments {
            if let Some(mut place) = from {
                input.restore(&mut place)?;
                place.end()?;
            }
            let mut segment = Segment {
                items,
                follows: from.is_none(),
                ..Segment::default()
            };
            input.save(&mut segment.from);
            for _ in 0..items {
                hold(input.next()?.ok_or_else(|| too_few(taken))?)?;
                taken += 1;
            }
            self.segments.push(segment);
            self.used += 1;
        }
        match saved.now {
            Now::Elsewhere(mut now) => {
                input.restore(&mut now)?;
                now.end()?;
            }
            Now::Behind { ended } => {
                if ended && input.next()?.is_some() {
                    return Err(unfit("there are more elements than there were"));
                }
                (self.whole, self.ended) = (true, ended);
            }
        }
        Ok(())
    }
}

fn too_few(items: u64) -> Error {
    unfit(&format!(
        "the data end after {items} elements where there were more"
    ))
}

/// A saved log.
pub(crate) struct SavedLog<'a> {
    /// For each segment, the number of its items and the position before them, unless it follows
    /// the segment before.
    segments: Vec<(u64, Option<StateReader<'a>>)>,
    now: Now<'a>,
}

/// The saved position of the input.
enum Now<'a> {
    /// After the last item. `ended` is true if the input had returned its end.
    Behind {
        ended: bool,
    },
    Elsewhere(StateReader<'a>),
}

impl<'a> SavedLog<'a> {
    pub(crate) fn read(from: &mut StateReader<'a>) -> Result<SavedLog<'a>> {
        let count = from.number()?;
        let mut segments = Vec::new();
        let mut left = MOST_AGAIN;
        for _ in 0..count {
            let items = from.elements(left)?;
            let follows = from.flag()?;
            if follows && segments.is_empty() {
                return Err(unfit("the first elements follow nothing"));
            }
            segments.push((items, if follows { None } else { Some(from.nested()?) }));
            left -= items;
        }
        let whole = from.flag()?;
        if whole && segments.is_empty() {
            return Err(unfit("it says nowhere where the input is"));
        }
        let now = match whole {
            true => Now::Behind {
                ended: from.flag()?,
            },
            false => Now::Elsewhere(from.nested()?),
        };
        Ok(SavedLog { segments, now })
    }

    /// The number of items.
    pub(crate) fn items(&self) -> u64 {
        self.segments.iter().map(|segment| segment.0).sum()
    }

    /// Whether each item has a segment of its own, as if all were taken by
    /// [`ReplayLog::next_apart`].
    pub(crate) fn is_apart(&self) -> bool {
        self.segments.iter().all(|(items, _)| *items == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers from 0 on. Multiples of 4 fail, and 11 is the end.
    struct NumberSet(u64);

    impl IteratorStage<u64> for NumberSet {
        fn next(&mut self) -> Result<Option<u64>> {
            if self.0 == 11 {
                return Ok(None);
            }
            self.0 += 1;
            match (self.0 - 1) % 4 {
                0 => Err(invalid!("number", "divided by 4")),
                _ => Ok(Some(self.0 - 1)),
            }
        }

        fn restart(&mut self) -> Result<()> {
            self.0 = 0;
            Ok(())
        }

        fn save(&self, to: &mut StateWriter) {
            to.push(self.0);
        }

        fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
            self.0 = from.number()?;
            Ok(())
        }
    }

    fn restored(state: &StateWriter) -> Result<(Vec<u64>, u64, ReplayLog)> {
        let mut input = NumberSet(0);
        let mut replay = ReplayLog::default();
        let mut held = Vec::new();
        let mut reader = StateReader::new(state.numbers()?);
        let saved = SavedLog::read(&mut reader)?;
        reader.end()?;
        replay.restore(&saved, &mut input, &mut |item| {
            held.push(item);
            Ok(())
        })?;
        Ok((held, input.0, replay))
    }

    #[test]
    fn replay_restores_items_between_failures() {
        for calls in 0..14 {
            let mut input = NumberSet(0);
            let mut replay = ReplayLog::default();
            let mut held = Vec::new();
            for _ in 0..calls {
                held.extend(replay.next(&mut input).unwrap_or(None));
            }
            let mut state = StateWriter::default();
            replay.save(&input, &mut state);
            let (again, at, other) = restored(&state).unwrap();
            assert_eq!((&again, at), (&held, input.0), "after {calls} calls");
            assert_eq!(other.items(), replay.items());
            let mut copy = StateWriter::default();
            other.save(&NumberSet(at), &mut copy);
            assert_eq!(copy.numbers().unwrap(), state.numbers().unwrap());
        }
    }

    #[test]
    fn replay_forgets_separate_items_in_order() {
        let mut input = NumberSet(1);
        let mut replay = ReplayLog::default();
        let held = |replay: &ReplayLog, input: &NumberSet| {
            let mut state = StateWriter::default();
            replay.save(input, &mut state);
            let (held, at, _) = restored(&state).unwrap();
            assert_eq!(at, input.0);
            held
        };
        for _ in 0..3 {
            replay.next_apart(&mut input).unwrap();
        }
        assert_eq!(held(&replay, &input), [1, 2, 3]);
        assert!(replay.next_apart(&mut input).is_err());
        assert_eq!(held(&replay, &input), [1, 2, 3]);
        replay.next_apart(&mut input).unwrap();
        replay.forget_first(3);
        assert_eq!(held(&replay, &input), [5]);
        replay.forget_last();
        assert!(held(&replay, &input).is_empty());
    }

    #[test]
    fn impossible_replay_logs_are_refused() {
        let state = |numbers: &[u64]| {
            let mut state = StateWriter::default();
            numbers.iter().for_each(|&number| state.push(number));
            state
        };
        let refused = |numbers: &[u64]| restored(&state(numbers)).is_err();
        assert!(!refused(&[1, 2, 0, 1, 1, 1, 0]));
        assert!(!refused(&[1, 1, 0, 1, 10, 1, 1]));
        assert!(!refused(&[2, 1, 0, 1, 1, 1, 1, 1, 0]));
        assert!(SavedLog::read(&mut StateReader::new(&[1, 1 << 60, 0, 1, 1, 1, 0])).is_err());
        for wrong in [
            &[][..],
            &[u64::MAX],
            &[0, 1],
            &[1, 2, 1, 1, 0],
            &[1, 9, 0, 1, 9, 1, 0],
            &[2, MOST_AGAIN, 0, 1, 1, 1, 0, 1, 1, 1, 0],
            &[1, 2, 0, 1, 1, 2, 0],
            &[1, 2, 0, 1, 1, 1, 1],
            &[1, 2, 0, 2, 1, 0, 1, 0],
        ] {
            assert!(refused(wrong), "{wrong:?}");
        }
    }
}
