//! Element-wise reduction over replicas.

use crate::error::{Error, Result};
use crate::kernels::cuda::place::{GpuPlace, GpuRuns};
use crate::kernels::cuda::queue::{
    Address, KernelLauncher, KernelQueue, plain, short_name, unsigned_name,
};
use crate::kernels::reduce::over_replicas::{common, result_dtype};
use crate::kernels::reduce::reduction::ReduceOp;

/// The sum or the mean of some inputs, element by element.
#[derive(Clone, Copy, Debug)]
pub struct GpuReduction<'a> {
    /// The operation.
    pub op: ReduceOp,
    /// The inputs, which are added from the first to the last.
    pub inputs: &'a [GpuPlace],
    /// Where the result is written.
    pub output: GpuPlace,
}

plain! {
    struct ReductionEntry of 264 bytes {
        output: Address,
        elements: u64,
        first_input: u64,
        inputs: u32,
        dense: u32,
        output_runs: GpuRuns,
    }
}

plain! {
    struct ReductionInput of 240 bytes {
        data: Address,
        runs: GpuRuns,
    }
}

impl<Q: KernelQueue> KernelLauncher<Q> {
    /// Queues reductions: one kernel for each operation and dtype among them, whatever their number. The bits are
    /// those of [`reduce_over_replicas`](crate::kernels::reduce::over_replicas::reduce_over_replicas).
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if a reduction has no input or more than
    /// 2^15, if shapes or dtypes differ, if an output's dtype is not that of the result, and for
    /// bool.
    ///
    /// # Safety
    /// When the queued work reaches the reductions, inputs may be read and outputs written. Nobody else uses them at
    /// that time. Each written element belongs to one output only.
    pub unsafe fn reduce_over_replicas(&mut self, all: &[GpuReduction<'_>]) -> Result<()> {
        for reduction in all {
            reduction.check()?;
        }
        for (position, reduction) in all.iter().enumerate() {
            let kernel = reduction.kernel();
            let same = |other: &&GpuReduction<'_>| kernel == other.kernel();
            if reduction.output.elements() == 0 && all.len() == 1
                || all[..position].iter().any(|r| same(&r))
            {
                continue;
            }
            let group = || all.iter().filter(same);
            self.table.clear();
            let work = self
                .table
                .cut(self.enough_chunks, group().map(|reduction| reduction.output.elements()))?;
            let items = self.table.begin::<ReductionEntry>(group().count())?;
            let mut first_input = 0;
            for reduction in group() {
                self.table.push(reduction.item(first_input));
                first_input += reduction.inputs.len() as u64;
            }
            let inputs = self.table.begin::<ReductionInput>(first_input as usize)?;
            for place in group().flat_map(|reduction| reduction.inputs) {
                self.table.push(ReductionInput {
                    data: place.address,
                    runs: GpuRuns::new(&place.layout),
                });
            }
            let table = self.queue.upload(self.table.bytes())?;
            // SAFETY: the caller's promise, and the arguments are the kernel's.
            unsafe { self.over(&kernel, &work, table, &[table + items, table + inputs], &[])? };
        }
        Ok(())
    }
}

impl GpuReduction<'_> {
    fn check(&self) -> Result<()> {
        let GpuReduction { op, inputs, output } = self;
        let (dtype, shape) = common(inputs.iter().map(|input| (input.dtype, input.layout.shape)))?;
        let expected = result_dtype(*op, dtype)?;
        if output.dtype != expected || output.layout.shape != shape {
            return Err(Error::invalid(
                "output",
                format!(
                    "{} of shape {}; the {} of {dtype} of shape {shape} is {expected} of that shape",
                    output.dtype,
                    output.layout.shape,
                    op.name()
                ),
            ));
        }
        Ok(())
    }

    fn item(&self, first_input: u64) -> ReductionEntry {
        let output_runs = GpuRuns::new(&self.output.layout);
        let is_dense = |input: &GpuPlace| GpuRuns::new(&input.layout).is_dense();
        ReductionEntry {
            output: self.output.address,
            elements: self.output.elements(),
            first_input,
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
        }
    }
}
