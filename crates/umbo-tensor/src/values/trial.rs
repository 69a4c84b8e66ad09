//! How a trial of a callback finds what the callback has written to copies of variables.

#![expect(unsafe_code, reason = "copies are read when nobody writes them")]

use super::buffer::VariableBuffer;
use super::copies::memory_of;
use super::variable::Variable;
use crate::Tensor;
use umbo_base::error::Result;

impl Variable {
    /// Calls `inspect` with each copy of the committed value that is marked as up to date, and with
    /// the expected copy, which is computed from `value`. `value` is in memory of the same
    /// device.
    ///
    /// # Safety
    /// Nobody writes the variable or its copies meanwhile.
    pub unsafe fn compare_copies<T>(
        &self,
        value: &Tensor,
        mut inspect: impl FnMut(&Tensor, &Tensor) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        // The expected copies are rounded in the same way and on the same device as the copies.
        let right = VariableBuffer::of(value.clone());
        let memory = memory_of(value.device());
        for copy in self.buffer(self.committed_buffer()).copies.current() {
            let expected = right.refreshed_copy(memory, copy.tensor.dtype())?;
            if let Some(found) = inspect(&copy.tensor, expected)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Marks the copies of the committed value as out of date: the next request makes a copy anew.
    /// Nobody reads the old copies any more.
    pub fn outdate_copies(&self) {
        self.buffer(self.committed_buffer()).copies.outdate();
    }
}
