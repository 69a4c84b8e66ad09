//! Copies between layouts, and fills.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::error::Result;
use crate::executor::workers;
use crate::kernels::dtype::DType;
use crate::kernels::float::half_precision::{f64_to_bf16, f64_to_f16};
use crate::kernels::instruction_set::Instructions;
use crate::kernels::layout::{Layout, Shape};
use crate::kernels::streaming;
use crate::kernels::strided::{Runs, TILE, copy_run};
use crate::kernels::view::{View, ViewMut};

/// Copies the elements of `from` to the same positions of `to`. The strides may differ.
///
/// Fails with INVALID_ARGUMENT if dtype or shape differ.
pub fn copy(instructions: Instructions, from: &View, to: &mut ViewMut) -> Result<()> {
    check_same((from.dtype(), from.layout().shape), (to.dtype(), to.layout().shape))?;
    // Elements are only moved, so that only their size counts.
    match from.dtype().size() {
        1 => copy_elements::<u8>(instructions, from, to),
        2 => copy_elements::<u16>(instructions, from, to),
        4 => copy_elements::<u32>(instructions, from, to),
        _ => copy_elements::<u64>(instructions, from, to),
    }
    Ok(())
}

/// Copies the elements of `from`, in row-major order, to bytes.
///
/// Fails with INVALID_ARGUMENT if `to` is not exactly as long as the elements.
pub fn copy_to_bytes(from: &View, to: &mut [u8]) -> Result<()> {
    let (shape, size) = (from.layout().shape, from.dtype().size());
    let expected = shape.bytes(from.dtype())?;
    if to.len() != expected {
        return Err(invalid!("bytes", "{}; the elements have {expected}", to.len()));
    }
    // SAFETY: the view guarantees that its layout may be read; `to` is exclusive and as long as all elements.
    unsafe { copy_dense(from.data(), from.layout(), size, to.as_mut_ptr()) };
    Ok(())
}

/// Copies elements of `size` bytes each to memory where they lie densely in row-major order.
///
/// # Safety
/// `layout` reaches only readable elements from `from` on; `to` is writable for all of them; the two do not overlap.
pub(in crate::kernels) unsafe fn copy_dense(
    from: *const u8,
    layout: &Layout,
    size: usize,
    to: *mut u8,
) {
    Runs::new(layout).for_each(0..layout.shape.elements(), |first, offset, stride, length| {
        for position in 0..if stride == 1 { 1 } else { length } {
            let bytes = if stride == 1 { length * size } else { size };
            let element = offset + position as isize * stride;
            // SAFETY: the caller's promise; runs lie in the layout.
            unsafe {
                let to = to.add((first + position) * size);
                to.copy_from_nonoverlapping(from.offset(element * size as isize), bytes);
            }
        }
    });
}

/// Sets all elements to `value`, rounded to their type. bool becomes true if `value` is not 0. For integers, `value`
/// is limited to the range of the type.
pub fn fill(to: &mut ViewMut, value: f64) {
    let bits = bits(to.dtype(), value);
    match to.dtype().size() {
        1 => fill_elements(to, bits as u8),
        2 => fill_elements(to, bits as u16),
        4 => fill_elements(to, bits as u32),
        _ => fill_elements(to, bits),
    }
}

/// The bits of an element of this type with this value.
pub(in crate::kernels) fn bits(dtype: DType, value: f64) -> u64 {
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
    let ((from, from_shape), (to, to_shape)) = (from, to);
    Err(invalid!(
        "tensor",
        "{from} of shape {from_shape} does not fit into {to} of shape {to_shape}; dtype and shape must agree"
    ))
}

/// `T` has the size of the elements.
fn copy_elements<T: Copy>(instructions: Instructions, from: &View, to: &ViewMut) {
    let (from_runs, to_runs) = (Runs::new(from.layout()), Runs::new(to.layout()));
    let elements = to.layout().shape.elements();
    let streaming = streaming::pays(elements.saturating_mul(2 * size_of::<T>()));
    workers::for_each_range(elements, 2 * size_of::<T>(), &|range| {
        let (from, to) = (from.data().cast::<T>(), to.data().cast::<T>());
        // SAFETY: the views guarantee that their layouts may be read and written. The written view is exclusive, so
        // they do not overlap. The range lies in both, and ranges do not overlap.
        unsafe {
            if from_runs.is_dense() && to_runs.is_dense() && streaming {
                let (from, to) = (from.add(range.start), to.add(range.start));
                let bytes = range.len() * size_of::<T>();
                streaming::write(instructions, from.cast(), to.cast(), bytes);
                streaming::finish();
            } else if from_runs.is_dense() {
                to_runs.for_each(range.clone(), |first, offset, stride, length| {
                    let from = from.add(range.start + first);
                    copy_run(from, 1, to.offset(offset), stride, length);
                });
            } else if to_runs.is_dense() {
                from_runs.for_each(range.clone(), |first, offset, stride, length| {
                    let to = to.add(range.start + first);
                    copy_run(from.offset(offset), stride, to, 1, length);
                });
            } else {
                let mut buffer = [MaybeUninit::<T>::uninit(); TILE];
                for tile in tiles(range) {
                    let buffer = &mut buffer[..tile.len()];
                    from_runs.gather(from, tile.clone(), buffer);
                    to_runs.scatter(to, tile, buffer.assume_init_ref());
                }
            }
        }
    });
}

/// `T` is an unsigned integer of the size of the elements.
fn fill_elements<T: Copy + Default + PartialEq + Sync>(to: &ViewMut, bits: T) {
    let runs = Runs::new(to.layout());
    workers::for_each_range(to.layout().shape.elements(), size_of::<T>(), &|range| {
        runs.for_each(range, |_, offset, stride, length| {
            // SAFETY: the view guarantees that its layout may be written, and runs lie in it. The bytes of zero are
            // zeros in every dtype.
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
pub(in crate::kernels) fn tiles(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(TILE).map(move |start| start..end.min(start + TILE))
}
