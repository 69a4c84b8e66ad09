//! How datasets are distributed.

use std::sync::Arc;

use crate::transforms::prefetch::ahead_depth;
use umbo_base::error::Result;
use umbo_device::{DeviceId, registry};

/// The number of rows of a batch each replica gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Splitting {
    /// With c = ⌈rows / replicas⌉, replica k gets rows [k·c, (k+1)·c) of each batch, as far as
    /// these rows exist: 9 rows over 4 replicas are 3, 3, 3, 0.
    #[default]
    Ceiling,
    /// Of a full batch all replicas get the same number of rows or, the first ones, one more: 9
    /// rows over 4 replicas are 3, 2, 2, 2. Of a smaller batch each replica gets the same rows,
    /// as far as these exist: 6 rows of batches of 8 over 2 replicas are 4, 2. If the size of a
    /// full batch is not known, each batch is a full one.
    Balanced,
}

/// The rows of a dataset that each rank gets, if there are several ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharding {
    /// The datasets of all ranks are the same, and each batch is split over the replicas of all
    /// ranks. Each rank makes all batches and takes its own rows, so that replicas get the same
    /// rows as with one rank.
    #[default]
    Data,
    /// Each rank has its own dataset, whose batches are split over the rank's replicas. The ranks
    /// communicate for each element, and continue until no rank has any more. Until then, a
    /// rank whose dataset has ended gets parts without rows.
    Off,
    /// The datasets of all ranks are the same list of files, and each rank reads only its own
    /// files: file i belongs to rank i mod the number of ranks. The rows of a rank's batches
    /// are one stream, from which its replicas take in turn what they would get of a full batch
    /// with [`Splitting::Balanced`] over the replicas of all ranks. The ranks communicate for
    /// each element and continue as with [`Sharding::Off`].
    File,
    /// [`Sharding::File`] if that is possible, and [`Sharding::Data`] if not.
    Auto,
}

/// How a dataset is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributeOptions {
    /// The number of rows of a batch each replica gets.
    pub splitting: Splitting,
    /// Whether steps are left out in which some replica lacks its element or a part of its share
    /// of a full batch. If not, they are completed with components without rows (zero, where
    /// elements are scalars). With [`Splitting::Balanced`], these are the steps of all batches
    /// that are smaller than a full one, for any number of replicas; with
    /// [`Splitting::Ceiling`], and if the size of a full batch is not known, each batch is a whole
    /// step.
    pub drop_partial_step: bool,
    /// Whether components stay on CPU:0 instead of going to the compute devices.
    pub keep_on_host: bool,
    /// The number of steps that are made ahead, on a thread of the iterator, once the first one has
    /// been requested. With 0, no step is made ahead. With none, the number depends on the devices.
    pub read_ahead: Option<i64>,
    /// The rows that each rank gets.
    pub sharding: Sharding,
    /// In how many steps of each pass, from its first one on, ranks that read the same batches
    /// ([`Sharding::Data`]) also compare the checksum of a sample of the rows. None: in 16,
    /// and in none if functions of the caller change elements, since they may draw random
    /// numbers on each rank: a map, or the function that opens files.
    pub compared_steps: Option<u64>,
}

impl Default for DistributeOptions {
    fn default() -> DistributeOptions {
        DistributeOptions {
            splitting: Splitting::Ceiling,
            drop_partial_step: false,
            keep_on_host: false,
            read_ahead: None,
            sharding: Sharding::Data,
            compared_steps: None,
        }
    }
}

impl DistributeOptions {
    /// The devices of the components of replicas on `devices`, and how many steps are made ahead.
    pub(crate) fn check(&self, devices: &[DeviceId]) -> Result<(Arc<[DeviceId]>, usize)> {
        // On CPU devices components are views of a batch. There is nothing to fetch, and a thread
        // would only take a processor from the replicas. The parts of the next steps are
        // copied to a GPU while it computes.
        let fetches = !self.keep_on_host && devices.iter().any(|device| !device.is_host_memory());
        let suitable = if fetches { 2 } else { 0 };
        let depth = self.read_ahead.unwrap_or(suitable);
        let depth = ahead_depth(depth, 0, "prefetch_count")?;
        if self.keep_on_host {
            return Ok((devices.iter().map(|_| DeviceId::HOST).collect(), depth));
        }
        for &device in devices.iter().filter(|device| !device.is_host_memory()) {
            registry::backend(device)?;
        }
        Ok((devices.into(), depth))
    }
}
