//! A dataset over and over.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Reorder};
use crate::input::held::lacks_memory;
use crate::input::position::{Description, Mark, Reader, unfit};
use crate::input::stage::{Item, Pass, Stage};

impl Dataset {
    /// The elements `count` times, or endlessly if it is -1. Each round is shuffled anew where
    /// the dataset is. Batches made before stay within their round, batches made of the result
    /// cross from one round into the next. Repeating nothing ends at once.
    /// INVALID_ARGUMENT if `count` is less than -1.
    pub fn repeat(&self, count: i64) -> Result<Dataset> {
        if count < -1 {
            return Err(Error::invalid(
                "count",
                format!("{count}; it is the number of rounds, or -1 for no end"),
            ));
        }
        let rounds = u64::try_from(count).ok();
        let cardinality = match (self.cardinality(), rounds) {
            (_, Some(0)) | (Cardinality::Exact(0), _) => Cardinality::Exact(0),
            (Cardinality::Endless, _) | (_, None) => Cardinality::Endless,
            (Cardinality::Unknown, _) => Cardinality::Unknown,
            (Cardinality::Exact(once), Some(rounds)) => {
                once.checked_mul(rounds).map_or(Cardinality::Unknown, Cardinality::Exact)
            }
        };
        let repeated = self.reordered(&Repeat { rounds }, cardinality)?;
        let repeated = repeated.remade_of_batches(self, move |input| input.repeat(count));
        Ok(if rounds == Some(1) { repeated } else { repeated.with_several_partial_batches() })
    }
}

struct Repeat {
    /// None: no end.
    rounds: Option<u64>,
}

impl Reorder for Repeat {
    fn of<T: Item>(&self, input: Arc<dyn Stage<T>>) -> Arc<dyn Stage<T>> {
        Arc::new(RepeatStage { rounds: self.rounds, input })
    }
}

struct RepeatStage<T> {
    rounds: Option<u64>,
    input: Arc<dyn Stage<T>>,
}

impl<T: Send + 'static> Stage<T> for RepeatStage<T> {
    fn start(&self) -> Result<Box<dyn Pass<T>>> {
        let input = self.input.start()?;
        Ok(Box::new(RepeatPass { rounds: self.rounds, left: self.rounds, empty: true, input }))
    }

    fn describe(&self, to: &mut Description) {
        to.stage(match self.rounds {
            Some(rounds) => format!("{rounds} rounds"),
            None => "rounds without end".into(),
        });
        self.input.describe(to);
    }
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

    fn save(&self, to: &mut Mark) {
        // What is left may be without end, which is no number.
        to.push(self.left.unwrap_or(u64::MAX));
        to.push_flag(self.empty);
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
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

    fn skip(&mut self, count: u64) -> Result<u64> {
        let mut skipped = 0;
        // How many rounds were begun here.
        let mut rounds = 0;
        while skipped < count && self.left != Some(0) {
            let passed = self.input.skip(count - skipped)?;
            skipped += passed;
            self.empty &= passed == 0;
            if rounds > 0 && passed > 0 && self.passes_freely() {
                // That was a round, or its beginning at the end of the way, and all rounds are alike.
                let others = (count - skipped) / passed;
                let others = self.left.map_or(others, |left| others.min(left - 1));
                skipped += others * passed;
                self.left = self.left.map(|left| left - others);
            }
            if skipped < count {
                self.turn_over()?;
                rounds += 1;
            }
        }
        Ok(skipped)
    }

    fn passes_freely(&self) -> bool {
        self.input.passes_freely()
    }

    fn reserve(&mut self, items: usize) {
        self.input.reserve(items);
    }

    fn announce(&mut self) {
        self.input.announce();
    }
}
