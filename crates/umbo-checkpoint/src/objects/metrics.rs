//! Metrics: the sums of steps.

use serde_json::{Map, Value as Json, json};

use crate::numbers::{number, read_number};
use crate::saveable::{Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable};
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_metrics::kind::MetricKind;
use umbo_metrics::{Metrics, Total};
use umbo_tensor::{DType, Shape, Tensor};

impl Saveable for Metrics {
    fn kind(&self) -> &'static str {
        "metrics"
    }

    fn strategy(&self) -> Option<u64> {
        Some(Metrics::strategy(self))
    }

    fn save(&self, _names: &Names, record: &mut ObjectRecord) -> Result<()> {
        let mut entries = Map::new();
        for (name, kind, accumulated) in self.export()? {
            let mut entry = Map::new();
            entry.insert("kind".into(), describe(kind));
            match accumulated {
                Total::Numbers { sum, weight } => {
                    entry.insert("sum".into(), number(sum));
                    entry.insert("weight".into(), number(weight));
                }
                Total::Counts { hits, of } => {
                    entry.insert("hits".into(), hits.into());
                    entry.insert("of".into(), of.into());
                }
                Total::Cells(cells) => {
                    let shape = Shape::new(&kind.cells().unwrap_or_default())?;
                    let cells = Tensor::from_slice::<i64>(&cells, shape, DeviceId::HOST)?;
                    record.part(name.clone(), cells);
                }
            }
            entries.insert(name, entry.into());
        }
        record.property("metrics", entries);
        Ok(())
    }

    fn prepare<'a>(&'a self, _names: &Names, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let mut there = saved.members("metrics").unwrap_or_default();
        let mut all = Vec::new();
        for (name, kind, _) in self.export()? {
            match there.remove(&name) {
                Some(json) => all.extend(read_entry(saved, &name, kind, &json)?),
                None => saved.differs(format!("the file has no metric '{name}'")),
            }
        }
        for (name, _) in there {
            saved.differs(format!(
                "the file has a metric '{name}', which was not defined"
            ));
            saved.take(&name);
        }
        Ok(Some(PreparedRestore::by(move |_| self.import(all))))
    }
}

/// A kind as it is written in the file.
fn describe(kind: MetricKind) -> Json {
    match kind {
        MetricKind::Sum => json!("sum"),
        MetricKind::Mean => json!("mean"),
        MetricKind::Count => json!("count"),
        MetricKind::Accuracy { classes: None } => json!("accuracy"),
        MetricKind::Accuracy {
            classes: Some(classes),
        } => json!({ "accuracy": classes }),
        MetricKind::Confusion { classes } => json!({ "confusion": classes }),
        MetricKind::Auc {
            bins,
            lowest,
            highest,
        } => {
            json!({ "auc": bins, "lowest": number(lowest), "highest": number(highest) })
        }
    }
}

fn read_entry(
    saved: &mut ObjectReader<'_>,
    name: &str,
    kind: MetricKind,
    json: &Json,
) -> Result<Option<Total>> {
    let here = describe(kind);
    if json["kind"] != here {
        let there = &json["kind"];
        saved.differs(format!(
            "metric '{name}' is {here} here, {there} in the file"
        ));
        saved.take(name);
        return Ok(None);
    }
    if let Some(shape) = kind.cells() {
        let cells = saved.tensor(Some(name), DType::Int64, Shape::new(&shape)?)?;
        let Some(cells) = cells.map(|cells| cells.to_vec::<i64>()).transpose()? else {
            return Ok(None);
        };
        if let Some(count) = cells.iter().find(|&&count| !is_count(count)) {
            saved.differs(format!(
                "metric '{name}' makes no sense in the file: it has counted {count}"
            ));
            return Ok(None);
        }
        return Ok(Some(Total::Cells(cells)));
    }
    let count = |key: &str| json[key].as_i64().filter(|&count| is_count(count));
    let read = match kind {
        MetricKind::Sum | MetricKind::Mean => read_number(&json["sum"])
            .zip(read_number(&json["weight"]))
            .map(|(sum, weight)| Total::Numbers { sum, weight }),
        MetricKind::Count | MetricKind::Accuracy { .. } => count("hits")
            .zip(count("of"))
            .map(|(hits, of)| Total::Counts { hits, of }),
        MetricKind::Confusion { .. } | MetricKind::Auc { .. } => {
            unreachable!("{} has cells", kind.name())
        }
    };
    if read.is_none() {
        saved.differs(format!(
            "metric '{name}' makes no sense in the file: {json}"
        ));
    }
    Ok(read)
}

/// Whether it is a number of examples from which counting can continue.
fn is_count(count: i64) -> bool {
    (0..1 << 53).contains(&count)
}
