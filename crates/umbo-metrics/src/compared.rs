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
        let is_empty = |slot: &AddedToEntry| {
            (slot.sum, slot.weight, slot.hits, slot.predictions) == (0.0, 0.0, 0, 0)
                && slot.cells.is_empty()
        };
        let added = entries
            .iter()
            .zip(&part.slots)
            .filter(|(_, slot)| !is_empty(slot));
        let added = added.map(|(entry, slot)| {
            let additions = match entry.kind {
                MetricKind::Sum => What::Sum(slot.sum),
                MetricKind::Mean => What::Mean(Metric {
                    sum: slot.sum,
                    weight: slot.weight,
                }),
                MetricKind::Count => What::Sum(slot.hits as f64),
                MetricKind::Accuracy { .. } => What::Mean(Metric {
                    sum: slot.hits as f64,
                    weight: slot.predictions as f64,
                }),
                MetricKind::Confusion { .. } | MetricKind::Auc { .. } => {
                    let mut cells = memory::list(slot.cells.len(), "cells of a metric")?;
                    cells.extend_from_slice(&slot.cells);
                    // A score at the border of two bins may be in one or the other because of
                    // rounding.
                    What::Cells {
                        cells,
                        near: u32::from(matches!(entry.kind, MetricKind::Auc { .. })),
                    }
                }
            };
            Ok(Added {
                owner: self.number,
                name: entry.name.as_str().to_owned(),
                additions,
            })
        });
        added.collect()
    }
}
