//! Element-wise updates in place: `to += from` and `to -= from`.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::copy::layouts::{check_same, tiles};
use crate::dtype::{DType, Element, for_wrapping};
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch, widest_unless_rare};
use crate::layout::Shape;
use crate::rows::scatter::{Arithmetic, ScatterOp, combine_rows};
use crate::strided::{Runs, TILE};
use crate::view::{View, ViewMut};
use umbo_base::error::Result;
use umbo_executor::workers;

/// `to += from`, or `to -= from` if it `subtracts`, element by element, in the tensors' own dtype.
/// Integers wrap. Floats are rounded after the operation; 16-bit floats are computed in float32.
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
    macro_rules! slices {
        ($T:ident $op:ident) => {
            |instructions, from, to, elements| {
                let combine = |to: $T, from| $T::combined(ScatterOp::$op, to, from);
                let element = PhantomData;
                dispatch(
                    instructions,
                    CombinedSlices {
                        from,
                        to,
                        elements,
                        combine,
                        element,
                    },
                );
            }
        };
    }
    let combine: CombineSlices = for_wrapping!(from.dtype(), T => match subtracts {
        false => slices!(T Add),
        true => slices!(T Subtract),
    }, else unreachable!("bool was refused"));
    combine_by(instructions, from, to, combine);
    Ok(())
}

/// Refuses dtypes or shapes that differ, and bool.
pub(crate) fn check_combined(
    from: (DType, Shape),
    to: (DType, Shape),
    subtracts: bool,
) -> Result<()> {
    check_same(from, to)?;
    if from.0 != DType::Bool {
        return Ok(());
    }
    let operation = if subtracts { "subtracted" } else { "added" };
    Err(invalid!(
        "dtype",
        "bool values cannot be {operation}; convert them to numbers first"
    ))
}

/// As [`combine_rows`], for one dtype and one operation.
type CombineSlices = unsafe fn(Instructions, *const u8, *mut u8, usize);

/// `combine` is for the views' dtype.
fn combine_by(instructions: Instructions, from: &View, to: &ViewMut, combine: CombineSlices) {
    let from_runs = Runs::new(from.layout());
    let to_runs = Runs::new(to.layout());
    let size = to.dtype().size();
    workers::for_each_range(to.layout().shape.elements(), 3 * size, &|range| {
        let from = from.data();
        let to = to.data();
        if from_runs.is_dense() && to_runs.is_dense() {
            let start = range.start * size;
            // SAFETY: the views guarantee initialised elements that may be read and written and do
            // not overlap. No other worker has this range.
            unsafe { combine(instructions, from.add(start), to.add(start), range.len()) };
            return;
        }
        let mut buffers = [[MaybeUninit::<u64>::uninit(); TILE]; 2];
        let [from_buffer, to_buffer] = buffers
            .each_mut()
            .map(|buffer| buffer.as_mut_ptr().cast::<u8>());
        for tile in tiles(range) {
            // SAFETY: the views guarantee the elements of the tile, which is this worker's alone.
            // Gathering fills the buffers.
            unsafe {
                from_runs.gather(from, size, tile.clone(), from_buffer);
                to_runs.gather(to, size, tile.clone(), to_buffer);
                combine(instructions, from_buffer, to_buffer, tile.len());
                to_runs.scatter(to, size, tile, to_buffer);
            }
        }
    });
}

/// The arguments of [`combine_rows`].
struct CombinedSlices<T, F> {
    from: *const u8,
    to: *mut u8,
    elements: usize,
    combine: F,
    element: PhantomData<T>,
}

impl<T: Element, F: Fn(T, T) -> T> Kernel for CombinedSlices<T, F> {
    const WIDEST: InstructionSet = widest_unless_rare(!T::DTYPE.is_float());

    #[inline(always)]
    fn run(self, _: Instructions) {
        // SAFETY: the code that creates it guarantees what the function asks for.
        unsafe { combine_rows(self.from, self.to, self.elements, self.combine) };
    }
}
