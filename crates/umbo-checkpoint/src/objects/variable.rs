//! Variables: the tensor of a variable's name is its value.

#![expect(
    unsafe_code,
    reason = "state is recorded as it is while nobody changes it"
)]

use crate::saveable::{Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable};
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_kernels::dtype::for_float;
use umbo_strategy::variables::read_into;
use umbo_tensor::Tensor;
use umbo_tensor::values::variable::Variable;

/// The kind of a variable.
pub(crate) const KIND: &str = "variable";

impl Saveable for Variable {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn strategy(&self) -> Option<u64> {
        Some(self.spec().strategy)
    }

    fn variables(&self) -> Vec<Variable> {
        vec![self.clone()]
    }

    fn save(&self, _names: &Names<'_>, record: &mut ObjectRecord) -> Result<()> {
        self.check_not_replaced()?;
        let value = value_of(self, record)?;
        record.warning = first_nan(&value)?.map(|element| {
            format!(
                "{self:?} is saved with a NaN in it, element {element}: what is trained on from \
                 there stays so. Restore an earlier checkpoint, and look for the step in which a \
                 gradient or an assignment was not finite"
            )
        });
        record.whole(value);
        Ok(())
    }

    fn prepare<'a>(&'a self, _names: &Names<'_>, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        self.check_not_replaced()?;
        let value = saved.later(None, self.dtype(), self.shape())?;
        Ok(value.map(|value| {
            PreparedRestore::by(move |changes| {
                changes.replace(self, changes.value(value)?);
                Ok(())
            })
        }))
    }
}

/// The value to save in `record`, contiguous and in host memory.
pub(crate) fn value_of(variable: &Variable, record: &ObjectRecord) -> Result<Tensor> {
    if record.shares(variable.spec().strategy) {
        // SAFETY: only steps of its strategy, and code that takes their lock, write it.
        return unsafe { variable.committed() }.on_host()?.to_contiguous();
    }
    let dtype = variable.dtype();
    let shape = variable.shape();
    Tensor::made(dtype, shape, DeviceId::HOST, |to| read_into(variable, to))
}

/// The index of the first element that is NaN.
fn first_nan(tensor: &Tensor) -> Result<Option<usize>> {
    let view = tensor.reading()?;
    Ok(for_float!(
        tensor.dtype(), T => view.as_slice().and_then(|all| first_of(all, T::is_nan)), else None
    ))
}

/// The index of the first element for which `is_so` holds. A run of elements is checked as a whole,
/// so that the compiler makes a loop over vectors.
fn first_of<T: Copy>(all: &[T], is_so: impl Fn(T) -> bool) -> Option<usize> {
    const RUN: usize = 1024;
    let any = |run: &[T]| run.iter().fold(false, |any, &element| any | is_so(element));
    let start = RUN * all.chunks(RUN).position(any)?;
    all[start..]
        .iter()
        .position(|&element| is_so(element))
        .map(|index| start + index)
}
