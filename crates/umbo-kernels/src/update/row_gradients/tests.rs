//! The loop gives the bits of sums that are written first, and of gradients that are made of these.

use std::sync::atomic::{AtomicBool, Ordering};

use half::{bf16, f16};

use super::*;
use crate::dtype::{DType, Element};
use crate::layout::{Layout, Shape};
use crate::rows::order::RowOrder;
use crate::rows::sum::RowPart;
use crate::update::weighted_sum::Clipping;
use crate::view::{Span, View, ViewMut};

/// How many rows the table has; row 0 is named by most entries, the last by none.
const ROWS: usize = 40;

fn layout(elements: usize) -> Layout {
    Layout::row_major(Shape::new(&[elements]).unwrap())
}

fn span<T: Element>(data: &[T]) -> Span<'_> {
    // SAFETY: the view is used while `data` is borrowed, and nobody writes it.
    unsafe { View::new(data.as_ptr().cast(), T::DTYPE, layout(data.len())) }
        .span()
        .unwrap()
}

/// Numbers of both signs and many sizes; among them zeros of both signs, the smallest and the
/// largest.
fn noise<G: GradientElement>(elements: usize, seed: usize) -> Vec<G> {
    let number = |index: usize| {
        let random = (index + 1).wrapping_mul(seed * 2 + 0x9E37_79B9) >> 3;
        let magnitude =
            2f64.powi((random % 41) as i32 - 20) * (1.0 + (random % 509) as f64 / 509.0);
        match random % 23 {
            0 => 0.0,
            1 => -0.0,
            2 => -magnitude * 1e-44,
            3 if random.is_multiple_of(7) => 3.0e38,
            _ if random.is_multiple_of(2) => -magnitude,
            _ => magnitude,
        }
    };
    (0..elements)
        .map(|index| G::rounded(number(index)))
        .collect()
}

/// The bits of the gradients, in one way or the other, and whether one was not finite.
fn gradients<T: Real>(
    instructions: Instructions,
    sums: &RowSums<'_>,
    sum: &WeightedSum<'_>,
    columns: Range<usize>,
    rows: usize,
    in_registers: bool,
) -> (Vec<u64>, bool) {
    let elements = rows * columns.len();
    let mut gradients = vec![T::from_f64(9.0); elements];
    let not_finite = AtomicBool::new(false);
    if in_registers {
        let to = gradients.as_mut_ptr().cast::<u8>();
        let flag = Some(&not_finite);
        // SAFETY: there are as many rows and columns, and there is memory for them.
        let is_written =
            unsafe { sums.write_gradients(instructions, sum, 0..rows, columns, to, flag) };
        assert!(is_written);
    } else {
        let mut added = vec![0.0f64; elements];
        let to = gradients.as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe {
            sums.write_tile(instructions, 0..rows, columns, added.as_mut_ptr());
            let to = ViewMut::new(to, T::DTYPE, layout(elements))
                .into_span()
                .unwrap();
            sum.of_sums(span(&added)).write_to(instructions, &to);
        }
        let is_finite = |gradient: &T| gradient.to_f64().is_finite();
        not_finite.store(!gradients.iter().all(is_finite), Ordering::Relaxed);
    }
    let bits = gradients.iter().map(|value| value.to_f64().to_bits());
    (bits.collect(), not_finite.into_inner())
}

/// Compares the two ways for parts of type `G`, with `indices` divided among them.
fn compare<G: GradientElement, T: Real>(width: usize, factors: &[f64], indices: &[i64]) {
    let mut order = RowOrder::default();
    order.start(indices.len()).unwrap();
    order.add_indices(indices, ROWS).unwrap();
    order.sort(ROWS);
    let bounds: Vec<usize> = (0..=factors.len())
        .map(|part| part * indices.len() / factors.len())
        .collect();
    let values: Vec<Vec<G>> = bounds
        .windows(2)
        .map(|pair| noise((pair[1] - pair[0]) * width, pair[0] + width))
        .collect();
    let parts: Vec<RowPart> = values
        .iter()
        .zip(factors)
        .map(|(values, &factor)| RowPart {
            values: span(values),
            rows: values.len() / width,
            factor,
        })
        .collect();
    let sums = RowSums::new(&order, None, &parts, width);
    for divisor in [1.0, 0.25, 8.0, 3.0] {
        for clipping in clippings() {
            let sum = WeightedSum::new(T::DTYPE, sums.elements(), &[], divisor).clipped(clipping);
            if matches!(sum.finish::<T>().scale, Scale::Divide(_)) {
                assert_eq!((T::DTYPE, divisor), (DType::Float64, 3.0));
                continue;
            }
            compare_columns::<T>(&sums, &sum, width, order.rows(), &|| {
                format!("{} of {factors:?}, {clipping:?}, {divisor}", G::DTYPE)
            });
        }
    }
}

fn clippings() -> [Clipping; 4] {
    [
        Clipping::NONE,
        Clipping {
            factor: 0.3,
            limit: f64::INFINITY,
        },
        Clipping {
            factor: 1e-40,
            limit: f64::INFINITY,
        },
        Clipping {
            factor: -1.0,
            limit: 0.25,
        },
    ]
}

/// Compares the two ways on the first, the last and some columns between, with each instruction
/// set. `case` says what the sum is of.
fn compare_columns<T: Real>(
    sums: &RowSums<'_>,
    sum: &WeightedSum<'_>,
    width: usize,
    rows: usize,
    case: &dyn Fn() -> String,
) {
    let middle = (width - BLOCK) / 2;
    for columns in [
        0..width.min(TILE),
        width - BLOCK..width,
        middle..middle + BLOCK,
    ] {
        for instructions in Instructions::all().filter(|it| it.has_special_loops()) {
            let [expected, found] = [false, true].map(|in_registers| {
                let columns = columns.clone();
                gradients::<T>(instructions, sums, sum, columns, rows, in_registers)
            });
            assert!(
                found == expected,
                "{columns:?} of {width}, {instructions:?}: {}",
                case()
            );
        }
    }
}

/// Entries of which row 0 has most, and the others few.
fn entries(count: usize) -> Vec<i64> {
    let row = |entry: usize| match entry % 3 {
        0 => 0,
        _ => (entry * 7 % (ROWS - 1)) as i64,
    };
    (0..count).map(row).collect()
}

#[test]
fn gradients_are_those_of_written_sums() {
    for factors in [
        &[1.0][..],
        &[1.0, 1.0],
        &[0.5, 0.5, 0.5],
        &[3.0, 1.0 / 3.0],
        &[0.1],
    ] {
        for width in [16, 50, TILE + 33] {
            compare::<f32, f32>(width, factors, &entries(60));
        }
        for count in [
            3,
            MOST_TERMS - 1,
            MOST_TERMS,
            MOST_TERMS + 1,
            1 + 3 * MOST_TERMS,
        ] {
            compare::<f32, f32>(20, factors, &entries(count));
            compare::<bf16, f32>(20, factors, &entries(count));
            compare::<f16, f32>(20, factors, &entries(count));
            compare::<f64, f64>(20, factors, &entries(count));
        }
        // A row has all entries that are looked up together, or one too many.
        for count in [MOST_TERMS, MOST_TERMS + 1] {
            compare::<f32, f32>(20, factors, &vec![3; count]);
        }
    }
}
