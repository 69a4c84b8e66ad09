//! Element-wise reduction over replicas.

use crate::launch::launcher::{
    Address, KernelLauncher, Table, ordered_name, plain, short_name, unsigned_name,
};
use crate::launch::place::{DevicePlace, DeviceRuns};
use crate::reduce::over_replicas::check_operands;
use crate::reduce::reduction::ReduceOp;
use umbo_base::error::Result;

/// The sum, the mean or an extreme of some inputs, element by element.
#[derive(Clone, Copy, Debug)]
pub struct DeviceReduction<'a> {
    /// The operation.
    pub op: ReduceOp,
    /// The inputs, which are added from the first to the last.
    pub inputs: &'a [DevicePlace],
    /// The destination of the result.
    pub output: DevicePlace,
}

plain! {
    struct ReductionEntry of 256 bytes {
        output: Address,
        elements: u64,
        inputs: u32,
        dense: u32,
        output_runs: DeviceRuns,
    }
}

plain! {
    struct ReductionInput of 240 bytes {
        data: Address,
        runs: DeviceRuns,
    }
}

impl KernelLauncher<'_> {
    /// Queues a reduction. The bits are those of
    /// [`reduce_over_replicas`](crate::reduce::over_replicas::reduce_over_replicas).
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if there is no input or more than 2^15, if
    /// shapes or dtypes differ, if the output's dtype is not that of the result, and for a sum or
    /// mean of bool.
    ///
    /// # Safety
    /// When the queued work reaches the reduction, the inputs may be read and the output written.
    /// Nobody else uses them at that time.
    pub unsafe fn reduce_over_replicas(&self, reduction: &DeviceReduction<'_>) -> Result<()> {
        let DeviceReduction { op, inputs, output } = reduction;
        check_operands(*op, inputs.iter().map(DevicePlace::kind), output.kind())?;
        let item = reduction.item();
        if item.elements == 0 {
            return Ok(());
        }
        let mut table = Table::default();
        let work = table.cut(self.enough_chunks, std::iter::once(item.elements))?;
        let items = table.begin::<ReductionEntry>(1)?;
        table.push(item);
        let inputs = table.begin::<ReductionInput>(reduction.inputs.len())?;
        for place in reduction.inputs {
            table.push(ReductionInput {
                data: place.address,
                runs: DeviceRuns::new(&place.layout),
            });
        }
        let table = self.queue.upload(table.bytes())?;
        let before = [table + items, table + inputs];
        // SAFETY: the caller's promise, and the arguments are the kernel's.
        unsafe { self.over(&reduction.kernel(), &work, table, &before, &[]) }
    }
}

impl DeviceReduction<'_> {
    fn item(&self) -> ReductionEntry {
        let output_runs = DeviceRuns::new(&self.output.layout);
        let is_dense = |input: &DevicePlace| DeviceRuns::new(&input.layout).is_dense();
        ReductionEntry {
            output: self.output.address,
            elements: self.output.elements(),
            inputs: self.inputs.len() as u32,
            dense: u32::from(output_runs.is_dense() && self.inputs.iter().all(is_dense)),
            output_runs,
        }
    }

    /// The name of its kernel.
    fn kernel(&self) -> String {
        let dtype = self.inputs[0].dtype;
        match self.op {
            ReduceOp::Sum => format!("umbo_sum_{}", unsigned_name(dtype)),
            ReduceOp::Mean => format!("umbo_mean_{}", short_name(dtype)),
            ReduceOp::Min => format!("umbo_min_{}", ordered_name(dtype)),
            ReduceOp::Max => format!("umbo_max_{}", ordered_name(dtype)),
        }
    }
}
