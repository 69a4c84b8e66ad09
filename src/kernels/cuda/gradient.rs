//! Gradients that are made of what replicas contributed: written, or added to sums.

use crate::error::{Error, Result};
use crate::kernels::cuda::entries::TableEntry;
use crate::kernels::cuda::operands::Gradient;
use crate::kernels::cuda::queue::{Address, KernelLauncher, KernelQueue};
use crate::kernels::dtype::DType;
use crate::kernels::float::{gradient_element, real};

impl<Q: KernelQueue> KernelLauncher<Q> {
    /// Queues that gradients are written to the addresses beside them, as the variables' type.
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`].
    pub unsafe fn write_gradients(&mut self, all: &[(Gradient<'_>, Address)]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.queue_gradients(["umbo_gradient_f32", "umbo_gradient_f64"], all) }
    }

    /// Queues that the contributions of gradients are added to what they start from, and written, in
    /// float64, to the addresses beside them, which may be where they start. Divisors do not count.
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`].
    pub unsafe fn accumulate(&mut self, all: &[(Gradient<'_>, Address)]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.queue_gradients(["umbo_accumulate_f32", "umbo_accumulate_f64"], all) }
    }

    /// Queues the first kernel for gradients of float32 variables, and the second for those of float64.
    ///
    /// # Safety
    /// As for [`KernelLauncher::update`].
    unsafe fn queue_gradients(
        &mut self,
        [of_float32, of_float64]: [&'static str; 2],
        all: &[(Gradient<'_>, Address)],
    ) -> Result<()> {
        all.iter().try_for_each(|(gradient, _)| check_gradient(gradient))?;
        let entries = |dtype| {
            let of_dtype = all.iter().filter(move |(gradient, _)| gradient.dtype == dtype);
            of_dtype.map(|&(gradient, to)| TableEntry::new(gradient, to))
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.queue_entries::<f32>(of_float32, entries(DType::Float32))?;
            self.queue_entries::<f64>(of_float64, entries(DType::Float64))
        }
    }
}

pub(super) fn check_gradient(gradient: &Gradient<'_>) -> Result<()> {
    let Gradient { dtype, gradient_dtype, contributions, .. } = *gradient;
    if !real::is_supported(dtype) || !gradient_element::is_supported(dtype, gradient_dtype) {
        let problem = format!(
            "{gradient_dtype} for a variable of {dtype}; there are float32 and \
             float64 variables, whose gradients have their type or, for float32, one of 16 bits"
        );
        return Err(Error::invalid("gradient", problem));
    }
    if u32::try_from(contributions.len()).is_err() {
        return Err(Error::invalid("gradient", "more contributions than can be counted"));
    }
    Ok(())
}
