//! Metrics that accumulate over steps: sums, means, counts, accuracies, squared errors, confusion
//! matrices, AUCs.
//!
//! The additions of replicas belong to the step. They are added to the totals, in replica order,
//! when the step is committed. Each replica adds to its own part, which no other replica touches
//! meanwhile.
//!
//! - [`kind`]: the kinds of entries.
//! - `elements`: reads views of any type.
//! - `compared`: what a trial compares.
//! - `over_ranks`: the contributions of replicas in several processes.
//! - `predictions`: reads some rows of what is added at a time.
//! - `part`: what one replica has added in a step.
//! - `total`: what committed steps have accumulated.
//! - [`saved`]: exports and imports of totals.

#![deny(unsafe_code)]
#![warn(
    clippy::wildcard_enum_match_arm,
    reason = "whoever adds a kind of metric is told by the compiler where it has to be treated"
)]
#[macro_use]
extern crate umbo_base;

mod compared;
mod elements;
pub mod kind;
mod over_ranks;
mod part;
mod predictions;
pub mod saved;
mod total;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use indexmap::IndexMap;
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};
use umbo_base::observe::strict;
use umbo_base::text::Text;
use umbo_kernels::view::View;
use umbo_strategy::commit::StepParticipant;
use umbo_strategy::context::metrics::Metric;
use umbo_strategy::{ReplicaContext, Strategy};

use kind::{MetricDefinition, MetricKind};
use part::{AddedToEntry, OutsideScore, ReplicaMetrics};
pub use predictions::Predictions;
pub use total::{ClassCounts, Total};

/// Named metrics of one strategy, in the order in which they were defined.
pub struct Metrics {
    /// The number of these metrics in this process, from 1 on.
    number: u64,
    strategy: u64,
    /// The last step that added to the metrics. The lowest bit says whether it is in progress.
    state: AtomicU64,
    /// One part for each replica. While steps run, the replica's thread holds the lock of its part
    /// alone.
    parts: Vec<CachePadded<Mutex<ReplicaMetrics>>>,
    entries: Mutex<IndexMap<Text, MetricEntry>>,
    /// The names and definitions in words, which ranks compare.
    definitions: Mutex<String>,
    /// Whether what replicas add reaches the totals where ranks exchange it, and not here.
    are_exchanged: bool,
    /// Whether a score outside of an AUC's range was warned of.
    has_warned: AtomicBool,
}

struct MetricEntry {
    definition: MetricDefinition,
    total: Total,
}

impl Metrics {
    /// Metrics without entries, for the replicas of `strategy`.
    pub fn new(strategy: &Strategy) -> Arc<Metrics> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let metrics = Arc::new(Metrics {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            strategy: strategy.id(),
            state: AtomicU64::new(0),
            parts: (0..strategy.num_replicas())
                .map(|_| CachePadded::default())
                .collect(),
            entries: Mutex::default(),
            definitions: Mutex::default(),
            are_exchanged: strategy.ranks().exchanges_totals(),
            has_warned: AtomicBool::new(false),
        });
        strategy.ranks().add_totals(Arc::downgrade(&metrics) as _);
        metrics
    }

    /// Defines an entry. Fails while a step adds to the metrics.
    pub fn define(&self, name: &str, definition: impl Into<MetricDefinition>) -> Result<()> {
        let definition = definition.into();
        let total = Total::new(definition.kind)?;
        let mut entries = self.entries.lock();
        self.check_idle()?;
        if entries.contains_key(name) {
            return Err(invalid!("name", "there is a metric '{name}' already"));
        }
        let name = Text::from(name);
        for part in &self.parts {
            let slot = AddedToEntry::new(definition);
            part.lock().slots.insert(name.clone(), slot);
        }
        self.definitions
            .lock()
            .push_str(&in_words(&name, definition));
        entries.insert(name, MetricEntry { definition, total });
        Ok(())
    }

    /// The names of all entries, in the order of their definitions.
    pub fn names(&self) -> Vec<Text> {
        self.entries.lock().keys().cloned().collect()
    }

    /// The kind of an entry.
    pub fn kind(&self, name: &str) -> Result<MetricKind> {
        self.inspect_entry(name, |entry| Ok(entry.definition.kind))
    }

    /// Adds a number and its weight, for the context's replica, in its step.
    pub fn add_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        name: &str,
        sum: f64,
        weight: f64,
    ) -> Result<()> {
        let metric = Metric { sum, weight };
        if context.looks_swapped(metric) && self.kind(name)? == MetricKind::Mean {
            context.warn_of_swap(name, metric)?;
        }
        self.with_slot(context, name, |slot| slot.add(sum, weight))
    }

    /// Adds predictions for examples, each of which counts once, as
    /// [`Metrics::add_predictions_in`] does.
    pub fn add_labels_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        name: &str,
        predicted: &View<'_>,
        labels: &View<'_>,
    ) -> Result<()> {
        let added = Predictions {
            predicted,
            labels,
            weights: None,
        };
        self.add_predictions_in(context, name, added)
    }

    /// Adds predictions for examples: class numbers, rows of scores, or the numbers themselves for
    /// an error. Examples with the label that the entry ignores do not count, whatever is
    /// predicted for them. If one of the others is wrong it adds nothing. A score outside of the
    /// range of an AUC's histogram is counted in the bin at that end, and warned of once; it is
    /// wrong for a strict strategy.
    pub fn add_predictions_in(
        self: &Arc<Self>,
        context: &ReplicaContext,
        name: &str,
        added: Predictions<'_>,
    ) -> Result<()> {
        let is_strict = context.strategy().is_strict();
        let outside = self.with_slot(context, name, |slot| slot.add_labels(added, is_strict))?;
        match outside {
            // No lock is held: the log's sink may look at the metrics.
            Some(score) if is_strict || !self.has_warned.swap(true, Ordering::Relaxed) => {
                self.warn_of_score(name, score, is_strict)
            }
            _ => Ok(()),
        }
    }

    fn warn_of_score(&self, name: &str, outside: OutsideScore, is_strict: bool) -> Result<()> {
        let OutsideScore {
            row,
            score,
            lowest,
            highest,
        } = outside;
        strict::warn_or_fail(
            is_strict,
            |text| Error::invalid("predicted", text),
            || {
                format!(
                    "row {row}: score {score} of '{name}' is not in [{lowest}, {highest}], and is \
                     counted in the bin at that end of the AUC's range; add probabilities, or set \
                     lowest_score and highest_score of the metric's options to the range of the \
                     scores"
                )
            },
        )
    }

    /// The total of an entry.
    pub fn result(&self, name: &str) -> Result<Metric> {
        self.inspect_entry(name, |entry| Ok(entry.total.metric(entry.definition.kind)))
    }

    /// How class `class` was predicted, by the confusion matrix `name`.
    pub fn class(&self, name: &str, class: i64) -> Result<ClassCounts> {
        self.inspect_entry(name, |entry| {
            let MetricKind::Confusion { classes } = entry.definition.kind else {
                return Err(invalid!(
                    "name",
                    "the metric is {}, not a confusion matrix",
                    entry.definition.kind.name()
                ));
            };
            let found = usize::try_from(class)
                .ok()
                .and_then(|class| entry.total.class(classes as usize, class));
            found.ok_or_else(|| out_of_range!("class_index", "{class} is not in [0, {classes})"))
        })
    }

    /// Calls a function with the cells of matrix or histogram `name`, row by row.
    pub fn with_cells<R>(
        &self,
        name: &str,
        inspect: impl FnOnce(&[f64]) -> Result<R>,
    ) -> Result<R> {
        self.inspect_entry(name, |entry| match entry.total.cells() {
            Some(cells) => inspect(cells),
            None => Err(invalid!(
                "name",
                "the metric is {}, which has no cells",
                entry.definition.kind.name()
            )),
        })
    }

    /// Resets what all entries have accumulated. Fails while a step adds to them.
    pub fn reset(&self) -> Result<()> {
        let mut entries = self.entries.lock();
        self.check_idle()?;
        entries.values_mut().for_each(|entry| entry.total.clear());
        Ok(())
    }

    fn inspect_entry<R>(
        &self,
        name: &str,
        inspect: impl FnOnce(&MetricEntry) -> Result<R>,
    ) -> Result<R> {
        let entries = self.entries.lock();
        let found = entries.get(name);
        found
            .ok_or_else(|| no_entry(name, &entries))
            .and_then(inspect)
    }

    fn check_idle(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) & 1 == 0 {
            return Ok(());
        }
        Err(Error::precondition(
            "metrics: a run is adding to them; define and reset them before or after it",
        ))
    }

    /// Calls `change` with an entry's slot of the context's replica, as a part of its step.
    fn with_slot<R>(
        self: &Arc<Self>,
        context: &ReplicaContext,
        name: &str,
        change: impl FnOnce(&mut AddedToEntry) -> Result<R>,
    ) -> Result<R> {
        let step = self.join_current_step(context)?;
        let mut part = self.parts[context.replica()].lock();
        part.begin(step);
        match part.slots.get_mut(name) {
            Some(slot) => change(slot),
            None => Err(no_entry(name, &part.slots)),
        }
    }

    /// Makes the metrics take part in the outcome of the context's step, and returns the step's
    /// number.
    fn join_current_step(self: &Arc<Self>, context: &ReplicaContext) -> Result<u64> {
        context.check_live()?;
        let step = context.step_id();
        if step == 0 {
            return Err(Error::precondition(
                "ctx: the default context is in no run; replicas add to metrics inside of a run",
            ));
        }
        if context.strategy().id() != self.strategy {
            return Err(Error::precondition(
                "metrics: mixing different strategies: they were made for a different one than the \
                 one that runs here; make metrics for each strategy",
            ));
        }
        // A thread that reads that the metrics take part may add: the step's outcome includes them
        // by then.
        if self.state.load(Ordering::Acquire) >> 1 < step {
            context.strategy().join_step(step, self)?;
        }
        context.record_additions(self)?;
        Ok(step)
    }
}

/// A definition in words.
fn in_words(name: &Text, definition: MetricDefinition) -> String {
    let MetricDefinition {
        kind,
        ignored_label,
    } = definition;
    let ignored = ignored_label.map_or_else(String::new, |label| format!(" without {label}"));
    format!("[{name}: {kind:?}{ignored}]")
}

#[cold]
fn no_entry<T>(name: &str, known: &IndexMap<Text, T>) -> Error {
    let known: Vec<_> = known.keys().map(|name| format!("'{name}'")).collect();
    let defined = match known.as_slice() {
        [] => "none was defined".to_owned(),
        names => format!("the metrics are {}", names.join(", ")),
    };
    Error::NotFound(format!("name: no metric '{name}' was defined; {defined}"))
}

impl StepParticipant for Metrics {
    fn join(&self, step: u64) -> bool {
        let earlier = |state: u64| (state >> 1 < step).then_some(step << 1 | 1);
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, earlier)
            .is_ok()
    }

    fn commit(&self, step: u64) {
        let mut entries = self.entries.lock();
        for part in &self.parts {
            let part = part.lock();
            if part.step == step && !self.are_exchanged {
                let added = entries.values_mut().zip(part.slots.values());
                added.for_each(|(entry, slot)| entry.total.fold(slot));
            }
        }
        self.state.store(step << 1, Ordering::Release);
    }

    fn roll_back(&self, step: u64) {
        // The parts hold what was added in a step that will never be committed.
        self.state.store(step << 1, Ordering::Release);
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "metrics of {} replicas", self.parts.len())
    }
}
