//! What all updates of an apply share.

use crate::rule::UpdateRule;
use crate::sources::GradientSources;
use crate::variable_states::Variables;
use crate::workspace::PreparedUpdate;
use umbo_kernels::update::weighted_sum::Clipping;
use umbo_kernels::view::SpanMut;

/// What all updates of an apply share: state, gradients, rule and clipping.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) variables: &'a Variables,
    pub(super) sources: &'a GradientSources<'a>,
    pub(super) rule: &'a dyn UpdateRule,
    pub(super) clipping: Clipping,
}

impl<'a> Means<'a> {
    /// Weights and slots of the variable of `update`: all weights, and the slots of this rank's
    /// part.
    pub(super) fn operands(&self, update: &PreparedUpdate) -> (&'a SpanMut<'a>, &'a [SpanMut<'a>]) {
        let slots = self.rule.slots().len();
        self.variables
            .operands(update.position, update.buffer, slots)
    }
}
