//! The first elements of a dataset, and all but the first.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Kind, Reorder};
use crate::input::position::{Description, Mark, Reader};
use crate::input::stage::{Item, Pass, Stage, pass_over};

impl Dataset {
    /// The first `count` elements, or all if there are fewer or if it is -1. INVALID_ARGUMENT if
    /// `count` is less than -1.
    pub fn take(&self, count: i64) -> Result<Dataset> {
        let count = count_or_all(count)?;
        if let Kind::Rows(arrays, None) = self.kind() {
            let part = arrays.part(0, count.min(arrays.rows))?;
            return Dataset::of_arrays(self.element_spec().clone(), part).made_of([self]);
        }
        let cardinality = match self.cardinality() {
            Cardinality::Exact(all) => Cardinality::Exact(all.min(count)),
            Cardinality::Endless if count == u64::MAX => Cardinality::Endless,
            Cardinality::Endless => Cardinality::Exact(count),
            Cardinality::Unknown if count == 0 => Cardinality::Exact(0),
            Cardinality::Unknown => Cardinality::Unknown,
        };
        let part = self.reordered(&Range { skip: 0, take: Some(count) }, cardinality)?;
        Ok(match count {
            u64::MAX => part.remade_of_batches(self, |input| Ok(input.clone())),
            _ => part.only_of_all_files(std::slice::from_ref(self), "take"),
        })
    }

    /// All elements but the first `count`; none if there are no more or if it is -1, which is all. Elements
    /// of ranges, arrays and batches of these are passed over in one go; what may fail, or comes of the
    /// caller's functions, is made.
    /// INVALID_ARGUMENT if `count` is less than -1.
    pub fn skip(&self, count: i64) -> Result<Dataset> {
        let count = count_or_all(count)?;
        if count == u64::MAX {
            // Without going through a dataset that may have no end.
            return self.take(0);
        }
        if let Kind::Rows(arrays, None) = self.kind() {
            let part = arrays.part(count.min(arrays.rows), arrays.rows)?;
            return Dataset::of_arrays(self.element_spec().clone(), part).made_of([self]);
        }
        let cardinality = self.cardinality().map(|all| all.saturating_sub(count));
        let part = self.reordered(&Range { skip: count, take: None }, cardinality)?;
        Ok(match count {
            0 => part.remade_of_batches(self, |input| Ok(input.clone())),
            _ => part.only_of_all_files(std::slice::from_ref(self), "skip"),
        })
    }
}

/// A count from the caller, of which -1 is more than there can be.
fn count_or_all(count: i64) -> Result<u64> {
    match count {
        -1 => Ok(u64::MAX),
        count => u64::try_from(count).map_err(|_| {
            let problem = format!("{count}; it is the number of elements, or -1 for all");
            Error::invalid("count", problem)
        }),
    }
}

/// How many items to leave out, and how many to take then; none stands for all.
#[derive(Clone, Copy)]
struct Range {
    skip: u64,
    take: Option<u64>,
}

impl Reorder for Range {
    fn of<T: Item>(&self, input: Arc<dyn Stage<T>>) -> Arc<dyn Stage<T>> {
        Arc::new(RangeStage { range: *self, input })
    }
}

struct RangeStage<T> {
    range: Range,
    input: Arc<dyn Stage<T>>,
}

impl<T: Send + 'static> Stage<T> for RangeStage<T> {
    fn start(&self) -> Result<Box<dyn Pass<T>>> {
        let input = self.input.start()?;
        Ok(Box::new(RangePass { range: self.range, left: self.range, input }))
    }

    fn describe(&self, to: &mut Description) {
        to.stage(match self.range.take {
            Some(take) => format!("the first {take}"),
            None => format!("all but the first {}", self.range.skip),
        });
        self.input.describe(to);
    }
}

struct RangePass<T> {
    range: Range,
    /// What is still to be left out and to be taken.
    left: Range,
    input: Box<dyn Pass<T>>,
}

impl<T: Send> Pass<T> for RangePass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        if self.left.take == Some(0) {
            return Ok(None);
        }
        pass_over(&mut *self.input, &mut self.left.skip)?;
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

    fn save(&self, to: &mut Mark) {
        to.push(self.left.skip);
        to.push(self.left.take.unwrap_or(0));
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.left.skip = from.at_most(self.range.skip, "what is to be left out")?;
        let take = from.at_most(self.range.take.unwrap_or(0), "what is to be taken")?;
        self.left.take = self.range.take.map(|_| take);
        self.input.restore(from)
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        let count = count.min(self.left.take.unwrap_or(u64::MAX));
        if count > 0 {
            self.left.skip -= self.input.skip(self.left.skip)?;
        }
        if count == 0 || self.left.skip > 0 {
            return Ok(0);
        }
        let skipped = self.input.skip(count)?;
        self.left.take = self.left.take.map(|take| take - skipped);
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
