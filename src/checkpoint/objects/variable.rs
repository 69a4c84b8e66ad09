//! Variables: the tensor of a variable's name is its value.

use half::{bf16, f16};

use crate::checkpoint::saveable::{Changes, Names, Prepared, Record, Saveable, Saved};
use crate::device::DeviceId;
use crate::error::Result;
use crate::strategy::variables::read_into;
use crate::tensor::{DType, Tensor};
use crate::values::variable::Variable;

impl Saveable for Variable {
    fn kind(&self) -> &'static str {
        "variable"
    }

    fn strategy(&self) -> Option<u64> {
        Some(self.spec().strategy)
    }

    fn variables(&self) -> Vec<Variable> {
        vec![self.clone()]
    }

    fn save(&self, _names: &Names, record: &mut Record) -> Result<()> {
        let (dtype, shape) = (self.dtype(), self.shape());
        let value = Tensor::made(dtype, shape, DeviceId::HOST, |to| read_into(self, to))?;
        record.doubt = first_nan(&value)?.map(|element| {
            format!(
                "{self:?} is saved with a NaN in it, element {element}: what is trained on from there stays \
                 so. Restore an earlier checkpoint, and look for the step in which a gradient or an \
                 assignment was not finite"
            )
        });
        record.whole(value);
        Ok(())
    }

    fn prepare<'a>(
        &'a self,
        _names: &Names,
        saved: &mut Saved<'_>,
    ) -> Result<Option<Box<dyn Prepared + 'a>>> {
        let value = saved.tensor(None, self.dtype(), self.shape())?;
        Ok(value.map(|value| Box::new(NewValue { variable: self, value }) as _))
    }
}

/// Which element is the first that is NaN.
fn first_nan(tensor: &Tensor) -> Result<Option<usize>> {
    let view = tensor.reading()?;
    Ok(match tensor.dtype() {
        DType::Float64 => view.as_slice().and_then(|all| all.iter().position(|x: &f64| x.is_nan())),
        DType::Float32 => view.as_slice().and_then(|all| all.iter().position(|x: &f32| x.is_nan())),
        DType::Float16 => view.as_slice().and_then(|all| all.iter().position(|x: &f16| x.is_nan())),
        DType::BFloat16 => {
            view.as_slice().and_then(|all| all.iter().position(|x: &bf16| x.is_nan()))
        }
        _ => None,
    })
}

struct NewValue<'a> {
    variable: &'a Variable,
    value: Tensor,
}

impl Prepared for NewValue<'_> {
    fn commit(self: Box<Self>, changes: &Changes<'_>) -> Result<()> {
        changes.replace(self.variable, &self.value)
    }
}
