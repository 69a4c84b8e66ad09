//! What a trial of a callback needs of variables: to find what it has written in their copies.

#![expect(unsafe_code, reason = "copies are read when nobody writes them")]

use super::buffer::{VariableBuffer, copy_number};
use super::variable::Variable;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Variable {
    /// Shows `inspect` each copy of the committed value that counts as in step, with what it is to be if the
    /// value is `value`, which is in memory of the same device.
    ///
    /// # Safety
    /// Nobody writes the variable or its copies meanwhile.
    pub(crate) unsafe fn compare_copies<T>(
        &self,
        value: &Tensor,
        mut inspect: impl FnMut(&Tensor, &Tensor) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        // Rounded as the copies were, on the device where they were.
        let right = VariableBuffer::of(value.clone());
        for copy in self.buffer(self.committed_buffer()).copies_in_step() {
            let expected = match copy_number(value.dtype(), copy.dtype()) {
                _ if copy.dtype() == value.dtype() => value,
                Some(number) => right.bring_in_step(number)?,
                None => return Err(Error::Internal(format!("a copy in {}", copy.dtype()))),
            };
            if let Some(found) = inspect(copy, expected)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The copies of the committed value are out of step from now on: who next asks for one gets it made
    /// anew. Nobody reads them any more.
    pub(crate) fn outdate_copies(&self) {
        self.buffer(self.committed_buffer()).outdate_copies();
    }
}
