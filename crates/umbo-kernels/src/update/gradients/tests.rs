//! Tests of the sums of gradients.

use half::{bf16, f16};

use super::*;
use crate::layout::{Layout, Shape};
use crate::update::weighted_sum::Clipping;
use crate::view::View;

/// Numbers at the limits of float32, and some between them.
fn borders() -> Vec<f32> {
    let mut values = vec![
        0.0,
        f32::INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MAX / 2.0,
        1.0,
        1.5,
        0.1,
    ];
    for exponent in [
        -149, -148, -147, -140, -127, -126, -125, -124, -100, -24, 24, 126, 127,
    ] {
        let power = 2.0f64.powi(exponent) as f32;
        let next = |up: bool| {
            f32::from_bits(if up {
                power.to_bits() + 1
            } else {
                power.to_bits() - 1
            })
        };
        values.extend([power, next(true), next(false), 3.0 * power]);
    }
    let negative: Vec<f32> = values.iter().map(|value| -value).collect();
    values.extend(negative);
    values
}

struct Collect<'r, T>(&'r mut Vec<T>, usize);

impl<T: Real> GradientLoop<T> for Collect<'_, T> {
    fn run<W: MakeGradients<T>>(self, instructions: Instructions, gradients: W) {
        let Collect(to, elements) = self;
        let mut start = 0;
        while start + BLOCK <= elements {
            // SAFETY: the sum has as many elements.
            to.extend(unsafe { gradients.block::<BLOCK>(instructions, start) });
            start += BLOCK;
        }
        // SAFETY: as above.
        to.extend((start..elements).map(|at| unsafe { gradients.block::<1>(instructions, at)[0] }));
    }
}

/// Checks that the gradient of up to five such numbers is the float64 sum of rounded products,
/// rounded once. Returns how many sums were added in float32.
fn check_borders<G: GradientElement>() -> usize {
    let borders: Vec<G> = borders()
        .iter()
        .map(|&value| G::rounded(value.into()))
        .collect();
    let mut left = Vec::new();
    let mut right = Vec::new();
    for &a in &borders {
        for &b in &borders {
            left.push(a);
            right.push(b);
        }
    }
    let mut short = 0;
    for (factor, divisor, count) in [
        (1.0, 1.0, 2),
        (1.0, 2.0, 2),
        (1.0, 4.0, 2),
        (4.0, 8.0, 2),
        (0.5, 0.125, 1),
        (1.0, 3.0, 2),
        (3.0, 2.0, 1),
        (33.0, 99.0, 3),
        (0.1, 7.0, 4),
        (f64::from((1 << 29) - 1), 2.0, 5),
        (f64::from((1 << 30) - 1), 2.0, 5),
    ] {
        let all = [&left, &right, &left, &right, &right].map(Vec::as_slice);
        short += usize::from(check(&all[..count], factor, divisor));
    }
    short
}

/// Checks that the gradient is the float64 sum of rounded products, rounded once, with all
/// instructions. Returns whether the sums were added in float32 whatever the numbers.
fn check<G: GradientElement>(all: &[&[G]], factor: f64, divisor: f64) -> bool {
    let elements = all[0].len();
    let layout = Layout::row_major(Shape::new(&[elements]).unwrap());
    let part = |gradient: &&[G]| Contribution {
        // SAFETY: the view is used while the numbers live, and nobody writes them.
        gradient: unsafe { View::new(gradient.as_ptr().cast(), G::DTYPE, layout) }
            .span()
            .unwrap(),
        factor,
    };
    let parts: Vec<_> = all.iter().map(part).collect();
    let wide = |element: G| G::widened(Instructions::BASELINE, [element])[0];
    let sum = WeightedSum::new(DType::Float32, elements, &parts, divisor);
    let finish = Finish::<f32>::new(
        divisor,
        Clipping {
            factor: 0.75,
            limit: f64::INFINITY,
        },
    );
    for instructions in Instructions::all() {
        let mut found = Vec::new();
        sum.run::<G, f32>(instructions, finish, Collect(&mut found, elements));
        for (index, found) in found.into_iter().enumerate() {
            let exact = all
                .iter()
                .fold(-0.0, |sum, gradient| sum + factor * wide(gradient[index]));
            let expected = (exact * divisor.recip()) as f32 * 0.75;
            assert!(
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                "{instructions:?}: element {index} of {} gradients, {factor} × … / {divisor}: \
                 {found}, not {expected}",
                all.len(),
            );
        }
    }
    let factor = parts[0].factor;
    parts.len() < 3
        && parts.iter().all(|part| part.factor == factor)
        && is_short::<f32>(factor, parts.len(), divisor.recip())
}

/// All gradients but one have the same exponent, and all bits of the mantissa.
#[test]
fn sums_that_float32_can_and_cannot_represent_have_the_same_bits() {
    for (count, spread, factor) in (2..=17)
        .flat_map(|count| (10..=18).flat_map(move |far| [(count, far, 1.0), (count, far, 3.0)]))
    {
        for base in [-133, 0, 112] {
            let element = |replica: usize, index: usize| {
                let exponent = if (replica + index).is_multiple_of(count) {
                    0
                } else {
                    spread
                };
                let sign = if index.is_multiple_of(7) && replica == 1 {
                    -1.0
                } else {
                    1.0
                };
                bf16::from_f64(sign * 1.9921875 * 2.0f64.powi(base + exponent))
            };
            let all: Vec<Vec<bf16>> = (0..count)
                .map(|replica| (0..48).map(|index| element(replica, index)).collect())
                .collect();
            let all: Vec<_> = all.iter().map(Vec::as_slice).collect();
            check(&all, factor, 7.0);
        }
    }
}

#[test]
fn borders_are_rounded_once() {
    let short = [
        check_borders::<f32>(),
        check_borders::<bf16>(),
        check_borders::<f16>(),
    ];
    assert_eq!(short, [4; 3], "all with powers of two but the quarter");
}

#[test]
fn products_with_counts_of_examples_are_exact() {
    for factor in [1.0, 33.0, 0.75, f64::from((1 << 29) - 1)] {
        assert!(has_exact_products::<f32>(factor), "{factor}");
        assert!(!has_exact_products::<f64>(factor), "{factor}");
    }
    for factor in [
        0.1,
        f64::from((1 << 30) - 1),
        1e-300,
        1e300,
        f64::INFINITY,
        0.0,
    ] {
        assert!(!has_exact_products::<f32>(factor), "{factor}");
    }
}
