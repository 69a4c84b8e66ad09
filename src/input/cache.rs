//! A dataset that is made once and kept.

use std::sync::{Arc, OnceLock};

use crate::error::memory::reserve;
use crate::error::{Result, Status};
use crate::input::cardinality::Cardinality;
use crate::input::held::lacks_memory;
use crate::input::memory;
use crate::input::pass::Pass;
use crate::input::position::{StateReader, StateWriter, unfit};
use crate::input::replay_log::{ReplayLog, SavedLog, WantedItems};
use crate::values::Value;

/// The items of a whole round.
pub(super) struct CachedRound<T> {
    items: Vec<T>,
    /// Where the input was when the round began.
    origin: StateWriter,
}

/// Those of the first round that came to its end.
pub(super) type FirstRound<T> = Arc<OnceLock<Arc<CachedRound<T>>>>;

/// What all passes share: row numbers or elements.
#[derive(Clone, Default)]
pub(super) struct Cached {
    rows: FirstRound<u64>,
    elements: FirstRound<Value>,
}

/// What can be cached, because it can be given out any number of times.
pub(super) trait Cacheable: Clone + Send + Sync + 'static {
    /// The item as it is kept.
    fn keep(self) -> Result<Self>;

    /// What is cached of items of the kind.
    fn kept(cached: &Cached) -> &FirstRound<Self>;
}

impl Cacheable for u64 {
    fn keep(self) -> Result<u64> {
        Ok(self)
    }

    fn kept(cached: &Cached) -> &FirstRound<u64> {
        &cached.rows
    }
}

impl Cacheable for Value {
    fn keep(self) -> Result<Value> {
        memory::read_only_value(&self)
    }

    fn kept(cached: &Cached) -> &FirstRound<Value> {
        &cached.elements
    }
}

/// A pass that caches the items of `input`, of which there are so many.
pub(super) fn start<T: Cacheable>(
    cached: &Cached,
    cardinality: Cardinality,
    input: Box<dyn Pass<T>>,
) -> Box<dyn Pass<T>> {
    let kept = Arc::clone(T::kept(cached));
    Box::new(CachePass {
        replaying: kept.get().is_some(),
        kept,
        own: None,
        cardinality,
        next: 0,
        seen: Vec::new(),
        replay: ReplayLog::default(),
        failed: false,
        lacked: None,
        input,
    })
}

struct CachePass<T> {
    kept: FirstRound<T>,
    /// What a restored pass has in place of what the dataset keeps: what was kept where its position
    /// was saved, if anything was.
    own: Option<Option<Arc<CachedRound<T>>>>,
    cardinality: Cardinality,
    /// Whether this round comes from what is kept. It is decided when the round begins.
    replaying: bool,
    /// The position in what is kept.
    next: usize,
    /// What this round has yielded.
    seen: Vec<T>,
    /// The way to these.
    replay: ReplayLog,
    /// Whether an element of this round is missing.
    failed: bool,
    /// The item that there was no memory to keep. The replay log leads to it, also behind a failure.
    lacked: Option<T>,
    input: Box<dyn Pass<T>>,
}

impl<T> CachePass<T> {
    fn kept(&self) -> Option<&CachedRound<T>> {
        let kept = match &self.own {
            Some(own) => own.as_ref(),
            None => self.kept.get(),
        };
        kept.map(|kept| &**kept)
    }
}

impl<T: Cacheable> CachePass<T> {
    /// The next item of this round, as it can be kept.
    fn take(&mut self) -> Result<Option<T>> {
        // Room first, so that an item is not lost for want of it.
        reserve(&mut self.seen, 1, "cached elements")?;
        let item = match self.lacked.take() {
            Some(item) => item,
            None => {
                // A round of which an element is missing is not kept, and neither is the way to it.
                if self.failed {
                    self.replay.clear();
                }
                let Some(item) = self.replay.next(&mut *self.input)? else { return Ok(None) };
                item
            }
        };
        let kept = item.clone().keep();
        if lacks_memory(&kept) {
            self.lacked = Some(item);
        }
        kept.map(Some)
    }

    /// Makes the items of the round that was kept again, unless the dataset keeps the same round.
    fn keep_again(&mut self, count: u64, origin: &StateReader<'_>) -> Result<()> {
        let is_it = |kept: &&Arc<CachedRound<T>>| {
            kept.origin.is(origin) && kept.items.len() as u64 == count
        };
        if let Some(kept) = self.kept.get().filter(is_it) {
            self.own = Some(Some(Arc::clone(kept)));
            return Ok(());
        }
        if !self.cardinality.admits(count) {
            return Err(unfit(&format!("{count} elements are cached, more than there are")));
        }
        let mut place = *origin;
        self.input.restore(&mut place)?;
        place.end()?;
        let mut items = Vec::new();
        while (items.len() as u64) < count {
            let item = self.input.next()?;
            let item = item.ok_or_else(|| unfit("fewer elements than were cached"))?;
            reserve(&mut items, 1, "cached elements")?;
            items.push(item.keep()?);
        }
        let mut kept = CachedRound { items, origin: StateWriter::default() };
        kept.origin.read(origin);
        self.own = Some(Some(Arc::new(kept)));
        Ok(())
    }
}

impl<T: Cacheable> Pass<T> for CachePass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        if self.replaying {
            let item = self.kept().and_then(|kept| kept.items.get(self.next)).cloned();
            self.next += usize::from(item.is_some());
            return Ok(item);
        }
        match self.take() {
            Ok(Some(item)) => {
                match self.failed {
                    true => self.replay.clear(),
                    false => self.seen.push(item.clone()),
                }
                Ok(Some(item))
            }
            Ok(None) => {
                let items = std::mem::take(&mut self.seen);
                if let Some(beginning) = self.replay.beginning().filter(|_| !self.failed) {
                    let mut origin = StateWriter::default();
                    origin.copy_from(beginning);
                    let kept = Arc::new(CachedRound { items, origin });
                    if let Some(own @ None) = &mut self.own {
                        *own = Some(Arc::clone(&kept));
                    }
                    // Another pass may have been first; its items are the ones that are kept.
                    let _ = self.kept.set(kept);
                }
                self.replay.clear();
                // The next call is still at the end, not in another round.
                self.failed = true;
                Ok(None)
            }
            // What is held comes once more.
            Err(error) if error.status() == Status::ResourceExhausted => Err(error),
            Err(error) => {
                self.failed = true;
                self.seen.clear();
                self.replay.clear();
                Err(error)
            }
        }
    }

    fn restart(&mut self) -> Result<()> {
        self.lacked = None;
        self.seen.clear();
        self.replay.clear();
        self.next = 0;
        self.failed = false;
        self.replaying = self.kept().is_some();
        if self.replaying { Ok(()) } else { self.input.restart() }
    }

    fn save(&self, to: &mut StateWriter) {
        // What is kept also where this round does not come from it: the next one will.
        to.push_flag(self.kept().is_some());
        if let Some(kept) = self.kept() {
            to.push(kept.items.len() as u64);
            to.append(&kept.origin);
        }
        to.push_flag(self.replaying);
        to.push(self.next as u64);
        to.push_flag(self.failed);
        match &self.lacked {
            _ if self.replaying => {}
            None => self.replay.save(&*self.input, to),
            Some(_) => self.replay.save_before_last(to),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.own = Some(None);
        if from.flag()? {
            let (count, origin) = (from.number()?, from.nested()?);
            self.keep_again(count, &origin)?;
        }
        self.replaying = from.flag()?;
        let most = self.kept().filter(|_| self.replaying).map_or(0, |kept| kept.items.len());
        if self.replaying && self.kept().is_none() {
            return Err(unfit("nothing is cached"));
        }
        self.next = from.index(most, "the next cached element")?;
        self.failed = from.flag()?;
        if self.replaying {
            return Ok(());
        }
        let saved = SavedLog::read(from)?;
        let seen = &mut self.seen;
        seen.clear();
        self.replay.restore(&saved, &mut *self.input, WantedItems::All, &mut |item| {
            reserve(seen, 1, "cached elements")?;
            seen.push(item.keep()?);
            Ok(())
        })
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn Pass<T>)) {
        visit(&mut *self.input);
    }

    fn announce(&mut self) {
        if let Some(Some(own)) = &self.own {
            let _ = self.kept.set(Arc::clone(own));
        }
        self.input.announce();
    }
}
