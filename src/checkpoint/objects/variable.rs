//! Variables: the tensor of a variable's name is its value.

use crate::checkpoint::saveable::{Changes, Names, Prepared, Record, Saveable, Saved, Unfit};
use crate::device::DeviceId;
use crate::error::Result;
use crate::strategy::variables::read_into;
use crate::tensor::Tensor;
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
        record.whole(Tensor::made(dtype, shape, DeviceId::HOST, |to| read_into(self, to))?);
        Ok(())
    }

    fn prepare<'a>(
        &'a self,
        _names: &Names,
        saved: &mut Saved<'_>,
    ) -> Result<Box<dyn Prepared + 'a>> {
        Ok(match saved.tensor(None, self.dtype(), self.shape())? {
            Some(value) => Box::new(NewValue { variable: self, value }),
            None => Box::new(Unfit),
        })
    }
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
