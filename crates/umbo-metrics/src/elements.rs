//! The elements of views of any type, as class numbers and scores.

use umbo_base::error::{Error, Result};
use umbo_kernels::dtype::{DType, Element, for_float, for_listed};
use umbo_kernels::view::View;

/// The number of rows a view has. It must have one or two dimensions.
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

/// The number of columns a view has, if it has two dimensions.
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
        // A number that does not fit is not a class.
        *class = matrix[[row, 0]].try_into().unwrap_or(i64::MAX);
    }
}

/// For each row from `first` on that `counts`, the column of its highest score; among equal scores
/// the first.
pub(super) fn read_top(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    counts: &[bool],
    classes: &mut [i64],
) -> Result<()> {
    for_float!(
        view.dtype(), T => find_top::<T>(view, argument, first, counts, classes),
        else Err(no_floats(argument, view.dtype(), "scores"))
    )
}

fn find_top<T: Element + Into<f64>>(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    counts: &[bool],
    classes: &mut [i64],
) -> Result<()> {
    let Some(matrix) = view.as_matrix::<T>() else {
        return Ok(());
    };
    for (row, (class, _)) in (first..)
        .zip(classes.iter_mut().zip(counts))
        .filter(is_counted)
    {
        let mut top = f64::NEG_INFINITY;
        *class = 0;
        for (column, &score) in matrix.row(row).iter().enumerate() {
            let score = comparable(score, argument, row)?;
            if score > top {
                (top, *class) = (score, column as i64);
            }
        }
    }
    Ok(())
}

/// Replaces each of `classes`, which are columns, by how many scores of its row come before its
/// own: those that are higher, and among equal ones those of earlier columns. The rows are those
/// from `first` on that `counts`.
pub(super) fn read_ranks(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    counts: &[bool],
    classes: &mut [i64],
) -> Result<()> {
    for_float!(
        view.dtype(), T => find_ranks::<T>(view, argument, first, counts, classes),
        else Err(no_floats(argument, view.dtype(), "scores"))
    )
}

fn find_ranks<T: Element + Into<f64>>(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    counts: &[bool],
    classes: &mut [i64],
) -> Result<()> {
    let Some(matrix) = view.as_matrix::<T>() else {
        return Ok(());
    };
    for (row, (class, _)) in (first..)
        .zip(classes.iter_mut().zip(counts))
        .filter(is_counted)
    {
        let scores = matrix.row(row);
        let column = *class as usize;
        let score = comparable(scores[column], argument, row)?;
        *class = 0;
        for (other_column, &other) in scores.iter().enumerate() {
            let other = comparable(other, argument, row)?;
            let is_before = other > score || (other == score && other_column < column);
            *class += i64::from(is_before);
        }
    }
    Ok(())
}

fn is_counted(row: &(usize, (&mut i64, &bool))) -> bool {
    *row.1.1
}

/// The score as a number that others can be compared with.
fn comparable<T: Into<f64>>(score: T, argument: &'static str, row: usize) -> Result<f64> {
    let score: f64 = score.into();
    match score.is_nan() {
        true => Err(nan(argument, row)),
        false => Ok(score),
    }
}

/// The scores from row `first` on, as many as the target can hold. Rows that do not count may have
/// any.
pub(super) fn read_scores(
    view: &View<'_>,
    argument: &'static str,
    first: usize,
    counts: &[bool],
    scores: &mut [f64],
) -> Result<()> {
    read_column(view, argument, 0, first, scores)?;
    let rows = (first..).zip(scores.iter().zip(counts));
    for (row, (score, counts)) in rows {
        if *counts && score.is_nan() {
            return Err(nan(argument, row));
        }
    }
    Ok(())
}

/// The numbers of a column from row `first` on, as many as the target can hold.
pub(super) fn read_column(
    view: &View<'_>,
    argument: &'static str,
    column: usize,
    first: usize,
    numbers: &mut [f64],
) -> Result<()> {
    for_float!(
        view.dtype(), T => {
            copy_column::<T>(view, column, first, numbers);
            Ok(())
        },
        else Err(no_floats(argument, view.dtype(), "scores and targets"))
    )
}

fn copy_column<T: Element + Into<f64>>(
    view: &View<'_>,
    column: usize,
    first: usize,
    numbers: &mut [f64],
) {
    if let Some(matrix) = view.as_matrix::<T>() {
        for (row, number) in (first..).zip(numbers) {
            *number = matrix[[row, column]].into();
        }
    }
}

/// The weights of examples from row `first` on, as many as the target can hold: floating-point
/// numbers, or integers or bool as in a mask.
pub(super) fn read_weights(view: &View<'_>, first: usize, weights: &mut [f64]) -> Result<()> {
    for_listed!(
        view.dtype(), T => copy_as::<T>(view, first, weights, |weight| weight as f64),
        else _ => read_column(view, "weights", 0, first, weights)?;
        Int8 => i8, Int16 => i16, Int32 => i32, Int64 => i64,
        UInt8 | Bool => u8, UInt16 => u16, UInt32 => u32, UInt64 => u64
    );
    for (row, weight) in (first..).zip(weights) {
        if !(weight.is_finite() && *weight >= 0.0) {
            return Err(invalid!(
                "weights",
                "row {row}: {weight}; weights are finite and 0 or more"
            ));
        }
    }
    Ok(())
}

fn copy_as<T: Element>(
    view: &View<'_>,
    first: usize,
    numbers: &mut [f64],
    convert: impl Fn(T) -> f64,
) {
    if let Some(matrix) = view.as_matrix::<T>() {
        for (row, number) in (first..).zip(numbers) {
            *number = convert(matrix[[row, 0]]);
        }
    }
}

#[cold]
fn nan(argument: &'static str, row: usize) -> Error {
    invalid!(
        argument,
        "row {row} has a NaN, which no score can be compared with"
    )
}

#[cold]
fn no_floats(argument: &'static str, dtype: DType, numbers: &str) -> Error {
    invalid!(
        argument,
        "{dtype} elements; {numbers} are floating-point numbers"
    )
}
