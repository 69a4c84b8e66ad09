//! The additions of one replica in the step in progress.

use crate::elements::{columns, read_classes, read_scores, read_top, rows};
use crate::kind::MetricKind;
use umbo_base::error::{Error, Result, memory};
use umbo_kernels::dtype::DType;
use umbo_kernels::view::View;

/// Above this, not every whole number is a float64.
const MOST_WHOLE: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// How many rows of a view are read together.
const CHUNK: usize = 256;

/// The additions of one replica to all entries in `step`. Those of earlier steps are ignored.
#[derive(Default)]
pub(super) struct ReplicaMetrics {
    pub step: u64,
    pub slots: Vec<AddedToEntry>,
}

impl ReplicaMetrics {
    /// Makes this the part of `step`. If it was the part of another step, it is emptied.
    pub fn begin(&mut self, step: u64) {
        if self.step != step {
            self.step = step;
            self.slots.iter_mut().for_each(AddedToEntry::clear);
        }
    }
}

/// The additions to one entry.
pub(super) struct AddedToEntry {
    kind: MetricKind,
    /// The sum, for a sum or a mean.
    pub sum: f64,
    pub weight: f64,
    /// The count, for a count or an accuracy.
    pub hits: i64,
    pub predictions: i64,
    /// For each example that was added to a matrix or histogram, the number of its cell. So the
    /// cost of a step depends on the number of its examples, and not on the number of cells.
    pub cells: Vec<u32>,
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
    pub fn new(kind: MetricKind) -> AddedToEntry {
        AddedToEntry {
            kind,
            sum: 0.0,
            weight: 0.0,
            hits: 0,
            predictions: 0,
            cells: Vec::new(),
            outside: None,
        }
    }

    fn clear(&mut self) {
        (self.sum, self.weight, self.hits, self.predictions) = (0.0, 0.0, 0, 0);
        self.cells.clear();
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
            MetricKind::Sum | MetricKind::Mean => {
                self.sum += sum;
                self.weight += weight;
            }
            MetricKind::Count | MetricKind::Accuracy { .. } => {
                let hits = whole(sum, "sum")?;
                let predictions = whole(weight, "weight")?;
                if self.kind != MetricKind::Count && hits > predictions {
                    return Err(invalid!("sum", "{hits} right predictions of {predictions}"));
                }
                self.hits = self.hits.saturating_add(hits);
                self.predictions = self.predictions.saturating_add(predictions);
            }
            kind @ (MetricKind::Confusion { .. } | MetricKind::Auc { .. }) => {
                let name = kind.name();
                let problem = format!("is {name}, which takes labels and what was predicted");
                return Err(Error::invalid("index", problem));
            }
        }
        Ok(())
    }

    /// Adds predictions for examples. If one of them is wrong, or if a score is outside of the
    /// range of the histogram and `is_strict`, it adds nothing. Returns the first of such
    /// scores.
    pub fn add_labels(
        &mut self,
        predicted: &View<'_>,
        labels: &View<'_>,
        is_strict: bool,
    ) -> Result<Option<OutsideScore>> {
        let of_labels = columns(labels);
        let count = rows(labels, "labels")?;
        if of_labels.is_some_and(|columns| columns != 1) {
            let shape = labels.layout().shape;
            return Err(invalid!("labels", "shape {shape}; [examples] is expected"));
        }
        if rows(predicted, "predicted")? != count {
            let shape = predicted.layout().shape;
            let problem = format!("shape {shape} for {count} labels; there must be as many rows");
            return Err(Error::invalid("predicted", problem));
        }
        if self.kind.cells().is_some() {
            memory::reserve(&mut self.cells, count, "labels")?;
        }
        let hits = self.hits;
        let predictions = self.predictions;
        let cells = self.cells.len();
        self.outside = None;
        let added = self.add_rows(predicted, labels, count);
        if added.is_err() || (is_strict && self.outside.is_some()) {
            (self.hits, self.predictions) = (hits, predictions);
            self.cells.truncate(cells);
        }
        added.map(|()| self.outside)
    }

    fn add_rows(&mut self, predicted: &View<'_>, labels: &View<'_>, count: usize) -> Result<()> {
        let mut classes = [0; CHUNK];
        let mut guesses = [0; CHUNK];
        let mut scores = [0.0; CHUNK];
        let columns = columns(predicted);
        let is_auc = matches!(self.kind, MetricKind::Auc { .. });
        self.check_columns(columns)?;
        let has_any_classes = self.kind == MetricKind::Accuracy { classes: None };
        let padding = if has_any_classes && columns.is_none() {
            largest(labels.dtype())
        } else {
            None
        };
        for first in (0..count).step_by(CHUNK) {
            let rows = CHUNK.min(count - first);
            let classes = &mut classes[..rows];
            read_classes(labels, "labels", first, classes)?;
            if is_auc {
                read_scores(predicted, "predicted", first, &mut scores[..rows])?;
                for (at, &label) in classes.iter().enumerate() {
                    self.one_score(scores[at], label, first + at)?;
                }
                continue;
            }
            let guesses = &mut guesses[..rows];
            match columns {
                Some(_) => read_top(predicted, "predicted", first, guesses)?,
                None => read_classes(predicted, "predicted", first, guesses)?,
            }
            for (at, (&guess, &label)) in guesses.iter().zip(classes.iter()).enumerate() {
                if let Some(columns) = columns {
                    check_class(label, columns as u64, "labels", first + at)?;
                }
                if padding == Some(label) {
                    let dtype = labels.dtype();
                    let row = first + at;
                    return Err(out_of_range!(
                        "labels",
                        "row {row}: class {label} is the largest {dtype}, which often stands for \
                         no class; leave such rows out, or set options.class_count if there is a \
                         class {label}"
                    ));
                }
                self.one_label(guess, label, first + at)?;
            }
        }
        Ok(())
    }

    /// Checks the columns: rows of scores have one for each class, and an AUC takes one score.
    fn check_columns(&self, columns: Option<usize>) -> Result<()> {
        let expected = match self.kind {
            MetricKind::Confusion { classes } => Some(classes as usize),
            MetricKind::Accuracy { classes } => classes.map(|classes| classes as usize),
            MetricKind::Auc { .. } => Some(1),
            MetricKind::Sum | MetricKind::Mean | MetricKind::Count => None,
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

    /// Adds the class that was predicted for the example in this row.
    pub fn one_label(&mut self, predicted: i64, label: i64, row: usize) -> Result<()> {
        match self.kind {
            MetricKind::Accuracy { classes } => {
                let classes = classes.map_or(u64::MAX, u64::from);
                check_class(predicted, classes, "predicted", row)?;
                check_class(label, classes, "labels", row)?;
                self.hits += i64::from(predicted == label);
                self.predictions += 1;
            }
            MetricKind::Confusion { classes } => {
                let column = check_class(predicted, classes.into(), "predicted", row)? as u32;
                let label = check_class(label, classes.into(), "labels", row)? as u32;
                self.cells.push(label * classes + column);
            }
            kind @ (MetricKind::Sum
            | MetricKind::Mean
            | MetricKind::Count
            | MetricKind::Auc { .. }) => {
                let problem = format!("is {}, which takes no predicted classes", kind.name());
                return Err(Error::invalid("index", problem));
            }
        }
        Ok(())
    }

    /// Adds the score of the example in this row, whose label is 0 or 1.
    pub fn one_score(&mut self, score: f64, label: i64, row: usize) -> Result<()> {
        let MetricKind::Auc {
            bins,
            lowest,
            highest,
        } = self.kind
        else {
            let problem = format!(
                "is {}, which takes no scores of two classes",
                self.kind.name()
            );
            return Err(Error::invalid("index", problem));
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
        let place = (score - lowest) / (highest - lowest) * f64::from(bins);
        // The conversion saturates: scores below the first bin count in it.
        let bin = (place as u32).min(bins - 1);
        self.cells.push(side * bins + bin);
        Ok(())
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
