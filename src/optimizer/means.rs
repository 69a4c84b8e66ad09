//! What all updates of an apply share.

#![expect(unsafe_code, reason = "updates are made where the caller guarantees the operands")]

use crate::kernels::instruction_set::Instructions;
use crate::kernels::update::pass::UpdatePass;
use crate::kernels::update::weighted_sum::{Clipping, Contribution};
use crate::kernels::view::SpanMut;
use crate::optimizer::rule::UpdateRule;
use crate::optimizer::sources::GradientSources;
use crate::optimizer::variable_states::Variables;
use crate::optimizer::workspace::PreparedUpdate;

/// What all updates of an apply share: state, gradients, rule and clipping.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) variables: &'a Variables,
    pub(super) sources: &'a GradientSources<'a>,
    pub(super) rule: &'a dyn UpdateRule,
    pub(super) clipping: Clipping,
}

impl<'a> Means<'a> {
    /// Weights and slots of the variable of `update`: all weights, and the slots of this rank's part.
    pub(super) fn operands(&self, update: &PreparedUpdate) -> (&'a SpanMut<'a>, &'a [SpanMut<'a>]) {
        let slots = self.rule.slots().len();
        self.variables.operands(update.position, update.buffer, slots)
    }

    /// A pass of `update` over elements of the variable from `first` on, whose gradient is in one piece.
    ///
    /// # Safety
    /// As for [`UpdatePass::new`].
    pub(super) unsafe fn pass<'p>(
        &self,
        update: &PreparedUpdate,
        weights: &'p SpanMut<'p>,
        slots: &'p [SpanMut<'p>],
        gradient: &'p [Contribution<'p>],
        first: usize,
    ) -> UpdatePass<'p> {
        // SAFETY: the caller's promise is the same.
        let pass =
            unsafe { UpdatePass::new(Instructions::chosen(), weights, slots, gradient, 1.0) };
        pass.clipped(self.clipping).with_l2(update.l2).from_element(first)
    }
}
