//! Launchers: what works on the variables of an apply. In host memory these are the workers, else
//! the device that holds the variables.

use std::ops::Deref;

use crate::apply::host::CpuBackend;
use crate::apply::on_device::DeviceBackend;
use crate::apply::sources::GradientSources;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::ApplyWorkspace;
use crate::exchange::between_devices::Buffers;
use crate::exchange::buffers::AlignedBytes;
use crate::exchange::shards::{ReceivedShard, Shards};
use umbo_base::error::Result;
use umbo_device::{HAS_OTHERS, registry};
use umbo_tensor::Tensor;
use umbo_tensor::values::variable::Variable;

/// The fate of gradients that are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// They are computed again when they are needed again.
    Nothing,
    /// Gradients that read more than two elements for one are kept, if there is memory: writing and
    /// reading them once costs less than reading all operands again.
    WherePossible,
}

/// Carries out the operations of an apply on all of its variables. Each call takes the whole table
/// of them, `work`, whose items are selected or prepared. The bits are the same for all launchers.
pub(crate) trait ApplyBackend: Sync {
    /// Measures the squares of the variables' gradients, for [`ApplyWorkspace::for_each_squares`].
    fn measure(
        &self,
        work: &mut ApplyWorkspace,
        sources: &mut GradientSources<'_>,
        keep: Keep,
    ) -> Result<()>;

    /// Reserves the memory for `sum`, which then cannot fail for lack of it.
    fn reserve_sum(&self, _: &mut ApplyWorkspace, _: &GradientSources<'_>) -> Result<()> {
        Ok(())
    }

    /// Adds the last run's contributions to the sums, which are claimed.
    fn sum(&self, work: &mut ApplyWorkspace, sources: &GradientSources<'_>) -> Result<()>;

    /// Does the part of the prepared updates that can fail.
    fn reserve_update(&self, _: &mut ApplyWorkspace, _: UpdateContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Carries out the prepared updates, and notes in the items which gradients were not finite. If
    /// it fails, weights may be partly written.
    fn update(&self, work: &mut ApplyWorkspace, context: UpdateContext<'_>) -> Result<()>;

    /// Copies the part of its gradients that this rank sends in a round to `send`.
    fn pack(
        &self,
        shards: &Shards,
        round: usize,
        sources: &GradientSources<'_>,
        send: &mut AlignedBytes,
    ) -> Result<()>;

    /// Copies the received elements to their destinations. Nobody reads or writes these
    /// destinations during the call.
    fn scatter(&self, all: &[ReceivedShard<'_>]) -> Result<()>;

    /// Writes the gradient of variable `index` that the next apply would use to a fresh tensor: all
    /// of its elements, or those of the contributed rows.
    fn write_gradient(
        &self,
        sources: &GradientSources<'_>,
        index: usize,
        to: &Tensor,
    ) -> Result<()>;

    /// Packs what this rank sends in memory of the device; the gradients of such a launcher stay
    /// there.
    fn pack_on_device(&self, _: &Shards, _: &GradientSources<'_>) -> Result<Option<Buffers>> {
        Ok(None)
    }

    /// An operation has failed half-way: the device's contents cannot be trusted.
    fn give_up(&self, _why: &str) {}
}

/// The launcher of a strategy's variables.
#[derive(Clone, Copy)]
pub(crate) enum Launcher {
    /// They are in host memory.
    Host(CpuBackend),
    /// They are in memory that the host cannot address.
    Device(DeviceBackend),
}

impl Deref for Launcher {
    type Target = dyn ApplyBackend;

    fn deref(&self) -> &(dyn ApplyBackend + 'static) {
        match self {
            Launcher::Device(device) if HAS_OTHERS => device,
            // A library that opens no devices has none of these.
            Launcher::Device(_) => &CpuBackend,
            Launcher::Host(host) => host,
        }
    }
}

/// The launcher of a strategy's variables, which are all on one device.
pub(crate) fn launcher_of(variables: &[Variable]) -> Result<Launcher> {
    Ok(match variables.first().map(Variable::device) {
        Some(device) if !device.is_host_memory() => {
            Launcher::Device(DeviceBackend(registry::backend(device)?))
        }
        _ => Launcher::Host(CpuBackend),
    })
}
