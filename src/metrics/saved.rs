//! What metrics have accumulated: taken out, and put back.
//!
//! For both the caller has the step lock of the metrics' strategy.

use crate::error::{Result, memory};
use crate::metrics::Metrics;
use crate::metrics::kind::Kind;
use crate::metrics::total::Total;

/// What one metric has accumulated.
#[derive(Clone, Debug, PartialEq)]
pub enum Accumulated {
    /// Of a sum or a mean.
    Numbers {
        /// The sum.
        sum: f64,
        /// Of the weights.
        weight: f64,
    },
    /// Of a count or an accuracy.
    Counts {
        /// What was counted, or right.
        hits: i64,
        /// Of how many.
        of: i64,
    },
    /// The cells of a matrix or histogram, row by row.
    Cells(Vec<i64>),
}

impl Metrics {
    /// The id of the strategy whose runs add to them.
    pub fn strategy(&self) -> u64 {
        self.strategy
    }

    /// Names, kinds and a copy of what was accumulated, in the order in which they were defined.
    pub fn export(&self) -> Result<Vec<(String, Kind, Accumulated)>> {
        let entries = self.entries.lock();
        let exported = entries.iter().map(|entry| {
            let accumulated = match &entry.total {
                Total::Numbers { sum, weight } => {
                    Accumulated::Numbers { sum: *sum, weight: *weight }
                }
                Total::Counts { hits, of } => Accumulated::Counts { hits: *hits, of: *of },
                Total::Cells(cells) => {
                    let mut copy = memory::list(cells.len(), "cells of a metric")?;
                    copy.extend(cells.iter());
                    Accumulated::Cells(copy)
                }
            };
            Ok((entry.name.as_str().to_owned(), entry.kind, accumulated))
        });
        exported.collect()
    }

    /// Replaces what was accumulated, by one for each metric, of its kind and size. One that was defined since
    /// these were exported stays as it is. Fails while a step adds to them.
    pub fn import(&self, from: Vec<Accumulated>) -> Result<()> {
        let mut entries = self.entries.lock();
        self.check_idle()?;
        for (entry, accumulated) in entries.iter_mut().zip(from) {
            entry.total.put(accumulated);
        }
        Ok(())
    }
}

impl Total {
    fn put(&mut self, accumulated: Accumulated) {
        match (self, accumulated) {
            (Total::Numbers { sum, weight }, Accumulated::Numbers { sum: of, weight: by }) => {
                (*sum, *weight) = (of, by);
            }
            (Total::Counts { hits, of }, Accumulated::Counts { hits: right, of: all }) => {
                (*hits, *of) = (right, all);
            }
            (Total::Cells(cells), Accumulated::Cells(from)) => {
                cells.iter_mut().zip(from).for_each(|(cell, count)| *cell = count);
            }
            _ => unreachable!("kinds were compared before"),
        }
    }
}
