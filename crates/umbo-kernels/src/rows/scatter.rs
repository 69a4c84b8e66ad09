//! Scatter updates: they change rows of a tensor by number, in order.

use std::ops::Range;
use std::slice;

use half::{bf16, f16};

use crate::dtype::{Element, for_numeric};
use crate::float::half_precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::layout::Shape;
use crate::view::{View, ViewMut};
use umbo_base::error::Result;
use umbo_executor::workers;

/// The operation of a scatter update on an element of the target and an element of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterOp {
    /// `to += from`
    Add,
    /// `to -= from`
    Subtract,
    /// `to *= from`
    Multiply,
    /// `to /= from`; integers are truncated towards zero.
    Divide,
    /// The smaller of the two; NaN if one of them is.
    Minimum,
    /// The larger of the two; NaN if one of them is.
    Maximum,
    /// `to = from`
    Update,
}

impl ScatterOp {
    /// The operation's name, such as `scatter_add`.
    pub fn name(self) -> &'static str {
        match self {
            ScatterOp::Add => "scatter_add",
            ScatterOp::Subtract => "scatter_sub",
            ScatterOp::Multiply => "scatter_mul",
            ScatterOp::Divide => "scatter_div",
            ScatterOp::Minimum => "scatter_min",
            ScatterOp::Maximum => "scatter_max",
            ScatterOp::Update => "scatter_update",
        }
    }
}

/// Combines row `i` of `values` into row `indices[i]` of `target`, for all rows in order. A row
/// that is named twice is changed twice. Integers wrap. 16-bit floats are computed in float32 and
/// rounded after each row.
///
/// Both are contiguous, of one dtype, and agree in all dimensions but the first. Fails, with
/// nothing changed, with OUT_OF_RANGE for an index that is not a row of `target`, and with
/// INVALID_ARGUMENT for views that do not fit each other, for arithmetic on bool, and for an
/// integer divided by zero.
pub fn scatter(op: ScatterOp, values: &View, indices: &[i64], target: &mut ViewMut) -> Result<()> {
    let row = checked_row(values, indices.len(), target)?;
    let rows = target.layout().shape[0];
    if let Some(position) = indices
        .iter()
        .position(|&index| index < 0 || index >= rows as i64)
    {
        return Err(out_of_range!(
            "indices",
            "{} at position {position} is not in [0, {rows}), the rows",
            indices[position]
        ));
    }
    for_numeric!(values.dtype(), T => {
        let is_zero = |element: &T| Some(*element) == T::NO_DIVISOR;
        let zero = || values.as_slice::<T>()?.iter().position(is_zero);
        if op == ScatterOp::Divide && let Some(position) = zero() {
            return Err(invalid!(
                "values","element {position} is 0, and integers cannot be divided by 0"));
        }
        // A loop for each operation: compilers do not take the choice out of one loop for all of
        // them.
        macro_rules! each_operation {
            ($($op:ident)*) => {
                match op {
                    $(ScatterOp::$op => {
                        each_row(values, indices, target, row, |from, to, elements| {
                            // SAFETY: the caller of the closure guarantees it.
                            unsafe {
                                combine_rows(from, to, elements, |to: T, from| {
                                    T::combined(ScatterOp::$op, to, from)
                                });
                            }
                        })
                    })*
                }
            };
        }
        each_operation! { Add Subtract Multiply Divide Minimum Maximum Update }
    }, else {
        if op != ScatterOp::Update {
            return Err(invalid!("dtype", "{} of bool; only scatter_update takes bool", op.name()));
        }
        each_row(values, indices, target, row, |from, to, elements| {
            // SAFETY: the caller of the closure guarantees it.
            unsafe { combine_rows(from, to, elements, |_: u8, from| from) };
        });
    });
    Ok(())
}

/// The elements of one row, after a check that the views fit each other.
fn checked_row(values: &View, rows: usize, target: &ViewMut) -> Result<usize> {
    let from: Shape = values.layout().shape;
    let to: Shape = target.layout().shape;
    let fits = values.dtype() == target.dtype()
        && from.rank() == to.rank()
        && from.first() == Some(&rows)
        && from[1..] == to[1..]
        && values.layout().is_contiguous()
        && target.layout().is_contiguous();
    if !fits {
        return Err(invalid!(
            "values",
            "{rows} rows in {} of shape {from} for a contiguous {} of shape {to}",
            values.dtype(),
            target.dtype()
        ));
    }
    Ok(to[1..].iter().product())
}

/// As [`combine_rows`], for one type and one operation.
type CombineRows = unsafe fn(*const u8, *mut u8, usize);

/// Divides the columns between the workers. Each worker goes through all rows in order, so the
/// result does not depend on the number of workers. `combine` is for the views' dtype.
fn each_row(values: &View, indices: &[i64], target: &ViewMut, row: usize, combine: CombineRows) {
    let size = values.dtype().size();
    let bytes = indices.len().saturating_mul(3 * size);
    workers::for_each_range(row, bytes, &|columns: Range<usize>| {
        for (position, &index) in indices.iter().enumerate() {
            // SAFETY: the views guarantee contiguous, initialised elements that do not overlap.
            // `checked_row` made sure that `values` has a row `position` of `row`
            // elements, and `scatter` that `target` has a row `index`. No other worker
            // has these columns.
            unsafe {
                let from = values.data().add((position * row + columns.start) * size);
                let to = target
                    .data()
                    .add((index as usize * row + columns.start) * size);
                combine(from, to, columns.len());
            }
        }
    });
}

/// Combines so many elements of `from` into those of `to`. Inlined.
///
/// # Safety
/// Both have so many initialised elements of this type, which do not overlap. Those of `to` may be
/// written.
#[inline(always)]
pub(crate) unsafe fn combine_rows<T: Copy>(
    from: *const u8,
    to: *mut u8,
    elements: usize,
    combine: impl Fn(T, T) -> T,
) {
    // SAFETY: the caller's promise.
    let (from, to) = unsafe {
        (
            slice::from_raw_parts(from.cast::<T>(), elements),
            slice::from_raw_parts_mut(to.cast::<T>(), elements),
        )
    };
    for (to, from) in to.iter_mut().zip(from) {
        *to = combine(*to, *from);
    }
}

/// The arithmetic of one element type.
pub(crate) trait Arithmetic: Element {
    /// The number that cannot be a divisor, if there is one.
    const NO_DIVISOR: Option<Self>;

    /// The element of the target after the update.
    fn combined(op: ScatterOp, to: Self, from: Self) -> Self;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Arithmetic for $integer {
            const NO_DIVISOR: Option<$integer> = Some(0);

            #[inline(always)]
            fn combined(op: ScatterOp, to: $integer, from: $integer) -> $integer {
                match op {
                    ScatterOp::Add => to.wrapping_add(from),
                    ScatterOp::Subtract => to.wrapping_sub(from),
                    ScatterOp::Multiply => to.wrapping_mul(from),
                    ScatterOp::Divide => to.wrapping_div(from),
                    ScatterOp::Minimum => to.min(from),
                    ScatterOp::Maximum => to.max(from),
                    ScatterOp::Update => from,
                }
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

/// Floats are computed in a type that has arithmetic: their own, or float32 for the 16-bit floats.
macro_rules! floats {
    ($($float:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Arithmetic for $float {
            const NO_DIVISOR: Option<$float> = None;

            #[inline(always)]
            fn combined(op: ScatterOp, to: $float, from: $float) -> $float {
                match op {
                    ScatterOp::Add => $narrow($widen(to) + $widen(from)),
                    ScatterOp::Subtract => $narrow($widen(to) - $widen(from)),
                    ScatterOp::Multiply => $narrow($widen(to) * $widen(from)),
                    ScatterOp::Divide => $narrow($widen(to) / $widen(from)),
                    // A comparison with NaN is false, so NaN is kept on both sides.
                    ScatterOp::Minimum if to <= from || to.is_nan() => to,
                    ScatterOp::Maximum if to >= from || to.is_nan() => to,
                    _ => from,
                }
            }
        }
    )*};
}

floats! {
    f16, f16_to_f32, f32_to_f16;
    bf16, bf16_to_f32, f32_to_bf16;
    f32, std::convert::identity, std::convert::identity;
    f64, std::convert::identity, std::convert::identity;
}
