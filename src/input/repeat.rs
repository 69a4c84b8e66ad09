//! A dataset over and over.

use crate::error::Result;
use crate::input::cardinality::Cardinality;
use crate::input::held::lacks_memory;
use crate::input::pass::Pass;
use crate::input::position::{StateReader, StateWriter, unfit};

/// How many elements come in so many rounds, or without end.
pub(super) fn times(round: Cardinality, rounds: Option<u64>) -> Cardinality {
    match (round, rounds) {
        (_, Some(0)) | (Cardinality::Exact(0), _) => Cardinality::Exact(0),
        (Cardinality::Endless, _) | (_, None) => Cardinality::Endless,
        (Cardinality::Unknown, _) => Cardinality::Unknown,
        (Cardinality::Exact(once), Some(rounds)) => {
            once.checked_mul(rounds).map_or(Cardinality::Unknown, Cardinality::Exact)
        }
    }
}

pub(super) fn start<T: Send + 'static>(
    rounds: Option<u64>,
    input: Box<dyn Pass<T>>,
) -> Box<dyn Pass<T>> {
    Box::new(RepeatPass { rounds, left: rounds, empty: true, input })
}

struct RepeatPass<T> {
    rounds: Option<u64>,
    /// The rounds to come, with the present one.
    left: Option<u64>,
    /// Whether the present round has yielded nothing so far.
    empty: bool,
    input: Box<dyn Pass<T>>,
}

impl<T> RepeatPass<T> {
    /// Begins the next round, if there is one.
    fn turn_over(&mut self) -> Result<()> {
        // After a round of nothing more rounds of nothing would follow, perhaps for ever.
        let left = if self.empty { Some(0) } else { self.left.map(|left| left - 1) };
        if left == Some(0) {
            self.left = left;
            return Ok(());
        }
        let restarted = self.input.restart();
        // If there was no memory for it, the round is still to be begun.
        if !lacks_memory(&restarted) {
            (self.left, self.empty) = (left, true);
        }
        restarted
    }
}

impl<T: Send> Pass<T> for RepeatPass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        while self.left != Some(0) {
            if let Some(item) = self.input.next()? {
                self.empty = false;
                return Ok(Some(item));
            }
            self.turn_over()?;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<()> {
        self.left = self.rounds;
        self.empty = true;
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        // What is left may be without end, which is no number.
        to.push(self.left.unwrap_or(u64::MAX));
        to.push_flag(self.empty);
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        let left = from.number()?;
        self.left = match (self.rounds, left) {
            (None, u64::MAX) => None,
            (None, 0) => Some(0),
            (Some(rounds), left) if left <= rounds => Some(left),
            _ => return Err(unfit(&format!("{left} rounds are left"))),
        };
        self.empty = from.flag()?;
        self.input.restore(from)
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn Pass<T>)) {
        visit(&mut *self.input);
    }
}
