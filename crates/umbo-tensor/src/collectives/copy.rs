//! Copies between tensors and devices, and assignments.

use crate::{Tensor, TensorMut};
use umbo_base::error::Result;
use umbo_base::observe::{self, Counter, Phase};
use umbo_device::DeviceId;

/// How a value is assigned to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// `to = from`
    Assign,
    /// `to += from`
    Add,
    /// `to -= from`
    Subtract,
}

/// A contiguous copy of `tensor` in memory of `device`. It is a fresh tensor, even if `tensor` is
/// already there.
///
/// Fails with RESOURCE_EXHAUSTED if there is no memory for it.
pub fn copy_to(tensor: &Tensor, device: DeviceId) -> Result<Tensor> {
    let _copy = copying(tensor);
    tensor.copied_to(device)
}

/// Writes the elements of `from` to `to`, for any strides. The two may share memory.
///
/// Fails with INVALID_ARGUMENT if dtype or shape differ or `to` is read-only.
pub fn copy_into(from: &Tensor, to: &mut TensorMut) -> Result<()> {
    let _copy = copying(from);
    to.copy_from(from)
}

/// Assigns `from` to `to`, adds it or subtracts it. Sums have the tensors' dtype: integers wrap,
/// and floats are rounded after the addition. The two may share memory.
///
/// Fails with INVALID_ARGUMENT if dtype or shape differ, if `to` is read-only, and for additions
/// and subtractions of bool.
pub fn combine_into(assignment: Assignment, to: &mut TensorMut, from: &Tensor) -> Result<()> {
    let _copy = copying(from);
    match assignment {
        Assignment::Assign => to.copy_from(from),
        Assignment::Add => to.combine_from(from, false),
        Assignment::Subtract => to.combine_from(from, true),
    }
}

/// Starts the phase of a copy of `from`, for observers.
fn copying(from: &Tensor) -> observe::PhaseSpan {
    let bytes = || from.bytes() as u64;
    let mut span = observe::span(Phase::Copy);
    span.of_bytes(bytes);
    observe::count(Counter::Copied, bytes);
    span
}
