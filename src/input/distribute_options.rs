//! How datasets are distributed.

use std::sync::Arc;

use crate::device::{DeviceId, registry};
use crate::error::Result;
use crate::input::prefetch::ahead_depth;

/// How many rows of a batch each replica gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Splitting {
    /// With c = ⌈rows / replicas⌉, replica k gets rows [k·c, (k+1)·c) of each batch as far as there
    /// are any: 9 rows over 4 replicas are 3, 3, 3, 0.
    #[default]
    Ceiling,
    /// The rows of all batches are one stream, from which replicas in turn get their share of a
    /// full batch, larger shares first: batches of 9 over 4 replicas are 3, 2, 2, 2, and what is
    /// left over at the end goes to the first replicas. Where the size of a full batch is not
    /// known, as [`Splitting::Ceiling`].
    Balanced,
}

/// Which of a dataset's rows each rank gets, where there are several ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharding {
    /// The datasets of all ranks are the same, and each batch is split over the replicas of all ranks.
    /// Each rank makes all batches and takes its own rows, so that all is as with one rank.
    #[default]
    Data,
    /// Each rank's dataset is its own: its batches are split over the rank's replicas. The ranks meet
    /// for each element, and go on until none has any more; meanwhile one that has none gets parts
    /// without rows.
    Off,
    /// The datasets of all ranks are the same list of files, of which each rank reads its own: file i belongs
    /// to rank i mod the number of ranks. The rows of a rank's batches are one stream, from which its
    /// replicas get their shares of a batch, as with [`Splitting::Balanced`] over the replicas of all ranks. The ranks meet
    /// for each element and go on as with [`Sharding::Off`].
    File,
    /// [`Sharding::File`] where that can be, else [`Sharding::Data`].
    Auto,
}

/// How a dataset is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributeOptions {
    /// How many rows of a batch each replica gets.
    pub splitting: Splitting,
    /// Whether a last step for which not every replica has its element, or its whole share of a batch, is
    /// left out. If not, it is completed with components without rows (zero, where elements are scalars).
    /// With [`Splitting::Ceiling`] each batch is a whole step.
    pub drop_partial_step: bool,
    /// Whether components stay on CPU:0, rather than going to the compute devices.
    pub keep_on_host: bool,
    /// How many steps are made ahead, on a thread of the iterator's, once the first one has been
    /// asked for; 0: none. If it is not said, what suits the devices.
    pub read_ahead: Option<i64>,
    /// Which rows each rank gets.
    pub sharding: Sharding,
}

impl Default for DistributeOptions {
    fn default() -> DistributeOptions {
        DistributeOptions {
            splitting: Splitting::Ceiling,
            drop_partial_step: false,
            keep_on_host: false,
            read_ahead: None,
            sharding: Sharding::Data,
        }
    }
}

impl DistributeOptions {
    /// Where components of replicas on `devices` are to be, and how many steps are made ahead.
    pub(super) fn check(&self, devices: &[DeviceId]) -> Result<(Arc<[DeviceId]>, usize)> {
        // On CPU devices components are views of a batch: there is nothing to fetch, and a thread would
        // only take a processor from the replicas. To a GPU the parts of the next steps are copied while
        // it computes.
        let fetches = !self.keep_on_host && devices.iter().any(|device| !device.is_host_memory());
        let suitable = if fetches { 2 } else { 0 };
        let depth = self.read_ahead.unwrap_or(suitable);
        let depth = ahead_depth(depth, 0, "prefetch_count")?;
        if self.keep_on_host {
            return Ok((devices.iter().map(|_| DeviceId::HOST).collect(), depth));
        }
        for &gpu in devices.iter().filter(|device| !device.is_host_memory()) {
            registry::gpu(gpu)?;
        }
        Ok((devices.into(), depth))
    }
}
