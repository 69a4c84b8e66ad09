//! The comparison of sums of gradients.
//!
//! Sums of floats depend on the order of the additions. The difference is bounded by the rounding
//! error of one addition, times the number of terms, times the sum of the terms' magnitudes,
//! however small the sum itself is. So differences are measured relative to the terms, not to the
//! sums.
//!
//! Each term is the buffer of one replica, which rounds it once more to the dtype of the gradients.
//! This matters with 16 bits. It does not grow with the number of replicas, because each of the
//! roundings is a fraction of its own term.

use umbo_tensor::DType;

/// Elements whose terms are smaller than this fraction of the largest terms get the tolerance of
/// terms of this size, because they may have been computed from terms as large as that.
const NOISE_FLOOR: f64 = 0.1;

/// Numbers that differ by more than the tolerance are different.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    pub relative: f64,
    pub absolute: f64,
    /// The distance between the smallest numbers of the dtype. It bounds the rounding error of a
    /// term, however small the term is.
    pub spacing: f64,
}

impl Tolerance {
    /// The tolerance of sums of `examples` terms of `dtype`.
    pub fn of_sums(dtype: DType, examples: usize) -> Tolerance {
        let (epsilon, least) = match dtype {
            DType::Float64 => (f64::EPSILON, 1e-9),
            DType::Float16 => (f64::from(half::f16::EPSILON), 1e-4),
            DType::BFloat16 => (f64::from(half::bf16::EPSILON), 1e-4),
            _ => (f64::from(f32::EPSILON), 1e-4),
        };
        // With a limit above a hundredth, a wrong weight of one example among hundreds would not be
        // found.
        let of_order = (8.0 * epsilon * (examples as f64 + 16.0)).clamp(least, 0.01);
        // The sums of both sides have been rounded to the dtype, or truncated.
        let of_buffers = 2.0 * epsilon;
        let spacing = match dtype {
            DType::Float16 => f64::from(half::f16::MIN_POSITIVE_SUBNORMAL),
            // Gradients near the smallest numbers of the other dtypes do not occur.
            _ => 0.0,
        };
        Tolerance {
            relative: of_order + of_buffers,
            absolute: 0.0,
            spacing,
        }
    }

    /// Whether two numbers count as equal, as sums of terms of this magnitude.
    pub fn allows(&self, left: f64, right: f64, magnitude: f64) -> bool {
        left == right
            || (left.is_nan() && right.is_nan())
            || (left - right).abs() <= self.absolute + self.relative * magnitude
    }
}

/// A sum of vectors with factors, in unevaluated form.
#[derive(Clone, Debug, Default)]
pub(super) struct LinearCombination<'a>(Vec<(f64, &'a [f64])>);

impl<'a> LinearCombination<'a> {
    /// The sum of these terms, which have equal lengths.
    pub fn of(terms: impl IntoIterator<Item = (f64, &'a [f64])>) -> LinearCombination<'a> {
        LinearCombination(terms.into_iter().collect())
    }

    /// One element of the sum; 0 if there are no terms.
    pub fn at(&self, element: usize) -> f64 {
        self.0
            .iter()
            .map(|(factor, term)| factor * term[element])
            .sum()
    }

    /// The sum of the factors' magnitudes.
    fn factors(&self) -> f64 {
        self.0.iter().map(|(factor, _)| factor.abs()).sum()
    }

    /// The sum of the magnitudes of one element's terms.
    fn magnitude(&self, element: usize) -> f64 {
        self.0
            .iter()
            .map(|(factor, term)| (factor * term[element]).abs())
            .sum()
    }
}

/// The distance of two vectors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    /// Whether some element differs by more than the tolerance.
    pub exceeds: bool,
    /// The element that differs most, relative to its tolerance.
    pub element: usize,
    /// The largest difference, as a fraction of the largest element.
    pub relative: f64,
}

/// The settings of [`difference`].
#[derive(Clone, Copy)]
pub(super) struct VectorMeasure<'a> {
    pub elements: usize,
    pub tolerance: Tolerance,
    /// The magnitude of single examples in each element, if it was measured.
    pub examples: Option<&'a [f64]>,
}

/// The distance of `left` and `right`, both of which are means over examples.
pub(super) fn difference(
    left: &LinearCombination<'_>,
    right: &LinearCombination<'_>,
    measure: &VectorMeasure<'_>,
) -> Distance {
    let of_terms = |element| left.magnitude(element).max(right.magnitude(element));
    let largest = (0..measure.elements).map(of_terms).fold(0.0, f64::max);
    let Tolerance {
        relative,
        absolute,
        spacing,
    } = measure.tolerance;
    let absolute = absolute + spacing * (left.factors() + right.factors());
    let tolerance = Tolerance {
        relative,
        absolute,
        spacing,
    };
    let mut found = Distance::default();
    let mut worst = 0.0;
    let mut widest = 0.0f64;
    let mut longest = 0.0f64;
    for element in 0..measure.elements {
        let a = left.at(element);
        let b = right.at(element);
        let of_examples = measure.examples.map_or(0.0, |examples| examples[element]);
        let magnitude = of_terms(element)
            .max(of_examples)
            .max(NOISE_FLOOR * largest);
        widest = widest.max((a - b).abs());
        longest = longest.max(a.abs()).max(b.abs());
        if tolerance.allows(a, b, magnitude) {
            continue;
        }
        found.exceeds = true;
        let excess = (a - b).abs() / magnitude;
        if excess.is_nan() || excess > worst {
            (worst, found.element) = (excess, element);
        }
    }
    found.relative = if widest > 0.0 { widest / longest } else { 0.0 };
    found
}

/// The factor between two vectors, as far as one is a multiple of the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proportion {
    pub factor: f64,
    /// The part of `vector` that remains without that multiple, as a fraction of the vector.
    pub residual: f64,
}

/// The least-squares factor between `vector` and `other`; none if `other` is zero.
pub(super) fn proportion(
    vector: &LinearCombination<'_>,
    other: &LinearCombination<'_>,
    elements: usize,
) -> Option<Proportion> {
    let mut product = 0.0;
    let mut square = 0.0;
    let mut other_square = 0.0;
    for element in 0..elements {
        let a = vector.at(element);
        let b = other.at(element);
        product += a * b;
        square += a * a;
        other_square += b * b;
    }
    if !(other_square > 0.0 && square > 0.0) {
        return None;
    }
    let factor = product / other_square;
    let rest = (square - factor * product).max(0.0);
    Some(Proportion {
        factor,
        residual: (rest / square).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(examples: Option<&[f64]>) -> VectorMeasure<'_> {
        let tolerance = Tolerance {
            relative: 1e-3,
            absolute: 0.0,
            spacing: 0.0,
        };
        VectorMeasure {
            elements: 2,
            tolerance,
            examples,
        }
    }

    #[test]
    fn differences_are_measured_against_terms() {
        // 1000 − 999.9 and 0.1, with another rounding: the terms determine the tolerance.
        let apart = LinearCombination::of([(1.0, &[1000.0, 0.0][..]), (-1.0, &[999.9, 0.0][..])]);
        let together = LinearCombination::of([(1.0, &[0.3, 0.0][..])]);
        assert!(!difference(&apart, &together, &measure(None)).exceeds);
        let alone = LinearCombination::of([(1.0, &[0.1, 0.0][..])]);
        let found = difference(&alone, &together, &measure(None));
        assert!(found.exceeds && found.element == 0);
        assert!((found.relative - 2.0 / 3.0).abs() < 1e-12, "{found:?}");
        assert!(!difference(&alone, &together, &measure(Some(&[1000.0, 0.0]))).exceeds);
    }

    /// The sum of two truncated buffers, and one truncated buffer with the whole sum.
    #[test]
    fn roundings_of_16_bits_are_no_difference() {
        for (dtype, epsilon) in [
            (DType::Float16, 1.0 / 1024.0),
            (DType::BFloat16, 1.0 / 128.0),
        ] {
            let tolerance = Tolerance::of_sums(dtype, 3);
            let measure = VectorMeasure {
                elements: 2,
                tolerance,
                examples: None,
            };
            let one = [1.0, 1.0];
            let two = [2.0, 2.0 * (1.0 + epsilon)];
            let parts = LinearCombination::of([(1.0, &one[..]), (1.0, &one[..])]);
            assert!(
                !difference(&parts, &LinearCombination::of([(1.0, &two[..])]), &measure).exceeds
            );
            assert!(
                difference(&parts, &LinearCombination::of([(1.05, &two[..])]), &measure).exceeds
            );
        }
    }

    /// Below 2^-14 the spacing of float16 is constant, whatever the factor of the sum.
    #[test]
    fn the_smallest_numbers_of_16_bits_are_far_apart() {
        let spacing = 2.0f64.powi(-24);
        let measure = VectorMeasure {
            elements: 2,
            tolerance: Tolerance::of_sums(DType::Float16, 3),
            examples: None,
        };
        let whole = [20.0 * spacing, 0.0];
        let parts = [9.0 * spacing, 0.0];
        for factor in [1.0, 1e-3] {
            let two = LinearCombination::of([(factor, &parts[..]), (factor, &parts[..])]);
            let found = difference(
                &two,
                &LinearCombination::of([(factor, &whole[..])]),
                &measure,
            );
            assert!(!found.exceeds, "{found:?}");
            let one = LinearCombination::of([(factor, &parts[..])]);
            assert!(
                difference(
                    &one,
                    &LinearCombination::of([(factor, &whole[..])]),
                    &measure
                )
                .exceeds
            );
        }
    }

    #[test]
    fn nan_differs_from_all_but_nan() {
        let nan = LinearCombination::of([(1.0, &[0.0, f64::NAN][..])]);
        let zero = LinearCombination::default();
        assert!(difference(&nan, &zero, &measure(None)).exceeds);
        assert!(!difference(&nan, &nan, &measure(None)).exceeds);
    }

    #[test]
    fn proportion_finds_multiples() {
        let one = [1.0, 2.0];
        let other = [2.0, -1.0];
        let a = LinearCombination::of([(3.0, &one[..])]);
        let b = LinearCombination::of([(1.0, &one[..])]);
        let found = proportion(&a, &b, 2).unwrap();
        assert!((found.factor - 3.0).abs() < 1e-12 && found.residual < 1e-6);
        let found = proportion(&LinearCombination::of([(1.0, &other[..])]), &b, 2).unwrap();
        assert!(found.factor.abs() < 1e-12 && found.residual > 0.99);
        assert!(proportion(&a, &LinearCombination::default(), 2).is_none());
    }
}
