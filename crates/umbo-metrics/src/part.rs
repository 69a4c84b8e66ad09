//! The additions of one replica in the step in progress.

use crate::elements::{
    columns, read_classes, read_column, read_ranks, read_scores, read_top, rows,
};
use crate::kind::{MetricDefinition, MetricKind};
use crate::predictions::{CHUNK, Predictions, RowChunk};
use indexmap::IndexMap;
use umbo_base::error::{Error, Result, memory};
use umbo_base::text::Text;
use umbo_kernels::dtype::DType;
use umbo_kernels::view::View;

/// Above this, not every whole number is a float64.
pub(super) const MOST_WHOLE: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// The additions of one replica to all entries in `step`. Those of earlier steps are ignored.
#[derive(Default)]
pub(super) struct ReplicaMetrics {
    pub step: u64,
    /// By the names of the entries, in the order of their definitions.
    pub slots: IndexMap<Text, AddedToEntry>,
}

impl ReplicaMetrics {
    /// Makes this the part of `step`. If it was the part of another step, it is emptied.
    pub fn begin(&mut self, step: u64) {
        if self.step != step {
            self.step = step;
            self.slots.values_mut().for_each(AddedToEntry::clear);
        }
    }
}

/// The additions to one entry.
pub(super) struct AddedToEntry {
    kind: MetricKind,
    /// The label of examples that do not count.
    ignored_label: Option<i64>,
    /// The sum, for all kinds that have neither counts nor cells.
    pub sum: f64,
    pub weight: f64,
    /// The count.
    pub hits: i64,
    pub predictions: i64,
    /// For each example that was added to a matrix or histogram, the number of its cell. So the
    /// cost of a step depends on the number of its examples, and not on the number of cells.
    pub cells: Vec<u32>,
    /// The weights of these examples. Without any, each has 1.
    pub weights: Vec<f64>,
    /// Whether examples that are added have weights.
    is_weighted: bool,
    /// The first of the scores that were added last that is not in the range of the histogram.
    outside: Option<OutsideScore>,
}

/// A score that is not in the range of an AUC's histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OutsideScore {
    pub row: usize,
    pub score: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl AddedToEntry {
    pub fn new(definition: MetricDefinition) -> AddedToEntry {
        AddedToEntry {
            kind: definition.kind,
            ignored_label: definition.ignored_label,
            sum: 0.0,
            weight: 0.0,
            hits: 0,
            predictions: 0,
            cells: Vec::new(),
            weights: Vec::new(),
            is_weighted: false,
            outside: None,
        }
    }

    fn clear(&mut self) {
        (self.sum, self.weight, self.hits, self.predictions) = (0.0, 0.0, 0, 0);
        self.cells.clear();
        self.weights.clear();
        self.is_weighted = false;
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        (self.sum, self.weight, self.hits, self.predictions) == (0.0, 0.0, 0, 0)
            && self.cells.is_empty()
    }

    /// Adds a number and its weight.
    pub fn add(&mut self, sum: f64, weight: f64) -> Result<()> {
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(invalid!(
                "weight",
                "{weight}; weights are finite and 0 or more"
            ));
        }
        match self.kind {
            MetricKind::Sum | MetricKind::Mean | MetricKind::SquaredError => {
                self.sum += sum;
                self.weight += weight;
            }
            MetricKind::Count => {
                self.hits = self.hits.saturating_add(whole(sum, "sum")?);
                self.predictions = self.predictions.saturating_add(whole(weight, "weight")?);
            }
            MetricKind::Accuracy { .. } | MetricKind::TopK { .. } => {
                let hits = whole(sum, "sum")?;
                let predictions = whole(weight, "weight")?;
                if hits > predictions {
                    return Err(invalid!("sum", "{hits} right predictions of {predictions}"));
                }
                self.sum += sum;
                self.weight += weight;
            }
            kind @ (MetricKind::Confusion { .. } | MetricKind::Auc { .. }) => {
                let name = kind.name();
                let problem =
                    format!("the metric is {name}, which takes labels and what was predicted");
                return Err(Error::invalid("name", problem));
            }
        }
        Ok(())
    }

    /// Adds predictions for examples. If one of them is wrong, or if a score is outside of the
    /// range of the histogram and `is_strict`, it adds nothing. Returns the first of such
    /// scores.
    pub fn add_labels(
        &mut self,
        added: Predictions<'_>,
        is_strict: bool,
    ) -> Result<Option<OutsideScore>> {
        let count = self.check_rows(added)?;
        if self.kind.cells().is_some() {
            self.reserve(count, added.weights.is_some())?;
        }
        let before = (self.sum, self.weight);
        let cells = self.cells.len();
        self.outside = None;
        let done = if self.kind == MetricKind::SquaredError {
            self.add_squares(added, count)
        } else {
            self.add_classes(added, count)
        };
        if done.is_err() || (is_strict && self.outside.is_some()) {
            (self.sum, self.weight) = before;
            self.cells.truncate(cells);
            self.weights.truncate(cells);
        }
        done.map(|()| self.outside)
    }

    /// Checks that there are as many predictions and weights as labels, and returns how many.
    fn check_rows(&self, added: Predictions<'_>) -> Result<usize> {
        let count = rows(added.labels, "labels")?;
        let takes_columns = self.kind == MetricKind::SquaredError;
        if !takes_columns && columns(added.labels).is_some_and(|columns| columns != 1) {
            let shape = added.labels.layout().shape;
            return Err(invalid!("labels", "shape {shape}; [examples] is expected"));
        }
        if rows(added.predicted, "predicted")? != count {
            let shape = added.predicted.layout().shape;
            let problem = format!("shape {shape} for {count} labels; there must be as many rows");
            return Err(Error::invalid("predicted", problem));
        }
        if let Some(weights) = added.weights {
            let is_one = columns(weights).is_none_or(|columns| columns == 1);
            if rows(weights, "weights")? != count || !is_one {
                let shape = weights.layout().shape;
                let problem = format!("shape {shape} for {count} labels; one for each is expected");
                return Err(Error::invalid("weights", problem));
            }
        }
        Ok(count)
    }

    /// Makes room for `count` more cells, and for weights if examples have any.
    fn reserve(&mut self, count: usize, has_weights: bool) -> Result<()> {
        memory::reserve(&mut self.cells, count, "labels")?;
        if has_weights || self.is_weighted {
            let missing = self.cells.len() - self.weights.len();
            memory::reserve(&mut self.weights, missing + count, "weights of labels")?;
            // The examples before had none.
            self.weights.resize(self.cells.len(), 1.0);
            self.is_weighted = true;
        }
        Ok(())
    }

    /// Adds the squares of the differences between predictions and targets.
    fn add_squares(&mut self, added: Predictions<'_>, count: usize) -> Result<()> {
        let [predicted, targets] = [added.predicted, added.labels];
        if predicted.layout().shape != targets.layout().shape {
            let [shape, expected] = [predicted, targets].map(|view| view.layout().shape);
            let problem =
                format!("shape {shape} for targets of shape {expected}; must be the same");
            return Err(Error::invalid("predicted", problem));
        }
        let mut chunk = RowChunk::new();
        let mut guesses = [0.0; CHUNK];
        let mut wanted = [0.0; CHUNK];
        for first in (0..count).step_by(CHUNK) {
            chunk.go(first, count, added.weights)?;
            for column in 0..columns(predicted).unwrap_or(1) {
                read_column(
                    predicted,
                    "predicted",
                    column,
                    first,
                    &mut guesses[..chunk.rows],
                )?;
                read_column(targets, "labels", column, first, &mut wanted[..chunk.rows])?;
                for place in chunk.counted() {
                    let difference = guesses[place] - wanted[place];
                    self.sum += chunk.weights[place] * difference * difference;
                    self.weight += chunk.weights[place];
                }
            }
        }
        Ok(())
    }

    /// Adds predicted classes, or scores of classes.
    fn add_classes(&mut self, added: Predictions<'_>, count: usize) -> Result<()> {
        let columns = columns(added.predicted);
        self.check_columns(columns)?;
        let has_any_classes = self.kind == MetricKind::Accuracy { classes: None };
        let padding = if has_any_classes && columns.is_none() {
            largest(added.labels.dtype())
        } else {
            None
        };
        let mut chunk = RowChunk::new();
        for first in (0..count).step_by(CHUNK) {
            chunk.go(first, count, added.weights)?;
            chunk.read_labels(added.labels, self.ignored_label)?;
            for place in chunk.counted() {
                let label = chunk.labels[place];
                let row = first + place;
                if let Some(columns) =
                    columns.filter(|_| !matches!(self.kind, MetricKind::Auc { .. }))
                {
                    check_class(label, columns as u64, "labels", row)?;
                }
                if padding == Some(label) {
                    let dtype = added.labels.dtype();
                    return Err(out_of_range!(
                        "labels",
                        "row {row}: class {label} is the largest {dtype}, which often stands for \
                         no class; set ignore_index to leave such rows out, or class_count if \
                         there is a class {label}"
                    ));
                }
            }
            self.add_chunk(added.predicted, &chunk)?;
        }
        Ok(())
    }

    /// Adds the rows of `chunk` that count.
    fn add_chunk(&mut self, predicted: &View<'_>, chunk: &RowChunk) -> Result<()> {
        let first = chunk.first;
        let counts = chunk.counts();
        let labels = &chunk.labels[..chunk.rows];
        if let MetricKind::Auc { .. } = self.kind {
            let mut scores = [0.0; CHUNK];
            read_scores(
                predicted,
                "predicted",
                first,
                counts,
                &mut scores[..chunk.rows],
            )?;
            return chunk.counted().try_for_each(|place| {
                let weight = chunk.weights[place];
                self.one_score(scores[place], labels[place], first + place, weight)
            });
        }
        let mut guesses = [0; CHUNK];
        let guesses = &mut guesses[..chunk.rows];
        if let MetricKind::TopK { k } = self.kind {
            guesses.copy_from_slice(labels);
            read_ranks(predicted, "predicted", first, counts, guesses)?;
            for place in chunk.counted() {
                let is_right = guesses[place] < i64::from(k);
                self.one_guess(is_right, chunk.weights[place]);
            }
            return Ok(());
        }
        match columns(predicted) {
            Some(_) => read_top(predicted, "predicted", first, counts, guesses)?,
            None => read_classes(predicted, "predicted", first, guesses)?,
        }
        chunk.counted().try_for_each(|place| {
            let weight = chunk.weights[place];
            self.one_label(guesses[place], labels[place], first + place, weight)
        })
    }

    /// Checks the columns: rows of scores have one for each class, and an AUC takes one score.
    fn check_columns(&self, columns: Option<usize>) -> Result<()> {
        let expected = match self.kind {
            MetricKind::Confusion { classes } => Some(classes as usize),
            MetricKind::Accuracy { classes } => classes.map(|classes| classes as usize),
            MetricKind::Auc { .. } => Some(1),
            MetricKind::TopK { k } => return check_scores(columns, k),
            MetricKind::Sum | MetricKind::Mean | MetricKind::Count | MetricKind::SquaredError => {
                None
            }
        };
        match (columns, expected) {
            (Some(columns), Some(expected)) if columns != expected => Err(invalid!(
                "predicted",
                "rows of {columns} scores for {}; {expected} are expected",
                self.kind.name()
            )),
            (Some(0), _) => Err(invalid!("predicted", "rows without scores")),
            _ => Ok(()),
        }
    }

    /// Adds a prediction that is right or wrong.
    fn one_guess(&mut self, is_right: bool, weight: f64) {
        self.sum += if is_right { weight } else { 0.0 };
        self.weight += weight;
    }

    /// Adds the class that was predicted for the example in this row.
    pub fn one_label(&mut self, predicted: i64, label: i64, row: usize, weight: f64) -> Result<()> {
        match self.kind {
            MetricKind::Accuracy { classes } => {
                let classes = classes.map_or(u64::MAX, u64::from);
                check_class(predicted, classes, "predicted", row)?;
                check_class(label, classes, "labels", row)?;
                self.one_guess(predicted == label, weight);
            }
            MetricKind::Confusion { classes } => {
                let column = check_class(predicted, classes.into(), "predicted", row)? as u32;
                let label = check_class(label, classes.into(), "labels", row)? as u32;
                self.one_cell(label * classes + column, weight);
            }
            kind @ (MetricKind::Sum
            | MetricKind::Mean
            | MetricKind::Count
            | MetricKind::TopK { .. }
            | MetricKind::SquaredError
            | MetricKind::Auc { .. }) => {
                let problem = format!(
                    "the metric is {}, which takes no predicted classes",
                    kind.name()
                );
                return Err(Error::invalid("name", problem));
            }
        }
        Ok(())
    }

    /// Adds the score of the example in this row, whose label is 0 or 1.
    pub fn one_score(&mut self, score: f64, label: i64, row: usize, weight: f64) -> Result<()> {
        let MetricKind::Auc {
            bins,
            lowest,
            highest,
        } = self.kind
        else {
            let problem = format!(
                "the metric is {}, which takes no scores of two classes",
                self.kind.name()
            );
            return Err(Error::invalid("name", problem));
        };
        let side = check_class(label, 2, "labels", row)? as u32;
        if !(lowest..=highest).contains(&score) && self.outside.is_none() {
            self.outside = Some(OutsideScore {
                row,
                score,
                lowest,
                highest,
            });
        }
        let position = (score - lowest) / (highest - lowest) * f64::from(bins);
        // The conversion saturates: scores below the first bin count in it.
        let bin = (position as u32).min(bins - 1);
        self.one_cell(side * bins + bin, weight);
        Ok(())
    }

    /// Adds an example to a cell, for which there is room.
    fn one_cell(&mut self, cell: u32, weight: f64) {
        self.cells.push(cell);
        if self.is_weighted {
            self.weights.push(weight);
        }
    }
}

/// Checks that there are scores of more classes than count.
fn check_scores(columns: Option<usize>, k: u32) -> Result<()> {
    match columns {
        Some(columns) if columns >= k as usize => Ok(()),
        Some(columns) => Err(invalid!(
            "predicted",
            "rows of {columns} scores for a top-{k} accuracy; {k} or more are expected"
        )),
        None => Err(invalid!(
            "predicted",
            "class numbers for a top-{k} accuracy; scores of shape [examples, classes] are expected"
        )),
    }
}

/// The largest number of an unsigned type, which -1 becomes in it.
fn largest(dtype: DType) -> Option<i64> {
    match dtype {
        DType::UInt8 => Some(u8::MAX.into()),
        DType::UInt16 => Some(u16::MAX.into()),
        DType::UInt32 => Some(u32::MAX.into()),
        // A number that does not fit is read as this one.
        DType::UInt64 => Some(i64::MAX),
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 | DType::Bool => None,
        DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64 => None,
    }
}

fn check_class(class: i64, classes: u64, argument: &'static str, row: usize) -> Result<u64> {
    match u64::try_from(class) {
        Ok(within) if within < classes => Ok(within),
        _ if classes == u64::MAX => Err(out_of_range!(
            argument,
            "row {row}: class {class} is not 0 or more"
        )),
        _ => Err(out_of_range!(
            argument,
            "row {row}: class {class} is not in [0, {classes})"
        )),
    }
}

fn whole(number: f64, argument: &'static str) -> Result<i64> {
    if number.fract() == 0.0 && (0.0..=MOST_WHOLE).contains(&number) {
        return Ok(number as i64);
    }
    Err(invalid!(
        argument,
        "{number}; whole numbers are counted, 0 or more"
    ))
}
