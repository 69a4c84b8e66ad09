//! Layouts and their runs at all small widths, and at the ends of integers, beside what they stand
//! for: the element at some coordinates lies at the sum of coordinates times strides.

use super::Runs;
use crate::layout::{Layout, Shape};

/// All lists of at most `longest` of these numbers.
fn lists<T: Copy>(numbers: &[T], longest: usize) -> Vec<Vec<T>> {
    let mut all = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..longest {
        let longer = |list: &Vec<T>| {
            let list = list.clone();
            numbers.iter().map(move |&number| {
                let mut list = list.clone();
                list.push(number);
                list
            })
        };
        last = last.iter().flat_map(longer).collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// The place of each element, in row-major order.
fn places(sizes: &[usize], strides: &[isize]) -> Vec<isize> {
    sizes
        .iter()
        .zip(strides)
        .fold(vec![0], |places, (&size, &stride)| {
            let along = |place: isize| (0..size as isize).map(move |at| place + at * stride);
            places.into_iter().flat_map(along).collect()
        })
}

fn places_of(layout: &Layout) -> Vec<isize> {
    places(&layout.shape, layout.strides())
}

fn check(layout: &Layout) {
    let places = places_of(layout);
    let elements = places.len();
    assert_eq!(layout.shape.elements(), elements);
    let extent = places.iter().max().map_or(0, |last| *last as usize + 1);
    assert_eq!(layout.extent(), extent);
    let is_dense = places.iter().copied().eq(0..elements as isize);
    assert_eq!(layout.is_contiguous(), is_dense, "{layout:?}");
    let mut sorted = places.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        assert!(layout.has_overlap(), "{layout:?}");
    }
    check_runs(layout, &places);
    for axis in 0..layout.shape.rank() {
        check_slices(layout, axis);
    }
}

/// Each range has each of its elements once, in order.
fn check_runs(layout: &Layout, places: &[isize]) {
    let runs = Runs::new(layout);
    if !places.is_empty() {
        assert_eq!(runs.is_dense(), layout.is_contiguous(), "{layout:?}");
    }
    for start in 0..=places.len() {
        for stop in start..=places.len() {
            let mut found = Vec::new();
            runs.for_each(start..stop, |first, offset, stride, length| {
                assert_eq!(first, found.len());
                assert!(length > 0);
                found.extend((0..length as isize).map(|at| offset + at * stride));
            });
            assert_eq!(found, places[start..stop], "{layout:?}");
        }
    }
}

fn check_slices(layout: &Layout, axis: usize) {
    let size = layout.shape[axis];
    for (start, stop, step) in (0..=size)
        .flat_map(|start| (start..=size).map(move |stop| (start, stop)))
        .flat_map(|(start, stop)| [1, 2, 3, usize::MAX].map(|step| (start, stop, step)))
    {
        let (part, offset) = layout.slice(axis, start, stop, step).unwrap();
        assert!(part.strides().iter().all(|&stride| stride >= 0));
        let mut shape = layout.shape.to_vec();
        let mut expected = Vec::new();
        let inner: usize = shape.drain(axis + 1..).product();
        for (number, place) in places_of(layout).into_iter().enumerate() {
            let at = number / inner.max(1) % size.max(1);
            if (start..stop).contains(&at) && (at - start).is_multiple_of(step) {
                expected.push(place);
            }
        }
        let found: Vec<isize> = places_of(&part)
            .iter()
            .map(|it| it + offset as isize)
            .collect();
        assert_eq!(
            found, expected,
            "{layout:?}, {axis}, {start}, {stop}, {step}"
        );
    }
}

#[test]
fn layouts_are_as_defined_at_all_small_widths() {
    for sizes in lists(&[0, 1, 2, 3], 3) {
        let shape = Shape::new(&sizes).unwrap();
        check(&Layout::row_major(shape));
        assert!(Layout::row_major(shape).is_contiguous());
        assert!(!Layout::row_major(shape).has_overlap());
        for strides in lists(&[0, 1, 2, 3, 4, 9], sizes.len()) {
            if strides.len() == sizes.len() {
                check(&Layout::strided(shape, &strides).unwrap());
            }
        }
    }
}

#[test]
fn axes_in_another_order_have_the_same_elements() {
    for sizes in lists(&[0, 1, 2, 3], 3) {
        let layout = Layout::row_major(Shape::new(&sizes).unwrap());
        for axes in lists(&[0, 1, 2, 3], 3) {
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            let transposed = layout.transpose(&axes);
            if !sorted.into_iter().eq(0..sizes.len()) {
                assert!(transposed.is_err());
                continue;
            }
            let transposed = transposed.unwrap();
            assert!(!transposed.has_overlap());
            check_runs(&transposed, &places_of(&transposed));
            let mut found = places_of(&transposed);
            found.sort_unstable();
            assert!(found.into_iter().eq(0..layout.shape.elements() as isize));
        }
    }
}

/// No arithmetic overflows, and what memory cannot address is refused, by the arithmetic of 128
/// bits.
#[test]
fn layouts_at_the_ends_of_integers_are_refused_or_as_defined() {
    const MOST: usize = isize::MAX as usize;
    let sizes = [
        0,
        1,
        2,
        3,
        1 << 31,
        1 << 32,
        MOST / 2,
        MOST,
        MOST + 1,
        usize::MAX,
    ];
    let strides = [0, 1, 2, 1 << 31, isize::MAX / 2, isize::MAX - 1, isize::MAX];
    for sizes in lists(&sizes, 2) {
        let product: u128 = sizes.iter().map(|&size| size.max(1) as u128).product();
        let shape = Shape::new(&sizes);
        assert_eq!(shape.is_ok(), product <= MOST as u128, "{sizes:?}");
        let Ok(shape) = shape else { continue };
        let dense = Layout::row_major(shape);
        assert!(dense.is_contiguous() && !dense.has_overlap());
        assert_eq!(dense.extent(), shape.elements());
        for strides in lists(&strides, sizes.len()) {
            if strides.len() != sizes.len() {
                continue;
            }
            let reach = |(&size, &stride): (&usize, &isize)| (size as u128 - 1) * stride as u128;
            let extent = match sizes.contains(&0) {
                true => 0,
                false => 1 + sizes.iter().zip(&strides).map(reach).sum::<u128>(),
            };
            let layout = Layout::strided(shape, &strides);
            assert_eq!(
                layout.is_ok(),
                extent <= MOST as u128,
                "{sizes:?}, {strides:?}"
            );
            let Ok(layout) = layout else { continue };
            assert_eq!(layout.extent() as u128, extent);
            let _ = (
                layout.is_contiguous(),
                layout.has_overlap(),
                Runs::new(&layout),
            );
            for (axis, &size) in sizes.iter().enumerate() {
                for (start, step) in [(0, 1), (0, MOST), (size, 1), (size.saturating_sub(1), 3)] {
                    let (part, offset) = layout.slice(axis, start, size, step).unwrap();
                    assert!(offset + part.extent() <= layout.extent());
                }
            }
        }
    }
}
