//! The position of a pass, as numbers.
//!
//! Every pass can save its position ([`IteratorStage::save`](crate::passes::IteratorStage::save))
//! and restore it. The numbers of all passes of a pipeline follow each other, in the order in which
//! the passes are nested. Only each pass interprets its own numbers. Saving is cheap and, after the
//! first time, allocates nothing, because a pass that works ahead of its consumer saves its
//! position for each element: elements that were made but not returned do not count.

use crate::passes::signature::Signature;
use umbo_base::error::{Error, Result};
use umbo_tensor::origin::BatchSource;

/// The largest number of elements that a pass makes again to come to a position: a text that asks
/// for more is refused, because restoring it would not end.
pub(crate) const MOST_AGAIN: u64 = 1 << 36;

/// The largest number of numbers of a position. One with more comes of many elements that failed
/// while others were held, and is refused.
const MOST_NUMBERS: usize = 1 << 22;

/// The position of a pass at some moment. Its memory may be refused: then it is incomplete, and so
/// is each position into which it is copied. Only saving such a position fails, not the iteration.
#[derive(Default)]
pub(crate) struct StateWriter {
    numbers: Vec<u64>,
    /// Whether numbers are missing.
    is_incomplete: bool,
}

impl StateWriter {
    /// An empty state with memory for what is written later for the same pass as `other`, when
    /// items are held.
    pub(crate) fn with_room_of(other: &StateWriter) -> StateWriter {
        // A replay log writes two more numbers than at the beginning. If still more are written,
        // memory is added then.
        let mut state = StateWriter::default();
        // If this fails, memory is requested again when something is written.
        let _ = state
            .numbers
            .try_reserve_exact(2 * other.numbers.len() + 16);
        state
    }

    /// Makes it empty, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.is_incomplete = false;
    }

    pub(crate) fn push(&mut self, number: u64) {
        if self.has_room(1) {
            self.numbers.push(number);
        }
    }

    /// Makes room for `more` numbers. Without it, the position is incomplete.
    fn has_room(&mut self, more: usize) -> bool {
        let fits = more <= MOST_NUMBERS.saturating_sub(self.numbers.len())
            && self.numbers.try_reserve(more).is_ok();
        self.is_incomplete |= !fits;
        !self.is_incomplete
    }

    pub(crate) fn push_flag(&mut self, flag: bool) {
        self.push(u64::from(flag));
    }

    /// Adds what `write` writes, preceded by its length.
    pub(crate) fn nest(&mut self, write: impl FnOnce(&mut StateWriter)) {
        let place = self.numbers.len();
        self.push(0);
        write(self);
        if !self.is_incomplete {
            self.numbers[place] = (self.numbers.len() - place - 1) as u64;
        }
    }

    /// Adds another state, as [`StateWriter::nest`] does.
    pub(crate) fn append(&mut self, other: &StateWriter) {
        self.nest(|state| state.extend(other));
    }

    /// Adds the numbers of another state, without its length.
    pub(crate) fn extend(&mut self, other: &StateWriter) {
        self.is_incomplete |= other.is_incomplete;
        self.extend_from(&other.numbers);
    }

    fn extend_from(&mut self, numbers: &[u64]) {
        if self.has_room(numbers.len()) {
            self.numbers.extend_from_slice(numbers);
        }
    }

    /// Copies `other`.
    pub(crate) fn copy_from(&mut self, other: &StateWriter) {
        self.clear();
        self.extend(other);
    }

    /// Copies what `from` has not read yet.
    pub(crate) fn read(&mut self, from: &StateReader<'_>) {
        self.clear();
        self.extend_from(from.rest);
    }

    /// The numbers that were written. RESOURCE_EXHAUSTED if some are missing.
    pub(crate) fn numbers(&self) -> Result<&[u64]> {
        match self.is_incomplete {
            false => Ok(&self.numbers),
            true => Err(Error::no_memory_for(format!(
                "a position in the input, or it has more than {MOST_NUMBERS} numbers, \
                 as when many elements fail; a position that is saved a few elements later may be \
                 small"
            ))),
        }
    }

    /// Whether it equals what `from` has not read yet.
    pub(crate) fn is(&self, from: &StateReader<'_>) -> bool {
        !self.is_incomplete && self.numbers == from.rest
    }
}

/// The state that later rounds depend on: how often rounds have begun, and the cached items.
#[derive(Default)]
pub(crate) struct Rounds {
    numbers: StateWriter,
    /// The number of shuffles, and their rounds in one number.
    shuffles: u32,
    of_shuffles: u64,
}

/// The factor between the rounds of two shuffles in one number. They are read apart as long as
/// there are fewer rounds.
const APART: u64 = 1_000_000;

impl Rounds {
    pub(crate) fn push(&mut self, number: u64) {
        self.numbers.push(number);
    }

    pub(crate) fn push_flag(&mut self, flag: bool) {
        self.numbers.push_flag(flag);
    }

    /// Adds the round of a shuffle, in which ranks that read the same data agree.
    pub(crate) fn push_shuffle(&mut self, round: u64) {
        self.numbers.push(round);
        self.add_shuffles(1, round);
    }

    /// Adds what another pass has written.
    pub(crate) fn extend(&mut self, other: &Rounds) {
        self.numbers.extend(&other.numbers);
        self.add_shuffles(other.shuffles, other.of_shuffles);
    }

    fn add_shuffles(&mut self, count: u32, rounds: u64) {
        let before = self.of_shuffles.wrapping_mul(APART.wrapping_pow(count));
        self.of_shuffles = before.wrapping_add(rounds);
        self.shuffles = self.shuffles.wrapping_add(count);
    }

    /// Makes it empty, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        (self.shuffles, self.of_shuffles) = (0, 0);
    }

    /// Empty, with memory for what is written later for the same pass as `other`.
    pub(crate) fn with_room_of(other: &Rounds) -> Rounds {
        Rounds {
            numbers: StateWriter::with_room_of(&other.numbers),
            ..Rounds::default()
        }
    }

    /// A reader of what was written.
    pub(crate) fn reader(&self) -> Result<StateReader<'_>> {
        self.numbers.numbers().map(StateReader::new)
    }

    /// The rounds of all shuffles in one number.
    pub(crate) fn of_shuffles(&self) -> u64 {
        self.of_shuffles
    }
}

/// Reads a saved state. Nothing in it is trusted, because it comes from a text.
#[derive(Clone, Copy)]
pub(crate) struct StateReader<'a> {
    rest: &'a [u64],
}

impl<'a> StateReader<'a> {
    pub(crate) fn new(numbers: &'a [u64]) -> StateReader<'a> {
        StateReader { rest: numbers }
    }

    /// The next number.
    pub(crate) fn number(&mut self) -> Result<u64> {
        let (&first, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| unfit("numbers are missing"))?;
        self.rest = rest;
        Ok(first)
    }

    /// The next number, which is at most `most`.
    pub(crate) fn at_most(&mut self, most: u64, quantity: &str) -> Result<u64> {
        let number = self.number()?;
        if number > most {
            return Err(unfit(&format!(
                "{quantity} is {number}; at most {most} is possible"
            )));
        }
        Ok(number)
    }

    /// The next number, as that of elements to make again, at most `most`.
    pub(crate) fn elements(&mut self, most: u64) -> Result<u64> {
        self.at_most(most, "the number of elements to make again")
    }

    /// The next number, as a position among at most `most` places.
    pub(crate) fn index(&mut self, most: usize, quantity: &str) -> Result<usize> {
        self.at_most(most as u64, quantity)
            .map(|number| number as usize)
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        self.at_most(1, "a flag").map(|flag| flag == 1)
    }

    /// A reader of what [`StateWriter::nest`] or [`StateWriter::append`] wrote.
    pub(crate) fn nested(&mut self) -> Result<StateReader<'a>> {
        let count = self.index(self.rest.len().saturating_sub(1), "a number of numbers")?;
        let (inner, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(StateReader { rest: inner })
    }

    /// Checks that nothing is left.
    pub(crate) fn end(&self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(unfit(&format!("{more} numbers are left over"))),
        }
    }
}

/// The error for a position whose numbers do not fit the pipeline.
pub(crate) fn unfit(problem: &str) -> Error {
    invalid!(
        "position",
        "its numbers do not fit the pipeline: {problem}; give a text as it was saved, of a \
         pipeline over the same data"
    )
}

/// The description of a pipeline: the signature of each stage, from the last one to the sources.
#[derive(Default)]
pub(crate) struct Description {
    stages: Vec<Signature>,
    /// Seeds, each with the number of its stage and with how many iterators were made before.
    /// Seeds belong to a position, not to its pipeline.
    seeds: Vec<(usize, u64, u64)>,
}

impl Description {
    /// Adds a stage. Its inputs follow it.
    pub(crate) fn stage(&mut self, stage: Signature) {
        self.stages.push(stage);
    }

    /// Adds the seed of the stage that was added last, and how many iterators were made before.
    pub(crate) fn seed(&mut self, seed: u64, before: u64) {
        self.seeds.push((self.stages.len() - 1, seed, before));
    }

    /// The numbers that ranks which read the same data compare. A pass that is `restored` has the
    /// seeds of its position.
    pub(crate) fn source(&self, restored: bool) -> BatchSource {
        let mut quantities = Vec::new();
        // Stages are listed from the source on, because the first difference may cause those after
        // it.
        for (number, stage) in self.stages.iter().rev().enumerate() {
            let name = format!("stage {number} of the pipeline, counted from its source,");
            quantities.push((name, stage.to_string()));
        }
        for &(stage, seed, before) in self.seeds.iter().rev() {
            let quantity_name =
                |quantity: &str| format!("{quantity} of the pipeline's '{}'", self.stages[stage]);
            let value = |number: u64| match restored {
                true => "that of a saved position".to_owned(),
                false => number.to_string(),
            };
            quantities.push((quantity_name("the seed"), value(seed)));
            quantities.push((
                quantity_name("the number of iterators that were made before"),
                value(before),
            ));
        }
        BatchSource { quantities }
    }

    pub(crate) fn stages(&self) -> &[Signature] {
        &self.stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_round_trip() {
        let mut inner = StateWriter::default();
        let mut state = StateWriter::default();
        inner.push(7);
        inner.push_flag(true);
        state.push(3);
        state.nest(|state| state.push(5));
        state.append(&inner);
        let mut reader = StateReader::new(state.numbers().unwrap());
        assert_eq!(reader.number().unwrap(), 3);
        let mut nested = reader.nested().unwrap();
        assert!(nested.end().is_err());
        assert_eq!(nested.at_most(5, "it").unwrap(), 5);
        nested.end().unwrap();
        let mut nested = reader.nested().unwrap();
        assert!(inner.is(&nested));
        assert_eq!(nested.index(7, "it").unwrap(), 7);
        assert!(nested.flag().unwrap() && !inner.is(&nested));
        reader.end().unwrap();
        assert!(reader.number().is_err());
    }

    #[test]
    fn a_position_that_is_too_large_is_incomplete_wherever_it_is_copied() {
        let mut large = StateWriter::default();
        let mut other = StateWriter::default();
        (0..MOST_NUMBERS).for_each(|_| large.push(0));
        assert!(large.numbers().is_ok());
        other.nest(|other| other.extend(&large));
        assert!(other.numbers().is_err());
        large.push(0);
        let mut third = StateWriter::default();
        third.append(&large);
        third.push(1);
        let refused = third.numbers().unwrap_err();
        assert_eq!(
            refused.status(),
            umbo_base::error::Status::ResourceExhausted
        );
        third.clear();
        third.push(1);
        assert_eq!(third.numbers().unwrap(), [1]);
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert!(StateReader::new(&[2]).flag().is_err());
        assert!(StateReader::new(&[8]).at_most(7, "it").is_err());
        assert!(StateReader::new(&[1]).nested().is_err());
        assert!(StateReader::new(&[u64::MAX, 1]).nested().is_err());
        assert!(StateReader::new(&[]).nested().is_err());
    }
}
