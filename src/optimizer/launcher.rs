//! What works on the variables of an apply: the workers, in host memory, or the GPU that holds them.

use crate::error::Result;
use crate::kernels::update::measure::Squares;
use crate::optimizer::exchange::Words;
use crate::optimizer::exchange::new_weights::Means;
use crate::optimizer::exchange::shards::Shards;
use crate::optimizer::sources::Sources;
use crate::optimizer::work::Keep;
use crate::optimizer::workspace::Work;
use crate::tensor::Tensor;

/// The parts of weights that other ranks have computed, if the ranks divide the variables.
pub(super) type Received<'a> = Option<&'a mut Shards>;

/// Carries out what an apply does to all of its variables. Each call is about the whole table of them,
/// `work`, whose items are selected or prepared. The bits are the same for all launchers.
pub(super) trait Launcher: Sync {
    /// Calls `look` with the index of each variable and the squares of its gradient.
    fn measure(
        &'static self,
        work: &mut Work,
        sources: &mut Sources<'_>,
        keep: Keep,
        look: &mut dyn FnMut(usize, Squares),
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

    /// Does the updates that were prepared, of which some are `received` from other ranks, and notes in the
    /// items which gradients were not finite. If it fails, weights may have been written by halves.
    fn update(
        &'static self,
        work: &mut Work,
        means: Means<'_>,
        received: Received<'_>,
    ) -> Result<()>;

    /// Copies what this rank sends of its gradients in a round to `send`.
    fn pack(
        &'static self,
        shards: &Shards,
        round: usize,
        sources: &Sources<'_>,
        send: &mut Words,
    ) -> Result<()>;

    /// Writes the gradient of variable `index`, which the next apply would take, to a fresh tensor: all of
    /// its elements, or those of the rows that were named.
    fn write_gradient(
        &'static self,
        sources: &Sources<'_>,
        index: usize,
        to: &Tensor,
    ) -> Result<()>;

    /// What was begun has failed: nothing that it works on can be trusted.
    fn give_up(&'static self, _why: &str) {}
}
