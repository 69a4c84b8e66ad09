//! Element-wise updates in place: `to += from` and `to -= from`.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use half::{bf16, f16};

use crate::error::{Error, Result};
use crate::executor::workers;
use crate::kernels::copy::layouts::{check_same, tiles};
use crate::kernels::dtype::{Element, for_wrapping};
use crate::kernels::float::half_precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::kernels::instruction_set::{Instructions, Kernel, dispatch};
use crate::kernels::strided::{Runs, TILE};
use crate::kernels::view::{View, ViewMut};

/// `to += from`, element by element, in the tensors' own dtype: integers wrap, floats round after
/// the addition (16-bit ones are added in float32).
///
/// Fails with INVALID_ARGUMENT if dtype or shape differ, and for bool.
pub fn add(instructions: Instructions, from: &View, to: &mut ViewMut) -> Result<()> {
    check_same(from, to)?;
    for_wrapping!(from.dtype(), T => combine::<Addition<T>>(instructions, from, to), else return Err(no_bool("added")));
    Ok(())
}

/// `to -= from`, like [`add`].
pub fn subtract(instructions: Instructions, from: &View, to: &mut ViewMut) -> Result<()> {
    check_same(from, to)?;
    for_wrapping!(
        from.dtype(),
        T => combine::<Subtraction<T>>(instructions, from, to),
        else return Err(no_bool("subtracted"))
    );
    Ok(())
}

fn no_bool(what: &str) -> Error {
    Error::invalid("dtype", format!("bool values cannot be {what}; convert them to numbers first"))
}

/// What is done with a pair of elements.
trait Combination: Send + Sync {
    type Element: Element;
    fn combine(to: Self::Element, from: Self::Element) -> Self::Element;
}

struct Addition<T>(PhantomData<T>);
struct Subtraction<T>(PhantomData<T>);

macro_rules! combinations {
    ($($element:ty, |$to:ident, $from:ident| $add:expr, $subtract:expr;)*) => {$(
        impl Combination for Addition<$element> {
            type Element = $element;
            #[inline(always)]
            fn combine($to: $element, $from: $element) -> $element {
                $add
            }
        }
        impl Combination for Subtraction<$element> {
            type Element = $element;
            #[inline(always)]
            fn combine($to: $element, $from: $element) -> $element {
                $subtract
            }
        }
    )*};
}

combinations! {
    f16, |to, from| f32_to_f16(f16_to_f32(to) + f16_to_f32(from)),
        f32_to_f16(f16_to_f32(to) - f16_to_f32(from));
    bf16, |to, from| f32_to_bf16(bf16_to_f32(to) + bf16_to_f32(from)),
        f32_to_bf16(bf16_to_f32(to) - bf16_to_f32(from));
    f32, |to, from| to + from, to - from;
    f64, |to, from| to + from, to - from;
    u8, |to, from| to.wrapping_add(from), to.wrapping_sub(from);
    u16, |to, from| to.wrapping_add(from), to.wrapping_sub(from);
    u32, |to, from| to.wrapping_add(from), to.wrapping_sub(from);
    u64, |to, from| to.wrapping_add(from), to.wrapping_sub(from);
}

fn combine<C: Combination>(instructions: Instructions, from: &View, to: &ViewMut) {
    let (from_runs, to_runs) = (Runs::new(from.layout()), Runs::new(to.layout()));
    let bytes = 3 * size_of::<C::Element>();
    workers::for_each_range(to.layout().shape.elements(), bytes, &|range| {
        let (from, to) = (from.data().cast(), to.data().cast());
        let (from_runs, to_runs) = (&from_runs, &to_runs);
        dispatch(instructions, OverRange::<C> { from, from_runs, to, to_runs, range });
    });
}

/// One worker's part. Data and runs are those of two views of the combination's element type.
struct OverRange<'a, C: Combination> {
    from: *const C::Element,
    from_runs: &'a Runs,
    to: *mut C::Element,
    to_runs: &'a Runs,
    range: Range<usize>,
}

impl<C: Combination> Kernel for OverRange<'_, C> {
    const IS_RARE: bool = !C::Element::DTYPE.is_float();

    #[inline(always)]
    fn run(self, _: Instructions) {
        let OverRange { from, from_runs, to, to_runs, range } = self;
        if from_runs.is_dense() && to_runs.is_dense() {
            // SAFETY: the views promise initialised elements that may be read and written and do
            // not overlap; the range is this worker's alone.
            let (from, to) = unsafe {
                (
                    std::slice::from_raw_parts(from.add(range.start), range.len()),
                    std::slice::from_raw_parts_mut(to.add(range.start), range.len()),
                )
            };
            slices::<C>(from, to);
            return;
        }
        let mut from_buffer = [MaybeUninit::uninit(); TILE];
        let mut to_buffer = [MaybeUninit::uninit(); TILE];
        for tile in tiles(range) {
            let from_buffer = &mut from_buffer[..tile.len()];
            let to_buffer = &mut to_buffer[..tile.len()];
            // SAFETY: as above; gathering fills the buffers.
            unsafe {
                from_runs.gather(from, tile.clone(), from_buffer);
                to_runs.gather(to, tile.clone(), to_buffer);
                let to_buffer = to_buffer.assume_init_mut();
                slices::<C>(from_buffer.assume_init_ref(), to_buffer);
                to_runs.scatter(to, tile, to_buffer);
            }
        }
    }
}

#[inline(always)]
fn slices<C: Combination>(from: &[C::Element], to: &mut [C::Element]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = C::combine(*to, *from);
    }
}
