//! Copies between layouts, and fills.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::dtype::DType;
use crate::float::half_precision::{f64_to_bf16, f64_to_f16};
use crate::instruction_set::Instructions;
use crate::layout::{Layout, Shape};
use crate::streaming;
use crate::strided::{Runs, TILE};
use crate::view::{View, ViewMut};
use umbo_base::error::Result;
use umbo_executor::workers;

/// Copies the elements of `from` to the same positions of `to`. The strides may differ.
///
/// Fails with INVALID_ARGUMENT if dtype or shape differ.
pub fn copy(instructions: Instructions, from: &View, to: &mut ViewMut) -> Result<()> {
    check_same(
        (from.dtype(), from.layout().shape),
        (to.dtype(), to.layout().shape),
    )?;
    let from_runs = Runs::new(from.layout());
    let to_runs = Runs::new(to.layout());
    let elements = to.layout().shape.elements();
    let size = to.dtype().size();
    let streaming = streaming::pays(elements.saturating_mul(2 * size));
    workers::for_each_range(elements, 2 * size, &|range| {
        let from = from.data();
        let to = to.data();
        let start = range.start * size;
        // SAFETY: the views guarantee that their layouts may be read and written. The written view
        // is exclusive, so they do not overlap. The range lies in both, and ranges do not
        // overlap.
        unsafe {
            if from_runs.is_dense() && to_runs.is_dense() && streaming {
                streaming::write(
                    instructions,
                    from.add(start),
                    to.add(start),
                    range.len() * size,
                );
                streaming::finish();
            } else if from_runs.is_dense() {
                to_runs.scatter(to, size, range, from.add(start));
            } else if to_runs.is_dense() {
                from_runs.gather(from, size, range, to.add(start));
            } else {
                let mut buffer = [MaybeUninit::<u64>::uninit(); TILE];
                let buffer = buffer.as_mut_ptr().cast();
                for tile in tiles(range) {
                    from_runs.gather(from, size, tile.clone(), buffer);
                    to_runs.scatter(to, size, tile, buffer);
                }
            }
        }
    });
    Ok(())
}

/// Copies the elements of `from`, in row-major order, to bytes.
///
/// Fails with INVALID_ARGUMENT if `to` is not exactly as long as the elements.
pub fn copy_to_bytes(from: &View, to: &mut [u8]) -> Result<()> {
    let shape = from.layout().shape;
    let size = from.dtype().size();
    let expected = shape.bytes(from.dtype())?;
    if to.len() != expected {
        return Err(invalid!(
            "bytes",
            "{}; the elements have {expected}",
            to.len()
        ));
    }
    // SAFETY: the view guarantees that its layout may be read; `to` is exclusive and as long as all
    // elements.
    unsafe { copy_dense(from.data(), from.layout(), size, to.as_mut_ptr()) };
    Ok(())
}

/// Copies elements of `size` bytes each to memory where they lie densely in row-major order.
///
/// # Safety
/// `layout` reaches only readable elements from `from` on; `to` is writable for all of them; the
/// two do not overlap.
pub(crate) unsafe fn copy_dense(from: *const u8, layout: &Layout, size: usize, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { Runs::new(layout).gather(from, size, 0..layout.shape.elements(), to) };
}

/// Sets all elements to `value`, rounded to their type. bool becomes true if `value` is not 0. For
/// integers, `value` is limited to the range of the type.
pub fn fill(to: &mut ViewMut, value: f64) {
    let bits = bits(to.dtype(), value);
    let size = to.dtype().size();
    if bits == 0 && to.layout().is_contiguous() {
        let bytes = to.layout().shape.elements() * size;
        let to = &*to;
        return workers::for_each_range(bytes, 1, &|range| {
            // SAFETY: the view guarantees that its elements may be written, and each worker writes
            // its range. The bytes of zero are zeros in every dtype.
            unsafe { to.data().add(range.start).write_bytes(0, range.len()) }
        });
    }
    match size {
        1 => fill_elements(to, bits as u8),
        2 => fill_elements(to, bits as u16),
        4 => fill_elements(to, bits as u32),
        _ => fill_elements(to, bits),
    }
}

/// The bits of an element of this type with this value.
pub(crate) fn bits(dtype: DType, value: f64) -> u64 {
    match dtype {
        DType::Float16 => f64_to_f16(value).to_bits().into(),
        DType::BFloat16 => f64_to_bf16(value).to_bits().into(),
        DType::Float32 => (value as f32).to_bits().into(),
        DType::Float64 => value.to_bits(),
        DType::Int8 => (value as i8 as u8).into(),
        DType::Int16 => (value as i16 as u16).into(),
        DType::Int32 => (value as i32 as u32).into(),
        DType::Int64 => value as i64 as u64,
        DType::UInt8 => (value as u8).into(),
        DType::UInt16 => (value as u16).into(),
        DType::UInt32 => (value as u32).into(),
        DType::UInt64 => value as u64,
        DType::Bool => u64::from(value != 0.0),
    }
}

/// Checks that dtype and shape of a copy's source and target are equal.
pub fn check_same(from: (DType, Shape), to: (DType, Shape)) -> Result<()> {
    if from == to {
        return Ok(());
    }
    let (from, from_shape) = from;
    let (to, to_shape) = to;
    Err(invalid!(
        "tensor",
        "{from} of shape {from_shape} does not fit into {to} of shape {to_shape}; dtype and shape \
         must agree"
    ))
}

/// `T` is an unsigned integer of the size of the elements.
fn fill_elements<T: Copy + Default + PartialEq + Sync>(to: &ViewMut, bits: T) {
    let runs = Runs::new(to.layout());
    workers::for_each_range(to.layout().shape.elements(), size_of::<T>(), &|range| {
        runs.for_each(range, |_, offset, stride, length| {
            // SAFETY: the view guarantees that its layout may be written, and runs lie in it. The
            // bytes of zero are zeros in every dtype.
            unsafe {
                let to = to.data().cast::<T>().offset(offset);
                if stride == 1 && bits == T::default() {
                    to.write_bytes(0, length);
                } else {
                    (0..length as isize).for_each(|i| to.offset(i * stride).write(bits));
                }
            }
        });
    });
}

/// The range cut into pieces of at most [`TILE`].
#[inline(always)]
pub(crate) fn tiles(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(TILE)
        .map(move |start| start..end.min(start + TILE))
}
