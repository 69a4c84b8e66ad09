//! Divides a dataset by positions: a shard has every n-th element.

use crate::error::Result;
use crate::input::arguments::in_range;
use crate::input::cardinality::Cardinality;
use crate::input::dataset::Dataset;
use crate::input::facts::Facts;
use crate::input::pass::{Item, Pass, leave_out};
use crate::input::position::{StateReader, StateWriter};
use crate::input::reorder::Reorder;

impl Dataset {
    /// The elements at positions `index`, `index + shards`, `index + 2 * shards`, ...: one of `shards` parts of the
    /// dataset. The other parts have the other indices.
    ///
    /// INVALID_ARGUMENT: less than one shard, an index that is not in [0, shards).
    pub fn shard(&self, shards: i64, index: i64) -> Result<Dataset> {
        let of = in_range("shard_count", shards, 1.., "1 or more")?;
        let index =
            in_range("index", index, 0..shards, format_args!("in [0, {shards}), the shards"))?;
        self.then(Shard { shards: of, index })
    }
}

#[derive(Clone, Copy)]
struct Shard {
    shards: u64,
    index: u64,
}

impl Reorder for Shard {
    fn words(&self) -> String {
        format!("shard {} of {}", self.index, self.shards)
    }

    fn reorder(&self, input: &Facts, facts: &mut Facts) -> Result<()> {
        let of = |all: u64| all.saturating_sub(self.index).div_ceil(self.shards);
        facts.reorder(input.cardinality.map(of));
        if self.shards > 1 {
            facts.need_all_files("shard");
        }
        Ok(())
    }

    fn pass<T: Item>(&self, _count: Cardinality, input: Box<dyn Pass<T>>) -> Box<dyn Pass<T>> {
        Box::new(ShardPass { shard: *self, skip: self.index, input })
    }
}

struct ShardPass<T> {
    shard: Shard,
    /// How many items to skip before the next one of this shard.
    skip: u64,
    input: Box<dyn Pass<T>>,
}

impl<T: Send> Pass<T> for ShardPass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        leave_out(&mut *self.input, &mut self.skip)?;
        if self.skip > 0 {
            return Ok(None);
        }
        let item = self.input.next()?;
        self.skip = self.shard.shards - 1;
        Ok(item)
    }

    fn restart(&mut self) -> Result<()> {
        self.skip = self.shard.index;
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.skip);
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.skip = from.at_most(self.shard.shards - 1, "what is to be left out")?;
        self.input.restore(from)
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn Pass<T>)) {
        visit(&mut *self.input);
    }
}
