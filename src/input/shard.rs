//! Every n-th element.

use crate::error::Result;
use crate::input::pass::{Pass, pass_over};
use crate::input::position::{StateReader, StateWriter};

#[derive(Clone, Copy)]
pub(super) struct Shard {
    pub(super) shards: u64,
    pub(super) index: u64,
}

impl Shard {
    /// How many of so many elements are in the shard.
    pub(super) fn of(&self, elements: u64) -> u64 {
        elements.saturating_sub(self.index).div_ceil(self.shards)
    }

    pub(super) fn start<T: Send + 'static>(&self, input: Box<dyn Pass<T>>) -> Box<dyn Pass<T>> {
        Box::new(ShardPass { shard: *self, skip: self.index, input })
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

    fn save(&self, to: &mut StateWriter) {
        to.push(self.skip);
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
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

    fn input(&mut self) -> Option<&mut dyn Pass<T>> {
        Some(&mut *self.input)
    }
}
