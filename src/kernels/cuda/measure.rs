//! Norms of gradients, and whether these are finite.

use crate::error::Result;
use crate::kernels::cuda::entries::{GpuTreatment, TILE, TableEntry};
use crate::kernels::cuda::gradient::check_gradient;
use crate::kernels::cuda::operands::Gradient;
use crate::kernels::cuda::queue::{
    Address, KernelLauncher, KernelQueue, LaunchBlocks, Plain, argument,
};
use crate::kernels::dtype::DType;
use crate::kernels::float::real::Real;

/// A gradient that is measured.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredEntry<'a> {
    /// The gradient.
    pub gradient: Gradient<'a>,
    /// Where it is written, as the variable's type, if it is to be kept.
    pub kept: Option<Address>,
}

/// Elements that a block measures: of 16 tiles.
const MEASURED_BY_BLOCK: u64 = 16 * TILE;

impl<Q: KernelQueue> KernelLauncher<Q> {
    /// Queues the measuring of gradients. `results` gets, for each of them, two float64 numbers: the
    /// sum of the squares of all elements, which is infinite also where it is past float64, and one
    /// that is 0 if all elements are finite and else NaN. The bits are those of
    /// [`Squares`](crate::kernels::update::measure::Squares).
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`]; `results` has room for two numbers for each gradient.
    pub unsafe fn measure(&mut self, all: &[MeasuredEntry<'_>], results: Address) -> Result<()> {
        all.iter().try_for_each(|measured| check_gradient(&measured.gradient))?;
        for dtype in [DType::Float32, DType::Float64] {
            let places = all.iter().zip((results..).step_by(2 * size_of::<f64>()));
            let of_dtype = places.filter(|(measured, _)| measured.gradient.dtype == dtype);
            let entries = of_dtype.map(|(measured, result)| {
                let mut entry = TableEntry::new(measured.gradient, measured.kept.unwrap_or(0));
                entry.variable.result = result;
                entry
            });
            // SAFETY: the caller's promise.
            unsafe {
                match dtype {
                    DType::Float32 => {
                        self.queue_measure::<f32>("umbo_squares_f32", entries, false)?;
                    }
                    _ => self.queue_measure::<f64>("umbo_squares_f64", entries, false)?,
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`KernelLauncher::measure`]; the kernel makes two sums, of which quotients are written if it
    /// is said.
    pub(super) unsafe fn queue_measure<'a, T: Real>(
        &mut self,
        kernel: &'static str,
        entries: impl Iterator<Item = TableEntry<'a>> + Clone,
        quotients: bool,
    ) -> Result<()>
    where
        GpuTreatment<T>: Plain,
    {
        let Some(arrays) = self.enter::<T>(entries, Some(MEASURED_BY_BLOCK))? else {
            return Ok(());
        };
        let bytes = arrays.tiles.saturating_mul(2 * size_of::<f64>() as u64);
        let mut sums = self.queue.scratch(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let (mut variables, mut quotients) = (arrays.variables, u32::from(quotients));
        // SAFETY: the caller's promise, and the arguments are the kernels'.
        unsafe {
            self.over_variables(kernel, &arrays, &mut [argument(&mut sums)])?;
            self.queue.launch(
                "umbo_totals",
                LaunchBlocks { blocks: arrays.count, rows: 1 },
                &mut [argument(&mut variables), argument(&mut sums), argument(&mut quotients)],
            )
        }
    }
}
