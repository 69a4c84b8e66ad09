//! The kinds of metrics.

use umbo_base::error::{Error, Result};

/// The kinds of entries. The cells of a matrix or histogram are numbered from 0, in rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// A sum of numbers.
    Sum,
    /// A sum of numbers and of their weights; the quotient is the mean.
    Mean,
    /// Whole numbers, counted without rounding.
    Count,
    /// How many predictions were right, and how many predictions there were.
    Accuracy {
        /// How many classes there are, if that is known.
        classes: Option<u32>,
    },
    /// How often the right class was among those with the highest scores, and how many examples
    /// there were.
    TopK {
        /// How many of the highest scores count.
        k: u32,
    },
    /// The squares of the differences between predictions and targets, and how many there were.
    SquaredError,
    /// How often each class was predicted for each class: row by label, column by prediction.
    Confusion {
        /// How many classes there are.
        classes: u32,
    },
    /// The distribution of the scores of negative examples (row 0) and of positive examples (row
    /// 1).
    Auc {
        /// How many bins of equal width there are.
        bins: u32,
        /// The beginning of the first bin. Scores below count in it.
        lowest: f64,
        /// The end of the last bin. Scores above count in it.
        highest: f64,
    },
}

impl MetricKind {
    /// The largest number of classes. The cells of such a matrix can be numbered with 32 bits.
    pub const MOST_CLASSES: i64 = 1 << 15;
    /// The largest number of bins of a histogram.
    pub const MOST_BINS: i64 = 1 << 24;

    /// An accuracy of so many classes; 0: it is not known how many.
    pub fn accuracy(classes: i64) -> Result<MetricKind> {
        match u32::try_from(classes) {
            Ok(classes) => Ok(MetricKind::Accuracy {
                classes: Some(classes).filter(|&known| known > 0),
            }),
            Err(_) => Err(invalid!(
                "class_count",
                "{classes}; an accuracy has 1 to {} classes, or 0 where it is not known how many",
                u32::MAX
            )),
        }
    }

    /// An accuracy of which the `k` classes with the highest scores count.
    pub fn top_k(k: i64) -> Result<MetricKind> {
        match u32::try_from(k) {
            Ok(k @ 1..) => Ok(MetricKind::TopK { k }),
            _ => Err(invalid!(
                "top_k",
                "{k}; the number of highest scores that count is 1 or more"
            )),
        }
    }

    /// A confusion matrix.
    pub fn confusion(classes: i64) -> Result<MetricKind> {
        if !(1..=MetricKind::MOST_CLASSES).contains(&classes) {
            let most = MetricKind::MOST_CLASSES;
            let problem = format!("{classes}; a confusion matrix has 1 to {most} classes");
            return Err(Error::invalid("class_count", problem));
        }
        Ok(MetricKind::Confusion {
            classes: classes as u32,
        })
    }

    /// A histogram of scores.
    pub fn auc(bins: i64, lowest: f64, highest: f64) -> Result<MetricKind> {
        if !(1..=MetricKind::MOST_BINS).contains(&bins) {
            let problem = format!(
                "{bins}; a histogram has 1 to {} bins",
                MetricKind::MOST_BINS
            );
            return Err(Error::invalid("bin_count", problem));
        }
        for (score, argument) in [(lowest, "lowest_score"), (highest, "highest_score")] {
            if !score.is_finite() {
                return Err(invalid!(argument, "{score}; must be finite"));
            }
        }
        // The numbers are written in few digits, also large ones.
        if lowest >= highest {
            let problem = format!("{lowest:?}; must be less than highest_score, {highest:?}");
            return Err(Error::invalid("lowest_score", problem));
        }
        if !(highest - lowest).is_finite() {
            let problem = format!(
                "{highest:?}; must be so near to lowest_score, {lowest:?}, that the difference is \
                 finite, too"
            );
            return Err(Error::invalid("highest_score", problem));
        }
        Ok(MetricKind::Auc {
            bins: bins as u32,
            lowest,
            highest,
        })
    }

    /// Its rows and columns, if it has cells.
    pub fn cells(self) -> Option<[usize; 2]> {
        match self {
            MetricKind::Confusion { classes } => Some([classes as usize; 2]),
            MetricKind::Auc { bins, .. } => Some([2, bins as usize]),
            MetricKind::Sum
            | MetricKind::Mean
            | MetricKind::Count
            | MetricKind::Accuracy { .. }
            | MetricKind::TopK { .. }
            | MetricKind::SquaredError => None,
        }
    }

    /// Whether the classes of examples are added to it.
    pub fn takes_classes(self) -> bool {
        match self {
            MetricKind::Accuracy { .. }
            | MetricKind::TopK { .. }
            | MetricKind::Confusion { .. }
            | MetricKind::Auc { .. } => true,
            MetricKind::Sum | MetricKind::Mean | MetricKind::Count | MetricKind::SquaredError => {
                false
            }
        }
    }

    /// The name of the kind, for messages.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Sum => "a sum",
            MetricKind::Mean => "a mean",
            MetricKind::Count => "a count",
            MetricKind::Accuracy { .. } => "an accuracy",
            MetricKind::TopK { .. } => "a top-k accuracy",
            MetricKind::SquaredError => "a mean squared error",
            MetricKind::Confusion { .. } => "a confusion matrix",
            MetricKind::Auc { .. } => "an AUC",
        }
    }
}

/// The definition of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricDefinition {
    /// Its kind.
    pub kind: MetricKind,
    /// The label of examples that do not count, if there is one.
    pub ignored_label: Option<i64>,
}

impl MetricDefinition {
    /// The definition of an entry to which examples with this label are not added.
    /// INVALID_ARGUMENT if the kind takes no labels.
    pub fn ignoring(kind: MetricKind, label: i64) -> Result<MetricDefinition> {
        if !kind.takes_classes() {
            let problem = format!("{label}; {} takes no labels that are classes", kind.name());
            return Err(Error::invalid("ignore_index", problem));
        }
        Ok(MetricDefinition {
            kind,
            ignored_label: Some(label),
        })
    }
}

impl From<MetricKind> for MetricDefinition {
    /// The definition of an entry for which all examples count.
    fn from(kind: MetricKind) -> MetricDefinition {
        MetricDefinition {
            kind,
            ignored_label: None,
        }
    }
}
