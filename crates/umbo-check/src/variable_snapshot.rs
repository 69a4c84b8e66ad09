//! Variables that a callback writes through views of them.
//!
//! A view is for reading. A write through one changes the committed value itself, or a copy of it
//! for a device or in lower precision that later steps also use, so a failing step does not undo
//! it. Each run of a check therefore keeps copies of the variables that the callback may view. When
//! all replicas have returned, it compares the variables and their derived copies with these, and
//! restores them.

#![expect(
    unsafe_code,
    reason = "a variable gets its value back when no replica is at it"
)]

use umbo_base::error::{Result, memory};
use umbo_device::DeviceId;
use umbo_tensor::collectives::copy_to;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Shape, Tensor};

/// A variable and its committed value.
pub(super) struct VariableSnapshot {
    variable: Variable,
    was: Tensor,
}

/// A variable that was written, and the position.
#[derive(Clone)]
pub(super) struct WrittenVariable {
    pub variable: Variable,
    /// The dtype and the device of the copy that was written; none if it was the variable's own
    /// memory.
    pub copy: Option<(DType, DeviceId)>,
    /// The first element that differs.
    pub element: usize,
    /// Its value before and after.
    pub values: (String, String),
}

impl VariableSnapshot {
    /// Copies the present value of `variable`. Nobody may assign it until
    /// [`VariableSnapshot::restored`].
    pub fn new(variable: &Variable) -> Result<VariableSnapshot> {
        // SAFETY: the caller promises that nobody writes the variable before or while it is copied.
        let was = copy_to(unsafe { variable.committed() }, variable.device())?;
        Ok(VariableSnapshot {
            variable: variable.clone(),
            was,
        })
    }

    pub fn is_of(&self, variable: &Variable) -> bool {
        self.variable.is_same(variable)
    }

    pub fn variable(&self) -> &Variable {
        &self.variable
    }

    /// Returns whether the value or a copy of it differs, bit by bit. If so, everything is
    /// restored. It is called when no replica is in the step any more and no other step has
    /// begun.
    pub fn restored(&self) -> Result<Option<WrittenVariable>> {
        // SAFETY: no replica is in the step and no other step has begun, so nobody writes the
        // variable.
        let committed = unsafe { self.variable.committed() };
        if let Some(written) = self.difference(None, &self.was, committed)? {
            // SAFETY: as above, and nobody reads it either. Copies that were made of it meanwhile
            // are made again.
            unsafe { self.variable.changing() }.copy_from(&self.was)?;
            return Ok(Some(written));
        }
        let compare = |copy: &Tensor, expected: &Tensor| {
            self.difference(Some((copy.dtype(), copy.device())), expected, copy)
        };
        // SAFETY: as above.
        let written = unsafe { self.variable.compare_copies(&self.was, compare) };
        // Copies that cannot be compared are made again, too.
        if !matches!(written, Ok(None)) {
            self.variable.outdate_copies();
        }
        written
    }

    /// The difference between a value, or this copy of it, and its earlier value.
    fn difference(
        &self,
        copy: Option<(DType, DeviceId)>,
        was: &Tensor,
        is: &Tensor,
    ) -> Result<Option<WrittenVariable>> {
        let before = bytes(was)?;
        let after = bytes(is)?;
        let Some(first) = before.iter().zip(&after).position(|(was, is)| was != is) else {
            return Ok(None);
        };
        let element = first / is.dtype().size();
        let values = (value(was, element)?, value(is, element)?);
        Ok(Some(WrittenVariable {
            variable: self.variable.clone(),
            copy,
            element,
            values,
        }))
    }
}

/// The bytes of all elements.
pub(super) fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let size = tensor.shape().bytes(tensor.dtype())?;
    let mut bytes = memory::filled(size, 0, "bytes of a tensor to compare")?;
    tensor.copy_to_host(&mut bytes)?;
    Ok(bytes)
}

/// A text for one element.
fn value(tensor: &Tensor, element: usize) -> Result<String> {
    let flat = tensor.reshape(Shape::new(&[tensor.shape().elements()])?)?;
    let one = flat
        .slice(0, element, element + 1, 1)?
        .reshape(Shape::scalar())?;
    // The first line of the text names the kind of the tensor.
    Ok(one
        .to_string()
        .lines()
        .last()
        .unwrap_or_default()
        .to_owned())
}
