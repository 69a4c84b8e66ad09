//! Element-wise updates in place: `to += from` and `to -= from`.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::error::Result;
use crate::executor::workers;
use crate::kernels::copy::layouts::{check_same, tiles};
use crate::kernels::dtype::{DType, Element, for_wrapping};
use crate::kernels::instruction_set::{
    InstructionSet, Instructions, Kernel, dispatch, widest_unless_rare,
};
use crate::kernels::layout::Shape;
use crate::kernels::rows::scatter::{Arithmetic, ScatterOp};
use crate::kernels::strided::{Runs, TILE};
use crate::kernels::view::{View, ViewMut};

/// `to += from`, or `to -= from` if it `subtracts`, element by element, in the tensors' own dtype. Integers wrap.
/// Floats are rounded after the operation; 16-bit floats are computed in float32.
///
/// Fails with INVALID_ARGUMENT if dtype or shape differ, and for bool.
pub fn combine(
    instructions: Instructions,
    from: &View,
    to: &mut ViewMut,
    subtracts: bool,
) -> Result<()> {
    check_combined(
        (from.dtype(), from.layout().shape),
        (to.dtype(), to.layout().shape),
        subtracts,
    )?;
    for_wrapping!(from.dtype(), T => match subtracts {
        false => combine_by(instructions, from, to, |to, from| T::combined(ScatterOp::Add, to, from)),
        true => {
            combine_by(instructions, from, to, |to, from| T::combined(ScatterOp::Subtract, to, from));
        }
    }, else unreachable!("bool was refused"));
    Ok(())
}

/// Refuses dtypes or shapes that differ, and bool.
pub(in crate::kernels) fn check_combined(
    from: (DType, Shape),
    to: (DType, Shape),
    subtracts: bool,
) -> Result<()> {
    check_same(from, to)?;
    if from.0 != DType::Bool {
        return Ok(());
    }
    let what = if subtracts { "subtracted" } else { "added" };
    Err(invalid!("dtype", "bool values cannot be {what}; convert them to numbers first"))
}

fn combine_by<T: Element>(
    instructions: Instructions,
    from: &View,
    to: &ViewMut,
    combine: impl Fn(T, T) -> T + Copy + Sync,
) {
    let (from_runs, to_runs) = (Runs::new(from.layout()), Runs::new(to.layout()));
    workers::for_each_range(to.layout().shape.elements(), 3 * size_of::<T>(), &|range| {
        let (from, to) = (from.data().cast(), to.data().cast());
        let (from_runs, to_runs) = (&from_runs, &to_runs);
        dispatch(instructions, OverRange { from, from_runs, to, to_runs, range, combine });
    });
}

/// One worker's part. The data and the runs are those of two views of this element type.
struct OverRange<'a, T, F> {
    from: *const T,
    from_runs: &'a Runs,
    to: *mut T,
    to_runs: &'a Runs,
    range: Range<usize>,
    combine: F,
}

impl<T: Element, F: Fn(T, T) -> T + Copy> Kernel for OverRange<'_, T, F> {
    const WIDEST: InstructionSet = widest_unless_rare(!T::DTYPE.is_float());

    #[inline(always)]
    fn run(self, _: Instructions) {
        let OverRange { from, from_runs, to, to_runs, range, combine } = self;
        if from_runs.is_dense() && to_runs.is_dense() {
            // SAFETY: the views guarantee initialised elements that may be read and written and do not overlap. No
            // other worker has this range.
            let (from, to) = unsafe {
                (
                    std::slice::from_raw_parts(from.add(range.start), range.len()),
                    std::slice::from_raw_parts_mut(to.add(range.start), range.len()),
                )
            };
            slices(from, to, combine);
            return;
        }
        let mut from_buffer = [MaybeUninit::uninit(); TILE];
        let mut to_buffer = [MaybeUninit::uninit(); TILE];
        for tile in tiles(range) {
            let from_buffer = &mut from_buffer[..tile.len()];
            let to_buffer = &mut to_buffer[..tile.len()];
            // SAFETY: the views guarantee the elements of the tile, which is this worker's alone. Gathering fills the
            // buffers.
            unsafe {
                from_runs.gather(from, tile.clone(), from_buffer);
                to_runs.gather(to, tile.clone(), to_buffer);
                let to_buffer = to_buffer.assume_init_mut();
                slices(from_buffer.assume_init_ref(), to_buffer, combine);
                to_runs.scatter(to, tile, to_buffer);
            }
        }
    }
}

#[inline(always)]
fn slices<T: Copy>(from: &[T], to: &mut [T], combine: impl Fn(T, T) -> T) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = combine(*to, *from);
    }
}
