//! The first elements of a dataset, or all others.

use crate::error::Result;
use crate::input::arguments::in_range;
use crate::input::cardinality::Cardinality;
use crate::input::dataset::Dataset;
use crate::input::facts::Facts;
use crate::input::pass::{Item, Pass, leave_out};
use crate::input::position::{StateReader, StateWriter};
use crate::input::reorder::Reorder;

impl Dataset {
    /// The first `count` elements, or all if there are fewer or if `count` is -1. INVALID_ARGUMENT if it is less than
    /// -1.
    pub fn take(&self, count: i64) -> Result<Dataset> {
        self.then(Take(count_or_all(count)?))
    }

    /// All elements except the first `count`. None are left if there are no more than `count`, or if it is -1. Skipping
    /// in ranges and in rows of arrays takes no time; other elements are made and dropped. INVALID_ARGUMENT if `count`
    /// is less than -1.
    pub fn skip(&self, count: i64) -> Result<Dataset> {
        match count_or_all(count)? {
            // The result is empty. It does not iterate over the dataset, which may be endless.
            u64::MAX => self.then(Take(0)),
            count => match self.op().behind(count) {
                Some(rest) => Dataset::of(rest, &[]),
                None => self.then(Skip(count)),
            },
        }
    }
}

/// A count from the caller. For -1 it returns a number larger than any dataset.
fn count_or_all(count: i64) -> Result<u64> {
    match count {
        -1 => Ok(u64::MAX),
        count => in_range("count", count, 0.., "the number of elements, or -1 for all"),
    }
}

/// Takes the first elements, as many as this number.
#[derive(Clone)]
struct Take(u64);

/// Skips the first elements, as many as this number.
#[derive(Clone)]
struct Skip(u64);

impl Reorder for Take {
    fn words(&self) -> String {
        format!("the first {}", self.0)
    }

    fn reorder(&self, input: &Facts, facts: &mut Facts) -> Result<()> {
        facts.reorder(match input.cardinality {
            Cardinality::Exact(all) => Cardinality::Exact(all.min(self.0)),
            Cardinality::Endless if self.0 < u64::MAX => Cardinality::Exact(self.0),
            Cardinality::Unknown if self.0 == 0 => Cardinality::Exact(0),
            same => same,
        });
        facts.take_rows(input, 0..self.0)?;
        if self.0 < u64::MAX {
            facts.need_all_files("take");
        }
        Ok(())
    }

    fn pass<T: Item>(&self, _count: Cardinality, input: Box<dyn Pass<T>>) -> Box<dyn Pass<T>> {
        part(0, Some(self.0), input)
    }
}

impl Reorder for Skip {
    fn words(&self) -> String {
        format!("all but the first {}", self.0)
    }

    fn reorder(&self, input: &Facts, facts: &mut Facts) -> Result<()> {
        facts.reorder(input.cardinality.map(|all| all.saturating_sub(self.0)));
        facts.take_rows(input, self.0..u64::MAX)?;
        if self.0 > 0 {
            facts.need_all_files("skip");
        }
        Ok(())
    }

    fn pass<T: Item>(&self, _count: Cardinality, input: Box<dyn Pass<T>>) -> Box<dyn Pass<T>> {
        part(self.0, None, input)
    }
}

/// A pass that skips `skip` items and then returns `take` items, or all.
fn part<T: Item>(skip: u64, take: Option<u64>, input: Box<dyn Pass<T>>) -> Box<dyn Pass<T>> {
    let range = SkipAndTake { skip, take };
    Box::new(RangePass { range, left: range, input })
}

/// How many items to skip, and how many to return then; none stands for all.
#[derive(Clone, Copy)]
struct SkipAndTake {
    skip: u64,
    take: Option<u64>,
}

struct RangePass<T> {
    range: SkipAndTake,
    /// How many items are still to be skipped, and then to be returned.
    left: SkipAndTake,
    input: Box<dyn Pass<T>>,
}

impl<T: Send> Pass<T> for RangePass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        if self.left.take == Some(0) {
            return Ok(None);
        }
        leave_out(&mut *self.input, &mut self.left.skip)?;
        if self.left.skip > 0 {
            return Ok(None);
        }
        let item = self.input.next()?;
        if let (Some(_), Some(take)) = (&item, &mut self.left.take) {
            *take -= 1;
        }
        Ok(item)
    }

    fn restart(&mut self) -> Result<()> {
        self.left = self.range;
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.left.skip);
        to.push(self.left.take.unwrap_or(0));
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.left.skip = from.at_most(self.range.skip, "what is to be left out")?;
        let take = from.at_most(self.range.take.unwrap_or(0), "what is to be taken")?;
        self.left.take = self.range.take.map(|_| take);
        self.input.restore(from)
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn Pass<T>)) {
        visit(&mut *self.input);
    }
}
