//! The contributions of one step: the buffers that count, and their weights.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crossbeam_utils::CachePadded;

use crate::gradients::replica::{DenseBuffer, GradientBuffer, Replica};
use crate::gradients::row_sums::RowSource;
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;

/// The contributions of all replicas in one step, which is committed or at its commit point.
#[derive(Clone, Copy)]
pub(crate) struct Contributions<'a> {
    pub(crate) replicas: &'a [CachePadded<Replica>],
    pub(crate) step: u64,
}

impl<'a> Contributions<'a> {
    /// The contributions of no replica, after `step`.
    pub(crate) fn none(step: u64) -> Contributions<'a> {
        Contributions {
            replicas: &[],
            step,
        }
    }

    /// How many runs contributed: 1 or 0.
    pub(crate) fn runs(&self) -> u64 {
        u64::from(!self.replicas.is_empty())
    }

    /// Whether all replicas, which are on `devices`, submitted.
    pub(crate) fn check_submitted(&self, devices: &[DeviceId]) -> Result<()> {
        let missing = |state: &Replica| state.submitted.load(Ordering::Acquire) != self.step;
        if !self.replicas.iter().any(|state| missing(state)) {
            return Ok(());
        }
        let replicas = self.replicas.iter().zip(devices).enumerate();
        let names: Vec<String> = replicas
            .filter(|(_, (state, _))| missing(state))
            .map(|(replica, (_, device))| format!("replica {replica} ({device})"))
            .collect();
        Err(Error::precondition(format!(
            "gradients: not submitted in the last run by {}; each replica submits them once in \
             each run, even one without examples",
            names.join(", ")
        )))
    }

    /// The sum of the weights, in replica order.
    pub(crate) fn total_weight(&self) -> f64 {
        self.replicas.iter().map(|replica| replica.weight()).sum()
    }

    /// Whether each replica wrote either all of these variables or none.
    pub(crate) fn are_alike(self, variables: &Range<usize>) -> bool {
        let wrote =
            |replica: &CachePadded<Replica>| replica.viewed.any_and_all(variables, self.step);
        self.replicas.iter().map(wrote).all(|(any, all)| any == all)
    }

    /// Whether a replica of non-zero weight wrote variable `index`.
    pub(crate) fn has_variable(self, index: usize) -> bool {
        self.writers(index).next().is_some()
    }

    /// The buffers for variable `index` that count, with their replicas' weights, in replica order:
    /// of replicas that wrote it and whose weight is not 0. A row-sparse variable has none.
    pub(crate) fn dense(self, index: usize) -> impl Iterator<Item = (f64, &'a DenseBuffer)> {
        self.writers(index)
            .filter_map(|(_, weight, buffer)| match buffer {
                GradientBuffer::Dense(dense) => Some((weight, dense)),
                GradientBuffer::Rows(_) => None,
            })
    }

    /// The rows of variable `index` that count, as [`Contributions::dense`] has buffers;
    /// `factor` makes factors of weights. A variable that is not row-sparse has none.
    pub(crate) fn rows_of(
        self,
        index: usize,
        factor: impl Fn(f64) -> f64 + Clone,
    ) -> impl Iterator<Item = RowSource<'a>> + Clone {
        self.writers(index)
            .filter_map(move |(replica, weight, buffer)| match buffer {
                GradientBuffer::Dense(_) => None,
                GradientBuffer::Rows(rows) => Some((replica, rows, factor(weight))),
            })
    }

    /// The replicas that wrote variable `index` and whose weight is not 0, with weight and buffer.
    pub(crate) fn writers(
        self,
        index: usize,
    ) -> impl Iterator<Item = (usize, f64, &'a GradientBuffer)> + Clone {
        let replicas = self.replicas.iter().enumerate();
        replicas.filter_map(move |(replica, state)| {
            let wrote = state.viewed.in_step(index, self.step);
            let weight = state.weight();
            (wrote && weight != 0.0).then(|| (replica, weight, &state.buffers[index]))
        })
    }
}
