//! Gradients as an update rule gets them: clipped, and with the weight decay.

use crate::error::Result;
use crate::kernels::cuda::entries::TableEntry;
use crate::kernels::cuda::gradient::check_gradient;
use crate::kernels::cuda::operands::Gradient;
use crate::kernels::cuda::queue::{Address, KernelLauncher, KernelQueue};
use crate::kernels::dtype::DType;
use crate::kernels::update::weighted_sum::Clipping;

/// A gradient that is written as an update rule gets it.
#[derive(Clone, Copy, Debug)]
pub struct Treated<'a> {
    /// The gradient.
    pub gradient: Gradient<'a>,
    /// What is done to it first.
    pub clipping: Clipping,
    /// What times the weight is added to it then.
    pub l2: f64,
    /// As many elements as the gradient has, which are written as they are.
    pub weights: Address,
    /// Where the gradient is written, as the variable's type.
    pub to: Address,
    /// A 32-bit number that becomes 1 if an element of the gradient is not finite, and else stays as it
    /// is.
    pub not_finite: Option<Address>,
}

impl<Q: KernelQueue> KernelLauncher<Q> {
    /// Queues that gradients are written as rules get them. The bits are those of a
    /// [`UpdatePass`](crate::kernels::update::pass::UpdatePass).
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`].
    pub unsafe fn treat_gradients(&mut self, all: &[Treated<'_>]) -> Result<()> {
        all.iter().try_for_each(|treated| check_gradient(&treated.gradient))?;
        for dtype in [DType::Float32, DType::Float64] {
            let of_dtype = all.iter().filter(|treated| treated.gradient.dtype == dtype);
            let entries = of_dtype.map(|treated| {
                let mut entry = TableEntry::new(treated.gradient, treated.weights);
                entry.variable.slots[0] = treated.to;
                entry.variable.not_finite = treated.not_finite.unwrap_or(0);
                (entry.clipping, entry.l2) = (treated.clipping, treated.l2);
                entry
            });
            // SAFETY: the caller's promise.
            unsafe {
                match dtype {
                    DType::Float32 => self.queue_entries::<f32>("umbo_treated_f32", entries)?,
                    _ => self.queue_entries::<f64>("umbo_treated_f64", entries)?,
                }
            }
        }
        Ok(())
    }
}
