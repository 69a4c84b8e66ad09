//! Metrics that accumulate over steps: sums, means, counts, accuracies, confusion matrices, AUCs.
//!
//! What replicas add belongs to the step and is added to the totals, in replica order, when the step
//! is committed. Each replica adds to a part of its own, which no other one touches meanwhile.
//!
//! - [`kind`]: what an entry is of. `elements`: reading views of any type.
//! - `compared`: what a trial sees of them.
//! - `over_ranks`: what the replicas of several processes add. `part`: what one replica has added in a step. `total`: what steps have added up to. [`saved`]: that,
//!   taken out and put back.

mod compared;
mod elements;
pub mod kind;
mod over_ranks;
mod part;
pub mod saved;
mod total;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::error::{Error, Result};
use crate::kernels::view::View;
use crate::strategy::commit::StepParticipant;
use crate::strategy::metrics::Metric;
use crate::strategy::{ReplicaContext, Strategy};
use crate::text::Text;
use parking_lot::Mutex;

use kind::MetricKind;
use part::{AddedToEntry, ReplicaMetrics};
pub use total::{ClassCounts, Total};

/// Named metrics of one strategy, in the order in which they were defined.
pub struct Metrics {
    /// In this process, from 1 on.
    number: u64,
    strategy: u64,
    /// The last step that added to them, and in the lowest bit whether it is in progress.
    state: AtomicU64,
    /// One for each replica, whose thread has the lock to itself while steps run.
    parts: Vec<CachePadded<Mutex<ReplicaMetrics>>>,
    entries: Mutex<Vec<MetricEntry>>,
    /// What replicas add reaches the totals where the ranks exchange it, and not here.
    is_over_ranks: bool,
}

struct MetricEntry {
    name: Text,
    kind: MetricKind,
    total: Total,
}

impl Metrics {
    /// None yet, for the replicas of `strategy`.
    pub fn new(strategy: &Strategy) -> Arc<Metrics> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let metrics = Arc::new(Metrics {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            strategy: strategy.id(),
            state: AtomicU64::new(0),
            parts: (0..strategy.num_replicas()).map(|_| CachePadded::default()).collect(),
            entries: Mutex::default(),
            is_over_ranks: !strategy.ranks().is_alone(),
        });
        strategy.ranks().add_totals(Arc::downgrade(&metrics) as _);
        metrics
    }

    /// Adds an entry, and says at which index. Fails while a step adds to the metrics.
    pub fn define(&self, name: &str, kind: MetricKind) -> Result<usize> {
        let total = Total::new(kind)?;
        let mut entries = self.entries.lock();
        self.check_idle()?;
        if entries.iter().any(|entry| entry.name.as_str() == name) {
            let problem = format!("there is a metric '{name}' already");
            return Err(Error::invalid("name", problem));
        }
        for part in &self.parts {
            part.lock().slots.push(AddedToEntry::new(kind));
        }
        entries.push(MetricEntry { name: name.into(), kind, total });
        Ok(entries.len() - 1)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.lock().len()
    }

    /// The name of entry `index`, and what it is of.
    pub fn entry(&self, index: usize) -> Result<(Text, MetricKind)> {
        self.inspect_entry(index, |entry| Ok((entry.name.clone(), entry.kind)))
    }

    /// Where the entry with this name is.
    pub fn index(&self, name: &str) -> Result<usize> {
        let entries = self.entries.lock();
        entries.iter().position(|entry| entry.name.as_str() == name).ok_or_else(|| {
            let known: Vec<_> =
                entries.iter().map(|entry| format!("'{}'", entry.name.as_str())).collect();
            Error::NotFound(format!("name: no metric '{name}'; there are [{}]", known.join(", ")))
        })
    }

    /// Adds a number and its weight, for the context's replica, in its step.
    pub fn add_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        index: usize,
        sum: f64,
        weight: f64,
    ) -> Result<()> {
        self.with_slot(context, index, |slot| slot.add(sum, weight))
    }

    /// Adds what was predicted for examples: class numbers, or rows of scores; nothing if any of
    /// it is wrong.
    pub fn add_labels_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        index: usize,
        predicted: &View<'_>,
        labels: &View<'_>,
    ) -> Result<()> {
        self.with_slot(context, index, |slot| slot.add_labels(predicted, labels))
    }

    /// What entry `index` has accumulated.
    pub fn result(&self, index: usize) -> Result<Metric> {
        self.inspect_entry(index, |entry| Ok(entry.total.metric(entry.kind)))
    }

    /// How class `class` of confusion matrix `index` was predicted.
    pub fn class(&self, index: usize, class: i64) -> Result<ClassCounts> {
        self.inspect_entry(index, |entry| {
            let MetricKind::Confusion { classes } = entry.kind else {
                let problem = format!("is {}, not a confusion matrix", entry.kind.name());
                return Err(Error::invalid("index", problem));
            };
            let found = usize::try_from(class)
                .ok()
                .and_then(|class| entry.total.class(classes as usize, class));
            found.ok_or_else(|| {
                Error::out_of_range("class_index", format!("{class} is not in [0, {classes})"))
            })
        })
    }

    /// Shows the cells of matrix or histogram `index`, row by row.
    pub fn with_cells<R>(
        &self,
        index: usize,
        inspect: impl FnOnce(&[i64]) -> Result<R>,
    ) -> Result<R> {
        self.inspect_entry(index, |entry| match entry.total.cells() {
            Some(cells) => inspect(cells),
            None => {
                let problem = format!("is {}, which has no cells", entry.kind.name());
                Err(Error::invalid("index", problem))
            }
        })
    }

    /// Forgets what all entries have accumulated. Fails while a step adds to them.
    pub fn reset(&self) -> Result<()> {
        let mut entries = self.entries.lock();
        self.check_idle()?;
        entries.iter_mut().for_each(|entry| entry.total.clear());
        Ok(())
    }

    fn inspect_entry<R>(
        &self,
        index: usize,
        inspect: impl FnOnce(&MetricEntry) -> Result<R>,
    ) -> Result<R> {
        let entries = self.entries.lock();
        entries.get(index).ok_or_else(|| no_entry(index, entries.len())).and_then(inspect)
    }

    fn check_idle(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) & 1 == 0 {
            return Ok(());
        }
        Err(Error::precondition(
            "metrics: a run is adding to them; define and reset them before or after it",
        ))
    }

    /// Lets `change` add to an entry's slot of the context's replica, as a part of its step.
    fn with_slot(
        self: &Arc<Self>,
        context: &ReplicaContext,
        index: usize,
        change: impl FnOnce(&mut AddedToEntry) -> Result<()>,
    ) -> Result<()> {
        let step = self.take_part(context)?;
        let mut part = self.parts[context.replica()].lock();
        part.begin(step);
        let count = part.slots.len();
        part.slots.get_mut(index).ok_or_else(|| no_entry(index, count)).and_then(change)
    }

    /// Lets the metrics take part in the outcome of the context's step, and says which it is.
    fn take_part(self: &Arc<Self>, context: &ReplicaContext) -> Result<u64> {
        context.check_live()?;
        let step = context.step_id();
        if step == 0 {
            return Err(Error::precondition(
                "ctx: the default context is in no run; replicas add to metrics inside of a run",
            ));
        }
        if context.strategy().id() != self.strategy {
            return Err(Error::precondition(
                "metrics: mixing different strategies: they were made for another one than the one \
                 that runs here; make metrics for each strategy",
            ));
        }
        // A thread that sees the metrics take part may add, and the step's outcome knows them.
        if self.state.load(Ordering::Acquire) >> 1 < step {
            context.strategy().join_step(step, self)?;
        }
        context.note_additions(self)?;
        Ok(step)
    }
}

fn no_entry(index: usize, count: usize) -> Error {
    Error::out_of_range("index", format!("{index} is not in [0, {count}), the metrics defined"))
}

impl StepParticipant for Metrics {
    fn join(&self, step: u64) -> bool {
        let earlier = |state: u64| (state >> 1 < step).then_some(step << 1 | 1);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, earlier).is_ok()
    }

    fn commit(&self, step: u64) {
        // Steps are committed in the process that made the metrics, where it is always there.
        let mut entries = self.entries.lock();
        for part in &self.parts {
            let part = part.lock();
            if part.step == step && !self.is_over_ranks {
                let added = entries.iter_mut().zip(&part.slots);
                added.for_each(|(entry, slot)| entry.total.fold(slot));
            }
        }
        self.state.store(step << 1, Ordering::Release);
    }

    fn roll_back(&self, step: u64) {
        // What the parts hold is of a step that none will be committed under.
        self.state.store(step << 1, Ordering::Release);
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "metrics of {} replicas", self.parts.len())
    }
}
