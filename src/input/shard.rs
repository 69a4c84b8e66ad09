//! Every n-th element.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::dataset::{Dataset, Reorder};
use crate::input::position::{Description, Mark, Reader};
use crate::input::stage::{Item, Pass, Stage, pass_over};

impl Dataset {
    /// The elements at positions `index`, `index + shards`, `index + 2 * shards`, ...: one of
    /// `shards` parts of the dataset, of which the others have other indices.
    ///
    /// INVALID_ARGUMENT: less than one shard, an index that is not in [0, shards).
    pub fn shard(&self, shards: i64, index: i64) -> Result<Dataset> {
        let shards = u64::try_from(shards)
            .ok()
            .filter(|&shards| shards > 0)
            .ok_or_else(|| Error::invalid("shards", format!("{shards}; there is 1 or more")))?;
        let index = u64::try_from(index).ok().filter(|&index| index < shards).ok_or_else(|| {
            Error::invalid("index", format!("{index}; it is in [0, {shards}), the shards"))
        })?;
        let cardinality = self.cardinality().map(|all| all.saturating_sub(index).div_ceil(shards));
        let sharded = self.reordered(&Shard { shards, index }, cardinality)?;
        Ok(match shards {
            1 => sharded.remade_of_batches(self, |input| Ok(input.clone())),
            _ => sharded.only_of_all_files(std::slice::from_ref(self), "shard"),
        })
    }
}

#[derive(Clone, Copy)]
struct Shard {
    shards: u64,
    index: u64,
}

impl Reorder for Shard {
    fn of<T: Item>(&self, input: Arc<dyn Stage<T>>) -> Arc<dyn Stage<T>> {
        Arc::new(ShardStage { shard: *self, input })
    }
}

struct ShardStage<T> {
    shard: Shard,
    input: Arc<dyn Stage<T>>,
}

impl<T: Send + 'static> Stage<T> for ShardStage<T> {
    fn start(&self) -> Result<Box<dyn Pass<T>>> {
        let input = self.input.start()?;
        Ok(Box::new(ShardPass { shard: self.shard, skip: self.shard.index, input }))
    }

    fn describe(&self, to: &mut Description) {
        to.stage(format!("shard {} of {}", self.shard.index, self.shard.shards));
        self.input.describe(to);
    }
}

struct ShardPass<T> {
    shard: Shard,
    /// How many items come before the next of ours.
    skip: u64,
    input: Box<dyn Pass<T>>,
}

impl<T: Send> Pass<T> for ShardPass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        pass_over(&mut *self.input, &mut self.skip)?;
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

    fn save(&self, to: &mut Mark) {
        to.push(self.skip);
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.skip = from.at_most(self.shard.shards - 1, "what is to be left out")?;
        self.input.restore(from)
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        let Some(others) = count.checked_sub(1) else { return Ok(0) };
        let shards = self.shard.shards;
        let wanted =
            others.checked_mul(shards).and_then(|others| others.checked_add(self.skip + 1));
        let passed = self.input.skip(wanted.unwrap_or(u64::MAX))?;
        if Some(passed) == wanted {
            self.skip = shards - 1;
            return Ok(count);
        }
        // The end: what is left out does not matter any more.
        Ok(passed.checked_sub(self.skip + 1).map_or(0, |more| more / shards + 1))
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
