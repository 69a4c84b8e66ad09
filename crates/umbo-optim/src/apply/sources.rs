//! The operands of the gradients of one apply.

#![expect(unsafe_code, reason = "memory for views is used again")]

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::gradients::Gradients;
use crate::gradients::accumulation::Accumulation;
use crate::gradients::contributions::Contributions;
use crate::gradients::replica::{DenseBuffer, GradientBuffer};
use crate::gradients::row_sums::{Merged, RowSource, Summing};
use parking_lot::MutexGuard;
use umbo_base::error::{Error, Result};
use umbo_kernels::dtype::DType;
use umbo_kernels::float::real;
use umbo_kernels::launch;
use umbo_kernels::update::pass::RowGradients;
use umbo_kernels::update::weighted_sum::{Contribution, WeightedSum};
use umbo_kernels::view::Span;
use umbo_tensor::Tensor;
use umbo_tensor::values::variable::Variable;

/// The contributions of the last run, the sums of the earlier runs, and the factors that turn them
/// into gradients.
pub(crate) struct GradientSources<'a> {
    gradients: &'a Gradients,
    pub(crate) contributions: Contributions<'a>,
    pub(crate) accumulation: MutexGuard<'a, Accumulation>,
    /// The weight of this run and of the accumulated runs.
    pub(crate) total_weight: f64,
    /// The factor that undoes the loss scale.
    pub(crate) unscale: f64,
    pub(crate) divisor: f64,
    /// The kept gradients and the merged rows are those of all ranks, and there are no other
    /// operands.
    pub(crate) exchanged: bool,
}

impl<'a> GradientSources<'a> {
    /// The divisor: from the weight of all runs and the loss scale.
    pub(crate) fn new(
        gradients: &'a Gradients,
        contributions: Contributions<'a>,
        total_weight: f64,
        unscale: f64,
    ) -> GradientSources<'a> {
        let accumulation = gradients.accumulation();
        Self::with_accumulation(
            gradients,
            accumulation,
            contributions,
            total_weight,
            unscale,
        )
    }

    /// As [`GradientSources::new`], with the accumulation that the caller has locked.
    pub(crate) fn with_accumulation(
        gradients: &'a Gradients,
        accumulation: MutexGuard<'a, Accumulation>,
        contributions: Contributions<'a>,
        total_weight: f64,
        unscale: f64,
    ) -> GradientSources<'a> {
        let divisor = gradients.loss_reduction().divisor(total_weight);
        GradientSources {
            gradients,
            contributions,
            accumulation,
            total_weight,
            unscale,
            divisor,
            exchanged: false,
        }
    }

    /// The memory to which an exchange writes the gradient of variable `index`, which is not
    /// row-sparse, and later its new weights. If the variable is sharded, that is the first
    /// replica's gradient, if it is as large and in host memory.
    pub(crate) fn receive_buffer(&mut self, index: usize, divides: bool) -> Result<Tensor> {
        let variable = &self.gradients.variables()[index];
        let buffer = self
            .gradients
            .replicas
            .first()
            .map(|replica| &replica.buffers[index]);
        if let (true, Some(GradientBuffer::Dense(dense))) = (divides, buffer)
            && self.gradients.dtype(index) == real::computing(variable.dtype())
            && let Some(receive_buffer) = dense.receive_buffer()
        {
            return Ok(receive_buffer.clone());
        }
        self.accumulation.reserve_gradient(index, variable)?;
        let none = || Error::Internal(format!("{variable:?} has no room for its gradient"));
        self.accumulation.gradient(index).cloned().ok_or_else(none)
    }

    /// Notes that the replicas' contributions are about to be overwritten.
    pub(crate) fn consume(&self) {
        self.gradients.consume();
    }

    /// The type of the replicas' gradients of a variable of type `dtype`.
    pub(crate) fn gradient_dtype(&self, dtype: DType) -> DType {
        self.gradients.dtype_for(dtype)
    }

    /// The last run's contributions to variable `index`, which is on a device and not row-sparse;
    /// the gradient of all ranks, if they have exchanged it.
    pub(crate) fn contributions_on_device(&self, index: usize) -> Vec<launch::DeviceContribution> {
        if let Some(gradient) = self.of_all_ranks(index) {
            return vec![launch::DeviceContribution {
                gradient: gradient.place().address,
                factor: 1.0,
            }];
        }
        let step = self.contributions.step;
        let contribution = |(weight, dense): (f64, &DenseBuffer)| launch::DeviceContribution {
            gradient: dense.home(step).place().address,
            factor: self.factor(weight),
        };
        self.contributions.dense(index).map(contribution).collect()
    }

    pub(crate) fn variables(&self) -> &'a [Variable] {
        self.gradients.variables()
    }

    /// How many replicas contribute.
    pub(crate) fn replicas(&self) -> usize {
        self.gradients.replicas()
    }

    /// The step number that users see, of the contributions' step.
    pub(crate) fn shown_step(&self) -> u64 {
        self.gradients.step.shown(self.contributions.step)
    }

    /// Merges the rows of the last run into the gradients of those row-sparse variables that are
    /// `chosen`.
    pub(crate) fn merge_own_rows(
        &mut self,
        chosen: &dyn Fn(usize) -> bool,
        summing: Summing,
    ) -> Result<()> {
        let contributions = self.contributions;
        let factor = self.factors();
        let rows = |index| {
            contributions
                .rows_of(index, factor)
                .filter(move |_| chosen(index))
        };
        let variables = self.gradients.variables();
        // SAFETY: replicas write these rows again in the next step of the gradients, which begins
        // when the apply that has claimed them is done or dropped.
        unsafe { self.accumulation.merge_rows(variables, true, rows, summing) }
    }

    /// Merges `rows` of row-sparse variables, and nothing else; see [`Accumulation::merge_rows`].
    pub(crate) fn merge_rows<'r, R>(&mut self, rows: impl Fn(usize) -> R) -> Result<()>
    where
        R: Iterator<Item = RowSource<'r>> + Clone,
    {
        let variables = self.gradients.variables();
        let summing = Summing::AtOnce;
        // SAFETY: the rows are added up at once.
        unsafe {
            self.accumulation
                .merge_rows(variables, false, rows, summing)
        }
    }

    /// Sets the weight of all runs to `total_weight`.
    pub(crate) fn weigh(&mut self, total_weight: f64) {
        self.total_weight = total_weight;
        self.divisor = self.gradients.loss_reduction().divisor(total_weight);
    }

    /// The function from a replica's weight to the factor of its contribution.
    fn factors(&self) -> impl Fn(f64) -> f64 + Copy + use<> {
        let reduction = self.gradients.loss_reduction();
        let unscale = self.unscale;
        move |weight| reduction.factor(weight) * unscale
    }

    /// The factor for this weight.
    pub(crate) fn factor(&self, weight: f64) -> f64 {
        self.factors()(weight)
    }

    /// Whether a replica of this process has contributed to variable `index`, in the last run or in
    /// an accumulated one.
    pub(crate) fn has_variable(&self, index: usize) -> bool {
        self.contributions.has_variable(index) || self.accumulation.has_before(index)
    }

    /// Whether variable `index` is row-sparse.
    pub(crate) fn is_row_sparse(&self, index: usize) -> bool {
        self.accumulation.is_row_sparse(index)
    }

    /// The rows that this process's replicas contribute to variable `index`.
    pub(crate) fn own_rows(&self, index: usize) -> impl Iterator<Item = RowSource<'_>> + Clone {
        self.contributions.rows_of(index, self.factors())
    }

    /// The gradient of variable `index`, which is not row-sparse, if all ranks have exchanged it.
    fn of_all_ranks(&self, index: usize) -> Option<&Tensor> {
        self.accumulation.gradient(index).filter(|_| self.exchanged)
    }

    /// Whether these variables, each of whose gradients [follows](Gradients::follows) that of the
    /// one before, have operands of the same replicas, and no others.
    pub(crate) fn are_alike(&self, variables: &Range<usize>) -> bool {
        self.accumulation.runs == 0
            && !self.gradients.lends.load(Ordering::Acquire)
            && self.contributions.are_alike(variables)
    }

    /// The merged rows of variable `index`, if it is row-sparse.
    pub(crate) fn rows(&self, index: usize) -> Option<&Merged> {
        self.accumulation.rows(index)
    }

    /// The operands of the gradients of these rows.
    pub(crate) fn row_gradients(&self, index: usize) -> Option<RowGradients<'_>> {
        self.accumulation.row_gradients(index)
    }

    /// The host memory that is reserved for the gradient of variable `index`, where it is kept or
    /// exchanged.
    pub(crate) fn kept(&self, index: usize) -> Option<Span<'static>> {
        // SAFETY: the memory lives as long as the gradients, and belongs to the apply that has
        // claimed them.
        self.accumulation
            .gradient(index)?
            .span()
            .ok()
            .map(|gradient| unsafe { gradient.held() })
    }

    /// The number of elements the gradient of variable `index` has.
    pub(crate) fn elements(&self, index: usize) -> usize {
        let all = || self.variables()[index].shape().elements();
        self.rows(index).map_or_else(all, Merged::elements)
    }

    /// About how many bytes are read for one element of the gradient of variable `index`, which is
    /// itself of type `dtype`.
    pub(crate) fn gradient_bytes(&self, index: usize, dtype: DType) -> usize {
        if self.rows(index).is_some() {
            return size_of::<f64>();
        }
        if self.exchanged {
            return real::computing(dtype).size();
        }
        let accumulated = self.accumulated(index).map_or(0, |_| size_of::<f64>());
        self.gradients.replicas() * self.gradients.dtype_for(dtype).size() + accumulated
    }

    /// Replaces `contributions`, whose capacity is one for each replica, by those of the last run
    /// to variable `index`.
    pub(crate) fn collect(&self, index: usize, contributions: &mut Vec<Contribution<'static>>) {
        let Some(Ok(gradient)) = self.of_all_ranks(index).map(Tensor::span) else {
            return self.collect_own(index, contributions);
        };
        contributions.clear();
        // SAFETY: the sum over all ranks stays in its tensor until the update of this step has
        // read it, and the list is cleared before it is used again.
        let gradient = unsafe { gradient.held() };
        contributions.push(Contribution {
            gradient,
            factor: 1.0,
        });
    }

    /// The same, of this process's replicas.
    pub(crate) fn collect_own(&self, index: usize, contributions: &mut Vec<Contribution<'static>>) {
        contributions.clear();
        for (weight, dense) in self.contributions.dense(index) {
            let Some(gradient) = dense.span(self.contributions.step) else {
                continue;
            };
            let factor = self.factor(weight);
            // SAFETY: the contributions are used while the gradients, which are borrowed here, are,
            // and replaced before they are used again.
            let gradient = unsafe { gradient.held() };
            contributions.push(Contribution { gradient, factor });
        }
    }

    /// The gradient of variable `index`, or of `count` variables that are updated as one: the sum
    /// of `contributions`, which were collected for it, and of the earlier runs.
    pub(crate) fn sum<'c>(
        &'c self,
        index: usize,
        count: usize,
        contributions: &'c [Contribution<'c>],
    ) -> WeightedSum<'c> {
        let variable = &self.variables()[index];
        if let Some(rows) = self.rows(index) {
            return rows.gradient(variable.dtype(), self.divisor);
        }
        let elements = count * variable.shape().elements();
        let dtype = real::computing(variable.dtype());
        if self.exchanged {
            return WeightedSum::new(dtype, elements, contributions, 1.0);
        }
        WeightedSum::new(dtype, elements, contributions, self.divisor)
            .starting_from(self.accumulated(index))
    }

    /// The sum of the runs before the last one, in host memory.
    pub(crate) fn accumulated(&self, index: usize) -> Option<Span<'_>> {
        self.accumulation.of_variable(index)?.span().ok()
    }
}
