//! What the updates of an apply are made with.

#![expect(unsafe_code, reason = "updates are made where the caller vouches for the operands")]

use crate::kernels::instruction_set::Instructions;
use crate::kernels::update::pass::Pass;
use crate::kernels::update::weighted_sum::{Clipping, Contribution};
use crate::kernels::view::SpanMut;
use crate::optimizer::rule::UpdateRule;
use crate::optimizer::sources::Sources;
use crate::optimizer::variable_states::Variables;
use crate::optimizer::workspace::Update;

/// What is the same for all updates of an apply.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) variables: &'a Variables,
    pub(super) sources: &'a Sources<'a>,
    pub(super) rule: &'a dyn UpdateRule,
    pub(super) clipping: Clipping,
}

impl<'a> Means<'a> {
    /// Weights and slots of the variable that `update` is about: all of the former, the latter of this
    /// rank's part.
    pub(super) fn operands(&self, update: &Update) -> (&'a SpanMut<'a>, &'a [SpanMut<'a>]) {
        let slots = self.rule.slots().len();
        self.variables.operands(update.position, update.buffer, slots)
    }

    /// A pass of `update` over elements of the variable from `first` on, whose gradient was put together.
    ///
    /// # Safety
    /// As for [`Pass::new`].
    pub(super) unsafe fn pass<'p>(
        &self,
        update: &Update,
        weights: &'p SpanMut<'p>,
        slots: &'p [SpanMut<'p>],
        gradient: &'p [Contribution<'p>],
        first: usize,
    ) -> Pass<'p> {
        // SAFETY: the caller's promise is the same.
        let pass = unsafe { Pass::new(Instructions::chosen(), weights, slots, gradient, 1.0) };
        pass.clipped(self.clipping).with_l2(update.l2).from_element(first)
    }
}
