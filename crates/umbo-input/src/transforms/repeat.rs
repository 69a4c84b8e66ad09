//! Repetition of a dataset.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::arguments::in_range;
use crate::cardinality::Cardinality;
use crate::dataset::Dataset;
use crate::passes::given::Stop;
use crate::passes::pending_item::comes_again;
use crate::passes::position::{StateReader, StateWriter, unfit};
use crate::passes::signature::Signature;
use crate::passes::{Item, IteratorStage};
use crate::properties::DatasetProperties;
use crate::transforms::reorder::Reorder;
use umbo_base::error::{Error, Result};

impl Dataset {
    /// Repeats the elements `count` times, or endlessly if it is -1. If the dataset is shuffled,
    /// each round has another order. Batches made before stay within their round. Batches made
    /// of the result may contain elements of two rounds. Repeating an empty dataset ends at
    /// once. INVALID_ARGUMENT if `count` is less than -1.
    pub fn repeat(&self, count: i64) -> Result<Dataset> {
        let count: i64 = in_range(
            "count",
            count,
            -1..,
            "the number of rounds, or -1 for no end",
        )?;
        self.then(Repeat(u64::try_from(count).ok()))
    }
}

/// Repeats for this number of rounds. Without a number, it does not end.
#[derive(Clone)]
struct Repeat(Option<u64>);

impl Reorder for Repeat {
    fn signature(&self) -> Signature {
        // Without a number of rounds, there is no end.
        Signature::new("repeat").with("rounds", self.0)
    }

    fn reorder(&self, input: &DatasetProperties, properties: &mut DatasetProperties) -> Result<()> {
        properties.reorder(repeated(input.cardinality, self.0));
        properties.order.forget_shuffle();
        Ok(())
    }

    fn pass<T: Item>(
        &self,
        _count: Cardinality,
        input: Box<dyn IteratorStage<T>>,
    ) -> Box<dyn IteratorStage<T>> {
        Box::new(RepeatPass {
            rounds: self.0,
            left: self.0,
            empty: true,
            input,
        })
    }
}

/// The number of elements this number of rounds has.
fn repeated(once: Cardinality, rounds: Option<u64>) -> Cardinality {
    match (once, rounds) {
        (_, Some(0)) | (Cardinality::Exact(0), _) => Cardinality::Exact(0),
        (Cardinality::Unknown, None) => Cardinality::EndlessUnlessEmpty,
        (Cardinality::Endless | Cardinality::EndlessUnlessEmpty, _) => once,
        (Cardinality::Exact(_), None) => Cardinality::Endless,
        (Cardinality::Unknown, Some(_)) => Cardinality::Unknown,
        (Cardinality::Exact(once), Some(rounds)) => once
            .checked_mul(rounds)
            .map_or(Cardinality::Unknown, Cardinality::Exact),
    }
}

/// The number of whole rounds of `once` items that lie before the round of the last of `items`
/// items. There are `rounds` rounds.
fn whole_before(items: u64, once: u64, rounds: Option<u64>) -> u64 {
    let before = items.saturating_sub(1) / once;
    rounds.map_or(before, |rounds| before.min(rounds.saturating_sub(1)))
}

struct RepeatPass<T> {
    rounds: Option<u64>,
    /// The number of rounds left, with the present one.
    left: Option<u64>,
    /// Whether the present round has yielded nothing so far.
    empty: bool,
    input: Box<dyn IteratorStage<T>>,
}

impl<T> RepeatPass<T> {
    /// Begins the next round, if there is one.
    fn turn_over(&mut self) -> Result<()> {
        // After an empty round only empty rounds would follow, perhaps endlessly.
        let left = if self.empty {
            Some(0)
        } else {
            self.left.map(|left| left - 1)
        };
        if left == Some(0) {
            self.left = left;
            return Ok(());
        }
        let restarted = self.input.restart();
        // If there was no memory for it, the round has not begun yet.
        if !comes_again(&restarted) {
            (self.left, self.empty) = (left, true);
        }
        restarted
    }

    /// At the beginning of a round, passes over the whole rounds in front of the one in which the
    /// last of the next `left` items is, as far as there are such rounds and nothing but their
    /// number matters.
    fn skip_whole(&mut self, left: &mut u64) {
        let Some(Cardinality::Exact(once @ 1..)) = self.input.certain() else {
            return;
        };
        let rounds = whole_before(*left, once, self.left);
        if rounds > 0 {
            self.input.skip_rounds(rounds, u64::MAX);
            self.left = self.left.map(|left| left - rounds);
            *left -= rounds * once;
        }
    }
}

impl<T: Send> IteratorStage<T> for RepeatPass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        while self.left != Some(0) {
            if let Some(item) = self.input.next()? {
                self.empty = false;
                return Ok(Some(item));
            }
            // No item of the round takes the place of this failure.
            self.turn_over().map_err(Error::shifting)?;
        }
        Ok(None)
    }

    fn skip(&mut self, left: &mut u64, stop: &Stop) -> Result<()> {
        while self.left != Some(0) {
            let before = *left;
            // Unwind safety: a pass in which a panic occurred continues after it.
            let skipped = catch_unwind(AssertUnwindSafe(|| self.input.skip(left, stop)));
            self.empty &= *left == before;
            skipped.unwrap_or_else(|panic| resume_unwind(panic))?;
            if *left == 0 {
                break;
            }
            self.turn_over().map_err(Error::shifting)?;
            self.skip_whole(left);
        }
        Ok(())
    }

    fn certain(&self) -> Option<Cardinality> {
        self.input.certain().map(|once| repeated(once, self.rounds))
    }

    fn skip_rounds(&mut self, rounds: u64, items: u64) {
        (self.left, self.empty) = (self.rounds, true);
        let mut last = if self.rounds == Some(0) { 0 } else { items };
        if let Some(Cardinality::Exact(once @ 1..)) = self.input.certain() {
            let whole = whole_before(last, once, self.rounds);
            if whole > 0 {
                self.input
                    .skip_rounds(rounds.saturating_mul(whole), u64::MAX);
            }
            last -= whole * once;
        }
        self.input.skip_rounds(rounds, last);
    }

    fn restart(&mut self) -> Result<()> {
        self.left = self.rounds;
        self.empty = true;
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        // If the rounds are endless, the largest number is written.
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

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<T>)) {
        visit(&mut *self.input);
    }
}
