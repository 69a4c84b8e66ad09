//! Averages of weights on a device: once the kernels of the update are done, a pass of their own
//! moves them. It has the bits of [`Average`](umbo_kernels::update::average::Average).

#![expect(unsafe_code, reason = "kernels get addresses")]

use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::PreparedUpdate;
use crate::rules::custom_kernels::address_of;
use umbo_base::error::Result;
use umbo_kernels::dtype::DType;
use umbo_kernels::launch::{
    Address, DeviceContribution, DevicePlace, DeviceUpdate, Gradient, KernelLauncher,
};
use umbo_kernels::layout::Layout;
use umbo_kernels::update::rules::{RuleKind, RuleStep};
use umbo_kernels::update::weighted_sum::Clipping;
use umbo_tensor::Shape;

/// The average of one variable's weights, and how far an update moves it.
pub(crate) struct DeviceAverage {
    dtype: DType,
    shape: Shape,
    weights: Address,
    average: Address,
    newest: f64,
    /// Average − weights, as the sum of two contributions.
    difference: [DeviceContribution; 2],
}

impl DeviceAverage {
    /// The average of variable `index`, if `update` moves it.
    pub(crate) fn new(
        context: UpdateContext<'_>,
        index: usize,
        update: &PreparedUpdate,
    ) -> Option<DeviceAverage> {
        let newest = update.newest?;
        let average = context.variables.average_address(update.position)?;
        let variable = &context.sources.variables()[index];
        let weights = address_of(variable, update.buffer);
        let contribution = |gradient, factor| DeviceContribution { gradient, factor };
        Some(DeviceAverage {
            dtype: variable.dtype(),
            shape: variable.shape(),
            weights,
            average,
            newest,
            difference: [contribution(average, 1.0), contribution(weights, -1.0)],
        })
    }

    fn place(&self, address: Address) -> DevicePlace {
        DevicePlace {
            address,
            dtype: self.dtype,
            layout: Layout::row_major(self.shape),
        }
    }

    /// The average is moved as gradient descent moves a weight.
    fn update(&self) -> DeviceUpdate<'_> {
        DeviceUpdate {
            gradient: Gradient {
                dtype: self.dtype,
                elements: self.shape.elements() as u64,
                gradient_dtype: self.dtype,
                contributions: &self.difference,
                accumulated: None,
                divisor: 1.0,
            },
            clipping: Clipping::NONE,
            l2: 0.0,
            step: Some(RuleStep::new(RuleKind::Sgd, [self.newest])),
            weights: self.average,
            slots: &[],
            rows: None,
            not_finite: None,
        }
    }
}

/// Queues the moves of `averages`, behind the kernels that write the weights.
///
/// # Safety
/// The apply has claimed the variables.
pub(crate) unsafe fn queue(
    launcher: &KernelLauncher<'_>,
    averages: &[DeviceAverage],
) -> Result<()> {
    let (fresh, moving): (Vec<_>, Vec<_>) =
        averages.iter().partition(|average| average.newest == 1.0);
    let copies: Vec<_> = fresh
        .iter()
        .map(|fresh| (fresh.place(fresh.weights), fresh.place(fresh.average)))
        .collect();
    let updates: Vec<_> = moving.iter().map(|moving| moving.update()).collect();
    // SAFETY: the caller's promise. Each element of an average is read and written by one thread.
    unsafe {
        launcher.copy(&copies)?;
        launcher.update(&updates)
    }
}
