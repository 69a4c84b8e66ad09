//! What the gradients of one apply are made of.

#![expect(unsafe_code, reason = "memory for views is used again")]

use crate::device::cuda::gpu::Gpu;
use crate::device::registry;
use crate::error::{Error, Result};
use crate::kernels::cuda;
use crate::kernels::dtype::DType;
use crate::kernels::update::weighted_sum::{Contribution, WeightedSum};
use crate::kernels::view::{Span, SpanMut};
use crate::optimizer::accumulation::{Accumulation, Memory};
use crate::optimizer::contributions::Contributions;
use crate::optimizer::exchange::sparse_rows::SparseRows;
use crate::optimizer::gradients::Gradients;
use crate::optimizer::host::Host;
use crate::optimizer::launcher::Launcher;
use crate::optimizer::plan::Plan;
use crate::optimizer::replica::Buffer;
use crate::optimizer::row_sums::{Merged, Source};
use crate::optimizer::rule::UpdateRule;
use crate::tensor::Tensor;
use crate::values::variable::Variable;
use parking_lot::MutexGuard;

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
    /// The gradients that were kept and the rows that were merged are those of all ranks, and there is
    /// nothing else.
    pub(super) exchanged: bool,
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
        Sources {
            gradients,
            contributions,
            accumulation,
            total_weight,
            unscale,
            divisor,
            exchanged: false,
        }
    }

    /// What works on the variables, where they are.
    pub(super) fn launcher(&self) -> Result<&'static dyn Launcher> {
        Ok(match self.gpu()? {
            Some(gpu) => gpu,
            None => &Host,
        })
    }

    /// The GPU that holds the variables, if one does.
    pub(super) fn gpu(&self) -> Result<Option<&'static Gpu>> {
        match self.variables().first().map(Variable::device) {
            Some(device) if !device.is_host_memory() => registry::gpu(device).map(Some),
            _ => Ok(None),
        }
    }

    /// Where the gradient of variable `index`, which is not row-sparse, and then its new weights are put by an
    /// exchange: if the ranks divide it, where the first replica's gradient lies, if that is as large and in
    /// host memory.
    pub(super) fn landing(
        &mut self,
        index: usize,
        divides: bool,
    ) -> Result<Option<SpanMut<'static>>> {
        let variable = &self.gradients.variables()[index];
        let buffer = self.gradients.replicas.first().map(|own| &own.buffers[index]);
        if let (true, Some(Buffer::Dense(dense))) = (divides, buffer)
            && self.gradients.dtype(index) == variable.dtype()
            && let Some(landing) = dense.landing()?
        {
            return Ok(Some(landing));
        }
        let elements = variable.shape().elements();
        self.accumulation.reserve_gradient(index, variable, elements)?;
        // SAFETY: what is kept of gradients lives as long as these, and is the apply's that has claimed them.
        let whole = |memory: &Memory| unsafe { memory.writing.part(&(0..elements)).held() };
        Ok(self.accumulation.gradient(index).map(whole))
    }

    /// What the replicas have contributed is about to be overwritten.
    pub(super) fn spend(&self) {
        self.gradients.spend();
    }

    /// The type of the replicas' gradients of a variable of type `dtype`.
    pub(super) fn gradient_dtype(&self, dtype: DType) -> DType {
        self.gradients.dtype_for(dtype)
    }

    /// What the last run contributed to variable `index`, which a GPU holds and which is not row-sparse:
    /// the gradient of all ranks, if they have exchanged it.
    pub(super) fn contributions_on_gpu(&self, index: usize) -> Vec<cuda::Contribution> {
        if self.exchanged {
            let gradient = self.accumulation.gradient_on_gpu(index);
            let contribution = |gradient: &Tensor| cuda::Contribution {
                gradient: gradient.place().address,
                factor: 1.0,
            };
            return gradient.map(contribution).into_iter().collect();
        }
        let contribution = |(weight, gradient): (f64, Tensor)| cuda::Contribution {
            gradient: gradient.place().address,
            factor: self.factor(weight),
        };
        self.contributions.at_home(index).map(contribution).collect()
    }

    pub(super) fn variables(&self) -> &'a [Variable] {
        self.gradients.variables()
    }

    /// The number by which users know the step of the contributions.
    pub(super) fn shown_step(&self) -> u64 {
        self.gradients.shown(self.contributions.step)
    }

    /// Merges the rows of the last run into the gradients of row-sparse variables that may be
    /// updated by `rule`.
    pub(super) fn merge_rows(&mut self, plan: &mut Plan, rule: &dyn UpdateRule) -> Result<()> {
        let (reduction, unscale) = (self.gradients.loss_reduction(), self.unscale);
        let factor = |weight| reduction.factor(weight) * unscale;
        let mut number = 0;
        while let Some(index) = self.accumulation.row_sparse(number) {
            let (variable, frozen) =
                (&self.variables()[index], plan.of_variable(index).group.frozen);
            let rows = self.contributions.rows_of(index, factor).filter(move |_| !frozen);
            self.accumulation.merge_rows(index, variable, rows, true)?;
            // Also those of earlier runs, which another optimizer may have accumulated.
            if rule.measures() && !frozen && self.accumulation.rows(index).is_some() {
                return Err(needs_all_rows(variable, rule));
            }
            number += 1;
        }
        Ok(())
    }

    /// Makes the gradients of row-sparse variables of the rows that all ranks have touched: in the last
    /// run, to which what was accumulated comes `with_before`, or else in all.
    pub(super) fn merge_touched(
        &mut self,
        plan: &mut Plan,
        rule: &dyn UpdateRule,
        touched: &SparseRows,
        with_before: bool,
    ) -> Result<()> {
        let mut number = 0;
        while let Some(index) = self.accumulation.row_sparse(number) {
            let (variable, frozen) =
                (&self.variables()[index], plan.of_variable(index).group.frozen);
            self.merge_touched_of(index, touched, with_before)?;
            if rule.measures() && !frozen && self.accumulation.rows(index).is_some() {
                return Err(needs_all_rows(variable, rule));
            }
            number += 1;
        }
        Ok(())
    }

    /// The same of variable `index` alone, if it is row-sparse.
    pub(super) fn merge_touched_of(
        &mut self,
        index: usize,
        touched: &SparseRows,
        with_before: bool,
    ) -> Result<()> {
        let variable = &self.gradients.variables()[index];
        let rows = touched.of_variable(index);
        self.accumulation.merge_rows(index, variable, rows, with_before)
    }

    /// Takes `total_weight` for the weight of all runs.
    pub(super) fn weigh(&mut self, total_weight: f64) {
        self.total_weight = total_weight;
        self.divisor = self.gradients.loss_reduction().divisor(total_weight);
    }

    /// The factor of what a replica of this weight contributes.
    pub(super) fn factor(&self, weight: f64) -> f64 {
        self.gradients.loss_reduction().factor(weight) * self.unscale
    }

    /// Whether variable `index` is row-sparse.
    pub(super) fn is_row_sparse(&self, index: usize) -> bool {
        self.accumulation.is_row_sparse(index)
    }

    /// The rows that this process's replicas contribute to variable `index`.
    pub(super) fn own_rows(&self, index: usize) -> impl Iterator<Item = Source<'_>> + Clone {
        let (reduction, unscale) = (self.gradients.loss_reduction(), self.unscale);
        self.contributions.rows_of(index, move |weight| reduction.factor(weight) * unscale)
    }

    /// The gradient of variable `index`, which is not row-sparse, if all ranks have exchanged it.
    fn of_all_ranks(&self, index: usize) -> Option<Span<'_>> {
        let gradient = self.accumulation.gradient(index).filter(|_| self.exchanged);
        gradient.map(|gradient| gradient.reading)
    }

    /// Merges the rows of the last run into the gradient of variable `index`, if it is row-sparse.
    pub(super) fn merge_rows_of(&mut self, index: usize) -> Result<()> {
        let (reduction, unscale) = (self.gradients.loss_reduction(), self.unscale);
        let rows = self.contributions.rows_of(index, |weight| reduction.factor(weight) * unscale);
        self.accumulation.merge_rows(index, &self.gradients.variables()[index], rows, true)
    }

    /// Whether a replica of non-zero weight wrote variable `index` in one of the runs.
    pub(super) fn has_variable(&self, index: usize) -> bool {
        self.contributions.has_variable(index) || self.accumulation.has_variable(index)
    }

    /// The merged rows of variable `index`, if it is row-sparse.
    pub(super) fn rows(&self, index: usize) -> Option<&Merged> {
        self.accumulation.rows(index)
    }

    /// How many elements the gradient of variable `index` has.
    pub(super) fn elements(&self, index: usize) -> usize {
        let all = || self.variables()[index].shape().elements();
        self.rows(index).map_or_else(all, |rows| rows.sums().elements())
    }

    /// About how many bytes are read for one element of the gradient of variable `index`, which is
    /// of type `dtype`.
    pub(super) fn gradient_bytes(&self, index: usize, dtype: DType) -> usize {
        if self.rows(index).is_some() {
            return size_of::<f64>();
        }
        if self.exchanged {
            return dtype.size();
        }
        let accumulated = self.accumulated(index).map_or(0, |_| size_of::<f64>());
        self.gradients.replicas() * self.gradients.dtype_for(dtype).size() + accumulated
    }

    /// Replaces `contributions`, which has room for one of every replica, by those of the last run
    /// to variable `index`.
    pub(super) fn collect(&self, index: usize, contributions: &mut Vec<Contribution<'static>>) {
        let Some(gradient) = self.of_all_ranks(index) else {
            return self.collect_own(index, contributions);
        };
        contributions.clear();
        // SAFETY: as below.
        contributions.push(Contribution { gradient: unsafe { gradient.held() }, factor: 1.0 });
    }

    /// The same, of this process's replicas.
    pub(super) fn collect_own(&self, index: usize, contributions: &mut Vec<Contribution<'static>>) {
        let reduction = self.gradients.loss_reduction();
        contributions.clear();
        for (weight, gradient) in self.contributions.of_variable(index) {
            let factor = reduction.factor(weight) * self.unscale;
            // SAFETY: the contributions are used while the gradients, which are borrowed here, are,
            // and replaced before they are used again.
            let gradient = unsafe { gradient.held() };
            contributions.push(Contribution { gradient, factor });
        }
    }

    /// The gradient of variable `index` that `contributions`, collected for it, and the runs before
    /// make.
    pub(super) fn sum<'c>(
        &'c self,
        index: usize,
        contributions: &'c [Contribution<'c>],
    ) -> WeightedSum<'c> {
        let variable = &self.variables()[index];
        if let Some(rows) = self.rows(index) {
            return rows.gradient(variable.dtype(), self.divisor);
        }
        let elements = variable.shape().elements();
        if self.exchanged {
            return WeightedSum::new(variable.dtype(), elements, contributions, 1.0);
        }
        WeightedSum::new(variable.dtype(), elements, contributions, self.divisor)
            .starting_from(self.accumulated(index))
    }

    /// The sum of the runs before the last one.
    pub(super) fn accumulated(&self, index: usize) -> Option<Span<'_>> {
        self.accumulation.of_variable(index)
    }
}

fn needs_all_rows(variable: &Variable, rule: &dyn UpdateRule) -> Error {
    Error::invalid(
        "gradients",
        format!(
            "those of {variable:?} are row-sparse, and {} needs norms of whole variables; nothing was \
             changed. Use another rule for it, or make its gradients without row_sparse",
            rule.name()
        ),
    )
}
