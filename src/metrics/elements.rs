//! The elements of views of any type, as class numbers and scores.

use half::{bf16, f16};

use crate::error::{Error, Result};
use crate::kernels::dtype::{DType, Element};
use crate::kernels::view::View;

/// How many rows a view has. It must have one or two dimensions.
pub(super) fn rows(view: &View<'_>, argument: &'static str) -> Result<usize> {
    match *view.layout().shape {
        [rows] | [rows, _] => Ok(rows),
        _ => {
            let shape = view.layout().shape;
            Err(invalid!(argument, "its shape is {shape}; [examples] is expected"))
        }
    }
}

/// How many columns a view has, if it has two dimensions.
pub(super) fn columns(view: &View<'_>) -> Option<usize> {
    match *view.layout().shape {
        [_, columns] => Some(columns),
        _ => None,
    }
}

/// The class numbers from row `first` on, as many as the target can hold.
pub(super) fn read_classes(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    classes: &mut [i64],
) -> Result<()> {
    match view.dtype() {
        DType::Int8 => copy_classes::<i8>(view, first, classes),
        DType::Int16 => copy_classes::<i16>(view, first, classes),
        DType::Int32 => copy_classes::<i32>(view, first, classes),
        DType::Int64 => copy_classes::<i64>(view, first, classes),
        DType::UInt8 | DType::Bool => copy_classes::<u8>(view, first, classes),
        DType::UInt16 => copy_classes::<u16>(view, first, classes),
        DType::UInt32 => copy_classes::<u32>(view, first, classes),
        DType::UInt64 => copy_classes::<u64>(view, first, classes),
        dtype => {
            return Err(invalid!(argument, "{dtype} elements; class numbers are integers or bool"));
        }
    }
    Ok(())
}

fn copy_classes<T: Element + TryInto<i64>>(view: &View<'_>, first: usize, classes: &mut [i64]) {
    let Some(matrix) = view.as_matrix::<T>() else { return };
    for (row, class) in (first..).zip(classes) {
        // A number that does not fit is no class.
        *class = matrix[[row, 0]].try_into().unwrap_or(i64::MAX);
    }
}

/// Calls a function that is generic over the type of scores with the view's type.
macro_rules! of_score_type {
    ($view:ident, $argument:ident, $function:ident, $($rest:ident),*) => {
        match $view.dtype() {
            DType::Float16 => $function::<f16>($view, $argument, $($rest),*),
            DType::BFloat16 => $function::<bf16>($view, $argument, $($rest),*),
            DType::Float32 => $function::<f32>($view, $argument, $($rest),*),
            DType::Float64 => $function::<f64>($view, $argument, $($rest),*),
            dtype => Err(no_scores($argument, dtype)),
        }
    };
}

/// For each row from `first` on, the column of its highest score; among equal scores the first.
pub(super) fn read_top(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    classes: &mut [i64],
) -> Result<()> {
    of_score_type!(view, argument, find_top, first, classes)
}

fn find_top<T: Element + Into<f64>>(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    classes: &mut [i64],
) -> Result<()> {
    let Some(matrix) = view.as_matrix::<T>() else { return Ok(()) };
    for (row, class) in (first..).zip(classes) {
        let mut top = f64::NEG_INFINITY;
        *class = 0;
        for (column, &score) in matrix.row(row).iter().enumerate() {
            let score: f64 = score.into();
            if score.is_nan() {
                return Err(nan(argument, row));
            }
            if score > top {
                (top, *class) = (score, column as i64);
            }
        }
    }
    Ok(())
}

/// The scores from row `first` on, as many as the target can hold.
pub(super) fn read_scores(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    scores: &mut [f64],
) -> Result<()> {
    of_score_type!(view, argument, copy_scores, first, scores)
}

fn copy_scores<T: Element + Into<f64>>(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    scores: &mut [f64],
) -> Result<()> {
    let Some(matrix) = view.as_matrix::<T>() else { return Ok(()) };
    for (row, score) in (first..).zip(scores) {
        *score = matrix[[row, 0]].into();
        if score.is_nan() {
            return Err(nan(argument, row));
        }
    }
    Ok(())
}

#[cold]
fn nan(argument: &'static str, row: usize) -> Error {
    invalid!(argument, "row {row} has a NaN, which no score can be compared with")
}

#[cold]
fn no_scores(argument: &'static str, dtype: DType) -> Error {
    invalid!(argument, "{dtype} elements; scores are floating-point numbers")
}
