//! Every n-th element.

use crate::error::Result;
use crate::input::pass::{Pass, leave_out};
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
