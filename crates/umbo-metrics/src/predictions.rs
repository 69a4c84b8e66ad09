//! Predictions for examples, which are read some rows at a time.

use crate::elements::{read_classes, read_weights};
use umbo_base::error::Result;
use umbo_kernels::view::View;

/// How many rows of a view are read together.
pub(super) const CHUNK: usize = 256;

/// Predictions for examples.
#[derive(Clone, Copy)]
pub struct Predictions<'a> {
    /// Class numbers, rows of scores, or numbers.
    pub predicted: &'a View<'a>,
    /// The right classes, or the numbers that were to be predicted.
    pub labels: &'a View<'a>,
    /// The weights of the examples. Without them, each has 1.
    pub weights: Option<&'a View<'a>>,
}

/// Some of the rows of predictions, read together.
pub(super) struct RowChunk {
    /// The number of the first row.
    pub first: usize,
    pub rows: usize,
    pub labels: [i64; CHUNK],
    pub weights: [f64; CHUNK],
    /// Whether each row counts.
    counts: [bool; CHUNK],
}

impl RowChunk {
    pub fn new() -> RowChunk {
        RowChunk {
            first: 0,
            rows: 0,
            labels: [0; CHUNK],
            weights: [1.0; CHUNK],
            counts: [true; CHUNK],
        }
    }

    /// Goes to the rows from `first` on, of `count` in all, and reads their weights.
    pub fn go(&mut self, first: usize, count: usize, weights: Option<&View<'_>>) -> Result<()> {
        self.first = first;
        self.rows = CHUNK.min(count - first);
        match weights {
            Some(weights) => read_weights(weights, first, &mut self.weights[..self.rows]),
            None => Ok(()),
        }
    }

    /// Reads the labels, and which of them count.
    pub fn read_labels(&mut self, labels: &View<'_>, ignored: Option<i64>) -> Result<()> {
        let read = &mut self.labels[..self.rows];
        read_classes(labels, "labels", self.first, read)?;
        for (counts, label) in self.counts.iter_mut().zip(read) {
            *counts = ignored != Some(*label);
        }
        Ok(())
    }

    pub fn counts(&self) -> &[bool] {
        &self.counts[..self.rows]
    }

    /// The places of the rows that count.
    pub fn counted(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows).filter(|&place| self.counts[place])
    }
}
