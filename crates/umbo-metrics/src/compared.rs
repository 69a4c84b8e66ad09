//! The additions of the replicas in a step. A trial compares it and then rolls the step back.

use crate::Metrics;
use crate::kind::MetricKind;
use crate::part::AddedToEntry;
use umbo_base::error::{Result, memory};
use umbo_strategy::context::metrics::{Added, Additions, Metric, What};

impl Additions for Metrics {
    fn number(&self) -> u64 {
        self.number
    }

    fn added(&self, step: u64, replica: usize) -> Result<Vec<Added>> {
        let entries = self.entries.lock();
        let part = self.parts[replica].lock();
        if part.step != step {
            return Ok(Vec::new());
        }
        let changed = entries
            .iter()
            .zip(part.slots.values())
            .filter(|(_, slot)| !slot.is_empty());
        let mut added = Vec::new();
        for ((name, entry), slot) in changed {
            let name = name.as_str().to_owned();
            if !slot.weights.is_empty() {
                added.push(Added {
                    owner: self.number,
                    name: format!("{name}, weights"),
                    additions: What::Sum(slot.weights.iter().sum()),
                });
            }
            added.push(Added {
                owner: self.number,
                name,
                additions: additions(entry.definition.kind, slot)?,
            });
        }
        Ok(added)
    }
}

/// The additions to an entry of this kind.
fn additions(kind: MetricKind, slot: &AddedToEntry) -> Result<What> {
    Ok(match kind {
        MetricKind::Sum => What::Sum(slot.sum),
        MetricKind::Mean
        | MetricKind::Accuracy { .. }
        | MetricKind::TopK { .. }
        | MetricKind::SquaredError => What::Mean(Metric {
            sum: slot.sum,
            weight: slot.weight,
        }),
        MetricKind::Count => What::Sum(slot.hits as f64),
        MetricKind::Confusion { .. } | MetricKind::Auc { .. } => {
            let mut cells = memory::list(slot.cells.len(), "cells of a metric")?;
            cells.extend_from_slice(&slot.cells);
            // A score at the border of two bins may be in one or the other because of rounding.
            What::Cells {
                cells,
                near: u32::from(matches!(kind, MetricKind::Auc { .. })),
            }
        }
    })
}
