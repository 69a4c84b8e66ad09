//! The steps of a rule for whole matrices, which are made before the matrices are updated.
//!
//! A step takes the place of a slot behind those of the rule: the update itself is then one of each
//! element, as that of other rules is, whatever cuts the matrix into parts. The memory is reserved
//! when an apply is prepared, so that its commit cannot fail.

#![expect(unsafe_code, reason = "workers write parts of the steps side by side")]

use crate::apply::host::with_pass;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::{ApplyWorkspace, UpdateGroup};
use crate::exchange::buffers::{AlignedBytes, BLOCK, padded};
use crate::rules::{MatrixRule, UpdateRule};
use umbo_base::error::Result;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::matrix::orthogonal::Orthogonalization;
use umbo_kernels::view::SpanMut;
use umbo_tensor::values::variable::Variable;

/// The memory that steps are made in.
#[derive(Default)]
pub(crate) struct StepMemory {
    /// The steps of all matrices of an apply, or of this rank's parts of them.
    steps: AlignedBytes,
    /// One whole matrix, of which ranks have parts.
    pub(crate) whole: AlignedBytes,
    pub(crate) iteration: Orthogonalization,
}

/// Fails if `rule` is for matrices alone, and `variable` is none or has row-sparse gradients.
pub(crate) fn check_matrix(
    variable: &Variable,
    rule: &dyn UpdateRule,
    is_row_sparse: bool,
) -> Result<()> {
    if rule.matrices().is_none() {
        return Ok(());
    }
    let name = rule.name();
    let rank = variable.shape().len();
    if rank != 2 {
        return Err(invalid!(
            "gradients",
            "those of {variable:?} are of a variable of {rank} dimensions, and {name} updates \
             matrices, which have 2; nothing was changed. Put it into gradients of its own and \
             apply these by another rule, such as AdamW"
        ));
    }
    if is_row_sparse {
        return Err(invalid!(
            "gradients",
            "those of {variable:?} are row-sparse, and {name} needs whole matrices; nothing was \
             changed. Use another rule for it, or make its gradients without row_sparse"
        ));
    }
    Ok(())
}

/// The rows and columns of a variable that [`check_matrix`] has checked.
pub(crate) fn rows_and_columns(variable: &Variable) -> (usize, usize) {
    let shape = variable.shape();
    (shape[0], shape[1])
}

impl ApplyWorkspace {
    /// Reserves the steps of all matrices of a prepared update, and the memory in which they are
    /// made. Does nothing for rules without such steps.
    pub(crate) fn reserve_matrix_steps(&mut self, context: UpdateContext<'_>) -> Result<()> {
        if context.rule.matrices().is_none() {
            return Ok(());
        }
        let ApplyWorkspace { items, steps, .. } = self;
        let variables = context.sources.variables();
        let bytes = |item: &UpdateGroup| {
            let variable = &variables[item.index];
            item.own(variable).len() * variable.dtype().size()
        };
        let mut largest = 0;
        for variable in items.iter().map(|item| &variables[item.index]) {
            let (rows, columns) = rows_and_columns(variable);
            steps.iteration.reserve(rows, columns)?;
            if variable.sharding().is_some() {
                largest = largest.max(rows * columns * variable.dtype().size());
            }
        }
        steps.whole.resize(largest)?;
        steps
            .steps
            .resize(items.iter().map(|item| padded(bytes(item))).sum())?;
        let mut rest = steps.steps.bytes_mut();
        for item in items {
            let bytes = bytes(item);
            let (place, others) = rest.split_at_mut(padded(bytes));
            rest = others;
            let dtype = variables[item.index].dtype();
            let place = SpanMut::of_bytes(&mut place[..bytes], dtype);
            // SAFETY: the memory stays as it is until steps are reserved for the next apply, whose
            // items are others, and only the item uses it.
            item.step = Some(unsafe { place.held() });
        }
        Ok(())
    }

    /// Writes to the memory of each step the part of the matrix that it is made of, for those
    /// updates for which `chosen` returns true.
    pub(crate) fn look_ahead(
        &mut self,
        context: UpdateContext<'_>,
        matrices: &MatrixRule,
        chosen: impl Fn(&UpdateGroup) -> bool,
    ) {
        let ApplyWorkspace {
            items,
            pieces,
            contributions,
            ..
        } = self;
        pieces.clear();
        for item in &*items {
            let variable = &context.sources.variables()[item.index];
            let elements = match item.update.is_some() && chosen(item) {
                true => item.own(variable).len(),
                false => 0,
            };
            pieces.push(elements, BLOCK, 4 * variable.dtype().size());
        }
        let items = &*items;
        pieces.for_each_range(contributions.len(), &|range| {
            let contributions = &mut *contributions[range.worker()].lock();
            for (at, part) in range.parts() {
                with_pass(context, &items[at], contributions, false, |_, pass| {
                    pass.over(&part).look_ahead(&matrices.momentum);
                });
            }
        });
    }

    /// Makes the steps of the matrices that this process updates as a whole. Cannot fail: memory is
    /// reserved.
    pub(crate) fn make_matrix_steps(&mut self, context: UpdateContext<'_>) {
        let Some(matrices) = context.rule.matrices() else {
            return;
        };
        self.look_ahead(context, matrices, |item| !item.divided);
        for item in self.items.iter().filter(|item| !item.divided) {
            let (Some(step), Some(_)) = (&item.step, &item.update) else {
                continue;
            };
            let variable = &context.sources.variables()[item.index];
            // SAFETY: the steps belong to this apply, and no worker is at one now.
            unsafe { self.steps.iteration.make(matrices, variable, step) };
        }
    }
}

/// The making of one step.
pub(crate) trait MakeStep {
    /// Makes the step of `variable` of the matrix that lies in its place, `step`.
    ///
    /// # Safety
    /// Nobody else reads or writes the step during the call.
    unsafe fn make(&mut self, matrices: &MatrixRule, variable: &Variable, step: &SpanMut<'_>);
}

impl MakeStep for Orthogonalization {
    unsafe fn make(&mut self, matrices: &MatrixRule, variable: &Variable, step: &SpanMut<'_>) {
        let shape = rows_and_columns(variable);
        if step.elements() == 0 {
            return;
        }
        let factor = matrices.scale.factor(shape) as f32;
        let chosen = Instructions::chosen();
        // SAFETY: the caller's promise.
        unsafe { self.replace(chosen, &matrices.iteration, shape, factor, step) };
    }
}
