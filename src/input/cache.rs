//! A dataset that is made once and kept.

use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::input::dataset::{Dataset, Kind, Reorder};
use crate::input::frame::no_memory;
use crate::input::stage::{Item, Pass, Stage};

impl Dataset {
    /// The same elements, kept in memory by the first pass that reaches the end: every pass after
    /// it yields them in the order that they had then, and asks the dataset for nothing. Passes
    /// that begin before one has reached the end make their own. Elements are read-only.
    ///
    /// Of shuffled rows of arrays only the order is kept, of rows in their own order nothing.
    /// While iterating, RESOURCE_EXHAUSTED if there is no memory to keep the elements in.
    pub fn cache(&self) -> Result<Dataset> {
        if let Kind::Rows(_, None) = self.kind() {
            return Ok(self.clone());
        }
        self.reordered(&Cache, self.cardinality())
    }
}

struct Cache;

impl Reorder for Cache {
    fn of<T: Item>(&self, input: Arc<dyn Stage<T>>) -> Arc<dyn Stage<T>> {
        Arc::new(CacheStage { kept: Arc::new(OnceLock::new()), input })
    }
}

/// The items of a whole pass, once there was one.
type Kept<T> = Arc<OnceLock<Vec<T>>>;

struct CacheStage<T> {
    kept: Kept<T>,
    input: Arc<dyn Stage<T>>,
}

impl<T: Item> Stage<T> for CacheStage<T> {
    fn start(&self) -> Result<Box<dyn Pass<T>>> {
        Ok(Box::new(CachePass {
            kept: Arc::clone(&self.kept),
            replaying: self.kept.get().is_some(),
            next: 0,
            seen: Vec::new(),
            failed: false,
            input: self.input.start()?,
        }))
    }
}

struct CachePass<T> {
    kept: Kept<T>,
    /// Whether this round comes from what is kept. It is decided when the round begins.
    replaying: bool,
    /// The position in what is kept.
    next: usize,
    /// What this round has yielded.
    seen: Vec<T>,
    /// Whether an element of this round is missing.
    failed: bool,
    input: Box<dyn Pass<T>>,
}

impl<T: Item> Pass<T> for CachePass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        if self.replaying {
            let item = self.kept.get().and_then(|kept| kept.get(self.next)).cloned();
            self.next += usize::from(item.is_some());
            return Ok(item);
        }
        // Room first, so that an item is not lost for want of it.
        self.seen.try_reserve(1).map_err(|_| no_memory("a cached dataset"))?;
        match self.input.next().and_then(|item| item.map(T::keep).transpose()) {
            Ok(Some(item)) => {
                self.seen.push(item.clone());
                Ok(Some(item))
            }
            Ok(None) => {
                let seen = std::mem::take(&mut self.seen);
                if !self.failed {
                    // Another pass may have been first; its items are the ones that are kept.
                    let _ = self.kept.set(seen);
                }
                // Whoever asks again is still at the end, not in another round.
                self.failed = true;
                Ok(None)
            }
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }

    fn restart(&mut self) -> Result<()> {
        self.seen.clear();
        self.next = 0;
        self.failed = false;
        self.replaying = self.kept.get().is_some();
        if self.replaying { Ok(()) } else { self.input.restart() }
    }

    fn reserve(&mut self, items: usize) {
        self.input.reserve(items);
    }

    fn announce(&mut self) {
        self.input.announce();
    }
}
