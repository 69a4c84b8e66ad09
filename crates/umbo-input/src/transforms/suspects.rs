//! Warnings of pipelines that work and are hardly meant. In a strict process they are errors.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::cardinality::Cardinality;
use crate::transforms::batch_parameters::BatchParameters;
use umbo_base::error::{Error, Result};
use umbo_base::observe::strict;

/// The first round of a cache that was completed, of whatever type.
pub(crate) type FirstRound = Arc<OnceLock<Arc<dyn Any + Send + Sync>>>;

/// The properties of the order of items, and of the items that are kept.
#[derive(Clone, Default)]
pub(crate) struct OrderFacts {
    /// Whether the items were shuffled.
    is_shuffled: bool,
    /// The last shuffle, if it has another order in each pass.
    reshuffled: Option<Reshuffled>,
    /// Whether the items are batches of elements that were not shuffled.
    is_batched_unshuffled: bool,
    /// Whether such batches were shuffled.
    has_shuffled_batches: bool,
    /// The last cache, if a pass need not read all of it.
    cache: Option<FirstRound>,
}

/// A shuffle with another order in each pass.
#[derive(Clone)]
struct Reshuffled {
    /// The parts that were made of its items.
    parts: Arc<Mutex<Parts>>,
    /// The first cache above it, which keeps the order of its first round.
    kept: Option<FirstRound>,
}

impl Reshuffled {
    /// Whether no cache has kept an order.
    fn is_open(&self) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.get().is_none())
    }
}

#[derive(Default)]
struct Parts {
    first: bool,
    rest: bool,
    /// The number of shards and the index of the first one.
    shard: Option<(u64, u64)>,
    told: bool,
}

/// A part of a dataset.
#[derive(Clone, Copy)]
pub(crate) enum PartKind {
    First,
    Rest,
    /// A shard of so many, and its index.
    Shard(u64, u64),
}

impl OrderFacts {
    /// The properties of what is made of all `inputs`.
    pub(crate) fn of<'a>(inputs: impl Iterator<Item = &'a OrderFacts> + Clone) -> OrderFacts {
        OrderFacts {
            is_shuffled: inputs.clone().any(|input| input.is_shuffled),
            reshuffled: inputs.clone().find_map(|input| input.reshuffled.clone()),
            is_batched_unshuffled: inputs.clone().any(|input| input.is_batched_unshuffled),
            has_shuffled_batches: inputs.clone().any(|input| input.has_shuffled_batches),
            cache: inputs.clone().find_map(|input| input.cache.clone()),
        }
    }

    /// Notes a shuffle. `in_each_pass`: it has another order in each pass. `of_all`: it reads all
    /// items before the first one comes.
    pub(crate) fn shuffle(&mut self, in_each_pass: bool, of_all: bool) {
        self.has_shuffled_batches |= self.is_batched_unshuffled;
        self.is_shuffled = true;
        self.reshuffled = in_each_pass.then(|| Reshuffled {
            parts: Arc::default(),
            kept: None,
        });
        if of_all {
            self.cache = None;
        }
    }

    /// Notes that the items are drawn from several datasets, other ones in each pass.
    pub(crate) fn sample(&mut self) {
        self.reshuffled = Some(Reshuffled {
            parts: Arc::default(),
            kept: None,
        });
    }

    /// Notes that the items are batches. `matters`: it is another thing to shuffle the elements in
    /// them.
    pub(crate) fn batch(&mut self, matters: bool) {
        self.is_batched_unshuffled = matters && !self.is_shuffled;
        self.has_shuffled_batches = false;
    }

    /// Notes that a function makes something of batches that only the program knows.
    pub(crate) fn forget_batches(&mut self) {
        self.is_batched_unshuffled = false;
    }

    /// Notes a cache, whose first complete round is in `first`.
    pub(crate) fn cache(&mut self, first: &FirstRound) {
        self.cache = Some(Arc::clone(first));
        if let Some(reshuffled) = &mut self.reshuffled {
            reshuffled.kept.get_or_insert_with(|| Arc::clone(first));
        }
    }

    /// Notes that the items are not those of a shuffle, each once: they are repeated, or a part of
    /// them.
    pub(crate) fn forget_shuffle(&mut self) {
        self.reshuffled = None;
    }

    /// Notes a part, which is told once if the same shuffle has other parts: each of them has an
    /// order of its own, so that they have items in common.
    pub(crate) fn part(&self, kind: PartKind) -> Result<()> {
        let Some(shuffle) = self.reshuffled.as_ref().filter(|shuffle| shuffle.is_open()) else {
            return Ok(());
        };
        let mut parts = shuffle.parts.lock();
        let shares = match kind {
            PartKind::First => {
                parts.first = true;
                parts.rest.then_some("take and skip")
            }
            PartKind::Rest => {
                parts.rest = true;
                parts.first.then_some("take and skip")
            }
            PartKind::Shard(shards, index) => {
                let (others, other) = *parts.shard.get_or_insert((shards, index));
                (shards == others && index != other).then_some("shards")
            }
        };
        let Some(words) = shares.filter(|_| !parts.told || strict::is_on()) else {
            return Ok(());
        };
        parts.told = true;
        drop(parts);
        let message = || {
            format!(
                "{words} of a dataset that is shuffled anew in each pass: each part has an order \
                 of its own, so that they have elements in common, as of training and test; \
                 shuffle with keep_order_each_pass, or shuffle the parts"
            )
        };
        strict::warn_or_fail(false, |message| Error::invalid("dataset", message), message)
    }
}

/// The warning when a further pass over a part of a dataset begins, once for a dataset.
#[derive(Clone, Default)]
pub(crate) struct PartDoubts {
    /// The cache of which the part is the beginning.
    cut: Option<FirstRound>,
    /// The shuffle, if what comes first is left out, which is something else in each pass.
    reshuffled: Option<Reshuffled>,
    told: Arc<AtomicBool>,
}

impl PartDoubts {
    /// The doubts about such a part of items in this order.
    pub(crate) fn of(kind: Option<PartKind>, order: &OrderFacts) -> PartDoubts {
        let doubts = PartDoubts::default();
        match kind {
            Some(PartKind::First) => PartDoubts {
                cut: order.cache.clone(),
                ..doubts
            },
            Some(PartKind::Rest) => PartDoubts {
                reshuffled: order.reshuffled.clone(),
                ..doubts
            },
            Some(PartKind::Shard(..)) | None => doubts,
        }
    }

    /// Whether a further pass may fail because of them.
    pub(crate) fn may_refuse(&self) -> bool {
        strict::is_on() && (self.cut.is_some() || self.reshuffled.is_some())
    }

    /// Tells of them before a further pass. `has_skipped`: the pass before has left out what comes
    /// first; `is_done`: it had all items of the part.
    pub(crate) fn check_again(&self, has_skipped: bool, is_done: bool) -> Result<()> {
        let is_open = |first: &FirstRound| first.get().is_none();
        // What was told of its parts says this, too.
        let is_untold = |shuffle: &Reshuffled| {
            shuffle.is_open() && (!shuffle.parts.lock().told || strict::is_on())
        };
        let words = if is_done && self.cut.as_ref().is_some_and(is_open) {
            "a take above a cache stops without asking for the end of the cached dataset, so that \
             nothing is cached and each pass makes the elements anew; take first, and cache what \
             was taken"
        } else if has_skipped && self.reshuffled.as_ref().is_some_and(is_untold) {
            "a skip leaves out the first elements of a dataset that is shuffled anew in each pass, \
             which are others in each pass; shuffle with keep_order_each_pass, or skip first and \
             shuffle the rest"
        } else {
            return Ok(());
        };
        if let Some(shuffle) = &self.reshuffled {
            shuffle.parts.lock().told = true;
        }
        if self.told.swap(true, Ordering::Relaxed) && !strict::is_on() {
            return Ok(());
        }
        strict::warn_or_fail(false, Error::precondition, || words.to_owned())
    }
}

/// Warns if batches of elements that were not shuffled were shuffled.
pub(crate) fn check_shuffled_batches(order: &OrderFacts, is_strict: bool) -> Result<()> {
    if !order.has_shuffled_batches {
        return Ok(());
    }
    let message = || {
        "batches are shuffled, and not the elements in them: each batch has the same elements in \
         every pass; shuffle before batch"
            .to_owned()
    };
    strict::warn_or_fail(
        is_strict,
        |message| Error::invalid("dataset", message),
        message,
    )
}

/// Warns if nothing is left of a dataset of `elements` in batches.
pub(crate) fn check_remainder(batch: BatchParameters, elements: Cardinality) -> Result<()> {
    match elements {
        Cardinality::Exact(count @ 1..) if batch.batches(count) == 0 => {
            let message = || {
                format!(
                    "nothing is left of a dataset of {count} elements in batches of {}, since a \
                     smaller last batch is dropped; make smaller batches, or keep the remainder",
                    batch.size
                )
            };
            strict::warn_or_fail(
                false,
                |message| Error::invalid("element_count", message),
                message,
            )
        }
        _ => Ok(()),
    }
}
