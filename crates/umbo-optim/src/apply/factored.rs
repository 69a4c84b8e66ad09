//! The updates of a rule whose second moments are factored. In host memory: what is measured before
//! a variable is updated, and the memory for it, which is reserved when an apply is prepared. On a
//! device: the operands of the kernels.

#![expect(unsafe_code, reason = "moments are written under the optimizer's lock")]

use crate::apply::host::with_pass;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::{PreparedUpdate, UpdateGroup};
use crate::exchange::buffers::AlignedBytes;
use crate::rules::custom_kernels::address_of;
use umbo_base::error::Result;
use umbo_kernels::dtype::DType;
use umbo_kernels::launch::{Address, DeviceFactoredUpdate, DeviceMoments, Gradient};
use umbo_kernels::update::factored::{FactoredStep, Moments};
use umbo_kernels::update::pass::UpdatePass;
use umbo_kernels::update::weighted_sum::Contribution;
use umbo_kernels::view::SpanMut;
use umbo_tensor::values::variable::Variable;

/// The memory that the updates of an apply are measured in.
#[derive(Default)]
pub(crate) struct FactoredMemory {
    /// The sums of the variable that is being measured.
    sums: AlignedBytes,
    /// The means of all variables, one after the other.
    means: AlignedBytes,
}

/// A variable's update, once it is measured.
pub(crate) struct MeasuredUpdate {
    step: FactoredStep,
    means: SpanMut<'static>,
}

impl FactoredMemory {
    /// Reserves the memory for the prepared updates of `items`. Does nothing for rules whose
    /// moments are not factored.
    pub(crate) fn reserve(
        &mut self,
        items: &[UpdateGroup],
        context: UpdateContext<'_>,
    ) -> Result<()> {
        if context.rule.factors().is_none() {
            return Ok(());
        }
        let mut most = 0;
        let mut all = 0;
        for item in items {
            let [sums, means] = Moments::numbers(&context.sources.variables()[item.index].shape());
            most = most.max(sums);
            all += means;
        }
        self.sums.resize(most * DType::Float64.size())?;
        self.means.resize(all * DType::Float64.size())
    }

    /// Moves the moments of the variables of `items`, and measures their steps. Cannot fail: memory
    /// is reserved.
    pub(crate) fn measure(
        &mut self,
        items: &mut [UpdateGroup],
        context: UpdateContext<'_>,
        contributions: &mut Vec<Contribution<'static>>,
    ) {
        let Some(rule) = context.rule.factors() else {
            return;
        };
        let sums = SpanMut::of_bytes(self.sums.bytes_mut(), DType::Float64);
        let mut rest = self.means.bytes_mut();
        for item in items {
            let shape = context.sources.variables()[item.index].shape();
            let [_, count] = Moments::numbers(&shape);
            let (means, others) = rest.split_at_mut(count * DType::Float64.size());
            rest = others;
            let means = SpanMut::of_bytes(means, DType::Float64);
            let measured = with_pass(context, item, contributions, false, |update, pass| {
                let scalars = rule.scalars(&update.scalars);
                let moments = context.moments(update, &shape);
                // SAFETY: this apply has claimed the variable and its state, and the memory is this
                // function's.
                unsafe { pass.move_moments(&scalars, &moments, &sums, &means) }
            });
            item.measured = measured.map(|step| MeasuredUpdate {
                step,
                // SAFETY: the memory stays as it is until it is reserved for the next apply, whose
                // items are others.
                means: unsafe { means.held() },
            });
        }
    }
}

impl MeasuredUpdate {
    /// Updates the weights of the pass.
    pub(crate) fn run(
        &self,
        context: UpdateContext<'_>,
        update: &PreparedUpdate,
        variable: &Variable,
        pass: &UpdatePass<'_>,
    ) {
        if context.rule.factors().is_none() {
            return;
        }
        let moments = context.moments(update, &variable.shape());
        // SAFETY: this apply has claimed the variable and its state, which nobody writes now.
        unsafe { self.step.run(pass, &moments, &self.means) };
    }
}

impl<'a> UpdateContext<'a> {
    /// The moments of a variable of this shape.
    fn moments(&self, update: &PreparedUpdate, shape: &[usize]) -> Moments<'a> {
        match (self.variables.factors(update.position), shape) {
            (Some([rows, columns]), &[.., row_count, column_count]) => Moments::Factored {
                rows,
                columns,
                sizes: [row_count, column_count],
            },
            _ => Moments::Full,
        }
    }

    /// The moments of the variable of `update`, of this shape, which a device holds.
    fn device_moments(&self, update: &PreparedUpdate, shape: &[usize]) -> Option<DeviceMoments> {
        let factors = self.variables.factor_addresses(update.position);
        Some(match (factors, shape) {
            (Some([rows, columns]), &[.., row_count, column_count]) => DeviceMoments::Factored {
                rows,
                columns,
                sizes: [row_count, column_count].map(|size| size as u64),
            },
            _ => DeviceMoments::Full(self.variables.slot_addresses(update.position).next()?),
        })
    }

    /// The update of variable `index` on a device, by `gradient`, if the rule's moments are
    /// factored.
    pub(crate) fn factored_on_device<'g>(
        &self,
        index: usize,
        update: &PreparedUpdate,
        gradient: Gradient<'g>,
        not_finite: Address,
    ) -> Option<DeviceFactoredUpdate<'g>> {
        let variable = &self.sources.variables()[index];
        Some(DeviceFactoredUpdate {
            gradient,
            clipping: self.clipping,
            scalars: self.rule.factors()?.scalars(&update.scalars),
            weights: address_of(variable, update.buffer),
            moments: self.device_moments(update, &variable.shape())?,
            not_finite: Some(not_finite),
        })
    }
}
