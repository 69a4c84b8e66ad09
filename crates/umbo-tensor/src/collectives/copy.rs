//! Copies between tensors and devices, and assignments.

use std::sync::Arc;

use crate::{Tensor, TensorMut};
use umbo_base::error::Result;
use umbo_base::observe::{self, Counter, Phase};
use umbo_device::DeviceId;
use umbo_executor::workers;
use umbo_kernels::view::{Span, SpanMut};

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

/// Writes the elements of the first of each pair to the second, as [`copy_into`]. Several workers
/// share thousands of small ones.
///
/// If this fails, some of them may be written.
pub fn copy_all_into<'a>(pairs: impl Iterator<Item = (&'a Tensor, TensorMut<'a>)>) -> Result<()> {
    let mut small: Vec<(Span<'_>, SpanMut<'_>)> = Vec::with_capacity(pairs.size_hint().0);
    let mut bytes = 0;
    for (from, mut to) in pairs {
        let is_small = from.bytes() < LEAST_SHARED
            && (from.dtype(), from.shape()) == (to.dtype(), to.shape())
            && [from.device(), to.device()]
                .iter()
                .all(|device| device.is_host_memory())
            && from.layout().is_contiguous()
            && to.tensor.layout().is_contiguous()
            && !Arc::ptr_eq(from.storage().0, to.tensor.storage().0);
        if !is_small {
            copy_into(from, &mut to)?;
            continue;
        }
        bytes += from.bytes();
        small.push((from.span()?, to.into_span()?));
    }
    let _copy = copying_bytes(bytes as u64);
    let most = 2 * bytes.div_ceil(small.len().max(1));
    workers::for_each_task(small.len(), most, &|range| {
        for (from, to) in &small[range] {
            // SAFETY: each pair is in one range, and so only one worker writes it.
            unsafe { to.part(&(0..to.elements())) }.copy_from(from);
        }
    });
    Ok(())
}

/// From this size on, workers share a single copy.
const LEAST_SHARED: usize = 256 << 10;

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
    copying_bytes(from.bytes() as u64)
}

/// The same of so many bytes.
fn copying_bytes(bytes: u64) -> observe::PhaseSpan {
    let bytes = || bytes;
    let mut span = observe::span(Phase::Copy);
    span.of_bytes(bytes);
    observe::count(Counter::Copied, bytes);
    span
}
