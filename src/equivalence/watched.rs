//! Variables that a callback writes through views of them.
//!
//! A view is for reading. What is written through one is in the committed value itself, so that no
//! failing step undoes it, and steps see it as it comes. So each run of a check keeps copies of the
//! variables that the callback may see, compares them when all replicas are back, and puts back what
//! they were.

#![expect(unsafe_code, reason = "a variable gets its value back when no replica is at it")]

use std::sync::Arc;

use crate::collectives::copy_to;
use crate::error::Result;
use crate::memory;
use crate::tensor::storage::Storage;
use crate::tensor::{Shape, Tensor};
use crate::values::variable::Variable;

/// A variable and its committed value.
pub(super) struct Watched {
    variable: Variable,
    was: Tensor,
    /// The memory of the value. If it is sealed it is open as long as this lives, so that the check
    /// can say what a strict strategy otherwise ends the process for.
    memory: Arc<Storage>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.memory.close();
    }
}

/// A variable that was written, and where.
#[derive(Clone)]
pub(super) struct WrittenVariable {
    pub variable: Variable,
    /// The first element that is another.
    pub element: usize,
    /// What it was and what it became.
    pub values: (String, String),
}

impl Watched {
    /// Keeps what `variable` is now. Nobody may assign it until [`Watched::restored`].
    pub fn new(variable: &Variable) -> Result<Watched> {
        // SAFETY: the caller's promise: nobody writes the variable before or while it is copied.
        let committed = unsafe { variable.committed() };
        let was = copy_to(committed, variable.device())?;
        let memory = Arc::clone(committed.storage().0);
        memory.open();
        Ok(Watched { variable: variable.clone(), was, memory })
    }

    pub fn is_of(&self, variable: &Variable) -> bool {
        self.variable.is_same(variable)
    }

    pub fn variable(&self) -> &Variable {
        &self.variable
    }

    /// Whether the value is another, bit by bit; then it is put back. Called when no replica is in the
    /// step any more and no other step has begun.
    pub fn restored(&self) -> Result<Option<WrittenVariable>> {
        // SAFETY: no replica is in the step and no other step has begun, so nobody writes the variable.
        let committed = unsafe { self.variable.committed() };
        let (was, is) = (bytes(&self.was)?, bytes(committed)?);
        let Some(first) = was.iter().zip(&is).position(|(was, is)| was != is) else {
            return Ok(None);
        };
        let element = first / self.variable.dtype().size();
        let values = (value(&self.was, element)?, value(committed, element)?);
        // SAFETY: as above; nor does anybody read it.
        unsafe { self.variable.changing() }.copy_from(&self.was)?;
        Ok(Some(WrittenVariable { variable: self.variable.clone(), element, values }))
    }
}

fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let size = tensor.shape().bytes(tensor.dtype())?;
    let mut bytes = memory::list(size, "bytes of a variable to compare")?;
    bytes.resize(size, 0);
    tensor.copy_to_host(&mut bytes)?;
    Ok(bytes)
}

/// One element in words.
fn value(tensor: &Tensor, element: usize) -> Result<String> {
    let flat = tensor.reshape(Shape::new(&[tensor.shape().elements()])?)?;
    let one = flat.slice(0, element, element + 1, 1)?.reshape(Shape::scalar())?;
    // The first line says what kind of tensor it is.
    Ok(one.to_string().lines().last().unwrap_or_default().to_owned())
}
