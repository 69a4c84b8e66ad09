//! Random numbers that follow from a key: for callbacks, whose numbers must not depend on how a
//! batch was split, and for the initial values of variables.
//!
//! The generator is ChaCha with 8 rounds. Its 256-bit key is the four numbers of a key here, so
//! that every example has a stream of its own, which begins at once. The numbers do not depend on
//! the machine: the generator uses integers, the square root is exact by IEEE 754, and the
//! logarithm comes from the `libm` crate and not from the system.

use std::mem::MaybeUninit;

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use umbo_base::error::Result;

/// The key from which the numbers of a callback follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomKey {
    /// The seed of a training.
    pub seed: u64,
    /// The number of one use within a step and example, such as a layer.
    pub stream: u64,
    /// The number of the step.
    pub step: u64,
    /// The number of the first example in the batch.
    pub first_example: u64,
}

/// The use of numbers. Those of one purpose are independent of those of the others, also with equal
/// keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// The initial values of variables.
    Initial = 0,
    /// A callback.
    Callback = 1,
}

/// A value that is drawn with a probability.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// The probability, from 0 to 1.
    pub probability: f64,
    /// The value.
    pub value: f64,
}

/// A type of random numbers.
pub trait Drawn: Copy {
    /// The number nearest to `number`.
    fn rounded(number: f64) -> Self;
    /// A uniform number in [0, 1) that is a multiple of the last place below 1.
    fn uniform(source: &mut RandomSource) -> Self;
}

impl Drawn for f32 {
    fn rounded(number: f64) -> f32 {
        number as f32
    }

    fn uniform(source: &mut RandomSource) -> f32 {
        (source.generator.next_u32() >> 8) as f32 / (1u32 << 24) as f32
    }
}

impl Drawn for f64 {
    fn rounded(number: f64) -> f64 {
        number
    }

    fn uniform(source: &mut RandomSource) -> f64 {
        (source.generator.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl RandomKey {
    /// Writes uniform numbers in [0, 1): 24 random bits for float32, 53 for float64. As of the
    /// other functions, `numbers` are those of one example after the other, `count` of each.
    pub fn uniform<T: Drawn>(&self, count: usize, numbers: &mut [MaybeUninit<T>]) {
        self.fill(count, numbers, T::uniform);
    }

    /// Writes standard normal numbers.
    pub fn normal<T: Drawn>(&self, count: usize, numbers: &mut [MaybeUninit<T>]) {
        self.fill(count, numbers, |source| T::rounded(source.normal()));
    }

    /// Writes a value with a probability, else 0. A probability is kept to 32 binary digits.
    ///
    /// Fails with INVALID_ARGUMENT for a probability that is not from 0 to 1, and for a value that
    /// is not finite.
    pub fn bernoulli<T: Drawn>(
        &self,
        chance: Chance,
        count: usize,
        numbers: &mut [MaybeUninit<T>],
    ) -> Result<()> {
        let Chance { probability, value } = chance;
        if !(0.0..=1.0).contains(&probability) {
            return Err(invalid!(
                "probability",
                "{probability}; must be from 0 to 1"
            ));
        }
        if !value.is_finite() {
            return Err(invalid!("value", "{value}; must be finite"));
        }
        // So many of the 2^32 words give the value.
        let words = (probability * (1u64 << 32) as f64).round() as u64;
        let choices = [T::rounded(0.0), T::rounded(value)];
        self.fill(count, numbers, |source| {
            choices[usize::from(u64::from(source.generator.next_u32()) < words)]
        });
        Ok(())
    }

    /// Writes uniform integers from 0 to `bound` less one.
    ///
    /// Fails with INVALID_ARGUMENT if the bound is less than 1.
    pub fn integers(
        &self,
        bound: i64,
        count: usize,
        numbers: &mut [MaybeUninit<i64>],
    ) -> Result<()> {
        if bound < 1 {
            return Err(invalid!("bound", "{bound}; must be 1 or more"));
        }
        self.fill(count, numbers, |source| source.below(bound as u64) as i64);
        Ok(())
    }

    fn fill<T>(
        &self,
        count: usize,
        numbers: &mut [MaybeUninit<T>],
        mut draw: impl FnMut(&mut RandomSource) -> T,
    ) {
        for (row, numbers) in numbers.chunks_mut(count.max(1)).enumerate() {
            let example = self.first_example.wrapping_add(row as u64);
            let key = [self.seed, self.stream, self.step, example];
            let mut source = RandomSource::new(Purpose::Callback, key);
            numbers.fill_with(|| MaybeUninit::new(draw(&mut source)));
        }
    }
}

/// A generator of random numbers.
pub struct RandomSource {
    generator: ChaCha8Rng,
    /// The second of two normal numbers that are generated together.
    spare: Option<f64>,
}

impl RandomSource {
    pub(super) fn new(purpose: Purpose, numbers: [u64; 4]) -> RandomSource {
        let mut key = [0; 32];
        for (bytes, number) in key.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(purpose as u64);
        RandomSource {
            generator,
            spare: None,
        }
    }

    /// A uniform number in [-1, 1).
    pub(super) fn centred(&mut self) -> f64 {
        let bits = self.generator.next_u64() >> 11;
        // The number has 53 bits: it is exact in a double, and so is the result.
        bits as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// A standard normal number, by Marsaglia's polar method.
    pub(super) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let x = self.centred();
            let y = self.centred();
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                let factor = (-2.0 * libm::log(square) / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// A standard normal number that is drawn again where it is not from -2 to 2.
    pub(super) fn truncated_normal(&mut self) -> f64 {
        loop {
            let number = self.normal();
            if number.abs() <= 2.0 {
                return number;
            }
        }
    }

    /// A uniform integer below `bound`, by Lemire's method: the upper half of a product of 128 bits
    /// is the number, and the few lower halves that would prefer some numbers are drawn again.
    fn below(&mut self, bound: u64) -> u64 {
        let refused = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.generator.next_u64()) * u128::from(bound);
            if product as u64 >= refused {
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: RandomKey = RandomKey {
        seed: 1,
        stream: 2,
        step: 3,
        first_example: 4,
    };

    /// Numbers that a function writes.
    fn drawn<T: Copy>(all: usize, fill: impl FnOnce(&mut [MaybeUninit<T>])) -> Vec<T> {
        let mut numbers = vec![MaybeUninit::uninit(); all];
        fill(&mut numbers);
        // SAFETY: all numbers were written.
        numbers
            .into_iter()
            .map(|number| unsafe { number.assume_init() })
            .collect()
    }

    #[test]
    fn the_generator_is_chacha_with_8_rounds() {
        // The first test vector of draft-strombergson-chacha-test-vectors for keys of 256 bits.
        let mut zero = RandomSource::new(Purpose::Initial, [0; 4]);
        let mut bytes = [0; 16];
        zero.generator.fill_bytes(&mut bytes);
        let expected = 0x3e00_ef2f_895f_40d6_7f5b_b8e8_1f09_a5a1u128.to_be_bytes();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn known_answers() {
        let floats = drawn::<f32>(4, |to| KEY.uniform(2, to));
        let doubles = drawn::<f64>(2, |to| KEY.normal(2, to));
        let integers = drawn(4, |to| KEY.integers(1000, 4, to).unwrap());
        // Those of an implementation in Python.
        assert_eq!(floats, [0.9036493, 0.46800613, 0.29629385, 0.48795277]);
        assert_eq!(doubles, [-0.01947700652847558, 0.2970784095160701]);
        assert_eq!(integers, [468, 987, 460, 841]);
    }

    #[test]
    fn a_part_of_the_examples_gets_what_the_whole_batch_gives_it() {
        let whole = drawn::<f64>(7 * 5, |to| KEY.normal(5, to));
        for start in 0..7 {
            let from = RandomKey {
                first_example: KEY.first_example + start as u64,
                ..KEY
            };
            let part = drawn::<f64>((7 - start) * 5, |to| from.normal(5, to));
            assert_eq!(part, whole[start * 5..]);
            // Fewer numbers are the first ones.
            let few = drawn::<f64>(3, |to| from.normal(3, to));
            assert_eq!(few, whole[start * 5..start * 5 + 3]);
        }
    }

    #[test]
    fn every_part_of_the_key_and_the_purpose_count() {
        let keys = [
            KEY,
            RandomKey { seed: 2, ..KEY },
            RandomKey { stream: 1, ..KEY },
            RandomKey { step: 4, ..KEY },
            RandomKey {
                first_example: 3,
                ..KEY
            },
        ];
        let all = keys.map(|key| drawn::<f64>(2, |to| key.uniform(2, to)));
        let mut initial = RandomSource::new(Purpose::Initial, [1, 2, 3, 4]);
        let mut numbers: Vec<u64> = all.concat().into_iter().map(f64::to_bits).collect();
        numbers.extend([(); 2].map(|()| f64::uniform(&mut initial).to_bits()));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 12);
    }

    /// The largest distance between the distribution of the sorted numbers and `cumulative`.
    fn kolmogorov(numbers: &mut [f64], cumulative: impl Fn(f64) -> f64) -> f64 {
        numbers.sort_unstable_by(f64::total_cmp);
        let count = numbers.len() as f64;
        let distance = |(rank, &number): (usize, &f64)| {
            let expected = cumulative(number);
            let rank = rank as f64;
            f64::max(expected - rank / count, (rank + 1.0) / count - expected)
        };
        numbers.iter().enumerate().map(distance).fold(0.0, f64::max)
    }

    const MANY: usize = 40_000;

    /// The distance that one of a thousand samples of [`MANY`] exceeds is 1.95 / sqrt(n).
    const USUAL: f64 = 1.95 / 200.0;

    fn moments(numbers: &[f64]) -> (f64, f64) {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares = numbers
            .iter()
            .map(|number| (number - mean) * (number - mean));
        (mean, squares.sum::<f64>() / count)
    }

    #[test]
    fn numbers_have_their_distributions() {
        // Along one example, and across many.
        for count in [1, 8, MANY] {
            let uniform = drawn::<f32>(MANY, |to| KEY.uniform(count, to));
            let mut uniform: Vec<f64> = uniform.into_iter().map(f64::from).collect();
            assert!(uniform.iter().all(|number| (0.0..1.0).contains(number)));
            let (mean, variance) = moments(&uniform);
            assert!((mean - 0.5).abs() < 0.005 && (variance - 1.0 / 12.0).abs() < 0.002);
            assert!(kolmogorov(&mut uniform, |number| number) < USUAL);

            let mut normal = drawn::<f64>(MANY, |to| KEY.normal(count, to));
            let (mean, variance) = moments(&normal);
            assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03);
            let cumulative = |number: f64| (1.0 + libm::erf(number / 2f64.sqrt())) / 2.0;
            assert!(kolmogorov(&mut normal, cumulative) < USUAL);

            let mask = drawn::<f32>(MANY, |to| {
                KEY.bernoulli(chance(0.9, 2.5), count, to).unwrap();
            });
            assert!(mask.iter().all(|&number| number == 0.0 || number == 2.5));
            let share = mask.iter().filter(|&&number| number > 0.0).count() as f64 / MANY as f64;
            assert!((share - 0.9).abs() < 0.006, "{share}");

            let integers = drawn(MANY, |to| KEY.integers(10, count, to).unwrap());
            let mut counts = [0.0; 10];
            integers
                .iter()
                .for_each(|&number| counts[number as usize] += 1.0);
            let expected = MANY as f64 / 10.0;
            let square = |count: &f64| (count - expected) * (count - expected) / expected;
            // One of a thousand samples exceeds this, with 9 degrees of freedom.
            assert!(counts.iter().map(square).sum::<f64>() < 27.9, "{counts:?}");
        }
    }

    fn chance(probability: f64, value: f64) -> Chance {
        Chance { probability, value }
    }

    #[test]
    fn ends_of_ranges_are_kept_and_what_is_outside_is_refused() {
        for probability in [0.0, 1.0] {
            let chance = chance(probability, 1.0);
            let mask = drawn::<f64>(64, |to| KEY.bernoulli(chance, 8, to).unwrap());
            assert_eq!(mask, [probability; 64]);
        }
        let refused = |chance| KEY.bernoulli::<f32>(chance, 8, &mut []).unwrap_err();
        for probability in [-0.1, 1.1, f64::NAN] {
            refused(chance(probability, 1.0));
        }
        refused(chance(0.5, f64::INFINITY));
        assert_eq!(drawn(64, |to| KEY.integers(1, 8, to).unwrap()), [0; 64]);
        KEY.integers(0, 8, &mut []).unwrap_err();
        // With this bound a quarter of the words are drawn again.
        let bound = (1i64 << 62) + 1;
        let integers = drawn(640, |to| KEY.integers(bound, 8, to).unwrap());
        assert!(integers.iter().all(|number| (0..bound).contains(number)));
        let upper = integers.iter().filter(|&&number| number >= bound / 2);
        assert!((280..360).contains(&upper.count()));
    }
}
