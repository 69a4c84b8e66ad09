//! The inputs that all updates of an apply share.

use crate::apply::sources::GradientSources;
use crate::apply::workspace::PreparedUpdate;
use crate::rules::UpdateRule;
use crate::state::variable_states::Variables;
use umbo_kernels::update::eight_bit::EightBitStates;
use umbo_kernels::update::weighted_sum::Clipping;
use umbo_kernels::view::SpanMut;

/// The inputs that all updates of an apply share: state, gradients, rule and clipping.
#[derive(Clone, Copy)]
pub(crate) struct UpdateContext<'a> {
    pub(crate) variables: &'a Variables,
    pub(crate) sources: &'a GradientSources<'a>,
    pub(crate) rule: &'a dyn UpdateRule,
    pub(crate) clipping: Clipping,
}

impl<'a> UpdateContext<'a> {
    /// Weights and the rule's slots of the variable of `update`: all weights, and the slots of this
    /// rank's part.
    pub(crate) fn operands(&self, update: &PreparedUpdate) -> (&'a SpanMut<'a>, &'a [SpanMut<'a>]) {
        self.variables.operands(update.position, update.buffer)
    }

    /// The rule's slots of the variable of `update`, if they are codes.
    pub(crate) fn eight_bit(&self, update: &PreparedUpdate) -> Option<EightBitStates<'a>> {
        self.variables.eight_bit(update.position)
    }

    /// The average of the weights of the variable of `update` that this rank updates, and the
    /// weight of the new weights in it; `None` if the update does not move it.
    pub(crate) fn average(&self, update: &PreparedUpdate) -> Option<(&'a SpanMut<'a>, f64)> {
        Some((self.variables.average(update.position)?, update.newest?))
    }
}
