//! A dataset whose elements are made once and kept.

use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::dataset::Dataset;
use crate::passes::given::Given;
use crate::passes::position::{MOST_AGAIN, Rounds, StateReader, StateWriter, unfit};
use crate::passes::replay_log::{ReplayLog, SavedLog};
use crate::passes::signature::Signature;
use crate::passes::{Item, IteratorStage};
use crate::properties::DatasetProperties;
use crate::transforms::reorder::Reorder;
use crate::transforms::suspects::FirstRound;
use umbo_base::error::Result;
use umbo_base::error::memory::reserve;
use umbo_base::observe::log::{self, Level};

/// The items of a complete round.
struct CachedRound<T> {
    items: Vec<T>,
    /// The position of the input when the round began.
    origin: StateWriter,
}

impl Dataset {
    /// Keeps the elements in memory. The first pass that is given the end keeps them, and every
    /// later pass yields them in the same order without using the dataset. Passes that begin
    /// before one has reached the end make their own elements. Elements are read-only.
    ///
    /// Of shuffled rows of arrays only the order is kept. Of rows in their own order nothing is
    /// kept. If there is no memory to keep the elements, each pass makes its own.
    pub fn cache(&self) -> Result<Dataset> {
        self.then(Cache::default())
    }
}

/// The state that all passes share: a [`CachedRound`], once there is one. Its items are row numbers
/// or elements, as the dataset's are.
#[derive(Clone, Default)]
struct Cache(FirstRound);

impl Reorder for Cache {
    fn signature(&self) -> Signature {
        Signature::new("cache")
    }

    fn reorder(&self, input: &DatasetProperties, properties: &mut DatasetProperties) -> Result<()> {
        properties.reorder(input.cardinality);
        properties.rows.clone_from(&input.rows);
        properties.order.cache(&self.0);
        Ok(())
    }

    fn pass<T: Item>(
        &self,
        cardinality: Cardinality,
        input: Box<dyn IteratorStage<T>>,
    ) -> Box<dyn IteratorStage<T>> {
        let mut pass = CachePass {
            first: Arc::clone(&self.0),
            restored: None,
            complete: None,
            given: None,
            cardinality,
            replaying: None,
            next: 0,
            seen: Vec::new(),
            replay: ReplayLog::default(),
            failed: false,
            input,
        };
        pass.replaying = pass.kept();
        Box::new(pass)
    }

    fn anew(&self) -> Cache {
        Cache::default()
    }
}

struct CachePass<T> {
    first: FirstRound,
    /// In a restored pass, this replaces the dataset's cache: it holds what was cached where the
    /// position was saved, if anything was.
    restored: Option<Option<Arc<CachedRound<T>>>>,
    /// A complete round of this pass. The dataset caches it once its end was given.
    complete: Option<Arc<CachedRound<T>>>,
    /// The time when the items are given, once an iterator has the pass.
    given: Option<Given>,
    cardinality: Cardinality,
    /// The cached round that this round yields, if there is one. It is chosen when the round
    /// begins.
    replaying: Option<Arc<CachedRound<T>>>,
    /// The position in the cached round.
    next: usize,
    /// The items that this round has yielded.
    seen: Vec<T>,
    /// The log that leads to these items again.
    replay: ReplayLog,
    /// Whether this round cannot be kept, because an element failed or there was no memory for it.
    failed: bool,
    input: Box<dyn IteratorStage<T>>,
}

impl<T: Item> CachePass<T> {
    /// The round that the dataset has cached.
    fn of_dataset(&self) -> Option<Arc<CachedRound<T>>> {
        self.first
            .get()
            .and_then(|first| Arc::clone(first).downcast().ok())
    }

    /// The cached round that the next round yields.
    fn kept(&self) -> Option<Arc<CachedRound<T>>> {
        let kept = self.restored.clone().unwrap_or_else(|| self.of_dataset());
        kept.or_else(|| self.complete.clone())
    }

    /// Is at the beginning of another round. The input is not.
    fn turn_over(&mut self) {
        self.seen.clear();
        self.replay.clear();
        self.next = 0;
        self.failed = false;
        self.replaying = self.kept();
        // The dataset may have cached it, or the round of another pass.
        if self.restored.is_none() && self.of_dataset().is_some() {
            self.complete = None;
        }
    }

    /// Drops what was kept of this round.
    fn give_up(&mut self) {
        self.failed = true;
        self.seen.clear();
        self.replay.clear();
    }

    /// Makes the items of the cached round again, unless the dataset has cached the same round.
    fn keep_again(&mut self, count: u64, origin: &StateReader<'_>) -> Result<()> {
        let is_it =
            |kept: &Arc<CachedRound<T>>| kept.origin.is(origin) && kept.items.len() as u64 == count;
        if let Some(kept) = self.of_dataset().filter(is_it) {
            self.restored = Some(Some(kept));
            return Ok(());
        }
        if !self.cardinality.admits(count) {
            return Err(unfit(&format!(
                "{count} elements are cached, more than there are"
            )));
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
        // What is repeated without end is known by this alone: it was empty, and is not now.
        if self.input.next()?.is_some() {
            return Err(unfit(&format!(
                "{count} elements were cached, and there are more"
            )));
        }
        let mut kept = CachedRound {
            items,
            origin: StateWriter::default(),
        };
        kept.origin.read(origin);
        self.restored = Some(Some(Arc::new(kept)));
        Ok(())
    }
}

impl<T: Item> IteratorStage<T> for CachePass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        if let Some(kept) = &self.replaying {
            let item = kept.items.get(self.next).cloned();
            self.next += usize::from(item.is_some());
            return Ok(item);
        }
        // If the input panics, the round stays one that cannot be kept.
        let failed = std::mem::replace(&mut self.failed, true);
        let next = self.replay.next(&mut *self.input);
        self.failed = failed;
        if self.failed {
            self.replay.clear();
        }
        match next {
            Ok(Some(item)) => {
                let reserved = reserve(&mut self.seen, 1, "cached elements");
                match reserved.and_then(|()| item.clone().keep()) {
                    Ok(kept) => {
                        if !self.failed {
                            self.seen.push(kept.clone());
                        }
                        Ok(Some(kept))
                    }
                    Err(error) => {
                        log::log(Level::Info, || format!("a dataset is not cached: {error}"));
                        self.give_up();
                        Ok(Some(item))
                    }
                }
            }
            Ok(None) => {
                let items = std::mem::take(&mut self.seen);
                if let Some(beginning) = self.replay.beginning().filter(|_| !self.failed) {
                    let mut origin = StateWriter::default();
                    origin.copy_from(beginning);
                    let kept = Arc::new(CachedRound { items, origin });
                    self.complete = Some(Arc::clone(&kept));
                    if let Some(given) = &self.given {
                        let first = Arc::clone(&self.first);
                        // If another pass was first, its items are the cached ones.
                        given.then(Box::new(move || drop(first.set(kept))));
                    }
                }
                self.replay.clear();
                // The next call finds the end again, and not another round.
                self.failed = true;
                Ok(None)
            }
            // The item comes again with the next call.
            Err(error) if error.comes_again() => Err(error),
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    fn certain(&self) -> Option<Cardinality> {
        self.replaying
            .as_ref()
            .map(|kept| Cardinality::Exact(kept.items.len() as u64))
    }

    fn skip_rounds(&mut self, _rounds: u64, _items: u64) {
        self.turn_over();
    }

    fn restart(&mut self) -> Result<()> {
        self.turn_over();
        if self.replaying.is_some() {
            Ok(())
        } else {
            self.input.restart()
        }
    }

    fn save(&self, to: &mut StateWriter) {
        // The cached round is saved even if this round does not use it, because the next one will.
        let kept = self.kept();
        to.push_flag(kept.is_some());
        if let Some(kept) = kept {
            to.push(kept.items.len() as u64);
            to.append(&kept.origin);
        }
        to.push_flag(self.replaying.is_some());
        to.push(self.next as u64);
        to.push_flag(self.failed);
        if self.replaying.is_none() {
            self.replay.save(&*self.input, to);
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        (self.restored, self.complete) = (Some(None), None);
        if from.flag()? {
            let count = from.elements(MOST_AGAIN)?;
            let origin = from.nested()?;
            self.keep_again(count, &origin)?;
        }
        let is_replaying = from.flag()?;
        let kept = self.kept();
        if is_replaying && kept.is_none() {
            return Err(unfit("nothing is cached"));
        }
        self.replaying = kept.filter(|_| is_replaying);
        let most = self.replaying.as_ref().map_or(0, |kept| kept.items.len());
        self.next = from.index(most, "the next cached element")?;
        self.failed = from.flag()?;
        if is_replaying {
            return Ok(());
        }
        let saved = SavedLog::read(from)?;
        let seen = &mut self.seen;
        seen.clear();
        self.replay.restore(&saved, &mut *self.input, &mut |item| {
            reserve(seen, 1, "cached elements")?;
            seen.push(item.keep()?);
            Ok(())
        })
    }

    fn rounds(&mut self, to: &mut Rounds) {
        let is_kept = self.kept().is_some();
        to.push_flag(is_kept);
        // A round that is kept needs no other rounds of the input.
        if !is_kept {
            self.input.rounds(to);
        }
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        if to.flag()? {
            return Ok(());
        }
        self.complete = None;
        self.input.go_back(to)
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<T>)) {
        visit(&mut *self.input);
    }

    fn announce(&mut self, given: &Given) {
        // In a restored pass, a cached round was given where the position was saved.
        if let Some(kept) = self.restored.as_ref().and_then(|_| self.kept()) {
            let _ = self.first.set(kept);
        }
        self.given = Some(given.clone());
        self.input.announce(given);
    }
}
