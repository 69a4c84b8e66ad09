//! What works on the variables of an apply: the workers, in host memory, or the GPU that holds them.

use crate::device::cuda::gpu::Gpu;
use crate::error::Result;
use crate::kernels::update::measure::Squares;
use crate::optimizer::exchange::buffers::AlignedBytes;
use crate::optimizer::exchange::shards::{Received, Shards};
use crate::optimizer::means::Means;
use crate::optimizer::sources::Sources;
use crate::optimizer::workspace::Work;
use crate::tensor::Tensor;

/// What becomes of gradients that are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// They are made again when they are needed again.
    Nothing,
    /// Those that read more than two elements for one are kept, if there is memory: to write them
    /// and read that is less than to read all of it again.
    WherePossible,
}

/// Carries out what an apply does to all of its variables. Each call is about the whole table of them,
/// `work`, whose items are selected or prepared. The bits are the same for all launchers.
pub(super) trait Launcher: Sync {
    /// Calls `inspect` with the index of each variable and the squares of its gradient.
    fn measure(
        &'static self,
        work: &mut Work,
        sources: &mut Sources<'_>,
        keep: Keep,
        inspect: &mut dyn FnMut(usize, Squares),
    ) -> Result<()>;

    /// Reserves what [`Launcher::sum`] needs, which then cannot fail for lack of memory.
    fn reserve_sum(&'static self, _: &mut Work, _: &Sources<'_>) -> Result<()> {
        Ok(())
    }

    /// Adds the last run's contributions to the sums, which are claimed.
    fn sum(&'static self, work: &mut Work, sources: &Sources<'_>) -> Result<()>;

    /// Does all of the updates that were prepared that can fail.
    fn reserve_update(&'static self, _: &mut Work, _: Means<'_>) -> Result<()> {
        Ok(())
    }

    /// Does the updates that were prepared, puts the weights that other ranks have computed in their place, and
    /// notes in the items which gradients were not finite. If it fails, weights may have been written by halves.
    fn update(&'static self, work: &mut Work, means: Means<'_>) -> Result<()>;

    /// Copies what this rank sends of its gradients in a round to `send`.
    fn pack(
        &'static self,
        shards: &Shards,
        round: usize,
        sources: &Sources<'_>,
        send: &mut AlignedBytes,
    ) -> Result<()>;

    /// Puts what has come from the ranks where it lands, of which no other rank's part is read or written
    /// meanwhile.
    fn land(&'static self, all: &[Received<'_>]) -> Result<()>;

    /// Writes the gradient of variable `index`, which the next apply would take, to a fresh tensor: all of
    /// its elements, or those of the rows that were named.
    fn write_gradient(
        &'static self,
        sources: &Sources<'_>,
        index: usize,
        to: &Tensor,
    ) -> Result<()>;

    /// The GPU that it is, whose memory some engines of ranks move.
    fn gpu(&'static self) -> Option<&'static Gpu> {
        None
    }

    /// What was begun has failed: nothing that it works on can be trusted.
    fn give_up(&'static self, _why: &str) {}
}
