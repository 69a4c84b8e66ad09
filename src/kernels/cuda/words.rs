//! Sums of float32 numbers without float64, for GPUs whose float64 units are few: what kernels are told
//! of factors and scales.

/// The most addends of such a sum: a bound of the errors grows with their square.
const MOST_ADDENDS: usize = 1 << 10;

/// Factors and scales of such sums lie between the reciprocal and this, so that nothing in between is
/// past the range of float32.
const LARGEST: f64 = (1u64 << 40) as f64;

/// Whether a GPU of this compute capability has so few float64 units that sums without them are faster.
/// Data centre GPUs have one for every two float32 units; most others one for 32 or 64.
pub fn float64_is_slow(capability: (u32, u32)) -> bool {
    !matches!(capability, (7, 0) | (8, 0) | (9, 0) | (10, 0))
}

/// A number as the sum of two float32 numbers, to 48 digits at least.
pub(super) fn in_words(number: f64) -> [f32; 2] {
    let high = number as f32;
    [high, (number - f64::from(high)) as f32]
}

/// Whether a sum of addends with these factors, times `scale`, may be tried without float64.
pub(super) fn may_be_tried(factors: impl ExactSizeIterator<Item = f64>, scale: f64) -> bool {
    let fits = |number: f64| (1.0 / LARGEST..=LARGEST).contains(&number.abs());
    factors.len() <= MOST_ADDENDS && scale > 0.0 && fits(scale) && factors.into_iter().all(fits)
}

/// Whether all of these are powers of two, or the negatives of such.
pub(super) fn are_powers(mut numbers: impl Iterator<Item = f64>) -> bool {
    numbers.all(|number| {
        number.is_normal() && number.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1) == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_hold_a_number() {
        for number in [1.0, 1.0 / 3.0, -0.1, 1e10, 2f64.powi(-40), std::f64::consts::PI] {
            let [high, low] = in_words(number);
            let error = (f64::from(high) + f64::from(low) - number).abs();
            assert!(error <= number.abs() * 2f64.powi(-48), "{number}: {high} {low}");
        }
    }

    #[test]
    fn only_what_stays_in_range_is_tried() {
        let tried = |factors: &[f64], scale| may_be_tried(factors.iter().copied(), scale);
        assert!(tried(&[1.0, -3.5], 0.25) && tried(&[], 1.0));
        assert!(!tried(&[0.0], 1.0) && !tried(&[1e13], 1.0) && !tried(&[f64::NAN], 1.0));
        assert!(!tried(&[1.0], -1.0) && !tried(&[1.0], 1e-13) && !tried(&[1.0], f64::INFINITY));
        assert!(!tried(&[1.0; MOST_ADDENDS + 1], 1.0));
        assert!(are_powers([1.0, -0.5, 8.0].into_iter()));
        assert!(!are_powers([1.0, 3.0].into_iter()) && !are_powers([0.0].into_iter()));
    }
}
