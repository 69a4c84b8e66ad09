//! What the gradients of one apply are made of.

use parking_lot::MutexGuard;

use crate::kernels::view::Span;
use crate::kernels::weighted_sum::{Contribution, WeightedSum};
use crate::optimizer::accumulation::Accumulation;
use crate::optimizer::contributions::Contributions;
use crate::optimizer::gradients::Gradients;
use crate::values::variable::Variable;

/// The contributions of the last run, the sums of those before it, and what makes gradients of
/// them.
pub(super) struct Sources<'a> {
    gradients: &'a Gradients,
    pub(super) contributions: Contributions<'a>,
    pub(super) accumulation: MutexGuard<'a, Accumulation>,
    /// Of this run and of those that are accumulated.
    pub(super) total_weight: f64,
    unscale: f64,
    pub(super) divisor: f64,
}

impl<'a> Sources<'a> {
    /// With the weight of all runs, and what undoes the loss scale.
    pub(super) fn new(
        gradients: &'a Gradients,
        contributions: Contributions<'a>,
        total_weight: f64,
        unscale: f64,
    ) -> Sources<'a> {
        let accumulation = gradients.accumulation();
        let divisor = gradients.loss_reduction().divisor(total_weight);
        Sources { gradients, contributions, accumulation, total_weight, unscale, divisor }
    }

    pub(super) fn variables(&self) -> &'a [Variable] {
        self.gradients.variables()
    }

    /// About how many bytes are read for one element of the gradient of variable `index`.
    pub(super) fn gradient_bytes(&self, index: usize) -> usize {
        let accumulated = self.accumulated(index).map_or(0, |_| size_of::<f64>());
        self.gradients.replicas() * self.variables()[index].dtype().size() + accumulated
    }

    /// Replaces `contributions`, which has room for one of every replica, by those of the last run
    /// to variable `index`.
    pub(super) fn collect(&self, index: usize, contributions: &mut Vec<Contribution>) {
        let reduction = self.gradients.loss_reduction();
        contributions.clear();
        for (weight, gradient) in self.contributions.of_variable(index) {
            let factor = reduction.factor(weight) * self.unscale;
            contributions.push(Contribution { gradient, factor });
        }
    }

    /// The gradient of variable `index` that `contributions`, collected for it, and the runs before
    /// make.
    pub(super) fn sum<'c>(
        &self,
        index: usize,
        contributions: &'c [Contribution],
    ) -> WeightedSum<'c> {
        let variable = &self.variables()[index];
        let elements = variable.shape().elements();
        WeightedSum::new(variable.dtype(), elements, contributions, self.divisor)
            .starting_from(self.accumulated(index))
    }

    /// The sum of the runs before the last one.
    pub(super) fn accumulated(&self, index: usize) -> Option<Span> {
        self.accumulation.of_variable(index)
    }
}
