//! The first elements of a dataset, and all but the first.

use crate::error::Result;
use crate::input::arguments::in_range;
use crate::input::cardinality::Cardinality;
use crate::input::pass::{Pass, leave_out};
use crate::input::position::{StateReader, StateWriter};

/// A count from the caller, of which -1 is more than there can be.
pub(super) fn count_or_all(count: i64) -> Result<u64> {
    match count {
        -1 => Ok(u64::MAX),
        count => in_range("count", count, 0.., "the number of elements, or -1 for all"),
    }
}

/// How many come of so many elements, if the first `most` are taken.
pub(super) fn first(elements: Cardinality, most: u64) -> Cardinality {
    match elements {
        Cardinality::Exact(all) => Cardinality::Exact(all.min(most)),
        Cardinality::Endless if most == u64::MAX => Cardinality::Endless,
        Cardinality::Endless => Cardinality::Exact(most),
        Cardinality::Unknown if most == 0 => Cardinality::Exact(0),
        Cardinality::Unknown => Cardinality::Unknown,
    }
}

/// A pass that leaves out `skip` items, and then gives `take`, or all.
pub(super) fn part<T: Send + 'static>(
    skip: u64,
    take: Option<u64>,
    input: Box<dyn Pass<T>>,
) -> Box<dyn Pass<T>> {
    let range = SkipAndTake { skip, take };
    Box::new(RangePass { range, left: range, input })
}

/// How many items to leave out, and how many to take then; none stands for all.
#[derive(Clone, Copy)]
struct SkipAndTake {
    skip: u64,
    take: Option<u64>,
}

struct RangePass<T> {
    range: SkipAndTake,
    /// What is still to be left out and to be taken.
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
