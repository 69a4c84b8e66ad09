//! Several variables of one strategy, read and written as one.

#![expect(unsafe_code, reason = "the strategy says who may use its variables")]

use super::reading::owner;
use super::writing::{assign, check_assignable, stage, writing_context};
use crate::context::{Current, current, step_place};
use crate::setup::central_storage::Strategy;
use crate::step::limits::Limits;
use umbo_base::error::Result;
use umbo_tensor::collectives::{self, Assignment};
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Tensor, TensorMut};

/// The dtype of variables, and the number of elements that they have together. `None` if there are
/// no variables.
///
/// INVALID_ARGUMENT: variables of several dtypes, or of several strategies.
pub fn flat_elements(variables: &[Variable]) -> Result<Option<(DType, usize)>> {
    let Some(first) = variables.first() else {
        return Ok(None);
    };
    let mut elements: usize = 0;
    for variable in variables {
        if variable.dtype() != first.dtype() {
            return Err(invalid!(
                "variables",
                "'{}' is {} and '{}' is {}; an array has elements of one dtype, so give those of \
                 each dtype apart",
                first.name(),
                first.dtype(),
                variable.name(),
                variable.dtype()
            ));
        }
        if variable.spec().strategy != first.spec().strategy {
            return Err(invalid!(
                "variables",
                "'{}' and '{}' were made by different strategies; give those of each apart",
                first.name(),
                variable.name()
            ));
        }
        elements = elements
            .checked_add(variable.shape().elements())
            .ok_or_else(|| invalid!("variables", "they have more elements than memory has"))?;
    }
    Ok(Some((first.dtype(), elements)))
}

/// Calls `copy` with the present value of each variable, as this thread sees it, and its index. All
/// values are those of the same moment: inside of a run or a merge call with what the step has
/// written so far, and elsewhere between two steps. The variables are of one strategy.
pub fn download_flat(
    variables: &[Variable],
    mut copy: impl FnMut(usize, &Tensor) -> Result<()>,
) -> Result<()> {
    let Some(owner) = variables.first().map(owner) else {
        return Ok(());
    };
    let in_step = match current() {
        Current::Replica(context) => context.strategy().is_same(&owner),
        _ => step_place(owner.id()).is_some(),
    };
    let _unchanging = (!in_step).then(|| owner.inner().steps.central.read());
    for (index, variable) in variables.iter().enumerate() {
        let value = match in_step {
            // SAFETY: a writer in a step waits for all of its replicas first, and so for this
            // thread.
            true => unsafe { variable.visible() },
            // SAFETY: committed values do not change while `_unchanging` lives.
            false => unsafe { variable.committed() },
        };
        copy(index, value)?;
    }
    Ok(())
}

/// Assigns to each of `variables`, which are of one strategy, the value at its index in `values`.
/// Nothing is assigned if a value does not fit. In replica context these are synchronising
/// operations, one after the other, as [`assign`] says. Elsewhere the values replace the old ones
/// between two steps, and readers see all of them or none.
pub fn upload_flat(variables: &[Variable], values: Vec<Tensor>) -> Result<()> {
    for (variable, value) in variables.iter().zip(&values) {
        check_assignable(variable, value)?;
    }
    let Some(first) = variables.first() else {
        return Ok(());
    };
    let pairs = variables.iter().zip(values);
    if writing_context(first)?.is_some() {
        for (variable, value) in pairs {
            assign(variable, Assignment::Assign, &Value::Tensor(value))?;
        }
        return Ok(());
    }
    replace_directly(&owner(first), pairs)
}

fn replace_directly<'a>(
    owner: &Strategy,
    mut pairs: impl Iterator<Item = (&'a Variable, Tensor)>,
) -> Result<()> {
    let copy = |value: &Tensor, to: &mut TensorMut<'_>| {
        collectives::combine_into(Assignment::Assign, to, value)
    };
    if let Some(step) = step_place(owner.id()) {
        return pairs.try_for_each(|(variable, value)| {
            let write = &mut |to: &mut TensorMut<'_>| copy(&value, to);
            stage(owner, step.number.id, variable, false, write)
        });
    }
    let _lock = owner.enter(&Limits::default())?;
    let _changing = owner.inner().steps.central.write();
    // SAFETY: the lock keeps out readers of central state, and the step lock keeps out writers. By
    // the contract of `current_copy`, no view is read during a write.
    pairs.try_for_each(|(variable, value)| copy(&value, &mut unsafe { variable.changing() }))
}
