//! Metrics: the sums of steps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::numbers::{Count, Float};
use crate::saveable::{Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable};
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_metrics::kind::{MetricDefinition, MetricKind};
use umbo_metrics::{Metrics, Total};
use umbo_tensor::{DType, Shape, Tensor};

#[derive(Serialize, Deserialize)]
struct SavedMetrics {
    metrics: BTreeMap<String, SavedMetric>,
}

#[derive(Serialize, Deserialize)]
struct SavedMetric {
    kind: SavedKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ignore_index: Option<i64>,
    /// Cells are in a tensor of the metric's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total: Option<SavedTotal>,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedKind {
    Sum,
    Mean,
    Count,
    Accuracy {
        classes: Option<u32>,
    },
    TopK {
        k: u32,
    },
    SquaredError,
    Confusion {
        classes: u32,
    },
    Auc {
        bins: u32,
        lowest: Float,
        highest: Float,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedTotal {
    Numbers { sum: Float, weight: Float },
    Counts { hits: Count, predictions: Count },
}

impl Saveable for Metrics {
    fn kind(&self) -> &'static str {
        "metrics"
    }

    fn strategy(&self) -> Option<u64> {
        Some(Metrics::strategy(self))
    }

    fn save(&self, _names: &Names<'_>, record: &mut ObjectRecord) -> Result<()> {
        let mut metrics = BTreeMap::new();
        for (name, definition, accumulated) in self.export()? {
            let total = match accumulated {
                Total::Numbers { sum, weight } => Some(SavedTotal::Numbers {
                    sum: Float(sum),
                    weight: Float(weight),
                }),
                Total::Counts { hits, predictions } => Some(SavedTotal::Counts {
                    hits: Count(hits as u64),
                    predictions: Count(predictions as u64),
                }),
                Total::Cells(cells) => {
                    let shape = Shape::new(&definition.kind.cells().unwrap_or_default())?;
                    let cells = Tensor::from_slice::<f64>(&cells, shape, DeviceId::HOST)?;
                    record.part(name.clone(), cells);
                    None
                }
            };
            let saved = SavedMetric {
                kind: definition.kind.into(),
                ignore_index: definition.ignored_label,
                total,
            };
            metrics.insert(name, saved);
        }
        record.properties(&SavedMetrics { metrics })
    }

    fn prepare<'a>(&'a self, _names: &Names<'_>, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let Some(SavedMetrics { mut metrics }) = saved.properties() else {
            return Ok(None);
        };
        let mut all = Vec::new();
        for (name, definition, _) in self.export()? {
            match metrics.remove(&name) {
                Some(metric) => all.extend(read_metric(saved, &name, definition, &metric)?),
                None => saved.differs(format!("the file has no metric '{name}'")),
            }
        }
        for name in metrics.keys() {
            saved.differs(format!(
                "the file has a metric '{name}', which was not defined"
            ));
            saved.take(name);
        }
        Ok(Some(PreparedRestore::by(move |_| self.import(all))))
    }
}

fn read_metric(
    saved: &mut ObjectReader<'_>,
    name: &str,
    definition: MetricDefinition,
    metric: &SavedMetric,
) -> Result<Option<Total>> {
    let MetricDefinition {
        kind,
        ignored_label,
    } = definition;
    let added_kind = SavedKind::from(kind);
    if (metric.kind, metric.ignore_index) != (added_kind, ignored_label) {
        let added = in_words(added_kind, ignored_label);
        let in_file = in_words(metric.kind, metric.ignore_index);
        saved.differs(format!(
            "metric '{name}' is {added} here, {in_file} in the file"
        ));
        saved.take(name);
        return Ok(None);
    }
    if let Some(shape) = kind.cells() {
        let cells = saved.tensor(Some(name), DType::Float64, Shape::new(&shape)?)?;
        let Some(cells) = cells.map(|cells| cells.to_vec::<f64>()).transpose()? else {
            return Ok(None);
        };
        let is_weight = |weight: &&f64| weight.is_finite() && **weight >= 0.0;
        if let Some(weight) = cells.iter().find(|weight| !is_weight(weight)) {
            saved.differs(format!(
                "metric '{name}' has a cell of {weight} in the file; cells are finite and 0 or more"
            ));
            return Ok(None);
        }
        return Ok(Some(Total::Cells(cells)));
    }
    let total = metric.total.as_ref();
    let total = match kind {
        MetricKind::Sum
        | MetricKind::Mean
        | MetricKind::Accuracy { .. }
        | MetricKind::TopK { .. }
        | MetricKind::SquaredError => total.and_then(SavedTotal::numbers),
        MetricKind::Count => total.and_then(SavedTotal::counts),
        MetricKind::Confusion { .. } | MetricKind::Auc { .. } => {
            unreachable!("{} has cells", kind.name())
        }
    };
    if total.is_none() {
        saved.differs(format!(
            "metric '{name}' has no total of its kind in the file"
        ));
    }
    Ok(total)
}

/// The definition of a metric in a message.
fn in_words(kind: SavedKind, ignore_index: Option<i64>) -> String {
    let kind = kind.in_words();
    match ignore_index {
        Some(label) => format!("{kind} with ignore_index {label}"),
        None => kind,
    }
}

impl From<MetricKind> for SavedKind {
    fn from(kind: MetricKind) -> SavedKind {
        match kind {
            MetricKind::Sum => SavedKind::Sum,
            MetricKind::Mean => SavedKind::Mean,
            MetricKind::Count => SavedKind::Count,
            MetricKind::Accuracy { classes } => SavedKind::Accuracy { classes },
            MetricKind::TopK { k } => SavedKind::TopK { k },
            MetricKind::SquaredError => SavedKind::SquaredError,
            MetricKind::Confusion { classes } => SavedKind::Confusion { classes },
            MetricKind::Auc {
                bins,
                lowest,
                highest,
            } => SavedKind::Auc {
                bins,
                lowest: Float(lowest),
                highest: Float(highest),
            },
        }
    }
}

impl SavedTotal {
    fn numbers(&self) -> Option<Total> {
        match *self {
            SavedTotal::Numbers { sum, weight } => Some(Total::Numbers {
                sum: sum.0,
                weight: weight.0,
            }),
            SavedTotal::Counts { .. } => None,
        }
    }

    fn counts(&self) -> Option<Total> {
        match *self {
            SavedTotal::Counts { hits, predictions } => Some(Total::Counts {
                hits: hits.0 as i64,
                predictions: predictions.0 as i64,
            }),
            SavedTotal::Numbers { .. } => None,
        }
    }
}

impl SavedKind {
    /// The kind in a message.
    fn in_words(self) -> String {
        match self {
            SavedKind::Sum => "a sum".into(),
            SavedKind::Mean => "a mean".into(),
            SavedKind::Count => "a count".into(),
            SavedKind::Accuracy { classes: None } => "an accuracy".into(),
            SavedKind::Accuracy {
                classes: Some(classes),
            } => format!("an accuracy of {classes} classes"),
            SavedKind::TopK { k } => format!("a top-{k} accuracy"),
            SavedKind::SquaredError => "a mean squared error".into(),
            SavedKind::Confusion { classes } => {
                format!("a confusion matrix of {classes} classes")
            }
            SavedKind::Auc {
                bins,
                lowest: Float(lowest),
                highest: Float(highest),
            } => format!("an area under a curve of {bins} bins from {lowest} to {highest}"),
        }
    }
}
