//! The elements of views of any type, as class numbers and scores.

use umbo_base::error::{Error, Result};
use umbo_kernels::dtype::{DType, Element, for_float, for_listed};
use umbo_kernels::view::View;

/// How many rows a view has. It must have one or two dimensions.
pub(super) fn rows(view: &View<'_>, argument: &'static str) -> Result<usize> {
    match *view.layout().shape {
        [rows] | [rows, _] => Ok(rows),
        _ => {
            let shape = view.layout().shape;
            Err(invalid!(
                argument,
                "its shape is {shape}; [examples] is expected"
            ))
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
    for_listed!(
        view.dtype(), T => copy_classes::<T>(view, first, classes),
        else _ => {
            let dtype = view.dtype();
            return Err(invalid!(argument, "{dtype} elements; class numbers are integers or bool"));
        };
        Int8 => i8, Int16 => i16, Int32 => i32, Int64 => i64,
        UInt8 | Bool => u8, UInt16 => u16, UInt32 => u32, UInt64 => u64
    );
    Ok(())
}

fn copy_classes<T: Element + TryInto<i64>>(view: &View<'_>, first: usize, classes: &mut [i64]) {
    let Some(matrix) = view.as_matrix::<T>() else {
        return;
    };
    for (row, class) in (first..).zip(classes) {
        // A number that does not fit is no class.
        *class = matrix[[row, 0]].try_into().unwrap_or(i64::MAX);
    }
}

/// For each row from `first` on, the column of its highest score; among equal scores the first.
pub(super) fn read_top(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    classes: &mut [i64],
) -> Result<()> {
    for_float!(
        view.dtype(), T => find_top::<T>(view, argument, first, classes),
        else Err(no_scores(argument, view.dtype()))
    )
}

fn find_top<T: Element + Into<f64>>(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    classes: &mut [i64],
) -> Result<()> {
    let Some(matrix) = view.as_matrix::<T>() else {
        return Ok(());
    };
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
    for_float!(
        view.dtype(), T => copy_scores::<T>(view, argument, first, scores),
        else Err(no_scores(argument, view.dtype()))
    )
}

fn copy_scores<T: Element + Into<f64>>(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    scores: &mut [f64],
) -> Result<()> {
    let Some(matrix) = view.as_matrix::<T>() else {
        return Ok(());
    };
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
    invalid!(
        argument,
        "row {row} has a NaN, which no score can be compared with"
    )
}

#[cold]
fn no_scores(argument: &'static str, dtype: DType) -> Error {
    invalid!(
        argument,
        "{dtype} elements; scores are floating-point numbers"
    )
}
