//! The routes of gradients that are not row-sparse, when ranks exchange them.

use super::between_devices::Buffers;
use super::shards::{ROUND, Shards};
use crate::apply::preparation::Preparation;
use umbo_base::error::{Error, Result};
use umbo_strategy::ranks::Collective;

/// A route of gradients: which of their sums a rank gets, and through which memory.
pub(crate) trait Route {
    /// Whether a rank gets the gradients of its part alone, and updates that.
    fn divides(&self) -> bool {
        false
    }

    /// About how many bytes a rank sends in one round.
    fn round(&self) -> usize {
        ROUND
    }

    /// Reserves all memory of the exchange, which cannot fail for lack of it afterwards.
    fn reserve(&mut self, shards: &mut Shards, apply: &mut Preparation<'_, '_>) -> Result<()> {
        let memory = &mut apply.work.exchange;
        shards.reserve(&mut memory.send, &mut memory.receive)
    }

    /// Exchanges the contributions. Afterwards the gradients are where they were to land.
    fn exchange(
        &mut self,
        shards: &Shards,
        collective: &mut Collective<'_>,
        apply: &mut Preparation<'_, '_>,
    ) -> Result<()>;
}

/// Contributions go to the rank whose part they are of. The ranks exchange new weights afterwards.
pub(crate) struct ToParts;

/// Gradients go to all ranks. Each rank updates everything.
pub(crate) struct ToAll;

/// Gradients go to all ranks and stay on devices: all ranks have the variables there, and the
/// engine moves memory of devices.
#[derive(Default)]
pub(crate) struct BetweenDevices {
    /// Memory of the device, with what this rank sends.
    buffers: Option<Buffers>,
}

impl Route for ToParts {
    fn divides(&self) -> bool {
        true
    }

    fn exchange(
        &mut self,
        shards: &Shards,
        collective: &mut Collective<'_>,
        apply: &mut Preparation<'_, '_>,
    ) -> Result<()> {
        through_host(shards, collective, apply, false)
    }
}

impl Route for ToAll {
    fn exchange(
        &mut self,
        shards: &Shards,
        collective: &mut Collective<'_>,
        apply: &mut Preparation<'_, '_>,
    ) -> Result<()> {
        through_host(shards, collective, apply, true)
    }
}

impl Route for BetweenDevices {
    /// All in one round.
    fn round(&self) -> usize {
        usize::MAX
    }

    fn reserve(&mut self, shards: &mut Shards, apply: &mut Preparation<'_, '_>) -> Result<()> {
        self.buffers = apply.launcher.pack_on_device(shards, apply.sources)?;
        Ok(())
    }

    fn exchange(
        &mut self,
        shards: &Shards,
        collective: &mut Collective<'_>,
        apply: &mut Preparation<'_, '_>,
    ) -> Result<()> {
        let buffers = self.buffers.take();
        let buffers =
            buffers.ok_or_else(|| Error::Internal("nothing was packed on a device".into()))?;
        shards.exchange_between_devices(collective, apply.sources, buffers)
    }
}

/// Exchanges through host memory, to all ranks if it `gathers`.
fn through_host(
    shards: &Shards,
    collective: &mut Collective<'_>,
    apply: &mut Preparation<'_, '_>,
    gathers: bool,
) -> Result<()> {
    let memory = &mut apply.work.exchange;
    shards.exchange(collective, apply.sources, apply.launcher, memory, gathers)
}
